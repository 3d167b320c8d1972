"""Manifests, manifest lists and index manifests as bytes: what writers of several versions leave behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files import manifest_format, manifest_writer
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.manifest import FileKind
from tests.harness.avro_files import avro_file

FILE_FIELDS = manifest_format.FILE_FIELDS


def entry_schema(file_fields: int = len(FILE_FIELDS)) -> dict[str, Any]:
    return manifest_format.entry_schema(FILE_FIELDS[:file_fields])


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
    return avro_file(entry_schema(file_fields), entries, codec=codec, sync_interval=sync_interval)


LIST_SCHEMA = manifest_format.LIST_ROW.definition


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
    return avro_file(LIST_SCHEMA, rows)


def index_schema(bare_items: bool = False) -> dict[str, Any]:
    """Java's array items may be null; pypaimon's, with `bare_items`, may not. Neither is as new as global indexes."""
    items: Any = manifest_format.DELETION_RANGE if bare_items else ["null", manifest_format.DELETION_RANGE]
    ranges = manifest_format.fields(_DELETIONS_VECTORS_RANGES=["null", {"type": "array", "items": items}])
    others = [f for f in manifest_format.INDEX_ENTRY.definition["fields"] if f["name"] != "_GLOBAL_INDEX"]
    return manifest_format.record("record", [ranges[0] if f["name"] == ranges[0]["name"] else f for f in others])


def encode_index_manifest(rows: Sequence[Mapping[str, Any]], *, bare_items: bool = False) -> bytes:
    return avro_file(index_schema(bare_items), rows)


def files_entries(
    kind: FileKind, partition: bytes, bucket: int, total_buckets: int, files: Sequence[DataFileMeta]
) -> pa.Table:
    """The manifest entries of files of one bucket."""
    return manifest_writer.entries([manifest_writer.FilesOfBucket(kind, partition, bucket, total_buckets, files)])
