"""Text → statements that show. The forms are Spark's (`SqlBaseParser.g4`).

Statements that show what there is, and those that change nothing but the session, as they were read.
"""

from __future__ import annotations

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.rows.pieces import whole_partition
from paimon_spark.sql.statement import Statement
from dataclasses import dataclass
from enum import Enum
from paimon_spark.sql.statement import Statement

_OF_SPARK = ("FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "(", "MAP", "REDUCE", "PROCEDURE", "CATALOG")
"""What DESCRIBE may be followed by that is no table."""
_DATABASES = ("DATABASE", "SCHEMA", "NAMESPACE")


def read_describe(cursor: Cursor) -> Statement | None:
    """DESCRIBE or DESC of a table, a column or a database; None of a function or a query. Raises SqlSyntaxError."""
    cursor.take_one("DESCRIBE", "DESC")
    is_only_word = len(cursor.words) == cursor.index + 1
    if not is_only_word and any(cursor.at(word) for word in _OF_SPARK):
        return None
    if not is_only_word and cursor.take_one(*_DATABASES) is not None:
        extended = cursor.take("EXTENDED")
        database = DescribeDatabase(cursor.sql, cursor.name("the name of a database"), extended)
        cursor.end()
        return database
    if not is_only_word:
        cursor.take("TABLE")
    extended = len(cursor.words) > cursor.index + 1 and cursor.take_one("EXTENDED", "FORMATTED") is not None
    table = cursor.name()
    version = _version(cursor)
    partition = _partition(cursor)
    column: tuple[str, ...] = ()
    if not cursor.is_over and not cursor.at("AS", "JSON"):
        column = cursor.name("the name of a column, or the end of the statement")
    as_json = cursor.take("AS", "JSON")
    cursor.end()
    return Describe(cursor.sql, table, version, extended, column, partition, as_json)


def read_show_create(cursor: Cursor) -> ShowCreateTable:
    """SHOW CREATE TABLE. Raises SqlSyntaxError."""
    cursor.expect("SHOW", "CREATE", "TABLE")
    statement = ShowCreateTable(cursor.sql, cursor.name(), cursor.take("AS", "SERDE"))
    cursor.end()
    return statement


def read_show_columns(cursor: Cursor) -> ShowColumns:
    """SHOW COLUMNS IN t, SHOW COLUMNS IN t IN db. Raises SqlSyntaxError."""
    cursor.expect("SHOW", "COLUMNS")
    _in(cursor)
    table = cursor.name()
    if cursor.take_one("IN", "FROM") is not None:
        database = cursor.name("the name of a database")
        if len(table) > 1 and table[:-1] != database[-len(table) + 1 :]:
            raise SqlSyntaxError(
                f"table {'.'.join(table)} is not in database {'.'.join(database)}; name its database once",
                sql=cursor.sql,
            )
        table = (*database, table[-1])
    cursor.end()
    return ShowColumns(cursor.sql, table)


def read_show_partitions(cursor: Cursor) -> ShowPartitions:
    """SHOW PARTITIONS t [PARTITION (…)]. Raises SqlSyntaxError."""
    cursor.expect("SHOW", "PARTITIONS")
    statement = ShowPartitions(cursor.sql, cursor.name(), _partition(cursor))
    cursor.end()
    return statement


def read_show_properties(cursor: Cursor) -> ShowProperties:
    """SHOW TBLPROPERTIES t [(key)]. Raises SqlSyntaxError."""
    cursor.expect("SHOW", "TBLPROPERTIES")
    table = cursor.name()
    key: str | None = None
    if cursor.take("("):
        is_text = cursor.word is not None and cursor.word.is_text
        key = cursor.text() if is_text else cursor.until(")").replace("`", "")
        cursor.expect(")")
    cursor.end()
    return ShowProperties(cursor.sql, table, key)


def read_show_tables(cursor: Cursor) -> ShowTables:
    """SHOW TABLES [IN db] [LIKE 'pattern'], SHOW TABLE EXTENDED [IN db] LIKE 'pattern'. Raises SqlSyntaxError."""
    cursor.expect("SHOW")
    extended = cursor.take("TABLE", "EXTENDED")
    if not extended:
        cursor.expect("TABLES")
    database: tuple[str, ...] = ()
    if cursor.take_one("IN", "FROM") is not None:
        database = cursor.name("the name of a database")
    if extended and not cursor.at("LIKE"):
        cursor.fail("LIKE")
    pattern = _pattern(cursor)
    partition = _partition(cursor) if extended else ()
    cursor.end()
    return ShowTables(cursor.sql, database, pattern, extended, partition)


def read_show_databases(cursor: Cursor) -> ShowDatabases:
    """SHOW DATABASES, SCHEMAS or NAMESPACES [IN catalog] [LIKE 'pattern']. Raises SqlSyntaxError."""
    cursor.expect("SHOW")
    cursor.take_one("DATABASES", "SCHEMAS", "NAMESPACES")
    catalog = None
    if cursor.take_one("IN", "FROM") is not None:
        catalog = cursor.identifier("the name of a catalog")
    statement = ShowDatabases(cursor.sql, catalog, _pattern(cursor))
    cursor.end()
    return statement


def read_use(cursor: Cursor) -> Use:
    """USE [DATABASE] name. Raises SqlSyntaxError."""
    cursor.expect("USE")
    named = len(cursor.words) > cursor.index + 1 and cursor.take_one(*_DATABASES) is not None
    kind = Namespace.DATABASE if named else Namespace.ANY
    statement = Use(cursor.sql, cursor.name("the name of a database"), kind)
    cursor.end()
    return statement


def read_set_catalog(cursor: Cursor) -> Use:
    """SET CATALOG name. Raises SqlSyntaxError."""
    cursor.expect("SET", "CATALOG")
    is_text = cursor.word is not None and cursor.word.is_text
    name = cursor.text() if is_text else cursor.identifier("the name of a catalog")
    cursor.end()
    return Use(cursor.sql, (name,), Namespace.CATALOG)


def read_show_current(cursor: Cursor) -> ShowCurrent:
    """SHOW CURRENT NAMESPACE. Raises SqlSyntaxError."""
    cursor.expect("SHOW", "CURRENT")
    if cursor.take_one(*_DATABASES) is None:
        cursor.fail("NAMESPACE")
    cursor.end()
    return ShowCurrent(cursor.sql)


def read_refresh(cursor: Cursor) -> Refresh:
    """REFRESH TABLE t. Raises SqlSyntaxError."""
    cursor.expect("REFRESH", "TABLE")
    statement = Refresh(cursor.sql, cursor.name())
    cursor.end()
    return statement


def read_analyze(cursor: Cursor) -> Analyze | None:
    """ANALYZE TABLE t COMPUTE STATISTICS …; None of ANALYZE TABLES, which is Spark's. Raises SqlSyntaxError."""
    cursor.expect("ANALYZE", "TABLE")
    table = cursor.name()
    partition = cursor.parenthesised() if cursor.take("PARTITION") else ""
    cursor.expect("COMPUTE", "STATISTICS")
    no_scan = cursor.take("NOSCAN")
    columns: tuple[str, ...] | None = ()
    if cursor.take("FOR"):
        if cursor.take("ALL", "COLUMNS"):
            columns = None
        else:
            cursor.expect("COLUMNS")
            names = [cursor.identifier("the name of a column")]
            while cursor.take(","):
                names.append(cursor.identifier("the name of a column"))
            columns = tuple(names)
    cursor.end()
    return Analyze(cursor.sql, table, partition, columns, no_scan)


def _in(cursor: Cursor) -> None:
    if cursor.take_one("IN", "FROM") is None:
        cursor.fail("IN or FROM")


def _pattern(cursor: Cursor) -> str | None:
    if cursor.take("LIKE") or (cursor.word is not None and cursor.word.is_text):
        return cursor.text("a pattern in quotes")
    return None


def _version(cursor: Cursor) -> str | None:
    """What follows VERSION AS OF; Spark's DESCRIBE has no such words, its SELECT does."""
    if not cursor.take("VERSION", "AS", "OF"):
        return None
    if cursor.word is not None and cursor.word.is_text:
        return cursor.text()
    return str(cursor.whole_number("a version in quotes, or the id of a snapshot"))


def _partition(cursor: Cursor) -> PartitionSpec:
    """`PARTITION (a = 1, b = 'x')`, where it comes next; values are cut out as they stand."""
    return tuple(whole_partition(cursor).items()) if cursor.take("PARTITION") else ()


PartitionSpec = tuple[tuple[str, str], ...]
"""Columns of a partition with the text of their values, which is SQL."""


@dataclass(frozen=True, slots=True)
class TableStatement(Statement):
    """A statement on a table.

    Attributes:
        table: parts of its name.
    """

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Describe(TableStatement):
    """DESCRIBE of a table or a column.

    Attributes:
        version: a version of it, as `Table.at` takes it.
        extended: whether the rest of the definition is shown, too.
        column: parts of the column's name; empty for the table.
        partition: the partition that is meant; empty for none.
        as_json: whether JSON is asked for.
    """

    version: str | None
    extended: bool
    column: tuple[str, ...]
    partition: PartitionSpec
    as_json: bool


@dataclass(frozen=True, slots=True)
class DescribeDatabase(Statement):
    """DESCRIBE DATABASE; `name` is its parts."""

    name: tuple[str, ...]
    extended: bool


@dataclass(frozen=True, slots=True)
class ShowCreateTable(TableStatement):
    """SHOW CREATE TABLE; `as_serde` when Hive's form is asked for."""

    as_serde: bool


@dataclass(frozen=True, slots=True)
class ShowColumns(TableStatement):
    """SHOW COLUMNS."""


@dataclass(frozen=True, slots=True)
class ShowPartitions(TableStatement):
    """SHOW PARTITIONS, of all or of those that `partition` names in part."""

    partition: PartitionSpec


@dataclass(frozen=True, slots=True)
class ShowProperties(TableStatement):
    """SHOW TBLPROPERTIES, of all keys or one."""

    key: str | None


@dataclass(frozen=True, slots=True)
class ShowTables(Statement):
    """SHOW TABLES and SHOW TABLE EXTENDED.

    Attributes:
        database: parts of its name; empty for the current one.
        pattern: what names must be like; None is any.
        extended: whether what is known of each is told.
        partition: the partition that is told of instead of the table.
    """

    database: tuple[str, ...]
    pattern: str | None
    extended: bool
    partition: PartitionSpec


@dataclass(frozen=True, slots=True)
class ShowDatabases(Statement):
    """SHOW DATABASES; `catalog` is what follows IN."""

    catalog: str | None
    pattern: str | None


class Namespace(Enum):
    """What USE names: a database, or a catalog."""

    ANY = "a database or a catalog"
    DATABASE = "a database"
    CATALOG = "a catalog"


@dataclass(frozen=True, slots=True)
class Use(Statement):
    """USE and SET CATALOG; `name` is parts of what they name."""

    name: tuple[str, ...]
    kind: Namespace


@dataclass(frozen=True, slots=True)
class ShowCurrent(Statement):
    """SHOW CURRENT NAMESPACE."""


@dataclass(frozen=True, slots=True)
class Refresh(TableStatement):
    """REFRESH TABLE: nothing is ever cached here."""


@dataclass(frozen=True, slots=True)
class Analyze(TableStatement):
    """ANALYZE TABLE … COMPUTE STATISTICS.

    Attributes:
        partition: text of its PARTITION clause; empty for none.
        columns: names after FOR COLUMNS; None when all are asked for; empty for none.
        no_scan: whether only what metadata says is asked for.
    """

    partition: str
    columns: tuple[str, ...] | None
    no_scan: bool
