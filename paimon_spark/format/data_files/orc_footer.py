"""Parser of ORC footers for what pyarrow does not tell: rows of stripes and ranges of timestamps.

Source: ORC specification v1, chapters File Tail and Compression.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from paimon_spark.errors import FormatError
from paimon_spark.format.compression import ERRORS, decompressor

_TIMESTAMPS: Final = (9, 18)
"""Kinds of types: TIMESTAMP, TIMESTAMP_INSTANT."""
_CODECS: Final = ("null", "deflate", "snappy", "lzo", "lz4", "zstandard")
_TAIL_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 256 << 10
SAFE_SECONDS: Final = 9_223_372_036
"""Timestamps nearer to 1970 fit 64-bit nanoseconds, whatever their fraction of a second."""


class _Type(NamedTuple):
    """A node of the file's type tree; its place in the list of types is its column id."""

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]


class OrcFooter(NamedTuple):
    """Facts of a footer.

    Attributes:
        stripe_rows: rows of all stripes together, for which memory is taken before they are decoded.
        types: the type tree, by column id; 0 is the whole row.
        timestamp_ranges: by column id, least and greatest millisecond in UTC; None where not stated. A column
            without values has (0, 0).
    """

    stripe_rows: int
    types: tuple[_Type, ...]
    timestamp_ranges: tuple[tuple[int, int] | None, ...]

    def far_timestamp(self, names: Sequence[str]) -> str | None:
        """The path of a timestamp column, at or under the columns `names`, that may leave 64-bit nanoseconds.

        Raises:
            FormatError: the types are not a tree.
        """
        if not self.types:
            raise FormatError("it has no types")
        root = self.types[0]
        pending = [(n, c) for n, c in zip(root.names, root.children, strict=False) if n in names]
        seen = 0
        while pending:
            path, column = pending.pop()
            seen += 1
            if column >= len(self.types) or seen > len(self.types):
                raise FormatError("its types are not a tree")
            node = self.types[column]
            parts = node.names or ("element",) if len(node.children) == 1 else node.names or ("key", "value")
            pending += [(f"{path}.{name}", child) for name, child in zip(parts, node.children, strict=False)]
            if node.kind in _TIMESTAMPS and not self._is_near(column):
                return path
        return None

    def _is_near(self, column: int) -> bool:
        found = self.timestamp_ranges[column] if column < len(self.timestamp_ranges) else None
        return found is not None and -SAFE_SECONDS * 1000 < found[0] <= found[1] < SAFE_SECONDS * 1000


def read_footer(source: pa.NativeFile) -> OrcFooter | None:
    """The footer of an open file; None when it is compressed by LZO, which cannot be decompressed here.

    Raises:
        FormatError: not an ORC file.
    """
    size = source.size()
    raw = _read(source, max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
    if len(raw) < 2 or raw[-1] + 1 > len(raw):
        raise FormatError("it is too short for ORC")
    post = dict(_message(raw[-1 - raw[-1] : -1]))
    length, codec, block_bytes = _int(post, 1), _int(post, 2), _int(post, 3) or _BLOCK_BYTES
    start = size - 1 - raw[-1] - length
    if start < 0:
        raise FormatError("its footer is longer than itself")
    footer = _decompressed(_read(source, start, length), _CODECS[codec] if codec < len(_CODECS) else "", block_bytes)
    if footer is None:
        return None
    rows, types, ranges = 0, [], []
    for number, value in _message(footer):
        if number == 3:
            rows += _int(dict(_message(value)), 5)
        elif number == 4:
            types.append(_type(value))
        elif number == 7:
            ranges.append(_timestamp_range(value))
    return OrcFooter(rows, tuple(types), tuple(ranges))


def _decompressed(data: bytes, codec: str, block_bytes: int) -> bytes | None:
    """A stream of compressed blocks as bytes; None for an unknown codec. Raises FormatError."""
    if codec == "null":
        return data
    decompress = decompressor(codec, block_bytes)
    if decompress is None:
        return None
    out, at = [], 0
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        block = data[at + 3 :][: header >> 1]
        at += 3 + (header >> 1)
        try:
            out.append(block if header & 1 else decompress(block))
        except (*ERRORS, ValueError) as e:
            raise FormatError(f"a block of it does not decompress: {e}") from e
    return b"".join(out)


def _read(source: pa.NativeFile, offset: int, size: int) -> bytes:
    source.seek(offset)
    data = bytes(source.read(size))
    if len(data) != size:
        raise FormatError("it is cut short")
    return data


def _type(data: bytes) -> _Type:
    kind, children, names = 0, [], []
    for number, value in _message(data):
        if number == 1:
            kind = value
        elif number == 2:
            children += [value] if isinstance(value, int) else list(_varints(value))
        elif number == 3:
            names.append(bytes(value).decode("utf-8", "replace"))
    return _Type(kind, tuple(children), tuple(names))


def _timestamp_range(data: bytes) -> tuple[int, int] | None:
    facts = dict(_message(data))
    if facts.get(1) == 0:
        return 0, 0
    stats = dict(_message(facts.get(9, b"")))
    return (_signed(stats[3]), _signed(stats[4])) if 3 in stats and 4 in stats else None


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _int(facts: dict[int, Any], number: int) -> int:
    value = facts.get(number, 0)
    if not isinstance(value, int):
        raise FormatError("its tail is not ORC's")
    return value


def _message(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value (int or bytes) of each field of a Protocol Buffers message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise FormatError("its tail is cut short")
                yield key >> 3, data[at : at + size]
                at += size
            case _:
                raise FormatError("its tail is not ORC's")


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise FormatError("its tail is cut short")
