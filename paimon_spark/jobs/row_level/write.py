"""RowLevelWrite: new and deleted rows of a DELETE, UPDATE or MERGE, by one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.row_level.changed_rows import ChangedRows
from paimon_spark.engine.row_level.job import (
    RowLevelJob,
    SplitOutcome,
    plan_rows,
)
from paimon_spark.engine.tasks import FILE_PATH, ROW_INDEX, UNKNOWN_ROWS, CommitMessage, RowCounts
from paimon_spark.errors import FormatError, InvalidOptionError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.json_files import json_value
from paimon_spark.jobs.write.batch import WriteJob, place_and_options, plan_write
from paimon_spark.jobs.write.commit import WriteResult, commit_batch
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.options.write_request import ROW_LEVEL_BASE, ROW_LEVEL_COLUMNS, WriteMode, canonical_write
from paimon_spark.types import DataType, is_finer_than_spark, types_in

if TYPE_CHECKING:
    from paimon_spark.jobs.lineage_port import TaskIdentity

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
        return commit_changes(
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

    Raises as `plan_write`, and:
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


def commit_changes(
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
    """Commit new, deleted and changed rows. Driver. Arguments and errors as of `commit_batch`."""
    with commit_batch(
        handle,
        commit_user,
        messages,
        run=run,
        reads_nothing=operation == "DELETE",
        rows=rows,
        write_id=write_id,
        undo=undo,
    ) as commit:
        commit.result = commit.committer.commit(
            commit.messages,
            commit.identifier,
            planned_on=PlannedOn.of(job.base, must_remain=True),
            provenance=commit.provenance,
            operation=operation,
        )
    return commit.written


def is_cut_by_spark(data_type: DataType) -> bool:
    """Whether Spark, whose timestamps have microseconds, would truncate values of the type."""
    return any(is_finer_than_spark(t) for t in types_in(data_type))
