"""Keys that the condition of a MERGE states need no lookup."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.spark.merge import MergeJob


@pytest.mark.parametrize(
    ("condition", "column", "expression", "is_stated"),
    [
        ("t.k = s.k", "k", "s.k", True),
        ("`S`.K == `t`.`k` AND t.x = s.y", "k", "s.k", True),
        ("t.`a b` = s.x", "a b", "s.x", True),
        ("t.`a b` = s.x", "ab", "s.x", False),
        ("t.k = s.k", "k", "s.k + 1", False),
        ("t.k = s.k OR t.k = s.j", "k", "s.k", False),
    ],
)
def test_a_key_that_the_condition_of_a_merge_states_need_not_be_looked_at(
    condition: str, column: str, expression: str, is_stated: bool
) -> None:
    nothing: Any = None
    merge = MergeJob(nothing, nothing, condition, (), "t", "s")
    assert merge._is_stated(column, expression) is is_stated
