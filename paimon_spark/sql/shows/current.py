"""USE, SET CATALOG, SHOW CURRENT NAMESPACE and REFRESH: of the session, and of no table's rows.

`current_database()` in queries is Spark's own, and is not what USE said here: SHOW CURRENT NAMESPACE is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.shows.statements import Namespace, Refresh, ShowCurrent, Use
from paimon_spark.sql.shows.types import quoted_if_needed
from paimon_spark.sql.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def use(session: Session, statement: Use) -> Any:
    """Make a database the current one: of the warehouse when it has one of the name, else Spark's.

    The word `paimon` alone is the catalog, with `default` as its database, as it is at first; the database of that name
    is USE DATABASE paimon, or USE paimon.paimon.

    Raises:
        DatabaseNotFoundError: neither the warehouse nor Spark has it.
    """
    *place, last = statement.name
    if not place and statement.kind is not Namespace.DATABASE and last.lower() == CATALOG:
        session.forget_database()
        return None
    if [part.lower() for part in place] == [CATALOG]:
        return session.use(last)
    if not place and statement.kind is not Namespace.CATALOG:
        known_to_spark = session.spark.catalog.databaseExists(quoted(last))
        if session.has_database(last) or (not known_to_spark and not _is_catalog(session, last)):
            return session.use(last)
    session.forget_database()
    return NotImplemented


def show_current(session: Session, _: ShowCurrent) -> DataFrame:
    """The database that names without one mean."""
    return session.rows(
        "catalog STRING NOT NULL, namespace STRING NOT NULL", [(CATALOG, quoted_if_needed(session.database))]
    )


def refresh(session: Session, name: TableName, _: Refresh) -> None:
    """Nothing is kept of tables, so every statement sees them as they are. Raises when the table does not exist."""
    session.table(name)


def _is_catalog(session: Session, name: str) -> bool:
    """Whether Spark has a catalog of this name."""
    return any(found.name == name for found in session.spark.catalog.listCatalogs())
