"""Temporary views and cached tables of queries on Paimon tables: made of the DataFrame, so that they keep its reads.

Spark would keep their text, in which the DataFrames have no meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import col

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.queries.tree import Reading
from paimon_spark.sql.session import Session
from paimon_spark.sql.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def make_view(reading: Reading, frame: DataFrame) -> None:
    """`CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW v [(columns)] [COMMENT …] AS …`, of a query's rows.

    Raises:
        InvalidInputError: as many columns as the query has are not named.
        UnsupportedFeatureError: options that a temporary view does not have.
        SqlSyntaxError: the statement is written wrongly.
    """
    cursor = Cursor(reading.sql)
    cursor.expect("CREATE")
    replaces = cursor.take("OR", "REPLACE")
    is_global = cursor.take("GLOBAL")
    if not cursor.take("TEMP"):
        cursor.expect("TEMPORARY")
    cursor.expect("VIEW")
    name = cursor.name("the name of the view")
    if is_global and len(name) == 2 and name[0].lower() == "global_temp":
        name = name[1:]
    if len(name) != 1:
        cursor.fail("the name of a temporary view, which is in no database")
    columns = _columns(cursor) if cursor.take("(") else []
    if cursor.take("COMMENT"):
        cursor.text("a comment")  # of the view: Spark keeps none for views of DataFrames
    if not cursor.at("AS"):
        raise UnsupportedFeatureError(
            f"the temporary view {name[0]} over a Paimon table takes columns and a comment, and then AS and a query",
            feature="options of temporary views",
        )
    shown = _renamed(frame, name[0], columns) if columns else frame
    _register(shown, name[0], replaces, is_global)


def make_cache(session: Session, reading: Reading, frame: DataFrame) -> None:
    """`CACHE [LAZY] TABLE v [OPTIONS (…)] AS …`, of a query's rows. Raises SqlSyntaxError."""
    cursor = Cursor(reading.sql)
    cursor.expect("CACHE")
    lazy = cursor.take("LAZY")
    cursor.expect("TABLE")
    name = cursor.name("the name of the view")
    if len(name) != 1:
        cursor.fail("the name of a temporary view, which is in no database")
    options = ""
    if cursor.take("OPTIONS"):
        options = f" OPTIONS ({cursor.parenthesised()})"
    _register(frame, name[0], False, False)
    session.spark.sql(f"CACHE {'LAZY ' if lazy else ''}TABLE {quoted(name[0])}{options}")


def _register(frame: DataFrame, name: str, replaces: bool, is_global: bool) -> None:
    match replaces, is_global:
        case True, True:
            frame.createOrReplaceGlobalTempView(quoted(name))
        case True, False:
            frame.createOrReplaceTempView(quoted(name))
        case False, True:
            frame.createGlobalTempView(quoted(name))
        case _:
            frame.createTempView(quoted(name))


def _columns(cursor: Cursor) -> list[tuple[str, str | None]]:
    """Names and comments of columns, after the bracket."""
    found = []
    while True:
        name = cursor.identifier("the name of a column")
        found.append((name, cursor.text("a comment") if cursor.take("COMMENT") else None))
        if cursor.take(")"):
            return found
        cursor.expect(",")


def _renamed(frame: DataFrame, view: str, columns: list[tuple[str, str | None]]) -> DataFrame:
    if len(columns) != len(frame.columns):
        raise InvalidInputError(
            f"the view {view} names {len(columns)} columns, and its query has {len(frame.columns)}: "
            f"{', '.join(frame.columns)}",
            view=view,
        )
    out = frame.toDF(*(name for name, _ in columns))
    if all(comment is None for _, comment in columns):
        return out
    said = {name: {} if comment is None else {"comment": comment} for name, comment in columns}
    return out.select(*(col(quoted(name)).alias(name, metadata=said[name]) for name, _ in columns))
