"""Spark's pushed filters as predicates. What cannot be said exactly is handed back for Spark to evaluate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import datasource as spark

from paimon_spark.errors import InvalidInputError
from paimon_spark.predicate import literals
from paimon_spark.predicate.ast import (
    Column,
    IsNotNull,
    IsNull,
    Not,
    Op,
    Predicate,
    Text,
    TextOp,
)
from paimon_spark.types import (
    INTEGER_NAMES,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    RowType,
    TimestampType,
    TimeType,
)

_COMPARISONS: Final[dict[type[spark.Filter], Op]] = {
    spark.EqualTo: Op.EQ,
    spark.GreaterThan: Op.GT,
    spark.GreaterThanOrEqual: Op.GE,
    spark.LessThan: Op.LT,
    spark.LessThanOrEqual: Op.LE,
}
_TEXT: Final[dict[type[spark.Filter], TextOp]] = {
    spark.StringStartsWith: TextOp.STARTS_WITH,
    spark.StringEndsWith: TextOp.ENDS_WITH,
    spark.StringContains: TextOp.CONTAINS,
}
_MICROSECONDS: Final = 6


def translate(
    filters: Sequence[spark.Filter], columns: Mapping[str, DataType]
) -> tuple[list[Predicate], list[spark.Filter]]:
    """The filters that mean exactly the same as a predicate, as predicates; and those that do not.

    Args:
        filters: what Spark would have true for every row.
        columns: type by the name Spark uses, of the columns whose values Spark sees unchanged.
    """
    taken: list[Predicate] = []
    left: list[spark.Filter] = []
    for f in filters:
        predicate = to_predicate(f, columns)
        if predicate is None:
            left.append(f)
        else:
            taken.append(predicate)
    return taken, left


def to_predicate(f: spark.Filter, columns: Mapping[str, DataType]) -> Predicate | None:
    """The predicate that is true, false and null for the same rows as `f`; None when there is none."""
    if isinstance(f, spark.Not):
        child = to_predicate(f.child, columns)
        return None if child is None else Not(child)
    path = getattr(f, "attribute", None)
    column = None if path is None else _column(tuple(path), columns)
    if column is None:
        return None
    match f:
        case spark.IsNull():
            return IsNull(column)
        case spark.IsNotNull():
            return IsNotNull(column)
    if not _as_spark_sees_it(column.type):
        return None
    try:
        return _with_value(f, column)
    except InvalidInputError:  # the value is not one the column could hold: Spark knows what it means
        return None


def _with_value(f: Any, column: Column) -> Predicate | None:
    is_value = _value_of(column.type)
    if is_value is None:
        return None
    match f:
        case spark.In():
            if not all(v is None or is_value(v) for v in f.value):
                return None
            return literals.one_of(column, f.value)
        case spark.EqualNullSafe() if f.value is None or is_value(f.value):
            return literals.null_safe_equal(column, f.value)
    if f.value is not None and not is_value(f.value):
        return None
    if type(f) in _TEXT and isinstance(column.type, CharType) and f.value is not None:
        return Text(_TEXT[type(f)], column, f.value)
    if type(f) in _COMPARISONS:
        return literals.compare(_COMPARISONS[type(f)], column, f.value)
    return None


def _column(path: tuple[str, ...], columns: Mapping[str, DataType]) -> Column | None:
    """The column at `path`, through rows; their fields must not be renamed or retyped on the way to Spark."""
    t = columns.get(path[0])
    for name in path[1:]:
        if not isinstance(t, RowType) or name not in t.names:
            return None
        t = t.field(name).type
    return None if t is None else Column(path, t)


def _as_spark_sees_it(t: DataType) -> bool:
    """Nanoseconds are cut on the way to Spark, so that Spark's comparison and ours could differ."""
    return not (isinstance(t, TimestampType) and t.precision > _MICROSECONDS)


def _value_of(t: DataType) -> Callable[[Any], bool] | None:
    """Whether a value is one that Spark's literals of the type arrive as; None when the type has no order."""
    match t:
        case AtomicType(name="BOOLEAN"):
            return lambda v: isinstance(v, bool)
        case AtomicType(name=name) if name in INTEGER_NAMES:
            return _is_integer
        case TimeType():
            return _is_integer
        case AtomicType(name="FLOAT" | "DOUBLE"):
            return lambda v: isinstance(v, float)
        case AtomicType(name="DATE"):
            return lambda v: isinstance(v, date) and not isinstance(v, datetime)
        case DecimalType():
            return lambda v: isinstance(v, Decimal) and v.is_finite()
        case TimestampType(local_zone=local_zone):
            return lambda v: isinstance(v, datetime) and (v.tzinfo is not None) == local_zone
        case CharType():
            return lambda v: isinstance(v, str)
        case BinaryType():
            return lambda v: isinstance(v, bytes)
    return None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
