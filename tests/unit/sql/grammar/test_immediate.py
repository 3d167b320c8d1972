"""EXECUTE IMMEDIATE is read as Spark's grammar has it."""

from __future__ import annotations

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sql.execute import parse
from paimon_spark.sql.grammar.immediate import ExecuteImmediate


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("'SELECT 1'", ("'SELECT 1'", (), ())),
        ("'SELECT ' || :x USING 1, f(2, 3)", ("'SELECT ' || :x", ((None, "1"), (None, "f(2, 3)")), ())),
        ("q USING (1 AS a, 2 AS b);", ("q", (("a", "1"), ("b", "2")), ())),
        ("q USING (1 + 2) * 3", ("q", ((None, "(1 + 2) * 3"),), ())),
        ("q INTO x, session.y USING 1", ("q", ((None, "1"),), ("x", "session.y"))),
    ],
)
def test_the_text_and_its_parameters_are_read(rest: str, expected: tuple[object, ...]) -> None:
    found = parse(f"EXECUTE IMMEDIATE {rest}")

    assert isinstance(found, ExecuteImmediate)
    assert (found.text, found.arguments, found.variables) == expected


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("", "an expression"),
        ("q USING 1 AS a, 2", "behind every value"),
        ("q USING 1 AS a, 2 AS a", "a different name"),
        ("q USING", "an expression"),
    ],
)
def test_a_statement_that_is_not_complete_is_refused(rest: str, said: str) -> None:
    with pytest.raises(SqlSyntaxError, match=f"expected .*{said}"):
        parse(f"EXECUTE IMMEDIATE {rest}")
