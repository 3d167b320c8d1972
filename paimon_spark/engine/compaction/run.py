"""A compaction of a table: plan (driver) → BucketTasks → run_task (executor) → CommitMessages → commit (driver).

Source: Java `spark/procedure/CompactProcedure`, `operation/AbstractFileStoreWrite.compact`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_spark import progress
from paimon_spark.display import ShownAsFacts
from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.entries import Touched, column, numbers, where
from paimon_spark.engine.commit.overwrite import partitions_named
from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER, PlannedOn
from paimon_spark.engine.compaction.append import append_tasks, run_append_task
from paimon_spark.engine.compaction.interrupted import compacted_by_twin, expired_under_way
from paimon_spark.engine.compaction.keyed import compact_bucket, keyed_tasks
from paimon_spark.engine.compaction.task import Bucket, BucketTask
from paimon_spark.engine.scan.file_stats import Partitions
from paimon_spark.engine.scan.prune import manifests_wanted
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.errors import CommitConflictError, CommitOutcomeUnknownError
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.retry import Clock, Retries
from paimon_spark.metadata.snapshots import is_alive, latest_snapshot
from paimon_spark.metadata.vector_files import vector_files
from paimon_spark.predicate.ast import Predicate, conjunction

Places: TypeAlias = Collection[tuple[bytes, int]]
"""Buckets, by partition (BinaryRow bytes) and number."""
Runner: TypeAlias = Callable[[TableHandle, Snapshot, Sequence[BucketTask], str], Sequence[CommitMessage | None]]
"""Runs tasks, wherever: (handle, snapshot, tasks, commit user) → what `run_task` says of each, in their order.

After an error it leaves no file."""
Planner: TypeAlias = Callable[[TableHandle, Snapshot, Places | None], list[BucketTask]]
"""Plans: (branch with its latest schema, its head, only these buckets) → tasks."""

_THREADS: Final = 2
"""Tasks that run beside each other in one process; each may hold a window of rows of all runs it merges."""
_CHUNK: Final = 20_000
"""About so many files are described as Python objects at a time."""


@dataclass(frozen=True, slots=True)
class CompactResult(ShownAsFacts):
    """What a compaction did.

    Attributes:
        snapshot: the snapshot that holds the compacted state: the one made, or, when there was nothing to do, the head
            that was looked at. None when the branch has no snapshot.
        snapshot_ids: the snapshots made; empty when there was nothing to do.
        buckets: buckets changed.
        files_before: data files that went, those included that only moved to another level.
        files_after: data files that took their place.
        bytes_before, bytes_after: their bytes.
    """

    snapshot: Snapshot | None = None
    snapshot_ids: tuple[int, ...] = ()
    buckets: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def plan_compaction(
    handle: TableHandle,
    snapshot: Snapshot,
    *,
    full: bool,
    partitions: Sequence[Mapping[str, object]] | None = None,
    where: Predicate | None = None,
    buckets: Places | None = None,
) -> list[BucketTask]:
    """The tasks that compact a snapshot, those of most bytes first; none where nothing is to do.

    Args:
        handle: the branch, with its latest schema.
        snapshot: its head.
        full: everything into one sorted run; otherwise only what is worth it by now.
        partitions: values by partition column, text or typed; of all or some columns. None: all partitions.
        where: over partition columns only.
        buckets: only these.

    Raises:
        InvalidInputError: a partition is named wrongly.
        UnsupportedFeatureError: the table has something that would be compacted wrongly.
    """
    handle.check_writable()
    entries = entries_of(handle, snapshot, partitions, where, buckets)
    make = keyed_tasks if handle.schema.primary_keys else append_tasks
    tasks = make(handle, buckets_of(entries, buckets), vector_files(handle, snapshot), full=full)
    return sorted(tasks, key=lambda t: t.input_bytes, reverse=True)


def entries_of(
    handle: TableHandle,
    snapshot: Snapshot,
    partitions: Sequence[Mapping[str, object]] | None,
    condition: Predicate | None,
    buckets: Places | None = None,
) -> pa.Table:
    """The live entries of the partitions that `plan_compaction` is asked for, with those of other buckets of them."""
    named = None if partitions is None else partitions_named(handle, partitions)
    predicate = conjunction([p for p in (named, condition) if p is not None])
    if buckets is not None:
        entries = Touched(handle, array_of(sorted({p for p, _ in buckets}), pa.binary())).live(snapshot)
    else:
        metas = data_manifests(handle, snapshot)
        wanted = manifests_wanted(
            metas, handle.schema.partition_type, predicate, real_buckets_only=False, lowest_level=0
        )
        entries = live_entries(handle, [m for m, yes in zip(metas, wanted.tolist(), strict=True) if yes])
    if predicate is not None and len(entries):
        found = Partitions(handle, column(entries, "partition"))
        entries = where(entries, found.matching(predicate)[found.codes])
    return entries


def buckets_of(entries: pa.Table, only: Places | None = None) -> Iterator[Bucket]:
    """The buckets that live entries are of, with their files, by partition as it first appears and number.

    Args:
        entries: live entries.
        only: other buckets are left out.
    """
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
            place = partitions[codes[starts[n]]], int(bucket_numbers[starts[n]])
            if only is None or place in only:
                yield Bucket(*place, int(totals[low]), files[low:high])
        at = end


def run_task(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, commit_user: str, job: str | None = None
) -> CommitMessage | None:
    """Do one task; None when it turned out that there is nothing to change. Commits nothing. Executor.

    Args:
        handle: the branch the task was planned with.
        snapshot: the one it was planned on.
        task: what to do.
        commit_user: who will commit.
        job: of `job_files.new_job`, when files of killed tasks are to be found again by their names.

    Raises:
        DataError: rows cannot be merged as the table demands.
        CorruptFileError, StorageError: a file cannot be read or written; no file of the task is left.
        UnsupportedFeatureError: a file cannot be read.
    """
    run = run_append_task if task.unit is None else compact_bucket
    message = run(handle, snapshot, task, commit_user, job)
    return message if message.compact else None


def run_here(
    handle: TableHandle, snapshot: Snapshot, tasks: Sequence[BucketTask], commit_user: str
) -> list[CommitMessage | None]:
    """Run tasks in this process, a few beside each other. After an error no file of them is left."""
    done: list[CommitMessage | None] = []
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="paimon-compact") as pool:
        futures = [pool.submit(run_task, handle, snapshot, task, commit_user) for task in tasks]
        try:
            results = (future.result() for future in futures)
            done = list(progress.counted(results, "compact", "buckets", len(tasks)))
        except BaseException:
            for future in futures:
                future.cancel()
            pool.shutdown(wait=True)
            finished = [f.result() for f in futures if not f.cancelled() and f.exception() is None]
            Committer(handle, commit_user).abort([m for m in finished if m is not None])
            raise
    return done


def compact_table(
    handle: TableHandle,
    *,
    full: bool,
    partitions: Sequence[Mapping[str, object]] | None = None,
    where: Predicate | None = None,
    runner: Runner = run_here,
) -> CompactResult:
    """Compact a branch and commit that as one snapshot of kind COMPACT. Option `write-only` plays no part.

    When others change the same buckets meanwhile, those buckets are looked at again.

    Args:
        handle: the branch.
        full: as for `plan_compaction`, like what follows.
        partitions: as said.
        where: as said.
        runner: runs the tasks.

    Raises:
        CommitConflictError, CommitRetriesExhaustedError: others were faster every time; no file is left.
        CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
        PaimonError: as `plan_compaction` and `run_task`; the table is as before.
    """

    def plan(current: TableHandle, head: Snapshot, buckets: Places | None) -> list[BucketTask]:
        return plan_compaction(current, head, full=full, partitions=partitions, where=where, buckets=buckets)

    return compact_planned(handle, plan, new_commit_user(handle.options), runner)


def compact_planned(
    handle: TableHandle,
    plan: Planner,
    commit_user: str,
    runner: Runner = run_here,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    properties: Mapping[str, str] | None = None,
) -> CompactResult:
    """Plan, run, commit; and again, for the buckets of the first plan, when others changed what was compacted.

    Results of tasks that would be the same again are kept. Raises as `compact_table`.

    Args:
        handle: the branch.
        plan: makes the tasks.
        commit_user: who commits.
        runner: runs the tasks.
        identifier: number of the commit among the user's; that of the batch whose rows a stream compacts.
        properties: kept in the snapshot.
    """
    attempts = _Attempts(handle, plan, commit_user, runner, identifier, properties)
    retries = Retries(handle.options.commit, Clock())
    try:
        while (result := attempts.next()) is None:
            if not retries.again():
                raise attempts.conflict
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        attempts.abort()
        raise
    return result


class _Attempts:
    """The attempts of one compaction, and the files they have made so far.

    Attributes:
        conflict: why the last attempt failed.
    """

    def __init__(
        self,
        handle: TableHandle,
        plan: Planner,
        commit_user: str,
        runner: Runner,
        identifier: int,
        properties: Mapping[str, str] | None,
    ) -> None:
        self._handle = handle
        self._plan = plan
        self._user = commit_user
        self._runner = runner
        self._identifier = identifier
        self._properties = properties
        self._committer = Committer(handle, commit_user)
        self._places: set[tuple[bytes, int]] | None = None
        self._tasks: Sequence[BucketTask] = ()
        self._made: list[CommitMessage | None] = []
        self.conflict = CommitConflictError("no attempt was made")

    def next(self) -> CompactResult | None:
        """One attempt; None where others changed what it compacted, and another may go better."""
        current, head = self._opened()
        if head is None:
            self.abort()
            return CompactResult()
        try:
            tasks = self._plan(current, head, self._places)
            if self._places is None:
                self._places = {(t.partition, t.bucket) for t in tasks}
            messages = self._run(current, head, tasks)
        except Exception as e:
            if is_alive(current, head):
                raise
            self.conflict = expired_under_way(current, head)
            self.conflict.__cause__ = e
            return None
        if not messages:
            return CompactResult(head)
        # Rows with keys were merged with all that the bucket had; those without stand for themselves.
        planned_on = PlannedOn.of(head, must_remain=True) if current.schema.primary_keys else None
        try:
            committed = self._committer.commit(
                messages, self._identifier, planned_on=planned_on, properties=self._properties
            )
        except CommitConflictError as e:
            self.conflict = e
            return None
        if committed.is_duplicate:
            self.conflict = compacted_by_twin(current, committed)
            return None
        return _result(committed, messages)

    def _opened(self) -> tuple[TableHandle, Snapshot | None]:
        """The branch as it is now, and its head. Main may have come to mean another branch."""
        while True:
            handle = self._handle
            head = latest_snapshot(handle)
            # Read after the head: files of the head may have columns that were added since this handle was made.
            current = open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)
            if current.layout == handle.layout:
                return current, head
            self.abort()
            self._handle, self._committer = current, Committer(current, self._user)

    def _run(self, current: TableHandle, head: Snapshot, tasks: Sequence[BucketTask]) -> list[CommitMessage]:
        """What the tasks make; what an earlier attempt made of the same ones is used again."""
        same_schema = current.schema.id == self._handle.schema.id and current.options == self._handle.options
        reused = self._reused(tasks) if same_schema else {}
        again = {id(m) for m in reused.values()}
        self._committer.abort([m for m in self._made if m is not None and id(m) not in again])
        self._tasks, self._made = (), list(reused.values())
        if not same_schema:
            self._handle, self._committer = current, Committer(current, self._user)
        rest = [n for n in range(len(tasks)) if n not in reused]
        fresh: Sequence[CommitMessage | None] = ()
        if rest:
            progress.report("compact", 0, len(rest), "buckets")
            fresh = self._runner(current, head, [tasks[n] for n in rest], self._user)
            progress.report("compact", len(rest), len(rest), "buckets")
        by_number = {**reused, **dict(zip(rest, fresh, strict=True))}
        self._tasks, self._made = tasks, [by_number[n] for n in range(len(tasks))]
        return [m for m in self._made if m is not None]

    def _reused(self, tasks: Sequence[BucketTask]) -> dict[int, CommitMessage | None]:
        """What was made for tasks that are to be done again just so, by their number."""
        old: dict[tuple[bytes, int], list[int]] = {}
        for n, task in enumerate(self._tasks):
            old.setdefault((task.partition, task.bucket), []).append(n)
        out = {}
        for n, task in enumerate(tasks):
            alike = (o for o in old.get((task.partition, task.bucket), ()) if self._tasks[o] == task)
            if (found := next(alike, None)) is not None:
                out[n] = self._made[found]
        return out

    def abort(self) -> None:
        """Remove the files of all attempts that did not land. Raises nothing."""
        self._committer.abort([m for m in self._made if m is not None])
        self._tasks, self._made = (), []


def _result(committed: CommitResult, messages: Sequence[CommitMessage]) -> CompactResult:
    before = [f for m in messages for f in m.compact.deleted_files]
    after = [f for m in messages for f in m.compact.new_files]
    return CompactResult(
        committed.snapshot,
        committed.snapshot_ids,
        len({(m.partition, m.bucket) for m in messages}),
        len(before),
        len(after),
        sum(f.file_size for f in before),
        sum(f.file_size for f in after),
    )
