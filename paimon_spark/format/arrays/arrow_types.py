"""Canonical Arrow types of Paimon types, which rows have everywhere in this package.

Nullability of every field, nested ones too, is that of the Paimon type; Arrow itself forbids null map keys.
Fields of data files carry the ids that Java writes: Java finds columns by name, other engines by id.

Source: Java `table/SpecialFields`, `format/parquet/ParquetSchemaConverter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

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


NANOSECOND_DAYS: Final = "1677-09-21 to 2262-04-11"
"""The days that 64-bit nanoseconds reach."""


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


_KEY: Final = b"PARQUET:field_id"
_NESTED_BASE: Final = (2**31 - 1) // 4
_NESTED_STEP: Final = 1024


def with_field_id(f: DataField) -> pa.Field:
    """The Arrow field of a column, in canonical types, with ids on it and on everything nested.

    Elements, keys and values have none of their own in Paimon; theirs come from the column and the depth.
    """
    return _field_with_ids(f.name, f.type, f.id, f.id, 0)


def _field_with_ids(name: str, t: DataType, own_id: int, column_id: int, depth: int) -> pa.Field:
    return pa.field(name, _type_with_ids(t, column_id, depth), t.nullable, {_KEY: str(own_id).encode()})


def _type_with_ids(t: DataType, column_id: int, depth: int) -> pa.DataType:
    below = depth + 1
    element_id = _NESTED_BASE + _NESTED_STEP * column_id + below
    key_id = _NESTED_BASE - _NESTED_STEP * column_id - below
    match t:
        case ArrayType():
            return pa.list_(_field_with_ids("element", t.element, element_id, column_id, below))
        case MapType():
            return _map_with_ids(t.key, t.value, key_id, element_id, column_id, below)
        case MultisetType():
            return _map_with_ids(t.element, AtomicType(False, "INT"), key_id, element_id, column_id, below)
        case RowType():
            return pa.struct([with_field_id(f) for f in t.fields])
        case AtomicType(name="VARIANT"):
            fields = [(pa.binary(), "value"), (pa.binary(), "metadata")]
            return pa.struct(
                [pa.field(name, kind, False, {_KEY: str(i).encode()}) for i, (kind, name) in enumerate(fields)]
            )
    return arrow_type(t)


def _map_with_ids(
    key: DataType, value: DataType, key_id: int, value_id: int, column_id: int, depth: int
) -> pa.DataType:
    return pa.map_(
        _field_with_ids("key", key.with_nullable(False), key_id, column_id, depth),
        _field_with_ids("value", value, value_id, column_id, depth),
    )
