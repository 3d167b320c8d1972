"""SQL of predicates that `parse_predicate` reads back as equal predicates."""

from __future__ import annotations

from datetime import datetime

from paimon_spark.predicate.ast import (
    And,
    Column,
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
    TextOp,
    literal_text,
)
from paimon_spark.types import quoted


def sql_text(predicate: Predicate) -> str:
    """The predicate as SQL, whole and with types."""
    match predicate:
        case And(children) | Or(children) if children:
            return (" AND " if isinstance(predicate, And) else " OR ").join(f"({sql_text(c)})" for c in children)
        case And() | Or():
            return str(isinstance(predicate, And)).lower()
        case Not(child):
            return f"NOT ({sql_text(child)})"
        case Constant(value):
            return "NULL" if value is None else str(value).lower()
        case Compare(op, column, literal):
            return f"{_quoted(column)} {op.value} {_typed(literal)}"
        case NullSafeEqual(column, literal):
            return f"{_quoted(column)} <=> {'NULL' if literal is None else _typed(literal)}"
        case In(column, (), _):  # false for values, null for null
            return f"{_quoted(column)} IS NULL AND NULL"
        case In(column, literals, has_null):
            return f"{_quoted(column)} IN ({', '.join([*map(_typed, literals), *['NULL'] * has_null])})"
        case IsNull(column):
            return f"{_quoted(column)} IS NULL"
        case IsNotNull(column):
            return f"{_quoted(column)} IS NOT NULL"
        case Text(TextOp.LIKE, column, pattern):
            return f"{_quoted(column)} LIKE {literal_text(pattern)}"
        case Text(op, column, pattern):
            return f"{op.value.replace(' ', '')}({_quoted(column)}, {literal_text(pattern)})"


def _quoted(column: Column) -> str:
    return ".".join(quoted(part) for part in column.path)


def _typed(literal: Literal) -> str:
    match literal:
        case float():
            return f"CAST('{literal!r}' AS DOUBLE)"
        case datetime() if literal.tzinfo is None:
            return f"TIMESTAMP_NTZ '{literal.isoformat(' ')}'"
    return literal_text(literal)
