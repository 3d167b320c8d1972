"""Read splits whose files need no merge.

Source: Java `operation/RawFileSplitRead`, `table/source/splitread/IncrementalChangelogReadProvider`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.read.file_reader import (
    KIND_FIELD,
    SYSTEM_FIELDS,
    FileRows,
    fields_of,
    iter_file,
    iter_rows,
    system_columns,
)
from paimon_spark.engine.read.metadata_columns import file_column, is_of_file, is_tracking, output_schema
from paimon_spark.engine.tasks import DataSplit, ReadRequest
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.types import TRACKING_FIELDS, RowKind

_RETRACTS: Final = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


def read_raw(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The rows of a split's files one after the other.

    Batches have the columns of `request`. The predicate only leaves out row groups in which no row matches. Of tables
    with keys the retracts are left out, whatever the count of them in the manifest.
    """
    if request.with_row_kind:
        yield from read_changes(request, split)  # an update is shown as one, as where rows are merged
        return
    special = [n for n in request.columns if is_of_file(request, n)]
    fields = fields_of(request.schema, [n for n in request.columns if n not in special])
    extra = TRACKING_FIELDS if any(is_tracking(request, n) for n in special) else ()
    schema = output_schema(request)
    for i, file in enumerate(split.files):
        kinds = (KIND_FIELD,) if request.schema.primary_keys and not file.has_no_retracts else ()
        for rows in iter_rows(
            request,
            split,
            file,
            split.deletion_of(i),
            fields,
            predicate=request.predicate,
            batch_rows=request.batch_rows,
            extra=(*extra, *kinds),
        ):
            if kinds:
                rows = _without_retracts(request, split, file, rows)
            if rows.row_count == 0:
                continue
            found = {f.name: a for f, a in zip(fields, rows.columns, strict=True)}
            for name in special:
                found[name] = file_column(request, split, file, name, rows)
            yield record_batch([found[n] for n in request.columns], schema, rows.row_count)


def _without_retracts(request: ReadRequest, split: DataSplit, file: DataFileMeta, rows: FileRows) -> FileRows:
    """The rows without deletes. The last of `rows.extra` contains the row kinds."""
    (kinds,) = system_columns(request.store, split, file, (KIND_FIELD,), rows.extra[-1:])
    values = arrow_numpy.values(kinds)
    if not values.any():
        return rows
    retracts = np.isin(values, _RETRACTS)
    return rows.only(~retracts) if retracts.any() else rows


def read_changes(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The unmerged rows of delta or changelog files with their row kinds.

    Without `request.with_row_kind` retracts are left out.
    """
    if not request.schema.primary_keys:
        yield from read_raw(request, split)
        return
    schema = output_schema(request)
    for i, file in enumerate(split.files):
        for batch in iter_file(
            request, split, file, split.deletion_of(i), request.columns, batch_rows=request.batch_rows,
            system=SYSTEM_FIELDS,
        ):  # fmt: skip
            kinds, arrays = batch.column(1), batch.columns[2:]
            if request.with_row_kind:
                yield record_batch([kind_symbols(kinds), *arrays], schema, batch.num_rows)
                continue
            kept = ~np.isin(arrow_numpy.values(kinds), _RETRACTS)
            count = int(np.count_nonzero(kept))
            if count < batch.num_rows:
                mask = arrow_numpy.boolean_array(kept)
                arrays = [a.filter(mask) for a in arrays]
            if count:
                yield record_batch(arrays, schema, count)


def kind_symbols(kinds: pa.Array) -> pa.Array:
    """Row kinds 0 to 3 as the texts `+I -U +U -D`."""
    codes = arrow_numpy.values(kinds).astype(np.int64)
    text = np.frombuffer("".join(k.symbol for k in RowKind).encode(), np.uint8).reshape(-1, 2)
    offsets = np.arange(0, 2 * len(codes) + 1, 2, dtype=np.int32)
    data = np.ascontiguousarray(text[codes])
    return pa.Array.from_buffers(pa.string(), len(codes), [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)
