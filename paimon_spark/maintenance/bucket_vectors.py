"""The deletion vectors of one bucket of a table with keys: one index file, rewritten as a whole.

Source: Java `deletionvectors/BucketedDvMaintainer`, `deletionvectors/DeletionVectorsIndexFile`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from uuid import uuid4

import numpy as np

from paimon_spark.errors import PaimonError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.partition_path import index_file_path
from paimon_spark.options.compaction import parse_compaction_options
from paimon_spark.spec import deletion_vector
from paimon_spark.spec.deletion_vector import FRAME_BYTES, Positions
from paimon_spark.spec.index_manifest import DELETION_VECTORS, IndexManifestEntry
from paimon_spark.spec.manifest import FileKind
from paimon_spark.spec.snapshot import Snapshot

Changes = tuple[tuple[IndexManifestEntry, ...], tuple[IndexManifestEntry, ...]]


class BucketVectors:
    """The vectors that a snapshot has for a bucket, and what becomes of them."""

    def __init__(self, handle: TableHandle, snapshot: Snapshot, partition: bytes, bucket: int) -> None:
        self._handle = handle
        self._place = (partition, bucket)
        self._entries: list[IndexManifestEntry] = []
        self._made: list[IndexManifestEntry] = []
        if snapshot.index_manifest is not None:
            self._entries = [
                e
                for e in read_index_manifest(handle, snapshot.index_manifest)
                if e.index_type == DELETION_VECTORS and (e.partition, e.bucket) == self._place
            ]

    def changed(self, names: Collection[str], deleted: Mapping[str, Positions]) -> Changes:
        """Index files added and replaced.

        Args:
            names: data files whose vectors stay; those of others go.
            deleted: rows deleted in addition, ascending positions by data file name.

        Raises:
            CorruptFileError, StorageError: vectors that stay cannot be read, or not be written.
        """
        ranges = [(e, r) for e in self._entries for r in e.deletion_vectors or ()]
        staying = [(e, r) for e, r in ranges if r.data_file_name in names]
        if len(staying) == len(ranges) and not deleted:
            return (), ()
        if not staying and not deleted:
            return (), tuple(self._entries)
        vectors: dict[str, Positions] = {}
        for entry, found in staying:
            path = index_file_path(self._handle, entry)
            data = self._handle.store.read_range(path, found.offset, found.length + FRAME_BYTES)
            url = self._handle.store.url(path)
            vectors[found.data_file_name] = deletion_vector.decode(data, url, length=found.length)
        for name, positions in deleted.items():
            known = vectors.get(name)
            vectors[name] = positions if known is None else np.union1d(known, positions)
        return (self._write(vectors),), tuple(self._entries)

    def abort(self) -> None:
        """Remove the index file written. Raises nothing."""
        with suppress(PaimonError):
            self._handle.store.delete_many([index_file_path(self._handle, e) for e in self._made])

    def _write(self, vectors: dict[str, Positions]) -> IndexManifestEntry:
        bitmap64 = parse_compaction_options(self._handle.options.raw).bitmap64
        data, ranges = deletion_vector.encode_file(vectors, bitmap64)
        name = f"index-{uuid4()}-0"
        entry = IndexManifestEntry(FileKind.ADD, *self._place, DELETION_VECTORS, name, len(data), len(ranges), ranges)
        self._made.append(entry)
        self._handle.store.write(index_file_path(self._handle, entry), data)
        return entry
