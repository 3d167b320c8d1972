"""A planned read of a table: its statistics, its partitions, and who reads them.

Spark takes one reader for all partitions of a scan. Where only some files need Python, the scan gives parts, and a rule
of the session's optimizer (`java/ReadParts.java`) puts their union in its place.

Source: Spark `connector/read/Scan.java`, `SupportsReportStatistics.java`, `SupportsRuntimeV2Filtering.java`,
`execution/datasources/v2/BatchScanExec.scala`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from paimon_spark.engine.scan.splits import totals_of
from paimon_spark.errors import NotFoundError
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.options.location import MAIN
from paimon_spark.options.scan import BRANCH
from paimon_spark.predicate.ast import Predicate, conjuncts, show
from paimon_spark.spark.dataframe import as_options
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark.session import reads_files
from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.reads.file_scan import FileScan, file_scan
from paimon_spark.spark_catalog.reads.predicates import Conditions, conditions_of
from paimon_spark.spark_catalog.reads.python_scan import PythonScan, python_scan
from paimon_spark.spark_catalog.reads.readable_files import readable_files
from paimon_spark.spark_catalog.reads.results import READ, ScanProxy
from paimon_spark.spark_catalog.reads.statistics import estimated
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.engine.tasks import DataSplit

_Reader = FileScan | PythonScan


def install_read_rule(gateway: Gateway, spark: SparkSession) -> None:
    """Let scans of a session have parts with different readers, by a rule of Spark's optimizer in Java."""
    gateway.java_code("ReadParts").installRule(spark._jsparkSession)


class TableScanProxy(
    ScanProxy,
    implements=(
        READ + "SupportsReportStatistics",
        READ + "SupportsRuntimeV2Filtering",
        "java.util.function.Supplier",
    ),
    constants=("description", "filterAttributes", "readSchema", "reflectsFullyPushedDownFilters"),
):
    """One read of a table, planned when Spark first asks for statistics or partitions."""

    def __init__(
        self,
        gateway: Gateway,
        spark: SparkSession,
        scan: Scan,
        conditions: Conditions,
        options: Mapping[str, str],
        reader: _Reader | None = None,
        failure: NotFoundError | None = None,
        start: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        """A read, or with `reader` a part of one, whose splits are those of the plan of `scan`.

        `conditions` are those of Spark by which the scan skips files; `options` are of the read, as text; `failure` and
        `start` as of `ScanBuilderProxy`.
        """
        self.gateway = gateway
        self._spark = spark
        self._scan = scan
        self._conditions = conditions
        self._options = options
        self._failure = failure
        self._start = start
        self._schema: StructType = spark_schema(scan.row_type)
        self._java_schema: Any = gateway.struct(self._schema.json())
        self._is_part = reader is not None
        self._known_reader = reader
        self._parts: list[tuple[_Reader, Sequence[DataSplit]]] = []
        self._made: tuple[str, Any] | None = None
        self._factory: Any = None
        self._lock = threading.RLock()
        self._runtime = threading.local()

    def readSchema(self) -> Any:
        """The columns that are read."""
        return self._java_schema

    def description(self) -> str:
        """The version, the conditions, what was skipped, and who reads."""
        scan = self._scan
        if scan.is_system:
            return f"paimon {scan.table_name} ({self._reader.reader_name})"
        plan = scan.plan()
        branch = "" if plan.branch == MAIN else f" of branch {plan.branch}"
        at = "no snapshot" if plan.snapshot is None else f"snapshot {plan.snapshot.id}{branch}"
        report = plan.report
        files = totals_of(plan.splits).files
        parts = [f"paimon {scan.table_name}", at, f"{files} of {report.files + report.files_in_skipped} files"]
        if report.skipped:
            parts.append("skipped by " + ", ".join(f"{s.reason.value}: {s.files}" for s in report.skipped if s.files))
        conditions = dict.fromkeys(map(show, conjuncts(plan.query.predicate)))
        if conditions:
            parts.append("where " + " AND ".join(conditions))
        return ", ".join(parts) + f" ({self._reader.reader_name})"

    # SupportsReportStatistics

    def estimateStatistics(self) -> Any:
        """Rows, bytes and values, which choose joins and their order."""
        return estimated(self.gateway, self._scan, self._schema, self._java_schema)

    def estimateSizeInBytes(self) -> Any:
        """Bytes, which choose joins."""
        return self.estimateStatistics().sizeInBytes()

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Yes: skipped files are not counted."""
        return True

    # SupportsRuntimeV2Filtering

    def filterAttributes(self) -> Any:
        """The columns by which partitions can be skipped while the query runs: partition columns that are read."""
        keys = () if self._scan.is_system else self._scan.handle.schema.partition_keys
        names = [k for k in keys if k in self._schema.names]
        reference = self.gateway.static(SQL + "connector.expressions.Expressions", "column")
        return self.gateway.array(SQL + "connector.expressions.NamedReference", [reference(quoted(n)) for n in names])

    def filter(self, conditions: Any) -> None:
        """Skip partitions by conditions that are known once other parts of the query have run.

        They hold for the batch that this thread asks for next, and for no other: Spark may use a scan in several places
        of a query.
        """
        found = conditions_of(self.gateway, conditions, self._scan.schema.row_type)
        self._runtime.predicates = [*self._runtime_predicates(), *found.predicates.values()]

    def _runtime_predicates(self) -> list[Predicate]:
        return getattr(self._runtime, "predicates", [])

    def pushedPredicates(self) -> Any:
        """Conditions by which files are skipped."""
        return self._conditions.java_predicates()

    def supportsIterativePushdown(self) -> bool:
        """No: all conditions come at once."""
        return False

    # Supplier, for the rule `ReadParts`

    def get(self) -> Any:
        """The parts of the read that have readers of their own, as `Scan[]`; None where one reads all."""
        if self._is_part or self._scan.is_system:
            return None
        _ = self._reader
        if not self._parts:
            return None
        made = [
            TableScanProxy(
                self.gateway, self._spark, self._scan.with_splits(splits), self._conditions, self._options, reader
            )
            for reader, splits in self._parts
        ]
        return self.gateway.array(READ + "Scan", made)

    # Scan

    def toBatch(self) -> Any:
        """The partitions and their reader."""
        if self._failure is not None:
            raise self._failure
        found, self._runtime.predicates = self._runtime_predicates(), []
        return BatchProxy(self, tuple(found))

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """The stream of the Python data source."""
        options = {**as_options(self._scan), **self._options, "path": self._scan.load_path}
        if BRANCH.key not in self._options and self._scan.handle.branch != MAIN:
            options[BRANCH.key] = self._scan.handle.branch
        if self._start is not None:
            options.update(self._start(_query_name(self._spark)))
        return python_scan(self.gateway, self._java_schema, options).toMicroBatchStream(checkpoint)

    def partitions(self, predicates: Sequence[Predicate]) -> Any:
        """Spark's `InputPartition[]` of the table's partitions that may satisfy conditions on partition columns.

        Spark asks again for each copy that it makes of a plan.
        """
        with self._lock:
            if self._made is None or self._made[0] != repr(predicates):
                self._made = repr(predicates), self._partitions(predicates)
            return self._made[1]

    def _partitions(self, predicates: Sequence[Predicate]) -> Any:
        reader = self._reader
        if self._scan.is_system:
            return self._python.partitions()
        splits = self._scan.plan().splits
        if not predicates:
            return reader.partitions(splits) if isinstance(reader, FileScan) else reader.partitions()
        wanted = totals_of(self._scan.filtered(predicates).plan().splits).partitions
        return reader.partitions([s for s in splits if s.partition in wanted])

    def reader_factory(self) -> Any:
        """Factory of the readers of partitions in tasks."""
        with self._lock:
            if self._factory is None:
                self._factory = self._reader.reader_factory()
            return self._factory

    @property
    def is_read_by_spark(self) -> bool:
        """Whether one of Spark's own readers reads all files."""
        return isinstance(self._reader, FileScan)

    @property
    def _python(self) -> PythonScan:
        return PythonScan(self.gateway, self._spark, self._scan, self._schema, self._java_schema)

    @property
    def _reader(self) -> _Reader:
        """Who reads; decided once, as Spark asks for partitions and for the reader separately."""
        with self._lock:
            if self._known_reader is None:
                self._known_reader = self._decide()
            return self._known_reader

    def _decide(self) -> _Reader:
        if self._scan.is_system or not reads_files(self._spark):
            return self._python
        files, rest = readable_files(self._scan)
        found: list[tuple[_Reader, Sequence[DataSplit]]] = []
        for some in files:
            reader = file_scan(self.gateway, self._spark, self._scan.with_splits(some.splits), some, self._conditions)
            if reader is None:
                return self._python
            found.append((reader, some.splits))
        if len(found) == 1 and not rest:
            return found[0][0]
        if found and rest:
            scan = self._scan.with_splits(rest)
            found.append((PythonScan(self.gateway, self._spark, scan, self._schema, self._java_schema), rest))
        self._parts = found
        return self._python

    def identity(self) -> tuple[Any, ...]:
        """Key that equal reads share, so that Spark runs them once."""
        scan = self._scan
        part = type(self._known_reader).__name__, self._files_read() if self._is_part else ()
        at = (scan.load_path, scan.handle.branch, scan.snapshot_id, scan.enough_rows, self._schema.json())
        return (*at, repr(scan.options), repr(scan.filters), repr(sorted(scan.handle.overrides.items())), part)

    def _files_read(self) -> tuple[str, ...]:
        return tuple(f.file_name for s in self._scan.plan().splits for f in s.files)


class BatchProxy(Proxy, implements=(READ + "Batch",), constants=("createReaderFactory", "planInputPartitions")):
    """The partitions of a scan and their reader."""

    def __init__(self, scan: TableScanProxy, predicates: tuple[Predicate, ...]) -> None:
        """`predicates` are conditions on partition columns that became known while the query runs."""
        self.gateway = scan.gateway
        self._scan = scan
        self._predicates = predicates

    def planInputPartitions(self) -> Any:
        """One for each task."""
        return self._scan.partitions(self._predicates)

    def createReaderFactory(self) -> Any:
        """Factory of the readers of partitions in tasks: a class of Spark."""
        return self._scan.reader_factory()

    def _key(self) -> str:
        """Which rows are read, so that Spark runs equal reads once."""
        return repr((*self._scan.identity(), self._predicates))


def _query_name(spark: SparkSession) -> str:
    """The name of the streaming query that this thread starts; empty without one.

    Spark describes its jobs by it: `name<br/>id = …`, with a line break for `<br/>`.
    """
    text = str(spark.sparkContext.getLocalProperty("spark.job.description") or "")
    name = text.replace("<br/>", "\n").partition("\n")[0]
    return "" if name.startswith("id = ") else name
