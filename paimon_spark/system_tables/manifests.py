"""The metadata files of a version: $manifests, $table_indexes, $statistics.

Source: Java `table/system/ManifestsTable`, `TableIndexesTable`, `StatisticTable` of Paimon 2.0, `stats/Statistics`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.file_stats import decode_partitions
from paimon_spark.errors import CorruptFileError
from paimon_spark.format.arrays.arrow_numpy import array_of, fixed_array
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange, GlobalIndexMeta, IndexManifestEntry
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import changelog_manifests, data_manifests, read_index_manifest
from paimon_spark.metadata.small_files import read_decoded
from paimon_spark.system_tables.java_text import joined, sql_text
from paimon_spark.system_tables.listing import Asked, Listing, Thunk, batch_of, batch_of_rows, columns, required
from paimon_spark.types import BIGINT, INT, STRING, ArrayType, DataField, DataType, RowType

_MANIFESTS: Final = columns(
    ("file_name", required(STRING)),
    ("file_size", required(BIGINT)),
    ("num_added_files", required(BIGINT)),
    ("num_deleted_files", required(BIGINT)),
    ("schema_id", required(BIGINT)),
    ("min_partition_stats", STRING),
    ("max_partition_stats", STRING),
    ("min_row_id", BIGINT),
    ("max_row_id", BIGINT),
)
_RANGE: Final = RowType(
    fields=(
        DataField(0, "f0", required(STRING)),
        DataField(1, "f1", required(INT)),
        DataField(2, "f2", required(INT)),
        DataField(3, "_CARDINALITY", BIGINT),
    )
)
_TABLE_INDEXES: Final = columns(
    ("partition", STRING),
    ("bucket", required(INT)),
    ("index_type", required(STRING)),
    ("file_name", required(STRING)),
    ("file_size", required(BIGINT)),
    ("row_count", required(BIGINT)),
    ("dv_ranges", ArrayType(element=_RANGE)),
    ("row_range_start", BIGINT),
    ("row_range_end", BIGINT),
    ("index_field_id", INT),
    ("index_field_name", STRING),
)
_STATISTICS: Final = columns(
    ("snapshot_id", required(BIGINT)),
    ("schema_id", required(BIGINT)),
    ("mergedRecordCount", BIGINT),
    ("mergedRecordSize", BIGINT),
    ("colstat", STRING),
)


def _read_manifests(asked: Asked) -> Iterator[pa.RecordBatch]:
    if asked.snapshot is None:
        return
    metas = [*data_manifests(asked.handle, asked.snapshot), *changelog_manifests(asked.handle, asked.snapshot)]

    def column(name: str, t: DataType) -> Thunk:
        return lambda: array_of([getattr(m, name) for m in metas], arrow_type(t))

    made = {f.name: column(f.name, f.type) for f in _MANIFESTS if not f.name.endswith("_stats")}
    made["min_partition_stats"] = lambda: _row_texts(asked.handle, [m.partition_stats.min_values for m in metas])
    made["max_partition_stats"] = lambda: _row_texts(asked.handle, [m.partition_stats.max_values for m in metas])
    yield batch_of(_MANIFESTS, asked, len(metas), made)


def _row_texts(handle: TableHandle, rows: Sequence[bytes]) -> pa.Array:
    """`{v1, v2}` of partitions given as BinaryRow bytes."""
    batch = decode_partitions(handle.schema.partition_type, array_of(rows, pa.binary()))
    parts = [sql_text(c, f.type) for c, f in zip(batch.columns, handle.schema.partition_type, strict=True)]
    return joined(parts, "{", "}", len(rows))


def _read_table_indexes(asked: Asked) -> Iterator[pa.RecordBatch]:
    if asked.snapshot is None or asked.snapshot.index_manifest is None:
        return
    handle = asked.handle
    entries = read_index_manifest(handle, asked.snapshot.index_manifest)

    def column(name: str, t: DataType) -> Thunk:
        return lambda: array_of([getattr(e, name) for e in entries], arrow_type(t))

    def of_global(name: str, t: DataType) -> Thunk:
        return lambda: array_of([e.global_index and getattr(e.global_index, name) for e in entries], arrow_type(t))

    stored = ("bucket", "index_type", "file_name", "file_size", "row_count")
    made = {name: column(name, _TABLE_INDEXES.field(name).type) for name in stored}
    for name in ("row_range_start", "row_range_end", "index_field_id"):
        made[name] = of_global(name, _TABLE_INDEXES.field(name).type)
    made["partition"] = lambda: _row_texts(handle, [e.partition for e in entries])
    made["dv_ranges"] = lambda: _ranges(entries)
    made["index_field_name"] = lambda: array_of([_indexed(handle, e.global_index) for e in entries], pa.string())
    yield batch_of(_TABLE_INDEXES, asked, len(entries), made)


def _ranges(entries: Sequence[IndexManifestEntry]) -> pa.Array:
    """Positions of deletion vectors, a list for each index file; null for other indexes."""
    lists = [e.deletion_vectors for e in entries]
    flat: list[DeletionVectorRange] = [v for vectors in lists for v in vectors or ()]
    kind: Any = arrow_type(_TABLE_INDEXES.field("dv_ranges").type)
    items = [(v.data_file_name, v.offset, v.length, v.cardinality) for v in flat]
    fields = [array_of([item[i] for item in items], arrow_type(f.type)) for i, f in enumerate(_RANGE)]
    structs = pa.Array.from_buffers(kind.value_type, len(flat), [None], children=fields)
    offsets = np.cumsum([0, *(len(vectors or ()) for vectors in lists)], dtype=np.int32)
    none = fixed_array(offsets, pa.int32())
    missing = array_of([vectors is None for vectors in lists], pa.bool_())
    return pa.ListArray.from_arrays(none, structs, mask=missing).cast(kind)


def _indexed(handle: TableHandle, index: GlobalIndexMeta | None) -> str | None:
    """Names of the columns of a global index; None when one was dropped."""
    if index is None:
        return None
    found = [handle.schema.row_type.find_by_id(i) for i in (index.index_field_id, *(index.extra_field_ids or ()))]
    return None if None in found else ",".join(f.name for f in found if f is not None)


def _read_statistics(asked: Asked) -> Iterator[pa.RecordBatch]:
    if asked.snapshot is None or asked.snapshot.statistics is None:
        return
    handle = asked.handle
    row = read_decoded(handle.store, handle.layout.statistics_path(asked.snapshot.statistics), _statistics)
    yield batch_of_rows(_STATISTICS, asked, [row])


def _statistics(data: bytes, path: str) -> tuple[Any, ...]:
    try:
        raw = json.loads(data)
        counts = raw.get("mergedRecordCount"), raw.get("mergedRecordSize")
        return int(raw["snapshotId"]), int(raw["schemaId"]), *counts, _pretty(raw.get("colStats"))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise CorruptFileError(f"statistics file {path} cannot be read: {type(e).__name__}: {e}", path=path) from e


def _pretty(value: Any) -> str:
    """JSON in the layout of Java."""
    if not value:
        return "null" if value is None else "{ }"
    return json.dumps(value, ensure_ascii=False, indent=2, separators=(",", " : "))


LISTINGS: Final = (
    Listing("manifests", _MANIFESTS, ("file_name",), True, _read_manifests),
    Listing("table_indexes", _TABLE_INDEXES, ("file_name",), True, _read_table_indexes),
    Listing("statistics", _STATISTICS, (), True, _read_statistics),
)
"""The system tables of this module."""
