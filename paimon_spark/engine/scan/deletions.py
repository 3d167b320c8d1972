"""Which deletion vector belongs to which data file.

Source: Java `index/IndexFileHandler`, `table/source/snapshot/SnapshotReaderImpl.scanDvIndex`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from paimon_spark.engine.tasks.split import DeletionFile
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.partition_path import PartitionDirectories, index_file_path


class Deletions:
    """Deletion vectors of one snapshot, by bucket and data file name."""

    def __init__(self, by_bucket: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]]) -> None:
        self._by_bucket = by_bucket

    def of(self, partition: bytes, bucket: int, files: Sequence[DataFileMeta]) -> tuple[DeletionFile | None, ...]:
        """The vector of each file; empty when none has one."""
        known = self._by_bucket.get((partition, bucket))
        if not known:
            return ()
        found = tuple(known.get(f.file_name) for f in files)
        return found if any(d is not None for d in found) else ()


def deletions_of(handle: TableHandle, snapshot: Snapshot | None) -> Deletions:
    """The deletion vectors of a snapshot. Reads its index manifest.

    They apply whether or not the table still has `deletion-vectors.enabled`: a vector stays in force until its
    file is rewritten.

    Raises:
        CorruptFileError: the index manifest cannot be decoded.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return Deletions({})
    return deletions_among(handle, read_index_manifest(handle, snapshot.index_manifest))


def deletions_among(handle: TableHandle, entries: Iterable[IndexManifestEntry]) -> Deletions:
    """The deletion vectors that index files of `entries` hold. Reads none of the files."""
    directories = PartitionDirectories(handle)
    by_bucket: dict[tuple[bytes, int], dict[str, DeletionFile]] = {}
    for entry in entries:
        if entry.index_type != DELETION_VECTORS or not entry.deletion_vectors:
            continue
        path = index_file_path(handle, entry, directories)
        bucket = by_bucket.setdefault((entry.partition, entry.bucket), {})
        for vector in entry.deletion_vectors:
            bucket[vector.data_file_name] = DeletionFile(path, vector.offset, vector.length, vector.cardinality)
    return Deletions(by_bucket)
