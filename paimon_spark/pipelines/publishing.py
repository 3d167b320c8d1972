"""Publish a pipeline branch as main of all its tables, and undo that.

Each table keeps a backup branch of its former main, also where main loses nothing, so that a release can be undone. On
main each table gets the tag `release-<n>` at its new head: it keeps the versions that belong together readable while
main goes on.

With `refuse`, main loses no commit: the heads are read again between the journals and the decision, and a writer that
finds the journals before the decision ends the publication (`engine.commit.verify`); it is then planned again. Commits
of other engines after the decision go to the backup.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Final

from paimon_spark.advice import REPLACE_MAIN
from paimon_spark.errors import (
    BranchDivergedError,
    InvalidInputError,
    OperationInProgressError,
    TagAlreadyExistsError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot, encode_tag
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.maintenance.change import PlannedTable, change_tables, preview, reopened
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import UndoNote, read_undo_note, snapshot_identity
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import DeleteFile, Put, TableChange
from paimon_spark.metadata.retry import now_ms, retry
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.metadata.tags import find_tag, is_release_tag, release_tag
from paimon_spark.pipelines.records import (
    ReleaseRecord,
    complete,
    release_json,
    release_path,
    reserve_release,
    to_complete,
)
from paimon_spark.versioning.branch_state import Ref, tag_path, undo_path
from paimon_spark.versioning.checks import CheckResult, passed_property
from paimon_spark.versioning.main_change import MainChange, main_change
from paimon_spark.versioning.merge import (
    REFUSE,
    check_head,
    check_if_main_moved,
    check_is_head,
    check_not_moved,
    merge_change,
)
from paimon_spark.versioning.publish import (
    Publication,
    lost_text,
    read_publication,
    with_head_properties,
    with_sink_logs,
)
from paimon_spark.versioning.tag_steps import local_time, new_tag
from paimon_spark.versioning.undo import Backup, both, check_not_moved_since, drop_backup, find_backup

PUBLISH: Final = "publish-pipeline"
UNDO: Final = "undo-release"
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class _Effect:
    """Effect of a release on one table.

    Attributes:
        head: main's head after the release.
        before: main, and its head when this was planned; None where main keeps its history.
        change: what main loses and gains; None where main keeps its history.
        backup: name of the backup branch; None without one.
        lost: what main loses, as text; empty when it loses nothing.
    """

    head: int
    before: tuple[TableHandle, int | None] | None = None
    change: MainChange | None = None
    backup: str | None = None
    lost: str = ""


@dataclass(slots=True, kw_only=True)
class _PlannedRelease(ABC):
    """A release while it is planned: each plan of a table replaces the effect that the one before had found.

    Attributes:
        handles: main of each table.
        may_move: tables to whose main others may commit meanwhile; the backup gets these commits.
        number: of the release; 0 until one is reserved, for the plans that show whether it is refused.
        effects: of the tables planned so far.
        counted: table → the heads of both sides, and what main loses and gains between them.
    """

    handles: Mapping[str, TableHandle]
    may_move: AbstractSet[str]
    clock_ms: Callable[[], int]
    number: int = 0
    effects: dict[str, _Effect] = field(default_factory=dict)
    counted: dict[str, tuple[tuple[object, ...], MainChange]] = field(default_factory=dict)

    @abstractmethod
    def plan(self, table: str) -> TableChange | None:
        """Plan one table, and keep the effect. Called under its lock, and once before without it."""

    @abstractmethod
    def record(self) -> ReleaseRecord:
        """The record of the release, from the effects."""

    def plan_all(self) -> dict[str, TableChange | None]:
        """Plan every table without its lock. Raises every refusal that does not depend on others."""
        return {table: self.plan(table) for table in self.handles}

    @property
    def heads(self) -> dict[str, int]:
        return {table: effect.head for table, effect in self.effects.items()}

    @property
    def mains(self) -> dict[str, tuple[TableHandle, int | None]]:
        """Main and its head before, of the tables whose main gets another history."""
        return {table: effect.before for table, effect in self.effects.items() if effect.before is not None}

    @property
    def backups(self) -> dict[str, str]:
        return {table: effect.backup for table, effect in self.effects.items() if effect.backup is not None}

    @property
    def lost(self) -> dict[str, str]:
        return {table: effect.lost for table, effect in self.effects.items() if effect.lost}

    @property
    def main_changes(self) -> dict[str, MainChange]:
        return {table: effect.change for table, effect in self.effects.items() if effect.change is not None}

    def switch(self, table: str, publication: Publication, label: str) -> TableChange:
        """The change that makes a publication main, with the tag of the release."""
        new_main = publication.new_main
        backup = publication.backup
        tags = [name for name in new_main.discarded_tags if not is_release_tag(name)]
        self.effects[table] = _Effect(
            publication.source.head,
            (publication.handle, publication.main.head or None),
            self._change_of(table, publication),
            backup.directory if backup is not None and backup.snapshots else None,
            lost_text(new_main.discarded_snapshots, tags, new_main.discarded_schemas),
        )
        tag = _tag(publication, self.number, publication.head.snapshot, self.clock_ms())
        state = replace(new_main.state, tags={**new_main.state.tags, release_tag(self.number): tag})
        published = replace(publication, new_main=replace(new_main, state=state))
        return merge_change(with_sink_logs(published), uuid.uuid4().hex[:12], label)

    def _change_of(self, table: str, publication: Publication) -> MainChange:
        """Count losses and gains of main, unless both sides have the heads of the plan before."""
        before = publication.main.snapshots.get(publication.main.head)
        heads = (
            None if before is None else snapshot_identity(before.snapshot),
            snapshot_identity(publication.head.snapshot),
            publication.new_main.fork_id,
        )
        if table not in self.counted or self.counted[table][0] != heads:
            self.counted[table] = heads, main_change(publication)
        return self.counted[table][1]


@dataclass(slots=True, kw_only=True)
class _PlannedPublication(_PlannedRelease):
    """A publication, with arguments of `publish`; `replacing`: tables whose main may have moved since the branch."""

    branches: Mapping[str, str]
    snapshots: Mapping[str, int]
    name: str
    replacing: AbstractSet[str]
    checks: Sequence[CheckResult]
    only_on: Mapping[str, int]
    only_if_main_is: Mapping[str, int]

    def plan(self, table: str) -> TableChange:
        publication = read_publication(
            self.handles[table],
            self.branches[table],
            "the publication",
            snapshot=self.snapshots[table],
            backup=True,
            now_ms=self.clock_ms(),
            always_keep=True,
        )
        if table in self.only_if_main_is:
            check_is_head(publication.handle, self.name, publication.main.head, self.only_if_main_is[table])
        if table in self.only_on:
            check_head(publication, self.only_on[table])
        if publication.changes_nothing:
            return self._tagged(table, publication)
        if table not in self.replacing:
            check_not_moved(publication, in_pipeline=True)
        passed = passed_property([result for result in self.checks if table in result.tables])
        publication = with_head_properties(publication, passed)
        change = self.switch(table, publication, f"release {self.number} of branch {self.name!r}")
        return replace(change, ended_by_commits=table not in self.may_move)

    def _tagged(self, table: str, publication: Publication) -> TableChange:
        """The change of a table whose main has every commit already: only the tag of the release."""
        main = publication.main
        self.effects[table] = _Effect(main.head)
        tag = _tag(publication, self.number, main.snapshots[main.head].snapshot, self.clock_ms())
        path = tag_path(main.directory, release_tag(self.number))
        return TableChange(PUBLISH, f"release {self.number}", (Put(path, tag.text),))

    def record(self) -> ReleaseRecord:
        return ReleaseRecord(
            self.number,
            self.heads,
            self.backups,
            self.name,
            self.clock_ms(),
            tuple(result.name for result in self.checks),
            self.lost,
            changes=self.main_changes,
        )


@dataclass(slots=True, kw_only=True)
class _PlannedUndo(_PlannedRelease):
    """An undo of a release.

    Attributes:
        undone: the release.
        used: the backups that become main.
    """

    undone: ReleaseRecord
    used: dict[str, tuple[Backup, UndoNote]] = field(default_factory=dict)

    def plan(self, table: str) -> TableChange | None:
        main = reopened(self.handles[table])
        if table not in self.undone.backups:
            self.effects[table] = _Effect(self.undone.tables[table])
            return _moved_tag(main, self.undone, self.number)
        backup = find_backup(main, self.undone.backups[table])
        note = read_undo_note(main, backup.name)
        if note is None:
            raise InvalidInputError(
                f"release {self.undone.id} cannot be undone: branch {backup.name!r} of {table} no longer says what it "
                "is a backup of, as it was undone by itself",
                table=table,
            )
        publication = read_publication(
            main, backup.name, "the undo", snapshot=None, backup=True, now_ms=self.clock_ms(), takes_back=True
        )
        if table not in self.may_move:
            check_not_moved_since(publication.main, backup, note, table)
        self.used[table] = backup, note
        change = self.switch(table, publication, f"undo of release {self.undone.id}")
        steps = (*change.steps, DeleteFile(undo_path(backup.name)))
        return replace(change, steps=steps, ended_by_commits=table not in self.may_move)

    def record(self) -> ReleaseRecord:
        return ReleaseRecord(
            self.number,
            self.heads,
            self.backups,
            self.undone.branch,
            self.clock_ms(),
            lost=self.lost,
            undoes=self.undone.id,
            changes=self.main_changes,
        )


def publish(
    warehouse: Warehouse,
    branches: Mapping[str, str],
    handles: Mapping[str, TableHandle],
    *,
    snapshots: Mapping[str, int],
    name: str,
    if_main_moved: str = REFUSE,
    replaced: Collection[str] = (),
    checks: Sequence[CheckResult] = (),
    only_on: Mapping[str, int] | None = None,
    only_if_main_is: Mapping[str, int] | None = None,
    dry_run: bool = False,
    clock_ms: Callable[[], int] = now_ms,
    wait_ms: int = 60_000,
) -> tuple[ReleaseRecord, Removed]:
    """Make a branch of each table its main, all or none.

    Args:
        warehouse: of all tables.
        branches: table → the branch that becomes main.
        handles: main of each table.
        snapshots: table → the snapshot of its branch that becomes main's head, and nothing after it.
        name: of the pipeline branch, for the record.
        if_main_moved: `refuse`, or `replace`, as of `merge_branch`; looked at under the locks of all tables.
        replaced: tables for which it is `replace` in any case.
        checks: results of the checks that these snapshots passed.
        only_on: table → the snapshot that main's head must be, on which the branch was prepared; of some tables.
        only_if_main_is: the same, as a caller demands it.
        dry_run: only return what would be done; the release has number 0.
        clock_ms: epoch milliseconds.
        wait_ms: longest wait for the lock of one table.

    Returns:
        The release; of number 0 where main of all tables has every commit already, so that there is none.

    Raises:
        BranchDivergedError: main of a table has moved, and `if_main_moved` is `refuse`, or has another head than
            demanded; nothing was changed.
        BranchNotFoundError, InvalidInputError: a branch cannot be published.
        OperationInProgressError: another process is changing tags or branches of a table.
        UnsafeDeletionError: what is still needed cannot be determined; nothing was changed.
    """
    check_if_main_moved(if_main_moved)
    replacing = frozenset(replaced if if_main_moved == REFUSE else handles)
    demanded = only_if_main_is or {}
    release = _PlannedPublication(
        handles=handles,
        may_move=replacing - demanded.keys(),
        clock_ms=clock_ms,
        branches=branches,
        snapshots=snapshots,
        name=name,
        replacing=replacing,
        checks=checks,
        only_on=only_on or {},
        only_if_main_is=demanded,
    )
    changes = release.plan_all()
    if dry_run:
        return release.record(), _previewed(handles, changes)
    if not release.mains:
        return release.record(), Removed()
    # Taken last, as numbers are never given back: what is refused takes none.
    release.number = reserve_release(warehouse)
    files = {release_path(warehouse, release.number): release.record}
    removed = _change(warehouse, PUBLISH, release, files, wait_ms)
    return release.record(), removed


def undo_release(
    warehouse: Warehouse,
    undone: ReleaseRecord,
    handles: Mapping[str, TableHandle],
    *,
    if_main_moved: str = REFUSE,
    dry_run: bool = False,
    clock_ms: Callable[[], int] = now_ms,
    wait_ms: int = 60_000,
) -> tuple[ReleaseRecord, Removed]:
    """Give main of each table of a release its former history back, all or none; a release of its own.

    What main loses is kept as a backup branch of each table, so that an undo can be undone.

    Raises:
        BranchDivergedError: main of a table has moved since, and `if_main_moved` is `refuse`; nothing was changed.
        InvalidInputError: a backup is gone or was written to; nothing was changed.
        Others as `publish`.
    """
    check_if_main_moved(if_main_moved)
    may_move = frozenset(() if if_main_moved == REFUSE else handles)
    release = _PlannedUndo(handles=handles, clock_ms=clock_ms, undone=undone, may_move=may_move)
    changes = release.plan_all()
    if dry_run:
        return release.record(), _previewed(handles, changes)
    release.number = number = reserve_release(warehouse)  # as in `publish`
    files = {
        release_path(warehouse, number): release.record,
        release_path(warehouse, undone.id): lambda: replace(undone, undone_by=number),
    }
    removed = _change(warehouse, UNDO, release, files, wait_ms)
    for table, (backup, note) in release.used.items():
        drop_backup(handles[table], backup, note, wait_ms)
    return release.record(), removed


def _previewed(handles: Mapping[str, TableHandle], changes: Mapping[str, TableChange | None]) -> Removed:
    """Removals that the changes would make."""
    previews = [preview(handles[table], change) for table, change in changes.items()]
    return replace(reduce(both, previews, Removed()), dry_run=True)


def _change(
    warehouse: Warehouse,
    kind: str,
    release: _PlannedRelease,
    files: Mapping[str, Callable[[], ReleaseRecord]],
    wait_ms: int,
) -> Removed:
    """Run a release in all tables, and complete it: write `files`, records by their paths.

    After a commit to main of a table that may not move, everything is planned again.
    """
    parts = [PlannedTable(handle, partial(release.plan, table)) for table, handle in release.handles.items()]

    def checked_record() -> dict[str, object]:
        # All journals are written by now. A commit before them shows in the head here; a later one finds the journal
        # and ends the release. So no commit can come between and be lost.
        for table, (main, head) in release.mains.items():
            if table not in release.may_move and latest_snapshot_id(main) != head:
                raise _MainMovedError(table)
        return to_complete({path: release_json(record()) for path, record in files.items()}, warehouse)

    def change() -> tuple[str, Sequence[Removed]]:
        change_id = uuid.uuid4().hex
        return change_id, change_tables(kind, parts, change_id, checked_record, wait_ms=wait_ms)

    def main_moved(e: Exception) -> bool:
        if isinstance(e, OperationInProgressError):
            # With `ended`, a writer ended this release by its commit. Where any commit may come, it was no commit.
            return not release.may_move >= release.handles.keys() and bool(e.context.get("ended"))
        return True

    def exhausted(e: Exception) -> BranchDivergedError:
        table = e.table if isinstance(e, _MainMovedError) else None
        return BranchDivergedError(
            f"nothing was published: main of {table or 'a table'} got new commits in each of {_ATTEMPTS} attempts; "
            f"stop its writers for a moment, or pass {REPLACE_MAIN}",
            table=table,
        )

    failures = (OperationInProgressError, _MainMovedError)
    change_id, removed = retry(change, _ATTEMPTS, on=failures, again=main_moved, exhausted=exhausted)
    complete(warehouse, change_id)
    return reduce(both, removed, Removed())


class _MainMovedError(Exception):
    """Main of a table got commits between its plan and the decision."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table


def _moved_tag(main: TableHandle, undone: ReleaseRecord, number: int) -> TableChange | None:
    """Give the tag of a release that is undone to the undo, in a table that neither changes; None when it expired."""
    tag = find_tag(main, release_tag(undone.id))
    if tag is None:
        return None
    directory = main.layout.directory_branch
    new = tag_path(directory, release_tag(number))
    old = tag_path(directory, release_tag(undone.id))
    return TableChange(UNDO, f"undo of release {undone.id}", (Put(new, encode_tag(tag).decode()), DeleteFile(old)))


def _tag(publication: Publication, number: int, snapshot: Snapshot, time_ms: int) -> Ref:
    """The tag of a release; it lives as long as backups do (`branch.backup.time-retained`), else for ever."""
    name = release_tag(number)
    if name in publication.main.tags or name in publication.source.state.tags:
        raise TagAlreadyExistsError(
            f"{publication.handle.describe()} or its branch has a tag {name!r} already, which release {number} needs; "
            "rename that tag",
            table=publication.handle.name,
            tag=name,
        )
    retained_ms = publication.handle.options.expiry.backup_time_retained_ms
    tag = new_tag(name, snapshot, None if retained_ms is None else retained_ms / 1000, local_time(time_ms))
    return Ref(encode_tag(tag).decode(), snapshot)
