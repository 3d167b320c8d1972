"""The indexes of one data file: built for a new file, written, and read.

They are in the file's manifest entry or in the file beside it. Its head names columns, the kinds of their indexes, and
where these are. All numbers are big-endian.

Source: Java `fileindex/FileIndexFormat`, `io/DataFileIndexWriter`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import FormatError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import Bool, scalar
from paimon_spark.format.file_index.bitmap import BitmapBuilder, BitmapIndex
from paimon_spark.format.file_index.bloom_filter import BloomFilter, BloomFilterBuilder, hashes_of_literals
from paimon_spark.format.file_index.keys import KeyType, key_type, keys_of, keys_of_literals
from paimon_spark.format.file_index.range_bitmap import RangeBitmapBuilder, RangeBitmapIndex
from paimon_spark.options.data_files import IndexOption
from paimon_spark.storage.store import ReadableStore
from paimon_spark.types import (
    AtomicType,
    BinaryType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    MapType,
    TimestampType,
)

MOST_ROWS: Final = 1 << 27
"""Rows of a data file whose indexes are used. Answers have a byte for each row, and manifests may state any number."""
_MOST_LOOKUPS: Final = 1000
"""Values of an IN list that are looked up in a bitmap."""


class IndexKind(StrEnum):
    """Kinds of indexes that are read and written, by their names in options and files."""

    BLOOM_FILTER = "bloom-filter"
    BITMAP = "bitmap"
    RANGE_BITMAP = "range-bitmap"


class FileIndexes:
    """The indexes of a data file of `row_count` rows; single ones are read when they are asked for."""

    def __init__(
        self, places: Mapping[str, Mapping[str, IndexRange]], read: Callable[[IndexRange], bytes], row_count: int
    ) -> None:
        self._places = places
        self._read = read
        self.row_count = row_count
        self._columns: dict[tuple[str, DataType], ColumnIndexes | None] = {}

    @staticmethod
    def of_bytes(data: bytes, row_count: int) -> FileIndexes:
        """Indexes of a manifest entry. Raises FormatError."""
        return FileIndexes(read_head(data), lambda place: data[place.start : place.start + place.length], row_count)

    @staticmethod
    def of_file(store: ReadableStore, path: str, row_count: int) -> FileIndexes:
        """Indexes of a file. Raises FormatError, FileMissingError, StorageError."""
        head = store.read_range(path, 0, HEAD_BYTES)
        length = head_length(head)
        if length > len(head):
            head = store.read_range(path, 0, length)
        return FileIndexes(read_head(head), lambda place: store.read_range(path, place.start, place.length), row_count)

    def column(self, name: str, t: DataType) -> ColumnIndexes | None:
        """Indexes of a column, by its name in the data file and its type in the schema; None without any."""
        if not 0 <= self.row_count <= MOST_ROWS:
            return None
        key = (name, t)
        if key not in self._columns:
            kind, found = key_type(t), self._places.get(name, {})
            # Java may index the values of CHAR with their padding, which readers remove.
            is_padded = isinstance(t, CharType) and not t.varying
            usable = {k: found[k] for k in IndexKind if k in found}
            self._columns[key] = None if kind is None or is_padded or not usable else ColumnIndexes(self, kind, usable)
        return self._columns[key]

    def bytes_at(self, place: IndexRange) -> bytes:
        """The bytes of an index. Raises FormatError where some are missing."""
        data = self._read(place)
        if len(data) != place.length:
            raise FormatError(f"it ends before byte {place.start + place.length}, where an index ends")
        return data


class ColumnIndexes:
    """The indexes of one column.

    Every method returns the rows of the data file for which a condition may be true, or None when these indexes do not
    tell. Raises FormatError, StorageError.
    """

    def __init__(self, file: FileIndexes, kind: KeyType, places: Mapping[IndexKind, IndexRange]) -> None:
        self._file = file
        self._kind = kind
        self._places = places

    def equal(self, literals: Sequence[Any]) -> Bool | None:
        """The rows with one of the values."""
        keys = keys_of_literals(tuple(literals), self._kind)
        if keys is None:
            return None
        place = self._places.get(IndexKind.BLOOM_FILTER)
        if place is not None:
            hashes = hashes_of_literals(tuple(literals), self._kind)
            if not BloomFilter(self._file.bytes_at(place)).may_contain(hashes):
                return np.zeros(self._file.row_count, np.bool_)
        index = self._rows_of_values if len(keys) <= _MOST_LOOKUPS else None
        return None if index is None else index.equal(keys)

    def not_equal(self, literals: Sequence[Any]) -> Bool | None:
        """Rows with a value other than these."""
        index = self._rows_of_values
        if index is None or not self._kind.is_exact or len(literals) > _MOST_LOOKUPS:
            return None
        keys = keys_of_literals(tuple(literals), self._kind)
        return None if keys is None else ~(index.equal(keys) | index.is_null())

    def between(self, low: Any | None, high: Any | None, *, low_in: bool = True, high_in: bool = True) -> Bool | None:
        """The rows with values between two, None for no bound; `_in`: with the bound itself."""
        index = self._range_bitmap
        if index is None:
            return None
        bounds = [None if v is None else keys_of_literals((v,), self._kind) for v in (low, high)]
        if any(v is not None and keys is None for v, keys in zip((low, high), bounds, strict=True)):
            return None
        # Both keys of zero: the smaller one is the lower bound, and a bound that is left out may stay in.
        first = None if bounds[0] is None else bounds[0][:1]
        last = None if bounds[1] is None else bounds[1][-1:]
        also = not self._kind.is_exact  # a value with the key of the bound may be beyond it
        return index.between(first, last, low_in=low_in or also, high_in=high_in or also)

    def is_null(self) -> Bool | None:
        """The rows with a null."""
        index = self._rows_of_values
        return None if index is None else index.is_null()

    def is_not_null(self) -> Bool | None:
        """The rows with a value."""
        nulls = self.is_null()
        return None if nulls is None else ~nulls

    @cached_property
    def _rows_of_values(self) -> BitmapIndex | RangeBitmapIndex | None:
        """Index of the rows of a value: the bitmap, or else the range bitmap."""
        place = self._places.get(IndexKind.BITMAP)
        if place is None:
            return self._range_bitmap
        return BitmapIndex(self._file.bytes_at(place), self._kind, self._file.row_count)

    @cached_property
    def _range_bitmap(self) -> RangeBitmapIndex | None:
        place = self._places.get(IndexKind.RANGE_BITMAP)
        if place is None:
            return None
        return RangeBitmapIndex(self._file.bytes_at(place), self._kind, self._file.row_count)


_MAGIC: Final = 1493475289347502
_VERSION: Final = 1
_START: Final = struct.Struct(">qii")
_EMPTY: Final = -1
HEAD_BYTES: Final = 4096
"""Bytes at the beginning of a file that contain most heads."""


class IndexRange(NamedTuple):
    """Where an index is in the file: its first byte, and how many bytes it has."""

    start: int
    length: int


def head_length(data: bytes) -> int:
    """Bytes of the head, of which `data` is the beginning, at least 16 bytes. Raises FormatError."""
    if len(data) < _START.size:
        raise FormatError("it is cut short")
    magic, version, length = _START.unpack_from(data)
    if magic != _MAGIC:
        raise FormatError(f"it begins with {magic}, which no file index does")
    if version != _VERSION:
        raise FormatError(f"it is a file index of version {version}; version {_VERSION} can be read")
    if length < _START.size:
        raise FormatError(f"its head is of {length} bytes")
    return int(length)


def read_head(data: bytes) -> dict[str, dict[str, IndexRange]]:
    """Places of the indexes by column and kind. Indexes of no rows are left out. Raises FormatError."""
    end = head_length(data)
    reader = _Head(data[:end])
    try:
        return {
            reader.text(): {
                kind: place for kind, place in (reader.index() for _ in range(reader.number())) if place.start >= 0
            }
            for _ in range(reader.number())
        }
    except (struct.error, UnicodeDecodeError) as e:
        raise FormatError(f"its head is damaged: {e}") from e


class _Head:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = _START.size

    def number(self) -> int:
        (out,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        return int(out)

    def text(self) -> str:
        (size,) = struct.unpack_from(">H", self._data, self._at)
        self._at += 2 + size
        if self._at > len(self._data):
            raise FormatError("its head is cut short")
        return _from_modified_utf8(self._data[self._at - size : self._at])

    def index(self) -> tuple[str, IndexRange]:
        return self.text(), IndexRange(self.number(), self.number())


def write_container(indexes: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """The file with these indexes, by column and kind; None for an index of no rows."""
    names = sum(2 + len(_modified_utf8(c)) + sum(2 + len(k) for k in kinds) for c, kinds in indexes.items())
    length = _START.size + 8 + 4 * len(indexes) + 8 * sum(map(len, indexes.values())) + names
    head, body = [_START.pack(_MAGIC, _VERSION, length), struct.pack(">i", len(indexes))], []
    at = length
    for column, kinds in indexes.items():
        head.append(_text(column) + struct.pack(">i", len(kinds)))
        for kind, data in kinds.items():
            size = 0 if data is None else len(data)
            head.append(_text(kind) + struct.pack(">ii", _EMPTY if data is None else at, size))
            body.append(data or b"")
            at += size
    return b"".join([*head, struct.pack(">i", 0), *body])


def _text(text: str) -> bytes:
    data = _modified_utf8(text)
    return struct.pack(">H", len(data)) + data


def _modified_utf8(text: str) -> bytes:
    """Text as Java's `DataOutput.writeUTF` encodes it: surrogates one by one, and zero in two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    chars = "".join(chr(u) for u in struct.unpack(f">{len(units) // 2}H", units))
    return chars.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _from_modified_utf8(data: bytes) -> str:
    chars = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return chars.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


_MICROS: Final = 6
_WRITTEN: Final = frozenset(kind.value for kind in IndexKind)


class _Builder(Protocol):
    def add(self, keys: pa.Array) -> None: ...

    def finish(self) -> bytes: ...


class FileIndexBuilder:
    """Builds the indexes of one data file from its rows."""

    def __init__(self, fields: Sequence[DataField], indexes: Sequence[IndexOption]) -> None:
        """Indexes of columns that the file does not store, and of kinds of other engines, are left out.

        Raises as `builder_of`.
        """
        names = [f.name for f in fields]
        self._parts = [
            (names.index(i.column), i, *builder_of(fields[names.index(i.column)], i))
            for i in indexes
            if i.column in names and i.kind in _WRITTEN
        ]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add rows: their columns, of the fields."""
        for number, index, kind, builder in self._parts:
            array = columns[number]
            if index.key is not None:
                array = pc.map_lookup(array, query_key=scalar(index.key, pa.string()), occurrence="first")
            builder.add(keys_of(array, kind))

    def finish(self) -> bytes:
        """The bytes of the file with the indexes."""
        found: dict[str, dict[str, bytes | None]] = {}
        for _, index, _, builder in self._parts:
            name = index.column if index.key is None else f"{index.column}[{index.key}]"
            found.setdefault(name, {})[index.kind] = builder.finish()
        return write_container(found)


def builder_of(f: DataField, index: IndexOption) -> tuple[KeyType, _Builder]:
    """A builder of an index of a column.

    Raises:
        UnsupportedFeatureError: an index of another kind, or of a type that it does not take.
        InvalidOptionError: an option of the index.
    """
    t = f.type
    if index.key is not None and isinstance(t, MapType):
        t = t.value
    kind = key_type(t)
    if kind is None or not _takes(index.kind, kind):
        raise UnsupportedFeatureError(
            f"option file-index.{index.kind}.columns: a {index.kind} index of column {f.name} of type {f.type} cannot "
            f"be written; leave it out of the option",
            feature=f"file-index.{index.kind} of {f.type}",
            column=f.name,
        )
    match index.kind:
        case IndexKind.BLOOM_FILTER:
            return kind, BloomFilterBuilder(kind, index.items, index.false_positives)
        case IndexKind.BITMAP:
            return kind, BitmapBuilder(kind, index.version, index.block_bytes)
    return kind, RangeBitmapBuilder(kind, index.chunk_bytes)


def _takes(index: str, kind: KeyType) -> bool:
    """Whether an index takes values of a type, as in Java."""
    t = kind.type
    match index:
        case IndexKind.BLOOM_FILTER:
            return not (isinstance(t, DecimalType) or (isinstance(t, AtomicType) and t.name == "BOOLEAN"))
        case IndexKind.BITMAP:
            return not isinstance(t, DecimalType | BinaryType)
        case IndexKind.RANGE_BITMAP:
            return not isinstance(t, BinaryType) and not (isinstance(t, TimestampType) and t.precision > _MICROS)
    return False
