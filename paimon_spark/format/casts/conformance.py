"""What a data file's library decodes → the canonical Arrow type of the column's Paimon type.

Writers differ: decimals over any physical type, text without its annotation, times as plain integers,
nanosecond timestamps for columns that need milliseconds, other nullability. None of it changes a value.

Source: Java `format/parquet/reader/ParquetVectorUpdaterFactory`, `format/orc/reader/AbstractOrcColumnVector`.

Arrow batches made to fit a schema exactly: names, order, types, nullability of nested fields.

Where only names or nullability differ nothing is copied. Values never change, except that nanoseconds are
cut to microseconds, downwards, as Paimon's own connector does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, FormatError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import fixed_array, validity, values
from paimon_spark.format.arrays.arrow_types import NANOSECOND_DAYS, arrow_type, record_batch
from paimon_spark.format.arrays.nested import Convert, with_children, with_elements, with_entries
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

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

INT96 = pa.binary(12)
_EPOCH_JULIAN_DAY = 2440588
_DAY_NANOSECONDS = 86_400_000_000_000
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def conformer(found: pa.DataType, wanted: DataType, path: str, *, padded_chars: bool = False) -> Convert | None:
    """How arrays of the file's type `found` become canonical arrays of `wanted`; None when they already are.

    Args:
        found: the Arrow type the file's library gives.
        wanted: the column's type in the file's schema.
        path: the column, for messages.
        padded_chars: CHAR comes filled up with spaces, as ORC has it; Java reads it without.

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
            return lambda a: with_elements(_plain_list(a), target, element)
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
        children = [fields[i] if step is None else step(fields[i]) for i, step in steps]
        return with_children(array, target, children)

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


def _plain_list(array: pa.Array) -> pa.ListArray:
    return array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_type))


def _atomic(found: pa.DataType, wanted: DataType, target: pa.DataType) -> Convert | None:
    """A conversion between types without children; None when there is none."""
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
        case TimeType():
            return _time(found, target)
        case TimestampType() if pa.types.is_timestamp(found):
            return lambda a: rescale_timestamps(a, target)
        case TimestampType() if found == INT96:
            return lambda a: _int96_timestamps(a, target)
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


def _time(found: pa.DataType, target: pa.DataType) -> Convert | None:
    if pa.types.is_int32(found):
        return lambda a: a.cast(target)
    if pa.types.is_time(found):
        return lambda a: a.cast(target, safe=False)
    return None


def rescale_timestamps(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    """Timestamps in the unit and zone of `target`; digits that do not fit are cut downwards.

    Raises:
        DataError: an instant does not fit 64 bits of the finer unit.
    """
    have, want = NANOSECONDS[array.type.unit], NANOSECONDS[target.unit]
    if have == want:
        return array.cast(pa.int64()).cast(target)
    if have > want:
        return finer_timestamps(arrow_numpy.values(array), have // want, 0, arrow_numpy.validity(array), target)
    data = arrow_numpy.values(array) // (want // have)
    valid = None if array.null_count == 0 else arrow_numpy.validity(array)
    return arrow_numpy.fixed_array(data, target, valid)


def _int96_timestamps(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    """Timestamps from nanoseconds of the day, possibly negative, and the Julian day."""
    words = np.frombuffer(array.buffers()[1], "<i4")[3 * array.offset :][: 3 * len(array)].reshape(-1, 3)
    of_day = np.ascontiguousarray(words[:, :2]).view("<i8")[:, 0]
    days = words[:, 2].astype(np.int64) - _EPOCH_JULIAN_DAY
    valid = arrow_numpy.validity(array)
    unit = NANOSECONDS[target.unit]
    if target.unit == "ns":
        second = NANOSECONDS["s"]
        seconds = days * (_DAY_NANOSECONDS // second) + of_day // second
        return finer_timestamps(seconds, second, of_day % second, valid, target)
    return arrow_numpy.fixed_array(
        np.where(valid, days * (_DAY_NANOSECONDS // unit) + of_day // unit, 0), target, valid
    )


def finer_timestamps(data: I64, factor: int, rest: I64 | int, valid: Bool, target: pa.TimestampType) -> pa.Array:
    """`data * factor + rest` in the target's unit, with `rest` from 0 to `factor` exclusive.

    Raises:
        DataError: 64 bits do not hold it.
    """
    last, last_rest = divmod(2**63 - 1, factor)
    first, first_rest = divmod(-(2**63), factor)
    outside = valid & (
        (data > last) | (data < first) | ((data == last) & (rest > last_rest)) | ((data == first) & (rest < first_rest))
    )
    if bool(outside.any()):
        raise DataError(
            f"it holds timestamps outside {NANOSECOND_DAYS}, which a column of nanosecond precision cannot "
            "have in Arrow; leave the column out with the option columns"
        )
    return arrow_numpy.fixed_array(np.where(valid, data * factor + rest, 0), target, valid)


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
