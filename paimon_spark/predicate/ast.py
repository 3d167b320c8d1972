"""The tree of a predicate, and its SQL text.

Predicates are three-valued like SQL: a row is kept only where the tree is true, not where it is null. Comparisons are
those of Spark: NaN equals NaN and is larger than any number, -0.0 equals 0.0, text and binary compare by unsigned
bytes, nulls never compare.

Conditions between a column and literals have nodes of their own, by which files are skipped. All others are `Computed`:
an expression with its casts written out, as Spark's ANSI mode would insert them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

from paimon_spark.types import BinaryType, CharType, DataType, TimestampType, quoted

Literal: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime
"""A non-null value of a column's type: TIMESTAMP naive datetime, local-zoned one UTC-aware, TIME int milliseconds."""


class Op(StrEnum):
    """A comparison; the value is its SQL."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


NEGATED: Final = {
    Op.EQ: Op.NE,
    Op.NE: Op.EQ,
    Op.LT: Op.GE,
    Op.LE: Op.GT,
    Op.GT: Op.LE,
    Op.GE: Op.LT,
}
"""Comparisons that are true where another is false."""


class TextOp(StrEnum):
    """A way to match text."""

    STARTS_WITH = "starts with"
    ENDS_WITH = "ends with"
    CONTAINS = "contains"
    LIKE = "like"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field inside row columns. `path` is names from the top, `type` that of the last of them."""

    path: tuple[str, ...]
    type: DataType

    @property
    def name(self) -> str:
        """The top-level column."""
        return self.path[0]

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Value:
    """A literal in an expression; None is null."""

    value: Literal | None
    type: DataType


class Function(StrEnum):
    """A function or an operator; the value is its SQL."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"
    NEGATE = "negative"
    ABS = "abs"
    CAST = "cast"
    COALESCE = "coalesce"
    LOWER = "lower"
    UPPER = "upper"
    SUBSTRING = "substring"
    LENGTH = "length"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    DATE_TRUNC = "date_trunc"
    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    NULL_SAFE_EQ = "<=>"
    IN = "in"
    IS_NULL = "is null"
    LIKE = "like"
    RLIKE = "rlike"
    STARTS_WITH = "startswith"
    ENDS_WITH = "endswith"
    CONTAINS = "contains"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of expressions, as Spark evaluates it in ANSI mode.

    Attributes:
        args: of the types that the function takes; what Spark casts implicitly is cast here.
        type: of the result.
        zone: time zone of a cast or a truncation that depends on one.
    """

    function: Function
    args: tuple[Expression, ...]
    type: DataType
    zone: tzinfo | None = None


Expression: TypeAlias = Column | Value | FunctionCall


@dataclass(frozen=True, slots=True)
class Computed:
    """A condition that is evaluated on rows and on partitions: an expression of type BOOLEAN."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op literal`, null for null."""

    op: Op
    column: Column
    literal: Literal


@dataclass(frozen=True, slots=True)
class NullSafeEqual:
    """`column <=> literal`; `None` asks for null. Never null itself."""

    column: Column
    literal: Literal | None


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (literals…)`. `has_null` says the list also holds NULL, which makes a miss null instead of false."""

    column: Column
    literals: tuple[Literal, ...]
    has_null: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the column is null. Never null itself."""

    column: Column


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """Whether the column is not null. Never null itself."""

    column: Column


@dataclass(frozen=True, slots=True)
class Text:
    """Text matching. For LIKE, `%` and `_` are wild, and a backslash takes them (or itself) literally."""

    op: TextOp
    column: Column
    pattern: str


@dataclass(frozen=True, slots=True)
class And:
    """True when all children are; of no children, true."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True when any child is; of no children, false."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Null stays null."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false or null (None) for every row."""

    value: bool | None


Predicate: TypeAlias = Compare | NullSafeEqual | In | IsNull | IsNotNull | Text | Computed | And | Or | Not | Constant


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """The parts that must all be true."""
    if predicate is None:
        return ()
    if isinstance(predicate, And):
        return tuple(p for child in predicate.children for p in conjuncts(child))
    return (predicate,)


def conjunction(parts: tuple[Predicate, ...] | list[Predicate]) -> Predicate | None:
    """The AND of `parts`, or None without parts."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def columns_of(predicate: Predicate | None) -> Iterator[Column]:
    """Every column reference in the tree, repeats included."""
    match predicate:
        case And(children) | Or(children):
            for child in children:
                yield from columns_of(child)
        case Not(child):
            yield from columns_of(child)
        case Compare() | NullSafeEqual() | In() | IsNull() | IsNotNull() | Text():
            yield predicate.column
        case Computed(expression):
            yield from columns_in(expression)
        case _:
            return


def columns_in(expression: Expression) -> Iterator[Column]:
    """Every column reference in an expression, repeats included."""
    match expression:
        case Column():
            yield expression
        case FunctionCall(_, args):
            for arg in args:
                yield from columns_in(arg)


def has_expressions(predicate: Predicate) -> bool:
    """Whether a part of the tree is a `Computed`.

    It is evaluated in ANSI mode, even where a session of Spark has turned that off.
    """
    match predicate:
        case And(children) | Or(children):
            return any(has_expressions(child) for child in children)
        case Not(child):
            return has_expressions(child)
    return isinstance(predicate, Computed)


def names_of(predicate: Predicate | None) -> frozenset[str]:
    """The top-level columns of the tree."""
    return frozenset(c.name for c in columns_of(predicate))


_MAX_SHOWN = 10


def show(predicate: Predicate) -> str:
    """The predicate as SQL. Long IN lists are cut, so the text is not for parsing."""
    return _sql(predicate, False)


def sql_text(predicate: Predicate) -> str:
    """The predicate as SQL that `parse_predicate` reads back as an equal predicate."""
    return _sql(predicate, True)


def _sql(predicate: Predicate, is_exact: bool) -> str:
    def inside(child: Predicate) -> str:
        text = _sql(child, is_exact)
        return f"({text})" if is_exact or isinstance(child, And | Or | Not) else text

    name, value = (_quoted, _typed) if is_exact else (str, literal_text)
    match predicate:
        case And(children):
            return " AND ".join(map(inside, children)) or "true"
        case Or(children):
            return " OR ".join(map(inside, children)) or "false"
        case Not(child):
            return f"NOT {inside(child)}"
        case Constant(constant):
            return "NULL" if constant is None else str(constant).lower()
        case Compare(op, column, literal):
            return f"{name(column)} {op.value} {value(literal)}"
        case NullSafeEqual(column, wanted):
            return f"{name(column)} <=> {'NULL' if wanted is None else value(wanted)}"
        case In(column, (), _) if is_exact:  # false for values, null for null
            return f"{name(column)} IS NULL AND NULL"
        case In(column, literals, has_null):
            most = len(literals) if is_exact else _MAX_SHOWN
            shown = [*map(value, literals[:most]), *["NULL"] * has_null]
            if len(literals) > most:
                shown.append(f"… {len(literals) - most} more")
            return f"{name(column)} IN ({', '.join(shown)})"
        case IsNull(column):
            return f"{name(column)} IS NULL"
        case IsNotNull(column):
            return f"{name(column)} IS NOT NULL"
        case Text(op, column, pattern) if is_exact and op is not TextOp.LIKE:
            return f"{op.value.replace(' ', '')}({name(column)}, {literal_text(pattern)})"
        case Text(op, column, pattern):
            return f"{name(column)} {op.value.upper()} {literal_text(pattern)}"
        case Computed(expression):
            text = _expression_sql(expression, is_exact)
            return text if is_exact or not text.startswith("(") else text[1:-1]


_INFIX: Final = frozenset(
    (
        *(Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.REMAINDER),
        *(Function.EQ, Function.NE, Function.LT, Function.LE, Function.GT, Function.GE, Function.NULL_SAFE_EQ),
        *(Function.LIKE, Function.RLIKE),
    )
)


def _expression_sql(expression: Expression, is_exact: bool) -> str:
    """An expression as SQL; operators are in parentheses."""
    match expression:
        case Column():
            return _quoted(expression) if is_exact else str(expression)
        case Value(value, value_type) if value is not None:
            return _typed_value(value, value_type) if is_exact else literal_text(value)
        case Value():
            return "NULL"
    parts = [_expression_sql(arg, is_exact) for arg in expression.args]
    match expression.function:
        case Function.CAST:
            return f"CAST({parts[0]} AS {type_text(expression.type)})"
        case Function.NEGATE:
            return f"(-({parts[0]}))"
        case Function.IN:
            most = len(parts) if is_exact else _MAX_SHOWN + 1
            more = [f"… {len(parts) - most} more"] if len(parts) > most else []
            return f"({parts[0]} IN ({', '.join(parts[1:most] + more)}))"
        case Function.IS_NULL:
            return f"({parts[0]} IS NULL)"
        case function if function in _INFIX:
            return f"({parts[0]} {function.value.upper()} {parts[1]})"
    return f"{expression.function.value}({', '.join(parts)})"


def type_text(t: DataType) -> str:
    """A type as Spark writes it in a cast."""
    match t:
        case CharType():
            return "STRING"
        case BinaryType():
            return "BINARY"
        case TimestampType():
            return "TIMESTAMP" if t.local_zone else "TIMESTAMP_NTZ"
    return str(t.with_nullable(True))


def _typed_value(value: Literal, value_type: DataType) -> str:
    """A literal that is read back with the same type."""
    match value:
        case float():
            return f"CAST('{value!r}' AS {type_text(value_type)})"
        case Decimal():
            return f"CAST('{value:f}' AS {type_text(value_type)})"
    return _typed(value)


def _quoted(column: Column) -> str:
    return ".".join(quoted(part) for part in column.path)


def _typed(literal: Literal) -> str:
    """A literal as SQL, with its type."""
    match literal:
        case float():
            return f"CAST('{literal!r}' AS DOUBLE)"
        case datetime() if literal.tzinfo is None:
            return f"TIMESTAMP_NTZ '{literal.isoformat(' ')}'"
    return literal_text(literal)


def literal_text(literal: Literal) -> str:
    """A literal as SQL."""
    match literal:
        case bool():
            return str(literal).lower()
        case str():
            return "'" + literal.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case bytes():
            return f"X'{literal.hex().upper()}'"
        case datetime():
            return f"TIMESTAMP '{literal.isoformat(' ')}'"
        case date():
            return f"DATE '{literal.isoformat()}'"
        case Decimal():
            return f"{literal:f}"
    return str(literal)
