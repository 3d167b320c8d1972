"""Arrow tables projected to the columns and units of a read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import DataError
from paimon_spark.format.casts.conformance import fit, fitter


def converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    convert = fitter(array.type, target)
    out = array if convert is None else convert(array)
    out.validate(full=True)
    assert out.type.equals(target, check_metadata=True)
    return out


@given(st.lists(st.none() | st.integers(-(2**62), 2**62)), st.integers(0, 3), st.sampled_from([None, "UTC"]))
def test_nanoseconds_are_cut_downwards(nanos: list[int | None], start: int, zone: str | None) -> None:
    array = pa.array(nanos, pa.timestamp("ns", zone))[start:]
    out = converted(array, pa.timestamp("us", zone))
    assert out.cast(pa.int64()).to_pylist() == [None if n is None else n // 1000 for n in nanos[start:]]


def test_milliseconds_become_microseconds() -> None:
    at = datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
    out = converted(pa.array([at, None], pa.timestamp("ms", "UTC")), pa.timestamp("us", "UTC"))
    assert out.to_pylist() == [at, None]


def test_a_time_is_its_milliseconds() -> None:
    assert converted(pa.array([None, 5, 86399999], pa.time32("ms")), pa.int32()).to_pylist() == [None, 5, 86399999]


INNER = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("t", pa.timestamp("ms"))])
WANTED = pa.struct([pa.field("t", pa.timestamp("us")), pa.field("x", pa.int32())])
SHAPES: list[tuple[pa.DataType, pa.DataType, list[Any]]] = [
    (INNER, WANTED, [{"x": 1, "t": datetime(2024, 1, 1)}, None, {"x": 2, "t": None}]),
    (
        pa.list_(pa.field("element", INNER, nullable=False)),
        pa.list_(pa.field("element", WANTED)),
        [[], None, [{"x": 1, "t": None}, {"x": 2, "t": None}], [{"x": 3, "t": datetime(2024, 1, 1)}]],
    ),
    (
        pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("item", INNER)), nullable=False)),
        pa.map_(pa.field("key", pa.string(), nullable=False), pa.list_(pa.field("element", WANTED))),
        [[("a", [{"x": 1, "t": None}])], None, [], [("b", []), ("c", [None])]],
    ),
    (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.field("value", pa.int32(), False)), [[("a", 1)], None]),
]


@pytest.mark.parametrize(("source", "target", "rows"), SHAPES, ids=str)
@pytest.mark.parametrize("start", [0, 1, 2])
def test_nested_values_are_rebuilt(source: pa.DataType, target: pa.DataType, rows: list[Any], start: int) -> None:
    array = pa.array(rows, source)
    assert converted(array[start:], target).to_pylist() == array.to_pylist()[start:]
    assert converted(array[start : start + 1], target).to_pylist() == array.to_pylist()[start : start + 1]


def test_equal_types_are_passed_through() -> None:
    assert fitter(pa.int64(), pa.int64()) is None


def test_columns_are_chosen_renamed_and_ordered() -> None:
    batch = pa.record_batch({"a": [1], "b": ["x"], "c": [2.0]})
    target = pa.schema([("C", pa.float64()), ("a", pa.int64())])
    (out,) = fit([batch], ["c", "a"], target, "t")
    assert out.schema.equals(target)
    assert out.to_pydict() == {"C": [2.0], "a": [1]}


def test_no_columns_keep_the_number_of_rows() -> None:
    (out,) = fit([pa.record_batch({"a": [1, 2]})], [], pa.schema([]), "t")
    assert (out.num_rows, out.num_columns) == (2, 0)


def test_a_value_that_does_not_fit_names_its_column() -> None:
    batch = pa.record_batch({"at": pa.array([2**62], pa.timestamp("ms"))})
    with pytest.raises(DataError, match="column at"):
        list(fit([batch], ["at"], pa.schema([("at", pa.timestamp("us"))]), "t"))
