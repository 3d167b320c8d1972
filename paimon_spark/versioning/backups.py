"""Backup branches, which keep what main lost: list them, and delete old ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from paimon_spark.errors import InvalidInputError
from paimon_spark.maintenance.change import change_branch
from paimon_spark.maintenance.consumers import consumer_names
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import (
    Fork,
    UndoNote,
    is_backup_name,
    is_main,
    list_branch_names,
    read_fork,
    read_undo_note,
    recorded_forks,
    snapshot_identity,
)
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import TableChange
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.versioning.branches import plan_delete


class Backup(NamedTuple):
    """A backup branch.

    Attributes:
        created_ms: when main lost what it keeps, epoch milliseconds.
    """

    name: str
    created_ms: int
    fork: Fork


def list_backups(handle: TableHandle) -> list[Backup]:
    """The backup branches, oldest first. Those renamed by users are ordinary branches."""
    found = []
    for name in list_branch_names(handle):
        fork = read_fork(handle.on_branch_directory(name)) if is_backup_name(name) else None
        if fork is not None and fork.created_ms is not None:
            found.append(Backup(name, fork.created_ms, fork))
    return sorted(found, key=lambda backup: (backup.created_ms, backup.name))


def may_expire_backups(handle: TableHandle, clock_ms: Callable[[], int] = now_ms) -> bool:
    """Whether `expire_backups` may find something. Without option `branch.backup.time-retained` nothing is read."""
    return bool(_old(handle, clock_ms()))


def expire_backups(
    handle: TableHandle, *, dry_run: bool = False, wait_ms: int = 60_000, clock_ms: Callable[[], int] = now_ms
) -> Removed:
    """Delete backup branches older than option `branch.backup.time-retained` of main, unless something needs them.

    A backup is needed while it has consumers, was written to, has branches created from it, or is read beside another
    branch.
    """
    now = clock_ms()
    done = Removed()
    for backup in _old(handle, now):

        def plan(current: TableHandle, name: str = backup.name) -> TableChange | None:
            return _deletion(current, name) if any(b.name == name for b in _old(current, now)) else None

        done = both(done, change_branch(handle, "delete-branch", plan, dry_run=dry_run, wait_ms=wait_ms))
    return done


def _old(handle: TableHandle, now_ms: int) -> list[Backup]:
    """The backups that are old enough and not needed. Raises CorruptFileError."""
    retained_ms = handle.options.expiry.backup_time_retained_ms
    if retained_ms is None or not is_main(handle):
        return []
    old = [b for b in list_backups(handle) if now_ms - b.created_ms > retained_ms]
    return [b for b in old if not is_needed(handle, b, read_undo_note(handle, b.name))]


def is_needed(handle: TableHandle, backup: Backup, note: UndoNote | None) -> bool:
    """Whether the backup was written to, is main, or has consumers or branches. Raises CorruptFileError."""
    on_branch = handle.on_branch_directory(backup.name)
    is_parent = any(fork.parent == backup.name for _, fork in recorded_forks(handle))
    return _was_written(on_branch, backup, note) or is_parent or is_main(on_branch) or bool(consumer_names(on_branch))


def _was_written(on_branch: TableHandle, backup: Backup, note: UndoNote | None) -> bool:
    head = latest_snapshot(on_branch)
    if head is None:
        return False
    # Clocks of writers may differ, so times are compared only where no head is recorded.
    return head.time_ms > backup.created_ms if note is None else snapshot_identity(head) != note.kept


def _deletion(handle: TableHandle, name: str) -> TableChange | None:
    """The deletion of a backup; None when another branch is read beside it."""
    try:
        return plan_delete(handle, name)
    except InvalidInputError:
        return None


def both(first: Removed, second: Removed) -> Removed:
    """Removals of two operations together."""
    return Removed(*(_sum(getattr(first, f.name), getattr(second, f.name)) for f in fields(Removed)))


def _sum(first: Any, second: Any) -> Any:
    return first or second if first is None or isinstance(first, str | bool) else first + second
