"""Errors of routed statements as exceptions that a parser of Spark may raise.

Spark lets a parser raise its `ParseException` and unchecked exceptions only. A `ParseException` is an
`AnalysisException` for users, and takes any of Spark's conditions; what none of them means is an
`IllegalArgumentException` or `UnsupportedOperationException`.

Source: Spark `sql/api/.../catalyst/parser/parsers.scala`, `error/error-conditions.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import (
    ColumnNotFoundError,
    DatabaseNotFoundError,
    PaimonError,
    SqlSyntaxError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from paimon_spark.spark_catalog.gateway import SQL, Gateway
from paimon_spark.spark_catalog.proxies import java_error, java_exception, one_line
from paimon_spark.types import quoted

_PARSE_EXCEPTION: Final = SQL + "catalyst.parser.ParseException"


class _Condition(NamedTuple):
    """One of Spark's conditions, with its SQL state and parameters."""

    name: str
    state: str
    parameters: Mapping[str, str]


def parse_error(gateway: Gateway, error: Exception) -> Exception:
    """Exception that a parser raises for an error of a statement that was run."""
    if isinstance(error, ParseException) and isinstance(error, CapturedException):
        return java_error(gateway, error)
    if isinstance(error, AnalysisException) and error.getCondition() is not None:
        parameters = {k: str(v) for k, v in (error.getMessageParameters() or {}).items()}
        found = _Condition(str(error.getCondition()), str(error.getSqlState()), parameters)
        return _parse_exception(gateway, found, str(error))
    condition = _condition(error) if isinstance(error, PaimonError) else None
    if condition is None:
        return java_error(gateway, error)
    assert isinstance(error, PaimonError)
    text = f"[{condition.name}] {error.message}. SQLSTATE: {condition.state}"
    return _parse_exception(gateway, condition, text)


def _condition(error: PaimonError) -> _Condition | None:
    """Spark's condition of the same meaning; None without one."""
    context = error.context
    match error:
        case SqlSyntaxError():
            return _Condition("PARSE_SYNTAX_ERROR", "42601", {"error": error.message, "hint": ""})
        case ColumnNotFoundError():
            parameters = {"objectName": quoted(str(context.get("column", ""))), "proposal": error.message}
            return _Condition("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", parameters)
        case TableNotFoundError():
            return _Condition("TABLE_OR_VIEW_NOT_FOUND", "42P01", {"relationName": _name(context.get("table"))})
        case TableAlreadyExistsError():
            return _Condition("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07", {"relationName": _name(context.get("table"))})
        case DatabaseNotFoundError():
            return _Condition("SCHEMA_NOT_FOUND", "42704", {"schemaName": _name(context.get("database"))})
    return None


def _name(text: object) -> str:
    return ".".join(quoted(part) for part in str(text or "").replace("`", "").split("."))


def _parse_exception(gateway: Gateway, condition: _Condition, message: str) -> Exception:
    """Spark's exception with a message of ours in one line: its public constructors make the message themselves."""
    given = (
        gateway.none,
        one_line(message),
        gateway.static(SQL + "catalyst.trees.CurrentOrigin", "get")(),
        gateway.some(condition.name),
        gateway.scala_map(condition.parameters),
        gateway.array("org.apache.spark.QueryContext"),
    )
    return java_exception(gateway.new_hidden(_PARSE_EXCEPTION, given))
