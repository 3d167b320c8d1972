"""SHOW CREATE TABLE, COLUMNS, PARTITIONS and TBLPROPERTIES.

Source: Spark's `ShowCreateTableExec`, `ShowPartitionsExec`, `ShowTablePropertiesExec`.

SHOW TABLES, SHOW TABLE EXTENDED and SHOW DATABASES, of the warehouse.

Source: Spark's `ShowTablesExec`, `ShowTablesExtendedExec`, `ShowNamespacesExec`, `StringUtils.filterPattern`.

USE, SET CATALOG, SHOW CURRENT NAMESPACE and REFRESH: of the session, and of no table's rows.

`current_database()` in queries is Spark's own, and is not what USE said here: SHOW CURRENT NAMESPACE is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.predicate.show import literal_text
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.commands.describe import partitions, properties
from paimon_spark.sql.grammar.show import (
    ShowColumns,
    ShowCreateTable,
    ShowPartitions,
    ShowProperties,
    TableStatement,
)
from paimon_spark.sql.commands.column_types import ddl_column, quoted_if_needed
from paimon_spark.sql.names import subject
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from paimon_spark.errors import PaimonError
from paimon_spark.spark.schema import spark_schema
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.commands.describe import one_partition, partition_facts, table_facts
from paimon_spark.sql.grammar.show import Describe, ShowDatabases, ShowTables
from paimon_spark.sql.commands.column_types import quoted_if_needed, spark_text
from paimon_spark.sql.names import subject_database
from typing import TYPE_CHECKING, Any
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.grammar.show import Namespace, Refresh, ShowCurrent, Use
from paimon_spark.sql.commands.column_types import quoted_if_needed
from paimon_spark.sql.tokens import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.api.table import Table
    from pyspark.sql import DataFrame

def on_table(verb: Callable[[Session, TableName, Any], DataFrame | None]) -> Callable[[Session, Any], Any]:
    """A runner for a statement on a table of the catalog; of one of Spark's it gives NotImplemented."""

    def run(session: Session, statement: TableStatement) -> Any:
        name = subject(session, statement.table)
        return NotImplemented if name is None else verb(session, name, statement)

    return run


def show_create(session: Session, name: TableName, statement: ShowCreateTable) -> DataFrame:
    """The statement that makes an equal table; of a branch, one with the definition of the branch.

    Raises:
        UnsupportedFeatureError: it is a system table, which nobody makes, or Hive's form is asked for.
    """
    if name.system is not None:
        raise UnsupportedFeatureError(
            f"{name} is a system table, which is always there and not created; DESCRIBE {name} shows its columns",
            feature="SHOW CREATE TABLE of a system table",
        )
    if statement.as_serde:
        raise UnsupportedFeatureError(
            f"SHOW CREATE TABLE {name} AS SERDE: Hive has no such table; leave AS SERDE out", feature="AS SERDE"
        )
    return session.rows("createtab_stmt STRING NOT NULL", [(create_statement(name, session.table(name)),)])


def create_statement(name: TableName, table: Table) -> str:
    """CREATE TABLE of a table. Where it lies is not stated, as its name says that."""
    schema = table.schema
    columns = ",\n  ".join(ddl_column(field) for field in schema.fields)
    out = [f"CREATE TABLE {CATALOG}.{quoted_if_needed(name.database)}.{quoted_if_needed(name.table)} (\n  {columns})"]
    out.append(f"USING {CATALOG}")
    if schema.partition_keys:
        out.append(f"PARTITIONED BY ({', '.join(map(quoted_if_needed, schema.partition_keys))})")
    if schema.comment:
        out.append(f"COMMENT {literal_text(schema.comment)}")
    stated = properties(table, with_path=False)
    if stated:
        pairs = ",\n  ".join(f"{literal_text(key)} = {literal_text(value)}" for key, value in stated.items())
        out.append(f"TBLPROPERTIES (\n  {pairs})")
    return "\n".join(out) + "\n"


def show_columns(session: Session, name: TableName, _: ShowColumns) -> DataFrame:
    """Names of the columns, in order."""
    return session.rows("col_name STRING NOT NULL", [(column,) for column in session.table(name).row_type.names])


def show_partitions(session: Session, name: TableName, statement: ShowPartitions) -> DataFrame:
    """Partitions that have files, as `dt=2024-01-01/hh=1`, sorted. Raises as `partitions`."""
    table = session.table(name, {"time-zone": session.time_zone})
    found = partitions(table, statement.partition)
    keys = table.schema.partition_keys
    return session.rows("partition STRING NOT NULL", [(p.path(keys),) for p in found])


def show_properties(session: Session, name: TableName, statement: ShowProperties) -> DataFrame:
    """Table options, the primary key and the path, by key; of one key, a sentence when the table has it not."""
    found = properties(session.table(name))
    if statement.key is not None:
        missing = f"Table {CATALOG}.{name} does not have property: {statement.key}"
        found = {statement.key: found.get(statement.key, missing)}
    return session.rows("key STRING NOT NULL, value STRING NOT NULL", found.items())


_TABLES: Final = "namespace STRING NOT NULL, tableName STRING NOT NULL, isTemporary BOOLEAN NOT NULL"


def show_tables(session: Session, statement: ShowTables) -> Any:
    """Tables of a database. Raises DatabaseNotFoundError."""
    database = subject_database(session, statement.database)
    if database is None:
        return NotImplemented
    shown = quoted_if_needed(database)
    names = list(alike(session.catalog.list_tables(database), statement.pattern))
    if not statement.extended:
        return session.rows(_TABLES, [(shown, name, False) for name in names])
    rows = [(shown, name, False, _information(session, database, name, statement)) for name in names]
    return session.rows(f"{_TABLES}, information STRING NOT NULL", rows)


def show_databases(session: Session, statement: ShowDatabases) -> Any:
    """Databases of the warehouse; those of Spark's own catalogs when one is named."""
    if statement.catalog is not None and statement.catalog.lower() != CATALOG:
        return NotImplemented
    names = alike(session.catalog.list_databases(), statement.pattern)
    return session.rows("namespace STRING NOT NULL", [(quoted_if_needed(name),) for name in names])


def alike(names: Iterable[str], pattern: str | None) -> Iterator[str]:
    """The names that a pattern of SHOW … LIKE means: `*` is anything, `|` or, case does not count."""
    if pattern is None:
        yield from names
        return
    alternatives = [part.replace("*", ".*") for part in pattern.strip().split("|")]
    yield from (name for name in names if any(_matches(name, a) for a in alternatives))


def _matches(name: str, alternative: str) -> bool:
    try:
        return re.fullmatch(alternative, name, re.IGNORECASE) is not None
    except re.error:  # matches nothing, as in Spark
        return False


def _information(session: Session, database: str, name: str, statement: ShowTables) -> str:
    """A table, or its partition, as lines of text."""
    place = TableName(database, name)
    table = session.table(place, {"time-zone": session.time_zone})
    if statement.partition:
        asked = Describe(statement.sql, (database, name), None, True, (), statement.partition, False)
        facts = list(partition_facts(table, one_partition(table, asked)))
        return "".join(f"{key}: {value}\n" for key, value in facts) + "\n"
    facts = [("Catalog", CATALOG), ("Namespace", database), ("Table", name)]
    facts += [(key, value) for key, value in table_facts(place, table) if key != "Name"]
    keys = table.schema.partition_keys
    if keys:
        facts += [("Partition Provider", "Catalog"), ("Partition Columns", f"[{', '.join(f'`{k}`' for k in keys)}]")]
    try:
        tree = spark_schema(table.row_type).treeString()
    except PaimonError:  # a type that Spark has not
        tree = "root\n" + "".join(f" |-- {f.name}: {spark_text(f.type)}\n" for f in table.row_type)
    return "".join(f"{key}: {value}\n" for key, value in facts) + f"Schema: {tree}\n"


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
