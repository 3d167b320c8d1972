"""Literals, argument lists and quoted names in SQL text."""

from __future__ import annotations

from decimal import Decimal

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.literals import NO_LITERAL, parse_literal, split_arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"x"', "x"),
        ("'a' 'b'", "ab"),
        ("''", ""),
        ("5", 5),
        ("-5", -5),
        ("- 5", -5),
        ("10L", 10),
        ("7s", 7),
        ("1.5", Decimal("1.5")),
        (".5", Decimal("0.5")),
        ("3BD", Decimal(3)),
        ("1e3", 1000.0),
        ("2.5D", 2.5),
        ("null", None),
        ("TRUE", True),
        ("false", False),
        ("TIMESTAMP '2024-01-01 10:00:00'", "2024-01-01 10:00:00"),
        ("date '2024-01-01'", "2024-01-01"),
        ("map('a', '1', 'b', NULL)", {"a": "1", "b": None}),
        ("map()", {}),
    ],
)
def test_a_literal_is_its_value(text: str, value: object) -> None:
    found = parse_literal(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["1 + 2", "current_date()", ":p", "?", "x", "map('a')", "map('a', f(1))", "X'1F'", "`a`"]
)
def test_what_is_no_literal_is_left_to_spark(text: str) -> None:
    assert parse_literal(text) is NO_LITERAL


def test_arguments_are_parted_by_commas_outside_brackets() -> None:
    assert split_arguments(" 't', map('a', f(1, 2)), 3 ") == ["'t'", "map('a', f(1, 2))", "3"]
    assert split_arguments("  ") == []
    for wrong in ("1,", ",1", "1,,2"):
        with pytest.raises(SqlSyntaxError, match="a value"):
            split_arguments(wrong)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("'it''s'", "it's"),
        ('"a""b"', 'a"b'),
        ("''''", "'"),
        ("''''''", "''"),
        ("'a' 'b'", "ab"),
        ("'a'\"b\"", "ab"),
        (r"r'a\n'", r"a\n"),
        (r"R'a''b'", "ab"),
        (r"'a\'b\\c\tA\_'", "a'b\\c\tA\\_"),
    ],
)
def test_a_text_says_the_same_wherever_it_is_read(written: str, said: str) -> None:
    cursor = Cursor(f"COMMENT {written} x")
    cursor.expect("COMMENT")
    assert cursor.text() == said == parse_literal(written)
    assert cursor.identifier() == "x"


def test_a_name_may_hold_backquotes() -> None:
    assert Cursor("db.`a``b`.```c`").name() == ("db", "a`b", "`c")
