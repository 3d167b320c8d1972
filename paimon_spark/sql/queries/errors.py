"""What Spark says of a statement that it refuses → what helps whoever wrote it.

Spark knows the tables of its own catalogs only. Where it misses a name, the warehouse is named beside it; what a read
said is taken out of Spark's trace of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from paimon_spark import errors
from paimon_spark.errors import PaimonError, SqlSyntaxError, TableNotFoundError
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.sql.tokens import abbreviated

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

    from paimon_spark.sql.queries.parse import Reading
    from paimon_spark.sql.session import Session

_RAISED: Final = re.compile(r"^\s*paimon_spark\.errors\.(\w+): (.+)$", re.MULTILINE)
_PART: Final = re.compile(r"`((?:[^`]|``)*)`")
_PARSER: Final = re.compile(r"\]\s*(.+?)\.? SQLSTATE", re.DOTALL)
_SUFFIXED: Final = re.compile(r"(\w+)`?\.`?(\w+)`?\$")
_OF_SPARK: Final = "spark_catalog"
_NO_PREFIX: Final = ("EXPLAIN", "SET", "RESET", "BEGIN")
"""Statements that cannot stand behind EXPLAIN."""


def raised_in(error: BaseException) -> PaimonError | None:
    """The error of this package that Spark's shows a trace of, if any."""
    found = _RAISED.findall(str(error))
    if not found:
        return None
    name, message = found[-1]
    cls = getattr(errors, name, None)
    return cls(message) if isinstance(cls, type) and issubclass(cls, PaimonError) else None


def better(session: Session, error: PySparkException, sql: str) -> PaimonError | None:
    """An error that says more than Spark's of a statement, if there is one."""
    condition = error.getCondition()
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return _unknown_table(session, _parts((error.getMessageParameters() or {}).get("relationName", "")))
    if condition == "PARSE_SYNTAX_ERROR" and "'$'" in str(error):
        # What follows `$` is known after tables of the warehouse alone.
        found = _SUFFIXED.search(sql)
        return None if found is None else _unknown_table(session, [found[1], found[2]])
    return raised_in(error)


def lacks_a_column(error: PySparkException) -> bool:
    """Whether Spark misses a column, so that it had better see them all."""
    return (error.getCondition() or "").startswith("UNRESOLVED_COLUMN")


def syntax_error(session: Session, reading: Reading) -> SqlSyntaxError | None:
    """What Spark's parser says of a statement; None where it understands it, or cannot be asked."""
    from pyspark.errors import ParseException, PySparkException

    # Spark does not take `t$tags` without quotes, so its answer would be about the $.
    if "$" in reading.sql or not reading.tokens or reading.tokens[0].keyword in _NO_PREFIX:
        return None
    try:
        session.run(f"EXPLAIN {reading.sql}")  # parses the statement, and runs nothing of it
    except ParseException as e:
        found = _PARSER.search(str(e))
        said = str(e).strip().splitlines()[0] if found is None else " ".join(found[1].split())
        return SqlSyntaxError(
            f"Spark does not understand the statement: {said}: {abbreviated(reading.sql)}", sql=reading.sql
        )
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
        said = f"has no database {database!r}{did_you_mean(database, databases)}; its databases are "
        said += ", ".join(databases[:20]) or "none"
    else:
        tables = session.catalog.list_tables(database)
        said = f"has no table {parts[-1]!r} in database {database!r}{did_you_mean(parts[-1], tables)}; its tables are "
        said += ", ".join(tables[:20]) or "none"
    hint = "" if len(parts) > 1 else "; write database.table, or choose the database with USE"
    return TableNotFoundError(
        f"there is no table or view {'.'.join(parts)}: Spark knows none, and warehouse {warehouse} {said}{hint}. "
        "Upper and lower case matter in names of tables",
        table=".".join(parts),
    )
