"""What the readers of data files take and give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from paimon_spark.predicate.ast import Predicate
from paimon_spark.storage.range_file import failure_of
from paimon_spark.storage.store import ReadableStore
from paimon_spark.types import DataField


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


@dataclass(frozen=True, slots=True)
class Pruning:
    """What lets a reader leave out parts of a file in which no row can match.

    Attributes:
        predicate: over columns of the schema being read.
        columns: for each column the predicate may be tested on, its name in the file; others decide nothing.
    """

    predicate: Predicate
    columns: Mapping[str, str]


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
        pruning: see there; None reads all.
        open_files: how many files are read side by side with this one, itself included; they share the memory
            for bytes not decoded yet.
    """

    store: ReadableStore
    path: str
    fields: tuple[DataField, ...]
    row_count: int
    batch_rows: int = 65536
    threads: bool = False
    pruning: Pruning | None = None
    open_files: int = 1


@contextmanager
def opened(read: FileRead) -> Iterator[pa.NativeFile]:
    """The file, for Arrow. A store that fails meanwhile fails with its own error, not with Arrow's about it."""
    with read.store.open(read.path) as source:
        try:
            yield source
        except (pa.ArrowException, OSError) as e:
            failure = failure_of(source)
            if failure is None or failure is e:
                raise
            raise failure from e
