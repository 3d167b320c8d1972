"""Sort compaction as Spark jobs: samples are read, then rows dealt and written in order.

Rows go to the task that writes their range as Arrow bytes, which Spark only moves and sorts by the number of the range.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.engine.compaction.sorting import (
    Ranges,
    RowOrder,
    deal,
    range_count,
    ranges_in_file,
    read_sample,
    sorted_message,
    write_ranges,
)
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.engine.write.request import new_job, remove_job_files
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.pieces import from_bytes, to_bytes
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.spark.session import our_errors
from paimon_spark.spark.tasks import swept_after_failure

_PIECE_BYTES: Final = 128 << 20
"""Bytes of files that a task reads."""
_SAMPLE: Final = pa.schema([("task", pa.int32()), ("rows", pa.binary())])
_DEALT: Final = pa.schema([("file", pa.int32()), ("range", pa.int32()), ("rows", pa.binary())])
_FILES: Final = pa.schema([("task", pa.int32()), ("file", pa.int32()), ("files", pa.binary())])


@dataclass(frozen=True, slots=True)
class _Work:
    """Data that all tasks share. Picklable.

    Attributes:
        in_file: how many ranges make a file.
        ranges: of each task, and before it the number of the first range and of the first file of the task.
    """

    handle: TableHandle
    snapshot: Snapshot
    tasks: Sequence[BucketTask]
    commit_user: str
    order: RowOrder
    job: str
    in_file: int
    ranges: tuple[tuple[int, int, Ranges], ...] = ()

    def sweep(self) -> int:
        """Remove the files of all tasks; how many there were."""
        return remove_job_files(self.handle, self.job)

    def sample(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read samples of pieces. Executor."""
        for task, files in _pieces_in(batches):
            found = read_sample(self.handle, self.snapshot, self.tasks[task], self.order, files)
            yield _batch(_SAMPLE, task, to_bytes(found))

    def deal(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Deal the rows of pieces to ranges. Executor."""
        for task, files in _pieces_in(batches):
            first_range, first_file, ranges = self.ranges[task]
            for number, rows in deal(self.handle, self.snapshot, self.tasks[task], ranges, files):
                file = first_file + number // self.in_file
                yield _batch(_DEALT, file, first_range + number, to_bytes(rows))

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write ranges, which come in order, into the files that they belong to. Executor."""
        dealt = (row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True))
        for file, rows in groupby(dealt, key=lambda row: row[0]):
            task = max(n for n, (_, first_file, _) in enumerate(self.ranges) if first_file <= file)
            made = write_ranges(
                self.handle, self.snapshot, self.tasks[task], self.commit_user, self._sorted(task, rows), self.job
            )
            yield _batch(_FILES, task, file, pickle.dumps(made))

    def _sorted(self, task: int, rows: Iterator[tuple[int, int, bytes]]) -> Iterator[pa.Table]:
        for _, pieces in groupby(rows, key=lambda row: row[1]):
            yield self.ranges[task][2].sorted(pa.concat_tables(from_bytes(data) for _, _, data in pieces))


def run_sort(
    handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], commit_user: str, order: RowOrder
) -> list[CommitMessage | None]:
    """The message of each task, in order. After an error no file of them is left.

    Raises as `write_ranges` and `read_sample`, and PySparkException where Spark itself fails.
    """
    session = SparkSession.getActiveSession()
    assert session is not None
    work = _Work(handle, snapshot, tasks, commit_user, order, new_job(), ranges_in_file(handle))
    with swept_after_failure(session, work.sweep), our_errors():
        files = _run(session, work)
        return [sorted_message(handle, task, files[n], work.job) for n, task in enumerate(tasks)]


def _run(session: SparkSession, work: _Work) -> list[list[DataFileMeta]]:
    """The new files of each task, in order."""
    pieces = _pieces(session, work.tasks)
    sampled = pieces.mapInArrow(work.sample, "task INT, rows BINARY").collect()
    ranges, first_range, first_file = [], 0, 0
    for n, task in enumerate(work.tasks):
        sample = pa.concat_tables(from_bytes(bytes(row.rows)) for row in sampled if row.task == n)
        found = Ranges.of(sample, work.order, range_count(task))
        ranges.append((first_range, first_file, found))
        first_range += len(found)
        first_file += -(-len(found) // work.in_file)
    work = replace(work, ranges=tuple(ranges))
    dealt = pieces.mapInArrow(work.deal, "file INT, range INT, rows BINARY").repartitionById(first_file, "file")
    written = dealt.sortWithinPartitions("file", "range").mapInArrow(work.write, "task INT, file INT, files BINARY")
    out: list[list[DataFileMeta]] = [[] for _ in work.tasks]
    for row in sorted(written.collect(), key=lambda row: row.file):
        out[row.task] += pickle.loads(bytes(row.files))  # noqa: S301 - made by our own tasks
    return out


def _pieces(session: SparkSession, tasks: Sequence[BucketTask]) -> DataFrame:
    """A row for each piece of a task: its number, and the numbers of some of its files."""
    rows: list[tuple[int, list[int]]] = []
    for n, task in enumerate(tasks):
        chosen: list[int] = []
        size = 0
        for number, file in enumerate(task.files):
            if chosen and size + file.file_size > _PIECE_BYTES:
                rows.append((n, chosen))
                chosen, size = [], 0
            chosen.append(number)
            size += file.file_size
        rows.append((n, chosen))
    numbered = session.createDataFrame(
        [(number, *row) for number, row in enumerate(rows)], "number INT, task INT, files ARRAY<INT>"
    )
    return numbered.repartitionById(len(rows), "number").select("task", "files")


def _pieces_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, list[int]]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batch(schema: pa.Schema, *values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [array_of([v], f.type) for v, f in zip(values, schema, strict=True)], schema=schema
    )
