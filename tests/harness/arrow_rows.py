"""The inverse of `rows.py`: rows in canonical form → an Arrow table of given Paimon types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    DataField,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
)

_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def arrow_rows(rows: Sequence[Sequence[Any]], fields: Sequence[DataField]) -> pa.Table:
    """The rows, each a list of canonical values in the order of `fields`, with the canonical Arrow types."""
    columns = [
        _array([row[i] for row in rows], field.type) for i, field in enumerate(fields)
    ]  # every column may hold nulls: whether it may is what the writer checks
    schema = pa.schema([pa.field(f.name, c.type) for f, c in zip(fields, columns, strict=True)])
    return pa.table(columns, schema=schema)


def _array(values: list[Any], kind: DataType) -> pa.Array:
    target = arrow_type(kind)
    valid = [v is not None for v in values]
    match kind:
        case TimestampType():
            return _numbers([None if v is None else _instant(v, target.unit) for v in values], target)
        case TimeType():
            return _numbers([None if v is None else _time(v, target.unit) for v in values], target)
        case RowType():
            children = [
                _array([None if v is None else _child(v, i, f.name) for v in values], f.type)
                for i, f in enumerate(kind.fields)
            ]
            nested = [pa.field(f.name, c.type) for f, c in zip(kind.fields, children, strict=True)]
            return pa.StructArray.from_arrays(
                children, fields=nested, mask=pa.array([not v for v in valid], pa.bool_())
            )
        case ArrayType():
            return _list(values, kind.element, lambda items, offsets: pa.ListArray.from_arrays(offsets, items))
        case MapType():
            return _map(values, kind.key, kind.value)
        case MultisetType():
            return _map(values, kind.element, AtomicType(name="INT"))
    return pa.array([None if v is None else _scalar(v, kind) for v in values], target)


def _child(value: Any, index: int, name: str) -> Any:
    return value[name] if isinstance(value, dict) else value[index]


def _numbers(values: list[int | None], target: pa.DataType) -> pa.Array:
    width = pa.int32() if pa.types.is_time32(target) else pa.int64()
    return pa.array(values, width).cast(target)


def _offsets(values: list[Any]) -> pa.Array:
    """Offsets of lists, null where the list is."""
    out: list[int | None] = []
    total = 0
    for v in values:
        out.append(None if v is None else total)
        total += 0 if v is None else len(v)
    return pa.array([*out, total], pa.int32())


def _list(values: list[Any], element: DataType, build: Any) -> pa.Array:
    items = _array([item for v in values if v is not None for item in v], element)
    return build(items, _offsets(values))


def _map(values: list[Any], key: DataType, value: DataType) -> pa.Array:
    pairs = [pair for v in values if v is not None for pair in v]
    keys, items = _array([k for k, _ in pairs], key), _array([i for _, i in pairs], value)
    return pa.MapArray.from_arrays(_offsets(values), keys, items)


def _scalar(value: Any, kind: DataType) -> Any:
    match kind:
        case DecimalType():
            with localcontext(prec=80):
                return Decimal(value).quantize(Decimal(1).scaleb(-kind.scale))
        case BinaryType():
            return bytes.fromhex(value)
        case AtomicType(name="DATE"):
            return dt.date.fromisoformat(value)
        case AtomicType(name="FLOAT" | "DOUBLE"):
            return float(value)
        case AtomicType(name="VARIANT"):
            return {"value": bytes.fromhex(value["value"]), "metadata": bytes.fromhex(value["metadata"])}
    return value


def _instant(text: str, unit: str) -> int:
    """Epoch time in `unit` of ISO text with up to nine fraction digits."""
    body, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(np.datetime64(body, "s").astype(np.int64))
    return (seconds * 10**9 + int(fraction.ljust(9, "0") or 0)) // _UNITS[unit]


def _time(text: str, unit: str) -> int:
    body, _, fraction = text.partition(".")
    hours, minutes, *seconds = (int(part) for part in body.split(":"))
    total = (hours * 60 + minutes) * 60 + (seconds[0] if seconds else 0)
    return (total * 10**9 + int(fraction.ljust(9, "0") or 0)) // _UNITS[unit]
