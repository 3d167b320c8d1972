"""Predicates on statistics keep every file and row group with a row that matches."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.format.arrays.arrow_types import arrow_type
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
    Literal,
    Not,
    NullSafeEqual,
    Op,
    Or,
    Predicate,
    Text,
    TextOp,
)
from paimon_spark.predicate.stats import ColumnStatsArrays, RowGroupFilter, may_match, row_group_may_match
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import DOUBLE, INT, STRING, DataField, parse_type
from tests.unit.predicate.reference import holds
from tests.unit.predicate.strategies import NAMES, ROW_TYPE, predicates, rows


def statistics(values: list[Any], known: int) -> tuple[Any, Any, int]:
    """Minimum, maximum and null count as a Paimon writer may store them."""
    present = [v for v in values if v is not None and v == v]
    low, high = (min(present), max(present)) if present else (None, None)
    if isinstance(low, str):
        present.sort(key=str.encode)
        low, high = present[0][:2], cut_upwards(present[-1])
    return (
        None if known & 1 else low,
        None if known & 2 or high is None else high,
        -1 if known & 4 else sum(v is None for v in values),
    )


def cut_upwards(text: str) -> str:
    """At most two characters, the last one made larger when something was cut."""
    return text if len(text) <= 2 else text[0] + chr(ord(text[1]) + 1)


def stats_of_files(files: list[list[Any]], known: list[int]) -> Any:
    def stats_of(name: str) -> ColumnStatsArrays | None:
        if name not in NAMES:
            return None
        t = arrow_type(ROW_TYPE.field(name).type)
        parts = [statistics([r[name] for r in f], k) for f, k in zip(files, known, strict=True)]
        low, high, nulls = zip(*parts, strict=True)
        return ColumnStatsArrays(pa.array(low, t), pa.array(high, t), np.array(nulls, np.int64))

    return stats_of


@given(
    st.lists(st.tuples(st.lists(rows, min_size=1, max_size=4), st.integers(0, 7)), min_size=1, max_size=3), predicates()
)
def test_no_file_with_a_matching_row_is_dropped(drawn: list[tuple[list[Any], int]], predicate: Predicate) -> None:
    files, known = [f for f, _ in drawn], [k for _, k in drawn]
    counts = np.array([len(f) for f in files], np.int64)
    kept = may_match(predicate, counts, stats_of_files(files, known))
    for file, keep in zip(files, kept.tolist(), strict=True):
        assert keep or not any(holds(predicate, row) is True for row in file)


INTS, S, D = Column(("i",), INT), Column(("s",), STRING), Column(("d",), DOUBLE)


def judge(predicate: Predicate, low: Literal | None, high: Literal | None, nulls: int = 0, rows: int = 10) -> bool:
    name, kind = ("i", pa.int32()) if isinstance(low, int) else ("s", pa.string())
    if isinstance(low, float):
        name, kind = "d", pa.float64()
    stats = ColumnStatsArrays(pa.array([low], kind), pa.array([high], kind), np.array([nulls]))
    found = may_match(predicate, np.array([rows]), lambda n: stats if n == name else None)
    return bool(found[0])


@pytest.mark.parametrize(
    ("predicate", "keeps"),
    [
        (Compare(Op.EQ, INTS, 4), False),
        (Compare(Op.EQ, INTS, 5), True),
        (Compare(Op.LT, INTS, 5), False),
        (Compare(Op.LE, INTS, 5), True),
        (Compare(Op.GT, INTS, 9), False),
        (Compare(Op.GE, INTS, 9), True),
        (Not(Compare(Op.GE, INTS, 5)), False),
        (Not(Compare(Op.LT, INTS, 10)), False),
        (In(INTS, (1, 2, 10)), False),
        (In(INTS, (1, 7)), True),
        (In(INTS, tuple(range(100, 400))), False),
        (In(INTS, ()), False),
        (Not(In(INTS, ())), True),
        (Not(In(INTS, (7,), has_null=True)), False),
        (IsNull(INTS), False),
        (NullSafeEqual(INTS, None), False),
        (NullSafeEqual(INTS, 3), False),
        (Not(NullSafeEqual(INTS, 3)), True),
    ],
)
def test_bounds_rule_files_out(predicate: Predicate, keeps: bool) -> None:
    assert judge(predicate, 5, 9) is keeps


def test_one_value_in_all_rows_rules_out_its_negation() -> None:
    assert not judge(Compare(Op.NE, INTS, 5), 5, 5)
    assert not judge(Not(In(INTS, (4, 5))), 5, 5)
    assert judge(Not(NullSafeEqual(INTS, 5)), 5, 5, nulls=1)
    assert not judge(Not(NullSafeEqual(INTS, 5)), 5, 5)


def test_only_nulls_rule_out_every_comparison() -> None:
    stats = ColumnStatsArrays(None, None, np.array([3]))
    for predicate in (Compare(Op.NE, INTS, 1), In(INTS, (1,)), Text(TextOp.CONTAINS, S, "x"), IsNotNull(INTS)):
        assert not may_match(predicate, np.array([3]), lambda _: stats)[0]
    assert may_match(IsNull(INTS), np.array([3]), lambda _: stats)[0]


def test_nan_is_above_every_bound() -> None:
    assert judge(Compare(Op.GT, D, 100.0), 1.0, 2.0)
    assert judge(Compare(Op.NE, D, 1.0), 1.0, 1.0)
    assert judge(Compare(Op.EQ, D, math.nan), 1.0, 2.0)
    assert not judge(Compare(Op.LT, D, 1.0), 1.0, 2.0)
    assert not judge(Compare(Op.EQ, D, 3.0), 1.0, 2.0)
    assert judge(Compare(Op.EQ, D, 3.0), 1.0, math.nan)
    assert judge(Compare(Op.EQ, D, 0.0), -0.0, -0.0)


def test_prefixes_are_judged_by_bytes() -> None:
    assert not judge(Text(TextOp.STARTS_WITH, S, "d"), "aa", "cz")
    assert judge(Text(TextOp.STARTS_WITH, S, "c"), "aa", "cz")
    assert not judge(Text(TextOp.STARTS_WITH, S, "Z"), "aa", "cz")
    assert not judge(Text(TextOp.LIKE, S, "d%x"), "aa", "cz")
    assert not judge(Text(TextOp.LIKE, S, "d\\%"), "aa", "cz")
    assert judge(Text(TextOp.LIKE, S, "%d"), "aa", "cz")
    assert judge(Text(TextOp.ENDS_WITH, S, "zzz"), "aa", "cz")


def test_nothing_known_keeps_the_file() -> None:
    for predicate in (
        Compare(Op.EQ, INTS, 1),
        IsNull(INTS),
        IsNotNull(INTS),
        In(INTS, (1,)),
        Text(TextOp.LIKE, S, "a%"),
    ):
        assert may_match(predicate, np.array([3]), lambda _: None)[0]


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
    zone = dt.UTC if "LTZ" in kind else None
    pq.write_table(pa.table({"c": pa.array([0, 1], pa.timestamp(unit, "UTC" if zone else None))}), path)
    t = parse_type(kind)
    wanted = RowGroupFilter(Compare(Op.GT, Column(("c",), t), dt.datetime(1980, 1, 1, tzinfo=zone)), {"c": "c"})
    assert list(read_rows(FileRead(LocalStore(), str(path), (DataField(0, "c", t),), 2, may_match=wanted))) == []
