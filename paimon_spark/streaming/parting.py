"""Errors of streams whose snapshots have gone: expired, or with the history that the branch had.

They say from where on the stream can be read again, and which branch keeps a former history: a merge and a new main
leave a backup, and branches are made of others.

Source: own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_spark.errors import HistoryChangedError, PaimonError, SnapshotExpiredError
from paimon_spark.metadata.branches import is_main, newest_shared, read_fork
from paimon_spark.metadata.handle import TableHandle, branch_names
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import (
    alive_range,
    find_snapshot,
    latest_snapshot,
    list_changelog_ids,
    list_snapshot_ids,
)
from paimon_spark.metadata.tags import list_tags
from paimon_spark.streaming.offset import StreamOffset
from paimon_spark.streaming.start_search import changes_since

BACKUP_PREFIX: Final = "main-backup-"
"""Branches that keep what main lost are named so (`versioning.publication`)."""


def expired(handle: TableHandle, snapshot_id: int, *, reading: bool = False) -> SnapshotExpiredError:
    """The error for a snapshot that expired before it was read, or while it was.

    Args:
        handle: the branch.
        snapshot_id: the snapshot.
        reading: a part of it was read, or it was planned to be read.
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
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot_id,
        earliest=since,
    )


def history_changed(
    handle: TableHandle, offset: StreamOffset, found: str, *, planned: bool = False
) -> HistoryChangedError:
    """The error for an offset whose snapshot is not in the branch any more.

    Args:
        handle: the branch as it is now.
        offset: how far the stream has read.
        found: what there is instead, in words.
        planned: it is the end of a batch, of which nobody knows whether it was read.
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
        lost = f"where the two part cannot be told, at snapshot {head} or before: {_gone(head, read)} gone for certain"
    else:
        lost = f"where the two part cannot be told; of what the stream has read, snapshot {read} is gone for certain"
    begin = (
        "scan.mode = latest-full reads all rows, scan.snapshot-id = <id> the changes from a snapshot on"
        if shared is None
        else f"scan.snapshot-id = {shared + 1} goes on where the histories part, when what the stream delivered of "
        "later snapshots is taken back; scan.mode = latest-full reads all rows"
    )
    where = (
        "no branch keeps it"
        if kept is None
        else f"branch {kept.branch!r} keeps it: option branch = {kept.branch} reads it on from this very checkpoint"
    )
    return HistoryChangedError(
        f"{handle.describe()} was given another history (a roll-back, a merge, another main, or it was made anew) than "
        f"the one that {did} up to snapshot {read}: {found}; {alive_range(handle)}. "
        f"{lost[0].upper()}{lost[1:]}; {where}. To read the branch as it is, begin with a new "
        f"checkpointLocation: {begin}",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=read,
        shared_id=shared,
        kept_on=None if kept is None else kept.branch,
    )


def _gone(last: int, read: int) -> str:
    """What of the stream's snapshots came after `last`, in words."""
    return f"snapshot {read} is" if last + 1 >= read else f"snapshots {last + 1} to {read} are"


@dataclass(frozen=True, slots=True)
class _Kept:
    """A branch that has the offset's snapshot, and the newest one that it shares with the branch that is read."""

    branch: str
    shared_id: int | None


def _kept_on(handle: TableHandle, offset: StreamOffset) -> _Kept | None:
    """Where the history that was read is kept: the backup of a merge or of a replaced main, or a branch made of it."""
    names = [n for n in branch_names(handle.store, handle.layout) if not n.startswith(".")]
    others = [n for n in names if n not in (handle.layout.directory_branch, handle.branch)]
    others.sort(key=lambda n: not n.startswith(BACKUP_PREFIX))
    for name in [*([] if is_main(handle) else [MAIN]), *others]:
        other = handle.on_branch_directory(name)
        try:
            if _has(other, offset):
                shared = newest_shared(handle, other)
                fork = read_fork(other) if shared is None else None
                found = None if fork is None else fork.snapshot_id
                return _Kept(name, found if shared is None else shared.id)
        except PaimonError:  # another branch's damage is not what this is about
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
