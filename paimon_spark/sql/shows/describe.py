"""DESCRIBE of tables, columns and databases, in the layout of Spark's commands on Paimon's tables.

Source: Spark's `DescribeTableExec`, `DescribeColumnExec`, `DescribeNamespaceExec`; Java's `PaimonDescribeTableExec`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.engine.tasks.split import BUCKET, FILE_PATH, PARTITION, ROW_INDEX
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.options.location import database_url
from paimon_spark.sql.columns import column_name
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.shows.facts import OWNER, Partition, partitions, properties
from paimon_spark.sql.shows.statements import Describe, DescribeDatabase
from paimon_spark.sql.shows.types import quoted_if_needed, spark_text
from paimon_spark.sql.subject import subject, subject_database
from paimon_spark.types import BIGINT, INT, ROW_ID, SEQUENCE_NUMBER, STRING, RowType

if TYPE_CHECKING:
    from paimon_spark.api.table import Table

_Row = tuple[str, str, str | None]

_COLUMNS: Final = "col_name STRING NOT NULL, data_type STRING NOT NULL, comment STRING"
_FACTS: Final = "info_name STRING NOT NULL, info_value STRING"
_BLANK: Final = ("", "", "")
_STATISTICS: Final = {
    "min": "min", "max": "max", "num_nulls": "nullCount", "distinct_count": "distinctCount", "avg_col_len": "avgLen",
    "max_col_len": "maxLen", "histogram": "histogram",
}  # fmt: skip
"""What Spark's `DescribeColumnCommand` tells of a column, by where Paimon keeps it; there are no histograms."""


def describe(session: Session, statement: Describe) -> Any:
    """The columns of a table, or a version of it, and with EXTENDED all else that its definition says.

    Raises:
        UnsupportedFeatureError: JSON is asked for, or a column inside another.
        ColumnNotFoundError: there is no such column.
        Others as `partitions`.
    """
    name = subject(session, statement.table)
    if name is None:
        return NotImplemented
    if statement.as_json:
        raise UnsupportedFeatureError(
            f"DESCRIBE {name} AS JSON: JSON is not made here; leave AS JSON out, or use Table.schema in Python",
            feature="DESCRIBE AS JSON",
        )
    table = session.table(name, {"time-zone": session.time_zone})
    if statement.version is not None:
        table = table.at(statement.version)
    if statement.column:
        facts = _column(table, statement)
        return session.rows(_FACTS, [*facts, *_statistics(session, name, table, statement)])
    rows = [*_schema(table)]
    if statement.partition:
        (found,) = [one_partition(table, statement)]
        if statement.extended:
            rows += [_BLANK, *_partition(name, table, found), _BLANK]
    elif statement.extended:
        rows += [*_metadata_columns(table), *_details(name, table)]
    if statement.extended:
        rows += _not_null(table)
    return session.rows(_COLUMNS, rows)


def describe_database(session: Session, statement: DescribeDatabase) -> Any:
    """Where a database of the warehouse lies; it has no properties. Raises DatabaseNotFoundError."""
    database = subject_database(session, statement.name)
    if database is None:
        return NotImplemented
    rows = [
        ("Catalog Name", CATALOG),
        ("Namespace Name", quoted_if_needed(database)),
        ("Location", database_url(session.catalog.warehouse, database)),
    ]
    return session.rows(_FACTS, [*rows, ("Properties", "")] if statement.extended else rows)


def one_partition(table: Table, statement: Describe) -> Partition:
    """The partition that a statement names. Raises InvalidInputError: it has no files; others as `partitions`."""
    found = partitions(table, statement.partition, whole=True)
    if not found:
        asked = ", ".join(f"{key} = {value}" for key, value in statement.partition)
        raise InvalidInputError(
            f"{table.handle.describe()} has no partition {asked}; SHOW PARTITIONS {table.name} lists those it has",
            table=table.name,
            partition=dict(statement.partition),
        )
    return found[0]


def partition_facts(table: Table, partition: Partition) -> Iterator[tuple[str, str]]:
    """What is known of a partition, as Spark's `CatalogTablePartition` tells it."""
    keys = table.schema.partition_keys
    values = ", ".join(f"{k}={'null' if v is None else v}" for k, v in zip(keys, partition.values, strict=True))
    yield "Partition Values", f"[{values}]"
    counts = {"recordCount": partition.rows, "fileSizeInBytes": partition.size, "fileCount": partition.files}
    yield "Partition Parameters", "{" + ", ".join(f"{k}={v}" for k, v in counts.items()) + "}"
    # Files tell the clock of their writer, without its zone.
    made = None if partition.created_ms is None else datetime.fromtimestamp(partition.created_ms / 1000, timezone.utc)
    yield "Created Time", "UNKNOWN" if made is None else f"{made:%a %b %d %H:%M:%S %Y}"
    yield "Last Access", "UNKNOWN"
    yield "Partition Statistics", f"{partition.size} bytes, {partition.rows} rows"


def table_facts(name: TableName, table: Table) -> Iterator[tuple[str, str]]:
    """What the definition says besides columns, in Spark's order."""
    yield "Name", str(name)
    yield "Type", "MANAGED"
    if not table.is_system:
        schema = table.schema
        if schema.comment:
            yield "Comment", schema.comment
        yield "Location", table.location
        yield "Provider", CATALOG
        if schema.options.get(OWNER):
            yield "Owner", schema.options[OWNER]
    yield "Table Properties", "[" + ",".join(f"{k}={v}" for k, v in properties(table).items()) + "]"


def _column(table: Table, statement: Describe) -> list[tuple[str, str]]:
    if statement.partition:
        raise InvalidInputError("DESCRIBE is of a column or of a partition; name one of them", table=table.name)
    if len(statement.column) > 1:
        raise UnsupportedFeatureError(
            f"column {'.'.join(statement.column)} of {table.handle.describe()}: a column inside another is shown with "
            f"the type of the whole one; DESCRIBE {table.name} {quoted_if_needed(statement.column[0])}",
            feature="DESCRIBE of a nested column",
        )
    row_type = table.row_type
    found = row_type.field(column_name(table, statement.column[0], row_type.names))
    return [("col_name", found.name), ("data_type", spark_text(found.type)), ("comment", found.description or "NULL")]


def _statistics(
    session: Session, name: TableName, table: Table, statement: Describe
) -> Iterator[tuple[str, str | None]]:
    """What ANALYZE kept of a column, with EXTENDED; NULL where it is not known."""
    if not statement.extended or table.is_system:
        return
    kept = session.table(replace(name, system="statistics"))
    if statement.version is not None:
        kept = kept.at(statement.version)
    found = [json.loads(row["colstat"]) or {} for row in kept.scan(columns=["colstat"]).to_arrow().to_pylist()]
    row_type = table.row_type
    field = row_type.field(column_name(table, statement.column[0], row_type.names))
    # Statistics outlive the renaming of a column, whose id stays.
    of_column: dict[str, object] = next(
        (c for all_of in found for c in all_of.values() if c.get("colId") == field.id), {}
    )
    for fact, key in _STATISTICS.items():
        yield fact, str(of_column.get(key, "NULL"))


def _schema(table: Table) -> Iterator[_Row]:
    schema = table.schema
    for field in schema.fields:
        yield field.name, spark_text(field.type), field.description
    if schema.partition_keys:
        yield "# Partition Information", "", ""
        yield "# col_name", "data_type", "comment"
        for field in schema.partition_type:
            yield quoted_if_needed(field.name), spark_text(field.type), field.description


def _metadata_columns(table: Table) -> Iterator[_Row]:
    if table.is_system:
        return
    yield _BLANK
    yield "# Metadata Columns", "", ""
    if table.options.row_tracking:
        yield from ((name, "bigint", "") for name in (ROW_ID, SEQUENCE_NUMBER))
    partition: RowType = table.schema.partition_type
    types = ((FILE_PATH, STRING), (ROW_INDEX, BIGINT), (PARTITION, partition), (BUCKET, INT))
    yield from ((name, spark_text(t), "") for name, t in types)


def _details(name: TableName, table: Table) -> Iterator[_Row]:
    yield _BLANK
    yield "# Detailed Table Information", "", ""
    yield from ((key, value, "") for key, value in table_facts(name, table))
    defaults = [f for f in table.schema.fields if f.default_value is not None]
    if defaults:
        yield _BLANK
        yield "# Column Default Values", "", ""
        yield from ((f.name, spark_text(f.type), f.default_value) for f in defaults)


def _partition(name: TableName, table: Table, partition: Partition) -> Iterator[_Row]:
    yield "# Detailed Partition Information", "", ""
    yield "Database", name.database, ""
    yield "Table", str(replace(name, database="")).removeprefix("."), ""
    yield from ((key, value, "") for key, value in partition_facts(table, partition))


def _not_null(table: Table) -> Iterator[_Row]:
    fields = [f for f in table.schema.fields if not f.type.nullable]
    if fields:
        yield "# Column Not Null", "", ""
        yield from ((f.name, spark_text(f.type), "NOT NULL") for f in fields)
