"""Which buckets a write leaves to be compacted at once.

Where level 0 is hidden, each with files of level 0, and fully where option `full-compaction.delta-commits` asks for it.
Elsewhere those whose sorted runs have become so many that Java's writers would wait for a compaction: readers merge all
of them. Options that make all of a bucket be merged early are looked at from the second sorted run on.

Source: Java `mergetree/MergeTreeWriter`, `mergetree/compact/MergeTreeCompactManager.shouldWaitForLatestCompaction`,
`mergetree/compact/EarlyFullCompaction`, `spark/write/DataWrite.scala` (`needFullCompaction`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import Touched
from paimon_spark.engine.compaction.keyed import hides_level0, keyed_tasks
from paimon_spark.engine.compaction.run import Places, buckets_of
from paimon_spark.engine.compaction.task import BucketTask
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import data_manifests, read_manifests
from paimon_spark.metadata.vector_files import vector_files


def compacts_after_writes(handle: TableHandle) -> bool:
    """Whether writers look for buckets to compact: tables with keys, unless another job compacts them."""
    return bool(handle.schema.primary_keys) and not handle.options.commit.write_only


def buckets_to_compact(handle: TableHandle, snapshot: Snapshot, written: Places) -> set[tuple[bytes, int]]:
    """Those of the written buckets that may need it, as cheaply as each write can ask. Args: as `plan_after_write`."""
    least = _least_runs(handle)
    return set(written) if least <= 1 else _with_runs(handle, snapshot, written, least)


def plan_after_write(handle: TableHandle, snapshot: Snapshot, written: Places) -> list[BucketTask]:
    """The tasks that a write to some buckets leaves. Reads the manifests that may hold files of their partitions.

    Args:
        handle: the branch, with its latest schema.
        snapshot: its head.
        written: the buckets.
    """
    if not written or not compacts_after_writes(handle):
        return []
    wanted = buckets_to_compact(handle, snapshot, written)
    if not wanted:
        return []
    entries = Touched(handle, array_of(sorted({p for p, _ in wanted}), pa.binary())).live(snapshot)
    buckets = buckets_of(entries.filter(_in_buckets(entries, wanted)), wanted)
    new = (b for b in buckets if b.bucket >= 0 and any(f.level == 0 for f in b.files))
    full = handle.options.compaction.full_after_writes
    return keyed_tasks(handle, new, vector_files(handle, snapshot), full=full)


def _least_runs(handle: TableHandle) -> int:
    """So many sorted runs make a bucket be looked at."""
    options = handle.options.compaction
    if hides_level0(handle) or options.force_up_level0 or options.full_after_writes:
        return 1
    return min(2, options.stop_trigger) if options.may_be_early else options.stop_trigger


def _with_runs(handle: TableHandle, snapshot: Snapshot, written: Places, least: int) -> set[tuple[bytes, int]]:
    """Those of the buckets that have at least so many sorted runs: what is live of them is counted, not described."""
    touched = Touched(handle, array_of(sorted({p for p, _ in written}), pa.binary()))
    metas = data_manifests(handle, snapshot)
    near = [m for m, yes in zip(metas, touched.manifests(metas).tolist(), strict=True) if yes]
    if sum(m.num_added_files for m in near) < least:
        return set()
    entries = read_manifests(handle, near).select(["kind", "partition", "bucket", "level"])
    entries = entries.filter(_in_buckets(entries, written))
    out = set()
    counted = entries.group_by(["partition", "bucket", "level", "kind"]).aggregate([([], "count_all")]).to_pylist()
    live: dict[tuple[bytes, int], dict[int, int]] = {}
    for row in counted:
        levels = live.setdefault((row["partition"], row["bucket"]), {})
        sign = 1 if row["kind"] == FileKind.ADD else -1
        levels[row["level"]] = levels.get(row["level"], 0) + sign * row["count_all"]
    for place, levels in live.items():
        runs = levels.pop(0, 0) + sum(count > 0 for count in levels.values())
        if place in written and runs >= least:
            out.add(place)
    return out


def _in_buckets(entries: pa.Table, places: Places) -> pa.ChunkedArray:
    """Which entries have the number of one of the buckets, in whatever partition."""
    wanted = pa.array(sorted({b for _, b in places}), pa.int32())
    return pc.is_in(entries.column("bucket"), value_set=wanted)
