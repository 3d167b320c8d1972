"""Columns without children, wherever they are nested: their Parquet paths, and other types in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.nested import (
    Convert,
    field_values,
    keys_and_values,
    with_children,
    with_elements,
    with_entries,
)


class Replacement(NamedTuple):
    """Another type for a leaf, and what makes its arrays."""

    type: pa.DataType
    convert: Convert


Choose: TypeAlias = Callable[[pa.DataType], Replacement | None]


def replaced_fields(schema: pa.Schema, choose: Choose) -> tuple[pa.Schema, list[Convert | None]]:
    """The schema with leaf types replaced as `choose` says, metadata kept, and a conversion for each column."""
    return (
        pa.schema([_replaced_field(f, choose) for f in schema]),
        [_conversion(f.type, choose) for f in schema],
    )


def convert_table(table: pa.Table, schema: pa.Schema, converts: list[Convert | None]) -> pa.Table:
    """The table with columns converted, in the types of `schema`."""
    columns = [
        column if convert is None else pa.chunked_array([convert(c) for c in column.chunks], type=f.type)
        for column, convert, f in zip(table.columns, converts, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def leaf_types(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Parquet paths and types of the leaves of a column."""
    if pa.types.is_struct(kind):
        for f in kind:
            yield from leaf_types(f"{path}.{f.name}", f.type)
    elif pa.types.is_map(kind):
        yield from leaf_types(f"{path}.key_value.key", kind.key_type)
        yield from leaf_types(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from leaf_types(f"{path}.list.element", kind.value_type)
    else:
        yield path, kind


def leaf_arrays(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Parquet paths and values of the leaves of a column; of lists and maps those that the array holds."""
    kind = array.type
    if pa.types.is_struct(kind):
        for f, child in zip(kind, array.flatten(), strict=True):
            yield from leaf_arrays(f"{path}.{f.name}", child)
    elif pa.types.is_map(kind):
        start, size = _span(array)
        keys, values = keys_and_values(array)
        yield from leaf_arrays(f"{path}.key_value.key", keys.slice(start, size))
        yield from leaf_arrays(f"{path}.key_value.value", values.slice(start, size))
    elif pa.types.is_list(kind):
        yield from leaf_arrays(f"{path}.list.element", array.values.slice(*_span(array)))
    else:
        yield path, array


def _span(array: pa.Array) -> tuple[int, int]:
    """Where the elements of a list array lie in its values: offset and length."""
    offsets, _ = arrow_numpy.byte_slices(array)
    return int(offsets[0]), int(offsets[-1] - offsets[0])


def _replaced(kind: pa.DataType, choose: Choose) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_replaced_field(f, choose) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_replaced_field(kind.key_field, choose), _replaced_field(kind.item_field, choose))
    if pa.types.is_list(kind):
        return pa.list_(_replaced_field(kind.value_field, choose))
    found = choose(kind)
    return kind if found is None else found.type


def _replaced_field(f: pa.Field, choose: Choose) -> pa.Field:
    return pa.field(f.name, _replaced(f.type, choose), f.nullable, f.metadata)


def _conversion(kind: pa.DataType, choose: Choose) -> Convert | None:
    """How arrays of `kind` get the replaced types and lose nulls that nobody sees; None when neither can be."""
    target = _replaced(kind, choose)
    if pa.types.is_struct(kind):
        steps = [_conversion(f.type, choose) for f in kind]
        if target == kind and not any(steps) and all(f.nullable for f in kind):
            return None
        return lambda a: with_children(a, target, [_child(a, i, s) for i, s in enumerate(steps)])
    if pa.types.is_map(kind):
        keys, values = _conversion(kind.key_type, choose), _conversion(kind.item_type, choose)
        return (lambda a: with_entries(a, target, keys, values)) if keys or values else None
    if pa.types.is_list(kind):
        elements = _conversion(kind.value_type, choose)
        return (lambda a: with_elements(a, target, elements)) if elements else None
    found = choose(kind)
    return None if found is None else found.convert


def _child(array: pa.StructArray, i: int, step: Convert | None) -> pa.Array:
    child = field_values(array, i, array.type.field(i).nullable)
    return child if step is None else step(child)
