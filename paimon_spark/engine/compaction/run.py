"""Running a compaction: plan, tasks, commit, and new attempts after conflicts.

plan (driver) → BucketTasks → run_task (executor) → CommitMessages → commit (driver)

Rows of a postponed bucket move to the buckets of their keys. Each partition keeps its number of buckets; a new one has
as many as the options say. Files are read in the order in which they were made, so that later writes of a key win; in
Java there is no order between writers.

Source: Java `spark/procedure/CompactProcedure`, `operation/AbstractFileStoreWrite.compact`, `table/PostponeUtils`,
`postpone/BucketFiles`, Spark's `SparkPostponeCompactProcedure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeAlias

import pyarrow as pa

from paimon_spark import progress
from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER, PlannedOn
from paimon_spark.engine.compaction.append import run_append_task, run_evolved_task
from paimon_spark.engine.compaction.keyed import compact_bucket
from paimon_spark.engine.compaction.plan import BucketIds, buckets_of, entries_of, plan_compaction
from paimon_spark.engine.compaction.task import (
    Bucket,
    BucketTask,
    CompactResult,
    compact_result,
    expired_error,
    read_request,
)
from paimon_spark.engine.read.file_reader import SYSTEM_FIELDS, iter_file
from paimon_spark.engine.tasks import CommitMessage, Increment, SplitMode
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import CommitConflictError, CommitOutcomeUnknownError
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.retry import Clock, Retries
from paimon_spark.metadata.snapshots import is_alive, latest_snapshot
from paimon_spark.options.core import BUCKET
from paimon_spark.options.write import LAST_SAFE_SNAPSHOT, ROWKIND_FIELD
from paimon_spark.predicate.ast import Predicate
from paimon_spark.types import VALUE_KIND

Runner: TypeAlias = Callable[[TableHandle, Snapshot, Sequence[BucketTask], str], Sequence[CommitMessage | None]]
"""Runs tasks: (handle, snapshot, tasks, commit user) → the results of `run_task`, in order. After an error it leaves
no file."""
Planner: TypeAlias = Callable[[TableHandle, Snapshot, BucketIds | None], list[BucketTask]]
"""Plans: (branch with its latest schema, its head, only these buckets) → tasks."""

_THREADS: Final = 2
"""Tasks that run beside each other in one process; each may hold a window of rows of all runs it merges."""


def run_task(
    handle: TableHandle, snapshot: Snapshot, task: BucketTask, commit_user: str, job: str | None = None
) -> CommitMessage | None:
    """Run one task; None when there is nothing to change. Commits nothing. Executor.

    Args:
        handle: the branch the task was planned with.
        snapshot: the one it was planned on.
        task: what to do.
        commit_user: who will commit.
        job: as `WriteRequest.job`.

    Raises:
        DataError: rows cannot be merged as the table demands.
        CorruptFileError, StorageError: a file cannot be read or written; no file of the task is left.
        UnsupportedFeatureError: a file cannot be read.
    """
    run = compact_bucket if task.unit is not None else run_evolved_task if task.ranges else run_append_task
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


def compact_branch(
    handle: TableHandle,
    *,
    full: bool,
    partitions: Sequence[Mapping[str, object]] | None = None,
    where: Predicate | None = None,
    runner: Runner = run_here,
) -> CompactResult:
    """Compact a branch, by one snapshot of kind COMPACT. Option `write-only` plays no part.

    Rows of the postponed bucket are moved to the others first, by a snapshot of its own, which stays when the second
    fails. When others change the same buckets meanwhile, those buckets are planned again.

    Args:
        handle: the branch.
        full: as for `plan_compaction`, like `partitions` and `where`.
        partitions: see above.
        where: see above.
        runner: runs the tasks.

    Raises:
        CommitConflictError, CommitRetriesExhaustedError: others were faster every time; no file is left.
        CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
        PaimonError: as `plan_compaction` and `run_task`; the table is as before.
    """

    def plan(current: TableHandle, head: Snapshot, buckets: BucketIds | None) -> list[BucketTask]:
        return plan_compaction(current, head, full=full, partitions=partitions, where=where, buckets=buckets)

    moved = move_postponed_rows(handle, new_commit_user(handle.options), partitions=partitions, where=where)
    compacted = compact_planned(handle, plan, new_commit_user(handle.options), runner)
    if not moved.snapshot_ids:
        return compacted
    return CompactResult(
        compacted.snapshot,
        (*moved.snapshot_ids, *compacted.snapshot_ids),
        max(moved.buckets, compacted.buckets),
        moved.files_before + compacted.files_before,
        moved.files_after + compacted.files_after,
        moved.bytes_before + compacted.bytes_before,
        moved.bytes_after + compacted.bytes_after,
    )


def compact_planned(
    handle: TableHandle,
    plan: Planner,
    commit_user: str,
    runner: Runner = run_here,
    identifier: int = BATCH_COMMIT_IDENTIFIER,
    properties: Mapping[str, str] | None = None,
) -> CompactResult:
    """Plan, run, commit; again, for the buckets of the first plan, when others changed what was compacted.

    Results of tasks that would be the same again are kept. Raises as `compact_branch`.

    Args:
        handle: the branch.
        plan: makes the tasks.
        commit_user: who commits.
        runner: runs the tasks.
        identifier: of the commit; that of the batch whose rows a stream compacts.
        properties: of the snapshot.
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
        """Make one attempt; None where others changed what it compacted."""
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
            self.conflict = expired_error(current, head)
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
            self.conflict = _duplicate_error(current, committed)
            return None
        return compact_result(committed, messages)

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
        """Run the tasks, using the results of an earlier attempt for those that are the same."""
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
        """Earlier results of equal tasks, by number of the task."""
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


def _duplicate_error(handle: TableHandle, committed: CommitResult) -> CommitConflictError:
    """The error when another process of the same stream compacted the rows of the same batch."""
    snapshot_id = committed.snapshot_ids[-1]
    return CommitConflictError(
        f"another process of the same query compacted {handle.describe()} after the same batch, as snapshot "
        f"{snapshot_id}; only one process of a query may run: stop the other",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot_id,
    )


def rewrite_head(
    handle: TableHandle,
    commit_user: str,
    make: Callable[[TableHandle, Snapshot], Sequence[CommitMessage] | None],
    *,
    alone: bool = False,
    properties: Mapping[str, str] | None = None,
) -> CompactResult:
    """Commit what `make` wrote for the branch with its latest schema and its head; again after conflicts.

    Args:
        handle: the branch.
        commit_user: who commits.
        make: writes files; after an error none is left. No messages: there is nothing to do. None: it made a snapshot
            itself, and is to be called for that.
        alone: whether rows that others wrote to the same partitions meanwhile are a conflict.
        properties: of the snapshot.

    Raises:
        CommitConflictError, CommitRetriesExhaustedError: others were faster every time; no file is left.
        CommitOutcomeUnknownError: the store stopped answering at the decisive moment.
    """
    retries = Retries(handle.options.commit, Clock())
    while (head := latest_snapshot(handle)) is not None:
        current = open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)
        if current.layout != handle.layout:  # main has come to mean another branch
            handle = current
            continue
        current.check_writable()
        try:
            messages = make(current, head)
        except Exception as e:
            if is_alive(current, head):
                raise
            if not retries.again():
                raise expired_error(current, head) from e
            continue
        if messages is None:
            continue
        if not messages:
            break
        committer = Committer(_alone_since(current, head) if alone else current, commit_user)
        try:
            # Rows were numbered after those that the buckets had.
            planned_on = PlannedOn.of(head, must_remain=True)
            return compact_result(committer.commit(messages, planned_on=planned_on, properties=properties), messages)
        except CommitOutcomeUnknownError:
            raise
        except CommitConflictError:
            committer.abort(messages)
            if not retries.again():
                raise
        except BaseException:
            committer.abort(messages)
            raise
    return CompactResult()


def _alone_since(handle: TableHandle, head: Snapshot) -> TableHandle:
    return replace(handle, options=handle.options.changed({LAST_SAFE_SNAPSHOT.key: str(head.id)}))


def move_postponed_rows(
    handle: TableHandle,
    commit_user: str,
    *,
    partitions: Sequence[Mapping[str, object]] | None = None,
    where: Predicate | None = None,
) -> CompactResult:
    """Move the rows of the postponed bucket into the others, as files of level 0, by one snapshot of kind COMPACT.

    Memory stays bounded as in any write. Does nothing in tables without a postponed bucket. Arguments and errors as
    `run.compact_branch`.
    """
    if handle.options.bucket != POSTPONE_BUCKET:
        return CompactResult()
    return rewrite_head(
        handle, commit_user, lambda current, head: _messages(current, head, commit_user, partitions, where)
    )


def _messages(
    handle: TableHandle,
    head: Snapshot,
    commit_user: str,
    partitions: Sequence[Mapping[str, object]] | None,
    where: Predicate | None,
) -> list[CommitMessage]:
    """The messages that move the rows of each partition to buckets. After an error no file is left."""
    totals: dict[bytes, int] = {}
    waiting: list[Bucket] = []
    for bucket in buckets_of(entries_of(handle, head, partitions, where)):
        if bucket.bucket == POSTPONE_BUCKET:
            waiting.append(bucket)
        elif bucket.total_buckets > 0:
            totals[bucket.partition] = bucket.total_buckets
    out: list[CommitMessage] = []
    try:
        for bucket in waiting:
            rows = sum(f.row_count for f in bucket.files)
            total = totals.get(bucket.partition) or handle.options.postponed_bucket.buckets_of_new_partition(rows)
            out += _settled(handle, head, commit_user, bucket, total)
    except BaseException:
        Committer(handle, commit_user).abort(out)
        raise
    return out


def _settled(
    handle: TableHandle, head: Snapshot, commit_user: str, waiting: Bucket, total_buckets: int
) -> list[CommitMessage]:
    with TableWriter(WriteRequest(_with_buckets(handle, total_buckets), commit_user, head), _schema(handle)) as writer:
        for batch in _rows(handle, head, waiting):
            writer.write(batch)
        written = writer.close()
    gone = Increment(deleted_files=tuple(waiting.files))
    return [
        CommitMessage(waiting.partition, waiting.bucket, waiting.total_buckets, compact=gone),
        *(replace(m, data=Increment(), compact=m.data) for m in written),
    ]


def _rows(handle: TableHandle, head: Snapshot, waiting: Bucket) -> Iterator[pa.RecordBatch]:
    """The rows with their kinds, in the order they were written."""
    request, split = read_request(handle, head, waiting, SplitMode.CHANGES)
    schema = _schema(handle)
    for file in sorted(waiting.files, key=lambda f: f.creation_time_ms or 0):
        for batch in iter_file(
            request, split, file, None, request.columns, batch_rows=request.batch_rows, system=SYSTEM_FIELDS
        ):
            if batch.num_rows:
                yield record_batch([*batch.columns[2:], batch.column(1)], schema, batch.num_rows)


def _schema(handle: TableHandle) -> pa.Schema:
    return pa.schema([*arrow_schema(handle.schema.fields), pa.field(VALUE_KIND, pa.int8(), nullable=False)])


def _with_buckets(handle: TableHandle, total_buckets: int) -> TableHandle:
    """The table as one with buckets, and row kinds in a column of their own."""
    options = handle.options.changed({ROWKIND_FIELD.key: None, BUCKET.key: str(total_buckets)})
    return replace(handle, options=options)
