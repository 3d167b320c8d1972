"""Predicates as SQL text, for people."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from paimon_spark.predicate.ast import (
    And,
    Compare,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    NullSafeEqual,
    Or,
    Predicate,
    Text,
)

_MOST_SHOWN = 10


def show(predicate: Predicate) -> str:
    """The predicate as SQL. Long IN lists are cut, so the text is not for parsing."""
    match predicate:
        case And(children):
            return " AND ".join(_inside(c) for c in children) or "true"
        case Or(children):
            return " OR ".join(_inside(c) for c in children) or "false"
        case Not(child):
            return f"NOT {_inside(child)}"
        case Constant(value):
            return "NULL" if value is None else str(value).lower()
        case Compare(op, column, literal):
            return f"{column} {op.value} {literal_text(literal)}"
        case NullSafeEqual(column, literal):
            return f"{column} <=> {'NULL' if literal is None else literal_text(literal)}"
        case In(column, literals, has_null):
            shown = [literal_text(v) for v in literals[:_MOST_SHOWN]] + ["NULL"] * has_null
            if len(literals) > _MOST_SHOWN:
                shown.append(f"… {len(literals) - _MOST_SHOWN} more")
            return f"{column} IN ({', '.join(shown)})"
        case IsNull(column):
            return f"{column} IS NULL"
        case IsNotNull(column):
            return f"{column} IS NOT NULL"
        case Text(op, column, pattern):
            return f"{column} {op.value.upper()} {literal_text(pattern)}"


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


def _inside(predicate: Predicate) -> str:
    text = show(predicate)
    return f"({text})" if isinstance(predicate, And | Or | Not) else text
