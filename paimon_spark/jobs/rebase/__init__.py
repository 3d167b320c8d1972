"""Rebase: put what a branch changed since the fork on top of main, as one commit.

rebase.py   the steps of a rebase, by kind of table
sides.py    Sides: the versions that a rebase compares, and the definition that they make together
record.py   rebases that were begun, in the file `REBASED` of a branch
limits.py   limits of a rebase, known before the branch is written to
keys.py     tables with a primary key: the rows that the branch changed are written to main
rows.py     the tasks of keys.py: compare rows three ways, and write what main gets
buckets.py  replaced rows merged with their buckets before the commit
files.py    append tables: rows of added files are written, removed files are removed
vectors.py  deletion vectors: rows that a branch deleted are deleted in main's files
row_ids.py  tables that track rows: changed and deleted rows are found by their ids
"""
