"""Scans as DataFrames of classic sessions, planned as tables of catalogs.

So columns and conditions that are applied to a DataFrame reach the files, joins know sizes, and Spark's own readers
read the files that they can.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from paimon_spark.jobs.read.scan import Scan, predicate_of
from paimon_spark.predicate.ast import conjuncts, names_of, sql_text
from paimon_spark.redaction import get_logger
from paimon_spark.spark.schema import spark_schema
from paimon_spark.spark_catalog.jvm.gateway import CATALOG, SQL, Gateway, gateway_of
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.reads.row_conditions import row_condition
from paimon_spark.spark_catalog.reads.scan import install_read_rule
from paimon_spark.spark_catalog.reads.scan_builder import ScanBuilderProxy
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOG: Final = get_logger(__name__)


def dataframe(scan: Scan, spark: SparkSession, *, keeps_filters: bool = False) -> DataFrame | None:
    """The DataFrame of a scan in a classic session; None where the session's JVM cannot be used.

    With `keeps_filters`, the user of the DataFrame evaluates the filters of the scan again, so that they need only skip
    files.

    Raises as `Scan.row_type`, and for a condition that is wrong as `Scan.plan`.
    """
    if scan.is_planned:
        scan = scan.pinned()
    names = scan.row_type.names
    scan, conditions = _with_conditions(scan, keeps_filters=keeps_filters)
    schema = spark_schema(scan.row_type)  # refuses types that Spark lacks
    try:
        gateway = gateway_of(spark.sparkContext)
        install_read_rule(gateway, spark)
        frame = _of_table(gateway, spark, ScanTableProxy(gateway, spark, scan, schema.json()))
        if conditions:
            frame = frame.where(reduce(and_, conditions))
        return frame if scan.row_type.names == names else frame.select(*(F.col(quoted(n)) for n in names))
    except (Py4JError, PySparkException, AttributeError, TypeError, OSError) as e:
        _LOG.debug("a scan is read by the Python data source, as the gateway failed", exc_info=e)
        return None


def _with_conditions(scan: Scan, *, keeps_filters: bool) -> tuple[Scan, Sequence[Column]]:
    """The scan with all columns that its conditions need, and the conditions for Spark to evaluate on the rows.

    Conditions that Spark may evaluate otherwise are left to Python.
    """
    asked = scan.options
    if scan.is_system or (keeps_filters and asked.where is None):
        return scan, ()
    predicate = predicate_of(scan)
    if predicate is None:
        return scan, ()
    parts = conjuncts(predicate)
    is_of_rows = not asked.row_kind and asked.incremental is None
    found = [row_condition(p) if is_of_rows else None for p in parts]
    conditions = [c for c in found if c is not None]
    if len(conditions) < len(parts):
        return replace(scan, options=replace(asked, where=sql_text(predicate)), filters=()), ()
    names = scan.row_type.names
    columns = (*names, *sorted(names_of(predicate) - {*names}))
    return replace(scan, options=replace(asked, where=None, columns=columns), filters=parts), conditions


def _of_table(gateway: Gateway, spark: SparkSession, table: ScanTableProxy) -> DataFrame:
    create = gateway.static(SQL + "execution.datasources.v2.DataSourceV2Relation", "create")
    relation = create(table.as_java(), gateway.none, gateway.none, gateway.options({}), gateway.none)
    datasets = gateway.scala_object(SQL + "classic.Dataset")
    return DataFrame(datasets.ofRows(spark._jsparkSession, relation), spark)


class ScanTableProxy(
    Proxy,
    implements=(CATALOG + "SupportsRead",),
    constants=(
        "capabilities", "columns", "constraints", "id", "name", "partitioning", "properties", "schema", "toString",
        "version",
    ),
):  # fmt: skip
    """A scan as a table: what it reads stays, each use adds columns and conditions of its own.

    Without a version, the first use decides which snapshot all uses read.
    """

    def __init__(self, gateway: Gateway, spark: SparkSession, scan: Scan, schema: str) -> None:
        """`schema` is Spark's schema of the scan as JSON."""
        self.gateway = gateway
        self._spark = spark
        self._scan = scan
        self._schema = schema

    def name(self) -> str:
        """The name in messages and plans."""
        return self._scan.table_name

    def id(self) -> None:
        """No id."""

    def version(self) -> None:
        """No version: Spark has no name to load another by."""

    def schema(self) -> Any:
        """The columns."""
        return self.gateway.struct(self._schema)

    def columns(self) -> Any:
        """The columns, as Spark's V2 has them."""
        return self.gateway.columns(self._scan.row_type)

    def partitioning(self) -> Any:
        """No partitioning that Spark needs to know."""
        return self.gateway.array(SQL + "connector.expressions.Transform")

    def properties(self) -> Any:
        """Always None."""
        return self.gateway.java_map({})

    def constraints(self) -> Any:
        """Always None."""
        return self.gateway.array(CATALOG + "constraints.Constraint")

    def capabilities(self) -> Any:
        """It is read."""
        kind = CATALOG + "TableCapability"
        return self.gateway.once("reads", lambda: self.gateway.java_set([self.gateway.constant(kind, "BATCH_READ")]))

    def newScanBuilder(self, options: Any) -> Any:
        """A read, which takes the columns and conditions of the query."""
        self._scan = self._scan.pinned()
        return ScanBuilderProxy(self.gateway, self._spark, self._scan, self._scan.row_type, {})

    def toString(self) -> str:
        return self.name()
