"""Which bucket each key hash of a partition is in: a map of integers that grows, as sorted arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_BUCKET_BITS = 16
_SMALL = 1 << 16


class HashIndex:
    """Hash → bucket. A lookup of many hashes at once is one binary search in two sorted arrays.

    Pairs are integers, the hash above the bucket. What is added goes to the small array, which is merged into the
    large one when it has grown, so that adding costs little whatever the size.
    """

    def __init__(self, hashes_of: Sequence[tuple[int, I32]] = ()) -> None:
        pairs = [_pairs(hashes, bucket) for bucket, hashes in hashes_of]
        self._large = _sorted(pairs)
        self._recent = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._large) + len(self._recent)

    def find(self, hashes: I32) -> I64:
        """The bucket of each hash, -1 for those not known."""
        ordered, rows = _by_hash(hashes)
        wanted = ordered << _BUCKET_BITS  # ascending: each search begins where the last one ended
        found = _search(self._large, wanted)
        if len(self._recent):
            found = np.maximum(found, _search(self._recent, wanted))
        out = np.empty(len(hashes), np.int64)
        out[rows] = found
        return out

    def add(self, hashes: I32, buckets: npt.NDArray[np.integer]) -> None:
        """Add hashes that are not known, each once."""
        self._recent = _sorted([self._recent, _pairs(hashes, buckets)])
        if len(self._recent) > max(_SMALL, len(self._large) // 2):
            self._large = _sorted([self._large, self._recent])
            self._recent = np.empty(0, np.int64)


def _pairs(hashes: I32, buckets: int | npt.NDArray[np.integer]) -> I64:
    return (hashes.astype(np.int64) << _BUCKET_BITS) | np.asarray(buckets, np.int64)


def _sorted(pairs: list[I64]) -> I64:
    out = np.concatenate(pairs) if pairs else np.empty(0, np.int64)
    out.sort()
    return out


def _search(pairs: I64, wanted: I64) -> I64:
    if not len(pairs):
        return np.full(len(wanted), -1, np.int64)
    found = pairs[np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)]
    return np.where(found >> _BUCKET_BITS == wanted >> _BUCKET_BITS, found & ((1 << _BUCKET_BITS) - 1), -1)


def _by_hash(hashes: I32) -> tuple[I64, I64]:
    """The hashes ascending, and their rows; equal ones in order of rows."""
    order = (hashes.astype(np.int64) << 32) | np.arange(len(hashes))
    order.sort()
    return order >> 32, order & 0xFFFFFFFF


def first_seen(hashes: I32) -> tuple[I32, I64]:
    """The distinct values in order of first appearance, and for each row the number of its value among them."""
    ordered, rows = _by_hash(hashes)
    begins = np.ones(len(hashes), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    firsts = rows[begins]
    by_appearance = np.argsort(firsts)
    number = np.empty(len(firsts), np.int64)
    number[by_appearance] = np.arange(len(firsts))
    numbers = np.empty(len(hashes), np.int64)
    numbers[rows] = number[np.cumsum(begins) - 1]
    return hashes[firsts[by_appearance]], numbers
