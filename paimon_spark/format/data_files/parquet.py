"""Reader and writer of Parquet data files, laid out as by Java.

Row groups that statistics rule out are skipped; the others are decoded batch by batch, never whole.

Columns get a dictionary only where values repeat in a sample: trying costs half of the encoding time and makes files
of distinct values larger. Nanosecond timestamps are INT96, as every release of Java reads them; Arrow would then write
all timestamps of a file as INT96, so it gets them as 12 bytes, which become INT96 in the footer.

Column chunks of FLOAT and DOUBLE that hold NaN have no minimum and maximum in the footer, as with Java: Arrow leaves
NaN out of them, and readers that take NaN for the largest value would skip its rows.

Source: Paimon spec, chapter Data file; Java `format/parquet/ParquetReaderFactory`, `ParquetSchemaConverter`,
`writer/RowDataParquetBuilder`.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.errors import FormatError, InvalidOptionError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_type, timestamp_unit, with_field_id
from paimon_spark.format.arrays.nested import (
    Convert,
    LeafReplacement,
    convert_table,
    leaf_arrays,
    leaf_types,
    replaced_fields,
)
from paimon_spark.format.arrays.pieces import cut, gathered, together
from paimon_spark.format.casts.conformance import conformed, conformer
from paimon_spark.format.casts.timestamps import INT96, to_int96
from paimon_spark.format.data_files.parquet_footer import MAGIC, as_file, bytes_as_int96, int96_as_bytes, without_bounds
from paimon_spark.format.data_files.parquet_memory import TextReader, leaf_of, row_bytes, without_dictionaries
from paimon_spark.format.data_files.requests import (
    Bounds,
    FileRead,
    FileWrite,
    RowGroupWriter,
    Rows,
    WrittenFile,
    opened,
)
from paimon_spark.options.data_files import zstd_level
from paimon_spark.options.descriptor import Option, boolean, memory_size, string
from paimon_spark.storage.store import prefetch
from paimon_spark.types import DataField, DataType, RowType, TimestampType

_FETCHED_BYTES: Final = 64 << 20
_LOCAL_BYTES: Final = 256 << 20
_MIN_BUFFER: Final = 256 << 10
_MAX_BUFFER: Final = 8 << 20


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
        options["page_checksum_verification"] = True
        yield from _Decoder(source, metadata, read, options).rows()


def _is_local(source: pa.NativeFile) -> bool:
    return isinstance(source, (pa.OSFile, pa.MemoryMappedFile, pa.BufferReader))


def _buffering(source: pa.NativeFile, columns: int, open_files: int) -> dict[str, Any]:
    """How the file's bytes are fetched: in few requests while they are few, else streamed per column.

    Without it Arrow holds the compressed columns of a row group, which may be as large as its writer liked.
    """
    local = _is_local(source)
    if source.size() <= (_LOCAL_BYTES if local else _FETCHED_BYTES) // open_files:
        return {"buffer_size": 0, "pre_buffer": not local}
    each = min(max(_FETCHED_BYTES // max(columns, 1) // open_files, _MIN_BUFFER), _MAX_BUFFER)
    return {"buffer_size": each, "pre_buffer": False}


class _Decoder:
    """Decodes the wanted columns of an open file."""

    def __init__(
        self, source: pa.NativeFile, metadata: pq.FileMetaData, read: FileRead, options: Mapping[str, Any]
    ) -> None:
        self._open = partial(pq.ParquetFile, source, metadata=metadata, **options)
        self._file = self._open()
        self._read = read
        self._names = set(self._file.schema_arrow.names)
        self._paths = [p for f in read.fields if f.name in self._names for p in _paths(f.name, f.type)]
        paths = set(self._paths)
        columns = (metadata.schema.column(i) for i in range(metadata.num_columns))
        wanted = [(i, c) for i, c in enumerate(columns) if not paths.isdisjoint(_outer(c.path))]
        self._leaves = [leaf_of(i, c) for i, c in wanted]
        self._texts = TextReader(source, metadata, self._leaves, is_local=_is_local(source))
        self._columns: list[tuple[int, Convert | None]] | None = None
        self._source, self._prefetches = source, bool(options["pre_buffer"])

    def _ranges(self, group: int) -> Iterator[tuple[int, int]]:
        """Offsets and bytes of the wanted columns of a row group."""
        for leaf in self._leaves:
            chunk = self._file.metadata.row_group(group).column(leaf.number)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                start = min(start, chunk.dictionary_page_offset)
            yield start, chunk.total_compressed_size

    def rows(self) -> Iterator[Rows]:
        for first, groups, count in _runs(self._file, self._read):
            if not self._paths:
                for start in range(0, count, self._read.batch_rows):
                    n = min(self._read.batch_rows, count - start)
                    yield Rows(first + start, n, [pa.nulls(n, arrow_type(f.type)) for f in self._read.fields])
                continue
            if self._prefetches:
                prefetch(self._source, [r for group in groups for r in self._ranges(group)])
            done = 0
            for batch in self._batches(groups):
                yield Rows(first + done, batch.num_rows, self._arrays(batch))
                done += batch.num_rows
            if done != count:
                raise FormatError(f"row groups {list(groups)} hold {done} rows, their metadata says {count}")

    def _batches(self, all_groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows of row groups, without dictionaries."""
        rows = self._batch_rows(all_groups)
        # Arrow cuts batches with dictionaries at row groups, which some writers make small.
        return gathered(self._decoded(all_groups, rows), rows)

    def _decoded(self, all_groups: Sequence[int], rows: int) -> Iterator[pa.RecordBatch]:
        for groups, texts in self._texts.runs(all_groups, rows, self._read.open_files):
            file = self._open(read_dictionary=texts) if texts else self._file
            for batch in file.iter_batches(
                rows, row_groups=groups, columns=self._paths, use_threads=self._read.threads
            ):
                yield from without_dictionaries(batch)

    def _batch_rows(self, groups: Sequence[int]) -> int:
        """Rows to decode at a time."""
        metadata = self._file.metadata
        found = [metadata.row_group(i) for i in groups]
        least = row_bytes(self._read.fields, self._leaves, found)
        rows = self._read.rows_of(max(least, *(g.total_byte_size // max(g.num_rows, 1) for g in found)))
        if rows == self._read.batch_rows:
            return rows
        stored = (sum(g.column(i.number).total_uncompressed_size for i in self._leaves) for g in found)
        sizes = [size // max(g.num_rows, 1) for size, g in zip(stored, found, strict=True)]
        return self._read.rows_of(max(least, *sizes))

    def _arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if self._columns is None:
            places = {name: i for i, name in reversed([*enumerate(batch.schema.names)])}
            self._columns = [self._column(batch.schema, places, f) for f in self._read.fields]
        return [
            pa.nulls(batch.num_rows, arrow_type(f.type))
            if number < 0
            else conformed(batch.column(number), convert, f.name)
            for f, (number, convert) in zip(self._read.fields, self._columns, strict=True)
        ]

    def _column(self, schema: pa.Schema, places: Mapping[str, int], f: DataField) -> tuple[int, Convert | None]:
        if f.name not in self._names:
            return -1, None
        number = places.get(f.name)
        if number is None:
            raise FormatError(f"column {f.name} has none of the fields of {f.type}")
        return number, conformer(schema.field(number).type, f.type, f.name)


def _paths(name: str, kind: object) -> Iterator[str]:
    """Dotted names of what is wanted of a column; rows directly inside rows are pruned."""
    if isinstance(kind, RowType) and kind.fields:
        for f in kind.fields:
            yield from _paths(f"{name}.{f.name}", f.type)
    else:
        yield name


def _outer(path: str) -> Iterator[str]:
    """The dotted path and those that it begins with."""
    yield path
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def _runs(file: pq.ParquetFile, read: FileRead) -> Iterator[tuple[int, list[int], int]]:
    """Row groups to read, neighbours together: position of the first row, group numbers, rows."""
    may_match = read.may_match
    first = 0
    start, count = 0, 0
    groups: list[int] = []
    columns = _leaf_numbers(file) if may_match is not None else {}
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        if read.wants(first, group.num_rows) and (may_match is None or may_match(partial(_bounds, group, columns))):
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


def _bounds(group: Any, columns: dict[str, tuple[int, Any]], name: str, kind: DataType) -> Bounds | None:
    number, schema = columns.get(name, (-1, None))
    if number < 0 or not _is_exact(kind, schema):
        return None
    chunk = group.column(number)
    if not chunk.is_stats_set:
        return None
    stats = chunk.statistics
    nulls = stats.null_count if stats.has_null_count else None
    if stats.has_min_max:
        with suppress(ValueError, OverflowError, UnicodeDecodeError, pa.ArrowException):
            return Bounds(stats.min, stats.max, nulls, group.num_rows)
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


COMPRESSION: Option[str | None] = Option("parquet.compression", string, None, "Compression; wins over all others.")
ZSTD_LEVEL: Option[int | None] = Option("parquet.compression.codec.zstd.level", zstd_level, None, "Level of zstd.")
DICTIONARY = Option("parquet.enable.dictionary", boolean, True, "Whether columns whose values repeat get a dictionary.")
PAGE_SIZE = Option("parquet.page.size", memory_size, 1 << 20, "Bytes of a page.")
DICTIONARY_SIZE = Option(
    "parquet.dictionary.page.size", memory_size, 1 << 20, "Bytes at which a dictionary is given up."
)
BLOCK_SIZE: Option[int | None] = Option("parquet.block.size", memory_size, None, "Bytes of a row group.")

_ROW_GROUP_BYTES: Final = 64 << 20
_SAMPLE_ROWS: Final = 20_000
_CODECS: Final = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
_CODEC_NAMES: Final = {"uncompressed": "none", "lz4_raw": "lz4"}
_TAKES_UTC_SETTING: Final = "write_time_adjusted_to_utc" in inspect.signature(pq.ParquetWriter.__init__).parameters
"""Releases of Arrow without the setting do so always, as Java does."""


class ParquetFileWriter(RowGroupWriter):
    """Writes one Parquet file; see `requests.FileWriter`."""

    def __init__(self, write: FileWrite) -> None:
        size = BLOCK_SIZE.get(write.settings) or write.row_group_bytes or _ROW_GROUP_BYTES
        super().__init__(write.fields, size, write.row_group_rows)
        self._write = write
        self._schema, self._converts = replaced_fields(pa.schema([with_field_id(f) for f in write.fields]), _as_int96)
        self._codec = _codec(COMPRESSION.get(write.settings) or write.compression or "zstd")
        self._out = write.store.open_output(write.path)
        kinds = [[kind for _, kind in leaf_types(f.name, f.type)] for f in self._schema]
        self._nans = _NanChunks(kinds)
        self._has_int96 = any(INT96 in column for column in kinds)
        self._sink = _FooterSink(self._out) if self._has_int96 or self._nans.has_floats else None
        self._writer: pq.ParquetWriter | None = None
        self._encoded_bytes = 0

    @property
    def estimated_bytes(self) -> int:
        written = int(self._out.tell())
        ratio = written / self._encoded_bytes if self._encoded_bytes else 1.0
        return written + int(self.buffered_bytes * min(ratio, 1.0))

    def close(self) -> WrittenFile:
        self.flush()
        writer = self._writer or self._open(self._schema.empty_table())
        if self._sink is not None:
            self._sink.keep()
        writer.close()
        if self._sink is not None:
            self._sink.finish(self._footer)
        size = int(self._out.tell())
        self._out.close()
        return WrittenFile(size, self.row_count)

    def abort(self) -> None:
        if self._writer is not None:
            with suppress(Exception):  # it writes a footer, for which there may be no room
                self._writer.close()
            self._writer.is_open = False  # else it tries again when it is collected
        with suppress(Exception):
            self._out.close()

    def encode(self, table: pa.Table, rows: int) -> None:
        size = table.nbytes
        if any(self._converts):
            table = convert_table(table, self._schema, self._converts)
        writer = self._writer or self._open(table)
        writer.write_table(table, row_group_size=rows)
        self._nans.add(table, rows)
        self._encoded_bytes += size

    def _footer(self, footer: bytes) -> bytes:
        """Arrow's footer, corrected where Java writes another one."""
        if self._nans.found:
            footer = without_bounds(footer, self._nans.found)
        return bytes_as_int96(footer) if self._has_int96 else footer

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        """The library's writer, set up for values like those of `first`."""
        settings = self._write.settings
        level = ZSTD_LEVEL.get(settings) or self._write.zstd_level
        options: dict[str, Any] = {"write_time_adjusted_to_utc": True} if _TAKES_UTC_SETTING else {}
        plain = [path for f in self._schema for path, kind in leaf_types(f.name, f.type) if kind != INT96]
        self._writer = pq.ParquetWriter(
            self._out if self._sink is None else self._sink.file,
            self._schema,
            compression=self._codec,
            compression_level=level if self._codec == "zstd" else None,
            use_dictionary=repeating(first) if DICTIONARY.get(settings) else False,
            # INT96 has no order that its statistics could follow.
            write_statistics=plain or False,
            # The bounds of pages leave out NaN too.
            write_page_index=False,
            data_page_size=PAGE_SIZE.get(settings),
            dictionary_pagesize_limit=DICTIONARY_SIZE.get(settings),
            store_schema=False,
            store_decimal_as_integer=True,
            **options,
        )
        return self._writer


def _codec(name: str) -> str:
    codec = name.strip().lower()
    codec = _CODEC_NAMES.get(codec, codec)
    if codec not in _CODECS:
        raise InvalidOptionError(
            f"compression {name!r} cannot be written in Parquet files; {', '.join(_CODECS)} can", value=name
        )
    return codec


def repeating(table: pa.Table) -> list[str]:
    """Paths of the leaf columns in which, by the first rows, fewer than half of the values are distinct."""
    rows = table.slice(0, _SAMPLE_ROWS).to_batches()
    if not rows:
        return []
    sample = next(cut(together(rows)[0]))
    out = []
    for name, column in zip(sample.schema.names, sample.columns, strict=True):
        for path, values in leaf_arrays(name, column):
            if pa.types.is_boolean(values.type):
                continue
            if 2 * _distinct(values) < len(values) - values.null_count:
                out.append(path)
    return out


def _distinct(values: pa.Array) -> int:
    """How many different values there are, nulls aside."""
    if not pa.types.is_primitive(values.type):
        return len(values.unique()) - int(values.null_count > 0)
    # Sorting a sample takes a tenth of the time of hashing it.
    raw = arrow_numpy.values(values.drop_null())
    ordered = np.sort(raw.view(f"i{raw.dtype.itemsize}"))
    return min(len(raw), 1) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _as_int96(kind: pa.DataType) -> LeafReplacement | None:
    return LeafReplacement(INT96, to_int96) if pa.types.is_timestamp(kind) and kind.unit == "ns" else None


class _NanChunks:
    """Which column chunks hold NaN, as (row group, leaf); `kinds` are the types of the leaves of each column."""

    def __init__(self, kinds: Sequence[Sequence[pa.DataType]]) -> None:
        starts = accumulate(map(len, kinds), initial=0)
        self._columns = [
            (number, start)
            for number, (start, column) in enumerate(zip(starts, kinds, strict=False))
            if any(map(pa.types.is_floating, column))
        ]
        self._groups = 0
        self.found: set[tuple[int, int]] = set()

    @property
    def has_floats(self) -> bool:
        """Whether any leaf is FLOAT or DOUBLE."""
        return bool(self._columns)

    def add(self, table: pa.Table, rows: int) -> None:
        """Look at a table that is written in row groups of `rows`."""
        for begin in range(0, table.num_rows, rows):
            for number, first_leaf in self._columns:
                for chunk in table.column(number).slice(begin, rows).chunks:
                    for leaf, (_, values) in enumerate(leaf_arrays("", chunk), first_leaf):
                        if pa.types.is_floating(values.type) and _has_nan(values):
                            self.found.add((self._groups, leaf))
            self._groups += 1


def _has_nan(array: pa.Array) -> bool:
    raw = arrow_numpy.values(array)
    if not len(raw) or raw.max() == raw.max():
        return False
    # The slots of nulls may hold NaN too.
    return not array.null_count or bool(pc.any(pc.is_nan(array)).as_py())


class _FooterSink(io.RawIOBase):
    """Passes a file on until its footer comes, which is kept back to be edited."""

    def __init__(self, out: pa.NativeFile) -> None:
        self._out = out
        self._kept: list[bytes] | None = None
        self.file = pa.PythonFile(self, mode="w")

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._out.tell()) + sum(map(len, self._kept or ()))

    def write(self, data: Any) -> int:
        if self._kept is not None:
            self._kept.append(bytes(data))
        else:
            self._out.write(data)
        return len(data)

    def keep(self) -> None:
        """Keep back what is written from now on."""
        self._kept = []

    def finish(self, edit: Callable[[bytes], bytes]) -> None:
        """Write what was kept back, the footer as `edit` makes it."""
        data = b"".join(self._kept or ())
        length = int.from_bytes(data[-8:-4], "little")
        footer = edit(data[-8 - length : -8])
        self._out.write(data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + MAGIC)
