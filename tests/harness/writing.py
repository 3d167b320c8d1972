"""Rows written through `TableWriter` into tables in memory, and the files read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import StorageError
from paimon_spark.format import binary_row
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories
from paimon_spark.types import DataField, RowType, parse_type
from tests.harness.tables import MetadataTable, a_schema


def empty_table(
    columns: Mapping[str, Any],
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> TableHandle:
    """An empty table in memory with columns given as type text or type objects."""
    fields = tuple(
        DataField(i, name, parse_type(text), default_value=(defaults or {}).get(name))
        for i, (name, text) in enumerate(columns.items())
    )
    schema = a_schema(
        row_type=RowType(False, fields),
        highest_field_id=len(fields),
        primary_keys=tuple(primary_keys),
        partition_keys=tuple(partition_keys),
        options=dict(options or {}),
    )
    return MetadataTable().schema(schema).open()


def written(handle: TableHandle, batches: Iterable[pa.RecordBatch], **request: Any) -> list[CommitMessage]:
    """The messages of one writer that was given the batches."""
    given = list(batches)
    with TableWriter(WriteRequest(handle, "tests", **request), given[0].schema) as writer:
        for batch in given:
            writer.write(batch)
        return writer.close()


def partition_of(handle: TableHandle, message: CommitMessage) -> tuple[Any, ...]:
    """Values of the partition columns."""
    return binary_row.decode(message.partition, [f.type for f in handle.schema.partition_type])


def rows_of(handle: TableHandle, message: CommitMessage) -> pa.Table:
    """The rows of the message's files, in their order. Parquet files only."""
    store = fsspec.filesystem("memory")
    directory = PartitionDirectories(handle).bucket_path(message.partition, message.bucket)
    tables = []
    for file in message.data.new_files:
        with store.open(f"{directory}/{file.file_name}", "rb") as source:
            tables.append(pq.read_table(pa.BufferReader(source.read())))
    return pa.concat_tables(tables)


def files_below(handle: TableHandle) -> list[str]:
    """Paths of all data and index files of the table."""
    found = fsspec.filesystem("memory").find(handle.layout.root)
    return [p for p in found if "/schema/" not in p]


def fail_at(patch: pytest.MonkeyPatch, store: Any, nth: int) -> list[str]:
    """Make the nth write of a file by a class of stores fail; the paths of the writes come into the list."""
    calls: list[str] = []
    for name in ("write", "open_output"):
        original = getattr(store, name)

        def failing(self: Any, path: str, *rest: Any, original: Any = original) -> Any:
            calls.append(path)
            if len(calls) == nth:
                raise StorageError(f"{path}: no space")
            return original(self, path, *rest)

        patch.setattr(store, name, failing)
    return calls
