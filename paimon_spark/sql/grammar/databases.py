"""Grammar of CREATE, DROP and ALTER DATABASE, and of CREATE VIEW."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import properties
from paimon_spark.sql.statement import Name, Statement

DATABASE: Final = ("DATABASE", "SCHEMA", "NAMESPACE")
"""Keywords that all mean a database."""


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """CREATE DATABASE.

    Attributes:
        not_stored: clauses that a warehouse of directories cannot store.
    """

    name: Name
    if_not_exists: bool = False
    location: str | None = None
    not_stored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropDatabase(Statement):
    """DROP DATABASE."""

    name: Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """ALTER DATABASE, of anything."""

    name: Name


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE VIEW, not a temporary one.

    Attributes:
        query: its text; blank when none was found.
    """

    name: Name
    query: str


def read_create_database(cursor: Cursor) -> Statement:
    """Read CREATE DATABASE. Raises SqlSyntaxError."""
    cursor.expect("CREATE")
    cursor.take_one(*DATABASE)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a database")
    location: str | None = None
    not_stored: list[str] = []
    while not cursor.at_end:
        if cursor.take("COMMENT"):
            cursor.text()
            not_stored.append("COMMENT")
        elif cursor.take("LOCATION"):
            location = cursor.text()
        elif cursor.take("WITH", "DBPROPERTIES") or cursor.take("WITH", "PROPERTIES"):
            properties(cursor)
            not_stored.append("PROPERTIES")
        elif cursor.take("DEFAULT", "COLLATION"):
            cursor.identifier("the name of a collation")
            not_stored.append("COLLATION")
        else:
            cursor.fail("COMMENT, LOCATION or WITH DBPROPERTIES")
    return CreateDatabase(cursor.sql, name, if_not_exists, location, tuple(not_stored))


def read_drop_database(cursor: Cursor) -> Statement:
    """Read DROP DATABASE. Raises SqlSyntaxError."""
    cursor.expect("DROP")
    cursor.take_one(*DATABASE)
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name("the name of a database")
    how = cursor.take_one("CASCADE", "RESTRICT")
    cursor.end()
    return DropDatabase(cursor.sql, name, if_exists, how == "CASCADE")


def read_alter_database(cursor: Cursor) -> Statement:
    """Read ALTER DATABASE up to the name. Raises SqlSyntaxError."""
    cursor.expect("ALTER")
    cursor.take_one(*DATABASE)
    return AlterDatabase(cursor.sql, cursor.name("the name of a database"))


def read_create_view(cursor: Cursor) -> Statement:
    """Read CREATE VIEW. Raises SqlSyntaxError: no name follows."""
    cursor.expect("CREATE")
    cursor.take("OR", "REPLACE")
    cursor.expect("VIEW")
    cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a view")
    cursor.until("AS")
    cursor.take("AS")
    return CreateView(cursor.sql, name, cursor.rest())
