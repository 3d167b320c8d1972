"""A query as it was read: its text."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.sql.statement import Statement


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """Whatever Spark is to run."""
