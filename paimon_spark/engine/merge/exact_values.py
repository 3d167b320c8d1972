"""Columns as Python values, for merging value by value; sketches and bitmaps.

Values are integers (also for dates, times and timestamps), floats, Decimal, str, bytes, lists, dictionaries for rows,
lists of pairs for maps, None for null. The functions hll_sketch and theta_sketch need Apache DataSketches (extra
`sketches`); without it two values cannot be combined. An accumulator stays bytes until a second value arrives.

Source: Java `mergetree/compact/aggregate/Field{HllSketch,ThetaSketch,RoaringBitmap32,RoaringBitmap64}Agg`,
`utils/HllSketchUtil`, `utils/ThetaSketch`.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, FormatError, UnsupportedFeatureError
from paimon_spark.format import roaring
from paimon_spark.options.core import FieldOptions

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
    """A hashable form that is equal if Java's values are equal: maps regardless of entry order."""
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
    if pa.types.is_large_list(t):
        return pa.large_list(t.value_field.with_type(storage_type(t.value_type)))
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


class ExactAggregate:
    """One column's aggregate function with its state for the key at hand (Java `FieldAggregator`)."""

    def __init__(self, function: str, options: FieldOptions, type: pa.DataType) -> None:
        self.function = function
        self.options = options
        self.column = options.column
        self.type = type

    def reset(self) -> None:
        """Start a new key."""

    def agg(self, acc: Value, new: Value) -> Value:
        raise NotImplementedError

    def agg_reversed(self, acc: Value, new: Value) -> Value:
        """Take in a value older than what `acc` has seen."""
        return self.agg(new, acc)

    def retract(self, acc: Value, old: Value) -> Value:
        raise retract_refused(self.column, self.function)

    def finish(self, acc: Value) -> Value:
        """The result for the key; an accumulator may be another object, so that each step costs only its new values."""
        return acc


def retract_refused(column: str, function: str) -> DataError:
    """Build the error for a delete that a function cannot retract."""
    return DataError(
        f"column {column!r}: aggregate function {function!r} cannot retract, but rows of kind -U or -D must be "
        f"merged; set 'fields.{column}.ignore-retract' = 'true' on the table to skip them",
        column=column,
    )


class Union(NamedTuple):
    """How values of one function are united.

    Attributes:
        decode: bytes → object; raises FormatError.
        unite: the accumulator, then the new value.
        encode: object → bytes.
    """

    decode: Callable[[bytes], Any]
    unite: Callable[[Any, Any], Any]
    encode: Callable[[Any], bytes]


def union_of(function: str, column: str) -> Union:
    """The union of one of `SKETCH_FUNCTIONS`. Raises UnsupportedFeatureError: its library is not installed."""
    return _UNIONS[function](column, function)


def _library(column: str, function: str) -> Any:
    try:
        return importlib.import_module("datasketches")
    except ImportError as e:
        raise UnsupportedFeatureError(
            f"column {column!r}: merging values of aggregate function {function!r} needs the library of Apache "
            "DataSketches: pip install 'paimon-spark[sketches]', or compact the table fully with Paimon, or read "
            "without this column",
            feature=function,
        ) from e


def _decoder(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def run(data: bytes) -> Any:
        try:
            return decode(data)
        except (ValueError, IndexError, RuntimeError, MemoryError) as e:
            raise FormatError(f"the library cannot read it: {e}") from e

    return run


def _hll(column: str, function: str) -> Union:
    library = _library(column, function)

    def unite(acc: Any, new: Any) -> Any:
        union = library.hll_union(new.lg_config_k)
        union.update(new)
        union.update(acc)
        return union.get_result(library.tgt_hll_type.HLL_4)

    return Union(_decoder(library.hll_sketch.deserialize), unite, lambda sketch: bytes(sketch.serialize_compact()))


def _theta(column: str, function: str) -> Union:
    library = _library(column, function)

    def unite(acc: Any, new: Any) -> Any:
        union = library.theta_union()
        union.update(acc)
        union.update(new)
        return union.get_result()

    return Union(_decoder(library.compact_theta_sketch.deserialize), unite, lambda sketch: bytes(sketch.serialize()))


_UNIONS: Final[dict[str, Callable[[str, str], Union]]] = {
    "hll_sketch": _hll,
    "theta_sketch": _theta,
    "rbm32": lambda _column, _function: Union(roaring.decode32, roaring.union, roaring.encode32),
    "rbm64": lambda _column, _function: Union(roaring.decode64, roaring.union, roaring.encode64),
}
SKETCH_FUNCTIONS: Final = frozenset(_UNIONS)
