"""Batch reads: planned beside the driver, read on executors from the plan alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.spark.packing import pack
from paimon_spark.spark.schema import arrow_schema, check_readable_as
from paimon_spark.spark.task_read import SplitsPartition, TaskReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.jobs.scan import Scan
    from paimon_spark.spark.system_read import SystemReader

_DIGITS: Final = 6
"""Fractional digits of the seconds of Spark's timestamps."""


def batch_reader(scan: Scan, declared: StructType) -> BatchReader | SystemReader:
    """A reader of the columns of `declared`, planned.

    It takes no filters that Spark pushes (`spark.sql.python.filterPushdown.enabled`): Spark keeps what one query of a
    DataFrame was planned with, and gives it to the next query that has no filter, and to the other side of a union or
    a join, where rows are missing then. `tests/spark/test_pushdown.py` shows it of another source.

    Source: PySpark 4.1.4 and 4.3.0, `PythonDataSourceV2.setReadInfo`.

    Raises:
        ColumnNotFoundError, SchemaMismatchError: `declared` is not a view of the table.
    """
    reader = _system_reader(scan, declared) if scan.is_system else BatchReader(scan, declared)
    reader.plan()
    return reader


def _system_reader(scan: Scan, declared: StructType) -> SystemReader:
    # Only reads of system tables pay for these.
    from paimon_spark.jobs.system_scan import SystemScan
    from paimon_spark.spark.system_read import SystemReader

    assert isinstance(scan, SystemScan)
    return SystemReader(scan, declared)


class BatchReader(DataSourceReader):
    """Plans beside the driver; what goes to executors is a `TaskReader`."""

    def __init__(self, scan: Scan, declared: StructType) -> None:
        self._names = _match(scan, declared)
        self._scan = scan.project(self._names)
        self._target = arrow_schema(declared)

    def plan(self) -> None:
        """Plan now. Later Spark is pickling, and would wrap the words of errors."""
        self._scan.plan()

    def partitions(self) -> Sequence[InputPartition]:
        """Groups of splits. Driver."""
        plan, note = self._scan.plan(), self._note()
        options = self._scan.handle.options
        groups = pack(plan.splits, options.split_target_bytes, options.split_open_cost_bytes)
        if not groups:
            return [] if note is None else [SplitsPartition((), note)]
        return [SplitsPartition(group, None if n else note) for n, group in enumerate(groups)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group of splits. Executors do without this class: see `__reduce__`."""
        return self._task_reader().read(partition)

    def _note(self) -> bytes | None:
        """What the first task notes of the read."""
        tickets = self._scan.tickets()
        if not tickets:
            return None
        from paimon_spark.spark.noting import for_task

        return for_task(tickets)

    def _task_reader(self) -> TaskReader:
        requests = {b: replace(r, timestamp_precision=_DIGITS) for b, r in self._scan.plan().requests.items()}
        return TaskReader(requests, self._names, self._target, self._scan.table_name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Executors get what reading needs. Spark pickles before it asks for partitions, so this may plan."""
        reader = self._task_reader()
        return TaskReader, (reader.requests, reader.names, reader.target, reader.table_name)


def _match(scan: Scan, declared: StructType) -> tuple[str, ...]:
    """For each declared column the table's, by name."""
    row_type = scan.columns_named([field.name for field in declared.fields])
    for field, f in zip(declared.fields, row_type, strict=True):
        check_readable_as(f.name, f.type, f.type.nullable, field.dataType, field.nullable)
    return row_type.names
