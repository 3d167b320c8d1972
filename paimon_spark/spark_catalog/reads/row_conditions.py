"""Predicates of a scan → conditions that Spark evaluates on the rows, with the same result.

Expressions are left out: those of this package follow Spark's ANSI mode and the time zone of the scan, which a session
may not.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from paimon_spark.predicate.ast import (
    And,
    Compare,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
    columns_of,
    literal_text,
)
from paimon_spark.predicate.ast import Column as PaimonColumn
from paimon_spark.spark.schema import spark_type
from paimon_spark.types import AtomicType, BinaryType, CharType, DataType, DecimalType, TimestampType, quoted

_SPARK_MICROS: Final = 6


class _UnsureError(Exception):
    """A condition that Spark may evaluate otherwise."""


def row_condition(predicate: Predicate) -> Column | None:
    """The condition of Spark that is true for the same rows; None where that is not sure."""
    try:
        if not all(_is_same_in_spark(c.type) for c in columns_of(predicate)):
            return None
        return _condition(predicate)
    except _UnsureError:
        return None


def _is_same_in_spark(t: DataType) -> bool:
    """Whether Spark has all values of the type, and compares them alike."""
    if isinstance(t, TimestampType):
        return t.precision <= _SPARK_MICROS  # finer ones are cut before Spark sees them
    return isinstance(t, AtomicType | CharType | BinaryType | DecimalType)


def _condition(predicate: Predicate) -> Column:
    match predicate:
        case And(children):
            return reduce(and_, map(_condition, children), F.lit(True))
        case Or(children):
            return reduce(or_, map(_condition, children), F.lit(False))
        case Not(child):
            return ~_condition(child)
        case Constant(value):
            return F.lit(value).cast("boolean")
        case Compare(op, column, literal):
            return _compared(op, _column(column), _literal(literal, column.type))
        case NullSafeEqual(column, literal):
            return _column(column).eqNullSafe(_literal(literal, column.type))
        case In(column, literals, has_null) if literals:
            values = [*literals, *[None] * has_null]
            return _column(column).isin([_literal(v, column.type) for v in values])
        case IsNull(column):
            return _column(column).isNull()
        case IsNotNull(column):
            return _column(column).isNotNull()
        case Text(op, column, pattern):
            return _matched(op, _column(column), pattern)
    raise _UnsureError


def _compared(op: Op, left: Column, right: Column) -> Column:
    match op:
        case Op.EQ:
            return left == right
        case Op.NE:
            return left != right
        case Op.LT:
            return left < right
        case Op.LE:
            return left <= right
        case Op.GT:
            return left > right
        case Op.GE:
            return left >= right


def _matched(op: TextOp, column: Column, pattern: str) -> Column:
    match op:
        case TextOp.STARTS_WITH:
            return column.startswith(F.lit(pattern))
        case TextOp.ENDS_WITH:
            return column.endswith(F.lit(pattern))
        case TextOp.CONTAINS:
            return column.contains(F.lit(pattern))
        case TextOp.LIKE:
            return column.like(pattern)


def _column(column: PaimonColumn) -> Column:
    return F.col(".".join(quoted(part) for part in column.path))


def _literal(value: Literal | None, of: DataType) -> Column:
    """The value as a literal of the column's type."""
    made = spark_type(of)
    match value:
        case Decimal():
            return F.expr(f"{value:f}BD").cast(made)
        case bytes():
            return F.lit(bytearray(value))
        case datetime() if value.tzinfo is None:
            return F.expr(f"TIMESTAMP_NTZ '{value.isoformat(' ')}'")
        case datetime() | date():
            return F.expr(literal_text(value))
        case float():
            return F.expr(f"CAST('{value!r}' AS DOUBLE)").cast(made)
    return F.lit(value).cast(made)
