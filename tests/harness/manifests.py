"""Manifests, manifest lists and index manifests as bytes: what writers of several versions leave behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paimon_spark.spec import avro, binary_row

_STATS: list[dict[str, Any]] = [
    {"name": "_MIN_VALUES", "type": "bytes"},
    {"name": "_MAX_VALUES", "type": "bytes"},
    {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": ["null", "long"]}], "default": None},
]


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "org.apache.paimon.avro.generated", "fields": fields}


def _fields(**types: Any) -> list[dict[str, Any]]:
    return [{"name": n, "type": t} for n, t in types.items()]


_NAMES = ["null", {"type": "array", "items": "string"}]
FILE_FIELDS = _fields(
    _FILE_NAME="string",
    _FILE_SIZE="long",
    _ROW_COUNT="long",
    _MIN_KEY="bytes",
    _MAX_KEY="bytes",
    _KEY_STATS=_record("record__FILE__KEY_STATS", _STATS),
    _VALUE_STATS=_record("record__FILE__VALUE_STATS", _STATS),
    _MIN_SEQUENCE_NUMBER="long",
    _MAX_SEQUENCE_NUMBER="long",
    _SCHEMA_ID="long",
    _LEVEL="int",
    _EXTRA_FILES={"type": "array", "items": "string"},
    _CREATION_TIME=["null", {"type": "long", "logicalType": "timestamp-millis"}],
    _DELETE_ROW_COUNT=["null", "long"],
    _EMBEDDED_FILE_INDEX=["null", "bytes"],
    _FILE_SOURCE=["null", "int"],
    _VALUE_STATS_COLS=_NAMES,
    _EXTERNAL_PATH=["null", "string"],
    _FIRST_ROW_ID=["null", "long"],
    _WRITE_COLS=_NAMES,
    _WRITE_COLS_SEQUENCES=["null", {"type": "array", "items": "long"}],
)
"""Fields of `_FILE`: 0.9 wrote the first 16, 1.0 18, 1.3 20, 2.1 all."""


def entry_schema(file_fields: int = len(FILE_FIELDS)) -> dict[str, Any]:
    return _record(
        "record",
        _fields(
            _VERSION="int",
            _KIND="int",
            _PARTITION="bytes",
            _BUCKET="int",
            _TOTAL_BUCKETS="int",
            _FILE=_record("record__FILE", FILE_FIELDS[:file_fields]),
        ),
    )


def entry(
    name: str, kind: int = 0, partition: bytes = binary_row.EMPTY, bucket: int = 0, **file: Any
) -> dict[str, Any]:
    """One entry; `file` overrides fields of `_FILE` by their names on disk."""
    stats = {"_MIN_VALUES": binary_row.EMPTY, "_MAX_VALUES": binary_row.EMPTY, "_NULL_COUNTS": []}
    return {
        "_VERSION": 2,
        "_KIND": kind,
        "_PARTITION": partition,
        "_BUCKET": bucket,
        "_TOTAL_BUCKETS": -1,
        "_FILE": {
            "_FILE_NAME": name,
            "_FILE_SIZE": 100,
            "_ROW_COUNT": 10,
            "_MIN_KEY": binary_row.EMPTY,
            "_MAX_KEY": binary_row.EMPTY,
            "_KEY_STATS": stats,
            "_VALUE_STATS": stats,
            "_MIN_SEQUENCE_NUMBER": 0,
            "_MAX_SEQUENCE_NUMBER": 9,
            "_SCHEMA_ID": 0,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": 1_700_000_000_000,
            "_DELETE_ROW_COUNT": 0,
            "_FILE_SOURCE": 0,
            **file,
        },
    }


def encode_manifest(
    entries: Sequence[Mapping[str, Any]],
    *,
    file_fields: int = len(FILE_FIELDS),
    codec: str = "zstandard",
    sync_interval: int = 64_000,
) -> bytes:
    return avro.encode(entry_schema(file_fields), entries, codec=codec, sync_interval=sync_interval)


LIST_SCHEMA = _record(
    "record",
    _fields(
        _VERSION="int",
        _FILE_NAME="string",
        _FILE_SIZE="long",
        _NUM_ADDED_FILES="long",
        _NUM_DELETED_FILES="long",
        _PARTITION_STATS=_record("record__PARTITION_STATS", _STATS),
        _SCHEMA_ID="long",
        _MIN_BUCKET=["null", "int"],
        _MAX_BUCKET=["null", "int"],
        _MIN_LEVEL=["null", "int"],
        _MAX_LEVEL=["null", "int"],
        _MIN_ROW_ID=["null", "long"],
        _MAX_ROW_ID=["null", "long"],
    ),
)


def list_row(name: str, data: bytes, entries: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
    """The row of a manifest list for a manifest of `entries`."""
    stats = {"_MIN_VALUES": binary_row.EMPTY, "_MAX_VALUES": binary_row.EMPTY, "_NULL_COUNTS": []}
    return {
        "_VERSION": 2,
        "_FILE_NAME": name,
        "_FILE_SIZE": len(data),
        "_NUM_ADDED_FILES": sum(e["_KIND"] == 0 for e in entries),
        "_NUM_DELETED_FILES": sum(e["_KIND"] == 1 for e in entries),
        "_PARTITION_STATS": stats,
        "_SCHEMA_ID": 0,
        **fields,
    }


def encode_manifest_list(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return avro.encode(LIST_SCHEMA, rows)


_DELETION_RANGE = _record(
    "record__DELETIONS_VECTORS_RANGES",
    _fields(f0="string", f1="int", f2="int", _CARDINALITY=["null", "long"]),
)


def index_schema(bare_items: bool = False) -> dict[str, Any]:
    """Java's array items may be null; pypaimon's, with `bare_items`, may not."""
    items: Any = _DELETION_RANGE if bare_items else ["null", _DELETION_RANGE]
    return _record(
        "record",
        _fields(
            _VERSION="int",
            _KIND="int",
            _PARTITION="bytes",
            _BUCKET="int",
            _INDEX_TYPE="string",
            _FILE_NAME="string",
            _FILE_SIZE="long",
            _ROW_COUNT="long",
            _DELETIONS_VECTORS_RANGES=["null", {"type": "array", "items": items}],
            _EXTERNAL_PATH=["null", "string"],
        ),
    )


def encode_index_manifest(rows: Sequence[Mapping[str, Any]], *, bare_items: bool = False) -> bytes:
    return avro.encode(index_schema(bare_items), rows)
