"""Rows that the driver has, such as counts from metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway
from paimon_spark.spark_catalog.jvm.proxies import Proxy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

READ: Final = SQL + "connector.read."
_MODE: Final = READ + "Scan$ColumnarSupportMode"


def internal_rows(frame: DataFrame) -> Any:
    """The rows of a small local DataFrame as Spark's `InternalRow[]`, without a job."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    return plan.executeCollect()


class ScanProxy(Proxy, constants=("columnarSupportMode", "!reportDriverMetrics", "!supportedCustomMetrics")):
    """Common behaviour of all scans."""

    def toBatch(self) -> Any:
        """Batches are read by the subclasses that have some."""
        raise NotImplementedError(f"{self.description()} has no batches")

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """Streams are read by the subclass that has some."""
        raise NotImplementedError(f"{self.description()} has no stream")

    def toContinuousStream(self, checkpoint: str) -> Any:
        """Python data sources have no continuous streams."""
        raise NotImplementedError("trigger(continuous=…) is not supported; use processingTime or availableNow")

    def description(self) -> str:
        """Text in EXPLAIN."""
        return type(self).__name__

    def supportedCustomMetrics(self) -> Any:
        """No metrics."""
        return self.gateway.array(SQL + "connector.metric.CustomMetric")

    def reportDriverMetrics(self) -> Any:
        """No metrics."""
        return self.gateway.array(SQL + "connector.metric.CustomTaskMetric")

    def columnarSupportMode(self) -> Any:
        """The reader decides for each partition."""
        return self.gateway.constant(_MODE, "PARTITION_DEFINED")

    def toString(self) -> str:
        return self.description()


class LocalScanProxy(ScanProxy, implements=(READ + "LocalScan",)):
    """Rows that the driver has."""

    def __init__(self, gateway: Gateway, schema: Any, rows: Any, text: str) -> None:
        self.gateway = gateway
        self._schema = schema
        self._rows = rows
        self._text = text

    @classmethod
    def of(cls, gateway: Gateway, frame: DataFrame, text: str = "rows of the driver") -> LocalScanProxy:
        """The rows of a small local DataFrame."""
        return cls(gateway, frame._jdf.schema(), internal_rows(frame), text)

    def readSchema(self) -> Any:
        """The columns of the rows."""
        return self._schema

    def rows(self) -> Any:
        """The rows."""
        return self._rows

    def description(self) -> str:
        """Where the rows come from."""
        return self._text
