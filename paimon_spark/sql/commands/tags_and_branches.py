"""Run statements on tags and branches, and SHOW TAGS, BRANCHES, SAVEPOINTS and SNAPSHOTS.

A branch begins with the head of the branch it is created on, as in Iceberg; `CALL sys.create_branch` without a tag
creates an empty one, as in Paimon.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import BranchNotFoundError, TagNotFoundError, UnsupportedFeatureError
from paimon_spark.sql.commands.target import on_table
from paimon_spark.sql.grammar.tags_and_branches import (
    CreateBranch,
    CreateTag,
    DropBranch,
    DropTags,
    PublishBranch,
    Refs,
    RenameRef,
    ShowRefs,
)
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Result
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from paimon_spark.api.table import Table

PUBLISHED: Final = (
    "published_snapshot_id BIGINT, discarded_snapshots ARRAY<BIGINT>, backup_branch STRING, already_merged BOOLEAN"
)
"""The columns of PUBLISH BRANCH, as DDL."""


def _on_opened_table(command: Callable[[Session, Table, Any], Result]) -> Callable[[Session, Any], Result]:
    """Decorate a command as `on_table`; it gets the table opened with the session's options."""
    return on_table(lambda session, name, statement: command(session, session.table_to_change(name), statement))


@_on_opened_table
def create_tag(_: Session, table: Table, statement: CreateTag) -> None:
    """Tag a version of any branch. Raises as `Table.create_tag` and `Table.replace_tag`."""
    chosen = _chosen(statement.version)
    if statement.replace:
        try:
            table.replace_tag(statement.tag, time_retained=statement.retained, **chosen)
        except TagNotFoundError:
            pass
        else:
            return
    table.create_tag(
        statement.tag, time_retained=statement.retained, ignore_if_exists=statement.if_not_exists, **chosen
    )


@_on_opened_table
def drop_tags(_: Session, table: Table, statement: DropTags) -> None:
    """Delete tags, all or none. Raises as `Table.delete_tag`."""
    names = statement.tags
    if statement.if_exists:
        existing = {tag.name for tag in table.tags(include_internal=True)}
        names = tuple(name for name in names if name in existing)
    if names:
        table.delete_tag(names)


@_on_opened_table
def create_branch(_: Session, table: Table, statement: CreateBranch) -> None:
    """Create a branch that begins with a version of any branch. Raises as `Table.create_branch`.

    Raises UnsupportedFeatureError: the statement gives a retention, or replaces an existing branch.
    BranchNotFoundError: REPLACE BRANCH names a missing one.
    """
    _refuse_retention(table, statement)
    branch, exists = statement.branch, any(b.name == statement.branch for b in table.branches())
    if exists and statement.replace:
        raise UnsupportedFeatureError(
            f"branch {branch!r} of {table.handle.describe()} exists and cannot be replaced; drop it first: ALTER TABLE "
            f"{table.name} DROP BRANCH {quoted(branch)}, or take it back to an earlier version: "
            f"CALL sys.rollback('{table.name}$branch_{branch}', …)",
            feature="REPLACE BRANCH",
        )
    if statement.must_exist:
        table.branch(branch)  # raises the error that names similar ones
    if exists and statement.if_not_exists:
        return
    table.create_branch(
        branch, tag=statement.tag, ignore_if_exists=statement.if_not_exists, **_chosen(statement.version)
    )


@_on_opened_table
def drop_branch(_: Session, table: Table, statement: DropBranch) -> None:
    """Delete a branch. Raises as `Table.delete_branch`."""
    try:
        table.delete_branch(statement.branch)
    except BranchNotFoundError:
        if not statement.if_exists:
            raise


@_on_opened_table
def rename_ref(_: Session, table: Table, statement: RenameRef) -> None:
    """Rename a tag or branch. Raises as `Table.rename_tag` and `Table.rename_branch`."""
    (table.rename_tag if statement.is_tag else table.rename_branch)(statement.old, statement.new)


@_on_opened_table
def publish_branch(session: Session, table: Table, statement: PublishBranch) -> Result:
    """Make the history of main that of the branch; a backup keeps what main loses.

    Raises as `Table.fast_forward` and `Table.merge_branch`.
    """
    done = (table.fast_forward if statement.takes_back else table.merge_branch)(statement.branch)
    row = (done.published_snapshot_id, list(done.discarded_snapshots), done.backup_branch, done.already_merged)
    return session.rows(PUBLISHED, [row])


def _chosen(version: int | str | None) -> dict[str, Any]:
    """The argument of `Table.create_tag` for a snapshot id, or the text of a version."""
    return {"snapshot_id": version} if isinstance(version, int) else {"version": version}


_UNITS: Final = {"MINUTES": "min", "HOURS": "h", "DAYS": "d"}


def _retention_options(text: str) -> str:
    """Table options with the numbers of Iceberg's `RETAIN 30 DAYS WITH SNAPSHOT RETENTION 5 SNAPSHOTS 2 DAYS`."""
    pairs = list(pairwise(text.upper().split()))
    times = [f"{count} {_UNITS[unit]}" for count, unit in pairs if unit in _UNITS and count.isdigit()]
    counts = [count for count, unit in pairs if unit == "SNAPSHOTS" and count.isdigit()]
    options = [f"'snapshot.time-retained' = '{time}'" for time in times[-1:]]
    options += [f"'snapshot.num-retained.min' = '{count}'" for count in counts]
    return ", ".join(options) or "'snapshot.time-retained' = '…'"


def _refuse_retention(table: Table, statement: CreateBranch) -> None:
    if statement.retention:
        raise UnsupportedFeatureError(
            f"branch {statement.branch!r} of table {table.name}: {' '.join(statement.retention.split())!r} is not "
            "supported: a branch lives until it is dropped. Leave it out; table options set how long its snapshots "
            f"live: ALTER TABLE {table.name}$branch_{statement.branch} SET TBLPROPERTIES "
            f"({_retention_options(statement.retention)})",
            feature="branch retention",
        )


@_on_opened_table
def show_refs(session: Session, table: Table, statement: ShowRefs) -> Result:
    """List tags, branches, savepoints or snapshots; the system table of the same name has more columns."""
    match statement.what:
        case Refs.TAGS:  # as Paimon's ShowTagsExec
            return session.rows("tag STRING NOT NULL", [(name,) for name in sorted(t.name for t in table.tags())])
        case Refs.BRANCHES:
            branches = [(b.name, b.created_from_tag, b.created_from_snapshot_id) for b in table.branches()]
            return session.rows("branch STRING NOT NULL, tag STRING, snapshot_id BIGINT", branches)
        case Refs.SAVEPOINTS:
            return session.rows("savepoint_id BIGINT NOT NULL", [(s.id,) for s in table.savepoints()])
    snapshots = [(s.id, s.commit_kind.value, s.commit_user, s.total_record_count) for s in table.snapshots()]
    return session.rows(
        "snapshot_id BIGINT NOT NULL, commit_kind STRING, commit_user STRING, record_count BIGINT", snapshots
    )
