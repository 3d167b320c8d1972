"""Paimon types as canonical Arrow types: the one shape rows have between the modules of this package.

Nullability of every field, nested ones too, is that of the Paimon type; Arrow itself forbids null map keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import pyarrow as pa

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
)

_ATOMIC: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "VARIANT": pa.struct(
        [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
    ),
}


def timestamp_unit(precision: int) -> str:
    """The Arrow unit that holds timestamps of `precision` fractional digits: ms, us or ns."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


@lru_cache(maxsize=4096)
def arrow_type(t: DataType) -> pa.DataType:
    """The Arrow type of the values of `t`.

    Raises:
        UnsupportedFeatureError: the type's values cannot be read (BLOB, VECTOR, GEOMETRY, unknown types).
    """
    match t:
        case AtomicType():
            return _ATOMIC[t.name]
        case CharType():
            return pa.string()
        case BinaryType():
            return pa.binary()
        case DecimalType():
            return pa.decimal128(t.precision, t.scale)
        case TimeType():
            return pa.time32("ms")
        case TimestampType():
            return pa.timestamp(timestamp_unit(t.precision), tz="UTC" if t.local_zone else None)
        case ArrayType():
            return pa.list_(pa.field("element", arrow_type(t.element), t.element.nullable))
        case MapType():
            return _map(arrow_type(t.key), arrow_type(t.value), t.value.nullable)
        case MultisetType():
            return _map(arrow_type(t.element), pa.int32(), False)
        case RowType():
            return pa.struct([arrow_field(f) for f in t.fields])
    raise UnsupportedFeatureError(
        f"values of type {t} cannot be read; leave the column out with the option columns", feature=str(t)
    )


def _map(key: pa.DataType, value: pa.DataType, nullable: bool) -> pa.DataType:
    return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value, nullable))


def arrow_field(f: DataField) -> pa.Field:
    """The Arrow field of a column.

    Raises:
        UnsupportedFeatureError: names the column whose type cannot be read.
    """
    try:
        return pa.field(f.name, arrow_type(f.type), f.type.nullable)
    except UnsupportedFeatureError as e:
        raise UnsupportedFeatureError(f"column {f.name}: {e.message}", **e.context) from e


def arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """The Arrow schema of columns, or of a RowType. Raises UnsupportedFeatureError."""
    return pa.schema([arrow_field(f) for f in fields])


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows, each column in one chunk. `Schema.empty_table` would import pandas, where there is any."""
    return pa.Table.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def record_batch(arrays: Sequence[pa.Array], schema: pa.Schema, row_count: int) -> pa.RecordBatch:
    """A batch that knows its row count even when it has no columns."""
    if len(arrays):
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    empty = pa.Array.from_buffers(pa.struct([]), row_count, [None], children=[])
    return pa.RecordBatch.from_struct_array(empty)
