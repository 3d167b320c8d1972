"""Provenance in the snapshots of a branch, and which snapshot of a batch counts.

A rollback to the latest, and a compaction of manifests, copy the properties of an older snapshot. The identifier of a
commit is its barrier, that of a copy is not. Of the snapshots of one batch the newest counts, and a copy only where no
other is known.

Source: Java `operation/FileStoreCommitImpl` (`rollbackToAsLatest`, `compactManifest`) for the copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from paimon_spark.lineage.index.provenance import Provenance, TableRef, decode_provenance
from paimon_spark.lineage.index.tables import RowLists, merge_rows, rows_of

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot


class SnapshotProvenance(NamedTuple):
    """The provenance in a snapshot; `is_copy`: it was copied from an older snapshot."""

    provenance: Provenance
    snapshot_id: int
    time_ms: int
    is_copy: bool

    @property
    def batch(self) -> tuple[str, int]:
        return self.provenance.batch


def read_snapshot_provenance(snapshot: Snapshot) -> SnapshotProvenance | None:
    """Read the provenance of a snapshot; None without a readable one."""
    provenance = decode_provenance(snapshot.properties)
    if provenance is None:
        return None
    is_copy = snapshot.commit_identifier != provenance.barrier
    return SnapshotProvenance(provenance, snapshot.id, snapshot.time_ms, is_copy)


def unforgotten(snapshots: Iterable[Snapshot], forgotten: Mapping[str, int]) -> Iterator[SnapshotProvenance]:
    """The provenance of snapshots that have one and whose job was not forgotten since."""
    for snapshot in snapshots:
        found = read_snapshot_provenance(snapshot)
        if found is not None and found.time_ms > forgotten.get(found.provenance.job, -1):
            yield found


class NewestSnapshots:
    """Chooses the snapshot that counts of each batch of a branch, from snapshots offered newest first."""

    def __init__(self) -> None:
        self._made: set[tuple[str, int]] = set()
        self._copies: dict[tuple[str, int], SnapshotProvenance] = {}

    def offer(self, found: SnapshotProvenance) -> bool:
        """Whether it counts for certain; copies may, once all have been offered (`copies`)."""
        if found.batch in self._made:
            return False
        if found.is_copy:
            self._copies.setdefault(found.batch, found)
            return False
        self._made.add(found.batch)
        self._copies.pop(found.batch, None)
        return True

    def copies(self) -> list[SnapshotProvenance]:
        """Copies without an original, newest first."""
        return sorted(self._copies.values(), key=lambda s: s.snapshot_id, reverse=True)


def rows_of_snapshots(found: Iterable[SnapshotProvenance], ref: TableRef) -> RowLists:
    """The rows of snapshots of a branch, oldest first."""
    oldest_first = sorted(found, key=lambda s: s.snapshot_id)
    return merge_rows(rows_of(s.provenance, ref, s.snapshot_id) for s in oldest_first)
