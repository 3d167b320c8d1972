"""Text → statement, by the words that it begins with. Whatever no family claims is a query, for Spark to run."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.queries.statements import Query
from paimon_spark.sql.scripts import statements_of
from paimon_spark.sql.statement import Family, Statement

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
