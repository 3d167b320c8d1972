"""DELETE, UPDATE and MERGE of a table: one commit each, run by Spark, or here when a DELETE needs no Spark."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_spark.commit.committer import Committer
from paimon_spark.errors import CommitOutcomeUnknownError, InvalidInputError, PaimonError
from paimon_spark.handoff.commit_message import CommitMessage
from paimon_spark.handoff.read_request import FILE_PATH, ROW_INDEX
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.options.batch_write import ROW_LEVEL_BASE, BatchWriteOptions, WriteMode, canonical_write
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.row_level.job import RowLevelJob, SplitOutcome, in_process, plan_rows, with_commit_user
from paimon_spark.spec.arrow import arrow_schema
from paimon_spark.table.batch_write import WriteJob, WriteResult, place_and_options, plan_write
from paimon_spark.table.level0 import compact_written
from paimon_spark.table.loading import Place
from paimon_spark.table.writing import place_of, refuse_version
from paimon_spark.types import ArrayType, DataType, MapType, MultisetType, RowType, TimestampType

if TYPE_CHECKING:
    from paimon_spark.table.table import Table

_MICROSECONDS: Final = 6
KEEPS: Final = "__paimon_keeps"
"""Column of the rows of a RowLevelWrite: whether a new row is in the table's columns."""


@dataclass(frozen=True, slots=True)
class RowLevelWrite:
    """Rows of an append table that go, and rows that come. Picklable.

    Attributes:
        rows: writes those that come.
        deletes: takes those away that go.
        operation: for the history.
    """

    rows: WriteJob
    deletes: RowLevelJob
    operation: str

    @property
    def handle(self) -> TableHandle:
        return self.rows.handle

    def commit(self, messages: Sequence[CommitMessage], outcomes: Sequence[SplitOutcome]) -> WriteResult:
        """Make the whole change visible at once. Driver. Raises as `WriteJob.commit`; then no file is left."""
        try:
            changed = self.deletes.finish(outcomes)
        except BaseException:
            self.rows.abort(messages)
            raise
        return _commit(self.handle, self.rows.commit_user, [*changed, *messages], self.deletes, self.operation)


def plan_row_level(
    place: Place, options: BatchWriteOptions, source: pa.Schema, operation: str, base_id: int | None = None
) -> RowLevelWrite:
    """The change of rows with the columns of `source`: the table's, and where each old row lies. Driver.

    With `base_id`, the head before the rows were read, whatever changed one of their files since is a conflict.

    Raises as `batch_write.plan_write`, and:
        UnsupportedFeatureError: rows of this table cannot be changed.
    """
    columns = pa.schema([f for f in source if f.name not in (FILE_PATH, ROW_INDEX, KEEPS)])
    if operation == "DELETE":  # no row comes
        columns = arrow_schema(open_table(place.store, place.root, place.branch).schema.fields)
    rows = plan_write(place, options, WriteMode.APPEND, columns)
    deletes = plan_rows(rows.handle, None, updates=operation != "DELETE", base_id=base_id)
    return RowLevelWrite(rows, replace(with_commit_user(deletes, rows.commit_user), job=rows.job), operation)


def plan_path_row_level(options: Mapping[str, str], source: pa.Schema, operation: str) -> RowLevelWrite:
    """The change that option text asks for, as Spark hands it over. Raises as `plan_row_level`."""
    place, asked = place_and_options(options, WriteMode.APPEND)
    return plan_row_level(place, asked, source, operation, ROW_LEVEL_BASE.get(canonical_write(options)))


def delete_rows(table: Table, where: str) -> WriteResult:
    """As `Table.delete`."""
    refuse_version(table)
    if not isinstance(where, str):
        raise InvalidInputError(
            f"rows of {table.handle.describe()} are deleted by a condition as text, found {where!r}; 'true' means all",
            table=table.name,
        )
    handle = _current(table)
    spark = None if any(is_cut_by_spark(f.type) for f in handle.schema.fields) else _spark()
    if spark is not None:
        result: WriteResult = spark.delete(table, where)
        return result
    predicate = parse_predicate(where, handle.schema.row_type, table.read_options.time_zone)
    job = plan_rows(handle, predicate, updates=False)
    return _commit(handle, job.commit_user, in_process(job), job, "DELETE")


def is_cut_by_spark(data_type: DataType) -> bool:
    """Whether Spark, which knows microseconds, would see other values than the table has."""
    match data_type:
        case TimestampType():
            return data_type.precision > _MICROSECONDS
        case ArrayType() | MultisetType():
            return is_cut_by_spark(data_type.element)
        case MapType():
            return is_cut_by_spark(data_type.key) or is_cut_by_spark(data_type.value)
        case RowType():
            return any(is_cut_by_spark(f.type) for f in data_type)
    return False


def update_rows(table: Table, where: str | None, values: Mapping[str, str]) -> WriteResult:
    """As `Table.update`."""
    refuse_version(table)
    result: WriteResult = _spark_module().update(table, where, values)
    return result


def merge_rows(table: Table, source: Any, on: str, clauses: Mapping[str, Any]) -> WriteResult:
    """As `Table.merge`."""
    refuse_version(table)
    result: WriteResult = _spark_module().merge(table, source, on, **clauses)
    return result


def _current(table: Table) -> TableHandle:
    place = place_of(table, BatchWriteOptions())
    return open_table(place.store, place.root, place.branch, place.name, table.handle.overrides)


def _spark_module() -> ModuleType:
    # pyspark belongs to paimon_spark.spark, above this package: importing it by name keeps the layers apart.
    return importlib.import_module("paimon_spark.spark.row_level")


def _spark() -> ModuleType | None:
    """The module that runs things in Spark, when this process has a session."""
    if "pyspark.sql" not in sys.modules:
        return None
    module = _spark_module()
    return module if module.active_session() is not None else None


def _commit(
    handle: TableHandle, commit_user: str, messages: Sequence[CommitMessage], job: RowLevelJob, operation: str
) -> WriteResult:
    committer = Committer(handle, commit_user)
    planned_on = 0 if job.base is None else job.base.id
    try:
        made = committer.commit(messages, planned_on=planned_on, operation=operation).snapshot_ids
    except CommitOutcomeUnknownError:
        raise
    except PaimonError:
        committer.abort(messages)
        raise
    return WriteResult((*made, *compact_written(handle, commit_user, messages, made)))
