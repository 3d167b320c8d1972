"""Splits of a read that merges the rows of postponed buckets.

Each bucket of a partition with waiting rows becomes one split with all waiting files. Their rows have no bucket yet, so
each of these splits reads all of them and keeps those of its bucket. Splits of other partitions stay as they are.

Source: Java `table/source/PostponeMergeReadBuilder`, `table/PostponeUtils`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from paimon_spark.engine.scan.buckets import BucketFilter
from paimon_spark.engine.tasks.split import DataSplit, DeletionFile, SplitMode
from paimon_spark.errors import DataError, UnsupportedFeatureError
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.partition_path import PartitionDirectories

_OPTION = "postpone.merge-on-read"


def merges_postponed(handle: TableHandle) -> bool:
    """Whether batch reads of the table merge the rows of its postponed bucket."""
    options = handle.options
    return (
        bool(handle.schema.primary_keys)
        and options.bucket == POSTPONE_BUCKET
        and options.postponed_bucket.merge_on_read
    )


def unmerged(handle: TableHandle, what: str) -> UnsupportedFeatureError:
    """The error for a read that cannot merge waiting rows; Java refuses it too."""
    return UnsupportedFeatureError(
        f"{handle.describe()} has {_OPTION} = true, with which {what} is not possible: only batch reads of one version "
        f"merge the rows that wait in bucket-postpone; set the option {_OPTION} to false to read without them",
        feature=_OPTION,
        table=handle.name,
    )


def with_postponed_rows(
    handle: TableHandle, splits: Sequence[DataSplit], wanted: BucketFilter | None
) -> Sequence[DataSplit]:
    """The splits with those of postponed buckets divided among the buckets of their partitions.

    A partition without files in buckets is divided as a compaction would; where such files were skipped they hold no
    wanted key, and any division is right.

    Raises:
        DataError: the files of a partition were written for different numbers of buckets.
    """
    waiting: dict[bytes, list[DataSplit]] = {}
    for split in splits:
        if split.bucket == POSTPONE_BUCKET:
            waiting.setdefault(split.partition, []).append(split)
    if not waiting:
        return splits
    out = [s for s in splits if s.partition not in waiting]
    directories = PartitionDirectories(handle)
    for partition, late in waiting.items():
        placed: dict[int, list[DataSplit]] = {}
        for split in splits:
            if split.partition == partition and split.bucket != POSTPONE_BUCKET:
                placed.setdefault(split.bucket, []).append(split)
        total = _bucket_count(handle, late, placed)
        for bucket in _buckets(handle, total, wanted):
            path = directories.bucket_path(partition, bucket)
            out.append(_merged(late, placed.get(bucket, []), bucket, path, total))
    return tuple(out)


def _bucket_count(handle: TableHandle, late: Iterable[DataSplit], placed: dict[int, list[DataSplit]]) -> int:
    found = {s.total_buckets for s in chain.from_iterable(placed.values())}
    if not found:
        rows = sum(s.row_count for s in late)
        return handle.options.postponed_bucket.buckets_of_new_partition(rows)
    if len(found) > 1 or min(found) <= max(placed):
        example = next(chain.from_iterable(placed.values())).bucket_path
        raise DataError(
            f"{handle.describe()} has files for {' and for '.join(map(str, sorted(found)))} buckets in one partition "
            f"(see {example}), so the bucket of a waiting row is not known; compact the table, or set the option "
            f"{_OPTION} to false",
            table=handle.name,
        )
    return found.pop()


def _buckets(handle: TableHandle, total: int, wanted: BucketFilter | None) -> list[int]:
    """The buckets that may hold a wanted key."""
    numbers = np.arange(total, dtype=np.int32)
    if wanted is not None:
        schema = handle.schema
        totals, ids = np.full(total, total, np.int32), np.full(total, schema.id, np.int64)
        numbers = numbers[wanted.wanted(numbers, totals, ids, {schema.id: schema})]
    return numbers.tolist()


def _merged(late: Sequence[DataSplit], placed: Sequence[DataSplit], bucket: int, path: str, total: int) -> DataSplit:
    """One split of a bucket: its files, and the waiting ones in the order in which they were made."""
    files = sorted(chain.from_iterable(s.files for s in late), key=lambda f: f.creation_time_ms or 0)
    before = tuple(chain.from_iterable(s.files for s in placed))
    vectors: tuple[DeletionFile | None, ...] = tuple(s.deletion_of(i) for s in placed for i in range(len(s.files)))
    elsewhere = {f.file_name: s.path_of(f).rpartition("/")[0] for s in late for f in s.files}
    elsewhere.update(chain.from_iterable(s.elsewhere for s in placed))
    return replace(
        late[0],
        bucket=bucket,
        bucket_path=path,
        mode=SplitMode.POSTPONED,
        files=tuple(files),
        before_files=before,
        before_deletions=vectors if any(v is not None for v in vectors) else (),
        total_buckets=total,
        elsewhere=tuple(elsewhere.items()),
    )
