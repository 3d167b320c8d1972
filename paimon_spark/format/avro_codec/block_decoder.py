"""Block-parallel decoder of Avro records: one value of every block at a time, with numpy.

Avro values have no fixed places, so one block can only be decoded from front to back. Many blocks can be
decoded side by side: every reader here reads one value of each block, whose positions are the int64
array `at`, and moves them on. Values pile up in the order they were read (a value's number there is its
slot); `finish` puts slots into the order asked for and makes the Arrow array.

Two blocks of two records `{k: long, name: null | string}`; numbers, branches and sizes are zigzag varints:

    place   0   1   2   3   4     5   6     7   8   9   10    11  12  13  14  15
    byte    02  02  04  a   b     04  00    05  02  02  c     08  02  04  d   e
            k=1 str 2 bytes       k=2 null  k=-3 str 1 byte   k=4 str 2 bytes
            └──────── block A ───────────┘  └─────────────── block B ──────────┘

    read                     at of A, B    what is kept
    start                    0    7
    record 1   k             1    8        k: 1, -3                    slots 0, 1
               name: branch  2    9        present: yes, yes           slots 0, 1
                     string  5    11       start 3, 10; size 2, 1      slots 0, 1 of the strings
    record 2   k             6    12       k: 2, 4                     slots 2, 3
               name: branch  7    13       present: no, yes            slots 2, 3
                     string  7    16       start 14; size 2            slot 2 of the strings: only B was asked
    end                      7    16       which is where A and B end

Slots count by record, then by block. The rows are asked for in their order in the file, A1 A2 B1 B2, which is slots
0, 2, 1, 3: k = 1, 2, -3, 4. Of `name` those slots are present, absent, present, present; the present ones are the
0th, 1st and 2nd string that was read (the count of `present` before them), so name = ab, null, c, de.

Places never turn negative and reading beyond the buffer raises IndexError, so garbage costs no more than its
bytes. That reading ended where the blocks end is for the caller to check.

Source: Avro 1.11 specification, chapter Binary Encoding.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import FormatError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.avro_codec.container import AvroType

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Bool = npt.NDArray[np.bool_]

PADDING: Final = 16
"""Bytes a buffer must have after its last block, so that words can be loaded at every place."""

_ZIGZAG: Final = np.array([(n >> 1) ^ -(n & 1) for n in range(256)], np.int64)
_ONE: Final = np.uint64(1)
_HIGH_BITS: Final = np.uint64(0x8080808080808080)
_LOW_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_EACH_BYTE: Final = np.uint64(0x0101010101010101)
_PAIRS: Final = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
_MAX_VARINT_BYTES: Final = 10
_SHORT_ARRAY: Final = 64


class UnknownShapeError(Exception):
    """The schema has a type these readers do not know; decode another way."""


class DecodedBlocks:
    """The decompressed blocks, one after the other, and how numbers are loaded from them."""

    def __init__(self, data: bytes) -> None:
        """`data` ends with `PADDING` bytes of anything."""
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.words: U64 = np.ndarray((len(data) - 7,), np.dtype("<u8"), buffer=data, strides=(1,))

    def long(self, at: I64, wide: bool) -> I64:
        """A zigzag varint per block. `wide` says that most take more than one byte: a matter of speed only."""
        if not wide:
            first = self.bytes[at]
            if first.max() < 0x80:
                at += 1
                return _ZIGZAG[first]
        # Eight bytes are one little-endian word, so the number's first byte is the lowest. Its last byte is the lowest
        # one without a high bit: `stop` keeps that bit alone, and `mask` all bits up to it.
        word = self.words[at]
        stop = ~word & _HIGH_BITS
        stop &= ~stop + _ONE
        if not stop.all():
            return self._long_by_bytes(at)
        mask = stop ^ (stop - _ONE)
        # One bit of each byte of the number is left, and the product sums them up in the highest byte: its length.
        at += (((mask & _EACH_BYTE) * _EACH_BYTE) >> np.uint64(56)).view(np.int64)
        # Groups of 7 bits move together in pairs: to 14 bits, to 28, to 56.
        word &= mask
        word &= _LOW_BITS
        for even, odd, shift in _PAIRS:
            word = (word & even) | ((word & odd) >> shift)
        return _zigzag(word)

    def _long_by_bytes(self, at: I64) -> I64:
        value = np.zeros(len(at), np.uint64)
        open_: Bool = np.ones(len(at), np.bool_)
        for i in range(_MAX_VARINT_BYTES):
            byte = self.bytes[at]
            value |= np.where(open_, (byte & 0x7F).astype(np.uint64) << np.uint64(7 * i), np.uint64(0))
            at += open_
            open_ &= byte >= 0x80
            if not open_.any():
                return _zigzag(value)
        raise FormatError("a number has more than ten bytes")

    def length(self, at: I64) -> I64:
        """The size of bytes or text, which lie in the buffer."""
        n = self.long(at, wide=False)
        if (n.view(np.uint64) > np.uint64(len(self.data))).any():
            raise FormatError("a value reaches beyond its block")
        return n


def _zigzag(value: U64) -> I64:
    return ((value >> _ONE) ^ (~(value & _ONE) + _ONE)).view(np.int64)


class ValueReader(Protocol):
    """Reads values of one type."""

    def read(self, at: I64) -> None:
        """Read one value per block, of at least one block; `at` moves on in place."""
        ...

    def finish(self, slots: I64, valid: Bool | None) -> pa.Array:
        """The values in `slots`, null where `valid` is False (what `slots` says there means nothing).

        Slots come in the order their bytes lie in the source.
        """
        ...


def reader_of(t: AvroType, source: DecodedBlocks, wanted: AvroType | None = None) -> ValueReader:
    """A reader of `t`, whose records have the fields of `wanted` only; None: all.

    Raises UnknownShapeError for types that need another decoder.
    """
    match t.kind:
        case "null":
            return _Nulls()
        case "int" | "long":
            return _Integers(source, pa.int32() if t.kind == "int" else pa.int64())
        case "boolean" | "float" | "double":
            return _Fixed(source, t.kind)
        case "bytes" | "string":
            return _Bytes(source, pa.binary() if t.kind == "bytes" else pa.string())
        case "record":
            kept = t if wanted is None else wanted
            inner = dict(zip(kept.names, kept.inner, strict=True))
            fields = [reader_of(i, source, inner.get(n)) for n, i in zip(t.names, t.inner, strict=True)]
            return _Record(t.names, fields, kept.names)
        case "array":
            return _Array(t.inner[0], source)
        case "union" if t.null_branch is not None:
            branch = 1 - t.null_branch
            item = None if wanted is None else wanted.inner[branch]
            return _Nullable(source, t.null_branch, reader_of(t.inner[branch], source, item))
    raise UnknownShapeError(t.kind)


class _Nulls:
    def read(self, at: I64) -> None:
        pass

    def finish(self, slots: I64, valid: Bool | None) -> pa.Array:
        return pa.nulls(len(slots))


class _Integers:
    def __init__(self, source: DecodedBlocks, type: pa.DataType) -> None:
        self.source = source
        self.type = type
        self.wide = False
        self.chunks: list[I64] = []

    def read(self, at: I64) -> None:
        before = at[0]
        self.chunks.append(self.source.long(at, self.wide))
        self.wide = bool(at[0] - before > 1)

    def finish(self, slots: I64, valid: Bool | None) -> pa.Array:
        values = _pick(self.chunks, slots, valid)
        if self.type.bit_width == 32:
            narrow = values.astype(np.int32)
            if not np.array_equal(narrow, values):
                raise FormatError("an int has more than 32 bits")
            values = narrow
        return arrow_numpy.fixed_array(values, self.type, valid)


class _Fixed:
    """Booleans and floating point numbers."""

    _SIZE: Final = {"boolean": 1, "float": 4, "double": 8}

    def __init__(self, source: DecodedBlocks, kind: str) -> None:
        self.source = source
        self.kind = kind
        self.chunks: list[U64] = []

    def read(self, at: I64) -> None:
        self.chunks.append(self.source.words[at])
        at += self._SIZE[self.kind]

    def finish(self, slots: I64, valid: Bool | None) -> pa.Array:
        words = _pick(self.chunks, slots, valid).view(np.uint64)
        match self.kind:
            case "double":
                return arrow_numpy.fixed_array(words.view(np.float64), pa.float64(), valid)
            case "float":
                return arrow_numpy.fixed_array(words.astype(np.uint32).view(np.float32), pa.float32(), valid)
        return arrow_numpy.boolean_array(words.astype(np.uint8) != 0, valid)


class _Bytes:
    def __init__(self, source: DecodedBlocks, type: pa.DataType) -> None:
        self.source = source
        self.type = type
        self.starts: list[I64] = []
        self.sizes: list[I64] = []

    def read(self, at: I64) -> None:
        size = self.source.length(at)
        self.starts.append(at.copy())
        self.sizes.append(size)
        at += size

    def finish(self, slots: I64, valid: Bool | None) -> pa.Array:
        if not self.starts:
            return pa.nulls(len(slots), self.type)
        present = slots if valid is None else slots[valid]
        starts = np.concatenate(self.starts)[present]
        sizes = np.concatenate(self.sizes)[present]
        out = arrow_numpy.gather_bytes(self.source.data, starts, sizes, self.type, valid)
        if self.type == pa.string():
            out.validate(full=True)
        return out


class _Record:
    def __init__(self, names: tuple[str, ...], fields: list[ValueReader], wanted: tuple[str, ...]) -> None:
        self.names = wanted
        self.fields = fields
        self.wanted = [field for name, field in zip(names, fields, strict=True) if name in wanted]

    def read(self, at: I64) -> None:
        for field in self.fields:
            field.read(at)

    def finish(self, slots: I64, valid: Bool | None) -> pa.Array:
        children = [f.finish(slots, valid) for f in self.wanted]
        type_ = pa.struct([pa.field(n, c.type) for n, c in zip(self.names, children, strict=True)])
        validity = arrow_numpy.validity_bitmap(valid)
        return pa.Array.from_buffers(type_, len(slots), [validity], children=children)


class _Nullable:
    """A union of null and one type."""

    def __init__(self, source: DecodedBlocks, null_branch: int, inner: ValueReader) -> None:
        self.source = source
        self.present = np.uint8(0 if null_branch else 2)
        self.inner = inner
        self.chunks: list[Bool] = []

    def read(self, at: I64) -> None:
        branch = self.source.bytes[at]
        at += 1
        least, most = branch.min(), branch.max()
        has = branch == self.present
        self.chunks.append(has)
        # Where all blocks agree, `at` moves on in place; else it is taken apart for the blocks with a value.
        if least == most and least in (0, 2):
            if has[0]:
                self.inner.read(at)
            return
        if (branch | 2).max() != 2:
            raise FormatError("a union has no such branch")
        some = at[has]
        self.inner.read(some)
        at[has] = some

    def finish(self, slots: I64, valid: Bool | None) -> pa.Array:
        has = _concat(self.chunks, np.dtype(np.bool_))
        # The inner reader was asked only for values that are there: its slot is the count of those before.
        number = np.cumsum(has, dtype=np.int64)
        number -= 1
        if valid is None:
            here = has[slots]
            inner_slots = number[slots]
        else:
            here = np.zeros(len(slots), np.bool_)
            here[valid] = has[slots[valid]]
            inner_slots = np.zeros(len(slots), np.int64)
            inner_slots[valid] = number[slots[valid]]
        return self.inner.finish(inner_slots, None if here.all() else here)


class _Array:
    def __init__(self, item: AvroType, source: DecodedBlocks) -> None:
        self.source = source
        self.item = reader_of(item, source)
        self.min_bytes = max(item.min_bytes, 1)
        self.stride = _one_byte_stride(item)
        self.counts: list[I64] = []
        self.parents: list[I64] = []
        self.slots = 0

    def read(self, at: I64) -> None:
        slots = np.arange(self.slots, self.slots + len(at), dtype=np.int64)
        self.slots += len(at)
        total = np.zeros(len(at), np.int64)
        self.counts.append(total)
        count = self._count(at)
        if not count.any():
            return
        if self.stride:
            self._read_short(at, slots, count, total)
        while count.any():
            self._read_block(at, slots, count, total)
            some = np.flatnonzero(count)
            places = at[some]
            count[some] = self._count(places)
            at[some] = places

    def _count(self, at: I64) -> I64:
        count = self.source.long(at, wide=False)
        negative = count < 0
        if negative.any():
            places = at[negative]
            self.source.long(places, wide=False)
            at[negative] = places
            count = np.abs(count)
        if (count.view(np.uint64) > np.uint64(len(self.source.data) // self.min_bytes)).any():
            raise FormatError("an array has more items than fit into its block")
        return count

    def _read_block(self, at: I64, slots: I64, count: I64, total: I64) -> None:
        total += count
        for i in range(int(count.max())):
            some = np.flatnonzero(count > i)
            places = at[some]
            self.item.read(places)
            self.parents.append(slots[some])
            at[some] = places

    def _read_short(self, at: I64, slots: I64, count: I64, total: I64) -> None:
        """Read whole arrays at once where blocks hold equally few one-byte numbers; sets their count to 0."""
        n = int(count.max())
        width = n * self.stride
        if n > _SHORT_ARRAY or int(at.max()) + width >= len(self.source.bytes):
            return
        matrix = self.source.bytes[at[:, None] + np.arange(width + 1)]
        values = matrix[:, self.stride - 1 : width : self.stride]
        fits = (values < 0x80).all(axis=1) & (matrix[:, width] == 0) & (count == n)
        if self.stride == 2:
            item = self.item
            assert isinstance(item, _Nullable)
            fits &= (matrix[:, 0:width:2] == item.present).all(axis=1)
        if not fits.any():
            return
        if not fits.all():
            values, slots = values[fits], slots[fits]
        at[fits] += width + 1
        total[fits] = n
        count[fits] = 0
        self.parents.append(np.repeat(slots, n))
        self._append_items(_ZIGZAG[values].ravel())

    def _append_items(self, numbers: I64) -> None:
        item = self.item
        if isinstance(item, _Nullable):
            item.chunks.append(np.ones(len(numbers), np.bool_))
            item = item.inner
        assert isinstance(item, _Integers)
        item.chunks.append(numbers)

    def finish(self, slots: I64, valid: Bool | None) -> pa.Array:
        all_counts = _concat(self.counts, np.dtype(np.int64))
        counts = _pick([all_counts], slots, valid)
        first = _pick([np.cumsum(all_counts) - all_counts], slots, valid)
        # Item slots by parent; a stable sort keeps each parent's items in order.
        by_parent = np.argsort(_concat(self.parents, np.dtype(np.int64)), kind="stable")
        items = self.item.finish(by_parent[arrow_numpy.ranges(first, counts)], None)
        offsets = arrow_numpy.offsets_of(counts)
        validity = arrow_numpy.validity_bitmap(valid)
        return pa.Array.from_buffers(
            pa.list_(items.type), len(slots), [validity, pa.py_buffer(offsets)], children=[items]
        )


def _one_byte_stride(item: AvroType) -> int:
    """Bytes an item takes when its number takes one; 0 when it is not a number."""
    if item.kind in ("int", "long"):
        return 1
    branch = item.null_branch
    return 2 if branch is not None and item.inner[1 - branch].kind in ("int", "long") else 0


def _concat(chunks: list[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.concatenate(chunks) if chunks else np.empty(0, dtype)


def _pick(chunks: list[Any], slots: I64, valid: Bool | None) -> npt.NDArray[Any]:
    """The values in `slots`, 0 where not valid."""
    if not chunks:
        return np.zeros(len(slots), np.int64)
    values = np.concatenate(chunks)
    if valid is None:
        return values[slots]
    out = np.zeros(len(slots), values.dtype)
    out[valid] = values[slots[valid]]
    return out
