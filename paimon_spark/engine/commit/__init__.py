"""Commit: commit messages become one snapshot, or none. Never reads rows.

committer.py       Committer: commit, overwrite, truncate, restore, compact manifests, set statistics, abort
requests.py        requests for one snapshot, by kind, and what is checked for each
attempts.py        attempts at one snapshot until it is there or certainly will not be; CommitResult
checks.py          checks of a request against the head: history, files, buckets, keys, strict mode, schema
conflicts.py       conflicts between manifest entries, also over row ids, as pure functions
overwrite.py       what an overwrite replaces
entries.py         commit messages as manifest entries; columns of entries as numpy; entries of some partitions
snapshot.py        the manifests, lists and counts of the new snapshot
manifest_merge.py  which manifests to merge, and merging them
index_files.py     the index files of the new snapshot
publish.py         the snapshot file, created exclusively, and the hints
verify.py          whether the branch still has the snapshot just made
listeners.py       CommitListener and CommitEvent
"""
