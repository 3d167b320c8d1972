"""System tables in Spark: one task makes those of metadata, the table's own rows are read in as many as tables are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.spark.packing import pack
from paimon_spark.spark.schema import arrow_schema, check_readable_as
from paimon_spark.spark.task_read import SplitsPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.jobs.system_scan import SystemScan
    from paimon_spark.system_tables.registry import ListingReading
    from paimon_spark.system_tables.views import ViewReading

_DIGITS = 6
"""Fractional digits of the seconds of Spark's timestamps."""


class SystemReader(DataSourceReader):
    """Plans beside the driver; what goes to executors is a `SystemTaskReader`."""

    def __init__(self, scan: SystemScan, declared: StructType) -> None:
        row_type = scan.columns_named([field.name for field in declared.fields])
        for field, f in zip(declared.fields, row_type, strict=True):
            check_readable_as(f.name, f.type, f.type.nullable, field.dataType, field.nullable)
        self._scan = scan.project(row_type.names)
        self._target = arrow_schema(declared)

    def plan(self) -> None:
        """Plan now. Later Spark is pickling, and would wrap the words of errors."""
        self._scan.plan()

    def partitions(self) -> Sequence[InputPartition]:
        """Groups of splits, or one task. Driver."""
        plan = self._scan.plan()
        if self._scan.is_listing:
            return [SplitsPartition(())]
        options = self._scan.handle.options
        return [
            SplitsPartition(group)
            for group in pack(plan.splits, options.split_target_bytes, options.split_open_cost_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task. Executors do without this class: see `__reduce__`."""
        return self._task_reader().read(partition)

    def _task_reader(self) -> SystemTaskReader:
        scan = self._scan
        return SystemTaskReader(scan.reading(), scan.row_type.names, self._target, scan.table_name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Executors get what reading needs."""
        reader = self._task_reader()
        return SystemTaskReader, (reader.reading, reader.names, reader.target, reader.table_name)


@dataclass(frozen=True)
class SystemTaskReader:
    """Reads the tasks on executors. Picklable.

    Attributes:
        reading: what all tasks share.
        names: columns in the order of `target`, as the system table calls them.
        target: the Arrow schema that Spark demands.
        table_name: how messages call the system table.
    """

    reading: ListingReading | ViewReading
    names: tuple[str, ...]
    target: pa.Schema
    table_name: str

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task, as Spark's Arrow schema wants them."""
        from paimon_spark.format.casts.conformance import fit
        from paimon_spark.system_tables.registry import ListingReading

        # Spark makes a partition of its own when there are none.
        splits = partition.splits if isinstance(partition, SplitsPartition) else ()
        if isinstance(self.reading, ListingReading):
            batches = self.reading.read()
        else:
            batches = self.reading.read(splits, timestamp_precision=_DIGITS)
        yield from fit(batches, self.names, self.target, self.table_name)
