"""Table.write of a Spark DataFrame: distributed by bucket, then written as a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.functions import arrow_udf

from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.engine.tasks import UNKNOWN_ROWS, RowCounts
from paimon_spark.engine.write.bucketing import row_buckets
from paimon_spark.engine.write.dynamic_buckets import assigner_channels, assigner_count
from paimon_spark.engine.write.input import InputMapper
from paimon_spark.format.arrays.arrow_numpy import fixed_array
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.write.batch import of_write, place_of
from paimon_spark.jobs.write.commit import WriteResult, counted_rows
from paimon_spark.jobs.write.target import open_for_rows
from paimon_spark.metadata.features import crosses_partitions
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.options.write_request import (
    ASSIGNERS,
    CLUSTER,
    CLUSTERED,
    COMMIT_USER,
    WRITE_ID,
    WriteMode,
    canonical_write,
    parse_batch_write_options,
)
from paimon_spark.spark.schema import arrow_schema
from paimon_spark.spark.session import find_sources_here, our_errors, with_sources, without_attached
from paimon_spark.spark.source import PaimonPyDataSource
from paimon_spark.types import RowType, quoted

_TASK: Final = "__paimon_task"
_BUCKET: Final = "__paimon_bucket_number"
_TASKS_PER_CORE: Final = 3
_DYNAMIC: Final = -1


def write(
    table: OpenedTable, rows: DataFrame, mode: WriteMode, options: Mapping[str, str], *, by_kind: bool = False
) -> WriteResult:
    """Write `rows` to the branch of `table` as a Spark job, clustered so that each bucket is written by one task.

    With `by_kind` the result counts rows by their kind: +U are updates of rows that are there, -D deletes.

    Raises as `Table.write`.
    """
    asked = parse_batch_write_options(options, mode)
    # Wrong columns are found here, where the error is not wrapped in one of Spark's.
    handle, _ = open_for_rows(place_of(table, asked), asked, arrow_schema(rows.schema))
    clustered = cluster(rows, handle) if CLUSTER.get(canonical_write(options)) else Clustered(rows)
    made = save_job(handle, clustered.rows, {**options, **clustered.options}, mode)
    return made if by_kind else of_write(handle, mode, made)


def save_job(
    handle: TableHandle, rows: DataFrame, options: Mapping[str, str], mode: WriteMode = WriteMode.APPEND
) -> WriteResult:
    """Run `rows.write` to the branch of `handle`; its snapshots are found by their commit user.

    Another process commits, and leaves the numbers of rows in the snapshot.

    Raises as `Table.write`.
    """
    base = latest_snapshot(handle)
    user = COMMIT_USER.get(options) or new_commit_user(handle.options)
    write_id = str(uuid4())
    _save(rows, handle, mode, {**options, COMMIT_USER.key: user, WRITE_ID.key: write_id})
    first = 0 if base is None else base.id
    later = _later(handle, first)
    counts = [found for s in later if (found := counted_rows(s, write_id)) is not None]
    is_gone = not counts and bool(later) and later[0].id > first + 1  # its snapshot has expired
    made = tuple(s.id for s in later if s.commit_user == user)
    return WriteResult(made, *(UNKNOWN_ROWS if is_gone else RowCounts.total(counts)))


def _save(rows: DataFrame, handle: TableHandle, mode: WriteMode, options: Mapping[str, str]) -> None:
    find_sources_here(rows.sparkSession)
    # The second name is ours in every session; the first may be the JAR's.
    writer = rows.write.format(PaimonPyDataSource.name()).mode(mode.value).options(**options)
    with our_errors(), without_attached():  # the settings of the session are among the options
        with_sources(rows.sparkSession, lambda: writer.save(handle.load_path))


def _later(handle: TableHandle, after: int) -> list[Snapshot]:
    """The snapshots made after the snapshot `after`, ascending, without those that expired since."""
    found = []
    snapshot = latest_snapshot(handle)
    while snapshot is not None and snapshot.id > after:
        found.append(snapshot)
        snapshot = find_snapshot(handle, snapshot.id - 1) if snapshot.id > after + 1 else None
    return found[::-1]


@dataclass(frozen=True, slots=True)
class Clustered:
    """Rows, and their distribution over the tasks that will write them.

    Attributes:
        disjoint: no two tasks write rows of one bucket.
        assigners: number of tasks over which the keys of a partition with dynamic buckets are divided, by the number
            of the task; 0 where buckets are not dynamic.
    """

    rows: DataFrame
    disjoint: bool = False
    assigners: int = 0

    @property
    def options(self) -> dict[str, str]:
        """Write options that state the distribution."""
        assigners = {ASSIGNERS.key: str(self.assigners)} if self.assigners else {}
        return {CLUSTERED.key: str(self.disjoint).lower(), **assigners}


def cluster(rows: DataFrame, handle: TableHandle) -> Clustered:
    """The rows, distributed so that each bucket is written by one task. Runs a job of one row per core at most.

    A Python data source cannot ask Spark for a distribution, so the DataFrame is repartitioned here. Buckets are
    computed by a function over the key columns alone; the other columns do not pass through Python for it.
    """
    if handle.options.bucket > 0:
        return _by_bucket(rows, handle)
    if crosses_partitions(handle.schema, handle.options):
        # Only a task that sees all rows knows where a key is.
        return Clustered(rows.repartition(1), disjoint=True)
    if handle.schema.primary_keys:
        return _by_key(rows, handle) if handle.options.bucket == _DYNAMIC else Clustered(rows)
    there = {c.lower() for c in rows.columns}
    # Columns that the rows lack have one value, and the hint takes nothing but columns.
    keys = _columns(rows, tuple(k for k in handle.schema.partition_keys if k.lower() in there))
    # Without buckets several tasks may write one partition: Spark joins small ones and divides large ones.
    return Clustered(rows.hint("rebalance", *keys) if keys else rows)


def _by_bucket(rows: DataFrame, handle: TableHandle) -> Clustered:
    keys = _only(handle, handle.schema.bucket_keys)
    bucket = _number(partial(row_buckets, keys), rows, keys)
    partitions = _columns(rows, handle.schema.partition_keys)
    if partitions:
        with_bucket = rows.withColumn(_BUCKET, bucket)
        return Clustered(with_bucket.repartition(*partitions, F.col(_BUCKET)).drop(_BUCKET), disjoint=True)
    tasks = min(handle.options.bucket, _TASKS_PER_CORE * parallelism(rows))
    with_task = rows.withColumn(_TASK, F.pmod(bucket, F.lit(tasks)))
    return Clustered(with_task.repartitionById(tasks, F.col(_TASK)).drop(_TASK), disjoint=True)


def _by_key(rows: DataFrame, handle: TableHandle) -> Clustered:
    options = handle.options.dynamic_bucket
    channels, assigners = assigner_count(options, parallelism(rows))
    keys, partitions = handle.schema.trimmed_primary_keys, handle.schema.partition_keys

    def channel(batch: pa.RecordBatch) -> Any:
        return assigner_channels(batch.select(list(partitions)), batch.select(list(keys)), channels, assigners)

    with_task = rows.withColumn(_TASK, _number(channel, rows, _only(handle, (*partitions, *keys))))
    return Clustered(with_task.repartitionById(channels, F.col(_TASK)).drop(_TASK), disjoint=True, assigners=assigners)


def parallelism(rows: DataFrame) -> int:
    """How many tasks the session runs at once. Connect can only find out by running a query."""
    ids = rows.sparkSession.range(1 << 16).select(F.spark_partition_id().alias("id"))
    return int(ids.agg(F.max("id")).collect()[0][0]) + 1


def _columns(rows: DataFrame, names: tuple[str, ...]) -> list[Column]:
    """Columns of `rows` for the columns `names` of the table: of the same name, else of the same but for case."""
    found = []
    for name in names:
        there = [c for c in rows.columns if c == name] or [c for c in rows.columns if c.lower() == name.lower()]
        # A column that the rows lack is null, or its default, in all of them.
        found.append(F.col(quoted(there[0])) if len(there) == 1 else F.lit(None).cast("string"))
    return found


def _number(compute: Callable[[pa.RecordBatch], Any], rows: DataFrame, handle: TableHandle) -> Column:
    """A column of INT that `compute` makes of the columns that `handle` has, given in the table's types."""

    def numbers(*columns: pa.Array) -> pa.Array:
        return fixed_array(compute(_as_stored(handle, columns)), pa.int32())

    make: Any = arrow_udf  # its stub does not have functions of any number of columns
    number: Column = make(numbers, "int")(*_columns(rows, handle.schema.row_type.names))
    return number


def _only(handle: TableHandle, names: tuple[str, ...]) -> TableHandle:
    """The table with only the columns `names`, as the functions take it along.

    A null in a NOT NULL column is left to the writer, whose error can show the row.
    """
    fields = tuple(replace(f, type=f.type.with_nullable(True)) for f in handle.schema.row_type.project(names))
    schema = replace(handle.schema, row_type=RowType(False, fields), primary_keys=(), partition_keys=())
    return replace(handle, schema=schema)


def _as_stored(handle: TableHandle, columns: tuple[pa.Array, ...]) -> pa.RecordBatch:
    """Columns as Spark gives them → as the table has them. Executor."""
    given = pa.RecordBatch.from_arrays(list(columns), names=list(handle.schema.row_type.names))
    options = replace(handle.options.write, rowkind_field=None)
    return InputMapper(handle.schema, given.schema, options, handle.describe()).apply(given)
