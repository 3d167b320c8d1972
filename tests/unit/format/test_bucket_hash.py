"""Hashes and buckets against Java's."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.bucket_hash import buckets, decimal_hash, hashes
from paimon_spark.options.core import BucketFunction
from paimon_spark.types import DataType, TimestampType, parse_type
from tests.harness.java_vectors import JavaVectors, java_vectors, keeps_room_for_null

VECTORS = java_vectors()
by_types = pytest.mark.parametrize("vectors", VECTORS, ids=lambda v: v.name)


def key_batch(rows: list[tuple[Any, ...]], types: list[DataType]) -> pa.RecordBatch:
    columns = [column([r[i] for r in rows], t) for i, t in enumerate(types)]
    return pa.RecordBatch.from_arrays(columns, names=[f"k{i}" for i in range(len(types))])


def column(values: list[Any], t: DataType) -> pa.Array:
    """An Arrow array of values as `binary_row.encode` takes them."""
    target = arrow_type(t)
    if isinstance(t, TimestampType):
        per_milli = {"ms": 1, "us": 1000, "ns": 10**6}[target.unit]
        numbers = [None if v is None else v[0] * per_milli + v[1] * per_milli // 10**6 for v in values]
        return pa.array(numbers, pa.int64()).cast(target)
    if pa.types.is_time(target):
        return pa.array(values, pa.int32()).cast(target)
    return pa.array(values, target)


def reference(row: bytes) -> int:
    """Murmur3 over the words of a row, one at a time."""
    h, mask = 42, 0xFFFFFFFF
    for i in range(0, len(row), 4):
        k = int.from_bytes(row[i : i + 4], "little") * 0xCC9E2D51 & mask
        k = ((k << 15 | k >> 17) & mask) * 0x1B873593 & mask
        h = h ^ k
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= len(row)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


@by_types
def test_hashes_and_buckets_are_javas(vectors: JavaVectors) -> None:
    kept = [i for i, v in enumerate(vectors.values) if not keeps_room_for_null(v, vectors.types)]
    batch = key_batch([vectors.values[i] for i in kept], vectors.types)
    assert hashes(batch).tolist() == [vectors.hashes[i] for i in kept]
    found = buckets(batch, vectors.bucket_count, BucketFunction.DEFAULT)
    assert found.tolist() == [vectors.buckets[i] for i in kept]


@pytest.mark.parametrize(
    ("types", "values", "expected"),
    [
        (["INT"], (2147483647,), -1125657321),
        (["INT"], (None,), -1748325344),
        (["STRING"], ("paimon!",), 1379221098),
        (["STRING"], ("paimon!!",), -698222366),
        (["STRING"], ("hello paimon world",), 314798453),
        (["STRING"], ("数据湖",), -375481636),
        (["DECIMAL(10, 2)"], (Decimal("-1.00"),), 861196646),
        (["DECIMAL(38, 2)"], (Decimal("123.45"),), -118192725),
        (["DECIMAL(38, 0)"], (Decimal(10**20),), 1789435073),
        (["DECIMAL(38, 2)"], (Decimal("-5.00"),), 1902122568),
        (["DECIMAL(38, 2)"], (None,), -1380280760),
        (["TIMESTAMP(6)"], ((1704164645678, 901000),), 828821739),
        (["TIMESTAMP(6)"], ((-1, 999000),), 1236894319),
        (["TIMESTAMP(6)"], (None,), -340882661),
        (["BYTES"], (bytes(range(1, 9)),), -703675362),
        (["INT", "STRING"], (None, "longer than seven"), 1201372104),
        (["BIGINT", "STRING", "INT"], (7, "longer than seven", 3), -1815408199),
    ],
)
def test_vectors_of_the_format_reference(types: list[str], values: tuple[Any, ...], expected: int) -> None:
    parsed = [parse_type(t) for t in types]
    assert hashes(key_batch([values], parsed)).tolist() == [expected]
    assert reference(binary_row.encode(values, parsed)[4:]) == expected


KEYS = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "STRING": st.text(max_size=30),
    "DECIMAL(38, 3)": (
        st.integers(-(10**38) + 1, 10**38 - 1)
        | st.builds(
            lambda sign, bits, more: sign * 2**bits + more,
            st.sampled_from([1, -1]),
            st.integers(0, 125),
            st.integers(-1, 1),
        )
    ).map(lambda n: binary_row.decimal_of(n, 3)),
    "TIMESTAMP(9)": st.tuples(st.integers(-(2**42), 2**42), st.integers(0, 999_999)),
    "BOOLEAN": st.booleans(),
    "BYTES": st.binary(max_size=30),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
}


@given(st.data(), st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=60))
def test_columns_hash_as_their_rows_do(data: st.DataObject, names: list[str]) -> None:
    types = [parse_type(n) for n in names]
    row = st.tuples(*(st.none() | KEYS[n] for n in names))
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    expected = [reference(binary_row.encode(r, types)[4:]) for r in rows]
    batch = key_batch(rows, types)
    assert hashes(batch).tolist() == expected
    assert hashes(batch.slice(1)).tolist() == expected[1:]
    assert hashes(pa.Table.from_batches([batch, batch])).tolist() == 2 * expected


def test_chunks_hash_as_one() -> None:
    keys = pa.table({"k": pa.array([f"key number {i}" for i in range(70_000)])})
    whole = hashes(keys)
    assert whole[65_000:].tolist() == hashes(keys.slice(65_000)).tolist()
    assert len(np.unique(whole)) > 69_900


def test_dictionary_columns_hash_as_their_values() -> None:
    plain = pa.array(["a", None, "a long enough text", "a"])
    assert hashes(pa.table({"k": plain.dictionary_encode()})).tolist() == hashes(pa.table({"k": plain})).tolist()


def test_mod_buckets_are_never_negative() -> None:
    for type_ in (pa.int32(), pa.int64()):
        keys = pa.table({"k": pa.array([17, -3, 5, None], type_)})
        assert buckets(keys, 5, BucketFunction.MOD).tolist() == [2, 2, 0, 0]


@pytest.mark.parametrize("columns", [{"k": ["a"]}, {"a": [1], "b": [2]}, {"k": [1.5]}])
def test_mod_takes_one_integer_key(columns: dict[str, list[Any]]) -> None:
    with pytest.raises(UnsupportedFeatureError, match="mod"):
        buckets(pa.table(columns), 5, BucketFunction.MOD)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([-1, None], pa.int32()), [647, 0]),
        (pa.array([-1, 1234567890123], pa.int64()), [0, 436]),
        (pa.array(["paimon", "数据湖", ""]), [156, 869, 0]),
        (pa.array([-0.0, 0.0, 1.0], pa.float64()), [0, 0, 1072693248 % 1000]),
        (pa.array([-0.0, 1.0], pa.float32()), [0, 1065353216 % 1000]),
        (pa.array([True, False]), [1, 0]),
    ],
)
def test_hive_buckets(array: pa.Array, expected: list[int]) -> None:
    assert buckets(pa.table({"k": array}), 1000, BucketFunction.HIVE).tolist() == expected


def test_hive_combines_columns() -> None:
    keys = pa.table({"a": pa.array([1], pa.int32()), "b": ["a"]})
    assert buckets(keys, 1 << 20, BucketFunction.HIVE).tolist() == [128]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Java: new BigDecimal(...).stripTrailingZeros() (scale at least 0) .hashCode()
        (Decimal("0.00"), 0),
        (Decimal("1.10"), 31 * 11 + 1),
        (Decimal("-1.1"), -31 * 11 + 1),
        (Decimal(100), 3100),
        (Decimal(2**32), 31 * 31),
    ],
)
def test_hive_decimals_hash_as_big_decimals(value: Decimal, expected: int) -> None:
    assert decimal_hash(value) == expected


def test_hive_takes_no_timestamps() -> None:
    with pytest.raises(UnsupportedFeatureError, match="hive"):
        buckets(pa.table({"k": pa.array([datetime(2024, 1, 1)])}), 4, BucketFunction.HIVE)


def test_nested_keys_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="list"):
        hashes(pa.table({"k": [[1]]}))
