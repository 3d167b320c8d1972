"""Grammar of SHOW, DESCRIBE, USE, REFRESH and ANALYZE."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.clauses import DATABASE, complete_partition_expressions, version_clause
from paimon_spark.sql.grammar.foreign import read_describe_detail
from paimon_spark.sql.statement import Name, Statement, TableStatement, UnsupportedStatement

PartitionFilter: TypeAlias = tuple[tuple[str, str], ...]
"""Partition columns with the SQL text of their values."""
_NOT_A_TABLE: Final = (
    "FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "(", "MAP", "REDUCE", "PROCEDURE", "CATALOG",
)  # fmt: skip
"""What may follow DESCRIBE and is not a table."""


@dataclass(frozen=True, slots=True)
class Describe(TableStatement):
    """DESCRIBE of a table, of a column, which is () for the table, or of a partition."""

    version: str | None
    extended: bool
    column: Name
    partition: PartitionFilter = ()


@dataclass(frozen=True, slots=True)
class DescribeDatabase(Statement):
    """DESCRIBE DATABASE."""

    name: Name
    extended: bool


@dataclass(frozen=True, slots=True)
class DescribeHistory(TableStatement):
    """DESCRIBE HISTORY, of at most `limit` commits; None for all."""

    limit: int | None


@dataclass(frozen=True, slots=True)
class ShowCreateTable(TableStatement):
    """SHOW CREATE TABLE."""


@dataclass(frozen=True, slots=True)
class ShowColumns(TableStatement):
    """SHOW COLUMNS."""


@dataclass(frozen=True, slots=True)
class ShowPartitions(TableStatement):
    """SHOW PARTITIONS; `partition` restricts some of the columns."""

    partition: PartitionFilter


@dataclass(frozen=True, slots=True)
class ShowProperties(TableStatement):
    """SHOW TBLPROPERTIES, of all keys or one."""

    key: str | None


@dataclass(frozen=True, slots=True)
class ShowTables(Statement):
    """SHOW TABLES, of the current database where its name is (); SHOW TABLE EXTENDED, which is not supported."""

    database: Name
    pattern: str | None
    extended: bool = False


@dataclass(frozen=True, slots=True)
class ShowTablePartition(TableStatement):
    """SHOW TABLE EXTENDED … LIKE 't' PARTITION (…)."""

    partition: PartitionFilter


@dataclass(frozen=True, slots=True)
class ShowViews(Statement):
    """SHOW VIEWS, of the current database where its name is ()."""

    database: Name
    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowDatabases(Statement):
    """SHOW DATABASES; `catalog` follows IN."""

    catalog: str | None
    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowCatalogs(Statement):
    """SHOW CATALOGS."""

    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowProcedures(Statement):
    """SHOW PROCEDURES, of the database after IN, which is () without one."""

    database: Name


class UseKind(Enum):
    """Kind of object that USE or SET CATALOG names."""

    ANY = "a database or a catalog"
    DATABASE = "a database"
    CATALOG = "a catalog"


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """USE and SET CATALOG."""

    name: Name
    kind: UseKind


@dataclass(frozen=True, slots=True)
class ShowCurrent(Statement):
    """SHOW CURRENT NAMESPACE."""


@dataclass(frozen=True, slots=True)
class Refresh(TableStatement):
    """REFRESH TABLE."""


@dataclass(frozen=True, slots=True)
class Analyze(TableStatement):
    """ANALYZE TABLE … COMPUTE STATISTICS; `columns` of None means all columns, of () none."""

    columns: tuple[str, ...] | None


def read_describe(cursor: Cursor) -> Statement | None:
    """Read DESCRIBE of a table, column or database; None of a function or a query. Raises SqlSyntaxError."""
    if not _is_last(cursor):  # a table may have the name of any keyword
        if any(map(cursor.at, _NOT_A_TABLE)):
            return None
        if cursor.take_one(*DATABASE) is not None:
            extended = cursor.take("EXTENDED")
            return DescribeDatabase(cursor.sql, cursor.name("the name of a database"), extended)
        if cursor.take("HISTORY"):
            table = cursor.name()
            return DescribeHistory(cursor.sql, table, cursor.whole_number() if cursor.take("LIMIT") else None)
        if cursor.at("DETAIL") and not cursor.at("DETAIL", "."):
            cursor.take("DETAIL")
            return read_describe_detail(cursor)
        cursor.take("TABLE")
    extended = not _is_last(cursor) and cursor.take_one("EXTENDED", "FORMATTED") is not None
    table = cursor.name()
    version = version_clause(cursor)
    partition = complete_partition_expressions(cursor) if cursor.take("PARTITION") else {}
    column: Name = ()
    if not cursor.at_end and not cursor.at("AS", "JSON") and not partition:
        column = cursor.name("the name of a column, or the end of the statement")
    if cursor.take("AS", "JSON"):
        return UnsupportedStatement(cursor.sql, (table,), "DESCRIBE AS JSON", "Use Table.schema in Python")
    asked = None if version is None else str(version)
    return Describe(cursor.sql, table, asked, extended, column, tuple(partition.items()))


def read_show_create(cursor: Cursor) -> Statement:
    """Read SHOW CREATE TABLE. Raises SqlSyntaxError."""
    table = cursor.name()
    if cursor.take("AS", "SERDE"):
        return UnsupportedStatement(cursor.sql, (table,), "AS SERDE", "Leave it out: Hive has no such table")
    return ShowCreateTable(cursor.sql, table)


def read_show_columns(cursor: Cursor) -> Statement:
    """Read SHOW COLUMNS IN t [IN database]. Raises SqlSyntaxError."""
    if cursor.take_one("IN", "FROM") is None:
        cursor.fail("IN or FROM")
    table, database = cursor.name(), _database(cursor)
    if not database:
        return ShowColumns(cursor.sql, table)
    if len(table) > 1 and table[:-1] != database[-len(table) + 1 :]:
        raise SqlSyntaxError(
            f"table {'.'.join(table)} is not in database {'.'.join(database)}; name its database once", sql=cursor.sql
        )
    return ShowColumns(cursor.sql, (*database, table[-1]))


def read_show_partitions(cursor: Cursor) -> Statement:
    """Read SHOW PARTITIONS t [PARTITION (…)]. Raises SqlSyntaxError."""
    table = cursor.name()
    partition = complete_partition_expressions(cursor) if cursor.take("PARTITION") else {}
    return ShowPartitions(cursor.sql, table, tuple(partition.items()))


def read_show_properties(cursor: Cursor) -> Statement:
    """Read SHOW TBLPROPERTIES t [(key)]. Raises SqlSyntaxError."""
    table = cursor.name()
    key: str | None = None
    if cursor.take("("):
        key = cursor.text() if cursor.at_text else cursor.until(")").replace("`", "")
        cursor.expect(")")
    return ShowProperties(cursor.sql, table, key)


def read_show_tables(cursor: Cursor) -> Statement:
    """Read SHOW TABLES [IN database] [LIKE 'pattern']. Raises SqlSyntaxError."""
    return ShowTables(cursor.sql, _database(cursor), _pattern(cursor))


def read_show_views(cursor: Cursor) -> Statement:
    """Read SHOW VIEWS [IN database] [LIKE 'pattern']. Raises SqlSyntaxError."""
    return ShowViews(cursor.sql, _database(cursor), _pattern(cursor))


def read_show_table_extended(cursor: Cursor) -> Statement:
    """Read SHOW TABLE EXTENDED [IN database] LIKE 't' [PARTITION (…)]. Raises SqlSyntaxError."""
    database = _database(cursor)
    pattern = _pattern(cursor)
    if pattern is not None and cursor.take("PARTITION"):
        partition = complete_partition_expressions(cursor)
        return ShowTablePartition(cursor.sql, (*database, pattern), tuple(partition.items()))
    cursor.rest()
    return ShowTables(cursor.sql, database, None, extended=True)


def read_show_databases(cursor: Cursor) -> Statement:
    """Read SHOW DATABASES, SCHEMAS or NAMESPACES [IN catalog] [LIKE 'pattern']. Raises SqlSyntaxError."""
    has_catalog = cursor.take_one("IN", "FROM") is not None
    catalog = cursor.identifier("the name of a catalog") if has_catalog else None
    return ShowDatabases(cursor.sql, catalog, _pattern(cursor))


def read_show_catalogs(cursor: Cursor) -> Statement:
    """Read SHOW CATALOGS [LIKE 'pattern']. Raises SqlSyntaxError."""
    return ShowCatalogs(cursor.sql, _pattern(cursor))


def read_show_procedures(cursor: Cursor) -> Statement:
    """Read SHOW PROCEDURES [IN database]. Raises SqlSyntaxError."""
    return ShowProcedures(cursor.sql, _database(cursor))


def read_use(cursor: Cursor) -> Statement:
    """Read USE [DATABASE] name. Raises SqlSyntaxError."""
    kind = UseKind.ANY if _is_last(cursor) or cursor.take_one(*DATABASE) is None else UseKind.DATABASE
    return Use(cursor.sql, cursor.name("the name of a database"), kind)


def read_set_catalog(cursor: Cursor) -> Statement:
    """Read SET CATALOG name. Raises SqlSyntaxError."""
    name = cursor.text() if cursor.at_text else cursor.identifier("the name of a catalog")
    return Use(cursor.sql, (name,), UseKind.CATALOG)


def read_show_current(cursor: Cursor) -> Statement:
    """Read SHOW CURRENT NAMESPACE. Raises SqlSyntaxError."""
    if cursor.take_one(*DATABASE) is None:
        cursor.fail("NAMESPACE")
    return ShowCurrent(cursor.sql)


def read_refresh(cursor: Cursor) -> Statement:
    """Read REFRESH TABLE. Raises SqlSyntaxError."""
    return Refresh(cursor.sql, cursor.name())


def read_analyze(cursor: Cursor) -> Statement:
    """Read ANALYZE TABLE … COMPUTE STATISTICS. Raises SqlSyntaxError."""
    table = cursor.name()
    has_partition = cursor.take("PARTITION")
    if has_partition:
        cursor.parenthesised()
    cursor.expect("COMPUTE", "STATISTICS")
    if cursor.take("NOSCAN") or has_partition:
        what, name = "PARTITION" if has_partition else "NOSCAN", ".".join(table)
        instead = (
            f"Paimon's statistics are of all rows of a snapshot; leave {what} out. Counts by file and partition are in "
            f"{name}$files and {name}$partitions"
        )
        return UnsupportedStatement(cursor.sql, (table,), f"ANALYZE TABLE {what}", instead)
    columns: tuple[str, ...] | None = ()
    if cursor.take("FOR"):
        if cursor.take("ALL", "COLUMNS"):
            columns = None
        else:
            cursor.expect("COLUMNS")
            columns = tuple(cursor.listed(lambda: cursor.identifier("the name of a column")))
    return Analyze(cursor.sql, table, columns)


def _is_last(cursor: Cursor) -> bool:
    """Whether the next token is the last one."""
    return len(cursor.tokens) <= cursor.index + 1


def _pattern(cursor: Cursor) -> str | None:
    if cursor.take("LIKE") or cursor.at_text:
        return cursor.text("a pattern in quotes")
    return None


def _database(cursor: Cursor) -> Name:
    """Read IN and the name of a database; empty when it does not come next."""
    return cursor.name("the name of a database") if cursor.take_one("IN", "FROM") is not None else ()
