"""Compare the rows of two versions in a Spark job.

Rows go to the task of their key's hash as Arrow bytes, which Spark only moves, so that values are compared as they are
in the files: nanoseconds, and types that Spark lacks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.engine.row_diff.compare import Differences
from paimon_spark.engine.row_diff.versions import Comparison
from paimon_spark.engine.tasks import DataSplit
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.pieces import divided, from_bytes, to_bytes
from paimon_spark.jobs.row_diff.comparison import RowComparison
from paimon_spark.jobs.row_diff.row_diff import Samples
from paimon_spark.spark.schema import arrow_schema, spark_schema
from paimon_spark.spark.session import our_errors, session_or_new

_TASK_BYTES: Final = 128 << 20
"""Bytes of files that a task reads."""
_PART_BYTES: Final = 64 << 20
"""Bytes of files whose rows a task compares."""
_MOST_PARTS: Final = 2000
_ROWS: Final = pa.schema([("part", pa.int32()), ("is_new", pa.bool_()), ("rows", pa.binary())])
_COUNTS: Final = pa.schema([("differences", pa.binary())])


def row_diff(planned: RowComparison, session: SparkSession | None) -> DataFrame:
    """The rows that differ, in Spark's types. User's process."""
    schema = spark_schema(planned.row_type)
    comparison, types = planned.comparison, arrow_schema(schema)
    dealt = _dealt(session_or_new(session), planned)
    return dealt.groupBy("part").applyInArrow(lambda part: _differing_rows(comparison, types, part), schema)


def row_diff_counts(planned: RowComparison) -> Iterator[Differences]:
    """The differences of each part, with a few rows. User's process."""
    comparison, empty = planned.comparison, planned.no_rows()
    with our_errors():
        dealt = _dealt(session_or_new(None), planned).groupBy("part")
        found = dealt.applyInArrow(lambda part: _counts(comparison, empty, part), "differences BINARY").collect()
    for row in found:
        part: Differences = pickle.loads(bytes(row.differences))  # noqa: S301 - made by our own tasks
        yield part


def _dealt(spark: SparkSession, planned: RowComparison) -> DataFrame:
    """The rows of all differing files, in parts that each have all rows of their keys."""
    tasks = [*_tasks(planned.old, is_new=False), *_tasks(planned.new, is_new=True)]
    at_least = max(1, min(_MOST_PARTS, -(-planned.size_bytes // _PART_BYTES)))
    parts = planned.comparison.parts_of(sum(s.row_count for s in (*planned.old, *planned.new)), at_least)
    rows = [(number, is_new, bytearray(pickle.dumps(splits))) for number, (is_new, splits) in enumerate(tasks)]
    frame = spark.createDataFrame(rows, "number INT, is_new BOOLEAN, splits BINARY")
    frame = frame.repartitionById(max(1, len(rows)), "number").select("is_new", "splits")
    return frame.mapInArrow(_Deal(planned.comparison, parts), "part INT, is_new BOOLEAN, rows BINARY")


def _tasks(splits: Sequence[DataSplit], *, is_new: bool) -> Iterator[tuple[bool, list[DataSplit]]]:
    """Splits of a version that one task reads."""
    chosen: list[DataSplit] = []
    size = 0
    for split in splits:
        if chosen and size + split.size_bytes > _TASK_BYTES:
            yield is_new, chosen
            chosen, size = [], 0
        chosen.append(split)
        size += split.size_bytes
    if chosen:
        yield is_new, chosen


@dataclass(frozen=True, slots=True)
class _Deal:
    """Read splits, and deal their rows to parts. Picklable; runs on executors."""

    comparison: Comparison
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for is_new, pickled in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                version = self.comparison.new if is_new else self.comparison.old
                splits: list[DataSplit] = pickle.loads(pickled)  # noqa: S301 - bytes that Spark carried for us from the planning process
                for split in splits:
                    for rows in version.read(split):
                        yield from self._dealt(rows, is_new)

    def _dealt(self, rows: pa.RecordBatch, is_new: bool) -> Iterator[pa.RecordBatch]:
        if self.parts == 1:
            yield _row(0, is_new, rows)
            return
        for part, found in divided(rows, self.comparison.part(rows, self.parts)):
            yield _row(part, is_new, found)


def _row(part: int, is_new: bool, rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [array_of([part], pa.int32()), array_of([is_new], pa.bool_()), array_of([to_bytes(rows)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_ROWS)


def _differences(comparison: Comparison, dealt: pa.Table) -> Differences:
    sides: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    for is_new, data in zip(dealt.column("is_new").to_pylist(), dealt.column("rows").to_pylist(), strict=True):
        sides[is_new].extend(from_bytes(data).to_batches())
    return comparison.compare(*sides)


def _differing_rows(comparison: Comparison, types: pa.Schema, dealt: pa.Table) -> pa.Table:
    """The rows of a part that differ, in Spark's types. Executor."""
    rows = _differences(comparison, dealt).rows
    # Finer digits of timestamps are cut off, as Spark lacks them.
    return pa.table([c.cast(f.type, safe=False) for c, f in zip(rows.columns, types, strict=True)], types)


def _counts(comparison: Comparison, empty: pa.Table, dealt: pa.Table) -> pa.Table:
    """The counts of a part, and a few rows. Executor."""
    found = _differences(comparison, dealt)
    samples = Samples(empty)
    samples.add(found.rows)
    data = pickle.dumps(replace(found, rows=samples.table()))
    return pa.table([array_of([data], pa.binary())], _COUNTS)
