"""Evaluation of predicates on the statistics of one row group: may any of its rows match?

Only a certain "no" is used. Not, LIKE and whatever else has no simple bound decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from paimon_spark.format.data_files.requests import Bounds, BoundsOf
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


@dataclass(frozen=True, slots=True)
class RowGroupFilter:
    """Judges the row groups of a file; picklable, a `MayMatch` of the readers of data files.

    Attributes:
        predicate: over columns of the schema being read.
        columns: for each column the predicate may be tested on, its name in the file; others decide nothing.
    """

    predicate: Predicate
    columns: Mapping[str, str]

    def __call__(self, bounds_of: BoundsOf) -> bool:
        def bounds(column: Column) -> Bounds | None:
            name = self.columns.get(column.name)
            return None if name is None or len(column.path) > 1 else bounds_of(name, column.type)

        return may_match(self.predicate, bounds)


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
