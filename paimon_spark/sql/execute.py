"""Statement → DataFrame.

Text → statement, by the words that it begins with. Whatever no family claims is a query, for Spark to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from paimon_spark.errors import PaimonError
from paimon_spark.sql.procedures.statements import Call
from paimon_spark.sql.queries.run import run_query
from paimon_spark.sql.statement import Query
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Statement
from paimon_spark.sql.messages import reword
from functools import cache
from importlib import import_module
from typing import Final
from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.statement import Query
from paimon_spark.sql.tokens import statements_of
from paimon_spark.sql.statement import Family, Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.api.catalog import Catalog

def execute(
    catalog: Catalog,
    sql: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    session: SparkSession | None = None,
) -> DataFrame:
    """As `Catalog.sql`."""
    return run(Session.of(catalog, session, args), sql)


def run(session: Session, sql: str) -> DataFrame:
    """Run a statement in a session that is there. Raises as `Catalog.sql`."""
    statement = parse(sql)
    try:
        return _run(session, statement)
    except PaimonError as e:
        reword(e, is_call=isinstance(statement, Call))
        raise


def _run(session: Session, statement: Statement) -> DataFrame:
    if not isinstance(statement, Query):
        for family in families():
            runner = family.runners.get(type(statement))
            if runner is not None:
                result = runner(session, statement)
                if result is not NotImplemented:
                    return session.nothing() if result is None else result
    return run_query(session, Query(statement.sql))


FAMILIES: Final = ("tables", "shows", "refs", "rows", "procedures")


@cache
def families() -> tuple[Family, ...]:
    """The families of statements, loaded when the first statement is read."""
    return tuple(import_module(f"paimon_spark.sql.{name}.family").FAMILY for name in FAMILIES)


def parse(sql: str) -> Statement:
    """The statement that `sql` is.

    Raises:
        SqlSyntaxError: blank, several statements, or one of Paimon's that is written wrongly.
    """
    cursor = Cursor(sql)
    if cursor.is_over:
        raise SqlSyntaxError("the statement is blank", sql=sql)
    if any(w.keyword == ";" for w in cursor.words) and len(statements_of(sql)) > 1:
        raise SqlSyntaxError("give one statement at a time, without ; between several", sql=sql)
    readers = [item for family in families() for item in family.readers.items() if cursor.at(*item[0])]
    for _, read in sorted(readers, key=lambda item: -len(item[0])):
        cursor.index = 0
        statement = read(cursor)
        if statement is not None:
            return statement
    return Query(sql)
