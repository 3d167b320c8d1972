"""The predicate tree. Three-valued like SQL: a row is kept only where the tree is true, not where it is null.

Comparison follows Spark: NaN equals NaN and is larger than any number, -0.0 equals 0.0, text and binary
compare by unsigned bytes, nulls never compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TypeAlias

from paimon_spark.types import DataType

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
    """All of `parts`; None when there are none."""
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
    """Top-level columns the tree looks at."""
    return frozenset(c.name for c in columns_of(predicate))
