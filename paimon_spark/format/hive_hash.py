"""Hive's hash of keys, for `bucket-function.type = hive`.

Source: Java `bucket/HiveBucketFunction`, `bucket/HiveHasher`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy

I32 = npt.NDArray[np.int32]

_EXACT: Final = Context(prec=100)
_FLOAT_NAN: Final = np.int32(0x7FC00000)
_DOUBLE_NAN: Final = np.int64(0x7FF8000000000000)


def hive_hashes(columns: Sequence[pa.Array]) -> I32:
    """The hash of every row: 31 times that of the columns before, plus the column's own; null counts 0.

    Raises:
        UnsupportedFeatureError: a column of a type Hive's function does not take, such as timestamps.
    """
    h: I32 = np.zeros(len(columns[0]), np.int32)
    for column in columns:
        own = np.where(arrow_numpy.validity(column), _hashes(column), np.int32(0))
        h = h * np.int32(31) + own
    return h


def _hashes(column: pa.Array) -> Any:
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
    return _wrap(31 * _integer_hash(-unscaled if sign else unscaled) + scale)


def _integer_hash(value: int) -> int:
    """Java's BigInteger.hashCode."""
    magnitude, h = abs(value), 0
    for shift in reversed(range(0, magnitude.bit_length(), 32)):
        h = (31 * h + (magnitude >> shift & 0xFFFFFFFF)) & 0xFFFFFFFF
    return _wrap(-h if value < 0 else h)


def _wrap(value: int) -> int:
    return (value + 0x80000000) % 0x100000000 - 0x80000000
