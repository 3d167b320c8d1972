"""Reader and writer of ORC data files.

Types are those of Java, but CHAR and VARCHAR are written as plain strings: Arrow cannot name them. Java asks for the
type it knows and converts, so it reads the same values.

ORC stores timestamps as seconds and a fraction; Arrow makes 64-bit nanoseconds of them, and may wrap around. Files with
values that do not fit (Java writes years 1 to 9999) are refused by the statistics in the footer, and never written.

Source: Paimon spec, chapter Data file; Java `format/orc/OrcReaderFactory`, `format/orc/OrcTypeUtil`,
`format/OrcOptions`; ORC specification v1, chapters File Tail and Compression.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as po

from paimon_spark.errors import FormatError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import NANOSECOND_DAYS, ORC_ID, arrow_type, with_field_id
from paimon_spark.format.arrays.nested import LeafReplacement, convert_table, replaced_fields, with_null_fields
from paimon_spark.format.arrays.pieces import BATCH_BYTES, is_text, least_bytes
from paimon_spark.format.casts.conformance import conformed, conformer
from paimon_spark.format.casts.timestamps import PER_SECOND
from paimon_spark.format.data_files.orc_footer import OrcFooter, longest_texts, read_footer
from paimon_spark.format.data_files.requests import FileRead, FileWrite, Rows, WrittenFile, opened
from paimon_spark.options.descriptor import Option, integer, memory_size, string
from paimon_spark.types import AtomicType, DataField, types_in


def read_orc(read: FileRead) -> Iterator[Rows]:
    """The rows of an ORC file, in file order.

    Raises:
        FormatError, pa.ArrowException, OSError: the file is not what its schema and manifest say.
        UnsupportedFeatureError: a timestamp column may leave 64-bit nanoseconds.
    """
    with opened(read) as source:
        file = po.ORCFile(source)
        if file.nrows != read.row_count:
            raise FormatError(f"it holds {file.nrows} rows, its manifest says {read.row_count}")
        footer = read_footer(source)
        if footer is not None and footer.stripe_rows != read.row_count:
            raise FormatError(f"its stripes hold {footer.stripe_rows} rows, its footer says {read.row_count}")
        names = set(file.schema.names)
        wanted = [f.name for f in read.fields if f.name in names]
        _refuse_far_timestamps(footer, file.schema, wanted)
        for first, batch in _batches(file, footer, source, wanted, read):
            found = dict(zip(batch.schema.names, batch.columns, strict=True))
            arrays = [
                _conformed(found[f.name], f) if f.name in found else pa.nulls(batch.num_rows, arrow_type(f.type))
                for f in read.fields
            ]
            for start in range(0, batch.num_rows, read.batch_rows):
                n = min(read.batch_rows, batch.num_rows - start)
                yield Rows(first + start, n, [a.slice(start, n) for a in arrays])


def _batches(
    file: po.ORCFile, footer: OrcFooter | None, source: pa.NativeFile, columns: list[str], read: FileRead
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The columns of the file with the position of the first row of each batch.

    Stripes that hold none of the wanted rows are skipped. Large ones are decoded in parts, unless some are skipped and
    the others need not much more memory.
    """
    stripes = footer.stripes if footer is not None else ()
    places = list(accumulate((s.rows for s in stripes), initial=0))
    wanted = [read.wants(first, s.rows) for first, s in zip(places, stripes, strict=False)]
    large = max((s.size for s in stripes), default=0) > _STRIPE_AT_ONCE_BYTES // read.open_files
    # Runs of equal values take next to no bytes in the file, nor do indexes into a dictionary.
    least = sum(least_bytes(arrow_type(f.type)) for f in read.fields)
    if footer is not None:
        texts = _text_columns(file.schema, columns)
        found = [s for s, is_wanted in zip(stripes, wanted, strict=True) if is_wanted] if texts else ()
        least += max((longest_texts(source, footer, s, texts) for s in found), default=0)
    longest = max((s.rows for s in stripes), default=read.row_count)
    most = (_MOST_DECODED_BYTES if all(wanted) else 4 * _MOST_DECODED_BYTES) // read.open_files
    is_huge = least * longest > most
    if columns and (read.in_parts or is_huge or (large and all(wanted))):
        row_bytes = max((s.size // max(s.rows, 1) for s in stripes), default=0)
        yield from _streamed(source, columns, read.row_count, read.rows_of(max(row_bytes, least)))
        return
    first = 0
    for number in range(file.nstripes):
        if not wanted or wanted[number]:
            stripe = file.read_stripe(number, columns=columns or None)
            yield first, stripe
            first += stripe.num_rows
        else:
            first = places[number + 1]
    if first != read.row_count:
        raise FormatError(f"its stripes hold {first} rows, its footer says {read.row_count}")


def _streamed(
    source: pa.NativeFile, columns: list[str], row_count: int, batch_rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The columns batch by batch: Arrow decodes a stripe in parts only for a scanner."""
    from pyarrow.dataset import OrcFileFormat  # files with small stripes do without

    first = 0
    fragment = OrcFileFormat().make_fragment(source)
    for batch in fragment.to_batches(
        columns=columns, batch_size=batch_rows, batch_readahead=1, fragment_readahead=1, use_threads=False
    ):
        yield first, batch
        first += batch.num_rows
    if first != row_count:
        raise FormatError(f"its stripes hold {first} rows, its footer says {row_count}")


def _conformed(array: pa.Array, f: DataField) -> pa.Array:
    return conformed(array, conformer(array.type, f.type, f.name, padded_chars=True), f.name)


def _text_columns(schema: pa.Schema, names: Collection[str]) -> list[int]:
    """Ids of the columns with texts or bytes of any length, in those of these names."""
    kinds = [(f.name, kind) for f in schema for _, kind in _with_nested(f.name, f.type)]
    return [number for number, (name, kind) in enumerate(kinds, 1) if name in names and is_text(kind)]


def _refuse_far_timestamps(footer: OrcFooter | None, schema: pa.Schema, names: list[str]) -> None:
    """Raise UnsupportedFeatureError when a timestamp of the columns may not fit Arrow's nanoseconds."""
    columns = [(f.name, path, kind) for f in schema for path, kind in _with_nested(f.name, f.type)]
    for column_id, (name, path, kind) in enumerate(columns, 1):
        if name not in names or not pa.types.is_timestamp(kind):
            continue
        if footer is None:
            raise UnsupportedFeatureError(
                "it has timestamps and is compressed with lzo; timestamps can be read from ORC files with the codecs "
                "none, zlib, snappy, lz4 and zstd",
                feature="orc compression lzo",
            )
        found = footer.timestamp_ranges[column_id] if column_id < len(footer.timestamp_ranges) else None
        if found is None or not -SAFE_SECONDS * 1000 < found[0] <= found[1] < SAFE_SECONDS * 1000:
            raise UnsupportedFeatureError(
                f"by its statistics, column {path} may hold timestamps outside {NANOSECOND_DAYS}, "
                "which cannot be read from ORC files; rewrite the table as Parquet "
                "(file.format = parquet), read it with Java Paimon, or leave the column out with the option columns",
                feature="ORC timestamps outside 64-bit nanoseconds",
                column=path,
            )


def _with_nested(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Paths and types of a column and of all that is nested in it, in the order of ORC's column ids."""
    yield path, kind
    if pa.types.is_map(kind):
        yield from _with_nested(f"{path}.key", kind.key_type)
        yield from _with_nested(f"{path}.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _with_nested(f"{path}.element", kind.value_type)
    else:
        for i in range(kind.num_fields):
            yield from _with_nested(f"{path}.{kind.field(i).name}", kind.field(i).type)


COMPRESS: Option[str | None] = Option("orc.compress", string, None, "Compression; wins over all others.")
STRIPE_SIZE: Option[int | None] = Option("orc.stripe.size", memory_size, None, "Bytes of a stripe.")
BUFFER_SIZE = Option("orc.compress.size", memory_size, 256 << 10, "Bytes that are compressed together.")
INDEX_STRIDE = Option("orc.row.index.stride", integer, 10_000, "Rows between entries of the index.")

_STRIPE_BYTES: Final = 16 << 20
"""A quarter of Java's: a writer keeps a whole stripe in memory, and a task may have many writers open."""
_BATCH_ROWS: Final = 4096
_CODECS: Final = ("uncompressed", "zlib", "snappy", "lz4", "zstd")


class OrcFileWriter:
    """Writes one ORC file; see `requests.FileWriter`. Rows wait inside the library until a stripe is full."""

    def __init__(self, write: FileWrite) -> None:
        for f in write.fields:
            if any(isinstance(t, AtomicType) and t.name == "VARIANT" for t in types_in(f.type)):
                raise UnsupportedFeatureError(
                    f"column {f.name} is {f.type}, and ORC files cannot hold VARIANT; use file.format = parquet",
                    feature="VARIANT in ORC",
                )
        schema = pa.schema([with_field_id(f, ORC_ID) for f in write.fields])
        self._schema, self._converts = replaced_fields(schema, _replacement)
        codec = _codec(COMPRESS.get(write.settings) or write.compression or "zstd")
        self._sink = _Sink(write.store.open_output(write.path))
        self._writer = po.ORCWriter(
            self._sink.file,
            batch_size=_BATCH_ROWS,
            stripe_size=STRIPE_SIZE.get(write.settings) or write.row_group_bytes or _STRIPE_BYTES,
            compression=codec,
            compression_block_size=BUFFER_SIZE.get(write.settings),
            row_index_stride=INDEX_STRIDE.get(write.settings),
        )
        self._rows = 0
        self._taken = 0
        self._flushed_at, self._flushed = 0, 0

    def write(self, batch: pa.RecordBatch) -> None:
        table = pa.Table.from_batches([batch])
        self._writer.write(_plain(convert_table(table, self._schema, self._converts)))
        self._rows += batch.num_rows
        self._taken += batch.nbytes
        self._sink.check()
        position = self._sink.tell()
        if position > self._flushed:  # a stripe went out
            self._flushed, self._flushed_at = position, self._taken

    @property
    def estimated_bytes(self) -> int:
        ratio = self._flushed / self._flushed_at if self._flushed_at else 1.0
        return self._flushed + int((self._taken - self._flushed_at) * min(ratio, 1.0))

    @property
    def buffered_bytes(self) -> int:
        return 0

    def flush(self) -> None:
        """Nothing: the library ends stripes by itself."""

    def close(self) -> WrittenFile:
        if not self._rows:
            self._writer.write(self._schema.empty_table())
        self._writer.close()
        self._sink.check()
        self._sink.out.close()
        return WrittenFile(self._sink.tell(), self._rows)

    def abort(self) -> None:
        self._sink.discards = True
        with suppress(Exception):
            self._writer.close()
        with suppress(Exception):
            self._sink.out.close()


def _plain(table: pa.Table) -> pa.Table:
    """The table with nested columns as the library writes them right.

    It takes the nulls of a sliced struct from its beginning, and shifts the fields of a null struct inside a
    struct without nulls, unless they are null themselves.
    """
    columns = [
        pa.concat_arrays([with_null_fields(chunk) for chunk in c.chunks])
        if pa.types.is_nested(f.type) and c.num_chunks
        else c
        for f, c in zip(table.schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _codec(name: str) -> str:
    codec = name.strip().lower().replace("none", "uncompressed")
    if codec not in _CODECS:
        raise InvalidOptionError(
            f"compression {name!r} cannot be written in ORC files; {', '.join(_CODECS)} can", value=name
        )
    return codec


def _replacement(kind: pa.DataType) -> LeafReplacement | None:
    """Times become integers; timestamps are looked at."""
    if pa.types.is_time32(kind):
        return LeafReplacement(pa.int32(), lambda a: a.cast(pa.int32()))
    return LeafReplacement(kind, _checked) if pa.types.is_timestamp(kind) else None


def _checked(array: pa.Array) -> pa.Array:
    """The timestamps, when Java reads what the library writes, and this module too. Raises UnsupportedFeatureError.

    Before 1970 the library takes the fraction of a second as negative, on which Java's reader fails.
    """
    values = arrow_numpy.values(array)
    valid = arrow_numpy.validity(array)
    per_second = PER_SECOND[array.type.unit]
    if bool(((values < 0) & (values % per_second != 0) & valid).any()):
        raise UnsupportedFeatureError(
            "a timestamp before 1970 with a fraction of a second cannot be written to ORC so that Java reads it; "
            "set the table option file.format to parquet",
            feature="timestamps before 1970 in ORC",
        )
    limit = SAFE_SECONDS * per_second
    if array.type.unit != "ns" and bool((((values <= -limit) | (values >= limit)) & valid).any()):
        raise UnsupportedFeatureError(
            f"a timestamp outside {NANOSECOND_DAYS} cannot be written to ORC, from which it could not be read again; "
            "set the table option file.format to parquet",
            feature="ORC timestamps outside 64-bit nanoseconds",
        )
    return array


class _Sink(io.RawIOBase):
    """The file as the library sees it: writing never fails, for an error there would end the whole process.

    Attributes:
        discards: whether bytes are taken and dropped.
    """

    def __init__(self, out: pa.NativeFile) -> None:
        self.out = out
        self.file = pa.PythonFile(self, mode="w")
        self.discards = False
        self._failure: Exception | None = None
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        self._position += len(data)
        if not self.discards:
            try:
                self.out.write(data)
            except Exception as e:  # noqa: BLE001  whatever it is, `check` raises it
                self._failure, self.discards = e, True
        return len(data)

    def check(self) -> None:
        """Raise what a write failed with."""
        if self._failure is not None:
            raise self._failure


_STRIPE_AT_ONCE_BYTES: Final = 8 << 20
"""A stripe of more bytes in the file is decoded in parts."""
_MOST_DECODED_BYTES: Final = 4 * BATCH_BYTES
"""Of the values of a stripe that is decoded whole, as far as they are known before."""
SAFE_SECONDS: Final = 9_223_372_036
"""Timestamps nearer to 1970 fit 64-bit nanoseconds, whatever their fraction of a second."""
