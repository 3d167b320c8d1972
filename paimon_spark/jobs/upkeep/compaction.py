"""Compaction of a branch, or of the buckets of a write; here or as a Spark job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark import progress
from paimon_spark.display import amount
from paimon_spark.engine.commit.committer import new_commit_user
from paimon_spark.engine.commit.entries import Touched, adds, column, numbers, where
from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER
from paimon_spark.engine.compaction.keyed import hides_level0
from paimon_spark.engine.compaction.plan import (
    BucketIds,
    buckets_of,
    buckets_to_compact,
    compacts_after_writes,
    entries_of,
    plan_after_write,
)
from paimon_spark.engine.compaction.rescale import RescaleTask, run_rescale_task
from paimon_spark.engine.compaction.run import Planner, Runner, compact_branch, compact_planned, run_here, run_task
from paimon_spark.engine.compaction.sorting import (
    RowOrder,
    check_order,
    cluster_tasks,
    clustering_order,
    sort_here,
    sort_tasks,
)
from paimon_spark.engine.compaction.task import BucketTask, CompactResult
from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.engine.write.request import new_job, remove_job_files
from paimon_spark.errors import CommitConflictError, CommitError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import delta_manifests, read_manifests
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot
from paimon_spark.metadata.vector_files import vector_files
from paimon_spark.predicate.ast import Predicate
from paimon_spark.redaction import get_logger
from paimon_spark.spark_port import SparkJobs, active_spark_jobs

_LOG = get_logger(__name__)

HERE_BYTES: Final = 256 << 20
"""Data files of fewer bytes are compacted before a Spark job of many tasks would have begun to work well."""


def compact_fully(handle: TableHandle) -> CompactResult:
    """Compact a branch fully, in Spark where that is worth it. Raises as `Table.compact`."""
    return compact_in_place(handle, True, None, None)


def compact_in_place(
    handle: TableHandle, full: bool, partitions: Sequence[Mapping[str, object]] | None, where: Predicate | None
) -> CompactResult:
    """Compact a branch, or some partitions, in Spark where that is worth it; rows are sorted where options ask for it.

    Args: as `plan_compaction`. Raises as `Table.compact`.
    """
    if sorts_by_options(handle):
        return cluster_branch(handle, full, partitions, where)
    return compact_branch(handle, full=full, partitions=partitions, where=where, runner=run_anywhere)


def sorts_by_options(handle: TableHandle) -> bool:
    """Whether a compaction sorts the rows of a table: it has incremental clustering."""
    return handle.options.append_compaction.clusters and not handle.schema.primary_keys


def run_anywhere(
    handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], commit_user: str
) -> Sequence[CommitMessage | None]:
    """Run tasks here when there are few bytes or no session, else as a Spark job. A `Runner`."""
    spark = _spark_for(tasks)
    if spark is None:
        return run_here(handle, snapshot, tasks, commit_user)
    job = new_job()
    work = partial(run_task, handle, snapshot, commit_user=commit_user, job=job)
    return list(spark.run_each(work, tasks, partial(remove_job_files, handle, job)))


def rescale_anywhere(
    handle: TableHandle, snapshot: Snapshot, tasks: Sequence[RescaleTask], commit_user: str
) -> Sequence[list[CommitMessage]]:
    """As `run_anywhere`, of tasks that move rows to other buckets."""
    job = new_job()
    work = partial(run_rescale_task, handle, snapshot, commit_user=commit_user, job=job)
    sweep = partial(remove_job_files, handle, job)
    spark = _spark_for(tasks)
    if spark is not None:
        return list(spark.run_each(work, tasks, sweep))
    try:
        return list(progress.counted(map(work, tasks), "rescale", "tasks", len(tasks)))
    except BaseException:
        sweep()
        raise


def _spark_for(tasks: Sequence[BucketTask] | Sequence[RescaleTask]) -> SparkJobs | None:
    """Where tasks run; None for this process."""
    return active_spark_jobs() if len(tasks) > 1 and sum(t.input_bytes for t in tasks) >= HERE_BYTES else None


def sort_branch(
    handle: TableHandle,
    order: RowOrder,
    partitions: Sequence[Mapping[str, object]] | None,
    where: Predicate | None,
) -> CompactResult:
    """Rewrite the files of a branch, or of some partitions, with their rows in order, by one snapshot of kind COMPACT.

    Args:
        handle: the branch.
        order: of the rows.
        partitions: as for `plan_compaction`, like `where`.
        where: see above.

    Raises:
        UnsupportedFeatureError: as `check_order`; or it is too much for one process, and there is no Spark session.
        Others as `compact_branch`.
    """

    def plan(current: TableHandle, head: Snapshot, again: BucketIds | None) -> list[BucketTask]:
        check_order(current, order)
        entries = entries_of(current, head, partitions, where, again)
        return sort_tasks(current, buckets_of(entries, again), vector_files(current, head))

    check_order(handle, order)  # a table without snapshots is not planned
    return compact_planned(handle, plan, new_commit_user(handle.options), _sorting(order))


def cluster_branch(
    handle: TableHandle, full: bool, partitions: Sequence[Mapping[str, object]] | None, where: Predicate | None
) -> CompactResult:
    """Sort files of a branch with incremental clustering, by one snapshot of kind COMPACT. Raises as `sort_branch`.

    Args: as `sort_branch`; with `full`, all files of a partition become one sorted level.
    """
    order = clustering_order(handle)

    def plan(current: TableHandle, head: Snapshot, again: BucketIds | None) -> list[BucketTask]:
        if clustering_order(current) != order:
            raise CommitConflictError(
                f"the clustering columns of {current.describe()} changed while it was compacted; compact it again",
                table=current.name,
            )
        entries = entries_of(current, head, partitions, where, again)
        return cluster_tasks(current, buckets_of(entries, again), vector_files(current, head), full=full)

    return compact_planned(handle, plan, new_commit_user(handle.options), _sorting(order))


def _sorting(order: RowOrder) -> Runner:
    """Runner of sorting tasks: in this process for few bytes, else as Spark jobs."""

    def run(
        current: TableHandle, head: Snapshot, tasks: Sequence[BucketTask], commit_user: str
    ) -> Sequence[CommitMessage | None]:
        size, spark = sum(t.input_bytes for t in tasks), active_spark_jobs()
        if size < HERE_BYTES:
            return sort_here(current, head, tasks, commit_user, order)
        if spark is None:
            raise UnsupportedFeatureError(
                f"{current.describe()} has {amount(size)} of files to sort, which needs a Spark session: start one, or "
                "choose partitions with fewer",
                feature="sort compaction without Spark",
                table=current.name,
            )
        return spark.run_sort(current, head, tasks, commit_user, order)

    return run


Written: TypeAlias = Mapping[tuple[bytes, int], frozenset[str]]
"""Names of new files by partition and bucket."""


def compact_written(
    handle: TableHandle, commit_user: str, messages: Sequence[CommitMessage], snapshot_ids: Sequence[int]
) -> tuple[int, ...]:
    """Compact the buckets that `messages` wrote, where needed; return the ids of the snapshots made.

    When others compact the same buckets meanwhile, the new files that remain at level 0 are planned again. A failure is
    logged, and the next write tries again, unless rows are visible only after the compaction.

    Raises:
        CommitError: the rows are committed as `snapshot_ids`, but are visible only after a compaction, which failed.
    """
    if not snapshot_ids or not compacts_after_writes(handle):
        return ()
    return _Compaction(handle, commit_user, snapshot_ids[-1]).run(_new_files(messages))


def compact_batch(
    handle: TableHandle,
    commit_user: str,
    batch: Snapshot,
    messages: Sequence[CommitMessage] | None = None,
    properties: Mapping[str, str] | None = None,
) -> tuple[int, ...]:
    """As `compact_written`, after the snapshot `batch` of a stream; does nothing when that was done before.

    The compaction has the identifier of the batch, as later batches must not look committed. Without `messages` the
    files that the snapshot added are looked up. `properties` are stored in the snapshot of the compaction.
    """
    if not compacts_after_writes(handle):
        return ()
    if messages is None:
        entries = read_manifests(handle, delta_manifests(handle, batch))
        written = _files_of(where(entries, adds(entries) & (numbers(entries, "level") == 0)))
    else:
        written = _new_files(messages)
    again = "Start the query again to try it again: the batch is not written a second time"
    return _Compaction(handle, commit_user, batch.id, batch.commit_identifier, again, properties, batch).run(written)


@dataclass(frozen=True, slots=True)
class _Compaction:
    """The compaction after one commit.

    Attributes:
        identifier: of the compaction among the user's commits.
        again: how to try it again, for messages.
        properties: stored in the snapshot.
        batch: nothing is compacted when the branch has lost it, as the compaction would be taken for the batch.
    """

    handle: TableHandle
    commit_user: str
    snapshot_id: int
    identifier: int = BATCH_COMMIT_IDENTIFIER
    again: str = "Write any row to their buckets to try it again"
    properties: Mapping[str, str] | None = None
    batch: Snapshot | None = None

    def run(self, written: Written) -> tuple[int, ...]:
        if not written:
            return ()

        def plan(current: TableHandle, head: Snapshot, again: BucketIds | None) -> list[BucketTask]:
            if not self._holds_batch(current, head):
                return []
            places = set(written) if again is None else set(again) & _waiting(current, head, written)
            return plan_after_write(current, head, places, self._batch_id) if places else []

        if not hides_level0(self.handle):
            return self._if_many(written, plan)
        try:
            return self._compacted(plan)
        except Exception as e:
            raise CommitError(
                f"the rows are in {self.handle.describe()}, as snapshot {self.snapshot_id}: do not write them again. "
                f"But they are seen only after a compaction, which failed: {e}. {self.again}",
                table=self.handle.name,
                branch=self.handle.branch,
                snapshot_id=self.snapshot_id,
            ) from e

    @property
    def _batch_id(self) -> int | None:
        return None if self.batch is None else self.batch.commit_identifier

    def _holds_batch(self, current: TableHandle, head: Snapshot) -> bool:
        if self.batch is None:
            return True
        found = head if head.id == self.batch.id else find_snapshot(current, self.batch.id)
        is_same = found is None or found.delta_manifest_list == self.batch.delta_manifest_list
        return head.id >= self.batch.id and is_same

    def _compacted(self, plan: Planner) -> tuple[int, ...]:
        made = compact_planned(
            self.handle, plan, self.commit_user, identifier=self.identifier, properties=self.properties
        )
        return made.snapshot_ids

    def _if_many(self, written: Written, plan: Planner) -> tuple[int, ...]:
        """Compact the buckets that have many sorted runs. Raises nothing."""
        try:
            head = latest_snapshot(self.handle)
            if head is None or not buckets_to_compact(self.handle, head, written.keys(), self._batch_id):
                return ()
            return self._compacted(plan)
        except Exception as e:  # noqa: BLE001 - the rows are in and seen; nothing may make their write look failed
            _LOG.warning(
                "the rows are in %s, but a compaction after the write failed: %s. The next write to the same buckets "
                "tries again; so does compact() of the table",
                self.handle.describe(),
                e,
            )
            return ()


def _files_of(entries: pa.Table) -> Written:
    columns = (column(entries, name).to_pylist() for name in ("partition", "bucket", "file_name"))
    return _by_bucket(zip(*columns, strict=True))


def _new_files(messages: Sequence[CommitMessage]) -> Written:
    return _by_bucket((m.partition, m.bucket, f.file_name) for m in messages for f in m.data.new_files)


def _by_bucket(files: Iterable[tuple[bytes, int, str]]) -> Written:
    names: dict[tuple[bytes, int], set[str]] = {}
    for partition, bucket, name in files:
        names.setdefault((partition, bucket), set()).add(name)
    return {place: frozenset(found) for place, found in names.items()}


def _waiting(handle: TableHandle, head: Snapshot, written: Written) -> set[tuple[bytes, int]]:
    """The buckets where a file of `written` is still at level 0; files that others wrote since do not count."""
    entries = Touched(handle, array_of(sorted({p for p, _ in written}), pa.binary())).live(head)
    entries = where(entries, numbers(entries, "level") == 0)
    names = array_of(sorted(set().union(*written.values())), pa.string())
    entries = entries.filter(pc.is_in(column(entries, "file_name"), value_set=names))
    return {place for place, found in _files_of(entries).items() if found & written.get(place, frozenset())}
