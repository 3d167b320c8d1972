"""Batch reads: planned beside the driver, packed into partitions, read on executors."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_spark.engine.tasks import DataSplit, SplitMode
from paimon_spark.format.data_files.registry import format_of
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats
from paimon_spark.spark.schema import arrow_schema, check_readable_as
from paimon_spark.spark.task_read import TIMESTAMP_DIGITS, SplitsPartition, SystemTaskReader, TaskReader, lineage_note
from paimon_spark.spark.worker_errors import errors_in_one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.jobs.read.scan import Scan
    from paimon_spark.jobs.read.system_scan import SystemScan

_LEAST_BYTES: Final = 16 << 20
"""A Python task costs Spark some 50 ms; this many bytes take about as long to decode."""
_NO_STATS: Final = SimpleStats(b"", b"", ())


def batch_reader(scan: Scan, declared: StructType) -> BatchReader:
    """A reader of the columns of `declared`, planned.

    It takes no filters that Spark pushes (`spark.sql.python.filterPushdown.enabled`): Spark keeps what one query of a
    DataFrame was planned with, and gives it to the next query that has no filter, and to the other side of a union or
    a join, where rows are missing then. `tests/spark/test_pushdown.py` shows it of another source.

    Source: PySpark 4.1.4 and 4.3.0, `PythonDataSourceV2.setReadInfo`.

    Raises:
        ColumnNotFoundError, SchemaMismatchError: `declared` is not a view of the table.
    """
    reader = SystemReader(scan, declared) if scan.is_system else BatchReader(scan, declared)
    reader.plan()
    return reader


@errors_in_one_line
class BatchReader(DataSourceReader):
    """Plans beside the driver; what goes to executors is a `TaskReader`."""

    def __init__(self, scan: Scan, declared: StructType) -> None:
        self._names = _match(scan, declared)
        self._scan = scan.project(self._names)
        self._target = arrow_schema(declared)

    def plan(self) -> None:
        """Plan now: later Spark is pickling, and would wrap errors."""
        self._scan.plan()

    def partitions(self) -> Sequence[InputPartition]:
        """Groups of splits. Driver."""
        groups, note = self._groups(), lineage_note(self._scan.tickets())
        if not groups:
            return [] if note is None else [SplitsPartition((), note)]
        return [SplitsPartition(group, None if n else note) for n, group in enumerate(groups)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group of splits. Executors do without this class: see `__reduce__`."""
        return self._task_reader().read(partition)

    def _groups(self) -> list[tuple[DataSplit, ...]]:
        options = self._scan.handle.options
        return pack(self._scan.plan().splits, options.split_target_bytes, options.split_open_cost_bytes)

    def _task_reader(self) -> TaskReader | SystemTaskReader:
        requests = {b: replace(r, timestamp_precision=TIMESTAMP_DIGITS) for b, r in self._scan.plan().requests.items()}
        return TaskReader(requests, self._names, self._target, self._scan.table_name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what executors need instead of this. Spark pickles before it asks for partitions, so this may plan."""
        reader = self._task_reader()
        return type(reader), tuple(getattr(reader, f.name) for f in fields(reader))


@errors_in_one_line
class SystemReader(BatchReader):
    """Plans the read of a system table; what goes to executors is a `SystemTaskReader`."""

    _scan: SystemScan

    def partitions(self) -> Sequence[InputPartition]:
        """Groups of splits; one task for a system table that is made from metadata. Driver."""
        if self._scan.is_listing:
            return [SplitsPartition(())]
        return [SplitsPartition(group) for group in self._groups()]

    def _task_reader(self) -> SystemTaskReader:
        return SystemTaskReader(self._scan.reading(), self._names, self._target, self._scan.table_name)


def _match(scan: Scan, declared: StructType) -> tuple[str, ...]:
    """The table's column for each declared one, by name."""
    row_type = scan.columns_named([field.name for field in declared.fields])
    for field, f in zip(declared.fields, row_type, strict=True):
        check_readable_as(f.name, f.type, f.type.nullable, field.dataType, field.nullable)
    return row_type.names


def pack(
    splits: Sequence[DataSplit],
    target_bytes: int,
    open_cost_bytes: int,
    cores: int | None = None,
    *,
    together: Callable[[DataSplit], Hashable] | None = None,
) -> list[tuple[DataSplit, ...]]:
    """Groups of splits of about equal weight, each for one task; inside a group in the order of the plan.

    Args:
        splits: of a plan.
        target_bytes: weight that a group exceeds only when it has one item.
        open_cost_bytes: least weight of a file.
        cores: number of tasks for small reads; default is the number of cores of this machine, the driver's.
        together: key of splits that are not cut and go to one task.
    """
    splits = tuple(splits)
    share = sum(_weight(s, open_cost_bytes) for s in splits) // max(1, cores or os.cpu_count() or 1)
    limit = max(_LEAST_BYTES, min(target_bytes, share + 1))
    if together is None:
        chains = [[p] for s in splits for p in _pieces(s, limit, open_cost_bytes)]
    else:
        by_order: dict[Hashable, list[DataSplit]] = {}
        for split in splits:
            by_order.setdefault(together(split), []).append(split)
        chains = list(by_order.values())
    items = [tuple(lean(s) for s in chain) for chain in chains]
    return _balanced(items, [sum(_weight(s, open_cost_bytes) for s in item) for item in items], limit)


def _weight(split: DataSplit, open_cost_bytes: int) -> int:
    size = split.size_bytes
    if split.rows is not None:
        size = size * (split.rows[1] - split.rows[0]) // split.row_count
    return max(size, open_cost_bytes * (len(split.files) + len(split.before_files)))


def _pieces(split: DataSplit, limit: int, open_cost_bytes: int) -> list[DataSplit]:
    """A split too large for one task, cut between files, and large files between row groups, if rows are not merged."""
    if split.mode is not SplitMode.RAW or _weight(split, open_cost_bytes) <= limit:
        return [split]
    groups: list[list[int]] = [[]]
    filled = 0
    for i, f in enumerate(split.files):
        weight = max(f.file_size, open_cost_bytes)
        if groups[-1] and filled + weight > limit:
            groups.append([])
            filled = 0
        groups[-1].append(i)
        filled += weight
    pieces = [
        replace(
            split,
            files=tuple(split.files[i] for i in group),
            deletions=tuple(split.deletions[i] for i in group) if split.deletions else (),
        )
        for group in groups
    ]
    return [part for piece in pieces for part in _parts(piece, limit)]


def _parts(split: DataSplit, limit: int) -> list[DataSplit]:
    """A split of one large Parquet file as parts of about equal numbers of rows.

    Where its row groups begin is only known to its readers: each takes those that begin in its part, so a file of few
    row groups may leave some without rows. Other formats are read from the beginning, or in stripes held whole.
    """
    if len(split.files) > 1 or split.size_bytes <= limit or format_of(split.files[0].file_name) != "parquet":
        return [split]
    rows = split.files[0].row_count
    count = min(-(-split.size_bytes // limit), rows)
    bounds = [rows * n // count for n in range(count + 1)]
    return [replace(split, rows=bound) for bound in pairwise(bounds)]


def _balanced(
    items: Sequence[tuple[DataSplit, ...]], weights: Sequence[int], limit: int
) -> list[tuple[DataSplit, ...]]:
    """Heaviest first, each to the lightest group; inside a group in plan order."""
    if not items:
        return []
    count = min(len(items), -(-sum(weights) // limit))
    heap = [(0, g) for g in range(count)]
    groups: list[list[int]] = [[] for _ in range(count)]
    for i in sorted(range(len(items)), key=lambda i: -weights[i]):
        weight, g = heapq.heappop(heap)
        groups[g].append(i)
        heapq.heappush(heap, (weight + weights[i], g))
    return [tuple(chain.from_iterable(items[i] for i in sorted(group))) for group in groups]


def lean(split: DataSplit) -> DataSplit:
    """The split without what only planning uses, so that less is sent to executors."""
    return replace(
        split,
        files=tuple(_lean(f) for f in split.files),
        before_files=tuple(_lean(f) for f in split.before_files),
    )


def _lean(f: DataFileMeta) -> DataFileMeta:
    return f._replace(value_stats=_NO_STATS, key_stats=_NO_STATS, value_stats_cols=None)
