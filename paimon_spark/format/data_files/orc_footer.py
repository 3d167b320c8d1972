"""Footers of ORC files and of their stripes.

A few bytes can stand for many values: for a run of equal ones, and for indexes into a dictionary of long texts, which
Arrow copies for each row. How long the texts of a dictionary are is read before they are decoded.

Source: ORC specification v1, chapters File Tail, Compression, Stripes and Run Length Encoding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_spark.errors import FormatError
from paimon_spark.format.compression import ERRORS, decompressor

_CODECS: Final = ("null", "deflate", "snappy", "lzo", "lz4", "zstandard")
_TAIL_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 256 << 10
_LENGTHS: Final = 2
"""The kind of stream that has the lengths of texts."""
_DICTIONARY, _DICTIONARY_V2 = 1, 3
"""Encodings of columns with a dictionary, by their version of run lengths."""
_MOST_BITS: Final = 62
_TOO_MANY: Final = (1 << 63) - 1
_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of a value, by their code of five bits."""


class _Stripe(NamedTuple):
    """A stripe of a file.

    Attributes:
        rows: how many it has.
        size: bytes of its data in the file.
        start, footer_start, end: where it, and its footer, begin and end.
    """

    rows: int
    size: int
    start: int
    footer_start: int
    end: int


class OrcFooter(NamedTuple):
    """Facts of a footer.

    Attributes:
        codec: its compression, and that of the stripes.
        block_bytes: that are compressed together, at most.
        stripes: those of the file, in order; memory is taken for their rows before they are decoded.
        timestamp_ranges: by column id, least and greatest millisecond in UTC; None where not stated. A column
            without values has (0, 0).
    """

    codec: str
    block_bytes: int
    stripes: tuple[_Stripe, ...]
    timestamp_ranges: tuple[tuple[int, int] | None, ...]

    @property
    def stripe_rows(self) -> int:
        """Rows of all stripes."""
        return sum(s.rows for s in self.stripes)


def read_footer(source: pa.NativeFile) -> OrcFooter | None:
    """The footer of an open file; None when it is compressed by LZO, which is not supported. Raises FormatError."""
    size = source.size()
    raw = _read(source, max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
    if len(raw) < 2 or raw[-1] + 1 > len(raw):
        raise FormatError("it is too short for ORC")
    post = dict(_message(raw[-1 - raw[-1] : -1]))
    length, codec, block_bytes = _int(post, 1), _int(post, 2), _int(post, 3) or _BLOCK_BYTES
    start = size - 1 - raw[-1] - length
    if start < 0:
        raise FormatError("its footer is longer than itself")
    name = _CODECS[codec] if codec < len(_CODECS) else ""
    footer = _decompressed(_read(source, start, length), name, block_bytes)
    if footer is None:
        return None
    stripes, ranges = [], []
    for number, value in _message(footer):
        if number == 3:
            facts = dict(_message(value))
            begin, index, data, rest = (_int(facts, n) for n in (1, 2, 3, 4))
            ends = begin + index + data, begin + index + data + rest
            stripes.append(_Stripe(_int(facts, 5), data, begin, *ends))
        elif number == 7:
            ranges.append(_timestamp_range(value))
    return OrcFooter(name, block_bytes, tuple(stripes), tuple(ranges))


def longest_texts(source: pa.NativeFile, footer: OrcFooter, stripe: _Stripe, columns: Collection[int]) -> int:
    """Bytes of a row of the longest texts in the dictionaries of columns, at most; 0 where they have none.

    Two reads at least where there is one. `columns` are ids. Raises FormatError.
    """
    if stripe.end > source.size():
        raise FormatError("a stripe of it is cut short")
    data = _decompressed(
        _read(source, stripe.footer_start, stripe.end - stripe.footer_start), footer.codec, footer.block_bytes
    )
    encodings: list[int] = []
    places: dict[int, tuple[int, int]] = {}
    at = stripe.start
    for number, value in _message(data or b""):
        if number == 1:
            stream = dict(_message(value))
            kind, column, length = (_int(stream, n) for n in (1, 2, 3))
            if kind == _LENGTHS:
                places[column] = at, length
            at += length
        elif number == 2:
            encodings.append(_int(dict(_message(value)), 1))
    if at > stripe.footer_start:
        raise FormatError("the streams of a stripe are longer than itself")
    found = 0
    for column in columns:
        encoding = encodings[column] if column < len(encodings) else 0
        if encoding in (_DICTIONARY, _DICTIONARY_V2) and column in places:
            lengths = _decompressed(_read(source, *places[column]), footer.codec, footer.block_bytes) or b""
            found += _most_v1(lengths) if encoding == _DICTIONARY else _most_v2(lengths)
    return found


def _most_v2(data: bytes) -> int:
    """No number of a stream of unsigned numbers in run length encoding 2 is larger. Raises FormatError."""
    most, at = 0, 0
    while at + 1 < len(data):
        first = data[at]
        width = _WIDTHS[first >> 1 & 31]
        count = ((first & 1) << 8 | data[at + 1]) + 1
        match first >> 6:
            case 0:  # one number, repeated
                size = (first >> 3 & 7) + 1
                value, at = int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size
            case 1:  # each by itself
                value, at = _most_packed(data, at + 2, width, count)
            case 2:  # above a base, and with patches of the highest ones
                if at + 3 >= len(data):
                    raise FormatError("a stream of lengths is cut short")
                third, fourth = data[at + 2], data[at + 3]
                base, patch = (third >> 5) + 1, _WIDTHS[third & 31]
                entry = next((w for w in _WIDTHS if w >= (fourth >> 5) + 1 + patch), 64)
                low = int.from_bytes(data[at + 4 : at + 4 + base], "big") & ~(1 << (8 * base - 1))
                value, at = _most_packed(data, at + 4 + base, width, count)
                high, at = _most_packed(data, at, entry, fourth & 31, patch)
                value += low + (high << width)
            case _:  # differences
                varies = first >> 1 & 31
                low, at = _varint(data, at + 2)
                step, at = _varint(data, at)
                rest = max(count - 2, 0)
                up = 0 if step & 1 else (step >> 1) + rest * (((1 << width) - 1) if varies else step >> 1)
                value = low + up
                at += _bytes(width * rest) if varies else 0
        most = max(most, value)
    return most


def _most_packed(data: bytes, at: int, width: int, count: int, low_bits: int = 64) -> tuple[int, int]:
    """The largest of numbers of `width` bits, of which `low_bits` count, and where they end; 2^63 - 1 for wide ones."""
    end = at + _bytes(width * count)
    if end > len(data):
        raise FormatError("a stream of lengths is cut short")
    if not count or min(width, low_bits) > _MOST_BITS:
        return (_TOO_MANY if count else 0), end
    bits = np.unpackbits(np.frombuffer(data, np.uint8, end - at, at), count=width * count).reshape(count, width)
    bits = bits[:, -low_bits:]
    return int((bits @ (1 << np.arange(bits.shape[1], dtype=np.int64)[::-1])).max()), end


def _most_v1(data: bytes) -> int:
    """As `_most_v2`, of run length encoding 1."""
    most, at = 0, 0
    while at < len(data):
        control, at = data[at], at + 1
        if control < 128:  # numbers that differ by as much
            if at >= len(data):
                raise FormatError("a stream of lengths is cut short")
            step, at = (data[at] ^ 128) - 128, at + 1
            low, at = _varint(data, at)
            most = max(most, low + max(step, 0) * (control + 2))
        else:
            for _ in range(256 - control):
                value, at = _varint(data, at)
                most = max(most, value)
    return most


def _bytes(bits: int) -> int:
    return -(-bits // 8)


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


def _timestamp_range(data: bytes) -> tuple[int, int] | None:
    facts = dict(_message(data))
    if facts.get(1) == 0:
        return 0, 0
    stats = dict(_message(facts.get(9, b"")))
    if 3 not in stats or 4 not in stats:
        return None
    low, high = ((stats[n] >> 1) ^ -(stats[n] & 1) for n in (3, 4))
    return low, high


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
