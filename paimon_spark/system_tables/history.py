"""Snapshots and definitions: $snapshots, $schemas, $options, $aggregation_fields.

Source: Java `table/system/SnapshotsTable`, `SchemasTable`, `OptionsTable`, `AggregationFieldsTable` of Paimon 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.schemas import latest_schema, list_schema_ids, schemas_by_id
from paimon_spark.metadata.snapshots import list_snapshots
from paimon_spark.system_tables.java_text import type_text
from paimon_spark.system_tables.listing import TIMESTAMP, Asked, Listing, batch_of_rows, columns, required
from paimon_spark.types import BIGINT, STRING, field_to_json

_SNAPSHOTS: Final = columns(
    ("snapshot_id", required(BIGINT)),
    ("schema_id", required(BIGINT)),
    ("commit_user", required(STRING)),
    ("commit_identifier", required(BIGINT)),
    ("commit_kind", required(STRING)),
    ("commit_time", required(TIMESTAMP)),
    ("base_manifest_list", required(STRING)),
    ("delta_manifest_list", required(STRING)),
    ("changelog_manifest_list", STRING),
    ("total_record_count", BIGINT),
    ("delta_record_count", BIGINT),
    ("changelog_record_count", BIGINT),
    ("watermark", BIGINT),
    ("next_row_id", BIGINT),
    ("operation", STRING),
)
_SCHEMAS: Final = columns(
    ("schema_id", required(BIGINT)),
    ("fields", required(STRING)),
    ("partition_keys", required(STRING)),
    ("primary_keys", required(STRING)),
    ("options", required(STRING)),
    ("comment", STRING),
    ("update_time", required(TIMESTAMP)),
)
_OPTIONS: Final = columns(("key", required(STRING)), ("value", required(STRING)))
_AGGREGATION_FIELDS: Final = columns(
    ("field_name", required(STRING)),
    ("field_type", required(STRING)),
    ("function", STRING),
    ("function_options", STRING),
    ("comment", STRING),
)


def _read_snapshots(asked: Asked) -> Iterator[pa.RecordBatch]:
    rows = [_snapshot_row(asked, s) for s in list_snapshots(asked.handle)]
    yield batch_of_rows(_SNAPSHOTS, asked, rows)


def _snapshot_row(asked: Asked, s: Snapshot) -> tuple[Any, ...]:
    return (
        s.id,
        s.schema_id,
        s.commit_user,
        s.commit_identifier,
        s.commit_kind.value,
        asked.wall_clock(s.time_ms),
        s.base_manifest_list,
        s.delta_manifest_list,
        s.changelog_manifest_list,
        s.total_record_count,
        s.delta_record_count,
        s.changelog_record_count,
        s.watermark,
        s.next_row_id,
        s.operation,
    )


def _read_schemas(asked: Asked) -> Iterator[pa.RecordBatch]:
    handle = asked.handle
    schemas = schemas_by_id(handle, list_schema_ids(handle.store, handle.layout))
    rows = [_schema_row(asked, schemas[i]) for i in sorted(schemas)]
    yield batch_of_rows(_SCHEMAS, asked, rows)


def _schema_row(asked: Asked, s: TableSchema) -> tuple[Any, ...]:
    return (
        s.id,
        _json([field_to_json(f) for f in s.fields]),
        _json(list(s.partition_keys)),
        _json(list(s.primary_keys)),
        _json(dict(s.options)),
        s.comment,
        asked.wall_clock(s.time_ms),
    )


def _read_options(asked: Asked) -> Iterator[pa.RecordBatch]:
    yield batch_of_rows(_OPTIONS, asked, list(_stored(asked).options.items()))


def _read_aggregation_fields(asked: Asked) -> Iterator[pa.RecordBatch]:
    schema = _stored(asked)
    of_fields = _options_by_field(schema.options)
    rows = []
    for f in schema.fields:
        found = of_fields.get(f.name, {})
        rows.append((f.name, type_text(f.type), _list(found.values()), _list(found), f.description))
    yield batch_of_rows(_AGGREGATION_FIELDS, asked, rows)


def _stored(asked: Asked) -> TableSchema:
    """The branch's latest schema as it is stored; it may have changed since the table was opened."""
    handle = asked.handle
    return latest_schema(handle.store, handle.layout) or handle.schema


def _options_by_field(options: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Options `fields.<column>.…` by column; split at dots alone, as in Java."""
    out: dict[str, dict[str, str]] = {}
    for key, value in options.items():
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == "fields":
            out.setdefault(parts[1], {})[key] = value
    return out


def _list(items: Any) -> str:
    return f"[{', '.join(items)}]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


LISTINGS: Final = (
    Listing("snapshots", _SNAPSHOTS, ("snapshot_id",), False, _read_snapshots),
    Listing("schemas", _SCHEMAS, ("schema_id",), False, _read_schemas),
    Listing("options", _OPTIONS, ("key",), False, _read_options),
    Listing("aggregation_fields", _AGGREGATION_FIELDS, ("field_name",), False, _read_aggregation_fields),
)
"""The system tables of this module."""
