"""One field of many BinaryRows as an Arrow array, without a loop over rows.

Statistics of a hundred thousand files are looked at this way when a scan prunes.

Source: as `binary_row`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import FormatError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_type, timestamp_unit
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

COMPACT_DECIMAL_DIGITS: Final = 18
COMPACT_TIMESTAMP_DIGITS: Final = 3
INLINE_BYTES: Final = 7
"""What still lies inside a slot: decimals and timestamps of so many digits, so many bytes of text."""
MICROSECOND_DIGITS: Final = 6
REST_OF_MICROSECOND: Final = 999
"""Nanoseconds."""

_ARITY_BYTES: Final = 4
_DECIMAL_BYTES: Final = 16
_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_FIXED: Final[dict[str, tuple[str, pa.DataType]]] = {
    "TINYINT": ("i1", pa.int8()), "SMALLINT": ("i2", pa.int16()), "INT": ("i4", pa.int32()),
    "BIGINT": ("i8", pa.int64()), "DATE": ("i4", pa.date32()), "DOUBLE": ("f8", pa.float64()),
    "FLOAT": ("f4", pa.float32()),
}  # fmt: skip


def decode_column(rows: pa.Array | pa.ChunkedArray, index: int, dtype: DataType, *, exact: bool = True) -> pa.Array:
    """Field `index` of every row, in the canonical Arrow type of `dtype`.

    Null where the row or the field is null, where a row has no such field, and where the type is nested
    (the format keeps no values of those in metadata). For statistics null means unknown.

    Args:
        rows: binary; rows with arity prefix, of any arity each.
        index: which field, from 0.
        dtype: the type it was written with.
        exact: raise for a timestamp outside what its Arrow unit can hold; statistics, where null only means
            unknown, pass False.

    Raises:
        FormatError: a row is too short for its fields, or a value lies outside its row.
    """
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.chunk(0) if rows.num_chunks == 1 else pa.concat_arrays(rows.chunks)
    cells = _Cells(rows, index)
    match dtype:
        case AtomicType(name="BOOLEAN"):
            return arrow_numpy.boolean_array((cells.slots & np.uint64(0xFF)) != 0, cells.valid)
        case AtomicType() if dtype.name in _FIXED:
            return cells.fixed(*_FIXED[dtype.name])
        case TimeType():
            return cells.fixed("i4", pa.time32("ms"))
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
        arity = self._arity(start)
        header = (arity + 71) // 64 * 8
        if ((arity < 0) | (header + 8 * arity > self.size[here])).any():
            raise FormatError("a row is too short for its fields")
        has = arity > index
        bit = index + 8
        has[has] = (self.data[start[has] + bit // 8] >> np.uint8(bit % 8)) & np.uint8(1) == 0
        self.valid[here[~has]] = False
        self.places = start[has] + header[has] + 8 * index
        self.slots[here[has]] = self._words(self.places)

    def _arity(self, start: I64) -> I64:
        first = start - _ARITY_BYTES
        out = np.zeros(len(start), np.int32)
        for i in range(_ARITY_BYTES):
            out = (out << 8) | self.data[first + i]
        return out.astype(np.int64)

    def _words(self, at: I64) -> U64:
        if len(self.data) < 8:
            return np.zeros(len(at), np.uint64)
        words: U64 = np.ndarray((len(self.data) - 7,), np.dtype("<u8"), buffer=self.data, strides=(1,))
        return words[at]

    def fixed(self, dtype: str, type: pa.DataType) -> pa.Array:
        size = np.dtype(dtype).itemsize
        narrow = self.slots.view(np.uint8).reshape(-1, 8)[:, :size]
        return arrow_numpy.fixed_array(np.ascontiguousarray(narrow).view(dtype).ravel(), type, self.valid)

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
        if type == pa.string():
            self._check_text(out)
        return out

    def _check_text(self, array: pa.Array) -> None:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as e:
            raise FormatError("text in a row is not UTF-8") from e

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
