"""Writers of buckets with keys: rows merged into level 0, or postponed.

Rows get their sequence numbers in order of arrival, before anything is sorted. When memory is short, buffered rows
are sorted and spilled to local disk; `close` merges them.

Source: Java `mergetree/MergeTreeWriter`, `mergetree/SortBufferWriteBuffer`, `postpone/PostponeBucketWriter`,
`postpone/PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.functions import create_merge_function
from paimon_spark.engine.merge.key_value import Groups, is_retract, kinds_array, take
from paimon_spark.engine.merge.ordering import column_words, group_starts, pack, sort_unsorted_rows
from paimon_spark.engine.merge.sorted_merge import (
    MergePlan,
    SequenceField,
    Window,
    batches_of,
    merge_window,
    window_rows,
    windows,
)
from paimon_spark.engine.merge.sorted_merge import sequence_order as order_by_age
from paimon_spark.engine.merge.spill import SpilledRun, SpillFile
from paimon_spark.engine.tasks import Increment
from paimon_spark.engine.write.data_files import DataFiles, DirectWriter, RollingWriter
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import DataError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.arrays.pieces import joined
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.options.core import ChangelogProducer
from paimon_spark.types import SEQUENCE_NUMBER, VALUE_KIND

# Writers of one job agree on numbers without talking to each other: each takes one residue class, above the largest
# number of the base. Which of two concurrent writers is newer is undefined.
SHARED_STRIDE: Final = 4096
"""Step of the sequence numbers of writers that share buckets: up to so many writers never use a number twice."""
_PART_BYTES: Final = 16 << 20
"""Bytes of a buffer that are merged at a time."""
_BATCH_ROWS: Final = 65536
_MOST_RUNS: Final = 64
"""Runs merged at once."""
_NO_SEQUENCE: Final = -1
SYSTEM_FIELDS: Final = (
    pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
    pa.field(VALUE_KIND, pa.int8(), nullable=False),
)
"""Columns before those of the table in what `RollingWriter` takes of tables with keys."""


class MergeTreeWriter:
    """Writes rows of one bucket of a table with primary keys. A `BucketWriter`.

    Args:
        max_sequence: largest sequence number of the bucket's live files; -1 when there are none.
        files: makes the bucket's files; only tests pass it.
    """

    def __init__(
        self,
        request: WriteRequest,
        partition: bytes,
        bucket: int,
        max_sequence: int,
        files: DataFiles | None = None,
    ) -> None:
        options, schema = request.handle.options, request.handle.schema
        self._request, self._bucket = request, bucket
        self._files = files if files is not None else DataFiles(request, partition, bucket)
        names = schema.row_type.names
        self._schema = pa.schema([*SYSTEM_FIELDS, *arrow_schema(schema.fields)])
        self._plan = MergePlan(
            function=create_merge_function(schema, options),
            key=schema.trimmed_primary_keys,
            sequence=tuple(SequenceField(n, options.sequence_descending) for n in options.sequence_fields),
            output=tuple(names),
            keep_deletes=True,
            batch_rows=_BATCH_ROWS,
            sequence_numbers=True,
        )
        self._changelog = options.changelog_producer is ChangelogProducer.INPUT
        self._spillable = options.write.spillable
        self._most_spilled = options.write.spill_max_disk_bytes
        self._spill = SpillFile()
        self._runs: list[SpilledRun] = []
        self._buffer: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._step = SHARED_STRIDE if request.shares_buckets else 1
        self._next_sequence = max_sequence + 1
        if request.shares_buckets:
            self._next_sequence += request.writer_number % SHARED_STRIDE
        self._new_files: list[DataFileMeta] = []
        self._changelog_files: list[DataFileMeta] = []
        self._open: list[RollingWriter] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Buffer rows. The batch's memory is kept, not copied."""
        if batch.num_rows:
            self._buffer.append(batch)
            self._buffered_bytes += batch.nbytes

    @property
    def buffered_bytes(self) -> int:
        return self._buffered_bytes

    def release(self) -> None:
        """Sort buffered rows and spill them, or write files of level 0 where the table forbids local disk.

        Raises:
            DataError: rows cannot be merged as the table demands.
            StorageError: files cannot be written, or there is no room on disk.
        """
        if not self._buffer:
            return
        if not self._spillable:
            self._flush(self._buffered_windows())
            return
        run = self._spill.put(self._sorted_run())
        if run is not None:
            self._runs.append(run)
        if self._most_spilled is not None and sum(r.size_bytes for r in self._runs) > self._most_spilled:
            self._flush_spilled()
        elif len(self._runs) >= _MOST_RUNS:
            self._join_runs()

    def end_files(self) -> None:
        """Write the remaining rows, to files that get no more. Raises as `release`."""
        if self._runs:
            self.release()
            self._flush_spilled()
        elif self._buffer:
            self._flush(self._buffered_windows())

    def close(self) -> Increment:
        """Write the remaining rows. Raises as `release`."""
        self.end_files()
        self._spill.close()
        return Increment(new_files=tuple(self._new_files), changelog_files=tuple(self._changelog_files))

    def abort(self) -> None:
        """Remove every file made."""
        self._buffer.clear()
        self._runs.clear()
        self._spill.close()
        for writer in self._open:
            writer.abort()
        self._open.clear()

    def _buffered_windows(self) -> Iterator[Window]:
        """Buffered rows as windows of complete keys. Empties the buffer."""
        window = self._sorted_buffer()
        row_bytes = max(1, sum(c.nbytes for c in window.columns.values()) // max(1, len(window.order)))
        return _parts(window, max(1024, _PART_BYTES // row_bytes), gathered=not self._plan.function.newest_wins)

    def _sorted_buffer(self) -> Window:
        columns = self._take_buffer()
        count = len(columns[SEQUENCE_NUMBER])
        words = pack([word for name in self._plan.key for word in column_words(columns[name])])
        order, ties = sort_unsorted_rows(words, count)
        starts = group_starts(ties)
        if self._plan.sequence:
            order = order_by_age(columns, self._plan, order, ties.copy())
        return Window(columns, order, starts)

    def _take_buffer(self) -> dict[str, pa.Array]:
        """The columns of buffered rows, with sequence numbers, and kinds if any. Empties the buffer."""
        batches, self._buffer, self._buffered_bytes = self._buffer, [], 0
        count = sum(b.num_rows for b in batches)
        numbers = self._next_sequence + self._step * np.arange(count, dtype=np.int64)
        self._next_sequence += self._step * count
        columns = {SEQUENCE_NUMBER: arrow_numpy.fixed_array(numbers, pa.int64())}
        if any(_has_kinds(b) for b in batches):
            columns[VALUE_KIND] = joined([_kinds(b) for b in batches])
        pieces = [[b.column(i) for b in batches] for i in range(len(self._plan.output))]
        del batches
        for name in reversed(self._plan.output):  # frees the pieces of one column before the next is joined
            columns[name] = joined(pieces.pop())
        return columns

    def _sorted_run(self) -> Iterator[pa.RecordBatch]:
        """Buffered rows, sorted, and merged where that may be done in steps."""
        for window in self._buffered_windows():
            yield from self._shortened(window)

    def _shortened(self, window: Window) -> Iterable[pa.RecordBatch]:
        stepwise = self._plan.function.newest_wins and not self._changelog
        return merge_window(window, self._plan) if stepwise else _all_rows(window, self._plan.output)

    def _spilled_windows(self) -> Iterator[Window]:
        """Spilled rows as windows of complete keys. Empties the list of runs."""
        runs, self._runs = self._runs, []
        row_bytes = max(16, sum(r.size_bytes for r in runs) // max(1, sum(r.row_count for r in runs)))
        return windows([self._spill.read(run) for run in runs], self._plan, window_rows(row_bytes, len(runs)))

    def _join_runs(self) -> None:
        joined = self._spill.put(b for window in self._spilled_windows() for b in self._shortened(window))
        self._runs = [] if joined is None else [joined]

    def _flush_spilled(self) -> None:
        self._flush(self._spilled_windows())
        self._spill.close()

    def _flush(self, sorted_windows: Iterator[Window]) -> None:
        """Merge windows into files of level 0, and into changelog files."""
        data = self._files.data()
        self._open.append(data)
        changelog = self._files.changelog() if self._changelog else None
        if changelog is not None:
            self._open.append(changelog)
        try:
            for window in sorted_windows:
                if changelog is not None:
                    for batch in _all_rows(window, self._plan.output):
                        changelog.write(self._typed(batch))
                for batch in merge_window(window, self._plan):
                    data.write(self._typed(batch))
        except DataError as e:
            raise DataError(
                f"{self._request.handle.describe()}, bucket {self._bucket}: {e.message}", **e.context
            ) from e
        self._new_files.extend(data.close())
        if changelog is not None:
            self._changelog_files.extend(changelog.close())

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the schema of files: which columns may be null."""
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)


def _has_kinds(batch: pa.RecordBatch) -> bool:
    return bool(batch.schema.names[-1] == VALUE_KIND)


def _kinds(batch: pa.RecordBatch) -> pa.Array:
    return batch.column(batch.num_columns - 1) if _has_kinds(batch) else kinds_array(np.zeros(batch.num_rows, np.int8))


def _parts(window: Window, rows: int, gathered: bool) -> Iterator[Window]:
    """The window cut where keys begin, into parts of about `rows` rows.

    `gathered` gives each part columns of its own, for merge functions that look at whole columns.
    """
    if len(window.order) <= rows:
        yield window
        return
    begin = 0
    while begin < len(window.starts):
        first = int(window.starts[begin])
        end = max(begin + 1, int(np.searchsorted(window.starts, first + rows)))
        last = int(window.starts[end]) if end < len(window.starts) else len(window.order)
        order, starts = window.order[first:last], window.starts[begin:end] - first
        if gathered:
            columns = {name: take(column, order) for name, column in window.columns.items()}
            yield Window(columns, np.arange(len(order)), starts)
        else:
            yield Window(window.columns, order, starts)
        begin = end


def _all_rows(window: Window, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a window in order, unmerged, with system columns in front."""
    kinds = window.columns.get(VALUE_KIND)
    for begin in range(0, len(window.order), _BATCH_ROWS):
        rows = window.order[begin : begin + _BATCH_ROWS]
        of_kinds = kinds_array(np.zeros(len(rows), np.int8)) if kinds is None else take(kinds, rows)
        arrays = [
            take(window.columns[SEQUENCE_NUMBER], rows),
            of_kinds,
            *(take(window.columns[n], rows) for n in names),
        ]
        yield from batches_of(arrays, (SEQUENCE_NUMBER, VALUE_KIND, *names), len(rows), _BATCH_ROWS)


class PostponedWriter(DirectWriter):
    """Writes rows of a table with `bucket` = -2, for a compaction that moves them to buckets.

    Nothing is sorted or merged: readers take the files of one writer in order, row by row, and all sequence numbers
    are -1.
    """

    def __init__(self, request: WriteRequest, partition: bytes, bucket: int) -> None:
        super().__init__(DataFiles(request, partition, bucket).data())
        schema = request.handle.schema
        self._function = create_merge_function(schema, request.handle.options)
        self._schema = pa.schema([*SYSTEM_FIELDS, *arrow_schema(schema.fields)])
        self._columns = schema.row_type.names
        self._retracts_allowed = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows.

        Raises:
            DataError: the table does not allow retracts.
            StorageError: a file cannot be written.
        """
        rows = batch.num_rows
        kinds = kinds_array(np.zeros(rows, np.int8))
        if VALUE_KIND in batch.schema.names:
            kinds = batch.column(VALUE_KIND)
            self._check_retracts(batch, kinds)
        numbers = arrow_numpy.fixed_array(np.full(rows, _NO_SEQUENCE, np.int64), pa.int64())
        arrays = [numbers, kinds, *(batch.column(name) for name in self._columns)]
        self._rolling.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _check_retracts(self, batch: pa.RecordBatch, kinds: pa.Array) -> None:
        """Refuse retracts now if the merge engine does: merging the first one alone raises DataError."""
        values = arrow_numpy.values(kinds)
        found = np.flatnonzero(is_retract(values))[:1]
        if self._retracts_allowed or not len(found):
            return
        columns = {name: batch.column(name) for name in self._columns}
        groups = Groups(found, np.zeros(1, np.int64), values[found])
        self._function.merge(columns, groups, tuple(self._columns))
        self._retracts_allowed = True
