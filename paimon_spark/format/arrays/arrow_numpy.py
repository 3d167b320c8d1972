"""Conversions between Arrow arrays and numpy arrays that share their buffers.

`Array.to_numpy()` and `pa.array(ndarray)` import pandas when it is installed, which costs every Python
worker a third of a second; these functions never do. Views must not be written to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bool = npt.NDArray[np.bool_]

_DTYPES: dict[str, str] = {
    "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
    "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8",
    "float": "f4", "double": "f8", "date32[day]": "i4", "time32[ms]": "i4", "time64[us]": "i8",
}  # fmt: skip


def values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed-width array as a read-only view; slots of nulls hold anything.

    Timestamps, dates and times come as integers in their own unit; booleans as a fresh bool array.
    """
    t = array.type
    if pa.types.is_boolean(t):
        return bits(array.buffers()[1], array.offset, len(array))
    dtype = np.dtype("i8") if pa.types.is_timestamp(t) else np.dtype(_DTYPES[str(t)])
    buffer = array.buffers()[1]
    if buffer is None:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def bits(buffer: pa.Buffer | None, offset: int, length: int) -> Bool:
    """`length` bits from bit `offset` as booleans; all True when there is no buffer."""
    if buffer is None:
        return np.ones(length, np.bool_)
    first = offset // 8
    raw = np.frombuffer(buffer, np.uint8, count=(offset + length + 7) // 8 - first, offset=first)
    return np.unpackbits(raw, bitorder="little")[offset - 8 * first :][:length].view(np.bool_)


def validity(array: pa.Array) -> Bool:
    """True where the array is not null."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    if array.type.id == pa.lib.Type_NA:
        return np.zeros(len(array), np.bool_)
    return bits(array.buffers()[0], array.offset, len(array))


def pack_bits(mask: Bool) -> pa.Buffer:
    """Booleans as an Arrow bitmap."""
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def boolean_array(mask: Bool, valid: Bool | None = None) -> pa.BooleanArray:
    """An Arrow boolean array of `mask`, null where `valid` is False."""
    return pa.Array.from_buffers(pa.bool_(), len(mask), [_validity_buffer(valid), pack_bits(mask)])


def fixed_array(data: npt.NDArray[Any], type: pa.DataType, valid: Bool | None = None) -> pa.Array:
    """An Arrow array of `type` over the bytes of `data` (contiguous, item size of the type)."""
    return pa.Array.from_buffers(type, len(data), [_validity_buffer(valid), pa.py_buffer(np.ascontiguousarray(data))])


def _validity_buffer(valid: Bool | None) -> pa.Buffer | None:
    return None if valid is None or bool(valid.all()) else pack_bits(valid)


def byte_slices(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets (one more than rows) and bytes of a string or binary array; row i is bytes[offsets[i]:offsets[i+1]]."""
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets, data = array.buffers()[:3]
    dtype = np.dtype("i8" if large else "i4")
    if offsets is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int64), np.empty(0, np.uint8)
    starts = np.frombuffer(offsets, dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize)
    raw = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return starts.astype(np.int64, copy=False), raw


def take_indices(indices: npt.NDArray[Any]) -> pa.Array:
    """Row numbers as an Arrow array for `take`."""
    return fixed_array(indices.astype(np.int64, copy=False), pa.int64())


def gather_bytes(
    data: Any,
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    type: pa.DataType,
    valid: Bool | None = None,
) -> pa.Array:
    """Pieces of a buffer as a string or binary array: `sizes[i]` bytes of `data` from `starts[i]`.

    The pieces lie one behind the other, gaps allowed; starts and sizes are for the valid places only.
    The buffer is used as the data of an array of pieces and gaps, from which Arrow copies the pieces.
    """
    length = len(starts) if valid is None else len(valid)
    if len(starts) == 0:
        return pa.nulls(length, type)
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + sizes
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    spread = pa.Array.from_buffers(type, len(bounds) - 1, buffers)
    if valid is None:
        return spread.take(take_indices(np.arange(0, len(bounds), 2, dtype=np.int64)))
    numbers = np.cumsum(valid, dtype=np.int64)
    return spread.take(fixed_array(2 * (numbers - 1), pa.int64(), valid))


def scalar(value: str | bytes, type: pa.DataType) -> Any:
    """An Arrow scalar of text or bytes. `pa.scalar` and bare Python values in compute calls import pandas."""
    raw = value.encode() if isinstance(value, str) else value
    offsets = pa.py_buffer(np.array([0, len(raw)], np.int32))
    return pa.Array.from_buffers(type, 1, [None, offsets, pa.py_buffer(raw)])[0]
