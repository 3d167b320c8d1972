"""The indexes of one data file, read from its manifest entry or from the file beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import numpy as np

from paimon_spark.errors import FormatError
from paimon_spark.format.arrays.arrow_numpy import Bool
from paimon_spark.format.file_index.bitmap import BitmapIndex
from paimon_spark.format.file_index.bloom_filter import BloomFilter, hashes_of_literals
from paimon_spark.format.file_index.container import HEAD_BYTES, Place, head_length, read_head
from paimon_spark.format.file_index.keys import KeyType, key_type, keys_of_literals
from paimon_spark.format.file_index.range_bitmap import RangeBitmapIndex
from paimon_spark.storage.store import ReadableStore
from paimon_spark.types import CharType, DataType

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
        self, places: Mapping[str, Mapping[str, Place]], read: Callable[[Place], bytes], row_count: int
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

    def bytes_at(self, place: Place) -> bytes:
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

    def __init__(self, file: FileIndexes, kind: KeyType, places: Mapping[IndexKind, Place]) -> None:
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
