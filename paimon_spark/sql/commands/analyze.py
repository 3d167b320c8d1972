"""Run ANALYZE TABLE: Spark computes the statistics, which are stored with a snapshot.

Source: Java's `PaimonAnalyzeTableColumnCommand`, Spark's `CommandUtils.computeColumnStats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as f

from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.metadata_files.statistics import ColumnStatistics, Statistics
from paimon_spark.jobs.branch_access import reopen_at_head
from paimon_spark.jobs.upkeep.after_commit import after_commit
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.location import TableName
from paimon_spark.sql.commands.target import on_table
from paimon_spark.sql.grammar.show import Analyze
from paimon_spark.sql.names import resolve_column
from paimon_spark.sql.session import Session
from paimon_spark.system_tables.java_text import object_text, sql_text
from paimon_spark.types import AtomicType, BinaryType, CharType, DataField, DataType, DecimalType, TimestampType, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    from paimon_spark.api.table import Table

_NDV_ERROR: Final = 0.05
"""Relative error of counts of distinct values: Spark's `spark.sql.statistics.ndv.maxError`."""
_BYTES: Final = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4}
"""Length of values of these types in Spark's statistics."""
_SHORT_DECIMAL: Final = 18


class _TypeStatistics(NamedTuple):
    """Which statistics a type has: `length` is that of its values, or the default where no values are measured."""

    length: int
    is_measured: bool = False
    has_bounds: bool = True


@on_table
def analyze(session: Session, name: TableName, statement: Analyze) -> None:
    """Count the rows of the head and compute statistics of the named columns; an empty branch stays as it is.

    Raises:
        UnsupportedFeatureError: a column's type has no statistics.
        CommitError: the retries are exhausted, or the outcome is unknown.
    """
    table = session.table(name, {"time-zone": session.time_zone})
    handle = reopen_at_head(table)
    head = latest_snapshot(handle)
    if head is None:
        _fields(table, statement)  # refuses columns that there are none of, as for tables with rows
        return
    at_head = table.at(f"snapshot.{head.id}")
    fields = _fields(at_head, statement)
    scan = at_head.scan(columns=[field.name for field in fields] or None)
    plan = scan.plan()
    expressions = [f.count(f.lit(1))]
    for field in fields:
        expressions += _expressions(field)
    row = list(scan.to_spark(session.spark).agg(*expressions).collect()[0])
    count = int(row.pop(0))
    columns: dict[str, ColumnStatistics] = {}
    for field in fields:
        columns[field.name] = _statistics(field, row[:6], count)
        del row[:6]
    size, physical = plan.size_bytes, plan.row_count
    found = Statistics(head.id, head.schema_id, count, size * count // physical if physical else 0, columns)
    made = Committer(handle, new_commit_user(handle.options)).set_statistics(found)
    after_commit(handle, made.snapshot_ids)


def _fields(table: Table, statement: Analyze) -> list[DataField]:
    row_type = table.row_type
    names = row_type.names if statement.columns is None else statement.columns
    fields = [row_type.field(n) for n in dict.fromkeys(resolve_column(table, n, row_type.names) for n in names)]
    nested = [field.name for field in fields if _type_statistics(field.type) is None]
    if nested:
        others = [field.name for field in row_type if _type_statistics(field.type) is not None]
        raise UnsupportedFeatureError(
            f"column {nested[0]} of {table.handle.describe()} has type {row_type.field(nested[0]).type}, which has no "
            f"statistics; ANALYZE TABLE {table.name} COMPUTE STATISTICS FOR COLUMNS "
            f"{', '.join(quoted(n) for n in others)}",
            feature="statistics of nested columns",
            column=nested[0],
        )
    return fields


def _type_statistics(t: DataType) -> _TypeStatistics | None:
    """Size and bounds by type; None for types without statistics."""
    match t:
        case AtomicType(name=name) if name in _BYTES:
            return _TypeStatistics(_BYTES[name])
        case DecimalType():
            return _TypeStatistics(8 if t.precision <= _SHORT_DECIMAL else 16)
        case TimestampType():
            # Java stores bounds of instants in the time zone of the machine, which is unknown later.
            return _TypeStatistics(8, has_bounds=not t.local_zone)
        case CharType():
            return _TypeStatistics(20, is_measured=True, has_bounds=False)
        case BinaryType():
            return _TypeStatistics(100, is_measured=True, has_bounds=False)
    return None


def _expressions(field: DataField) -> list[Column]:
    """Distinct values, values, minimum, maximum, average length, maximum length."""
    kind, values = _type_statistics(field.type), f.col(quoted(field.name))
    assert kind is not None
    nothing = f.lit(None)
    bounds = [f.min(values), f.max(values)] if kind.has_bounds else [nothing, nothing]
    lengths = [f.ceil(f.avg(f.length(values))), f.max(f.length(values))] if kind.is_measured else [nothing, nothing]
    return [f.approx_count_distinct(values, _NDV_ERROR), f.count(values), *bounds, *lengths]


def _statistics(field: DataField, row: list[Any], count: int) -> ColumnStatistics:
    kind = _type_statistics(field.type)
    assert kind is not None
    distinct, present, smallest, largest, average, longest = row
    return ColumnStatistics(
        field.id,
        min(int(distinct), int(present)),
        _text(smallest, field.type),
        _text(largest, field.type),
        count - int(present),
        kind.length if average is None else int(average),
        kind.length if longest is None else int(longest),
    )


def _text(value: Any, t: DataType) -> str | None:
    """A bound as Java's serializer of the type writes it."""
    if value is None:
        return None
    array: pa.Array = array_of([value], arrow_type(t))
    texts = sql_text(array, t) if isinstance(t, TimestampType) else object_text(array, t)
    found: str = texts[0].as_py()
    return found
