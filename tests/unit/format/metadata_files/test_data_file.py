"""Statistics collected while writing."""

from __future__ import annotations

import math
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidOptionError
from paimon_spark.format import binary_row
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.metadata_files.data_file import (
    ColumnStats,
    StatsCollector,
    above,
    encode_dense,
    kept,
    moment_of,
    wall_clock_of,
)
from paimon_spark.options.data_files import STATS_MODE, StatsKind, StatsMode, stats_mode
from paimon_spark.types import DataField, DataType, TimestampType, parse_type
from tests.harness.typed_values import array_of, flat_types, values


def collected(
    kind: str | DataType, rows: list[Any], wanted: StatsKind = StatsKind.VALUES, step: int = 2
) -> ColumnStats:
    field = DataField(0, "c", parse_type(kind) if isinstance(kind, str) else kind)
    batch = pa.RecordBatch.from_arrays([array_of(rows, field.type)], schema=arrow_schema([field]))
    collector = StatsCollector([field], [wanted])
    for start in range(0, len(rows), step):
        collector.add(batch.slice(start, step))
    return collector.result()[0]


@given(st.data())
def test_minimum_and_maximum_are_those_of_the_values(data: st.DataObject) -> None:
    kind = data.draw(flat_types())
    rows = data.draw(st.lists(values(kind), min_size=1, max_size=8))
    found = collected(kind, rows)
    present = [v for v in rows if v is not None]
    assert found.null_count == len(rows) - len(present)
    if not present:
        assert found.min is None
        assert found.max is None
        return
    low, high = (v if not isinstance(v, tuple) else v[0] * 10**6 + v[1] for v in (found.min, found.max))
    if isinstance(kind, TimestampType):
        unit = 10**6 if kind.precision <= 3 else 10**3 if kind.precision <= 6 else 1
        present = [v * unit for v in present]
    assert (low, high) == (min(present), max(present))
    binary_row.encode([found.min], [kind.with_nullable(True)])


def test_a_column_with_nan_has_no_minimum_and_maximum() -> None:
    assert collected("DOUBLE", [1.0, math.nan, None]) == ColumnStats(None, None, 1)
    assert collected("FLOAT", [1.0, 2.0, math.nan, 3.0, 4.0], step=1) == ColumnStats(None, None, 0)


@pytest.mark.parametrize("rows", [[0.0, -0.0], [-0.0], [0.0]])
def test_zeros_of_either_sign_lie_between(rows: list[float]) -> None:
    found = collected("DOUBLE", rows)
    assert [math.copysign(1, v) for v in (found.min, found.max)] == [-1, 1]  # type: ignore[arg-type]


def test_nested_columns_have_only_null_counts() -> None:
    nested = parse_type({"type": "ARRAY", "element": "INT"})
    assert collected(nested, [[1], None, [None]]) == ColumnStats(None, None, 1)


@pytest.mark.parametrize(
    ("value", "length", "bound"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("ab\U0010ffffx", 3, "ac"),
        ("\U0010ffff\U0010ffff", 1, None),
        ("a\ud7ffx".encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass"), 2, "a\ue000"),
        ("日本語", 2, "日札"),
        (b"\x01\xff\xff", 2, b"\x02"),
        (b"\xff\xff", 1, None),
        (b"\xff", 1, b"\xff"),
    ],
)
def test_a_cut_maximum_is_not_below_the_value(value: str | bytes, length: int, bound: str | bytes | None) -> None:
    assert above(value, length) == bound


@given(st.text(max_size=6), st.integers(1, 5))
def test_a_cut_maximum_is_text_that_is_not_below(value: str, length: int) -> None:
    bound = above(value, length)
    assert bound is None or (isinstance(bound, str) and bound.encode() >= value.encode() and len(bound) <= length)


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("none", ColumnStats()),
        ("counts", ColumnStats(None, None, 1)),
        ("truncate(2)", ColumnStats("aa", "bc", 1)),
        ("FULL", ColumnStats("aaa", "bbb", 1)),
    ],
)
def test_modes_keep_what_they_say(mode: str, want: ColumnStats) -> None:
    assert kept(ColumnStats("aaa", "bbb", 1), stats_mode(mode)) == want


def test_without_an_upper_bound_nothing_but_nulls_is_kept() -> None:
    assert kept(ColumnStats("a", "\U0010ffff" * 3, 4), stats_mode("truncate(2)")) == ColumnStats(None, None, 4)


@pytest.mark.parametrize("text", ["truncate(0)", "truncate()", "some", "truncate(16"])
def test_an_unknown_mode_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"metadata\.stats-mode"):
        STATS_MODE.get({"metadata.stats-mode": text})


def test_dense_statistics_leave_out_columns_without_any() -> None:
    fields = [DataField(i, n, parse_type("INT")) for i, n in enumerate("abc")]
    found, names = encode_dense(fields, [ColumnStats(1, 2, 0), ColumnStats(), ColumnStats(None, None, 3)])
    assert names == ("a", "c")
    assert found.null_counts == (0, 3)
    assert binary_row.decode(found.min_values, [fields[0].type, fields[2].type]) == (1, None)
    assert encode_dense(fields[:1], [ColumnStats(1, 2, 0)])[1] is None
    assert StatsMode(StatsKind.NONE) == stats_mode("NONE")


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Asia/Kathmandu"])
def test_a_wall_clock_is_turned_back_into_its_moment(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for moment_ms in (-1, 0, 1_700_000_000_123, 1_720_000_000_999):
            assert moment_of(wall_clock_of(moment_ms)) == moment_ms
        assert moment_of(1 << 62) == 1 << 62
    finally:
        monkeypatch.undo()
        time.tzset()
