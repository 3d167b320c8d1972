"""Compaction: choosing the files, running the tasks, and the COMPACT snapshot.

run.py           compact a branch: plan → tasks → messages → commit, with retries; move rows of the postponed bucket
plan.py          the tasks for a snapshot, or after a write
task.py          BucketTask, and CompactResult
keyed.py         compaction of a bucket with keys: its task, and running it
append.py        compaction of tables without keys, also with data evolution: tasks, and running them
sorting.py       sort compaction: rows sampled, dealt to ranges, and written in order; incremental clustering
pick.py          universal compaction: which sorted runs, into which level; which files are rewritten or only moved
bucket_merge.py  merge files of a bucket, with lookup in lower levels; record-level expiry
"""
