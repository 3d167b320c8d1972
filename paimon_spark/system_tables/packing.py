"""Rows of a changelog as arrays of their versions: what $binlog shows.

The -U and +U of one change become one +U row `[before, after]`; every other row is an array of one value. A -U that
no +U follows, which no correct writer leaves, stands alone; Java packs it with whatever comes next.

Source: Java `table/system/BinlogTable`, `reader/PackChangelogReader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays.arrow_numpy import fixed_array, take_indices, values
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.system_tables.java_text import text
from paimon_spark.types import ROW_KIND_COLUMN, RowKind


def packed(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, pairs: bool) -> Iterator[pa.RecordBatch]:
    """`batches`, whose first column is the row kind, with every other column as an array.

    Args:
        batches: rows as they were written; a -U and its +U follow each other, perhaps in two batches.
        schema: of what comes out, the row kind first.
        pairs: whether a -U takes in the +U after it; else each row stands alone.
    """
    left: pa.RecordBatch | None = None
    for batch in batches:
        whole = batch if left is None else _joined(left, batch)
        left = None
        starts = _starts(whole, pairs)
        if pairs and len(starts) and starts[-1] == whole.num_rows - 1 and _is(whole, RowKind.UPDATE_BEFORE)[-1]:
            left = whole.slice(int(starts[-1]))
            whole, starts = whole.slice(0, int(starts[-1])), starts[:-1]
        if len(starts):
            yield _arrays(whole, starts, schema)
    if left is not None:
        yield _arrays(left, np.zeros(1, np.int64), schema)


def _joined(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    batches = pa.Table.from_batches([left, right]).combine_chunks().to_batches()
    return batches[0]


def _is(batch: pa.RecordBatch, kind: RowKind) -> np.ndarray:
    return np.asarray(values(pc.equal(batch.column(ROW_KIND_COLUMN), text(kind.symbol))))


def _starts(batch: pa.RecordBatch, pairs: bool) -> np.ndarray:
    """The first row of each group of one or two."""
    second = np.zeros(batch.num_rows, np.bool_)
    if pairs:
        second[1:] = _is(batch, RowKind.UPDATE_BEFORE)[:-1] & _is(batch, RowKind.UPDATE_AFTER)[1:]
    return np.flatnonzero(~second)


def _arrays(batch: pa.RecordBatch, starts: np.ndarray, schema: pa.Schema) -> pa.RecordBatch:
    ends = np.append(starts[1:], batch.num_rows)
    offsets = fixed_array(np.append(starts, batch.num_rows).astype(np.int32), pa.int32())
    kinds = batch.column(ROW_KIND_COLUMN).take(take_indices(ends - 1))
    columns = [
        kinds if f.name == ROW_KIND_COLUMN else pa.ListArray.from_arrays(offsets, batch.column(f.name)).cast(f.type)
        for f in schema
    ]
    return record_batch(columns, schema, len(starts))
