"""What snapshots say of whence they came, told apart from what they copied of others.

A rollback to the latest, and a compaction of manifests, give a new snapshot the properties of an older one. A commit's
identifier is its barrier; that of a copy is not. Of the snapshots of one batch the newest counts, and a copy only
where no other is known.

Source: own; Java `operation/FileStoreCommitImpl` (`rollbackToAsLatest`, `compactManifest`) for the copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paimon_spark.lineage.model import Provenance, TableRef
from paimon_spark.lineage.properties import decode
from paimon_spark.lineage.rows import joined
from paimon_spark.lineage.sql import barriers_between, of_table
from paimon_spark.lineage.tables import SINK_SNAPSHOT, rows_of

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.tables import Index

_TOGETHER: Final = 20
"""Jobs that are asked for together."""


class Said(NamedTuple):
    """A snapshot that says whence it came.

    Attributes:
        time_ms: epoch milliseconds of the snapshot.
        is_copy: whether it says what another snapshot said before.
    """

    provenance: Provenance
    snapshot_id: int
    time_ms: int
    is_copy: bool

    @property
    def batch(self) -> tuple[str, int]:
        """Job and barrier."""
        return self.provenance.job, self.provenance.barrier


def said_by(snapshot: Snapshot) -> Said | None:
    """What a snapshot says; None when it says nothing that can be understood."""
    provenance = decode(snapshot.properties)
    if provenance is None:
        return None
    return Said(provenance, snapshot.id, snapshot.time_ms, snapshot.commit_identifier != provenance.barrier)


class Newest:
    """Of each batch of a branch the snapshot that counts. They are offered newest first."""

    def __init__(self) -> None:
        self._made: set[tuple[str, int]] = set()
        self._copies: dict[tuple[str, int], Said] = {}

    def offer(self, said: Said) -> bool:
        """Whether it counts, as far as can be told now: a copy may, when all have been offered (`copies`)."""
        if said.batch in self._made:
            return False
        if said.is_copy:
            self._copies.setdefault(said.batch, said)
            return False
        self._made.add(said.batch)
        self._copies.pop(said.batch, None)
        return True

    def copies(self) -> list[Said]:
        """Copies of which no original was offered, newest first."""
        return sorted(self._copies.values(), key=lambda s: s.snapshot_id, reverse=True)


def rows_of_all(found: Iterable[Said], ref: TableRef) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of snapshots of a branch, oldest first."""
    oldest_first = sorted(found, key=lambda s: s.snapshot_id)
    return joined(rows_of(said.provenance, ref, said.snapshot_id) for said in oldest_first)


def recorded_of(index: Index, ref: TableRef, some: Sequence[Said]) -> dict[tuple[str, int], int]:
    """Snapshots of the rows that are there of some batches, by job and barrier. Raises StorageError."""
    bounds: dict[str, tuple[int, int]] = {}
    for job, barrier in (s.batch for s in some):
        low, high = bounds.get(job, (barrier, barrier))
        bounds[job] = min(low, barrier), max(high, barrier)
    found: dict[tuple[str, int], int] = {}
    conditions = barriers_between(bounds)
    while those := list(islice(conditions, _TOGETHER)):
        rows = index.read(SINK_SNAPSHOT, f"{of_table(ref)} AND ({' OR '.join(those)})")
        jobs, barriers, snapshots = (rows.column(n).to_pylist() for n in ("job", "barrier_id", "snapshot_id"))
        found.update(zip(zip(jobs, barriers, strict=True), snapshots, strict=True))
    return found
