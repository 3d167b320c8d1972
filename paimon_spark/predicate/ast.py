"""The tree of a predicate, its SQL text, and LIKE patterns.

Predicates are three-valued like SQL: a row is kept only where the tree is true, not where it is null. Comparisons are
those of Spark: NaN equals NaN and is larger than any number, -0.0 equals 0.0, text and binary compare by unsigned
bytes, nulls never compare. In LIKE patterns `%` is any text, `_` any character; a backslash escapes them and itself.

Source: Spark `StringUtils.escapeLikeRegex`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import NamedTuple, TypeAlias

from paimon_spark.errors import PredicateSyntaxError
from paimon_spark.types import DataType, quoted

Literal: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime
"""A non-null value of a column's type: TIMESTAMP naive datetime, local-zoned one UTC-aware, TIME int milliseconds."""


class Op(str, Enum):
    """A comparison; the value is its SQL."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class TextOp(str, Enum):
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


Predicate: TypeAlias = Compare | NullSafeEqual | In | IsNull | IsNotNull | Text | And | Or | Not | Constant


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
        case _:
            return


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


class LikeShape(NamedTuple):
    """A pattern taken apart.

    Attributes:
        prefix: literal text before the first wildcard.
        exact: whether there is no wildcard at all.
        regex: the whole pattern as an anchored regular expression (RE2).
    """

    prefix: str
    exact: bool
    regex: str


def like_pattern(pattern: str, escape: str = "\\") -> str:
    """`pattern` checked, and with a backslash as its escape character whatever it was.

    Raises PredicateSyntaxError: the escape character ends the pattern or stands before an ordinary character.
    """
    out: list[str] = []
    chars = iter(pattern)
    for c in chars:
        if c == escape:
            following = next(chars, None)
            if following is None or following not in ("%", "_", escape):
                raise PredicateSyntaxError(
                    f"the LIKE pattern {pattern!r} is wrong: {escape!r} must stand before %, _ or {escape!r}"
                )
            out.append(_literal(following))
        else:
            out.append(c if c in "%_" else _literal(c))
    return "".join(out)


def like_shape(pattern: str) -> LikeShape:
    """A pattern, as `like_pattern` gives it, taken apart."""
    prefix: list[str] = []
    regex: list[str] = []
    exact = True
    chars = iter(pattern)
    for c in chars:
        if c in "%_":
            exact = False
            regex.append(".*" if c == "%" else ".")
            continue
        text = next(chars, c) if c == "\\" else c
        regex.append(re_escape(text))
        if exact:
            prefix.append(text)
    return LikeShape("".join(prefix), exact, rf"(?s)\A(?:{''.join(regex)})\z")


def re_escape(text: str) -> str:
    """`text` as a regular expression that RE2 takes literally."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def _literal(c: str) -> str:
    return "\\" + c if c in "%_\\" else c
