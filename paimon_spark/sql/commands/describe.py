"""DESCRIBE of tables, columns and databases, in the layout of Spark's commands on Paimon's tables.

Source: Spark's `DescribeTableExec`, `DescribeColumnExec`, `DescribeNamespaceExec`; Java's `PaimonDescribeTableExec`.

What is shown of a table: its properties and its partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final
from paimon_spark.engine.tasks.read_request import BUCKET, FILE_PATH, PARTITION, ROW_INDEX
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.options.location import database_url
from paimon_spark.sql.names import column_name
from paimon_spark.sql.names import CATALOG, TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.grammar.show import Describe, DescribeDatabase
from paimon_spark.sql.commands.column_types import quoted_if_needed, spark_text
from paimon_spark.sql.names import subject, subject_database
from paimon_spark.types import BIGINT, INT, ROW_ID, SEQUENCE_NUMBER, STRING, RowType
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
import pyarrow as pa
import pyarrow.compute as pc
from paimon_spark.engine.scan.partitions import decode_partitions
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.options.secrets import shown_options
from paimon_spark.sql.names import column_name
from paimon_spark.sql.tokens import quoted
from paimon_spark.system_tables.java_text import sql_text
from paimon_spark.types import DataType, TimestampType

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.api.table import Table
    from paimon_spark.sql.grammar.show import PartitionSpec

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


PRIMARY_KEY: Final = "primary-key"
PATH: Final = "path"
OWNER: Final = "owner"
_RESERVED: Final = frozenset(("comment", "collation", "location", "provider", OWNER, "external", "is_managed_location"))
"""What Spark's catalogs keep among the properties of a table, and show as lines of their own."""
_ESCAPED: Final = str.maketrans(
    {c: f"%{ord(c):02X}" for c in [*map(chr, range(1, 0x20)), "\x7f", *"\"#%'*/:=?\\{}[]^"]}
)
"""What Spark's `ExternalCatalogUtils.escapePathName` escapes."""


class Partition(NamedTuple):
    """A partition that has files.

    Attributes:
        values: one for each partition column, as Spark casts them to text; None for null.
        rows: physical rows of its files.
        files: how many.
        size: their bytes.
        created_ms: when the youngest was made, epoch milliseconds; None where no file says.
    """

    values: tuple[str | None, ...]
    rows: int
    files: int
    size: int
    created_ms: int | None

    def path(self, keys: Sequence[str]) -> str:
        """`a=1/b=x`, as SHOW PARTITIONS prints it: null is written null."""
        pairs = zip(keys, self.values, strict=True)
        return "/".join(f"{k.translate(_ESCAPED)}={('null' if v is None else v).translate(_ESCAPED)}" for k, v in pairs)


def properties(table: Table, *, with_path: bool = True) -> dict[str, str]:
    """What SHOW TBLPROPERTIES shows, by key in order: stored options, the primary key, and where the table lies.

    Source: Java's `PaimonSparkTableBase.properties`. Values that may be secret are hidden, as Spark does it.
    """
    if table.is_system:
        return {}
    schema = table.schema
    found = {key: value for key, value in schema.options.items() if key not in _RESERVED}
    if schema.primary_keys:
        found[PRIMARY_KEY] = ",".join(schema.primary_keys)
    if with_path:
        found[PATH] = table.location
    return shown_options(dict(sorted(found.items())))


def partitions(table: Table, spec: PartitionSpec = (), *, whole: bool = False) -> list[Partition]:
    """The partitions that have files, sorted by path.

    Args:
        table: a branch of a table, or a version.
        spec: values of partition columns, of which others are any.
        whole: whether every partition column must have a value.

    Raises:
        InvalidInputError: the table has no partitions, or a column is given twice, or not all are.
        ColumnNotFoundError: a column of `spec` is no partition column.
        PredicateSyntaxError: a value is none of its column's type.
        UnsupportedFeatureError: it is a system table.
    """
    if table.is_system:
        raise UnsupportedFeatureError(
            f"{table.name} is a system table, which has no partitions; show those of {table.handle.name}",
            feature="SHOW PARTITIONS of a system table",
        )
    keys = table.schema.partition_keys
    if not keys:
        raise InvalidInputError(
            f"{table.handle.describe()} is not partitioned, so it has no partitions to show", table=table.name
        )
    scan = table.scan(where=_condition(table, spec, whole=whole))
    sums: dict[bytes, list[int]] = {}
    for split in scan.plan().splits:
        total = sums.setdefault(split.partition, [0, 0, 0, -1])
        for file in split.files:
            total[0] += file.row_count
            total[1] += 1
            total[2] += file.file_size
            total[3] = max(total[3], -1 if file.creation_time_ms is None else file.creation_time_ms)
    row_type = table.schema.partition_type
    rows = decode_partitions(row_type, pa.array(list(sums), pa.binary()))
    zone = table.read_options.time_zone
    texts = [_text(c, f.type, zone).to_pylist() for c, f in zip(rows.columns, row_type, strict=True)]
    found = [
        Partition(values, total[0], total[1], total[2], None if total[3] < 0 else total[3])
        for values, total in zip(zip(*texts, strict=True), sums.values(), strict=True)
    ]
    return sorted(found, key=lambda p: p.path(keys))


def _condition(table: Table, spec: PartitionSpec, *, whole: bool) -> str | None:
    """A condition for `Table.scan` that is true in the partitions named."""
    keys = table.schema.partition_keys
    named = [column_name(table, name, keys, "partition column") for name, _ in spec]
    if len(set(named)) < len(named) or (whole and len(named) < len(keys)):
        raise InvalidInputError(
            f"a partition of {table.handle.describe()} is named by {'' if whole else 'some of '}{', '.join(keys)}, "
            f"each once; given are {', '.join(named)}",
            table=table.name,
        )
    values = (value for _, value in spec)
    terms = (
        f"{quoted(n)} IS NULL" if v.upper() == "NULL" else f"{quoted(n)} = ({v})"
        for n, v in zip(named, values, strict=True)
    )
    return " AND ".join(terms) or None


def _text(values: pa.Array, t: DataType, zone: str | None) -> pa.Array:
    """Values as Spark casts them to text, instants as the session's clock shows them."""
    if isinstance(t, TimestampType) and t.local_zone:
        values = pc.local_timestamp(values.cast(pa.timestamp(values.type.unit, zone or "UTC")))
        t = TimestampType(precision=t.precision)
    texts = sql_text(values, t)
    if isinstance(t, TimestampType):  # Spark writes no zeros at the end of fractions
        texts = pc.replace_substring_regex(texts, r"\.?0*$", "") if t.precision else texts
    return texts
