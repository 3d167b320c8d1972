"""Conversion of arrays read from data files to canonical arrays, and of those for Spark.

Writers differ: decimals over any physical type, text without its annotation, times as plain integers,
nanosecond timestamps for columns that need milliseconds, other nullability. None of it changes a value.

Source: Java `format/parquet/reader/ParquetVectorUpdaterFactory`, `format/orc/reader/AbstractOrcColumnVector`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, FormatError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_type, record_batch
from paimon_spark.format.arrays.nested import Convert, converted, with_children, with_elements, with_entries
from paimon_spark.format.casts.timestamps import INT96, from_int96, rescale
from paimon_spark.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
)


def conformer(found: pa.DataType, wanted: DataType, path: str, *, padded_chars: bool = False) -> Convert | None:
    """How arrays of the file's type `found` become canonical arrays of `wanted`; None when they already are.

    `path` is the column, for messages. With `padded_chars` CHAR comes filled up with spaces, as in ORC; Java reads it
    without.

    Raises:
        FormatError: the file holds something else than the schema says.
        UnsupportedFeatureError: a layout that is not understood (shredded variants and maps).
    """
    target = arrow_type(wanted)
    if isinstance(wanted, AtomicType) and wanted.name == "VARIANT":
        return _variant(found, target, path)
    if padded_chars and isinstance(wanted, CharType) and not wanted.varying and _is_bytes(found):
        return lambda a: pc.utf8_rtrim(a.cast(target), characters=" ")
    if found == target and not (padded_chars and found.num_fields):
        return None
    match wanted:
        case RowType():
            return _row(found, wanted, target, path, padded_chars)
        case ArrayType() if _is_list(found):
            element = conformer(found.value_type, wanted.element, path + ".element", padded_chars=padded_chars)
            plain = pa.list_(found.value_type)
            return lambda a: with_elements(a if pa.types.is_list(a.type) else a.cast(plain), target, element)
        case MapType():
            return _map(found, wanted.key, wanted.value, target, path, padded_chars)
        case MultisetType():
            return _map(found, wanted.element, AtomicType(False, "INT"), target, path, padded_chars)
    convert = _atomic(found, wanted, target)
    if convert is None:
        raise FormatError(f"column {path} is {found} in the file, its schema says {wanted}")
    return convert


def conformed(array: pa.Array, convert: Convert | None, column: str) -> pa.Array:
    """The array converted; errors of its values name the column."""
    if convert is None:
        return array
    with naming(column):
        return convert(array)


@contextmanager
def naming(column: str) -> Iterator[None]:
    """Errors of values name the column they come from."""
    try:
        yield
    except DataError as e:
        raise DataError(f"column {column}: {e.message}", **{"column": column, **e.context}) from e


def _row(found: pa.DataType, wanted: RowType, target: pa.DataType, path: str, padded_chars: bool) -> Convert:
    if not pa.types.is_struct(found):
        raise FormatError(f"column {path} is {found} in the file, its schema says {wanted}")
    steps: list[tuple[int, Convert | None]] = []
    for f in wanted.fields:
        index = found.get_field_index(f.name)
        if index < 0:
            raise FormatError(f"column {path}.{f.name} is not in the file, which has {found}")
        inner = conformer(found.field(index).type, f.type, f"{path}.{f.name}", padded_chars=padded_chars)
        steps.append((index, inner))

    def convert(array: pa.Array) -> pa.Array:
        fields = array.flatten()
        return with_children(array, target, [converted(fields[i], step) for i, step in steps])

    return convert


def _map(
    found: pa.DataType, key: DataType, value: DataType, target: pa.DataType, path: str, padded_chars: bool
) -> Convert:
    if pa.types.is_struct(found):
        raise UnsupportedFeatureError(
            f"column {path} is a map stored as {found}: the shared-shredding layout of maps is not supported",
            feature="map.storage-layout=shared-shredding",
        )
    if not pa.types.is_map(found):
        raise FormatError(f"column {path} is {found} in the file, its schema says it is a map")
    keys = conformer(found.key_type, key, path + ".key", padded_chars=padded_chars)
    values = conformer(found.item_type, value, path + ".value", padded_chars=padded_chars)
    return lambda a: with_entries(a, target, keys, values)


def _variant(found: pa.DataType, target: pa.DataType, path: str) -> Convert | None:
    if found == target:
        return None
    names = [f.name for f in found] if pa.types.is_struct(found) else []
    if sorted(names) != ["metadata", "value"]:
        if "metadata" in names:
            raise UnsupportedFeatureError(
                f"column {path} is a shredded VARIANT (it has {', '.join(names)}), which cannot be read yet; "
                "leave it out with the option columns",
                feature="shredded VARIANT",
            )
        raise FormatError(f"column {path} is {found} in the file, its schema says VARIANT")
    at_value, at_metadata = names.index("value"), names.index("metadata")

    def convert(array: pa.Array) -> pa.Array:
        fields = array.flatten()
        return with_children(array, target, [fields[at_value].cast("binary"), fields[at_metadata].cast("binary")])

    return convert


def _is_list(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t)
        or pa.types.is_list_view(t) or pa.types.is_large_list_view(t)
    )  # fmt: skip


def _atomic(found: pa.DataType, wanted: DataType, target: pa.DataType) -> Convert | None:
    """A conversion between types without children, or None."""
    if pa.types.is_dictionary(found):
        inner = None if found.value_type == target else _atomic(found.value_type, wanted, target)
        if found.value_type != target and inner is None:
            return None
        return lambda a: a.dictionary_decode() if inner is None else inner(a.dictionary_decode())
    match wanted:
        case CharType() | BinaryType() if _is_bytes(found):
            return lambda a: a.cast(target)
        case DecimalType() if pa.types.is_decimal(found):
            return lambda a: a.cast(target)
        case TimeType() if pa.types.is_int32(found):
            return lambda a: a.cast(target)
        case TimeType() if pa.types.is_time(found):
            return lambda a: a.cast(target, safe=False)
        case TimestampType() if pa.types.is_timestamp(found):
            return lambda a: rescale(a, target)
        case TimestampType() if found == INT96:
            return lambda a: from_int96(a, target)
        case AtomicType(name="DATE") if pa.types.is_int32(found):
            return lambda a: a.cast(target)
        case AtomicType(name="TINYINT" | "SMALLINT" | "INT" | "BIGINT") if pa.types.is_integer(found):
            return lambda a: a.cast(target)
        case AtomicType(name="FLOAT" | "DOUBLE") if pa.types.is_floating(found):
            return lambda a: a.cast(target, safe=False)
    return None


def _is_bytes(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(t) or pa.types.is_binary(t) or pa.types.is_large_string(t)
        or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t)
        or pa.types.is_string_view(t) or pa.types.is_binary_view(t)
    )  # fmt: skip


def fit(
    batches: Iterable[pa.RecordBatch], sources: Sequence[str], target: pa.Schema, table: str
) -> Iterator[pa.RecordBatch]:
    """Yield each of `batches` with the columns called `sources`, in that order, as the fields of `target`.

    Raises DataError for a value that does not fit into Spark's type.
    """
    made_for: pa.Schema | None = None
    steps: list[tuple[int, Convert | None]] = []
    for batch in batches:
        if made_for is None or not batch.schema.equals(made_for):
            made_for = batch.schema
            steps = [
                (made_for.get_field_index(name), fitter(made_for.field(name).type, field.type))
                for name, field in zip(sources, target, strict=True)
            ]
        columns = [
            _fitted(convert, batch.column(index), name, table)
            for (index, convert), name in zip(steps, target.names, strict=True)
        ]
        yield record_batch(columns, target, batch.num_rows)


def _fitted(convert: Convert | None, array: pa.Array, column: str, table: str) -> pa.Array:
    try:
        return conformed(array, convert, column)
    except pa.ArrowInvalid as e:
        raise DataError(
            f"table {table}: a value of column {column} does not fit into Spark's type: {e}",
            table=table,
            column=column,
        ) from e


def fitter(source: pa.DataType, target: pa.DataType) -> Convert | None:
    """How arrays of one canonical type become arrays of another for Spark; None when they already are.

    Nanoseconds are cut to microseconds, downwards, as Paimon's own connector does. No other value changes.
    """
    if source.equals(target, check_metadata=True):
        return None
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return lambda a: rescale(a, target)
    if pa.types.is_time32(source) and pa.types.is_int32(target):
        return lambda a: a.view(target)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        # Fields are found by name, so `target` may have fewer.
        steps = [(i := source.get_field_index(f.name), fitter(source.field(i).type, f.type)) for f in target]
        return lambda a: with_children(a, target, [converted(a.field(i), step) for i, step in steps])
    if pa.types.is_map(source) and pa.types.is_map(target):
        keys, items = fitter(source.key_type, target.key_type), fitter(source.item_type, target.item_type)
        return lambda a: with_entries(a, target, keys, items)
    if pa.types.is_list(source) and pa.types.is_list(target):
        element = fitter(source.value_type, target.value_type)
        return lambda a: with_elements(a, target, element)
    return lambda a: pc.cast(a, target, safe=True)
