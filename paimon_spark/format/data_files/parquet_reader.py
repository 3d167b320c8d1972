"""Reader of Parquet data files.

Row groups that statistics rule out are skipped; the others are decoded batch by batch, never whole.

Source: Paimon spec, chapter Data file; Java `format/parquet/ParquetReaderFactory`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_spark.errors import FormatError
from paimon_spark.format.arrays.arrow_types import arrow_type, timestamp_unit
from paimon_spark.format.arrays.nested import Convert
from paimon_spark.format.casts.conformance import conformed, conformer
from paimon_spark.format.data_files.parquet_footer import as_file, int96_as_bytes
from paimon_spark.format.data_files.requests import Bounds, BoundsOf, FileRead, MayMatch, Rows, opened
from paimon_spark.types import DataField, DataType, RowType, TimestampType

_FETCHED_BYTES: Final = 64 << 20
_LOCAL_BYTES: Final = 256 << 20
_LEAST_BUFFER: Final = 256 << 10
_MOST_BUFFER: Final = 8 << 20


def read_parquet(read: FileRead) -> Iterator[Rows]:
    """The rows of a Parquet file, in file order.

    Raises:
        FormatError, pa.ArrowException, OSError: the file is not what its schema and manifest say.
        DataError: a timestamp does not fit the column's type in Arrow.
    """
    with opened(read) as source:
        metadata = pq.read_metadata(source)
        if metadata.num_rows != read.row_count:
            raise FormatError(f"it holds {metadata.num_rows} rows, its manifest says {read.row_count}")
        int96 = _int96_columns(metadata)
        if any(f.name in int96 for f in read.fields):
            metadata = _without_int96(source)
        options = _buffering(source, metadata.num_columns, read.open_files)
        file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True, **options)
        yield from _Decoder(file, read).rows()


def _buffering(source: pa.NativeFile, columns: int, open_files: int) -> dict[str, Any]:
    """How the file's bytes are fetched: in few requests while they are few, else streamed per column.

    Without it Arrow holds the compressed columns of a row group, which may be as large as its writer liked.
    """
    local = isinstance(source, (pa.OSFile, pa.MemoryMappedFile, pa.BufferReader))
    if source.size() <= (_LOCAL_BYTES if local else _FETCHED_BYTES) // open_files:
        return {"buffer_size": 0, "pre_buffer": not local}
    each = min(max(_FETCHED_BYTES // max(columns, 1) // open_files, _LEAST_BUFFER), _MOST_BUFFER)
    return {"buffer_size": each, "pre_buffer": False}


class _Decoder:
    """Decodes the wanted columns of an open file."""

    def __init__(self, file: pq.ParquetFile, read: FileRead) -> None:
        self._file = file
        self._read = read
        self._names = set(file.schema_arrow.names)
        self._paths = [p for f in read.fields if f.name in self._names for p in _paths(f.name, f.type)]
        self._columns: list[tuple[int, Convert | None]] | None = None

    def rows(self) -> Iterator[Rows]:
        for first, groups, count in _runs(self._file, self._read.may_match):
            if not self._paths:
                yield from self._empty_rows(first, count)
                continue
            done = 0
            for batch in self._file.iter_batches(
                self._read.batch_rows, row_groups=groups, columns=self._paths, use_threads=self._read.threads
            ):
                yield Rows(first + done, batch.num_rows, self._arrays(batch))
                done += batch.num_rows
            if done != count:
                raise FormatError(f"row groups {list(groups)} hold {done} rows, their metadata says {count}")

    def _arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if self._columns is None:
            self._columns = [self._column(batch.schema, f) for f in self._read.fields]
        out = []
        for f, (number, convert) in zip(self._read.fields, self._columns, strict=True):
            if number < 0:
                out.append(pa.nulls(batch.num_rows, arrow_type(f.type)))
            else:
                out.append(conformed(batch.column(number), convert, f.name))
        return out

    def _column(self, schema: pa.Schema, f: DataField) -> tuple[int, Convert | None]:
        if f.name not in self._names:
            return -1, None
        if f.name not in schema.names:
            raise FormatError(f"column {f.name} has none of the fields of {f.type}")
        number = schema.names.index(f.name)
        return number, conformer(schema.field(number).type, f.type, f.name)

    def _empty_rows(self, first: int, count: int) -> Iterator[Rows]:
        step = self._read.batch_rows
        for start in range(0, count, step):
            n = min(step, count - start)
            arrays = [pa.nulls(n, arrow_type(f.type)) for f in self._read.fields]
            yield Rows(first + start, n, arrays)


def _paths(name: str, kind: object) -> Iterator[str]:
    """Dotted names of what is wanted of a column; rows directly inside rows are pruned."""
    if isinstance(kind, RowType) and kind.fields:
        for f in kind.fields:
            yield from _paths(f"{name}.{f.name}", f.type)
    else:
        yield name


def _runs(file: pq.ParquetFile, may_match: MayMatch | None) -> Iterator[tuple[int, list[int], int]]:
    """Row groups to read, neighbours together: position of the first row, group numbers, rows."""
    first = 0
    start, count = 0, 0
    groups: list[int] = []
    columns = _leaf_numbers(file) if may_match is not None else {}
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        if may_match is None or may_match(_bounds_of(group, columns)):
            if not groups:
                start = first
            groups.append(i)
            count += group.num_rows
        elif groups:
            yield start, groups, count
            groups, count = [], 0
        first += group.num_rows
    if groups:
        yield start, groups, count


def _is_exact(kind: DataType, schema: Any) -> bool:
    """Whether statistics are in the unit the column is read in: values are cut to it, statistics are not."""
    if not isinstance(kind, TimestampType):
        return True
    unit = {"ms": "milliseconds", "us": "microseconds"}.get(timestamp_unit(kind.precision))
    # Nanoseconds compare by their microseconds.
    return unit is not None and f'"{unit}"' in schema.logical_type.to_json()


def _leaf_numbers(file: pq.ParquetFile) -> dict[str, tuple[int, Any]]:
    """Numbers and schemas of top-level columns without children."""
    schema = file.metadata.schema
    out: dict[str, tuple[int, Any]] = {}
    for i in range(len(schema)):
        column = schema.column(i)
        if column.max_repetition_level == 0 and column.path == column.name and column.max_definition_level <= 1:
            out.setdefault(column.name, (i, column))
    return out


def _bounds_of(group: Any, columns: dict[str, tuple[int, Any]]) -> BoundsOf:
    def bounds(name: str, kind: DataType) -> Bounds | None:
        found = columns.get(name)
        return _bounds(group, found[0]) if found is not None and _is_exact(kind, found[1]) else None

    return bounds


def _bounds(group: Any, number: int) -> Bounds | None:
    chunk = group.column(number)
    if not chunk.is_stats_set:
        return None
    stats = chunk.statistics
    nulls = stats.null_count if stats.has_null_count else None
    if not stats.has_min_max:
        return Bounds(None, None, nulls, group.num_rows)
    try:
        return Bounds(stats.min, stats.max, nulls, group.num_rows)
    except (ValueError, OverflowError, UnicodeDecodeError, pa.ArrowException):
        return Bounds(None, None, nulls, group.num_rows)


def _int96_columns(metadata: pq.FileMetaData) -> frozenset[str]:
    """Top-level columns with an INT96 timestamp somewhere inside; names with dots give their first part too."""
    leaves = (metadata.schema.column(i) for i in range(len(metadata.schema)))
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    return frozenset(name for path in paths for name in (path, path.split(".")[0]))


def _without_int96(source: pa.NativeFile) -> pq.FileMetaData:
    """The file's metadata with INT96 columns as bytes."""
    size = source.size()
    source.seek(size - 8)
    length = int.from_bytes(source.read(4), "little")
    source.seek(size - 8 - length)
    footer = int96_as_bytes(source.read(length))
    return pq.read_metadata(pa.BufferReader(as_file(footer)))
