"""Writers of manifests, manifest lists and index manifests, each under a new name.

Source: Paimon spec, chapter Manifest; Java `manifest/ManifestAvroWriter`, `manifest/ManifestList`,
`manifest/IndexManifestFile`, `utils/FileStorePathFactory`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format import binary_row
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.metadata_files import index_manifest, manifest_writer
from paimon_spark.format.metadata_files.data_file import SimpleStats
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind, ManifestFileMeta
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import remember_list, remember_manifest
from paimon_spark.types import RowType

I64 = npt.NDArray[np.int64]

_NO_SCHEMA: Final = -(1 << 63)


def write_manifest(handle: TableHandle, entries: pa.Table) -> list[ManifestFileMeta]:
    """Write entries, in order, into manifests of about option `manifest.target-file-size`; none for no entries.

    Args:
        handle: the table.
        entries: as `ENTRY_SCHEMA`.

    Raises:
        StorageError: a manifest cannot be written; those before it are deleted again, as far as that goes.
        InvalidOptionError: option `manifest.format` names no format, or `manifest.compression` no codec of it.
    """
    options = handle.options.manifests
    prefix = f"manifest-{uuid.uuid4()}-"
    metas: list[ManifestFileMeta] = []
    start = 0
    encoded = manifest_writer.encode_manifests(
        entries, options.compression, options.zstd_level, options.format.value, target_bytes=options.target_bytes
    )
    try:
        for rows, data in encoded:
            name = f"{prefix}{len(metas)}"
            part = entries.slice(start, rows)
            metas.append(describe(handle.schema.partition_type, name, len(data), part))
            handle.store.write(handle.layout.manifest_path(name), data)
            remember_manifest(handle, name, part)
            start += rows
    except BaseException:
        handle.store.delete_many([handle.layout.manifest_path(m.file_name) for m in metas])
        raise
    return metas


def write_manifest_list(handle: TableHandle, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
    """Write a manifest list; returns its name and its bytes. Raises as `write_manifest`."""
    options = handle.options.manifests
    data = manifest_writer.encode_manifest_list(metas, options.compression, options.zstd_level, options.format.value)
    name = f"manifest-list-{uuid.uuid4()}-0"
    handle.store.write(handle.layout.manifest_path(name), data)
    remember_list(handle, name, metas, len(data))
    return name, len(data)


def write_index_manifest(handle: TableHandle, entries: Sequence[IndexManifestEntry]) -> str:
    """Write an index manifest; returns its name. Raises as `write_manifest`."""
    options = handle.options.manifests
    data = index_manifest.encode(entries, options.compression, options.zstd_level, options.format.value)
    name = f"index-manifest-{uuid.uuid4()}-0"
    handle.store.write(handle.layout.manifest_path(name), data)
    return name


def describe(partition_type: RowType, name: str, size_bytes: int, entries: pa.Table) -> ManifestFileMeta:
    """The row of a manifest list for a manifest of `entries`."""
    deleted = int(np.count_nonzero(_values(entries, "kind") == FileKind.DELETE))
    buckets, levels = _values(entries, "bucket"), _values(entries, "level")
    schema_ids = _values(entries, "schema_id")
    some = len(entries) > 0
    min_row_id, max_row_id = _row_ids(entries)
    return ManifestFileMeta(
        name,
        size_bytes,
        len(entries) - deleted,
        deleted,
        partition_stats(partition_type, entries.column("partition")),
        int(schema_ids.max()) if some else _NO_SCHEMA,
        int(buckets.min()) if some else None,
        int(buckets.max()) if some else None,
        int(levels.min()) if some else None,
        int(levels.max()) if some else None,
        min_row_id,
        max_row_id,
    )


def _row_ids(entries: pa.Table) -> tuple[int | None, int | None]:
    first = entries.column("first_row_id")
    if len(entries) == 0 or first.null_count:
        return None, None
    ids = _values(entries, "first_row_id")
    return int(ids.min()), int((ids + _values(entries, "row_count")).max()) - 1


def partition_stats(partition_type: RowType, partitions: pa.ChunkedArray) -> SimpleStats:
    """Least and greatest value and nulls of every partition column, over the partitions of entries.

    Source: Java `format/SimpleStatsCollector` with full statistics; NaN is the greatest number, as there.
    """
    types = [f.type for f in partition_type.fields]
    if not types:
        return SimpleStats(binary_row.EMPTY, binary_row.EMPTY, ())
    encoded = partitions.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.binary()).dictionary_encode()
    distinct = encoded.dictionary
    counts = np.bincount(arrow_numpy.values(encoded.indices), minlength=len(distinct))
    least: list[Any] = []
    greatest: list[Any] = []
    nulls: list[int] = []
    for i, t in enumerate(types):
        column = binary_row.decode_column(distinct, i, t, exact=False)
        valid = arrow_numpy.validity(column)
        nulls.append(int(counts[~valid].sum()))
        bounds = _bounds(column)
        ends = [binary_row.decode(distinct[n].as_py(), types, raw_timestamps=True)[i] for n in bounds]
        least.append(ends[0] if ends else None)
        greatest.append(ends[-1] if ends else None)
    return SimpleStats(binary_row.encode(least, types), binary_row.encode(greatest, types), tuple(nulls))


def _bounds(column: pa.Array) -> list[int]:
    """The places of the least and the greatest value; none when all are null."""
    count = len(column) - column.null_count
    if count == 0:
        return []
    order = arrow_numpy.values(pc.array_sort_indices(column))
    return [int(order[0]), int(order[count - 1])]


def _values(entries: pa.Table, name: str) -> npt.NDArray[Any]:
    chunks = [arrow_numpy.values(c) for c in entries.column(name).chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)
