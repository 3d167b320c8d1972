"""CREATE, DROP and ALTER DATABASE, and views, of which a warehouse of directories keeps none."""

from __future__ import annotations

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.sql.names import CATALOG
from paimon_spark.sql.queries.find import references
from paimon_spark.sql.queries.known import KnownNames
from paimon_spark.sql.queries.tree import read
from paimon_spark.sql.session import Session
from paimon_spark.sql.tables.locations import check_database_location
from paimon_spark.sql.tables.statements import AlterDatabase, CreateDatabase, CreateView, DropDatabase, Name, Outcome
from paimon_spark.sql.text import quoted


def create_database(session: Session, statement: CreateDatabase) -> Outcome:
    """Make a database of the warehouse."""
    name = _of_warehouse(statement.name)
    if name is None:
        return NotImplemented
    if statement.if_not_exists and session.has_database(name):
        return None
    if statement.kept_nowhere:
        clauses = " and ".join(statement.kept_nowhere)
        raise UnsupportedFeatureError(
            f"database {name!r}: a database of a warehouse is a directory, which keeps no {clauses}; leave that out",
            feature=f"CREATE DATABASE with {clauses}",
        )
    if statement.location is not None:
        check_database_location(session.catalog, name, statement.location)
    session.catalog.create_database(name, ignore_if_exists=statement.if_not_exists)
    return None


def drop_database(session: Session, statement: DropDatabase) -> Outcome:
    """Remove a database of the warehouse."""
    name = _of_warehouse(statement.name)
    if name is None:
        return NotImplemented
    is_ours = session.has_database(name)
    if not is_ours and len(statement.name) == 1 and session.spark.catalog.databaseExists(quoted(name)):
        return NotImplemented
    session.catalog.drop_database(name, ignore_if_not_exists=statement.if_exists, cascade=statement.cascade)
    return None


def alter_database(session: Session, statement: AlterDatabase) -> Outcome:
    """Refuse to alter a database of the warehouse."""
    name = _of_warehouse(statement.name)
    if name is None or not session.has_database(name):
        return NotImplemented
    raise UnsupportedFeatureError(
        f"database {name!r} cannot be altered: a database of a warehouse is a directory, which keeps no properties and "
        "stays in its place; set options on its tables, or copy them to another database",
        feature="ALTER DATABASE",
    )


def create_view(session: Session, statement: CreateView) -> Outcome:
    """Refuse a lasting view in the catalog or over its tables: Spark would keep its text, which it cannot read."""
    shown = ".".join(statement.name)
    parts = statement.name
    is_ours = len(parts) > 1 and (parts[0].lower() == CATALOG or (len(parts) == 2 and session.has_database(parts[0])))
    tables = references(KnownNames.over(session), read(statement.query)) if statement.query else ()
    if not is_ours and not tables:
        return NotImplemented
    over = f" over {tables[0].name}" if tables else ""
    raise UnsupportedFeatureError(
        f"view {shown}{over} cannot be kept: a warehouse of directories has no place for views. CREATE TEMPORARY VIEW "
        f"{parts[-1]} AS … makes one for this session",
        feature="CREATE VIEW",
    )


def _of_warehouse(parts: Name) -> str | None:
    """The database of the warehouse that a name means, whether it exists or not; None when it is another catalog's."""
    if len(parts) == 1:
        return parts[0]
    return parts[1] if len(parts) == 2 and parts[0].lower() == CATALOG else None
