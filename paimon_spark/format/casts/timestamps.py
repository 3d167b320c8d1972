"""Casts between timestamps, dates and times: units, time zones and INT96.

Source: Java `utils/DateTimeUtils`, the rules of `casting/CastExecutors`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import DataError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import NANOSECOND_DAYS, arrow_type
from paimon_spark.types import TimestampType

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Values of each Arrow unit in a second."""
INT96: Final = pa.binary(12)
"""Parquet's INT96 as Arrow decodes it when the footer calls it bytes: nanoseconds of the day, then the Julian day."""

_EPOCH_JULIAN_DAY: Final = 2_440_588
_DAY_SECONDS: Final = 86_400
_DAY_MS: Final = 86_400_000
_DAY_NANOSECONDS: Final = 86_400_000_000_000
_EPOCH: Final = datetime(1970, 1, 1)


def rescale(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    """Timestamps in the unit and zone of `target`; digits that do not fit are cut downwards.

    Raises DataError for an instant that does not fit 64 bits of the finer unit.
    """
    if array.type.unit == target.unit:
        return array.cast(pa.int64()).cast(target)
    return arrow_numpy.fixed_array(_count(array, PER_SECOND[target.unit]), target, arrow_numpy.valid_or_none(array))


def from_int96(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    """Timestamps of INT96 values, whose time of day may be negative. Raises DataError."""
    words = np.frombuffer(array.buffers()[1], "<i4")[3 * array.offset :][: 3 * len(array)].reshape(-1, 3)
    of_day = np.ascontiguousarray(words[:, :2]).view("<i8")[:, 0]
    days = words[:, 2].astype(np.int64) - _EPOCH_JULIAN_DAY
    valid = arrow_numpy.validity(array)
    per_second = PER_SECOND[target.unit]
    if target.unit == "ns":
        data = _finer(days * _DAY_SECONDS + of_day // per_second, per_second, of_day % per_second, valid)
    else:
        data = np.where(valid, days * (_DAY_SECONDS * per_second) + of_day // (PER_SECOND["ns"] // per_second), 0)
    return arrow_numpy.fixed_array(data, target, valid)


def to_int96(array: pa.Array) -> pa.Array:
    """INT96 values of timestamps in nanoseconds."""
    days, of_day = np.divmod(arrow_numpy.values(array), _DAY_NANOSECONDS)
    words = np.empty(len(array), np.dtype([("nanos", "<i8"), ("day", "<i4")]))
    words["nanos"] = of_day
    words["day"] = days + _EPOCH_JULIAN_DAY
    return arrow_numpy.fixed_array(words, INT96, arrow_numpy.valid_or_none(array))


def _finer(data: I64, factor: int, rest: I64 | int, valid: Bool) -> I64:
    """`data * factor + rest`, with `rest` from 0 to `factor` exclusive; 0 where not `valid`. Raises DataError."""
    last, last_rest = divmod(2**63 - 1, factor)
    first, first_rest = divmod(-(2**63), factor)
    outside = valid & (
        (data > last) | (data < first) | ((data == last) & (rest > last_rest)) | ((data == first) & (rest < first_rest))
    )
    if bool(outside.any()):
        raise DataError(
            f"it holds timestamps outside {NANOSECOND_DAYS}, which a column of nanosecond precision cannot "
            "have in Arrow; leave the column out with the option columns"
        )
    out: I64 = np.where(valid, data * factor + rest, 0)
    return out


def _count(array: pa.Array, per_second: int) -> Any:
    """Timestamps as whole counts of another unit, rounded down where it is coarser. Raises DataError."""
    have = PER_SECOND[array.type.unit]
    data = arrow_numpy.values(array)
    if have >= per_second:
        return data // (have // per_second)
    return _finer(data, per_second // have, 0, arrow_numpy.validity(array))


def _rezoned(data: Any, array: pa.Array, per_second: int, shift: Callable[[datetime], datetime]) -> Any:
    """Every count moved as `shift` moves its second: the same whole seconds for equal seconds."""
    valid = arrow_numpy.validity(array)
    seconds = np.where(valid, data, 0) // per_second
    distinct, inverse = np.unique(seconds, return_inverse=True)
    moved = np.empty(len(distinct), np.int64)
    second = 0
    try:
        for i, second in enumerate(distinct.tolist()):
            moved[i] = (shift(_EPOCH + timedelta(seconds=second)) - _EPOCH) // timedelta(seconds=1)
    except (OverflowError, ValueError) as e:
        raise DataError(f"a timestamp {second} seconds from 1970 cannot change its time zone: {e}") from e
    return (moved[inverse.reshape(-1)] - seconds) * per_second + np.where(valid, data, 0)


def _to_wall_clock(instant: datetime) -> datetime:
    return instant.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)


def _to_instant(wall_clock: datetime) -> datetime:
    # Where clocks jump forward, timestamp() moves on by the jump as Java does; astimezone() goes back.
    return _EPOCH + timedelta(seconds=round(wall_clock.timestamp()))


def wall_clock(array: pa.Array) -> pa.Array:
    """Timestamps as wall clock times without zone: local-zoned ones in the zone of this process."""
    if array.type.tz is None:
        return array
    per_second = PER_SECOND[array.type.unit]
    data = _rezoned(arrow_numpy.values(array), array, per_second, _to_wall_clock)
    return arrow_numpy.fixed_array(data, pa.timestamp(array.type.unit), arrow_numpy.valid_or_none(array))


def between_timestamps(array: pa.Array, source: TimestampType, target: TimestampType) -> pa.Array:
    """Another precision (digits are cut) and another meaning of the zone."""
    kind = arrow_type(target)
    data = arrow_numpy.values(array)
    if source.local_zone != target.local_zone:
        shift = _to_wall_clock if source.local_zone else _to_instant
        data = _rezoned(data, array, PER_SECOND[array.type.unit], shift)
        array = arrow_numpy.fixed_array(data, array.type, arrow_numpy.valid_or_none(array))
    data = _count(array, PER_SECOND[kind.unit])
    if target.precision < source.precision:
        data = _cut(data, target.precision, PER_SECOND[kind.unit])
    return arrow_numpy.fixed_array(data, kind, arrow_numpy.valid_or_none(array))


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
    return arrow_numpy.fixed_array(days.astype(np.int32), pa.date32(), arrow_numpy.valid_or_none(array))


def times(array: pa.Array) -> pa.Array:
    """The time of day of each timestamp, on the wall clock, cut to milliseconds."""
    of_day = _count(wall_clock(array), 1_000) % _DAY_MS
    return arrow_numpy.fixed_array(of_day.astype(np.int32), pa.time32("ms"), arrow_numpy.valid_or_none(array))


def epoch_seconds(array: pa.Array) -> pa.Array:
    """Seconds since 1970, towards zero from milliseconds; zones do not matter."""
    ms = _count(array, 1_000)
    return arrow_numpy.fixed_array(np.sign(ms) * (np.abs(ms) // 1_000), pa.int64(), arrow_numpy.valid_or_none(array))


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
    found = arrow_numpy.fixed_array(ms, pa.timestamp("ms"), arrow_numpy.valid_or_none(array))
    return arrow_numpy.fixed_array(_count(found, PER_SECOND[kind.unit]), kind, arrow_numpy.valid_or_none(array))
