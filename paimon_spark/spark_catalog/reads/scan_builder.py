"""Reads that Spark plans: columns, conditions, limits and counts pushed down.

Source: Spark `connector/read/SupportsPushDown*.java`, `datasources/v2/V2ScanRelationPushDown.scala`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.engine.scan.one_branch import certain_rows
from paimon_spark.engine.tasks import sum_if_known
from paimon_spark.errors import NotFoundError
from paimon_spark.jobs.read.scan import Scan
from paimon_spark.options.lineage import JOB
from paimon_spark.predicate.ast import Predicate, names_of
from paimon_spark.spark.session import local_dataframe
from paimon_spark.spark_catalog.jvm.gateway import Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.reads.predicates import Conditions, conditions_of
from paimon_spark.spark_catalog.reads.results import READ, LocalScanProxy
from paimon_spark.spark_catalog.reads.scan import TableScanProxy
from paimon_spark.types import AtomicType, RowType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ScanBuilderProxy(
    Proxy,
    implements=(
        READ + "SupportsPushDownRequiredColumns",
        READ + "SupportsPushDownV2Filters",
        READ + "SupportsPushDownLimit",
        READ + "SupportsPushDownAggregates",
    ),
):
    """One read of a table. Each use of a DataFrame has its own, so that no use sees the conditions of another."""

    def __init__(
        self,
        gateway: Gateway,
        spark: SparkSession,
        scan: Scan,
        row_type: RowType,
        options: Mapping[str, str],
        failure: NotFoundError | None = None,
        start: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        """A read, with the columns of the table, and options as text.

        `failure` is the error of all reads but streams, which read `scan` from where the options say. `start` is called
        with the name of a streaming query, and returns more options, which say where it starts.
        """
        self.gateway = gateway
        self._spark = spark
        self._scan = scan
        self._row_type = row_type
        self._options = options
        self._failure = failure
        self._start = start
        self._schema: Any = None
        self._conditions = Conditions(gateway)
        self._is_counted = False

    def pruneColumns(self, required: Any) -> None:
        """Read only these columns; whole ones, whatever fields of them are needed."""
        self._schema = required

    def pushPredicates(self, conditions: Any) -> Any:
        """Skip files by conditions; returns those that Spark must evaluate on the rows.

        Those are all but conditions on partition columns, which whole partitions meet or not.
        """
        if self._scan.is_system:
            return conditions
        found = conditions_of(self.gateway, conditions, self._scan.schema.row_type)
        self._scan = self._scan.filtered(list(found.predicates.values()))
        self._conditions = found
        return found.all_but(found.where(self._is_of_partitions))

    def _is_of_partitions(self, predicate: Predicate) -> bool:
        """Whether whole partitions meet a condition or not, so that planning evaluates it completely."""
        scan, names = self._scan, names_of(predicate)
        has_versions = scan.options.incremental is not None or scan.options.row_kind
        handle = scan.handle
        return (
            bool(names)
            and not has_versions
            and names <= {*handle.schema.partition_keys} - {*handle.options.read_defaults}
        )

    def pushedPredicates(self) -> Any:
        """The conditions by which files are skipped."""
        return self._conditions.java_predicates()

    def supportsIterativePushdown(self) -> bool:
        """No: all conditions come at once."""
        return False

    def pushLimit(self, limit: int) -> bool:
        """Stop planning files once they hold enough rows."""
        if self._scan.is_system:
            return False
        self._scan = self._scan.limited(limit)
        return True

    def isPartiallyPushed(self) -> bool:
        """Spark still cuts off the rows behind the limit."""
        return True

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        """Whether `count(*)` is known from metadata."""
        return self._failure is None and self._counts(aggregation) and self._row_count() is not None

    def pushAggregation(self, aggregation: Any) -> bool:
        """Answer `count(*)` from metadata, where that is exact."""
        self._is_counted = bool(self.supportCompletePushDown(aggregation))
        return self._is_counted

    def _counts(self, aggregation: Any) -> bool:
        functions = list(aggregation.aggregateExpressions())
        is_star = len(functions) == 1 and functions[0].getClass().getSimpleName() == "CountStar"
        return is_star and not len(aggregation.groupByExpressions()) and not self._scan.is_system

    def _row_count(self) -> int | None:
        """The exact number of rows; None where only reading the files can tell."""
        scan = self._scan
        if scan.options.where is not None or JOB.key in scan.handle.overrides:  # lineage records what tasks read
            return None
        if not all(self._is_of_partitions(p) for p in scan.filters):
            return None
        return exact_row_count(self._scan)

    def build(self) -> Any:
        """The scan with all that was pushed down."""
        if self._is_counted:
            count = self._row_count()
            frame = local_dataframe(self._spark, "count BIGINT NOT NULL", [(count,)])
            at = self._scan.snapshot_id
            text = f"paimon {self._scan.table_name}, snapshot {at}: count(*) = {count} from metadata"
            return LocalScanProxy.of(self.gateway, frame, text)
        names = self._row_type.names if self._schema is None else self.gateway.names(self._schema)
        if not names and not self._scan.is_system:  # only the number of rows counts
            found = self._proxy(())
            return found if found.is_read_by_spark else self._proxy(self._least_column())
        return self._proxy(names or self._row_type.names[:1])

    def _proxy(self, names: Sequence[str]) -> TableScanProxy:
        """The scan of columns; those of the partition come last, as Spark's readers add them."""
        keys = () if self._scan.is_system else self._scan.handle.schema.partition_keys
        scan = self._scan.project([*(n for n in names if n not in keys), *(n for n in names if n in keys)])
        return TableScanProxy(
            self.gateway, self._spark, scan, self._conditions, self._options, failure=self._failure, start=self._start
        )

    def _least_column(self) -> Sequence[str]:
        """The column that takes Python the least time to read."""
        keys = self._scan.handle.schema.partition_keys
        return (min(self._row_type, key=lambda f: (f.name not in keys, not isinstance(f.type, AtomicType))).name,)

    def toString(self) -> str:
        return str(self._scan)


def exact_row_count(scan: Scan) -> int | None:
    """The number of rows that `scan` returns, by its plan; None where files may hold others."""
    if scan.options.row_kind or scan.options.incremental is not None or scan.options.created_since_ms is not None:
        return None
    plan = scan.plan()
    counts = [certain_rows(s, keys=bool(plan.requests[s.branch].schema.primary_keys)) for s in plan.splits]
    return sum_if_known(counts)
