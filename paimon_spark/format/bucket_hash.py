"""Hash functions that assign keys to buckets, for whole columns.

The default function hashes the BinaryRow of the key. The row is never built: its 32-bit words are mixed into the
hashes of all rows at once, column by column.

Source: Java `bucket/DefaultBucketFunction`, `bucket/ModBucketFunction`, `bucket/HiveBucketFunction`,
`bucket/HiveHasher`, `utils/MurmurHashUtils`, `data/BinaryRowWriter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.binary_row import COMPACT_DECIMAL_DIGITS, HEADER_BITS, INLINE_BYTES, null_bits_bytes
from paimon_spark.options.core import BucketFunction

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Bool = npt.NDArray[np.bool_]

_SEED: Final = 42
_CHUNK_ROWS: Final = 32768
"""Rows hashed at a time: what they need between two steps stays in the processor's cache."""

_DECIMAL_BYTES: Final = 16
_U32: Final = np.dtype("<u4")
_C1: Final = np.uint32(0xCC9E2D51)
_C2: Final = np.uint32(0x1B873593)


def buckets(keys: pa.RecordBatch | pa.Table, count: int, function: BucketFunction) -> I32:
    """The bucket of every row of bucket key columns, in bucket key order and canonical Arrow types.

    Raises UnsupportedFeatureError where the function takes no keys of their types.
    """
    if function is BucketFunction.MOD:
        return _modulo(keys, count)
    if function is BucketFunction.HIVE:
        return (hive_hashes(_columns(keys)) & np.int32(0x7FFFFFFF)) % np.int32(count)
    # The remainder of Java has the sign of the dividend.
    return np.abs(np.fmod(hashes(keys), np.int32(count)))


def hashes(keys: pa.RecordBatch | pa.Table) -> I32:
    """The hash of the BinaryRow of every row: what default buckets and HASH index files are made from.

    Raises UnsupportedFeatureError for a column of a nested type.
    """
    columns = _columns(keys)
    out = np.empty(keys.num_rows, np.int32)
    for start in range(0, keys.num_rows, _CHUNK_ROWS):
        chunk = [c.slice(start, _CHUNK_ROWS) for c in columns]
        out[start : start + _CHUNK_ROWS] = _hash_chunk(chunk)
    return out


def _columns(keys: pa.RecordBatch | pa.Table) -> list[pa.Array]:
    columns = map(arrow_numpy.one_chunk, keys.columns)
    return [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]


def _modulo(keys: pa.RecordBatch | pa.Table, count: int) -> I32:
    columns = _columns(keys)
    if len(columns) != 1 or columns[0].type not in (pa.int32(), pa.int64()):
        raise UnsupportedFeatureError(
            "bucket-function.type = mod takes one bucket key of type INT or BIGINT, and this table has "
            + ", ".join(str(c.type) for c in columns),
            feature="bucket-function.type mod",
        )
    key = np.where(arrow_numpy.validity(columns[0]), arrow_numpy.values(columns[0]), 0)
    return (key % count).astype(np.int32)


class _Field(NamedTuple):
    """One column of a row.

    Attributes:
        low, high: the slot's words, without the offset of a value outside it.
        tail: the value's words outside the slot, or None.
        pointed: rows whose slot points at the variable part.
    """

    low: U32
    high: U32
    tail: _Tail | None = None
    pointed: Bool | None = None


class _Tail(NamedTuple):
    """Values in the variable part: 8-byte words, each row `counts` of them from `starts` (in words or bytes).

    Attributes:
        words: words that can be indexed by byte place, or a matrix with one row per row.
        last_mask: what of a row's last word belongs to it.
    """

    words: U64
    counts: I64 | int
    starts: I64 | None = None
    last_mask: U64 | None = None


def _hash_chunk(columns: Sequence[pa.Array]) -> I32:
    rows = len(columns[0]) if columns else 0
    fields = [_field(c) for c in columns]
    h = np.full(rows, _SEED, np.uint32)
    for word in _header(columns, rows):
        _mix(h, word)
    size: Any = null_bits_bytes(len(columns)) + 8 * len(columns)
    for f in fields:
        _mix(h, f.low)
        if f.tail is None:
            _mix(h, f.high)
            continue
        offset = np.broadcast_to(np.asarray(size, np.uint32), (rows,))
        _mix(h, offset if f.pointed is None else np.where(f.pointed, offset, f.high))
        size = size + 8 * f.tail.counts
    for f in fields:
        if f.tail is not None:
            _mix_tail(h, f.tail)
    h ^= np.asarray(size, np.uint32)
    return _finish(h)


def _header(columns: Sequence[pa.Array], rows: int) -> list[U32]:
    """Row kind (always +I) and null bits."""
    bits = np.zeros((rows, null_bits_bytes(len(columns)) // 4), _U32)
    for i, column in enumerate(columns):
        if column.null_count:
            bit = i + HEADER_BITS
            bits[:, bit // 32] |= (~arrow_numpy.validity(column)).astype(np.uint32) << np.uint32(bit % 32)
    return [bits[:, i] for i in range(bits.shape[1])]


def _mix(h: U32, word: U32) -> None:
    k = word * _C1
    k = (k << np.uint32(15)) | (k >> np.uint32(17))
    k *= _C2
    h ^= k
    np.bitwise_or(h << np.uint32(13), h >> np.uint32(19), out=h)
    h *= np.uint32(5)
    h += np.uint32(0xE6546B64)


def _finish(h: U32) -> I32:
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h.view(np.int32)


def _mix_tail(h: U32, tail: _Tail) -> None:
    if isinstance(tail.counts, int):
        for i in range(tail.counts):
            _mix_long(h, tail.words[:, i])
        return
    assert tail.starts is not None
    assert tail.last_mask is not None
    for i in range(int(tail.counts.max(initial=0))):
        here = np.flatnonzero(tail.counts > i)
        word = tail.words[tail.starts[here] + 8 * i]
        word &= np.where(tail.counts[here] == i + 1, tail.last_mask[here], np.uint64(0xFFFFFFFFFFFFFFFF))
        if len(here) == len(h):
            _mix_long(h, word)
        else:
            some = h[here]
            _mix_long(some, word)
            h[here] = some


def _mix_long(h: U32, word: U64) -> None:
    halves = np.ascontiguousarray(word).view(_U32)
    _mix(h, halves[0::2])
    _mix(h, halves[1::2])


def _field(column: pa.Array) -> _Field:
    t = column.type
    if pa.types.is_decimal128(t):
        return _decimals(column)
    if pa.types.is_timestamp(t):
        return _timestamps(column)
    if pa.types.is_string(t) or pa.types.is_binary(t) or pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        return _bytes(column)
    if not (pa.types.is_primitive(t)):
        raise UnsupportedFeatureError(
            f"rows cannot be put into buckets by a column of type {t}", feature=f"bucket key {t}"
        )
    values = np.ascontiguousarray(arrow_numpy.values(column))
    if values.dtype.itemsize == 8:
        return _long(values.view(np.uint64), column)
    raw = values.view(f"u{values.dtype.itemsize}").astype(np.uint32)
    return _Field(_zero_nulls(raw, column), np.zeros(len(column), np.uint32))


def _long(words: U64, column: pa.Array) -> _Field:
    halves = np.ascontiguousarray(_zero_nulls(words, column)).view(_U32)
    return _Field(halves[0::2], halves[1::2])


def _zero_nulls(values: npt.NDArray[Any], column: pa.Array) -> npt.NDArray[Any]:
    return np.where(arrow_numpy.validity(column), values, values.dtype.type(0)) if column.null_count else values


def _timestamps(column: pa.Array) -> _Field:
    if column.type.unit == "ms":
        return _long(arrow_numpy.values(column).view(np.uint64), column)
    millis, rest = (_zero_nulls(part, column) for part in arrow_numpy.millis_and_nanos(column))
    nanos = rest.astype(np.uint32)
    return _Field(nanos, nanos, _Tail(millis.view(np.uint64).reshape(-1, 1), 1))


def _decimals(column: pa.Array) -> _Field:
    raw = np.frombuffer(column.buffers()[1], "<u8", 2 * len(column), 16 * column.offset).reshape(-1, 2)
    if column.type.precision <= COMPACT_DECIMAL_DIGITS:
        return _long(raw[:, 0], column)
    valid = arrow_numpy.validity(column)
    data, size = _big_endian(np.where(valid[:, None], raw, np.uint64(0)))
    size[~valid] = 0
    return _Field(size.astype(np.uint32), np.zeros(len(size), np.uint32), _Tail(data, 2))


def _big_endian(raw: U64) -> tuple[U64, I64]:
    """Shortest big-endian two's complement of 16-byte numbers: bytes from the left, zeros behind; and how many."""
    low, high = np.ascontiguousarray(raw[:, 0]), raw[:, 1].view(np.int64)
    sign = low.view(np.int64) >> 63
    magnitude = low ^ sign.view(np.uint64)
    size = np.ones(len(low), np.int64)
    for more in range(1, 8):
        size += magnitude >= np.uint64(1 << 8 * more - 1)
    out = np.zeros((len(low), 2), np.uint64)
    out[:, 0] = (low << (64 - 8 * size).view(np.uint64)).byteswap()
    wide = np.flatnonzero(high != sign)
    if len(wide):
        out[wide], size[wide] = _wide_big_endian(raw[wide])
    return out, size


def _wide_big_endian(raw: U64) -> tuple[U64, I64]:
    """`_big_endian` of numbers that need more than 8 bytes."""
    low, high = raw[:, 0], raw[:, 1]
    magnitude = high ^ (high.view(np.int64) >> 63).view(np.uint64)
    size = np.full(len(low), 9, np.int64)
    for more in range(1, 8):
        size += magnitude >= np.uint64(1 << 8 * more - 1)
    shift = (8 * (_DECIMAL_BYTES - size)).view(np.uint64)
    out = np.empty((len(low), 2), np.uint64)
    out[:, 0] = (high << shift | low >> np.uint64(1) >> (np.uint64(63) - shift)).byteswap()
    out[:, 1] = (low << shift).byteswap()
    return out, size


def _bytes(column: pa.Array) -> _Field:
    offsets, data = arrow_numpy.byte_slices(column)
    base = int(offsets[0])
    padded = np.zeros(int(offsets[-1]) - base + 8, np.uint8)
    padded[:-8] = data[base : int(offsets[-1])]
    words: U64 = np.ndarray((len(padded) - 7,), np.dtype("<u8"), buffer=padded, strides=(1,))
    starts = offsets[:-1] - base
    size = np.where(arrow_numpy.validity(column), np.diff(offsets), 0)
    pointed = size > INLINE_BYTES
    inline = words[starts] & _mask(size)
    inline |= (size.astype(np.uint64) | np.uint64(0x80)) << np.uint64(56)
    slot = np.where(pointed, size.astype(np.uint64), _zero_nulls(inline, column))
    halves = slot.view(_U32)
    counts = np.where(pointed, (size + 7) // 8, 0)
    tail = _Tail(words, counts, starts, _mask((size - 1) % 8 + 1))
    return _Field(halves[0::2], halves[1::2], tail, pointed)


_MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)


def _mask(sizes: I64) -> U64:
    """Words whose low `sizes` bytes are ones; more than 8 count as 8."""
    return _MASKS[np.clip(sizes, 0, 8)]


_EXACT: Final = Context(prec=100)
_FLOAT_NAN: Final = np.int32(0x7FC00000)
_DOUBLE_NAN: Final = np.int64(0x7FF8000000000000)


def hive_hashes(columns: Sequence[pa.Array]) -> I32:
    """The hash of every row: 31 times that of the columns before, plus the column's own; null counts 0.

    Raises UnsupportedFeatureError for types that Hive's function does not take, such as timestamps.
    """
    h: I32 = np.zeros(len(columns[0]), np.int32)
    for column in columns:
        own = np.where(arrow_numpy.validity(column), _hive_column(column), np.int32(0))
        h = h * np.int32(31) + own
    return h


def _hive_column(column: pa.Array) -> Any:
    t = column.type
    if pa.types.is_decimal(t):
        return np.array([0 if v is None else decimal_hash(v) for v in column.to_pylist()], np.int32)
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return _byte_hashes(column)
    if not pa.types.is_primitive(t) or pa.types.is_timestamp(t):
        raise UnsupportedFeatureError(
            f"bucket-function.type = hive takes no bucket key of type {t}", feature="bucket-function.type hive"
        )
    values = arrow_numpy.values(column)
    if values.dtype.kind == "f":
        values = _float_bits(values)
    if values.dtype.itemsize == 8:
        return (values ^ (values.view(np.uint64) >> np.uint64(32)).view(np.int64)).astype(np.int32)
    return values.astype(np.int32)


def _float_bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """IEEE bits as Java's floatToIntBits gives them, both zeros as 0."""
    double = values.dtype.itemsize == 8
    raw = np.where(values == 0, values.dtype.type(0), values).view(np.int64 if double else np.int32)
    return np.where(np.isnan(values), _DOUBLE_NAN if double else _FLOAT_NAN, raw)


def _byte_hashes(column: pa.Array) -> I32:
    offsets, data = arrow_numpy.byte_slices(column)
    signed = data.view(np.int8)
    size = np.diff(offsets)
    h: I32 = np.zeros(len(column), np.int32)
    for i in range(int(size.max(initial=0))):
        here = np.flatnonzero(size > i)
        h[here] = h[here] * np.int32(31) + signed[offsets[here] + i]
    return h


def decimal_hash(value: Decimal) -> int:
    """Java's BigDecimal.hashCode of the value as Hive normalises it: no trailing zeros, at most 38 digits."""
    normal = value.normalize(_EXACT)
    if not normal:
        return 0
    sign, digits, exponent = normal.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)))
    scale = -exponent
    if scale < 0:
        unscaled, scale = unscaled * 10**-scale, 0
    return _wrapped_int(31 * _integer_hash(-unscaled if sign else unscaled) + scale)


def _integer_hash(value: int) -> int:
    """Java's BigInteger.hashCode."""
    magnitude, h = abs(value), 0
    for shift in reversed(range(0, magnitude.bit_length(), 32)):
        h = (31 * h + (magnitude >> shift & 0xFFFFFFFF)) & 0xFFFFFFFF
    return _wrapped_int(-h if value < 0 else h)


def _wrapped_int(value: int) -> int:
    return (value + 0x80000000) % 0x100000000 - 0x80000000
