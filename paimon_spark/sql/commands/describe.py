"""Run DESCRIBE, in the layout of Paimon's connector, and DESCRIBE HISTORY.

Source: Spark's `DescribeTableExec`, `DescribeColumnExec`, `DescribeNamespaceExec`; Java's `PaimonDescribeTableExec`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from paimon_spark.catalogs.open import open_catalog
from paimon_spark.engine.tasks import BUCKET, FILE_PATH, PARTITION, ROW_INDEX
from paimon_spark.errors import InvalidInputError, PaimonError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.statistics import ColumnStatistics
from paimon_spark.jobs.read.table_scan import statistics_of
from paimon_spark.options.location import TableName
from paimon_spark.spark.schema import spark_type
from paimon_spark.sql.commands.show import OWNER, partition_condition, partition_texts, table_properties
from paimon_spark.sql.commands.target import on_table
from paimon_spark.sql.grammar.show import (
    Describe,
    DescribeDatabase,
    DescribeHistory,
    PartitionFilter,
    ShowTablePartition,
)
from paimon_spark.sql.names import resolve_column, resolve_database
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Outcome, Result
from paimon_spark.types import (
    BIGINT,
    INT,
    ROW_ID,
    SEQUENCE_NUMBER,
    STRING,
    ArrayType,
    CharType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    quoted_if_needed,
)

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.versioning.log import HistoryRef

_Row = tuple[str, str, str | None]

_COLUMNS: Final = "col_name STRING NOT NULL, data_type STRING NOT NULL, comment STRING"
_HISTORY: Final = (
    "version BIGINT NOT NULL, timestamp TIMESTAMP NOT NULL, userName STRING, operation STRING NOT NULL, "
    "rowDelta BIGINT, tags ARRAY<STRING> NOT NULL, branches ARRAY<STRING> NOT NULL, job STRING"
)
_INFO: Final = "info_name STRING NOT NULL, info_value STRING"
_PARTITION: Final = (
    "namespace STRING NOT NULL, tableName STRING NOT NULL, isTemporary BOOLEAN NOT NULL, information STRING NOT NULL"
)
_BLANK: Final = ("", "", "")
_STATISTICS: Final = {
    "min": "minimum", "max": "maximum", "num_nulls": "null_count", "distinct_count": "distinct_count",
    "avg_col_len": "average_length", "max_col_len": "longest", "histogram": None,
}  # fmt: skip
"""Rows of Spark's `DescribeColumnCommand`, with the attribute of ours; Paimon has no histograms."""


@on_table
def describe(session: Session, name: TableName, statement: Describe) -> Result:
    """The columns of a table, or of a version of it; with EXTENDED the whole definition, and what a partition holds.

    Raises:
        InvalidInputError: PARTITION lacks a partition column, or there is no such partition.
        ColumnNotFoundError: PARTITION names something else than a partition column.
        UnsupportedFeatureError: a nested column.
    """
    table = session.table(name, {"time-zone": session.time_zone})
    if statement.version is not None:
        table = table.at(statement.version)
    if statement.column:
        return session.rows(_INFO, [*_column(table, statement), *_statistics(table, statement)])
    rows = [*_schema(table)]
    partition = [*_partition(name, table, statement.partition)] if statement.partition else []
    if statement.extended:
        rows += [*_metadata_columns(table), *_details(name, table), *partition, *_not_null(table)]
    return session.rows(_COLUMNS, rows)


@on_table
def describe_history(session: Session, name: TableName, statement: DescribeHistory) -> Result:
    """The commits in the history of a table or branch, newest first.

    Raises InvalidInputError: a system table, or the limit is not positive.

    Source: the first columns are those of Delta Lake.
    """
    table = session.table(name)
    commits = table.history(statement.limit, branch=table.branch_name).commits
    rows = [
        (
            commit.id,
            datetime.fromtimestamp(commit.time_ms / 1000, UTC),
            commit.user,
            commit.kind,
            commit.snapshot.rows_changed,
            list(dict.fromkeys(_tag(ref) for ref in commit.refs if ref.kind in ("tag", "savepoint"))),
            [ref.name for ref in commit.refs if ref.kind == "branch"],
            commit.job,
        )
        for commit in commits
    ]
    return session.rows(_HISTORY, rows)


def _tag(ref: HistoryRef) -> str:
    return ref.name if ref.kind == "tag" else f"savepoint-{ref.name}"


def describe_database(session: Session, statement: DescribeDatabase) -> Result:
    """The location of a database of the warehouse; it has no properties. Raises DatabaseNotFoundError."""
    database = resolve_database(session, statement.name)
    if database is None:
        return Outcome.RUN_BY_SPARK
    rows = [
        ("Catalog Name", session.catalog_name),
        ("Namespace Name", quoted_if_needed(database)),
        ("Location", open_catalog(session.catalog.warehouse, session.catalog.options).database_url(database)),
    ]
    return session.rows(_INFO, [*rows, ("Properties", "")] if statement.extended else rows)


def _column(table: Table, statement: Describe) -> list[tuple[str, str]]:
    if len(statement.column) > 1:
        raise UnsupportedFeatureError(
            f"DESCRIBE of nested column {'.'.join(statement.column)} of {table.handle.describe()} is not supported; "
            f"the type of the whole column shows it: DESCRIBE {table.name} {quoted_if_needed(statement.column[0])}",
            feature="DESCRIBE of a nested column",
        )
    row_type = table.row_type
    found = row_type.field(resolve_column(table, statement.column[0], row_type.names))
    return [("col_name", found.name), ("data_type", spark_text(found.type)), ("comment", found.description or "NULL")]


def _statistics(table: Table, statement: Describe) -> Iterator[tuple[str, str | None]]:
    """With EXTENDED, the statistics of a column that ANALYZE stored; NULL when unknown."""
    if not statement.extended or table.is_system:
        return
    found = statistics_of(table.scan())
    row_type = table.row_type
    field = row_type.field(resolve_column(table, statement.column[0], row_type.names))
    # Statistics outlive the renaming of a column, whose id stays.
    known = (found.columns if found is not None else None) or {}
    of_column = next((c for c in known.values() if c.column_id == field.id), ColumnStatistics(field.id))
    for info, name in _STATISTICS.items():
        value = None if name is None else getattr(of_column, name)
        yield info, "NULL" if value is None else str(value)


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
    yield "Name", str(name), ""
    yield "Type", "MANAGED", ""
    if not table.is_system:
        schema = table.schema
        if schema.comment:
            yield "Comment", schema.comment, ""
        yield "Location", table.location, ""
        yield "Provider", "paimon", ""
        if schema.options.get(OWNER):
            yield "Owner", schema.options[OWNER], ""
    yield "Table Properties", "[" + ",".join(f"{k}={v}" for k, v in table_properties(table).items()) + "]", ""
    defaults = [f for f in table.schema.fields if f.default_value is not None]
    if defaults:
        yield _BLANK
        yield "# Column Default Values", "", ""
        yield from ((f.name, spark_text(f.type), f.default_value) for f in defaults)


def _partition(name: TableName, table: Table, asked: PartitionFilter) -> Iterator[_Row]:
    """Contents of a partition, below the details of its table."""
    details = partition_details(table, asked)
    yield _BLANK
    yield "# Detailed Partition Information", "", ""
    yield "Database", name.database, ""
    yield "Table", name.table, ""
    yield from ((key, value, "") for key, value in details.items())
    yield _BLANK


def partition_details(table: Table, asked: PartitionFilter) -> dict[str, str]:
    """Contents of a partition, as Spark's `CatalogTablePartition` shows them. Raises as `describe`."""
    where = table.handle.describe()
    condition = partition_condition(table, asked)
    keys = table.schema.partition_keys
    if len({resolve_column(table, column, keys, "partition column") for column, _ in asked}) < len(keys):
        raise InvalidInputError(
            f"PARTITION needs a value of each partition column of {where}: {', '.join(keys)}", table=table.name
        )
    splits = table.scan(where=condition).plan().splits
    found = list(partition_texts(table, splits))
    if not found:
        raise InvalidInputError(
            f"{where} has no partition with {condition}; SHOW PARTITIONS {table.name} lists those that it has",
            table=table.name,
        )
    files = [file for split in splits for file in split.files]
    size, rows = sum(f.file_size for f in files), sum(f.row_count for f in files)
    # Files keep the wall clock of the machine, as if it were that of UTC.
    newest_ms = max(f.creation_time_ms or 0 for f in files)
    newest = datetime.fromtimestamp(newest_ms / 1000, UTC).replace(tzinfo=None).astimezone()
    parameters = {
        "fileCount": len(files), "fileSizeInBytes": size,
        "lastFileCreationTime": round(newest.timestamp() * 1000), "recordCount": rows,
    }  # fmt: skip
    return {
        "Partition Values": f"[{', '.join(map('='.join, zip(keys, found[0], strict=True)))}]",
        "Partition Parameters": f"{{{', '.join(f'{k}={v}' for k, v in parameters.items())}}}",
        "Created Time": f"{newest:%a %b %d %H:%M:%S %Z %Y}",
        "Last Access": "UNKNOWN",
        "Partition Statistics": f"{size} bytes, {rows} rows",
    }


@on_table
def show_table_partition(session: Session, name: TableName, statement: ShowTablePartition) -> Result:
    """Contents of a partition of a table, as one text. Raises as `describe`."""
    table = session.table(name, {"time-zone": session.time_zone})
    details = partition_details(table, statement.partition)
    text = "".join(f"{key}: {value}\n" for key, value in details.items()) + "\n"
    row = quoted_if_needed(name.database), name.table, False, text
    return session.rows(_PARTITION, [row])


def _not_null(table: Table) -> Iterator[_Row]:
    fields = [f for f in table.schema.fields if not f.type.nullable]
    if fields:
        yield "# Column Not Null", "", ""
        yield from ((f.name, spark_text(f.type), "NOT NULL") for f in fields)


def spark_text(t: DataType) -> str:
    """A type as DESCRIBE of Paimon's connector shows it; in Paimon's own words where Spark has no such type."""
    match t:
        case CharType() if t.with_nullable(True) != STRING:
            return f"{'varchar' if t.varying else 'char'}({t.length})"
        case ArrayType():
            return f"array<{spark_text(t.element)}>"
        case MapType():
            return f"map<{spark_text(t.key)},{spark_text(t.value)}>"
        case MultisetType():
            return f"map<{spark_text(t.element)},int>"
        case RowType():
            return f"struct<{','.join(f'{f.name}:{spark_text(f.type)}' for f in t)}>"
    try:
        return spark_type(t).simpleString()
    except PaimonError:
        return str(t.with_nullable(True)).lower()
