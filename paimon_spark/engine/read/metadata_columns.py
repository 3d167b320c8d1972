"""Metadata columns: file path, row index, partition, bucket, row id, sequence number.

Source: Paimon spec, chapter Row Tracking; Java `io/DataFileRecordReader`, Spark's `PaimonMetadataColumn`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.read.evolution import coarse_field, coarse_type
from paimon_spark.engine.read.file_reader import FileRows, fields_of, file_url, iter_rows, partition_scalars
from paimon_spark.engine.tasks import (
    BUCKET,
    FILE_PATH,
    NANOSECONDS,
    PARTITION,
    ROW_INDEX,
    DataSplit,
    ReadRequest,
)
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import scalar_of
from paimon_spark.format.arrays.arrow_types import arrow_field, arrow_schema, arrow_type, record_batch
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.types import (
    ROW_ID,
    ROW_KIND_COLUMN,
    SEQUENCE_NUMBER,
    TRACKING_FIELDS,
    RowKind,
    is_finer_than_spark,
)

_TYPES: Final = {FILE_PATH: pa.string(), ROW_INDEX: pa.int64(), BUCKET: pa.int32()}


def is_tracking(request: ReadRequest, name: str) -> bool:
    """Whether `name` is a column of row tracking on this table."""
    return request.options.row_tracking and name in (ROW_ID, SEQUENCE_NUMBER)


def nanoseconds_of(request: ReadRequest, name: str) -> str | None:
    """The TIMESTAMP(7) to (9) column whose nanoseconds the column `name` holds; None for other columns."""
    of = name.removeprefix(NANOSECONDS)
    is_one = of != name and any(f.name == of and is_finer_than_spark(f.type) for f in request.schema.fields)
    return of if is_one and name not in request.schema.row_type.names else None


def is_of_file(request: ReadRequest, name: str) -> bool:
    """Whether `name` depends on the file of a row, as `file_column` makes it."""
    return name in (FILE_PATH, ROW_INDEX) or is_tracking(request, name)


def output_schema(request: ReadRequest) -> pa.Schema:
    """The Arrow schema of the batches: `rowkind` if requested, then `request.columns`.

    Timestamps have at most `request.timestamp_precision` digits. Raises UnsupportedFeatureError: a type cannot be read.
    """
    kind = [pa.field(ROW_KIND_COLUMN, pa.string())] if request.with_row_kind else []
    return pa.schema([*kind, *(_field(request, name) for name in request.columns)])


def _field(request: ReadRequest, name: str) -> pa.Field:
    if is_tracking(request, name):
        return pa.field(name, pa.int64())
    if name == PARTITION:
        return pa.field(name, arrow_type(coarse_type(request.schema.partition_type, request.timestamp_precision)))
    if name in _TYPES:
        return pa.field(name, _TYPES[name])
    if nanoseconds_of(request, name) is not None:
        return pa.field(name, pa.int64())
    return arrow_field(coarse_field(request.schema.row_type.field(name), request.timestamp_precision))


def with_kind(kind: RowKind, request: ReadRequest, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with one row kind in front, in `output_schema(request)`."""
    schema, symbol = output_schema(request), scalar_of(kind.symbol, pa.string())
    for batch in batches:
        yield record_batch([pa.repeat(symbol, batch.num_rows), *batch.columns], schema, batch.num_rows)


def split_constant(request: ReadRequest, split: DataSplit, name: str, count: int) -> pa.Array:
    """The partition or bucket column of rows of a split."""
    if name == BUCKET:
        return pa.repeat(scalar_of(split.bucket, pa.int32()), count)
    assert name == PARTITION
    scalars = partition_scalars(request.schema, split.partition)
    kind = arrow_type(request.schema.partition_type)
    children = [pa.repeat(v, count) if v.is_valid else pa.nulls(count, v.type) for v in scalars.values()]
    return pa.Array.from_buffers(kind, count, [None], null_count=0, children=children)


def file_column(request: ReadRequest, split: DataSplit, file: DataFileMeta, name: str, rows: FileRows) -> pa.Array:
    """A column of `is_of_file`. `rows.extra` begins with TRACKING_FIELDS for a column of row tracking."""
    if name == FILE_PATH:
        return pa.repeat(scalar_of(file_url(request.store, split, file), pa.string()), rows.row_count)
    if name == ROW_INDEX:
        return arrow_numpy.fixed_array(rows.positions, pa.int64())
    return tracking_column(file, name, rows)


def tracking_column(file: DataFileMeta, name: str, rows: FileRows) -> pa.Array:
    """`_ROW_ID` or `_SEQUENCE_NUMBER`, from the file or else from its manifest entry."""
    if name == ROW_ID:
        stored = rows.extra[0]
        if stored.null_count == 0 or file.first_row_id is None:
            return stored
        return _filled(stored, arrow_numpy.fixed_array(rows.positions + file.first_row_id, pa.int64()))
    stored = rows.extra[1]
    if stored.null_count == 0:
        return stored
    return _filled(stored, pa.repeat(scalar_of(file.max_sequence_number, pa.int64()), rows.row_count))


def stored_rows(request: ReadRequest, split: DataSplit, number: int) -> Iterator[tuple[Positions, pa.RecordBatch]]:
    """Read a file of a split to rewrite it: positions and rows, with row tracking columns, without deleted rows."""
    file, schema = split.files[number], request.schema
    fields = fields_of(schema, schema.row_type.names)
    extra = TRACKING_FIELDS if request.options.row_tracking else ()
    written = arrow_schema((*schema.fields, *extra))
    deletion = split.deletion_of(number)
    for rows in iter_rows(request, split, file, deletion, fields, batch_rows=request.batch_rows, extra=extra):
        if rows.row_count:
            arrays = [*rows.columns, *(tracking_column(file, f.name, rows) for f in extra)]
            yield rows.positions, record_batch(arrays, written, rows.row_count)


def _filled(stored: pa.Array, otherwise: pa.Array) -> pa.Array:
    return otherwise if stored.null_count == len(stored) else pc.coalesce(stored, otherwise)
