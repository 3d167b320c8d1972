"""The deletion vectors of one bucket of a table with keys: one index file, rewritten as a whole.

Source: Java `deletionvectors/BucketedDvMaintainer`, `deletionvectors/DeletionVectorsIndexFile`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.vector_files import read_vectors, remove_index_files, united, vector_files, write_vectors
from paimon_spark.spec.deletion_vector import Positions
from paimon_spark.spec.index_manifest import IndexManifestEntry
from paimon_spark.spec.snapshot import Snapshot

Changes = tuple[tuple[IndexManifestEntry, ...], tuple[IndexManifestEntry, ...]]


class BucketVectors:
    """The vectors that a snapshot has for a bucket, and what becomes of them."""

    def __init__(self, handle: TableHandle, snapshot: Snapshot, partition: bytes, bucket: int) -> None:
        self._handle = handle
        self._place = (partition, bucket)
        self._entries = vector_files(handle, snapshot).get(self._place, [])
        self._made: list[IndexManifestEntry] = []

    def changed(self, names: Collection[str], deleted: Mapping[str, Positions]) -> Changes:
        """Index files added and replaced.

        Args:
            names: data files whose vectors stay; those of others go.
            deleted: rows deleted in addition, ascending positions by data file name.

        Raises:
            CorruptFileError, StorageError: vectors that stay cannot be read, or not be written.
        """
        having = [r.data_file_name for e in self._entries for r in e.deletion_vectors or ()]
        if not deleted and all(name in names for name in having):
            return (), ()
        vectors: dict[str, Positions] = {}
        for entry in self._entries:
            vectors.update(read_vectors(self._handle, entry, names))
        for name, positions in deleted.items():
            known = vectors.get(name)
            vectors[name] = positions if known is None else united(known, positions)
        self._made = write_vectors(self._handle, *self._place, vectors, in_one_file=True)
        return tuple(self._made), tuple(self._entries)

    def abort(self) -> None:
        """Remove the index file written. Raises nothing."""
        remove_index_files(self._handle, self._made)
