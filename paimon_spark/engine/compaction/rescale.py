"""Rescaling: the rows of partitions in another number of buckets, merged while they move.

A row goes to the bucket that its hash says, modulo the number of buckets. So only buckets that are equal modulo the
greatest common divisor of the old and the new number exchange rows; the others are tasks of their own. The files of
such buckets are read as if they were one bucket, once for some of the new buckets.

Source: Java `spark/procedure/RescaleProcedure`, which overwrites partitions with the rows that it reads. Here rows that
wait in level 0 for a compaction come along, and only writes to the same partitions are conflicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.engine.commit.requests import ROWS_STAY
from paimon_spark.engine.compaction.append import check_append
from paimon_spark.engine.compaction.bucket_merge import BucketMerge, Output
from paimon_spark.engine.compaction.pick import last_level
from paimon_spark.engine.compaction.plan import buckets_of, entries_of
from paimon_spark.engine.compaction.run import compact_branch, rewrite_head
from paimon_spark.engine.compaction.task import Bucket, CompactResult, read_request
from paimon_spark.engine.merge.runs import key_ranks, sections
from paimon_spark.engine.read.metadata_columns import stored_rows
from paimon_spark.engine.tasks import CommitMessage, DataSplit, DeletionFile, Increment, ReadRequest, SplitMode
from paimon_spark.engine.write.data_files import DataFiles, RollingWriter
from paimon_spark.engine.write.request import WriteRequest, check_file_schemas
from paimon_spark.errors import DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format import bucket_hash
from paimon_spark.format.arrays.nested import shown_rows
from paimon_spark.format.arrays.pieces import divided
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.vector_files import vector_files
from paimon_spark.options.core import ChangelogProducer
from paimon_spark.predicate.ast import Predicate
from paimon_spark.text import sql_row

_MOST_BUCKETS: Final = 32_767
_OPEN_FILES: Final = 16
"""New buckets that a task writes at once."""


@dataclass(frozen=True, slots=True)
class RescaleTask:
    """Rows of some buckets of a partition that go to some new buckets. Picklable.

    Attributes:
        total_buckets: the new number of buckets.
        step: buckets that are equal modulo this exchange rows.
        sources: the old buckets, with all their files.
        vectors: index files with their deletion vectors.
        targets: the new buckets.
        removes: whether this task also names the old files as deleted; one task of those with the same sources does.
    """

    partition: bytes
    total_buckets: int
    step: int
    sources: tuple[Bucket, ...]
    vectors: tuple[IndexManifestEntry, ...]
    targets: tuple[int, ...]
    removes: bool

    @property
    def files(self) -> list[DataFileMeta]:
        """Of all old buckets."""
        return [f for bucket in self.sources for f in bucket.files]

    @property
    def input_bytes(self) -> int:
        """About how many bytes are read."""
        return sum(f.file_size for f in self.files)


Runner: TypeAlias = Callable[[TableHandle, Snapshot, Sequence[RescaleTask], str], Sequence[list[CommitMessage]]]
"""Runs tasks: (handle, snapshot, tasks, commit user) → the results of `run_rescale_task`, in order. After an error it
leaves no file."""


def rescale_branch(
    handle: TableHandle,
    buckets: int | None,
    runner: Runner,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
    where: Predicate | None = None,
) -> CompactResult:
    """Put the rows of partitions into another number of buckets, by one snapshot of kind OVERWRITE.

    Partitions that have that number already stay as they are, as do rows in the postponed bucket. Tables whose
    changelog is made by compactions are compacted first.

    Args:
        handle: the branch.
        buckets: the new number; None: that of option `bucket`.
        runner: runs the tasks.
        partitions: values by partition column; None: all partitions.
        where: over partition columns only.

    Raises:
        InvalidInputError: the number is missing or too large, or a partition is named wrongly.
        UnsupportedFeatureError: the table has no buckets of a fixed number.
        DataError: a row lies in another bucket than its hash says.
        Others as `rewrite_head`.
    """
    user = new_commit_user(handle.options)
    check_rescale(handle, buckets)

    def make(current: TableHandle, head: Snapshot) -> list[CommitMessage] | None:
        total = check_rescale(current, buckets)
        entries = entries_of(current, head, partitions, where)
        there = [b for b in buckets_of(entries) if b.bucket >= 0 and b.total_buckets not in (0, total)]
        if any(_has_pending_changelog(current, b) for b in there):
            full = current.options.changelog_producer is ChangelogProducer.FULL_COMPACTION
            made = compact_branch(current, full=full, partitions=partitions, where=where)
            if made.snapshot_ids:
                return None
        tasks = rescale_tasks(current, there, vector_files(current, head), total)
        return [m for messages in runner(current, head, tasks, user) for m in messages] if tasks else []

    return rewrite_head(handle, user, make, alone=True, properties={ROWS_STAY: "true"})


def check_rescale(handle: TableHandle, buckets: int | None) -> int:
    """The new number of buckets. Raises as `rescale_branch`."""
    option = handle.options.bucket
    if option != POSTPONE_BUCKET and option <= 0:
        has = "dynamic buckets, whose number grows by itself" if handle.schema.primary_keys else "no buckets"
        raise UnsupportedFeatureError(
            f"{handle.describe()} cannot be rescaled: it has {has} (option bucket = {option})",
            feature="rescale of tables without a fixed number of buckets",
            table=handle.name,
        )
    if not handle.schema.primary_keys:
        check_append(handle)
    if buckets is None and option == POSTPONE_BUCKET:
        raise InvalidInputError(
            f"the buckets of {handle.describe()} are postponed, so the number of buckets must be given",
            argument="buckets",
        )
    total: object = option if buckets is None else buckets
    if isinstance(total, bool) or not isinstance(total, int) or not 1 <= total <= _MOST_BUCKETS:
        raise InvalidInputError(
            f"buckets = {total!r} for {handle.describe()}: expected a whole number from 1 to {_MOST_BUCKETS:,}",
            argument="buckets",
        )
    return total


def _has_pending_changelog(handle: TableHandle, bucket: Bucket) -> bool:
    """Whether a compaction has yet to write the changelog of some files."""
    producer = handle.options.changelog_producer
    if producer is ChangelogProducer.LOOKUP:
        return any(f.level == 0 for f in bucket.files)
    last = last_level(bucket.files, handle.options.num_levels)
    return producer is ChangelogProducer.FULL_COMPACTION and any(f.level < last for f in bucket.files)


def rescale_tasks(
    handle: TableHandle,
    buckets: Iterable[Bucket],
    vectors: Mapping[tuple[bytes, int], Sequence[IndexManifestEntry]],
    total: int,
) -> list[RescaleTask]:
    """The tasks that move the rows of buckets to `total` new ones, largest first."""
    by_partition: dict[bytes, list[Bucket]] = {}
    for bucket in buckets:
        check_file_schemas(handle, max(f.schema_id for f in bucket.files), "its rescaling was planned")
        by_partition.setdefault(bucket.partition, []).append(bucket._replace(files=tuple(bucket.files)))
    out = []
    for partition, there in by_partition.items():
        step = math.gcd(total, *(b.total_buckets for b in there))
        for group in range(step):
            sources = tuple(b for b in there if b.bucket % step == group)
            index = tuple(e for b in sources for e in vectors.get((partition, b.bucket), ()))
            targets = range(group, total, step)
            for start in range(0, len(targets) if sources else 0, _OPEN_FILES):
                some = tuple(targets[start : start + _OPEN_FILES])
                out.append(RescaleTask(partition, total, step, sources, index, some, removes=not start))
    return sorted(out, key=lambda t: t.input_bytes, reverse=True)


def run_rescale_task(
    handle: TableHandle, snapshot: Snapshot, task: RescaleTask, commit_user: str, job: str | None = None
) -> list[CommitMessage]:
    """Write the files of the new buckets of a task. Executor; commits nothing; after an error no file is left.

    Raises:
        DataError: rows cannot be merged as the table demands, or lie in the wrong bucket.
        CorruptFileError, StorageError: a file cannot be read or written.
    """
    last = last_level(task.files, handle.options.num_levels)
    out = _NewBuckets(WriteRequest(handle, commit_user, snapshot, job=job), task, last)
    try:
        request, split = _read_together(handle, snapshot, task)
        if handle.schema.primary_keys:
            ranks = key_ranks(split.files, [f.type for f in handle.schema.key_type])
            BucketMerge(handle, request, split, last, last).write(sections(ranks), Output(out, None))
        else:
            order = [(f.min_sequence_number, f.max_sequence_number, n) for n, f in enumerate(split.files)]
            for _, _, number in sorted(order):
                for _, batch in stored_rows(request, split, number):
                    out.write(batch)
        return out.close()
    except BaseException:
        out.abort()
        raise


def _read_together(handle: TableHandle, snapshot: Snapshot, task: RescaleTask) -> tuple[ReadRequest, DataSplit]:
    """How to read the files of all old buckets as those of one."""
    mode = SplitMode.MERGE if handle.schema.primary_keys else SplitMode.RAW
    request, _ = read_request(handle, snapshot, task.sources[0]._replace(files=task.files), mode)
    splits = [read_request(handle, snapshot, bucket, mode, task.vectors)[1] for bucket in task.sources]
    deletions: list[DeletionFile | None] = []
    elsewhere: list[tuple[str, str]] = []
    for split in splits:
        deletions += split.deletions or [None] * len(split.files)
        elsewhere += [(f.file_name, split.bucket_path) for f in split.files if split is not splits[0]]
        elsewhere += split.elsewhere
    together = replace(
        splits[0],
        files=tuple(f for split in splits for f in split.files),
        deletions=tuple(deletions) if any(deletions) else (),
        elsewhere=tuple(elsewhere),
    )
    return request, together


class _NewBuckets:
    """Divides rows among the new buckets of a task. Rows come in the order of each bucket's files."""

    def __init__(self, request: WriteRequest, task: RescaleTask, level: int) -> None:
        self._request, self._task = request, task
        self._level = level if request.handle.schema.primary_keys else 0
        self._first = min(f.min_sequence_number for f in task.files)
        self._keys = list(request.handle.schema.bucket_keys)
        self._writers: dict[int, RollingWriter] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows as `RollingWriter` takes them. Raises DataError: one lies in the wrong bucket."""
        task, handle = self._task, self._request.handle
        numbers = bucket_hash.buckets(batch.select(self._keys), task.total_buckets, handle.options.bucket_function)
        astray = np.flatnonzero(numbers % task.step != task.targets[0] % task.step)
        if len(astray):
            (row,) = shown_rows(batch.slice(int(astray[0]), 1).select(self._keys))
            raise DataError(
                f"{handle.describe()} has the row with {sql_row(row)} in another bucket than its bucket function says, "
                "so it cannot be rescaled; write the rows of this partition again with INSERT OVERWRITE",
                table=handle.name,
            )
        if len(task.targets) * task.step < task.total_buckets:
            ours = np.isin(numbers, task.targets)
            batch, numbers = batch.filter(pa.array(ours)), numbers[ours]
        for number, rows in divided(batch, numbers):
            self._writer(number).write(rows)

    def _writer(self, number: int) -> RollingWriter:
        found = self._writers.get(number)
        if found is None:
            keeps_row_ids = self._request.handle.options.row_tracking
            files = DataFiles(self._request, self._task.partition, number, keeps_row_ids=keeps_row_ids)
            found = self._writers[number] = files.data(self._level, FileSource.COMPACT, self._first)
        return found

    def close(self) -> list[CommitMessage]:
        """Finish the files; the messages of the new buckets, and those that remove the old files."""
        task = self._task
        out = [
            CommitMessage(task.partition, number, task.total_buckets, Increment(writer.close()))
            for number, writer in sorted(self._writers.items())
        ]
        for source in task.sources if task.removes else ():
            index = tuple(e for e in task.vectors if e.bucket == source.bucket)
            gone = Increment(deleted_files=tuple(source.files), deleted_index_files=index)
            out.append(CommitMessage(task.partition, source.bucket, source.total_buckets, gone))
        return out

    def abort(self) -> None:
        """Remove the files made. Raises nothing."""
        for writer in self._writers.values():
            writer.abort()
