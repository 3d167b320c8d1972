"""Canonical Arrow types of Paimon types, which rows have everywhere in this package.

Nullability of every field, nested ones too, is that of the Paimon type; Arrow itself forbids null map keys.
Fields of data files carry the ids that Java writes: Java finds columns by name, other engines by id.

Source: Java `table/SpecialFields`, `format/parquet/ParquetSchemaConverter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.types import (
    INT,
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

PARQUET_ID: Final = b"PARQUET:field_id"
ORC_ID: Final = b"paimon.id"
"""Keys of field ids in the metadata of Arrow fields, as the writers of the formats know them."""

NANOSECOND_DAYS: Final = "1677-09-21 to 2262-04-11"
"""The days that 64-bit nanoseconds reach."""

_NESTED_BASE: Final = (2**31 - 1) // 4
_NESTED_STEP: Final = 1024
_VARIANT_PARTS: Final = ("value", "metadata")
_ATOMIC: Final[dict[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "VARIANT": pa.struct([pa.field(name, pa.binary(), nullable=False) for name in _VARIANT_PARTS]),
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
        case ArrayType() | MapType() | MultisetType():
            return _collection(t, lambda name, inner: pa.field(name, arrow_type(inner), inner.nullable))
        case RowType():
            return pa.struct([arrow_field(f) for f in t.fields])
    raise UnsupportedFeatureError(
        f"values of type {t} cannot be read; leave the column out with the option columns", feature=str(t)
    )


def _collection(t: ArrayType | MapType | MultisetType, field: Callable[[str, DataType], pa.Field]) -> pa.DataType:
    """The list or map of fields that `field` makes, given a name and a type."""
    match t:
        case ArrayType():
            return pa.list_(field("element", t.element))
        case MapType():
            return pa.map_(field("key", t.key.with_nullable(False)), field("value", t.value))
    return pa.map_(field("key", t.element.with_nullable(False)), field("value", INT.with_nullable(False)))


def arrow_field(f: DataField) -> pa.Field:
    """The Arrow field of a column. Raises UnsupportedFeatureError, which names the column."""
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


def with_field_id(f: DataField, id_key: bytes = PARQUET_ID) -> pa.Field:
    """The Arrow field of a column, in canonical types, with ids on it and on everything nested.

    Elements, keys and values have none of their own in Paimon; theirs come from the column and the depth.
    """
    return pa.field(f.name, _type_with_ids(f.type, f.id, 0, id_key), f.type.nullable, {id_key: str(f.id).encode()})


def value_id(column_id: int, depth: int) -> int:
    """The id of the elements or values of a column at a depth of nesting, from 1."""
    return _NESTED_BASE + _NESTED_STEP * column_id + depth


def _type_with_ids(t: DataType, column_id: int, depth: int, id_key: bytes) -> pa.DataType:
    def field(name: str, inner: DataType) -> pa.Field:
        own_id = value_id(column_id, depth + 1)
        own_id = 2 * _NESTED_BASE - own_id if name == "key" else own_id
        kind = _type_with_ids(inner, column_id, depth + 1, id_key)
        return pa.field(name, kind, inner.nullable, {id_key: str(own_id).encode()})

    match t:
        case ArrayType() | MapType() | MultisetType():
            return _collection(t, field)
        case RowType():
            return pa.struct([with_field_id(f, id_key) for f in t.fields])
        case AtomicType(name="VARIANT"):
            ids = [{id_key: str(i).encode()} for i in range(len(_VARIANT_PARTS))]
            return pa.struct([pa.field(n, pa.binary(), False, i) for n, i in zip(_VARIANT_PARTS, ids, strict=True)])
    return arrow_type(t)
