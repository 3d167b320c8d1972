"""Conversions between Arrow arrays, numpy views of their buffers, and Python values.

`Array.to_numpy()`, `pa.array()` and `pa.scalar()` import pandas when it is installed, which costs every Python worker
a third of a second; these functions never do. Views must not be written to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import InvalidInputError

Bool = npt.NDArray[np.bool_]

_DTYPES: dict[str, str] = {
    "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
    "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8",
    "float": "f4", "double": "f8", "date32[day]": "i4", "time32[ms]": "i4", "time64[us]": "i8",
}  # fmt: skip


def values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed-width array as a read-only view; slots of nulls hold anything.

    Timestamps, dates and times come as integers in their own unit; booleans as a fresh bool array.
    """
    t = array.type
    if pa.types.is_boolean(t):
        return bits(array.buffers()[1], array.offset, len(array))
    dtype = np.dtype("i8") if pa.types.is_timestamp(t) else np.dtype(_DTYPES[str(t)])
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def decimal_halves(array: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The unscaled values of a decimal128 array: low 64 bits unsigned, high 64 bits signed. Views."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), np.uint64), np.zeros(len(array), np.int64)
    low = np.frombuffer(data, np.uint64, count=2 * len(array), offset=16 * array.offset)
    return low[::2], low.view(np.int64)[1::2]


def bits(buffer: pa.Buffer | None, offset: int, length: int) -> Bool:
    """`length` bits from bit `offset` as booleans; all True without a buffer."""
    if buffer is None:
        return np.ones(length, np.bool_)
    first = offset // 8
    raw = np.frombuffer(buffer, np.uint8, count=(offset + length + 7) // 8 - first, offset=first)
    return np.unpackbits(raw, bitorder="little")[offset - 8 * first :][:length].view(np.bool_)


def validity(array: pa.Array) -> Bool:
    """True where the array is not null."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    if array.type.id == pa.lib.Type_NA:
        return np.zeros(len(array), np.bool_)
    return bits(array.buffers()[0], array.offset, len(array))


def pack_bits(mask: Bool) -> pa.Buffer:
    """Booleans as an Arrow bitmap."""
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def boolean_array(mask: Bool, valid: Bool | None = None) -> pa.BooleanArray:
    """An Arrow boolean array of `mask`, null where `valid` is False."""
    return pa.Array.from_buffers(pa.bool_(), len(mask), [validity_bitmap(valid), pack_bits(mask)])


def fixed_array(data: npt.NDArray[Any], type: pa.DataType, valid: Bool | None = None) -> pa.Array:
    """An Arrow array of `type` over the bytes of `data` (contiguous, item size of the type)."""
    return pa.Array.from_buffers(type, len(data), [validity_bitmap(valid), pa.py_buffer(np.ascontiguousarray(data))])


def validity_bitmap(valid: Bool | None) -> pa.Buffer | None:
    """The validity bitmap of an array that is null where `valid` is False; None when nothing is null."""
    return None if valid is None or bool(valid.all()) else pack_bits(valid)


def valid_or_none(array: pa.Array) -> Bool | None:
    """As `validity`; None when nothing is null."""
    return None if array.null_count == 0 else validity(array)


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 0:
        return pa.nulls(0, column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


_INT32_MAX: Final = (1 << 31) - 1


def offsets_of(sizes: Any) -> npt.NDArray[np.int32]:
    """Offsets of lists, text or bytes of such sizes. Raises OverflowError for more than two gigabytes."""
    out = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=out[1:])
    if out[-1] > _INT32_MAX:
        raise OverflowError("more than two gigabytes in one column")
    return out.astype(np.int32)


def ranges(first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """`counts[0]` numbers from `first[0]` up, then `counts[1]` from `first[1]`, and so on."""
    jumps = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return jumps + np.arange(int(counts.sum()), dtype=np.int64)


def byte_slices(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets (one more than rows) and bytes of a string or binary array; row i is bytes[offsets[i]:offsets[i+1]]."""
    t = array.type
    large = pa.types.is_large_string(t) or pa.types.is_large_binary(t) or pa.types.is_large_list(t)
    _, offsets, data = array.buffers()[:3]
    dtype = np.dtype("i8" if large else "i4")
    if offsets is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int64), np.empty(0, np.uint8)
    starts = np.frombuffer(offsets, dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize)
    raw = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return starts.astype(np.int64, copy=False), raw


def take_indices(indices: npt.NDArray[Any]) -> pa.Array:
    """Row numbers as an Arrow array for `take`."""
    return fixed_array(indices.astype(np.int64, copy=False), pa.int64())


def gather_bytes(
    data: Any,
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    type: pa.DataType,
    valid: Bool | None = None,
) -> pa.Array:
    """Pieces of a buffer as a string or binary array: `sizes[i]` bytes of `data` from `starts[i]`.

    The pieces lie one behind the other, gaps allowed; starts and sizes are for the valid places only.
    The buffer is used as the data of an array of pieces and gaps, from which Arrow copies the pieces.
    """
    length = len(starts) if valid is None else len(valid)
    if len(starts) == 0:
        return pa.nulls(length, type)
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + sizes
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    spread = pa.Array.from_buffers(type, len(bounds) - 1, buffers)
    if valid is None:
        return spread.take(take_indices(np.arange(0, len(bounds), 2, dtype=np.int64)))
    numbers = np.cumsum(valid, dtype=np.int64)
    return spread.take(fixed_array(2 * (numbers - 1), pa.int64(), valid))


def scalar(value: str | bytes, type: pa.DataType) -> Any:
    """An Arrow scalar of text or bytes. `pa.scalar` and bare Python values in compute calls import pandas."""
    raw = value.encode() if isinstance(value, str) else value
    offsets = pa.py_buffer(np.array([0, len(raw)], np.int32))
    return pa.Array.from_buffers(type, 1, [None, offsets, pa.py_buffer(raw)])[0]


_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DATE: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_DECIMAL_BYTES: Final = 16


def array_of(items: Sequence[Any], t: pa.DataType) -> pa.Array:
    """An array of type `t`; None becomes null.

    Values are those of predicate literals: bool, int, float, Decimal, str, bytes, date, datetime (of a type with
    a zone: aware). TIME is an int of its unit.

    Raises:
        InvalidInputError: a value is not of the type, or does not fit it.
    """
    valid = np.array([v is not None for v in items], np.bool_)
    try:
        return _array(items, t, valid)
    except (TypeError, ValueError, OverflowError, AttributeError) as e:
        shown = next((v for v in items if v is not None), None)
        raise InvalidInputError(f"values such as {shown!r} do not fit a column of type {t}: {e}") from e


def scalar_of(value: Any, t: pa.DataType) -> pa.Scalar:
    """A scalar of type `t`. Raises as `array_of`."""
    return array_of((value,), t)[0]


def _array(items: Sequence[Any], t: pa.DataType, valid: Any) -> pa.Array:
    if pa.types.is_string(t) or pa.types.is_binary(t) or pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        return _texts(items, t, valid)
    if pa.types.is_boolean(t):
        return boolean_array(np.array([_checked(v, bool, False) for v in items], np.bool_), valid)
    if pa.types.is_decimal128(t):
        numbers = [unscaled_value(Decimal(_checked(v, (Decimal, int), 0)), t.precision, t.scale) for v in items]
        raw = b"".join(n.to_bytes(_DECIMAL_BYTES, "little", signed=True) for n in numbers)
        return fixed_array(np.frombuffer(raw, f"V{_DECIMAL_BYTES}"), t, valid)
    if pa.types.is_floating(t):
        dtype = "f4" if pa.types.is_float32(t) else "f8"
        return fixed_array(np.array([_checked(v, (float, int), 0.0) for v in items], dtype), t, valid)
    width = t.bit_width // 8
    return fixed_array(np.array([_integer(v, t) for v in items], f"i{width}"), t, valid)


def _checked(value: Any, kinds: type | tuple[type, ...], absent: Any) -> Any:
    if value is None:
        return absent
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise TypeError(f"{type(value).__name__} is another type")
    return value


def _integer(value: Any, t: pa.DataType) -> int:
    if value is None:
        return 0
    if pa.types.is_date(t):
        if isinstance(value, datetime):
            raise TypeError("a datetime is no date")
        return int((value - _EPOCH_DATE).days)
    if pa.types.is_timestamp(t):
        micros = microseconds(value)
        return micros * 1000 if t.unit == "ns" else micros // {"s": 1_000_000, "ms": 1000, "us": 1}[t.unit]
    return int(_checked(value, int, 0))


def microseconds(value: datetime) -> int:
    """Epoch microseconds of a datetime; of the wall clock, as if UTC, when it has no zone."""
    wall = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return (wall - _EPOCH) // _MICROSECOND


def millis_and_nanos(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Timestamps as milliseconds since the epoch and nanoseconds of the millisecond; slots of nulls hold anything."""
    per_milli = {"ms": 1, "us": 1000, "ns": 1_000_000}[array.type.unit]
    counts = values(array)
    millis = np.floor_divide(counts, per_milli)
    return millis, (counts - millis * per_milli) * (1_000_000 // per_milli)


def unscaled_value(value: Decimal, precision: int, scale: int) -> int:
    """The value times 10**scale. Raises ValueError where it is not finite, or does not fit."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("not a finite number")
    shift = exponent + scale
    number = int("".join(map(str, digits)) or "0")
    whole: int
    whole, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if rest or whole >= 10**precision:
        raise ValueError(f"more than {precision} digits, or more than {scale} after the point")
    return -whole if sign else whole


def _texts(items: Sequence[Any], t: pa.DataType, valid: Any) -> pa.Array:
    text = pa.types.is_string(t) or pa.types.is_large_string(t)
    kind = str if text else bytes
    parts = [_checked(v, kind, kind()) for v in items]
    raw = [p.encode() for p in parts] if text else parts
    offsets = np.zeros(len(raw) + 1, "i8" if pa.types.is_large_string(t) or pa.types.is_large_binary(t) else "i4")
    np.cumsum([len(r) for r in raw], out=offsets[1:])
    buffers = [validity_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(t, len(raw), buffers)


def objects(column: pa.ChunkedArray | pa.Array) -> Iterable[Any]:
    """The values of a column of integers, text, bytes or lists of them; a list as a tuple.

    When all values are the same the result never ends (`itertools.repeat`): zip it with one that does.
    """
    if len(column) and column.null_count == len(column):
        return repeat(None)
    array = one_chunk(column)
    out = _present(array)
    if array.null_count:
        valid = validity(array).tolist()
        # `out` may be endless, `valid` is not.
        return [v if ok else None for ok, v in zip(valid, out, strict=False)]
    return out


def _present(array: pa.Array) -> Iterable[Any]:
    """The values; where there is null, anything."""
    t = array.type
    if pa.types.is_integer(t):
        numbers = values(array)
        if len(numbers) and (numbers == numbers[0]).all():
            return [int(numbers[0])] * len(numbers)  # one object for all
        each: list[int] = numbers.tolist()
        return each
    offsets, data = byte_slices(array)
    first, last = int(offsets[0]), int(offsets[-1])
    bounds = offsets - first
    if pa.types.is_list(t):
        return _tuples(array.values.slice(first, last - first), bounds)
    raw = data[first:last]
    is_text = pa.types.is_string(t)
    if _repeats(raw, bounds):
        one = raw[: bounds[1]].tobytes()
        return repeat(one.decode() if is_text else one)
    joined = raw.tobytes()
    if is_text and joined.isascii():
        return _pieces(joined.decode(), bounds)
    pieces = _pieces(joined, bounds)
    return [piece.decode() for piece in pieces] if is_text else pieces


def _repeats(raw: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> bool:
    """Whether all pieces are equal."""
    size = int(bounds[1]) if len(bounds) > 1 else 0
    if len(bounds) < 3 or (np.diff(bounds) != size).any():
        return False
    pieces = raw.reshape(len(bounds) - 1, size)
    return bool((pieces[-1] == pieces[0]).all() and (pieces == pieces[0]).all())


def _pieces(raw: Any, bounds: npt.NDArray[np.int64]) -> list[Any]:
    return [raw[a:b] for a, b in pairwise(bounds.tolist())]


def _tuples(items: pa.Array, bounds: npt.NDArray[np.int64]) -> Iterable[tuple[Any, ...]]:
    if len(items) == 0:
        return repeat(())
    values = objects(items)
    if isinstance(values, repeat):
        # Lists of one value differ in length only.
        one = next(values)
        longest = (one,) * int(np.diff(bounds).max())
        return [longest[:n] for n in np.diff(bounds).tolist()]
    values = list(values)
    return [tuple(values[a:b]) for a, b in pairwise(bounds.tolist())]
