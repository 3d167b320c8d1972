"""Evaluation of expressions on Arrow data, as in Spark's ANSI mode.

Overflow and division by zero are errors.

What Spark does not evaluate for a row cannot fail for it: the right of a null, what follows the first value of COALESCE
or the match of IN.

Source: Spark `arithmetic.scala`, `stringExpressions.scala`, `datetimeExpressions.scala`, `DateTimeUtils`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import ColumnNotFoundError, DataError
from paimon_spark.format.arrays.arrow_numpy import (
    array_of,
    boolean_array,
    decimal_halves,
    fixed_array,
    one_chunk,
    scalar_of,
    take_indices,
    valid_or_none,
    validity,
    values,
)
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.casts.timestamps import rescale
from paimon_spark.predicate import casts, zones
from paimon_spark.predicate.ast import Column, Expression, Function, FunctionCall, Value
from paimon_spark.predicate.patterns import like_shape, rlike_shape
from paimon_spark.types import DecimalType

Batch: TypeAlias = pa.RecordBatch | pa.Table

_FALLIBLE: Final = frozenset(
    (
        *(Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.REMAINDER),
        *(Function.NEGATE, Function.ABS, Function.CAST, Function.LOWER, Function.UPPER),
    )
)
_CHECKED: Final = {Function.ADD: "add_checked", Function.SUBTRACT: "subtract_checked"}
_KERNELS: Final = {
    Function.EQ: "equal",
    Function.NE: "not_equal",
    Function.LT: "less",
    Function.LE: "less_equal",
    Function.GT: "greater",
    Function.GE: "greater_equal",
}


_NEW_CASES: Final = (
    r"[\x{19B}\x{264}\x{1C89}\x{1C8A}\x{A7CB}-\x{A7DC}"
    r"\x{10D50}-\x{10D65}\x{10D70}-\x{10D85}\x{16EA0}-\x{16ED3}]"
)
"""Characters that have an upper or lower case since releases of Unicode after 14."""
_BEYOND_GREEK: Final = r"[^\x{0}-\x{24F}\x{370}-\x{3FF}\x{1F00}-\x{1FFF}\x{2000}-\x{206F}]"


def column_of(batch: Batch, column: Column) -> pa.Array:
    """The values of a column or nested field; null where a row around it is null. Raises ColumnNotFoundError."""
    index = batch.schema.get_field_index(column.path[0])
    if index < 0:
        raise ColumnNotFoundError(
            f"column {column} of the condition is not among {batch.schema.names}", column=str(column)
        )
    array = one_chunk(batch.column(index))
    for name in column.path[1:]:
        array = pc.struct_field(array, name)
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def can_fail(expression: Expression) -> bool:
    """Whether there may be rows for which the expression is an error."""
    return isinstance(expression, FunctionCall) and (
        expression.function in _FALLIBLE or any(can_fail(arg) for arg in expression.args)
    )


def evaluate(expression: Expression, batch: Batch) -> pa.Array:
    """The value of the expression for each row.

    Timestamps come in microseconds, rounded down, which is what Spark sees of them.

    Raises:
        ColumnNotFoundError: the batch lacks a column of it.
        DataError: overflow, division by zero, or a cast of a value that does not fit.
    """
    match expression:
        case Column():
            array = column_of(batch, expression)
            return rescale(array, pa.timestamp("us", array.type.tz)) if pa.types.is_timestamp(array.type) else array
        case Value():
            return _repeated(expression, batch.num_rows)
    return _FUNCTIONS[expression.function](expression, batch)


def evaluate_where(expression: Expression, batch: Batch, wanted: Any) -> pa.Array:
    """As `evaluate`, for the rows that are `wanted`; others may be null."""
    if not can_fail(expression):
        return evaluate(expression, batch)
    return computed_where(partial(evaluate, expression), batch, wanted)


def computed_where(compute: Callable[[Batch], pa.Array], batch: Batch, wanted: Any) -> pa.Array:
    """Results of `compute` for the rows that are `wanted`; others may be null."""
    if bool(wanted.all()) or batch.num_columns == 0:
        return compute(batch)
    return _scattered(compute(batch.take(take_indices(np.flatnonzero(wanted)))), wanted)


def _scattered(array: pa.Array, wanted: Any) -> pa.Array:
    """The values at the places that are `wanted`, in order, and nulls elsewhere."""
    numbers = np.cumsum(wanted, dtype=np.int64) - 1
    return array.take(fixed_array(np.where(wanted, numbers, 0), pa.int64(), wanted))


def _repeated(value: Value, length: int) -> pa.Array:
    if value.value is None:
        return pa.nulls(length, pa.null() if casts.is_untyped(value.type) else arrow_type(value.type))
    one = array_of((value.value,), arrow_type(value.type))
    return one.take(fixed_array(np.zeros(length, np.int64), pa.int64()))


def _pair(call: FunctionCall, batch: Batch) -> tuple[pa.Array, pa.Array]:
    left = evaluate(call.args[0], batch)
    return left, evaluate_where(call.args[1], batch, validity(left))


def _arithmetic(call: FunctionCall, batch: Batch) -> pa.Array:
    left, right = _pair(call, batch)
    if isinstance(call.type, DecimalType):
        wide = [a.cast(pa.decimal256(a.type.precision, a.type.scale)) for a in (left, right)]
        kernel = {Function.ADD: "add", Function.SUBTRACT: "subtract", Function.MULTIPLY: "multiply"}[call.function]
        return pc.call_function(kernel, wide).cast(arrow_type(call.type))
    if pa.types.is_floating(left.type):
        a, b = values(left), values(right)
        with np.errstate(all="ignore"):
            match call.function:
                case Function.ADD:
                    found = a + b
                case Function.SUBTRACT:
                    found = a - b
                case _:
                    found = a * b
        return fixed_array(found, left.type, validity(left) & validity(right))
    kernel = _CHECKED.get(call.function, "multiply_checked")
    return _without_overflow(call, lambda: pc.call_function(kernel, [left, right]))


def _without_overflow(call: FunctionCall, compute: Callable[[], pa.Array]) -> pa.Array:
    try:
        return compute()
    except pa.ArrowInvalid as e:
        raise DataError(
            f"overflow of {call.type.with_nullable(True)} in {call.function.value} of a condition; cast its operands "
            "to a wider type, or exclude such rows with an earlier condition"
        ) from e


def _divided(call: FunctionCall, batch: Batch) -> pa.Array:
    """Division and remainder. The divisor is evaluated first; a null beside zero is null."""
    right = evaluate(call.args[1], batch)
    left = evaluate_where(call.args[0], batch, validity(right))
    valid = validity(left) & validity(right)
    zero = pc.equal(right, scalar_of(0.0 if pa.types.is_floating(right.type) else 0, right.type))
    if bool((values(zero) & valid).any()):
        name = "division" if call.function is Function.DIVIDE else "remainder"
        raise DataError(
            f"{name} by zero in a condition; exclude such rows with an earlier condition, as in x <> 0 AND 1 / x > 2"
        )
    if isinstance(call.type, DecimalType):
        compute = _decimal_quotient if call.function is Function.DIVIDE else _decimal_remainder
        mask = boolean_array(valid)
        return _scattered(compute(left.filter(mask), right.filter(mask), call.type), valid)
    a, b = values(left), values(right)
    if call.function is Function.DIVIDE:
        with np.errstate(all="ignore"):
            return fixed_array(a / b, pa.float64(), valid)
    with np.errstate(all="ignore"):
        divisor = b if pa.types.is_floating(right.type) else np.where(valid & (b != -1), b, 1).astype(b.dtype)
        return fixed_array(np.fmod(a, divisor), left.type, valid)


def _decimal_quotient(left: pa.Array, right: pa.Array, target: DecimalType) -> pa.Array:
    """The quotient, rounded half away from zero.

    Arrow cuts off what is beyond its scale, which has one digit more.
    """
    scale = target.scale - right.type.precision
    digits = left.type.precision - left.type.scale + scale
    divisor = right.cast(pa.decimal256(right.type.precision, right.type.scale))
    found = pc.divide(left.cast(pa.decimal256(digits, left.type.scale)).cast(pa.decimal256(digits, scale)), divisor)
    return pc.round(found, ndigits=target.scale, round_mode="half_towards_infinity").cast(arrow_type(target))


def _decimal_remainder(left: pa.Array, right: pa.Array, target: DecimalType) -> pa.Array:
    scale = max(left.type.scale, right.type.scale)
    a, b = (decimal_halves(x.cast(pa.decimal128(18, scale)))[0] for x in (left, right))
    found = np.fmod(np.ascontiguousarray(a).view(np.int64), np.ascontiguousarray(b).view(np.int64))
    halves = np.empty((len(found), 2), np.int64)
    halves[:, 0], halves[:, 1] = found, found >> 63
    return fixed_array(halves, pa.decimal128(38, scale)).cast(arrow_type(target))


def _negated(call: FunctionCall, batch: Batch) -> pa.Array:
    array = evaluate(call.args[0], batch)
    if pa.types.is_decimal(array.type):
        return pc.negate(array)
    return _without_overflow(call, lambda: pc.call_function("negate_checked", [array]))


def _absolute(call: FunctionCall, batch: Batch) -> pa.Array:
    array = evaluate(call.args[0], batch)
    if pa.types.is_decimal(array.type):
        return pc.abs(array)
    return _without_overflow(call, lambda: pc.call_function("abs_checked", [array]))


def _cast(call: FunctionCall, batch: Batch) -> pa.Array:
    (arg,) = call.args
    return casts.cast(evaluate(arg, batch), casts.plain_type(arg.type), call.type, call.zone)


def _coalesce(call: FunctionCall, batch: Batch) -> pa.Array:
    found = evaluate(call.args[0], batch)
    for arg in call.args[1:]:
        missing = ~validity(found)
        if not missing.any():
            break
        found = pc.coalesce(found, evaluate_where(arg, batch, missing))
    return found


def _lower(call: FunctionCall, batch: Batch) -> pa.Array:
    return _in_case(evaluate(call.args[0], batch), "ascii_lower", str.lower)


def _upper(call: FunctionCall, batch: Batch) -> pa.Array:
    return _in_case(evaluate(call.args[0], batch), "ascii_upper", str.upper)


def _in_case(array: pa.Array, kernel: str, convert: Callable[[str], str]) -> pa.Array:
    """Text in lower or upper case: by characters of ASCII, else by Unicode's full mappings."""
    out = pc.call_function(kernel, [array])
    others = ~values(pc.string_is_ascii(array)) & validity(array)
    if not others.any():
        return out
    mask = boolean_array(others)
    encoded = array.filter(mask).dictionary_encode()
    _check_characters(encoded.dictionary)
    texts = array_of([convert(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return pc.replace_with_mask(out, mask, texts.take(encoded.indices))


def _check_characters(texts: pa.Array) -> None:
    """Refuse text whose case depends on the release of Unicode."""
    sigma = pc.match_substring(texts, pattern="Σ")  # its lower case depends on the characters around it
    doubtful = pc.or_(
        pc.match_substring_regex(texts, pattern=_NEW_CASES),
        pc.and_(sigma, pc.match_substring_regex(texts, pattern=_BEYOND_GREEK)),
    )
    if values(doubtful).any():
        text = texts.filter(doubtful)[0].as_py()
        raise DataError(
            f"lower or upper of {text!r} in a condition depends on the release of Unicode; exclude its row with "
            "an earlier condition",
            value=text,
        )


def _substring(call: FunctionCall, batch: Batch) -> pa.Array:
    """From a position, which counts from 1 or, where it is negative, from the end."""
    array = evaluate(call.args[0], batch)
    position, length = (int(arg.value) for arg in call.args[1:] if isinstance(arg, Value))  # type: ignore[arg-type]
    if length <= 0:
        return pc.utf8_slice_codeunits(array, start=0, stop=0)
    start = position - 1 if position > 0 else position
    stop = start + length
    return pc.utf8_slice_codeunits(array, start=start, stop=None if start < 0 <= stop else stop)


def _length(call: FunctionCall, batch: Batch) -> pa.Array:
    array = evaluate(call.args[0], batch)
    return pc.binary_length(array) if pa.types.is_binary(array.type) else pc.utf8_length(array)


def _days(call: FunctionCall, batch: Batch) -> tuple[pa.Array, Any]:
    array = evaluate(call.args[0], batch)
    days = np.where(validity(array), values(array), 0)
    return array, days.astype("datetime64[D]")


def _integers(array: pa.Array, found: Any) -> pa.Array:
    return fixed_array(found.astype(np.int32), pa.int32(), valid_or_none(array))


def _year(call: FunctionCall, batch: Batch) -> pa.Array:
    array, days = _days(call, batch)
    return _integers(array, days.astype("datetime64[Y]").astype(np.int64) + 1970)


def _month(call: FunctionCall, batch: Batch) -> pa.Array:
    array, days = _days(call, batch)
    return _integers(array, days.astype("datetime64[M]").astype(np.int64) % 12 + 1)


def _day(call: FunctionCall, batch: Batch) -> pa.Array:
    array, days = _days(call, batch)
    return _integers(array, (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1)


def _date_trunc(call: FunctionCall, batch: Batch) -> pa.Array:
    unit, arg = call.args
    assert isinstance(unit, Value)
    assert isinstance(unit.value, str)
    assert call.zone is not None
    array = evaluate(arg, batch)
    instants = np.where(validity(array), values(array), 0)
    return fixed_array(zones.truncated(instants, unit.value, call.zone), array.type, valid_or_none(array))


def _comparison(call: FunctionCall, batch: Batch) -> pa.Array:
    return compared(call.function, *_pair(call, batch))


def compared(function: Function, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    """A comparison of two arrays of one type, null where one is null; NaN is largest."""
    if pa.types.is_timestamp(left.type):
        left, right = left.view(pa.int64()), right.view(pa.int64())
    if not pa.types.is_floating(left.type):
        return pc.call_function(_KERNELS[function], [left, right])
    a, b = values(left), values(right)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    equal, less = (a == b) | (nan_a & nan_b), (a < b) | (~nan_a & nan_b)
    found = {
        Function.EQ: equal,
        Function.NE: ~equal,
        Function.LT: less,
        Function.LE: less | equal,
        Function.GT: ~(less | equal),
        Function.GE: ~less,
    }[function]
    return boolean_array(found, validity(left) & validity(right))


def _null_safe_equal(call: FunctionCall, batch: Batch) -> pa.Array:
    left, right = (evaluate(arg, batch) for arg in call.args)
    equal = compared(Function.EQ, left, right)
    both = ~validity(left) & ~validity(right)
    return boolean_array((values(equal) & validity(equal)) | both)


def _one_of(call: FunctionCall, batch: Batch) -> pa.Array:
    array = evaluate(call.args[0], batch)
    found = boolean_array(np.zeros(len(array), np.bool_), validity(array))
    for arg in call.args[1:]:
        open_rows = validity(array) & ~(values(found) & validity(found))
        found = pc.or_kleene(found, compared(Function.EQ, array, evaluate_where(arg, batch, open_rows)))
    return boolean_array(values(found), validity(found) & validity(array))


def _is_null(call: FunctionCall, batch: Batch) -> pa.Array:
    return pc.is_null(evaluate(call.args[0], batch))


def _text_test(call: FunctionCall, batch: Batch) -> pa.Array:
    pattern = call.args[1]
    assert isinstance(pattern, Value)
    assert isinstance(pattern.value, str)
    return text_matches(call.function, evaluate(call.args[0], batch), pattern.value)


def text_matches(function: Function, array: pa.Array, pattern: str) -> pa.Array:
    """Text matching for each value, null for null."""
    match function:
        case Function.STARTS_WITH:
            return pc.starts_with(array, pattern=pattern)
        case Function.ENDS_WITH:
            return pc.ends_with(array, pattern=pattern)
        case Function.CONTAINS:
            return pc.match_substring(array, pattern=pattern)
        case Function.RLIKE:
            return _rlike(array, pattern)
    shape = like_shape(pattern)
    if shape.exact:
        return pc.equal(array, scalar_of(shape.prefix, array.type))
    return pc.match_substring_regex(array, pattern=shape.regex)


def _rlike(array: pa.Array, pattern: str) -> pa.Array:
    regex, line_end = rlike_shape(pattern)
    found = pc.match_substring_regex(array, pattern=regex)
    if line_end is None:
        return found
    stripped = pc.replace_substring_regex(array, pattern=line_end, replacement="")
    return pc.or_(found, pc.match_substring_regex(stripped, pattern=regex))


_FUNCTIONS: Final[dict[Function, Callable[[FunctionCall, Batch], pa.Array]]] = {
    **dict.fromkeys((Function.ADD, Function.SUBTRACT, Function.MULTIPLY), _arithmetic),
    **dict.fromkeys((Function.DIVIDE, Function.REMAINDER), _divided),
    Function.NEGATE: _negated,
    Function.ABS: _absolute,
    Function.CAST: _cast,
    Function.COALESCE: _coalesce,
    Function.LOWER: _lower,
    Function.UPPER: _upper,
    Function.SUBSTRING: _substring,
    Function.LENGTH: _length,
    Function.YEAR: _year,
    Function.MONTH: _month,
    Function.DAY: _day,
    Function.DATE_TRUNC: _date_trunc,
    **dict.fromkeys(_KERNELS, _comparison),
    Function.NULL_SAFE_EQ: _null_safe_equal,
    Function.IN: _one_of,
    Function.IS_NULL: _is_null,
    **dict.fromkeys(
        (Function.LIKE, Function.RLIKE, Function.STARTS_WITH, Function.ENDS_WITH, Function.CONTAINS), _text_test
    ),
}
