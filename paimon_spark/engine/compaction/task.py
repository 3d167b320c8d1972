"""BucketTask: what one task of a compaction does. Picklable and self-contained; made by `run.plan_compaction`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from paimon_spark.engine.compaction.pick import Unit
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry


class Bucket(NamedTuple):
    """A bucket and its live files."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: list[DataFileMeta]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """Files of one bucket to make fewer.

    Tasks of two plans are equal exactly when the same work is to do, so that its result can be used again.

    Attributes:
        partition: BinaryRow bytes.
        bucket: its number.
        total_buckets: what `_TOTAL_BUCKETS` of its entries is.
        files: tables with keys: all live files of the bucket; append tables: those that are rewritten together.
        vectors: index entries whose deletion vectors are in force for `files`. Tables with keys: all of the bucket.
        unit: tables with keys: which of the files go to which level.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]
    vectors: tuple[IndexManifestEntry, ...] = ()
    unit: Unit | None = None

    @property
    def input_bytes(self) -> int:
        """Bytes of the files that are read, more or less: what tasks are weighed by."""
        if self.unit is None:
            return sum(f.file_size for f in self.files)
        return sum(self.files[n].file_size for n in self.unit.files)
