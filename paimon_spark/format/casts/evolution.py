"""Changes of column types: those allowed, and casts of old values as Java makes them.

Every rule is one function over arrays. Rules without a form in Arrow or numpy work on the distinct values.
Conversions that involve a local time zone use that of this process, as Java uses the JVM's.

Source: Paimon spec, chapter Schema; Java `casting/CastExecutors` and its rules, `types/DataTypeCasts`,
`utils/DefaultValueUtils`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import scalar_of
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.nested import Convert
from paimon_spark.format.casts import text as cast_text
from paimon_spark.format.casts import timestamps
from paimon_spark.format.casts.text import float_text
from paimon_spark.types import (
    INTEGER_NAMES,
    STRING,
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

    Raises UnsupportedFeatureError when there is no such cast, in Java or here.
    """
    found = _conversion(source, target)
    if found is not None:
        return found
    raise UnsupportedFeatureError(
        f"a column changed from {source} to {target}; old files cannot be read as the new type, "
        "read a version before the change or leave the column out with the option columns",
        feature=f"cast {source} to {target}",
    )


def _family(t: DataType) -> str:
    name = root(t)
    families = {"integer": INTEGER_NAMES, "float": _FLOATS, "text": _TEXTS, "bytes": _BYTES, "TIMESTAMP": _TIMESTAMPS}
    return next((family for family, names in families.items() if name in names), name)


def _conversion(source: Any, target: Any) -> Convert | None:
    """Cast between two types, chosen by their families; None for an unsupported cast."""
    families = _family(source), _family(target)
    if "" in families:  # rows, collections and foreign types
        return None
    kind = arrow_type(target)
    match families:
        case ("integer" | "float", "float") | ("integer", "integer"):
            return lambda a: a.cast(kind, safe=False)
        case ("float", "integer"):
            return lambda a: _truncated(a, kind)
        case ("BOOLEAN", "integer" | "float"):
            return lambda a: a.cast(kind)
        case ("DECIMAL", "integer"):
            return lambda a: _decimal_to_integer(a, kind)
        case ("DECIMAL", "float"):
            return lambda a: _decimal_to_float(a, source).cast(kind, safe=False)
        case ("text", "integer" | "float"):
            return cast_text.number_parser(target)
        case ("TIMESTAMP", "integer") if target.name in ("INT", "BIGINT"):
            return lambda a: timestamps.epoch_seconds(a).cast(kind, safe=False)
        case ("DECIMAL", "DECIMAL"):
            return lambda a: round_decimals(a, target)
        case ("integer", "DECIMAL"):
            return lambda a: round_decimals(a.cast(pa.decimal128(19, 0)), target)
        case ("BOOLEAN", "DECIMAL"):
            return lambda a: round_decimals(a.cast(pa.int8()).cast(pa.decimal128(3, 0)), target)
        case ("float", "DECIMAL"):
            return lambda a: cast_text.decimals_of_floats(a, target)
        case ("text", "DECIMAL"):
            return lambda a: cast_text.parsed_decimals(a, target)
        case ("integer", "BOOLEAN"):
            return lambda a: pc.not_equal(a, scalar_of(0, a.type))
        case ("text", "BOOLEAN"):
            return cast_text.parsed_booleans
        case ("text", "text"):
            return lambda a: cast_text.fitted_text(a, target)
        case ("bytes", "text"):
            return _decoded
        case ("integer" | "BOOLEAN", "text"):
            return lambda a: cast_text.fitted_text(a.cast(pa.string()), target)
        case ("DECIMAL", "text"):
            return lambda a: cast_text.fitted_text(cast_text.plain_decimals(a), target)
        case ("float", "text"):
            return lambda a: cast_text.fitted_text(float_text(a), target)
        case ("text" | "bytes", "bytes"):
            return lambda a: cast_text.fitted_bytes(a.cast(pa.binary()), target)
        case ("TIMESTAMP", "DATE"):
            return timestamps.dates
        case ("text", "DATE"):
            return cast_text.parsed_dates
        case ("TIMESTAMP", "TIME"):
            return timestamps.times
        case ("text", "TIME"):
            return cast_text.parsed_times
        case ("TIMESTAMP", "TIMESTAMP"):
            return lambda a: timestamps.between_timestamps(a, source, target)
        case ("integer", "TIMESTAMP") if source.name in ("INT", "BIGINT"):
            return lambda a: timestamps.from_seconds(a, target)
        case ("DATE", "TIMESTAMP"):
            return lambda a: timestamps.from_dates(a, target)
        case ("TIME", "TIMESTAMP"):
            return lambda a: timestamps.from_times(a, target)
        case ("text", "TIMESTAMP"):
            return lambda a: cast_text.parsed_timestamps(a, target)
    if target.with_nullable(True) != STRING:
        return None
    match families[0]:
        case "DATE":
            return lambda a: a.cast(pa.string())
        case "TIME":
            return lambda a: cast_text.time_text(a, source.precision)
        case "TIMESTAMP":
            return lambda a: cast_text.timestamp_text(timestamps.wall_clock(a), source.precision)
    return None


def _decoded(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as e:
        raise DataError(f"bytes of a column that became text are not UTF-8: {e}") from e


def _truncated(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Floats towards zero, NaN to 0, clamped to 32 or 64 bits; the narrow types then keep the low bits."""
    wide = pa.int64() if kind == pa.int64() else pa.int32()
    info = np.iinfo(np.int64 if wide == pa.int64() else np.int32)
    data = arrow_numpy.values(array).astype(np.float64)
    top = float(info.max)
    inside = np.where(np.isnan(data) | (data >= top) | (data <= info.min), 0.0, data).astype(info.dtype)
    clamped = np.where(data >= top, info.max, np.where(data <= info.min, info.min, inside)).astype(info.dtype)
    valid = arrow_numpy.valid_or_none(array)
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


def _decimal_to_integer(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The whole part's low bits."""
    whole = pc.trunc(array.cast(pa.decimal256(76, array.type.scale))).cast(pa.decimal128(38, 0))
    low, _ = arrow_numpy.decimal_halves(whole)
    valid = arrow_numpy.valid_or_none(whole)
    return arrow_numpy.fixed_array(np.ascontiguousarray(low).view(np.int64), pa.int64(), valid).cast(kind, safe=False)


def _decimal_to_float(array: pa.Array, source: DecimalType) -> pa.Array:
    if source.precision > 18:
        return cast_text.by_distinct(array, float, pa.float64())
    low, _ = arrow_numpy.decimal_halves(array)
    data = np.ascontiguousarray(low).view(np.int64).astype(np.float64) / 10.0**source.scale
    valid = arrow_numpy.valid_or_none(array)
    return arrow_numpy.fixed_array(data, pa.float64(), valid)


_TEXTS: Final = ("CHAR", "VARCHAR")
_BYTES: Final = ("BINARY", "VARBINARY")
_NUMBERS: Final = (*INTEGER_NAMES, "FLOAT", "DOUBLE", "DECIMAL")
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_TIMES: Final = (*_TIMESTAMPS, "DATE", "TIME")
_EVERYTHING: Final = (*_TEXTS, *_BYTES, *_NUMBERS, *_TIMES, "BOOLEAN")
_IMPLICIT: Final[Mapping[str, tuple[str, ...]]] = {
    "CHAR": ("CHAR",),
    "VARCHAR": _TEXTS,
    "BOOLEAN": ("BOOLEAN",),
    "BINARY": ("BINARY",),
    "VARBINARY": _BYTES,
    "DECIMAL": _NUMBERS,
    "TINYINT": ("TINYINT",),
    "SMALLINT": ("TINYINT", "SMALLINT"),
    "INT": ("TINYINT", "SMALLINT", "INT"),
    "BIGINT": INTEGER_NAMES,
    "FLOAT": (*INTEGER_NAMES, "FLOAT", "DECIMAL"),
    "DOUBLE": _NUMBERS,
    "DATE": ("DATE", "TIMESTAMP"),
    "TIME": ("TIME", "TIMESTAMP"),
    "TIMESTAMP": _TIMESTAMPS,
    "TIMESTAMP_LTZ": _TIMESTAMPS,
}
"""By the target: what becomes it without being asked for. FLOAT from BIGINT loses digits, as in Java."""

_TO_NUMBER: Final = (*_NUMBERS, *_TEXTS, "BOOLEAN")
_TO_TIMESTAMP: Final = (*_TIMESTAMPS, "DATE", "TIME", *_TEXTS, "INT", "BIGINT")
_EXPLICIT: Final[Mapping[str, tuple[str, ...]]] = {
    "CHAR": _EVERYTHING,
    "VARCHAR": _EVERYTHING,
    "BOOLEAN": (*_TEXTS, *INTEGER_NAMES),
    "BINARY": (*_TEXTS, "VARBINARY"),
    "VARBINARY": (*_TEXTS, "BINARY"),
    "DECIMAL": _TO_NUMBER,
    **dict.fromkeys(("TINYINT", "SMALLINT", "FLOAT", "DOUBLE"), _TO_NUMBER),
    **dict.fromkeys(("INT", "BIGINT"), (*_TO_NUMBER, *_TIMESTAMPS)),
    "DATE": (*_TIMESTAMPS, *_TEXTS),
    "TIME": (*_TIMESTAMPS, *_TEXTS),
    "TIMESTAMP": _TO_TIMESTAMP,
    "TIMESTAMP_LTZ": _TO_TIMESTAMP,
}
"""By the target: what becomes it when asked for; values may be cut, rounded or null. Only what Java can carry out."""


def can_cast(source: DataType, target: DataType, explicit: bool) -> bool:
    """Whether a column of `source` may become one of `target`, nullability aside; rows and collections only stay.

    With `explicit` values may be changed by it, as `CAST` does.
    """
    if source.with_nullable(True) == target.with_nullable(True):
        return True
    old, new = root(source), root(target)
    if old in _TIMES and isinstance(target, CharType) and target.with_nullable(True) != STRING:
        return False
    return old in _IMPLICIT.get(new, ()) or (explicit and old in _EXPLICIT.get(new, ()))


def root(t: DataType) -> str:
    """The word of a type, without lengths and precision; empty for rows, collections and foreign types."""
    match t:
        case AtomicType():
            return t.name
        case CharType():
            return "VARCHAR" if t.varying else "CHAR"
        case BinaryType():
            return "VARBINARY" if t.varying else "BINARY"
        case DecimalType():
            return "DECIMAL"
        case TimeType():
            return "TIME"
        case TimestampType():
            return "TIMESTAMP_LTZ" if t.local_zone else "TIMESTAMP"
    return ""
