"""WriteJob: one batch write, from the plan to its snapshot; and Table.write.

plan_write (driver) → WriteJob → write (one or many tasks) → CommitMessages → commit, or abort (driver).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_spark import progress
from paimon_spark.catalogs.file_system import TablePlace
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.overwrite import NamedPartitions, Overwritten, PresentPartitions, WholeTable
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.engine.write.input import padded_keys
from paimon_spark.engine.write.request import WriteRequest, new_job, remove_job_files
from paimon_spark.errors import InvalidInputError, PaimonError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.branch_access import to_change
from paimon_spark.jobs.opened_table import find_place, refuse_location_options, required_path
from paimon_spark.jobs.partition_specs import partition_values
from paimon_spark.jobs.write.commit import WriteResult, commit_batch, removing_on_failure
from paimon_spark.jobs.write.target import check_appends, open_target, undo_changes, undo_creation, with_changes
from paimon_spark.jobs.write.tasks import TaskWrite, existing_keys
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.location import MAIN
from paimon_spark.options.scan import BRANCH
from paimon_spark.options.write_request import (
    BatchWriteOptions,
    WriteMode,
    canonical_write,
    parse_batch_write_options,
    write_mode,
)
from paimon_spark.spark_port import spark_jobs
from paimon_spark.types import RowType

if TYPE_CHECKING:
    from paimon_spark.jobs.lineage_port import TaskIdentity
    from paimon_spark.jobs.opened_table import OpenedTable
    from paimon_spark.metadata.definition.schema_changes import SchemaChange


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One batch write. Picklable; its tasks need only `task`.

    Attributes:
        handle: the branch, with the options in force for this write.
        source: columns of the rows.
        commit_user: who commits; new for every write, unless it was given.
        job: in the names of all files of this write.
        base: head of the branch when the write was planned.
        replaced: columns and values of the partition replaced by an overwrite.
        created: this write created the table.
        changes: of the schema, which the commit makes first; as `open_target` returns them.
        changed: this write has made its changes of the schema.
    """

    handle: TableHandle
    source: pa.Schema
    mode: WriteMode
    options: BatchWriteOptions
    commit_user: str
    job: str
    base: Snapshot | None
    replaced: Mapping[str, Any] = field(default_factory=dict)
    created: bool = False
    changes: tuple[SchemaChange, ...] = ()
    changed: bool = False

    @property
    def task(self) -> TaskWrite:
        """Function that the tasks of the write run."""
        replaces = self.mode is WriteMode.OVERWRITE
        base = None if replaces else self.base
        request = WriteRequest(
            self.handle,
            self.commit_user,
            base,
            ignores_existing=replaces,
            job=self.job,
            existing_keys=existing_keys(self.handle, None if self._replaces_all else self.base, self.replaced),
            settles=self.handle.options.postponed_bucket.batch_writes_settle,
            padded=padded_keys(self.handle, None if self._replaces_all else self.base),
        )
        return TaskWrite(request, self.options.assigners, self.replaced)

    def write(
        self, batches: Iterable[pa.RecordBatch], number: int = 0, shares_buckets: bool = False
    ) -> list[CommitMessage]:
        """As `TaskWrite.write`."""
        return self.task.write(batches, number, shares_buckets)

    def commit(self, messages: Sequence[CommitMessage], run: TaskIdentity | None = None) -> WriteResult:
        """Commit what all tasks wrote. Driver. Raises as `commit_batch` and `target.with_changes`."""
        if self.changes:
            return self.with_changes(messages).commit(messages, run)
        with commit_batch(
            self.handle, self.commit_user, messages, run=run, undo=self.undo, write_id=self.options.write_id
        ) as commit:
            if self.mode is WriteMode.APPEND:
                # Rows without keys may come after any others; rows with keys are numbered after those of the base.
                has_keys = bool(self.handle.schema.primary_keys)
                commit.result = commit.committer.commit(
                    commit.messages,
                    commit.identifier,
                    planned_on=PlannedOn.of(self.base, must_remain=has_keys),
                    watermark=self.options.watermark,
                    provenance=commit.provenance,
                    operation=self.options.operation or "WRITE",
                )
            else:
                commit.result = commit.committer.overwrite(
                    commit.messages,
                    commit.identifier,
                    partitions=self._overwritten,
                    planned_on=None if self._replaces_all else PlannedOn.of(self.base),
                    watermark=self.options.watermark,
                    provenance=commit.provenance,
                    operation="OVERWRITE",
                )
        return of_write(self.handle, self.mode, commit.written)

    def with_changes(self, messages: Sequence[CommitMessage]) -> WriteJob:
        """The write after the changes of the schema that it needs; without them the files of `messages` are removed."""
        committer = Committer(self.handle, self.commit_user)
        handle, is_made = removing_on_failure(committer, messages, lambda: with_changes(self.handle, self.changes))
        return replace(self, handle=handle, changes=(), changed=is_made)

    def abort(self, messages: Sequence[CommitMessage]) -> None:
        """Remove the files of `messages`, and the table when this write created it. Driver.

        Only when no commit was tried, or the commit certainly failed.
        """
        Committer(self.handle, self.commit_user).abort(messages)
        self.undo()

    def undo(self) -> None:
        """Remove the table, or take back the columns, that this write made. Driver; only when no commit was made."""
        if self.created:
            undo_creation(self.handle)
        elif self.changed:
            undo_changes(self.handle)

    def sweep(self) -> int:
        """Remove the files that killed tasks left, and return their number. Driver; only before a commit is tried."""
        return remove_job_files(self.handle, self.job)

    @property
    def _replaces_all(self) -> bool:
        return self.mode is WriteMode.OVERWRITE and isinstance(self._overwritten, WholeTable)

    @property
    def _overwritten(self) -> Overwritten:
        if self.options.dynamic_overwrite:
            return PresentPartitions()
        return NamedPartitions((self.replaced,)) if self.replaced else WholeTable()


def plan_path_write(
    options: Mapping[str, str], mode: WriteMode, source: pa.Schema, columns: Callable[[], RowType] | None = None
) -> WriteJob:
    """The write that option text asks for, with the table in `path`, as Spark hands it over. Raises as `plan_write`."""
    place, asked = place_and_options(options, mode)
    return plan_write(place, asked, mode, source, columns)


def place_and_options(options: Mapping[str, str], mode: WriteMode) -> tuple[TablePlace, BatchWriteOptions]:
    """The table in `path`, and the write options. Raises InvalidOptionError: no table, or an option is wrong."""
    given = canonical_write(options)
    path = required_path(given, "save")
    asked = parse_batch_write_options(given, mode)
    return find_place(path, given, asked.branch, asked.storage_options), asked


def plan_write(
    place: TablePlace,
    options: BatchWriteOptions,
    mode: WriteMode,
    source: pa.Schema,
    columns: Callable[[], RowType] | None = None,
) -> WriteJob:
    """A write of rows of `source` to the table at `place`. Driver. Arguments and errors as of `open_target`."""
    handle, created, changes = open_target(place, options, source, columns)
    try:
        if mode is WriteMode.APPEND:
            check_appends(handle)
        return WriteJob(
            handle,
            source,
            mode,
            options,
            options.commit_user or new_commit_user(handle.options),
            new_job(),
            latest_snapshot(handle),
            partition_values(handle, options),
            created,
            changes,
        )
    except PaimonError:
        if created:
            undo_creation(handle)
        raise


def of_write(handle: TableHandle, mode: WriteMode, counted: WriteResult) -> WriteResult:
    """The result of a write, whose rows are `counted` by kind: no row says whether it changed one that was there."""
    if not counted.snapshot_ids or counted.inserted_rows is None or counted.updated_rows is None:
        return counted
    overwrites = mode is WriteMode.OVERWRITE
    written = counted.inserted_rows + counted.updated_rows
    may_update = bool(handle.schema.primary_keys) and written > 0 and not overwrites
    return replace(
        counted,
        inserted_rows=written,
        updated_rows=None if may_update else 0,
        deleted_rows=None if overwrites or counted.deleted_rows else 0,
    )


_SPARK: Final = "pyspark.sql."


def write_data(table: OpenedTable, data: Any, mode: str, options: Mapping[str, str]) -> WriteResult:
    """Write `data` to the branch of `table`; as `Table.write`, from option text."""
    chosen = write_mode(mode)
    table = to_change(table)
    given = options_of(table, options)
    if type(data).__module__.startswith(_SPARK) and type(data).__name__ == "DataFrame":
        return spark_jobs().write(table, data, chosen, given)
    schema, batches = arrow_stream(data)
    return write_batches(table, schema, batches, chosen, parse_batch_write_options(given, chosen))


def write_batches(
    table: OpenedTable,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    mode: WriteMode,
    options: BatchWriteOptions,
) -> WriteResult:
    """Write Arrow batches of `schema` in this process. Raises as `Table.write`."""
    job = plan_write(place_of(table, options), options, mode, schema)
    try:
        messages = job.write(progress.counted(batches, "write", "rows", size=lambda batch: batch.num_rows))
    except BaseException:
        job.abort(())
        raise
    return job.commit(messages)


def place_of(table: OpenedTable, options: BatchWriteOptions) -> TablePlace:
    """Where the table lies, with the branch that the write names, else the table's own."""
    handle = table.handle
    return TablePlace(handle.store, handle.layout.root, handle.name, options.branch or handle.branch)


def arrow_stream(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """The schema and the batches of `data`. Raises InvalidInputError: it is not Arrow data or a pandas DataFrame."""
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    if type(data).__module__.startswith("pandas.") and type(data).__name__ == "DataFrame":
        converted = _converted(lambda: pa.Table.from_pandas(data, preserve_index=False))
        return converted.schema, converted.to_batches()
    if hasattr(data, "__arrow_c_stream__"):
        reader = _converted(lambda: pa.RecordBatchReader.from_stream(data))
        return reader.schema, reader
    raise InvalidInputError(
        "rows come as a Spark or pandas DataFrame, or as an Arrow table, batch, reader or stream, as of pyarrow, "
        f"Polars and DuckDB; found {type(data).__module__}.{type(data).__qualname__}. pyarrow.Table.from_pylist makes "
        "a table of dictionaries",
        found=type(data).__qualname__,
    )


def _converted(convert: Callable[[], Any]) -> Any:
    try:
        return convert()
    except pa.ArrowException as e:
        raise InvalidInputError(f"the rows to write cannot be made into Arrow columns: {e}") from e


def options_of(table: OpenedTable, options: Mapping[str, str]) -> dict[str, str]:
    """The options that the table was opened with, overridden by those of this write; for `TableHandle.load_path`."""
    refuse_location_options(options)
    opened = {**table.handle.overrides, **table.read_options.storage_options}
    branch = {} if table.handle.branch == MAIN else {BRANCH.key: table.handle.branch}
    lower = {k.lower() for k in options}
    if BRANCH.key in lower or any(k in lower for k in BRANCH.fallbacks):
        branch = {}
    kept = {k: v for k, v in opened.items() if k.lower() not in lower}
    return {**table.handle.load_options, **kept, **branch, **options}
