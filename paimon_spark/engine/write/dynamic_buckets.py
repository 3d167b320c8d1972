"""Dynamic buckets: a key stays in the bucket that its hash was first assigned to.

The index of a snapshot (HASH files, one for each bucket) has the hashes of each bucket. New keys are placed

- by one writer, or by several among which keys are divided (`WriteRequest.assigner`): as Java does, each bucket is
  filled up to `dynamic-bucket.target-row-num`, then the next is begun;
- by writers that may each get any key (`WriteRequest.shares_buckets`): by the hash and the base snapshot alone, so
  that all of them put a new key in the same place. Buckets that were not full then share the new keys. The HASH
  files of such writers are united before the commit (`combine`).

Source: Java `index/HashBucketAssigner`, `index/PartitionIndex`, `index/SimpleHashBucketAssigner`,
`index/DynamicBucketIndexMaintainer`, `index/BucketAssigner`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.engine.write.bucketing import Bucketing, PartitionNumbers, Placed
from paimon_spark.engine.write.request import WriteRequest, new_file_id
from paimon_spark.errors import InvalidInputError, PaimonError
from paimon_spark.format.bucket_hash import hashes as row_hashes
from paimon_spark.format.metadata_files.index_manifest import HASH, IndexManifestEntry, decode_hashes, encode_hashes
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.partition_path import index_file_path, index_file_place
from paimon_spark.options.write import DynamicBucketOptions

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

DYNAMIC: Final = -1
"""`_TOTAL_BUCKETS` of files in dynamic buckets."""
_ADD: Final = 0
_BUCKET_BITS: Final = 16
_SMALL: Final = 1 << 16


class DynamicBuckets(Bucketing):
    """Buckets of tables with primary keys and `bucket` = -1, by the index of key hashes."""

    total_buckets = DYNAMIC

    def __init__(self, request: WriteRequest, numbers: PartitionNumbers) -> None:
        self._request = request
        self._keys = list(request.handle.schema.trimmed_primary_keys)
        self._numbers = numbers
        self._options = request.handle.options.dynamic_bucket
        self._partitions: dict[bytes, _PartitionBuckets] = {}
        self._base = _base_index(request)
        self._name = f"index-{new_file_id(request.job)}"
        self._counter = itertools.count()
        self._written: list[IndexManifestEntry] = []

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        """Where every row goes. Raises as `assign`."""
        hashes = row_hashes(batch.select(self._keys))
        if isinstance(partitions, int):
            buckets = self.assign(self._numbers.rows[partitions], hashes)
            return Placed(batch, partitions, buckets.astype(np.int64))
        out = np.empty(len(hashes), np.int64)
        order = np.argsort(partitions, kind="stable")
        numbers, starts = np.unique(partitions[order], return_index=True)
        for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            out[rows] = self.assign(self._numbers.rows[number], hashes[rows])
        return Placed(batch, partitions, out)

    def finish(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """Add the index files of buckets with new keys. Raises as `close`."""
        return _with_index(messages, self.close())

    def assign(self, partition: bytes, hashes: I32) -> I32:
        """The bucket of each row of one partition; `hashes` of the trimmed primary key, in order of arrival.

        Raises:
            InvalidInputError: all bucket numbers are used up.
            CorruptFileError, StorageError: the index of the base snapshot cannot be read.
        """
        if partition not in self._partitions:
            self._partitions[partition] = self._load(partition)
        return self._partitions[partition].assign(hashes)

    def close(self) -> dict[tuple[bytes, int], IndexManifestEntry]:
        """Write a HASH file with all hashes of each bucket that got new keys; by partition and bucket.

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
        inside = [e for e in entries if e.external_path is None]
        paths = [index_file_path(handle, e) for e in inside]
        data = handle.store.read_many(paths)
        hashes: dict[int, I32] = {}
        for entry, path, raw in zip(inside, paths, data, strict=True):
            hashes[entry.bucket] = decode_hashes(raw, handle.store.url(path))
        hashes.update((e.bucket, _read(handle, e)) for e in entries if e.external_path is not None)
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
    """Buckets of one partition. Subclasses place new keys."""

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
        """Buckets for new hashes, each once, in order of arrival."""
        raise NotImplementedError


class _FilledInTurn(_PartitionBuckets):
    """Fills one bucket after the other."""

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
        """The first bucket that is not full, or a new one; None when all are full and no more may be made."""
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
    """Spreads new keys over the open buckets of the base snapshot, and new ones up to the spread."""

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
    """Remove index files if possible. Raises nothing."""
    with suppress(PaimonError):
        handle.store.delete_many([index_file_path(handle, e) for e in entries if e.external_path is None])


def assigner_count(options: DynamicBucketOptions, parallelism: int) -> tuple[int, int]:
    """Channels and assigners of a write whose keys are divided among tasks (Java `spark/commands/PaimonSparkWriter`).

    `parallelism` is the number of tasks where the options set none.
    """
    channels = options.assigner_parallelism or parallelism
    channels = max(1, min(channels, options.max_buckets or channels))
    return channels, min(options.initial_buckets or channels, channels)


def assigner_channels(
    partition_columns: pa.RecordBatch, key_columns: pa.RecordBatch, channels: int, assigners: int
) -> I32:
    """The channel (task number, from 0) of each row: the task that assigns its bucket, one for all rows of a key.

    The task of a channel writes with `WriteRequest.assigner` = (channel, assigners). Columns are partition columns and
    the trimmed primary key, in order and canonical types; the keys of one partition go to `assigners` channels.

    Source: Java `index/BucketAssigner.computeAssigner`.
    """
    start: I32 | int = 0
    if partition_columns.num_columns:
        start = np.abs(np.fmod(row_hashes(partition_columns), np.int32(channels)))
    number = np.abs(np.fmod(row_hashes(key_columns), np.int32(assigners)))
    return (start + number) % np.int32(channels)


def _with_index(
    messages: Sequence[CommitMessage], index: Mapping[tuple[bytes, int], IndexManifestEntry]
) -> list[CommitMessage]:
    left = dict(index)
    out = []
    for message in messages:
        entry = left.pop((message.partition, message.bucket), None)
        if entry is not None:
            files = (*message.data.new_index_files, entry)
            message = replace(message, data=replace(message.data, new_index_files=files))
        out.append(message)
    for (partition, bucket), entry in left.items():  # rows that a merge engine made nothing of
        out.append(CommitMessage(partition, bucket, DYNAMIC, Increment(new_index_files=(entry,))))
    return out


class HashIndex:
    """Hash → bucket, as integers in two sorted arrays, the hash in the higher bits.

    New pairs go to a small array, which is merged into the large one when it has grown, so that adding is cheap.
    """

    def __init__(self, hashes_of: Sequence[tuple[int, I32]] = ()) -> None:
        pairs = [_pairs(hashes, bucket) for bucket, hashes in hashes_of]
        self._large = _sorted(pairs)
        self._recent = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._large) + len(self._recent)

    def find(self, hashes: I32) -> I64:
        """The bucket of each hash, -1 for unknown ones."""
        ordered, rows = _by_hash(hashes)
        wanted = ordered << _BUCKET_BITS  # ascending: each search begins where the last one ended
        found = _search(self._large, wanted)
        if len(self._recent):
            found = np.maximum(found, _search(self._recent, wanted))
        out = np.empty(len(hashes), np.int64)
        out[rows] = found
        return out

    def add(self, hashes: I32, buckets: npt.NDArray[np.integer]) -> None:
        """Add unknown hashes, each once."""
        self._recent = _sorted([self._recent, _pairs(hashes, buckets)])
        if len(self._recent) > max(_SMALL, len(self._large) // 2):
            self._large = _sorted([self._large, self._recent])
            self._recent = np.empty(0, np.int64)


def _pairs(hashes: I32, buckets: int | npt.NDArray[np.integer]) -> I64:
    return (hashes.astype(np.int64) << _BUCKET_BITS) | np.asarray(buckets, np.int64)


def _sorted(pairs: list[I64]) -> I64:
    out = np.concatenate(pairs) if pairs else np.empty(0, np.int64)
    out.sort()
    return out


def _search(pairs: I64, wanted: I64) -> I64:
    if not len(pairs):
        return np.full(len(wanted), -1, np.int64)
    found = pairs[np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)]
    return np.where(found >> _BUCKET_BITS == wanted >> _BUCKET_BITS, found & ((1 << _BUCKET_BITS) - 1), -1)


def _by_hash(hashes: I32) -> tuple[I64, I64]:
    """The hashes ascending, and their rows; equal ones in order of rows."""
    order = (hashes.astype(np.int64) << 32) | np.arange(len(hashes))
    order.sort()
    return order >> 32, order & 0xFFFFFFFF


def first_seen(hashes: I32) -> tuple[I32, I64]:
    """The distinct values in order of first appearance, and for each row the number of its value among them."""
    ordered, rows = _by_hash(hashes)
    begins = np.ones(len(hashes), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    firsts = rows[begins]
    by_appearance = np.argsort(firsts)
    number = np.empty(len(firsts), np.int64)
    number[by_appearance] = np.arange(len(firsts))
    numbers = np.empty(len(hashes), np.int64)
    numbers[rows] = number[np.cumsum(begins) - 1]
    return hashes[firsts[by_appearance]], numbers


def combine(handle: TableHandle, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """Unite the HASH files that several writers made for a bucket: messages with one for each bucket. Driver only.

    The united files are removed. After an error the given messages are still valid for an abort, and no file made
    here is left.

    Raises:
        StorageError, CorruptFileError: a file could not be read or written.
    """
    found: dict[tuple[bytes, int], list[IndexManifestEntry]] = {}
    for message in messages:
        for entry in message.data.new_index_files:
            if entry.index_type == HASH:
                found.setdefault((message.partition, message.bucket), []).append(entry)
    shared = {bucket: entries for bucket, entries in found.items() if len(entries) > 1}
    if not shared:
        return list(messages)
    united = _unite(handle, shared)
    out = []
    for message in messages:
        files = message.data.new_index_files
        if (message.partition, message.bucket) in shared and any(e.index_type == HASH for e in files):
            first = united.pop((message.partition, message.bucket), None)
            kept = [e for e in files if e.index_type != HASH] + ([] if first is None else [first])
            message = replace(message, data=replace(message.data, new_index_files=tuple(kept)))
        out.append(message)
    delete_index_files(handle, [e for entries in shared.values() for e in entries])
    return out


def _unite(
    handle: TableHandle, shared: dict[tuple[bytes, int], list[IndexManifestEntry]]
) -> dict[tuple[bytes, int], IndexManifestEntry]:
    name = f"index-{uuid4()}"
    made: dict[tuple[bytes, int], IndexManifestEntry] = {}
    try:
        for (partition, bucket), entries in shared.items():
            hashes: I32 = np.unique(np.concatenate([_read(handle, e) for e in entries]))
            entry = hash_entry(partition, bucket, f"{name}-{len(made)}", len(hashes))
            made[partition, bucket] = entry
            write_hashes(handle, entry, hashes)
    except BaseException:
        with suppress(PaimonError):
            delete_index_files(handle, list(made.values()))
        raise
    return made


def _read(handle: TableHandle, entry: IndexManifestEntry) -> I32:
    store, path = index_file_place(handle, entry)
    return decode_hashes(store.read(path), store.url(path))
