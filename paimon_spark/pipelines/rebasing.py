"""Publish a pipeline branch on top of main of its tables.

Tables whose main has moved are rebased each on a branch of main's head; these branches, and those of the other tables,
become main together. Where others commit to a table before that is decided, only that table is rebased again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from paimon_spark.advice import REPLACE_MAIN, REPLACE_TABLE
from paimon_spark.errors import BranchDivergedError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase import StagedRebase, no_checked_dry_run, rebase, staged_rebase
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.maintenance.change import reopened
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.pipelines.publishing import publish
from paimon_spark.pipelines.records import ReleaseRecord
from paimon_spark.versioning.checks import CheckResult
from paimon_spark.versioning.main_change import MainChange
from paimon_spark.versioning.merge import REPLACE, check_is_head

Check: TypeAlias = Callable[[Mapping[str, tuple[str, int]]], list[CheckResult]]
"""Checks tables at a branch and snapshot each. Raises CheckFailedError."""
"""What a rebase of one table is advised instead; of several it would replace main of all."""
_ATTEMPTS: Final = 20
"""How often commits to main may come first."""


def publish_rebased(
    warehouse: Warehouse,
    tables: Mapping[str, OpenedTable],
    *,
    snapshots: Mapping[str, int],
    name: str,
    on_conflict: str,
    replaced: Collection[str] = (),
    check: Check | None,
    only_if_main_is: Mapping[str, int] | None = None,
    dry_run: bool = False,
) -> tuple[ReleaseRecord, Removed]:
    """Put the changes of a branch of each table on top of its main, all or none.

    Args:
        warehouse: of all tables.
        tables: main of each table.
        snapshots: table → the snapshot of its branch up to which it is published.
        name: of the branch of each table.
        on_conflict: as of `Table.merge_branch`.
        replaced: tables whose main becomes the branch as it is.
        check: of the rows that are published; None for no checks.
        only_if_main_is: as of `publish`.
        dry_run: only return what would be done; the release has number 0.

    Raises:
        BranchDivergedError: a rebase found conflicts, or main of a table moved in each attempt; nothing was changed.
        UnsupportedFeatureError: a table cannot be rebased; nothing was changed.
        Others as `publish`.
    """
    demanded = only_if_main_is or {}
    _check_heads(tables, name, demanded)
    if dry_run:
        return _preview(warehouse, tables, snapshots, name, on_conflict, replaced, check)
    handles = {table: main.handle for table, main in tables.items()}
    checked: tuple[Mapping[str, tuple[str, int]], list[CheckResult]] | None = None
    with ExitStack() as stack:
        staged: dict[str, _Staged] = {}
        for left in reversed(range(_ATTEMPTS)):
            _check_heads(tables, name, demanded)
            for table, main in tables.items():
                if table in staged and staged[table].is_on_head_of(main):
                    continue
                if table in staged:
                    staged[table].stack.close()
                own = stack.enter_context(ExitStack())
                if table in replaced:
                    staged[table] = _Staged(own, None)
                    continue
                rebased = staged_rebase(main, name, snapshot=snapshots[table], on_conflict=on_conflict)
                with _refusing(table):
                    staged[table] = _Staged(own, own.enter_context(rebased))
            made = {table: found.made for table, found in staged.items()}
            versions = {
                table: (name, snapshots[table]) if found is None else (found.branch, found.head)
                for table, found in made.items()
            }
            if checked is None or checked[0] != versions:
                checked = versions, [] if check is None else check(versions)
            try:
                with ExitStack() as records:
                    for found in made.values():
                        if found is not None:
                            records.enter_context(found.recorded())
                    released = publish(
                        warehouse,
                        {table: branch for table, (branch, _) in versions.items()},
                        handles,
                        snapshots={table: snapshot for table, (_, snapshot) in versions.items()},
                        name=name,
                        replaced=replaced,
                        checks=checked[1],
                        only_on={table: found.base for table, found in made.items() if found is not None},
                        only_if_main_is=demanded,
                    )
                for found in made.values():
                    if found is not None:
                        found.keep()
                return released
            except BranchDivergedError:
                if not left:
                    raise
    raise AssertionError("the last attempt returns or raises")


def _check_heads(tables: Mapping[str, OpenedTable], name: str, demanded: Mapping[str, int]) -> None:
    """Check that main of each table is at the snapshot that is demanded. Raises BranchDivergedError."""
    for table, head in demanded.items():
        main = reopened(tables[table].handle)
        check_is_head(main, name, latest_snapshot_id(main) or 0, head)


@contextmanager
def _refusing(table: str) -> Iterator[None]:
    """Say in refusals of a rebase that main of this table alone can be replaced, as of no other one."""
    try:
        yield
    except (BranchDivergedError, InvalidInputError, UnsupportedFeatureError) as e:
        here = REPLACE_TABLE.of(name=table)
        message = e.message.replace(f"{REPLACE_MAIN}, so that main", f"{here}, so that main of this table alone")
        message = message.replace(REPLACE_MAIN.python, here)
        if here not in message:
            message = f"{message}; or pass {here}, so that main of this table alone becomes the branch"
        raise type(e)(message, **e.context) from None


class _Staged(NamedTuple):
    """Rebase of one table, and the deletion of its branch; without `made`, main becomes the branch itself."""

    stack: ExitStack
    made: StagedRebase | None

    def is_on_head_of(self, main: OpenedTable) -> bool:
        """Whether it need not be made again."""
        return self.made is not None and latest_snapshot_id(reopened(main.handle)) == self.made.base


def _preview(
    warehouse: Warehouse,
    tables: Mapping[str, OpenedTable],
    snapshots: Mapping[str, int],
    name: str,
    on_conflict: str,
    replaced: Collection[str],
    check: Check | None,
) -> tuple[ReleaseRecord, Removed]:
    if check is not None:
        raise no_checked_dry_run()
    heads, changes = {}, {}
    for table, main in tables.items():
        if table not in replaced:
            with _refusing(table):
                made = rebase(main, name, snapshot=snapshots[table], on_conflict=on_conflict, dry_run=True)
            heads[table] = made.published_snapshot_id + (made.rebased_rows is not None)
            if made.rebased_rows is not None:
                changes[table] = MainChange(snapshots_gained=1, rebased_rows=made.rebased_rows)
            elif made.change is not None:
                changes[table] = made.change
    handles = {table: main.handle for table, main in tables.items() if table in replaced}
    record, removed = publish(
        warehouse,
        dict.fromkeys(handles, name),
        handles,
        snapshots={table: snapshots[table] for table in handles},
        name=name,
        if_main_moved=REPLACE,
        dry_run=True,
    )
    heads |= record.tables
    changes |= record.changes
    found = {table: changes[table] for table in tables if table in changes}
    return replace(record, tables={table: heads[table] for table in tables}, changes=found), removed
