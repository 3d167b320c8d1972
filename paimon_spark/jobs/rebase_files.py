"""Rebase of append tables: write rows of added files, remove removed files.

Files are not shared: other engines expire a branch with the tags of main alone, and would delete what main needs.
Rows that the branch deleted by deletion vectors are deleted in main's files, too. Where main no longer has the files,
or columns of earlier rows changed, rows are found by their ids, if the table tracks them.
Rows that the branch added and that are equal to rows that main got meanwhile are conflicts: a branch of an earlier
snapshot, on which the same rows were written again, would double them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.advice import REPLACE_MAIN
from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.entries import live_at
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.row_diff.compare import ADDED, CHANGE, Differences
from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.tasks.split import DataSplit
from paimon_spark.errors import BranchDivergedError, CommitConflictError, NotFoundError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.commit import commit_batch, removing_on_failure
from paimon_spark.jobs.lineage_port import CommitLineage
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase_row_ids import RowsById, by_partition, have_ids, holds_old_rows
from paimon_spark.jobs.rebase_sides import (
    PATIENCE_S,
    Sides,
    changes_text,
    holds_rebase,
    instead,
    plan_rows,
    unchanged,
    unsupported,
)
from paimon_spark.jobs.rebase_vectors import NO_ROWS, DeletedRows, deleted_at, rows_at, vector_changes
from paimon_spark.jobs.row_diff import RowComparison
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.resolve import Resolved
from paimon_spark.metadata.snapshots import get_snapshots, latest_snapshot
from paimon_spark.text import counted
from paimon_spark.versioning.append_branch import missing_files
from paimon_spark.versioning.merge import FAIL, NEWEST, OURS, MergeResult


def rebase_files(table: OpenedTable, sides: Sides, on_conflict: str, *, dry_run: bool) -> MergeResult:
    """Write the rows of files that the branch added to main, and remove files that it removed, by one commit.

    Raises as `Table.merge_branch`.
    """
    main = sides.main
    before, after = (live_at(v.handle, v.snapshot) for v in (sides.base, sides.theirs))
    head = latest_snapshot(main)
    assert head is not None
    now = live_at(main, head)
    added, gone = missing_files(missing_files(after, before), now), missing_files(before, after)
    rewritten = _Rewritten.of(sides, head) if len(gone) else None
    of_branch = DeletedRows()
    by_id: RowsById | None = None
    job = plan_rows(table, sides)
    if rewritten is None:
        of_branch = DeletedRows.of(sides.base, sides.theirs, missing_files(before, gone))
        lost = _lost(sides, head, now, gone, of_branch)
        if have_ids(sides) and (lost or of_branch.back or holds_old_rows(sides, added)):
            by_id, gone, of_branch = RowsById.of(sides, head, job, on_conflict), gone.slice(0, 0), DeletedRows()
            by_id.check(on_conflict)
        elif of_branch.back:
            raise unsupported(sides, f"rows of {min(of_branch.back)} that a deletion vector had deleted are back")
        elif lost:
            raise _lost_files(sides, len(lost))
    on_top: _OnTop | _Rewritten | RowsById
    if by_id is not None:
        on_top = by_id
    elif rewritten is None:
        on_top = _OnTop.of(sides, head, added, gone, of_branch)
    elif rewritten.given:
        on_top, gone = rewritten, gone.slice(0, 0)
    else:
        return unchanged(sides, dry_run=dry_run)
    given = on_top.given
    changed = 0 if by_id is None else by_id.count
    kept = 0 if by_id is None else by_id.merged.kept
    if by_id is not None and not (given or changed or kept):
        return unchanged(sides, dry_run=dry_run)
    repeated = given - sum(part.added for part in on_top.beside_main()) if given and on_top.may_repeat else 0
    if repeated and on_conflict in (FAIL, NEWEST):
        raise _repeats(sides, given, repeated)
    leaves_out = bool(repeated) and on_conflict == OURS
    result = MergeResult(
        sides.branch,
        sides.fork.id,
        head.id,
        rebased_rows=given + changed + rows_at(sides.base, gone) + of_branch.count - (repeated if leaves_out else 0),
        kept_conflicts=kept + (repeated if leaves_out else 0),
        repeated_rows=0 if leaves_out else repeated,
        removed=Removed(dry_run=dry_run),
        schema_changes=changes_text(sides),
        target=sides.target,
    )
    if dry_run:
        return result
    committer = Committer(job.handle, job.commit_user)
    messages = job.write(_added(on_top.beside_main()) if leaves_out else on_top.rows())
    messages += removing_on_failure(
        committer,
        messages,
        lambda: vector_changes(main, head, gone, of_branch) if by_id is None else by_id.write(job),
    )
    job = job.with_changes(messages) if job.changes else job
    with sides.committed(head):
        made = commit_batch(
            job.handle,
            job.commit_user,
            messages,
            _Publish(sides, gone, head),
            undo=job.undo,
            lineage=sides.lineage(job.handle),
        )
    if sides.is_onto_target:
        sides.keep(made.snapshot_ids)
    return replace(result, published_snapshot_id=made.snapshot_id or head.id)


def _lost(sides: Sides, head: Snapshot, now: pa.Table, gone: pa.Table, of_branch: DeletedRows) -> list[str]:
    """The files whose rows the branch removed, and that main no longer has, or with other rows.

    `now`: entries of main's files; `gone`: of those that the branch removed.
    """
    there = set(now.column("file_name").to_pylist())
    was, found = (deleted_at(v, gone) for v in (sides.base, Resolved(sides.main, head, "head of main")))
    needed = [*gone.column("file_name").to_pylist(), *of_branch.files]
    return [
        name
        for name in needed
        if name not in there or not np.array_equal(was.get(name, NO_ROWS), found.get(name, NO_ROWS))
    ]


def _lost_files(sides: Sides, count: int) -> BranchDivergedError:
    """The error of files that main no longer has."""
    return BranchDivergedError(
        f"{sides.what} was not rebased: {sides.onto} no longer has {counted(count, 'file')} that the branch removed or "
        "rewrote, or in which it deleted rows, as that was compacted or rows were deleted there, too; "
        f"{instead(sides)}",
        table=sides.main.name,
        branch=sides.branch,
    )


def _repeats(sides: Sides, given: int, repeated: int) -> BranchDivergedError:
    """The error of a branch that adds rows that main got, too."""
    replace_it = f"{REPLACE_MAIN}, so that main becomes the branch, " if sides.target == MAIN else ""
    return BranchDivergedError(
        f"{sides.what} was not rebased: {sides.onto} has got {repeated:,} of the {counted(given, 'row')} that the "
        "branch added since they parted, as when the branch began before them and they were written again; it would "
        f"have them twice; pass {replace_it}on_conflict='ours', which leaves these rows out, or 'theirs', which adds "
        "them",
        table=sides.main.name,
        branch=sides.branch,
        rows=repeated,
    )


@dataclass(frozen=True, slots=True)
class _OnTop:
    """The rows that the branch added, beside those that main got.

    Attributes:
        compared: head of main, and the branch.
        groups: of each group of splits that may have equal rows: those that only main's files of before have, those
            that main got since, and those that the branch added.
        given: how many rows the branch added.
    """

    compared: RowComparison
    given: int
    groups: list[tuple[list[DataSplit], list[DataSplit], list[DataSplit]]]

    @classmethod
    def of(cls, sides: Sides, head: Snapshot, added: pa.Table, gone: pa.Table, deleted: DeletedRows) -> _OnTop:
        """`added` and `gone`: manifest entries of the files that the branch added and removed; others in `deleted`."""
        compared = sides.compared(Resolved(sides.main, head, "head of main"), sides.theirs, is_main=(True, False))
        names, removed = (set(entries.column("file_name").to_pylist()) for entries in (added, gone))
        removed |= deleted.files
        groups = []
        for of_main, of_branch in compared.groups:
            new = [s for s in of_branch if s.files[0].file_name in names]
            before = [s for s in of_branch if s.files[0].file_name not in names | deleted.files]
            groups.append((before, [s for s in of_main if s.files[0].file_name not in removed], new))
        if not sides.main.options.data_evolution:
            return cls(compared, rows_at(sides.theirs, added), groups)
        ranges = [[(f.first_row_id or 0, f.row_count) for f in s.files] for *_, new in groups for s in new]
        rows = sum(max(first + count for first, count in r) - min(r)[0] for r in ranges)
        return cls(compared, rows - sum(map(len, deleted_at(sides.theirs, added).values())), groups)

    @property
    def may_repeat(self) -> bool:
        """Whether a group has files of both."""
        return any(of_main and new for _, of_main, new in self.groups)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All rows that the branch added."""
        with self.compared.scans[1].refusing_expired():
            for _, _, new in self.groups:
                for split in new:
                    yield from self.compared.comparison.new.read(split)

    def beside_main(self) -> Iterator[Differences]:
        """The differences between the rows that main got and those that the branch added."""
        scans = self.compared.scans
        with scans[0].refusing_expired(), scans[1].refusing_expired():
            for before, of_main, new in self.groups:
                if new:
                    yield from self.compared.comparison.run_on_top(before, of_main, new)


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """As `_OnTop`, of a branch that removed no row, and only rewrote the files that it removed, as compactions do.

    Main may have rewritten the same files. The rows of one partition are held at a time.

    Attributes:
        compared, of_main: what the branch, and main, changed since they parted.
        given: how many rows the branch added.
    """

    compared: RowComparison
    of_main: RowComparison
    given: int

    @classmethod
    def of(cls, sides: Sides, head: Snapshot) -> _Rewritten | None:
        """Rewritten rows of the branch on top of `head`; None where the branch removed rows."""
        compared = sides.compared(sides.base, sides.theirs, is_main=(False, False))
        given = 0
        for part in compared.run():
            if part.removed:
                return None
            given += part.added
        of_main = sides.compared(sides.base, Resolved(sides.main, head, "head of main"), is_main=(False, True))
        return cls(compared, of_main, given)

    @property
    def may_repeat(self) -> bool:
        return bool(self.of_main.new)

    def rows(self) -> Iterator[pa.RecordBatch]:
        return _added(self.compared.run())

    def beside_main(self) -> Iterator[Differences]:
        of_main, of_branch = (by_partition(compared) for compared in (self.of_main, self.compared))
        for partition, groups in of_branch.items():
            added = list(_added(self.compared.run(groups)))
            there = list(_added(self.of_main.run(of_main.get(partition, ()))))
            yield self.compared.comparison.compare(there, added)


def _added(parts: Iterable[Differences]) -> Iterator[pa.RecordBatch]:
    """The rows that only the new version has."""
    for part in parts:
        rows = part.rows.filter(pc.equal(part.rows.column(CHANGE), ADDED)).drop_columns([CHANGE])
        yield from rows.to_batches()


@dataclass(slots=True)
class _Publish:
    """Commit the new files and the removal of `gone`, entries of main, together.

    `head`: main's, on which all was prepared, or a later one that no rebase of this branch made since.
    """

    sides: Sides
    gone: pa.Table
    head: Snapshot

    def __call__(self, committer: Committer, messages: Sequence[CommitMessage], lineage: CommitLineage) -> CommitResult:
        planned_on, end = PlannedOn.of(self.head, must_remain=True), time.monotonic() + PATIENCE_S
        while True:
            try:
                return committer.commit(
                    messages,
                    lineage.identifier,
                    planned_on=planned_on,
                    provenance={**lineage.properties, **self.sides.properties},
                    operation="WRITE",
                    only_on=self.head,
                    force_create=True,
                    removed=self.gone,
                )
            except CommitConflictError:
                now = latest_snapshot(self.sides.main)
                if now is None or same_snapshot(now, self.head) or time.monotonic() > end:
                    raise
                try:
                    since = get_snapshots(self.sides.main, range(self.head.id + 1, now.id + 1))
                except NotFoundError as e:
                    raise CommitConflictError(e.message) from e
                if holds_rebase(since, self.sides):
                    raise
                self.head = now
