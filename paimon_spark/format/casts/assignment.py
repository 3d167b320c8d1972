"""Store assignment: conversion of rows to write into the types of their columns.

It follows Spark's ANSI store assignment: decimals and DOUBLE become the nearest FLOAT, and decimals the nearest DOUBLE.
Other casts lose nothing: one that could lose for every value is refused when it is planned, one that may fit is checked
value by value.

CHAR and VARCHAR take text as it comes, within their length: Java's core and Flink do not pad either.

Source: Spark `Cast.canANSIStoreAssign`; `CharVarcharCodegenUtils` for text that is too long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, SchemaMismatchError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.casts.evolution import caster
from paimon_spark.format.casts.timestamps import PER_SECOND
from paimon_spark.text import sql_quoted, sql_value
from paimon_spark.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
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

Assign = Callable[[pa.Array], pa.Array]
"""Converts arrays of one type; raises DataError for a value that does not fit."""

_DAY_MS: Final = 86_400_000


def assignment(source: pa.DataType, target: DataType, column: str, where: str) -> Assign:
    """How arrays of `source` become canonical arrays of `target`, both without children.

    Args:
        source: any Arrow type; dictionaries and run-ends are decoded.
        target: the column's type.
        column: its name, or the path of a nested field.
        where: how messages call the table.

    Raises SchemaMismatchError: no such cast, or one that could lose; the message has the cast to write.
    """
    if pa.types.is_dictionary(source) or pa.types.is_run_end_encoded(source):
        inner = assignment(source.value_type, target, column, where)
        decode = pa.DictionaryArray.dictionary_decode if pa.types.is_dictionary(source) else pc.run_end_decode
        return lambda a: inner(decode(a))
    if pa.types.is_null(source):
        kind = arrow_type(target)
        return lambda a: pa.nulls(len(a), kind)
    found = _rule(source, target)
    if found is None:
        raise SchemaMismatchError(
            f"column {column} of {where} is {target}, and the rows to write have {source}, which is not "
            f"converted implicitly, as values could be lost; write CAST({column} AS {_bare(target)})",
            column=column,
        )
    return _explained(found, column, where, target)


def _rule(source: pa.DataType, target: DataType) -> Assign | None:
    match target:
        case AtomicType(name="BOOLEAN"):
            return _cast(pa.bool_()) if pa.types.is_boolean(source) else None
        case AtomicType() if target.name in INTEGER_NAMES:
            is_whole = pa.types.is_integer(source) or (pa.types.is_decimal(source) and source.scale <= 0)
            return _cast(arrow_type(target)) if is_whole else None
        case AtomicType(name="FLOAT" | "DOUBLE"):
            return _to_float(source, target)
        case AtomicType(name="DATE"):
            return _cast(pa.date32()) if pa.types.is_date(source) else None
        case DecimalType():
            return _to_decimal(source, arrow_type(target))
        case CharType():
            return _to_text(source, target)
        case BinaryType():
            return _to_bytes(source, target)
        case TimeType():
            return _to_time(source)
        case TimestampType():
            return _to_timestamp(source, target)
    return None


def _cast(kind: pa.DataType) -> Assign:
    """A cast that Arrow checks: it raises ArrowInvalid when a value would change."""
    return lambda a: a if a.type == kind else a.cast(kind)


def _to_float(source: pa.DataType, target: AtomicType) -> Assign | None:
    kind = arrow_type(target)
    if pa.types.is_floating(source):
        # The nearest, as in Java: infinity beyond the range of FLOAT.
        return _cast(kind) if source.bit_width <= kind.bit_width else lambda a: a.cast(kind, safe=False)
    if pa.types.is_integer(source):
        # Arrow refuses integers beyond what the type holds exactly.
        return _cast(kind)
    if pa.types.is_decimal(source):
        # The nearest, as `BigDecimal.doubleValue`: by way of text, as Arrow's own cast is off by a bit at times.
        return lambda a: a.cast(pa.string()).cast(kind)
    return None


def _to_decimal(source: pa.DataType, kind: pa.Decimal128Type) -> Assign | None:
    if pa.types.is_decimal(source):
        return _cast(kind) if source == kind else lambda a: _rescaled(a, kind)
    if pa.types.is_integer(source):
        wide = pa.decimal128(20, 0)
        return lambda a: _rescaled(a.cast(wide), kind)
    return None


def _rescaled(array: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Decimals of another precision and scale. Raises ArrowInvalid where one does not fit.

    Arrow checks digits that are cut off and the digits of the result, but not that 128 bits hold the result when the
    scale grows: so whole digits are checked first, and the scale grows in 256 bits.
    """
    more = kind.scale - array.type.scale
    if more > 0:
        digits = max(1, kind.precision - more)
        array = array.cast(pa.decimal256(digits, array.type.scale)).cast(pa.decimal256(digits + more, kind.scale))
    return array.cast(kind)


def _to_text(source: pa.DataType, target: CharType) -> Assign | None:
    if pa.types.is_string(source) or pa.types.is_large_string(source) or pa.types.is_string_view(source):
        return lambda a: _fitted_text(a if a.type == pa.string() else a.cast(pa.string()), target)
    kind = _plain_type(source)
    if kind is None:
        return None
    spell = caster(kind, STRING)
    return lambda a: _fitted_text(spell(a.cast(arrow_type(kind))), target)


def _plain_type(source: pa.DataType) -> DataType | None:
    """The column type of values that have one text, whatever the zone and the precision of a column."""
    if pa.types.is_boolean(source):
        return BOOLEAN
    if pa.types.is_integer(source):
        return BIGINT if source != pa.uint64() else DecimalType(True, 20, 0)
    if pa.types.is_float32(source) or pa.types.is_float64(source):
        return FLOAT if pa.types.is_float32(source) else DOUBLE
    if pa.types.is_decimal128(source) and source.scale >= 0:
        return DecimalType(True, source.precision, source.scale)
    return DATE if pa.types.is_date(source) else None


def _fitted_text(array: pa.Array, target: CharType) -> pa.Array:
    """Text within its length: spaces at the end are cut off where they are too many."""
    if _may_exceed(array, target.length):
        lengths = arrow_numpy.values(pc.utf8_length(array))
        too_long = (lengths > target.length) & arrow_numpy.validity(array)
        if too_long.any():
            cut = pc.utf8_slice_codeunits(array, 0, target.length)
            same = pc.equal(pc.utf8_rtrim(array, characters=" "), pc.utf8_rtrim(cut, characters=" "))
            lost = too_long & ~arrow_numpy.values(same)
            if lost.any():
                raise _UnfitValueError(array, lost, f"longer than {target.length} characters")
            return cut
    return array


def _to_bytes(source: pa.DataType, target: BinaryType) -> Assign | None:
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    if pa.types.is_decimal(source) or not any(is_kind(source) for is_kind in kinds):
        return None
    return lambda a: _fitted_bytes(a if a.type == pa.binary() else a.cast(pa.binary()), target)


def _fitted_bytes(array: pa.Array, target: BinaryType) -> pa.Array:
    if not _may_exceed(array, target.length):
        return array
    offsets, _ = arrow_numpy.byte_slices(array)
    too_long = (np.diff(offsets) > target.length) & arrow_numpy.validity(array)
    if too_long.any():
        raise _UnfitValueError(array, too_long, f"longer than {target.length} bytes")
    return array


def _may_exceed(array: pa.Array, length: int) -> bool:
    """Whether a value of text or bytes has more than `length` bytes. Those of a null count."""
    if array.nbytes <= length:
        return False
    offsets, _ = arrow_numpy.byte_slices(array)
    return int(np.diff(offsets).max(initial=0)) > length


def _to_time(source: pa.DataType) -> Assign | None:
    if pa.types.is_time(source):
        return _cast(pa.time32("ms"))
    if source == pa.int32():  # what Spark has for TIME: milliseconds of the day
        return _milliseconds_of_day
    return None


def _milliseconds_of_day(array: pa.Array) -> pa.Array:
    data = arrow_numpy.values(array)
    outside = ((data < 0) | (data >= _DAY_MS)) & arrow_numpy.validity(array)
    if outside.any():
        raise _UnfitValueError(array, outside, "no milliseconds of a day")
    return array.view(pa.time32("ms"))


def _to_timestamp(source: pa.DataType, target: TimestampType) -> Assign | None:
    kind = arrow_type(target)
    if pa.types.is_date(source) and not target.local_zone:
        return lambda a: a.cast(pa.date32()).cast(pa.timestamp("s")).cast(kind)
    if not pa.types.is_timestamp(source) or (source.tz is None and target.local_zone):
        return None
    if source.tz is not None and not target.local_zone:
        # The wall clock in the zone that the values come with: Spark's is that of its session.
        return lambda a: _precise(pc.local_timestamp(a).cast(kind), target)
    return lambda a: _precise(a if a.type == kind else a.cast(kind), target)


def _precise(array: pa.Array, target: TimestampType) -> pa.Array:
    """The array, when no value has more fractional digits than the type."""
    step = PER_SECOND[array.type.unit] // 10**target.precision
    if step > 1:
        lost = (arrow_numpy.values(array) % step != 0) & arrow_numpy.validity(array)
        if lost.any():
            raise _UnfitValueError(array, lost, f"finer than {target.precision} digits of a second")
    return array


class _UnfitValueError(Exception):
    """Values that do not fit; carries what the message needs."""

    def __init__(self, array: pa.Array, which: arrow_numpy.Bool, why: str) -> None:
        super().__init__(why)
        self.value = shown(array, int(np.flatnonzero(which)[0]))
        self.why = why


def _explained(assign: Assign, column: str, where: str, target: DataType) -> Assign:
    def run(array: pa.Array) -> pa.Array:
        try:
            return assign(array)
        except _UnfitValueError as e:
            raise unfit(column, where, target, e.value, e.why) from None
        except pa.ArrowInvalid as e:
            raise unfit(column, where, target, _first_unfit(assign, array), str(e)) from e

    return run


def unfit(column: str, where: str, target: DataType, value: str, why: str) -> DataError:
    """The error for a value that its column cannot hold."""
    return DataError(
        f"column {column} of {where} is {_bare(target)}, which cannot hold {value}: {why}; nothing is written. "
        "Correct the value, or change the column's type",
        column=column,
        value=value,
    )


def _first_unfit(assign: Assign, array: pa.Array) -> str:
    """The first value that the cast fails for, found by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            assign(array.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return shown(array, low)


def shown(array: pa.Array, index: int) -> str:
    """A value of an array without children for messages, not too long."""
    value: Any = array.slice(index, 1)
    if pa.types.is_binary(value.type) or pa.types.is_large_binary(value.type):
        text = sql_value(value[0].as_py())
    else:
        found = value.cast(pa.string())[0].as_py()
        quoted = pa.types.is_string(value.type) or pa.types.is_large_string(value.type)
        text = "NULL" if found is None else sql_quoted(found) if quoted else found
    return text if len(text) <= 60 else text[:57] + "…" + text[-1]


def _bare(target: DataType) -> str:
    return str(target.with_nullable(True))
