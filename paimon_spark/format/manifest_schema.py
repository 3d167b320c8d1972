"""Avro schemas of manifests, manifest lists and index manifests as the newest Paimon writes them.

Java compares the field names, their order and their types of a manifest with its own before it copies blocks
from it, so fields stand in Java's order, and null comes first in every union.

Source: Paimon spec, chapter Manifest; Java `manifest/ManifestEntry.SCHEMA`, `io/DataFileMeta.SCHEMA`,
`manifest/ManifestFileMeta.SCHEMA`, `manifest/IndexManifestEntry.SCHEMA`, `format/avro/AvroSchemaConverter`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]

_NAMESPACE: Final = "org.apache.paimon.avro.generated"


def record(name: str, fields: list[Schema]) -> Schema:
    """A record type, in the name space that Java's have."""
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": fields}


def fields(**types: Any) -> list[Schema]:
    """Fields of a record; one that may be null has the default null."""
    return [{"name": n, "type": t, **({"default": None} if isinstance(t, list) else {})} for n, t in types.items()]


def _or_null(inner: Any) -> list[Any]:
    return ["null", inner]


def _array(items: Any) -> Schema:
    return {"type": "array", "items": items}


def _stats(name: str) -> Schema:
    return record(
        name, fields(_MIN_VALUES="bytes", _MAX_VALUES="bytes", _NULL_COUNTS=_or_null(_array(_or_null("long"))))
    )


FILE_FIELDS: Final = fields(
    _FILE_NAME="string",
    _FILE_SIZE="long",
    _ROW_COUNT="long",
    _MIN_KEY="bytes",
    _MAX_KEY="bytes",
    _KEY_STATS=_stats("record__FILE__KEY_STATS"),
    _VALUE_STATS=_stats("record__FILE__VALUE_STATS"),
    _MIN_SEQUENCE_NUMBER="long",
    _MAX_SEQUENCE_NUMBER="long",
    _SCHEMA_ID="long",
    _LEVEL="int",
    _EXTRA_FILES=_array("string"),
    _CREATION_TIME=_or_null({"type": "long", "logicalType": "timestamp-millis"}),
    _DELETE_ROW_COUNT=_or_null("long"),
    _EMBEDDED_FILE_INDEX=_or_null("bytes"),
    _FILE_SOURCE=_or_null("int"),
    _VALUE_STATS_COLS=_or_null(_array("string")),
    _EXTERNAL_PATH=_or_null("string"),
    _FIRST_ROW_ID=_or_null("long"),
    _WRITE_COLS=_or_null(_array("string")),
    _WRITE_COLS_SEQUENCES=_or_null(_array("long")),
)
"""Fields of `_FILE`: 0.9 wrote the first 16, 1.0 18, 1.3 20, 2.1 all. Readers take missing ones for null."""


def entry_schema(file_fields: list[Schema]) -> Schema:
    """A manifest entry whose `_FILE` has `file_fields`. The six fields around it never change, nor may be null."""
    return record(
        "record",
        fields(
            _VERSION="int",
            _KIND="int",
            _PARTITION="bytes",
            _BUCKET="int",
            _TOTAL_BUCKETS="int",
            _FILE=record("record__FILE", file_fields),
        ),
    )


ENTRY: Final = entry_schema(FILE_FIELDS)
"""An entry of a manifest."""

LIST_ROW: Final = record(
    "record",
    fields(
        _VERSION="int",
        _FILE_NAME="string",
        _FILE_SIZE="long",
        _NUM_ADDED_FILES="long",
        _NUM_DELETED_FILES="long",
        _PARTITION_STATS=_stats("record__PARTITION_STATS"),
        _SCHEMA_ID="long",
        _MIN_BUCKET=_or_null("int"),
        _MAX_BUCKET=_or_null("int"),
        _MIN_LEVEL=_or_null("int"),
        _MAX_LEVEL=_or_null("int"),
        _MIN_ROW_ID=_or_null("long"),
        _MAX_ROW_ID=_or_null("long"),
    ),
)
"""A row of a manifest list."""

DELETION_RANGE: Final = record(
    "record__DELETIONS_VECTORS_RANGES", fields(f0="string", f1="int", f2="int", _CARDINALITY=_or_null("long"))
)
"""Where a deletion vector lies."""

INDEX_ENTRY: Final = record(
    "record",
    fields(
        _VERSION="int",
        _KIND="int",
        _PARTITION="bytes",
        _BUCKET="int",
        _INDEX_TYPE="string",
        _FILE_NAME="string",
        _FILE_SIZE="long",
        _ROW_COUNT="long",
        _DELETIONS_VECTORS_RANGES=_or_null(_array(_or_null(DELETION_RANGE))),
        _EXTERNAL_PATH=_or_null("string"),
        _GLOBAL_INDEX=_or_null(
            record(
                "record__GLOBAL_INDEX",
                fields(
                    _ROW_RANGE_START="long",
                    _ROW_RANGE_END="long",
                    _INDEX_FIELD_ID="int",
                    _EXTRA_FIELD_IDS=_or_null(_array("int")),
                    _INDEX_META=_or_null("bytes"),
                    _SOURCE_META=_or_null("bytes"),
                ),
            )
        ),
    ),
)
"""An entry of an index manifest."""
