"""Rows → one writer per bucket, within a memory budget.

Batches are gathered, ordered by bucket once, and wait in a pool. A bucket's writer gets its rows when the write ends,
or earlier when there are many, and is closed before the next one gets rows: a task with thousands of buckets writes
one file for each, and few of them are open. Where all rows go to one bucket nothing waits.

The pool is in memory or in mapped files on disk. A run is a batch whose rows are ordered by group. What a group has in
a run is a slice; a slice of a run on disk is read when it is used, by the operating system's paging, so that thousands
of groups cost no more than one.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.engine.write.bucketing import Bucketing, PartitionNumbers
from paimon_spark.errors import StorageError
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


_HANDED_BYTES: Final = 32 << 20
"""Bytes of the batches that the slices of a group are joined to."""

_PAGED_BYTES: Final = 32 << 20
"""Bytes read from disk after which their pages are released."""


@dataclass(slots=True)
class _Run:
    """A batch ordered by group.

    Attributes:
        groups: its groups.
        starts: where the rows of each begin, and the end of the last.
        rows_left: rows that have not been taken.
        size_bytes: memory the batch holds; 0 when it lies on disk.
    """

    batch: pa.RecordBatch | None
    groups: I64
    starts: I64
    rows_left: int
    size_bytes: int


class _Index(NamedTuple):
    """Slices by group: those of `groups[i]` are the `pieces[i]`-th of run `runs[i]`, in order of arrival."""

    groups: I64
    runs: I64
    pieces: I64


class RowPool:
    """Rows by group number, each group's in order of arrival. Not safe for threads.

    The disk space is in the folder for temporary files (`TMPDIR`) and vanishes with the pool or the process.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._in_memory: list[_Run] = []
        self._maps: list[mmap.mmap] = []
        self._paged_bytes = 0
        self._rows = np.zeros(0, np.int64)
        self._bytes = np.zeros(0, np.int64)
        self._taken_runs = np.zeros(0, np.int64)
        self._index: _Index | None = None
        self.memory_bytes = 0
        self.disk_bytes = 0

    @property
    def groups(self) -> list[int]:
        """Groups that have rows, ascending."""
        found: list[int] = np.flatnonzero(self._rows).tolist()
        return found

    def size_of(self, group: int) -> int:
        """Approximate bytes of the rows of a group."""
        return int(self._bytes[group]) if group < len(self._bytes) else 0

    def add(self, batch: pa.RecordBatch, groups: Sequence[int], starts: Sequence[int]) -> None:
        """Add a batch ordered by group: rows of `groups[i]`, each named once, begin at `starts[i]`."""
        size = batch.nbytes
        run = _Run(batch, np.array(groups, np.int64), np.array([*starts, batch.num_rows]), batch.num_rows, size)
        self._runs.append(run)
        self._in_memory.append(run)
        self._index = None
        self.memory_bytes += size
        self._grow(int(run.groups.max()) + 1)
        rows = np.diff(run.starts)
        self._rows[run.groups] += rows
        self._bytes[run.groups] += size * rows // batch.num_rows

    def _grow(self, groups: int) -> None:
        more = max(groups - len(self._rows), 0)
        if more:
            more = max(more, len(self._rows))
            self._rows, self._bytes, self._taken_runs = (
                np.concatenate([a, np.zeros(more, np.int64)]) for a in (self._rows, self._bytes, self._taken_runs)
            )

    def take(self, group: int) -> Iterator[pa.RecordBatch]:
        """The rows of a group, in batches of a good size. They leave the pool as they are yielded.

        Exhaust the iterator before adding rows to the pool again.
        """
        if group >= len(self._rows) or not self._rows[group]:
            return
        index = self._indexed()
        first, last = np.searchsorted(index.groups, [group, group + 1]).tolist()
        places = zip(index.runs[first:last].tolist(), index.pieces[first:last].tolist(), strict=True)
        self._rows[group] = self._bytes[group] = 0
        self._taken_runs[group] = len(self._runs)
        joined: list[pa.RecordBatch] = []
        size = 0
        for number, piece in places:
            run = self._runs[number]
            assert run.batch is not None
            start, end = run.starts[piece : piece + 2].tolist()
            part = run.batch.slice(start, end - start)
            part_bytes = part.nbytes
            if joined and size + part_bytes > _HANDED_BYTES:
                yield from together(joined)
                joined, size = [], 0
                self._release_pages()
            joined.append(part)
            size += part_bytes
            self._paged_bytes += 0 if run.size_bytes else part_bytes
            self._release(run, end - start)
        yield from together(joined)
        self._release_pages()

    def _indexed(self) -> _Index:
        if self._index is None:
            live = [i for i, run in enumerate(self._runs) if run.batch is not None]
            groups = np.concatenate([self._runs[i].groups for i in live])
            sizes = [len(self._runs[i].groups) for i in live]
            runs = np.repeat(np.array(live, np.int64), sizes)
            pieces = np.concatenate([np.arange(n) for n in sizes])
            order = np.argsort(groups, kind="stable")
            order = order[runs[order] >= self._taken_runs[groups[order]]]
            self._index = _Index(groups[order], runs[order], pieces[order])
        return self._index

    def _release_pages(self) -> None:
        """Release mapped pages; those still used come back from the system's cache."""
        if self._paged_bytes < _PAGED_BYTES:
            return
        self._paged_bytes = 0
        for mapped in self._maps:
            with suppress(OSError):
                mapped.madvise(mmap.MADV_DONTNEED)

    def _release(self, run: _Run, rows: int) -> None:
        run.rows_left -= rows
        if run.rows_left == 0:
            self.memory_bytes -= run.size_bytes
            run.batch, run.size_bytes = None, 0
            run.groups = run.starts = np.zeros(0, np.int64)

    def spill(self) -> None:
        """Move all rows from memory to disk. Raises StorageError when the disk is full."""
        runs = [run for run in self._in_memory if run.batch is not None]
        self._in_memory = []
        if not runs:
            return
        try:
            self._map(runs)
        except OSError as e:
            raise StorageError(
                f"rows that wait for their buckets could not be spilled to {tempfile.gettempdir()}: {e}; set TMPDIR "
                "to a folder with room for the rows of a task, or write fewer partitions and buckets in one task"
            ) from e

    def _map(self, runs: Sequence[_Run]) -> None:
        places = []
        at = 0
        with tempfile.TemporaryFile(prefix="paimon-write-", buffering=0) as file:
            for run in runs:
                assert run.batch is not None
                data = run.batch.serialize()
                places.append((at, data.size))
                at = _write(file.fileno(), data, at)
            # The map keeps the file, which has no name, until nothing uses it any more.
            self._maps.append(mmap.mmap(file.fileno(), at, access=mmap.ACCESS_READ))
        mapped = pa.py_buffer(self._maps[-1])
        self.disk_bytes += at
        for run, (start, size) in zip(runs, places, strict=True):
            assert run.batch is not None
            run.batch = pa.ipc.read_record_batch(mapped.slice(start, size), run.batch.schema)
            self.memory_bytes -= run.size_bytes
            run.size_bytes = 0

    def close(self) -> None:
        """Drop all rows and free the disk space."""
        self._runs, self._in_memory, self._index = [], [], None
        self._rows[:] = self._bytes[:] = 0
        self.memory_bytes = self.disk_bytes = 0
        self._maps = []


def _write(descriptor: int, data: pa.Buffer, at: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        at, view = at + written, view[written:]
    return at
