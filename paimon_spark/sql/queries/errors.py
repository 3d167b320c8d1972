"""Replace Spark's errors by more helpful ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from paimon_spark import errors
from paimon_spark.errors import PaimonError, SqlSyntaxError, TableNotFoundError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.sql.tokens import abbreviated

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

    from paimon_spark.sql.queries.parse import ParsedQuery
    from paimon_spark.sql.session import Session

_RAISED: Final = re.compile(r"^\s*paimon_spark\.errors\.(\w+): (.+)$", re.MULTILINE)
_PART: Final = re.compile(r"`((?:[^`]|``)*)`")
_PARSER: Final = re.compile(r"\]\s*(.+?)\.? SQLSTATE", re.DOTALL)
_SUFFIXED: Final = re.compile(r"(\w+)`?\.`?(\w+)`?\$")
_OF_SPARK: Final = "spark_catalog"
_NO_PREFIX: Final = ("EXPLAIN", "SET", "RESET", "BEGIN")
"""Statements that EXPLAIN does not take."""
_AFTER_CONDITION: Final = frozenset(
    (";", ")", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "|>")
)


def raised_in(error: BaseException) -> PaimonError | None:
    """The error of this package in the trace of Spark's error, if any."""
    found = _RAISED.findall(str(error))
    if not found:
        return None
    name, message = found[-1]
    cls = getattr(errors, name, None)
    return cls(message) if isinstance(cls, type) and issubclass(cls, PaimonError) else None


def helpful_error(session: Session, error: PySparkException, sql: str) -> PaimonError | None:
    """A more helpful error than Spark's, if there is one."""
    condition = error.getCondition()
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return _unknown_table(session, _parts((error.getMessageParameters() or {}).get("relationName", "")))
    if condition == "PARSE_SYNTAX_ERROR" and "'$'" in str(error):
        # A suffix after `$` is allowed for tables of the warehouse only.
        found = _SUFFIXED.search(sql)
        return None if found is None else _unknown_table(session, [found[1], found[2]])
    return raised_in(error)


def lacks_a_column(error: PySparkException) -> bool:
    """Whether Spark reports an unknown column."""
    return (error.getCondition() or "").startswith("UNRESOLVED_COLUMN")


def _missing_condition(parsed: ParsedQuery) -> SqlSyntaxError | None:
    """The error of a WHERE or HAVING without a condition, which Spark takes for an alias; None without one."""
    for token, after in pairwise([*parsed.tokens, None]):
        assert token is not None
        following = "" if after is None else after.keyword
        if token.keyword in ("WHERE", "HAVING") and (after is None or following in _AFTER_CONDITION):
            found = "the end" if after is None else repr(following)
            return SqlSyntaxError(
                f"expected a condition after {token.keyword}, found {found} at position {token.end + 1} of: "
                f"{abbreviated(parsed.sql)}",
                sql=parsed.sql,
            )
    return None


def syntax_error(session: Session, parsed: ParsedQuery) -> SqlSyntaxError | None:
    """The error of Spark's parser for a statement; None when it parses, or cannot be checked."""
    missing = _missing_condition(parsed)
    if missing is not None:
        return missing
    from pyspark.errors import ParseException, PySparkException

    # Spark does not take `t$tags` without quotes, so its error would be about the $.
    if "$" in parsed.sql or not parsed.tokens or parsed.tokens[0].keyword in _NO_PREFIX:
        return None
    try:
        session.run(f"EXPLAIN {parsed.sql}")  # parses the statement without running it
    except ParseException as e:
        found = _PARSER.search(str(e))
        message = str(e).strip().splitlines()[0] if found is None else " ".join(found[1].split())
        return SqlSyntaxError(f"Spark cannot parse the statement: {message}: {abbreviated(parsed.sql)}", sql=parsed.sql)
    except PySparkException:
        return None
    return None


def _parts(name: str) -> list[str]:
    parts = [p.replace("``", "`") for p in _PART.findall(name)]
    return parts[1:] if parts[:1] == [_OF_SPARK] else parts


def _unknown_table(session: Session, parts: Sequence[str]) -> TableNotFoundError | None:
    if len(parts) not in (1, 2):
        return None
    warehouse, databases = session.catalog.warehouse, session.catalog.list_databases()
    database = parts[0] if len(parts) > 1 else session.database
    if database not in databases:
        what = f"has no database {database!r}{did_you_mean(database, databases)}; its databases are "
        what += ", ".join(databases[:20]) or "none"
    else:
        tables = session.catalog.list_tables(database)
        what = f"has no table {parts[-1]!r} in database {database!r}{did_you_mean(parts[-1], tables)}; its tables are "
        what += ", ".join(tables[:20]) or "none"
    hint = "" if len(parts) > 1 else "; write database.table, or set the database with USE"
    return TableNotFoundError(
        f"there is no table or view {'.'.join(parts)}: Spark has none, and warehouse {warehouse} {what}{hint}. "
        "Names of tables are case-sensitive",
        table=".".join(parts),
    )
