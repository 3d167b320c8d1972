"""Checks of tables: of one at a version, and of what is about to be published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paimon_spark.jobs.opened_table import OpenedTable, at_version, on_branch
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.version import text_version
from paimon_spark.spark_port import spark_jobs
from paimon_spark.versioning.checks import check_given, passed_property, refuse_failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.jobs.rebase import Check
    from paimon_spark.versioning.checks import CheckResult, Checks


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


def checks_of_rebase(table: OpenedTable, branch: str, checks: Checks | None) -> Check | None:
    """What checks the rows that a rebase of `branch` would publish; None for no checks."""
    if checks is None:
        return None
    return lambda staged, snapshot: checked(table, staged, snapshot, checks, branch)


def checked_versions(
    checks: Checks, tables: Mapping[str, Any], session: SparkSession | None = None
) -> list[CheckResult]:
    """Run checks on tables opened at versions; as `Table.check`."""
    return spark_jobs().run_checks(check_given(checks), tables, session)
