"""Arrow batches made to fit a schema exactly: names, order, types, nullability of nested fields.

Where only names or nullability differ nothing is copied. Values never change, except that nanoseconds are
cut to microseconds, downwards, as Paimon's own connector does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.format.arrays.arrow_numpy import fixed_array, validity, values
from paimon_spark.format.arrays.arrow_types import record_batch

_Array: TypeAlias = Any
"""A pyarrow Array; the attributes used here depend on its type."""
_Convert: TypeAlias = Callable[[_Array], _Array]


def fit(
    batches: Iterable[pa.RecordBatch], sources: Sequence[str], target: pa.Schema, table: str
) -> Iterator[pa.RecordBatch]:
    """Yield each of `batches` with the columns called `sources`, in that order, as the fields of `target`.

    Raises:
        DataError: a value does not fit into Spark's type.
    """
    made_for: pa.Schema | None = None
    steps: list[tuple[int, _Convert]] = []
    for batch in batches:
        if made_for is None or not batch.schema.equals(made_for):
            made_for = batch.schema
            steps = [
                (made_for.get_field_index(name), converter(made_for.field(name).type, field.type))
                for name, field in zip(sources, target, strict=True)
            ]
        columns = [
            _converted(convert, batch.column(index), name, table)
            for (index, convert), name in zip(steps, target.names, strict=True)
        ]
        yield record_batch(columns, target, batch.num_rows)


def _converted(convert: _Convert, array: _Array, column: str, table: str) -> _Array:
    try:
        return convert(array)
    except pa.ArrowInvalid as e:
        raise DataError(
            f"table {table}: a value of column {column} does not fit into Spark's type: {e}",
            table=table,
            column=column,
        ) from e


def converter(source: pa.DataType, target: pa.DataType) -> _Convert:
    """A function from arrays of `source` to arrays of `target`."""
    if source.equals(target, check_metadata=True):
        return _same
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return _microseconds(source, target)
    if pa.types.is_time32(source) and pa.types.is_int32(target):
        return lambda array: array.view(target)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct(source, target)
    if pa.types.is_map(source) and pa.types.is_map(target):
        entries = _struct(_entries(source), _entries(target))
        return lambda array: _rebuilt(array, target, entries(array.values))
    if pa.types.is_list(source) and pa.types.is_list(target):
        element = converter(source.value_type, target.value_type)
        return lambda array: _rebuilt(array, target, element(array.values))
    return lambda array: pc.cast(array, target, safe=True)


def _same(array: _Array) -> _Array:
    return array


def _microseconds(source: Any, target: pa.DataType) -> _Convert:
    if source.unit != "ns":
        return lambda array: pc.cast(array, target, safe=True)

    def convert(array: _Array) -> _Array:
        # Arrow's own cast cuts towards zero, which is upwards before 1970.
        return fixed_array(np.floor_divide(values(array), 1000), target, validity(array))

    return convert


def _struct(source: Any, target: Any) -> _Convert:
    """Fields are found by name, so `target` may have fewer."""
    fields = list(target)
    parts = [(source.get_field_index(f.name), converter(source.field(f.name).type, f.type)) for f in fields]

    def convert(array: _Array) -> _Array:
        children = [step(array.field(index)) for index, step in parts]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

    return convert


def _entries(t: Any) -> pa.DataType:
    """The struct of a map's entries, its fields called key and value whatever the file calls them."""
    return pa.struct([t.key_field.with_name("key"), t.item_field.with_name("value")])


def _rebuilt(array: _Array, target: pa.DataType, child: _Array) -> _Array:
    """The same offsets and nulls around another child."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, array.offset, [child])
