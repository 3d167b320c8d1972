"""The file that contains the indexes of the columns of one data file.

A head names columns, the kinds of their indexes, and where these are. All numbers are big-endian.

Source: Java `fileindex/FileIndexFormat`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from paimon_spark.errors import FormatError

_MAGIC: Final = 1493475289347502
_VERSION: Final = 1
_START: Final = struct.Struct(">qii")
_EMPTY: Final = -1
HEAD_BYTES: Final = 4096
"""Bytes at the beginning of a file that contain most heads."""


class Place(NamedTuple):
    """Where an index is in the file: its first byte, and how many bytes it has."""

    start: int
    length: int


def head_length(data: bytes) -> int:
    """Bytes of the head, of which `data` is the beginning, at least 16 bytes. Raises FormatError."""
    if len(data) < _START.size:
        raise FormatError("it is cut short")
    magic, version, length = _START.unpack_from(data)
    if magic != _MAGIC:
        raise FormatError(f"it begins with {magic}, which no file index does")
    if version != _VERSION:
        raise FormatError(f"it is a file index of version {version}; version {_VERSION} can be read")
    if length < _START.size:
        raise FormatError(f"its head is of {length} bytes")
    return int(length)


def read_head(data: bytes) -> dict[str, dict[str, Place]]:
    """Places of the indexes by column and kind. Indexes of no rows are left out. Raises FormatError."""
    end = head_length(data)
    reader = _Head(data[:end])
    try:
        return {
            reader.text(): {
                kind: place for kind, place in (reader.index() for _ in range(reader.number())) if place.start >= 0
            }
            for _ in range(reader.number())
        }
    except (struct.error, UnicodeDecodeError) as e:
        raise FormatError(f"its head is damaged: {e}") from e


class _Head:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = _START.size

    def number(self) -> int:
        (out,) = struct.unpack_from(">i", self._data, self._at)
        self._at += 4
        return int(out)

    def text(self) -> str:
        (size,) = struct.unpack_from(">H", self._data, self._at)
        self._at += 2 + size
        if self._at > len(self._data):
            raise FormatError("its head is cut short")
        return _from_modified_utf8(self._data[self._at - size : self._at])

    def index(self) -> tuple[str, Place]:
        return self.text(), Place(self.number(), self.number())


def write_container(indexes: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """The file with these indexes, by column and kind; None for an index of no rows."""
    names = sum(2 + len(_modified_utf8(c)) + sum(2 + len(k) for k in kinds) for c, kinds in indexes.items())
    length = _START.size + 8 + 4 * len(indexes) + 8 * sum(map(len, indexes.values())) + names
    head, body = [_START.pack(_MAGIC, _VERSION, length), struct.pack(">i", len(indexes))], []
    at = length
    for column, kinds in indexes.items():
        head.append(_text(column) + struct.pack(">i", len(kinds)))
        for kind, data in kinds.items():
            size = 0 if data is None else len(data)
            head.append(_text(kind) + struct.pack(">ii", _EMPTY if data is None else at, size))
            body.append(data or b"")
            at += size
    return b"".join([*head, struct.pack(">i", 0), *body])


def _text(text: str) -> bytes:
    data = _modified_utf8(text)
    return struct.pack(">H", len(data)) + data


def _modified_utf8(text: str) -> bytes:
    """Text as Java's `DataOutput.writeUTF` encodes it: surrogates one by one, and zero in two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    chars = "".join(chr(u) for u in struct.unpack(f">{len(units) // 2}H", units))
    return chars.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _from_modified_utf8(data: bytes) -> str:
    chars = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return chars.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
