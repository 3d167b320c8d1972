"""Parse SQL conditions in Spark's dialect, as text or as sqlglot's trees, into predicates.

A comparison of a column with literals becomes a node that files can be skipped by; what has arithmetic, functions or
columns on both sides is computed. Everything else is refused by name and position, never approximated.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import tzinfo
from itertools import pairwise
from typing import Any, Final

import sqlglot
from sqlglot import exp

from paimon_spark.errors import ColumnNotFoundError, PredicateSyntaxError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate import literals
from paimon_spark.predicate.ast import (
    And,
    Column,
    Compare,
    Computed,
    Constant,
    Expression,
    Function,
    FunctionCall,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
    Value,
)
from paimon_spark.predicate.coercion import literal_of
from paimon_spark.predicate.terms import COMPARISONS, Node, Terms, is_column, is_negated, unwrapped
from paimon_spark.spark_port import session_time_zone
from paimon_spark.text import is_storable
from paimon_spark.types import BOOLEAN, INTEGER_NAMES, AtomicType, RowType

_OPS: Final = {Function(op.value): op for op in Op}
_COMPARISONS: Final = {node: _OPS[function] for node, function in COMPARISONS.items() if function in _OPS}
_SWAPPED: Final = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_OPERATORS: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_LONG_TEXT: Final = 2000
_NUMBERS_OF_COLUMN: Final = re.compile(
    r"\s*([a-z_]\w*)\s+in\s*\((\s*-?\d{1,18}(?:\s*,\s*-?\d{1,18})*)\s*\)\s*", re.ASCII | re.IGNORECASE
)
_INTEGERS: Final = tuple(AtomicType(name=name) for name in INTEGER_NAMES)
_TEXT_OPS: Final = {
    Function.LIKE: TextOp.LIKE,
    Function.STARTS_WITH: TextOp.STARTS_WITH,
    Function.ENDS_WITH: TextOp.ENDS_WITH,
    Function.CONTAINS: TextOp.CONTAINS,
}


def parse_predicate(text: str, row_type: RowType, time_zone: str | None = None) -> Predicate:
    """The tree of a SQL condition over the columns of `row_type`.

    Column names match exactly, else in any case when that is unambiguous. Fields inside rows are `a.b`.

    Args:
        text: what would stand after WHERE.
        row_type: the columns the text may name.
        time_zone: zone of timestamp text without one; None is that of the active Spark session, else the machine's.

    Raises:
        PredicateSyntaxError: not SQL, or an expression that has no place in a predicate.
        ColumnNotFoundError: a column that does not exist, with the nearest name.
        InvalidOptionError: no such time zone.
    """
    listed = _long_list(text, row_type, time_zone) if len(text) > _LONG_TEXT else None
    if listed is not None:
        return listed
    if not is_storable(text):
        raise PredicateSyntaxError(f"the condition {text!r} has half of a surrogate pair, which is no text", text=text)
    try:
        spark = sqlglot.Dialect.get_or_raise("spark")
        level = sqlglot.ErrorLevel.RAISE
        # As a statement, `comment = 'x'` would be a command.
        statements = spark.parse_into(exp.Condition, _with_escaped_quotes(text), error_level=level)
    except sqlglot.errors.SqlglotError as e:
        raise PredicateSyntaxError(f"cannot parse the condition {text!r}: {_cause(e)}", text=text) from e
    except RecursionError as e:
        raise PredicateSyntaxError("the condition is nested too deeply", text=text[:200]) from e
    if len(statements) != 1 or statements[0] is None:
        raise PredicateSyntaxError(f"expected one condition, found {text!r}", text=text)
    return build_predicate(statements[0], row_type, time_zone, text)


def _long_list(text: str, row_type: RowType, time_zone: str | None) -> Predicate | None:
    """The predicate of nothing but a column and a long list of numbers, which sqlglot takes long for; else None."""
    match = _NUMBERS_OF_COLUMN.fullmatch(text)
    first = None if match is None else parse_predicate(f"{match[1]} IN (0)", row_type, time_zone)
    if match is None or not isinstance(first, In) or first.column.type.with_nullable(True) not in _INTEGERS:
        return None
    return literals.one_of(first.column, map(int, match[2].split(",")))


def _with_escaped_quotes(text: str) -> str:
    """The text with a backslash before quotes that are doubled inside of literals."""
    if "''" not in text and '""' not in text:
        return text
    tokens = sqlglot.tokenize(text, read="spark")
    for one, following in pairwise(tokens):
        quote = text[following.start]
        if one.end + 1 != following.start or quote not in "'\"" or text[one.end] != quote:
            continue
        if text[one.start] != quote:  # r'…', in which a backslash is one
            raise PredicateSyntaxError(
                f"cannot parse the condition {text!r}: a quote is doubled in a raw literal at position {one.end + 1}",
                text=text,
            )
        text = f"{text[: one.end]}\\{quote}{text[following.start + 1 :]}"
    return text


def build_predicate(tree: Node, row_type: RowType, time_zone: str | None = None, text: str | None = None) -> Predicate:
    """The predicate of a condition that sqlglot has parsed in Spark's dialect.

    Args:
        tree: the condition; the names of its columns are those of `row_type`, without the name of a table.
        row_type: the columns the condition may name.
        time_zone: zone of timestamp text without one; None is that of the active Spark session, else the machine's.
        text: the condition as written, for messages; None makes it from the tree.

    Raises: as `parse_predicate`.
    """
    shown = tree.sql("spark") if text is None else text
    try:
        zone = literals.zone_of(time_zone or session_time_zone())
        return _Builder(shown, row_type, zone, text is not None).predicate(tree)
    except RecursionError as e:
        raise PredicateSyntaxError("the condition is nested too deeply", text=shown[:200]) from e


def resolve_column(path: tuple[str, ...], row_type: RowType) -> Column:
    """The column, or field inside row columns, that `path` names.

    Raises ColumnNotFoundError: no such column, or several that differ only in case.
    """
    names: list[str] = []
    inside: RowType = row_type
    for i, part in enumerate(path):
        matches = [f for f in inside if f.name == part] or [f for f in inside if f.name.lower() == part.lower()]
        if len(matches) != 1:
            raise _no_column(path, part, inside, len(matches))
        field = matches[0]
        names.append(field.name)
        if i == len(path) - 1:
            return Column(tuple(names), field.type)
        if not isinstance(field.type, RowType):
            raise ColumnNotFoundError(
                f"column {'.'.join(path)!r}: {'.'.join(names)} is {field.type}, it has no fields",
                column=".".join(path),
            )
        inside = field.type
    raise ColumnNotFoundError("an empty column name")


def _no_column(path: tuple[str, ...], part: str, inside: RowType, found: int) -> ColumnNotFoundError:
    if found > 1:
        same = ", ".join(n for n in inside.names if n.lower() == part.lower())
        problem = f"column {'.'.join(path)!r} is ambiguous: {same}; write its name exactly"
    else:
        problem = f"column {'.'.join(path)!r} does not exist{did_you_mean(part, inside.names)}"
        problem = problem if problem.endswith("?") else f"{problem}; there are {', '.join(inside.names[:50])}"
    return ColumnNotFoundError(problem, column=".".join(path))


class _Builder:
    """Translates one sqlglot tree."""

    def __init__(self, text: str, row_type: RowType, zone: tzinfo | None, has_positions: bool) -> None:
        self.text = text
        self.row_type = row_type
        self.zone = zone
        self.terms = Terms(text, self.column, zone, has_positions=has_positions)

    def predicate(self, e: Node) -> Predicate:
        found = self._positive(e)
        return Not(found) if is_negated(e) else found

    def _positive(self, e: Node) -> Predicate:
        match e:
            case exp.Paren():
                return self.predicate(e.this)
            case exp.And():
                return And(tuple(self.predicate(part) for part in e.flatten()))
            case exp.Or():
                return Or(tuple(self.predicate(part) for part in e.flatten()))
            case exp.Not():
                inner = e.this
                if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null) and not is_negated(inner):
                    return self._is_not_null(inner)
                return Not(self.predicate(inner))
            case exp.Boolean():
                return Constant(bool(e.this))
            case exp.Null():
                return Constant(None)
            case exp.Column() | exp.Dot():
                return Compare(Op.EQ, self._boolean_column(e), True)
            case exp.Is():
                return self._is(e)
            case exp.In():
                return self._in(e)
            case exp.Between():
                return self._between(e)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                equal = self._null_safe_equal(e)
                return equal if isinstance(e, exp.NullSafeEQ) else Not(equal)
            case exp.Anonymous() if len(e.expressions) == 1 and str(e.this).lower() in ("isnull", "isnotnull"):
                is_null = exp.Is(this=e.expressions[0], expression=exp.Null())
                return self._is(is_null) if str(e.this).lower() == "isnull" else self._is_not_null(is_null)
        if type(e) in _COMPARISONS:
            self.terms.check_operands(e)
            return self._compared(_COMPARISONS[type(e)], e, e.this, e.expression)
        return self._condition(self.terms.condition(e))

    def _compared(self, op: Op, e: Node, left: Node, right: Node) -> Predicate:
        left, right = unwrapped(left), unwrapped(right)
        column, value, found = (left, right, op) if is_column(left) else (right, left, _SWAPPED[op])
        if not is_column(column) or is_column(value):
            constant = self._constant_comparison(op, left, right)
            return constant or self._condition(self.terms.comparison(Function(op.value), e, left, right))
        return self._simple(
            lambda: literals.compare(found, self.column(column), self.literal(value), self.zone),
            lambda: self.terms.comparison(Function(op.value), e, left, right),
        )

    def _simple(self, simple: Callable[[], Predicate], computed: Callable[[], Expression]) -> Predicate:
        """A condition between a column and literals; computed where that has no other form."""
        try:
            return simple()
        except PredicateSyntaxError as e:
            try:
                return self._condition(computed())
            except PredicateSyntaxError:
                raise e from None

    def _constant_comparison(self, op: Op, left: Node, right: Node) -> Constant | None:
        """`1 = 1` and its like, which programs put together."""
        if not isinstance(left, exp.Literal) or not isinstance(right, exp.Literal):
            return None
        a, b = self.literal(left), self.literal(right)
        if type(a) is not type(b) or not isinstance(a, int | str):
            return None
        return Constant(_OPERATORS[op](a, b))

    def _null_safe_equal(self, e: Node) -> Predicate:
        self.terms.check_operands(e)
        left, right = unwrapped(e.this), unwrapped(e.expression)
        column, value = (left, right) if is_column(left) else (right, left)

        def computed() -> Expression:
            return self.terms.comparison(Function.NULL_SAFE_EQ, e, left, right)

        if not is_column(column) or is_column(value):
            return self._condition(computed())
        return self._simple(
            lambda: literals.null_safe_equal(self.column(column), self.literal(value), self.zone), computed
        )

    def _is(self, e: exp.Is) -> Predicate:
        match e.expression:
            case exp.Null() if is_column(unwrapped(e.this)):
                return IsNull(self.column(e.this))
            case exp.Null():
                return self._condition(self.terms.condition(e))
            case exp.Boolean() as wanted if is_column(unwrapped(e.this)):
                return literals.null_safe_equal(self._boolean_column(e.this), bool(wanted.this))
        raise self.terms.unsupported(e)

    def _is_not_null(self, e: exp.Is) -> Predicate:
        return IsNotNull(self.column(e.this)) if is_column(unwrapped(e.this)) else Not(self._is(e))

    def _in(self, e: exp.In) -> Predicate:
        if e.args.get("query") is not None or e.args.get("unnest") is not None or not e.expressions:
            raise self.terms.unsupported(e)
        if not is_column(unwrapped(e.this)):
            return self._condition(self.terms.condition(e))
        return self._simple(
            lambda: literals.one_of(self.column(e.this), [self.literal(v) for v in e.expressions], self.zone),
            lambda: self.terms.condition(e),
        )

    def _between(self, e: exp.Between) -> Predicate:
        if e.args.get("symmetric"):
            raise self.terms.unsupported(e)
        low, high = e.args["low"], e.args["high"]
        return And((self._compared(Op.GE, e, e.this, low), self._compared(Op.LE, e, e.this, high)))

    def _condition(self, expression: Expression) -> Predicate:
        """The predicate of an expression, one that can skip files where it means the same."""
        match expression:
            case Value(None | True | False as value):
                return Constant(value)
            case FunctionCall(function, (Column() as column, Value(value))) if function in _OPS and value is not None:
                return literals.compare(_OPS[function], column, value, self.zone)
            case FunctionCall(function, (Value(value), Column() as column)) if function in _OPS and value is not None:
                return literals.compare(_SWAPPED[_OPS[function]], column, value, self.zone)
            case FunctionCall(function, (Column() as column, Value(str() as pattern))) if function in _TEXT_OPS:
                return Text(_TEXT_OPS[function], column, pattern)
        return Computed(expression)

    def column(self, e: Node) -> Column:
        """The column that a node names."""
        e = unwrapped(e)
        if not is_column(e):
            raise self.terms.unsupported(e)
        return resolve_column(_path(e), self.row_type)

    def _boolean_column(self, e: Node) -> Column:
        column = self.column(e)
        if column.type.with_nullable(True) != BOOLEAN:
            raise PredicateSyntaxError(
                f"column {column} is {column.type}, not BOOLEAN, so it is no condition in {self.text!r}; compare it",
                text=self.text,
            )
        return column

    def literal(self, e: Node) -> Literal | None:
        """The value of a literal expression; None for NULL."""
        found = literal_of(self.terms.expression(e))
        if found is None:
            raise self.terms.unsupported(e)
        return found.value


def _path(e: Node) -> tuple[str, ...]:
    if isinstance(e, exp.Dot):
        return (*_path(e.this), e.expression.name)
    assert isinstance(e, exp.Column)
    return tuple(part.name for part in e.parts)


def _cause(e: sqlglot.errors.SqlglotError) -> str:
    """Text that could not be parsed, and its position."""
    for found in e.errors if isinstance(e, sqlglot.errors.ParseError) else ():
        near = found["highlight"]
        place = f"{near!r} at position {found['col'] - len(near) + 1}" + (
            f" of line {found['line']}" if found["line"] > 1 else ""
        )
        kind, _, expected = found["description"].partition(" ")
        match kind:
            case "Required":
                return f"an operand is missing beside {place}"
            case "Expecting":
                return f"expected {expected} after {place}"
            case _:
                return f"unexpected {place}"
    return str(e).split("\n")[0]
