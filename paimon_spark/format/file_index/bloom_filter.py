"""Bloom filters of columns: they tell which values a data file does not contain.

Source: Java `fileindex/bloomfilter/BloomFilterFileIndex`, `fileindex/bloomfilter/FastHash`, `utils/BloomFilter64`;
XXH64 of the xxHash specification.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import FormatError
from paimon_spark.format.arrays.arrow_numpy import byte_slices, values
from paimon_spark.format.file_index.keys import KeyType, keys_of_literals, stored_bits
from paimon_spark.options.data_files import DEFAULT_FALSE_POSITIVES, DEFAULT_ITEMS

_CHUNK_ROWS: Final = 32768
_MOST_FUNCTIONS: Final = 10_000
U64 = npt.NDArray[np.uint64]


class BloomFilterBuilder:
    """Builds the filter of a column of a data file."""

    def __init__(self, kind: KeyType, items: int = DEFAULT_ITEMS, fpp: float = DEFAULT_FALSE_POSITIVES) -> None:
        bits = int(-items * math.log(fpp) / (math.log(2) * math.log(2)))
        self._kind = kind
        self._bits = np.zeros(bits + (8 - bits % 8), np.bool_)
        self._functions = max(1, math.floor(len(self._bits) / items * math.log(2) + 0.5))

    def add(self, keys: pa.Array) -> None:
        """Add keys; nulls are left out."""
        for start in range(0, len(keys), _CHUNK_ROWS):
            hashes = hashes_of(keys.slice(start, _CHUNK_ROWS), self._kind)
            for function in range(1, self._functions + 1):
                self._bits[_places(hashes, function, len(self._bits))] = True

    def finish(self) -> bytes:
        """The bytes of the filter."""
        return struct.pack(">i", self._functions) + np.packbits(self._bits, bitorder="little").tobytes()


class BloomFilter:
    """The filter of a column of a data file. Raises FormatError: the bytes are not of a filter."""

    def __init__(self, data: bytes) -> None:
        if len(data) <= 4:
            raise FormatError("its bloom filter is cut short")
        (self._functions,) = struct.unpack_from(">i", data)
        if not 0 < self._functions <= _MOST_FUNCTIONS:
            raise FormatError(f"its bloom filter has {self._functions} hash functions")
        self._bits = np.frombuffer(data, np.uint8, offset=4)

    def may_contain(self, hashes: npt.NDArray[np.int64]) -> bool:
        """Whether a key with one of the hashes, as of `hashes_of`, may be a value of the file.

        Most filters rule out a hash by its first bits: the others are not looked at.
        """
        left = hashes
        for function in range(1, self._functions + 1):
            place = _places(left, function, 8 * len(self._bits))
            left = left[(self._bits[place >> 3] >> (place & 7).astype(np.uint8) & 1).view(np.bool_)]
            if not len(left):
                return False
        return True


def _places(hashes: npt.NDArray[np.int64], function: int, bits: int) -> npt.NDArray[np.int32]:
    """The bits of the hashes by a hash function, the first of which is 1."""
    combined = (hashes + (hashes >> 32) * function).astype(np.int32)
    return np.where(combined < 0, ~combined, combined) % np.int32(bits)


def hashes_of(keys: pa.Array, kind: KeyType) -> npt.NDArray[np.int64]:
    """Hashes of the keys that are not null."""
    if keys.null_count:
        keys = keys.drop_null()
    if not kind.width:
        return xxh64(keys).view(np.int64)
    return _integer_hashes(stored_bits(values(keys), kind).astype(np.int64))


@lru_cache(64)
def hashes_of_literals(literals: tuple[Any, ...], kind: KeyType) -> npt.NDArray[np.int64]:
    """Hashes of Python values that `keys_of_literals` takes; a condition is tested on the filters of many files."""
    return hashes_of(keys_of_literals(literals, kind), kind)


def _integer_hashes(key: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Thomas Wang's hash of 64-bit integers."""
    key = ~key + (key << 21)
    key = key ^ (key >> 24)
    key = (key + (key << 3)) + (key << 8)
    key = key ^ (key >> 14)
    key = (key + (key << 2)) + (key << 4)
    key = key ^ (key >> 28)
    return key + (key << 31)


_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (
        0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
    )
)  # fmt: skip
_STRIPE: Final = 32
_LANE: Final = 8


def xxh64(array: pa.Array) -> U64:
    """XXH64 with seed 0 of each item of a binary array without nulls."""
    bounds, data = byte_slices(array)
    sizes = np.diff(bounds)
    order = np.argsort(-sizes, kind="stable")  # longest first: those with a further stripe are a prefix
    sizes, starts = sizes[order], bounds[:-1][order]
    padded = np.concatenate([data, np.zeros(_LANE, np.uint8)])
    words: U64 = np.ndarray(len(padded) - _LANE + 1, "<u8", padded, strides=(1,))
    h = np.full(len(sizes), _P5, np.uint64)
    stripes = sizes // _STRIPE
    if len(sizes) and stripes[0]:
        _hash_stripes(h, words, starts, stripes)
    h += sizes.astype(np.uint64)
    at, left = starts + stripes * _STRIPE, sizes % _STRIPE
    for _ in range(3):
        rows = np.flatnonzero(left >= _LANE)
        h[rows] = _rotated(h[rows] ^ _round(np.uint64(0), words[at[rows]]), 27) * _P1 + _P4
        at[rows] += _LANE
        left[rows] -= _LANE
    rows = np.flatnonzero(left >= 4)
    lane = words[at[rows]] & np.uint64(0xFFFFFFFF)
    h[rows] = _rotated(h[rows] ^ lane * _P1, 23) * _P2 + _P3
    at[rows] += 4
    left[rows] -= 4
    for _ in range(3):
        rows = np.flatnonzero(left > 0)
        h[rows] = _rotated(h[rows] ^ padded[at[rows]].astype(np.uint64) * _P5, 11) * _P1
        at[rows] += 1
        left[rows] -= 1
    h = (h ^ h >> np.uint64(33)) * _P2
    h = (h ^ h >> np.uint64(29)) * _P3
    h ^= h >> np.uint64(32)
    out = np.empty_like(h)
    out[order] = h
    return out


def _hash_stripes(h: U64, words: U64, starts: npt.NDArray[np.int64], stripes: npt.NDArray[np.int64]) -> None:
    """Start the hashes of items of at least one stripe, which come first, in `h`."""
    count = int(np.count_nonzero(stripes))
    seeds = np.array([int(_P1) + int(_P2), int(_P2), 0, -int(_P1)], object) % (1 << 64)
    lanes = np.repeat(seeds.astype(np.uint64)[:, None], count, axis=1)
    ends = np.searchsorted(-stripes, -np.arange(1, int(stripes[0]) + 1), side="right")
    for number, end in enumerate(ends.tolist()):
        at = starts[:end] + number * _STRIPE
        for i in range(4):
            lanes[i, :end] = _round(lanes[i, :end], words[at + i * _LANE])
    out = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
    for lane in lanes:
        out = (out ^ _round(np.uint64(0), lane)) * _P1 + _P4
    h[:count] = out


def _round(lane: Any, word: U64) -> U64:
    return _rotated(lane + word * _P2, 31) * _P1


def _rotated(x: U64, count: int) -> U64:
    return x << np.uint64(count) | x >> np.uint64(64 - count)
