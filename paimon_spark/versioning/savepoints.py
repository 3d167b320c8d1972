"""Savepoints: compact a branch fully and tag the result, on request or every few days.

A savepoint stays until it is deleted, whatever option `tag.default-time-retained` says.

Source: PIP-4.

Tests: tests/unit/versioning/test_savepoints.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Final, TypeAlias

from paimon_spark.engine.compaction.run import compact_branch
from paimon_spark.engine.compaction.task import CompactResult
from paimon_spark.errors import InvalidInputError, SnapshotNotFoundError, TagAlreadyExistsError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot, Tag
from paimon_spark.maintenance.change import change_branch, reopened
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import TableChange
from paimon_spark.metadata.retry import retry
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.metadata.tags import (
    Savepoint,
    find_tag,
    get_savepoint,
    get_tag,
    savepoint_id_of,
    savepoint_tag,
    tag_names,
)
from paimon_spark.metadata.version import zone_of
from paimon_spark.options.retention import SavepointOptions
from paimon_spark.versioning.tag_steps import (
    check_not_expired,
    create_steps,
    delete_tags_change,
    local_time,
)

Compact: TypeAlias = Callable[[TableHandle], CompactResult]
"""Compacts a branch fully, in this process or in a Spark job."""

_ATTEMPTS: Final = 3
_NO_ROWS: Final = (CommitKind.COMPACT, CommitKind.ANALYZE)


def compact_here(handle: TableHandle) -> CompactResult:
    """Compact a branch fully in this process."""
    return compact_branch(handle, full=True)


def create_savepoint(handle: TableHandle, *, compact: Compact = compact_here, wait_ms: int = 60_000) -> Savepoint:
    """Compact the branch fully and tag the resulting snapshot as `savepoint-<its id>`.

    When nothing was written since the last savepoint, that one is returned. A branch that is already compact gets no
    new snapshot. Rows of concurrent commits may or may not be in the savepoint.
    """

    def saved() -> Savepoint:
        branch = reopened(handle)
        head = latest_snapshot(branch)
        if head is None:
            raise SnapshotNotFoundError(
                f"{branch.describe()} has no snapshot yet, so there is nothing to save; write rows first",
                **branch.context,
            )
        last = _last(branch)
        if last is not None and _holds_all(branch, last.snapshot, head):
            return last
        return _save(branch, compact(branch).snapshot or head, wait_ms)

    def exhausted(gone: _SnapshotGoneError) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"the compacted snapshot {gone.snapshot_id} of {handle.describe()} was deleted before it could be saved, "
            f"in {_ATTEMPTS} attempts; check whether another process rolls the table back or keeps too few snapshots",
            **handle.context,
            snapshot_id=gone.snapshot_id,
        )

    return retry(saved, _ATTEMPTS, on=_SnapshotGoneError, exhausted=exhausted)


def delete_savepoint(handle: TableHandle, savepoint_id: int, *, dry_run: bool = False) -> Removed:
    """Delete a savepoint, and the files that nothing else needs."""
    if isinstance(savepoint_id, bool) or not isinstance(savepoint_id, int):
        raise InvalidInputError(
            f"{savepoint_id!r} is not a savepoint of {handle.describe()}: give its id, a number",
            argument="savepoint_id",
        )

    def plan(branch: TableHandle) -> TableChange:
        tag = Tag(savepoint_tag(savepoint_id), get_savepoint(branch, savepoint_id).snapshot)
        label = f"deletion of savepoint {savepoint_id} on branch {branch.branch!r}"
        return delete_tags_change(branch, [tag], "delete-savepoint", label)

    return change_branch(handle, "delete-savepoint", plan, dry_run=dry_run)


def run_periodic_savepoint(
    handle: TableHandle, snapshot: Snapshot, *, compact: Compact = compact_here, wait_ms: int = 60_000
) -> Savepoint | None:
    """Create the savepoint that is due once `snapshot` is the head, if any; called after commits.

    Costs nothing without the options `savepoint.create-time` and `savepoint.create-interval`; when none is due, a
    listing and one read. Raises as `create_savepoint`, and InvalidOptionError.
    """
    options = handle.options.savepoints
    if options is None:
        return None
    last = _last(handle)
    if not is_due(options, snapshot.time_ms, None if last is None else last.snapshot.time_ms):
        return None
    return create_savepoint(handle, compact=compact, wait_ms=wait_ms)


def is_due(options: SavepointOptions, commit_ms: int, last_ms: int | None) -> bool:
    """Whether a savepoint is due at a commit; times are epoch milliseconds, `last_ms` of the last savepoint's snapshot.

    The day of a savepoint starts at the create time. The next one is due `options.days` later, at the create time; the
    first one at the first commit after a create time.
    """
    zone = zone_of(options.zone)
    now = local_time(commit_ms, zone)
    at = time(options.time_ms // 3_600_000, options.time_ms // 60_000 % 60)
    if last_ms is None:
        return now.time() >= at
    last = local_time(last_ms, zone)
    day = last.date() if last.time() >= at else last.date() - timedelta(days=1)
    return now >= datetime.combine(day + timedelta(days=options.days), at)


def _last(handle: TableHandle) -> Savepoint | None:
    """The branch's newest savepoint, skipping tags of other engines that only have such a name."""
    ids = (savepoint_id_of(name) for name in tag_names(handle))
    for savepoint_id in sorted((i for i in ids if i is not None), reverse=True):
        snapshot = get_tag(handle, savepoint_tag(savepoint_id)).snapshot
        if snapshot.id == savepoint_id:
            return Savepoint(savepoint_id, snapshot)
    return None


def _holds_all(handle: TableHandle, saved: Snapshot, head: Snapshot) -> bool:
    """Whether the head has the rows of `saved`: only compactions followed it."""
    if saved.id > head.id:
        return False
    alive = head if head.id == saved.id else find_snapshot(handle, saved.id)
    if alive is not None and not same_snapshot(alive, saved):
        return False
    records_expire = handle.options.record_expiry is not None
    at: Snapshot | None = head
    while at is not None and at.id > saved.id:
        if at.commit_kind not in _NO_ROWS or records_expire:
            return False
        at = find_snapshot(handle, at.id - 1) if at.id - 1 > saved.id else saved
    return at is not None


class _SnapshotGoneError(Exception):
    """The snapshot to save was deleted, after it was made and before it was tagged."""

    def __init__(self, snapshot_id: int) -> None:
        super().__init__(snapshot_id)
        self.snapshot_id = snapshot_id


def _save(handle: TableHandle, snapshot: Snapshot, wait_ms: int) -> Savepoint:
    """Tag a snapshot as savepoint. Raises _SnapshotGoneError."""
    tag = Tag(savepoint_tag(snapshot.id), snapshot)

    def plan(branch: TableHandle) -> TableChange | None:
        old = find_tag(branch, tag.name)
        if old is not None and same_snapshot(old.snapshot, snapshot):
            return None
        if not same_snapshot(find_snapshot(branch, snapshot.id), snapshot):
            raise _SnapshotGoneError(snapshot.id)
        if old is not None:
            raise TagAlreadyExistsError(
                f"the savepoint of snapshot {snapshot.id} of {branch.describe()} would be tag {tag.name!r}, but "
                f"another engine gave that name to snapshot {old.snapshot.id}; delete that tag, or write rows first",
                **branch.context,
                tag=tag.name,
            )
        label = f"creation of savepoint {snapshot.id} on branch {branch.branch!r}"
        return TableChange("create-savepoint", label, create_steps(branch, branch.options.tags, tag))

    change_branch(handle, "create-savepoint", plan, wait_ms=wait_ms)
    check_not_expired(handle, tag)
    return Savepoint(snapshot.id, snapshot)
