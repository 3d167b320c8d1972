"""Plan reads: choose the files of a snapshot and pack them into splits.

Input: a Snapshot and a ScanQuery. Output: a frozen Plan with DataSplits and ReadRequests. Entries stay rows of Arrow
tables until they are chosen. Spec chapters Manifest, Data File, Bucket.

query.py         ScanQuery, what a read asks for; PlanReport, what was kept and skipped, with reasons
plan.py          Plan of one version of a table, with a cache by immutable names
one_branch.py    plan one snapshot of one branch, with waiting rows of postponed buckets where asked for
fallback.py      tables that read missing partitions from a second branch
prune.py         skip manifests, files and buckets that cannot contain a wanted row
file_stats.py    statistics of files and distinct partitions, in the types of the read schema
units.py         group files that must be read together: overlapping keys, row id ranges
splits.py        pack units into splits, with their deletion vectors
incremental.py   plan the changes between two snapshots; files that commits added
stream_units.py  plan a micro-batch, in units of a fixed order
"""
