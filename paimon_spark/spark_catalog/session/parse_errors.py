"""Exceptions that a parser of Spark may raise, and errors of missing tables.

Errors of routed statements become exceptions that Spark knows. Spark lets a parser raise its `ParseException` and
unchecked exceptions only. A `ParseException` is an `AnalysisException` for users, and takes any of Spark's conditions;
what none of them means is an `IllegalArgumentException` or `UnsupportedOperationException`.

Of a missing table Spark keeps nothing but that it is missing: a catalog must raise its `NoSuchTableException`, which IF
EXISTS, CTAS and temporary views need, and whose message Spark drops. So the nearest names are added where PySpark makes
an exception of Python from Java's.

Source: Spark `sql/api/.../catalyst/parser/parsers.scala`, `error/error-conditions.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions import captured
from pyspark.errors.exceptions.captured import CapturedException

from paimon_spark.errors import (
    ColumnNotFoundError,
    DatabaseNotFoundError,
    PaimonError,
    SqlSyntaxError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import java_error, java_exception, one_line
from paimon_spark.sql.names import resolve_name
from paimon_spark.sql.queries.errors import parts_of
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from paimon_spark.sql.session import Session

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


_NO_TABLE: Final = "TABLE_OR_VIEW_NOT_FOUND"
_NO_DATABASE: Final = "SCHEMA_NOT_FOUND"
_EXPLAINED: Final = "_paimon_spark_explained"


def explain_missing_tables(sessions: Callable[[], Sequence[Session]]) -> None:
    """Let PySpark's errors of tables missing in attached catalogs name the nearest ones, in one line; done once.

    Condition, parameters and Java exception of an error stay Spark's. `sessions` finds the attached catalogs of the
    session that raised, the current one first.
    """
    convert: Any = captured.convert_exception
    if hasattr(convert, _EXPLAINED):
        return

    @wraps(convert)
    def explained(*args: Any, **named: Any) -> Any:
        error = convert(*args, **named)
        if isinstance(error, captured.AnalysisException) and not isinstance(error, ParseException):
            message = _missing(sessions, error)
            if message is not None:
                error._desc = message  # which `str` shows
        return error

    setattr(explained, _EXPLAINED, True)
    captured.convert_exception = explained


def _missing(sessions: Callable[[], Sequence[Session]], error: captured.AnalysisException) -> str | None:
    """The message of an error about a table or database that an attached catalog lacks; None for any other error."""
    condition = error.getCondition()
    if condition not in (_NO_TABLE, _NO_DATABASE):
        return None
    parameters = error.getMessageParameters() or {}
    parts = parts_of(parameters.get("relationName" if condition == _NO_TABLE else "schemaName", ""))
    try:
        for session in sessions():
            _look_for(session, parts, is_database=condition == _NO_DATABASE)
    except PaimonError as e:
        return f"[{condition}] {one_line(e.message)}. SQLSTATE: {error.getSqlState()}"
    except (PySparkException, Py4JError):
        return None  # Spark's own message is better than none
    return None


def _look_for(session: Session, parts: Sequence[str], *, is_database: bool) -> None:
    """Raise the error of a table or database that a name means and that a catalog lacks."""
    if is_database:
        if len(parts) == 2 and parts[0] == session.catalog_name:
            session.catalog.list_tables(parts[1])
        return
    name = resolve_name(session, parts) if parts else None
    if name is not None:
        session.catalog.table(name.text)
