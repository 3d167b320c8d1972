"""CommitMessages → one snapshot, or none. Sees messages only: never rows, never how files were written.

committer.py     Committer: attempts and retries; the only caller that publishes snapshots
changes.py       messages → manifest entries for append, overwrite, compact
conflicts.py     pure conflict detection
manifest_merge.py  which manifests to merge, and merging them
new_snapshot.py  manifests, lists, counts → Snapshot
row_tracking.py  row ids and sequence numbers given at commit
outcome.py       Committed, LostRace, Conflict, Unknown
publish.py       the snapshot file, exclusively; an ambiguous answer looked up
retry.py         back-off with injected clock
cleanup.py       what may be deleted after which outcome
"""
