"""The table of statements that Spark does not plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paimon_spark.sql.execute import parse
from paimon_spark.sql.routing import ROUTED, routed

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "tasks" / "sql.md"
_STATEMENTS = re.findall(
    r"^\| `([^`]+)` \|", _PAGE.read_text(encoding="utf-8").split("## Which statements Spark plans")[1], re.MULTILINE
)


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_statements_of_the_table_are_not_given_to_spark(statement: str) -> None:
    assert routed(statement) and isinstance(parse(statement), ROUTED)


def test_all_statements_that_are_not_given_to_spark_are_in_the_table() -> None:
    assert {type(parse(s)) for s in _STATEMENTS} == set(ROUTED)
