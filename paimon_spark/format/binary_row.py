"""BinaryRow: rows of bytes, as partitions, keys and statistics are stored; decoded by row or by column.

Rows here have the 4-byte big-endian arity in front, as in manifests; everything behind it is little endian.

Source: Paimon spec, chapter Manifest; Java `data/BinaryRow`, `data/BinaryRowWriter`, `utils/SerializationUtils`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final, TypeAlias

from paimon_spark.errors import FormatError
from paimon_spark.format.binary_row_columns import (
    COMPACT_DECIMAL_DIGITS,
    COMPACT_TIMESTAMP_DIGITS,
    INLINE_BYTES,
    decode_column,
)
from paimon_spark.types import (
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    TimestampType,
    TimeType,
)

__all__ = (
    "EMPTY",
    "Value",
    "arity_of",
    "datetime_of",
    "decimal_of",
    "decode",
    "decode_column",
    "encode",
    "null_bits_bytes",
    "raw_timestamp",
)

Value: TypeAlias = bool | int | float | str | bytes | Decimal | date | datetime | tuple[int, int] | None
"""DATE is a date, TIME int milliseconds, TIMESTAMP a datetime (local-zoned: UTC-aware), or raw as `decode` says."""

EMPTY: Final = bytes(12)
"""The row without fields: the partition of unpartitioned tables, the keys of append tables."""

_HEADER_BITS: Final = 8
_DECIMAL_BYTES: Final = 16
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1)
_NANOS_PER_MILLI: Final = 1_000_000
_FIXED: Final = {
    "TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "BIGINT": "<q", "FLOAT": "<f", "DOUBLE": "<d", "DATE": "<i",
}  # fmt: skip


def null_bits_bytes(arity: int) -> int:
    """Bytes of the row kind and the null bits, before the first slot."""
    return (arity + 63 + _HEADER_BITS) // 64 * 8


def arity_of(row: bytes) -> int:
    """The number of fields. Raises FormatError when `row` is shorter than they need."""
    if len(row) < 4:
        raise FormatError(f"a row of {len(row)} bytes has no arity")
    arity = int.from_bytes(row[:4], "big", signed=True)
    if arity < 0 or len(row) - 4 < null_bits_bytes(arity) + 8 * arity:
        raise FormatError(f"a row of {len(row)} bytes cannot have {arity} fields")
    return arity


def decode(row: bytes, types: Sequence[DataType], *, raw_timestamps: bool = False) -> tuple[Any, ...]:
    """The values of a row whose first fields have `types`.

    A datetime ends at microseconds: of TIMESTAMP(7) to (9) the rest is cut off, unless `raw_timestamps` asks
    for every timestamp as (milliseconds since the epoch, nanoseconds of the millisecond).

    Raises:
        FormatError: too few fields, an offset outside the row, text that is not UTF-8, a date outside the
            years 1 to 9999, or a nested type.
    """
    arity = arity_of(row)
    if arity < len(types):
        raise FormatError(f"a row has {arity} fields where {len(types)} are expected")
    reader = _Reader(row[4:], arity, raw_timestamps)
    try:
        return tuple(reader.value(i, t) for i, t in enumerate(types))
    except (struct.error, ValueError, OverflowError) as e:
        raise FormatError(f"a row holds a value that cannot be: {e}") from e


class _Reader:
    def __init__(self, data: bytes, arity: int, raw_timestamps: bool) -> None:
        self.data = data
        self.first = null_bits_bytes(arity)
        self.raw_timestamps = raw_timestamps

    def value(self, i: int, t: DataType) -> Value:
        bit = i + _HEADER_BITS
        if self.data[bit // 8] >> bit % 8 & 1:
            return None
        at = self.first + 8 * i
        match t:
            case AtomicType(name="BOOLEAN"):
                return self.data[at] != 0
            case AtomicType(name="DATE"):
                return _EPOCH_DAY + timedelta(days=self._number("<i", at))
            case AtomicType() if t.name in _FIXED:
                out: int | float = struct.unpack_from(_FIXED[t.name], self.data, at)[0]
                return out
            case TimeType():
                return self._number("<i", at)
            case CharType():
                return self._bytes(at).decode()
            case BinaryType():
                return self._bytes(at)
            case DecimalType():
                return self._decimal(at, t)
            case TimestampType():
                return self._timestamp(at, t)
        raise FormatError(f"values of type {t} are not kept in rows of metadata")

    def _number(self, form: str, at: int) -> int:
        out: int = struct.unpack_from(form, self.data, at)[0]
        return out

    def _pointed(self, at: int) -> tuple[int, int]:
        """The halves of a slot: offset, and length or nanoseconds."""
        slot = self._number("<Q", at)
        return slot >> 32, slot & 0xFFFFFFFF

    def _slice(self, offset: int, size: int) -> bytes:
        if offset + size > len(self.data):
            raise FormatError(f"{size} bytes at {offset} are outside a row of {len(self.data)}")
        return self.data[offset : offset + size]

    def _bytes(self, at: int) -> bytes:
        mark = self.data[at + 7]
        if mark & 0x80:
            size = mark & 0x7F
            if size > INLINE_BYTES:
                raise FormatError(f"{size} bytes cannot lie inside a slot")
            return self.data[at : at + size]
        return self._slice(*self._pointed(at))

    def _decimal(self, at: int, t: DecimalType) -> Decimal:
        if t.precision <= COMPACT_DECIMAL_DIGITS:
            unscaled = self._number("<q", at)
        else:
            offset, size = self._pointed(at)
            if not 0 < size <= _DECIMAL_BYTES:
                raise FormatError(f"a decimal of {size} bytes")
            unscaled = int.from_bytes(self._slice(offset, size), "big", signed=True)
        return decimal_of(unscaled, t.scale)

    def _timestamp(self, at: int, t: TimestampType) -> Value:
        if t.precision <= COMPACT_TIMESTAMP_DIGITS:
            millis, nanos = self._number("<q", at), 0
        else:
            offset, nanos = self._pointed(at)
            if nanos >= _NANOS_PER_MILLI:
                raise FormatError(f"a millisecond of {nanos} nanoseconds")
            millis = struct.unpack("<q", self._slice(offset, 8))[0]
        return (millis, nanos) if self.raw_timestamps else datetime_of(millis, nanos, t.local_zone)


def datetime_of(millis: int, nanos: int, utc: bool) -> datetime:
    """A timestamp as a datetime, cut off below microseconds. Raises OverflowError outside years 1 to 9999."""
    out = _EPOCH + timedelta(milliseconds=millis, microseconds=nanos // 1000)
    return out.replace(tzinfo=timezone.utc) if utc else out


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """`unscaled` / 10**scale, exact, with that many digits after the point."""
    digits = tuple(int(d) for d in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


def encode(values: Sequence[Value], types: Sequence[DataType]) -> bytes:
    """The row of `values`, byte for byte what Java writes.

    Raises:
        FormatError: a value does not fit its type.
    """
    arity = len(types)
    first = null_bits_bytes(arity)
    fixed = bytearray(first + 8 * arity)
    variable = bytearray()
    for i, (value, t) in enumerate(zip(values, types, strict=True)):
        try:
            slot, tail = _encoded(value, t, len(fixed) + len(variable))
        except (struct.error, OverflowError, TypeError, AttributeError) as e:
            raise FormatError(f"{value!r} is not a value of {t}: {e}") from e
        if value is None:
            bit = i + _HEADER_BITS
            fixed[bit // 8] |= 1 << bit % 8
        fixed[first + 8 * i : first + 8 * i + 8] = slot.ljust(8, b"\0")
        variable += tail
    return struct.pack(">i", arity) + bytes(fixed) + bytes(variable)


def _encoded(value: Any, t: DataType, offset: int) -> tuple[bytes, bytes]:
    """The slot of a value, and its part of the variable area, which starts at `offset`."""
    match t:
        case DecimalType() if t.precision > COMPACT_DECIMAL_DIGITS:
            return _encoded_decimal(value, t, offset)
        case TimestampType() if t.precision > COMPACT_TIMESTAMP_DIGITS:
            # Null keeps its place: Java may set the field again in the same row.
            millis, nanos = (0, 0) if value is None else raw_timestamp(value)
            return struct.pack("<II", nanos, offset), struct.pack("<q", millis)
    if value is None:
        return b"", b""
    match t:
        case AtomicType(name="BOOLEAN"):
            return struct.pack("<?", value), b""
        case AtomicType(name="DATE"):
            days = (value - _EPOCH_DAY).days if isinstance(value, date) else value
            return struct.pack("<i", days), b""
        case AtomicType() if t.name in _FIXED:
            return struct.pack(_FIXED[t.name], value), b""
        case TimeType():
            return struct.pack("<i", value), b""
        case CharType():
            return _encoded_bytes(value.encode(), offset)
        case BinaryType():
            return _encoded_bytes(value, offset)
        case DecimalType():
            return struct.pack("<q", _unscaled(value, t)), b""
        case TimestampType():
            return struct.pack("<q", raw_timestamp(value)[0]), b""
    raise FormatError(f"values of type {t} are not kept in rows of metadata")


def _encoded_bytes(data: bytes, offset: int) -> tuple[bytes, bytes]:
    if len(data) <= INLINE_BYTES:
        return data.ljust(7, b"\0") + bytes([0x80 | len(data)]), b""
    return struct.pack("<II", len(data), offset), data + bytes(-len(data) % 8)


def _encoded_decimal(value: Any, t: DecimalType, offset: int) -> tuple[bytes, bytes]:
    if value is None:
        return struct.pack("<II", 0, offset), bytes(_DECIMAL_BYTES)
    unscaled = _unscaled(value, t)
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    data = unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
    return struct.pack("<II", len(data), offset), data.ljust(_DECIMAL_BYTES, b"\0")


def _unscaled(value: Decimal, t: DecimalType) -> int:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise FormatError(f"{value} is not a value of {t}")
    number = int("".join(map(str, digits)) or "0")
    shift = exponent + t.scale
    whole, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if rest or whole >= 10**t.precision:
        raise FormatError(f"{value} does not fit {t}")
    return -int(whole) if sign else int(whole)


def raw_timestamp(value: datetime | tuple[int, int]) -> tuple[int, int]:
    """A timestamp as (milliseconds since the epoch, nanoseconds of the millisecond)."""
    if isinstance(value, tuple):
        return value
    if value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    micros = (value - _EPOCH) // timedelta(microseconds=1)
    return micros // 1000, micros % 1000 * 1000
