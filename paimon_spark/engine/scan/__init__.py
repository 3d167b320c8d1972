"""Planning: which files of a snapshot a read needs, and how they are cut into splits.

A Snapshot and a ScanQuery come in, a frozen Plan of DataSplits and ReadRequests goes out. Files stay rows of
Arrow tables until they are chosen; only chosen files become objects. Spec chapters Manifest, Data File, Bucket.

query.py          ScanQuery: what the read asks for
plan.py           Plan; planning one version of a table, with a cache by immutable names
one_branch.py     planning one snapshot of one branch
report.py         PlanReport: what was looked at, kept and skipped, and why
partitions.py     the distinct partitions among entries: values, paths, exact evaluation
manifest_prune.py manifests that cannot hold a wanted file
prune.py          files that cannot hold a wanted row
buckets.py        buckets that equality on the whole bucket key leaves
file_stats.py     statistics of files, column by column, in the types of the read schema
units.py          files that must be read together: sections of overlapping keys, row id ranges
splits.py         packing units into DataSplits
deletions.py      which deletion vector belongs to which file
two_sides.py      splits of files of before and after, of the same keys
incremental.py    what changed between two snapshots
changes.py        files that commits added, of many snapshots at a time
stream_units.py   what a stream reads of a snapshot, in pieces that are always counted off in the same order
stream_overwrite.py  what an overwrite of a primary-key table took away and put in its place
new_rows.py       data evolution: files of new rows, and files of columns of rows that were there
fallback.py       partitions that only a second branch has
"""
