"""Maintenance: expiry, retention, clean-up, and all deletion of files that snapshots share.

change.py        change snapshots, tags and branches under the table's lock
roots.py         snapshots, tags and changelogs of all branches, and the manifests they list
liveness.py      which files are alive in some of many snapshots
removal.py       find and delete the files that only released roots need
reachable.py     every file that some snapshot, tag, changelog or branch needs, with its path
orphan_files.py  find and delete orphan files
expiry.py        snapshot and changelog expiry, and the retention rule
partitions.py    partition expiry, and `_SUCCESS` files of finished partitions
consumers.py     consumer files: which snapshots streams have yet to read
purge.py         empty a table, keeping only its definition
"""
