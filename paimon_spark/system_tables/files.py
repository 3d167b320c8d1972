"""The data files of a version: $files, $file_key_ranges.

Source: Java `table/system/FilesTable`, `FileKeyRangesTable` of Paimon 2.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.engine.scan.prune import one_batch
from paimon_spark.format.arrays.arrow_numpy import boolean_array, take_indices, values
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.python_values import array_of
from paimon_spark.format.metadata_files.data_file import FileSource
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.system_tables.file_texts import FileTexts
from paimon_spark.system_tables.java_text import concatenated, joined, sql_text, text
from paimon_spark.system_tables.listing import TIMESTAMP, Asked, Listing, Thunk, batch_of, columns, required
from paimon_spark.types import BIGINT, INT, STRING, ArrayType, RowType

_BATCH_FILES: Final = 1 << 16
"""Files in a batch: their texts are many times the size of what manifests hold."""
_COMPRESSED: Final = r"(gz|bz2|deflate|snappy|lz4|zst)"
"""Last parts of names of text files that say how they are compressed."""

_FILES: Final = columns(
    ("partition", STRING),
    ("bucket", required(INT)),
    ("file_path", required(STRING)),
    ("file_format", required(STRING)),
    ("schema_id", required(BIGINT)),
    ("level", required(INT)),
    ("record_count", required(BIGINT)),
    ("file_size_in_bytes", required(BIGINT)),
    ("min_key", STRING),
    ("max_key", STRING),
    ("null_value_counts", required(STRING)),
    ("min_value_stats", required(STRING)),
    ("max_value_stats", required(STRING)),
    ("min_sequence_number", BIGINT),
    ("max_sequence_number", BIGINT),
    ("creation_time", TIMESTAMP),
    ("deleteRowCount", BIGINT),
    ("file_source", STRING),
    ("first_row_id", BIGINT),
    ("write_cols", ArrayType(element=STRING)),
)
_FILE_KEY_RANGES: Final = columns(
    ("partition", STRING),
    ("bucket", required(INT)),
    ("file_path", required(STRING)),
    ("file_format", required(STRING)),
    ("schema_id", required(BIGINT)),
    ("level", required(INT)),
    ("record_count", required(BIGINT)),
    ("file_size_in_bytes", required(BIGINT)),
    ("min_key", STRING),
    ("max_key", STRING),
    ("first_row_id", BIGINT),
)
_STORED: Final = {
    "bucket": "bucket",
    "schema_id": "schema_id",
    "level": "level",
    "record_count": "row_count",
    "file_size_in_bytes": "file_size",
    "min_sequence_number": "min_sequence_number",
    "max_sequence_number": "max_sequence_number",
    "deleteRowCount": "delete_row_count",
    "first_row_id": "first_row_id",
    "write_cols": "write_cols",
}
"""Columns that manifests hold as they are."""


def _read_files(asked: Asked) -> Iterator[pa.RecordBatch]:
    return _read(asked, _FILES)


def _read_key_ranges(asked: Asked) -> Iterator[pa.RecordBatch]:
    return _read(asked, _FILE_KEY_RANGES)


def _read(asked: Asked, row_type: RowType) -> Iterator[pa.RecordBatch]:
    if asked.snapshot is None:
        return
    handle = asked.handle
    entries = one_batch(live_entries(handle, data_manifests(handle, asked.snapshot)))
    if handle.options.bucket == -2:  # files that wait in a postponed bucket are not read, and not listed
        entries = entries.filter(boolean_array(values(entries.column("bucket")) >= 0))
    schemas = schemas_by_id(handle, pc.unique(entries.column("schema_id")).to_pylist())
    for start in range(0, entries.num_rows, _BATCH_FILES):
        piece = entries.slice(start, _BATCH_FILES)
        yield batch_of(row_type, asked, piece.num_rows, _columns(asked, piece, schemas))


def _columns(asked: Asked, entries: pa.RecordBatch, schemas: Mapping[int, TableSchema]) -> dict[str, Thunk]:
    partitions = Partitions(asked.handle, entries.column("partition"))
    texts = FileTexts(entries, asked.handle.schema, schemas)
    made: dict[str, Thunk] = {name: partial(entries.column, stored) for name, stored in _STORED.items()}
    made["partition"] = lambda: partition_texts(partitions).take(take_indices(partitions.codes))
    made["file_path"] = lambda: _paths(asked.handle, entries, partitions)
    made["file_format"] = lambda: _formats(entries.column("file_name"))
    made["min_key"] = lambda: texts.keys("min_key")
    made["max_key"] = lambda: texts.keys("max_key")
    made["null_value_counts"] = texts.null_counts
    made["min_value_stats"] = lambda: texts.bounds("value_min")
    made["max_value_stats"] = lambda: texts.bounds("value_max")
    made["creation_time"] = lambda: entries.column("creation_time_ms").cast(arrow_type(TIMESTAMP))
    made["file_source"] = lambda: _sources(entries.column("file_source"))
    return made


def partition_texts(partitions: Partitions) -> pa.Array:
    """`{v1, v2}` of each distinct partition; `{}` where there are no partition columns."""
    parts = [sql_text(c, f.type) for c, f in zip(partitions.batch.columns, partitions.type, strict=True)]
    return joined(parts, "{", "}", len(partitions.rows))


def _paths(handle: TableHandle, entries: pa.RecordBatch, partitions: Partitions) -> pa.Array:
    """Full URLs of the files."""
    columns = (entries.column(name) for name in ("partition", "bucket", "file_name"))
    directories, numbers = partitions.directories.of_files(*columns)
    of_files = array_of([handle.store.url(path) for path in directories], pa.string()).take(take_indices(numbers))
    inside = concatenated(of_files, text("/"), entries.column("file_name"))
    return pc.coalesce(entries.column("external_path"), inside)


def _formats(names: pa.Array) -> pa.Array:
    """The extension of each file, without that of a compression around it."""
    return pc.replace_substring_regex(names, rf"^.*?([^.]*)(?:\.{_COMPRESSED})?$", r"\1")


def _sources(codes: pa.Array) -> pa.Array:
    named = {source.value: source.name for source in FileSource}
    encoded = codes.dictionary_encode()
    shown = [named.get(code) for code in encoded.dictionary.to_pylist()]
    return array_of(shown, pa.string()).take(encoded.indices)


LISTINGS: Final = (
    Listing("files", _FILES, ("file_path",), True, _read_files),
    Listing("file_key_ranges", _FILE_KEY_RANGES, ("file_path",), True, _read_key_ranges),
)
"""The system tables of this module."""
