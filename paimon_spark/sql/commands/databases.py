"""Run CREATE, DROP and ALTER DATABASE, and refuse permanent views.

A warehouse of directories stores neither views nor properties of databases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.options.location import database_url
from paimon_spark.sql.commands.create_table import is_same_location
from paimon_spark.sql.grammar.databases import AlterDatabase, CreateDatabase, CreateView, DropDatabase
from paimon_spark.sql.names import CATALOG
from paimon_spark.sql.queries.parse import parse_query
from paimon_spark.sql.queries.references import references
from paimon_spark.sql.session import CachingSession, Session
from paimon_spark.sql.statement import Name, Outcome, Result
from paimon_spark.sql.tokens import quoted

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog


def create_database(session: Session, statement: CreateDatabase) -> Result:
    """Create a database of the warehouse."""
    name = _database_of_warehouse(statement.name)
    if name is None:
        return Outcome.RUN_BY_SPARK
    if statement.if_not_exists and session.has_database(name):
        return None
    if statement.not_stored:
        clauses = " and ".join(statement.not_stored)
        raise UnsupportedFeatureError(
            f"database {name!r}: a database of a warehouse is a directory and cannot store {clauses}; leave it out",
            feature=f"CREATE DATABASE with {clauses}",
        )
    if statement.location is not None:
        _check_location(session.catalog, name, statement.location)
    session.catalog.create_database(name, ignore_if_exists=statement.if_not_exists)
    return None


def drop_database(session: Session, statement: DropDatabase) -> Result:
    """Drop a database of the warehouse."""
    name = _database_of_warehouse(statement.name)
    if name is None:
        return Outcome.RUN_BY_SPARK
    is_ours = session.has_database(name)
    if not is_ours and len(statement.name) == 1 and session.spark.catalog.databaseExists(quoted(name)):
        return Outcome.RUN_BY_SPARK
    session.catalog.drop_database(name, ignore_if_not_exists=statement.if_exists, cascade=statement.cascade)
    return None


def alter_database(session: Session, statement: AlterDatabase) -> Result:
    """Refuse to alter a database of the warehouse."""
    name = _database_of_warehouse(statement.name)
    if name is None or not session.has_database(name):
        return Outcome.RUN_BY_SPARK
    raise UnsupportedFeatureError(
        f"database {name!r} cannot be altered: a database of a warehouse is a directory without properties, in a fixed "
        "place; set options on its tables, or copy them to another database",
        feature="ALTER DATABASE",
    )


def create_view(session: Session, statement: CreateView) -> Result:
    """Refuse a permanent view in the catalog or over its tables, whose text Spark could not run later."""
    parts = statement.name
    is_ours = len(parts) > 1 and (parts[0].lower() == CATALOG or (len(parts) == 2 and session.has_database(parts[0])))
    tables = references(CachingSession.over(session), parse_query(statement.query)) if statement.query else ()
    if not is_ours and not tables:
        return Outcome.RUN_BY_SPARK
    over = f" over {tables[0].name}" if tables else ""
    raise UnsupportedFeatureError(
        f"view {'.'.join(parts)}{over} cannot be stored: a warehouse of directories holds no views. CREATE TEMPORARY "
        f"VIEW {parts[-1]} AS … creates one for this session",
        feature="CREATE VIEW",
    )


def _check_location(catalog: Catalog, name: str, location: str) -> None:
    """Check that a LOCATION is where the catalog keeps the database. Raises UnsupportedFeatureError."""
    fixed = database_url(catalog.warehouse, name)
    if not is_same_location(catalog, location, fixed):
        raise UnsupportedFeatureError(
            f"database {name!r} cannot lie at {location!r}: it lies at {fixed}; leave LOCATION out, or load the "
            "catalog of another warehouse",
            feature="CREATE DATABASE with LOCATION",
        )


def _database_of_warehouse(parts: Name) -> str | None:
    """The database of the warehouse that a name means, existing or not; None when it is another catalog's."""
    if len(parts) == 1:
        return parts[0]
    return parts[1] if len(parts) == 2 and parts[0].lower() == CATALOG else None
