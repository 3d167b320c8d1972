"""Tags that have lived long enough.

Source: Java `tag/TagTimeExpire`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from paimon_spark.format.metadata_files.snapshot import Tag
from paimon_spark.maintenance.changes import TableChange
from paimon_spark.maintenance.expire_snapshots import dry
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import TAG_PREFIX
from paimon_spark.metadata.tags import list_tags, savepoint_id_of
from paimon_spark.versioning.reopening import change_branch
from paimon_spark.versioning.tag_steps import deletion, living_branch


def expire_tags(
    handle: TableHandle,
    *,
    older_than_ms: int | None = None,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    clock: Callable[[], datetime] = datetime.now,
) -> Removed:
    """Delete the tags whose time to live is over, and with `older_than_ms` all that were created before it.

    A time to live counts from the tag's creation, on the wall clock of this machine. A tag without one was created when
    its file was last changed. Guards of branches stay, and savepoints without a time to live.

    Args:
        handle: the branch.
        older_than_ms: epoch milliseconds.
        dry_run: only tell what would go.
        wait_ms: how long to wait for another process that changes the table's refs.
        clock: the local wall clock.

    Raises:
        OperationInProgressError: another process changes the table's refs all the time.
        UnsafeDeletionError: it cannot be told what else needs their files; nothing was deleted.
    """
    older_than = None if older_than_ms is None else _local(older_than_ms)

    def plan(branch: TableHandle) -> TableChange | None:
        over = _over(branch, clock(), older_than)
        label = f"expiry of {len(over)} tags on branch {branch.branch!r}"
        return deletion(branch, over, "expire-tags", label) if over else None

    planned = plan(handle)  # looked at before anything is locked, as commits come here all the time
    if dry_run or planned is None:
        return dry(handle, planned)
    return change_branch(handle, "expire-tags", plan, wait_ms=wait_ms)


def overdue_tags(handle: TableHandle, clock: Callable[[], datetime] = datetime.now) -> list[Tag]:
    """The tags that `expire_tags` would delete now. Raises CorruptFileError."""
    return _over(handle, clock(), None)


def _over(handle: TableHandle, now: datetime, older_than: datetime | None) -> list[Tag]:
    """The tags that have lived long enough."""
    tags = [t for t in list_tags(handle) if living_branch(handle, t.name) is None]
    if older_than is not None and any(t.create_time is None or t.time_retained_s is None for t in tags):
        changed = {i.name.removeprefix(TAG_PREFIX): i.modified_ms for i in handle.store.list(handle.layout.tag_dir)}
    else:
        changed = {}
    return [t for t in tags if _is_over(t, changed.get(t.name), now, older_than)]


def _is_over(tag: Tag, changed_ms: int | None, now: datetime, older_than: datetime | None) -> bool:
    if tag.create_time is not None and tag.time_retained_s is not None:
        try:
            lives = now <= tag.create_time + timedelta(seconds=tag.time_retained_s)
        except OverflowError:
            lives = True
        return not lives or (older_than is not None and older_than > tag.create_time)
    if older_than is None or changed_ms is None or savepoint_id_of(tag.name) is not None:
        return False
    return older_than > _local(changed_ms)


def _local(epoch_ms: int) -> datetime:
    """A moment on the wall clock of this machine, which tags are made by."""
    return datetime.fromtimestamp(epoch_ms / 1000, timezone.utc).astimezone().replace(tzinfo=None)
