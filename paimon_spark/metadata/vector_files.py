"""Index files of deletion vectors: listed, read and written.

Source: Paimon spec, chapter Table Index (Deletion Vectors Index); Java `deletionvectors/DeletionVectorsIndexFile`,
`deletionvectors/append/AppendDeleteFileMaintainer`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from uuid import uuid4

import numpy as np

from paimon_spark.errors import CorruptFileError, FileMissingError, PaimonError
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.format.metadata_files.deletion_vector import FRAME_BYTES, Positions
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.partition_path import index_file_path, index_file_place


def vector_files(handle: TableHandle, snapshot: Snapshot | None) -> dict[tuple[bytes, int], list[IndexManifestEntry]]:
    """The index files of deletion vectors of a snapshot, by partition and bucket. Raises as `read_index_manifest`."""
    out: dict[tuple[bytes, int], list[IndexManifestEntry]] = {}
    if snapshot is None or snapshot.index_manifest is None:
        return out
    for entry in read_index_manifest(handle, snapshot.index_manifest):
        if entry.index_type == DELETION_VECTORS:
            out.setdefault((entry.partition, entry.bucket), []).append(entry)
    return out


def read_vectors(
    handle: TableHandle, entry: IndexManifestEntry, names: Collection[str] | None = None
) -> dict[str, Positions]:
    """Positions of deleted rows by name of the data file, of those in `names` or all that the file has.

    Raises:
        CorruptFileError: the file is missing or damaged, or has not what the index manifest says.
    """
    wanted = [r for r in entry.deletion_vectors or () if names is None or r.data_file_name in names]
    if not wanted:
        return {}
    store, path = index_file_place(handle, entry)
    url = store.url(path)
    try:
        data = store.read(path)
    except FileMissingError as e:
        raise CorruptFileError(
            f"deletion vector file {url} of {handle.describe()} is missing, though its index manifest names it",
            path=url,
        ) from e
    out = {}
    for r in wanted:
        record = data[r.offset : r.offset + r.length + FRAME_BYTES]
        positions = deletion_vector.decode(record, url, length=r.length)
        if r.cardinality is not None and len(positions) != r.cardinality:
            raise CorruptFileError(
                f"the deletion vector at byte {r.offset} of {url} deletes {len(positions)} rows, "
                f"the index manifest says {r.cardinality}",
                path=url,
            )
        out[r.data_file_name] = positions
    return out


def write_vectors(
    handle: TableHandle,
    partition: bytes,
    bucket: int,
    vectors: Mapping[str, Positions],
    *,
    in_one_file: bool,
    file_id: str | None = None,
) -> list[IndexManifestEntry]:
    """Write deletion vectors into new index files of a bucket; none for no vectors.

    Args:
        handle: the table.
        partition: BinaryRow bytes.
        bucket: bucket number; 0 in a table without buckets.
        vectors: positions, ascending, by name of the data file.
        in_one_file: as tables with buckets have it; else files roll at `deletion-vector.index-file.target-size`.
        file_id: a UUID for their names; None: a new one.

    Raises:
        StorageError: a file cannot be written; those made before are removed.
    """
    options = handle.options.write
    target = None if in_one_file else options.vector_file_bytes
    name = f"index-{file_id or uuid4()}"
    made: list[IndexManifestEntry] = []
    try:
        for data, ranges in deletion_vector.encode_files(vectors, options.bitmap64, target):
            made.append(
                IndexManifestEntry(
                    FileKind.ADD, partition, bucket, DELETION_VECTORS, f"{name}-{len(made)}", len(data), len(ranges),
                    ranges,
                )
            )  # fmt: skip
            handle.store.write(index_file_path(handle, made[-1]), data)
    except BaseException:
        remove_index_files(handle, made)
        raise
    return made


def changed_vectors(
    handle: TableHandle,
    place: tuple[bytes, int],
    entries: Iterable[IndexManifestEntry],
    changes: Mapping[str, Positions | None],
    *,
    in_one_file: bool,
    file_id: str | None = None,
) -> tuple[list[IndexManifestEntry], list[IndexManifestEntry]]:
    """Give data files of a bucket other deletion vectors: the index files to add, and those to delete.

    Index files that hold a vector to change are replaced; with `in_one_file` all of the bucket's.

    Args:
        handle: the table.
        place: partition and bucket.
        entries: the index files that the bucket has.
        changes: by name of the data file all positions deleted from now on, or None for no vector.
        in_one_file: as in `write_vectors`.
        file_id: as in `write_vectors`.

    Raises:
        CorruptFileError, StorageError: vectors that stay cannot be read, or not be written.
    """
    before = list(entries)
    names = {r.data_file_name for e in before for r in e.deletion_vectors or ()}
    changes = {n: p for n, p in changes.items() if p is not None or n in names}
    if not changes:
        return [], []
    replaced = [e for e in before if in_one_file or any(r.data_file_name in changes for r in e.deletion_vectors or ())]
    vectors: dict[str, Positions] = {}
    for entry in replaced:
        vectors.update({n: p for n, p in read_vectors(handle, entry).items() if n not in changes})
    vectors.update({n: p for n, p in changes.items() if p is not None and len(p)})
    return write_vectors(handle, *place, vectors, in_one_file=in_one_file, file_id=file_id), replaced


def united(a: Positions, b: Positions) -> Positions:
    """Positions that are in one or the other, ascending."""
    return np.union1d(a, b).astype(np.int64, copy=False)


def remove_index_files(handle: TableHandle, entries: Iterable[IndexManifestEntry]) -> None:
    """Delete index files that no snapshot names. Raises nothing."""
    with suppress(PaimonError):
        handle.store.delete_many([index_file_path(handle, e) for e in entries if e.external_path is None])
