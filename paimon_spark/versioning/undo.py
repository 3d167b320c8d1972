"""Backup branches, which keep what main lost; undo the newest change that made one.

A merge, fast-forward, replacement or rollback of main keeps a backup. On undo, main gets the history of the backup
branch, as by a fast-forward: what main has beyond it is kept as a new backup, so an undo can be undone. The change also
ends the note that the backup can be undone; after it, the backup is deleted if nothing needs it. A process that is
killed between the two leaves a branch without the note.

Tests: tests/unit/versioning/test_undo.py, test_backups.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

from paimon_spark.advice import REPLACE_MAIN, ROLL_BACK
from paimon_spark.display import ShownAsFacts
from paimon_spark.errors import BranchDivergedError, InvalidInputError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.maintenance.change import change_branch, change_table
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
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.journal.change import DeleteFile, TableChange
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.tags import guarded_branch, is_release_tag
from paimon_spark.redaction import get_logger
from paimon_spark.text import safe
from paimon_spark.versioning.branch_state import BranchState, undo_path
from paimon_spark.versioning.branches import plan_delete
from paimon_spark.versioning.main_change import MainChange, main_change
from paimon_spark.versioning.merge import KIND, REBASE_PROPERTY, REFUSE, check_if_main_moved, merge_change, merge_result
from paimon_spark.versioning.publish import Publication, lost_text, read_publication, with_sink_logs

_LOG = get_logger(__name__)
_UNDO_OF: Final = "undo of the "


@dataclass(frozen=True, slots=True, repr=False)
class Undone(ShownAsFacts):
    """Result of an undo, or of its dry run.

    Attributes:
        operation: what was undone, such as `merge into main of branch 'fix'`.
        restored_from: the backup branch that main was restored from.
        snapshot_id: main's head after it.
        restored_snapshots, restored_tags: on main again.
        discarded_snapshots, discarded_tags, discarded_schemas: no longer on main. Schemas are also those of columns and
            options that were changed after the operation.
        backup_branch: the branch that keeps what was discarded; None when nothing was.
        change: the rows that main loses and gains, by partition.
    """

    operation: str
    restored_from: str
    snapshot_id: int
    restored_snapshots: tuple[int, ...] = ()
    restored_tags: tuple[str, ...] = ()
    discarded_snapshots: tuple[int, ...] = ()
    discarded_tags: tuple[str, ...] = ()
    discarded_schemas: tuple[int, ...] = ()
    backup_branch: str | None = None
    removed: Removed = field(default_factory=Removed)
    change: MainChange | None = None

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed."""
        return self.removed.dry_run

    @property
    def next_step(self) -> str:
        """How to go on after the undo of a publication; empty after others."""
        if not self.operation.startswith(("merge", "fast-forward", "replacement", "release")):
            return ""
        return "correct the branch and publish it again, or undo once more to take this undo back"

    def text_lines(self) -> list[str]:
        would = self.dry_run
        text = f"{'would undo' if would else 'undid'} the {safe(self.operation)}: "
        text += f"main {'would be' if would else 'is'} at snapshot {self.snapshot_id}"
        lost = lost_text(self.discarded_snapshots, self.discarded_tags, self.discarded_schemas)
        if lost and self.backup_branch is not None:
            text += f"; {lost} of main {'would be kept' if would else 'kept'} as branch {safe(self.backup_branch)}"
        rows = [] if self.change is None else self.change.rows_lines(would=would)
        return [text, *rows, *([] if would or not self.next_step else [f"next: {self.next_step}"])]


def undo(
    handle: TableHandle,
    *,
    if_main_moved: str = REFUSE,
    dry_run: bool = False,
    clock_ms: Callable[[], int] = now_ms,
    wait_ms: int = 60_000,
) -> Undone:
    """Undo the newest operation on main that kept a backup.

    When main has commits after that operation other than compactions, `if_main_moved` decides: `refuse` raises
    BranchDivergedError, `replace` keeps them in the new backup with what the operation brought.
    """
    check_if_main_moved(if_main_moved)
    if handle.branch != MAIN:
        raise InvalidInputError(
            f"undo was called on {handle.describe()}, but only operations on main keep backups; call it on the table "
            "opened without a branch",
            **handle.context,
        )
    plans: list[tuple[Backup, UndoNote, Publication]] = []
    rows: list[MainChange] = []

    def plan() -> TableChange:
        main = open_table(handle.store, handle.layout.root, MAIN, handle.name)
        backup, note = _newest(main)
        publication = read_publication(
            main, backup.name, "the undo", snapshot=None, backup=True, now_ms=clock_ms(), takes_back=True
        )
        if if_main_moved == REFUSE:
            check_not_moved_since(publication.main, backup, note, handle.name)
        plans.append((backup, note, publication))
        rows.append(main_change(publication))
        change = merge_change(with_sink_logs(publication), uuid.uuid4().hex[:12], _label(note.operation))
        return replace(change, steps=(*change.steps, DeleteFile(undo_path(backup.name))))

    removed = change_table(handle, KIND, plan, dry_run=dry_run, wait_ms=wait_ms)
    backup, note, publication = plans[-1]
    if not dry_run:
        drop_backup(handle, backup, note, wait_ms)
    done = merge_result(publication, removed)
    return Undone(
        note.operation,
        backup.name,
        done.published_snapshot_id,
        done.moved_snapshots,
        done.moved_tags,
        done.discarded_snapshots,
        done.discarded_tags,
        done.discarded_schemas,
        done.backup_branch,
        removed,
        rows[-1],
    )


def _label(operation: str) -> str:
    """Name of undoing the operation; undoing an undo is called as the operation that it repeats."""
    return operation.removeprefix(_UNDO_OF) if operation.startswith(_UNDO_OF) else f"{_UNDO_OF}{operation}"


def _newest(main: TableHandle) -> tuple[Backup, UndoNote]:
    """The newest backup that an undo may use, with its note. Raises InvalidInputError."""
    for backup in reversed(list_backups(main)):
        note = read_undo_note(main, backup.name)
        if note is None:
            continue
        head = latest_snapshot(main.on_branch_directory(backup.name))
        if head is not None and snapshot_identity(head) != note.kept:
            raise _was_written_to(main, backup.name, note.operation)
        return backup, note
    raise InvalidInputError(
        f"table {main.name} has nothing to undo: no backup branch of a merge, fast-forward, replacement or rollback of "
        f"main is left; {ROLL_BACK} to an earlier snapshot",
        table=main.name,
    )


def find_backup(main: TableHandle, name: str) -> Backup:
    """Backup branch of a name, without later writes. Raises InvalidInputError."""
    for backup in list_backups(main):
        if backup.name != name:
            continue
        note = read_undo_note(main, name)
        head = latest_snapshot(main.on_branch_directory(name))
        if note is not None and head is not None and snapshot_identity(head) != note.kept:
            raise _was_written_to(main, name, note.operation)
        return backup
    raise InvalidInputError(
        f"backup branch {name!r} of table {main.name} is gone: it expired, or was deleted or undone by itself; "
        f"{ROLL_BACK} to an earlier snapshot",
        table=main.name,
        branch=name,
    )


def _was_written_to(main: TableHandle, name: str, operation: str) -> InvalidInputError:
    return InvalidInputError(
        f"the {operation} of table {main.name} cannot be undone: its backup branch {name!r} was "
        f"written to since; fast_forward({name!r}) makes main what that branch is",
        table=main.name,
        branch=name,
    )


def check_not_moved_since(main: BranchState, backup: Backup, note: UndoNote, table: str) -> None:
    """Check that main has no commits after the operation, except compactions, nor tags of users or schemas.

    Raises BranchDivergedError.
    """
    head = main.snapshots.get(note.head[0])
    later = [i for i in sorted(main.snapshots) if i > note.head[0]]
    commits = [i for i in later if main.snapshots[i].snapshot.commit_kind is not CommitKind.COMPACT]
    is_other = head is not None and snapshot_identity(head.snapshot) != note.head
    has_gap = head is None and note.head[0] + 1 not in later
    new_tags = main.tags.keys() - (main.tags.keys() if note.tags is None else note.tags)
    tags = sorted(n for n in new_tags if guarded_branch(n) is None and not is_release_tag(n))
    schemas = [] if note.schema_id is None else sorted(i for i in main.schemas if i > note.schema_id)
    if not (commits or is_other or has_gap or tags or schemas):
        return
    rebased = [i for i in commits if REBASE_PROPERTY in (main.snapshots[i].snapshot.properties or {})]
    if rebased:
        raise BranchDivergedError(
            f"the newest publication on table {table} is a rebase, snapshot {rebased[-1]}, which keeps no backup, so "
            f"the {note.operation} before it was not undone; rollback_to({rebased[-1] - 1}, backup=True) takes the "
            "rebase back, with what came later",
            table=table,
            branch=backup.name,
            snapshot_ids=tuple(commits),
        )
    kinds = (("snapshots", commits), ("tags", tags), ("schemas", schemas))
    found = "; ".join(f"{noun} {', '.join(map(str, names))}" for noun, names in kinds if names) or "another history"
    raise BranchDivergedError(
        f"the {note.operation} of table {table} was not undone: main has moved since ({found}). Pass "
        f"{REPLACE_MAIN} to undo it all the same; what came later is then kept in a backup branch",
        table=table,
        branch=backup.name,
        snapshot_ids=tuple(commits),
        tags=tuple(tags),
        schema_ids=tuple(schemas),
    )


def drop_backup(handle: TableHandle, backup: Backup, note: UndoNote, wait_ms: int) -> None:
    """Delete a backup after its undo, when it has nothing that main lacks, unless something needs it."""

    def plan(main: TableHandle) -> TableChange | None:
        is_there = backup.name in (found.name for found in list_backups(main))
        return plan_delete(main, backup.name) if is_there and not is_needed(main, backup, note) else None

    try:
        change_branch(handle, "delete-branch", plan, wait_ms=wait_ms)
    except InvalidInputError as e:  # an option names it
        _LOG.info("backup branch %r of table %s stays after the undo: %s", backup.name, handle.name, e)


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
