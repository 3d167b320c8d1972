"""DELETE, UPDATE and MERGE: rows taken away and put in their places. Plans, tasks and messages; never commits.

plan_rows (driver) → RowLevelJob → run, or drop (a task per split) → SplitOutcome → finish (driver) → CommitMessages

way.py             rows of kind -D, deletion vectors or rewritten files; tables on which rows cannot go
job.py             RowLevelJob: the entry of this package
two_branches.py    what a DELETE does not reach in a table that reads a fallback branch
dropped.py         which rows of which files go, and finding them
rewrite.py         data files written again without some of their rows
vectors.py         deletion vectors united with those there were; files without rows
replaced_files.py  deleted files as their manifests describe them
"""
