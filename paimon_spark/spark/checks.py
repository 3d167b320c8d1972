"""Run checks, SQL or functions of DataFrames, on tables at versions. User's process."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import InvalidInputError
from paimon_spark.spark.dataframe import dataframe
from paimon_spark.spark.session import our_errors, session_or_new, temporary_views
from paimon_spark.text import sql_row
from paimon_spark.types import quoted
from paimon_spark.versioning.checks import CheckResult, Checks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.api.table import Table

_SAMPLE: Final = 5
"""Offending rows that are shown."""
_PLACE: Final = re.compile(r"\{([\w$.]+)\}")
_QUERY: Final = re.compile(r"\s*(\(\s*)*(select|with|from|values|table)\b", re.IGNORECASE)
_WRITE: Final = re.compile(
    r"\b(insert\s+(into|overwrite)|merge\s+into|delete\s+from|update\s+\S+\s+set)\b", re.IGNORECASE
)
_ONLY: Final = "table"
"""Stands for the table where there is only one."""


def run_checks(checks: Checks, tables: Mapping[str, Table], session: SparkSession | None) -> list[CheckResult]:
    """Run each check on the tables, opened at their versions; as `Table.check`.

    In SQL, `{db.t}` stands for a table, and `{table}` for the only one. A function gets the DataFrame of the only
    table, or a mapping of names to DataFrames where there are several.

    Raises:
        InvalidInputError: a check is not a query, or names a table that is not among these; nothing was run.
        pyspark.errors.AnalysisException: Spark's error about the SQL of a check.
    """
    for name, check in checks.items():
        if isinstance(check, str):
            _check_query(name, check, tables)
    spark = session_or_new(session)
    frames = {name: dataframe(table.scan(), spark) for name, table in tables.items()}
    versions = {name: str(table) for name, table in tables.items()}
    results = []
    with our_errors(), temporary_views(frames.items()) as views:
        named = dict(zip(frames, map(quoted, views), strict=True))
        for name, check in checks.items():
            started = time.monotonic()
            found = _offending(name, check, frames, named, spark)
            rows = found.limit(_SAMPLE + 1).collect()
            count = len(rows) if len(rows) <= _SAMPLE else found.count()
            used = _used(check, versions)
            sample = tuple(sql_row(dict(zip(found.columns, row, strict=True))) for row in rows[:_SAMPLE])
            results.append(CheckResult(name, count, sample, used, time.monotonic() - started))
    return results


def _offending(
    name: str, check: Any, frames: Mapping[str, DataFrame], named: Mapping[str, str], spark: SparkSession
) -> DataFrame:
    if isinstance(check, str):
        only = next(iter(named.values()))
        return spark.sql(_PLACE.sub(lambda m: only if m[1] == _ONLY and _ONLY not in named else named[m[1]], check))
    given = next(iter(frames.values())) if len(frames) == 1 else frames
    found = check(given)
    if not hasattr(found, "collect"):
        raise InvalidInputError(f"check {name!r} returned {found!r}: expected a DataFrame of the offending rows")
    return found  # type: ignore[no-any-return]


def _used(check: Any, versions: Mapping[str, str]) -> dict[str, str]:
    """The tables that a check looks at."""
    if not isinstance(check, str) or len(versions) == 1:
        return dict(versions)
    places = set(_PLACE.findall(check))
    return {name: version for name, version in versions.items() if name in places}


def _check_query(name: str, sql: str, tables: Mapping[str, Table]) -> None:
    known = {*tables, *((_ONLY,) if len(tables) == 1 else ())}
    shown = " or ".join(f"{{{table}}}" for table in sorted(known))
    if not _QUERY.match(sql) or _WRITE.search(sql):
        raise InvalidInputError(f"check {name!r} is not a query: {sql.strip()[:100]!r}; write one that reads {shown}")
    places = set(_PLACE.findall(sql))
    if unknown := sorted(places - known):
        raise InvalidInputError(
            f"check {name!r} names {{{unknown[0]}}}, which is not checked here; it may name {shown}"
        )
    if not places:
        raise InvalidInputError(
            f"check {name!r} names no table; write {shown} where it reads the rows, so that it reads the version to be "
            "published"
        )
