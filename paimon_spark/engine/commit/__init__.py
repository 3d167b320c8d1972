"""CommitMessages → one snapshot, or none. Sees messages only: never rows, never how files were written.

committer.py     Committer: commit, overwrite, truncate, drop partitions, filter committed, abort
wanted.py        what is wanted of one snapshot, whatever the head is when it gets made
changes.py       messages → manifest entries and index changes
overwrite.py     what an overwrite replaces, and its changes on top of a head
attempts.py      attempts at one snapshot until it is there or certainly will not be
base.py          the files of the head that a commit has to agree with
conflicts.py     pure conflict detection
strict_mode.py   nobody else may have changed what a commit touches
schema_check.py  whether the table is still the one the files were written for
new_snapshot.py  manifests, lists, counts → Snapshot
manifest_merge.py  which manifests to merge, and merging them
compact_manifest.py  a snapshot of the same files in fewer manifests
as_latest.py     a snapshot with the state of an earlier one
statistics.py    a snapshot with statistics of whole columns
index_files.py   index files of the head, changed
row_tracking.py  row ids and sequence numbers given at commit
publish.py       the snapshot file, exclusively; an ambiguous answer looked up
stray.py         a snapshot made after its id had expired
still_there.py   a snapshot made while its branch was given another history
outcome.py       Committed, LostRace, Refused, Unknown
retry.py         back-off with injected clock
written.py       what a commit has written, so that what is not needed can go
cleanup.py       files of messages that may go after a commit that did not happen
entries.py       columns of entries as numpy
partitions.py    manifests, entries and index files of some partitions
"""
