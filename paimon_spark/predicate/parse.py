"""Parse SQL conditions in Spark's dialect, as text or as sqlglot's trees, into predicates.

A comparison has a column on one side and a literal on the other; everything else (arithmetic, functions, two columns)
is refused by name, never approximated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import numpy as np
import sqlglot
from sqlglot import exp

from paimon_spark.errors import ColumnNotFoundError, PredicateSyntaxError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate import literals
from paimon_spark.predicate.ast import (
    And,
    Column,
    Compare,
    Constant,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
    like_pattern,
)
from paimon_spark.types import BOOLEAN, INTEGER_BITS, CharType, RowType

Node: TypeAlias = Any
"""A node of sqlglot's tree; releases of sqlglot differ in what they call its class."""

_COMPARISONS: Final[dict[type, tuple[Op, Op]]] = {
    # expression: operator, operator with the two sides swapped
    exp.EQ: (Op.EQ, Op.EQ),
    exp.NEQ: (Op.NE, Op.NE),
    exp.LT: (Op.LT, Op.GT),
    exp.LTE: (Op.LE, Op.GE),
    exp.GT: (Op.GT, Op.LT),
    exp.GTE: (Op.GE, Op.LE),
}
_OPERATORS: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_TEXT_FUNCTIONS: Final = {
    "startswith": TextOp.STARTS_WITH,
    "endswith": TextOp.ENDS_WITH,
    "contains": TextOp.CONTAINS,
}
_NUMBER_TYPES: Final = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"))
_ALLOWED: Final = (
    "use comparisons of a column with a literal (=, <>, <, <=, >, >=, <=>, IN, BETWEEN, LIKE, IS NULL), "
    "joined by AND, OR, NOT"
)


def parse_predicate(text: str, row_type: RowType, time_zone: str | None = None) -> Predicate:
    """The tree of a SQL condition over the columns of `row_type`.

    Column names match exactly, else in any case when that is unambiguous. Fields inside rows are `a.b`.

    Args:
        text: what would stand after WHERE.
        row_type: the columns the text may name.
        time_zone: zone of timestamp text without one; None is the machine's.

    Raises:
        PredicateSyntaxError: not SQL, or an expression that has no place in a predicate.
        ColumnNotFoundError: a column that does not exist, with the nearest name.
        InvalidOptionError: no such time zone.
    """
    try:
        # sqlglot logs what it falls back to; refuse instead.
        statements = sqlglot.parse(text, dialect="spark", error_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.SqlglotError as e:
        raise PredicateSyntaxError(f"cannot parse the condition {text!r}: {_first_line(e)}", text=text) from e
    except RecursionError as e:
        raise PredicateSyntaxError("the condition is nested too deeply", text=text[:200]) from e
    if len(statements) != 1 or statements[0] is None:
        raise PredicateSyntaxError(f"expected one condition, found {text!r}", text=text)
    return build_predicate(statements[0], row_type, time_zone, text)


def build_predicate(tree: Node, row_type: RowType, time_zone: str | None = None, text: str | None = None) -> Predicate:
    """The predicate of a condition that sqlglot has parsed in Spark's dialect.

    Args:
        tree: the condition; the names of its columns are those of `row_type`, without the name of a table.
        row_type: the columns the condition may name.
        time_zone: zone of timestamp text without one; None is the machine's.
        text: the condition as written, for messages; None makes it from the tree.

    Raises: as `parse_predicate`.
    """
    shown = tree.sql("spark") if text is None else text
    try:
        return _Builder(shown, row_type, literals.zone_of(time_zone)).predicate(tree)
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

    def __init__(self, text: str, row_type: RowType, zone: tzinfo | None) -> None:
        self.text = text
        self.row_type = row_type
        self.zone = zone

    def predicate(self, e: Node) -> Predicate:
        found = self._positive(e)
        return Not(found) if _is_negated(e) else found

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
                if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null) and not _is_negated(inner):
                    return IsNotNull(self.column(inner.this))
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
                column, value, _ = self._sides(e)
                equal = literals.null_safe_equal(column, value, self.zone)
                return equal if isinstance(e, exp.NullSafeEQ) else Not(equal)
            case exp.Like() | exp.Escape():
                return self._like(e)
            case exp.StartsWith() | exp.EndsWith() | exp.Contains() | exp.Anonymous():
                return self._function(e)
        if type(e) in _COMPARISONS:
            return self._comparison(e)
        raise self._unsupported(e)

    def _comparison(self, e: Node) -> Predicate:
        left, right = _unwrap(e.this), _unwrap(e.expression)
        if not _is_column(left) and not _is_column(right):
            return self._constant_comparison(e, left, right)
        column, value, swapped = self._sides(e)
        return literals.compare(_COMPARISONS[type(e)][swapped], column, value, self.zone)

    def _constant_comparison(self, e: Node, left: Node, right: Node) -> Predicate:
        """`1 = 1` and its like, which programs put together."""
        a, b = self.literal(left), self.literal(right)
        if a is None or b is None:
            return Constant(None)
        if type(a) is not type(b) or not isinstance(a, int | str):
            raise self._unsupported(e)
        return Constant(_OPERATORS[_COMPARISONS[type(e)][0]](a, b))

    def _sides(self, e: Node) -> tuple[Column, Literal | None, bool]:
        """Column, literal, and whether the literal came first."""
        left, right = _unwrap(e.this), _unwrap(e.expression)
        if _is_column(left) and _is_column(right):
            raise PredicateSyntaxError(
                f"{e.sql('spark')!r} compares two columns in {self.text!r}; {_ALLOWED}", text=self.text
            )
        if _is_column(left):
            return self.column(left), self.literal(right), False
        if _is_column(right):
            return self.column(right), self.literal(left), True
        raise self._unsupported(left if not isinstance(left, exp.Literal) else e)

    def _is(self, e: exp.Is) -> Predicate:
        match e.expression:
            case exp.Null():
                return IsNull(self.column(e.this))
            case exp.Boolean() as wanted:
                return literals.null_safe_equal(self._boolean_column(e.this), bool(wanted.this))
        raise self._unsupported(e)

    def _in(self, e: exp.In) -> Predicate:
        if e.args.get("query") is not None or e.args.get("unnest") is not None or not e.expressions:
            raise self._unsupported(e)
        values = [self.literal(_unwrap(v)) for v in e.expressions]
        return literals.one_of(self.column(e.this), values, self.zone)

    def _between(self, e: exp.Between) -> Predicate:
        if e.args.get("symmetric"):
            raise self._unsupported(e)
        column = self.column(e.this)
        low, high = self.literal(_unwrap(e.args["low"])), self.literal(_unwrap(e.args["high"]))
        not_below = literals.compare(Op.GE, column, low, self.zone)
        return And((not_below, literals.compare(Op.LE, column, high, self.zone)))

    def _like(self, e: exp.Like | exp.Escape) -> Predicate:
        like, escape = e, "\\"
        if isinstance(e, exp.Escape):
            like, mark = e.this, self.literal(e.expression)
            if not isinstance(like, exp.Like) or not isinstance(mark, str) or len(mark) != 1:
                raise self._unsupported(e)
            escape = mark
        return self._text(e, TextOp.LIKE, like.this, like.expression, escape)

    def _function(self, e: Node) -> Predicate:
        name = (str(e.this) if isinstance(e, exp.Anonymous) else e.key).lower()
        args = e.expressions if isinstance(e, exp.Anonymous) else [e.this, e.expression]
        if name in ("isnull", "isnotnull") and len(args) == 1:
            column = self.column(args[0])
            return IsNull(column) if name == "isnull" else IsNotNull(column)
        if name not in _TEXT_FUNCTIONS or len(args) != 2:
            raise self._unsupported(e)
        return self._text(e, _TEXT_FUNCTIONS[name], args[0], args[1])

    def _text(self, e: Node, op: TextOp, subject: Node, pattern_node: Node, escape: str = "\\") -> Predicate:
        column, pattern = self._text_column(subject), self.literal(_unwrap(pattern_node))
        if pattern is None:
            return Constant(None)
        if not isinstance(pattern, str):
            raise self._unsupported(e)
        return Text(op, column, like_pattern(pattern, escape) if op is TextOp.LIKE else pattern)

    def column(self, e: Node) -> Column:
        e = _unwrap(e)
        if not _is_column(e):
            raise self._unsupported(e)
        return resolve_column(_path(e), self.row_type)

    def _boolean_column(self, e: Node) -> Column:
        column = self.column(e)
        if column.type.with_nullable(True) != BOOLEAN:
            raise PredicateSyntaxError(
                f"column {column} is {column.type}, not BOOLEAN, so it is no condition in {self.text!r}; compare it",
                text=self.text,
            )
        return column

    def _text_column(self, e: Node) -> Column:
        column = self.column(e)
        if not isinstance(column.type, CharType):
            raise PredicateSyntaxError(
                f"column {column} is {column.type}; text matching in {self.text!r} needs a text column",
                text=self.text,
            )
        return column

    def literal(self, e: Node) -> Literal | None:
        """The value of a literal expression; None for NULL."""
        match e:
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(e.this)
            case exp.Literal() if e.is_string:
                return str(e.this)
            case exp.Literal():
                return self._number(str(e.this))
            case exp.RawString() | exp.National():
                return str(e.this)
            case exp.Neg():
                value = self.literal(_unwrap(e.this))
                if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                    return -value
            case exp.HexString():
                digits = str(e.this)
                try:
                    return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
                except ValueError as error:
                    raise PredicateSyntaxError(f"X'{digits}' is not hexadecimal", text=self.text) from error
            case exp.Cast():
                return self._typed(e)
            case exp.Concat() if e.expressions:
                parts = [self.literal(part) for part in e.expressions]
                if all(isinstance(part, str) for part in parts):
                    return "".join(str(part) for part in parts)
        raise self._unsupported(e)

    def _number(self, digits: str) -> int | float | Decimal:
        try:
            if "e" in digits.lower():
                return float(digits)
            return Decimal(digits) if "." in digits else int(digits)
        except (ValueError, InvalidOperation) as e:
            raise PredicateSyntaxError(f"{digits!r} is not a number in {self.text!r}", text=self.text) from e

    def _typed(self, e: exp.Cast) -> Literal | None:
        """`DATE '…'`, `TIMESTAMP '…'`, `1.5D` and casts of literals to those types."""
        value, to = self.literal(_unwrap(e.this)), e.to.this.name
        if value is None:
            return None
        if to == "DATE" and isinstance(value, str):
            return literals.parse_date(value)
        if to in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ") and isinstance(value, str):
            return literals.parse_timestamp(value, self.zone, local_zone=True)
        if to in ("TIMESTAMPNTZ", "DATETIME") and isinstance(value, str):
            return literals.parse_timestamp(value, self.zone, local_zone=False)
        if to in _NUMBER_TYPES:
            return self._typed_number(e, value, to)
        if to in ("TEXT", "VARCHAR") and isinstance(value, str) and not e.to.expressions:
            return value
        if to == "BOOLEAN" and isinstance(value, bool):
            return value
        raise self._unsupported(e)

    def _typed_number(self, e: exp.Cast, value: Literal, to: str) -> Literal:
        convert: Callable[[str], int | float | Decimal]
        if to == "FLOAT":
            with np.errstate(over="ignore"):
                return float(np.float32(float(str(value))))
        convert = float if to == "DOUBLE" else Decimal if to == "DECIMAL" else int
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
            raise self._unsupported(e)
        try:
            number = convert(str(value))
        except (ValueError, InvalidOperation) as error:
            raise self._unsupported(e) from error
        bits = INTEGER_BITS.get(to)
        if isinstance(number, int) and bits and not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise PredicateSyntaxError(f"{number} is out of range for {to} in {self.text!r}", text=self.text)
        if isinstance(number, Decimal) and not _fits(number, e.to):
            raise self._unsupported(e)
        return number

    def _unsupported(self, e: Node) -> PredicateSyntaxError:
        return PredicateSyntaxError(
            f"{e.sql('spark')!r} is not supported in the condition {self.text!r}; {_ALLOWED}", text=self.text
        )


def _fits(number: Decimal, to: exp.DataType) -> bool:
    """Whether a cast to this DECIMAL would leave the number as it is."""
    sizes = [int(p.this.this) for p in to.expressions]
    precision, scale = [*sizes, 0][:2] if sizes else (10, 0)
    if not number.is_finite():
        return False
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= scale and number.adjusted() < precision - scale


def _is_negated(e: Node) -> bool:
    """Whether a NOT is a mark on what it negates, as releases of sqlglot write NOT LIKE, and not a node around it."""
    return bool((e.this if isinstance(e, exp.Escape) else e).args.get("negate"))


def _is_column(e: Node) -> bool:
    if isinstance(e, exp.Dot):
        return _is_column(e.this) and isinstance(e.expression, exp.Identifier)
    return isinstance(e, exp.Column) and isinstance(e.this, exp.Identifier)


def _path(e: Node) -> tuple[str, ...]:
    if isinstance(e, exp.Dot):
        return (*_path(e.this), e.expression.name)
    assert isinstance(e, exp.Column)
    return tuple(part.name for part in e.parts)


def _unwrap(e: Node) -> Node:
    while isinstance(e, exp.Paren):
        e = e.this
    return e


def _first_line(e: Exception) -> str:
    # sqlglot underlines the place with terminal codes.
    return str(e).split("\n")[0].replace("\x1b[4m", "").replace("\x1b[0m", "").split("  ")[0]
