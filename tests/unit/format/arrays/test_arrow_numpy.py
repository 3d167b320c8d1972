"""Arrow ↔ numpy: offsets, nulls and slices, and no pandas.

Python objects from Arrow columns equal what Arrow itself gives.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import objects

SLICES = st.tuples(st.integers(0, 20), st.integers(0, 20))


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=40), SLICES)
def test_values_and_validity_of_any_slice(items: list[int | None], cut: tuple[int, int]) -> None:
    array = pa.array(items, pa.int32()).slice(*cut)
    valid, values = arrow_numpy.validity(array), arrow_numpy.values(array)
    assert [int(v) if ok else None for v, ok in zip(values, valid, strict=True)] == array.to_pylist()
    assert arrow_numpy.fixed_array(values, pa.int32(), valid).to_pylist() == array.to_pylist()


@given(st.lists(st.none() | st.booleans(), max_size=40), SLICES)
def test_booleans_of_any_slice(items: list[bool | None], cut: tuple[int, int]) -> None:
    array = pa.array(items, pa.bool_()).slice(*cut)
    valid, values = arrow_numpy.validity(array), arrow_numpy.values(array)
    assert [bool(v) if ok else None for v, ok in zip(values, valid, strict=True)] == array.to_pylist()
    assert arrow_numpy.boolean_array(values, valid).to_pylist() == array.to_pylist()


@given(
    st.lists(st.none() | st.text(max_size=6), max_size=30),
    SLICES,
    st.sampled_from([pa.string(), pa.large_string()]),
)
def test_byte_slices_of_any_slice(items: list[str | None], cut: tuple[int, int], type: pa.DataType) -> None:
    array = pa.array(items, type).slice(*cut)
    offsets, data = arrow_numpy.byte_slices(array)
    raw = data.tobytes()
    got = [raw[a:b].decode() for a, b in itertools.pairwise(offsets)]
    assert got == [s or "" for s in array.to_pylist()]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_come_in_their_own_unit(unit: str) -> None:
    array = pa.array([1, 2, 3], pa.int64()).cast(pa.timestamp(unit, tz="UTC"))
    assert arrow_numpy.values(array[1:]).tolist() == [2, 3]


def test_an_array_of_nulls_has_no_valid_row() -> None:
    assert not arrow_numpy.validity(pa.nulls(3)).any()


def test_pandas_is_never_imported() -> None:
    code = (
        "import sys, pyarrow as pa, numpy as np\n"
        "from paimon_spark.format.arrays import arrow_numpy as an\n"
        "a = an.fixed_array(np.arange(5), pa.int64(), np.array([1, 1, 0, 1, 1], bool))\n"
        "an.values(a); an.validity(a); an.boolean_array(an.validity(a)); an.take_indices(np.arange(2))\n"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_packed_bits_are_little_endian() -> None:
    assert arrow_numpy.pack_bits(
        np.array([True, False, False, False, False, False, False, False, True])
    ).to_pybytes() == (b"\x01\x01")


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
