"""What a statement such as SHOW TAGS is about: a table or database of the catalog that exists, or Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.sql.names import CATALOG, TableName, source, target
from paimon_spark.sql.text import quoted

if TYPE_CHECKING:
    from paimon_spark.sql.session import Session


def subject(session: Session, parts: Sequence[str]) -> TableName | None:
    """The table of the catalog that a statement means; None when it is a table or view of Spark's.

    A name that nobody knows is the catalog's, so that the error is one that offers the nearest names.

    Raises:
        TableNotFoundError, DatabaseNotFoundError: neither the warehouse nor Spark has it.
        InvalidOptionError: what follows `$` is no branch and no system table.
    """
    found = source(session, parts)
    if found is None and not _is_of_spark(session, parts):
        found = target(session, parts)
        if found is None and len(parts) == 2:
            session.catalog.list_tables(parts[0])  # there is no such database, which says so
    if found is not None and not session.has_table(found.database, found.table):
        session.catalog.table(found.bare)  # says what tables there are
    return found


def subject_database(session: Session, parts: Sequence[str]) -> str | None:
    """The database of the warehouse that a statement means; None when it is Spark's. Without parts, the current one.

    Raises:
        DatabaseNotFoundError: neither the warehouse nor Spark has it.
    """
    if len(parts) == 2 and parts[0].lower() == CATALOG:
        session.catalog.list_tables(parts[1])
        return parts[1]
    if len(parts) > 1:
        return None
    name = parts[0] if parts else session.database
    if not session.has_database(name):
        if session.spark.catalog.databaseExists(quoted(name)):
            return None
        session.catalog.list_tables(name)  # says what databases there are
    return name


def _is_of_spark(session: Session, parts: Sequence[str]) -> bool:
    """Whether Spark knows a table or view, or at least the place where it would be."""
    if len(parts) == 1:
        return session.spark.catalog.tableExists(quoted(parts[0]))
    return len(parts) > 2 or session.spark.catalog.databaseExists(quoted(parts[0]))
