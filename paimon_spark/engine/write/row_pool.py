"""Rows that wait for the writer of their bucket, in memory or in mapped files on disk.

A run is a batch whose rows are ordered by group. What a group has in a run is a slice; a slice of a run on disk is
read when it is used, by the operating system's paging, so that thousands of groups cost no more than one.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import StorageError
from paimon_spark.format.arrays.pieces import together

I64 = npt.NDArray[np.int64]

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
