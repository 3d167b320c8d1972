"""Predicates evaluated on Arrow rows, against plain Python."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import ColumnNotFoundError, InvalidInputError
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import Column, Compare, In, Not, Op, Predicate, Text, TextOp, sql_text
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import DOUBLE, INT, STRING, TimestampType
from tests.unit.predicate.reference import holds
from tests.unit.predicate.strategies import ROW_TYPE, predicates, rows

SCHEMA = arrow_schema(ROW_TYPE)


@given(st.lists(rows, max_size=6), predicates())
def test_kept_rows_are_those_for_which_plain_python_says_true(data: list[Any], predicate: Predicate) -> None:
    batch = pa.RecordBatch.from_pylist(data, schema=SCHEMA)
    mask = matches(predicate, batch)
    assert mask.null_count == 0
    assert mask.to_pylist() == [holds(predicate, row) is True for row in data]


@given(st.lists(rows, max_size=6), predicates())
def test_the_text_of_a_predicate_keeps_the_same_rows(data: list[Any], predicate: Predicate) -> None:
    batch = pa.RecordBatch.from_pylist(data, schema=SCHEMA)
    again = parse_predicate(sql_text(predicate), ROW_TYPE, "Asia/Tokyo")
    assert matches(again, batch).equals(matches(predicate, batch))


@given(st.lists(rows, min_size=3, max_size=6), predicates())
def test_slices_and_chunks_make_no_difference(data: list[Any], predicate: Predicate) -> None:
    table = pa.Table.from_pylist(data, schema=SCHEMA)
    want = [holds(predicate, row) is True for row in data]
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    assert matches(predicate, chunked).to_pylist() == want
    assert matches(predicate, table.slice(1).combine_chunks().to_batches()[0]).to_pylist() == want[1:]


@pytest.mark.parametrize(
    ("op", "want"),
    [
        (Op.EQ, [False, True, True, False]),
        (Op.LT, [True, False, False, False]),
        (Op.LE, [True, True, True, False]),
        (Op.GT, [False, False, False, True]),
        (Op.GE, [False, True, True, True]),
        (Op.NE, [True, False, False, True]),
    ],
)
def test_nanoseconds_compare_by_their_microsecond_as_spark_sees_them(op: Op, want: list[bool]) -> None:
    ticks = [-1, 0, 999, 1000]
    batch = pa.RecordBatch.from_arrays([pa.array(ticks, pa.timestamp("ns"))], ["t"])
    column = Column(("t",), TimestampType(True, 9))
    assert matches(Compare(op, column, datetime(1970, 1, 1)), batch).to_pylist() == want


def test_a_time_between_two_milliseconds_is_equal_to_none() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([0, 1, None], pa.timestamp("ms", "UTC"))], ["t"])
    column = Column(("t",), TimestampType(True, 3, True))
    half = datetime(1970, 1, 1, 0, 0, 0, 500, tzinfo=UTC)
    assert matches(Compare(Op.EQ, column, half), batch).to_pylist() == [False, False, False]
    assert matches(Compare(Op.NE, column, half), batch).to_pylist() == [True, True, False]
    assert matches(Compare(Op.LT, column, half), batch).to_pylist() == [True, False, False]
    assert matches(Compare(Op.GE, column, half), batch).to_pylist() == [False, True, False]
    assert matches(In(column, (half,)), batch).to_pylist() == [False, False, False]


def test_times_outside_nanoseconds_are_compared() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([0], pa.timestamp("ns"))], ["t"])
    column = Column(("t",), TimestampType(True, 9))
    assert matches(Compare(Op.LT, column, datetime(9999, 1, 1)), batch).to_pylist() == [True]
    assert matches(Compare(Op.LT, column, datetime(1, 1, 1)), batch).to_pylist() == [False]


def test_text_matches_newlines_and_characters_not_bytes() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["a\nb", "aéb", "a😀b", "a.b", "ab", None])], ["s"])
    like = Text(TextOp.LIKE, Column(("s",), STRING), "a_b")
    assert matches(like, batch).to_pylist() == [True, True, True, True, False, False]
    assert matches(Not(like), batch).to_pylist() == [False, False, False, False, True, False]


def test_a_missing_column_is_named() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1])], ["i"])
    with pytest.raises(ColumnNotFoundError, match="column j of the condition is not among"):
        matches(Compare(Op.EQ, Column(("j",), INT), 1), batch)


def test_a_literal_of_another_type_is_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int32())], ["i"])
    with pytest.raises(InvalidInputError, match="do not fit a column of type int32"):
        matches(Compare(Op.EQ, Column(("i",), INT), "x"), batch)


def test_a_double_literal_beside_a_float_column_compares_as_doubles() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([0.1, 0.5], pa.float32())], ["f"])
    assert matches(Compare(Op.EQ, Column(("f",), DOUBLE), 0.1), batch).to_pylist() == [False, False]


@pytest.mark.ci
def test_nothing_here_imports_pandas() -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from paimon_spark.predicate.arrow import matches\n"
        "from paimon_spark.predicate.ast import *\n"
        "from paimon_spark.types import INT, DOUBLE\n"
        "from paimon_spark.types import STRING\n"
        "from paimon_spark.format.arrays.arrow_numpy import array_of\n"
        "i, d, s = array_of([1, None], pa.int32()), array_of([2.0, None], pa.float64()), array_of('ab', pa.string())\n"
        "b = pa.RecordBatch.from_arrays([i, d, s], ['i', 'd', 's'])\n"
        "p = And((In(Column(('i',), INT), (1, 2)), Compare(Op.GE, Column(('d',), DOUBLE), 1.0), Constant(True),\n"
        "  NullSafeEqual(Column(('i',), INT), 1), Text(TextOp.LIKE, Column(('s',), STRING), 'a%')))\n"
        "assert matches(p, b).to_pylist() == [True, False]\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
