"""Checks of tables: of one at a version, and of what is about to be published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paimon_spark.jobs.branch_access import at_head
from paimon_spark.jobs.opened_table import OpenedTable, at_version, on_branch
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.snapshots import latest_snapshot_id
from paimon_spark.metadata.version import text_version
from paimon_spark.spark_port import spark_jobs
from paimon_spark.versioning.checks import check_given, passed_property, refuse_failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.versioning.checks import CheckResult, Checks
    from paimon_spark.versioning.merge import MergeResult


def checked(
    table: OpenedTable, branch: str, snapshot: int | str | None, checks: Checks | None, what: str | None = None
) -> tuple[int | str | None, Mapping[str, str]]:
    """The snapshot to publish, pinned and checked where there are checks; and its properties.

    `what` is the branch in messages, where it is not `branch`.
    """
    if checks is None:
        return snapshot, {}
    on = on_branch(table, branch)
    found = resolve(on.handle, None if snapshot is None else text_version(str(snapshot))).snapshot
    if found is None:
        return snapshot, {}  # a branch without snapshots is refused by the merge
    results = checked_versions(checks, {table.name: at_version(on, f"snapshot.{found.id}")})
    refuse_failed(results, f"branch {(what or branch)!r} of {table.name} was not published")
    return (found.id if snapshot is None else snapshot), passed_property(results)


def rebased(
    table: OpenedTable,
    branch: str,
    target: str,
    snapshot: int | str | None,
    on_conflict: str,
    checks: Checks | None,
    only_if_main_is: int | None,
    *,
    dry_run: bool,
) -> MergeResult:
    """Rebase a branch, as `Table.merge_branch`.

    With `only_if_main_is`, the rebase is made on a branch of main's head, as for checks; the commit demands that main
    still has this head, and is made again on another one, which is then refused.
    """
    from paimon_spark.jobs.rebase.rebase import rebase
    from paimon_spark.versioning.merge import check_is_head, main_moved, merge_branch
    from paimon_spark.versioning.publish import read_publication

    def check_head() -> None:
        if only_if_main_is is not None:
            check_is_head(at_head(table), branch, latest_snapshot_id(at_head(table)) or 0, only_if_main_is)

    def check(staged: str, version: int | str | None) -> tuple[int | str | None, Mapping[str, str]]:
        found = checked(table, staged, version, checks, branch)
        check_head()
        if only_if_main_is is not None and staged == branch:  # another process merged it, or took main back, meanwhile
            raise main_moved(at_head(table), branch, only_if_main_is)
        return found

    check_head()
    if only_if_main_is is not None:
        main = read_publication(at_head(table), branch, "the rebase", snapshot=snapshot, backup=False, now_ms=0)
        if main.changes_nothing or not main.main_has_moved:
            snapshot, properties = checked(table, branch, snapshot, checks)
            return merge_branch(
                at_head(table),
                branch,
                snapshot=snapshot,
                only_if_main_is=only_if_main_is,
                dry_run=dry_run,
                properties=properties,
            )
    is_staged = checks is not None or (only_if_main_is is not None and not dry_run)
    return rebase(
        table,
        branch,
        target,
        snapshot=snapshot,
        on_conflict=on_conflict,
        check=check if is_staged else None,
        dry_run=dry_run,
    )


def checked_versions(
    checks: Checks, tables: Mapping[str, Any], session: SparkSession | None = None
) -> list[CheckResult]:
    """Run checks on tables opened at versions; as `Table.check`."""
    return spark_jobs().run_checks(check_given(checks), tables, session)
