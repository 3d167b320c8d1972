"""Statements that show what there is, and those that change nothing but the session, as they were read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from paimon_spark.sql.statement import Statement

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
