"""DELETE by a condition, which can run without Spark, and of whole partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.engine.commit.entries import adds, column, data_changes, where
from paimon_spark.engine.commit.overwrite import ChosenPartitions, Overwritten, check_nothing_appears
from paimon_spark.engine.row_level.deletion import count_rows
from paimon_spark.engine.row_level.job import (
    plan_rows,
    refuse_rows_of_other_branch,
    run_tasks,
)
from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.engine.scan.one_branch import plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks import RowCounts, sum_if_known
from paimon_spark.errors import InvalidInputError, PaimonError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.branch_access import at_head, reopen_to_change, to_change
from paimon_spark.jobs.row_level.write import commit_changes, is_cut_by_spark
from paimon_spark.jobs.write.commit import WriteResult, commit_batch
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, delta_manifests, read_manifests
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.predicate.ast import has_expressions, names_of
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.redaction import get_logger
from paimon_spark.spark_port import active_spark_jobs

if TYPE_CHECKING:
    from paimon_spark.jobs.opened_table import OpenedTable

_LOG = get_logger(__name__)


def delete_rows(table: OpenedTable, where: str) -> WriteResult:
    """As `Table.delete`."""
    table = to_change(table)
    if not isinstance(where, str):
        raise InvalidInputError(
            f"rows of {table.handle.describe()} are deleted by a condition as text, found {where!r}; 'true' means all",
            table=table.name,
        )
    handle = reopen_to_change(table.handle)
    spark = None if any(is_cut_by_spark(f.type) for f in handle.schema.fields) else active_spark_jobs()
    if spark is not None:
        return spark.delete(table, where)
    predicate = parse_predicate(where, handle.schema.row_type, table.read_options.time_zone)
    refuse_rows_of_other_branch(handle, predicate)
    job = plan_rows(handle, predicate, updates=False)
    outcomes = run_tasks(job)
    deleted = RowCounts(deleted=sum_if_known(o.rows for o in outcomes))
    return commit_changes(handle, job.commit_user, job.finish(outcomes), job, "DELETE", deleted)


def delete_partitions(table: OpenedTable, overwritten: Overwritten, operation: str) -> WriteResult:
    """Remove all rows of partitions, or of the table, by one commit that reads no rows.

    `overwritten` is evaluated when the snapshot is made; where chosen partitions are none, no snapshot is made.

    Raises:
        InvalidInputError: a partition is named wrongly, or the table was opened at a version.
        UnsupportedFeatureError: rows of a fallback branch are, or would be, read there.
        CommitError: other commits won every attempt, or it is unknown whether the commit succeeded.
    """
    handle = reopen_to_change(at_head(table))
    handle.check_writable()
    check_nothing_appears(handle, overwritten, data_changes(()))
    if isinstance(overwritten, ChosenPartitions):
        head = latest_snapshot(handle)
        if head is None or not overwritten.choose(live_entries(handle, data_manifests(handle, head))):
            return WriteResult()
    user = new_commit_user(handle.options)
    with commit_batch(handle, user, (), reads_nothing=True) as commit:
        commit.result = commit.committer.overwrite(
            commit.messages,
            commit.identifier,
            partitions=overwritten,
            provenance=commit.provenance,
            operation=operation,
        )
        deleted = sum_if_known(_removed_rows(handle, s) for s in commit.result.snapshots)  # before snapshots expire
    return replace(commit.written, deleted_rows=deleted)


def _removed_rows(handle: TableHandle, snapshot: Snapshot) -> int | None:
    """The rows of the files that a snapshot removed, by metadata; None if it does not say."""
    try:
        entries = read_manifests(handle, delta_manifests(handle, snapshot))
        partitions = set(column(where(entries, ~adds(entries)), "partition").to_pylist())
        if not partitions:
            return 0
        before = find_snapshot(handle, snapshot.id - 1)
        if before is None:  # it has expired
            return None
        plan = plan_branch(handle, before, ScanQuery(columns=()))
        keys = bool(handle.schema.primary_keys)
        return sum_if_known(count_rows(handle.store, s, keys=keys) for s in plan.splits if s.partition in partitions)
    except PaimonError as e:  # the rows are deleted, whatever their number
        _LOG.warning("the rows deleted from %s are not counted: %s", handle.describe(), e)
        return None


def partitions_where(table: OpenedTable, where: str, time_zone: str | None) -> ChosenPartitions | None:
    """The partitions of a table for whose rows `where` is true.

    None when `where` names other columns, or is not a comparison with literals: Spark evaluates it by row then.
    """
    handle = table.handle
    try:
        predicate = parse_predicate(where, handle.schema.row_type, time_zone)
    except PaimonError:
        return None
    names = names_of(predicate)
    if has_expressions(predicate) or not names or not names <= set(handle.schema.partition_keys):
        return None

    def choose(entries: pa.Table) -> list[bytes]:
        partitions = Partitions(handle, column(entries, "partition"))
        hits = partitions.matching(predicate).tolist()
        return [row for row, hit in zip(partitions.row_bytes, hits, strict=True) if hit]

    return ChosenPartitions(choose)
