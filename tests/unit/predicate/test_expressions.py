"""Conditions with arithmetic, casts, functions and columns on both sides."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import DataError, PredicateSyntaxError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import And, Compare, Computed, Op, has_expressions, names_of, show, sql_text
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import BIGINT, DATE, DOUBLE, INT, STRING, DataField, DecimalType, RowType, TimestampType
from tests.harness.conditions import ROW_TYPE, ZONE

FIXTURE = Path(__file__).parents[2] / "fixtures/spark-conditions"
SMALL = RowType(
    False,
    tuple(
        DataField(n, name, t)
        for n, (name, t) in enumerate(
            {"i": INT, "big": BIGINT, "d": DOUBLE, "s": STRING, "dec": DecimalType(True, 10, 2)}.items()
        )
    ),
)


def kept(text: str, **columns: list[object]) -> list[int]:
    """The numbers of the rows that a condition keeps; other columns are null."""
    length = len(next(iter(columns.values())))
    rows = [{f.name: columns.get(f.name, [None] * length)[n] for f in SMALL} for n in range(length)]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SMALL))
    return [n for n, hit in enumerate(matches(parse_predicate(text, SMALL, "UTC"), batch).to_pylist()) if hit]


@pytest.mark.ci
def test_conditions_keep_the_rows_that_spark_keeps() -> None:
    batch = pq.read_table(FIXTURE / "rows.parquet").cast(arrow_schema(ROW_TYPE)).combine_chunks().to_batches()[0]
    lines = (FIXTURE / "true.jsonl").read_text().splitlines()
    assert len(lines) > 300
    for condition, ids in map(json.loads, lines):
        predicate = parse_predicate(condition, ROW_TYPE, ZONE)
        for form in (predicate, parse_predicate(sql_text(predicate), ROW_TYPE, ZONE)):
            found = [n for n, hit in enumerate(matches(form, batch).to_pylist()) if hit]
            assert found == ids, (condition, sql_text(form))
        assert sql_text(pickle.loads(pickle.dumps(predicate))) == sql_text(predicate)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("i + 1 > 0", "overflow of INT in \\+"),
        ("big * 2 > 0", "overflow of BIGINT in \\*"),
        ("-i < 0", "overflow of INT in negative"),
        ("abs(i) > 0", "overflow of INT in abs"),
        ("1 / d > 0", "division by zero"),
        ("i % 0 = 1", "remainder by zero"),
        ("CAST(big AS INT) > 0", "casts 9223372036854775807 to INT, which does not hold it"),
        ("CAST(s AS INT) > 0", "casts 'x1' to INT"),
        ("CAST(coalesce(CAST(NULL AS STRING), '99999999999') AS INT) > 0", "casts '99999999999' to INT, which"),
        ("s = 1", "casts 'x1' to BIGINT"),
        ("year(s) = 2024", "casts 'x1' to DATE"),
        ("CAST(dec AS DECIMAL(3, 2)) > 0", "casts 12345678.90 to DECIMAL\\(3, 2\\)"),
    ],
)
def test_what_is_an_error_in_ansi_mode_is_one(text: str, says: str) -> None:
    from decimal import Decimal

    low = -(2**31) if text.startswith(("-i", "abs")) else 2**31 - 1
    row: dict[str, Any] = {"i": [low], "big": [2**63 - 1], "d": [0.0], "s": ["x1"], "dec": [Decimal("12345678.90")]}
    with pytest.raises(DataError, match=says):
        kept(text, **row)


def test_rows_that_an_earlier_condition_decides_cannot_fail() -> None:
    rows: dict[str, list[object]] = {"i": [0, 2, None, 5], "big": [4, 4, 4, None]}
    assert kept("i <> 0 AND big / i = 2", **rows) == [1]
    assert kept("i = 0 OR big / i = 2", **rows) == [0, 1]
    assert kept("coalesce(big, 1 / 0) = 4", **(rows | {"big": [4, 4, 4, 4]})) == [0, 1, 2, 3]
    assert kept("NOT (i IS NULL OR i = 0) AND 10 % i = 0", **rows) == [1, 3]
    assert kept("i = 5 OR lower(s) = 'a'", i=[1, 5], s=["A", "ƛ"]) == [0, 1]
    with pytest.raises(DataError, match="division by zero"):
        kept("big / i = 2 AND i <> 0", **rows)


def test_a_null_is_neither_true_nor_false() -> None:
    rows: dict[str, list[object]] = {"i": [1, None, 3], "big": [1, 1, None]}
    assert kept("i = big", **rows) == [0]
    assert kept("NOT i = big", **rows) == []
    assert kept("i + big IS NULL", **rows) == [1, 2]
    assert kept("i + big IS NOT NULL", **rows) == [0]
    assert kept("(i + 0) <=> NULL", **rows) == [1]
    assert kept("i + 0 NOT IN (3, NULL)", **rows) == []
    assert kept("i NOT IN (big, 5)", **rows) == []


def test_a_quote_may_be_doubled_as_in_spark() -> None:
    texts: list[object] = ["O'Brien", "OBrien", 'a"b', "'", "ab"]
    assert kept("s = 'O''Brien'", s=texts) == [0]
    assert kept('s = "a""b"', s=texts) == [2]
    assert kept("s = ''''", s=texts) == [3]
    assert kept("s = 'a' 'b'", s=texts) == [4]
    assert kept("s IN ('O''Brien', '''') AND length(s) > 1", s=texts) == [0]


def test_text_with_a_time_of_day_is_a_timestamp_as_in_spark() -> None:
    texts: list[object] = [
        "2024-01-01 10:00", "2024-1-1T10:0", "2024-01-01 10:00:00.0",
        "2024-01-01 07:00:00 America/Argentina/Buenos_Aires",
    ]  # fmt: skip
    assert kept("CAST(s AS TIMESTAMP) = TIMESTAMP '2024-01-01 10:00:00'", s=texts) == [0, 1, 2, 3]
    for text in ("2024-01-01 10:00Z", "2024-01-01 10:", "2024-01-01 24:00"):
        with pytest.raises(DataError, match="to TIMESTAMP, which does not hold it"):
            kept("CAST(s AS TIMESTAMP) IS NULL", s=[text])


def test_a_date_is_compared_with_a_list_of_text_and_timestamps_as_a_timestamp() -> None:
    noon = "'2024-01-01 12:00:00', TIMESTAMP_NTZ '2024-01-02 00:00:00'"
    day = RowType(False, (DataField(0, "day", DATE),))
    batch = pa.record_batch({"day": pa.array([19_723, 19_724], pa.date32())})  # 2024-01-01, 2024-01-02
    assert matches(parse_predicate(f"day IN ({noon})", day), batch).to_pylist() == [False, True]


def test_a_comparison_of_a_column_with_a_folded_literal_skips_files_too() -> None:
    predicate = parse_predicate("i = CAST('5' AS INT) AND d >= 1 AND big = 2 * 3", SMALL)
    assert isinstance(predicate, And)
    first, second, third = predicate.children
    assert isinstance(first, Compare)
    assert first == Compare(Op.EQ, first.column, 5)
    assert isinstance(second, Compare)
    assert isinstance(third, Computed)
    assert has_expressions(predicate)
    assert not has_expressions(first)
    assert names_of(predicate) == {"i", "d", "big"}
    assert show(third) == "big = CAST((2 * 3) AS BIGINT)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("i = 1 AND round(d) > 1", r"'ROUND\(d\)' at position 11 is not supported; a condition has comparisons"),
        ("i + foo(big) = 1", r"'FOO\(big\)' at position 5 is not supported"),
        ("CASE WHEN i = 1 THEN true END", "CASE WHEN .* is not supported"),
        ("s ILIKE 'x'", "ILIKE"),
        ("s LIKE lower(s)", "pattern that is not a text literal"),
        ("s RLIKE '(?i)x'", r"has the group \(\?i at position 1"),
        ("s RLIKE '[a&&b]'", "& inside"),
        ("s RLIKE 'x$y'", r"\$ elsewhere than at the end"),
        ("s RLIKE 'a\\\\b'", r"has \\b at position 3"),
        ("s RLIKE 'a{'", "without a number of repetitions"),
        ("s RLIKE '(a'", r"an unmatched \("),
        ("try_cast(s AS INT) = 1", "TRY_CAST"),
        ("CAST(d AS STRING) = '1'", "a cast of DOUBLE to STRING is not supported"),
        ("CAST(d AS DECIMAL(5, 2)) = 1", r"a cast of DOUBLE to DECIMAL\(5, 2\) is not supported"),
        ("i = 1 = true", "stands beside a comparison; put it into parentheses"),
        ("true = i < 2", "'i < 2' at position 8 stands beside"),
        ("s + 1 = 2", "needs numbers, found column s, STRING"),
        ("upper(i) = 'x'", "upper needs text, found column i, INT; cast it to STRING"),
        ("coalesce(i, s, true) = 1", "values of one type"),
        ("substring(s, i) = 'x'", "not a whole number"),
        ("regexp_like(s, 'x', 'i')", "has an argument that Spark's function does not take; leave it out"),
        ("contains(s, 'x', 'y')", "has an argument that Spark's function does not take"),
        ("substring(s, 1, 2, 3) = 'x'", "has an argument that Spark's function does not take"),
        ("(s NOT LIKE 'x') = true", "at position 2 is not supported as an operand or argument"),
        ("coalesce(s NOT LIKE 'x!_' ESCAPE '!', true)", "at position 10 is not supported as an operand or argument"),
        ("(i = 1 AND s = 'x') = true", "at position 2 is not supported as an operand"),
        ("date_trunc(s, s) = '2024-01-01'", "needs a unit as text"),
        ("dec / 3L > 1", "a whole number with a type"),
        ("dec % CAST(1 AS DECIMAL(38, 2)) > 1", "needs more digits than are supported"),
        ("s = r'a''b'", "doubled in a raw literal at position 8"),
        ("d = 1e400", "is not a number"),
        ("CAST('a;b' AS INT) = i", "casts 'a;b' to INT, which does not hold it$"),
        ("i + 1", "is INT, not BOOLEAN, so it is no condition; compare it"),
    ],
)
def test_what_cannot_be_evaluated_as_spark_does_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(PredicateSyntaxError, match=says):
        parse_predicate(text, SMALL, "UTC")


def test_wall_clocks_beside_an_instant_at_a_change_of_the_clocks_are_refused() -> None:
    clocks = RowType(
        False, (DataField(0, "ts", TimestampType(True, 6)), DataField(1, "lz", TimestampType(True, 6, True)))
    )
    for text in ("ts = TIMESTAMP '2024-03-31 02:30:00'", "coalesce(ts, ts) < TIMESTAMP '2024-10-27 00:00:00'"):
        with pytest.raises(PredicateSyntaxError, match="changes its offset"):
            parse_predicate(text, clocks, "Europe/Berlin")
        local = text.replace("TIMESTAMP '", "TIMESTAMP_NTZ '")
        assert isinstance(parse_predicate(local, clocks, "Europe/Berlin"), (Compare, Computed))
    assert isinstance(parse_predicate("ts = lz", clocks, "Europe/Berlin"), Computed)


def test_text_whose_case_depends_on_the_release_of_unicode_is_an_error() -> None:
    assert kept("upper(s) = 'STRASSE'", s=["Straße", "x"]) == [0]
    with pytest.raises(DataError, match="release of Unicode"):
        kept("upper(s) = 'x'", s=["x", "ƛ"])
    with pytest.raises(DataError, match="release of Unicode"):
        kept("lower(s) = 'x'", s=["AΣ😀"])


def test_the_zone_of_the_machine_must_have_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    day = RowType(False, (DataField(0, "lz", TimestampType(True, 6, True)),))
    monkeypatch.setenv("TZ", "<+03>-3")
    with pytest.raises(PredicateSyntaxError, match="set the option time-zone"):
        parse_predicate("date(lz) = DATE '2024-01-01'", day)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert parse_predicate("date(lz) = DATE '2024-01-01'", day) == parse_predicate(
        "date(lz) = DATE '2024-01-01'", day, "Asia/Tokyo"
    )
