"""A streaming source and sink in Python that do nothing: what Spark itself takes for any of them.

The source gives one prepared batch a trigger, the sink drops what comes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


class IdleSource(DataSource):
    """`format("idle")`."""

    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> str:
        return "timestamp TIMESTAMP_NTZ, value BIGINT"

    def streamReader(self, schema: StructType) -> IdleReader:
        return IdleReader(int(self.options["rows"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> IdleWriter:
        return IdleWriter()


class IdleReader(DataSourceStreamReader):
    """One batch of so many rows a trigger."""

    def __init__(self, rows: int) -> None:
        self._rows, self._at = rows, 0

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return {"at": start["at"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(end["at"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        times = pa.nulls(self._rows, pa.timestamp("us"))
        yield pa.record_batch({"timestamp": times, "value": pa.array(range(self._rows), pa.int64())})


class IdleWriter(DataSourceStreamArrowWriter):
    """Drops rows."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        pass


def register(spark: SparkSession) -> None:
    """Let a session know it; its workers get the code with it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(IdleSource)
