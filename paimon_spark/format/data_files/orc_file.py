"""ORC files: what stands at their end and at the end of stripes, as far as timestamps need it.

Source: ORC specification v1, chapters File Tail, Stripes, Compression.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa
import zstandard

from paimon_spark.errors import FormatError, UnsupportedFeatureError

LONG: Final = 4
TIMESTAMP: Final = 9
TIMESTAMP_INSTANT: Final = 18
SECONDARY: Final = 5
DIRECT_V2: Final = 2
_VARINT, _BYTES = 0, 2
_CODECS: Final = ("none", "zlib", "snappy", "lzo", "lz4", "zstd")
_TAIL_BYTES: Final = 1 << 16


class Type(NamedTuple):
    """A node of the file's type tree; its place in the list of types is its column id."""

    kind: int
    children: tuple[int, ...]
    names: tuple[str, ...]


class Stripe(NamedTuple):
    """Where a stripe lies; its streams start at `offset`, its footer after index and data."""

    offset: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    row_count: int


class Stream(NamedTuple):
    """A stream of a stripe, as a place in the file."""

    kind: int
    column: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The streams of a stripe, the encoding of each column, and the writer's time zone (empty if not stated)."""

    streams: tuple[Stream, ...]
    encodings: tuple[int, ...]
    time_zone: str


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file.

    Attributes:
        types: by column id; 0 is the whole row.
        timestamp_ranges: by column id, least and greatest millisecond in UTC; None where not stated. An empty
            column has (0, 0).
        footer, footer_start: the footer's bytes and where the stored footer starts.
        postscript: its bytes.
    """

    codec: str
    block_bytes: int
    stripes: tuple[Stripe, ...]
    types: tuple[Type, ...]
    timestamp_ranges: tuple[tuple[int, int] | None, ...]
    footer: bytes
    footer_start: int
    postscript: bytes


def read_tail(source: pa.NativeFile) -> Tail:
    """The tail of an open file.

    Raises:
        FormatError: not an ORC file.
        UnsupportedFeatureError: its compression.
    """
    tail = _raw_tail(source)
    types, ranges = [], []
    for number, value in _message(tail.footer):
        if number == 4:
            types.append(_type(value))
        elif number == 7:
            ranges.append(_timestamp_range(value))
    return replace(tail, types=tuple(types), timestamp_ranges=tuple(ranges))


def stripe_rows(source: pa.NativeFile) -> int | None:
    """Rows of all stripes together, for which memory is taken before they are decoded.

    None when the file's compression is not known here. Raises FormatError.
    """
    try:
        return sum(s.row_count for s in _raw_tail(source).stripes)
    except UnsupportedFeatureError:
        return None


def _raw_tail(source: pa.NativeFile) -> Tail:
    """The tail without types and statistics."""
    size = source.size()
    raw = _read(source, max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
    if len(raw) < 2 or raw[-1] + 1 > len(raw):
        raise FormatError("it is too short for ORC")
    post = raw[-1 - raw[-1] : -1]
    facts = dict(_message(post))
    codec = _CODECS[_int(facts, 2)] if _int(facts, 2) < len(_CODECS) else "?"
    block = _int(facts, 3) or 262144
    length = _int(facts, 1)
    start = size - 1 - len(post) - length
    if start < 0:
        raise FormatError("its footer is longer than itself")
    footer = decompress(_read(source, start, length), codec, block)
    stripes = []
    for number, value in _message(footer):
        if number == 3:
            facts = dict(_message(value))
            stripes.append(Stripe(*(_int(facts, i) for i in range(1, 6))))
    return Tail(codec, block, tuple(stripes), (), (), footer, start, post)


def read_stripe_footer(source: pa.NativeFile, tail: Tail, stripe: Stripe) -> StripeFooter:
    """The footer of a stripe. Raises FormatError."""
    start = stripe.offset + stripe.index_bytes + stripe.data_bytes
    data = decompress(_read(source, start, stripe.footer_bytes), tail.codec, tail.block_bytes)
    streams, encodings, zone, at = [], [], "", stripe.offset
    for number, value in _message(data):
        if number == 1:
            facts = dict(_message(value))
            streams.append(Stream(_int(facts, 1), _int(facts, 2), at, _int(facts, 3)))
            at += _int(facts, 3)
        elif number == 2:
            encodings.append(_int(dict(_message(value)), 1))
        elif number == 3:
            zone = bytes(value).decode("utf-8", "replace")
    return StripeFooter(tuple(streams), tuple(encodings), zone)


def read_stream(source: pa.NativeFile, tail: Tail, stream: Stream) -> bytes:
    """The decompressed bytes of a stream. Raises FormatError."""
    return decompress(_read(source, stream.offset, stream.size), tail.codec, tail.block_bytes)


def tail_with_longs(tail: Tail, columns: Sequence[int]) -> bytes:
    """What to put from `tail.footer_start` on, so that the columns, timestamps, read as the longs in their DATA."""
    out, number_of_type = bytearray(), 0
    for number, value in _message(tail.footer):
        if number == 4:
            if number_of_type in columns:
                value = b"".join(_field(n, LONG if n == 1 else v) for n, v in _message(value))
            number_of_type += 1
        out += _field(number, value)
    stored = bytes(out) if tail.codec == "none" else _as_original(bytes(out), tail.block_bytes)
    post = b"".join(_field(n, len(stored) if n == 1 else v) for n, v in _message(tail.postscript))
    return stored + post + bytes((len(post),))


def decompress(data: bytes, codec: str, block_bytes: int) -> bytes:
    """A stream of compressed blocks as bytes.

    Raises:
        FormatError: damaged.
        UnsupportedFeatureError: the codec.
    """
    if codec == "none":
        return data
    out, at = [], 0
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        at += 3
        block = data[at : at + (header >> 1)]
        at += header >> 1
        out.append(block if header & 1 else _inflated(block, codec, block_bytes))
    return b"".join(out)


def _inflated(block: bytes, codec: str, limit: int) -> bytes:
    try:
        match codec:
            case "zlib":
                return bytes(zlib.decompressobj(-15).decompress(block, limit))
            case "zstd":
                return bytes(zstandard.ZstdDecompressor().decompress(block, max_output_size=limit))
            case "snappy":
                return _unsnapped(block, limit)
            case "lz4":
                return _unpacked_lz4(block, limit)
    except (zlib.error, zstandard.ZstdError, pa.ArrowException, OSError) as e:
        raise FormatError(f"a block of it does not decompress: {e}") from e
    raise UnsupportedFeatureError(
        f"it has timestamps and is compressed with {codec}; timestamps can be read from ORC files with the codecs "
        "none, zlib, snappy, lz4 and zstd",
        feature=f"orc compression {codec}",
    )


def _unsnapped(block: bytes, limit: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise FormatError("a block of it is too large")
    out: bytes = pa.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True)
    return out


def _unpacked_lz4(block: bytes, limit: int) -> bytes:
    """An LZ4 block, which unlike Arrow's codec needs no length in advance."""
    out = bytearray()
    at = 0
    while at < len(block):
        token = block[at]
        literals, at = _lz4_length(block, at + 1, token >> 4)
        out += block[at : at + literals]
        at += literals
        if at >= len(block):
            break
        back = int.from_bytes(block[at : at + 2], "little")
        count, at = _lz4_length(block, at + 2, token & 15)
        count += 4
        if not 0 < back <= len(out) or len(out) + count > limit:
            break
        piece = bytes(out[len(out) - back :][:count])
        out += (piece * (count // back + 1))[:count]
    if at != len(block) or len(out) > limit:
        raise FormatError("a block of it is not LZ4")
    return bytes(out)


def _lz4_length(block: bytes, at: int, nibble: int) -> tuple[int, int]:
    """A length that starts with four bits and the position behind it."""
    total = nibble
    while nibble == 15 and at < len(block):
        total += block[at]
        at += 1
        if block[at - 1] != 255:
            break
    return total, at


def _as_original(data: bytes, block_bytes: int) -> bytes:
    """The bytes as blocks that are marked as not compressed."""
    parts = []
    for at in range(0, len(data), block_bytes):
        block = data[at : at + block_bytes]
        parts.append((len(block) << 1 | 1).to_bytes(3, "little") + block)
    return b"".join(parts)


def _read(source: pa.NativeFile, offset: int, size: int) -> bytes:
    source.seek(offset)
    data = bytes(source.read(size))
    if len(data) != size:
        raise FormatError("it is cut short")
    return data


def _type(data: bytes) -> Type:
    kind, children, names = 0, [], []
    for number, value in _message(data):
        if number == 1:
            kind = value
        elif number == 2:
            children += [value] if isinstance(value, int) else list(_varints(value))
        elif number == 3:
            names.append(bytes(value).decode("utf-8", "replace"))
    return Type(kind, tuple(children), tuple(names))


def _timestamp_range(data: bytes) -> tuple[int, int] | None:
    facts = dict(_message(data))
    if 9 in facts:
        stats = dict(_message(facts[9]))
        if 3 in stats and 4 in stats:
            return _signed(stats[3]), _signed(stats[4])
        return None
    return (0, 0) if 1 in facts and facts[1] == 0 else None


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


def _field(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return _encoded(number << 3 | _VARINT) + _encoded(value)
    return _encoded(number << 3 | _BYTES) + _encoded(len(value)) + bytes(value)


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
