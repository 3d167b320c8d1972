"""Store assignment of nested columns: ROW by name, ARRAY, MAP, MULTISET and VARIANT."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.errors import DataError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.arrays.nested import validity_buffer, with_children, with_elements, with_entries
from paimon_spark.format.casts.assignment import Assign, assignment
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.types import (
    INT,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    in_any_case,
)

_VARIANT_PARTS: Final = ("value", "metadata")


def column_assignment(source: pa.DataType, target: DataType, column: str, where: str) -> Assign:
    """How arrays of `source` become canonical arrays of `target`, nested or not. Nulls of the column itself stay.

    Args: as `assignment.assignment`.

    Raises:
        SchemaMismatchError: no such cast, or one that could lose.
        UnsupportedFeatureError: an extension type, or a type of the table that is not written here.
    """
    if isinstance(source, pa.BaseExtensionType):
        raise UnsupportedFeatureError(
            f"column {column} of the rows for {where} is of the extension type {source}, which is not written here; "
            "give its storage instead",
            feature=f"extension type {source}",
        )
    if pa.types.is_null(source):
        return assignment(source, target, column, where)
    if pa.types.is_dictionary(source) and pa.types.is_nested(source.value_type):
        inner = column_assignment(source.value_type, target, column, where)
        return lambda a: inner(a.dictionary_decode())
    match target:
        case RowType():
            return _rows(source, target, column, where)
        case ArrayType():
            return _arrays(source, target, column, where)
        case MapType():
            return _maps(source, target, target.key, target.value, column, where)
        case MultisetType():
            return _maps(source, target, target.element, INT.with_nullable(False), column, where)
        case AtomicType(name="VARIANT"):
            return _variants(source, target, column, where)
    arrow_type(target)
    return assignment(source, target, column, where)


def _without_null(assign: Assign, target: DataType, path: str, where: str) -> Assign:
    """`assign`, which refuses nulls where `target` has none."""

    def run(array: pa.Array) -> pa.Array:
        made = assign(array)
        _refuse_nulls(made, None, target, path, where)
        return made

    return run


def _refuse_nulls(array: pa.Array, parent: arrow_numpy.Bool | None, target: DataType, path: str, where: str) -> None:
    """Nulls of a child that must not be null, where its parent is there."""
    if target.nullable or array.null_count == 0:
        return
    missing = ~arrow_numpy.validity(array)
    if parent is not None:
        missing &= parent
    if missing.any():
        raise DataError(
            f"{path} of {where} is {target}, and the rows to write have a null in it; nothing is written. "
            "Fill or filter the nulls",
            column=path,
            value=None,
        )


def _mismatch(source: pa.DataType, target: DataType, column: str, where: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {column} of {where} is {target}, and the rows to write have {source}; give it values of its type",
        column=column,
    )


def _rows(source: pa.DataType, target: RowType, column: str, where: str) -> Assign:
    if not pa.types.is_struct(source):
        raise _mismatch(source, target, column, where)
    places = _field_places(source, target, column, where)
    kind = arrow_type(target)
    children: list[tuple[DataField, int | None, Assign | None]] = []
    for f in target.fields:
        place = places.get(f.name)
        path = f"{column}.{f.name}"
        if place is None and not f.type.nullable:
            raise SchemaMismatchError(
                f"field {path} of {where} is {f.type}, and the rows have no such field", column=path
            )
        children.append(
            (f, place, None if place is None else column_assignment(source.field(place).type, f.type, path, where))
        )

    def run(array: pa.Array) -> pa.Array:
        valid = arrow_numpy.validity(array)
        made = []
        for f, place, assign in children:
            if place is None or assign is None:
                made.append(pa.nulls(len(array), arrow_type(f.type)))
                continue
            child = assign(array.field(place))
            _refuse_nulls(child, valid, f.type, f"{column}.{f.name}", where)
            made.append(child)
        return with_children(array, kind, made)

    return run


def _field_places(source: pa.StructType, target: RowType, column: str, where: str) -> dict[str, int]:
    out: dict[str, int] = {}
    for i in range(source.num_fields):
        given = source.field(i).name
        name = in_any_case(given, target.names)
        if name is None or name in out:
            raise SchemaMismatchError(
                f"column {column} of {where} has no field {given!r}{did_you_mean(given, target.names)}, or it is given "
                f"twice; its fields are {', '.join(target.names)}",
                column=f"{column}.{given}",
            )
        out[name] = i
    return out


def _arrays(source: pa.DataType, target: ArrayType, column: str, where: str) -> Assign:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    views = (pa.types.is_list_view, pa.types.is_large_list_view)
    if not any(is_kind(source) for is_kind in (*lists, *views)):
        raise _mismatch(source, target, column, where)
    plain = pa.list_(source.value_field)
    kind = arrow_type(target)
    path = f"{column}.element"
    assign = column_assignment(source.value_type, target.element, path, where)
    element = _without_null(assign, target.element, path, where)

    def run(array: pa.Array) -> pa.Array:
        if any(is_view(array.type) for is_view in views):
            array = _gathered(array, plain)
        elif not pa.types.is_list(array.type):
            array = array.cast(plain)
        return with_elements(_without_hidden(array), kind, element)

    return run


def _maps(
    source: pa.DataType, target: DataType, key_type: DataType, value_type: DataType, column: str, where: str
) -> Assign:
    if not pa.types.is_map(source):
        raise _mismatch(source, target, column, where)
    kind = arrow_type(target)
    keys, values = (
        _without_null(column_assignment(found, wanted, path, where), wanted, path, where)
        for found, wanted, path in (
            (source.key_type, key_type.with_nullable(False), f"{column}.key"),
            (source.item_type, value_type, f"{column}.value"),
        )
    )

    def run(array: pa.Array) -> pa.Array:
        made = with_entries(_without_hidden(array), kind, keys, values)
        _refuse_repeated_keys(made, target, column, where)
        return made

    return run


def _refuse_repeated_keys(array: pa.MapArray, target: DataType, column: str, where: str) -> None:
    """A key twice in one map, which readers keep, or of which they take either value; Spark refuses it, too."""
    offsets, _ = arrow_numpy.byte_slices(array)
    sizes = np.diff(offsets)
    if not len(sizes) or int(sizes.max()) <= 1:
        return
    first, last = int(offsets[0]), int(offsets[-1])
    codes = _codes(array.keys.slice(first, last - first))
    if codes is None:
        return
    maps = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((codes, maps))
    same = (np.diff(codes[order]) == 0) & (np.diff(maps[order]) == 0)
    if same.any():
        key = array.keys[first + int(order[int(same.argmax())])].as_py()
        raise DataError(
            f"column {column} of {where} is {target}, and the rows to write have a map with the key {key!r} twice; "
            "nothing is written. Leave one of its entries out",
            column=column,
            value=key,
        )


def _codes(keys: pa.Array) -> np.ndarray | None:
    """A number for each key, equal for equal keys; None for keys with lists or maps in them, which are not compared."""
    if pa.types.is_struct(keys.type):
        parts = [_codes(keys.field(i)) for i in range(keys.type.num_fields)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        codes: np.ndarray = np.unique(np.stack(known), axis=1, return_inverse=True)[1].reshape(-1)
        return codes
    if pa.types.is_nested(keys.type):
        return None
    found = keys.dictionary_encode(null_encoding="encode").indices
    return arrow_numpy.values(found).astype(np.int64)


def _variants(source: pa.DataType, target: AtomicType, column: str, where: str) -> Assign:
    names = [source.field(i).name for i in range(source.num_fields)] if pa.types.is_struct(source) else []
    if sorted(names) != sorted(_VARIANT_PARTS):
        raise _mismatch(source, target, column, where)
    kind = arrow_type(target)
    places = [names.index(n) for n in _VARIANT_PARTS]

    def run(array: pa.Array) -> pa.Array:
        valid = arrow_numpy.validity(array)
        made = []
        for place, name in zip(places, _VARIANT_PARTS, strict=True):
            child = array.field(place)
            child = child if child.type == pa.binary() else child.cast(pa.binary())
            missing = valid & ~arrow_numpy.validity(child)
            if missing.any():
                raise DataError(f"column {column} of {where} holds a variant without {name}", column=column)
            made.append(child)
        return with_children(array, kind, made)

    return run


def _gathered(array: pa.Array, plain: pa.ListType) -> pa.ListArray:
    """A list view as a list. Arrow's own cast makes invalid arrays of views with nulls."""
    valid = arrow_numpy.validity(array)
    sizes = np.where(valid, arrow_numpy.values(array.sizes), 0).astype(np.int64)
    starts = arrow_numpy.values(array.offsets).astype(np.int64)
    values = array.values.take(arrow_numpy.take_indices(arrow_numpy.ranges(starts, sizes)))
    offsets = arrow_numpy.offsets_of(sizes)
    return pa.Array.from_buffers(
        plain,
        len(array),
        [validity_buffer(array), pa.py_buffer(offsets)],
        null_count=array.null_count,
        children=[values],
    )


def _without_hidden(array: pa.Array) -> pa.Array:
    """The list or map array without the elements below its nulls, which no check has to pass."""
    if array.null_count == 0:
        return array
    offsets, _ = arrow_numpy.byte_slices(array)
    sizes = np.diff(offsets)
    hidden = (sizes > 0) & ~arrow_numpy.validity(array)
    if not hidden.any():
        return array
    return array.take(arrow_numpy.fixed_array(np.arange(len(array)), pa.int64(), arrow_numpy.validity(array)))
