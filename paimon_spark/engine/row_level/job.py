"""RowLevelJob: one DELETE or UPDATE, from the plan to the commit messages.

plan_rows (driver) → RowLevelJob → run (a task per split) → SplitOutcome → finish (driver) → CommitMessages.

In a table that reads two branches, a DELETE that would need to change rows of the other branch is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.row_level.changed_rows import check_indexed_columns, write_columns
from paimon_spark.engine.row_level.deletion import (
    DroppedRows,
    count_rows,
    deletion_changes,
    find_dropped,
    read_dropped,
    rewrite_split,
    split_by_file,
    whole_files,
    with_whole_metas,
)
from paimon_spark.engine.row_level.strategy import (
    DeleteStrategy,
    check_set,
    check_updates,
    cleared_columns,
    delete_strategy,
    removing_columns,
    strategy_of_delete,
    undeletable,
    unmerged,
)
from paimon_spark.engine.scan.fallback import other_branch, other_partitions
from paimon_spark.engine.scan.one_branch import plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.scan.splits import totals_of
from paimon_spark.engine.tasks import ROW_INDEX, CommitMessage, DataSplit, ReadRequest, SplitMode, sum_if_known
from paimon_spark.engine.write.dynamic_buckets import combine
from paimon_spark.engine.write.request import WriteRequest, check_file_schemas
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import values
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot
from paimon_spark.options.core import MergeEngine
from paimon_spark.options.write import ROWKIND_FIELD
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import Predicate, names_of
from paimon_spark.types import ROW_ID, VALUE_KIND, RowKind

MERGE_ON_READ: Final = "deletion-vectors.merge-on-read"
"""The option with which rows are read that wait for a compaction."""
Change = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Rows as they are, all columns of the table in canonical types → the rows that take their places, in that order."""


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """The result of a task for a split. Picklable.

    Attributes:
        rows: rows deleted or changed; None when unknown: files were deleted unread, and their metadata does not say.
        dropped: rows that the driver must mark as deleted.
        messages: of written files.
    """

    rows: int | None = 0
    dropped: tuple[DroppedRows, ...] = ()
    messages: tuple[CommitMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class RowLevelJob:
    """One DELETE or UPDATE. Picklable; tasks need nothing else.

    Attributes:
        handle: the branch.
        strategy: how rows are deleted.
        commit_user: who will commit.
        base: the snapshot that the rows are looked for in, for `Committer.commit(planned_on=…)`; None: no rows.
        splits: where the rows may be. A task takes one of them.
        read: how to read the splits; has the predicate.
        whole: all rows of the splits are to be deleted.
        job: as `WriteRequest.job`.
    """

    handle: TableHandle
    strategy: DeleteStrategy
    commit_user: str
    base: Snapshot | None
    splits: tuple[DataSplit, ...]
    read: ReadRequest
    whole: bool
    job: str | None = None

    def run(self, number: int, change: Change | None = None) -> SplitOutcome:
        """Delete the rows of split `number`, or change them. Executor or in process.

        After an error no file of the task is left.

        Raises:
            DataError: a changed value does not fit its column.
            InvalidInputError: a change would give a row another key.
            CorruptFileError, StorageError: a file cannot be read, or not be written.
        """
        split = self.splits[number]
        request = self._request(number)
        if self.strategy is DeleteStrategy.RETRACTS:
            return self._run_keyed(request, split, change)
        if change is None:
            dropped = whole_files(self.read, split) if self.whole else find_dropped(self.read, split)
            return self._gone(request, split, dropped, ())
        if self.handle.options.data_evolution:
            return self._run_evolved(request, split, change)
        dropped = []
        tracks_rows = self.handle.options.row_tracking
        read = replace(self.read, columns=(*self.read.columns, ROW_ID)) if tracks_rows else self.read
        rows = (_changed(b, change, tracks_rows) for b in read_dropped(read, split, dropped))
        messages = _written(request, rows, keeps_row_ids=tracks_rows)
        try:
            return self._gone(request, split, dropped, messages)
        except BaseException:
            self._committer().abort(messages)
            raise

    def drop(self, number: int, positions: Mapping[str, Positions | None]) -> SplitOutcome:
        """Delete rows of split `number` that were found elsewhere, as MERGE does. Executor or in process.

        Args:
            number: which split.
            positions: physical positions, ascending, by name of the data file; None for all of its rows. Files of
                other splits are passed over. `__paimon_file_path` and `__paimon_row_index` of a read of the same
                snapshot say them.

        Raises:
            UnsupportedFeatureError: rows of tables with keys have no place of their own: write them with kind -D.
            CorruptFileError, StorageError: a file cannot be read, or not be written.
        """
        if self.strategy is DeleteStrategy.RETRACTS:
            raise UnsupportedFeatureError(
                f"rows of {self.handle.describe()} go by their keys, not by their places; write them with "
                "_VALUE_KIND 3",
                feature="dropping rows of primary key tables by position",
                table=self.handle.name,
            )
        split = self.splits[number]
        dropped = [DroppedRows.of(split, f, positions[f.file_name]) for f in split.files if f.file_name in positions]
        return self._gone(self._request(number), split, dropped, ())

    def set_columns(
        self, number: int, columns: Collection[str], positions: Positions, values: Iterable[pa.RecordBatch]
    ) -> CommitMessage:
        """Change columns of rows of split `number`, which is one range of row ids. As `write_columns`."""
        return write_columns(self._request(number), self.read, self.splits[number], columns, positions, values)

    def finish(self, outcomes: Sequence[SplitOutcome]) -> list[CommitMessage]:
        """The messages to commit, of all tasks; none when no row was meant. Driver, once.

        After an error no file of the tasks is left.

        Raises:
            CorruptFileError, StorageError: vectors cannot be read, or not be written.
            UnsupportedFeatureError: a changed column has a global index, which would keep the old values.
        """
        messages = [m for o in outcomes for m in o.messages]
        if self.base is None:
            return messages
        try:
            if self.strategy is DeleteStrategy.RETRACTS:
                return combine(self.handle, messages)
            dropped = [d for o in outcomes for d in o.dropped]
            marked = deletion_changes(self.handle, self.base, dropped, messages)
            try:
                check_indexed_columns(self.handle, self.base, messages)
                return with_whole_metas(self.handle, self.base, [*messages, *marked])
            except BaseException:
                self._committer().abort(marked)
                raise
        except BaseException:
            self.abort(outcomes)
            raise

    def abort(self, outcomes: Iterable[SplitOutcome]) -> None:
        """Remove the files of tasks that ended well, when nothing will be committed. Driver."""
        self._committer().abort([m for o in outcomes for m in o.messages])

    def _committer(self) -> Committer:
        return Committer(self.handle, self.commit_user)

    def _request(self, number: int) -> WriteRequest:
        """The write request of a task. A task that rewrites files has two writers, with numbers of their own."""
        buckets = {(s.partition, s.bucket) for s in self.splits}
        rewrites = self.strategy is DeleteStrategy.REWRITE
        return WriteRequest(
            self.handle,
            self.commit_user,
            self.base,
            writer_number=2 * number if rewrites else number,
            shares_buckets=rewrites or len(buckets) < len(self.splits),
            settles=self.handle.options.postponed_bucket.batch_writes_settle,
            job=self.job,
        )

    def _gone(
        self, request: WriteRequest, split: DataSplit, dropped: list[DroppedRows], messages: Sequence[CommitMessage]
    ) -> SplitOutcome:
        """Delete the rows of `dropped`: mark them later, or rewrite their files now."""
        rows = self._count(split, dropped)
        partial = [d for d in dropped if d.count < d.file.row_count]
        if self.strategy is DeleteStrategy.VECTORS or not partial:
            return SplitOutcome(rows, tuple(dropped), tuple(messages))
        losing = {d.file.file_name: d.positions for d in dropped}
        second = replace(request, writer_number=request.writer_number + 1)
        return SplitOutcome(rows, (), (*messages, rewrite_split(second, self.read, split, losing)))

    def _count(self, split: DataSplit, dropped: Sequence[DroppedRows]) -> int | None:
        """The number of rows that `dropped` deletes."""
        whole = {d.file.file_name for d in dropped if d.vector is None}
        parts = split_by_file(self.handle.store, split) if whole else ()
        files = [count_rows(self.handle.store, p, keys=False) for p in parts if p.files[0].file_name in whole]
        return sum_if_known([*files, *(d.count for d in dropped if d.vector is not None)])

    def _run_evolved(self, request: WriteRequest, split: DataSplit, change: Change) -> SplitOutcome:
        """Change the columns of rows, range by range of row ids."""
        rows, messages = 0, []
        asked = replace(self.read, columns=(*self.read.columns, ROW_INDEX))
        try:
            for part in split_by_file(self.handle.store, split):
                parts = []
                for batch in read_split(asked, part):
                    before = batch.select(range(batch.num_columns - 1))
                    changed = change(before)
                    columns = {n for n in before.schema.names if not changed.column(n).equals(before.column(n))}
                    parts.append((arrow_numpy.values(batch.column(batch.num_columns - 1)), changed, columns))
                columns = set().union(*(c for _, _, c in parts))
                check_set(self.handle, columns)
                if columns:
                    positions = np.concatenate([p for p, _, _ in parts])
                    values = [batch for _, batch, _ in parts]
                    messages.append(write_columns(request, self.read, part, columns, positions, values))
                    rows += len(positions)
        except BaseException:
            self._committer().abort(messages)
            raise
        return SplitOutcome(rows, (), tuple(messages))

    def _run_keyed(self, request: WriteRequest, split: DataSplit, change: Change | None) -> SplitOutcome:
        rows = 0

        def made() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in read_split(self.read, split):
                rows += batch.num_rows
                if change is None:
                    yield _with_kind(_cleared(self.handle, batch), RowKind.DELETE)
                    continue
                changed = change(batch)
                _check_change(self.handle, batch, changed)
                yield _with_kind(changed, RowKind.UPDATE_AFTER)

        # Row kinds are those of this job, whatever the column of option `rowkind.field` holds.
        options = self.handle.options.changed({ROWKIND_FIELD.key: None})
        messages = _written(replace(request, handle=replace(self.handle, options=options)), made())
        return SplitOutcome(rows, (), tuple(messages))


def plan_rows(
    handle: TableHandle, predicate: Predicate | None, *, updates: bool, base_id: int | None = None
) -> RowLevelJob:
    """The job of deleting, or updating, the rows for which `predicate` is true. Driver; changes nothing.

    Args:
        handle: the branch, with its latest schema.
        predicate: None means all rows. Rows for which it is null stay.
        updates: rows will be changed, not deleted.
        base_id: the snapshot to read rows from, 0 for the state before the first; None is the head.

    Raises:
        SnapshotExpiredError: that snapshot is gone.
        UnsupportedFeatureError: rows of the table cannot be deleted or updated, and what to do.
        ColumnNotFoundError: the predicate names a column that is not there.
        CommitConflictError: the definition changed since the handle was opened, and there are rows of the new one.
    """
    if updates:
        strategy = delete_strategy(handle)
        check_updates(handle)
    else:
        strategy = strategy_of_delete(handle)
    base = latest_snapshot(handle) if base_id is None else get_snapshot(handle, base_id) if base_id else None
    beside = other_partitions(handle, base)
    covered = frozenset() if beside is None else beside.covered
    plan = plan_branch(handle, base, ScanQuery(predicate=predicate), partitions_of_other=covered)
    if handle.schema.primary_keys and strategy is not DeleteStrategy.RETRACTS:
        check_unmerged(handle, base, predicate)
    newest = max(totals_of(plan.splits).schema_ids, default=0)
    check_file_schemas(handle, newest, "its rows were read")
    by_partition = names_of(predicate) <= set(handle.schema.partition_keys)
    return RowLevelJob(
        handle,
        strategy,
        new_commit_user(handle.options),
        base,
        tuple(plan.splits),
        plan.request,
        whole=by_partition and strategy is not DeleteStrategy.RETRACTS and not updates,
    )


def check_unmerged(handle: TableHandle, base: Snapshot | None, predicate: Predicate | None) -> None:
    """Check that no files have rows of one key, those that wait for a compaction included. Driver.

    Raises UnsupportedFeatureError: some may have.
    """
    options = handle.options.changed({MERGE_ON_READ: "true"})
    if options.merge_engine is MergeEngine.FIRST_ROW:
        options = options.changed({"merge-engine": MergeEngine.DEDUPLICATE.value})
    plan = plan_branch(replace(handle, options=options), base, ScanQuery(predicate=predicate))
    if totals_of(plan.splits).modes.keys() - {SplitMode.RAW}:
        raise unmerged(handle)


def _changed(batch: pa.RecordBatch, change: Change, tracks_rows: bool) -> pa.RecordBatch:
    """The changed rows; with `tracks_rows` the last column, `_ROW_ID`, stays as it is."""
    if not tracks_rows:
        return change(batch)
    place = batch.num_columns - 1
    return change(batch.select(range(place))).append_column(ROW_ID, batch.column(place))


def _written(
    request: WriteRequest, batches: Iterator[pa.RecordBatch], *, keeps_row_ids: bool = False
) -> list[CommitMessage]:
    """Write rows; returns an empty list without rows."""
    first = next(batches, None)
    if first is None:
        return []
    with TableWriter(request, first.schema, keeps_row_ids=keeps_row_ids) as writer:
        writer.write(first)
        for batch in batches:
            writer.write(batch)
        return writer.close()


def _cleared(handle: TableHandle, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows to write with kind -D. Raises UnsupportedFeatureError: one would stay."""
    removing = [batch.column(name) for name in removing_columns(handle)]
    if removing and not np.logical_or.reduce([arrow_numpy.validity(c) for c in removing]).all():
        raise undeletable(handle)
    for name in cleared_columns(handle):
        place = batch.schema.get_field_index(name)
        field = batch.schema.field(place)
        batch = batch.set_column(place, field, pa.nulls(batch.num_rows, field.type))
    return batch


def _with_kind(batch: pa.RecordBatch, kind: RowKind) -> pa.RecordBatch:
    kinds = arrow_numpy.fixed_array(np.full(batch.num_rows, int(kind), np.int8), pa.int8())
    schema = batch.schema.append(pa.field(VALUE_KIND, pa.int8(), nullable=False))
    return record_batch([*batch.columns, kinds], schema, batch.num_rows)


def _check_change(handle: TableHandle, before: pa.RecordBatch, after: pa.RecordBatch) -> None:
    """Refuse changes that the merge engine would not apply."""
    for name in (*handle.schema.primary_keys, *handle.options.sequence_fields):
        if not after.column(name).cast(before.column(name).type).equals(before.column(name)):
            check_set(handle, [name])
    if handle.options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return
    for name in after.schema.names:
        nulled = pc.and_(pc.is_null(after.column(name)), pc.is_valid(before.column(name)))
        if after.column(name).null_count and arrow_numpy.values(nulled).any():
            raise UnsupportedFeatureError(
                f"column {name} of {handle.describe()} cannot be set to null: merge-engine partial-update keeps the "
                "old value for a null",
                feature="update to null with merge-engine partial-update",
                column=name,
            )


def in_process(job: RowLevelJob, change: Change | None = None) -> list[CommitMessage]:
    """Run all tasks of a job here, and finish it. Raises as `RowLevelJob.run`; then no file is left."""
    return job.finish(run_tasks(job, change))


def run_tasks(job: RowLevelJob, change: Change | None = None) -> list[SplitOutcome]:
    """Run all tasks of a job here. Raises as `RowLevelJob.run`; then no file is left."""
    outcomes: list[SplitOutcome] = []
    try:
        for number in range(len(job.splits)):
            outcomes.append(job.run(number, change))  # noqa: PERF401 - those that ended are aborted
    except BaseException:
        job.abort(outcomes)
        raise
    return outcomes


def refuse_rows_of_other_branch(handle: TableHandle, predicate: Predicate | None) -> None:
    """Refuse a DELETE of rows that are read from another branch. Driver.

    Raises:
        UnsupportedFeatureError: rows of the other branch are meant, or would be read once a partition has no other.
    """
    if other_branch(handle) is None:
        return
    head = latest_snapshot(handle)
    beside = other_partitions(handle, head)
    if beside is None:
        return
    for partition, rows in _matching(beside.other.handle, beside.snapshot, predicate, beside.read):
        if rows.num_rows:
            raise beside.not_reached(partition)
    if not beside.behind:
        return
    touched = {p for p, rows in _matching(handle, head, predicate, beside.behind) if rows.num_rows}
    for partition in sorted(touched - _keeping_rows(handle, head, predicate, frozenset(touched))):
        raise beside.would_appear(partition)


def _matching(
    handle: TableHandle, snapshot: Snapshot | None, predicate: Predicate | None, partitions: frozenset[bytes]
) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """Batches of the rows of partitions for which `predicate` is true, without a column that it does not name."""
    columns = tuple(n for n in handle.schema.row_type.names if n in names_of(predicate))
    plan = plan_branch(handle, snapshot, ScanQuery(columns=columns, predicate=predicate))
    for split in plan.splits:
        if split.partition in partitions:
            for batch in read_split(plan.request, split):
                yield split.partition, batch


def _keeping_rows(
    handle: TableHandle, snapshot: Snapshot | None, predicate: Predicate | None, partitions: frozenset[bytes]
) -> set[bytes]:
    """Of the partitions, those with a row for which `predicate` is not true."""
    if predicate is None:
        return set()
    columns = tuple(n for n in handle.schema.row_type.names if n in names_of(predicate))
    plan = plan_branch(handle, snapshot, ScanQuery(columns=columns))
    out: set[bytes] = set()
    for split in plan.splits:
        if split.partition in partitions - out and any(
            not values(matches(predicate, batch)).all() for batch in read_split(plan.request, split)
        ):
            out.add(split.partition)
    return out
