"""Metadata: a table on disk, from its paths to the snapshot that a version means.

layout.py               every path in a table; the only place that joins them
retry.py                clock, and waits between attempts
small_files.py          small JSON files that may be written at this moment
features.py             which tables may be read, written or overridden
schemas.py              schema files, and which branch directories readers see
external_files.py       which files outside its directory a table may name
handle.py               TableHandle: an opened branch of a table; CatalogServer
snapshots.py            snapshot files, hints, look-ups by time and watermark, changelogs
tags.py                 tags, savepoints, guard tags, automatic tags
branches.py             branches and their forks
version.py              version text and timestamps as values
resolve.py              versions to snapshots, and the two ends of an incremental read
manifests.py            manifests and manifest lists read and written, as Arrow tables
live_files.py           live files folded from entries; state that writers continue from
own_files.py            the files of a table's folder that writers of Paimon make; external files in its manifests
partition_path.py       partition values as directory names
vector_files.py         index files of deletion vectors
journal/                the lock of a table, and the journal of multi-file changes
definition/             table schemas created, validated and changed
"""
