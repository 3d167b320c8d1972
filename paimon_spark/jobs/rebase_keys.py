"""Rebase of tables with a primary key: write the rows that the branch changed to main."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.advice import DIFF_ROWS
from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.entries import live_at, numbers
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.row_diff.compare import ThreeWay
from paimon_spark.engine.row_diff.versions import Version, split_identity
from paimon_spark.engine.row_level.replacement import Replacement
from paimon_spark.engine.scan.incremental import plan_changes
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.tasks.split import DataSplit
from paimon_spark.errors import (
    BranchDivergedError,
    CommitConflictError,
    FileMissingError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.format.arrays.nested import shown_rows
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs import rebase_rows
from paimon_spark.jobs.batch_write import WriteJob
from paimon_spark.jobs.commit import combined, commit_batch
from paimon_spark.jobs.lineage_port import CommitLineage
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase_buckets import with_whole_buckets
from paimon_spark.jobs.rebase_rows import I64, Outcome, Piece, RebaseTask, hashes_of
from paimon_spark.jobs.rebase_sides import PATIENCE_S, Sides, changes_text, instead, plan_rows, unchanged, wins_of
from paimon_spark.jobs.row_diff import RowComparison
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.resolve import Resolved
from paimon_spark.metadata.snapshots import get_snapshots, latest_snapshot
from paimon_spark.options.core import MergeEngine
from paimon_spark.options.table import parse_table_options
from paimon_spark.options.write import ROWKIND_FIELD
from paimon_spark.spark_port import SparkJobs, active_spark_jobs
from paimon_spark.text import counted, sql_row
from paimon_spark.types import VALUE_KIND
from paimon_spark.versioning.merge import FAIL, OURS, THEIRS, MergeResult

_SPARK_BYTES: Final = 64 << 20
"""Bytes of files from which on an active Spark session compares their rows."""


def rebase_keys(table: OpenedTable, sides: Sides, on_conflict: str, *, dry_run: bool) -> MergeResult:
    """Write the rows that the branch changed to main, by one commit on a head that they were compared with.

    Raises as `Table.merge_branch`, and CommitConflictError: others changed main meanwhile, in a way that has to be
    compared.
    """
    _check_visible(sides, sides.theirs.handle, sides.theirs.snapshot)
    job = _with_kinds(plan_rows(table, sides))
    head = job.base
    assert head is not None
    _check_visible(sides, sides.main, head)
    planned = _Planned.of(sides, head)
    if not planned.pieces:  # compacted or rewritten, with the same rows
        return unchanged(sides, dry_run=dry_run)
    found = planned.run(job, on_conflict, write=not dry_run)
    try:
        _check(sides, found, on_conflict)
    except (BranchDivergedError, UnsupportedFeatureError):
        job.abort(found.messages)
        raise
    if not found.rows and not found.kept:
        return unchanged(sides, dry_run=dry_run)
    result = MergeResult(
        sides.branch, sides.fork.id, head.id, rebased_rows=found.rows, kept_conflicts=found.kept,
        removed=Removed(dry_run=dry_run), schema_changes=changes_text(sides),
        target=sides.target,
    )  # fmt: skip
    if dry_run:
        return result
    messages: Sequence[CommitMessage] = found.messages
    if found.replaced:
        messages = with_whole_buckets(
            job.handle, head, combined(job.handle, Committer(job.handle, job.commit_user), messages), job.commit_user
        )
    job = job.with_changes(messages) if job.changes else job
    publish = _Publish(sides, found.keys, head)
    with sides.committed(head):
        made = commit_batch(
            job.handle, job.commit_user, messages, publish, undo=job.undo, lineage=sides.lineage(job.handle)
        )
    if sides.is_onto_target:
        sides.keep(made.snapshot_ids)
    return replace(result, published_snapshot_id=made.snapshot_id or head.id, removed=Removed())


def _with_kinds(job: WriteJob) -> WriteJob:
    """The write with a last column of row kinds: a column `rowkind.field` stays as it is on the branch."""
    options = {key: value for key, value in job.handle.options.raw.items() if key != ROWKIND_FIELD.key}
    source = job.source.append(pa.field(VALUE_KIND, pa.int8(), False))
    return replace(job, handle=replace(job.handle, options=parse_table_options(options)), source=source)


@dataclass(frozen=True, slots=True)
class _Planned:
    """The pieces to compare.

    Attributes:
        of_branch: the base and the branch.
        of_main: the base and main.
        written: what reads the records of the branch; None where they are not known.
        later: whether the branch's head was made after main's.
    """

    sides: Sides
    of_branch: RowComparison
    of_main: RowComparison
    written: Version | None
    pieces: list[Piece]
    later: bool

    @classmethod
    def of(cls, sides: Sides, head: Snapshot) -> _Planned:
        main = Resolved(sides.main, head, "head of main")
        of_branch = sides.compared(sides.base, sides.theirs, is_main=(False, False))
        of_main = sides.compared(sides.base, main, is_main=(False, True))
        place = min(of_branch.place, of_main.place)
        lacking = {split_identity(s) for s in of_main.old}
        written, records = _written(sides) if of_branch.new else (None, ())
        kinds: tuple[Sequence[DataSplit], ...] = (
            [s for s in of_branch.old if split_identity(s) in lacking],
            [s for s in of_branch.old if split_identity(s) not in lacking],
            of_branch.new,
            of_main.new,
            records,
        )
        places = dict.fromkeys(place.of(s) for s in (*of_branch.old, *of_branch.new))
        dealt: dict[object, list[list[DataSplit]]] = {at: [[] for _ in kinds] for at in places}
        for number, splits in enumerate(kinds):
            for split in splits:
                if (at := place.of(split)) in dealt:
                    dealt[at][number].append(split)
        pieces = [Piece(number, *map(tuple, each)) for number, each in enumerate(dealt.values())]
        assert sides.theirs.snapshot is not None
        return cls(sides, of_branch, of_main, written, pieces, sides.theirs.snapshot.time_ms > head.time_ms)

    def run(self, job: WriteJob, on_conflict: str, *, write: bool) -> Outcome:
        """Compare all pieces, in a Spark job where there is a session and much to read, else here. Raises as reads."""
        sides, options = self.sides, job.handle.options
        task = RebaseTask(
            self.of_branch.comparison.old,
            self.of_branch.comparison.new,
            self.of_main.comparison.new,
            self.written,
            ThreeWay(
                sides.schema.primary_keys,
                sides.shared_columns,
                sides.columns_of_main,
                sides.columns_of_branch,
                wins_of(on_conflict),
                tuple(options.sequence_fields),
                options.sequence_descending,
                self.later,
            ),
            Replacement.of(job.handle),
            on_conflict == FAIL,
            job.task if write else None,
            rebase_rows.KEY_HASHES // len(self.pieces),
        )
        with ExitStack() as stack:
            for scan in (*self.of_branch.scans, *self.of_main.scans):
                stack.enter_context(scan.refusing_expired())
            spark = self._spark(job)
            if spark is None:
                return task.run(self.pieces, alone=True)
            found = Outcome()
            for each in spark.run_each(task.run, [[piece] for piece in self.pieces], job.sweep):
                found.add(each)
            return found

    def _spark(self, job: WriteJob) -> SparkJobs | None:
        if sum(p.size_bytes for p in self.pieces) < _SPARK_BYTES or job.task.request.existing_keys is not None:
            return None
        return active_spark_jobs()


def _written(sides: Sides) -> tuple[Version | None, Sequence[DataSplit]]:
    """Reader of the records that the branch wrote since the base, and their splits, in order.

    None where the merge engine takes merged rows as they are, and where records are not known: snapshots expired, or
    rows were overwritten.
    """
    base, theirs = sides.base.snapshot, sides.theirs.snapshot
    if sides.main.options.merge_engine not in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION):
        return None, ()
    assert base is not None
    assert theirs is not None
    handle = sides.theirs.handle
    try:
        since = get_snapshots(handle, range(base.id + 1, theirs.id + 1))
        if any(s.commit_kind is CommitKind.OVERWRITE for s in since):
            return None, ()
        found = plan_changes(handle, base.id, theirs.id, ScanQuery(with_row_kind=True), changelog=False)
    except (NotFoundError, InvalidInputError, FileMissingError):
        return None, ()
    columns = sides.columns(sides.theirs, of_main=False)
    version = Version({handle.branch: found.request}, handle.schema.row_type, columns, with_kinds=True)
    return version, found.splits


@dataclass
class _Publish:
    """Commit on exactly the head that the rows were compared with, or on a later one that changed none of the keys.

    `keys`: hashes of the keys that are written; None for too many.
    """

    sides: Sides
    keys: Sequence[I64] | None
    head: Snapshot

    def __call__(self, committer: Committer, messages: Sequence[CommitMessage], lineage: CommitLineage) -> CommitResult:
        base, end = self.head, time.monotonic() + PATIENCE_S
        while True:
            try:
                return committer.commit(
                    messages,
                    lineage.identifier,
                    planned_on=PlannedOn.of(base, must_remain=True),
                    provenance={**lineage.properties, **self.sides.properties},
                    operation="WRITE",
                    only_on=self.head,
                    force_create=True,
                )
            except CommitConflictError:
                now = latest_snapshot(self.sides.main)
                if now is None or same_snapshot(now, self.head) or time.monotonic() > end:
                    raise
                self._move_to(now)

    def _move_to(self, now: Snapshot) -> None:
        """Check the commits since, without comparing the versions: other writers go on meanwhile."""
        main = self.sides.main
        try:
            before, *since = get_snapshots(main, range(self.head.id, now.id + 1))
            changes = [s for s in since if s.commit_kind is not CommitKind.COMPACT]
            query = ScanQuery(tuple(main.schema.primary_keys), with_row_kind=True)
            found = plan_changes(main, self.head.id, now.id, query, changelog=False)
            rows = [batch for split in found.splits for batch in read_split(found.request, split)]
            _check_visible(self.sides, main, now)
        except (NotFoundError, InvalidInputError, FileMissingError) as e:
            raise CommitConflictError(e.message) from e
        if not same_snapshot(before, self.head) or not same_snapshot(since[-1], now):
            raise CommitConflictError(f"main of table {main.name} was given another history")
        if any(s.commit_kind is not CommitKind.APPEND or s.schema_id != before.schema_id for s in changes):
            raise CommitConflictError(f"main of table {main.name} was changed by more than appended rows")
        if rows and self._has_one_of(pa.Table.from_batches(rows)):
            raise CommitConflictError(f"others changed the same keys of main of table {main.name}")
        self.head = now

    def _has_one_of(self, rows: pa.Table) -> bool:
        if self.keys is None:
            return True
        names = self.sides.merged.names
        keys = rows.select(self.sides.main.schema.primary_keys).rename_columns(
            [names[k] for k in self.sides.main.schema.primary_keys]
        )
        theirs = hashes_of(keys.select(self.sides.schema.primary_keys))
        return any(np.isin(theirs, mine).any() for mine in self.keys)


def _check(sides: Sides, found: Outcome, on_conflict: str) -> None:
    """Check that what was found may be written. Raises BranchDivergedError, UnsupportedFeatureError."""
    if found.conflicts and on_conflict == FAIL:
        raise _conflict(sides, found)
    if found.against_order:
        raise UnsupportedFeatureError(
            f"{counted(found.against_order, 'row')} of {sides.what} have smaller values of "
            f"{', '.join(sides.main.options.sequence_fields)} than {sides.onto}'s rows of the same keys, so that those "
            f"would stay the newest; {_ours(found, on_conflict, by_order=True)}{instead(sides)}",
            feature="rebase against the sequence field",
        )
    if found.changed or found.removed:
        options = sides.main.options
        engine = f"merge-engine {options.merge_engine.value}"
        ignores = found.removed and not found.changed and options.ignore_delete
        counts = [(found.changed, "changed"), (found.removed, "removed")]
        what = " and ".join(f"{verb} {counted(count, 'row')}" for count, verb in counts if count)
        limits = "; ".join(Replacement.of(sides.main).limits())
        raise UnsupportedFeatureError(
            f"{sides.what} cannot be rebased: it {what} that cannot be written to {sides.onto} as they are, as "
            f"{limits or engine}; {_ours(found, on_conflict)}{instead(sides)}",
            feature=f"rebase with {'ignore-delete' if ignores else engine}",
            table=sides.main.name,
        )


def _ours(found: Outcome, on_conflict: str, *, by_order: bool = False) -> str:
    """The advice to leave keys that both changed as main has them, where that may be enough."""
    if not found.conflicts or on_conflict == OURS:
        return ""
    newest = " or 'newest'" if by_order and on_conflict == THEIRS else ""
    return f"use on_conflict='ours'{newest}, if these are keys that both changed; or "


def _conflict(sides: Sides, found: Outcome) -> BranchDivergedError:
    sample = [] if found.sample is None else list(shown_rows(found.sample))
    shown = "; ".join(map(sql_row, sample))
    more = ", …" if found.conflicts > len(sample) else ""
    return BranchDivergedError(
        f"{sides.what} was not rebased: {sides.onto} changed {counted(found.conflicts, 'key')} "
        f"that the branch changed to other rows ({shown}{more}); choose on_conflict='ours', 'theirs' or 'newest', or "
        f"correct them on the branch: {DIFF_ROWS.of(old=sides.target, new=sides.branch)} shows them",
        table=sides.main.name,
        branch=sides.branch,
        conflicts=found.conflicts,
    )


def _check_visible(sides: Sides, handle: TableHandle, snapshot: Snapshot | None) -> None:
    """Check that no rows wait for a compaction to be seen, which would not be compared. Raises InvalidInputError."""
    options = handle.options
    if not (options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW):
        return
    if (numbers(live_at(handle, snapshot), "level") == 0).any():
        raise InvalidInputError(
            f"{sides.what} was not rebased: {handle.describe()} has rows that readers do not see before a compaction; "
            "compact it first",
            table=handle.name,
            branch=handle.branch,
        )
