"""Writing: rows become data files of buckets, and a CommitMessage. Never commits.

table_writer.py     TableWriter: batches in, messages out; the entry of this package
request.py          WriteRequest: what a writing task needs to know; names of a job's files
input.py            a batch of a user → the table's columns and types, checked; column defaults; padded CHAR keys
bucketing.py        the partition and bucket of each row
dynamic_buckets.py  buckets by the index of key hashes
cross_partition.py  buckets of tables whose keys may move between partitions; key_places.py where each key is
router.py           rows → one writer per bucket, within a memory budget; rows that wait for it
merge_tree.py       writers of buckets with keys: sort, merge, level 0, input changelog; postponed buckets
data_files.py       data files of a bucket: names, target size, statistics
"""
