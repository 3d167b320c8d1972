"""Columns and conditions of Connect DataFrames, read from messages of the protocol.

Source: Spark `sql/connect/common/src/main/protobuf/spark/connect/expressions.proto`.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.predicate.ast import literal_text
from paimon_spark.sql.cursor import Cursor
from paimon_spark.types import quoted

_EQUALITIES: Final = ("==", "=", "<=>")
_NUMBERS: Final = ("byte", "short", "integer", "long")
_EPOCH: Final = date(1970, 1, 1)


def column_name(spark: Any, column: Any) -> str | None:
    """The name of a column; None for an expression."""
    return _name(_message(spark, column))


def bucket(spark: Any, column: Any) -> tuple[int, str] | None:
    """The number and the column of `bucket(n, column)`; None for other expressions."""
    found = _message(spark, column)
    if _kind(found) != "unresolved_function" or found.unresolved_function.function_name.lower() != "bucket":
        return None
    number, name = found.unresolved_function.arguments
    value = _literal(number)
    called = _name(name)
    return None if value is None or called is None or not value.isdigit() else (int(value), called)


def partition_condition(spark: Any, condition: Any) -> str | None:
    """Constants of partition columns as SQL, `dt = '2024-01-01' AND hr = 5`, or TRUE; None for other conditions."""
    return _condition(_message(spark, condition))


def _condition(found: Any) -> str | None:
    match _kind(found):
        case "expression_string":
            return str(found.expression_string.expression)
        case "literal" if found.literal.WhichOneof("literal_type") == "boolean":
            return "TRUE" if found.literal.boolean else None
        case "unresolved_function":
            name, sides = found.unresolved_function.function_name.lower(), found.unresolved_function.arguments
            if name == "and":
                parts = [_condition(side) for side in sides]
                named = [part for part in parts if part is not None and part != "TRUE"]
                return None if None in parts else " AND ".join(named) or "TRUE"
            if name in _EQUALITIES:
                column, value = (sides[0], sides[1]) if _name(sides[0]) is not None else (sides[1], sides[0])
                called, text = _name(column), _literal(value)
                return None if called is None or text is None else f"{quoted(called)} = {text}"
    return None


def _message(spark: Any, column: Any) -> Any:
    """The protocol's message of a column."""
    return column.to_plan(spark.client)


def _kind(found: Any) -> str:
    return str(found.WhichOneof("expr_type"))


def _name(found: Any) -> str | None:
    """The name of a column without a qualifier; None for other expressions."""
    if _kind(found) != "unresolved_attribute":
        return None
    try:
        cursor = Cursor(found.unresolved_attribute.unparsed_identifier)
        return cursor.name()[-1] if cursor.tokens else None
    except SqlSyntaxError:
        return None


def _literal(found: Any) -> str | None:
    """A constant as SQL; None for other expressions, and for types that partitions are not compared with."""
    if _kind(found) != "literal":
        return None
    kind = str(found.literal.WhichOneof("literal_type"))
    match kind:
        case "null":
            return "NULL"
        case "string":
            return literal_text(found.literal.string)
        case "boolean":
            return str(found.literal.boolean).upper()
        case "date":
            return f"DATE '{(_EPOCH + timedelta(days=found.literal.date)).isoformat()}'"
        case "decimal":
            return f"{found.literal.decimal.value}BD"
        case _ if kind in _NUMBERS:
            return str(getattr(found.literal, kind))
    return None
