"""Batch and streaming writes of one table.

plan (driver) → tasks → commit messages → commit (driver)

batch.py          WriteJob: one batch write, from the plan to its snapshot; Table.write
target.py         the table that a write goes to: opened, created or extended
tasks.py          TaskWrite and StreamTask: the parts of a write that its tasks run
existing_keys.py  keys that a table has, for writes that move them or widen their types
commit.py         the commit of a batch job: lineage, snapshot, compaction, maintenance; WriteResult
stream.py         StreamWrite: the sink of a streaming query
stream_batch.py   the commit of one batch of a streaming query
"""
