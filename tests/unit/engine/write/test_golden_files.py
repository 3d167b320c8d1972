"""Rows of data files that Java wrote, written again: what manifests say of them must be what Java said."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.engine.write.data_files import DataFiles, FileLayout
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.data_files.registry import read_rows
from paimon_spark.format.data_files.requests import FileRead
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.schemas import read_schema
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.data_files import parse_data_file_options
from paimon_spark.options.table import parse_table_options
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BinaryType, CharType, DataField, TimestampType
from tests.harness.golden import golden_path

TABLES = (
    "append_all_types_avro",
    "append_all_types_parquet",
    "append_partitioned_escaped",
    "append_schema_evolution",
    "append_fixed_bucket_string",
    "pk_key_types",
    "pk_lsm_levels",
    "pk_orc",
    "pk_schema_evolution",
    "pk_dedup_l0",
)
Stats = dict[str, tuple[Any, Any, int | None]]


def decoded(stats: SimpleStats, fields: tuple[DataField, ...], names: tuple[str, ...] | None) -> Stats:
    kept = [f for f in fields if names is None or f.name in names]
    types = [f.type for f in kept]
    low, high = (binary_row.decode(row, types, raw_timestamps=True) for row in (stats.min_values, stats.max_values))
    counts = stats.null_counts or (None,) * len(kept)
    return {f.name: (a, b, n) for f, a, b, n in zip(kept, low, high, counts, strict=True)}


def live_files(handle: TableHandle) -> list[tuple[bytes, int, DataFileMeta]]:
    """Partition, bucket and file of every live file of the head."""
    snapshot = latest_snapshot(handle)
    assert snapshot is not None
    entries = live_entries(handle, data_manifests(handle, snapshot))
    partitions, buckets = entries.column("partition").to_pylist(), entries.column("bucket").to_pylist()
    return list(zip(partitions, buckets, files_of(entries), strict=True))


def rewritten(
    handle: TableHandle, partition: bytes, bucket: int, meta: DataFileMeta, to: Path
) -> tuple[DataFileMeta, FileLayout]:
    """The file's rows in a file of ours, of the same format."""
    raw = {**handle.options.raw, "file.format": meta.file_name.rpartition(".")[2]}
    layout = FileLayout.of(handle.schema, parse_data_file_options(raw))
    fields = tuple(f for f in layout.fields if not f.name.startswith("_KEY_"))
    path = DataFiles(WriteRequest(handle, "u"), partition, bucket).path(meta.file_name)
    target = replace(handle, layout=replace(handle.layout, root=str(to)), options=parse_table_options(raw))
    writer = DataFiles(WriteRequest(target, "u"), partition, bucket).data(
        meta.level, FileSource(meta.file_source or 0), meta.min_sequence_number
    )
    for rows in read_rows(FileRead(handle.store, path, fields, meta.row_count, batch_rows=3)):
        writer.write(pa.RecordBatch.from_arrays(rows.arrays, schema=arrow_schema(fields)))
    (found,) = writer.close()
    return found, layout


@pytest.mark.parametrize("table", TABLES)
def test_manifests_say_of_our_files_what_java_said(table: str, tmp_path: Path) -> None:
    store = LocalStore()
    handle = open_table(store, str(golden_path(table)))
    seen = 0
    for partition, bucket, meta in live_files(handle):
        schema = read_schema(store, handle.layout, meta.schema_id)
        found, layout = rewritten(handle.with_schema(schema), partition, bucket, meta, tmp_path)
        for name in (
                "row_count", "min_key", "max_key", "level", "file_source", "schema_id",
                "min_sequence_number", "max_sequence_number", "delete_row_count",
            ):  # fmt: skip
            assert getattr(found, name) == getattr(meta, name), name
        ours = decoded(found.value_stats, layout.table_fields, found.value_stats_cols)
        theirs = decoded(meta.value_stats, layout.table_fields, meta.value_stats_cols)
        agreed = [f.name for f in layout.table_fields if agrees(f, ours[f.name], theirs[f.name])]
        keys = layout.key_fields
        our_keys, their_keys = decoded(found.key_stats, keys, None), decoded(meta.key_stats, keys, None)
        agreed += [f.name for f in keys if agrees(f, our_keys[f.name], their_keys[f.name])]
        seen += len(agreed)
    assert seen


def agrees(f: DataField, ours: tuple[Any, Any, int | None], theirs: tuple[Any, Any, int | None]) -> bool:
    """Whether Java 0.9 says something of the column; then we must say the same, where later releases still do."""
    low, high, nulls = theirs
    if nulls is None:  # nothing is kept of nested columns in Parquet
        return False
    assert ours[2] == nulls, f.name
    if low is None and ours[0] is not None:
        # INT96 has no statistics in Java, and bytes had none in 0.9.
        assert isinstance(f.type, BinaryType) or (isinstance(f.type, TimestampType) and f.type.precision > 6), f.name
        return False
    if isinstance(high, float) and math.isnan(high):
        assert ours[:2] == (None, None), f.name  # readers do not agree on where NaN belongs
        return False
    if isinstance(f.type, CharType) and low is not None:
        # ORC fills CHAR up with spaces; 0.9 cuts keys after 16 characters, later releases after 128.
        if not f.type.varying:
            low, high = low.rstrip(" "), high.rstrip(" ")
        assert ours[0][:16] == low, f.name
        assert ours[1] == high or (len(ours[1]) > 16 and ours[1][:15] == high[:15]), f.name
        return True
    assert ours[:2] == (low, high), f.name
    return True
