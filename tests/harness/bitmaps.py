"""Roaring bitmaps from numbers, and the numbers in them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from paimon_spark.format.roaring import ARRAY_LIMIT, Bitmap, Container


def bitmap_of(numbers: Iterable[int]) -> Bitmap:
    """The bitmap of some unsigned numbers."""
    by_key: dict[int, list[int]] = {}
    for number in sorted(set(numbers)):
        by_key.setdefault(number >> 16, []).append(number & 0xFFFF)
    return {key: _container(low) for key, low in by_key.items()}


def _container(numbers: list[int]) -> Container:
    if len(numbers) <= ARRAY_LIMIT:
        return np.array(numbers, np.uint16)
    flags = np.zeros(1 << 16, np.bool_)
    flags[numbers] = True
    return np.packbits(flags, bitorder="little")


def numbers_of(bitmap: Bitmap) -> list[int]:
    """All numbers, ascending, unsigned."""
    return [(key << 16) + low for key in sorted(bitmap) for low in _numbers(bitmap[key])]


def _numbers(container: Container) -> list[int]:
    is_sorted = container.dtype == np.uint16
    low = container if is_sorted else np.flatnonzero(np.unpackbits(container.view(np.uint8), bitorder="little"))
    return [int(n) for n in low]
