"""SHOW CREATE TABLE, COLUMNS, PARTITIONS and TBLPROPERTIES.

Source: Spark's `ShowCreateTableExec`, `ShowPartitionsExec`, `ShowTablePropertiesExec`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.predicate.ast import literal_text
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.shows.facts import partitions, properties
from paimon_spark.sql.shows.statements import (
    ShowColumns,
    ShowCreateTable,
    ShowPartitions,
    ShowProperties,
    TableStatement,
)
from paimon_spark.sql.shows.types import ddl_column, quoted_if_needed
from paimon_spark.sql.subject import subject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.api.table import Table


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
