"""A split → Arrow batches: the entry of this package, run by executors and in process alike.

Source: Java `table/source/TableRead`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from paimon_spark.engine.read.defaults import default_values
from paimon_spark.engine.read.evolved import read_evolved
from paimon_spark.engine.read.metadata_columns import check_mode, output_schema, split_constant
from paimon_spark.engine.read.precision import WHOLE, finishing_cuts, reading_schema
from paimon_spark.engine.read.raw import read_changes, read_raw
from paimon_spark.engine.tasks.read_request import BUCKET, PARTITION, ReadRequest
from paimon_spark.engine.tasks.split import DataSplit, SplitMode
from paimon_spark.errors import DataError
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.arrays.nested import Convert
from paimon_spark.format.arrays.python_values import scalar_of
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import conjunction, conjuncts, names_of
from paimon_spark.types import RowKind

_OF_CHANGES: Final = (SplitMode.CHANGES, SplitMode.REPLACED)
"""Splits of a stream whose rows have kinds of their own; others are of the state with which it begins."""


def read_split(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The rows of a split that `request` asks for. Safe to run again; batches are not empty.

    Batches have `output_schema(request)`: canonical types, `rowkind` in front if asked for. Only rows for which
    the predicate is true come out.

    Raises:
        CorruptFileError: names the file that is missing, damaged, or not what metadata says.
        UnsupportedFeatureError: a format, type or layout that cannot be read.
        InvalidInputError: a metadata column these rows do not have.
        DataError: rows cannot be merged or cast; a NOT NULL column holds a null.
    """
    if request.with_row_kind and request.as_inserts and split.mode not in _OF_CHANGES:
        yield from _as_inserts(request, split)
        return
    check_mode(request, split, request.columns)
    schema = output_schema(request)
    extra = sorted(names_of(request.predicate) - set(request.columns))
    constants = tuple(c for c in (PARTITION, BUCKET) if c in request.columns or c in extra)
    inner = replace(
        request,
        columns=tuple(c for c in (*request.columns, *extra) if c not in constants),
        schema=reading_schema(request, split.mode),
        timestamp_precision=WHOLE,
    )
    defaults = default_values(inner)
    cuts = finishing_cuts(inner.schema, schema.names, request.timestamp_precision)
    for batch in _batches(_without_tests_of(inner, defaults), split):
        if batch.num_rows == 0:
            continue
        found = _with_constants(inner, split, batch, constants) if constants else batch
        found = _with_defaults(found, defaults) if defaults else found
        if request.predicate is not None:
            found = found.filter(matches(request.predicate, found))
        if found.num_rows:
            yield _finished(request, split, found, schema, cuts)


def _as_inserts(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """The rows without kinds, which are all given as `+I`."""
    schema, inserted = output_schema(request), scalar_of(RowKind.INSERT.symbol, pa.string())
    for batch in read_split(replace(request, with_row_kind=False), split):
        yield record_batch([pa.repeat(inserted, batch.num_rows), *batch.columns], schema, batch.num_rows)


def _batches(request: ReadRequest, split: DataSplit) -> Iterator[pa.RecordBatch]:
    match split.mode:
        case SplitMode.RAW:
            return read_raw(request, split)
        case SplitMode.CHANGES:
            return read_changes(request, split)
        case SplitMode.EVOLVED:
            return read_evolved(request, split)
    # Plain reads, the common case, do without the modules of merging.
    from paimon_spark.engine.read.merged import read_diff, read_merged

    if split.mode is SplitMode.REPLACED:
        from paimon_spark.engine.read.replaced import read_replaced

        return read_replaced(request, split)
    return read_diff(request, split) if split.mode is SplitMode.DIFF else read_merged(request, split)


def _without_tests_of(request: ReadRequest, defaults: Mapping[str, pa.Scalar]) -> ReadRequest:
    """The request with no predicate on columns whose nulls become something else later."""
    parts = [p for p in conjuncts(request.predicate) if not names_of(p) & defaults.keys()]
    return replace(request, predicate=conjunction(parts)) if defaults else request


def _with_defaults(batch: pa.RecordBatch, defaults: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    arrays = [
        a.fill_null(defaults[n]) if n in defaults and a.null_count else a
        for n, a in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return record_batch(arrays, batch.schema, batch.num_rows)


def _with_constants(
    request: ReadRequest, split: DataSplit, batch: pa.RecordBatch, names: tuple[str, ...]
) -> pa.RecordBatch:
    arrays = [split_constant(request, split, n, batch.num_rows) for n in names]
    fields = [pa.field(n, a.type) for n, a in zip(names, arrays, strict=True)]
    return record_batch([*batch.columns, *arrays], pa.schema([*batch.schema, *fields]), batch.num_rows)


def _finished(
    request: ReadRequest, split: DataSplit, batch: pa.RecordBatch, schema: pa.Schema, cuts: Mapping[str, Convert]
) -> pa.RecordBatch:
    """The batch with the columns of `schema`, in its order."""
    place = {name: i for i, name in enumerate(batch.schema.names)}
    arrays = [batch.column(place[name]) for name in schema.names]
    if cuts:
        arrays = [cuts[n](a) if n in cuts else a for n, a in zip(schema.names, arrays, strict=True)]
    for field, array in zip(schema, arrays, strict=True):
        if not field.nullable and array.null_count:
            raise DataError(
                f"column {field.name} of table {request.table_name} is NOT NULL but bucket {split.bucket_path} "
                "holds a null in it",
                column=field.name,
            )
    return record_batch(arrays, schema, batch.num_rows)
