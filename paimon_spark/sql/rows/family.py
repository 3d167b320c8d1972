"""What this family gives to `parse` and `execute`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.sql.grammar.write import (
    read_copy,
    read_delete,
    read_from,
    read_insert,
    read_load,
    read_truncate,
    read_update,
    read_with,
)
from paimon_spark.sql.grammar.merge_into import read_merge
from paimon_spark.sql.grammar.write import Delete, Insert, Merge, Refused, Truncate, Update
from paimon_spark.sql.statement import Family

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.sql.session import Session


def _late(module: str, name: str) -> Callable[[Session, Any], DataFrame | None]:
    """A runner whose module is loaded when it runs: reading statements needs no Spark."""

    def run(session: Session, statement: Any) -> DataFrame | None:
        runner = getattr(import_module(f"paimon_spark.sql.rows.{module}"), name)
        result: DataFrame | None = runner(session, statement)
        return result

    return run


FAMILY: Final = Family(
    readers={
        ("INSERT",): read_insert,
        ("WITH",): read_with,
        ("FROM",): read_from,
        ("DELETE",): read_delete,
        ("UPDATE",): read_update,
        ("MERGE",): read_merge,
        ("TRUNCATE", "TABLE"): read_truncate,
        ("COPY", "INTO"): read_copy,
        ("LOAD", "DATA"): read_load,
    },
    runners={
        Insert: _late("run_insert", "run_insert"),
        Delete: _late("run_change", "run_delete"),
        Update: _late("run_change", "run_update"),
        Truncate: _late("run_change", "run_truncate"),
        Merge: _late("run_merge", "run_merge"),
        Refused: _late("run_change", "run_refused"),
    },
)
