"""BinaryRow, the encoding of partitions, keys and statistics.

Rows here have the 4-byte big-endian arity in front, as in manifests; everything behind it is little endian.
Columns are decoded without a loop over rows: a scan prunes by the statistics of a hundred thousand files.

Source: Paimon spec, chapter Manifest; Java `data/BinaryRow`, `data/BinaryRowWriter`, `utils/SerializationUtils`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import FormatError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import unscaled_value
from paimon_spark.format.arrays.arrow_types import arrow_type, timestamp_unit
from paimon_spark.text import sql_quoted
from paimon_spark.types import (
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    OpaqueType,
    TimestampType,
    TimeType,
    VectorType,
)

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Bool = npt.NDArray[np.bool_]
Arity = TypeVar("Arity", int, I64)

Value: TypeAlias = bool | int | float | str | bytes | Decimal | date | datetime | tuple[int, int] | None
"""DATE is a date, TIME int milliseconds, TIMESTAMP a datetime (local-zoned: UTC-aware), or raw as `decode` says."""

EMPTY: Final = bytes(12)
"""The row without fields: the partition of unpartitioned tables, the keys of append tables."""

HEADER_BITS: Final = 8
_DECIMAL_BYTES: Final = 16
COMPACT_DECIMAL_DIGITS: Final = 18
COMPACT_TIMESTAMP_DIGITS: Final = 3
INLINE_BYTES: Final = 7
"""What still lies inside a slot: decimals and timestamps of so many digits, so many bytes of text."""
MICROSECOND_DIGITS: Final = 6
REST_OF_MICROSECOND: Final = 999
"""Nanoseconds."""

_ARITY_BYTES: Final = 4
_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1)
_NANOS_PER_MILLI: Final = 1_000_000
_FIXED: Final = {
    "TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "BIGINT": "<q", "FLOAT": "<f", "DOUBLE": "<d", "DATE": "<i",
}  # fmt: skip


def null_bits_bytes(arity: Arity) -> Arity:
    """Bytes of the row kind and the null bits, before the first slot; of one arity or an array of them."""
    return (arity + 63 + HEADER_BITS) // 64 * 8


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
        bit = i + HEADER_BITS
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
    return out.replace(tzinfo=UTC) if utc else out


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """`unscaled` / 10**scale, exact, with that many digits after the point."""
    return Decimal(f"{unscaled}E-{scale}")


def encode(values: Sequence[Value], types: Sequence[DataType]) -> bytes:
    """The row of `values`, byte for byte what Java writes. Raises FormatError where one does not fit its type."""
    arity = len(types)
    first = null_bits_bytes(arity)
    fixed = bytearray(first + 8 * arity)
    variable = bytearray()
    for i, (value, t) in enumerate(zip(values, types, strict=True)):
        try:
            slot, tail = _encoded(value, t, len(fixed) + len(variable))
        except (struct.error, ValueError, OverflowError, TypeError, AttributeError) as e:
            raise FormatError(f"{sql_quoted(value)} is not a value of {t}: {e}") from e
        if value is None:
            bit = i + HEADER_BITS
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
            return struct.pack("<q", unscaled_value(value, t.precision, t.scale)), b""
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
    unscaled = unscaled_value(value, t.precision, t.scale)
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    data = unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
    return struct.pack("<II", len(data), offset), data.ljust(_DECIMAL_BYTES, b"\0")


def raw_timestamp(value: datetime | tuple[int, int]) -> tuple[int, int]:
    """A timestamp as (milliseconds since the epoch, nanoseconds of the millisecond)."""
    if isinstance(value, tuple):
        return value
    micros = arrow_numpy.microseconds(value)
    return micros // 1000, micros % 1000 * 1000


def decode_column(rows: pa.Array | pa.ChunkedArray, index: int, dtype: DataType, *, exact: bool = True) -> pa.Array:
    """Field `index` of every row, in the canonical Arrow type of `dtype`.

    Null where the row or the field is null, where a row has no such field, and where the type is nested
    (the format keeps no values of those in metadata). For statistics null means unknown.

    Args:
        rows: binary; rows with arity prefix, of any arity each.
        index: which field, from 0.
        dtype: the type it was written with.
        exact: raise for a timestamp outside what its Arrow unit can hold, which is null otherwise.

    Raises FormatError: a row is too short for its fields, or a value lies outside its row.
    """
    cells = _Cells(arrow_numpy.one_chunk(rows), index)
    match dtype:
        case AtomicType(name="BOOLEAN"):
            return arrow_numpy.boolean_array((cells.slots & np.uint64(0xFF)) != 0, cells.valid)
        case AtomicType() if dtype.name in _FIXED:
            return cells.fixed(arrow_type(dtype))
        case TimeType():
            return cells.fixed(arrow_type(dtype))
        case CharType():
            return cells.bytes(pa.string())
        case BinaryType():
            return cells.bytes(pa.binary())
        case DecimalType():
            return cells.decimals(dtype)
        case TimestampType():
            return cells.timestamps(dtype, exact)
    return pa.nulls(len(rows), None if isinstance(dtype, (OpaqueType, VectorType)) else arrow_type(dtype))


def decode_upper_bounds(
    rows: pa.Array | pa.ChunkedArray, index: int, dtype: DataType, *, exact: bool = True
) -> pa.Array:
    """Field `index` of rows that hold the largest values of files, as large as the files' values may be.

    pypaimon cuts statistics and keys of TIMESTAMP(7) to (9) off at microseconds, so that a largest value without
    digits below stands for all of its microsecond. Arguments and errors are those of `decode_column`.
    """
    found = decode_column(rows, index, dtype, exact=exact)
    if not isinstance(dtype, TimestampType) or dtype.precision <= MICROSECOND_DIGITS:
        return found
    nanos = arrow_numpy.values(found.cast(pa.int64()))
    cut = (nanos % 1000 == 0) & (nanos <= np.iinfo(np.int64).max - REST_OF_MICROSECOND)
    wide = np.where(cut, nanos + REST_OF_MICROSECOND, nanos)
    return arrow_numpy.fixed_array(wide, found.type, arrow_numpy.validity(found))


class _Cells:
    """The slots of one field.

    Attributes:
        valid: where there is a value.
        slots: the slot of every row, 0 where there is no value.
        places: where the slots of the valid rows lie in `data`.
    """

    def __init__(self, rows: pa.Array, index: int) -> None:
        offsets, data = arrow_numpy.byte_slices(rows)
        self.data = data
        self.start = offsets[:-1] + _ARITY_BYTES
        self.size = offsets[1:] - self.start
        present = arrow_numpy.validity(rows)
        if (self.size[present] < 8).any():
            raise FormatError("a row is too short to be one")
        self.valid: Bool = present.copy()
        self.slots: U64 = np.zeros(len(rows), np.uint64)
        self._load(index)

    def _load(self, index: int) -> None:
        """Find the rows that hold a value, and load their slots."""
        here = np.flatnonzero(self.valid)
        start = self.start[here]
        count = max(len(self.data) - _ARITY_BYTES + 1, 0)
        arities: npt.NDArray[Any] = np.ndarray((count,), np.dtype(">i4"), buffer=self.data, strides=(1,))
        arity = arities[start - _ARITY_BYTES].astype(np.int64)
        header = null_bits_bytes(arity)
        if ((arity < 0) | (header + 8 * arity > self.size[here])).any():
            raise FormatError("a row is too short for its fields")
        has = arity > index
        bit = index + HEADER_BITS
        has[has] = (self.data[start[has] + bit // 8] >> np.uint8(bit % 8)) & np.uint8(1) == 0
        self.valid[here[~has]] = False
        self.places = start[has] + header[has] + 8 * index
        self.slots[here[has]] = self._words(self.places)

    def _words(self, at: I64) -> U64:
        if len(self.data) < 8:
            return np.zeros(len(at), np.uint64)
        words: U64 = np.ndarray((len(self.data) - 7,), np.dtype("<u8"), buffer=self.data, strides=(1,))
        return words[at]

    def fixed(self, type: pa.DataType) -> pa.Array:
        narrow = self.slots.view(np.uint8).reshape(-1, 8)[:, : type.bit_width // 8]
        return arrow_numpy.fixed_array(narrow, type, self.valid)

    def _pointed(self, slots: U64, sizes: I64) -> I64:
        """Where values lie that slots point to, checked to be `sizes` bytes inside their rows."""
        offset = (slots >> _HALF).view(np.int64)
        if (offset + sizes > self.size[self.valid]).any():
            raise FormatError("a value lies outside its row")
        return self.start[self.valid] + offset

    def bytes(self, type: pa.DataType) -> pa.Array:
        slots = self.slots[self.valid]
        mark = (slots >> np.uint64(56)).view(np.int64)
        inline = mark >= 0x80
        size = np.where(inline, mark & 0x7F, (slots & _LOW_HALF).view(np.int64))
        if (size[inline] > INLINE_BYTES).any():
            raise FormatError("a value is too long to lie inside its slot")
        start = self._pointed(np.where(inline, np.uint64(0), slots), np.where(inline, 0, size))
        start[inline] = self.places[inline]
        out = arrow_numpy.gather_bytes(self.data, start, size, type, self.valid)
        try:
            out.validate(full=type == pa.string())
        except pa.ArrowInvalid as e:
            raise FormatError("text in a row is not UTF-8") from e
        return out

    def decimals(self, t: DecimalType) -> pa.Array:
        words = np.zeros((len(self.slots), 2), np.int64)
        if t.precision <= COMPACT_DECIMAL_DIGITS:
            words[:, 0] = self.slots.view(np.int64)
            words[:, 1] = words[:, 0] >> 63
        else:
            words[self.valid] = self._wide_decimals()
        # One 16-byte value per pair of words.
        return arrow_numpy.fixed_array(words.view("V16").ravel(), pa.decimal128(t.precision, t.scale), self.valid)

    def _wide_decimals(self) -> I64:
        """Low and high words of decimals kept as big-endian bytes."""
        slots = self.slots[self.valid]
        size = (slots & _LOW_HALF).view(np.int64)
        if ((size < 1) | (size > _DECIMAL_BYTES)).any():
            raise FormatError("a decimal has no bytes, or more than 16")
        start = self._pointed(slots, size)
        negative = self.data[start] >= 0x80
        low = np.where(negative, np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0))
        high = low.copy()
        for i in range(_DECIMAL_BYTES):
            more = np.flatnonzero(i < size)
            byte = self.data[start[more] + i]
            high[more] = (high[more] << np.uint64(8)) | (low[more] >> np.uint64(56))
            low[more] = (low[more] << np.uint64(8)) | byte
        return np.stack([low, high], axis=1).view(np.int64)

    def timestamps(self, t: TimestampType, exact: bool) -> pa.Array:
        millis = self.slots.view(np.int64).copy()
        nanos = np.zeros(len(millis), np.int64)
        if t.precision > COMPACT_TIMESTAMP_DIGITS:
            slots = self.slots[self.valid]
            nanos[self.valid] = (slots & _LOW_HALF).view(np.int64)
            if (nanos >= 1_000_000).any():
                raise FormatError("a millisecond has more than a million nanoseconds")
            millis[self.valid] = self._words(self._pointed(slots, np.full(len(slots), 8))).view(np.int64)
        unit = timestamp_unit(t.precision)
        per_milli, nanos_per = {"ms": (1, 1_000_000), "us": (1000, 1000), "ns": (1_000_000, 1)}[unit]
        last, rest = divmod(np.iinfo(np.int64).max, per_milli)
        part = nanos // nanos_per
        # The first and the last millisecond are there in part. The product may wrap; the sum wraps it back.
        fits = (millis >= -last) & ((millis < last) | ((millis == last) & (part <= rest)))
        fits |= (millis == -last - 1) & (part >= per_milli - rest - 1)
        if exact and not fits[self.valid].all():
            raise FormatError(f"a value of {t} is outside what 64-bit Arrow timestamps can hold")
        out = np.where(fits, np.where(fits, millis, 0) * per_milli + part, 0)
        return arrow_numpy.fixed_array(out, pa.timestamp(unit, "UTC" if t.local_zone else None), self.valid & fits)
