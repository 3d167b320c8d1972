"""Casts of expressions on Arrow arrays, as in Spark's ANSI mode.

A value that does not fit is an error.

Casts whose result depends on the Java release are left out: FLOAT and DOUBLE to text and to DECIMAL.

Source: Spark `Cast`, `UTF8StringUtils`, `SparkDateTimeUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, PaimonError
from paimon_spark.format.arrays.arrow_numpy import (
    Bool,
    fixed_array,
    microseconds,
    scalar_of,
    valid_or_none,
    validity,
    values,
)
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.casts.assignment import shown
from paimon_spark.format.casts.evolution import round_decimals
from paimon_spark.format.casts.text import FALSE_WORDS, TRUE_WORDS, by_distinct, parsed_decimals, plain_decimals
from paimon_spark.predicate import zones
from paimon_spark.predicate.ast import type_text
from paimon_spark.predicate.literals import BLANKS, parse_date, parse_timestamp
from paimon_spark.types import (
    BYTES,
    INTEGER_BITS,
    STRING,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    TimestampType,
)

_FLOATS: Final = ("FLOAT", "DOUBLE")
_NUMBERS: Final = (*INTEGER_BITS, *_FLOATS, "DECIMAL")
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_NTZ")
_TARGETS: Final = {
    "BOOLEAN": (*INTEGER_BITS, *_FLOATS, "DECIMAL", "STRING"),
    **dict.fromkeys(INTEGER_BITS, (*_NUMBERS, "BOOLEAN", "STRING")),
    **dict.fromkeys(_FLOATS, (*INTEGER_BITS, *_FLOATS, "BOOLEAN")),
    "DECIMAL": (*_NUMBERS, "BOOLEAN", "STRING"),
    "STRING": (*_NUMBERS, "BOOLEAN", "DATE", *_TIMESTAMPS, "BINARY"),
    "DATE": (*_TIMESTAMPS, "STRING"),
    **dict.fromkeys(_TIMESTAMPS, ("DATE", *_TIMESTAMPS, "STRING")),
}
"""By the type of the values: what they can become."""

_LONG_DIGITS: Final = 18
"""Decimals of more digits become INT by way of DOUBLE in Spark, which is not exact."""
_WHOLE: Final = r"^[+-]?[0-9]{1,40}$"
_REAL: Final = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?$"
_WORDS: Final = r"(?i)^(?:nan|[+-]?inf(?:inity)?)$"
_FIXED: Final = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?$"
_MOMENT: Final = re.compile(
    r"\d{4}(-\d{1,2}(-\d{1,2}([T ]\d{1,2}:\d{1,2}"
    r"(:\d{1,2}(\.\d{0,9})?( ?(Z|UTC|GMT|[+-]\d{1,2}:\d{2}|\w+(/[\w+-]+)+))?)?)?)?)?",
    re.ASCII,
)
_YEARS: Final = (-719_162, 2_932_896)
"""The days of the years 1 to 9999, which have their usual text."""
_MOST_DAYS: Final = 106_751_990
"""Days that 64 bits of microseconds reach."""


UNTYPED: Final = AtomicType(name="VOID")
"""The type of a NULL without a cast."""


def is_untyped(t: DataType) -> bool:
    """Whether it is the type of a NULL without a cast."""
    return t == UNTYPED


def plain_type(t: DataType) -> DataType:
    """The type that values have in expressions, without lengths, precision and nullability."""
    match t:
        case CharType():
            return STRING
        case BinaryType():
            return BYTES
        case TimestampType():
            return TimestampType(True, 6, t.local_zone)
    return t.with_nullable(True)


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether `cast` converts values between two types; those of expressions."""
    old, new = family(source), family(target)
    if isinstance(source, DecimalType) and source.precision > _LONG_DIGITS and new in ("TINYINT", "SMALLINT", "INT"):
        return False
    return source == target or new in _TARGETS.get(old, ())


def depends_on_zone(source: DataType, target: DataType) -> bool:
    """Whether a cast reads or shows wall clocks of instants."""
    kinds = {family(source), family(target)}
    return source != target and "TIMESTAMP" in kinds


def family(t: DataType) -> str:
    """The word of a type as Spark writes it, without length and precision."""
    return type_text(t).partition("(")[0]


def cast(array: pa.Array, source: DataType, target: DataType, zone: tzinfo | None) -> pa.Array:
    """The values as `target`, nulls kept. Raises DataError for one that does not fit."""
    if source == target or array.null_count == len(array):
        return array if source == target else pa.nulls(len(array), arrow_type(target))
    old, new = family(source), family(target)
    if old == "STRING":
        return _from_text(array, target, zone)
    if new == "STRING":
        return _to_text(array, old, zone)
    if new in ("DATE", *_TIMESTAMPS):
        return _to_time(array, old, new, zone)
    if new == "BOOLEAN":
        return pc.not_equal(array, scalar_of(0.0 if old in _FLOATS else 0, array.type))
    if old == "BOOLEAN":
        array, old = array.cast(pa.int8()), "TINYINT"
    return _number(array, old, target)


def _number(array: pa.Array, old: str, target: DataType) -> pa.Array:
    kind, new = arrow_type(target), family(target)
    if isinstance(target, DecimalType):
        wide = array if old == "DECIMAL" else array.cast(pa.decimal128(19, 0))
        return _checked(array, round_decimals(wide, target), target)
    if new in _FLOATS:
        if old == "DECIMAL":  # by way of text, as Arrow's own cast is off by a bit at times
            return array.cast(pa.string()).cast(kind)
        with np.errstate(over="ignore"):
            return fixed_array(values(array).astype("f4" if new == "FLOAT" else "f8"), kind, valid_or_none(array))
    if old in _FLOATS:
        return _truncated(array, target)
    if old == "DECIMAL":
        array = pc.trunc(array.cast(pa.decimal256(76, array.type.scale))).cast(pa.decimal256(76, 0))
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as e:
        raise unfit(array, ~_fits_integer(array, INTEGER_BITS[new]), target) from e


def _fits_integer(array: pa.Array, bits: int) -> Bool:
    wide = array.cast(pa.decimal256(76, 0)) if pa.types.is_decimal(array.type) else array.cast(pa.decimal256(19, 0))
    wide = wide.cast(pa.decimal256(76, 0))
    low, high = (
        scalar_of(v, pa.decimal128(38, 0)).cast(wide.type) for v in (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    )
    return values(pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))) | ~validity(array)


def _truncated(array: pa.Array, target: DataType) -> pa.Array:
    """Floats without their fraction. One just above the largest value becomes it, as in Java."""
    bits = INTEGER_BITS[family(target)]
    top = float((1 << (bits - 1)) - 1) if array.type == pa.float64() else float(np.float32((1 << (bits - 1)) - 1))
    bottom = -float(1 << (bits - 1))
    valid = validity(array)
    data = np.where(valid, values(array).astype(np.float64), 0.0)
    fits = (np.floor(data) <= top) & (np.ceil(data) >= bottom)
    if not fits.all():
        raise unfit(array, ~fits, target)
    limit = np.iinfo(f"i{bits // 8}").max
    is_top = data >= float(limit)
    whole = np.where(is_top, limit, np.trunc(np.where(is_top, 0.0, data)).astype(np.int64))
    return fixed_array(whole.astype(f"i{bits // 8}"), arrow_type(target), valid_or_none(array))


def _from_text(array: pa.Array, target: DataType, zone: tzinfo | None) -> pa.Array:
    new = family(target)
    if new == "BINARY":
        return array.cast(pa.binary())
    text = pc.utf8_trim(array, characters=BLANKS)
    if isinstance(target, DecimalType):
        _require(array, pc.match_substring_regex(text, pattern=_FIXED), target)
        return _checked(array, parsed_decimals(text, target), target)
    kind = arrow_type(target)
    if new in INTEGER_BITS:
        _require(array, pc.match_substring_regex(text, pattern=_WHOLE), target)
        return _parsed(array, pc.replace_substring_regex(text, pattern=r"^\+", replacement=""), target)
    if new in _FLOATS:
        is_word = pc.match_substring_regex(text, pattern=_WORDS)
        _require(array, pc.or_(is_word, pc.match_substring_regex(text, pattern=_REAL)), target)
        bare = pc.if_else(is_word, text, pc.replace_substring_regex(text, pattern=r"[dDfF]$", replacement=""))
        return _parsed(array, pc.replace_substring_regex(bare, pattern=r"^\+", replacement=""), target)
    if new == "BOOLEAN":
        return _by_distinct(array, text, _boolean, target)
    if new == "DATE":
        return _by_distinct(array, text, lambda v: _ascii(parse_date, v), target)
    local = isinstance(target, TimestampType) and target.local_zone
    found = _by_distinct(array, text, lambda v: microseconds(_moment(v, zone, local)), target, pa.int64())
    return found.cast(kind)


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError("no truth value")
    return word in TRUE_WORDS


def _ascii(parse: Callable[[str], Any], text: str) -> Any:
    if not text.isascii():
        raise ValueError("digits of other scripts")
    return parse(text)


def _moment(text: str, zone: tzinfo | None, local: bool) -> Any:
    if _MOMENT.fullmatch(text) is None:
        raise ValueError("no timestamp")
    return parse_timestamp(text, zone, local)


def _by_distinct(
    array: pa.Array, text: pa.Array, convert: Callable[[str], Any], target: DataType, kind: pa.DataType | None = None
) -> pa.Array:
    """`convert` of every distinct text, which raises ValueError."""

    def checked(value: str) -> Any:
        try:
            return convert(value)
        except (ValueError, PaimonError) as e:
            raise _invalid(repr(value), target) from e

    return by_distinct(text, lambda v: None if v is None else checked(v), arrow_type(target) if kind is None else kind)


def _parsed(array: pa.Array, text: pa.Array, target: DataType) -> pa.Array:
    try:
        return text.cast(arrow_type(target))
    except pa.ArrowInvalid:
        if len(text) == 1:
            raise unfit(array, validity(array), target) from None
        for place in range(len(text)):
            _parsed(array.slice(place, 1), text.slice(place, 1), target)
        raise


def _require(array: pa.Array, fits: pa.Array, target: DataType) -> None:
    mask = ~values(fits) & validity(array)
    if mask.any():
        raise unfit(array, mask, target)


def _checked(array: pa.Array, found: pa.Array, target: DataType) -> pa.Array:
    """The result, unless it lost a value."""
    lost = validity(array) & ~validity(found)
    if lost.any():
        raise unfit(array, lost, target)
    return found


def _to_text(array: pa.Array, old: str, zone: tzinfo | None) -> pa.Array:
    if old == "DECIMAL":
        return plain_decimals(array)
    if old == "DATE":
        _require_years(array, values(array))
        return array.cast(pa.string())
    if old in _TIMESTAMPS:
        clocks = _clocks(array, old, zone)
        _require_years(array, clocks // zones.DAY)
        text = fixed_array(clocks, pa.timestamp("us"), valid_or_none(array)).cast(pa.string())
        return _bare(text)
    return array.cast(pa.string())


def _bare(text: pa.Array) -> pa.Array:
    """Timestamps without zeros at the end of their fraction."""
    short = pc.replace_substring_regex(text, pattern=r"(\.\d*?)0+$", replacement=r"\1")
    return pc.replace_substring_regex(short, pattern=r"\.$", replacement="")


def _require_years(array: pa.Array, days: Any) -> None:
    outside = ((days < _YEARS[0]) | (days > _YEARS[1])) & validity(array)
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        raise DataError(
            f"a condition casts a date or timestamp to STRING that is outside the years 1 to 9999 (day {days[place]} "
            "from 1970); exclude such rows with an earlier condition"
        )


def _to_time(array: pa.Array, old: str, new: str, zone: tzinfo | None) -> pa.Array:
    valid = valid_or_none(array)
    if old == "DATE":
        days = np.where(validity(array), values(array), 0).astype(np.int64)
        if (np.abs(days) > _MOST_DAYS).any():
            raise DataError(
                "a condition casts a date to TIMESTAMP that is outside the years which a timestamp can have"
            )
        found = zones.day_starts(days, _zone(zone)) if new == "TIMESTAMP" else days * zones.DAY
        return fixed_array(found, timestamp(new), valid)
    if new == "DATE":
        return fixed_array((_clocks(array, old, zone) // zones.DAY).astype(np.int32), pa.date32(), valid)
    clocks = _counts(array)
    found = zones.to_instants(clocks, _zone(zone)) if new == "TIMESTAMP" else zones.wall_clocks(clocks, _zone(zone))
    return fixed_array(found, timestamp(new), valid)


def _clocks(array: pa.Array, old: str, zone: tzinfo | None) -> Any:
    counts = _counts(array)
    return zones.wall_clocks(counts, _zone(zone)) if old == "TIMESTAMP" else counts


def _counts(array: pa.Array) -> Any:
    return np.where(validity(array), values(array), 0)


def _zone(zone: tzinfo | None) -> tzinfo:
    assert zone is not None
    return zone


def timestamp(name: str) -> pa.DataType:
    """The Arrow type of TIMESTAMP or TIMESTAMP_NTZ in expressions."""
    return pa.timestamp("us", "UTC" if name == "TIMESTAMP" else None)


def unfit(array: pa.Array, which: Bool, target: DataType) -> DataError:
    """The error for the first of the values that cannot be cast."""
    return _invalid(shown(array, int(np.flatnonzero(which)[0])), target)


def _invalid(value: str, target: DataType) -> DataError:
    return DataError(
        f"a condition casts {value} to {type_text(target)}, which does not hold it; correct the value, or exclude "
        "its row with an earlier condition",
        value=value,
    )
