"""Encoding of Arrow columns as Avro records, and container files of such records.

Every record is a row of pieces. Numbers, lengths and branches that follow each other are the bytes of one
matrix with a mask; text and bytes are pieces as they lie in their Arrow buffers; Arrow joins the pieces of each row.

Source: Avro 1.11 specification, chapters Binary Encoding and Object Container Files; Java `format/avro/AvroFileFormat`.
"""

from __future__ import annotations

import bz2
import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from paimon_spark.errors import FormatError, InvalidOptionError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.avro_codec.container import MAGIC, AvroType, FileSchema

Bool = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_MAX_VARINT_BYTES: Final = 10
_NUMBERS: Final = frozenset(("int", "long"))
_FLOATS: Final = {"float": "<f4", "double": "<f8"}
_EMPTY: Final = arrow_numpy.scalar(b"", pa.binary())


def encode(values: pa.Array, t: AvroType) -> pa.Array:
    """Every value as Avro writes it, as a binary array: joined, they are the payload of a block.

    `values` are of the Arrow type that `decoder.arrow_type` gives for `t`, or of any whose buffers are the same
    (dates and timestamps are their numbers).

    Raises FormatError: a null where `t` has none, a type that is not written, or more than two gigabytes.
    """
    row = _Row(len(values))
    if row.length == 0:
        return pa.nulls(0, pa.binary())
    try:
        _put(row, values, t, None)
        return row.joined()
    except (OverflowError, pa.ArrowException) as e:
        raise FormatError(f"{len(values)} records cannot be encoded in one step: {e}") from e


def slices(encoded: pa.Array, rows: int) -> list[tuple[int, bytes]]:
    """Payloads of blocks of `rows` records: how many there are, and their bytes."""
    offsets, data = arrow_numpy.byte_slices(encoded)
    view = data.data
    starts = range(0, len(encoded), rows)
    ends = [min(s + rows, len(encoded)) for s in starts]
    return [(e - s, bytes(view[offsets[s] : offsets[e]])) for s, e in zip(starts, ends, strict=True)]


class _Row:
    """The pieces of every row, from left to right."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.columns: list[tuple[Bytes, Bool]] = []
        self.pieces: list[pa.Array] = []

    def fixed(self, matrix: Bytes, where: Bool | None) -> None:
        """`matrix` has the bytes of each row; none where not `where`."""
        mask = np.ones(matrix.shape, np.bool_)
        if where is not None:
            mask &= where[:, None]
        self.columns.append((matrix, mask))

    def long(self, values: npt.NDArray[Any], where: Bool | None) -> None:
        """A zigzag varint per row, none where not `where`."""
        signed = values.astype(np.int64, copy=False)
        if where is not None:
            signed = np.where(where, signed, 0)
        rest = (signed.view(np.uint64) << np.uint64(1)) ^ (signed >> 63).view(np.uint64)
        most = int(rest.max()) if len(rest) else 0
        width = max(-(-most.bit_length() // 7), 1)
        matrix = np.empty((self.length, width), np.uint8)
        mask = np.empty((self.length, width), np.bool_)
        for i in range(width):
            mask[:, i] = (rest != 0) if i else True
            matrix[:, i] = (rest & np.uint64(0x7F)).astype(np.uint8)
            rest = rest >> np.uint64(7)
            matrix[:, i] |= (rest != 0).astype(np.uint8) << 7
        if where is not None:
            mask &= where[:, None]
        self.columns.append((matrix, mask))

    def raw(self, array: pa.Array) -> None:
        """A binary array; its nulls are nothing."""
        self._flush()
        self.pieces.append(array)

    def joined(self) -> pa.Array:
        self._flush()
        if len(self.pieces) == 1:
            return self.pieces[0]
        if not self.pieces:
            return _binary(np.zeros(self.length + 1, np.int32), pa.py_buffer(b""), None)
        out = pc.binary_join_element_wise(*self.pieces, _EMPTY, null_handling="skip")
        return out.combine_chunks() if isinstance(out, pa.ChunkedArray) else out

    def _flush(self) -> None:
        if not self.columns:
            return
        matrix = np.concatenate([m for m, _ in self.columns], axis=1)
        mask = np.concatenate([m for _, m in self.columns], axis=1)
        self.columns = []
        self.pieces.append(_binary(arrow_numpy.offsets_of(mask.sum(axis=1)), pa.py_buffer(matrix[mask]), None))


def _put(row: _Row, values: pa.Array, t: AvroType, where: Bool | None) -> None:
    """Append a value per row, none where not `where`; nulls there are an error."""
    if t.null_branch is not None:
        _put_nullable(row, values, t, t.null_branch, where)
        return
    if values.null_count and t.kind != "null":
        valid = arrow_numpy.validity(values)
        if not (valid.all() if where is None else valid[where].all()):
            raise FormatError(f"a value is null where Avro's type is {t.kind}")
    match t.kind:
        case "null":
            return
        case "boolean":
            row.fixed(arrow_numpy.values(values).astype(np.uint8)[:, None], where)
        case kind if kind in _NUMBERS:
            row.long(arrow_numpy.values(values), where)
        case kind if kind in _FLOATS:
            numbers = np.ascontiguousarray(arrow_numpy.values(values).astype(_FLOATS[kind], copy=False))
            row.fixed(numbers.view(np.uint8).reshape(len(values), -1), where)
        case "bytes" | "string":
            offsets, data = _text(values)
            row.long(np.diff(offsets), where)
            row.raw(_binary(offsets, data, where))
        case "fixed":
            width = values.type.byte_width
            raw = np.frombuffer(values.buffers()[1], np.uint8, len(values) * width, values.offset * width)
            row.fixed(raw.reshape(-1, width), where)
        case "record":
            for i, (name, inner) in enumerate(zip(t.names, t.inner, strict=True)):
                found = values.type.get_field_index(name)
                # By place where the names differ. `field` keeps the slice, and the child's own nulls.
                _put(row, values.field(found if found >= 0 else i), inner, where)
        case "array" | "map":
            _put_list(row, values, t, where)
        case _:
            raise FormatError(f"values of Avro's type {t.kind} are not written")


def _put_nullable(row: _Row, values: pa.Array, t: AvroType, null_branch: int, where: Bool | None) -> None:
    valid = arrow_numpy.validity(values) if where is None else arrow_numpy.validity(values) & where
    branch = np.where(valid, 2 * (1 - null_branch), 2 * null_branch).astype(np.uint8)
    row.fixed(branch[:, None], where)
    if valid.any():
        _put(row, values, t.inner[1 - null_branch], None if valid.all() else valid)


def _put_list(row: _Row, values: pa.Array, t: AvroType, where: Bool | None) -> None:
    """One block of all items: their count, the items, and 0 for the end; an empty list is its end."""
    offsets, items = _items(values)
    counts = np.diff(offsets)
    if where is not None and not where.all() and counts[~where].any():
        # A null list may still point at items.
        kept = np.flatnonzero(where)
        values = values.take(arrow_numpy.take_indices(kept))
        inner_offsets, items = _items(values)
        counts = np.zeros(len(where), np.int64)
        counts[kept] = np.diff(inner_offsets)
        offsets = arrow_numpy.offsets_of(counts)
    row.long(counts, where)
    if len(items):
        # An entry of a map is its key as text, then its value.
        entry = AvroType("record", ("key", "value"), (AvroType("string"), t.inner[0]))
        encoded = encode(items, t.inner[0] if t.kind == "array" else entry)
        starts, data = _text(encoded)
        row.raw(_binary(starts[offsets], data, None))
    row.fixed(np.zeros((len(values) if where is None else len(where), 1), np.uint8), counts > 0)


def _items(values: pa.Array) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Offsets from 0, and the items they count; large lists come with the offsets of small ones."""
    dtype = np.dtype("i8" if pa.types.is_large_list(values.type) else "i4")
    if len(values) == 0:
        return np.zeros(1, np.int32), values.values
    offsets = np.frombuffer(values.buffers()[1], dtype, len(values) + 1, values.offset * dtype.itemsize)
    first, last = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(values.type):
        items = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
    else:
        items = values.values
    return (offsets - first).astype(np.int32, copy=False), items.slice(first, last - first)


def _text(values: pa.Array) -> tuple[npt.NDArray[np.int32], pa.Buffer | None]:
    """Offsets and bytes of text or binary."""
    if pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type):
        values = values.cast(pa.binary())
    if len(values) == 0:
        return np.zeros(1, np.int32), pa.py_buffer(b"")
    _, offsets, data = values.buffers()[:3]
    return np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4), data


def _binary(offsets: npt.NDArray[np.int32], data: pa.Buffer | None, valid: Bool | None) -> pa.Array:
    buffers = [arrow_numpy.validity_bitmap(valid), pa.py_buffer(np.ascontiguousarray(offsets)), data]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


_ROWS_PER_BLOCK: Final = 256


class ContainerWriter:
    """A container that grows by blocks.

    Attributes:
        size: bytes so far.
    """

    def __init__(self, schema: FileSchema, compression: str = "zstd", level: int = 1) -> None:
        """`compression` is the value of an option of Paimon, `level` that of zstd.

        Raises:
            InvalidOptionError: there is no such codec, or none that can be written.
        """
        codec, self._compress = _compressor(compression, level)
        meta = {b"avro.codec": codec.encode(), b"avro.schema": schema.text}
        pairs = b"".join(_sized(k) + _sized(v) for k, v in meta.items())
        self._sync = os.urandom(16)
        self._parts = [MAGIC + long(len(meta)) + pairs + long(0) + self._sync]
        self.size = len(self._parts[0])

    def add(self, rows: int, payload: bytes) -> None:
        """Append a block of `rows` records."""
        data = self._compress(payload)
        head = long(rows) + long(len(data))
        self._parts += (head, data, self._sync)
        self.size += len(head) + len(data) + len(self._sync)

    def finish(self) -> bytes:
        """The whole file."""
        return b"".join(self._parts)

    def drain(self) -> bytes:
        """Bytes added since the last call, for files written piece by piece; `finish` then lacks them."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def container(schema: FileSchema, rows: Sequence[Any], compression: str = "zstd", level: int = 1) -> bytes:
    """A file of a few records given as Python values. Raises as `ContainerWriter`."""
    writer = ContainerWriter(schema, compression, level)
    for start in range(0, len(rows), _ROWS_PER_BLOCK):
        part = rows[start : start + _ROWS_PER_BLOCK]
        writer.add(len(part), schema.encode_rows(part))
    return writer.finish()


def long(value: int) -> bytes:
    """A number as Avro writes it: zigzag, seven bits a byte, the lowest first."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return long(len(data)) + data


def _compressor(compression: str, level: int) -> tuple[str, Callable[[bytes], bytes]]:
    """Avro's name of a codec, and what compresses a block."""
    match compression.lower():
        case "zstd" | "zstandard":
            return "zstandard", zstandard.ZstdCompressor(level).compress
        case "null":
            return "null", bytes
        case "deflate":
            return "deflate", _compress_deflate
        case "snappy":
            return "snappy", _compress_snappy
        case "bzip2":
            return "bzip2", bz2.compress
    raise InvalidOptionError(
        f"compression {compression!r} cannot be written in Avro files; "
        "zstd, null, deflate, snappy and bzip2 can (option manifest.compression)",
        option="manifest.compression",
        value=compression,
    )


def _compress_deflate(payload: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(payload) + deflate.flush()


def _compress_snappy(payload: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(payload, asbytes=True)
    return packed + zlib.crc32(payload).to_bytes(4, "big")
