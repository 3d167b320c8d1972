"""Reads by the Python data source, planned here.

Source: Spark `datasources/v2/python/PythonScan.scala`, PySpark `worker/plan_data_source_read.py`.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from paimon_spark.spark.batch_read import batch_reader
from paimon_spark.spark.session import with_sources
from paimon_spark.spark.source import PaimonPyDataSource
from paimon_spark.spark_catalog.jvm.gateway import SQL, Gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.engine.tasks import DataSplit
    from paimon_spark.jobs.read.scan import Scan

_PYTHON: Final = SQL + "execution.datasources.v2.python."
_BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BINARY_AS_BYTES: Final = "spark.sql.execution.pyspark.binaryAsBytes"


class PythonScan:
    """A read by the Python data source."""

    reader_name: Final = "Python reader"

    def __init__(self, gateway: Gateway, spark: SparkSession, scan: Scan, schema: StructType, java_schema: Any) -> None:
        """`java_schema` is `schema` in the JVM."""
        self._gateway = gateway
        self._spark = spark
        self._scan = scan
        self._schema = schema
        self._java_schema = java_schema
        self._whole: Any = None

    def partitions(self, splits: Sequence[DataSplit] | None = None) -> Any:
        """Spark's `InputPartition[]` of some splits of the read; None means all of them."""
        found = self._batch if splits is None else self._planned(self._scan.with_splits(splits))
        return found.planInputPartitions()

    def reader_factory(self) -> Any:
        """Factory of the readers of partitions in tasks, those of fewer splits too."""
        return self._batch.createReaderFactory()

    @property
    def _batch(self) -> Any:
        if self._whole is None:
            self._whole = self._planned(self._scan)
        return self._whole

    def _planned(self, scan: Scan) -> Any:
        return with_sources(self._spark, lambda: self._planned_by_spark(scan))

    def _planned_by_spark(self, scan: Scan) -> Any:
        reader: Any = batch_reader(scan, self._schema)
        conf = self._spark.conf
        written = io.BytesIO()
        write_read_func_and_partitions(
            written,
            reader=reader,
            data_source=PaimonPyDataSource({}),
            schema=self._schema,
            max_arrow_batch_size=int(str(conf.get(_BATCH_ROWS))),
            binary_as_bytes=str(conf.get(_BINARY_AS_BYTES, "true")).lower() == "true",
        )
        function, *partitions = _chunks(written.getvalue())
        info = self._gateway.cls(_PYTHON + "PythonDataSourceReadInfo")(function, self._gateway.seq(partitions))
        return python_scan(self._gateway, self._java_schema, {"path": scan.load_path}, info).toBatch()


def python_scan(gateway: Gateway, java_schema: Any, options: Mapping[str, str], info: Any = None) -> Any:
    """Spark's scan of the Python data source; `info` is its plan, which Spark else asks a Python process for."""
    source = gateway.cls(_PYTHON + "PythonDataSourceV2")()
    source.setShortName(PaimonPyDataSource.name())
    if info is not None:
        source.setReadInfo(info)
    kind = gateway.cls(_PYTHON + "PythonScanBuilder")
    return kind(source, PaimonPyDataSource.name(), java_schema, gateway.options(options)).build()


def _chunks(written: bytes) -> list[bytes]:
    """The function and the partitions that PySpark wrote: each behind its length, and their number behind the first."""
    source = io.BytesIO(written)

    def number() -> int:
        return int(struct.unpack("!i", source.read(4))[0])

    function = source.read(number())
    return [function, *(source.read(number()) for _ in range(number()))]
