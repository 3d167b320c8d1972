"""Rows in canonical form, and the comparison of two sets of them."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.harness.rows import assert_same_rows, canonical, difference, rows_of, to_microseconds, without_kind


def one(values: list[Any], kind: pa.DataType) -> list[Any]:
    return [row["c"] for row in rows_of(pa.table({"c": pa.array(values, kind)}))]


@pytest.mark.parametrize(
    ("kind", "value", "form"),
    [
        (pa.bool_(), True, True),
        (pa.int64(), -(2**63), -(2**63)),
        (pa.float32(), -0.1, -0.10000000149011612),
        (pa.float64(), float("nan"), "NaN"),
        (pa.float64(), float("-inf"), "-Infinity"),
        (pa.decimal128(10, 3), decimal.Decimal("0.000"), "0.000"),
        (pa.decimal128(38, 18), decimal.Decimal("0.000000000000000001"), "0.000000000000000001"),
        (pa.string(), "日本", "日本"),
        (pa.binary(), b"\x00\xff", "00ff"),
        (pa.binary(2), b"\x00\xff", "00ff"),
        (pa.date32(), dt.date(1969, 12, 31), "1969-12-31"),
        (pa.time32("ms"), dt.time(23, 59, 59, 999000), "23:59:59.999"),
        (pa.time64("ns"), dt.time(1, 2, 3, 4000), "01:02:03.004"),
        (pa.timestamp("ns"), -1, "1969-12-31T23:59:59.999999999"),
        (pa.timestamp("us", "America/New_York"), 1, "1970-01-01T00:00:00.000001000Z"),
        (pa.timestamp("ms"), -62135596799999, "0001-01-01T00:00:00.001000000"),
        (pa.timestamp("ms"), 253402300799999, "9999-12-31T23:59:59.999000000"),
        (pa.list_(pa.int32()), [1, None], [1, None]),
        (pa.list_(pa.int32(), 2), [1, None], [1, None]),
        (pa.map_(pa.string(), pa.list_(pa.int32())), [("b", [1]), ("a", None)], [["a", None], ["b", [1]]]),
        (pa.struct([("x", pa.binary())]), {"x": b"\x01"}, {"x": "01"}),
        (pa.dictionary(pa.int8(), pa.string()), "d", "d"),
    ],
    ids=str,
)
def test_every_arrow_type_has_one_form_and_null_is_null(kind: pa.DataType, value: object, form: object) -> None:
    assert one([value, None, value], kind) == [form, None, form]


def test_slices_of_nested_columns_keep_their_own_values() -> None:
    kind = pa.struct([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.int32(), pa.int32()))])
    values = [{"l": [i] * i, "m": [(i, i)]} for i in range(5)]
    table = pa.table({"c": pa.array(values, kind)}).slice(2, 2)
    assert rows_of(table) == [{"c": {"l": [i] * i, "m": [[i, i]]}} for i in (2, 3)]


def test_an_empty_table_without_chunks_has_no_rows() -> None:
    assert rows_of(pa.schema([("a", pa.int32()), ("b", pa.map_(pa.string(), pa.int32()))]).empty_table()) == []


def test_an_integer_column_of_type_time_is_a_time() -> None:
    table = pa.table({"t": pa.array([3723004, None], pa.int32()), "n": pa.array([1, 2], pa.int32())})
    assert rows_of(table, {"t": "TIME(3)", "n": "INT"}) == [
        {"t": "01:02:03.004", "n": 1},
        {"t": None, "n": 2},
    ]


def test_timestamps_are_cut_to_microseconds_wherever_they_are() -> None:
    assert to_microseconds([{"a": ["1969-12-31T23:59:59.999999999Z"], "b": "0001-01-01T00:00:00.0000"}]) == [
        {"a": ["1969-12-31T23:59:59.999999000Z"], "b": "0001-01-01T00:00:00.0000"}
    ]


def test_order_does_not_matter_and_number_of_times_does() -> None:
    assert difference([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1.0}]) is None
    assert "1 missing" in str(difference([{"a": 1}, {"a": 1}], [{"a": 1}]))
    assert "1 surplus" in str(difference([{"a": 1}], [{"a": 1}, {"a": 1}]))


def test_zero_and_minus_zero_differ_and_so_do_true_and_one() -> None:
    assert difference([{"a": 0.0}], [{"a": -0.0}]) is not None
    assert difference([{"a": True}], [{"a": 1}]) is not None


def test_column_order_and_names_matter() -> None:
    assert difference([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]) is not None
    assert difference([{"a": 1}], [{"A": 1}]) is not None


def test_arrays_named_unordered_may_come_in_any_order() -> None:
    assert difference([{"a": [1, 2]}], [{"a": [2, 1]}]) is not None
    assert difference([{"a": [1, 2]}], [{"a": [2, 1]}], unordered=["a"]) is None


def test_the_message_names_the_columns_that_differ() -> None:
    with pytest.raises(AssertionError, match=r"(?s)about it.*v: want 'x', got 'y'"):
        assert_same_rows([{"k": 1, "v": "x"}], [{"k": 1, "v": "y"}, {"k": 2, "v": "z"}], about="about it")


def test_a_changelog_seen_by_a_batch_reader_has_no_retractions() -> None:
    changes = [{"_KIND": k, "v": k} for k in ("+I", "-U", "+U", "-D")]
    assert canonical(without_kind(changes)) == [{"v": "+I"}, {"v": "+U"}]
