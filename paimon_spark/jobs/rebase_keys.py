"""Rebase of tables with a primary key: write the rows that the branch changed to main."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.entries import I64, live_at, numbers
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.merge.changelog import equal_values
from paimon_spark.engine.merge.ordering import column_words, pack
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.row_diff.compare import ADDED, BEFORE, CHANGE, REMOVED, pairs_by_key, share_a_key
from paimon_spark.engine.scan.incremental import plan_changes
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.errors import (
    BranchDivergedError,
    CommitConflictError,
    FileMissingError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.format.arrays.arrow_numpy import Bool, fixed_array
from paimon_spark.format.arrays.pieces import taken, whole
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs.batch_write import WriteJob
from paimon_spark.jobs.commit import commit_batch
from paimon_spark.jobs.lineage_port import CommitLineage
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase_sides import Sides, plan_rows, unchanged
from paimon_spark.jobs.row_diff import compare_versions
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.snapshots import get_snapshots, latest_snapshot
from paimon_spark.options.core import MergeEngine
from paimon_spark.options.table import parse_table_options
from paimon_spark.options.write import ROWKIND_FIELD
from paimon_spark.text import counted
from paimon_spark.types import VALUE_KIND, RowKind
from paimon_spark.versioning.merge import FAIL, NEWEST, THEIRS, MergeResult

_TRIES: Final = 10
_PATIENCE_S: Final = 60.0
"""How long commits to main that change other keys may come first."""
_SAMPLE: Final = 3


def rebase_keys(table: OpenedTable, sides: Sides, on_conflict: str, *, dry_run: bool) -> MergeResult:
    """Write the rows that the branch changed to main, by one commit on a head that they were compared with.

    Raises as `Table.merge_branch`.
    """
    _check_visible(sides, sides.theirs.handle, sides.theirs.snapshot)
    theirs = _changed(sides.base, sides.theirs)
    if not len(theirs):  # compacted or rewritten, with the same rows
        return unchanged(sides, dry_run=dry_run)
    for tries_left in reversed(range(_TRIES)):
        try:
            return _try_keys(table, sides, theirs, on_conflict, dry_run=dry_run)
        except CommitConflictError as e:
            if not tries_left:
                raise CommitConflictError(
                    f"{sides.what} was not rebased: other commits to main came first in each of {_TRIES} attempts; "
                    f"stop its writers for a moment. The last time: {e.message}",
                    table=sides.main.name,
                    branch=sides.branch,
                ) from e
    raise AssertionError("the last attempt returns or raises")


def _try_keys(table: OpenedTable, sides: Sides, theirs: pa.Table, on_conflict: str, *, dry_run: bool) -> MergeResult:
    """One attempt. Raises CommitConflictError: others changed main meanwhile, in a way that has to be compared."""
    columns = theirs.drop_columns([CHANGE]).schema
    job = _with_kinds(plan_rows(table, columns))
    assert job.base is not None
    main = resolve(sides.main, None)
    _check_visible(sides, sides.main, job.base)
    ours = _changed(sides.main_base, Resolved(main.handle, job.base, "head of main"))
    chosen, kept = _without_conflicts(sides, theirs, ours, job.base, on_conflict)
    result = MergeResult(
        sides.branch, sides.fork.id, job.base.id, rebased_rows=len(chosen), kept_conflicts=kept,
        removed=Removed(dry_run=dry_run),
    )  # fmt: skip
    if dry_run:
        return result
    _check_engine(sides, chosen)
    keys = theirs.select(sides.main.schema.primary_keys)
    publish = _Publish(sides, keys, job.base)
    messages = job.write(_to_write(chosen, columns).to_batches())
    made = commit_batch(job.handle, job.commit_user, messages, publish, lineage=sides.lineage(job.handle))
    return MergeResult(
        sides.branch,
        sides.fork.id,
        made.snapshot_id or job.base.id,
        rebased_rows=len(chosen),
        kept_conflicts=kept,
    )


def _with_kinds(job: WriteJob) -> WriteJob:
    """The write with a last column of row kinds: a column `rowkind.field` stays as it is on the branch."""
    options = {key: value for key, value in job.handle.options.raw.items() if key != ROWKIND_FIELD.key}
    source = job.source.append(pa.field(VALUE_KIND, pa.int8(), False))
    return replace(job, handle=replace(job.handle, options=parse_table_options(options)), source=source)


@dataclass
class _Publish:
    """Commit on exactly the head that the rows were compared with, or on a later one that changed none of the keys."""

    sides: Sides
    keys: pa.Table
    head: Snapshot

    def __call__(self, committer: Committer, messages: Sequence[CommitMessage], lineage: CommitLineage) -> CommitResult:
        base, end = self.head, time.monotonic() + _PATIENCE_S
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
            query = ScanQuery(tuple(self.keys.column_names))
            found = plan_changes(main, self.head.id, now.id, query, changelog=False)
            rows = [batch for split in found.splits for batch in read_split(found.request, split)]
            _check_visible(self.sides, main, now)
        except (NotFoundError, InvalidInputError, FileMissingError) as e:
            raise CommitConflictError(e.message) from e
        if not same_snapshot(before, self.head) or not same_snapshot(since[-1], now):
            raise CommitConflictError(f"main of table {main.name} was given another history")
        if any(s.commit_kind is not CommitKind.APPEND or s.schema_id != before.schema_id for s in changes):
            raise CommitConflictError(f"main of table {main.name} was changed by more than appended rows")
        if rows and share_a_key(*_together(self.keys, pa.Table.from_batches(rows), self.keys.column_names)):
            raise CommitConflictError(f"others changed the same keys of main of table {main.name}")
        self.head = now


def _changed(old: Resolved, new: Resolved) -> pa.Table:
    """The last state of each key that differs: column `CHANGE` is `REMOVED` where it has no row now."""
    planned = compare_versions(old, new)
    rows = pa.Table.from_batches(list(planned.to_batches()), planned.no_rows().schema)
    kinds = rows.column(CHANGE)
    return rows.filter(pc.not_equal(kinds, pa.scalar(BEFORE)))


def _matched(one: pa.Table, other: pa.Table, keys: Sequence[str]) -> tuple[I64, I64]:
    """Rows of two tables with the same key, by their numbers in each."""
    first, second, _ = pairs_by_key(*_together(one, other, keys))
    return first, second - len(one)


def _together(one: pa.Table, other: pa.Table, keys: Sequence[str]) -> tuple[list[pa.Array], Bool]:
    """The keys of two tables, and which rows are of the other one."""
    both = pa.concat_tables([one.select(keys), other.select(keys).cast(one.select(keys).schema)])
    return [whole(both.column(k)) for k in keys], np.arange(len(both)) >= len(one)


def _without_conflicts(
    sides: Sides, theirs: pa.Table, ours: pa.Table, head: Snapshot, on_conflict: str
) -> tuple[pa.Table, int]:
    """The rows of the branch to write to main, and how many rows that both changed stay as they are on main.

    Raises BranchDivergedError: both changed a key to different rows, and `on_conflict` is `fail`.
    """
    mine, other = _matched(theirs, ours, sides.main.schema.primary_keys)
    same = _same_rows(theirs, mine, ours, other)
    conflicts, of_main = mine[~same], other[~same]
    if len(conflicts) and on_conflict == FAIL:
        raise _conflict(sides, theirs, conflicts)
    wins = np.full(len(conflicts), on_conflict == THEIRS)
    if on_conflict == NEWEST and len(conflicts):
        wins = _newer(sides, taken(theirs, conflicts), taken(ours, of_main), head)
    if wins.any():
        _check_may_win(sides, taken(theirs, conflicts[wins]), taken(ours, of_main[wins]))
    keep = np.ones(len(theirs), np.bool_)
    keep[mine] = False
    keep[conflicts[wins]] = True
    return taken(theirs, np.flatnonzero(keep)), int((~wins).sum())


def _same_rows(theirs: pa.Table, mine: I64, ours: pa.Table, other: I64) -> np.ndarray:
    """Whether both sides ended with the same row, or with none."""
    gone = [np.asarray(pc.equal(t.column(CHANGE), pa.scalar(REMOVED))) for t in (theirs, ours)]
    first, second = gone[0][mine], gone[1][other]
    same: np.ndarray = first == second
    both = pa.concat_tables([theirs, ours])
    for name in both.column_names:
        left = np.flatnonzero(same & ~first)
        if name == CHANGE or not len(left):
            continue
        equal = equal_values(whole(both.column(name)), mine[left], other[left] + len(theirs), ordered_maps=False)
        same[left] = equal
    return same


def _newer(sides: Sides, theirs: pa.Table, ours: pa.Table, head: Snapshot) -> np.ndarray:
    """Whether the branch's row is the newer one: by the sequence fields, else by the commits of the heads."""
    assert sides.theirs.snapshot is not None
    later = sides.theirs.snapshot.time_ms > head.time_ms
    order = _order(sides.main, theirs, ours)
    return np.full(len(theirs), later) if order is None else np.where(order == 0, later, order > 0)


def _order(main: TableHandle, theirs: pa.Table, ours: pa.Table) -> np.ndarray | None:
    """1 where the branch's row has larger sequence fields, -1 where main's has, 0 where equal; None without fields."""
    fields = main.options.sequence_fields
    if not fields:
        return None
    words = []
    for name in fields:
        both = whole(pa.concat_tables([theirs.select([name]), ours.select([name])]).column(name))
        words += column_words(both, main.options.sequence_descending)
    order = np.zeros(len(theirs), np.int64)
    for word in pack(words):
        first, second = word[: len(theirs)], word[len(theirs) :]
        order = np.where(order != 0, order, (first > second).astype(np.int64) - (first < second))
    return order


def _check_may_win(sides: Sides, theirs: pa.Table, ours: pa.Table) -> None:
    """Check that rows written to main hide those that main has of the same keys."""
    engine = sides.main.options.merge_engine
    if engine is not MergeEngine.DEDUPLICATE:
        raise UnsupportedFeatureError(
            f"{sides.what} changed keys that main changed too, and with "
            f"merge-engine {engine.value} its rows cannot take the place of main's; use on_conflict='ours'",
            feature=f"rebase conflicts with merge-engine {engine.value}",
        )
    order = _order(sides.main, theirs, ours)
    if order is not None and (order < 0).any():
        raise UnsupportedFeatureError(
            f"{counted(int((order < 0).sum()), 'row')} of {sides.what} have smaller values of "
            f"{', '.join(sides.main.options.sequence_fields)} than main's rows of the same keys, so that main's would "
            "stay the newest; use on_conflict='ours' or 'newest'",
            feature="rebase against the sequence field",
        )


def _check_engine(sides: Sides, chosen: pa.Table) -> None:
    """Check that writing the rows makes main what the branch has. Raises UnsupportedFeatureError."""
    options = sides.main.options
    engine = options.merge_engine
    kinds = chosen.column(CHANGE)
    changed = pc.any(pc.not_equal(kinds, pa.scalar(ADDED))).as_py()
    removed = pc.any(pc.equal(kinds, pa.scalar(REMOVED))).as_py()
    ignores = removed and options.ignore_delete
    if ignores or (engine is not MergeEngine.DEDUPLICATE and changed):
        what = "ignore-delete" if ignores else f"merge-engine {engine.value}"
        raise UnsupportedFeatureError(
            f"{sides.what} cannot be rebased: it changed or removed rows, and with "
            f"{what} these cannot be written to main as they are; pass if_main_moved='replace'",
            feature=f"rebase with {what}",
        )


def _to_write(chosen: pa.Table, columns: pa.Schema) -> pa.Table:
    removed = np.asarray(pc.equal(chosen.column(CHANGE), pa.scalar(REMOVED)))
    kinds = np.where(removed, int(RowKind.DELETE), int(RowKind.INSERT)).astype(np.int8)
    rows = chosen.select(columns.names)
    return rows.append_column(pa.field(VALUE_KIND, pa.int8(), False), fixed_array(kinds, pa.int8()))


def _conflict(sides: Sides, theirs: pa.Table, conflicts: I64) -> BranchDivergedError:
    keys = taken(theirs.select(sides.main.schema.primary_keys), conflicts[:_SAMPLE]).to_pylist()
    shown = "; ".join(", ".join(f"{k}={v!r}" for k, v in key.items()) for key in keys)
    more = ", …" if len(conflicts) > _SAMPLE else ""
    return BranchDivergedError(
        f"{sides.what} was not rebased: main changed {counted(len(conflicts), 'key')} "
        f"that the branch changed to other rows ({shown}{more}); choose on_conflict='ours', 'theirs' or 'newest', or "
        f"correct them on the branch: Table.diff('main', {sides.branch!r}, rows=True) shows them",
        table=sides.main.name,
        branch=sides.branch,
        conflicts=len(conflicts),
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
