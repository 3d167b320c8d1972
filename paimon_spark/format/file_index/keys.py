"""Values of a column as keys of an index: integers, or bytes of text.

Java keeps TIMESTAMP as milliseconds or microseconds, TIME as milliseconds, DATE as days and DECIMAL by its unscaled
value. FLOAT and DOUBLE become integers of the same order, which is that of Java's `Double.compare`: -0.0 is below 0.0,
and there is one NaN, above every number.

Source: Java `fileindex/bitmap/BitmapTypeVisitor`, `fileindex/rangebitmap/dictionary/chunked/KeyFactory`.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import FormatError, InvalidInputError
from paimon_spark.format.arrays.arrow_numpy import (
    array_of,
    byte_slices,
    decimal_halves,
    fixed_array,
    one_chunk,
    scalar,
    take_indices,
    valid_or_none,
    validity,
    values,
)
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.types import AtomicType, BinaryType, CharType, DataType, DecimalType, TimestampType, TimeType

_WIDTHS: Final = {
    "BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4,
}  # fmt: skip
_PER_MICROSECOND: Final = 1000
_COMPACT_DECIMAL: Final = 18
_MICROS: Final = 6
_NANS: Final[dict[int, Any]] = {4: np.int32(0x7FC00000), 8: np.int64(0x7FF8000000000000)}


class KeyType(NamedTuple):
    """How the values of a column are keys.

    Attributes:
        type: of the column.
        width: bytes of a key; 0 for text and bytes.
        is_float: keys are stored as numbers of IEEE 754.
        is_exact: different values have different keys.
    """

    type: DataType
    width: int
    is_float: bool = False
    is_exact: bool = True

    @property
    def arrow(self) -> pa.DataType:
        """Type of the arrays of keys."""
        return {0: pa.binary(), 1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[self.width]


def key_type(t: DataType) -> KeyType | None:
    """How values of type `t` are keys; None for types that no index takes."""
    match t:
        case AtomicType(name=name) if name in _WIDTHS:
            return KeyType(t, _WIDTHS[name], is_float=name in ("FLOAT", "DOUBLE"))
        case CharType() | BinaryType():
            return KeyType(t, 0)
        case TimeType():
            return KeyType(t, 4)
        case TimestampType():
            return KeyType(t, 8, is_exact=t.precision <= _MICROS)
        case DecimalType() if t.precision <= _COMPACT_DECIMAL:
            return KeyType(t, 8)
    return None


def keys_of(array: pa.Array, kind: KeyType) -> pa.Array:
    """Keys of the values of an array in the canonical Arrow type of the column; nulls stay."""
    if kind.width == 0:
        return array.cast(pa.binary())
    return fixed_array(_integers(array, kind), kind.arrow, valid_or_none(array))


@lru_cache(64)
def keys_of_literals(literals: tuple[Any, ...], kind: KeyType) -> pa.Array | None:
    """Keys of Python values of the column's type; None for NaN, and for values that the type does not hold.

    Zero has both of its keys if the type is FLOAT or DOUBLE.
    """
    target = arrow_type(kind.type)
    if kind.is_float:
        literals = tuple(v for literal in literals for v in ((-0.0, 0.0) if literal == 0 else (literal,)))
    try:
        array = array_of(literals, target)
    except InvalidInputError:
        return None
    if pa.types.is_floating(target) and (array.to_numpy() != np.array(literals, np.float64)).any():
        return None  # NaN, or digits that a FLOAT lacks
    if pa.types.is_timestamp(target) and target.unit == "ms" and any(v.microsecond % 1000 for v in literals):
        return None
    return keys_of(array, kind)


def _integers(array: pa.Array, kind: KeyType) -> npt.NDArray[Any]:
    t = kind.type
    if isinstance(t, DecimalType):
        low, _ = decimal_halves(array)
        return np.ascontiguousarray(low).view(np.int64)
    raw = values(array)
    if raw.dtype == np.bool_:
        return raw.view(np.int8)
    if kind.is_float:
        return sortable(np.ascontiguousarray(raw).view(f"i{kind.width}"))
    if isinstance(t, TimestampType):
        return raw // _PER_MICROSECOND if array.type.unit == "ns" else np.ascontiguousarray(raw)
    return np.ascontiguousarray(raw)


def sortable(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers in the order of the floating-point numbers that have these bits; all NaN become one."""
    nan = _NANS[bits.dtype.itemsize]
    return _flipped(np.where(np.isnan(bits.view(f"f{bits.dtype.itemsize}")), nan, bits))


def _flipped(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bits as integers of the same order, and those integers as bits again."""
    signs = numbers >> (8 * numbers.dtype.itemsize - 1)
    out: npt.NDArray[Any] = numbers ^ (signs & np.iinfo(numbers.dtype).max)
    return out


def stored_bits(keys: npt.NDArray[Any], kind: KeyType) -> npt.NDArray[Any]:
    """Fixed-width keys as the integers that are hashed and written."""
    return _flipped(keys) if kind.is_float else keys


def loaded(data: bytes | memoryview, kind: KeyType, count: int, offset: int = 0) -> npt.NDArray[Any]:
    """`count` fixed-width keys that follow each other in `data`. Raises ValueError where bytes are missing."""
    found = np.frombuffer(data, f">i{kind.width}", count, offset).astype(f"i{kind.width}")
    return sortable(found) if kind.is_float else found


def dumped(keys: pa.Array, kind: KeyType) -> pa.Array:
    """The bytes that keys, none null, are written as: big-endian numbers, or text after its length. Binary array."""
    if kind.width:
        return big_endian(stored_bits(values(keys), kind), kind.width)
    bounds, _ = byte_slices(keys)
    return joined([big_endian(np.diff(bounds)), keys])


def big_endian(numbers: npt.NDArray[Any], width: int = 4) -> pa.Array:
    """Numbers as `width` bytes each, the highest first. Binary array."""
    offsets = np.arange(0, width * (len(numbers) + 1), width, dtype=np.int32)
    data = np.ascontiguousarray(numbers).astype(f">i{width}")
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def joined(parts: list[pa.Array]) -> pa.Array:
    """Binary arrays joined row by row."""
    return pc.binary_join_element_wise(*parts, scalar(b"", pa.binary()))


def concatenated(rows: pa.Array) -> bytes:
    """The bytes of all rows, one after the other."""
    bounds, data = byte_slices(rows)
    return data[bounds[0] : bounds[-1]].tobytes()


class _DistinctKeys(NamedTuple):
    """The values of a column of a data file, each once.

    Attributes:
        keys: ascending, none null.
        codes: for each row, the number of its key; -1 for null.
    """

    keys: pa.Array
    codes: npt.NDArray[np.int64]


def distinct(keys: pa.ChunkedArray) -> _DistinctKeys:
    """The keys of a column, in order."""
    encoded = keys.dictionary_encode().unify_dictionaries()
    found = encoded.chunk(0).dictionary if encoded.num_chunks else pa.nulls(0, keys.type)
    indices = one_chunk(pa.chunked_array([c.indices for c in encoded.chunks], pa.int32()))
    order = values(pc.sort_indices(found)).astype(np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    codes = np.full(len(keys), -1, np.int64)
    valid = validity(indices)
    codes[valid] = ranks[values(indices)[valid]]
    return _DistinctKeys(found.take(take_indices(order)), codes)


def numbers_at(form: str, data: bytes, at: int, what: str) -> tuple[int, ...]:
    """The numbers of a `struct` format in the bytes of an index, which errors call `what`. Raises FormatError."""
    try:
        out: tuple[int, ...] = struct.unpack_from(form, data, at)
    except struct.error as e:
        raise FormatError(f"its {what} is cut short: {e}") from e
    return out
