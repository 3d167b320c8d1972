"""Batch reads: planned beside the driver, read on executors from the plan alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from paimon_spark.spark.filters import translate
from paimon_spark.spark.packing import pack
from paimon_spark.spark.schema import arrow_schema, check_readable_as, spark_type
from paimon_spark.spark.task_read import SplitsPartition, TaskReader
from paimon_spark.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.spark.system_read import SystemReader
    from paimon_spark.table.scan import Scan

_DIGITS: Final = 6
"""Fractional digits of the seconds of Spark's timestamps."""
_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def batch_reader(scan: Scan, declared: StructType) -> BatchReader | SystemReader:
    """A reader of the columns of `declared`, which takes filters when Spark is about to push some.

    Spark fails every query of a reader that takes filters while `spark.sql.python.filterPushdown.enabled` is false,
    and there is no way to read the setting here: but with it on, another worker module runs the planning.

    Raises:
        ColumnNotFoundError, SchemaMismatchError: `declared` is not a view of the table.
    """
    filters_come = _filters_come()
    reader: BatchReader | SystemReader
    if scan.is_system:
        reader = _system_reader(scan, declared, filters_come)
    else:
        reader = FilteringBatchReader(scan, declared) if filters_come else BatchReader(scan, declared)
    if filters_come:
        return reader  # plans when the filters are there
    reader.plan()
    return reader


def _system_reader(scan: Scan, declared: StructType, filters_come: bool) -> SystemReader:
    # Only reads of system tables pay for these.
    from paimon_spark.spark.system_read import FilteringSystemReader, SystemReader
    from paimon_spark.table.system_table import SystemScan

    assert isinstance(scan, SystemScan)
    return FilteringSystemReader(scan, declared) if filters_come else SystemReader(scan, declared)


def _filters_come() -> bool:
    if _PUSHDOWN_WORKER in sys.modules:
        return True
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)  # where Spark starts a process per query
    return spec is not None and spec.name == _PUSHDOWN_WORKER


class BatchReader(DataSourceReader):
    """Plans beside the driver; what goes to executors is a `TaskReader`."""

    def __init__(self, scan: Scan, declared: StructType) -> None:
        self._names, self._unchanged = _match(scan, declared)
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


class FilteringBatchReader(BatchReader):
    """A reader that filters itself where it can do so exactly."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Take the filters we evaluate exactly; the others are Spark's. Driver."""
        taken, left = translate(filters, self._unchanged)
        self._scan = self._scan.filtered(taken)
        self.plan()
        return iter(left)


def _match(scan: Scan, declared: StructType) -> tuple[tuple[str, ...], dict[str, DataType]]:
    """For each declared column the table's, by name; and the types of those that Spark sees as they are stored."""
    row_type = scan.columns_named([field.name for field in declared.fields])
    unchanged: dict[str, DataType] = {}
    for field, f in zip(declared.fields, row_type, strict=True):
        check_readable_as(f.name, f.type, f.type.nullable, field.dataType, field.nullable)
        stored = f in scan.schema.fields
        if stored and f.name == field.name and spark_type(f.type, f.name) == field.dataType:
            unchanged[f.name] = f.type
    return row_type.names, unchanged
