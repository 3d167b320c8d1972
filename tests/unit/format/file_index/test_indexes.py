"""Indexes of data files: every kind of value comes back, and damaged bytes are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import FormatError
from paimon_spark.format import roaring
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.format.file_index.bitmap import BitmapBuilder
from paimon_spark.format.file_index.bloom_filter import BloomFilter, BloomFilterBuilder, hashes_of, xxh64
from paimon_spark.format.file_index.indexes import FileIndexes, IndexKind, read_head, write_container
from paimon_spark.format.file_index.keys import key_type, keys_of
from paimon_spark.format.file_index.range_bitmap import RangeBitmapBuilder
from paimon_spark.types import BIGINT, DOUBLE, INT, STRING, DataType, parse_type

VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "TINYINT": [-128, -1, 0, 5, 127, None],
    "SMALLINT": [-32768, -1, 0, 300, None],
    "INT": [-(2**31), -7, 0, 7, 2**31 - 1, None],
    "BIGINT": [-(2**63), -7, 0, 2**40, 2**63 - 1, None],
    "FLOAT": [-1.5, 0.0, 0.25, float("inf"), float("-inf"), None],
    "DOUBLE": [-1.5, 0.0, 0.1, 1e300, float("-inf"), None],
    "STRING": ["", "a", "ab", "ä" * 40, "z" * 300, "\ud7ff\ue000\U0001f600", None],
    "VARCHAR(10)": ["x", "y", None],
    "DATE": [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), None],
    "TIMESTAMP(3)": [datetime(1969, 12, 31, 23, 59, 59, 999_000), datetime(2024, 1, 1), None],
    "TIMESTAMP(6)": [datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2024, 1, 1, microsecond=1), None],
    "DECIMAL(18, 4)": [Decimal("-1.5"), Decimal(0), Decimal("99999999999999.9999"), None],
}

Builder = BloomFilterBuilder | BitmapBuilder | RangeBitmapBuilder


def built(kind: IndexKind, t: DataType, values: Sequence[Any], **settings: int) -> FileIndexes:
    """The index of one column `c`."""
    keys_type = key_type(t)
    assert keys_type is not None
    forms: dict[IndexKind, Callable[[], Builder]] = {
        IndexKind.BLOOM_FILTER: lambda: BloomFilterBuilder(keys_type, 100, 0.01),
        IndexKind.BITMAP: lambda: BitmapBuilder(keys_type, **settings),
        IndexKind.RANGE_BITMAP: lambda: RangeBitmapBuilder(keys_type, **settings),
    }
    builder = forms[kind]()
    keys = keys_of(pa.array(values, arrow_type(t)), keys_type)
    half = len(keys) // 2
    for part in (keys[:half], keys[half:]):
        builder.add(part)
    return FileIndexes.of_bytes(write_container({"c": {kind.value: builder.finish()}}), len(values))


def rows(mask: Any) -> list[int]:
    return np.flatnonzero(mask).tolist()


SETTINGS: list[tuple[IndexKind, dict[str, int]]] = [
    (IndexKind.BITMAP, {}),
    (IndexKind.BITMAP, {"version": 1}),
    (IndexKind.BITMAP, {"block_bytes": 40}),
    (IndexKind.RANGE_BITMAP, {}),
    (IndexKind.RANGE_BITMAP, {"chunk_bytes": 20}),
    (IndexKind.RANGE_BITMAP, {"chunk_bytes": 0}),
]


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
@pytest.mark.parametrize("name", VALUES)
def test_rows_of_a_value_are_found(name: str, kind: IndexKind, settings: dict[str, int]) -> None:
    values = [VALUES[name][i % len(VALUES[name])] for i in range(40)] + [VALUES[name][0], VALUES[name][-2]]
    column = built(kind, parse_type(name), values, **settings).column("c", parse_type(name))
    assert column is not None
    for value in VALUES[name][:-1]:
        assert rows(column.equal([value])) == [i for i, v in enumerate(values) if v == value]
        assert rows(column.not_equal([value])) == [i for i, v in enumerate(values) if v not in (None, value)]
        if kind is IndexKind.RANGE_BITMAP:
            below = [i for i, v in enumerate(values) if v is not None and v < value]
            at = [i for i, v in enumerate(values) if v == value]
            assert set(below) <= set(rows(column.between(None, value, high_in=False))) <= {*below, *at}
            assert rows(column.between(None, value)) == sorted({*below, *at})
            assert set(rows(column.between(value, None))) == {i for i, v in enumerate(values) if v is not None} - {
                *below
            }
    assert rows(column.is_null()) == [i for i, v in enumerate(values) if v is None]
    assert rows(column.is_not_null()) == [i for i, v in enumerate(values) if v is not None]


@given(st.lists(st.none() | st.integers(-5, 5), max_size=60), st.lists(st.integers(-7, 7), min_size=1, max_size=4))
def test_bitmaps_and_range_bitmaps_agree_with_the_values(values: list[int | None], wanted: list[int]) -> None:
    for kind in (IndexKind.BITMAP, IndexKind.RANGE_BITMAP):
        column = built(kind, INT, values).column("c", INT)
        assert column is not None
        assert rows(column.equal(wanted)) == [i for i, v in enumerate(values) if v in wanted]
        assert rows(column.not_equal(wanted)) == [i for i, v in enumerate(values) if v is not None and v not in wanted]


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=40))
def test_a_bloom_filter_never_misses_a_value(values: list[bytes]) -> None:
    t = parse_type("VARBINARY(100)")
    column = built(IndexKind.BLOOM_FILTER, t, values).column("c", t)
    assert column is not None
    assert all(column.equal([v]) is None for v in values)


@pytest.mark.parametrize("name", [n for n in VALUES if n not in ("BOOLEAN", "DECIMAL(18, 4)")])
def test_a_bloom_filter_knows_absent_values_of_every_type(name: str) -> None:
    t = parse_type(name)
    values = VALUES[name]
    keys_type = key_type(t)
    assert keys_type is not None
    column = built(IndexKind.BLOOM_FILTER, t, values[:1]).column("c", t)
    assert column is not None
    assert column.equal(values[:1]) is None
    found = column.equal(values[1:2])
    assert found is not None and rows(found) == []


def test_a_bloom_filter_rules_out_as_many_values_as_it_promises() -> None:
    t = key_type(BIGINT)
    assert t is not None
    builder = BloomFilterBuilder(t, 10_000, 0.05)
    builder.add(pa.array(range(10_000), pa.int64()))
    bloom = BloomFilter(builder.finish())
    absent = sum(bloom.may_contain(hashes_of(pa.array([i], pa.int64()), t)) for i in range(20_000, 22_000))
    assert absent < 2000 * 0.1


def test_hashes_of_text_are_those_of_the_specification() -> None:
    texts = [b"", b"a", b"abc", b"Nobody inspects the spammish repetition"]
    known = [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0x44BC2CF5AD770999, 0xFBCEA83C8A378BF1]
    assert xxh64(pa.array(texts, pa.binary())).tolist() == known
    assert xxh64(pa.array(texts[::-1], pa.binary()).slice(1)).tolist() == known[::-1][1:]


def test_zeros_and_nan_are_never_ruled_out_wrongly() -> None:
    values = [0.0, -0.0, float("nan"), 1.0, -1.0, None]
    for kind in IndexKind:
        column = built(kind, DOUBLE, values).column("c", DOUBLE)
        assert column is not None
        assert column.equal([float("nan")]) is None
        for zero in (0.0, -0.0):
            found = column.equal([zero])
            assert found is None or rows(found) == [0, 1]
    column = built(IndexKind.RANGE_BITMAP, DOUBLE, values).column("c", DOUBLE)
    assert column is not None
    for zero in (0.0, -0.0):
        assert rows(column.between(zero, None)) == [0, 1, 2, 3]
        assert rows(column.between(None, zero)) == [0, 1, 4]
        assert {2, 3} <= set(rows(column.between(zero, None, low_in=False)))
        assert {4} <= set(rows(column.between(None, zero, high_in=False)))
        assert rows(column.not_equal([zero])) == [2, 3, 4]
    assert rows(column.between(0.5, None)) == [2, 3]


def test_values_that_share_a_key_are_kept() -> None:
    t = parse_type("TIMESTAMP(9)")
    values = pa.array([1_000_000_001, 1_000_000_002], pa.timestamp("ns"))
    keys_type = key_type(t)
    assert keys_type is not None
    builder = BitmapBuilder(keys_type)
    builder.add(keys_of(values, keys_type))
    indexes = FileIndexes.of_bytes(write_container({"c": {"bitmap": builder.finish()}}), 2)
    column = indexes.column("c", t)
    assert column is not None
    same = datetime(1970, 1, 1, 0, 0, 1)
    assert rows(column.equal([same])) == [0, 1]
    assert column.not_equal([same]) is None


def test_values_that_the_type_lacks_decide_nothing() -> None:
    column = built(IndexKind.BITMAP, INT, [1, 2]).column("c", INT)
    assert column is not None
    assert column.equal(["x"]) is None
    assert column.equal([2**40]) is None
    millis = parse_type("TIMESTAMP(3)")
    of_millis = built(IndexKind.RANGE_BITMAP, millis, [datetime(2024, 1, 1)]).column("c", millis)
    assert of_millis is not None
    assert of_millis.between(None, datetime(2024, 1, 1) + timedelta(microseconds=1), high_in=False) is None
    single = parse_type("FLOAT")
    of_float = built(IndexKind.BITMAP, single, [0.5]).column("c", single)
    assert of_float is not None
    assert of_float.equal([0.1]) is None


def test_padded_text_and_unknown_kinds_have_no_index() -> None:
    indexes = built(IndexKind.BITMAP, STRING, ["a"])
    assert indexes.column("c", parse_type("CHAR(3)")) is None
    assert indexes.column("other", STRING) is None
    assert FileIndexes.of_bytes(write_container({"c": {"bsi": b"x"}}), 1).column("c", INT) is None


def test_a_file_without_rows_has_indexes() -> None:
    for kind in (IndexKind.BITMAP, IndexKind.RANGE_BITMAP):
        column = built(kind, INT, []).column("c", INT)
        assert column is not None
        assert rows(column.equal([1])) == rows(column.is_null()) == []


def test_the_head_names_columns_as_java_writes_them() -> None:
    names = ["c", "käse", "\U0001f600", "zero\0", "m[key]"]
    data = write_container({n: {"bitmap": n.encode(), "bsi": None} for n in names})
    found = read_head(data)
    assert list(found) == names
    assert {n: data[p["bitmap"].start :][: p["bitmap"].length] for n, p in found.items()} == {
        n: n.encode() for n in names
    }
    assert b"\xc0\x80" in data and b"\xed\xa0\xbd\xed\xb8\x80" in data


@pytest.mark.parametrize("kind", IndexKind)
def test_damaged_bytes_are_refused(kind: IndexKind) -> None:
    data = write_container({"c": {kind.value: _bytes_of(kind)}})
    with pytest.raises(FormatError):
        FileIndexes.of_bytes(b"\0" * len(data), 9)
    with pytest.raises(FormatError):
        FileIndexes.of_bytes(data[:20], 9)
    for cut in range(len(data) - 1, 60, -1):
        try:
            column = FileIndexes.of_bytes(data[:cut], 9).column("c", INT)
            assert column is not None
            with pytest.raises(FormatError):
                column.equal([3])
        except FormatError:
            pass


def _bytes_of(kind: IndexKind) -> bytes:
    t = key_type(INT)
    assert t is not None
    forms: dict[IndexKind, Callable[[], Builder]] = {
        IndexKind.BLOOM_FILTER: lambda: BloomFilterBuilder(t, 10),
        IndexKind.BITMAP: lambda: BitmapBuilder(t),
        IndexKind.RANGE_BITMAP: lambda: RangeBitmapBuilder(t),
    }
    builder = forms[kind]()
    builder.add(pa.array([3, 3, 4, 4, 5, None, None, 3, 6], pa.int32()))
    return builder.finish()


@given(st.sampled_from(list(IndexKind)), st.booleans(), st.data())
def test_changed_bytes_are_refused_or_read(kind: IndexKind, is_text: bool, data: st.DataObject) -> None:
    t, values = (STRING, ["a", "b", None, "a", "long text"]) if is_text else (INT, [1, 2, None, 1, 70_000])
    version = data.draw(st.sampled_from([1, 2]))
    settings = {"version": version} if kind is IndexKind.BITMAP else {}
    key = key_type(t)
    assert key is not None
    forms: dict[IndexKind, Callable[[], Builder]] = {
        IndexKind.BLOOM_FILTER: lambda: BloomFilterBuilder(key, 10),
        IndexKind.BITMAP: lambda: BitmapBuilder(key, **settings),
        IndexKind.RANGE_BITMAP: lambda: RangeBitmapBuilder(key),
    }
    builder = forms[kind]()
    builder.add(keys_of(pa.array(values, arrow_type(t)), key))
    changed = bytearray(builder.finish())
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        column = FileIndexes.of_bytes(write_container({"c": {kind.value: bytes(changed)}}), 5).column("c", t)
        assert column is not None
        for found in (column.equal(values[:1]), column.between(values[1], None), column.is_null()):
            assert found is None or len(found) == 5
    except FormatError:
        pass


@pytest.mark.parametrize("kind", [IndexKind.BITMAP, IndexKind.RANGE_BITMAP])
def test_an_index_of_another_number_of_rows_is_refused(kind: IndexKind) -> None:
    column = FileIndexes.of_bytes(write_container({"c": {kind.value: _bytes_of(kind)}}), 8).column("c", INT)
    assert column is not None
    with pytest.raises(FormatError, match="9 rows, and the data file has 8"):
        column.equal([3])


@pytest.mark.parametrize("kind", [IndexKind.BITMAP, IndexKind.RANGE_BITMAP])
def test_newer_versions_are_refused(kind: IndexKind) -> None:
    data = bytearray(_bytes_of(kind))
    data[0 if kind is IndexKind.BITMAP else 4] = 9
    column = FileIndexes.of_bytes(write_container({"c": {kind.value: bytes(data)}}), 9).column("c", INT)
    assert column is not None
    with pytest.raises(FormatError, match="version 9"):
        column.equal([3])


def test_heads_of_other_files_are_refused() -> None:
    data = write_container({"c": {"bitmap": b"x"}})
    with pytest.raises(FormatError, match="no file index"):
        read_head(b"PAR1" + data[4:])
    with pytest.raises(FormatError, match="version 2"):
        read_head(data[:8] + struct.pack(">i", 2) + data[12:])


@given(st.lists(st.sets(st.integers(0, 200_000), min_size=1, max_size=30), max_size=5), st.booleans())
def test_bitmaps_are_encoded_together_as_alone(sets: list[set[int]], dense: bool) -> None:
    if dense:
        sets = [*sets, set(range(70_000))]
    numbers = [sorted(s) for s in sets]
    flat = np.array([n for part in numbers for n in part], np.int64)
    starts = np.cumsum([0, *(len(n) for n in numbers)])[:-1].astype(np.int64)
    data, bounds = roaring.encode_each(flat, starts)
    assert len(bounds) == len(sets) + 1
    for part, start, end in zip(numbers, bounds[:-1], bounds[1:], strict=True):
        assert np.flatnonzero(roaring.decode_mask(data[start:end], 200_001)).tolist() == part


def test_a_mask_has_no_number_beyond_its_size() -> None:
    data = roaring.encode(np.array([1, 70_000]))
    assert np.flatnonzero(roaring.decode_mask(data, 70_001)).tolist() == [1, 70_000]
    for size in (70_000, 65_536, 2):
        with pytest.raises(FormatError):
            roaring.decode_mask(data, size)
