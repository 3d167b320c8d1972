"""Rows brought to the task that writes their bucket, before a write. Works in classic and Connect sessions.

Spark has no way to ask for a distribution from a Python source, so the DataFrame is repartitioned here. Buckets are
computed by a function over the key columns alone; the other columns do not pass through Python for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.functions import arrow_udf

from paimon_spark.engine.write.bucketing import row_buckets
from paimon_spark.engine.write.dynamic_buckets import assigner_channels, assigner_count
from paimon_spark.engine.write.input import InputMapper
from paimon_spark.format.arrays.arrow_numpy import fixed_array
from paimon_spark.metadata.features import crosses_partitions
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.location import quoted
from paimon_spark.options.write import parse_dynamic_bucket_options, parse_write_options
from paimon_spark.types import RowType

_TASK: Final = "__paimon_task"
_BUCKET: Final = "__paimon_bucket_number"
_TASKS_PER_CORE: Final = 3
_DYNAMIC: Final = -1


@dataclass(frozen=True, slots=True)
class Clustered:
    """Rows, and what can be said of the tasks that will write them.

    Attributes:
        disjoint: no two tasks write rows of one bucket.
        assigners: over how many tasks the keys of a partition of a table with dynamic buckets are divided; the number
            of a task says which of them it has. 0 where buckets are not dynamic.
    """

    rows: DataFrame
    disjoint: bool = False
    assigners: int = 0


def cluster(rows: DataFrame, handle: TableHandle) -> Clustered:
    """The rows distributed as `handle` wants them written. User's process; nothing runs but a job of one row a core."""
    if handle.options.bucket > 0:
        return _by_bucket(rows, handle)
    if crosses_partitions(handle.schema, handle.options.raw):
        # Where a key is only one task can know that sees all rows.
        return Clustered(rows.repartition(1), disjoint=True)
    if handle.schema.primary_keys:
        return _by_key(rows, handle) if handle.options.bucket == _DYNAMIC else Clustered(rows)
    there = {c.lower() for c in rows.columns}
    # What the rows lack is the same in all of them, and the hint takes nothing but columns.
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
    options = parse_dynamic_bucket_options(handle.options.raw)
    channels, assigners = assigner_count(options, parallelism(rows))
    keys, partitions = handle.schema.trimmed_primary_keys, handle.schema.partition_keys

    def channel(batch: pa.RecordBatch) -> Any:
        return assigner_channels(batch.select(list(partitions)), batch.select(list(keys)), channels, assigners)

    with_task = rows.withColumn(_TASK, _number(channel, rows, _only(handle, (*partitions, *keys))))
    return Clustered(with_task.repartitionById(channels, F.col(_TASK)).drop(_TASK), disjoint=True, assigners=assigners)


def parallelism(rows: DataFrame) -> int:
    """How many tasks the session runs at once; Connect knows of it only by asking for a plan of its own."""
    ids = rows.sparkSession.range(1 << 16).select(F.spark_partition_id().alias("id"))
    return int(ids.agg(F.max("id")).collect()[0][0]) + 1


def _columns(rows: DataFrame, names: tuple[str, ...]) -> list[Column]:
    """Columns of `rows` that go to the columns `names` of the table: the same name, else but for case."""
    found = []
    for name in names:
        there = [c for c in rows.columns if c == name] or [c for c in rows.columns if c.lower() == name.lower()]
        # A column that the rows lack is null, or its default, in all of them.
        found.append(F.col(quoted(there[0])) if len(there) == 1 else F.lit(None).cast("string"))
    return found


def _number(compute: Callable[[pa.RecordBatch], Any], rows: DataFrame, handle: TableHandle) -> Column:
    """What `compute` makes of the rows' columns that `handle` has, given in the table's types, as a column of INT."""

    def numbers(*columns: pa.Array) -> pa.Array:
        return fixed_array(compute(_as_stored(handle, columns)), pa.int32())

    make: Any = arrow_udf  # its stub knows no function of any number of columns
    number: Column = make(numbers, "int")(*_columns(rows, handle.schema.row_type.names))
    return number


def _only(handle: TableHandle, names: tuple[str, ...]) -> TableHandle:
    """The table as if it had only the columns `names`: what the functions need to travel with.

    A null where none may be is left to the writer, whose error can show the row.
    """
    fields = tuple(replace(f, type=f.type.with_nullable(True)) for f in handle.schema.row_type.project(names))
    schema = replace(handle.schema, row_type=RowType(False, fields), primary_keys=(), partition_keys=())
    return replace(handle, schema=schema)


def _as_stored(handle: TableHandle, columns: tuple[pa.Array, ...]) -> pa.RecordBatch:
    """Columns as Spark gives them → as the table has them. Executor."""
    given = pa.RecordBatch.from_arrays(list(columns), names=list(handle.schema.row_type.names))
    options = replace(parse_write_options(handle.options.raw), rowkind_field=None)
    return InputMapper(handle.schema, given.schema, options, handle.describe()).apply(given)
