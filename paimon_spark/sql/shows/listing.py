"""SHOW TABLES, SHOW TABLE EXTENDED and SHOW DATABASES, of the warehouse.

Source: Spark's `ShowTablesExec`, `ShowTablesExtendedExec`, `ShowNamespacesExec`, `StringUtils.filterPattern`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from paimon_spark.errors import PaimonError
from paimon_spark.spark.schema import spark_schema
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.commands.describe import one_partition, partition_facts, table_facts
from paimon_spark.sql.shows.statements import Describe, ShowDatabases, ShowTables
from paimon_spark.sql.commands.column_types import quoted_if_needed, spark_text
from paimon_spark.sql.subject import subject_database

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
