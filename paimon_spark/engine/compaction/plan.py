"""The tasks that compact a snapshot, or the buckets of one write. Driver only.

After a write a bucket is compacted at once
- where level 0 is hidden: when it has files of level 0, and fully if option `full-compaction.delta-commits` says so;
- elsewhere: when it has so many sorted runs that Java's writers would wait for a compaction, or from the second run
  on where options ask for early full compactions.

Source: Java `spark/procedure/CompactProcedure`, `mergetree/MergeTreeWriter`, `mergetree/compact/EarlyFullCompaction`,
`mergetree/compact/MergeTreeCompactManager.shouldWaitForLatestCompaction`, `spark/write/DataWrite.scala`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import Touched, column, numbers
from paimon_spark.engine.commit.entries import where as selected
from paimon_spark.engine.commit.overwrite import partitions_named
from paimon_spark.engine.compaction.append import append_tasks, evolved_tasks
from paimon_spark.engine.compaction.keyed import hides_level0, keyed_tasks
from paimon_spark.engine.compaction.task import Bucket, BucketTask
from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.engine.scan.prune import Filters, manifests_wanted
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.manifest import FileKind, files_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests, read_manifests
from paimon_spark.metadata.vector_files import vector_files
from paimon_spark.predicate.ast import Predicate, conjunction

BucketIds: TypeAlias = Collection[tuple[bytes, int]]
"""Buckets, by partition (BinaryRow bytes) and number."""

_CHUNK: Final = 20_000
"""About how many files are decoded to Python objects at a time."""


def plan_compaction(
    handle: TableHandle,
    snapshot: Snapshot,
    *,
    full: bool,
    partitions: Sequence[Mapping[str, object]] | None = None,
    where: Predicate | None = None,
    buckets: BucketIds | None = None,
) -> list[BucketTask]:
    """The tasks that compact a snapshot, largest first.

    Args:
        handle: the branch, with its latest schema.
        snapshot: its head.
        full: everything into one sorted run; else only what is worth it now.
        partitions: values by partition column, text or typed; of all or some columns. None: all partitions.
        where: over partition columns only.
        buckets: only these.

    Raises:
        InvalidInputError: a partition is named wrongly.
        UnsupportedFeatureError: the table has a feature that a compaction here would break.
    """
    handle.check_writable()
    # Files of tables with keys may move to another level, with their statistics.
    moves = bool(handle.schema.primary_keys) or handle.options.data_evolution
    entries = entries_of(handle, snapshot, partitions, where, buckets, statistics=moves)
    make = evolved_tasks if handle.options.data_evolution else append_tasks
    make = keyed_tasks if handle.schema.primary_keys else make
    tasks = make(handle, buckets_of(entries, buckets), vector_files(handle, snapshot), full=full)
    return sorted(tasks, key=lambda t: t.input_bytes, reverse=True)


def entries_of(
    handle: TableHandle,
    snapshot: Snapshot,
    partitions: Sequence[Mapping[str, object]] | None,
    where: Predicate | None,
    buckets: BucketIds | None = None,
    *,
    statistics: bool = True,
) -> pa.Table:
    """The live entries of the chosen partitions, or of the partitions of `buckets`.

    Args: as `plan_compaction`, and `statistics` as `live_entries`.
    """
    named = None if partitions is None else partitions_named(handle, partitions)
    predicate = conjunction([p for p in (named, where) if p is not None])
    if buckets is not None:
        entries = _touched(handle, buckets).live(snapshot)
    else:
        metas = data_manifests(handle, snapshot)
        wanted = manifests_wanted(handle, metas, Filters(predicate))
        entries = live_entries(handle, list(itertools.compress(metas, wanted)), statistics=statistics)
    if predicate is not None and len(entries):
        found = Partitions(handle, column(entries, "partition"))
        entries = selected(entries, found.matching(predicate)[found.codes])
    return entries


def buckets_of(entries: pa.Table, only: BucketIds | None = None) -> Iterator[Bucket]:
    """Group live entries by bucket, in order of the partitions' first appearance and of bucket numbers."""
    if len(entries) == 0:
        return
    encoded = column(entries, "partition").dictionary_encode()
    partitions: list[bytes] = encoded.dictionary.to_pylist()
    codes = np.asarray(encoded.indices).astype(np.int64)
    bucket_numbers = numbers(entries, "bucket").astype(np.int64)
    order = np.lexsort((bucket_numbers, codes))
    codes, bucket_numbers = codes[order], bucket_numbers[order]
    changes = (np.diff(codes) != 0) | (np.diff(bucket_numbers) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(order)]])
    at = 0
    while at < len(starts) - 1:
        end = max(at + 1, int(np.searchsorted(starts, starts[at] + _CHUNK)) - 1)
        part = entries.take(pa.array(order[starts[at] : starts[end]]))
        files, totals = files_of(part), numbers(part, "total_buckets")
        for n in range(at, end):
            low, high = int(starts[n] - starts[at]), int(starts[n + 1] - starts[at])
            bucket_id = partitions[codes[starts[n]]], int(bucket_numbers[starts[n]])
            if only is None or bucket_id in only:
                yield Bucket(*bucket_id, int(totals[low]), files[low:high])
        at = end


def compacts_after_writes(handle: TableHandle) -> bool:
    """Whether writers compact buckets: tables with keys, unless another job compacts them."""
    return bool(handle.schema.primary_keys) and not handle.options.commit.write_only


def plan_after_write(
    handle: TableHandle, snapshot: Snapshot, written: BucketIds, batch_id: int | None = None
) -> list[BucketTask]:
    """The tasks after a write to buckets `written`. Reads the manifests that may hold files of their partitions.

    `batch_id` is that of the batch of a stream, as for `CompactionOptions.is_full_after`.
    """
    if not written or not compacts_after_writes(handle):
        return []
    wanted = buckets_to_compact(handle, snapshot, written, batch_id)
    if not wanted:
        return []
    entries = _touched(handle, wanted).live(snapshot)
    buckets = buckets_of(entries.filter(_in_buckets(entries, wanted)), wanted)
    new = (b for b in buckets if b.bucket >= 0 and any(f.level == 0 for f in b.files))
    full = handle.options.compaction.is_full_after(batch_id)
    return keyed_tasks(handle, new, vector_files(handle, snapshot), full=full)


def buckets_to_compact(
    handle: TableHandle, snapshot: Snapshot, written: BucketIds, batch_id: int | None = None
) -> set[tuple[bytes, int]]:
    """The written buckets that may need a compaction, found cheaply enough to ask after each write.

    Arguments as of `plan_after_write`.
    """
    options = handle.options.compaction
    if hides_level0(handle) or options.force_up_level0 or options.is_full_after(batch_id):
        return set(written)
    least = min(2, options.stop_trigger) if options.may_be_early else options.stop_trigger
    return set(written) if least <= 1 else _with_runs(handle, snapshot, written, least)


def _with_runs(handle: TableHandle, snapshot: Snapshot, written: BucketIds, least: int) -> set[tuple[bytes, int]]:
    """The buckets with at least `least` sorted runs, counted without decoding their files."""
    touched = _touched(handle, written)
    metas = data_manifests(handle, snapshot)
    near = [m for m, yes in zip(metas, touched.manifests(metas).tolist(), strict=True) if yes]
    if sum(m.num_added_files for m in near) < least:
        return set()
    entries = read_manifests(handle, near).select(["kind", "partition", "bucket", "level"])
    entries = entries.filter(_in_buckets(entries, written))
    counted = entries.group_by(["partition", "bucket", "level", "kind"]).aggregate([([], "count_all")]).to_pylist()
    live: dict[tuple[bytes, int], dict[int, int]] = {}
    for row in counted:
        levels = live.setdefault((row["partition"], row["bucket"]), {})
        sign = 1 if row["kind"] == FileKind.ADD else -1
        levels[row["level"]] = levels.get(row["level"], 0) + sign * row["count_all"]
    return {
        bucket_id
        for bucket_id, levels in live.items()
        if bucket_id in written and levels.pop(0, 0) + sum(count > 0 for count in levels.values()) >= least
    }


def _touched(handle: TableHandle, buckets: BucketIds) -> Touched:
    return Touched(handle, array_of(sorted({partition for partition, _ in buckets}), pa.binary()))


def _in_buckets(entries: pa.Table, buckets: BucketIds) -> pa.ChunkedArray:
    """Which entries have one of the bucket numbers, in any partition."""
    wanted = pa.array(sorted({number for _, number in buckets}), pa.int32())
    return pc.is_in(entries.column("bucket"), value_set=wanted)
