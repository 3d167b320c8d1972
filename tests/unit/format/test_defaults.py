"""Defaults of columns: what Java reads in their text is what the rows get."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from paimon_spark.errors import DataError, InvalidInputError
from paimon_spark.format.casts.defaults import check_default, default_value
from paimon_spark.metadata.definition.ddl import data_type

GOOD: list[tuple[str, str, Any]] = [
    ("STRING", "'x'", "x"),
    ("STRING", "x", "x"),
    ("STRING", "''it''", "'it'"),
    ("INT", "'5'", 5),
    ("ARRAY<INT>", "array(1, 2)", [1, 2]),
    ("ARRAY<INT>", "[1,null , 3]", [1, None, 3]),
    ("ARRAY<INT>", " ARRAY ( ) ", []),
    ("ARRAY<INT>", "[]", []),
    ("ARRAY<STRING>", "[a, b c]", ["a", "b c"]),
    ("ARRAY<STRING>", '["a,b", c]', ['"a,b"', "c"]),
    ("ARRAY<ARRAY<INT>>", "[[1, 2], array(3), []]", [[1, 2], [3], []]),
    ("MAP<INT, DOUBLE>", "map(99, 99.99D)", [(99, 99.99)]),
    ("MAP<BIGINT, STRING>", 'map(9999, "hello")', [(9999, "hello")]),
    ("MAP<BIGINT, STRING>", "{1 -> a, 2 -> null}", [(1, "a"), (2, None)]),
    ("MAP<BIGINT, STRING>", "{}", []),
    ("MAP<STRING, MAP<INT, STRING>>", 'map("k", map(1, "x"))', [("k", [(1, "x")])]),
    ("STRUCT<a: INT, b: STRING>", "struct(1, x)", {"a": 1, "b": "x"}),
    ("STRUCT<a: INT, b: STRING>", "{}", {"a": None, "b": None}),
    ("STRUCT<a: INT, b: ARRAY<DATE>>", "{1, [2024-01-02]}", {"a": 1, "b": [date(2024, 1, 2)]}),
]


@pytest.mark.parametrize(("ddl", "text", "value"), GOOD)
def test_a_default_is_the_value_that_java_reads_in_its_text(ddl: str, text: str, value: Any) -> None:
    assert default_value(data_type(ddl), text).to_pylist() == [value]


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("ARRAY<INT>", "1, 2"),
        ("ARRAY<INT>", "[a]"),
        ("ARRAY<INT NOT NULL>", "[null]"),
        ("MAP<INT, INT>", "map(1)"),
        ("MAP<INT, INT>", "{1}"),
        ("MAP<INT, INT>", "map(1, 2, 1, 3)"),
        ("MAP<INT, INT>", "map(null, 3)"),
        ("STRUCT<a: INT, b: INT>", "struct(1)"),
        ("STRUCT<a: INT NOT NULL>", "{}"),
        ("MULTISET<INT>", "map(1, 1)"),
        ("INT", "current_date()"),
    ],
)
def test_a_default_that_is_no_value_of_the_type_is_refused(ddl: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match="is no value of type"):
        check_default("c", data_type(ddl), text)


def test_a_text_that_stands_for_null_is_no_default() -> None:
    with pytest.raises(DataError, match="null"):
        default_value(data_type("DECIMAL(2, 1)"), "1000")
