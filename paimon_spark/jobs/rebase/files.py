"""Rebase of append tables: write rows of added files, remove removed files.

Files are not shared: other engines expire a branch with the tags of main alone, and would delete what main needs.
Rows that the branch deleted by deletion vectors are deleted in main's files, too. Where main no longer has the files,
or columns of earlier rows changed, rows are found by their ids, if the table tracks them.
Rows that the branch added and that are equal to rows that main got meanwhile are conflicts: a branch of an earlier
snapshot, on which the same rows were written again, would double them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.advice import REPLACE_MAIN
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.entries import live_at, numbers
from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.row_diff.compare import ADDED, CHANGE, Differences
from paimon_spark.engine.tasks import CommitMessage, DataSplit, Increment
from paimon_spark.errors import BranchDivergedError, CommitConflictError, NotFoundError
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase.commit import changes_text, commit_rebase, plan_rows, unchanged
from paimon_spark.jobs.rebase.earlier import holds_rebase
from paimon_spark.jobs.rebase.row_ids import RowsById, by_partition, have_ids, holds_old_rows
from paimon_spark.jobs.rebase.sides import Sides, instead, unsupported
from paimon_spark.jobs.row_diff.comparison import RowComparison
from paimon_spark.jobs.write.commit import removing_on_failure
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.live_files import BucketStates
from paimon_spark.metadata.resolve import Resolved
from paimon_spark.metadata.snapshots import get_snapshots, latest_snapshot
from paimon_spark.metadata.vector_files import (
    changed_vectors,
    read_vectors,
    remove_index_files,
    united,
    vector_files,
)
from paimon_spark.text import counted
from paimon_spark.versioning.append_branch import missing_files
from paimon_spark.versioning.merge import FAIL, NEWEST, OURS, MergeResult

_NO_ROWS: Final[Positions] = np.empty(0, np.int64)


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
    of_branch = _DeletedRows()
    by_id: RowsById | None = None
    job = plan_rows(table, sides)
    if rewritten is None:
        of_branch = _DeletedRows.of(sides.base, sides.theirs, missing_files(before, gone))
        lost = _lost(sides, head, now, gone, of_branch)
        if have_ids(sides) and (lost or of_branch.back or holds_old_rows(sides, added)):
            by_id, gone, of_branch = RowsById.of(sides, head, job, on_conflict), gone.slice(0, 0), _DeletedRows()
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
        rebased_rows=given + changed + _rows_at(sides.base, gone) + of_branch.count - (repeated if leaves_out else 0),
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
        lambda: _vector_changes(main, head, gone, of_branch) if by_id is None else by_id.write(job),
    )
    published = commit_rebase(job, messages, sides, head, partial(_may_follow, sides), removed=gone)
    return replace(result, published_snapshot_id=published)


def _may_follow(sides: Sides, head: Snapshot, now: Snapshot) -> bool:
    """Whether no commit to main after `head`, up to `now`, was made by a rebase of the same branch."""
    try:
        since = get_snapshots(sides.main, range(head.id + 1, now.id + 1))
    except NotFoundError as e:
        raise CommitConflictError(e.message) from e
    return not holds_rebase(since, sides.branch)


def _lost(sides: Sides, head: Snapshot, now: pa.Table, gone: pa.Table, of_branch: _DeletedRows) -> list[str]:
    """The files whose rows the branch removed, and that main no longer has, or with other rows.

    `now`: entries of main's files; `gone`: of those that the branch removed.
    """
    there = set(now.column("file_name").to_pylist())
    was, found = (_deleted_at(v, gone) for v in (sides.base, Resolved(sides.main, head, "head of main")))
    needed = [*gone.column("file_name").to_pylist(), *of_branch.files]
    return [
        name
        for name in needed
        if name not in there or not np.array_equal(was.get(name, _NO_ROWS), found.get(name, _NO_ROWS))
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
    def of(cls, sides: Sides, head: Snapshot, added: pa.Table, gone: pa.Table, deleted: _DeletedRows) -> _OnTop:
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
            return cls(compared, _rows_at(sides.theirs, added), groups)
        ranges = [[(f.first_row_id or 0, f.row_count) for f in s.files] for *_, new in groups for s in new]
        rows = sum(max(first + count for first, count in r) - min(r)[0] for r in ranges)
        return cls(compared, rows - sum(map(len, _deleted_at(sides.theirs, added).values())), groups)

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


@dataclass(frozen=True, slots=True)
class _DeletedRows:
    """How deletion vectors of the files that two versions have differ.

    Attributes:
        deleted: positions that the later version alone has, by partition and bucket, and name of the data file.
        back: files with positions that the earlier version alone has.
    """

    deleted: Mapping[tuple[bytes, int], Mapping[str, Positions]] = field(default_factory=dict)
    back: frozenset[str] = frozenset()

    @classmethod
    def of(cls, old: Resolved, new: Resolved, files: pa.Table) -> _DeletedRows:
        """`files`: entries of those that both versions have."""
        both = set(files.column("file_name").to_pylist())
        before, after = (vector_files(v.handle, v.snapshot) for v in (old, new))
        deleted: dict[tuple[bytes, int], dict[str, Positions]] = defaultdict(dict)
        back: set[str] = set()
        for place in dict.fromkeys((*before, *after)):
            ranges = [_ranges(entries.get(place, ())) for entries in (before, after)]
            names = {name for name, _ in ranges[0].items() ^ ranges[1].items()} & both
            was, now = (_positions(v, entries.get(place, ()), names) for v, entries in ((old, before), (new, after)))
            for name in names:
                first, second = was.get(name, _NO_ROWS), now.get(name, _NO_ROWS)
                more = np.setdiff1d(second, first, assume_unique=True)
                if len(more):
                    deleted[place][name] = more
                if len(np.setdiff1d(first, second, assume_unique=True)):
                    back.add(name)
        return cls(deleted, frozenset(back))

    @property
    def files(self) -> frozenset[str]:
        """Names of data files whose rows were deleted."""
        return frozenset(name for files in self.deleted.values() for name in files)

    @property
    def count(self) -> int:
        """Of deleted rows."""
        return sum(len(rows) for files in self.deleted.values() for rows in files.values())


def _ranges(entries: Iterable[IndexManifestEntry]) -> dict[str, tuple[str, int]]:
    """Where the vector of each data file lies."""
    return {r.data_file_name: (e.file_name, r.offset) for e in entries for r in e.deletion_vectors or ()}


def _positions(
    version: Resolved, entries: Iterable[IndexManifestEntry], names: Collection[str]
) -> dict[str, Positions]:
    return {name: rows for e in entries for name, rows in read_vectors(version.handle, e, names).items()}


def _deleted_at(version: Resolved, entries: pa.Table) -> dict[str, Positions]:
    """The rows of data files that are deleted at a version."""
    names = set(entries.column("file_name").to_pylist()) if len(entries) else set()
    found = vector_files(version.handle, version.snapshot) if names else {}
    return {n: rows for each in found.values() for n, rows in _positions(version, each, names).items()}


def _rows_at(version: Resolved, entries: pa.Table) -> int:
    """The rows of files at a version, those aside that are deleted."""
    deleted = _deleted_at(version, entries)
    return int(numbers(entries, "row_count").sum()) - sum(map(len, deleted.values()))


def _vector_changes(main: TableHandle, head: Snapshot, gone: pa.Table, of_branch: _DeletedRows) -> list[CommitMessage]:
    """The deletion vectors that main's files get: those of files that stay, none of removed ones."""
    changes: dict[tuple[bytes, int], dict[str, Positions | None]] = defaultdict(dict)
    places = (gone.column(name).to_pylist() for name in ("partition", "bucket", "file_name"))
    for partition, bucket, name in zip(*places, strict=True):
        changes[partition, bucket][name] = None
    there = vector_files(main, head)
    if not there and not of_branch.deleted:
        return []
    for place, deleted in of_branch.deleted.items():
        known = _positions(Resolved(main, head, ""), there.get(place, ()), deleted)
        changes[place].update({n: united(known.get(n, _NO_ROWS), rows) for n, rows in deleted.items()})
    states = BucketStates(main, head)
    out: list[CommitMessage] = []
    try:
        for place, files in changes.items():
            new, old = changed_vectors(main, place, there.get(place, ()), files, in_one_file=has_buckets(main))
            if new or old:
                total = states.of(place[0]).total_buckets
                done = Increment(new_index_files=tuple(new), deleted_index_files=tuple(old))
                out.append(CommitMessage(*place, main.options.bucket if total is None else total, done))
    except BaseException:
        remove_index_files(main, [e for m in out for e in m.data.new_index_files])
        raise
    return out
