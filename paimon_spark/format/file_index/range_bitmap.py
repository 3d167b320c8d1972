"""Range bitmaps: the values of a column as bit slices of their ranks, for comparisons.

A dictionary of sorted values gives each value a code, its rank. Slice i is a bitmap of the rows whose code has bit i.
The dictionary is in chunks: each begins with a key, and the other keys of the chunk are stored apart.

Source: Paimon spec, chapter File Index; Java `fileindex/rangebitmap/RangeBitmap`, `BitSliceIndexBitmap`,
`dictionary/chunked/ChunkedDictionary`, `FixedLengthChunk`, `VariableLengthChunk`.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import FormatError
from paimon_spark.format import roaring
from paimon_spark.format.arrays.arrow_numpy import Bool, byte_slices
from paimon_spark.format.file_index.keys import KeyType, distinct, dumped, loaded, numbers_at

I64 = npt.NDArray[np.int64]
DEFAULT_CHUNK_BYTES: Final = 16 << 10
_VERSION: Final = 1


class RangeBitmapBuilder:
    """Builds the index of a column of a data file."""

    def __init__(self, kind: KeyType, chunk_bytes: int | None = None) -> None:
        """Without `chunk_bytes`, keys of one or two bytes are each in a chunk of its own, as in Java."""
        self._kind = kind
        default = 0 if kind.width in (1, 2) else DEFAULT_CHUNK_BYTES
        self._chunk_bytes = default if chunk_bytes is None else chunk_bytes
        self._keys: list[pa.Array] = []

    def add(self, keys: pa.Array) -> None:
        """Add the keys of rows, nulls included."""
        self._keys.append(keys)

    def finish(self) -> bytes:
        """The bytes of the index."""
        keys, codes = distinct(pa.chunked_array(self._keys, self._kind.arrow))
        stored = dumped(keys, self._kind)
        ends = [] if not len(stored) else [stored[0].as_py(), stored[len(stored) - 1].as_py()]
        dictionary = self._dictionary(stored)
        head = struct.pack(">bii", _VERSION, len(codes), len(keys)) + b"".join(ends)
        head += struct.pack(">i", len(dictionary))
        return struct.pack(">i", len(head)) + head + dictionary + _slices(codes, len(keys))

    def _dictionary(self, stored: pa.Array) -> bytes:
        bounds, data = byte_slices(stored)
        offsets, chunks, bodies = [], [], []
        size_of_chunks = size_of_bodies = start = 0
        while start < len(stored):
            first = data[bounds[start] : bounds[start + 1]].tobytes()
            end = self._end_of_chunk(bounds, start + 1)
            keys = data[bounds[start + 1] : bounds[end]].tobytes()
            places = b"" if self._kind.width else (bounds[start + 1 : end] - bounds[start + 1]).astype(">i4").tobytes()
            last = (len(keys), self._kind.width) if self._kind.width else (len(places), len(keys))
            chunk = struct.pack(">b", _VERSION) + first
            chunk += struct.pack(">5i", start, size_of_bodies, end - start - 1, *last)
            offsets.append(size_of_chunks)
            chunks.append(chunk)
            bodies.append(places + keys)
            size_of_chunks += len(chunk)
            size_of_bodies += len(bodies[-1])
            start = end
        head = struct.pack(">biii", _VERSION, len(chunks), 4 * len(chunks), size_of_chunks)
        table = np.array(offsets, ">i4").tobytes()
        return b"".join([struct.pack(">i", len(head)), head, table, *chunks, *bodies])

    def _end_of_chunk(self, bounds: I64, start: int) -> int:
        """The first key from `start` that does not fit the chunk."""
        end = int(np.searchsorted(bounds, bounds[start] + self._chunk_bytes, side="right")) - 1
        if not self._kind.width:
            end = min(end, start + self._chunk_bytes // 4)
        return max(end, start)


def _slices(codes: I64, count: int) -> bytes:
    """The bit slices of the codes, of which there are `count`; -1 for nulls."""
    present = roaring.encode(np.flatnonzero(codes >= 0))
    bits = max((count - 1).bit_length() if count else 0, 1)
    parts = [roaring.encode(np.flatnonzero((codes >= 0) & (codes >> i & 1 == 1))) for i in range(bits)]
    sizes = np.array([len(p) for p in parts], np.int64)
    table = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1).astype(">i4").tobytes()
    head = struct.pack(">bbii", _VERSION, bits, len(present), len(table)) + table
    return b"".join([struct.pack(">i", len(head)), head, present, *parts])


class RangeBitmapIndex:
    """Index of a column of a data file of `row_count` rows. Raises FormatError for other content."""

    def __init__(self, data: bytes, kind: KeyType, row_count: int) -> None:
        self._data = data
        self._kind = kind
        (length,) = self._numbers(">i", 0)
        version, rows, self._count = self._numbers(">bii", 4)
        if version > _VERSION:
            raise FormatError(f"it has a range bitmap of version {version}; version {_VERSION} can be read")
        if rows != row_count:
            raise FormatError(f"its range bitmap is of {rows} rows, and the data file has {row_count}")
        (size,) = self._numbers(">i", length)  # the last number of the head
        self._dictionary = 4 + length
        self._bits = self._dictionary + size
        self._rows = row_count

    def equal(self, keys: pa.Array) -> Bool:
        """The rows that have one of the keys, none null."""
        ranks = [self._rank(k) for k in _items(keys)]
        found: Bool = np.isin(self._codes, [rank for rank, there in ranks if there])
        return found

    def between(self, low: pa.Array | None, high: pa.Array | None, *, low_in: bool, high_in: bool) -> Bool:
        """The rows with keys between two of one item each, None for no bound; `_in`: with the bound itself."""
        first, end = 0, self._count
        if low is not None:
            rank, there = self._rank(_items(low)[0])
            first = rank + (there and not low_in)
        if high is not None:
            rank, there = self._rank(_items(high)[0])
            end = rank + (there and high_in)
        inside: Bool = (self._codes >= first) & (self._codes < end)
        return inside

    def is_null(self) -> Bool:
        """The rows with a null."""
        nulls: Bool = self._codes < 0
        return nulls

    @cached_property
    def _codes(self) -> npt.NDArray[np.int32]:
        """For each row, the number of smaller keys; -1 for null."""
        if self._count <= 0:
            return np.full(self._rows, -1, np.int32)
        (length,) = self._numbers(">i", self._bits)
        version, bits, of_present, size = self._numbers(">bbii", self._bits + 4)
        if version > _VERSION or size != 8 * bits or bits > 31:
            raise FormatError(f"its range bitmap has {bits} slices of version {version}")
        places = self._numbers(f">{2 * bits}i", self._bits + 4 + struct.calcsize(">bbii"))
        body = self._bits + 4 + length
        out = np.zeros(self._rows, np.int32)
        for i, (offset, length) in enumerate(zip(places[::2], places[1::2], strict=True)):
            out |= self._mask(body + of_present + offset, length).astype(np.int32) << i
        out[~self._mask(body, of_present)] = -1
        return out

    def _mask(self, at: int, length: int) -> Bool:
        return roaring.decode_mask(self._data[at : at + length], self._rows)

    def _rank(self, key: Any) -> tuple[int, bool]:
        """How many keys are smaller, and whether the key is there."""
        if self._count <= 0:
            return 0, False
        (length,) = self._numbers(">i", self._dictionary)
        version, chunks, of_offsets, of_chunks = self._numbers(">biii", self._dictionary + 4)
        if version > _VERSION:
            raise FormatError(f"its range bitmap has a dictionary of version {version}")
        offsets = self._dictionary + 4 + length
        keys = offsets + of_offsets + of_chunks

        def chunk(number: int) -> _Chunk:
            (at,) = self._numbers(">i", offsets + 4 * number)
            return self._chunk(offsets + of_offsets + at, keys)

        before = _first(chunks, lambda i: chunk(i).first > key)
        if before == 0:
            return 0, False
        found = chunk(before - 1)
        if found.first == key:
            return found.code, True
        place = _first(found.size, lambda i: self._key_of(found, i) >= key)
        there = place < found.size and self._key_of(found, place) == key
        return found.code + 1 + place, there

    def _chunk(self, at: int, keys: int) -> _Chunk:
        (version,) = self._numbers(">b", at)
        if version > _VERSION:
            raise FormatError(f"its range bitmap has a chunk of version {version}")
        first, at = self._key_at(at + 1)
        code, offset, size, table, _ = self._numbers(">5i", at)
        return _Chunk(first, code, size, keys + offset, 0 if self._kind.width else table)

    def _key_of(self, chunk: _Chunk, number: int) -> Any:
        if self._kind.width:
            return self._key_at(chunk.body + self._kind.width * number)[0]
        (place,) = self._numbers(">i", chunk.body + 4 * number)
        return self._key_at(chunk.body + chunk.table + place)[0]

    def _key_at(self, at: int) -> tuple[Any, int]:
        """A key, and where it ends."""
        if not self._kind.width:
            (size,) = self._numbers(">i", at)
            return self._data[at + 4 : at + 4 + size], at + 4 + size
        try:
            return int(loaded(self._data, self._kind, 1, at)[0]), at + self._kind.width
        except ValueError as e:
            raise FormatError(f"its range bitmap is cut short: {e}") from e

    def _numbers(self, form: str, at: int) -> tuple[int, ...]:
        return numbers_at(form, self._data, at, "range bitmap")


class _Chunk(NamedTuple):
    """A part of a dictionary.

    Attributes:
        first, code: its first key, and the rank of that.
        size: further keys.
        body: where they begin.
        table: bytes before them that tell where each is.
    """

    first: Any
    code: int
    size: int
    body: int
    table: int


def _first(count: int, holds: Callable[[int], bool]) -> int:
    """First of `count` numbers for which `holds`, which holds for all above it too; `count` without one."""
    return bisect_left(range(count), True, key=holds)


def _items(keys: pa.Array) -> list[Any]:
    items: list[Any] = keys.to_pylist()
    return items
