"""Writing of manifests and manifest lists.

Source: Paimon spec, chapter Manifest; Java `manifest/ManifestEntrySerializer`, `io/DataFileMetaSerializer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.avro_codec import decoder, encoder
from paimon_spark.format.avro_codec.container import AvroType
from paimon_spark.format.metadata_files import manifest_format
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.manifest import COLUMN_PATHS, ENTRY_SCHEMA, VERSION, FileKind, ManifestFileMeta

_BLOCK_ROWS: Final = 64
"""Entries of a block: blocks are decoded side by side, and larger ones do not make smaller files."""
_FEW_ROWS: Final = 20
_STEP_ROWS: Final = 512 * _BLOCK_ROWS
_ENTRY_TYPE: Final = manifest_format.ENTRY.type


class FilesOfBucket(NamedTuple):
    """Files of one bucket that are all added, or all deleted."""

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    files: Sequence[DataFileMeta]


def entries(parts: Sequence[FilesOfBucket]) -> pa.Table:
    """The manifest entries of all parts in order, as `ENTRY_SCHEMA`, in one chunk."""
    columns = []
    for field, values, t in _columns():
        array = decoder.array_of(values(parts), t)
        columns.append(array if array.type == field.type else array.cast(field.type))
    return pa.Table.from_arrays(columns, schema=ENTRY_SCHEMA)


@cache
def _columns() -> tuple[tuple[pa.Field, Callable[[Sequence[FilesOfBucket]], list[Any]], AvroType], ...]:
    """Each column of `ENTRY_SCHEMA` with what gets its values, and their type in Avro."""
    return tuple((field, _values_of(field.name), _type_at(COLUMN_PATHS[field.name])) for field in ENTRY_SCHEMA)


def _values_of(column: str) -> Callable[[Sequence[FilesOfBucket]], list[Any]]:
    if column in FilesOfBucket._fields:
        return lambda parts: [getattr(p, column) for p in parts for _ in p.files]
    group, _, part = column.partition("_")
    is_part = group in ("key", "value") and part in _STATS
    of_file = attrgetter(f"{group}_stats.{_STATS[part]}" if is_part else column)
    return lambda parts: [of_file(file) for p in parts for file in p.files]


_STATS: Final = {"min": "min_values", "max": "max_values", "nulls": "null_counts"}


def _type_at(path: tuple[str, ...]) -> AvroType:
    found = _ENTRY_TYPE
    for name in path:
        found = found.inner[found.names.index(name)]
    return found


def encode_manifest(table: pa.Table, compression: str = "zstd", level: int = 1, file_format: str = "avro") -> bytes:
    """A manifest of entries as `ENTRY_SCHEMA`.

    Args are the options `manifest.compression`, `file.compression.zstd-level` and `manifest.format`.

    Raises InvalidOptionError when the format has no such compression.
    """
    if file_format != "avro":
        return manifest_format.encode(_records(table), manifest_format.ENTRY, file_format, compression, level)
    writer = encoder.ContainerWriter(manifest_format.ENTRY, compression, level)
    for rows, payload in _blocks(table):
        writer.add(rows, payload)
    return writer.finish()


def encode_manifests(
    table: pa.Table, compression: str = "zstd", level: int = 1, file_format: str = "avro", *, target_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """As `encode_manifest`, in manifests of about `target_bytes`: Avro ones end after the block that reaches them.

    Yields:
        How many of the entries a manifest has, and its bytes; nothing for no entries.
    """
    if file_format != "avro":
        yield from _columnar(table, compression, level, file_format, target_bytes)
        return
    writer, count = encoder.ContainerWriter(manifest_format.ENTRY, compression, level), 0
    for rows, payload in _blocks(table):
        writer.add(rows, payload)
        count += rows
        if writer.size >= target_bytes:
            yield count, writer.finish()
            writer, count = encoder.ContainerWriter(manifest_format.ENTRY, compression, level), 0
    if count:
        yield count, writer.finish()


def _columnar(
    table: pa.Table, compression: str, level: int, file_format: str, target_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """Manifests whose size is known only when they are whole: each tells how many entries the next may have."""
    start, rows = 0, _STEP_ROWS
    while start < len(table):
        part = table.slice(start, rows)
        data = encode_manifest(part, compression, level, file_format)
        if len(data) > 2 * target_bytes and len(part) > 1:
            rows = max(len(part) * target_bytes // len(data), 1)
            continue
        yield len(part), data
        start += len(part)
        rows = max(len(part) * target_bytes // len(data), 1)


def _blocks(table: pa.Table) -> Iterator[tuple[int, bytes]]:
    """Entries encoded, `_BLOCK_ROWS` at a time."""
    for start in range(0, len(table), _STEP_ROWS):
        records = _records(table.slice(start, _STEP_ROWS))
        if len(records) <= _FEW_ROWS:  # those of most commits: column by column they would take longer
            yield len(records), manifest_format.ENTRY.encode_rows(records.to_pylist())
        else:
            yield from encoder.slices(encoder.encode(records, _ENTRY_TYPE), _BLOCK_ROWS)


def _records(table: pa.Table) -> pa.StructArray:
    """Entries as the records of `manifest_format.ENTRY`."""
    part = table.combine_chunks()
    columns = {path: arrow_numpy.one_chunk(part.column(name)) for name, path in COLUMN_PATHS.items()}
    columns[("_VERSION",)] = arrow_numpy.fixed_array(np.full(len(part), VERSION, np.int32), pa.int32())
    return _nested(columns, _ENTRY_TYPE)


def _nested(columns: Mapping[tuple[str, ...], pa.Array], t: AvroType, path: tuple[str, ...] = ()) -> pa.Array:
    """The record at `path`, made of columns by their paths."""
    children = [
        _nested(columns, inner, (*path, name)) if inner.kind == "record" else columns[(*path, name)]
        for name, inner in zip(t.names, t.inner, strict=True)
    ]
    if t.names == _ENTRY_TYPE.inner[-1].names:
        i = t.names.index("_EXTRA_FILES")
        children[i] = _without_nulls(children[i])
    return pa.StructArray.from_arrays(children, names=list(t.names))


def _without_nulls(lists: pa.Array) -> pa.Array:
    """Null lists become empty ones: old writers recorded no extra files, new readers want some list."""
    if lists.null_count == 0:
        return lists
    sizes = arrow_numpy.values(pc.list_value_length(lists))
    offsets = arrow_numpy.offsets_of(np.where(arrow_numpy.validity(lists), sizes, 0))
    return pa.Array.from_buffers(lists.type, len(lists), [None, pa.py_buffer(offsets)], children=[lists.flatten()])


def encode_manifest_list(
    metas: Sequence[ManifestFileMeta], compression: str = "zstd", level: int = 1, file_format: str = "avro"
) -> bytes:
    """A manifest list of `metas`, in order; none make a list without rows. Raises as `encode_manifest`."""
    rows = [
        {
            "_VERSION": VERSION,
            **manifest_format.row_of(m),
            "_PARTITION_STATS": manifest_format.row_of(m.partition_stats),
        }
        for m in metas
    ]
    return manifest_format.encode_rows(manifest_format.LIST_ROW, rows, compression, level, file_format)
