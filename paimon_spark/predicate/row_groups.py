"""Whether any row of a part of a file can match a predicate, judged by the part's statistics.

Only a certain "no" is used. Not, LIKE and whatever else has no simple bound decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from paimon_spark.predicate.ast import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNotNull,
    IsNull,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
)
from paimon_spark.types import AtomicType


class Bounds(NamedTuple):
    """Statistics of one column in a part of a file; None where unknown.

    Attributes:
        lower, upper: no value is smaller or larger, NaN apart. Python values like those of predicate literals.
        null_count: nulls.
        row_count: rows, nulls included.
    """

    lower: Any
    upper: Any
    null_count: int | None
    row_count: int


def may_match(predicate: Predicate, bounds_of: Callable[[Column], Bounds | None]) -> bool:
    """False only when no row can make the predicate true."""
    match predicate:
        case And(children):
            return all(may_match(c, bounds_of) for c in children)
        case Or(children):
            return any(may_match(c, bounds_of) for c in children)
        case Constant(value):
            return value is True
        case Compare() | NullSafeEqual() | In() | IsNull() | IsNotNull() | Text():
            bounds = bounds_of(predicate.column)
            return bounds is None or _leaf(predicate, bounds)
    return True


def _leaf(predicate: Predicate, b: Bounds) -> bool:
    if isinstance(predicate, IsNull) or (isinstance(predicate, NullSafeEqual) and predicate.literal is None):
        return b.null_count != 0
    if b.null_count == b.row_count:
        return False
    match predicate:
        case Compare(op, column, literal):
            return _compare(op, column, literal, b)
        case NullSafeEqual(column, literal):
            return _compare(Op.EQ, column, literal, b)
        case In(column, literals):
            return any(_compare(Op.EQ, column, literal, b) for literal in literals)
        case Text(TextOp.STARTS_WITH, _, prefix):
            lower, upper = b.lower, b.upper
            return not (
                (isinstance(upper, str) and upper < prefix)
                or (isinstance(lower, str) and lower[: len(prefix)] > prefix)
            )
    return True


def _compare(op: Op, column: Column, literal: Any, b: Bounds) -> bool:
    if isinstance(literal, float) and math.isnan(literal):
        return True
    # NaN is larger than every number and no statistic counts it.
    lower, top = _of_type(b.lower, literal), _of_type(b.upper, literal)
    upper = None if _is_floating(column) else top
    match op:
        case Op.EQ:
            return (lower is None or bool(lower <= literal)) and (top is None or bool(top >= literal))
        case Op.LT:
            return lower is None or bool(lower < literal)
        case Op.LE:
            return lower is None or bool(lower <= literal)
        case Op.GT:
            return upper is None or bool(upper > literal)
        case Op.GE:
            return upper is None or bool(upper >= literal)
    return True


def _of_type(bound: Any, literal: Any) -> Any:
    """The bound if it is of the literal's type; else it says nothing (unscaled decimals, times, raw bytes)."""
    if isinstance(literal, float):
        return bound if isinstance(bound, (int, float)) and not math.isnan(bound) else None
    if type(bound) is not type(literal):
        return None
    if isinstance(literal, datetime) and (bound.tzinfo is None) != (literal.tzinfo is None):
        return None
    return bound


def _is_floating(column: Column) -> bool:
    return isinstance(column.type, AtomicType) and column.type.name in ("FLOAT", "DOUBLE")
