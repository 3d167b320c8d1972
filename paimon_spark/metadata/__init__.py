"""Metadata: a table on disk, from its paths to the snapshot that a version means.

layout.py           every path in a table; the only place that joins them
small_files.py      small JSON files that may be written at this moment
features.py         which tables may be read, written or overridden
schemas.py          schema files, and which branch directories readers see
handle.py           TableHandle: an opened branch of a table
snapshots.py        snapshot files, hints, look-ups by time and watermark, changelogs
tags.py             tags, savepoints, guard tags, automatic tags
branches.py         branches and their forks
version.py          version text and timestamps as values
resolve.py          versions to snapshots
ranges.py           the two ends of an incremental read
manifests.py        manifests and manifest lists read, as Arrow tables
manifest_writer.py  manifests, manifest lists and index manifests written
live_files.py       ADD and DELETE entries folded into the live files
bucket_state.py     what writers continue from: sequence numbers and bucket counts
partition_path.py   partition values as directory names
vector_files.py     index files of deletion vectors
definition/         table schemas created, validated and changed
"""
