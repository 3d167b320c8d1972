"""Compaction of a table, and the maintenance that is due after a commit.

after_commit.py  automatic tags, savepoints and expiry after a job's commit
compaction.py    compaction of a branch, or of the buckets of a write; here or as a Spark job
maintain.py      Table.compact, Table.drop_partitions, and the arguments of expiry
"""
