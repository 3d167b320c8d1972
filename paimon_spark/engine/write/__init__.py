"""Rows → data files of buckets → CommitMessage. Runs in executors and in process alike; never commits.

request.py       WriteRequest: everything a writing task needs to know
table_writer.py  TableWriter: batches in, messages out; the entry of this package
input.py         a batch of a user → the table's columns and types, checked
assignment.py, nested.py, defaults.py  its casts, their form for nested columns, what takes the place of nulls
char_keys.py     which columns of type CHAR are filled up with spaces
partitions.py    which partition each row belongs to        bucketing.py  and which bucket
dynamic_buckets.py  buckets by the index of key hashes; hash_index.py the map, dynamic_bucketing.py for the router
cross_partition.py  and where keys may move between partitions; key_places.py which key is where
placed.py        rows and where they go
combine.py       messages of writers that shared buckets, before the commit
postponed.py     writer of bucket -2: rows as they come
router.py        rows → one writer per bucket, within a memory budget
row_pool.py      rows that wait for their bucket's turn, in memory or on local disk
bucket_writer.py what a writer of one bucket is
append.py        writer of a bucket without keys
merge_tree.py    writer of a bucket with keys: buffer, sort, merge, level 0; changelog of producer input
job_files.py     names of a job's files, so that those of killed tasks are found
rolling.py       data files of a bucket: names, target size; data_file.py one of them → DataFileMeta
"""
