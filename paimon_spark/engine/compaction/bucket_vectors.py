"""The deletion vectors of one bucket of a table with keys: one index file, rewritten as a whole.

Source: Java `deletionvectors/BucketedDvMaintainer`, `deletionvectors/DeletionVectorsIndexFile`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.vector_files import read_vectors, remove_index_files, united, write_vectors

Changes = tuple[tuple[IndexManifestEntry, ...], tuple[IndexManifestEntry, ...]]


class BucketVectors:
    """The vectors of a bucket, and what becomes of them.

    Args:
        handle: the branch.
        partition: BinaryRow bytes.
        bucket: its number.
        entries: of its index files in the snapshot.
        file_id: for the names of new ones.
    """

    def __init__(
        self,
        handle: TableHandle,
        partition: bytes,
        bucket: int,
        entries: Sequence[IndexManifestEntry],
        file_id: str | None = None,
    ) -> None:
        self._handle = handle
        self._file_id = file_id
        self._place = (partition, bucket)
        self._entries = entries
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
        self._made = write_vectors(self._handle, *self._place, vectors, in_one_file=True, file_id=self._file_id)
        return tuple(self._made), tuple(self._entries)

    def abort(self) -> None:
        """Remove the index file written. Raises nothing."""
        remove_index_files(self._handle, self._made)
