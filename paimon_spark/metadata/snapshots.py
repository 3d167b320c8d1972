"""Snapshot files of a branch, by id, time, watermark and hints; and long-lived changelogs.

Hints may be stale, missing or garbage; they cost a listing and change no answer. Expiry may remove old snapshots at any
moment, so an id that was seen may be gone when it is read.

Source: Java `utils/SnapshotManager`, `utils/HintFileUtils`, `utils/ChangelogManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from paimon_spark.errors import FileMissingError, SnapshotExpiredError, SnapshotNotFoundError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot, decode
from paimon_spark.format.metadata_files.statistics import Statistics
from paimon_spark.format.metadata_files.statistics import decode as decode_statistics
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import CHANGELOG_PREFIX, EARLIEST, LATEST, SNAPSHOT_PREFIX
from paimon_spark.metadata.retry import RACES
from paimon_spark.metadata.small_files import find_bytes, find_decoded, find_many, numbered, read_decoded
from paimon_spark.options.core import ChangelogProducer
from paimon_spark.storage.ahead import ahead
from paimon_spark.storage.store import Store
from paimon_spark.text import id_of

"""Times the ends are looked for again when expiry removes what was just found."""


def list_snapshot_ids(handle: TableHandle) -> list[int]:
    """Ids of the snapshots alive, ascending."""
    return numbered(handle.store, handle.layout.snapshot_dir, SNAPSHOT_PREFIX)


def find_snapshot(handle: TableHandle, snapshot_id: int) -> Snapshot | None:
    """The snapshot; None when it is not alive. Raises CorruptFileError."""
    return find_decoded(handle.store, handle.layout.snapshot_path(snapshot_id), decode)


def is_alive(handle: TableHandle, snapshot: Snapshot) -> bool:
    """Whether the id still holds this very snapshot."""
    found = find_snapshot(handle, snapshot.id)
    return found is not None and found.uuid == snapshot.uuid


def get_snapshot(handle: TableHandle, snapshot_id: int) -> Snapshot:
    """The snapshot.

    Raises:
        SnapshotExpiredError: it is older than the earliest one alive.
        SnapshotNotFoundError: it never was, or no snapshot is alive.
        CorruptFileError: it cannot be decoded.
    """
    snapshot = find_snapshot(handle, snapshot_id)
    if snapshot is None:
        raise snapshot_missing(handle, snapshot_id)
    return snapshot


def read_snapshots(handle: TableHandle, ids: Sequence[int]) -> list[Snapshot]:
    """The snapshots of these ids, read together. Raises FileMissingError: one is not alive; CorruptFileError."""
    paths = [handle.layout.snapshot_path(i) for i in ids]
    return [decode(data, path) for data, path in zip(handle.store.read_many(paths), paths, strict=True)]


def get_snapshots(handle: TableHandle, ids: Sequence[int]) -> list[Snapshot]:
    """The snapshots, fetched together. Raises as `get_snapshot`."""
    try:
        return read_snapshots(handle, ids)
    except FileMissingError:
        return [get_snapshot(handle, i) for i in ids]


def latest_snapshot(handle: TableHandle) -> Snapshot | None:
    """The head of the branch; None when nothing was ever committed. Three small reads if the hint is good."""
    hint = read_hint(handle.store, f"{handle.layout.snapshot_dir}/{LATEST}")
    # Reading is the cheaper probe: an object store asks twice whether a path exists, as a file and as a directory.
    # The hint may be old, or name a snapshot that an interrupted rollback deleted: then the directory is listed.
    if hint is not None and hint > 0:
        with ahead(handle.store, [handle.layout.snapshot_path(i) for i in (hint + 1, hint)]):
            if find_snapshot(handle, hint + 1) is None:
                snapshot = find_snapshot(handle, hint)
                if snapshot is not None:
                    return snapshot
    return _end_by_listing(handle, -1)


def earliest_snapshot(handle: TableHandle) -> Snapshot | None:
    """Oldest snapshot alive; None without one."""
    hint = read_hint(handle.store, f"{handle.layout.snapshot_dir}/{EARLIEST}")
    snapshot = find_snapshot(handle, hint) if hint is not None and hint > 0 else None
    return snapshot or _end_by_listing(handle, 0)


def _end_by_listing(handle: TableHandle, end: int) -> Snapshot | None:
    for _ in range(RACES):
        ids = list_snapshot_ids(handle)
        if not ids:
            return None
        snapshot = find_snapshot(handle, ids[end])
        if snapshot is not None:
            return snapshot
    raise SnapshotNotFoundError(
        f"the snapshots of {handle.describe()} vanish faster than they can be read; does its expiry keep too few?",
        **handle.context,
    )


def latest_snapshot_id(handle: TableHandle) -> int | None:
    """Id of `latest_snapshot`."""
    snapshot = latest_snapshot(handle)
    return None if snapshot is None else snapshot.id


def earliest_snapshot_id(handle: TableHandle) -> int | None:
    """Id of `earliest_snapshot`."""
    snapshot = earliest_snapshot(handle)
    return None if snapshot is None else snapshot.id


def list_snapshots(handle: TableHandle) -> list[Snapshot]:
    """All snapshots alive, ascending by id; ones that expire meanwhile are left out."""
    return read_alive(handle, list_snapshot_ids(handle))


def read_alive(handle: TableHandle, ids: Sequence[int]) -> list[Snapshot]:
    """Snapshots that are alive, in the order of `ids`, read together. Raises CorruptFileError."""
    found = find_many(handle.store, [handle.layout.snapshot_path(i) for i in ids], decode)
    return [snapshot for snapshot in found if snapshot is not None]


def contiguous_ids(ids: Iterable[int], last: int) -> list[int]:
    """The longest run of ids without a gap that ends at `last`, ascending; empty when `last` is not among them."""
    alive = set(ids)
    first = last + 1
    while first - 1 in alive:
        first -= 1
    return list(range(first, last + 1))


_ALWAYS_FULL: Final = 2**63 - 1
"""Commit identifier of batch jobs, whose compactions are full ones."""
_CHUNK: Final = 64
"""Snapshots read at once in the search for the newest compacted one."""


def newest_compacted(handle: TableHandle, head: Snapshot) -> Snapshot:
    """Newest snapshot made by compaction, full where the options plan full ones; else the head.

    Source: Java `table/source/snapshot/CompactedStartingScanner`, `FullCompactedStartingScanner`.
    """
    every = handle.options.compaction.full_after_commits
    only_full = every is not None or handle.options.changelog_producer is ChangelogProducer.FULL_COMPACTION

    def fits(snapshot: Snapshot) -> bool:
        number = snapshot.commit_identifier
        is_full = not only_full or number == _ALWAYS_FULL or number % max(every or 1, 1) == 0
        return snapshot.commit_kind is CommitKind.COMPACT and is_full

    if fits(head):
        return head
    alive = [i for i in list_snapshot_ids(handle) if i < head.id]
    ids = contiguous_ids([*alive, head.id], head.id)[-2::-1]
    for first in range(0, len(ids), _CHUNK):
        found = next(filter(fits, read_alive(handle, ids[first : first + _CHUNK])), None)
        if found is not None:
            return found
    return head


def snapshot_at_or_before_ms(handle: TableHandle, time_ms: int) -> Snapshot | None:
    """The newest snapshot committed at or before `time_ms`; None when none alive is."""
    latest = latest_snapshot(handle)
    if latest is None or latest.time_ms <= time_ms:
        return latest
    return _search(handle, latest, lambda s: s.time_ms <= time_ms)


def snapshot_at_or_after_ms(handle: TableHandle, time_ms: int) -> Snapshot | None:
    """The oldest snapshot committed at or after `time_ms`; None when all alive are earlier."""
    latest = latest_snapshot(handle)
    if latest is None or latest.time_ms < time_ms:
        return None
    before = _search(handle, latest, lambda s: s.time_ms < time_ms)
    if before is None:
        return earliest_snapshot(handle)
    return _next_alive(handle, before.id, latest)


def _next_alive(handle: TableHandle, snapshot_id: int, latest: Snapshot) -> Snapshot:
    following = find_snapshot(handle, snapshot_id + 1)
    if following is not None:
        return following
    for i in list_snapshot_ids(handle):
        snapshot = find_snapshot(handle, i) if snapshot_id < i < latest.id else None
        if snapshot is not None:
            return snapshot
    return latest


def _search(handle: TableHandle, latest: Snapshot, holds: Callable[[Snapshot], bool]) -> Snapshot | None:
    """The last snapshot that `holds`, which is true up to some snapshot and false from there on.

    Ids are taken to be without holes; when one is met, the ids that do exist are listed and searched.
    """
    earliest = earliest_snapshot(handle)
    if earliest is None or not holds(earliest):
        return None
    return _bisect(handle, range(earliest.id, latest.id + 1), earliest, holds, strict=True) or _bisect(
        handle, list_snapshot_ids(handle), earliest, holds, strict=False
    )


def _bisect(
    handle: TableHandle,
    ids: Sequence[int],
    floor: Snapshot,
    holds: Callable[[Snapshot], bool],
    *,
    strict: bool,
) -> Snapshot | None:
    """The search over `ids`; None when `strict` and an id is missing. One that is missing counts as old."""
    found, low, high = floor, 0, len(ids) - 1
    while low <= high:
        middle = (low + high) // 2
        snapshot = floor if ids[middle] == floor.id else find_snapshot(handle, ids[middle])
        if snapshot is None:
            if strict:
                return None
            low = middle + 1
        elif holds(snapshot):
            found, low = snapshot, middle + 1
        else:
            high = middle - 1
    return found


def snapshot_at_or_after_watermark(handle: TableHandle, watermark: int) -> Snapshot | None:
    """First snapshot whose watermark is at or after `watermark`; None without one.

    Watermarks never go back. A snapshot without one stands where the nearest earlier one with it stands.
    """
    ids = list_snapshot_ids(handle)
    found, low, high = None, 0, len(ids) - 1
    while low <= high:
        middle = (low + high) // 2
        position, snapshot = _with_watermark(handle, ids, low, middle)
        if snapshot is None or snapshot.watermark is None or snapshot.watermark < watermark:
            low = middle + 1
        else:
            found, high = snapshot, position - 1
    return found


def _with_watermark(handle: TableHandle, ids: Sequence[int], low: int, middle: int) -> tuple[int, Snapshot | None]:
    """The nearest snapshot at or before `middle` that has a watermark, not before `low`."""
    for position in range(middle, low - 1, -1):
        snapshot = find_snapshot(handle, ids[position])
        if snapshot is not None and snapshot.watermark is not None:
            return position, snapshot
    return low, None


def read_hint(store: Store, path: str) -> int | None:
    """The number in a hint file; None when it is missing or holds anything else."""
    return id_of((find_bytes(store, path) or b"")[:32].decode("ascii", "replace").strip())


def read_statistics(handle: TableHandle, snapshot: Snapshot) -> Statistics | None:
    """The statistics that ANALYZE stored with a snapshot or one before it; None without any.

    Raises: CorruptFileError, FileMissingError.
    """
    if snapshot.statistics is None:
        return None
    return read_decoded(handle.store, handle.layout.statistics_path(snapshot.statistics), decode_statistics)


def alive_range(handle: TableHandle) -> str:
    """The snapshots alive in words, for messages."""
    ids = list_snapshot_ids(handle)
    if not ids:
        return "it has no snapshot"
    if len(ids) == 1:
        return f"its only snapshot is {ids[0]}"
    return f"its snapshots alive are {ids[0]} to {ids[-1]}"


def snapshot_missing(handle: TableHandle, snapshot_id: int) -> SnapshotNotFoundError:
    """The error for a snapshot that is not alive: expired, or never there."""
    ids = list_snapshot_ids(handle)
    context = {**handle.context, "snapshot_id": snapshot_id}
    if ids and 0 < snapshot_id < ids[0]:
        return SnapshotExpiredError(
            f"snapshot {snapshot_id} of {handle.describe()} has expired: {alive_range(handle)}; "
            "read one of these, or a tag",
            **context,
        )
    return SnapshotNotFoundError(f"{handle.describe()} has no snapshot {snapshot_id}: {alive_range(handle)}", **context)


def list_changelog_ids(handle: TableHandle) -> list[int]:
    """Ids of the snapshots kept for their changelog, ascending."""
    return numbered(handle.store, handle.layout.changelog_dir, CHANGELOG_PREFIX)


def find_changelog(handle: TableHandle, snapshot_id: int) -> Snapshot | None:
    """Snapshot kept for its changelog; None without one. Raises CorruptFileError."""
    return find_decoded(handle.store, handle.layout.changelog_path(snapshot_id), decode)
