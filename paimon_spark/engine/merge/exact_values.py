"""Columns as Python values, for merging one value at a time, and how Java orders and compares them.

Values are integers (dates, times and timestamps too), floats, Decimal, str, bytes, lists, dictionaries for rows,
lists of pairs for maps, None for null.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Value: TypeAlias = Any
"""A Python value of a column, None for null. Its type depends on the column."""


def order_key(value: Value) -> tuple[bool, Value]:
    """A key that Python orders as Java orders the values: nulls first, text by bytes, NaN last."""
    if value is None:
        return False, 0
    if isinstance(value, float):
        (bits,) = struct.unpack(">q", struct.pack(">d", float("nan") if value != value else value))
        return True, bits ^ 0x7FFFFFFFFFFFFFFF if bits < 0 else bits
    if isinstance(value, str):
        return True, value.encode()
    return True, value


def frozen(value: Value) -> Hashable:
    """A hashable stand-in, equal exactly when Java's values are equal: maps whatever the order of their entries."""
    if isinstance(value, float):
        return "float", order_key(value)[1]
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, dict):
        return tuple(frozen(v) for v in value.values())
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return frozenset(frozen(entry) for entry in value)
    if isinstance(value, (list, tuple)):
        return tuple(frozen(v) for v in value)
    assert isinstance(value, Hashable)
    return value


def storage_type(t: pa.DataType) -> pa.DataType:
    """The type with dates, times and timestamps replaced by the integers that store them."""
    if pa.types.is_timestamp(t):
        return pa.int64()
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return pa.int32()
    if pa.types.is_map(t):
        return pa.map_(
            t.key_field.with_type(storage_type(t.key_type)), t.item_field.with_type(storage_type(t.item_type))
        )
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(storage_type(t.value_type)))
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(storage_type(f.type)) for f in t])
    return t


def to_python(column: pa.Array) -> list[Value]:
    """The values of a column."""
    target = storage_type(column.type)
    return (column if target == column.type else pc.cast(column, target)).to_pylist()  # type: ignore[no-any-return]


def from_python(values: list[Value], t: pa.DataType) -> pa.Array:
    """The inverse of `to_python`."""
    target = storage_type(t)
    array = pa.array(values, target)
    return array if target == t else pc.cast(array, t)
