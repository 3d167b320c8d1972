"""Merge waiting rows of a postponed bucket with the rows of a bucket.

Waiting rows are neither sorted nor numbered: those of the bucket are sorted in chunks, spilled, and merged in the order
in which they were written. What comes out is merged with the merged rows of the bucket's files, as newer rows; columns
of `sequence.field` decide first.

Source: Java `operation/MergeFileSplitRead.createPostponeMergeReader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from paimon_spark.engine.merge import budget
from paimon_spark.engine.merge.key_value import take
from paimon_spark.engine.merge.ordering import column_words, pack, sort_unsorted_rows
from paimon_spark.engine.merge.sorted_merge import MergePlan, batches_of, merge_runs
from paimon_spark.engine.merge.spill import SpillFile
from paimon_spark.engine.read.file_reader import KIND_FIELD, iter_file
from paimon_spark.engine.read.merged import SplitMerge, earlier, finished, key_predicate, merge_plan
from paimon_spark.engine.tasks.split import DataSplit, ReadRequest
from paimon_spark.format import bucket_hash
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.pieces import joined
from paimon_spark.types import VALUE_KIND

_SPILLED_ROWS: Final = 4096
"""Rows of a spilled batch: one of each chunk is in memory while chunks are merged."""


def read_postponed(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The merged rows of a split whose mode is POSTPONED; batches and errors are those of `read_merged`."""
    return finished(request, split, _batches(request, split))


def _batches(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    # A waiting row may change whether its key matches: only conditions on keys skip anything before the merge.
    request = replace(request, predicate=key_predicate(request))
    plan = merge_plan(request, request.columns, keep_deletes=request.with_row_kind)
    needed = tuple(dict.fromkeys((*plan.key, *(s.name for s in plan.sequence), *plan.function.required(plan.output))))
    partial = replace(plan, output=needed, keep_deletes=True)
    settled = SplitMerge(request, earlier(split), needed, keep_deletes=True, by_key=True).batches()
    waiting = _Waiting(request, split, partial).batches()
    run_rows = budget.window_rows(budget.decoded_row_bytes((*split.before_files, *split.files)), 2)
    yield from merge_runs([settled, waiting], plan, run_rows)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The waiting rows of one bucket, merged by key."""

    request: ReadRequest
    split: DataSplit
    plan: MergePlan

    def batches(self) -> Iterator[pa.RecordBatch]:
        with closing(SpillFile()) as spill:
            runs = [run for chunk in self._chunks() if (run := spill.put(self._sorted(chunk))) is not None]
            if runs:
                row_bytes = max(16, sum(r.size_bytes for r in runs) // sum(r.row_count for r in runs))
                run_rows = budget.window_rows(row_bytes, len(runs))
                yield from merge_runs([spill.read(r) for r in runs], self.plan, run_rows)

    def _chunks(self) -> Iterator[list[pa.RecordBatch]]:
        """The rows of the bucket in the order in which they were written, about half a window at a time."""
        chunk: list[pa.RecordBatch] = []
        for batch in self._rows():
            chunk.append(batch)
            if sum(b.nbytes for b in chunk) >= budget.WINDOW_BYTES // 2:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def _rows(self) -> Iterator[pa.RecordBatch]:
        request, split = self.request, self.split
        keys, function = list(request.schema.bucket_keys), request.options.bucket_function
        for number, file in enumerate(split.files):
            for batch in iter_file(
                request,
                split,
                file,
                split.deletion_of(number),
                self.plan.output,
                batch_rows=request.batch_rows,
                system=(KIND_FIELD,),
            ):
                here = bucket_hash.buckets(batch.select(keys), split.total_buckets, function) == split.bucket
                if here.any():
                    yield batch if here.all() else batch.filter(arrow_numpy.boolean_array(here))

    def _sorted(self, chunk: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows by key, those of one key as they were written."""
        names = [VALUE_KIND, *self.plan.output]
        columns = {n: joined([b.column(i) for b in chunk]) for i, n in enumerate(names)}
        count = sum(b.num_rows for b in chunk)
        words = pack([word for key in self.plan.key for word in column_words(columns[key])])
        order, _ = sort_unsorted_rows(words, count)
        for begin in range(0, count, _SPILLED_ROWS):
            rows = order[begin : begin + _SPILLED_ROWS]
            yield from batches_of([take(columns[n], rows) for n in names], names, len(rows), _SPILLED_ROWS)
