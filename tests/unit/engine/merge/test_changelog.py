"""Equal values: nulls and NaN equal to themselves, -0.0 apart from 0.0, maps with or without the order of entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.merge.changelog import equal_values

STRUCT = pa.struct([("x", pa.float64()), ("y", pa.list_(pa.string()))])
FLOATS = st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.5])
TEXTS = st.none() | st.lists(st.none() | st.sampled_from(["", "a", "ab"]), max_size=3)
MAPS = st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(0, 1)).map(lambda d: list(d.items()))
CASES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.none() | st.integers(0, 2)),
    (pa.bool_(), st.none() | st.booleans()),
    (pa.string(), st.none() | st.sampled_from(["", "a", "b" * 20])),
    (pa.decimal128(38, 0), st.none() | st.sampled_from([0, 1, 2**64, -1])),
    (pa.float64(), FLOATS),
    (pa.list_(pa.string()), TEXTS),
    (STRUCT, st.none() | st.fixed_dictionaries({"x": FLOATS, "y": TEXTS})),
    (pa.map_(pa.string(), pa.int32()), MAPS),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c[0]))
@given(st.data())
def test_equal_values(case: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    t, values = case
    column = pa.array(data.draw(st.lists(values, min_size=3, max_size=12)), t).slice(1)
    left, right = (x.ravel() for x in np.meshgrid(np.arange(len(column)), np.arange(len(column))))
    rows = [repr(v) for v in column.to_pylist()]
    same = equal_values(column, left, right, ordered_maps=True)
    assert same.tolist() == [rows[i] == rows[j] for i, j in zip(left, right, strict=True)]


KEYS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), st.sampled_from(["", "a", "b" * 20])),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.integers(0, 2)),
    (pa.decimal128(38, 0), st.sampled_from([0, 2**64, -1])),
    (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, 1.5])),
    (pa.list_(pa.int8()), st.lists(st.none() | st.integers(0, 1), max_size=2)),
    (pa.struct([("x", pa.map_(pa.string(), pa.int8()))]), st.sampled_from([{"x": []}, {"x": [("a", 1), ("b", 1)]}])),
]
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.none() | st.integers(0, 1)),
    (pa.float32(), FLOATS),
    (pa.map_(pa.string(), pa.int32()), MAPS),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda c: str(c[0]))
@pytest.mark.parametrize("key", KEYS, ids=lambda c: str(c[0]))
@pytest.mark.parametrize("nested", [False, True])
@given(st.data())
def test_maps_are_equal_in_any_order_of_entries(
    nested: bool,
    key: tuple[pa.DataType, st.SearchStrategy[Any]],
    value: tuple[pa.DataType, st.SearchStrategy[Any]],
    data: st.DataObject,
) -> None:
    entries = st.lists(st.tuples(key[1], value[1]), max_size=3, unique_by=lambda e: repr(e[0]))
    maps = data.draw(st.lists(st.none() | entries, min_size=2, max_size=8))
    maps += [None if m is None else data.draw(st.permutations(m)) for m in maps]
    column = pa.array([[m] for m in maps] if nested else maps, wrapped(pa.map_(key[0], value[0]), nested)).slice(1)
    left, right = (x.ravel() for x in np.meshgrid(np.arange(len(column)), np.arange(len(column))))
    rows = [unordered(v) for v in column.to_pylist()]
    same = equal_values(column, left, right, ordered_maps=False)
    assert same.tolist() == [rows[i] == rows[j] for i, j in zip(left, right, strict=True)]


def wrapped(kind: pa.DataType, nested: bool) -> pa.DataType:
    return pa.list_(kind) if nested else kind


def unordered(value: Any) -> Any:
    """The text of a value with all maps sorted."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return repr(sorted((repr(unordered(k)), repr(unordered(v))) for k, v in value))
    if isinstance(value, list):
        return [unordered(v) for v in value]
    if isinstance(value, dict):
        return {k: unordered(v) for k, v in value.items()}
    return repr(value)
