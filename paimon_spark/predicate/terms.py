"""Expressions from trees of sqlglot: arithmetic, casts and functions inside of conditions.

What is not supported is refused with its position, never approximated. sqlglot reads some text in another way than
Spark; where that matters, the text decides or the expression is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

from sqlglot import exp

from paimon_spark.errors import PredicateSyntaxError
from paimon_spark.predicate.ast import Column, Expression, Function, FunctionCall, Value
from paimon_spark.predicate.casts import UNTYPED
from paimon_spark.predicate.coercion import TIMESTAMP, TIMESTAMP_NTZ, Coercion, number, type_of
from paimon_spark.predicate.patterns import like_pattern, rlike_shape
from paimon_spark.types import BOOLEAN, BYTES, INTEGER_NAMES, STRING, AtomicType, DataType, DecimalType

Node: TypeAlias = Any
"""A node of sqlglot's tree; releases of sqlglot differ in what they call its class."""

COMPARISONS: Final[dict[type, Function]] = {
    exp.EQ: Function.EQ,
    exp.NEQ: Function.NE,
    exp.LT: Function.LT,
    exp.LTE: Function.LE,
    exp.GT: Function.GT,
    exp.GTE: Function.GE,
    exp.NullSafeEQ: Function.NULL_SAFE_EQ,
}
_ARITHMETIC: Final[dict[type, Function]] = {
    exp.Add: Function.ADD,
    exp.Sub: Function.SUBTRACT,
    exp.Mul: Function.MULTIPLY,
    exp.Div: Function.DIVIDE,
    exp.Mod: Function.REMAINDER,
}
_DATE_PARTS: Final[dict[type, Function]] = {
    exp.Year: Function.YEAR,
    exp.Month: Function.MONTH,
    exp.Day: Function.DAY,
    exp.DayOfMonth: Function.DAY,
}
TEXT_TESTS: Final[dict[type, Function]] = {
    exp.StartsWith: Function.STARTS_WITH,
    exp.EndsWith: Function.ENDS_WITH,
    exp.Contains: Function.CONTAINS,
    exp.RegexpLike: Function.RLIKE,
}
_TEXT_TEST_NAMES: Final = {
    "startswith": Function.STARTS_WITH,
    "endswith": Function.ENDS_WITH,
    "contains": Function.CONTAINS,
    "regexp": Function.RLIKE,
}
_OTHER_ARGUMENTS: Final = ("flag", "json_scope", "zero_start")
"""Arguments that functions have in other dialects, which sqlglot takes in Spark's too."""
_CONDITIONS: Final = (*COMPARISONS, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike)
_NO_OPERANDS: Final = (exp.And, exp.Or, exp.Not, exp.Between, exp.NullSafeNEQ)
_TYPES: Final[dict[str, DataType]] = {
    **{name: AtomicType(name=name) for name in (*INTEGER_NAMES, "FLOAT", "DOUBLE", "BOOLEAN", "DATE")},
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), STRING),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"), TIMESTAMP),
    **dict.fromkeys(("TIMESTAMPNTZ", "DATETIME"), TIMESTAMP_NTZ),
    "BINARY": BYTES,
}
_DATE_TRUNC: Final = re.compile(r"""date_trunc\s*\(\s*(['"])(\w*)\1\s*,""", re.IGNORECASE)
_INT: Final = 2**31
SUPPORTED: Final = (
    "a condition has comparisons, IN, BETWEEN, LIKE, RLIKE, IS NULL, AND, OR and NOT over columns, literals, + - * / "
    "%, casts, and the functions lower, upper, substring, length, coalesce, abs, year, month, day, date_trunc and date"
)


def unwrapped(e: Node) -> Node:
    """The node inside of parentheses."""
    while isinstance(e, exp.Paren):
        e = e.this
    return e


def is_column(e: Node) -> bool:
    """Whether the node names a column, or a field of one."""
    if isinstance(e, exp.Dot):
        return is_column(e.this) and isinstance(e.expression, exp.Identifier)
    return isinstance(e, exp.Column) and isinstance(e.this, exp.Identifier)


def is_negated(e: Node) -> bool:
    """Whether a NOT is a mark on what it negates, as releases of sqlglot write NOT LIKE, and not a node around it."""
    return bool((e.this if isinstance(e, exp.Escape) else e).args.get("negate"))


def numeral(digits: str) -> int | float | Decimal | None:
    """The number that the text is, a float if it has an exponent; None if it is not a number."""
    try:
        if "e" in digits.lower():
            found = float(digits)
            return None if found in (float("inf"), float("-inf")) else found
        return Decimal(digits) if "." in digits else int(digits)
    except (ValueError, InvalidOperation):
        return None


class Terms:
    """Translates nodes of one condition.

    Args:
        text: the condition, for messages.
        column: the column that a node names.
        zone: time zone of casts; None is the machine's.
        has_positions: whether positions in the nodes are those in `text`.
    """

    def __init__(
        self, text: str, column: Callable[[Node], Column], zone: tzinfo | None, *, has_positions: bool
    ) -> None:
        self.text = text
        self.column = column
        self.coercion = Coercion(zone)
        self.has_positions = has_positions

    def condition(self, e: Node) -> Expression:
        """The expression of a node that stands for a condition, without its NOT if it is marked with one.

        Raises PredicateSyntaxError.
        """
        found = self._translated(e)
        kind = type_of(found)
        if kind == BOOLEAN:
            return found
        if kind == UNTYPED:
            return Value(None, BOOLEAN)
        raise self._refused(e, f"is {kind}, not BOOLEAN, so it is no condition; compare it")

    def expression(self, e: Node) -> Expression:
        """The expression of a node, with the casts that Spark inserts. Raises PredicateSyntaxError."""
        e = unwrapped(e)
        if is_negated(e) or isinstance(e, _NO_OPERANDS):
            raise self._refused(
                e, "is not supported as an operand or argument; comparisons, IN, LIKE, RLIKE and IS NULL are"
            )
        return self._translated(e)

    def _translated(self, e: Node) -> Expression:
        try:
            return self._expression(e)
        except PredicateSyntaxError as error:
            if "text" in error.context:
                raise
            raise self._refused(e, f"is refused: {error.message}") from None

    def _expression(self, e: Node) -> Expression:
        if any(e.args.get(name) is not None for name in _OTHER_ARGUMENTS):
            raise self._refused(e, "has an argument that Spark's function does not take; leave it out")
        if type(e) in _ARITHMETIC:
            left, right = self.expression(e.this), self.expression(e.expression)
            return self.coercion.arithmetic(_ARITHMETIC[type(e)], left, right)
        if type(e) in COMPARISONS:
            return self._comparison(e)
        if type(e) in _DATE_PARTS:
            return self._date_part(e)
        if type(e) in TEXT_TESTS:
            return self.text_test(TEXT_TESTS[type(e)], e.this, e.expression)
        match e:
            case exp.Column() | exp.Dot() if is_column(e):
                return self.column(e)
            case exp.Neg():
                return self._negated(e)
            case exp.Cast():
                return self._cast(e)
            case exp.Lower() | exp.Upper():
                function = Function.LOWER if isinstance(e, exp.Lower) else Function.UPPER
                return self.coercion.of_text(function, self.expression(e.this))
            case exp.Length() if not e.args.get("binary") and not e.args.get("encoding"):
                return self.coercion.of_text(Function.LENGTH, self.expression(e.this))
            case exp.Substring():
                return self._substring(e)
            case exp.Coalesce():
                return self.coercion.coalesce([self.expression(part) for part in (e.this, *e.expressions)])
            case exp.Abs():
                return self.coercion.absolute(self.expression(e.this))
            case exp.TimestampTrunc():
                return self.coercion.date_trunc(self._unit(e), self.expression(e.this))
            case exp.Is() if isinstance(e.expression, exp.Null):
                return FunctionCall(Function.IS_NULL, (self.expression(e.this),), BOOLEAN)
            case exp.In():
                return self._one_of(e)
            case exp.Like() | exp.Escape():
                return self.like(e)
            case exp.Anonymous() if str(e.this).lower() in _TEXT_TEST_NAMES and len(e.expressions) == 2:
                return self.text_test(_TEXT_TEST_NAMES[str(e.this).lower()], *e.expressions)
        return self._literal(e)

    def _literal(self, e: Node) -> Expression:
        match e:
            case exp.Null():
                return Value(None, UNTYPED)
            case exp.Boolean():
                return Value(bool(e.this), BOOLEAN)
            case exp.Literal() if e.is_string:
                return Value(str(e.this), STRING)
            case exp.RawString() | exp.National():
                return Value(str(e.this), STRING)
            case exp.Literal():
                return number(self._numeral(e))
            case exp.HexString():
                digits = str(e.this)
                try:
                    return Value(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), BYTES)
                except ValueError as error:
                    raise self._refused(e, "is not hexadecimal") from error
            case exp.Concat() if all(isinstance(part, exp.Literal) and part.is_string for part in e.expressions):
                return Value("".join(str(part.this) for part in e.expressions), STRING)
        raise self.unsupported(e)

    def _numeral(self, e: Node) -> int | float | Decimal:
        found = numeral(str(e.this))
        if found is None:
            raise self._refused(e, "is not a number")
        return found

    def _negated(self, e: Node) -> Expression:
        """A negative number is one literal, as in Spark; of anything else a function."""
        if isinstance(e.this, exp.Literal) and not e.this.is_string:
            found = self._numeral(e.this)
            # A minus sign would round a Decimal to 28 digits.
            return number(found.copy_negate() if isinstance(found, Decimal) else -found)
        return self.coercion.negated(self.expression(e.this))

    def comparison(self, function: Function, e: Node, left: Node, right: Node) -> Expression:
        """A comparison of two nodes, for the node `e`."""
        a, b = self.expression(left), self.expression(right)
        try:
            return self.coercion.comparison(function, a, b)
        except PredicateSyntaxError as error:
            raise self._refused(e, f"is refused: {error.message}") from None

    def _comparison(self, e: Node) -> Expression:
        self.check_operands(e)
        return self.comparison(COMPARISONS[type(e)], e, e.this, e.expression)

    def check_operands(self, e: Node) -> None:
        """Refuse a condition beside a comparison: its precedence in Spark is another."""
        for side in (e.this, e.expression):
            if isinstance(side, _CONDITIONS):
                raise self._refused(side, "stands beside a comparison; put it into parentheses")

    def _date_part(self, e: Node) -> Expression:
        subject = e.this
        if isinstance(subject, exp.TsOrDsToDate):
            if subject.args.get("safe") or subject.args.get("format"):
                raise self.unsupported(subject)
            subject = subject.this
        return self.coercion.of_date(_DATE_PARTS[type(e)], self.expression(subject))

    def _cast(self, e: Node) -> Expression:
        to = e.to
        target = _TYPES.get(getattr(to.this, "name", "")) if not to.expressions else None
        if getattr(to.this, "name", "") == "DECIMAL":
            sizes = [numeral(str(p.this.this)) for p in to.expressions]
            precision, scale = [*sizes, 0][:2] if sizes else (10, 0)
            if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38 and precision:
                target = DecimalType(True, precision, scale)
        if target is None or e.args.get("safe") or e.args.get("format") or to.args.get("collate"):
            raise self.unsupported(e)
        return self.coercion.cast(self.expression(e.this), target)

    def _substring(self, e: Node) -> Expression:
        subject = self.expression(e.this)
        position, length = e.args.get("start"), e.args.get("length")
        sizes = [
            _INT - 1 if part is None and part is length else self._whole(e, None if part is None else unwrapped(part))
            for part in (position, length)
        ]
        return self.coercion.of_text(Function.SUBSTRING, subject, *map(number, sizes))

    def _whole(self, e: Node, part: Node | None) -> int:
        sign, digits = (-1, part.this) if isinstance(part, exp.Neg) else (1, part)
        found = numeral(str(digits.this)) if isinstance(digits, exp.Literal) and not digits.is_string else None
        if not isinstance(found, int) or not -_INT <= sign * found < _INT:
            raise self._refused(e, "has a position or length that is not a whole number; write numbers")
        return sign * found

    def _unit(self, e: Node) -> str:
        """The unit of DATE_TRUNC, from the text: sqlglot takes the name of a column for a unit."""
        start = e.meta.get("start") if self.has_positions else None
        found = _DATE_TRUNC.match(self.text, start) if isinstance(start, int) else None
        if found is None:
            raise self._refused(e, "needs a unit as text, such as date_trunc('month', ts)")
        return found[2]

    def _one_of(self, e: exp.In) -> Expression:
        if e.args.get("query") is not None or e.args.get("unnest") is not None or not e.expressions:
            raise self.unsupported(e)
        return self.coercion.one_of(self.expression(e.this), [self.expression(part) for part in e.expressions])

    def like(self, e: Node) -> Expression:
        """LIKE, with the escape character that it names."""
        node, escape = e, "\\"
        if isinstance(e, exp.Escape):
            node, mark = e.this, unwrapped(e.expression)
            if not isinstance(node, exp.Like) or not isinstance(mark, exp.Literal) or len(str(mark.this)) != 1:
                raise self.unsupported(e)
            escape = str(mark.this)
        pattern = self._pattern(e, node.expression)
        if pattern is None:
            return Value(None, BOOLEAN)
        like = Value(like_pattern(pattern, escape), STRING)
        return self.coercion.of_text(Function.LIKE, self.expression(node.this), like)

    def text_test(self, function: Function, subject: Node, pattern_node: Node) -> Expression:
        """RLIKE, STARTSWITH, ENDSWITH or CONTAINS."""
        pattern = self._pattern(subject, pattern_node)
        if pattern is None:
            return Value(None, BOOLEAN)
        if function is Function.RLIKE:
            rlike_shape(pattern)
        return self.coercion.of_text(function, self.expression(subject), Value(pattern, STRING))

    def _pattern(self, e: Node, node: Node) -> str | None:
        found = self.expression(node) if not isinstance(node, exp.Any) else None
        match found:
            case Value(str() as pattern):
                return pattern
            case Value(None):
                return None
        raise self._refused(e, "is matched with a pattern that is not a text literal, which is not supported")

    def unsupported(self, e: Node) -> PredicateSyntaxError:
        """The error for a node that has no place in a condition."""
        return self._refused(e, f"is not supported; {SUPPORTED}")

    def _refused(self, e: Node, why: str) -> PredicateSyntaxError:
        places = [n.meta["start"] for n in e.walk() if "start" in n.meta] if self.has_positions else []
        place = f" at position {min(places) + 1}" if places else ""
        return PredicateSyntaxError(
            f"condition {_short(self.text)!r}: {_short(e.sql('spark'))!r}{place} {why}", text=self.text
        )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"
