"""Files made fewer: which, by whom, and the COMPACT snapshot of it.

run.py         plan → tasks → messages → commit, for a table; after_write.py  for the buckets of a write
task.py        BucketTask: what one task does
keyed.py       buckets of tables with keys: their tasks, and doing one
universal.py   which sorted runs are merged, and into which level; pure
pick.py        which files of them are written anew and which only move; pure
bucket_merge.py    merges them; bucket_vectors.py their deletion vectors; record_expiry.py rows too old to be kept
append.py      files of tables without keys: their tasks, and doing one; append_pick.py which files; pure
postponed.py   rows that wait in the postponed bucket; branch.py  these first, then the buckets
"""
