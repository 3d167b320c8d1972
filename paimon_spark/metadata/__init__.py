"""Metadata: a table's metadata files as values.

layout.py          every path in a table; the only place that joins them
partition_path.py  partition values as directory names; where partitions lie
small_files.py     reading a JSON file that may be written just now
handle.py          TableHandle: an opened table, and opening it
schemas.py         schema files
snapshots.py       snapshot files, hints, look-ups by time and watermark
changelogs.py      snapshots kept for their changelog alone
features.py        the gate: may this table be read?
manifests.py       manifest lists and manifests as Arrow tables
manifest_files.py  manifests, lists and index manifests written, and what a list says of a manifest
vector_files.py    index files of deletion vectors
live_files.py      ADD and DELETE entries folded into the files alive
"""
