"""Statement → DataFrame. With `register_functions`, the port `SparkSql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError
from paimon_spark.sql.functions.table_functions import register_functions as register_functions
from paimon_spark.sql.parse import families, parse
from paimon_spark.sql.procedures.family import Call
from paimon_spark.sql.queries.run import run_query
from paimon_spark.sql.queries.statements import Query
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Statement
from paimon_spark.sql.wording import reword

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
