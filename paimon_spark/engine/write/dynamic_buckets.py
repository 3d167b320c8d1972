"""Buckets of tables that have no bucket count: a key stays in the bucket that its hash was put in first.

The index of a snapshot (HASH files) says which hashes each bucket has. New keys are placed in one of two ways:

- by one writer, or by several among which keys are divided (`WriteRequest.assigner`): as Java does, each bucket is
  filled up to `dynamic-bucket.target-row-num`, then the next is begun;
- by writers that may each see any key (`WriteRequest.shares_buckets`): by the hash and the base snapshot alone, so
  that all of them put a new key in the same place. Buckets that were not full then share the new keys.

Source: Java `index/HashBucketAssigner`, `index/PartitionIndex`, `index/SimpleHashBucketAssigner`,
`index/DynamicBucketIndexMaintainer`, `index/BucketAssigner`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.write.hash_index import HashIndex, first_seen
from paimon_spark.engine.write.job_files import new_file_id
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import InvalidInputError, PaimonError
from paimon_spark.format.bucket_hash import hashes as row_hashes
from paimon_spark.format.metadata_files.index_manifest import HASH, IndexManifestEntry, decode_hashes, encode_hashes
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.partition_path import index_file_path
from paimon_spark.options.write import DynamicBucketOptions

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_ADD: Final = 0


class DynamicBuckets:
    """Gives every row of a write its bucket, and writes the index of what was new. Not safe for threads."""

    def __init__(self, request: WriteRequest) -> None:
        self._request = request
        self._options = request.handle.options.dynamic_bucket
        self._partitions: dict[bytes, _PartitionBuckets] = {}
        self._base = _base_index(request)
        self._name = f"index-{new_file_id(request.job)}"
        self._counter = itertools.count()
        self._written: list[IndexManifestEntry] = []

    def assign(self, partition: bytes, hashes: I32) -> I32:
        """The bucket of each row of one partition.

        Args:
            partition: BinaryRow bytes of the partition.
            hashes: `bucket_hash.hashes` of the trimmed primary key, in order of arrival.

        Raises:
            InvalidInputError: all bucket numbers are used up.
            CorruptFileError, StorageError: the index of the base snapshot cannot be read.
        """
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = self._load(partition)
        return found.assign(hashes)

    def close(self) -> dict[tuple[bytes, int], IndexManifestEntry]:
        """Write a HASH file for each bucket that got new keys, with all hashes of the bucket. By partition and bucket.

        Raises:
            StorageError: a file could not be written; `abort` removes the others.
        """
        out = {}
        for partition, buckets in self._partitions.items():
            for bucket, hashes in buckets.grown():
                name = f"{self._name}-{next(self._counter)}"
                entry = hash_entry(partition, bucket, name, len(hashes))
                self._written.append(entry)
                write_hashes(self._request.handle, entry, hashes)
                out[partition, bucket] = entry
        return out

    def abort(self) -> None:
        """Remove the files written. Raises nothing."""
        delete_index_files(self._request.handle, self._written)
        self._written = []

    def _load(self, partition: bytes) -> _PartitionBuckets:
        entries = self._base.get(partition, [])
        handle = self._request.handle
        paths = [index_file_path(handle, e) for e in entries]
        data = handle.store.read_many(paths)
        hashes: dict[int, I32] = {}
        for entry, path, raw in zip(entries, paths, data, strict=True):
            hashes[entry.bucket] = decode_hashes(raw, handle.store.url(path))
        if self._request.shares_buckets:
            return _ByHashAlone(hashes, self._options)
        return _FilledInTurn(hashes, self._options, self._request.assigner)


def _base_index(request: WriteRequest) -> Mapping[bytes, list[IndexManifestEntry]]:
    """HASH entries of the base snapshot by partition."""
    out: dict[bytes, list[IndexManifestEntry]] = {}
    base = request.base
    if base is None or base.index_manifest is None or request.ignores_existing:
        return out
    for entry in read_index_manifest(request.handle, base.index_manifest):
        if entry.index_type == HASH:
            out.setdefault(entry.partition, []).append(entry)
    return out


class _PartitionBuckets:
    """Buckets of one partition. Subclasses say where new keys go."""

    def __init__(self, base: Mapping[int, I32], options: DynamicBucketOptions) -> None:
        self._base = base
        self._options = options
        self._index = HashIndex(list(base.items()))
        self._new: dict[int, list[I32]] = {}

    def assign(self, hashes: I32) -> I32:
        buckets = self._index.find(hashes)
        unknown = buckets < 0
        if unknown.any():
            distinct, number = first_seen(hashes[unknown])
            placed = self._place(distinct)
            self._index.add(distinct, placed)
            for bucket in np.unique(placed).tolist():
                self._new.setdefault(bucket, []).append(distinct[placed == bucket])
            buckets[unknown] = placed[number]
        return buckets.astype(np.int32)

    def grown(self) -> list[tuple[int, I32]]:
        """Buckets with new keys, and all hashes of each."""
        empty = np.empty(0, np.int32)
        return [(b, np.concatenate([self._base.get(b, empty), *self._new[b]])) for b in sorted(self._new)]

    def _place(self, new: I32) -> I64:
        """Buckets for hashes that have none, each once, in order of arrival."""
        raise NotImplementedError


class _FilledInTurn(_PartitionBuckets):
    """One bucket is filled after the other."""

    def __init__(
        self, base: Mapping[int, I32], options: DynamicBucketOptions, assigner: tuple[int, int] | None
    ) -> None:
        super().__init__(base, options)
        number, count = assigner or (0, 1)
        self._owned = range(number % count, options.bucket_limit, count)
        self._counts = {b: len(base[b]) for b in sorted(base) if b in self._owned}
        self._next = 0

    def _place(self, new: I32) -> I64:
        out = np.empty(len(new), np.int64)
        at, target = 0, self._options.target_rows
        while at < len(new):
            bucket = self._open_bucket()
            if bucket is None:
                out[at:] = _spread(new[at:], list(self._counts))
                break
            taken = min(target - self._counts[bucket], len(new) - at)
            out[at : at + taken] = bucket
            self._counts[bucket] += taken
            at += taken
        return out

    def _open_bucket(self) -> int | None:
        """The first bucket that is not full, made if need be; None when all are full and no more may be made."""
        for bucket, count in self._counts.items():
            if count < self._options.target_rows:
                return bucket
        while self._next < len(self._owned):
            bucket = self._owned[self._next]
            self._next += 1
            if bucket not in self._counts:
                self._counts[bucket] = 0
                return bucket
        if self._options.max_buckets is None or not self._counts:
            raise InvalidInputError(
                f"a partition has used up its bucket numbers ({self._options.bucket_limit}, divided among writers); "
                f"raise 'dynamic-bucket.target-row-num' = {self._options.target_rows} on the table, or "
                "'dynamic-bucket.max-buckets' above the number of writers"
            )
        return None


class _ByHashAlone(_PartitionBuckets):
    """New keys share the buckets that are open in the base snapshot, and as many new ones as it takes to spread."""

    def __init__(self, base: Mapping[int, I32], options: DynamicBucketOptions) -> None:
        super().__init__(base, options)
        unused = (b for b in range(options.bucket_limit) if b not in base)
        open_buckets = [b for b in sorted(base) if len(base[b]) < options.target_rows]
        open_buckets += itertools.islice(unused, max(0, options.spread - len(open_buckets)))
        self._open = open_buckets or sorted(base)

    def _place(self, new: I32) -> I64:
        return _spread(new, self._open)


def _spread(hashes: I32, buckets: list[int]) -> I64:
    return np.array(buckets, np.int64)[hashes.view(np.uint32) % len(buckets)]


def hash_entry(partition: bytes, bucket: int, name: str, count: int) -> IndexManifestEntry:
    """The entry of a HASH file of `count` hashes."""
    return IndexManifestEntry(_ADD, partition, bucket, HASH, name, 4 * count, count)


def write_hashes(handle: TableHandle, entry: IndexManifestEntry, hashes: I32) -> None:
    """Write the HASH file that `entry` describes. Raises StorageError."""
    handle.store.write(index_file_path(handle, entry), encode_hashes(hashes))


def delete_index_files(handle: TableHandle, entries: list[IndexManifestEntry]) -> None:
    """Remove index files as far as that works. Raises nothing."""
    with suppress(PaimonError):
        handle.store.delete_many([index_file_path(handle, e) for e in entries])


def assigner_count(options: DynamicBucketOptions, parallelism: int) -> tuple[int, int]:
    """Channels and assigners of a write whose keys are divided among tasks, for `assigner_channels`.

    Args:
        options: of the table.
        parallelism: tasks there would be otherwise.

    Source: Java `spark/commands/PaimonSparkWriter`.
    """
    channels = options.assigner_parallelism or parallelism
    channels = max(1, min(channels, options.max_buckets or channels))
    return channels, min(options.initial_buckets or channels, channels)


def assigner_channels(
    partition_columns: pa.RecordBatch, key_columns: pa.RecordBatch, channels: int, assigners: int
) -> I32:
    """For each row the channel (task number, from 0) that assigns its bucket.

    Rows of one key have one channel. The task of a channel writes with `WriteRequest.assigner` =
    (channel, assigners).

    Args:
        partition_columns: partition columns in order, canonical types; without columns for unpartitioned tables.
        key_columns: trimmed primary key in order, canonical types, of the same rows.
        channels: tasks.
        assigners: over how many of them the keys of one partition are spread.

    Source: Java `index/BucketAssigner.computeAssigner`.
    """
    start: I32 | int = 0
    if partition_columns.num_columns:
        start = np.abs(np.fmod(row_hashes(partition_columns), np.int32(channels)))
    number = np.abs(np.fmod(row_hashes(key_columns), np.int32(assigners)))
    return (start + number) % np.int32(channels)
