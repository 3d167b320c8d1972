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
from paimon_spark.lineage.warehouse import Warehouse
from paimon_spark.maintenance.change import PlannedTable, change_tables, preview, reopened
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import UndoNote, read_undo_note, snapshot_identity
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Delete, Put, TableChange
from paimon_spark.metadata.retry import now_ms
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
from paimon_spark.versioning.backups import Backup, both
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
from paimon_spark.versioning.undo import check_not_moved_since, drop_backup, find_backup

PUBLISH: Final = "publish-pipeline"
UNDO: Final = "undo-release"
_ATTEMPTS: Final = 5


@dataclass(slots=True)
class _Planned:
    """Findings of a change's plans, by table.

    Attributes:
        heads: main's head after the change.
        before: main, and its head when the change was planned; of tables whose main gets another history.
        backups: names of the backup branches.
        lost: what main loses, as text; of tables that lose something.
        changes: what main loses and gains, with the heads of both sides that it was computed for.
    """

    heads: dict[str, int] = field(default_factory=dict)
    before: dict[str, tuple[TableHandle, int | None]] = field(default_factory=dict)
    backups: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    changes: dict[str, tuple[tuple[object, ...], MainChange]] = field(default_factory=dict)

    def change_of(self, table: str, publication: Publication) -> None:
        """Compute what main of a table loses and gains, unless that is known from an attempt before."""
        before = publication.main.snapshots.get(publication.main.head)
        heads = (
            None if before is None else snapshot_identity(before.snapshot),
            snapshot_identity(publication.head.snapshot),
            publication.new_main.fork_id,
        )
        if table not in self.changes or self.changes[table][0] != heads:
            self.changes[table] = heads, main_change(publication)

    def found_changes(self) -> dict[str, MainChange]:
        """Losses and gains of main, for each table that gets another history."""
        return {table: self.changes[table][1] for table in self.before if table in self.changes}


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
    number = 0
    planned = _Planned()
    replacing = frozenset(replaced if if_main_moved == REFUSE else handles)
    demanded = only_if_main_is or {}
    may_move = replacing - demanded.keys()

    def plan(table: str) -> TableChange:
        publication = read_publication(
            handles[table],
            branches[table],
            "the publication",
            snapshot=snapshots[table],
            backup=True,
            now_ms=clock_ms(),
            always_keep=True,
        )
        if table in demanded:
            check_is_head(publication.handle, name, publication.main.head, demanded[table])
        if only_on and table in only_on:
            check_head(publication, only_on[table])
        if publication.changes_nothing:
            planned.heads[table] = publication.main.head
            planned.before.pop(table, None)
            head = publication.main.snapshots[publication.main.head].snapshot
            tag = _tag(publication, number, head, clock_ms())
            path = tag_path(publication.main.directory, release_tag(number))
            return TableChange(PUBLISH, f"release {number}", (Put(path, tag.text),))
        if table not in replacing:
            check_not_moved(publication, in_pipeline=True)
        passed = passed_property([result for result in checks if table in result.tables])
        publication = with_head_properties(publication, passed)
        label = f"release {number} of branch {name!r}"
        change = _switch(publication, number, planned, table, label, clock_ms())
        return replace(change, ended_by_commits=table not in may_move)

    def record() -> ReleaseRecord:
        passed = tuple(result.name for result in checks)
        lost = dict(planned.lost)
        return ReleaseRecord(
            number,
            dict(planned.heads),
            dict(planned.backups),
            name,
            clock_ms(),
            passed,
            lost,
            changes=planned.found_changes(),
        )

    changes = {table: plan(table) for table in handles}  # refusals come before a number is taken
    if not planned.before and not dry_run:
        return record(), Removed()
    if dry_run:
        return record(), _previewed(handles, changes)
    number = reserve_release(warehouse)
    files = {release_path(warehouse, number): record}
    removed = _change(warehouse, PUBLISH, handles, plan, planned, files, may_move=may_move, wait_ms=wait_ms)
    return record(), removed


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
    number = 0
    planned = _Planned()
    used: dict[str, tuple[Backup, UndoNote]] = {}

    def plan(table: str) -> TableChange | None:
        main = reopened(handles[table])
        if table not in undone.backups:
            planned.heads[table] = undone.tables[table]
            return _moved_tag(main, undone, number)
        backup = find_backup(main, undone.backups[table])
        note = read_undo_note(main, backup.name)
        if note is None:
            raise InvalidInputError(
                f"release {undone.id} cannot be undone: branch {backup.name!r} of {table} no longer says what it is a "
                "backup of, as it was undone by itself",
                table=table,
            )
        publication = read_publication(
            main, backup.name, "the undo", snapshot=None, backup=True, now_ms=clock_ms(), takes_back=True
        )
        if if_main_moved == REFUSE:
            check_not_moved_since(publication.main, backup, note, table)
        used[table] = backup, note
        label = f"undo of release {undone.id}"
        change = _switch(publication, number, planned, table, label, clock_ms())
        steps = (*change.steps, Delete(undo_path(backup.name)))
        return replace(change, steps=steps, ended_by_commits=if_main_moved == REFUSE)

    def record() -> ReleaseRecord:
        return ReleaseRecord(
            number,
            dict(planned.heads),
            dict(planned.backups),
            undone.branch,
            clock_ms(),
            lost=dict(planned.lost),
            undoes=undone.id,
            changes=planned.found_changes(),
        )

    changes = {table: plan(table) for table in handles}  # refusals come before a number is taken
    if dry_run:
        return record(), _previewed(handles, changes)
    number = reserve_release(warehouse)
    files = {
        release_path(warehouse, number): record,
        release_path(warehouse, undone.id): lambda: replace(undone, undone_by=number),
    }
    may_move = frozenset(() if if_main_moved == REFUSE else handles)
    removed = _change(warehouse, UNDO, handles, plan, planned, files, may_move=may_move, wait_ms=wait_ms)
    for table, (backup, note) in used.items():
        drop_backup(handles[table], backup, note, wait_ms)
    return record(), removed


def _previewed(handles: Mapping[str, TableHandle], changes: Mapping[str, TableChange | None]) -> Removed:
    """Removals that the changes would make."""
    previews = [preview(handles[table], change) for table, change in changes.items()]
    return replace(reduce(both, previews, Removed()), dry_run=True)


def _change(
    warehouse: Warehouse,
    kind: str,
    handles: Mapping[str, TableHandle],
    plan: Callable[[str], TableChange | None],
    planned: _Planned,
    files: Mapping[str, Callable[[], ReleaseRecord]],
    *,
    may_move: AbstractSet[str],
    wait_ms: int,
) -> Removed:
    """Run a change of all tables, and complete it.

    `may_move`: tables whose backup gets the commits that others make to main meanwhile; after those to other tables
    everything is planned again.
    """
    parts = [PlannedTable(handle, partial(plan, table)) for table, handle in handles.items()]

    def decided() -> dict[str, object]:
        for table, (main, head) in planned.before.items():
            if table not in may_move and latest_snapshot_id(main) != head:
                raise _MainMovedError(table)
        return to_complete({path: release_json(record()) for path, record in files.items()}, warehouse)

    table: str | None = None
    for _ in range(_ATTEMPTS):
        change_id = uuid.uuid4().hex
        try:
            removed = change_tables(kind, parts, change_id, decided, wait_ms=wait_ms)
        except OperationInProgressError as e:
            if may_move >= handles.keys() or not e.context.get("ended"):
                raise
            table = None
        except _MainMovedError as e:
            table = e.table
        else:
            complete(warehouse, change_id)
            return reduce(both, removed, Removed())
    raise BranchDivergedError(
        f"nothing was published: main of {table or 'a table'} got new commits in each of {_ATTEMPTS} attempts; stop "
        f"its writers for a moment, or pass {REPLACE_MAIN}",
        table=table,
    )


class _MainMovedError(Exception):
    """Main of a table got commits between its plan and the decision."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table


def _switch(
    publication: Publication, number: int, planned: _Planned, table: str, label: str, time_ms: int
) -> TableChange:
    """The change that makes the publication main, with the tag of the release."""
    planned.heads[table] = publication.source.head
    planned.before[table] = publication.handle, publication.main.head or None
    planned.change_of(table, publication)
    if publication.backup is not None and publication.backup.snapshots:
        planned.backups[table] = publication.backup.directory
    done = publication.new_main
    tags = [name for name in done.discarded_tags if not is_release_tag(name)]
    lost = lost_text(done.discarded_snapshots, tags, done.discarded_schemas)
    planned.lost.pop(table, None)
    if lost:
        planned.lost[table] = lost
    tagged = _tag(publication, number, publication.head.snapshot, time_ms)
    state = publication.new_main.state
    state = replace(state, tags={**state.tags, release_tag(number): tagged})
    published = replace(publication, new_main=replace(done, state=state))
    return merge_change(with_sink_logs(published), uuid.uuid4().hex[:12], label)


def _moved_tag(main: TableHandle, undone: ReleaseRecord, number: int) -> TableChange | None:
    """Give the tag of a release that is undone to the undo, in a table that neither changes; None when it expired."""
    tag = find_tag(main, release_tag(undone.id))
    if tag is None:
        return None
    directory = main.layout.directory_branch
    new = tag_path(directory, release_tag(number))
    old = tag_path(directory, release_tag(undone.id))
    return TableChange(UNDO, f"undo of release {undone.id}", (Put(new, encode_tag(tag).decode()), Delete(old)))


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
