"""Values are compared as their stored bytes are: by position, nulls and NaN equal to themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.merge.changelog import equal_values

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
    same = equal_values(column, left, right)
    assert same.tolist() == [rows[i] == rows[j] for i, j in zip(left, right, strict=True)]
