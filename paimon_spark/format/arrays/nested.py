"""Rebuilding of nested Arrow arrays with converted children; leaves of nested columns.

A null row is not a row of nulls, a null list not an empty one: validity and offsets are carried over as
they are and only the children change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_spark.format.arrays import arrow_numpy

Convert: TypeAlias = Callable[[pa.Array], pa.Array]
"""A function over arrays that keeps their length and nulls."""


def converted(array: pa.Array, convert: Convert | None) -> pa.Array:
    """The array, converted where there is a conversion."""
    return array if convert is None else convert(array)


def shown_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values as `text.sql_value` takes them: structs are tuples, maps mappings; text where Python has no value."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in shown_values(chunk)]
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [shown_values(child) for child in array.flatten()]
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        return [row if valid else None for row, valid in zip(rows, arrow_numpy.validity(array).tolist(), strict=True)]
    if pa.types.is_map(kind):
        return [dict(shown_values(one.values)) if one.is_valid else None for one in array]
    if pa.types.is_nested(kind):
        return [shown_values(one.values) if one.is_valid else None for one in array]
    try:
        values: list[Any] = array.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError):
        values = array.cast(pa.string()).to_pylist()
    return values


def shown_rows(rows: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows by column, with values as `text.sql_row` takes them."""
    columns = [shown_values(column) for column in rows.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(rows.schema.names, row, strict=True))


def validity_buffer(array: pa.Array) -> pa.Buffer | None:
    """The validity bitmap of the array, starting at bit 0; None when nothing is null."""
    if array.null_count == 0:
        return None
    if array.offset == 0 and array.buffers()[0] is not None:
        return array.buffers()[0]
    return arrow_numpy.pack_bits(arrow_numpy.validity(array))


def with_children(array: pa.StructArray, kind: pa.StructType, children: Sequence[pa.Array]) -> pa.StructArray:
    """A struct array of type `kind` that is null where `array` is and has `children`, each as long as `array`."""
    return pa.Array.from_buffers(
        kind, len(array), [validity_buffer(array)], null_count=array.null_count, children=list(children)
    )


def with_elements(array: pa.ListArray, kind: pa.ListType, convert: Convert | None) -> pa.ListArray:
    """A list array of type `kind` with every element converted."""
    array = trimmed(array)
    return _with_values(array, kind, converted(array.values, convert))


def with_entries(array: pa.MapArray, kind: pa.MapType, keys: Convert | None, values: Convert | None) -> pa.MapArray:
    """A map array of type `kind` with every key and value converted."""
    array = trimmed(array)
    old_keys, old_values = keys_and_values(array)
    children = [converted(old_keys, keys), converted(old_values, values)]
    entry_type = pa.struct([kind.key_field, kind.item_field])
    entries = pa.Array.from_buffers(entry_type, len(old_keys), [None], null_count=0, children=children)
    return _with_values(array, kind, entries)


def with_null_fields(array: pa.Array) -> pa.Array:
    """The array with the fields of null structs null, at any depth, and of a slice only what it holds."""
    kind = array.type
    if pa.types.is_struct(kind):
        return with_children(array, kind, [with_null_fields(c) for c in array.flatten()])
    if pa.types.is_map(kind):
        return with_entries(array, kind, with_null_fields, with_null_fields)
    if pa.types.is_list(kind):
        return with_elements(array, kind, with_null_fields)
    return array


def keys_and_values(array: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Keys and values of all entries. Arrow's own `keys` and `items` forget where sliced entries start."""
    entries = array.values
    return entries.field(0), entries.field(1)


def trimmed(array: pa.Array) -> pa.Array:
    """The list or map array without elements that only its neighbours in a larger array have.

    Converting a slice then costs what the slice holds.
    """
    offsets, _ = arrow_numpy.byte_slices(array)
    first, last = int(offsets[0]), int(offsets[-1])
    values = array.values
    if len(values) == last - first:
        return array
    return pa.Array.from_buffers(
        array.type,
        len(array),
        [validity_buffer(array), pa.py_buffer((offsets - first).astype(np.int32))],
        null_count=array.null_count,
        children=[values.slice(first, last - first)],
    )


def _with_values(array: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(
        kind,
        len(array),
        array.buffers()[:2],
        null_count=array.null_count,
        offset=array.offset,
        children=[values],
    )


def field_values(array: pa.StructArray, i: int, nullable: bool) -> pa.Array:
    """A field of a row. One that is never null has no nulls where the row is null either: Parquet refuses them.

    Raises:
        pa.ArrowInvalid: a null in a row that is there.
    """
    child = array.field(i)
    if not nullable and child.null_count:
        missing = arrow_numpy.validity(array) & ~arrow_numpy.validity(child)
        if bool(missing.any()):
            raise pa.ArrowInvalid(f"field {array.type.field(i).name} of a row is null, its type is NOT NULL")
        child = _without_nulls(child)
    return child


def _without_nulls(array: pa.Array) -> pa.Array:
    """The array with some value in place of each null."""
    kind = array.type
    if pa.types.is_struct(kind):
        fields = [array.field(i) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), [None], null_count=0, children=fields)
    inner = [array.values] if pa.types.is_nested(kind) else None
    buffers = [None, *array.buffers()[1 : 2 if inner else None]]
    return pa.Array.from_buffers(kind, len(array), buffers, null_count=0, offset=array.offset, children=inner)


class LeafReplacement(NamedTuple):
    """Another type for a leaf, and what makes its arrays."""

    type: pa.DataType
    convert: Convert


Choose: TypeAlias = Callable[[pa.DataType], LeafReplacement | None]


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
    """The conversion of `kind` to the replaced types, without nulls below null rows; None if nothing changes."""
    target = _replaced(kind, choose)
    if pa.types.is_struct(kind):
        steps = [_conversion(f.type, choose) for f in kind]
        if target == kind and not any(steps) and all(f.nullable for f in kind):
            return None

        def rebuilt(array: pa.StructArray) -> pa.StructArray:
            children = [field_values(array, i, f.nullable) for i, f in enumerate(kind)]
            return with_children(array, target, list(map(converted, children, steps)))

        return rebuilt
    if pa.types.is_map(kind):
        keys, values = _conversion(kind.key_type, choose), _conversion(kind.item_type, choose)
        return (lambda a: with_entries(a, target, keys, values)) if keys or values else None
    if pa.types.is_list(kind):
        elements = _conversion(kind.value_type, choose)
        return (lambda a: with_elements(a, target, elements)) if elements else None
    found = choose(kind)
    return None if found is None else found.convert
