"""A growing map from keys to partitions and buckets, in arrays.

Per key it holds 16 bytes of hash, number, partition and bucket, and the key itself: 8 bytes for each column of fixed
width (16 for decimals), for text 8 bytes more than its own; arrays are up to half as large again while they grow. Keys
are compared whole: equal hashes cost a second look and decide nothing.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.bucket_hash import hashes as row_hashes

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NOWHERE: Final = -1
"""The partition of a key that was never placed."""

_SMALL: Final = 1 << 16
_NUMBER: Final = 0xFFFFFFFF


class KeyPlaces:
    """Keys, numbered from 0, and the partition and bucket of each. Not safe for threads."""

    def __init__(self) -> None:
        self._large = np.empty(0, np.int64)
        self._recent = np.empty(0, np.int64)
        self._keys: _StoredKeys | None = None
        self._places = _Growing(np.int32, 2)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def partitions(self) -> npt.NDArray[np.int32]:
        """Partition number by key number; NOWHERE for keys not placed. Writable."""
        return self._places.rows[:, 0]

    @property
    def buckets(self) -> npt.NDArray[np.int32]:
        """Bucket by key number, of placed keys. Writable."""
        return self._places.rows[:, 1]

    def find(self, columns: pa.RecordBatch) -> I64:
        """The number of the key of each row, -1 for unknown ones; the same canonical columns each time, no nulls."""
        return self._find(_keys_of(columns))

    def add(self, columns: pa.RecordBatch) -> I64:
        """The number of the key of each row; unknown ones are added, placed NOWHERE. Columns as in `find`."""
        keys = _keys_of(columns)
        numbers = self._find(keys)
        unknown = np.flatnonzero(numbers < 0)
        while len(unknown):
            # Rows with the hash of an earlier row but another key wait for the next turn.
            by_hash = unknown[np.argsort(keys.hashes[unknown], kind="stable")]
            begins = np.ones(len(by_hash), np.bool_)
            begins[1:] = keys.hashes[by_hash[1:]] != keys.hashes[by_hash[:-1]]
            group = np.cumsum(begins) - 1
            firsts = by_hash[begins]
            same = _same(keys.words, keys.text, firsts[group], keys, by_hash)
            new = self._append(keys, firsts)
            numbers[by_hash[same]] = new[group[same]]
            unknown = np.sort(by_hash[~same])
        return numbers

    def _find(self, keys: _Keys) -> I64:
        out = np.full(len(keys.hashes), -1, np.int64)
        if self._keys is None:
            return out
        for entries in (self._large, self._recent):
            rows = np.argsort(keys.hashes, kind="stable")  # ascending: each search begins where the last one ended
            rows = rows[out[rows] < 0]
            at = np.searchsorted(entries, keys.hashes[rows] << 32)
            while len(rows):
                inside = at < len(entries)
                rows, at = rows[inside], at[inside]
                entry = entries[at]
                inside = entry >> 32 == keys.hashes[rows]
                rows, at, numbers = rows[inside], at[inside], entry[inside] & _NUMBER
                same = self._keys.same(numbers, keys, rows)
                out[rows[same]] = numbers[same]
                rows, at = rows[~same], at[~same] + 1
        return out

    def _append(self, keys: _Keys, rows: I64) -> I64:
        """Number the keys of `rows`, all distinct."""
        new = np.arange(len(self), len(self) + len(rows), dtype=np.int64)
        if self._keys is None:
            self._keys = _StoredKeys(keys.words.shape[1], keys.text is not None)
        self._keys.append(keys, rows)
        self._places.append(np.full((len(rows), 2), NOWHERE, np.int32))
        self._recent = np.concatenate([self._recent, (keys.hashes[rows] << 32) | new])
        self._recent.sort()
        if len(self._recent) > max(_SMALL, len(self._large) // 2):
            self._large = np.concatenate([self._large, self._recent])
            self._large.sort()
            self._recent = np.empty(0, np.int64)
        return new


class _Keys(NamedTuple):
    """Keys of the rows of a batch.

    Attributes:
        hashes: of Java's rows, 32 bits each.
        words: values of fixed width, a column for each 64 bits; lengths of all texts but the last.
        text: the texts of each row concatenated; None without texts.
    """

    hashes: I64
    words: npt.NDArray[np.uint64]
    text: Any


class _StoredKeys:
    """Keys by number, in the form of `_Keys`."""

    def __init__(self, words: int, has_text: bool) -> None:
        self._words = _Growing(np.uint64, words)
        self._ends = _Growing(np.int64, 1) if has_text else None
        self._bytes = _Growing(np.uint8, 1)
        if self._ends is not None:
            self._ends.append(np.zeros((1, 1), np.int64))

    def append(self, keys: _Keys, rows: I64) -> None:
        self._words.append(keys.words[rows])
        if self._ends is not None:
            text = keys.text.take(arrow_numpy.take_indices(rows))
            starts, data = arrow_numpy.byte_slices(text)
            self._ends.append((starts[1:] - starts[0] + len(self._bytes)).reshape(-1, 1))
            self._bytes.append(data[starts[0] : starts[-1]].reshape(-1, 1))

    def same(self, own: I64, keys: _Keys, rows: I64) -> Bool:
        return _same(self._words.rows, None if self._ends is None else self._text(self._ends), own, keys, rows)

    def _text(self, offsets: _Growing) -> Any:
        """All texts as an array that has no memory of its own."""
        ends, data = offsets.rows, self._bytes.rows
        return pa.Array.from_buffers(
            pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data if len(data) else b"")]
        )


class _Growing:
    """Rows of numbers, in one array with room for more."""

    def __init__(self, dtype: Any, width: int) -> None:
        self._all = np.empty((0, width), dtype)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> npt.NDArray[Any]:
        """The rows; a view, until `append`."""
        return self._all[: self._used]

    def append(self, rows: npt.NDArray[Any]) -> None:
        needed = self._used + len(rows)
        if needed > len(self._all):
            grown = np.empty((max(needed, self._used + self._used // 2), self._all.shape[1]), self._all.dtype)
            grown[: self._used] = self.rows
            self._all = grown
        self._all[self._used : needed] = rows
        self._used = needed


def _same(words: npt.NDArray[np.uint64], text: Any, own: I64, keys: _Keys, rows: I64) -> Bool:
    """Whether row `own[i]` of `words` and `text` has the key of row `rows[i]` of `keys`."""
    same: Bool = (words[own] == keys.words[rows]).all(axis=1)
    if text is None:
        return same
    left = text.take(arrow_numpy.take_indices(own))
    right = keys.text.take(arrow_numpy.take_indices(rows))
    return same & arrow_numpy.values(pc.equal(left, right)).astype(np.bool_)


def _keys_of(columns: pa.RecordBatch) -> _Keys:
    words: list[npt.NDArray[np.uint64]] = []
    texts = []
    for column in columns.columns:
        t = column.type
        if pa.types.is_string(t) or pa.types.is_binary(t):
            texts.append(column.cast(pa.binary()))
        elif pa.types.is_decimal(t):
            low, high = arrow_numpy.decimal_halves(column)
            words += [low, high.view(np.uint64)]
        else:
            numbers = arrow_numpy.values(column)
            if numbers.dtype.kind == "f":  # equal as their bytes are, as in Java
                numbers = numbers.view(f"i{numbers.dtype.itemsize}")
            words.append(numbers.astype(np.int64).view(np.uint64))
    words += [arrow_numpy.values(pc.binary_length(t)).astype(np.uint64) for t in texts[:-1]]
    if len(texts) > 1:
        texts = [pc.binary_join_element_wise(*texts, arrow_numpy.scalar(b"", pa.binary()))]
    rows = columns.num_rows
    return _Keys(
        row_hashes(columns).astype(np.int64),
        np.stack(words, axis=1) if words else np.empty((rows, 0), np.uint64),
        texts[0].cast(pa.large_binary()) if texts else None,
    )
