"""Files of older schemas read as rows of a newer one: columns by id, casts, nulls and nested fields."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.engine.read.evolution import evolve
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.types import BIGINT, INT, STRING, ArrayType, DataField, DataType, MapType, OpaqueType, RowType


def field(number: int, name: str, kind: DataType) -> DataField:
    return DataField(number, name, kind)


def evolved(read: DataField, old: DataField, values: list[Any]) -> list[Any]:
    evolution = evolve([read], [old], {})
    arrays = [pa.array(values, arrow_type(old.type)).filter(pa.array([True] * len(values)))]
    if evolution.file_fields and evolution.file_fields[0].type != old.type:
        arrays = [pa.array(values, arrow_type(evolution.file_fields[0].type))]
    (out,) = evolution.columns(arrays, len(values))
    out.validate(full=True)
    assert out.type == arrow_type(read.type)
    return list(out.to_pylist())


def test_columns_are_matched_by_id_not_by_name() -> None:
    file = [field(0, "a", INT), field(1, "b", STRING)]
    evolution = evolve([field(1, "a", STRING), field(7, "b", INT), field(0, "c", BIGINT)], file, {})
    assert [f.name for f in evolution.file_fields] == ["b", "a"]
    columns = evolution.columns([pa.array(["x", None]), pa.array([1, 2], pa.int32())], 2)
    assert [c.to_pylist() for c in columns] == [["x", None], [None, None], [1, 2]]
    assert evolution.testable == {"a": "b", "c": "a"}


def test_predicates_are_tested_only_where_values_compare_alike() -> None:
    file = [field(0, "a", BIGINT), field(1, "b", STRING), field(2, "c", INT)]
    read = [field(0, "a", INT), field(1, "b", INT), field(2, "c", BIGINT)]
    assert evolve(read, file, {}).testable == {"c": "c"}


def test_partition_columns_come_from_the_split() -> None:
    file = [field(0, "p", STRING), field(1, "v", INT)]
    evolution = evolve(file, file, {"p": pa.scalar("from the manifest")})
    assert [f.name for f in evolution.file_fields] == ["v"]
    assert evolution.columns([pa.array([1, 2], pa.int32())], 2)[0].to_pylist() == ["from the manifest"] * 2


def test_fields_of_rows_are_matched_by_id_and_nulls_stay_apart_from_rows_of_nulls() -> None:
    old = field(0, "r", RowType(True, (field(1, "x", INT), field(2, "y", STRING))))
    new = field(0, "r", RowType(True, (field(2, "x", STRING), field(3, "z", INT), field(1, "y", BIGINT))))
    evolution = evolve([new], [old], {})
    assert evolution.file_fields == (old,)
    array = pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}], arrow_type(old.type))
    want = [{"x": "a", "z": None, "y": 1}, None, {"x": None, "z": None, "y": None}]
    assert evolution.columns([array], 3)[0].to_pylist() == want
    assert evolution.columns([array.slice(1)], 2)[0].to_pylist() == want[1:]


def test_a_row_with_only_new_fields_is_null_only_where_it_was() -> None:
    """Java gives null for each."""
    old = field(0, "r", RowType(True, (field(1, "x", INT),)))
    new = field(0, "r", RowType(True, (field(2, "x", INT),)))
    evolution = evolve([new], [old], {})
    assert evolution.file_fields == (old,)
    array = pa.array([{"x": 1}, None], arrow_type(old.type))
    assert evolution.columns([array], 2)[0].to_pylist() == [{"x": None}, None]


def test_values_inside_lists_and_maps_are_cast_and_empty_is_not_null() -> None:
    old = field(0, "c", ArrayType(True, MapType(True, STRING, INT)))
    new = field(0, "c", ArrayType(True, MapType(True, STRING, BIGINT)))
    values = [[[("a", 1), ("b", None)], None, []], [], None, [[("c", 3)]]]
    array = pa.array(values, arrow_type(old.type))
    evolution = evolve([new], [old], {})
    out = evolution.columns([array], 4)[0]
    assert out.type == arrow_type(new.type)
    assert out.to_pylist() == values
    for start in range(4):
        part = evolution.columns([array.slice(start, 1)], 1)[0]
        part.validate(full=True)
        assert part.to_pylist() == values[start : start + 1]


def test_nullability_inside_types_becomes_that_of_the_schema_read() -> None:
    not_null = INT.with_nullable(False)
    assert evolved(field(0, "a", ArrayType(True, INT)), field(0, "a", ArrayType(True, not_null)), [[1], None]) == [
        [1],
        None,
    ]
    assert arrow_type(ArrayType(True, INT)) != arrow_type(ArrayType(True, not_null))


def test_map_keys_cannot_change_their_type() -> None:
    with pytest.raises(UnsupportedFeatureError, match="keys of a map"):
        evolve([field(0, "m", MapType(True, BIGINT, INT))], [field(0, "m", MapType(True, INT, INT))], {})


@pytest.mark.parametrize("file", [[], [field(0, "b", OpaqueType(True, "BLOB"))]])
def test_a_column_of_unknown_type_is_refused_when_it_is_read(file: list[DataField]) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"column b: .*BLOB"):
        evolve([field(0, "b", OpaqueType(True, "BLOB"))], file, {})
    assert evolve([field(1, "x", INT)], file, {}).file_fields == ()
