"""Requests to and results of the readers and writers of data files, whatever the format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays import pieces
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.storage.store import ReadableStore, Store, failure_of
from paimon_spark.types import DataField, DataType


class Rows(NamedTuple):
    """A run of rows as they lie in a data file.

    Attributes:
        first: position of the first row in the file.
        row_count: rows; every array is this long.
        arrays: one per field asked for, in canonical types.
    """

    first: int
    row_count: int
    arrays: list[pa.Array]

    def cut_from(self, position: int) -> Iterator[Rows]:
        """The rows from a position on, in runs of not too many bytes."""
        skipped = max(position - self.first, 0)
        if not skipped and sum(a.nbytes for a in self.arrays) <= pieces.BATCH_BYTES:
            yield self
        elif skipped < self.row_count:
            first = self.first + skipped
            batch = pa.RecordBatch.from_arrays(self.arrays, names=[str(n) for n in range(len(self.arrays))])
            for part in pieces.cut(batch.slice(skipped)):
                yield Rows(first, part.num_rows, part.columns)
                first += part.num_rows


class Bounds(NamedTuple):
    """Statistics of one column in a part of a file; None where unknown.

    Attributes:
        lower, upper: no value is smaller or larger, NaN apart. Python values like those of predicate literals.
        null_count: nulls.
        row_count: rows, nulls included.
    """

    lower: Any
    upper: Any
    null_count: int | None
    row_count: int


BoundsOf: TypeAlias = Callable[[str, DataType], Bounds | None]
"""Statistics of a column, given its name in the file and the type it is read as; None when there are none."""
MayMatch: TypeAlias = Callable[[BoundsOf], bool]
"""Whether a part of a file may hold a row that is wanted; False only when the statistics rule it out."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """One data file to decode.

    Attributes:
        store, path: where it is.
        fields: columns wanted, named and typed as in the schema the file was written with. A row type may
            lack some of the row's fields: those are not wanted. Columns the file lacks come as nulls.
        row_count: rows the manifest promises; more or fewer mean the file is corrupt.
        batch_rows: most rows in one `Rows`.
        threads: whether Arrow may decode on its thread pool.
        may_match: judges parts of the file, so that others are left out; None reads all.
        wanted: for every row of the file, whether it is wanted, by an index; parts without such rows may be left out.
        rows: only the parts of the file that begin at these rows are wanted, from one up to another; None for all.
        open_files: how many files are read side by side with this one, itself included; they share the memory
            for bytes not decoded yet, and for decoded ones.
        in_parts: decode no more than `batch_rows` at a time, whatever it costs.
        size: bytes of the file as its manifest has them, which saves looking them up; None if not known.
    """

    store: ReadableStore
    path: str
    fields: tuple[DataField, ...]
    row_count: int
    batch_rows: int = 65536
    threads: bool = False
    may_match: MayMatch | None = None
    open_files: int = 1
    wanted: npt.NDArray[np.bool_] | None = None
    rows: tuple[int, int] | None = None
    in_parts: bool = False
    size: int | None = None

    def rows_of(self, row_bytes: int) -> int:
        """Rows to decode at a time where a row has so many bytes, or more."""
        return max(min(self.batch_rows, pieces.BATCH_BYTES // self.open_files // max(row_bytes, 1)), 1)

    def wants(self, first: int, count: int) -> bool:
        """Whether a part of the file of `count` rows from row `first` is to be read."""
        if self.rows is not None and not self.rows[0] <= first < self.rows[1]:
            return False
        return self.wanted is None or bool(self.wanted[first : first + count].any())


@contextmanager
def opened(read: FileRead) -> Iterator[pa.NativeFile]:
    """The file, for Arrow. A store that fails meanwhile fails with its own error, not with Arrow's about it."""
    with read.store.open(read.path, read.size) as source:
        try:
            yield source
        except (pa.ArrowException, OSError) as e:
            failure = failure_of(source)
            if failure is None or failure is e:
                raise
            raise failure from e


@dataclass(frozen=True, slots=True)
class FileWrite:
    """One data file to write.

    Attributes:
        store, path: where; nothing is there yet.
        format: `parquet`, `orc` or `avro`.
        fields: columns of the file in order, with field ids; key and system columns included.
        compression: codec as the option names it, such as `zstd`; None is the format's default of Paimon.
        zstd_level: for zstd.
        row_is_nullable: Avro only: the top level is a union with null, as append files of Java are.
        settings: options of the format itself (`parquet.…`, `orc.…`, `avro.…`) as text, prefix included.
        row_group_bytes: bytes of rows in memory that become a row group or stripe; None is the format's default.
        row_group_rows: most rows of a row group, about.
    """

    store: Store
    path: str
    format: str
    fields: tuple[DataField, ...]
    compression: str | None = None
    zstd_level: int = 1
    row_is_nullable: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    row_group_bytes: int | None = None
    row_group_rows: int = 1 << 20


class WrittenFile(NamedTuple):
    """Size of a written file: bytes and physical rows."""

    file_size: int
    row_count: int


class FileWriter(Protocol):
    """An open data file. Batches have the canonical Arrow types of the fields (see `arrow_types`), in their order."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; they may stay in memory until a row group is full."""
        ...

    @property
    def estimated_bytes(self) -> int:
        """About how large the file would be if closed now; decides when to roll."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Memory of rows that wait for their row group to fill."""
        ...

    def flush(self) -> None:
        """Write what is buffered, though it may make a small row group."""
        ...

    def close(self) -> WrittenFile:
        """Finish the file. Raises StorageError; then `abort` is still to be called."""
        ...

    def abort(self) -> None:
        """Close without finishing; the writer of `registry.open_writer` also deletes the file. Raises nothing."""
        ...


class RowGroupWriter(ABC):
    """Base of writers that buffer batches until they fill a row group.

    Attributes:
        row_count: rows taken, buffered ones included.
        buffered_bytes: memory of rows that wait for their row group to fill.
    """

    def __init__(self, fields: Iterable[DataField], max_bytes: int, max_rows: int) -> None:
        self._canonical = arrow_schema(fields)
        self._max_bytes = max(max_bytes, 1)
        self._max_rows = max(max_rows, 1)
        self._batches: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self.buffered_bytes = 0
        self.row_count = 0

    @abstractmethod
    def encode(self, table: pa.Table, rows: int) -> None:
        """Write a table, in row groups of `rows`."""

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._batches.append(batch)
        self.row_count += batch.num_rows
        self._buffered_rows += batch.num_rows
        self.buffered_bytes += batch.nbytes
        if self.buffered_bytes >= self._max_bytes or self._buffered_rows >= self._max_rows:
            self.flush()

    def flush(self) -> None:
        if not self._batches:
            return
        # As many row groups of equal size as come nearest to the limits.
        table = pa.Table.from_batches(self._batches, self._canonical)
        groups = max(1, round(self.buffered_bytes / self._max_bytes), round(self._buffered_rows / self._max_rows))
        each = -(-self._buffered_rows // groups)
        self._batches, self._buffered_rows, self.buffered_bytes = [], 0, 0
        self.encode(table, each)
