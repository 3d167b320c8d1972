"""Read the snapshots after an offset, and check that the history before it is the same.

Branches are rolled back, merged, replaced, deleted and created again, and snapshots expire, all while a stream reads.
So before rows are taken, the offset's snapshot is read again: it must have the same delta manifest list, whose name no
two commits share. When it has expired, the next snapshot must exist and continue its number of rows.

Errors say from where the stream can be read again, and which branch keeps the former history.

Source: own; Java `utils/NextSnapshotFetcher` compares ids only.

Tests: tests/unit/streaming/test_history.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import FileMissingError, HistoryChangedError, OffsetError, PaimonError, SnapshotExpiredError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.branches import is_backup_name, is_main, newest_shared, read_fork
from paimon_spark.metadata.handle import TableHandle, branch_names, read_main_branch
from paimon_spark.metadata.layout import LATEST, MAIN
from paimon_spark.metadata.snapshots import (
    alive_range,
    contiguous_ids,
    find_changelog,
    find_snapshot,
    latest_snapshot,
    list_changelog_ids,
    list_snapshot_ids,
    read_hint,
    read_snapshots,
)
from paimon_spark.metadata.tags import list_tags
from paimon_spark.streaming.offset import Phase, StreamOffset

_STEPS: Final = 4
"""Snapshots tried after a hint before the directory is listed."""
_FIRST_CHUNK: Final = 2
_LARGEST_CHUNK: Final = 64
"""Snapshots read at once: few at first, as limits may want no more; each is about a kilobyte."""


class ChangingHistoryError(Exception):
    """Inconsistent read, as an operation is changing the branch's history; read again.

    Attributes:
        error: what to raise when that persists.
    """

    def __init__(self, error: PaimonError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class OffsetPosition:
    """The position of an offset in a branch.

    Attributes:
        snapshot: the offset's, alive or kept by a changelog or tag. None when it has expired, and before the first.
        is_alive: whether the snapshot is alive.
    """

    snapshot: Snapshot | None = None
    is_alive: bool = False


def offset_after(handle: TableHandle, snapshot: Snapshot) -> StreamOffset:
    """The offset after a snapshot of the branch."""
    made, rows = snapshot.delta_manifest_list, snapshot.total_record_count
    return StreamOffset(handle.location, handle.branch, snapshot.id, made, rows)


def check(handle: TableHandle, offset: StreamOffset) -> OffsetPosition:
    """Check that the branch continues at the offset. One small read when its snapshot exists.

    Raises:
        HistoryChangedError: the branch has another history than the stream has read.
        SnapshotExpiredError: what comes next has expired.
        OffsetError: the offset is of another table or branch.
    """
    if not offset.snapshot_id:
        _check_place(handle, offset)
        if offset.snapshot_id is not None or offset.begins_with is Phase.CHANGES:
            _check_first(handle)
        return OffsetPosition()
    alive = find_snapshot(handle, offset.snapshot_id)
    found = alive or _kept_or_gone(handle, offset)
    if found is None:
        return OffsetPosition()
    if offset.made is None:
        _check_place(handle, offset)
    elif found.delta_manifest_list != offset.made:
        _check_place(handle, offset)
        raise history_changed(handle, offset, f"its snapshot {found.id} is another one now")
    return OffsetPosition(found, is_alive=alive is not None)


def check_end(handle: TableHandle, offset: StreamOffset, phase: Phase) -> Snapshot:
    """The snapshot up to which a batch reads changes, or whose state it reads. Raises as `check`."""
    assert offset.snapshot_id
    found = find_snapshot(handle, offset.snapshot_id) or _kept_for(handle, offset, phase)
    if found is not None and found.delta_manifest_list == offset.made:
        return found
    _check_place(handle, offset)
    if found is None and offset.snapshot_id < min(list_snapshot_ids(handle), default=0):
        raise expired(handle, offset.snapshot_id, reading=True)
    what = "is another one now" if found is not None else "no longer exists"
    raise history_changed(handle, offset, f"its snapshot {offset.snapshot_id} {what}", planned=True)


def newest(handle: TableHandle, known: Snapshot | None = None) -> Snapshot | None:
    """The head of the branch; None when it has no snapshot. Two small reads when nothing is new and the hint is good.

    `known`: a snapshot that is alive; it saves the listing where other engines leave no hint, or an old one.
    """
    hint = read_hint(handle.store, f"{handle.layout.snapshot_dir}/{LATEST}") or 0
    at = known if known is not None and hint <= known.id else find_snapshot(handle, hint) if hint else None
    for _ in range(_STEPS if at is not None else 0):
        assert at is not None
        after = find_snapshot(handle, at.id + 1)
        if after is None:
            return at
        at = after
    return latest_snapshot(handle)


def find_kept(handle: TableHandle, snapshot_id: int) -> Snapshot | None:
    """The snapshot, alive or kept for its changelog."""
    return find_snapshot(handle, snapshot_id) or find_changelog(handle, snapshot_id)


def changes_since(handle: TableHandle) -> int | None:
    """The first snapshot from which on all changes up to the head can be read; None without a snapshot."""
    ids = sorted({*list_snapshot_ids(handle), *list_changelog_ids(handle)})
    return contiguous_ids(ids, ids[-1])[0] if ids else None


def check_joined(handle: TableHandle, after: int, head: Snapshot) -> None:
    """Check that the snapshot after an id exists: otherwise the head may be of a history being deleted."""
    if after + 1 < head.id:
        _get(handle, after + 1)


def following(handle: TableHandle, after: int, end: Snapshot) -> Iterator[Snapshot]:
    """Yield the snapshots after an id up to `end`, alive or kept for their changelog; read in chunks.

    Raises:
        SnapshotExpiredError: one has expired.
        ChangingHistoryError: one is missing in the middle, or two do not follow on one another.
    """
    size, before = _FIRST_CHUNK, None
    while after < end.id:
        last = min(after + size, end.id)
        for snapshot in _chunk(handle, after + 1, min(last, end.id - 1)):
            _check_follows(handle, before, snapshot)
            yield snapshot
            before = snapshot
        after, size = last, min(2 * size, _LARGEST_CHUNK)
        if after == end.id:
            _check_follows(handle, before, end)
            yield end


def is_as_before(handle: TableHandle, *snapshots: Snapshot | None) -> bool:
    """Whether main still means the same directory, and the snapshots still exist unchanged. A small read each.

    Called after other snapshots were read, to be sure that all are of one history.
    """
    layout = handle.layout
    if layout.branch == MAIN and read_main_branch(handle.store, layout.root) != layout.main_branch:
        return False
    for snapshot in snapshots:
        now = None if snapshot is None else find_kept(handle, snapshot.id)
        if snapshot is not None and (now is None or now.delta_manifest_list != snapshot.delta_manifest_list):
            return False
    return True


def moving(handle: TableHandle) -> ChangingHistoryError:
    """The error for a branch whose history changes while it is read."""
    return ChangingHistoryError(
        HistoryChangedError(
            f"the history of {handle.describe()} changes faster than a stream can read it; restart the query when that "
            "is over",
            **handle.context,
        )
    )


def _kept_or_gone(handle: TableHandle, offset: StreamOffset) -> Snapshot | None:
    """The offset's snapshot when it has expired, but is kept; None when it was read and the next one is there.

    Raises as `check`.
    """
    read = offset.snapshot_id or 0
    ids = list_snapshot_ids(handle)
    if read in ids:  # made meanwhile
        found = find_snapshot(handle, read)
        if found is not None:
            return found
        ids = [i for i in ids if i > read]
    if not ids or read > ids[-1]:
        _check_place(handle, offset)
        raise history_changed(handle, offset, f"its head is snapshot {ids[-1]}" if ids else "it has no snapshot")
    if ids[0] < read:
        _check_place(handle, offset)
        raise history_changed(handle, offset, f"snapshot {read} is missing among those alive")
    kept = _kept_for(handle, offset, Phase.CHANGES if offset.part is None else offset.part.phase)
    if kept is None:
        _check_place(handle, offset)
        if offset.part is not None:
            raise expired(handle, read, reading=True)
    after = find_kept(handle, read + 1)
    if after is None:
        raise expired(handle, read + 1)
    if not after.may_follow(offset.rows):
        raise history_changed(handle, offset, f"its snapshot {after.id} was not made on that one")
    return kept


def _kept_for(handle: TableHandle, offset: StreamOffset, phase: Phase) -> Snapshot | None:
    """An expired snapshot that a long-lived changelog keeps for its changes, or a tag for its state."""
    assert offset.snapshot_id is not None
    if phase is Phase.CHANGES:
        return find_changelog(handle, offset.snapshot_id)
    tagged = (tag.snapshot for tag in list_tags(handle) if tag.snapshot.id == offset.snapshot_id)
    return next((s for s in tagged if s.delta_manifest_list == offset.made), None)


def _check_first(handle: TableHandle) -> None:
    """Check that snapshot 1 has not expired. One small read when it exists."""
    if find_kept(handle, 1) is None and (ids := list_snapshot_ids(handle)) and ids[0] > 1:
        raise expired(handle, 1)


def _check_place(handle: TableHandle, offset: StreamOffset) -> None:
    """Check that an offset is of this table and branch, when its snapshot does not show it.

    Tables may be renamed, and opened by another scheme.
    """
    if _path(offset.table) == _path(handle.location) and offset.branch == handle.branch:
        return
    if offset.made is not None and _path(offset.table) == _path(handle.location):
        asked = (
            f"after snapshot {offset.snapshot_id} of branch {offset.branch!r}, and the query reads branch "
            f"{handle.branch!r}, which does not have that snapshot, or no longer,"
        )
    else:
        asked = f"of branch {offset.branch!r} of {offset.table}, and the query reads {handle.describe()}"
    raise OffsetError(
        f"the checkpoint holds an offset {asked} at {handle.location}; read that branch, or give the query a "
        "checkpointLocation of its own",
        **handle.context,
        offset_table=offset.table,
        offset_branch=offset.branch,
    )


def _path(url: str) -> str:
    """The path without the scheme: s3 and s3a are the same store."""
    return url.partition("://")[2].strip("/") if "://" in url else url.partition(":")[2].strip("/") or url.strip("/")


def _chunk(handle: TableHandle, first: int, last: int) -> list[Snapshot]:
    if first > last:
        return []
    try:
        return read_snapshots(handle, range(first, last + 1))
    except FileMissingError:
        return [_get(handle, i) for i in range(first, last + 1)]


def _get(handle: TableHandle, snapshot_id: int) -> Snapshot:
    found = find_kept(handle, snapshot_id)
    if found is not None:
        return found
    ids = list_snapshot_ids(handle)
    if not ids or ids[0] > snapshot_id:
        raise expired(handle, snapshot_id)
    raise ChangingHistoryError(
        HistoryChangedError(
            f"snapshot {snapshot_id} of {handle.describe()} is missing, though earlier and later ones exist "
            f"({alive_range(handle)}): it was deleted, so later rows do not continue earlier ones. "
            "doctor() shows what is damaged; roll the branch back to before the hole, or begin with a new "
            "checkpointLocation and scan.mode = latest-full",
            **handle.context,
            snapshot_id=snapshot_id,
        )
    )


def _check_follows(handle: TableHandle, before: Snapshot | None, after: Snapshot) -> None:
    """Check that two snapshots are of one history when their row counts contradict each other.

    Other engines may count differently, so unchanged snapshots are accepted.
    """
    if before is None or after.may_follow(before.total_record_count):
        return
    if not is_as_before(handle, before, after):
        raise moving(handle)


def expired(handle: TableHandle, snapshot_id: int, *, reading: bool = False) -> SnapshotExpiredError:
    """The error for a snapshot that expired before it was read, or while it was.

    `reading`: a part of it was read, or it was planned to be read.
    """
    logs = list_changelog_ids(handle)
    kept = f"; long-lived changelogs are kept of {logs[0]} to {logs[-1]}" if logs else ""
    since = changes_since(handle)
    first = max(since or 0, snapshot_id + 1)
    return SnapshotExpiredError(
        f"snapshot {snapshot_id} of {handle.describe()} expired before the stream had read "
        f"{'all of it' if reading else 'it'}: {alive_range(handle)}{kept}. Its rows cannot be read as changes any "
        "more. Begin again with a new checkpointLocation: scan.mode = latest-full reads the whole table first, "
        f"scan.snapshot-id = {first} what is left of the changes. Option consumer-id keeps snapshots until a stream "
        "has read them; snapshot.time-retained and snapshot.num-retained.min keep them longer",
        **handle.context,
        snapshot_id=snapshot_id,
        earliest=since,
    )


def history_changed(
    handle: TableHandle, offset: StreamOffset, found: str, *, planned: bool = False
) -> HistoryChangedError:
    """Error for an offset whose snapshot the branch has lost.

    `found`: what exists instead, in words. `planned`: it is the end of a batch that may not have been read.
    """
    kept = _kept_on(handle, offset)
    shared = None if kept is None else kept.shared_id
    read = offset.snapshot_id or 0
    head = max(list_snapshot_ids(handle), default=0)
    did = "a batch of the stream was to read" if planned else "the stream has read"
    if shared is not None:
        lost = (
            f"the two histories part after snapshot {shared}; of what the stream has read, {_gone(shared, read)} gone"
        )
    elif head < read:
        lost = f"where the two part is unknown, at snapshot {head} or before: {_gone(head, read)} gone for certain"
    else:
        lost = f"where the two part is unknown; of what the stream has read, snapshot {read} is gone for certain"
    begin = (
        "scan.mode = latest-full reads all rows, scan.snapshot-id = <id> the changes from a snapshot on"
        if shared is None
        else f"scan.snapshot-id = {shared + 1} continues where the histories part, once the rows that the stream "
        "delivered of later snapshots are removed; scan.mode = latest-full reads all rows"
    )
    where = (
        "no branch keeps it"
        if kept is None
        else f"branch {kept.branch!r} keeps it: option branch = {kept.branch} continues from this checkpoint"
    )
    return HistoryChangedError(
        f"{handle.describe()} has another history (after a rollback, a merge, another main, or it was created again) "
        f"than the one that {did} up to snapshot {read}: {found}; {alive_range(handle)}. "
        f"{lost[0].upper()}{lost[1:]}; {where}. To read the branch as it is, begin with a new "
        f"checkpointLocation: {begin}",
        **handle.context,
        snapshot_id=read,
        shared_id=shared,
        kept_on=None if kept is None else kept.branch,
    )


def _gone(last: int, read: int) -> str:
    """The stream's snapshots after `last`, as text."""
    return f"snapshot {read} is" if last + 1 >= read else f"snapshots {last + 1} to {read} are"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A branch that has the offset's snapshot, and the newest one that it shares with the branch that is read."""

    branch: str
    shared_id: int | None


def _kept_on(handle: TableHandle, offset: StreamOffset) -> _Kept | None:
    """Find a branch that has the history that was read: a backup of main, or a branch created from it."""
    names = [n for n in branch_names(handle.store, handle.layout) if not n.startswith(".")]
    others = [n for n in names if n not in (handle.layout.directory_branch, handle.branch)]
    others.sort(key=lambda n: not is_backup_name(n))
    for name in [*([] if is_main(handle) else [MAIN]), *others]:
        other = handle.on_branch_directory(name)
        try:
            if _has(other, offset):
                shared = newest_shared(handle, other)
                fork = read_fork(other) if shared is None else None
                found = None if fork is None else fork.snapshot_id
                return _Kept(name, found if shared is None else shared.id)
        except PaimonError:  # damage of another branch does not matter here
            continue
    return None


def _has(other: TableHandle, offset: StreamOffset) -> bool:
    assert offset.snapshot_id is not None
    found = find_snapshot(other, offset.snapshot_id)
    if found is not None:
        return found.delta_manifest_list == offset.made
    head = latest_snapshot(other)
    if head is None or head.id < offset.snapshot_id:
        return False
    return any(tag.snapshot.delta_manifest_list == offset.made for tag in list_tags(other))
