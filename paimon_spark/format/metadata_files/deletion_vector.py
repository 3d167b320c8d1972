"""Deletion vectors: positions of deleted rows to bytes and back.

A vector is a Roaring bitmap in its portable form, between a size, a magic number and a checksum. There are two
magics: 32-bit positions (size and magic big endian, the recorded length counts magic and bitmap) and 64-bit
positions (Iceberg's, magic little endian, the recorded length counts the whole record).

Source: Paimon spec, chapter Table Index (Deletion Vectors Index); Java `deletionvectors/DeletionVector`,
`utils/OptimizedRoaringBitmap64`; RoaringFormatSpec.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptFileError, FormatError
from paimon_spark.format import roaring
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange
from paimon_spark.format.roaring import ARRAY_LIMIT, BITMAP_BYTES, RoaringBytes

MAGIC_32: Final = 1581511376
MAGIC_64: Final = 1681511377
FRAME_BYTES: Final = 8
"""Bytes of a record around its recorded length when the magic is `MAGIC_32`: size in front, checksum behind."""

FILE_VERSION: Final = 1
"""The first byte of a file of vectors."""

MAX_POSITIONS: Final = 1 << 27
"""Positions that a vector is decoded to, 1 GiB of memory: a few bytes can announce billions, and so can manifests."""

Positions = npt.NDArray[np.int64]


def decode(data: bytes, path: str, *, length: int | None = None, row_count: int | None = None) -> Positions:
    """The positions in a vector record, ascending, each once.

    Args:
        data: the record from its size on; bytes after it are ignored, so a reader that does not know the magic
            reads the recorded length plus `FRAME_BYTES`.
        path: names the vector in messages.
        length: the length recorded in the index manifest, checked when given.
        row_count: rows of the data file; positions beyond it are refused.

    Raises:
        CorruptFileError: not a vector, cut short, a wrong checksum, or positions out of order or range, or more than
            `MAX_POSITIONS`.
    """
    try:
        return _decode(data, length, row_count)
    except (FormatError, struct.error, ValueError, IndexError) as e:
        raise CorruptFileError(f"{path} is not a readable deletion vector: {e}", path=path) from e


def encode(positions: Positions, bitmap64: bool = False) -> bytes:
    """One vector record of ascending positions, of 64 bits with option `deletion-vectors.bitmap64`.

    Raises FormatError: positions out of order, negative, or too great.
    """
    most = 1 << 63 if bitmap64 else 1 << 31
    if len(positions) and not (positions[0] >= 0 and positions[-1] < most and (np.diff(positions) > 0).all()):
        raise FormatError(f"positions of a deletion vector ascend from 0 and stay below {most}")
    if bitmap64:
        body = struct.pack("<i", MAGIC_64) + _bitmaps(positions)
    else:
        body = struct.pack(">i", MAGIC_32) + roaring.encode(positions)
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _bitmaps(positions: Positions) -> bytes:
    """A count, then every bitmap up to the last, empty ones too, each with its number (as Java does)."""
    count = int(positions[-1] >> 32) + 1 if len(positions) else 0
    bounds = np.searchsorted(positions, np.arange(count + 1, dtype=np.int64) << 32).tolist()
    parts = [struct.pack("<q", count)]
    for key in range(count):
        low = positions[bounds[key] : bounds[key + 1]] & 0xFFFFFFFF
        parts.append(struct.pack("<i", key) + roaring.encode(low))
    return b"".join(parts)


def encode_files(
    vectors: Mapping[str, Positions], bitmap64: bool = False, target_bytes: int | None = None
) -> Iterator[tuple[bytes, tuple[DeletionVectorRange, ...]]]:
    """`DELETION_VECTORS` index files, and where the vector of each data file lies in them. Raises as `encode`.

    A file ends with the vector that reaches `target_bytes`; there is none for no vectors.
    """
    parts = [bytes([FILE_VERSION])]
    ranges: list[DeletionVectorRange] = []
    offset = 1
    for name, positions in vectors.items():
        record = encode(positions, bitmap64)
        length = len(record) - (0 if bitmap64 else FRAME_BYTES)
        ranges.append(DeletionVectorRange(name, offset, length, len(positions)))
        parts.append(record)
        offset += len(record)
        if target_bytes is not None and offset >= target_bytes:
            yield b"".join(parts), tuple(ranges)
            parts, ranges, offset = [bytes([FILE_VERSION])], [], 1
    if ranges:
        yield b"".join(parts), tuple(ranges)


def _decode(data: bytes, length: int | None, row_count: int | None) -> Positions:
    size, magic = struct.unpack_from(">ii", data)
    wide = magic != MAGIC_32
    if wide and struct.unpack_from("<i", data, 4)[0] != MAGIC_64:
        raise FormatError(f"its magic number is {magic}, neither {MAGIC_32} nor {MAGIC_64} backwards")
    if size < 4 or size + FRAME_BYTES > len(data):
        raise FormatError(f"it is {size} bytes long, and {len(data) - FRAME_BYTES} are there")
    if length is not None and length != size + (FRAME_BYTES if wide else 0):
        raise FormatError(f"it is {size} bytes long, and the index manifest says {length}")
    body = data[4 : 4 + size]
    if zlib.crc32(body) != struct.unpack_from(">I", data, 4 + size)[0]:
        raise FormatError("its checksum does not match")
    reader = _Roaring(body, 4, MAX_POSITIONS if row_count is None else min(row_count, MAX_POSITIONS))
    out = reader.bitmaps() if wide else reader.bitmap(0)
    if reader.at != size:
        raise FormatError(f"its bitmap ends at byte {reader.at} of {size}")
    if row_count is not None and len(out) and out[-1] >= row_count:
        raise FormatError(f"it deletes row {out[-1]} of a file with {row_count} rows")
    return out


class _Roaring(RoaringBytes):
    """Positions in portable Roaring bitmaps."""

    def __init__(self, data: bytes, at: int, most: int) -> None:
        super().__init__(data, at)
        self.most = most

    def bitmaps(self) -> Positions:
        """A count, then bitmaps of 2**32 positions each with its number, ascending."""
        (count,) = self.take("<q")
        if not 0 <= count <= len(self.data) // 8:
            raise FormatError(f"it announces {count} bitmaps")
        parts: list[Positions] = []
        last = -1
        for _ in range(count):
            (key,) = self.take("<i")
            if key <= last:
                raise FormatError("its bitmaps are out of order")
            last = key
            parts.append(self.bitmap(key << 32))
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def bitmap(self, base: int) -> Positions:
        keys, sizes, are_runs = self.containers()
        total = int(sizes.sum())
        if total > self.most:
            raise FormatError(f"it deletes {total} rows where at most {self.most} can be")
        self.most -= total
        out = np.empty(total, np.int64)
        end = 0
        for i, (key, size) in enumerate(zip(keys.tolist(), sizes.tolist(), strict=True)):
            start, end = end, end + size
            if are_runs[i]:
                low = self._runs(size)
            elif size <= ARRAY_LIMIT:
                low = np.frombuffer(self.slice(2 * size), "<u2").astype(np.int64)
                if (np.diff(low) <= 0).any():
                    raise FormatError("positions are out of order")
            else:
                bits = np.unpackbits(np.frombuffer(self.slice(BITMAP_BYTES), np.uint8), bitorder="little")
                low = np.flatnonzero(bits)
                if len(low) != size:
                    raise FormatError(f"a container has {len(low)} positions and announces {size}")
            out[start:end] = low
            out[start:end] += base + (key << 16)
        return out

    def _runs(self, size: int) -> Positions:
        (count,) = self.take("<H")
        pairs = np.frombuffer(self.slice(4 * count), "<u2").reshape(count, 2).astype(np.int64)
        first, lengths = pairs[:, 0], pairs[:, 1] + 1
        ends = first + lengths
        if int(lengths.sum()) != size or (first[1:] < ends[:-1]).any() or (count and ends[-1] > 1 << 16):
            raise FormatError("its runs overlap or do not add up")
        return arrow_numpy.ranges(first, lengths)
