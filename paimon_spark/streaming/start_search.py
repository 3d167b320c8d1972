"""The snapshots that a stream may begin with: by time, compacted ones, and those from which on nothing is missing."""

from __future__ import annotations

import itertools
from typing import Final

from paimon_spark.errors import FileMissingError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot, decode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import (
    find_changelog,
    find_snapshot,
    list_changelog_ids,
    list_snapshot_ids,
    snapshot_at_or_after_ms,
)
from paimon_spark.options.descriptor import Option, integer
from paimon_spark.options.table import ChangelogProducer

_FULL_EVERY: Final[Option[int | None]] = Option(
    "full-compaction.delta-commits", integer, None, "Commits after which everything is compacted."
)
_ALWAYS_FULL: Final = 2**63 - 1
"""Commit identifier of batch jobs, whose compactions are full ones."""
_CHUNK: Final = 64
"""Snapshots that are read at once when the newest compacted one is looked for."""


def find_changes(handle: TableHandle, snapshot_id: int) -> Snapshot | None:
    """The snapshot where its changes can still be read, alive or kept for its changelog; None otherwise."""
    return find_snapshot(handle, snapshot_id) or find_changelog(handle, snapshot_id)


def rows_before(snapshot: Snapshot) -> int | None:
    """Rows of the snapshot before this one; None when unknown."""
    if snapshot.total_record_count is None or snapshot.delta_record_count is None:
        return None
    return snapshot.total_record_count - snapshot.delta_record_count


def changes_since(handle: TableHandle) -> int | None:
    """The first snapshot from which on all changes up to the head can be read; None without a snapshot."""
    ids = sorted({*list_snapshot_ids(handle), *list_changelog_ids(handle)})
    return _without_gap(ids)[0] if ids else None


def _without_gap(ids: list[int]) -> list[int]:
    """The ids, ascending, that lead up to the last one without any missing."""
    gaps = [i for i, (older, newer) in enumerate(itertools.pairwise(ids), 1) if newer - older > 1]
    return ids[gaps[-1] :] if gaps else ids


def first_at_or_after(handle: TableHandle, time_ms: int) -> Snapshot | None:
    """The first snapshot since a time whose changes can be read; None when all are earlier."""
    found = snapshot_at_or_after_ms(handle, time_ms)
    if found is None or find_snapshot(handle, found.id - 1) is not None:
        return found
    ids = [i for i in list_changelog_ids(handle) if i < found.id]
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        changelog = find_changelog(handle, ids[middle])
        if changelog is None or changelog.time_ms < time_ms:
            low = middle + 1
        else:
            found, high = changelog, middle
    return found


def newest_compacted(handle: TableHandle, head: Snapshot) -> Snapshot:
    """The newest snapshot that a compaction made, a full one where these are planned; the head when there is none."""
    every = _FULL_EVERY.get(handle.options.raw)
    only_full = every is not None or handle.options.changelog_producer is ChangelogProducer.FULL_COMPACTION

    def fits(snapshot: Snapshot) -> bool:
        number = snapshot.commit_identifier
        is_full = not only_full or number == _ALWAYS_FULL or number % max(every or 1, 1) == 0
        return snapshot.commit_kind is CommitKind.COMPACT and is_full

    if fits(head):
        return head
    alive = [i for i in list_snapshot_ids(handle) if i < head.id]
    ids = _without_gap([*alive, head.id])[-2::-1]
    for first in range(0, len(ids), _CHUNK):
        found = next(filter(fits, _read(handle, ids[first : first + _CHUNK])), None)
        if found is not None:
            return found
    return head


def _read(handle: TableHandle, ids: list[int]) -> list[Snapshot]:
    """Snapshots in the order of their ids; ones that expire meanwhile are left out."""
    paths = [handle.layout.snapshot_path(i) for i in ids]
    try:
        return [decode(data, path) for data, path in zip(handle.store.read_many(paths), paths, strict=True)]
    except FileMissingError:
        return [s for s in (find_snapshot(handle, i) for i in ids) if s is not None]
