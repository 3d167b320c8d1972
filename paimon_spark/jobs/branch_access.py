"""Open branches for jobs: to change them, at their head, or as they are defined now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from paimon_spark.engine.commit.verify import REPLACING
from paimon_spark.errors import BranchNotFoundError, InvalidInputError, OperationInProgressError, PaimonError
from paimon_spark.jobs.opened_table import LackedBranch, OpenedTable, on_branch
from paimon_spark.maintenance.change import change_table, recover
from paimon_spark.metadata.branches import list_branch_names
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.metadata.version import Cutoff, cutoff_ms
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.location import CREATE_BRANCH
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import Store
from paimon_spark.versioning.branch_state import STAGING_PREFIX
from paimon_spark.versioning.branches import create_branch

T = TypeVar("T", bound=OpenedTable)
_LOG = get_logger(__name__)


def open_to_change(
    store: Store,
    root: str,
    branch: str = MAIN,
    name: str | None = None,
    overrides: Mapping[str, str] | None = None,
) -> TableHandle:
    """Open a branch to change it, after finishing an operation on its refs that a dead process left.

    Raises:
        OperationInProgressError: other operations keep replacing the history of main.
        Others as `open_table`.
    """
    handle = open_table(store, root, branch, name, overrides)
    is_staged = branch == MAIN and (handle.layout.main_branch or "").startswith(STAGING_PREFIX)
    finished = None
    try:
        finished = recover(handle, wait_ms=60_000 if is_staged else 0)
    except OperationInProgressError:
        if is_staged:
            raise
    except PaimonError as e:
        if is_staged:
            raise
        _LOG.warning("an unfinished operation on the refs of table %s is not completed: %s", handle.name, e)
    return open_table(store, root, branch, name, overrides) if is_staged or finished else handle


def reopen_to_change(handle: TableHandle, options: Mapping[str, str] | None = None) -> TableHandle:
    """Open a branch again to change it, as it is now, with more table options. Raises as `open_to_change`."""
    overrides = {**handle.overrides, **(options or {})}
    return open_to_change(handle.store, handle.layout.root, handle.branch, handle.name, overrides)


def alter_exclusively(handle: TableHandle, act: Callable[[], None]) -> None:
    """Change the branch's definition while no other operation replaces its history.

    Operations that only add or remove refs, such as a long expiry, may run meanwhile.

    Raises:
        OperationInProgressError: other operations keep replacing the history.
        Others as `act` and `change_table`.
    """
    try:
        change_table(handle, "alter", act, wait_ms=0)
    except OperationInProgressError as e:
        if e.context.get("operation") in REPLACING:
            change_table(handle, "alter", act)
        else:
            act()


def to_change(table: T) -> T:
    """The table on the branch that a change of it goes to, which is created first where the session asks for that.

    Raises as `refuse_version` and `create_branch`; BranchNotFoundError: the table lacks the branch of the session.
    """
    refuse_version(table)
    return on_session_branch(table)


def on_session_branch(table: T) -> T:
    """As `to_change`, for tables opened at any version."""
    lacked = table.lacked
    if lacked is None:
        return table
    if not lacked.creates:
        raise lacks_branch(table.handle, lacked)
    is_empty = latest_snapshot_id(table.handle) is None
    create_branch(table.handle, lacked.name, empty=is_empty, ignore_if_exists=True)
    return on_branch(table, lacked.name)


def lacks_branch(handle: TableHandle, lacked: LackedBranch) -> BranchNotFoundError:
    """The error of a change of a table that lacks the branch of the session."""
    names = list_branch_names(handle)
    near = did_you_mean(lacked.name, names) or f"; its branches are {', '.join([MAIN, *names])}."
    return BranchNotFoundError(
        f"table {handle.name} is not changed: it has no branch {lacked.name!r}, which {lacked.set_by} names{near} To "
        f"change main, write `{handle.name}$branch_main` or unset {lacked.set_by}; to create the branch from main's "
        f"head, set {CREATE_BRANCH} = true beside it",
        table=handle.name,
        branch=lacked.name,
    )


def at_head(table: OpenedTable) -> TableHandle:
    """The branch that a table is opened on, to change it. Raises as `to_change`."""
    return to_change(table).handle


def head_to_read(table: OpenedTable) -> TableHandle:
    """The branch that a table is opened on, to read it. Raises as `refuse_version`."""
    refuse_version(table)
    return table.handle


def reopen_at_head(table: OpenedTable, options: Mapping[str, str] | None = None) -> TableHandle:
    """The branch that a table is opened on, as it is defined now, with more table options, to change it.

    Raises as `to_change` and `open_table`.
    """
    return _reopened(at_head(table), options)


def reopen_to_read(table: OpenedTable, options: Mapping[str, str] | None = None) -> TableHandle:
    """As `reopen_at_head`, to read the branch. Raises as `refuse_version` and `open_table`."""
    return _reopened(head_to_read(table), options)


def _reopened(handle: TableHandle, options: Mapping[str, str] | None) -> TableHandle:
    overrides = {**handle.overrides, **(options or {})}
    return open_table(handle.store, handle.layout.root, handle.branch, handle.name, overrides)


def older_than_ms(table: OpenedTable, older_than: Cutoff | None) -> int | None:
    """The argument `older_than` of a method of a table, in epoch milliseconds. Raises InvalidInputError."""
    return None if older_than is None else cutoff_ms(older_than, "older_than", table.read_options.time_zone)


def refuse_system_table(table: OpenedTable) -> None:
    """Raise InvalidInputError for a system table, which is only read."""
    if table.is_system:
        raise InvalidInputError(
            f"{table.name} is a system table, which is only read; open table {table.handle.name} itself",
            table=table.handle.name,
        )


def refuse_version(table: OpenedTable) -> None:
    """Raise InvalidInputError for a system table, and for a table opened at a version."""
    refuse_system_table(table)
    version = table.read_options.version_text
    if version is not None:
        raise InvalidInputError(
            f"{table.handle.describe()} was opened at version {version!r}, which never changes and is only read; open "
            "it without a version, or open a branch that was made from it",
            table=table.name,
            version=version,
        )
