"""Bitmap indexes: for each value of a column, the rows of the data file that have it.

Version 2 keeps the values sorted in blocks, so that a reader decodes one block for a value. A value of a single row
has no bitmap: its offset is -1 minus the row.

Source: Paimon spec, chapter File Index; Java `fileindex/bitmap/BitmapFileIndex`, `BitmapFileIndexMeta`,
`BitmapFileIndexMetaV2`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import FormatError
from paimon_spark.format import roaring
from paimon_spark.format.arrays.arrow_numpy import Bool, byte_slices, take_indices
from paimon_spark.format.file_index.keys import (
    KeyType,
    big_endian,
    concatenated,
    distinct,
    dumped,
    joined,
    loaded,
    numbers_at,
)
from paimon_spark.options.data_files import BITMAP_VERSIONS, DEFAULT_BLOCK_BYTES

I64 = npt.NDArray[np.int64]
_NO_BITMAP: Final = -1
"""The length of the bitmap of a value of a single row."""


class BitmapBuilder:
    """Builds the index of a column of a data file."""

    def __init__(self, kind: KeyType, version: int = 2, block_bytes: int = DEFAULT_BLOCK_BYTES) -> None:
        self._kind = kind
        self._version = version
        self._block_bytes = block_bytes
        self._keys: list[pa.Array] = []

    def add(self, keys: pa.Array) -> None:
        """Add the keys of rows, nulls included."""
        self._keys.append(keys)

    def finish(self) -> bytes:
        """The bytes of the index."""
        keys, codes = distinct(pa.chunked_array(self._keys, self._kind.arrow))
        rows = np.argsort(codes, kind="stable")
        nulls = rows[: int(np.count_nonzero(codes < 0))]
        rows = rows[len(nulls) :]
        counts = np.bincount(codes[rows], minlength=len(keys))
        starts = np.cumsum(counts) - counts
        alone = counts == 1
        several = np.repeat(~alone, counts)
        bitmaps, bounds = roaring.encode_each(rows[several], (np.cumsum(counts * ~alone) - counts * ~alone)[~alone])
        of_nulls = roaring.encode(nulls) if len(nulls) > 1 else b""
        offsets, lengths = np.empty(len(keys), np.int64), np.full(len(keys), _NO_BITMAP, np.int64)
        offsets[alone] = -1 - rows[starts[alone]]
        offsets[~alone] = len(of_nulls) + bounds[:-1]
        lengths[~alone] = np.diff(bounds)
        head = struct.pack(">bii?", self._version, len(codes), len(keys), len(nulls) > 0)
        if len(nulls):
            head += struct.pack(">i", -1 - int(nulls[0]) if len(nulls) == 1 else 0)
            head += struct.pack(">i", len(of_nulls)) if self._version > 1 else b""
        stored = dumped(keys, self._kind)
        if self._version == 1:
            entries = concatenated(joined([stored, big_endian(offsets)]))
        else:
            entries = self._blocks(stored, offsets, lengths)
        return head + entries + of_nulls + bitmaps

    def _blocks(self, stored: pa.Array, offsets: I64, lengths: I64) -> bytes:
        """The table of the blocks, and the blocks."""
        entries = joined([stored, big_endian(offsets), big_endian(lengths)])
        ends, _ = byte_slices(entries)
        firsts, places, blocks, size = [], [], [], 0
        start = 0
        while start < len(entries):
            limit = ends[start] + self._block_bytes - 4
            end = max(int(np.searchsorted(ends, limit, side="right")) - 1, start + 1)
            block = struct.pack(">i", end - start) + concatenated(entries.slice(start, end - start))
            firsts.append(start)
            places.append(size)
            blocks.append(block)
            size += len(block)
            start = end
        table = joined([stored.take(take_indices(np.array(firsts, np.int64))), big_endian(np.array(places, np.int64))])
        return b"".join([struct.pack(">i", len(blocks)), concatenated(table), struct.pack(">i", size), *blocks])


class BitmapIndex:
    """Index of a column of a data file of `row_count` rows. Raises FormatError for other content."""

    def __init__(self, data: bytes, kind: KeyType, row_count: int) -> None:
        self._data = data
        self._kind = kind
        self._rows = row_count
        version, rows, count, has_nulls = self._numbers(">bii?", 0)
        if version not in BITMAP_VERSIONS:
            raise FormatError(f"it has a bitmap of version {version}; versions 1 and 2 can be read")
        if rows != row_count:
            raise FormatError(f"its bitmap is of {rows} rows, and the data file has {row_count}")
        at = struct.calcsize(">bii?")
        self._nulls: int | None = None
        if has_nulls:
            (self._nulls,) = self._numbers(">i", at)
            at += 8 if version > 1 else 4
        self._block = 0
        """The block whose offsets are `_offsets`: of version 1 the only one."""
        if version == 1:
            keys, offsets, self._body = self._entries(at, count, 1)
            self._firsts: list[Any] = []
            self._offsets = dict(zip(keys, offsets, strict=True))
            return
        if not 0 <= count <= len(data):
            raise FormatError(f"its bitmap announces {count} values in {len(data)} bytes")
        self._left = count
        (count,) = self._numbers(">i", at)
        self._firsts, places, at = self._entries(at + 4, count, 1)
        (size,) = self._numbers(">i", at)
        self._places = [at + 4 + place for place in places]
        self._body = at + 4 + size
        self._block, self._offsets = -1, {}
        self._decoded: dict[int, dict[Any, int]] = {}

    def equal(self, keys: pa.Array) -> Bool:
        """The rows that have one of the keys, none null."""
        out = np.zeros(self._rows, np.bool_)
        for key in sorted(keys.to_pylist()):
            offset = self._offset_of(key)
            if offset is not None:
                out |= self._bitmap(offset)
        return out

    def is_null(self) -> Bool:
        """The rows with a null."""
        return np.zeros(self._rows, np.bool_) if self._nulls is None else self._bitmap(self._nulls)

    def _offset_of(self, key: Any) -> int | None:
        """Where the bitmap of a key is; None if no row has the key."""
        block = bisect_right(self._firsts, key) - 1 if self._firsts else self._block
        if block < 0:
            return None
        if block != self._block:
            self._block, self._offsets = block, self._entries_of(block)
        return self._offsets.get(key)

    def _entries_of(self, block: int) -> dict[Any, int]:
        """The offsets of a block. All blocks together have as many values as the index: others lie over each other."""
        found = self._decoded.get(block)
        if found is None:
            (count,) = self._numbers(">i", self._places[block])
            self._left -= max(count, 0)
            if self._left < 0:
                raise FormatError("its bitmap has more values in blocks than it announces")
            keys, offsets, _ = self._entries(self._places[block] + 4, count, 2)
            found = self._decoded[block] = dict(zip(keys, offsets, strict=True))
        return found

    def _bitmap(self, offset: int) -> Bool:
        out = np.zeros(self._rows, np.bool_)
        if offset < 0:
            if -1 - offset >= self._rows:
                raise FormatError(f"its bitmap contains row {-1 - offset}, and there are {self._rows}")
            out[-1 - offset] = True
            return out
        return roaring.decode_mask(memoryview(self._data)[self._body + offset :], self._rows)

    def _entries(self, at: int, count: int, numbers: int) -> tuple[list[Any], list[int], int]:
        """`count` keys from `at`, each followed by so many numbers: keys, first numbers, and where they end."""
        width = self._kind.width
        try:
            if width:
                entry = np.dtype([("key", f"V{width}"), ("numbers", ">i4", (numbers,))])
                found = np.frombuffer(self._data, entry, max(count, 0), at)
                keys = loaded(found["key"].tobytes(), self._kind, max(count, 0))
                return keys.tolist(), found["numbers"][:, 0].tolist(), at + count * entry.itemsize
            texts, firsts = [], []
            for _ in range(count):
                size, first = self._numbers(">i", at)[0], at + 4
                at = first + size + 4 * numbers
                if size < 0:
                    raise FormatError(f"its bitmap has text of {size} bytes")
                texts.append(self._data[first : first + size])
                firsts.append(self._numbers(">i", first + size)[0])
            return texts, firsts, at
        except ValueError as e:
            raise FormatError(f"its bitmap is damaged: {e}") from e

    def _numbers(self, form: str, at: int) -> tuple[int, ...]:
        return numbers_at(form, self._data, at, "bitmap")
