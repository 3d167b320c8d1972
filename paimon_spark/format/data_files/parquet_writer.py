"""Writer of Parquet data files, laid out as Java does.

Columns get a dictionary only where a sample says that values repeat: trying costs half of the encoding time and
makes files of distinct values larger. Nanosecond timestamps are INT96, as every release of Java reads them; Arrow
would write all timestamps of a file so, hence they are given to it as 12 bytes and named INT96 in the footer.

Column chunks of FLOAT and DOUBLE that hold NaN have no minimum and maximum in the footer, as with Java: Arrow leaves
NaN out of them, and readers that take NaN for the largest value would skip its rows.

Source: Paimon spec, chapter Data file; Java `format/parquet/ParquetSchemaConverter`, `writer/RowDataParquetBuilder`.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.errors import InvalidOptionError, StorageError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_schema, with_field_id
from paimon_spark.format.arrays.nested import Replacement, convert_table, leaf_arrays, leaf_types, replaced_fields
from paimon_spark.format.casts.timestamps import INT96, to_int96
from paimon_spark.format.data_files.parquet_footer import MAGIC, bytes_as_int96, without_bounds
from paimon_spark.format.data_files.requests import FileWrite, RowGroups, WrittenFile
from paimon_spark.options.descriptor import Option, boolean, integer, memory_size, string

COMPRESSION: Option[str | None] = Option("parquet.compression", string, None, "Compression; wins over all others.")
ZSTD_LEVEL: Option[int | None] = Option("parquet.compression.codec.zstd.level", integer, None, "Level of zstd.")
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
_TELLS_TIME_IN_UTC: Final = "write_time_adjusted_to_utc" in inspect.signature(pq.ParquetWriter.__init__).parameters
"""Releases of Arrow without the setting do so always, as Java does."""


class ParquetFileWriter:
    """Writes one Parquet file; see `requests.FileWriter`."""

    def __init__(self, write: FileWrite) -> None:
        self._write = write
        self._canonical = arrow_schema(write.fields)
        self._schema, self._converts = replaced_fields(pa.schema([with_field_id(f) for f in write.fields]), _as_int96)
        size = BLOCK_SIZE.get(write.settings) or write.row_group_bytes or _ROW_GROUP_BYTES
        self._groups = RowGroups(self._canonical, size, write.row_group_rows, self._encode)
        self._codec = _codec(COMPRESSION.get(write.settings) or write.compression or "zstd")
        self._out = write.store.open_output(write.path)
        kinds = [[kind for _, kind in leaf_types(f.name, f.type)] for f in self._schema]
        self._nans = NanChunks(kinds)
        self._has_int96 = any(INT96 in column for column in kinds)
        self._sink = _FooterSink(self._out) if self._has_int96 or self._nans.has_floats else None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._encoded_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        self._groups.add(batch)

    @property
    def estimated_bytes(self) -> int:
        written = int(self._out.tell())
        ratio = written / self._encoded_bytes if self._encoded_bytes else 1.0
        return written + int(self._groups.bytes * min(ratio, 1.0))

    @property
    def buffered_bytes(self) -> int:
        return self._groups.bytes

    def flush(self) -> None:
        self._groups.flush()

    def close(self) -> WrittenFile:
        self._groups.flush()
        writer = self._writer or self._open(self._schema.empty_table())
        if self._sink is not None:
            self._sink.keep()
        writer.close()
        if self._sink is not None:
            self._sink.finish(self._footer)
        size = int(self._out.tell())
        self._out.close()
        return WrittenFile(size, self._rows)

    def abort(self) -> None:
        self._groups.clear()
        if self._writer is not None:
            with suppress(Exception):  # it writes a footer, for which there may be no room
                self._writer.close()
            self._writer.is_open = False  # else it tries again when it is collected
        with suppress(Exception):
            self._out.close()
        with suppress(StorageError):
            self._write.store.delete(self._write.path)

    def _encode(self, table: pa.Table, rows: int) -> None:
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
        options: dict[str, Any] = {"write_time_adjusted_to_utc": True} if _TELLS_TIME_IN_UTC else {}
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
    sample = table.slice(0, _SAMPLE_ROWS)
    out = []
    for name, column in zip(sample.column_names, sample.columns, strict=True):
        if not column.num_chunks:
            continue
        for path, values in leaf_arrays(name, pa.concat_arrays(column.chunks)):
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


def _as_int96(kind: pa.DataType) -> Replacement | None:
    return Replacement(INT96, to_int96) if pa.types.is_timestamp(kind) and kind.unit == "ns" else None


class NanChunks:
    """Which column chunks of a file hold NaN, as (row group, leaf) numbers.

    Args:
        kinds: types of the leaves of each column.
    """

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
