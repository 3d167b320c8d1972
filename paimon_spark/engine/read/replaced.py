"""Rows that an overwrite took away and rows that it put in their place, for streams of primary-key tables.

Source: Java `table/source/splitread/IncrementalChangelogReadProvider`, `operation/ReverseReader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from paimon_spark.engine.read.merged import read_merged
from paimon_spark.engine.read.metadata_columns import output_schema
from paimon_spark.engine.read.raw import read_changes
from paimon_spark.engine.tasks.read_request import ReadRequest
from paimon_spark.engine.tasks.split import DataSplit, SplitMode
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.arrays.python_values import scalar_of
from paimon_spark.types import RowKind


def read_replaced(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The merged rows of `split.before_files`, each as -D, then those of `split.files`, each as +I.

    Without `request.with_row_kind` only the latter, as everywhere. Files of a postponed bucket are not merged: all
    rows that were added to it go, and those that come have the kinds they were written with. Batches and errors are
    those of `read_merged`.
    """
    plain = replace(request, with_row_kind=False)
    if request.with_row_kind:
        before = replace(
            split, files=split.before_files, deletions=split.before_deletions, before_files=(), before_deletions=()
        )
        yield from _as(RowKind.DELETE, request, _rows(plain, before))
    after = replace(split, before_files=(), before_deletions=())
    if split.bucket < 0 or not request.with_row_kind:
        yield from _rows(request, after)
    else:
        yield from _as(RowKind.INSERT, request, _rows(plain, after))


def _rows(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    if not split.files:
        return iter(())
    if split.bucket < 0:
        return read_changes(request, replace(split, mode=SplitMode.CHANGES))
    return read_merged(request, replace(split, mode=SplitMode.MERGE))


def _as(kind: RowKind, request: ReadRequest, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with the row kind in front."""
    schema, symbol = output_schema(request), scalar_of(kind.symbol, pa.string())
    for batch in batches:
        yield record_batch([pa.repeat(symbol, batch.num_rows), *batch.columns], schema, batch.num_rows)
