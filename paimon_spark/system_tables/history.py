"""Snapshots, definitions, refs and consumers of a branch; metadata files of a version.

These are $snapshots, $schemas, $options, $aggregation_fields, $tags, $branches, $savepoints and $consumers, and
$manifests, $table_indexes and $statistics. The last columns of $tags and $branches are those of the proposals: which
branch was made from which tag, and which tags guard one.

Source: Java `table/system/SnapshotsTable`, `SchemasTable`, `OptionsTable`, `AggregationFieldsTable`, `TagsTable`,
`BranchesTable`, `ConsumersTable`, `ManifestsTable`, `TableIndexesTable`, `StatisticTable` of Paimon 2.0; PIP-14, PIP-4.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.format.arrays.arrow_numpy import array_of, fixed_array, take_indices
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.metadata_files.index_manifest import DeletionVectorRange, GlobalIndexMeta, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import ManifestFileMeta
from paimon_spark.format.metadata_files.statistics import Statistics, columns_json
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.maintenance.consumers import list_consumers
from paimon_spark.metadata.branches import Branch, list_branches, list_tag_infos, tag_info
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import changelog_manifests, data_manifests, read_index_manifest
from paimon_spark.metadata.schemas import latest_schema, list_schema_ids, read_schema, schemas_by_id
from paimon_spark.metadata.snapshots import list_snapshots, read_statistics
from paimon_spark.metadata.tags import TagInfo, list_savepoints, list_tags
from paimon_spark.redaction import shown_options
from paimon_spark.system_tables.files import partition_texts
from paimon_spark.system_tables.java_text import type_text
from paimon_spark.system_tables.listing import TIMESTAMP, Asked, Source, each, listing, required
from paimon_spark.types import BIGINT, INT, STRING, ArrayType, DataField, RowType, field_to_json

_LINE: Final[dict[str, Any]] = {"ensure_ascii": False, "separators": (",", ":")}


def _schemas(asked: Asked) -> Sequence[TableSchema]:
    found = schemas_by_id(asked.handle, list_schema_ids(asked.handle.store, asked.handle.layout))
    return [found[i] for i in sorted(found)]


def _stored(asked: Asked) -> TableSchema:
    """The branch's latest schema as it is stored; it may have changed since the table was opened."""
    handle = asked.handle
    return latest_schema(handle.store, handle.layout) or handle.schema


def _functions(asked: Asked) -> Sequence[tuple[DataField, dict[str, str]]]:
    """Each column, and its options `fields.<column>.…`; split at dots alone, as in Java."""
    schema = _stored(asked)
    found: dict[str, dict[str, str]] = {f.name: {} for f in schema.fields}
    for key, value in schema.options.items():
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == "fields" and parts[1] in found:
            found[parts[1]][key] = value
    return [(f, found[f.name]) for f in schema.fields]


def _tags(asked: Asked) -> Sequence[TagInfo]:
    if "branches" in asked.wanted:
        tags = list_tag_infos(asked.handle)
    else:  # where branches come from need not be looked up
        tags = [tag_info(tag) for tag in list_tags(asked.handle)]
    return sorted(tags, key=lambda t: t.name)


def duration_text(seconds: float | None) -> str | None:
    """As `java.time.Duration` prints: `PT24H`, `PT1H30M`, `PT0.5S`."""
    if seconds is None:
        return None
    nanos = round(seconds * 10**9)
    sign = "-" if nanos < 0 else ""
    whole, fraction = divmod(abs(nanos), 10**9)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    parts = [f"{sign}{hours}H"] if hours else []
    parts += [f"{sign}{minutes}M"] if minutes else []
    if rest or fraction or not parts:
        digits = f".{fraction:09d}".rstrip("0") if fraction else ""
        parts.append(f"{sign}{rest}{digits}S")
    return "PT" + "".join(parts)


def _created_ms(asked: Asked, branches: Sequence[Branch]) -> list[int]:
    return [_definition_ms(asked.handle, b.name) if b.modified_ms is None else b.modified_ms for b in branches]


def _definition_ms(handle: TableHandle, branch: str) -> int:
    """When the branch's oldest schema was made, for stores without modification times of directories."""
    layout = handle.layout.with_branch(branch)
    ids = list_schema_ids(handle.store, layout)
    return read_schema(handle.store, layout, ids[0]).time_ms if ids else 0


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
        "snapshots",
        ("snapshot_id",),
        lambda asked: list_snapshots(asked.handle),
        ("snapshot_id", required(BIGINT), "id"),
        ("schema_id", required(BIGINT), "schema_id"),
        ("commit_user", required(STRING), "commit_user"),
        ("commit_identifier", required(BIGINT), "commit_identifier"),
        ("commit_kind", required(STRING), "commit_kind.value"),
        ("commit_time", required(TIMESTAMP), "time_ms"),
        ("base_manifest_list", required(STRING), "base_manifest_list"),
        ("delta_manifest_list", required(STRING), "delta_manifest_list"),
        ("changelog_manifest_list", STRING, "changelog_manifest_list"),
        ("total_record_count", BIGINT, "total_record_count"),
        ("delta_record_count", BIGINT, "delta_record_count"),
        ("changelog_record_count", BIGINT, "changelog_record_count"),
        ("watermark", BIGINT, "watermark"),
        ("next_row_id", BIGINT, "next_row_id"),
        ("operation", STRING, "operation"),
    ),
    listing(
        "schemas",
        ("schema_id",),
        _schemas,
        ("schema_id", required(BIGINT), "id"),
        ("fields", required(STRING), each(lambda s: json.dumps([field_to_json(f) for f in s.fields], **_LINE))),
        ("partition_keys", required(STRING), each(lambda s: json.dumps(s.partition_keys, **_LINE))),
        ("primary_keys", required(STRING), each(lambda s: json.dumps(s.primary_keys, **_LINE))),
        ("options", required(STRING), each(lambda s: json.dumps(shown_options(s.options), **_LINE))),
        ("comment", STRING, "comment"),
        ("update_time", required(TIMESTAMP), "time_ms"),
    ),
    listing(
        "options",
        ("key",),
        lambda asked: list(shown_options(_stored(asked).options).items()),
        ("key", required(STRING), each(itemgetter(0))),
        ("value", required(STRING), each(itemgetter(1))),
    ),
    listing(
        "aggregation_fields",
        ("field_name",),
        _functions,
        ("field_name", required(STRING), each(lambda row: row[0].name)),
        ("field_type", required(STRING), each(lambda row: type_text(row[0].type))),
        ("function", STRING, each(lambda row: f"[{', '.join(row[1].values())}]")),
        ("function_options", STRING, each(lambda row: f"[{', '.join(row[1])}]")),
        ("comment", STRING, each(lambda row: row[0].description)),
    ),
    listing(
        "tags",
        ("tag_name",),
        _tags,
        ("tag_name", required(STRING), "name"),
        ("snapshot_id", required(BIGINT), "snapshot.id"),
        ("schema_id", required(BIGINT), "snapshot.schema_id"),
        ("commit_time", required(TIMESTAMP), "snapshot.time_ms"),
        ("record_count", BIGINT, "snapshot.total_record_count"),
        ("create_time", TIMESTAMP, "create_time"),
        ("time_retained", STRING, each(lambda tag: duration_text(tag.time_retained_s))),
        ("tagged_snapshot_id", BIGINT, "snapshot.id"),
        ("branches", ArrayType(element=STRING), "branches"),
        ("guarded_branch", STRING, "guards"),
    ),
    listing(
        "branches",
        ("branch_name",),
        lambda asked: list_branches(asked.handle),
        ("branch_name", required(STRING), "name"),
        ("create_time", required(TIMESTAMP), _created_ms),
        ("name", STRING, "name"),
        ("tag_name", STRING, "created_from_tag"),
        ("tagged_snapshot_id", BIGINT, "created_from_snapshot_id"),
    ),
    listing(
        "savepoints",
        ("savepoint_id",),
        lambda asked: list_savepoints(asked.handle),
        ("savepoint_id", required(BIGINT), "id"),
        ("schema_id", required(BIGINT), "snapshot.schema_id"),
        ("save_time", required(BIGINT), "snapshot.time_ms"),
        ("record_count", BIGINT, "snapshot.total_record_count"),
    ),
    listing(
        "consumers",
        ("consumer_id",),
        lambda asked: list_consumers(asked.handle),
        ("consumer_id", required(STRING), "name"),
        ("next_snapshot_id", required(BIGINT), "next_snapshot"),
    ),
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
