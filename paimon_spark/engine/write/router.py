"""Rows → one writer per bucket, within a memory budget.

Batches are gathered, ordered by bucket once, and wait in a pool. A bucket's writer gets its rows when the write ends,
or earlier when there are many, and is closed before the next one gets rows: a task with thousands of buckets writes
one file for each, and few of them are open. Where all rows go to one bucket nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.engine.write.bucketing import Bucketing, PartitionNumbers
from paimon_spark.engine.write.row_pool import RowPool
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.pieces import cut, together
from paimon_spark.options.write import WriteOptions

I64 = npt.NDArray[np.int64]


class BucketWriter(Protocol):
    """Writes rows of one bucket. Not safe for threads."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows: all columns of the table in schema order and canonical types.

        With keys a last column `_VALUE_KIND` (int8) follows when any row of the write may not be +I.
        """
        ...

    @property
    def buffered_bytes(self) -> int:
        """Memory that `release` frees."""
        ...

    def release(self) -> None:
        """Write buffered rows to files, of the table or spilled."""
        ...

    def end_files(self) -> None:
        """Write the remaining rows of a table with keys, to files that get no more."""
        ...

    def close(self) -> Increment:
        """Write the remaining rows; afterwards only `abort` may be called."""
        ...

    def abort(self) -> None:
        """Remove every file made, open or finished. Raises nothing."""
        ...


MakeWriter = Callable[[bytes, int], BucketWriter]
"""Makes the writer of a bucket, from the BinaryRow bytes of the partition and the bucket number."""

_GATHERED_ROWS: Final = 1 << 17
_GATHERED_BYTES: Final = 16 << 20
"""Rows and bytes that are ordered by bucket at once."""

_EARLY_BYTES: Final = 48 << 20
"""A bucket with so many bytes waiting is worth an open file before the end."""

_SHORT_SPAN: Final = 1 << 16


class Group(NamedTuple):
    """A bucket of a partition."""

    partition: int
    bucket: int


class Router:
    """Routes rows to the writers of their buckets. Not safe for threads.

    With `early` writers write rows to files as they come, so that a writer with rows before the end frees memory.
    """

    def __init__(
        self,
        options: WriteOptions,
        partitions: PartitionNumbers,
        bucketing: Bucketing,
        make_writer: MakeWriter,
        *,
        early: bool,
    ) -> None:
        self._options = options
        self._partitions = partitions
        self._bucketing = bucketing
        self._make_writer = make_writer
        self._early = early
        self._pool = RowPool()
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._groups: list[Group] = []
        self._group_numbers: dict[Group, int] = {}
        self._writers: dict[int, BucketWriter] = {}
        self._open: set[int] = set()

    def write(self, batch: pa.RecordBatch) -> None:
        """Route rows in canonical types. Raises as the writers; then call `abort`."""
        if self._bucketing.constant is not None and not self._partitions.columns:
            partition = self._partitions.whole_table()
            self._bucketing.place(batch, partition)
            self._hand(self._group(partition, self._bucketing.constant), [batch])
            return
        for part in cut(batch, 2 * _GATHERED_BYTES, _GATHERED_ROWS):
            self._gathered.append(part)
            self._gathered_rows += part.num_rows
            self._gathered_bytes += part.nbytes
            if self._gathered_rows >= _GATHERED_ROWS or self._gathered_bytes >= _GATHERED_BYTES:
                self._split()

    def close(self) -> list[CommitMessage]:
        """Write waiting rows and close every writer. Raises as `write`."""
        self._split()
        messages = []
        for number in sorted({*self._pool.groups, *self._open}, key=self._groups.__getitem__):
            writer = self._hand(number)
            increment = writer.close()
            self._open.discard(number)
            if increment:
                group = self._groups[number]
                partition = self._partitions.rows[group.partition]
                total = self._bucketing.total_of(group.partition, group.bucket)
                messages.append(CommitMessage(partition, group.bucket, total, increment))
        self._pool.close()
        return self._bucketing.finish(messages)

    def end_files(self) -> None:
        """End the files of all buckets: later rows go to others. Raises as `write`."""
        self._split()
        for number in sorted({*self._pool.groups, *self._open}):
            self._hand(number).end_files()

    def abort(self) -> None:
        """Remove every file made. Raises nothing."""
        self._gathered = []
        self._pool.close()
        for writer in self._writers.values():
            writer.abort()
        self._writers = {}
        self._bucketing.abort()

    def _split(self) -> None:
        """Find the buckets of the gathered rows, and add these to the pool by bucket."""
        if not self._gathered:
            return
        gathered, self._gathered, self._gathered_rows, self._gathered_bytes = self._gathered, [], 0, 0
        for batch in together(gathered):
            self._place(batch)
        self._make_room()

    def _place(self, batch: pa.RecordBatch) -> None:
        batch, partitions, buckets = self._bucketing.place(batch, self._partitions.of(batch))
        if not batch.num_rows:
            return
        if isinstance(partitions, int) and isinstance(buckets, int):
            self._add(batch, [self._group(partitions, buckets)], [0])
            return
        ordered = _by_group(partitions, buckets, batch.num_rows)
        numbers = [
            self._group(p, b) for p, b in zip(ordered.partitions.tolist(), ordered.buckets.tolist(), strict=True)
        ]
        if len(numbers) > 1:
            # Column by column: Arrow takes a whole batch with threads, for three times the work.
            rows = arrow_numpy.take_indices(ordered.rows)
            batch = pa.RecordBatch.from_arrays([c.take(rows) for c in batch.columns], schema=batch.schema)
        self._add(batch, numbers, ordered.starts.tolist())

    def _group(self, partition: int, bucket: int) -> int:
        group = Group(partition, bucket)
        number = self._group_numbers.get(group)
        if number is None:
            self._group_numbers[group] = number = len(self._groups)
            self._groups.append(group)
        return number

    def _add(self, batch: pa.RecordBatch, numbers: list[int], starts: list[int]) -> None:
        if self._early and len(numbers) == 1 and self._may_open(numbers[0]):
            # Nothing of the group waits before these rows once its file is open.
            self._hand(numbers[0], [batch])
            return
        self._pool.add(batch, numbers, starts)

    def _may_open(self, number: int) -> bool:
        return number in self._open or len(self._open) < self._options.max_open_writers

    def _hand(self, number: int, batches: Sequence[pa.RecordBatch] = ()) -> BucketWriter:
        """Give a group's waiting rows, then `batches`, to its writer, and return it."""
        writer = self._writers.get(number)
        if writer is None:
            group = self._groups[number]
            writer = self._make_writer(self._partitions.rows[group.partition], group.bucket)
            self._writers[number] = writer
        self._open.add(number)
        for batch in chain(self._pool.take(number), batches):
            writer.write(batch)
            # Waiting rows count too, but a writer gets enough memory for spills of a good size.
            budget = self._options.buffer_bytes
            if writer.buffered_bytes > max(budget - self._pool.memory_bytes, budget // 4):
                writer.release()
        return writer

    def _make_room(self) -> None:
        """Keep waiting rows within the budget: large buckets to their writers, the rest to disk."""
        if self._early:
            for number in self._pool.groups:
                if self._pool.size_of(number) >= _EARLY_BYTES and self._may_open(number):
                    self._hand(number)
        buffered = sum(self._writers[number].buffered_bytes for number in self._open)
        if self._pool.memory_bytes + buffered <= self._options.buffer_bytes:
            return
        if not self._options.spillable:
            for number in self._pool.groups:
                self._hand(number).release()
            return
        if self._pool.memory_bytes >= buffered:
            self._pool.spill()
            return
        for number in sorted(self._open, key=lambda n: -self._writers[n].buffered_bytes):
            if buffered <= self._options.buffer_bytes // 2:
                return
            buffered -= self._writers[number].buffered_bytes
            self._writers[number].release()


class _Ordered(NamedTuple):
    """Rows ordered by group.

    Attributes:
        partitions, buckets: the distinct groups.
        starts: where the rows of each begin.
        rows: row numbers, by group and then as they came.
    """

    partitions: I64
    buckets: I64
    starts: I64
    rows: I64


def _by_group(partitions: I64 | int, buckets: I64 | int, row_count: int) -> _Ordered:
    """Order rows by partition number and bucket."""
    low = int(np.min(buckets))
    span = int(np.max(buckets)) + 1 - low
    codes = np.broadcast_to(
        np.asarray(partitions, np.int64) * span + (np.asarray(buckets, np.int64) - low), (row_count,)
    )
    first = int(codes.min())
    if int(codes.max()) - first < _SHORT_SPAN:  # 16 bits sort without comparing
        short: npt.NDArray[Any] = (codes - first).astype(np.uint16)
        counts = np.bincount(short)
        distinct = np.flatnonzero(counts)
        sizes = counts[distinct]
        distinct += first
    else:
        distinct, short, sizes = np.unique(codes, return_inverse=True, return_counts=True)
        short = short.reshape(-1)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[:-1])])
    return _Ordered(distinct // span, distinct % span + low, starts, np.argsort(short, kind="stable"))
