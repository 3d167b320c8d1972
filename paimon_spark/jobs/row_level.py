"""DELETE, UPDATE and MERGE, one commit each; a DELETE can run without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.entries import adds, column, data_changes, where
from paimon_spark.engine.commit.overwrite import ChosenPartitions, Overwritten, check_nothing_appears
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.row_level.changed_rows import ChangedRows
from paimon_spark.engine.row_level.deletion import count_rows
from paimon_spark.engine.row_level.job import (
    RowLevelJob,
    SplitOutcome,
    plan_rows,
    refuse_rows_of_other_branch,
    run_tasks,
)
from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.engine.scan.one_branch import plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks.commit_message import UNKNOWN_ROWS, CommitMessage, RowCounts, sum_if_known
from paimon_spark.engine.tasks.split import FILE_PATH, ROW_INDEX
from paimon_spark.errors import FormatError, InvalidInputError, InvalidOptionError, PaimonError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.json_files import json_value
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.batch_write import WriteJob, place_and_options, plan_write
from paimon_spark.jobs.branch_access import at_head, reopen_to_change, to_change
from paimon_spark.jobs.commit import WriteResult, commit_batch
from paimon_spark.jobs.lineage_port import CommitLineage
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, delta_manifests, read_manifests
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.options.write_request import ROW_LEVEL_BASE, ROW_LEVEL_COLUMNS, WriteMode, canonical_write
from paimon_spark.predicate.ast import has_expressions, names_of
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.redaction import get_logger
from paimon_spark.spark_port import active_spark_jobs
from paimon_spark.types import DataType, is_finer_than_spark, types_in

if TYPE_CHECKING:
    from paimon_spark.jobs.lineage_port import TaskIdentity
    from paimon_spark.jobs.opened_table import OpenedTable

_LOG = get_logger(__name__)

KEEPS: Final = "__paimon_keeps"
"""Column of the rows of a RowLevelWrite: whether a new row is in the table's columns."""
OLD_ROW_ID: Final = "__paimon_row_id"
"""Column of the rows of a RowLevelWrite to a table that tracks rows: the id of the old row."""


@dataclass(frozen=True, slots=True)
class MergeClauses:
    """The clauses of `Table.merge`, where they are documented."""

    when_matched_update: Mapping[str, str] | str | None = None
    when_matched_condition: str | None = None
    when_matched_delete: str | None = None
    when_not_matched_insert: Mapping[str, str] | str | None = None
    when_not_matched_condition: str | None = None
    when_not_matched_by_source_delete: str | None = None


@dataclass(frozen=True, slots=True)
class RowLevelWrite:
    """A change of rows of an append table: new rows, deleted rows, and the operation's name. Picklable.

    Attributes:
        columns: those that are set, of tables with data evolution, whose changed rows stay where they are; else None.
    """

    rows: WriteJob
    deletes: RowLevelJob
    operation: str
    columns: tuple[str, ...] | None = None

    @property
    def handle(self) -> TableHandle:
        return self.rows.handle

    def changed_rows(self, number: int) -> ChangedRows:
        """A writer of the new rows of the task `number`. Executor."""
        return ChangedRows(self.rows.task.numbered(2 * len(self.deletes.splits) + number, shares_buckets=True))

    def commit(
        self,
        messages: Sequence[CommitMessage],
        outcomes: Sequence[SplitOutcome],
        run: TaskIdentity | None = None,
        rows: RowCounts = UNKNOWN_ROWS,
    ) -> WriteResult:
        """Commit new and deleted rows together; `rows` counts them.

        Driver. Raises as `commit_batch`, and then removes all files.
        """
        try:
            changed = self.deletes.finish(outcomes)
        except BaseException:
            self.rows.abort(messages)
            raise
        job = self.rows.with_changes([*changed, *messages])
        return _commit(
            job.handle,
            job.commit_user,
            [*changed, *messages],
            self.deletes,
            self.operation,
            rows,
            run=run,
            write_id=job.options.write_id,
            undo=job.undo,
        )


def plan_path_row_level(options: Mapping[str, str], source: pa.Schema, operation: str) -> RowLevelWrite:
    """The change that option text asks for, as Spark hands it over. Driver.

    `source` has the table's columns, or for an UPDATE with data evolution those that it sets, and the position of each
    old row. With option `ROW_LEVEL_BASE`, the head before the rows were read, a later change of one of their files is a
    conflict.

    Raises as `batch_write.plan_write`, and:
        UnsupportedFeatureError: rows of this table cannot be changed.
    """
    place, asked = place_and_options(options, WriteMode.APPEND)
    columns = pa.schema([f for f in source if f.name not in (FILE_PATH, ROW_INDEX, KEEPS, OLD_ROW_ID)])
    handle = open_table(place.store, place.root, place.branch)
    if operation == "DELETE" or (operation == "UPDATE" and handle.options.data_evolution):  # there are no new rows
        given = {f.name: f for f in columns}
        columns = pa.schema([given.get(f.name, f) for f in arrow_schema(handle.schema.fields)])
    rows = plan_write(place, asked, WriteMode.APPEND, columns)
    base_id = ROW_LEVEL_BASE.get(canonical_write(options))
    deletes = plan_rows(rows.handle, None, updates=operation != "DELETE", base_id=base_id)
    deletes = replace(deletes, commit_user=rows.commit_user, job=rows.job)
    changed = _changed_columns(ROW_LEVEL_COLUMNS.get(canonical_write(options)) or "[]")
    return RowLevelWrite(rows, deletes, operation, changed if rows.handle.options.data_evolution else None)


def _changed_columns(text: str) -> tuple[str, ...]:
    """The names in an option. Raises InvalidOptionError."""
    key = ROW_LEVEL_COLUMNS.key
    try:
        names = json_value(text)
    except FormatError as e:
        raise InvalidOptionError(f"option {key} is not JSON: {e}", option=key) from e
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidOptionError(f"option {key} is not a JSON list of names", option=key)
    return tuple(names)


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
    return _commit(handle, job.commit_user, job.finish(outcomes), job, "DELETE", deleted)


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
    deleted: int | None = 0

    def publish(committer: Committer, messages: Sequence[CommitMessage], lineage: CommitLineage) -> CommitResult:
        nonlocal deleted
        made = committer.overwrite(
            messages,
            lineage.identifier,
            partitions=overwritten,
            provenance=lineage.properties,
            operation=operation,
        )
        deleted = sum_if_known(_removed_rows(handle, s) for s in made.snapshots)  # before snapshots expire
        return made

    result = commit_batch(handle, user, (), publish, reads_nothing=True)
    return replace(result, deleted_rows=deleted)


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


def is_cut_by_spark(data_type: DataType) -> bool:
    """Whether Spark, whose timestamps have microseconds, would truncate values of the type."""
    return any(is_finer_than_spark(t) for t in types_in(data_type))


def _commit(
    handle: TableHandle,
    commit_user: str,
    messages: Sequence[CommitMessage],
    job: RowLevelJob,
    operation: str,
    rows: RowCounts = UNKNOWN_ROWS,
    *,
    run: TaskIdentity | None = None,
    write_id: str | None = None,
    undo: Callable[[], None] = lambda: None,
) -> WriteResult:
    def publish(committer: Committer, messages: Sequence[CommitMessage], lineage: CommitLineage) -> CommitResult:
        return committer.commit(
            messages,
            lineage.identifier,
            planned_on=PlannedOn.of(job.base, must_remain=True),
            provenance=lineage.properties,
            operation=operation,
        )

    return commit_batch(
        handle,
        commit_user,
        messages,
        publish,
        run=run,
        reads_nothing=operation == "DELETE",
        rows=rows,
        write_id=write_id,
        undo=undo,
    )
