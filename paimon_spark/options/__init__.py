"""Options: text in, frozen groups out, with one descriptor per key.

descriptor.py     Option, its text forms (durations, sizes, enums), groups, options in force
known.py          names and types of all table options, unknown keys

Of a table, stored or given for one use:
table.py          TableOptions: all groups, each parsed at most once; says how to add an option
core.py           layout, reading and merging
data_files.py     how new data files look, and their indexes
write.py          writers and commits: memory, row kinds, buckets, retries, manifests
compaction.py     compaction
retention.py      retention of snapshots, changelogs, consumers, partitions, tags; automatic tags

Of one call:
scan.py           a batch read: ScanOptions
stream_read.py    a streaming read: StreamReadOptions
write_request.py  a batch write or the sink of a streaming query
lineage.py        the job a read or write is recorded under, and commit listeners
location.py       where tables lie, and configured defaults
"""
