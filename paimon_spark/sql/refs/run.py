"""What statements on tags and branches do, by the verbs of Table.

A branch begins with the head of the one it is made on, as in Iceberg; `CALL sys.create_branch` without a tag makes an
empty one, as in Paimon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from paimon_spark.errors import (
    BranchNotFoundError,
    InvalidInputError,
    TagNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.jobs.branch_access import opened_anew
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.version import text_version
from paimon_spark.sql.refs.statements import (
    CreateBranch,
    CreateTag,
    DropBranch,
    DropTags,
    PublishBranch,
    RefStatement,
    RenameBranch,
    RenameTag,
)
from paimon_spark.sql.session import Session
from paimon_spark.sql.subject import subject
from paimon_spark.sql.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from paimon_spark.api.table import Table


class _Verb(Protocol):
    """Does a statement on a table of the catalog."""

    def __call__(self, session: Session, table: Table, statement: Any, /) -> DataFrame | None: ...


def on_table(verb: _Verb) -> Callable[[Session, RefStatement], DataFrame | None]:
    """A runner that opens the statement's table; of a table of Spark's it gives NotImplemented."""

    def run(session: Session, statement: RefStatement) -> Any:
        name = subject(session, statement.table)
        if name is None:
            return NotImplemented
        return verb(session, session.table_to_change(name), statement)

    return run


def create_tag(_: Session, table: Table, statement: CreateTag) -> None:
    """Tag a version of the branch. Raises as `Table.create_tag` and `Table.replace_tag`."""
    snapshot_id = _snapshot_of_branch(table, statement.version)
    if statement.replace:
        try:
            table.replace_tag(statement.tag, snapshot_id=snapshot_id, time_retained=statement.retained)
        except TagNotFoundError:
            pass
        else:
            return
    table.create_tag(
        statement.tag,
        snapshot_id=snapshot_id,
        time_retained=statement.retained,
        ignore_if_exists=statement.if_not_exists,
    )


def drop_tags(_: Session, table: Table, statement: DropTags) -> None:
    """Delete tags, all or none. Raises as `Table.delete_tag`."""
    names = statement.tags
    if statement.if_exists:
        there = {tag.name for tag in table.tags()}
        names = tuple(name for name in names if name in there)
    if names:
        table.delete_tag(names)


def rename_tag(_: Session, table: Table, statement: RenameTag) -> None:
    """Raises as `Table.rename_tag`."""
    table.rename_tag(statement.old, statement.new)


def create_branch(_: Session, table: Table, statement: CreateBranch) -> None:
    """Make a branch that begins with a version of any branch. Raises as `Table.create_branch`.

    Raises:
        UnsupportedFeatureError: it shall live for some time, or an existing one shall begin elsewhere.
    """
    _refuse_retention(table, statement)
    branch, exists = statement.branch, any(b.name == statement.branch for b in table.branches())
    if exists and statement.replace:
        raise UnsupportedFeatureError(
            f"branch {branch!r} of {table.handle.describe()} is there, and no statement puts a branch elsewhere; drop "
            f"it first: ALTER TABLE {table.name} DROP BRANCH {quoted(branch)}, or go back on it to an earlier version: "
            f"CALL sys.rollback('{table.name}$branch_{branch}', …)",
            feature="REPLACE BRANCH",
        )
    if exists and statement.if_not_exists:
        return
    start, tag, snapshot_id = _beginning(table, statement)
    start.create_branch(branch, tag=tag, snapshot_id=snapshot_id, ignore_if_exists=statement.if_not_exists)


def drop_branch(_: Session, table: Table, statement: DropBranch) -> None:
    """Raises as `Table.delete_branch`."""
    try:
        table.delete_branch(statement.branch)
    except BranchNotFoundError:
        if not statement.if_exists:
            raise


def rename_branch(_: Session, table: Table, statement: RenameBranch) -> None:
    """Raises as `Table.rename_branch`."""
    table.rename_branch(statement.old, statement.new)


def publish_branch(session: Session, table: Table, statement: PublishBranch) -> DataFrame:
    """Make main what the branch is; what main loses is kept, and said. Raises as `Table.merge_branch`."""
    done = (table.fast_forward if statement.takes_back else table.merge_branch)(statement.branch)
    row = (done.published_snapshot_id, list(done.discarded_snapshots), done.backup_branch, done.already_merged)
    columns = "published_snapshot_id BIGINT, discarded_snapshots ARRAY<BIGINT>, backup_branch STRING"
    return session.rows(f"{columns}, already_merged BOOLEAN", [row])


def _beginning(table: Table, statement: CreateBranch) -> tuple[Table, str | None, int | None]:
    """The branch that a new one leaves, and its tag or snapshot to begin with; neither where it has no snapshot."""
    if statement.tag is not None:
        return table, statement.tag, None
    if isinstance(statement.version, int):
        return table, None, statement.version
    found = _resolved(table, statement.version)
    start = table if found.handle.branch == table.branch_name else table.branch(found.handle.branch)
    if found.tag is not None:
        return start, found.tag, None
    return start, None, None if found.snapshot is None else found.snapshot.id


def _snapshot_of_branch(table: Table, version: int | str | None) -> int | None:
    """The snapshot of the table's branch that a version means; None is the head."""
    if not isinstance(version, str):
        return version
    found = _resolved(table, version)
    if found.handle.branch != table.branch_name:
        raise InvalidInputError(
            f"version {version!r} is on branch {found.handle.branch!r}, and a tag of {table.handle.describe()} is of "
            f"a snapshot of its own; tag it there: ALTER TABLE {table.name}$branch_{found.handle.branch} CREATE TAG …",
            table=table.name,
            branch=table.branch_name,
            version=version,
        )
    return None if found.snapshot is None else found.snapshot.id


def _resolved(table: Table, version: str | None) -> Resolved:
    return resolve(opened_anew(table), None if version is None else text_version(version))


def _refuse_retention(table: Table, statement: CreateBranch) -> None:
    if statement.retention:
        raise UnsupportedFeatureError(
            f"branch {statement.branch!r} of table {table.name}: {' '.join(statement.retention.split())!r} cannot be "
            "kept to: a branch lives until it is dropped. Leave the words out; how long its snapshots live is said by "
            f"table options: ALTER TABLE {table.name}$branch_{statement.branch} SET TBLPROPERTIES "
            "('snapshot.time-retained' = '7 d', 'snapshot.num-retained.min' = '10')",
            feature="branch retention",
        )
