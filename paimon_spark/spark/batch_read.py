"""Batch reads: planned beside the driver, read on executors from the plan alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from paimon_spark.handoff.read_request import ReadRequest
from paimon_spark.handoff.split import DataSplit
from paimon_spark.spark.filters import translate
from paimon_spark.spark.packing import pack
from paimon_spark.spark.schema import arrow_schema, check_readable_as, spark_type
from paimon_spark.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.table.scan import Scan

_DIGITS: Final = 6
"""Fractional digits of the seconds of Spark's timestamps."""
_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class SplitsPartition(InputPartition):
    """What one task reads."""

    def __init__(self, splits: tuple[DataSplit, ...]) -> None:
        super().__init__(None)
        self.splits = splits

    def __repr__(self) -> str:
        files = sum(len(s.files) for s in self.splits)
        return f"SplitsPartition({len(self.splits)} splits, {files} files)"


def batch_reader(scan: Scan, declared: StructType) -> BatchReader:
    """A reader of the columns of `declared`, which takes filters when Spark is about to push some.

    Spark fails every query of a reader that takes filters while `spark.sql.python.filterPushdown.enabled` is false,
    and there is no way to read the setting here: but with it on, another worker module runs the planning.

    Raises:
        ColumnNotFoundError, SchemaMismatchError: `declared` is not a view of the table.
    """
    return (FilteringBatchReader if _filters_come() else BatchReader)(scan, declared)


def _filters_come() -> bool:
    if _PUSHDOWN_WORKER in sys.modules:
        return True
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)  # where Spark starts a process per query
    return spec is not None and spec.name == _PUSHDOWN_WORKER


class BatchReader(DataSourceReader):
    """Plans beside the driver; what is pickled to executors holds only what reading needs."""

    def __init__(self, scan: Scan, declared: StructType) -> None:
        self._names, self._unchanged = _match(scan, declared)
        self._scan: Scan | None = scan.project(self._names)
        self._target = arrow_schema(declared)
        self._table_name = scan.table_name
        self._requests: Mapping[str, ReadRequest] | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Groups of splits. Driver."""
        assert self._scan is not None, "partitions are asked for only where the reader was made"
        plan = self._scan.plan()
        options = self._scan.handle.options
        return [
            SplitsPartition(group)
            for group in pack(plan.splits, options.split_target_bytes, options.split_open_cost_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group of splits, as Spark's Arrow schema wants them. Executor."""
        # Spark makes a partition of its own when there are none.
        splits = partition.splits if isinstance(partition, SplitsPartition) else ()
        if not splits:
            return iter(())
        return self._read(splits)

    def _read(self, splits: Sequence[DataSplit]) -> Iterator[pa.RecordBatch]:
        from paimon_spark.read.split_reader import read_split
        from paimon_spark.spark.batches import fit

        assert self._requests is not None
        for split in splits:
            batches = read_split(self._requests[split.branch], split)
            yield from fit(batches, self._names, self._target, self._table_name)

    def __getstate__(self) -> dict[str, Any]:
        """What executors need. Spark pickles the reader before it asks for partitions, so this may plan."""
        state = dict(self.__dict__)
        if self._scan is not None:
            requests = self._scan.plan().requests
            state["_requests"] = {b: replace(r, timestamp_precision=_DIGITS) for b, r in requests.items()}
            state["_scan"] = None
            state["_unchanged"] = {}
        return state


class FilteringBatchReader(BatchReader):
    """A reader that filters itself where it can do so exactly."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Take the filters we evaluate exactly; the others are Spark's. Driver."""
        assert self._scan is not None
        taken, left = translate(filters, self._unchanged)
        self._scan = self._scan.filtered(taken)
        self._scan.plan()  # here errors keep their words; while pickling Spark would wrap them
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
