"""Run queries, in classic sessions and in Spark Connect.

Classic sessions plan them; Spark Connect gets DataFrames in place of their tables.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from paimon_spark.errors import InvalidInputError
from paimon_spark.options.location import split_name
from paimon_spark.spark.session import is_classic
from paimon_spark.spark_port import planned_queries
from paimon_spark.sql.connect.frames import read_and_run
from paimon_spark.sql.queries.errors import helpful_error
from paimon_spark.sql.queries.parse import ParsedQuery, only_reads, parse_query
from paimon_spark.sql.session import Session
from paimon_spark.sql.substitutions import with_quoted_setting
from paimon_spark.sql.tokens import abbreviated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.api.views import View

_VIEWS_READ: Final[ContextVar[tuple[str, ...]]] = ContextVar("permanent views whose queries are planned", default=())


def run_query(session: Session, sql: str, job: str | None = None) -> DataFrame:
    """Run a statement that may read tables of the catalog; `job` is the lineage job of the reads.

    Where Spark plans the reads, they have the job of `reads_of_run`.

    Raises as `Catalog.sql`.
    """
    if is_classic(session.spark):
        return planned_queries().query(session, sql) if session.is_of_catalog else session.run(sql)
    setting = with_quoted_setting(sql)
    if setting != sql:
        return session.run(setting)
    try:
        return read_and_run(session, sql, job, view_rows)
    except PySparkException as e:
        error = helpful_error(session, e, sql)
        if error is None:
            raise
        raise error from e


def query_rows(session: Session, sql: str, job: str | None = None) -> DataFrame:
    """The rows of the query of a permanent view. Raises as `run_query` and `parse_query_of_view`."""
    parse_query_of_view(sql)
    return run_query(session, sql, job)


def parse_query_of_view(sql: str) -> ParsedQuery:
    """Parse the query of a permanent view. Raises InvalidInputError: it is another statement."""
    parsed = parse_query(sql)
    if not only_reads(parsed):
        raise InvalidInputError(f"the query of a view must be a SELECT, found: {abbreviated(sql)}", argument="query")
    return parsed


def view_rows(session: Session, view: View, job: str | None = None) -> DataFrame:
    """The rows of a permanent view of the session's catalog; `job` is the lineage job of the reads.

    Raises as `Catalog.sql`, and InvalidInputError: the query has more or fewer columns than the view, or the view reads
    itself.

    Source: Java Spark connector, `PaimonViewResolver`: columns are matched by position.
    """
    outer = _VIEWS_READ.get()
    if view.name in outer:
        raise InvalidInputError(
            f"view {view.name} reads itself: {' reads '.join((*outer, view.name))}; replace one of their queries",
            view=view.name,
        )
    database, _ = split_name(view.name)
    token = _VIEWS_READ.set((*outer, view.name))
    try:
        frame = query_rows(session.for_view(database), view.spark_query, job)
    finally:
        _VIEWS_READ.reset(token)
    names = view.row_type.names
    if len(frame.columns) != len(names):
        raise InvalidInputError(
            f"view {view.name} has {len(names)} columns, and its query now has {len(frame.columns)}: "
            f"{', '.join(frame.columns)}; replace the view",
            view=view.name,
        )
    return frame.toDF(*names)
