"""Tests of statements that do not go through Spark Connect, each with the reason.

A test of a statement that Connect refuses is not among them: it goes through that door and checks the refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIMITS: Final[Mapping[str, str]] = {
    "test_sql_messages.py::test_a_column_that_is_unknown_is_planned_once": (
        "counts calls of the classic `SparkSession.sql`; test_connect.py counts those of Connect"
    ),
    "test_sql_messages.py::test_plans_show_the_names_of_tables": (
        "DataFrames stand in place of tables, so plans have no names of them; test_connect.py looks at their aliases"
    ),
    "test_sql_shows.py::test_rows_of_statements_need_no_job": "the status of jobs is in the JVM of a classic session",
}
"""By file and test, with or without parameters."""


def limit_of(node_id: str) -> str | None:
    """Why a test does not go through Spark Connect, by its id; None if it does."""
    name = node_id.rpartition("/")[2].partition("[")[0]
    return LIMITS.get(name)
