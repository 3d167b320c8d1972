"""The least a Python data source can do: hand over the batches that pyarrow decodes, and drop those it is given.

The floor for any reader and any writer.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


class Files(InputPartition):
    """Files of one task."""

    def __init__(self, files: list[str]) -> None:
        super().__init__(None)
        self.files = files


class BareReader(DataSourceReader):
    """Two tasks, pyarrow's decoder, nothing else."""

    def __init__(self, path: str, columns: list[str]) -> None:
        self.path = path
        self.columns = columns

    def partitions(self) -> list[InputPartition]:
        files = sorted(glob.glob(f"{self.path}/bucket-*/*.parquet"))
        return [Files(files[0::2]), Files(files[1::2])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        for file in partition.files:
            for batch in pq.ParquetFile(pa.memory_map(file)).iter_batches(
                65536, columns=self.columns, use_threads=False
            ):
                fields = [pa.field(f.name, f.type) for f in batch.schema]
                yield pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


class BareWriter(DataSourceArrowWriter):
    """Takes every batch and does nothing with it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class BareSource(DataSource):
    """`format("bare")`, options path and columns."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> StructType:
        files = sorted(glob.glob(f"{self.options['path']}/bucket-*/*.parquet"))
        found = pq.read_schema(files[0])
        wanted = self.options.get("columns", "").split(",") if self.options.get("columns") else found.names
        return from_arrow_schema(pa.schema([pa.field(n, found.field(n).type) for n in wanted]))

    def reader(self, schema: StructType) -> BareReader:
        return BareReader(self.options["path"], schema.fieldNames())

    def writer(self, schema: StructType, overwrite: bool) -> BareWriter:
        return BareWriter()
