"""DROP TABLE, MSCK, databases, views: text → statement."""

from __future__ import annotations

from typing import Final

from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.statement import Statement
from paimon_spark.sql.grammar.clauses import guarded, properties, unsupported
from paimon_spark.sql.tables.statements import (
    AlterDatabase,
    CreateDatabase,
    CreateView,
    DropDatabase,
    DropTable,
    Name,
)

DATABASE: Final = ("DATABASE", "SCHEMA", "NAMESPACE")


def read_drop_table(cursor: Cursor) -> Statement:
    """DROP TABLE. Raises SqlSyntaxError."""
    cursor.expect("DROP", "TABLE")
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name()

    def rest() -> Statement:
        cursor.take("PURGE")
        return DropTable(cursor.sql, name, if_exists)

    return guarded(cursor, name, rest)


def read_repair(cursor: Cursor) -> Statement:
    """[MSCK] REPAIR TABLE, refused. Raises SqlSyntaxError: no name of a table follows."""
    cursor.take("MSCK")
    cursor.expect("REPAIR", "TABLE")
    name = cursor.name()
    instead = "partitions are known by their rows, and need no repair"
    return guarded(cursor, name, lambda: unsupported(cursor, "MSCK REPAIR TABLE", instead))


def read_create_database(cursor: Cursor) -> Statement:
    """CREATE DATABASE. Raises SqlSyntaxError."""
    cursor.expect("CREATE")
    cursor.take_one(*DATABASE)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a database")
    location: str | None = None
    dropped: list[str] = []
    while not cursor.is_over:
        if cursor.take("COMMENT"):
            cursor.text()
            dropped.append("COMMENT")
        elif cursor.take("LOCATION"):
            location = cursor.text()
        elif cursor.take("WITH", "DBPROPERTIES") or cursor.take("WITH", "PROPERTIES"):
            properties(cursor)
            dropped.append("PROPERTIES")
        elif cursor.take("DEFAULT", "COLLATION"):
            cursor.identifier("the name of a collation")
            dropped.append("COLLATION")
        else:
            cursor.fail("COMMENT, LOCATION or WITH DBPROPERTIES")
    return CreateDatabase(cursor.sql, name, if_not_exists, location, tuple(dropped))


def read_drop_database(cursor: Cursor) -> Statement:
    """DROP DATABASE. Raises SqlSyntaxError."""
    cursor.expect("DROP")
    cursor.take_one(*DATABASE)
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name("the name of a database")
    how = cursor.take_one("CASCADE", "RESTRICT")
    cursor.end()
    return DropDatabase(cursor.sql, name, if_exists, how == "CASCADE")


def read_alter_database(cursor: Cursor) -> Statement:
    """ALTER DATABASE, which is not looked at further. Raises SqlSyntaxError."""
    cursor.expect("ALTER")
    cursor.take_one(*DATABASE)
    return AlterDatabase(cursor.sql, cursor.name("the name of a database"))


def read_create_view(cursor: Cursor) -> Statement:
    """CREATE VIEW. Raises SqlSyntaxError: no name follows."""
    cursor.expect("CREATE")
    cursor.take("OR", "REPLACE")
    cursor.expect("VIEW")
    cursor.take("IF", "NOT", "EXISTS")
    name: Name = cursor.name("the name of a view")
    cursor.until("AS")
    cursor.take("AS")
    return CreateView(cursor.sql, name, cursor.rest())
