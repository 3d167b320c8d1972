"""The metadata files of a version: $manifests, $table_indexes, $statistics.

Source: Java `table/system/ManifestsTable`, `TableIndexesTable`, `StatisticTable` of Paimon 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.format.arrays.arrow_numpy import array_of, fixed_array, take_indices
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange, GlobalIndexMeta, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.format.metadata_files.statistics import Statistics, columns_json
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import changelog_manifests, data_manifests, read_index_manifest
from paimon_spark.metadata.snapshots import read_statistics
from paimon_spark.system_tables.files import partition_texts
from paimon_spark.system_tables.listing import Asked, Source, each, listing, required
from paimon_spark.types import BIGINT, INT, STRING, ArrayType, DataField, RowType

_RANGE: Final = RowType(
    fields=(
        DataField(0, "f0", required(STRING)),
        DataField(1, "f1", required(INT)),
        DataField(2, "f2", required(INT)),
        DataField(3, "_CARDINALITY", BIGINT),
    )
)
_RANGES: Final = ArrayType(element=_RANGE)


def _manifests(asked: Asked) -> Sequence[ManifestFileMeta]:
    if asked.snapshot is None:
        return ()
    return [*data_manifests(asked.handle, asked.snapshot), *changelog_manifests(asked.handle, asked.snapshot)]


def _partitions(path: str) -> Source:
    """Texts of the partitions that objects hold as BinaryRow bytes."""

    def texts(asked: Asked, rows: Sequence[Any]) -> pa.Array:
        partitions = Partitions(asked.handle, array_of([attrgetter(path)(row) for row in rows], pa.binary()))
        return partition_texts(partitions).take(take_indices(partitions.codes))

    return texts


def _indexes(asked: Asked) -> Sequence[IndexManifestEntry]:
    if asked.snapshot is None or asked.snapshot.index_manifest is None:
        return ()
    return read_index_manifest(asked.handle, asked.snapshot.index_manifest)


def _ranges(_: Asked, entries: Sequence[IndexManifestEntry]) -> pa.Array:
    """Positions of deletion vectors, a list for each index file; null for other indexes."""
    lists = [e.deletion_vectors for e in entries]
    flat: list[DeletionVectorRange] = [v for vectors in lists for v in vectors or ()]
    kind: Any = arrow_type(_RANGES)
    items = [(v.data_file_name, v.offset, v.length, v.cardinality) for v in flat]
    fields = [array_of([item[i] for item in items], arrow_type(f.type)) for i, f in enumerate(_RANGE)]
    structs = pa.Array.from_buffers(kind.value_type, len(flat), [None], children=fields)
    offsets = np.cumsum([0, *(len(vectors or ()) for vectors in lists)], dtype=np.int32)
    missing = array_of([vectors is None for vectors in lists], pa.bool_())
    return pa.ListArray.from_arrays(fixed_array(offsets, pa.int32()), structs, mask=missing).cast(kind)


def _indexed(handle: TableHandle, index: GlobalIndexMeta | None) -> str | None:
    """Names of the columns of a global index; None when one was dropped."""
    if index is None:
        return None
    found = [handle.schema.row_type.find_by_id(i) for i in (index.index_field_id, *(index.extra_field_ids or ()))]
    return None if None in found else ",".join(f.name for f in found if f is not None)


def _all_statistics(asked: Asked) -> Sequence[Statistics]:
    found = None if asked.snapshot is None else read_statistics(asked.handle, asked.snapshot)
    return () if found is None else (found,)


def _pretty(value: Any) -> str:
    """JSON in the layout of Java."""
    if not value:
        return "null" if value is None else "{ }"
    return json.dumps(value, ensure_ascii=False, indent=2, separators=(",", " : "))


LISTINGS: Final = (
    listing(
        "manifests",
        ("file_name",),
        _manifests,
        ("file_name", required(STRING), "file_name"),
        ("file_size", required(BIGINT), "file_size"),
        ("num_added_files", required(BIGINT), "num_added_files"),
        ("num_deleted_files", required(BIGINT), "num_deleted_files"),
        ("schema_id", required(BIGINT), "schema_id"),
        ("min_partition_stats", STRING, _partitions("partition_stats.min_values")),
        ("max_partition_stats", STRING, _partitions("partition_stats.max_values")),
        ("min_row_id", BIGINT, "min_row_id"),
        ("max_row_id", BIGINT, "max_row_id"),
        travels=True,
    ),
    listing(
        "table_indexes",
        ("file_name",),
        _indexes,
        ("partition", STRING, _partitions("partition")),
        ("bucket", required(INT), "bucket"),
        ("index_type", required(STRING), "index_type"),
        ("file_name", required(STRING), "file_name"),
        ("file_size", required(BIGINT), "file_size"),
        ("row_count", required(BIGINT), "row_count"),
        ("dv_ranges", _RANGES, _ranges),
        ("row_range_start", BIGINT, "global_index.row_range_start"),
        ("row_range_end", BIGINT, "global_index.row_range_end"),
        ("index_field_id", INT, "global_index.index_field_id"),
        ("index_field_name", STRING, lambda asked, rows: [_indexed(asked.handle, e.global_index) for e in rows]),
        travels=True,
    ),
    listing(
        "statistics",
        (),
        _all_statistics,
        ("snapshot_id", required(BIGINT), "snapshot_id"),
        ("schema_id", required(BIGINT), "schema_id"),
        ("mergedRecordCount", BIGINT, "record_count"),
        ("mergedRecordSize", BIGINT, "record_size"),
        ("colstat", STRING, each(lambda found: _pretty(columns_json(found)))),
        travels=True,
    ),
)
"""The system tables of this module."""
