"""Evaluation of predicates on Arrow data, exactly as Spark would.

Vectorised, three-valued inside. Works on canonical arrays (`format.arrays.arrow_types`); TIMESTAMP(7-9) compares by
its microseconds, rounded down, because that is what Spark sees of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import InvalidInputError
from paimon_spark.format.arrays.arrow_numpy import (
    array_of,
    boolean_array,
    fixed_array,
    microseconds,
    scalar_of,
    validity,
    values,
)
from paimon_spark.predicate.ast import (
    And,
    Compare,
    Computed,
    Constant,
    Function,
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
)
from paimon_spark.predicate.evaluate import Batch, can_fail, column_of, computed_where, evaluate, text_matches
from paimon_spark.text import sql_quoted

_KERNELS: Final = {
    Op.EQ: "equal",
    Op.NE: "not_equal",
    Op.LT: "less",
    Op.LE: "less_equal",
    Op.GT: "greater",
    Op.GE: "greater_equal",
}
_TEXT_FUNCTIONS: Final = {
    TextOp.STARTS_WITH: Function.STARTS_WITH,
    TextOp.ENDS_WITH: Function.ENDS_WITH,
    TextOp.CONTAINS: Function.CONTAINS,
    TextOp.LIKE: Function.LIKE,
}


def matches(predicate: Predicate, batch: Batch) -> pa.BooleanArray:
    """True for the rows that are kept: those for which the predicate is true, not null. Holds no nulls.

    Raises:
        ColumnNotFoundError: the batch lacks a column of the predicate.
        InvalidInputError: a literal is not of its column's type.
    """
    return certain(_evaluate(predicate, batch))


def condition_can_fail(predicate: Predicate) -> bool:
    """Whether there may be rows for which the predicate is an error."""
    match predicate:
        case And(children) | Or(children):
            return any(condition_can_fail(child) for child in children)
        case Not(child):
            return condition_can_fail(child)
        case Computed(expression):
            return can_fail(expression)
    return False


def certain(mask: pa.BooleanArray) -> pa.BooleanArray:
    """The mask with null as False."""
    return boolean_array(values(mask) & validity(mask)) if mask.null_count else mask


def compare(op: Op, array: pa.Array, literal: Literal) -> pa.BooleanArray:
    """`value op literal` for each value, null for null, in Spark's order (NaN equal to itself and largest)."""
    t = array.type
    if pa.types.is_timestamp(t):
        return _compare_timestamps(op, array, literal)
    if pa.types.is_floating(t):
        return _compare_floats(op, array, float(literal))  # type: ignore[arg-type]
    if pa.types.is_time(t):
        array = array.view(pa.int32() if pa.types.is_time32(t) else pa.int64())
    return pc.call_function(_KERNELS[op], [array, scalar_of(literal, array.type)])


def one_of(array: pa.Array, literals: Sequence[Literal]) -> pa.BooleanArray:
    """Whether each value equals one of `literals`, null for null."""
    t = array.type
    if not literals:
        return boolean_array(np.zeros(len(array), np.bool_), validity(array))
    if pa.types.is_floating(t) and any(math.isnan(v) for v in literals):  # type: ignore[arg-type]
        rest = one_of(array, [v for v in literals if not math.isnan(v)])  # type: ignore[arg-type]
        return pc.or_kleene(rest, pc.is_nan(array))
    wanted = _value_set(tuple(literals), t)
    if pa.types.is_timestamp(t):
        array = _comparable_ticks(array)
    elif pa.types.is_time(t):
        array = array.view(wanted.type)
    return boolean_array(values(pc.is_in(array, value_set=wanted)), validity(array))


@lru_cache(maxsize=8)
def _value_set(literals: tuple[Literal, ...], t: pa.DataType) -> pa.Array:
    """The values of a list, made once for all batches; of timestamps those that can be equal to `_comparable_ticks`."""
    if pa.types.is_timestamp(t):
        scale = {"s": 1_000_000, "ms": 1000}.get(t.unit, 1)
        moments = [_micros_of(literal, t) for literal in literals]
        return array_of([m // scale for m in moments if m % scale == 0], pa.int64())
    if pa.types.is_time(t):
        return array_of(literals, pa.int32() if pa.types.is_time32(t) else pa.int64())
    if pa.types.is_floating(t) and 0.0 in literals:
        literals = (*literals, 0.0, -0.0)
    return array_of(literals, t)


def _micros_of(literal: Literal, t: pa.DataType) -> int:
    if not isinstance(literal, datetime):
        raise InvalidInputError(f"literal {sql_quoted(literal)} does not fit a column of type {t}")
    return microseconds(literal)


def _comparable_ticks(array: pa.Array) -> pa.Array:
    """Timestamps as numbers of their unit; nanoseconds as microseconds, rounded down."""
    ticks = array.view(pa.int64())
    if array.type.unit != "ns":
        return ticks
    # Integer division rounds down, and keeps every literal inside 64 bits.
    return fixed_array(np.floor_divide(values(ticks), 1000), pa.int64(), validity(array))


def _evaluate(predicate: Predicate, batch: Batch) -> pa.BooleanArray:
    match predicate:
        case And(children):
            return _joined(children, batch, pc.and_kleene, True)
        case Or(children):
            return _joined(children, batch, pc.or_kleene, False)
        case Not(child):
            return pc.invert(_evaluate(child, batch))
        case Constant(value):
            return _constant(value, batch.num_rows)
        case Compare(op, column, literal):
            return compare(op, column_of(batch, column), literal)
        case NullSafeEqual(column, wanted):
            array = column_of(batch, column)
            return pc.is_null(array) if wanted is None else certain(compare(Op.EQ, array, wanted))
        case In(column, literals, has_null):
            found = one_of(column_of(batch, column), literals)
            return pc.or_kleene(found, pa.nulls(len(found), pa.bool_())) if has_null else found
        case IsNull(column):
            return pc.is_null(column_of(batch, column))
        case IsNotNull(column):
            return pc.is_valid(column_of(batch, column))
        case Text(op, column, pattern):
            return text_matches(_TEXT_FUNCTIONS[op], column_of(batch, column), pattern)
        case Computed(expression):
            return evaluate(expression, batch)


def _joined(
    children: Sequence[Predicate], batch: Batch, join: Callable[[pa.Array, pa.Array], pa.Array], neutral: bool
) -> pa.BooleanArray:
    """AND or OR; a row that is decided is not evaluated further when that could fail."""
    if not children:
        return _constant(neutral, batch.num_rows)
    found = _evaluate(children[0], batch)
    for child in children[1:]:
        if condition_can_fail(child):
            is_open = ~validity(found) | (values(found) == neutral)
            mask = computed_where(partial(_evaluate, child), batch, is_open)
        else:
            mask = _evaluate(child, batch)
        found = join(found, mask)
    return found


def _constant(value: bool | None, length: int) -> pa.BooleanArray:
    if value is None:
        return pa.nulls(length, pa.bool_())
    return boolean_array(np.full(length, value, np.bool_))


def _compare_floats(op: Op, array: pa.Array, literal: float) -> pa.BooleanArray:
    if math.isnan(literal):
        return _compare_with_nan(op, array)
    if pa.types.is_float32(array.type) and float(np.float32(literal)) != literal:
        array = array.cast(pa.float64())
    mask = pc.call_function(_KERNELS[op], [array, scalar_of(literal, array.type)])
    return pc.or_(mask, pc.is_nan(array)) if op in (Op.GT, Op.GE) else mask


def _compare_with_nan(op: Op, array: pa.Array) -> pa.BooleanArray:
    match op:
        case Op.EQ | Op.GE:
            return pc.is_nan(array)
        case Op.NE | Op.LT:
            return pc.invert(pc.is_nan(array))
        case _:
            outcome = op is Op.LE
            return boolean_array(np.full(len(array), outcome, np.bool_), validity(array))


def _compare_timestamps(op: Op, array: pa.Array, literal: Literal) -> pa.BooleanArray:
    wanted = _micros_of(literal, array.type)
    ticks = _comparable_ticks(array)
    match array.type.unit:
        case "ms" | "s" as unit:
            scale = 1000 if unit == "ms" else 1_000_000
            floor, rest = divmod(wanted, scale)
            if rest:
                return _compare_between_ticks(op, ticks, floor)
            wanted = floor
    return pc.call_function(_KERNELS[op], [ticks, scalar_of(wanted, pa.int64())])


def _compare_between_ticks(op: Op, ticks: pa.Array, floor: int) -> pa.BooleanArray:
    """Compare with a moment between tick `floor` and the next."""
    if op in (Op.EQ, Op.NE):
        return boolean_array(np.full(len(ticks), op is Op.NE, np.bool_), validity(ticks))
    below = op in (Op.LT, Op.LE)
    return pc.call_function("less_equal" if below else "greater", [ticks, scalar_of(floor, pa.int64())])
