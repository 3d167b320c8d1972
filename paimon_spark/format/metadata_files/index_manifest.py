"""Index manifests and hash index files: entries to bytes and back.

Source: Paimon spec, chapter Manifest (Index Manifest); Java `manifest/IndexManifestEntry`, `index/IndexFileMeta`,
`index/DeletionVectorMeta`, `index/GlobalIndexMeta`, `index/HashIndexFile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptFileError, UnknownFormatVersionError
from paimon_spark.format.metadata_files import manifest_format

VERSION: Final = 1
HASH: Final = "HASH"
DELETION_VECTORS: Final = "DELETION_VECTORS"


class DeletionVectorRange(NamedTuple):
    """Where one data file's deletion vector lies in an index file.

    Attributes:
        length: as recorded; its meaning depends on the vector's magic (see `deletion_vector`).
        cardinality: deleted rows; None from writers older than 1.0.
    """

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None


class GlobalIndexMeta(NamedTuple):
    """Columns and rows that a global index file covers; row ids are inclusive."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


class IndexManifestEntry(NamedTuple):
    """One index file of a bucket.

    Attributes:
        partition: BinaryRow bytes with arity prefix.
        index_type: `HASH`, `DELETION_VECTORS` or the name of a global index.
        row_count: hashes, or deletion vectors, in the file.
        deletion_vectors: for `DELETION_VECTORS` only.
        external_path: full path when the file lies outside the table.
    """

    kind: int
    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None


def decode(data: bytes, path: str) -> list[IndexManifestEntry]:
    """The entries of an index manifest: all index files of the snapshot.

    Raises: CorruptFileError, or UnknownFormatVersionError when an entry is not of version 1.
    """
    try:
        return [_entry(r, path) for r in manifest_format.rows(data, path)]
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptFileError(f"{path} is not a readable index manifest: {type(e).__name__}: {e}", path=path) from e


def encode(
    entries: Sequence[IndexManifestEntry], compression: str = "zstd", level: int = 1, file_format: str = "avro"
) -> bytes:
    """An index manifest of all index files of a snapshot, `kind` as it is. Otherwise as `encode_manifest`."""
    rows = [_row(e) for e in entries]
    return manifest_format.encode_rows(manifest_format.INDEX_ENTRY, rows, compression, level, file_format)


def _row(entry: IndexManifestEntry) -> dict[str, Any]:
    ranges, index = entry.deletion_vectors, entry.global_index
    return {
        "_VERSION": VERSION,
        **manifest_format.row_of(entry),
        "_KIND": int(entry.kind),
        "_DELETIONS_VECTORS_RANGES": None
        if ranges is None
        else [{"f0": r.data_file_name, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges],
        "_GLOBAL_INDEX": None if index is None else manifest_format.row_of(index),
    }


def encode_hashes(hashes: npt.NDArray[np.int32]) -> bytes:
    """A `HASH` index file of key hashes, in the order given."""
    return hashes.astype(">i4").tobytes()


def decode_hashes(data: bytes, path: str) -> npt.NDArray[np.int32]:
    """The key hashes of a `HASH` index file. Raises CorruptFileError when it is cut short."""
    if len(data) % 4:
        raise CorruptFileError(f"{path} has {len(data)} bytes; a hash index has four per key", path=path)
    return np.frombuffer(data, ">i4").astype(np.int32)


def _entry(row: dict[str, Any], path: str) -> IndexManifestEntry:
    if row["_VERSION"] != VERSION:
        raise UnknownFormatVersionError(
            f"{path} has an entry of version {row['_VERSION']}, and this package knows version {VERSION}; "
            "it needs a newer paimon-spark",
            path=path,
        )
    if row["_KIND"] not in (0, 1):
        raise CorruptFileError(f"{path} has an entry of kind {row['_KIND']}; known are 0 and 1", path=path)
    if not manifest_format.is_plain_name(row["_FILE_NAME"]):
        raise CorruptFileError(
            f"{path} names an index file {row['_FILE_NAME']!r}, which is not a plain file name", path=path
        )
    ranges, index = row.get("_DELETIONS_VECTORS_RANGES"), row.get("_GLOBAL_INDEX")
    if index is not None:
        index = manifest_format.value_of(GlobalIndexMeta, index)
        extra = index.extra_field_ids
        index = index._replace(extra_field_ids=None if extra is None else tuple(extra))
    return manifest_format.value_of(IndexManifestEntry, row)._replace(
        deletion_vectors=None if ranges is None else tuple(_range(r, path) for r in ranges),
        global_index=index,
    )


def _range(row: dict[str, Any], path: str) -> DeletionVectorRange:
    offset, length, cardinality = row["f1"], row["f2"], row.get("_CARDINALITY")
    if offset < 0 or length < 0 or (cardinality is not None and cardinality < 0):
        raise CorruptFileError(
            f"{path} places the deletion vector of {row['f0']!r} at {offset}, {length} bytes, {cardinality} rows",
            path=path,
        )
    return DeletionVectorRange(row["f0"], offset, length, cardinality)
