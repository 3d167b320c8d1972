"""ANALYZE TABLE: rows and columns are counted by Spark, and what comes of it is kept with the table.

Source: Java's `PaimonAnalyzeTableColumnCommand`, Spark's `CommandUtils.computeColumnStats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as f

from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.statistics import ColumnStatistics, Statistics
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.jobs.after_commit import after_commit
from paimon_spark.jobs.branch_access import opened_anew
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.sql.columns import column_name
from paimon_spark.sql.names import TableName
from paimon_spark.sql.session import Session
from paimon_spark.sql.shows.statements import Analyze
from paimon_spark.sql.text import quoted
from paimon_spark.system_tables.java_text import object_text, sql_text
from paimon_spark.types import AtomicType, BinaryType, CharType, DataField, DataType, DecimalType, TimestampType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from paimon_spark.api.table import Table

_ERROR: Final = 0.05
"""Of counts of distinct values: Spark's `spark.sql.statistics.ndv.maxError`."""
_BYTES: Final = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4}
"""What Spark takes values of these types to be long."""
_SHORT_DECIMAL: Final = 18


class _Kind(NamedTuple):
    """How a type is looked at.

    Attributes:
        length: of its values, or of one where there is none to measure.
        is_measured: whether lengths are of the values themselves.
        has_bounds: whether smallest and largest are told.
    """

    length: int
    is_measured: bool = False
    has_bounds: bool = True


def analyze(session: Session, name: TableName, statement: Analyze) -> None:
    """Count the rows of the head, and look at the columns named; an empty branch is left as it is.

    Raises:
        UnsupportedFeatureError: NOSCAN or a partition is asked for, or a column's type has no statistics.
        ColumnNotFoundError: there is no such column.
        InvalidInputError: it is a system table.
        CommitError: others were faster every time, or nobody knows whether the snapshot was made.
    """
    _refuse(name, statement)
    table = session.table(name, {"time-zone": session.time_zone})
    handle = opened_anew(table)
    head = latest_snapshot(handle)
    if head is None:
        return
    at_head = table.at(f"snapshot.{head.id}")
    fields = _fields(at_head, statement)
    scan = at_head.scan(columns=[field.name for field in fields] or None)
    plan = scan.plan()
    asked = [f.count(f.lit(1))]
    for field in fields:
        asked += _expressions(field)
    row = list(scan.to_spark(session.spark).agg(*asked).collect()[0])
    count = int(row.pop(0))
    columns: dict[str, ColumnStatistics] = {}
    for field in fields:
        columns[field.name] = _statistics(field, row[:6], count)
        del row[:6]
    size, physical = (sum(s.size_bytes for s in plan.splits), sum(s.row_count for s in plan.splits))
    found = Statistics(head.id, head.schema_id, count, size * count // physical if physical else 0, columns)
    made = Committer(handle, new_commit_user(handle.options.raw)).set_statistics(found)
    after_commit(handle, made.snapshot_ids)


def _refuse(name: TableName, statement: Analyze) -> None:
    if statement.partition or statement.no_scan:
        what = "PARTITION" if statement.partition else "NOSCAN"
        raise UnsupportedFeatureError(
            f"ANALYZE TABLE {name} with {what}: statistics are of all rows of a snapshot, as Paimon keeps them; leave "
            f"{what} out. What manifests say of files and partitions is in {name}$files and {name}$partitions",
            feature=f"ANALYZE TABLE {what}",
        )


def _fields(table: Table, statement: Analyze) -> list[DataField]:
    row_type = table.row_type
    names = row_type.names if statement.columns is None else statement.columns
    fields = [row_type.field(n) for n in dict.fromkeys(column_name(table, n, row_type.names) for n in names)]
    nested = [field.name for field in fields if _kind(field.type) is None]
    if nested:
        others = [field.name for field in row_type if _kind(field.type) is not None]
        raise UnsupportedFeatureError(
            f"column {nested[0]} of {table.handle.describe()} has type {row_type.field(nested[0]).type}, of which "
            f"there are no statistics; ANALYZE TABLE {table.name} COMPUTE STATISTICS FOR COLUMNS "
            f"{', '.join(quoted(n) for n in others)}",
            feature="statistics of nested columns",
            column=nested[0],
        )
    return fields


def _kind(t: DataType) -> _Kind | None:
    """None for types without statistics."""
    match t:
        case AtomicType(name=name) if name in _BYTES:
            return _Kind(_BYTES[name])
        case DecimalType():
            return _Kind(8 if t.precision <= _SHORT_DECIMAL else 16)
        case TimestampType():
            # Java keeps bounds of instants by the clock of the machine that looked, which none can tell later.
            return _Kind(8, has_bounds=not t.local_zone)
        case CharType():
            return _Kind(20, is_measured=True, has_bounds=False)
        case BinaryType():
            return _Kind(100, is_measured=True, has_bounds=False)
    return None


def _expressions(field: DataField) -> list[Column]:
    """Distinct values, values, smallest, largest, average length, longest."""
    kind, values = _kind(field.type), f.col(quoted(field.name))
    assert kind is not None
    nothing = f.lit(None)
    bounds = [f.min(values), f.max(values)] if kind.has_bounds else [nothing, nothing]
    lengths = [f.ceil(f.avg(f.length(values))), f.max(f.length(values))] if kind.is_measured else [nothing, nothing]
    return [f.approx_count_distinct(values, _ERROR), f.count(values), *bounds, *lengths]


def _statistics(field: DataField, row: list[Any], count: int) -> ColumnStatistics:
    kind = _kind(field.type)
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
