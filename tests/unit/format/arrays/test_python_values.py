"""Python objects from Arrow columns equal what Arrow itself gives."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.format.arrays.python_values import objects

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "text": (pa.string(), st.sampled_from(["", "a", "é"]) | st.text(max_size=4)),
    "bytes": (pa.binary(), st.sampled_from([b"", b"ab"]) | st.binary(max_size=4)),
    "longs": (pa.list_(pa.int64()), st.lists(st.none() | st.integers(0, 2), max_size=3)),
    "texts": (pa.list_(pa.string()), st.lists(st.none() | st.sampled_from("ab"), max_size=3)),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_objects_are_what_arrow_says(kind: str, data: st.DataObject) -> None:
    type_, strategy = VALUES[kind]
    drawn = data.draw(
        st.lists(st.none() | strategy, max_size=6) | st.builds(lambda v, n: [v] * n, strategy, st.integers(0, 6))
    )
    start = data.draw(st.integers(0, len(drawn)))
    array = pa.array(drawn, type_)
    for column in (array, array[start:], pa.chunked_array([array, array[start:]]), pa.chunked_array([array[start:]])):
        expected = [tuple(v) if isinstance(v, list) else v for v in column.to_pylist()]
        assert list(islice(objects(column), len(column))) == expected
