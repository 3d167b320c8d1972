"""Expressions with the types that they have in Spark's ANSI mode.

Implicit casts are written out, and results have the types that Spark gives them.

Source: Spark `AnsiTypeCoercion`, `DecimalPrecisionTypeCoercion`, `BinaryArithmetic.resultDecimalType`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Final

from paimon_spark.errors import DataError, PredicateSyntaxError
from paimon_spark.format.arrays.arrow_numpy import array_of, microseconds
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.predicate import casts, zones
from paimon_spark.predicate.ast import Column, Expression, Function, FunctionCall, Literal, Value, columns_in, type_text
from paimon_spark.predicate.casts import UNTYPED, plain_type
from paimon_spark.predicate.literals import check_digits
from paimon_spark.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    INTEGER_NAMES,
    STRING,
    AtomicType,
    DataType,
    DecimalType,
    TimestampType,
    TimeType,
)

TIMESTAMP: Final = TimestampType(True, 6, True)
TIMESTAMP_NTZ: Final = TimestampType(True, 6, False)

_KNOWN: Final = (
    *("BOOLEAN", *INTEGER_NAMES, "FLOAT", "DOUBLE", "DECIMAL"),
    *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "VOID"),
)
_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_MOST_DIGITS: Final = 38
_LONG_DIGITS: Final = 18
_MIN_SCALE: Final = 6
_BIGINT: Final = 2**63
_INT: Final = 2**31


def number(value: float | Decimal) -> Value:
    """A numeric literal, with the type that Spark gives it. Raises PredicateSyntaxError."""
    if isinstance(value, int) and -_BIGINT <= value < _BIGINT:
        return Value(value, INT if -_INT <= value < _INT else BIGINT)
    if isinstance(value, float):
        return Value(value, DOUBLE)
    exact = Decimal(value)  # a Decimal, or a whole number beyond BIGINT
    _, digits, exponent = exact.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits), scale)
    if precision > _MOST_DIGITS:
        raise PredicateSyntaxError(f"{value} has more than {_MOST_DIGITS} digits")
    return Value(exact, DecimalType(True, precision, scale))


@dataclass(frozen=True, slots=True)
class Coercion:
    """Makes expressions of typed parts.

    Every method raises PredicateSyntaxError for types that do not fit.

    Attributes:
        zone: time zone of casts between timestamps, dates and text; None is the machine's.
    """

    zone: tzinfo | None

    def cast(self, expression: Expression, target: DataType) -> Expression:
        """The expression as `target`, a type as `plain_type` gives it; a literal is cast at once."""
        source = type_of(expression)
        if source == target:
            return expression
        if isinstance(expression, Value) and expression.value is None:
            return Value(None, target)
        if not casts.can_cast(source, target):
            raise PredicateSyntaxError(f"a cast of {type_text(source)} to {type_text(target)} is not supported")
        zone = self._zone() if casts.depends_on_zone(source, target) else None
        if isinstance(expression, Value):
            folded = _folded(expression, target, zone)
            if not _is_integer(target):  # a whole number with a cast has other digits beside DECIMAL than one without
                return folded
        return FunctionCall(Function.CAST, (expression,), target, zone)

    def _zone(self) -> tzinfo:
        found = zones.machine_zone() if self.zone is None else self.zone
        if found is None:
            raise PredicateSyntaxError("the time zone of this machine has no known name; set the option time-zone")
        return found

    def arithmetic(self, function: Function, left: Expression, right: Expression) -> Expression:
        """An operator between numbers."""
        if type_of(left) == UNTYPED or type_of(right) == UNTYPED:
            other = type_of(right) if type_of(left) == UNTYPED else type_of(left)
            return Value(None, INT if other == UNTYPED else other)
        for part in (left, right):
            if not _is_number(type_of(part)):
                raise PredicateSyntaxError(
                    f"{function.value} needs numbers, found {_shown(part)}; cast text to a numeric type"
                )
        if _uses_decimals(left, right):
            return self._decimal_arithmetic(function, left, right)
        wide = _common(type_of(left), type_of(right))
        assert wide is not None
        wide = DOUBLE if function is Function.DIVIDE or isinstance(wide, DecimalType) else wide
        return FunctionCall(function, (self.cast(left, wide), self.cast(right, wide)), wide)

    def _decimal_arithmetic(self, function: Function, left: Expression, right: Expression) -> Expression:
        parts = [self.cast(e, _as_decimal(e)) for e in (left, right)]
        a, b = (type_of(part) for part in parts)
        assert isinstance(a, DecimalType)
        assert isinstance(b, DecimalType)
        scale = max(a.scale, b.scale)
        whole_a, whole_b = a.precision - a.scale, b.precision - b.scale
        match function:
            case Function.MULTIPLY:
                precision, scale = a.precision + b.precision + 1, a.scale + b.scale
            case Function.DIVIDE:
                scale = max(_MIN_SCALE, a.scale + b.precision + 1)
                precision = whole_a + b.scale + scale
            case Function.REMAINDER:
                precision = min(whole_a, whole_b) + scale
            case _:
                precision = max(whole_a, whole_b) + scale + 1
        too_wide = function is Function.REMAINDER and max(whole_a, whole_b) + scale > _LONG_DIGITS
        if precision > _MOST_DIGITS or too_wide:
            raise PredicateSyntaxError(
                f"{function.value} of {type_text(a)} and {type_text(b)} needs more digits than are supported; cast one "
                "of them to a smaller DECIMAL, or to DOUBLE"
            )
        return FunctionCall(function, tuple(parts), DecimalType(True, precision, scale))

    def negated(self, expression: Expression) -> Expression:
        """`-expression`."""
        return self._of_number(Function.NEGATE, expression)

    def absolute(self, expression: Expression) -> Expression:
        """`abs(expression)`."""
        return self._of_number(Function.ABS, expression)

    def _of_number(self, function: Function, expression: Expression) -> Expression:
        kind = type_of(expression)
        if not _is_number(kind):
            raise PredicateSyntaxError(f"{function.value} needs a number, found {_shown(expression)}; cast it")
        return FunctionCall(function, (expression,), kind)

    def comparison(self, function: Function, left: Expression, right: Expression) -> Expression:
        """A comparison, of what both sides are cast to."""
        wide = _common(type_of(left), type_of(right))
        if wide is None:
            raise PredicateSyntaxError(f"{_shown(left)} and {_shown(right)} cannot be compared; cast one of them")
        if wide == UNTYPED:
            wide = BOOLEAN
        parts = (self.cast(left, wide), self.cast(right, wide))
        _check_clocks(parts)
        return FunctionCall(function, parts, BOOLEAN)

    def one_of(self, expression: Expression, choices: Sequence[Expression]) -> Expression:
        """`expression IN (choices…)`, compared as the one type of all of them."""
        parts = self._alike((expression, *choices), "IN")
        _check_clocks(parts)
        return FunctionCall(Function.IN, parts, BOOLEAN)

    def coalesce(self, args: Sequence[Expression]) -> Expression:
        """The first of `args` that is not null."""
        alike = self._alike(args, "coalesce")
        return alike[0] if len(alike) == 1 else FunctionCall(Function.COALESCE, alike, type_of(alike[0]))

    def _alike(self, parts: Sequence[Expression], name: str) -> tuple[Expression, ...]:
        kinds = sorted((type_of(part) for part in parts), key=lambda t: t != STRING)
        wide: DataType | None = kinds[0]
        for kind in kinds[1:]:
            wide = None if wide is None else _common(wide, kind)
        if wide is None:
            raise PredicateSyntaxError(f"{name} needs values of one type, found {', '.join(map(_shown, parts))}")
        wide = BOOLEAN if wide == UNTYPED else wide
        return tuple(self.cast(part, wide) for part in parts)

    def of_text(self, function: Function, subject: Expression, *args: Expression) -> FunctionCall:
        """LOWER, UPPER, SUBSTRING, LENGTH or a match of text."""
        kind = type_of(subject)
        if kind == UNTYPED:
            subject, kind = Value(None, STRING), STRING
        if kind != STRING and not (kind == BYTES and function is Function.LENGTH):
            raise PredicateSyntaxError(f"{function.value} needs text, found {_shown(subject)}; cast it to STRING")
        results = {Function.LENGTH: INT, Function.LOWER: STRING, Function.UPPER: STRING, Function.SUBSTRING: STRING}
        return FunctionCall(function, (subject, *args), results.get(function, BOOLEAN))

    def of_date(self, function: Function, subject: Expression) -> FunctionCall:
        """YEAR, MONTH or DAY of a date, a timestamp, or text that is one."""
        self._require_time(function, subject)
        return FunctionCall(function, (self.cast(subject, DATE),), INT)

    def date_trunc(self, unit: str, subject: Expression) -> Expression:
        """DATE_TRUNC, always an instant; null for what is not a unit."""
        self._require_time(Function.DATE_TRUNC, subject)
        instant = self.cast(subject, TIMESTAMP)
        if unit.upper() not in zones.UNITS:
            return Value(None, TIMESTAMP)
        return FunctionCall(Function.DATE_TRUNC, (Value(unit.upper(), STRING), instant), TIMESTAMP, self._zone())

    def _require_time(self, function: Function, subject: Expression) -> None:
        if type_of(subject) not in (DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING, UNTYPED):
            raise PredicateSyntaxError(f"{function.value} needs a date or timestamp, found {_shown(subject)}; cast it")


def _check_clocks(parts: Sequence[Expression]) -> None:
    """Refuse wall clocks beside instants near which the zone changes its offset.

    Spark makes instants of the clocks, or a clock of the instant when it is a literal: there the two differ.
    """
    clocks = [p for p in parts if isinstance(p, FunctionCall) and p.function is Function.CAST and p.type == TIMESTAMP]
    if not any(type_of(p.args[0]) in (DATE, TIMESTAMP_NTZ) for p in clocks):
        return
    for part in parts:
        match part:
            case Value(datetime() as moment):
                zone = next(p.zone for p in clocks if p.zone is not None)
                if zones.is_steady(microseconds(moment), zone):
                    continue
            case Value():
                continue
            case _ if any(True for _ in columns_in(part)):
                continue
        raise PredicateSyntaxError(
            "dates or timestamps without a zone are compared with an instant near which the time zone changes its "
            "offset; write a literal without a zone, such as TIMESTAMP_NTZ '2024-01-01 00:00:00'"
        )


def type_of(expression: Expression) -> DataType:
    """The type of an expression's values. Raises PredicateSyntaxError for types not supported."""
    found = plain_type(expression.type)
    if casts.family(found) not in _KNOWN:
        advice = "compare its column with a literal" if isinstance(found, TimeType) else "test its column with IS NULL"
        raise PredicateSyntaxError(f"{found} is not supported in expressions; {advice}")
    return found


def _common(a: DataType, b: DataType) -> DataType | None:
    """The type that Spark compares values of two types in."""
    if a == b or b == UNTYPED:
        return a
    if a == UNTYPED:
        return b
    if _is_number(a) and _is_number(b):
        return _wider_number(a, b)
    if STRING in (a, b):
        other = b if a == STRING else a
        if _is_integer(other):
            return BIGINT
        return DOUBLE if _is_number(other) else other
    times = {a, b}
    if times <= {DATE, TIMESTAMP, TIMESTAMP_NTZ}:
        return TIMESTAMP if TIMESTAMP in times else TIMESTAMP_NTZ
    return None


def _wider_number(a: DataType, b: DataType) -> DataType:
    names = [t.name if isinstance(t, AtomicType) else "DECIMAL" for t in (a, b)]
    if "FLOAT" in names or "DOUBLE" in names:
        return DOUBLE  # two FLOATs are one type
    if "DECIMAL" not in names:
        return a if INTEGER_NAMES.index(names[0]) > INTEGER_NAMES.index(names[1]) else b
    x, y = (
        t if isinstance(t, DecimalType) else DecimalType(True, _DIGITS[n], 0)
        for t, n in zip((a, b), names, strict=True)
    )
    scale = max(x.scale, y.scale)
    precision = max(x.precision - x.scale, y.precision - y.scale) + scale
    if precision > _MOST_DIGITS:
        raise PredicateSyntaxError(
            f"{type_text(a)} and {type_text(b)} have no common type of {_MOST_DIGITS} digits; cast one of them"
        )
    return DecimalType(True, precision, scale)


def _uses_decimals(left: Expression, right: Expression) -> bool:
    kinds = (type_of(left), type_of(right))
    return any(isinstance(t, DecimalType) for t in kinds) and all(
        isinstance(t, DecimalType) or _is_integer(t) for t in kinds
    )


def _as_decimal(expression: Expression) -> DecimalType:
    """The DECIMAL that a number is cast to beside a DECIMAL; of a literal, of its digits."""
    kind = type_of(expression)
    if isinstance(kind, DecimalType):
        return kind
    match expression:
        case Value(int() as value):
            return DecimalType(True, len(str(abs(value))), 0)
        case FunctionCall(Function.CAST, (Value(int()),)) if kind != INT:
            # 5L and CAST(5 AS BIGINT) are read as the same, but Spark gives them different digits.
            raise PredicateSyntaxError("a whole number with a type, such as 5L, beside a DECIMAL; write it without")
    assert isinstance(kind, AtomicType)
    return DecimalType(True, _DIGITS[kind.name], 0)


def _is_integer(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.name in INTEGER_NAMES


def _is_number(t: DataType) -> bool:
    return isinstance(t, DecimalType) or (isinstance(t, AtomicType) and t.name in (*INTEGER_NAMES, "FLOAT", "DOUBLE"))


def _folded(value: Value, target: DataType, zone: tzinfo | None) -> Value:
    """A literal as another type."""
    if isinstance(value.value, str) and isinstance(target, TimestampType):
        check_digits(value.value)
    one = array_of((value.value,), arrow_type(value.type))
    try:
        found: Literal = casts.cast(one, value.type, target, zone)[0].as_py()
    except DataError as e:
        raise PredicateSyntaxError(e.message.rpartition(";")[0]) from e  # without the advice about rows
    if isinstance(found, datetime) and found.tzinfo is not None:
        found = found.astimezone(UTC)
    return Value(found, target)


def literal_of(expression: Expression) -> Value | None:
    """The literal that an expression is, if it is one or the cast of one."""
    match expression:
        case Value():
            return expression
        case FunctionCall(Function.CAST, (Value() as value,), target, zone):
            return _folded(value, target, zone)
    return None


def _shown(expression: Expression) -> str:
    kind = type_text(type_of(expression))
    if isinstance(expression, Column):
        return f"column {expression}, {kind}"
    return f"a value of type {kind}"
