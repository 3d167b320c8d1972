"""Rebase: put what a branch changed since the fork on top of main, as one commit.

rebase.py   the steps of a rebase, on main itself or on a branch that main becomes
limits.py   limits of a rebase, known before the branch is written to
keys.py     tables with a primary key: the rows that the branch changed are written to main
rows.py     the tasks of keys.py: compare rows three ways, and write what main gets
files.py    append tables: rows of added files are written, removed files and deleted rows are removed
row_ids.py  tables that track rows: changed and deleted rows are found by their ids
commit.py   the write to main, and its commit on a head that was compared
sides.py    Sides: the versions that a rebase compares, and the definition that they make together
earlier.py  earlier rebases of the branch: where the next one begins, and whether one may be forgotten
"""
