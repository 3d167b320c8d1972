"""Text that Spark is to read is cut out of statements where brackets and CASE … END say."""

from __future__ import annotations

import pytest

from paimon_spark.sql.brackets import closing, opening, outside
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.parse import parse
from paimon_spark.sql.tables.statements import AlterTable
from paimon_spark.sql.text import words
from paimon_spark.types import in_any_case


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a, b", "a"),
        ("f(a, b)[c, d], e", "f(a, b)[c, d]"),
        ("CASE WHEN a THEN b, c END, d", "CASE WHEN a THEN b, c END"),
        ("t.case, b", "t.case"),
        ("(case, b), c", "(case, b)"),
        ("a.end, b", "a.end"),
        ("f(a)), b", "f(a)"),
        ("a -- one, two\n, b", "a"),
        ("a /* , */ + b", "a /* , */ + b"),
        ("a < b, c > d", "a < b"),
        (", a", ""),
    ],
)
def test_an_expression_ends_outside_of_brackets_and_case(sql: str, expected: str) -> None:
    assert Cursor(sql).until(",") == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("MAP<INT, STRUCT<a: INT, b: INT>>, c", "MAP<INT, STRUCT<a: INT, b: INT>>"),
        ("STRUCT<>, c", "STRUCT<>"),
        ("INT DEFAULT 1 >= 2, c", "INT DEFAULT 1 >= 2"),
        ("INT> , c", "INT"),
    ],
)
def test_a_type_ends_outside_of_its_own_brackets_too(sql: str, expected: str) -> None:
    assert Cursor(sql).until(",", of_types=True) == expected


def test_brackets_are_found_from_either_end() -> None:
    found = words("f(a, (b), [c]) + g(d")

    assert closing(found, 1) == 11
    assert opening(found, 11) == 1
    assert closing(found, len(found) - 2) is None
    assert opening(found, 0) == 0
    assert [found[i].text for i in outside(found)] == ["f", "(", "+", "g", "("]


def test_a_comment_behind_a_type_hides_nothing_of_the_column() -> None:
    statement = parse("ALTER TABLE db.t ADD COLUMNS (a INT -- of the shop\n AFTER b COMMENT 'x')")

    assert isinstance(statement, AlterTable)
    assert getattr(statement.changes[0], "comment", None) == "x"


@pytest.mark.parametrize(
    ("name", "expected"), [("a", "a"), ("A", "A"), ("b", "B"), ("B", "B"), ("c", None), ("DD", None), ("dd", "dd")]
)
def test_a_name_in_another_case_counts_where_it_is_the_only_one(name: str, expected: str | None) -> None:
    assert in_any_case(name, ["a", "A", "B", "Dd", "dd"]) == expected
