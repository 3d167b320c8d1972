"""Values of a column's old type as its new type, exactly as Java casts them when it reads old files.

Every rule is one function over arrays. Rules without a form in Arrow or numpy work on the distinct values.
Conversions that involve a local time zone use that of this process, as Java uses the JVM's.

Source: Java `casting/CastExecutors` and its rules, `utils/BinaryStringUtils`, `utils/DateTimeUtils`.

Casts between dates, times and timestamps.

Source: Java `casting/TimestampToTimestampCastRule` and its kin, `utils/DateTimeUtils`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import NANOSECOND_DAYS, arrow_type
from paimon_spark.format.arrays.nested import Convert
from paimon_spark.format.arrays.python_values import scalar_of
from paimon_spark.format.casts import text as cast_text
from paimon_spark.format.casts.text import float_text
from paimon_spark.types import (
    INTEGER_NAMES,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    TimestampType,
    TimeType,
)

_FLOATS: Final = ("FLOAT", "DOUBLE")


def caster(source: DataType, target: DataType) -> Convert:
    """How canonical arrays of `source` become canonical arrays of `target`, both without children.

    The function raises DataError for a value that has no counterpart where Java fails too.

    Raises:
        UnsupportedFeatureError: there is no such cast, in Java or here.
    """
    found = _rule(source, target)
    if found is None:
        raise UnsupportedFeatureError(
            f"a column changed from {source} to {target}; old files cannot be read as the new type, "
            "read a version before the change or leave the column out with the option columns",
            feature=f"cast {source} to {target}",
        )
    return found


def _rule(source: DataType, target: DataType) -> Convert | None:
    for find in (_to_number, _to_decimal, _to_boolean, _to_text, _to_bytes, _to_time):
        found = find(source, target)
        if found is not None:
            return found
    return None


def _name(t: DataType) -> str:
    return t.name if isinstance(t, AtomicType) else ""


def _is_integer(t: DataType) -> bool:
    return _name(t) in INTEGER_NAMES


def _to_number(source: DataType, target: DataType) -> Convert | None:
    """To integers and floats."""
    kind = arrow_type(target) if _is_integer(target) or _name(target) in _FLOATS else None
    if kind is None:
        return None
    if _is_integer(source):
        return lambda a: a.cast(kind, safe=False)
    if _name(source) in _FLOATS:
        if _is_integer(target):
            return lambda a: _truncated(a, kind)
        return lambda a: a.cast(kind, safe=False)
    if _name(source) == "BOOLEAN":
        return lambda a: a.cast(kind)
    if isinstance(source, DecimalType):
        if _is_integer(target):
            return lambda a: _decimal_to_integer(a, kind)
        return lambda a: _decimal_to_float(a, source).cast(kind, safe=False)
    if isinstance(source, CharType):
        return cast_text.number_parser(target)
    if isinstance(source, TimestampType) and _name(target) in ("INT", "BIGINT"):
        return lambda a: epoch_seconds(a).cast(kind, safe=False)
    return None


def _to_decimal(source: DataType, target: DataType) -> Convert | None:
    if not isinstance(target, DecimalType):
        return None
    if isinstance(source, DecimalType):
        return lambda a: round_decimals(a, target)
    if _is_integer(source):
        return lambda a: round_decimals(a.cast(pa.decimal128(19, 0)), target)
    if _name(source) == "BOOLEAN":
        return lambda a: round_decimals(a.cast(pa.int8()).cast(pa.decimal128(3, 0)), target)
    if _name(source) in _FLOATS:
        return lambda a: cast_text.decimals_of_floats(a, target)
    if isinstance(source, CharType):
        return lambda a: cast_text.parsed_decimals(a, target)
    return None


def _to_boolean(source: DataType, target: DataType) -> Convert | None:
    if _name(target) != "BOOLEAN":
        return None
    if _is_integer(source):
        return lambda a: pc.not_equal(a, scalar_of(0, a.type))
    if isinstance(source, CharType):
        return cast_text.parsed_booleans
    return None


def _to_text(source: DataType, target: DataType) -> Convert | None:
    if not isinstance(target, CharType):
        return None
    if isinstance(source, CharType):
        return lambda a: cast_text.fitted_text(a, target)
    if isinstance(source, BinaryType):
        return _decoded
    to_text = _number_text(source)
    if to_text is not None:
        write = to_text
        return lambda a: cast_text.fitted_text(write(a), target)
    if target.with_nullable(True) != CharType():
        return None
    if _name(source) == "DATE":
        return lambda a: a.cast(pa.string())
    if isinstance(source, TimeType):
        return lambda a: cast_text.time_text(a, source.precision)
    if isinstance(source, TimestampType):
        return lambda a: cast_text.timestamp_text(wall_clock(a), source.precision)
    return None


def _number_text(source: DataType) -> Convert | None:
    if _is_integer(source) or _name(source) == "BOOLEAN":
        return lambda a: a.cast(pa.string())
    if isinstance(source, DecimalType):
        return cast_text.plain_decimals
    if _name(source) in _FLOATS:
        return float_text
    return None


def _decoded(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as e:
        raise DataError(f"bytes of a column that became text are not UTF-8: {e}") from e


def _to_bytes(source: DataType, target: DataType) -> Convert | None:
    if isinstance(target, BinaryType) and isinstance(source, (BinaryType, CharType)):
        return lambda a: cast_text.fitted_bytes(a.cast(pa.binary()), target)
    return None


def _to_time(source: DataType, target: DataType) -> Convert | None:
    """To dates, times and timestamps."""
    if _name(target) == "DATE":
        return _by_source(source, TimestampType, dates, cast_text.parsed_dates)
    if isinstance(target, TimeType):
        return _by_source(source, TimestampType, times, cast_text.parsed_times)
    if not isinstance(target, TimestampType):
        return None
    if isinstance(source, TimestampType):
        return lambda a: between_timestamps(a, source, target)
    if _name(source) in ("INT", "BIGINT"):
        return lambda a: from_seconds(a, target)
    if _name(source) == "DATE":
        return lambda a: from_dates(a, target)
    if isinstance(source, TimeType):
        return lambda a: from_times(a, target)
    if isinstance(source, CharType):
        return lambda a: cast_text.parsed_timestamps(a, target)
    return None


def _by_source(
    source: DataType, kind: type[DataType], convert: Callable[[pa.Array], pa.Array], parse: Convert
) -> Convert | None:
    if isinstance(source, kind):
        return convert
    return parse if isinstance(source, CharType) else None


def _truncated(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Floats towards zero, NaN to 0, clamped to 32 or 64 bits; the narrow types then keep the low bits."""
    wide = pa.int64() if kind == pa.int64() else pa.int32()
    info = np.iinfo(np.int64 if wide == pa.int64() else np.int32)
    data = arrow_numpy.values(array).astype(np.float64)
    top = float(info.max)
    inside = np.where(np.isnan(data) | (data >= top) | (data <= info.min), 0.0, data).astype(info.dtype)
    clamped = np.where(data >= top, info.max, np.where(data <= info.min, info.min, inside)).astype(info.dtype)
    valid = None if array.null_count == 0 else arrow_numpy.validity(array)
    return arrow_numpy.fixed_array(clamped, wide, valid).cast(kind, safe=False)


def round_decimals(array: pa.Array, target: DecimalType) -> pa.Array:
    """Decimals with another scale, halves away from zero; null where the digits do not fit."""
    wide = array.cast(pa.decimal256(76, array.type.scale))
    if target.scale < array.type.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    limit = 10 ** (target.precision - target.scale + array.type.scale)
    bound = pa.Array.from_buffers(wide.type, 1, [None, pa.py_buffer(limit.to_bytes(32, "little"))])[0]
    fits = pc.less(pc.abs(wide), bound)
    return pc.if_else(fits, wide, pa.nulls(1, wide.type)[0]).cast(arrow_type(target))


def unscaled_words(array: pa.Array) -> tuple[Any, Any]:
    """Low (unsigned) and high (signed) 64 bits of the unscaled values of a decimal128 array."""
    words = np.frombuffer(array.buffers()[1], "<u8")[2 * array.offset :][: 2 * len(array)].reshape(-1, 2)
    return words[:, 0], words[:, 1].view("<i8")


def _decimal_to_integer(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The whole part's low bits."""
    whole = pc.trunc(array.cast(pa.decimal256(76, array.type.scale))).cast(pa.decimal128(38, 0))
    if len(whole) == 0:
        return pa.nulls(0, kind)
    low, _ = unscaled_words(whole)
    valid = None if whole.null_count == 0 else arrow_numpy.validity(whole)
    return arrow_numpy.fixed_array(np.ascontiguousarray(low).view(np.int64), pa.int64(), valid).cast(kind, safe=False)


def _decimal_to_float(array: pa.Array, source: DecimalType) -> pa.Array:
    if source.precision > 18:
        return cast_text.by_distinct(array, float, pa.float64())
    if len(array) == 0:
        return pa.nulls(0, pa.float64())
    low, _ = unscaled_words(array)
    data = np.ascontiguousarray(low).view(np.int64).astype(np.float64) / 10.0**source.scale
    valid = None if array.null_count == 0 else arrow_numpy.validity(array)
    return arrow_numpy.fixed_array(data, pa.float64(), valid)


_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1)


def _valid(array: pa.Array) -> Any:
    return None if array.null_count == 0 else arrow_numpy.validity(array)


def _count(array: pa.Array, per_second: int) -> Any:
    """Timestamps as whole counts of a coarser or equal unit, rounded down; finer units multiply."""
    have = _PER_SECOND[array.type.unit]
    data = arrow_numpy.values(array)
    if have >= per_second:
        return data // (have // per_second)
    factor = per_second // have
    limit = (2**63 - 1) // factor
    outside = ((data > limit) | (data < -limit)) & arrow_numpy.validity(array)
    if bool(outside.any()):
        raise DataError(
            f"it holds timestamps outside {NANOSECOND_DAYS}, which the column's new nanosecond precision "
            "cannot have in Arrow; leave the column out with the option columns"
        )
    return np.where(arrow_numpy.validity(array), data, 0) * factor


def _rezoned(data: Any, array: pa.Array, per_second: int, shift: Callable[[datetime], datetime]) -> Any:
    """Every count moved as `shift` moves its second: the same whole seconds for equal seconds."""
    valid = arrow_numpy.validity(array)
    seconds = np.where(valid, data, 0) // per_second
    distinct, inverse = np.unique(seconds, return_inverse=True)
    moved = np.empty(len(distinct), np.int64)
    for i, second in enumerate(distinct.tolist()):
        moved[i] = _moved(second, shift)
    return (moved[inverse.reshape(-1)] - seconds) * per_second + np.where(valid, data, 0)


def _moved(second: int, shift: Callable[[datetime], datetime]) -> int:
    try:
        return (shift(_EPOCH + timedelta(seconds=second)) - _EPOCH) // timedelta(seconds=1)
    except (OverflowError, ValueError) as e:
        raise DataError(f"a timestamp {second} seconds from 1970 cannot change its time zone: {e}") from e


def _to_wall_clock(instant: datetime) -> datetime:
    return instant.replace(tzinfo=timezone.utc).astimezone().replace(tzinfo=None)


def _to_instant(wall_clock: datetime) -> datetime:
    # Where clocks jump forward, timestamp() moves on by the jump as Java does; astimezone() goes back.
    return _EPOCH + timedelta(seconds=round(wall_clock.timestamp()))


def wall_clock(array: pa.Array) -> pa.Array:
    """Timestamps as wall clock times without zone: local-zoned ones in the zone of this process."""
    if array.type.tz is None:
        return array
    per_second = _PER_SECOND[array.type.unit]
    data = _rezoned(arrow_numpy.values(array), array, per_second, _to_wall_clock)
    return arrow_numpy.fixed_array(data, pa.timestamp(array.type.unit), _valid(array))


def between_timestamps(array: pa.Array, source: TimestampType, target: TimestampType) -> pa.Array:
    """Another precision (digits are cut) and another meaning of the zone."""
    kind = arrow_type(target)
    data = arrow_numpy.values(array)
    if source.local_zone != target.local_zone:
        shift = _to_wall_clock if source.local_zone else _to_instant
        data = _rezoned(data, array, _PER_SECOND[array.type.unit], shift)
        array = arrow_numpy.fixed_array(data, array.type, _valid(array))
    data = _count(array, _PER_SECOND[kind.unit])
    if target.precision < source.precision:
        data = _cut(data, target.precision, _PER_SECOND[kind.unit])
    return arrow_numpy.fixed_array(data, kind, _valid(array))


def _cut(data: Any, precision: int, per_second: int) -> Any:
    """Fewer digits: milliseconds go towards zero, what is below them downwards."""
    step = per_second // 10**precision
    if step <= 1:
        return data
    if per_second == 1_000:
        return np.sign(data) * (np.abs(data) // step) * step
    return data // step * step


def dates(array: pa.Array) -> pa.Array:
    """The day of each timestamp: that of the wall clock for local-zoned ones.

    Without zone, milliseconds are divided towards zero, as every released Java does up to 2.0: what is less than a
    day before 1970 is 1970-01-01.
    """
    if array.type.tz is None:
        ms = _count(array, 1_000)
        days = np.sign(ms) * (np.abs(ms) // _DAY_MS)
    else:
        days = _count(wall_clock(array), 1) // (_DAY_MS // 1000)
    return arrow_numpy.fixed_array(days.astype(np.int32), pa.date32(), _valid(array))


def times(array: pa.Array) -> pa.Array:
    """The time of day of each timestamp, on the wall clock, cut to milliseconds."""
    of_day = _count(wall_clock(array), 1_000) % _DAY_MS
    return arrow_numpy.fixed_array(of_day.astype(np.int32), pa.time32("ms"), _valid(array))


def epoch_seconds(array: pa.Array) -> pa.Array:
    """Seconds since 1970, towards zero from milliseconds; zones do not matter."""
    ms = _count(array, 1_000)
    return arrow_numpy.fixed_array(np.sign(ms) * (np.abs(ms) // 1_000), pa.int64(), _valid(array))


def from_seconds(array: pa.Array, target: TimestampType) -> pa.Array:
    """Seconds since 1970 as timestamps. For local-zoned ones Java takes the local wall clock for the instant."""
    seconds = arrow_numpy.values(array).astype(np.int64)
    if target.local_zone:
        seconds = _rezoned(seconds, array, 1, _to_wall_clock)
    return _of_ms(seconds * 1_000, array, target)


def from_dates(array: pa.Array, target: TimestampType) -> pa.Array:
    """Midnight: local for local-zoned timestamps."""
    ms = arrow_numpy.values(array).astype(np.int64) * _DAY_MS
    if target.local_zone:
        ms = _rezoned(ms, array, 1_000, _to_instant)
    return _of_ms(ms, array, target)


def from_times(array: pa.Array, target: TimestampType) -> pa.Array:
    """Milliseconds of the day 1970-01-01, whatever the zone."""
    return _of_ms(arrow_numpy.values(array).astype(np.int64), array, target)


def _of_ms(ms: Any, array: pa.Array, target: TimestampType) -> pa.Array:
    kind = arrow_type(target)
    found = arrow_numpy.fixed_array(ms, pa.timestamp("ms"), _valid(array))
    return arrow_numpy.fixed_array(_count(found, _PER_SECOND[kind.unit]), kind, _valid(array))
