"""Order of words = order of Java's comparators."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.merge.exact_values import order_key
from paimon_spark.engine.merge.ordering import column_words, pack, sort_rows
from paimon_spark.errors import UnsupportedFeatureError

TEXT = st.text(st.sampled_from("ab\x00é\U0001f600"), max_size=12) | st.sampled_from(
    ["prefix--" * 10 + c for c in "abc"]
)
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]) | st.integers(-5, 5)),
    (pa.float64(), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, -1.5, 1.5]) | st.floats()),
    (pa.float32(), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, -1.5, 1.5])),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=20)),
    (pa.decimal128(9, 2), st.decimals(-1000, 1000, places=2)),
    (pa.decimal128(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    (pa.timestamp("us"), st.integers(-(2**40), 2**40)),
    (pa.date32(), st.integers(-1000, 1000)),
]


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[pa.Array], list[tuple[Any, ...]], list[bool]]:
    """One to three columns, their rows as order keys, and which columns descend."""
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3))
    count = draw(st.integers(0, 12))
    arrays, keys, down = [], [], []
    for type_, values in chosen:
        items = draw(st.lists(st.none() | values, min_size=count + 2, max_size=count + 2))
        descending = draw(st.booleans())
        array = pa.array(items, pa.int64() if pa.types.is_timestamp(type_) else type_)
        arrays.append(array.cast(type_).slice(1, count))
        keys.append([order_key(v) for v in items[1 : count + 1]])
        down.append(descending)
    return arrays, list(zip(*keys, strict=True)) if count else [], down


@given(rows(), st.booleans())
def test_sorting_by_words_is_sorting_by_values(
    case: tuple[list[pa.Array], list[tuple[Any, ...]], list[bool]], packed: bool
) -> None:
    arrays, keys, down = case
    words = [w for a, d in zip(arrays, down, strict=True) for w in column_words(a, d)]
    order, ties = sort_rows(pack(words) if packed else words, len(keys))
    expected = list(range(len(keys)))
    for column in reversed(range(len(arrays))):
        if down[column]:
            present = [i for i in expected if keys[i][column][0]]
            absent = [i for i in expected if not keys[i][column][0]]
            ranked = sorted({keys[i][column] for i in present})
            present.sort(key=lambda i: -ranked.index(keys[i][column]))
            expected = absent + present
        else:
            expected.sort(key=lambda i: keys[i][column])
    assert order.tolist() == expected
    assert ties.tolist() == [n > 0 and keys[i] == keys[expected[n - 1]] for n, i in enumerate(expected)]


def test_text_longer_than_the_words_is_ranked() -> None:
    values = ["x" * 70 + c for c in "bacb"] + [None, "x"]
    order, ties = sort_rows(column_words(pa.array(values)), 6)
    assert [values[i] for i in order] == [None, "x", *(["x" * 70 + c for c in "abbc"])]
    assert ties.tolist() == [False, False, False, False, True, False]


def test_narrow_neighbours_share_a_word() -> None:
    words = [np.array([3, 3, 3]), np.array([-1, 5, 2], np.int32), np.array([2**40, 0, 1])]
    packed = pack(words)
    assert len(packed) == 1
    assert sort_rows(packed, 3)[0].tolist() == [0, 2, 1]


def test_nested_values_have_no_order() -> None:
    with pytest.raises(UnsupportedFeatureError, match="ordered"):
        column_words(pa.array([[1]], pa.list_(pa.int32())))


def test_decimals_order_by_number_whatever_their_width() -> None:
    values = [Decimal("-0.01"), Decimal("99999999999999999999.00"), Decimal("0.00"), Decimal("-1e20")]
    order, _ = sort_rows(column_words(pa.array(values, pa.decimal128(38, 2))), 4)
    assert [values[i] for i in order] == sorted(values)
