"""Replace Spark's errors by more helpful ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import SequenceMatcher
from itertools import pairwise
from logging import LogRecord
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger

from paimon_spark.engine.tasks import METADATA_COLUMNS
from paimon_spark.errors import (
    InvalidInputError,
    PaimonError,
    SqlSyntaxError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.predicate.tokens import Token
from paimon_spark.spark.session import unwrapped
from paimon_spark.sql.names import knows_catalog, unknown_catalog
from paimon_spark.sql.tokens import abbreviated
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from paimon_spark.sql.queries.parse import ParsedQuery
    from paimon_spark.sql.session import Session

_PART: Final = re.compile(r"`((?:[^`]|``)*)`")
_PARSER: Final = re.compile(r"\]\s*(.+?)\.? SQLSTATE", re.DOTALL)
_SUFFIXED: Final = re.compile(r"(\w+)`?\.`?(\w+)`?\$")
_OF_SPARK: Final = "spark_catalog"
_MESSAGE: Final = re.compile(r"\s*(.+? SQLSTATE: \w{5})", re.DOTALL)
_OWN_COLUMN: Final = re.compile(r", (?:`[^`]+`\.)*`__paimon_\w+`(?=[],])")
"""Columns that statements add, among those that Spark offers."""
_UNKNOWN_COLUMN: Final = re.compile(r" (?:Did you mean one of|SQLSTATE:).*", re.DOTALL)
_STATE: Final = "SQLSTATE: 42703"
_MOST_OFFERED: Final = 5
_NOT_ONE_PART: Final = (
    "REQUIRES_SINGLE_PART_NAMESPACE",
    "NESTED_DATABASE_UNSUPPORTED_BY_V1_SESSION_CATALOG",
    "_LEGACY_ERROR_TEMP_1126",  # the same in Spark 4.1
)
"""What Spark reports of a name that begins with a catalog that it does not know."""
_NO_TABLE: Final = "TABLE_OR_VIEW_NOT_FOUND"
_LOGGER: Final = "SQLQueryContextLogger"
_IS_QUIET: Final = ContextVar("is_quiet", default=False)
_NO_PREFIX: Final = ("EXPLAIN", "SET", "RESET", "BEGIN")
"""Statements that EXPLAIN does not take."""
_AFTER_CONDITION: Final = frozenset(
    (";", ")", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "|>")
)


def helpful_error(session: Session, error: PySparkException, sql: str) -> PaimonError | None:
    """A more helpful error than Spark's, if there is one."""
    condition = error.getCondition()
    if session.used is not None and condition in _NOT_ONE_PART:
        attached = {s.catalog_name for s in session.each()}
        for name in _long_names(error):
            if name[0] in attached:
                return _not_in_connect(name, sql)
    unknown = unknown_catalog_error(session, error)
    if unknown is not None:
        return unknown
    if not session.is_current:
        return unwrapped(error)  # the names are those of Spark's catalog
    if condition == _NO_TABLE:
        return unknown_table(session, parts_of((error.getMessageParameters() or {}).get("relationName", "")))
    if condition == "PARSE_SYNTAX_ERROR" and "'$'" in str(error):
        # A suffix after `$` is allowed for tables of the warehouse only.
        found = _SUFFIXED.search(sql)
        return None if found is None else unknown_table(session, [found[1], found[2]])
    return unwrapped(error)


def unknown_catalog_error(session: Session, error: PySparkException) -> TableNotFoundError | None:
    """The error of a name that begins with a catalog that is not there, if Spark's is about one."""
    if error.getCondition() not in (*_NOT_ONE_PART, _NO_TABLE):
        return None
    for name in _long_names(error):
        if len(name) > 2 and not knows_catalog(session, name[0]):
            return TableNotFoundError(unknown_catalog(session, name), table=".".join(name))
    return None


def _long_names(error: PySparkException) -> Iterator[list[str]]:
    """The names in the parameters of an error of Spark, by their parts."""
    for value in (error.getMessageParameters() or {}).values():
        yield parts_of(value) or value.split(".")


class QueryError(AnalysisException):
    """Spark's error about a statement, in one line: without its plan, about the statement as it was given.

    Condition, parameters and SQL state are those of Spark's error.
    """

    def __init__(self, message: str, error: PySparkException) -> None:
        super().__init__(message, error.getCondition(), dict(error.getMessageParameters() or {}))
        self._state = error.getSqlState()

    def getSqlState(self) -> str | None:  # noqa: N802 - Spark's name
        """As of Spark's error."""
        return self._state


def in_one_line(
    error: AnalysisException, sql: str, columns: Sequence[Sequence[str]] = ()
) -> QueryError | SqlSyntaxError:
    """Spark's error about a statement that it runs with DataFrames in place of tables.

    `columns` are the names, with qualifiers where the query has several tables, to offer for an unknown column.
    """
    text = " ".join(_one_line(str(error)).removeprefix(f"[{error.getCondition()}]").split())
    if isinstance(error, ParseException):
        return _not_parsed(error, sql)
    text = _OWN_COLUMN.sub("", text)
    if columns and lacks_a_column(error):
        unknown = (error.getMessageParameters() or {}).get("objectName", "")
        offered = ", ".join(".".join(map(quoted, c)) for c in _nearest(parts_of(unknown), columns))
        text = f"{_UNKNOWN_COLUMN.sub('', text)} Did you mean one of the following? [{offered}]. {_STATE}"
    return QueryError(f"{text}; in: {abbreviated(sql)}", error)


def lacks_a_column(error: PySparkException) -> bool:
    """Whether Spark reports an unknown column."""
    return (error.getCondition() or "").startswith("UNRESOLVED_COLUMN")


def is_one_of(error: PySparkException, columns: Sequence[Sequence[str]]) -> bool:
    """Whether the column that Spark does not find is one of these, or a metadata column."""
    if not columns or not lacks_a_column(error):
        return False
    unknown = parts_of((error.getMessageParameters() or {}).get("objectName", ""))[-1:]
    known = {*(c[-1].lower() for c in columns), *METADATA_COLUMNS}
    return any(name.lower() in known for name in unknown)


def _one_line(text: str) -> str:
    """The message without positions and plans, which are those of the statement that Spark sees."""
    found = _MESSAGE.match(text)
    return found[1] if found is not None else text.partition("\n")[0]


def _nearest(name: Sequence[str], columns: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The columns most like a name, those of the same qualifier first."""
    qualifier, last = [p.lower() for p in name[:-1]], name[-1].lower() if name else ""
    here = [c for c in columns if qualifier and [p.lower() for p in c[:-1]] == qualifier] or list(columns)
    return sorted(here, key=lambda c: -SequenceMatcher(None, last, c[-1].lower()).ratio())[:_MOST_OFFERED]


@contextmanager
def without_log() -> Iterator[None]:
    """Keep PySpark from logging errors of statements, in this thread: they are raised."""
    PySparkLogger.getLogger(_LOGGER).addFilter(_is_logged)
    token = _IS_QUIET.set(True)
    try:
        yield
    finally:
        _IS_QUIET.reset(token)


def _is_logged(_: LogRecord) -> bool:
    return not _IS_QUIET.get()


def missing_condition(sql: str, tokens: Sequence[Token]) -> SqlSyntaxError | None:
    """The error of a WHERE or HAVING without a condition, which Spark takes for an alias; None without one."""
    for token, after in pairwise([*tokens, None]):
        assert token is not None
        following = "" if after is None else after.keyword
        if token.keyword in ("WHERE", "HAVING") and (after is None or following in _AFTER_CONDITION):
            found, position = ("the end", token.end) if after is None else (repr(following), after.start)
            return SqlSyntaxError(
                f"expected a condition after {token.keyword}, found {found} at position {position + 1} of: "
                f"{abbreviated(sql)}",
                sql=sql,
            )
    return None


def syntax_error(session: Session, parsed: ParsedQuery) -> SqlSyntaxError | None:
    """The error of Spark's parser for a statement; None when it parses, or cannot be checked."""
    missing = missing_condition(parsed.sql, parsed.tokens)
    if missing is not None:
        return missing
    # Spark does not take `t$tags` without quotes, so its error would be about the $.
    if "$" in parsed.sql or not parsed.tokens or parsed.tokens[0].keyword in _NO_PREFIX:
        return None
    try:
        session.run(f"EXPLAIN {parsed.sql}")  # parses the statement without running it
    except ParseException as e:
        return _not_parsed(e, parsed.sql)
    except PySparkException:
        return None
    return None


def _not_parsed(error: ParseException, sql: str) -> SqlSyntaxError:
    found = _PARSER.search(str(error))
    message = str(error).strip().splitlines()[0] if found is None else " ".join(found[1].split())
    return SqlSyntaxError(f"Spark cannot parse the statement: {message}: {abbreviated(sql)}", sql=sql)


def parts_of(name: str) -> list[str]:
    """The parts of a quoted name in the parameters of Spark's error, without Spark's own catalog."""
    parts = [p.replace("``", "`") for p in _PART.findall(name)]
    return parts[1:] if parts[:1] == [_OF_SPARK] else parts


def _not_in_connect(parts: Sequence[str], sql: str) -> UnsupportedFeatureError:
    """The error of a statement on an attached catalog that only Spark runs, which does not know the catalog."""
    return UnsupportedFeatureError(
        f"the statement is not supported for {'.'.join(parts)} in Spark Connect, whose server does not know catalog "
        f"{parts[0]}: {abbreviated(sql)}",
        feature="statement in Spark Connect",
    )


def unknown_table(session: Session, parts: Sequence[str]) -> TableNotFoundError | None:
    """The error of a table that neither Spark nor the catalog has, with the nearest names."""
    if len(parts) not in (1, 2):
        return None
    warehouse, databases = session.catalog.warehouse, session.catalog.list_databases()
    database = parts[0] if len(parts) > 1 else session.database
    if database not in databases:
        what = f"warehouse {warehouse} has no database {database!r}{did_you_mean(database, databases)}; its databases "
        what += f"are {', '.join(databases[:20]) or 'none'}"
    else:
        tables = session.catalog.list_tables(database)
        what = f"database {database!r} of warehouse {warehouse} has no table {parts[-1]!r}"
        what += f"{did_you_mean(parts[-1], tables)}; its tables are {', '.join(tables[:20]) or 'none'}"
    hint = "" if len(parts) > 1 else "; write database.table, or set the database with USE"
    return TableNotFoundError(
        f"there is no table or view {'.'.join(parts)}: Spark has none, and {what}{hint}. "
        "Names of tables are case-sensitive",
        table=".".join(parts),
    )


def check_names(view: str, named: Sequence[object], columns: Sequence[str]) -> None:
    """Check that a view names as many columns as its query has. Raises InvalidInputError."""
    if len(named) != len(columns):
        raise InvalidInputError(
            f"the view {view} names {len(named)} columns, and its query has {len(columns)}: {', '.join(columns)}",
            view=view,
        )


def version_of_view(view: str) -> UnsupportedFeatureError:
    """The error of a version or options behind the name of a permanent view."""
    return UnsupportedFeatureError(
        f"{view} is a view, which takes neither a version nor options; give them to the tables of its query",
        feature="version of a view",
    )
