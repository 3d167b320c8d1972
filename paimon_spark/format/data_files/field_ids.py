"""Arrow fields that carry the field ids Java writes into data files.

Java finds columns by name; the ids are for other engines, and for files read without their schema.

Source: Java `table/SpecialFields`, `format/parquet/ParquetSchemaConverter`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)

_KEY: Final = b"PARQUET:field_id"
_NESTED_BASE: Final = (2**31 - 1) // 4
_NESTED_STEP: Final = 1024


def with_field_id(f: DataField) -> pa.Field:
    """The Arrow field of a column, in canonical types, with ids on it and on everything nested.

    Elements, keys and values have none of their own in Paimon; theirs come from the column and the depth.
    """
    return _field(f.name, f.type, f.id, f.id, 0)


def _field(name: str, t: DataType, own_id: int, column_id: int, depth: int) -> pa.Field:
    return pa.field(name, _type(t, column_id, depth), t.nullable, {_KEY: str(own_id).encode()})


def _type(t: DataType, column_id: int, depth: int) -> pa.DataType:
    below = depth + 1
    element_id = _NESTED_BASE + _NESTED_STEP * column_id + below
    key_id = _NESTED_BASE - _NESTED_STEP * column_id - below
    match t:
        case ArrayType():
            return pa.list_(_field("element", t.element, element_id, column_id, below))
        case MapType():
            return _map(t.key, t.value, key_id, element_id, column_id, below)
        case MultisetType():
            return _map(t.element, AtomicType(False, "INT"), key_id, element_id, column_id, below)
        case RowType():
            return pa.struct([with_field_id(f) for f in t.fields])
        case AtomicType(name="VARIANT"):
            fields = [(pa.binary(), "value"), (pa.binary(), "metadata")]
            return pa.struct(
                [pa.field(name, kind, False, {_KEY: str(i).encode()}) for i, (kind, name) in enumerate(fields)]
            )
    return arrow_type(t)


def _map(key: DataType, value: DataType, key_id: int, value_id: int, column_id: int, depth: int) -> pa.DataType:
    return pa.map_(
        _field("key", key.with_nullable(False), key_id, column_id, depth),
        _field("value", value, value_id, column_id, depth),
    )
