"""ORC's run-length encodings of unsigned integers.

Source: ORC specification v1, chapters Integer Run Length Encoding versions 1 and 2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import FormatError

I64 = npt.NDArray[np.int64]

_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)


def decode_v1(data: bytes, count: int) -> I64:
    """The first `count` values. Raises FormatError when there are fewer."""
    return _Reader(data, count).all(_Reader.run_v1)


def decode_v2(data: bytes, count: int) -> I64:
    """The first `count` values. Raises FormatError when there are fewer."""
    return _Reader(data, count).all(_Reader.run_v2)


class _Reader:
    def __init__(self, data: bytes, count: int) -> None:
        self.data = data
        self.count = count
        self.at = 0

    def all(self, run: Any) -> I64:
        parts: list[I64] = []
        left = self.count
        try:
            while left > 0:
                part = run(self)
                parts.append(part)
                left -= len(part)
        except (IndexError, ValueError) as e:
            raise FormatError(f"a stream of integers ends {left} values early") from e
        return np.concatenate(parts)[: self.count] if parts else np.empty(0, np.int64)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return _wrapped(value)
            if shift > 63:
                raise FormatError("a number has more than ten bytes")

    def big_endian(self, size: int) -> int:
        raw = self.data[self.at : self.at + size]
        if len(raw) < size:
            raise IndexError(self.at)
        self.at += size
        return int.from_bytes(raw, "big")

    def packed(self, width: int, count: int) -> I64:
        """`count` numbers of `width` bits, most significant bit first, ending at a whole byte."""
        size = (width * count + 7) // 8
        raw = np.frombuffer(self.data, np.uint8, count=size, offset=self.at)
        self.at += size
        bits = np.unpackbits(raw)[: width * count].reshape(count, width)
        out = np.zeros(count, np.uint64)
        for i in range(width):
            out = (out << np.uint64(1)) | bits[:, i]
        return out.view(np.int64)

    def run_v1(self) -> I64:
        control = self.byte()
        if control < 128:
            delta = (self.byte() ^ 0x80) - 0x80
            return self.varint() + delta * np.arange(control + 3, dtype=np.int64)
        return np.array([self.varint() for _ in range(256 - control)], np.int64)

    def run_v2(self) -> I64:
        first = self.byte()
        kind = first >> 6
        if kind == 0:
            value = self.big_endian((first >> 3 & 7) + 1)
            return np.full((first & 7) + 3, _wrapped(value), np.int64)
        code, length = first >> 1 & 31, ((first & 1) << 8 | self.byte()) + 1
        if kind == 1:
            return self.packed(_WIDTHS[code], length)
        if kind == 2:
            return self._patched(_WIDTHS[code], length)
        return self._delta(0 if code == 0 else _WIDTHS[code], length)

    def _delta(self, width: int, length: int) -> I64:
        base, zigzag = self.varint(), self.varint() & (2**64 - 1)
        step = (zigzag >> 1) ^ -(zigzag & 1)
        if width == 0 or length < 2:
            return base + step * np.arange(length, dtype=np.int64)
        rest = self.packed(width, length - 2) if length > 2 else np.empty(0, np.int64)
        steps = np.concatenate(([0, step], rest if step >= 0 else -rest))
        return base + np.cumsum(steps.astype(np.int64))

    def _patched(self, width: int, length: int) -> I64:
        third, fourth = self.byte(), self.byte()
        base_bytes, patch_width = (third >> 5) + 1, _WIDTHS[third & 31]
        gap_width, patches = (fourth >> 5) + 1, fourth & 31
        base = self.big_endian(base_bytes)
        sign = 1 << (8 * base_bytes - 1)
        base = -(base ^ sign) if base & sign else base
        values = self.packed(width, length).view(np.uint64)
        entry_width = next(w for w in _WIDTHS if w >= gap_width + patch_width)
        at = 0
        for entry in self.packed(entry_width, patches).view(np.uint64).tolist():
            at += entry >> patch_width
            values[at] |= np.uint64((entry & (1 << patch_width) - 1) << width)
        return values.view(np.int64) + base


def _wrapped(value: int) -> int:
    """The number as a signed 64-bit one."""
    value &= 2**64 - 1
    return value - 2**64 if value >> 63 else value
