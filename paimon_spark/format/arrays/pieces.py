"""Rows beyond the two gigabytes of text, bytes or list elements that one array holds.

Batches are cut by bytes. Where all rows must be one array, as for a merge or a comparison, `joined` gives it 64-bit
offsets in place of 32-bit ones that may not do, and `narrowed` takes these back from what is cut of it. Rows of a large
table are taken in pieces. Arrow's own `concat_arrays`, `combine_chunks` and `take` raise an error instead. Rows that go
to other tasks are divided by number and travel as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.nested import validity_buffer, with_children

ARRAY_BYTES = 1 << 30
"""Bytes of a column up to which its rows become one array of 32-bit offsets; leaves room for values computed later."""
BATCH_BYTES = 64 << 20
"""Bytes of the batches that rows are read and written in, about."""

I64 = npt.NDArray[np.int64]
_VIEW_BYTES = 16
_OFFSET_BYTES = 4


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """The arrays, at least one, as one: in `wide_type` where they are too long for 32-bit offsets, or one is wide."""
    first = arrays[0]
    if len(arrays) == 1:
        return first
    if all(a.type == first.type for a in arrays[1:]) and sum(map(_reach, arrays)) <= ARRAY_BYTES:
        return pa.concat_arrays(arrays)
    wide = wide_type(first.type)
    return pa.concat_arrays([a if a.type == wide else a.cast(wide) for a in arrays])


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, as of `joined`."""
    return joined(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def together(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """The batches as one; as they are where that would be too long."""
    if len(batches) < 2 or sum(b.nbytes for b in batches) > ARRAY_BYTES:
        return batches
    return [b for b in pa.Table.from_batches(batches).combine_chunks().to_batches() if b.num_rows]


def gathered(batches: Iterable[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows in the same order, neighbours put together up to `most_rows` and to `BATCH_BYTES`."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if rows + batch.num_rows > most_rows or size + batch.nbytes > BATCH_BYTES:
            yield from together(held)
            held, rows, size = [], 0, 0
        if not held and batch.num_rows >= most_rows:
            yield batch
            continue
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    yield from together(held)


def cut(batch: pa.RecordBatch, most_bytes: int | None = None, most_rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most `most_bytes`, by default `BATCH_BYTES`, or of one row; in order, none empty.

    Bytes are those of values as Arrow holds them, decoded where they have a dictionary.
    """
    limit, rows = most_bytes or BATCH_BYTES, batch.num_rows
    step = rows if most_rows is None else most_rows
    small = batch.nbytes <= limit and not any(map(has_dictionary, batch.schema.types))
    if rows and (not batch.num_columns or (small and rows <= step)):
        yield batch
        return
    ends = None if small else row_ends(batch.columns)
    start = 0
    while start < rows:
        end = start + step
        if ends is not None:
            end = min(end, max(int(np.searchsorted(ends, ends[start] + limit, side="right")) - 1, start + 1))
        yield batch.slice(start, end - start)
        start = end


def taken(table: pa.Table, rows: I64) -> pa.Table:
    """The rows of a table with these numbers, from 0; in several chunks where they are long."""
    if all(sum(map(_reach, column.chunks)) <= ARRAY_BYTES for column in table.columns):
        return table.take(arrow_numpy.take_indices(rows))
    batches = [b for b in table.to_batches() if b.num_rows]
    sizes = np.concatenate([np.diff(row_ends(b.columns)) for b in batches])[rows]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    firsts = np.cumsum([0, *(b.num_rows for b in batches)])
    out, start = [], 0
    while start < len(rows):
        end = max(int(np.searchsorted(ends, ends[start] + BATCH_BYTES, side="right")) - 1, start + 1)
        out.append(_gathered(batches, firsts, rows[start:end]))
        start = end
    return pa.Table.from_batches(out, table.schema)


def _gathered(batches: Sequence[pa.RecordBatch], firsts: I64, rows: I64) -> pa.RecordBatch:
    """Rows of batches that begin at the numbers `firsts`, as one batch."""
    which = np.searchsorted(firsts, rows, side="right") - 1
    order = np.argsort(which, kind="stable")
    parts = [
        batches[n].take(arrow_numpy.take_indices(rows[order][which[order] == n] - firsts[n]))
        for n in np.unique(which).tolist()
    ]
    back = np.empty(len(rows), np.int64)
    back[order] = np.arange(len(rows))
    columns = [pa.concat_arrays([p.column(i) for p in parts]) for i in range(parts[0].num_columns)]
    return pa.RecordBatch.from_arrays([c.take(arrow_numpy.take_indices(back)) for c in columns], schema=parts[0].schema)


def row_ends(arrays: Sequence[pa.Array]) -> I64:
    """Bytes of the values up to the begin of each row, and up to the end of the last one; list elements count one more.

    `arrays` are columns of equally many rows, at least one.
    """
    ends: I64 = np.sum([_ends(a) for a in arrays], axis=0, dtype=np.int64)
    return ends


def _ends(array: pa.Array) -> I64:
    """`row_ends` of one column."""
    t = array.type
    ends: I64
    if isinstance(array, pa.ExtensionArray):
        return _ends(array.storage)
    if pa.types.is_dictionary(t):
        sizes = np.append(np.diff(_ends(array.dictionary)), 0)
        valid = arrow_numpy.validity(array)
        return _sums(sizes[np.where(valid, arrow_numpy.values(array.indices).astype(np.int64), len(sizes) - 1)])
    if pa.types.is_struct(t):
        fields = [array.field(i) for i in range(t.num_fields)]
        return row_ends(fields) if fields else np.zeros(len(array) + 1, np.int64)
    if is_listed(t):
        offsets, _ = arrow_numpy.byte_slices(array)
        begins = offsets - offsets[0]
        ends = _ends(array.values.slice(int(offsets[0]), int(begins[-1])))[begins] + begins
        return ends
    if pa.types.is_fixed_size_list(t):
        values = array.values.slice(array.offset * t.list_size, len(array) * t.list_size)
        ends = _ends(values)[:: t.list_size] if t.list_size else np.zeros(len(array) + 1, np.int64)
        return ends
    if is_text(t):
        offsets, _ = arrow_numpy.byte_slices(array)
        ends = offsets - offsets[0]
        return ends
    if pa.types.is_string_view(t) or pa.types.is_binary_view(t):
        views = np.frombuffer(array.buffers()[1], np.int32, 4 * len(array), _VIEW_BYTES * array.offset)
        return _sums(np.where(arrow_numpy.validity(array), views[::4], 0))
    try:
        width = max(t.bit_width // 8, 1)
    except ValueError:  # of no fixed width, and none of the above: views of lists, runs
        width = max(array.nbytes // max(len(array), 1), 1)
    ends = np.arange(len(array) + 1, dtype=np.int64) * width
    return ends


def _sums(sizes: npt.NDArray[Any]) -> I64:
    out = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=out[1:])
    return out


def _reach(array: pa.Array) -> int:
    """At least as much as any offset inside the array counts: bytes of text, elements of lists."""
    t = array.type
    if is_text(t):
        return int(array.nbytes)
    if pa.types.is_struct(t):
        return max((_reach(array.field(i)) for i in range(t.num_fields)), default=0)
    if is_listed(t) and len(array):
        first, last = _span(array)
        return max(last - first, _reach(array.values.slice(first, last - first)))
    return 0


def _span(array: pa.Array) -> tuple[int, int]:
    """Where the values of a list, map or text array begin and end."""
    dtype = np.dtype("i8" if _is_wide(array.type) else "i4")
    offsets = np.frombuffer(array.buffers()[1], dtype, len(array) + 1, array.offset * dtype.itemsize)
    return int(offsets[0]), int(offsets[-1])


def _is_wide(t: pa.DataType) -> bool:
    return bool(pa.types.is_large_list(t) or pa.types.is_large_string(t) or pa.types.is_large_binary(t))


@lru_cache(maxsize=4096)
def least_bytes(t: pa.DataType) -> int:
    """Bytes of a value, at least; of the offsets of texts and lists."""
    if pa.types.is_struct(t):
        return sum(least_bytes(f.type) for f in t)
    try:
        return max(int(t.bit_width) // 8, 1)
    except ValueError:  # it has no fixed width
        return _OFFSET_BYTES


@lru_cache(maxsize=4096)
def has_dictionary(t: pa.DataType) -> bool:
    """Whether values, or values inside them, are indexes into a dictionary."""
    return bool(pa.types.is_dictionary(t)) or any(has_dictionary(t.field(i).type) for i in range(t.num_fields))


def is_text(t: pa.DataType) -> bool:
    """Whether values are text or bytes, with offsets of 32 or 64 bits."""
    return bool(
        pa.types.is_string(t) or pa.types.is_binary(t) or pa.types.is_large_string(t) or pa.types.is_large_binary(t)
    )


def is_listed(t: pa.DataType) -> bool:
    """Whether values are lists or maps, with offsets of 32 or 64 bits."""
    return bool(pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_map(t))


@lru_cache(maxsize=4096)
def wide_type(t: pa.DataType) -> pa.DataType:
    """The type with 64-bit offsets at any depth; maps, of which Arrow has no such kind, only inside."""
    if pa.types.is_string(t):
        return pa.large_string()
    if pa.types.is_binary(t):
        return pa.large_binary()
    if pa.types.is_list(t):
        return pa.large_list(t.value_field.with_type(wide_type(t.value_type)))
    return _with_inner(t, wide_type)


@lru_cache(maxsize=4096)
def narrow_type(t: pa.DataType) -> pa.DataType:
    """The type with 32-bit offsets; the canonical type of a column that `joined` made wide."""
    if pa.types.is_large_string(t):
        return pa.string()
    if pa.types.is_large_binary(t):
        return pa.binary()
    if pa.types.is_large_list(t):
        return pa.list_(t.value_field.with_type(narrow_type(t.value_type)))
    return _with_inner(t, narrow_type)


def _with_inner(t: pa.DataType, change: Any) -> pa.DataType:
    if pa.types.is_map(t):
        key, item = (f.with_type(change(f.type)) for f in (t.key_field, t.item_field))
        return pa.map_(key, item)
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(change(t.value_type)))
    if pa.types.is_large_list(t):
        return pa.large_list(t.value_field.with_type(change(t.value_type)))
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(change(f.type)) for f in t])
    return t


def narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with columns in `narrow_type`, as which its rows must fit. Text is not copied."""
    types = [narrow_type(t) for t in batch.schema.types]
    if types == batch.schema.types:
        return batch
    fields = [f.with_type(t) for f, t in zip(batch.schema, types, strict=True)]
    return pa.RecordBatch.from_arrays([narrow(a) for a in batch.columns], schema=pa.schema(fields))


def narrow(array: pa.Array) -> pa.Array:
    """An array in `narrow_type`, as which it must fit."""
    t = array.type
    target = narrow_type(t)
    if target == t:
        return array
    if pa.types.is_struct(t):
        return with_children(array, target, [narrow(array.field(i)) for i in range(t.num_fields)])
    if not len(array):
        return pa.nulls(0, target)
    # Not `cast`, which refuses the end of a long array.
    first, last = _span(array)
    offsets, _ = arrow_numpy.byte_slices(array)
    buffers = [validity_buffer(array), pa.py_buffer((offsets - first).astype(np.int32))]
    if is_text(t):
        data = array.buffers()[2]
        buffers.append(pa.py_buffer(b"") if data is None else data.slice(first, last - first))
        return pa.Array.from_buffers(target, len(array), buffers, array.null_count)
    values = array.values.slice(first, last - first)
    if pa.types.is_map(t):
        kind = pa.struct([target.key_field, target.item_field])
        values = with_children(values, kind, [narrow(values.field(i)) for i in range(2)])
    else:
        values = narrow(values)
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, children=[values])


_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


def divided(rows: _Rows, numbers: npt.NDArray[Any]) -> Iterator[tuple[int, _Rows]]:
    """Yield the rows of each number, ascending; rows of one number stay in their order.

    Args:
        rows: to divide.
        numbers: whole numbers, one for each row.
    """
    if not len(numbers):
        return
    order = numbers.argsort(kind="stable")
    there: npt.NDArray[Any] = numbers[order]
    ordered: _Rows = taken(rows, order) if isinstance(rows, pa.Table) else rows.take(pa.array(order))
    starts = [0, *(np.flatnonzero(there[1:] != there[:-1]) + 1).tolist(), len(there)]
    for start, end in pairwise(starts):
        yield int(there[start]), ordered.slice(start, end - start)


def to_bytes(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Rows as an Arrow stream, which keeps every value as it is."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(data: bytes) -> pa.Table:
    """The rows of `to_bytes`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
