"""DELETE, UPDATE and MERGE on data files. Plans, tasks and messages; never commits.

plan_rows (driver) → RowLevelJob → run, or drop (a task per split) → SplitOutcome → finish (driver) → CommitMessages

job.py           RowLevelJob: plan, tasks and messages; the entry of this package
strategy.py      how rows of a table are deleted, and tables where they cannot be deleted or updated
changed_rows.py  inserted and changed rows; changed columns as files beside those of their rows (data evolution)
deletion.py      deleted rows of each data file; new deletion vectors, and files rewritten without their deleted rows
replacement.py   records that make a merge engine give rows that were merged elsewhere
"""
