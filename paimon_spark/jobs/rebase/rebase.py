"""Rebase: put what a branch changed since the fork on top of main, as one commit.

Tables with a primary key are compared by key, from the fork to the branch's head and from the fork to main's. The rows
that the branch changed are written to main; a key that both changed to different rows is a conflict. Of append tables
the rows of files that the branch added are written to main, and files that it removed are removed.

Where the rows are checked first, the commit is made on a branch of main's head, and then on main too, as it is, by an
ordinary commit that demands this head. Where main of several tables changes together, these branches become main.

The commit says in a property which snapshot of the branch it holds, so that the next rebase begins there. Java's
`Snapshot.Operation` has no rebase, so that the operation is WRITE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import Adopt
from paimon_spark.errors import (
    BranchDivergedError,
    BranchNotFoundError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    InvalidInputError,
    PaimonError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.jobs.branch_access import at_head
from paimon_spark.jobs.opened_table import OpenedTable, on_branch
from paimon_spark.jobs.rebase.commit import unchanged
from paimon_spark.jobs.rebase.files import rebase_files
from paimon_spark.jobs.rebase.keys import rebase_keys
from paimon_spark.jobs.rebase.sides import Sides, check_alike, find_sides
from paimon_spark.jobs.upkeep.after_commit import after_commit
from paimon_spark.jobs.upkeep.compaction import compact_batch
from paimon_spark.jobs.write.target import SchemaChanges, undo_changes, with_changes
from paimon_spark.maintenance.change import change_branch
from paimon_spark.metadata.branches import fork_of, is_main, list_branch_names, same_snapshot
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import get_snapshots, latest_snapshot
from paimon_spark.options.descriptor import check_choice
from paimon_spark.redaction import get_logger
from paimon_spark.versioning.branches import check_branch_exists, create_branch, delete_branch
from paimon_spark.versioning.merge import CONFLICTS, FAIL, MergeResult, main_moved, merge_branch
from paimon_spark.versioning.names import is_rebase_name, rebase_name
from paimon_spark.versioning.publish import head_to_publish, read_publication

_LOG = get_logger(__name__)
_ATTEMPTS: Final = 10
_CHECKED_ATTEMPTS: Final = 5
"""Attempts in which others commit to main while the rows are checked."""
_LEFT_BEHIND_MS: Final = 24 * 60 * 60 * 1000
"""Age from which on the branch of a rebase is taken for that of a dead process."""

Check: TypeAlias = Callable[[str, int | str | None], tuple[int | str | None, Mapping[str, str]]]
"""Checks the rows of a branch at a snapshot, or at its head; returns the snapshot, and properties that it gets."""


@dataclass(frozen=True, slots=True)
class StagedRebase:
    """A rebase that was made on a branch of main's head, for main to become that branch.

    Attributes:
        branch: its name.
        base: main's head, from which it was created.
        head: its own head.
        result: of the rebase.
        schema: of the branch.
        changes: of main's schema that lead to it.
        recorded: what makes main get it, so that later rebases know of it.
        keep: keeps its snapshots once main has it.
    """

    branch: str
    base: int
    head: int
    result: MergeResult
    schema: TableSchema
    changes: SchemaChanges
    recorded: Callable[[], AbstractContextManager[None]]
    keep: Callable[[], None]


def rebase(
    table: OpenedTable,
    name: str,
    target: str = MAIN,
    *,
    snapshot: int | str | None = None,
    on_conflict: str = FAIL,
    check: Check | None = None,
    dry_run: bool = False,
) -> MergeResult:
    """Put the changes of a branch on top of main, as `Table.merge_branch`; a plain merge where main has not moved.

    `target`: the branch that gets them.
    """
    table = table if target == MAIN else on_branch(table, target)
    for attempt in range(1, _ATTEMPTS + 1):
        sides = _find_sides(table, name, snapshot, on_conflict, onto_main=target == MAIN)
        try:
            if sides is None:
                pinned, properties = (snapshot, {}) if check is None else check(name, snapshot)
                return _merge(table, name, snapshot=pinned, dry_run=dry_run, properties=properties)
            if check is None:
                return _make(table, sides, on_conflict, dry_run=dry_run)
            return _make_checked(table, sides, on_conflict, check, dry_run=dry_run)
        except _MainMovedError as e:
            if attempt >= _CHECKED_ATTEMPTS:
                raise e.error from None
        except CommitConflictError as e:  # others changed main, or this branch was rebased, meanwhile
            if sides is None:
                raise
            if attempt == _ATTEMPTS:
                raise CommitConflictError(
                    f"{sides.what} was not rebased: other commits to {sides.onto} came first in each of {_ATTEMPTS} "
                    f"attempts; stop its writers for a moment. The last time: {e.message}",
                    table=table.name,
                    branch=name,
                ) from e
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def staged_rebase(
    table: OpenedTable, name: str, *, snapshot: int | str | None = None, on_conflict: str = FAIL
) -> Iterator[StagedRebase | None]:
    """Make a rebase on a branch of main's head, which is deleted in the end.

    None where main has not moved, so that a merge of the branch itself will do. Raises as `Table.merge_branch`.
    """
    sides = _find_sides(table, name, snapshot, on_conflict)
    if sides is None:
        yield None
        return
    with _staged(table, sides, on_conflict) as staged:
        yield staged


def no_checked_dry_run() -> UnsupportedFeatureError:
    """The error of a dry run of a rebase with checks."""
    return UnsupportedFeatureError(
        "checks of a rebase need its rows, which a dry run does not write; leave out dry_run or the checks",
        feature="dry runs of a rebase with checks",
    )


class _MainMovedError(Exception):
    """Main got other commits after a rebase was made, and before main became it."""

    def __init__(self, error: BranchDivergedError) -> None:
        super().__init__(error.message)
        self.error = error


def _merge(table: OpenedTable, branch: str, **arguments: Any) -> MergeResult:
    """As `merge_branch`. Raises _MainMovedError instead of BranchDivergedError."""
    try:
        return merge_branch(at_head(table), branch, **arguments)
    except BranchDivergedError as e:
        raise _MainMovedError(e) from e


def _make_checked(table: OpenedTable, sides: Sides, on_conflict: str, check: Check, *, dry_run: bool) -> MergeResult:
    if dry_run:
        raise no_checked_dry_run()
    with _staged(table, sides, on_conflict) as staged:
        _, properties = check(staged.branch, staged.head)
        made: list[int] = []
        # Under the lock, so that nobody deletes the branch before main needs its files. Commits go on meanwhile.
        with staged.recorded():
            change_branch(at_head(table), "rebase", lambda main: made.extend(_adopt(main, staged, properties)))
    sides.keep(made)
    after_commit(at_head(table), made, wrote_rows=bool(made))
    return replace(staged.result, published_snapshot_id=made[-1] if made else staged.base)


def _adopt(main: TableHandle, staged: StagedRebase, properties: Mapping[str, str]) -> Iterator[int]:
    """Commit the snapshots of a rebase to main, with more properties; yield their ids.

    Raises _MainMovedError: main's head is another one than the rebase was made on; nothing was committed.
    """
    check_branch_exists(main, staged.branch)
    before, *snapshots = get_snapshots(open_branch(main, staged.branch), range(staged.base, staged.head + 1))
    main, is_altered = _altered(main, staged)
    first: Snapshot | None = None
    for snapshot in snapshots:
        committer = Committer(main, snapshot.commit_user, may_repeat=False)
        try:
            committer.make(Adopt(snapshot=snapshot, only_on=before, properties=properties))
        except (CommitConflictError, CommitRetriesExhaustedError) as e:
            if first is None:
                if is_altered:
                    undo_changes(main)
                raise _MainMovedError(main_moved(main, staged.branch, staged.base)) from e
            # Only compactions follow the commit of the rows.
            yield from compact_batch(main, first.commit_user, first)
            return
        yield snapshot.id
        first, before = first or snapshot, snapshot


def _altered(main: TableHandle, staged: StagedRebase) -> tuple[TableHandle, bool]:
    """Main with the schema of the branch, and whether it is made now. Raises _MainMovedError: main has got another."""
    if not staged.changes:
        return main, False
    try:
        altered, is_made = with_changes(main.with_schema(staged.schema), staged.changes)
    except CommitConflictError as e:
        raise _MainMovedError(main_moved(main, staged.branch, staged.base)) from e
    if altered.schema.id != staged.schema.id:
        if is_made:
            undo_changes(altered)
        raise _MainMovedError(main_moved(main, staged.branch, staged.base))
    return altered, is_made


@contextmanager
def _staged(table: OpenedTable, sides: Sides, on_conflict: str) -> Iterator[StagedRebase]:
    main = at_head(table)
    _delete_left_behind(main)
    branch = rebase_name(now_ms())
    create_branch(main, branch)  # of the head, with all schemas
    try:
        on = replace(sides, main=open_branch(sides.main, branch))
        base = latest_snapshot(on.main)
        assert base is not None
        result = _make(on_branch(table, branch), on, on_conflict, dry_run=False)
        head = latest_snapshot(on.main)
        assert head is not None
        yield StagedRebase(
            branch,
            base.id,
            head.id,
            replace(result, published_snapshot_id=head.id),
            on.schema,
            on.merged.changes,
            lambda: sides.recorded(base, _MainMovedError),
            lambda: sides.keep([base.id + 1] if head.id > base.id else []),
        )
    except CommitOutcomeUnknownError:
        raise  # main may need its files
    except BaseException:
        _delete(main, branch)
        raise
    _delete(main, branch)


def _delete_left_behind(main: TableHandle) -> None:
    """Delete the branches of rebases whose processes died."""
    for name in filter(is_rebase_name, list_branch_names(main)):
        fork = fork_of(main.on_branch_directory(name))
        if fork is not None and fork.created_ms is not None and now_ms() - fork.created_ms > _LEFT_BEHIND_MS:
            _delete(main, name)


def _delete(main: TableHandle, branch: str) -> None:
    try:
        delete_branch(main, branch)
    except BranchNotFoundError:
        return
    except PaimonError as e:
        _LOG.warning("branch %r of table %s, on which a rebase was made, is left: %s", branch, main.name, e)


def _find_sides(
    table: OpenedTable, name: str, snapshot: int | str | None, on_conflict: str, *, onto_main: bool = True
) -> Sides | None:
    """The versions to compare; None where the branch is for main, which has not moved."""
    check_choice("on_conflict", on_conflict, CONFLICTS)
    handle = at_head(table)
    if not onto_main and not is_main(handle):
        check_branch_exists(handle, name)
        on_branch = open_branch(handle, name)
        if on_branch.layout.directory_branch == handle.layout.directory_branch:
            raise InvalidInputError(
                f"branch {name!r} of table {handle.name} cannot be rebased onto itself; name two branches",
                table=handle.name,
                branch=name,
            )
        return find_sides(handle, name, head_to_publish(on_branch, name, snapshot, "the rebase").id)
    publication = read_publication(handle, name, "the rebase", snapshot=snapshot, backup=False, now_ms=0)
    if publication.changes_nothing or not publication.main_has_moved:
        return None
    return find_sides(handle, name, publication.source.head)


def _make(table: OpenedTable, sides: Sides, on_conflict: str, *, dry_run: bool) -> MergeResult:
    """Commit the changes of the branch to the branch that the table and `sides.main` are opened on."""
    check_alike(sides)
    if same_snapshot(sides.base.snapshot, sides.theirs.snapshot):
        return unchanged(sides, dry_run=dry_run)
    make = rebase_keys if sides.main.schema.primary_keys else rebase_files
    return make(table, sides, on_conflict, dry_run=dry_run)
