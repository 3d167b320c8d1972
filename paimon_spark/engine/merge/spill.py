"""Spill batches to local disk, and read them back one at a time.

Source: Java `mergetree/MergeSorter`, `disk/IOManager`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import IO, Final, NamedTuple

import pyarrow as pa

from paimon_spark.errors import StorageError
from paimon_spark.format.arrays.pieces import cut

SPILLED_BYTES: Final = 16 << 20
"""Bytes of a spilled batch, about: of each run one is in memory while runs are merged."""


class SpilledRun(NamedTuple):
    """Batches in a `SpillFile`; `places` are the offset and length of each."""

    schema: pa.Schema
    places: tuple[tuple[int, int], ...]
    row_count: int

    @property
    def size_bytes(self) -> int:
        return sum(length for _, length in self.places)


class SpillFile:
    """A temporary file for runs of batches. It is deleted when closed, or when the process ends.

    It is in the folder for temporary files (`TMPDIR`). Room is given back only by `close`. Not safe for threads.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self.size_bytes = 0

    def put(self, batches: Iterable[pa.RecordBatch], most_bytes: int = SPILLED_BYTES) -> SpilledRun | None:
        """Add a run, in batches of at most so many bytes, or one row; None if it is empty.

        Raises StorageError: the disk is full.
        """
        schema, places, rows = None, [], 0
        for batch in (piece for given in batches for piece in cut(given, max(most_bytes, 1))):
            schema = batch.schema
            places.append(self._append(batch.serialize()))
            rows += batch.num_rows
        return None if schema is None else SpilledRun(schema, tuple(places), rows)

    def _append(self, data: pa.Buffer) -> tuple[int, int]:
        with _room():
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="paimon-merge-", buffering=0)  # noqa: SIM115  close() does
            view, at = memoryview(data), self.size_bytes
            while view:
                written = os.pwrite(self._file.fileno(), view, at)
                at, view = at + written, view[written:]
        place = (self.size_bytes, data.size)
        self.size_bytes = at
        return place

    def read(self, run: SpilledRun) -> Iterator[pa.RecordBatch]:
        """The batches of a run, read lazily."""
        assert self._file is not None
        for offset, length in run.places:
            buffer = pa.allocate_buffer(length)
            view, at = memoryview(buffer), offset
            while view:
                got = os.preadv(self._file.fileno(), [view], at)
                if got == 0:
                    raise StorageError(f"a temporary file in {tempfile.gettempdir()} was cut short")
                at, view = at + got, view[got:]
            yield pa.ipc.read_record_batch(buffer, run.schema)

    def close(self) -> None:
        """Delete the file. Runs can no longer be read."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.size_bytes = 0


def spilled(batches: Iterator[pa.RecordBatch], most_bytes: int = SPILLED_BYTES) -> Iterator[pa.RecordBatch]:
    """Write all batches to a temporary file, then return them from it. The file is deleted with the iterator.

    `most_bytes` as of `SpillFile.put`.
    """
    with closing(SpillFile()) as file:
        run = file.put(batches, most_bytes)
        if run is not None:
            yield from file.read(run)


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise StorageError(
            f"rows to merge could not be spilled to {tempfile.gettempdir()}: {e}; set TMPDIR to a folder with room "
            "for the decoded columns, or have the table compacted"
        ) from e
