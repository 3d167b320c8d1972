"""The write of DELETE, UPDATE and MERGE to an append table: one Spark job and one commit.

Each row of the DataFrame names the row of a file that is deleted (`PATH`, `INDEX`; null: none), and, where `KEEPS` is
true, holds the new row in the other columns. `OLD_ROW_ID` is the id of the old row in tables that track rows. All rows
of a file are in one task. With data evolution they are sorted by `PATH` and `INDEX`, and where `KEEPS` is true hold new
values of the columns that are set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from paimon_spark.engine.read.file_reader import file_url
from paimon_spark.engine.row_level.job import SplitOutcome
from paimon_spark.engine.tasks import FILE_PATH as PATH
from paimon_spark.engine.tasks import ROW_INDEX as INDEX
from paimon_spark.engine.tasks import RowCounts
from paimon_spark.errors import CommitConflictError, DataError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.jobs.row_level.write import KEEPS, OLD_ROW_ID
from paimon_spark.spark.batch_write import check_complete, run_of, sweep_until_quiet, whose_task
from paimon_spark.spark.worker_errors import errors_in_one_line

if TYPE_CHECKING:
    from paimon_spark.engine.row_level.changed_rows import ChangedRows
    from paimon_spark.engine.tasks import CommitMessage
    from paimon_spark.jobs.lineage_port import TaskIdentity
    from paimon_spark.jobs.row_level.write import RowLevelWrite


@dataclass(frozen=True)
class RowLevelMessage(WriterCommitMessage):
    """The result of one task: files of new rows, changes of files that lose rows, and the numbers of rows.

    `run` as in TaskMessage.
    """

    messages: tuple[CommitMessage, ...]
    outcomes: tuple[SplitOutcome, ...]
    rows: RowCounts
    run: TaskIdentity | None = None


@errors_in_one_line
class RowLevelWriter(DataSourceArrowWriter):
    """The write of one DELETE, UPDATE or MERGE."""

    def __init__(self, work: RowLevelWrite) -> None:
        self._work = work

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowLevelMessage:
        """Write the new rows, then delete the old ones. Executor; after an error no file of the task is left."""
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        splits = self._work.deletes.splits
        places = {file_url(self._work.handle.store, s, s.files[0]): i for i, s in enumerate(splits)}
        rows = self._work.changed_rows(number)
        outcomes: list[SplitOutcome] = []
        counts: list[RowCounts] = []
        try:
            change = self._move_rows if self._work.columns is None else self._change_in_place
            for outcome in change(_counted(iterator, counts), rows, places):
                outcomes.append(outcome)  # noqa: PERF402 - those that ended are aborted
            messages = rows.close()
        except BaseException:
            self._work.deletes.abort(outcomes)
            rows.abort()
            raise
        run = whose_task(self._work.handle, context)
        return RowLevelMessage(tuple(messages), tuple(outcomes), RowCounts.total(counts), run)

    def _move_rows(
        self, batches: Iterator[pa.RecordBatch], rows: ChangedRows, places: Mapping[str, int]
    ) -> Iterator[SplitOutcome]:
        """Write the new rows, then delete the old ones."""
        gone: dict[str, list[Any]] = {}
        for batch in batches:
            _gather(batch, gone)
            _write_new(batch, rows)
        for path, parts in gone.items():
            yield self._dropped(self._split(places, path), _once(parts, path))

    def _change_in_place(
        self, batches: Iterator[pa.RecordBatch], rows: ChangedRows, places: Mapping[str, int]
    ) -> Iterator[SplitOutcome]:
        """Write inserted rows, and file by file the changed columns and the places of deleted rows."""
        done: set[str | None] = set()
        for path, parts in groupby(_runs(batches), lambda run: run[0]):
            assert path not in done, "rows must be sorted by file"
            done.add(path)
            if path is None:
                for _, inserted in parts:
                    names = [n for n in inserted.schema.names if n not in (PATH, INDEX, KEEPS, OLD_ROW_ID)]
                    rows.write(inserted.select(names))
            else:
                yield from self._changed(self._split(places, path), path, [part for _, part in parts])

    def _changed(self, split: int, path: str, parts: list[pa.RecordBatch]) -> Iterator[SplitOutcome]:
        """Change and delete rows of one range of row ids; rows come in the order of their places."""
        _once([arrow_numpy.values(part.column(INDEX)) for part in parts], path)
        kept = [part.filter(part.column(KEEPS)) for part in parts]
        dropped = [part.filter(pc.invert(part.column(KEEPS))) for part in parts]
        for changes, found in ((True, kept), (False, dropped)):
            positions = np.concatenate([arrow_numpy.values(part.column(INDEX)) for part in found])
            if not len(positions):
                continue
            if not changes:
                yield self._dropped(split, positions)
            elif self._work.columns:  # else UPDATE SET * of a source that has no more columns than the partition
                message = self._work.deletes.set_columns(split, self._work.columns, positions, found)
                yield SplitOutcome(len(positions), (), (message,))

    def _dropped(self, split: int, positions: Any) -> SplitOutcome:
        name = self._work.deletes.splits[split].files[0].file_name
        return self._work.deletes.drop(split, {name: positions})

    def _split(self, places: Mapping[str, int], path: str) -> int:
        found = places.get(path)
        if found is None:
            raise CommitConflictError(
                f"{self._work.handle.describe()} was changed while its rows were read: data file {path} is not "
                "in the planned snapshot. Nothing was changed; run it again",
                path=path,
            )
        return found

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the change of all tasks visible at once. Beside the driver."""
        check_complete(messages)
        done = [m for m in messages if isinstance(m, RowLevelMessage)]
        self._work.commit(
            [m for d in done for m in d.messages],
            [o for d in done for o in d.outcomes],
            run_of(messages),
            RowCounts.total(d.rows for d in done),
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks have written when one failed, as `BatchWriter.abort`. Beside the driver."""
        if None in messages:
            sweep_until_quiet(self._work.rows.sweep)


def row_level_writer(work: RowLevelWrite) -> RowLevelWriter:
    """The writer of `work`, with one file in each split, as rows come by file."""
    from paimon_spark.engine.row_level.deletion import split_by_file

    splits = tuple(part for split in work.deletes.splits for part in split_by_file(work.handle.store, split))
    return RowLevelWriter(replace(work, deletes=replace(work.deletes, splits=splits)))


def _counted(batches: Iterable[pa.RecordBatch], counts: list[RowCounts]) -> Iterator[pa.RecordBatch]:
    """The batches; `counts` gets the numbers of rows of each."""
    for batch in batches:
        is_old = arrow_numpy.validity(batch.column(PATH))
        keeps = arrow_numpy.values(batch.column(KEEPS))
        inserted, updated, deleted = keeps & ~is_old, keeps & is_old, is_old & ~keeps
        counts.append(RowCounts(*(int(rows.sum()) for rows in (inserted, updated, deleted))))
        yield batch


def _write_new(batch: pa.RecordBatch, rows: ChangedRows) -> None:
    """Write the new rows: those of tables that track rows with the ids of the old ones."""
    names = [n for n in batch.schema.names if n not in (PATH, INDEX, KEEPS, OLD_ROW_ID)]
    kept = batch.filter(batch.column(KEEPS))
    if OLD_ROW_ID not in batch.schema.names:
        rows.write(kept.select(names))
        return
    ids = kept.column(OLD_ROW_ID)
    rows.write(kept.filter(pc.is_null(ids)).select(names))
    rows.write(kept.filter(pc.is_valid(ids)).select([*names, OLD_ROW_ID]), keeps_row_ids=True)


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Rows that follow each other and are of one file, or new. Each file is met once, as rows are sorted by it."""
    for batch in batches:
        if not batch.num_rows:
            continue
        paths = batch.column(PATH).dictionary_encode()
        codes = np.where(arrow_numpy.validity(paths), arrow_numpy.values(paths.indices), -1)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [batch.num_rows]]).tolist()
        names = [*paths.dictionary.to_pylist(), None]
        for start, end in pairwise(starts):
            yield names[int(codes[start])], batch.slice(start, end - start)


def _gather(batch: pa.RecordBatch, gone: dict[str, list[Any]]) -> None:
    paths = batch.column(PATH).dictionary_encode()
    if not len(paths):
        return
    codes = np.where(arrow_numpy.validity(paths), arrow_numpy.values(paths.indices), -1)
    positions = arrow_numpy.values(batch.column(INDEX))
    for code, path in enumerate(paths.dictionary.to_pylist()):
        gone.setdefault(path, []).append(positions[codes == code].copy())


def _once(parts: list[Any], path: str) -> Any:
    """Positions in ascending order. Raises DataError: a duplicate."""
    positions = np.sort(np.concatenate(parts))
    if len(positions) > 1 and (positions[1:] == positions[:-1]).any():
        raise DataError(
            "a row of the table matches several rows of the source, so it is not clear what it becomes; nothing was "
            "changed. Make the rows of the source unique in the columns of the condition",
            path=path,
        )
    return positions
