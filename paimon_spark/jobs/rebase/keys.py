"""Rebase of tables with a primary key: write the rows that the branch changed to main.

Three versions are compared by key: the base, from which both sides changed; the branch; and main. Metadata says which
files the base lacks of each side, and which of its files each side lacks. The splits of these files are divided into
pieces, each with all rows of its keys in all versions, and tasks compare the pieces (`rows.py`). The rows found are
committed on the head of main that was compared, or on a later one that changed none of the keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.advice import DIFF_ROWS
from paimon_spark.engine.commit.entries import live_at, numbers
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.row_diff.compare import ThreeWay
from paimon_spark.engine.row_diff.versions import Version, split_identity
from paimon_spark.engine.row_level.replacement import Replacement
from paimon_spark.engine.scan.incremental import plan_changes
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks import CommitMessage, DataSplit
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
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase import rows as rebase_rows
from paimon_spark.jobs.rebase.commit import changes_text, commit_rebase, plan_rows, unchanged, with_whole_buckets
from paimon_spark.jobs.rebase.rows import I64, Piece, RebasedRows, RebaseTask, hashes_of
from paimon_spark.jobs.rebase.sides import Sides, instead, wins_of
from paimon_spark.jobs.row_diff.comparison import RowComparison
from paimon_spark.jobs.write.batch import WriteJob
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.resolve import Resolved
from paimon_spark.metadata.snapshots import get_snapshots
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
    _check_all_visible(sides, sides.theirs.handle, sides.theirs.snapshot)
    job = _with_row_kinds(plan_rows(table, sides))
    head = job.base
    assert head is not None
    _check_all_visible(sides, sides.main, head)
    comparison = _Comparison.plan(sides, head)
    if not comparison.pieces:  # the branch was only compacted or rewritten, with the same rows
        return unchanged(sides, dry_run=dry_run)
    found = comparison.run(job, on_conflict, write=not dry_run)
    try:
        _check_outcome(sides, found, on_conflict)
    except (BranchDivergedError, UnsupportedFeatureError):
        job.abort(found.messages)
        raise
    if not found.rows and not found.kept:
        return unchanged(sides, dry_run=dry_run)
    result = MergeResult(
        sides.branch,
        sides.fork.id,
        head.id,
        rebased_rows=found.rows,
        kept_conflicts=found.kept,
        removed=Removed(dry_run=dry_run),
        schema_changes=changes_text(sides),
        target=sides.target,
    )
    if dry_run:
        return result
    messages: Sequence[CommitMessage] = found.messages
    if found.replaced:
        messages = with_whole_buckets(job.handle, head, messages, job.commit_user)
    written_keys = _WrittenKeys(sides, found.keys)
    published = commit_rebase(job, messages, sides, head, written_keys.stay_unchanged)
    return replace(result, published_snapshot_id=published)


def _with_row_kinds(job: WriteJob) -> WriteJob:
    """The write with a last column of row kinds; a column that `rowkind.field` names keeps the branch's values."""
    options = {key: value for key, value in job.handle.options.raw.items() if key != ROWKIND_FIELD.key}
    source = job.source.append(pa.field(VALUE_KIND, pa.int8(), False))
    return replace(job, handle=replace(job.handle, options=parse_table_options(options)), source=source)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The comparison of base, branch and main; planned, not yet read.

    Attributes:
        base_and_branch: what the branch changed since the base.
        base_and_main: what main changed since the base.
        records: reader of the records that the branch wrote, before they are merged; None where they are not known.
        pieces: what is compared; only buckets that the branch changed.
        branch_is_newer: whether the branch's head was made after main's.
    """

    sides: Sides
    base_and_branch: RowComparison
    base_and_main: RowComparison
    records: Version | None
    pieces: list[Piece]
    branch_is_newer: bool

    @classmethod
    def plan(cls, sides: Sides, head: Snapshot) -> _Comparison:
        """Plan the comparison with main at `head`."""
        base, branch, main = sides.base, sides.theirs, Resolved(sides.main, head, "head of main")
        base_and_branch = sides.compared(base, branch, is_main=(False, False))
        base_and_main = sides.compared(base, main, is_main=(False, True))
        records, record_splits = _records_of_branch(sides) if base_and_branch.new else (None, ())
        pieces = _pieces(base_and_branch, base_and_main, record_splits)
        assert branch.snapshot is not None
        return cls(sides, base_and_branch, base_and_main, records, pieces, branch.snapshot.time_ms > head.time_ms)

    def run(self, job: WriteJob, on_conflict: str, *, write: bool) -> RebasedRows:
        """Compare all pieces: in a Spark job, where there is a session and much to read; else in this process.

        Raises as `RebaseTask.run`.
        """
        sides, options = self.sides, job.handle.options
        task = RebaseTask(
            base=self.base_and_branch.comparison.old,
            theirs=self.base_and_branch.comparison.new,
            main=self.base_and_main.comparison.new,
            written=self.records,
            three_way=ThreeWay(
                sides.schema.primary_keys,
                sides.shared_columns,
                sides.columns_of_main,
                sides.columns_of_branch,
                wins_of(on_conflict),
                tuple(options.sequence_fields),
                options.sequence_descending,
                self.branch_is_newer,
            ),
            replacement=Replacement.of(job.handle),
            fails=on_conflict == FAIL,
            write=job.task if write else None,
            most_keys=rebase_rows.KEY_HASHES // len(self.pieces),
        )
        with ExitStack() as stack:
            for scan in (*self.base_and_branch.scans, *self.base_and_main.scans):
                stack.enter_context(scan.refusing_expired())
            spark = self._find_spark(job)
            if spark is None:
                return task.run(self.pieces, alone=True)
            total = RebasedRows()
            for outcome in spark.run_each(task.run, [[piece] for piece in self.pieces], job.sweep):
                total.add(outcome)
            return total

    def _find_spark(self, job: WriteJob) -> SparkJobs | None:
        """The active session's jobs, where the work is worth them and can be divided into tasks."""
        one_task_sees_all = job.task.request.existing_keys is not None
        if sum(p.size_bytes for p in self.pieces) < _SPARK_BYTES or one_task_sees_all:
            return None
        return active_spark_jobs()


def _pieces(
    base_and_branch: RowComparison, base_and_main: RowComparison, record_splits: Iterable[DataSplit]
) -> list[Piece]:
    """The splits of all versions, by groups that have all rows of their keys; only groups that the branch changed."""
    grouping = min(base_and_branch.grouping, base_and_main.grouping)
    lacking_in_main = {split_identity(s) for s in base_and_main.old}

    def grouped(splits: Iterable[DataSplit]) -> dict[Hashable, list[DataSplit]]:
        groups: dict[Hashable, list[DataSplit]] = defaultdict(list)
        for split in splits:
            groups[grouping.group_of(split)].append(split)
        return groups

    base = grouped(s for s in base_and_branch.old if split_identity(s) in lacking_in_main)
    same = grouped(s for s in base_and_branch.old if split_identity(s) not in lacking_in_main)
    theirs, main, written = grouped(base_and_branch.new), grouped(base_and_main.new), grouped(record_splits)
    changed = dict.fromkeys(grouping.group_of(s) for s in (*base_and_branch.old, *base_and_branch.new))
    return [
        Piece(number, *(tuple(groups.get(group, ())) for groups in (base, same, theirs, main, written)))
        for number, group in enumerate(changed)
    ]


def _records_of_branch(sides: Sides) -> tuple[Version | None, Sequence[DataSplit]]:
    """Reader of the records that the branch wrote since the base, and their splits, in order.

    Only engines that merge values of several records need them. None where they are not known: snapshots expired, or
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


@dataclass(frozen=True, slots=True)
class _WrittenKeys:
    """The keys that a rebase writes, looked for in later commits to main.

    Attributes:
        hashes: `hashes_of` the keys; None for too many.
    """

    sides: Sides
    hashes: Sequence[I64] | None

    def stay_unchanged(self, head: Snapshot, now: Snapshot) -> bool:
        """Whether the commits to main after `head`, up to `now`, change none of the keys.

        They alone are read, and the versions are not compared again: other writers go on meanwhile. Raises
        CommitConflictError instead of returning False.
        """
        main = self.sides.main
        try:
            before, *since = get_snapshots(main, range(head.id, now.id + 1))
            query = ScanQuery(tuple(main.schema.primary_keys), with_row_kind=True)
            found = plan_changes(main, head.id, now.id, query, changelog=False)
            rows = [batch for split in found.splits for batch in read_split(found.request, split)]
            _check_all_visible(self.sides, main, now)
        except (NotFoundError, InvalidInputError, FileMissingError) as e:
            raise CommitConflictError(e.message) from e
        if not same_snapshot(before, head) or not same_snapshot(since[-1], now):
            raise CommitConflictError(f"main of table {main.name} was given another history")
        changes = [s for s in since if s.commit_kind is not CommitKind.COMPACT]
        if any(s.commit_kind is not CommitKind.APPEND or s.schema_id != before.schema_id for s in changes):
            raise CommitConflictError(f"main of table {main.name} was changed by more than appended rows")
        if rows and self._are_among(pa.Table.from_batches(rows)):
            raise CommitConflictError(f"others changed the same keys of main of table {main.name}")
        return True

    def _are_among(self, rows: pa.Table) -> bool:
        """Whether rows of main may have one of the keys."""
        if self.hashes is None:
            return True
        keys = self.sides.main.schema.primary_keys
        new_names = self.sides.merged.names  # the branch may have renamed columns of the key
        renamed = rows.select(keys).rename_columns([new_names[k] for k in keys])
        theirs = hashes_of(renamed.select(self.sides.schema.primary_keys))
        return any(np.isin(theirs, ours).any() for ours in self.hashes)


def _check_outcome(sides: Sides, found: RebasedRows, on_conflict: str) -> None:
    """Check that the rows may be written. Raises BranchDivergedError, UnsupportedFeatureError."""
    if found.conflicts and on_conflict == FAIL:
        raise _conflict(sides, found)
    if found.against_order:
        raise UnsupportedFeatureError(
            f"{counted(found.against_order, 'row')} of {sides.what} have smaller values of "
            f"{', '.join(sides.main.options.sequence_fields)} than {sides.onto}'s rows of the same keys, so that those "
            f"would stay the newest; {_advice_for_conflicts(found, on_conflict, by_order=True)}{instead(sides)}",
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
            f"{limits or engine}; {_advice_for_conflicts(found, on_conflict)}{instead(sides)}",
            feature=f"rebase with {'ignore-delete' if ignores else engine}",
            table=sides.main.name,
        )


def _advice_for_conflicts(found: RebasedRows, on_conflict: str, *, by_order: bool = False) -> str:
    """The advice to leave keys that both changed as main has them, where that may be enough."""
    if not found.conflicts or on_conflict == OURS:
        return ""
    newest = " or 'newest'" if by_order and on_conflict == THEIRS else ""
    return f"use on_conflict='ours'{newest}, if these are keys that both changed; or "


def _conflict(sides: Sides, found: RebasedRows) -> BranchDivergedError:
    """The error of keys that both sides changed to different rows."""
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


def _check_all_visible(sides: Sides, handle: TableHandle, snapshot: Snapshot | None) -> None:
    """Check that no rows wait for a compaction to be seen, as they would not be compared. Raises InvalidInputError."""
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
