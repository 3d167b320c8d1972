from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.format.data_files.registry import read_rows
from paimon_spark.format.data_files.requests import Bounds, FileRead
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import (
    And,
    Column,
    Compare,
    In,
    IsNotNull,
    IsNull,
    Not,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
)
from paimon_spark.predicate.stats import RowGroupFilter, row_group_may_match
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import DataField, parse_type

NUMBERS = st.floats(width=16) | st.sampled_from([0.0, -0.0, float("nan")])


def leaves(column: Column, literals: st.SearchStrategy[Any]) -> st.SearchStrategy[Predicate]:
    return st.one_of(
        st.builds(Compare, st.sampled_from(Op), st.just(column), literals),
        st.builds(NullSafeEqual, st.just(column), st.none() | literals),
        st.builds(In, st.just(column), st.lists(literals, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.just(IsNull(column)),
        st.just(IsNotNull(column)),
    )


def trees(column: Column, literals: st.SearchStrategy[Any]) -> st.SearchStrategy[Predicate]:
    def grow(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        many = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return st.builds(And, many) | st.builds(Or, many) | st.builds(Not, inner)

    return st.recursive(leaves(column, literals), grow, max_leaves=4)


def judged(kind: str, values: list[Any], predicate: Predicate) -> bool:
    """Whether a row group with the values may match, by the statistics its own footer has."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": pa.array(values, kind)}), sink)
    group = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.row_group(0)
    stats = group.column(0).statistics
    low, high = (stats.min, stats.max) if stats is not None and stats.has_min_max else (None, None)
    nulls = None if stats is None else stats.null_count
    return row_group_may_match(predicate, lambda _: Bounds(low, high, nulls, len(values)))


@given(st.lists(st.none() | NUMBERS, min_size=1, max_size=6), trees(Column(("c",), parse_type("DOUBLE")), NUMBERS))
def test_no_group_of_floats_with_a_match_is_ruled_out(values: list[Any], predicate: Predicate) -> None:
    batch = pa.record_batch([pa.array(values, pa.float64())], ["c"])
    if matches(predicate, batch).true_count:
        assert judged("double", values, predicate)


WORDS = st.text("abÿ日", max_size=3)


@given(st.lists(st.none() | WORDS, min_size=1, max_size=6), trees(Column(("c",), parse_type("STRING")), WORDS))
def test_no_group_of_text_with_a_match_is_ruled_out(values: list[Any], predicate: Predicate) -> None:
    batch = pa.record_batch([pa.array(values, pa.string())], ["c"])
    if matches(predicate, batch).true_count:
        assert judged("string", values, predicate)


@given(st.lists(WORDS, min_size=1, max_size=6), st.sampled_from(TextOp), WORDS)
def test_no_group_with_matching_text_is_ruled_out(values: list[str], op: TextOp, pattern: str) -> None:
    predicate = Text(op, Column(("c",), parse_type("STRING")), pattern)
    if matches(predicate, pa.record_batch([pa.array(values)], ["c"])).true_count:
        assert judged("string", values, predicate)


def test_what_is_outside_is_ruled_out() -> None:
    column = Column(("c",), parse_type("INT"))
    b = Bounds(3, 7, 0, 10)
    for predicate in (
        Compare(Op.EQ, column, 8),
        Compare(Op.LT, column, 3),
        Compare(Op.GT, column, 7),
        In(column, (1, 2, 9)),
        IsNull(column),
        NullSafeEqual(column, None),
        And((Compare(Op.GT, column, 5), Compare(Op.LT, column, 3))),
    ):
        assert not row_group_may_match(predicate, lambda _: b)
    assert not row_group_may_match(IsNotNull(column), lambda _: Bounds(None, None, 10, 10))
    assert not row_group_may_match(Text(TextOp.STARTS_WITH, column, "x"), lambda _: Bounds("a", "b", 0, 10))


@pytest.mark.parametrize(("low", "literal"), [(150, Decimal("1.49")), (dt.time(1), 5), (b"z", "a"), (True, 0)])
def test_statistics_of_another_type_decide_nothing(low: Any, literal: Any) -> None:
    column = Column(("c",), parse_type("INT"))
    assert row_group_may_match(Compare(Op.EQ, column, literal), lambda _: Bounds(low, low, 0, 1))


@pytest.mark.parametrize("kind", ["TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)"])
def test_timestamps_that_are_cut_are_not_ruled_out_by_digits_nobody_sees(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": pa.array([1_000_999], pa.timestamp("ns"))}), path)
    t = parse_type(kind)
    predicate = Compare(Op.EQ, Column(("c",), t), dt.datetime(1970, 1, 1, 0, 0, 0, 1000))
    fields = (DataField(0, "c", t),)
    wanted = RowGroupFilter(predicate, {"c": "c"})
    (rows,) = read_rows(FileRead(LocalStore(), str(path), fields, 1, may_match=wanted))
    assert matches(predicate, pa.record_batch(rows.arrays, ["c"])).to_pylist() == [True]


@pytest.mark.parametrize(("kind", "unit"), [("TIMESTAMP(3)", "ms"), ("TIMESTAMP(6)", "us"), ("TIMESTAMP_LTZ(6)", "us")])
def test_timestamps_in_their_own_unit_are_ruled_out(tmp_path: Path, kind: str, unit: str) -> None:
    path = tmp_path / "f.parquet"
    zone = dt.timezone.utc if "LTZ" in kind else None
    pq.write_table(pa.table({"c": pa.array([0, 1], pa.timestamp(unit, "UTC" if zone else None))}), path)
    t = parse_type(kind)
    wanted = RowGroupFilter(Compare(Op.GT, Column(("c",), t), dt.datetime(1980, 1, 1, tzinfo=zone)), {"c": "c"})
    assert list(read_rows(FileRead(LocalStore(), str(path), (DataField(0, "c", t),), 2, may_match=wanted))) == []
