"""Python values to Arrow arrays and back, without importing pandas as `pa.array` and `pa.scalar` do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import InvalidInputError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import boolean_array, fixed_array

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
        raw = b"".join(_decimal(v, t) for v in items)
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
        return _ticks(value, t)
    return int(_checked(value, int, 0))


def _ticks(value: datetime, t: pa.TimestampType) -> int:
    micros = microseconds(value)
    per_tick = {"s": 1_000_000, "ms": 1000, "us": 1}.get(t.unit)
    return micros * 1000 if per_tick is None else micros // per_tick


def microseconds(value: datetime) -> int:
    """Epoch microseconds of a datetime; of the wall clock, as if UTC, when it has no zone."""
    wall = value if value.tzinfo is None else value.astimezone(timezone.utc).replace(tzinfo=None)
    return (wall - _EPOCH) // _MICROSECOND


def _decimal(value: Decimal | int | None, t: pa.Decimal128Type) -> bytes:
    if value is None:
        return bytes(_DECIMAL_BYTES)
    if isinstance(value, (bool, float)):
        raise TypeError(f"{type(value).__name__} is no decimal")
    sign, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("not a finite number")
    shift = exponent + t.scale
    number = int("".join(map(str, digits)) or "0")
    whole: int
    whole, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if rest or whole >= 10**t.precision:
        raise ValueError(f"more than {t.precision} digits, or more than {t.scale} after the point")
    return (-whole if sign else whole).to_bytes(_DECIMAL_BYTES, "little", signed=True)


def _texts(items: Sequence[Any], t: pa.DataType, valid: Any) -> pa.Array:
    text = pa.types.is_string(t) or pa.types.is_large_string(t)
    kind = str if text else bytes
    parts = [_checked(v, kind, kind()) for v in items]
    raw = [p.encode() for p in parts] if text else parts
    offsets = np.zeros(len(raw) + 1, "i8" if pa.types.is_large_string(t) or pa.types.is_large_binary(t) else "i4")
    np.cumsum([len(r) for r in raw], out=offsets[1:])
    validity = None if bool(valid.all()) else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(t, len(raw), buffers)


def objects(column: pa.ChunkedArray | pa.Array) -> Iterable[Any]:
    """The values of a column of integers, text, bytes or lists of them; a list as a tuple.

    When all values are the same the result never ends (`itertools.repeat`): zip it with one that does.
    """
    if len(column) and column.null_count == len(column):
        return repeat(None)
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    out = _present(column)
    if column.null_count:
        valid = arrow_numpy.validity(column).tolist()
        # `out` may be endless, `valid` is not.
        return [v if ok else None for ok, v in zip(valid, out, strict=False)]
    return out


def _present(array: pa.Array) -> Iterable[Any]:
    """The values; where there is null, anything."""
    t = array.type
    if pa.types.is_integer(t):
        numbers: list[int] = arrow_numpy.values(array).tolist()
        return numbers
    offsets, data = arrow_numpy.byte_slices(array)
    first, last = int(offsets[0]), int(offsets[-1])
    bounds = offsets - first
    if pa.types.is_list(t):
        return _tuples(array.values.slice(first, last - first), bounds)
    raw = data[first:last]
    if _repeats(raw, bounds):
        one = raw[: bounds[1]].tobytes()
        return repeat(one.decode() if pa.types.is_string(t) else one)
    return _text_pieces(raw.tobytes(), bounds) if pa.types.is_string(t) else _pieces(raw.tobytes(), bounds)


def _repeats(raw: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> bool:
    """Whether all pieces are equal."""
    size = int(bounds[1]) if len(bounds) > 1 else 0
    if len(bounds) < 3 or (np.diff(bounds) != size).any():
        return False
    pieces = raw.reshape(len(bounds) - 1, size)
    return bool((pieces[-1] == pieces[0]).all() and (pieces == pieces[0]).all())


def _pieces(raw: Any, bounds: npt.NDArray[np.int64]) -> list[Any]:
    return [raw[a:b] for a, b in pairwise(bounds.tolist())]


def _text_pieces(raw: bytes, bounds: npt.NDArray[np.int64]) -> list[str]:
    if raw.isascii():
        return _pieces(raw.decode(), bounds)
    return [piece.decode() for piece in _pieces(raw, bounds)]


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
