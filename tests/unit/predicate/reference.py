"""The meaning of predicates in plain Python, row by row: what the vectorised forms are compared with."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from paimon_spark.predicate.ast import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Not,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
)


def holds(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """True, False or None (null) as SQL says."""
    match predicate:
        case And(children):
            return _and([holds(c, row) for c in children])
        case Or(children):
            inner = _and([_not(holds(c, row)) for c in children])
            return _not(inner)
        case Not(child):
            return _not(holds(child, row))
        case Constant(value):
            return value
        case IsNull(column):
            return value_of(column, row) is None
        case IsNotNull(column):
            return value_of(column, row) is not None
        case NullSafeEqual(column, literal):
            value = value_of(column, row)
            return value is literal if value is None or literal is None else order(value, literal) == 0
        case Compare(op, column, literal):
            value = value_of(column, row)
            return None if value is None else compare(op, value, literal)
        case In(column, literals, has_null):
            value = value_of(column, row)
            if value is None:
                return None
            if any(order(value, v) == 0 for v in literals):
                return True
            return None if has_null else False
        case Text(op, column, pattern):
            value = value_of(column, row)
            return None if value is None else text_matches(op, value, pattern)
    raise NotImplementedError(predicate)


def value_of(column: Column, row: Mapping[str, Any]) -> Any:
    value: Any = row
    for name in column.path:
        value = None if value is None else value[name]
    return value


def compare(op: Op, value: Any, literal: Any) -> bool:
    result = order(value, literal)
    return {
        Op.EQ: result == 0,
        Op.NE: result != 0,
        Op.LT: result < 0,
        Op.LE: result <= 0,
        Op.GT: result > 0,
        Op.GE: result >= 0,
    }[op]


def order(a: Any, b: Any) -> int:
    if isinstance(a, float) and isinstance(b, float) and (math.isnan(a) or math.isnan(b)):
        return int(math.isnan(a)) - int(math.isnan(b))
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return int(a > b) - int(a < b)


def text_matches(op: TextOp, value: str, pattern: str) -> bool:
    match op:
        case TextOp.STARTS_WITH:
            return value.startswith(pattern)
        case TextOp.ENDS_WITH:
            return value.endswith(pattern)
        case TextOp.CONTAINS:
            return pattern in value
    regex, escaped = "", False
    for c in pattern:
        if escaped or c not in "%_\\":
            regex, escaped = regex + re.escape(c), False
        elif c == "\\":
            escaped = True
        else:
            regex += ".*" if c == "%" else "."
    return re.fullmatch(regex, value, re.DOTALL) is not None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(values: list[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True
