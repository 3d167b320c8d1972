"""Rebase of tables that track rows: changed and deleted rows are found by their ids.

Ids of rows that both sides had when they parted stay, whatever files the rows lie in. Rows that either side added since
have ids that mean other rows on the other side; the branch's get new ones on main.

The rows that the branch changed or deleted are held in memory, with main's rows of the same ids; added ones are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.merge.changelog import equal_values
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.row_diff.compare import ADDED, AFTER, CHANGE, Differences, MergedRows, ThreeWay, compare
from paimon_spark.engine.row_level import job as row_level
from paimon_spark.engine.row_level.changed_rows import ChangedRows
from paimon_spark.engine.row_level.deletion import split_by_file
from paimon_spark.engine.row_level.job import RowLevelJob, SplitOutcome
from paimon_spark.engine.row_level.strategy import check_deletes
from paimon_spark.engine.tasks import ROW_INDEX, CommitMessage, DataSplit
from paimon_spark.errors import BranchDivergedError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import boolean_array, values
from paimon_spark.format.arrays.pieces import taken, whole
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.rebase.rows import SAMPLE
from paimon_spark.jobs.rebase.sides import Sides, unsupported, wins_of
from paimon_spark.jobs.row_diff.comparison import RowComparison
from paimon_spark.jobs.write.batch import WriteJob
from paimon_spark.jobs.write.commit import removing_on_failure
from paimon_spark.metadata.resolve import Resolved
from paimon_spark.text import counted
from paimon_spark.types import BIGINT, ROW_ID, ROW_ID_FIELD_ID, DataField, RowType
from paimon_spark.versioning.merge import FAIL

_ID_FIELD = DataField(ROW_ID_FIELD_ID, ROW_ID, BIGINT)


def have_ids(sides: Sides) -> bool:
    """Whether rows that both sides had when they parted have ids."""
    handles = (sides.main, sides.base.handle, sides.theirs.handle)
    return sides.fork.next_row_id is not None and all(h.options.row_tracking for h in handles)


def holds_old_rows(sides: Sides, files: pa.Table) -> bool:
    """Whether one of some new files of the branch, given as manifest entries, has rows that the base has."""
    names = files.column("write_cols")
    if names.null_count < len(names) and any(ROW_ID in (cols or ()) for cols in names.to_pylist()):
        return True
    first, base = pc.min(files.column("first_row_id")).as_py(), sides.base.snapshot
    return first is not None and base is not None and first < (base.next_row_id or 0)


@dataclass(frozen=True, slots=True)
class RowsById:
    """Rows that a branch changed, by row id, and the resulting changes of main's rows.

    Attributes:
        compared, of_main: what the branch, and main, changed since they parted; rows with their ids.
        given: how many rows the branch added.
        merged: main's rows that change.
        job: what changes them. Its splits are files, or with data evolution ranges of row ids.
        places: of the rows of `merged` that main has: number of the split, and position in it; -1 for others.
    """

    sides: Sides
    compared: RowComparison
    of_main: RowComparison
    given: int
    merged: MergedRows
    job: RowLevelJob
    places: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, sides: Sides, head: Snapshot, rows: WriteJob, on_conflict: str) -> RowsById:
        """`rows`: the write to main, planned on its head.

        Raises UnsupportedFeatureError: the branch changed rows that an earlier rebase brought to main.
        """
        main = Resolved(sides.main, head, "head of main")
        assert sides.theirs.snapshot is not None
        compared = _with_ids(sides.compared(sides.base, sides.theirs, is_main=(False, False)))
        base, theirs, given = _changed(sides, compared)
        wanted = np.unique(np.concatenate([values(whole(t.column(ROW_ID))) for t in (base, theirs)]))
        job = row_level.plan_rows(rows.handle, None, updates=True, base_id=head.id)
        parts = [p for s in job.splits for p in split_by_file(sides.main.store, s) if _may_have(p, wanted)]
        job = replace(job, splits=tuple(parts), commit_user=rows.commit_user, job=rows.job)
        there, at, positions = _rows_of(job, wanted, base.schema)
        three_way = ThreeWay(
            (ROW_ID,), sides.shared_columns, sides.columns_of_main, sides.columns_of_branch, wins_of(on_conflict),
            (), False,
            sides.theirs.snapshot.time_ms > head.time_ms,
        )  # fmt: skip
        merged = three_way.merge(base, np.zeros(len(base), np.bool_), theirs, there)
        ids, known = (values(whole(t.column(ROW_ID))) for t in (merged.old, there))
        order = np.argsort(known, kind="stable")
        near = order[np.minimum(np.searchsorted(known, ids, sorter=order), max(len(known) - 1, 0))] if len(known) else 0
        places = tuple(np.where(merged.there, p[near] if len(known) else -1, -1) for p in (at, positions))
        of_main = _with_ids(sides.compared(sides.main_base, main, is_main=(True, True)))
        return cls(sides, compared, of_main, given, merged, job, (places[0], places[1]))

    @property
    def may_repeat(self) -> bool:
        return bool(self.of_main.new)

    @property
    def count(self) -> int:
        """Rows of main that change."""
        return len(self.merged.rows)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows that the branch added."""
        for part in self.compared.run():
            yield from _added(part, self.sides.fork.next_row_id or 0).drop_columns([ROW_ID]).to_batches()

    def beside_main(self) -> Iterator[Differences]:
        """The differences between the rows that main got and those that the branch added, partition by partition."""
        known = [name for name in self.compared.comparison.compared if name != ROW_ID]
        of_main, of_branch = (by_partition(c) for c in (self.of_main, self.compared))
        for partition, groups in of_branch.items():
            sides = ((self.compared, groups, self.sides.fork), (self.of_main, of_main.get(partition, ()), None))
            added, there = (
                [_added(part, _first_new(self.sides, fork)).drop_columns([ROW_ID]) for part in compared.run(groups)]
                for compared, groups, fork in sides
            )
            empty = self.compared.no_rows().drop_columns([CHANGE, ROW_ID])
            old, new = (pa.concat_tables([empty, *(t.cast(empty.schema) for t in tables)]) for tables in (there, added))
            yield compare(old, new, (), known)

    def check(self, on_conflict: str) -> None:
        """Check that main's rows may change so. Raises BranchDivergedError, UnsupportedFeatureError."""
        conflicts = self.merged.conflicts
        if len(conflicts) and on_conflict == FAIL:
            ids = ", ".join(map(str, conflicts.column(ROW_ID).to_pylist()[:SAMPLE]))
            shown = f"{ROW_ID} {ids}{', …' if len(conflicts) > SAMPLE else ''}"
            raise BranchDivergedError(
                f"{self.sides.what} was not rebased: {self.sides.onto} changed {counted(len(conflicts), 'row')} that "
                f"the branch changed to other rows ({shown}); choose on_conflict='ours', 'theirs' or "
                "'newest', or correct them on the branch",
                table=self.sides.main.name,
                branch=self.sides.branch,
                conflicts=len(conflicts),
            )
        back = int((~self.merged.removed & ~self.merged.there).sum())
        if back and self.job.handle.options.data_evolution:  # with another id the next rebase would not know it
            raise unsupported(
                self.sides,
                f"{self.sides.onto} lacks {counted(back, 'row')} that it changed, and with data-evolution.enabled no "
                "row comes back with its id; on_conflict='ours' leaves these out",
            )
        if self.merged.removed.any():
            try:
                check_deletes(self.job.handle)
            except UnsupportedFeatureError as e:
                raise unsupported(self.sides, e.message) from e

    def write(self, rows: WriteJob) -> list[CommitMessage]:
        """Write what changes main's rows; after an error no file of it is left. Raises as `RowLevelJob.run`."""
        outcomes: list[SplitOutcome] = []
        writer = ChangedRows(rows.task.numbered(2 * len(self.job.splits) + 1, shares_buckets=True))
        committer = Committer(self.job.handle, self.job.commit_user)
        try:
            if not self.job.handle.options.data_evolution:
                for batch in self.merged.rows.filter(boolean_array(~self.merged.removed)).to_batches():
                    writer.write(batch, keeps_row_ids=True)
            outcomes += self._change_files()
            messages = writer.close()
        except BaseException:
            writer.abort()
            self.job.abort(outcomes)
            raise
        changed = removing_on_failure(committer, messages, lambda: self.job.finish(outcomes))
        return [*changed, *messages]

    def _change_files(self) -> Iterator[SplitOutcome]:
        at, positions = self.places
        evolves = self.job.handle.options.data_evolution
        changed = _changed_columns(self.merged) if evolves else {}
        for number in np.unique(at[at >= 0]).tolist():
            hits = np.flatnonzero(at == number)
            hits = hits[np.argsort(positions[hits])]
            gone = hits[self.merged.removed[hits]] if evolves else hits
            if len(gone):
                anchor = self.job.splits[number].files[0].file_name
                yield self.job.drop(number, {anchor: positions[gone]})
            set_rows = hits[~self.merged.removed[hits]] if evolves else hits[:0]
            columns = [name for name, differs in changed.items() if differs[set_rows].any()]
            if columns:
                batches = taken(self.merged.rows, set_rows).drop_columns([ROW_ID]).combine_chunks().to_batches()
                yield SplitOutcome(
                    len(set_rows), (), (self.job.set_columns(number, columns, positions[set_rows], batches),)
                )


def _with_ids(planned: RowComparison) -> RowComparison:
    """The same comparison by row id."""
    comparison = planned.comparison
    old, new = (
        replace(v, own=RowType(fields=(*v.own.fields, _ID_FIELD)), columns=(*v.columns, _ID_FIELD))
        for v in (comparison.old, comparison.new)
    )
    known = (*comparison.compared, ROW_ID)
    return replace(planned, comparison=replace(comparison, old=old, new=new, keys=(ROW_ID,), compared=known))


def _first_new(sides: Sides, fork: Snapshot | None) -> int:
    """The first row id that a side has given out since the fork, or since the last rebase, where main's is not it."""
    snapshot = sides.main_base.snapshot if fork is None else fork
    return 0 if snapshot is None else snapshot.next_row_id or 0


def _added(part: Differences, first: int) -> pa.Table:
    """The rows that only the new version has, with ids from `first` on."""
    rows = part.rows
    is_added = pc.and_(pc.equal(rows.column(CHANGE), ADDED), pc.greater_equal(rows.column(ROW_ID), first))
    return rows.filter(is_added).drop_columns([CHANGE])


def _changed(sides: Sides, compared: RowComparison) -> tuple[pa.Table, pa.Table, int]:
    """Rows of the base, and of the branch, that the branch changed; and the number of rows that it added."""
    first = sides.fork.next_row_id or 0
    empty = compared.no_rows().drop_columns([CHANGE])
    held: tuple[list[pa.Table], list[pa.Table]] = ([empty], [empty])
    given = 0
    for part in compared.run():
        kinds = part.rows.column(CHANGE)
        is_new = pc.is_in(kinds, value_set=pa.array([ADDED, AFTER]))
        is_old_id = pc.less(part.rows.column(ROW_ID), first)
        rows = part.rows.drop_columns([CHANGE])
        given += len(_added(part, first))
        if not pc.all(pc.or_(is_old_id, pc.equal(kinds, ADDED)), min_count=0).as_py():
            raise unsupported(sides, "it changed or deleted rows that an earlier rebase of it brought to main")
        for number, mask in enumerate((pc.invert(is_new), pc.and_(is_new, is_old_id))):
            held[number].append(rows.filter(mask).cast(empty.schema))
    return pa.concat_tables(held[0]), pa.concat_tables(held[1]), given


def _may_have(part: DataSplit, ids: np.ndarray) -> bool:
    """Whether a file may have rows of some ids, which are sorted."""
    file = part.files[0]
    if file.first_row_id is None or ROW_ID in (file.write_cols or ()):
        return len(ids) > 0
    near = int(np.searchsorted(ids, file.first_row_id))
    return near < len(ids) and ids[near] < file.first_row_id + file.row_count


def _rows_of(job: RowLevelJob, ids: np.ndarray, schema: pa.Schema) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """The rows of some ids, as `schema` has them; the split of each, and its position there."""
    names = [name for name in schema.names if name != ROW_ID]
    asked = replace(job.read, columns=(*names, ROW_INDEX, ROW_ID))
    held = [schema.empty_table()]
    at, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, part in enumerate(job.splits):
        for batch in read_split(asked, part):
            found = np.isin(values(batch.column(ROW_ID)), ids)
            if found.any():
                rows = batch.filter(boolean_array(found))
                held.append(pa.Table.from_batches([rows.select(schema.names)]).cast(schema))
                positions.append(values(rows.column(ROW_INDEX)))
                at.append(np.full(rows.num_rows, number, np.int64))
    return pa.concat_tables(held), np.concatenate(at), np.concatenate(positions)


def _changed_columns(merged: MergedRows) -> dict[str, np.ndarray]:
    """For each column, which rows get another value than main's present row has."""
    count = len(merged.rows)
    rows = np.arange(count)
    both = pa.concat_tables([merged.rows, merged.old])
    names: Sequence[str] = [name for name in both.column_names if name != ROW_ID]
    return {n: ~equal_values(whole(both.column(n)), rows, rows + count, ordered_maps=False) for n in names}


def by_partition(compared: RowComparison) -> dict[bytes, list[tuple[list[DataSplit], list[DataSplit]]]]:
    """The groups of splits by the partition of all their splits."""
    found: dict[bytes, list[tuple[list[DataSplit], list[DataSplit]]]] = {}
    for old, new in compared.groups:
        found.setdefault((old or new)[0].partition, []).append((old, new))
    return found
