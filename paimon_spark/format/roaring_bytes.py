"""The portable form of a Roaring bitmap: the bytes in front of its containers, and whole bitmaps written.

Values that are read are the caller's matter.

Source: RoaringFormatSpec.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import FormatError

NO_RUNS: Final = 12346
WITH_RUNS: Final = 12347
NO_OFFSETS_BELOW: Final = 4
"""Bitmaps with runs and fewer containers than this have no table of offsets."""
ARRAY_LIMIT: Final = 4096
"""Numbers up to which a container without runs is sorted numbers; above, it is bits."""
BITMAP_BYTES: Final = 8192
_MAX_CONTAINERS: Final = 1 << 16


class Containers(NamedTuple):
    """What a bitmap says of its containers, which follow back to back.

    Attributes:
        keys: the upper 16 bits of their numbers, ascending.
        sizes: how many numbers each has.
        are_runs: which of them are runs.
    """

    keys: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    are_runs: npt.NDArray[np.bool_]


class RoaringBytes:
    """Reads `data`, `at` moving on. Everything raises FormatError or struct.error where bytes are missing."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def containers(self) -> Containers:
        """Read everything up to the first container."""
        (cookie,) = self.take("<I")
        if cookie & 0xFFFF == WITH_RUNS:
            count = (cookie >> 16) + 1
            flags = np.frombuffer(self.slice((count + 7) // 8), np.uint8)
            are_runs = np.unpackbits(flags, bitorder="little")[:count].view(np.bool_)
        elif cookie == NO_RUNS:
            (count,) = self.take("<I")
            if count > _MAX_CONTAINERS:
                raise FormatError(f"its bitmap has {count} containers")
            are_runs = np.zeros(count, np.bool_)
        else:
            raise FormatError(f"its bitmap starts with {cookie}")
        described = np.frombuffer(self.slice(4 * count), "<u2").reshape(count, 2).astype(np.int64)
        if (np.diff(described[:, 0]) <= 0).any():
            raise FormatError("its containers are out of order")
        if cookie == NO_RUNS or count >= NO_OFFSETS_BELOW:
            self.slice(4 * count)  # offsets of the containers
        return Containers(described[:, 0], described[:, 1] + 1, are_runs)

    def take(self, form: str) -> tuple[int, ...]:
        """The numbers of a `struct` format."""
        out: tuple[int, ...] = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return out

    def slice(self, size: int) -> bytes:
        """The next `size` bytes."""
        out = self.data[self.at : self.at + size]
        if len(out) != size:
            raise FormatError("it is cut short")
        self.at += size
        return out


def encode(values: npt.NDArray[np.int64]) -> bytes:
    """The bitmap of `values`, ascending, each once, from 0 to 2**32 - 1. Containers are runs where that is smaller."""
    keys, starts = np.unique(values >> 16, return_index=True)
    ends = np.append(starts, len(values))[1:]
    low = (values & 0xFFFF).astype("<u2")
    parts = [_container(low[s:e]) for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]
    are_runs = np.array([is_run for is_run, _ in parts], np.bool_)
    bodies = [body for _, body in parts]
    count = len(keys)
    if are_runs.any():
        head = struct.pack("<I", WITH_RUNS | (count - 1) << 16) + np.packbits(are_runs, bitorder="little").tobytes()
    else:
        head = struct.pack("<II", NO_RUNS, count)
    described = np.empty((count, 2), "<u2")
    described[:, 0] = keys
    described[:, 1] = ends - starts - 1
    head += described.tobytes()
    if not are_runs.any() or count >= NO_OFFSETS_BELOW:
        sizes = np.array([len(b) for b in bodies], np.int64)
        first = len(head) + 4 * count
        head += (first + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
    return head + b"".join(bodies)


def _container(low: npt.NDArray[np.uint16]) -> tuple[bool, bytes]:
    """Whether it is runs, and its bytes."""
    first = np.flatnonzero(np.diff(low.astype(np.int32), prepend=-2) != 1)
    plain_bytes = 2 * len(low) if len(low) <= ARRAY_LIMIT else BITMAP_BYTES
    if 2 + 4 * len(first) < plain_bytes:
        runs = np.empty((len(first), 2), "<u2")
        runs[:, 0] = low[first]
        runs[:, 1] = np.diff(first, append=len(low)) - 1
        return True, struct.pack("<H", len(first)) + runs.tobytes()
    if len(low) <= ARRAY_LIMIT:
        return False, low.tobytes()
    bits = np.zeros(1 << 16, np.bool_)
    bits[low] = True
    return False, np.packbits(bits, bitorder="little").tobytes()
