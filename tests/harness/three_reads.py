"""Reads of attached tables that must agree: by Spark's own readers, by Python through Spark, and as Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from paimon_spark.api.catalog import Catalog
from paimon_spark.spark.session import FILE_READER
from tests.harness.rows import assert_same_rows, rows_of, to_microseconds

PARQUET: Final = "Parquet"
ORC: Final = "ORC"
PYTHON: Final = "Python"
_READER: Final = re.compile(r"\((?:Spark's )?(Parquet|ORC|Python) reader")
_PUSHED: Final = re.compile(r"; row groups where (.*?)\) RuntimeFilters")


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """A setting of the session, for a while."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


def plan_of(frame: DataFrame) -> str:
    """The physical plan. Of classic sessions alone."""
    plan: Any = frame._jdf.queryExecution().executedPlan
    return str(plan().toString())


def readers(frame: DataFrame) -> set[str]:
    """Who reads the tables of a query."""
    return set(_READER.findall(plan_of(frame)))


def skips(frame: DataFrame) -> list[str]:
    """The conditions by which Spark's readers skip row groups, for each table that has some."""
    return _PUSHED.findall(plan_of(frame))


@dataclass(frozen=True)
class ThreeReads:
    """Tables of database `db` of an attached catalog, read in three ways."""

    spark: SparkSession
    catalog: Catalog

    def check(self, table: str, columns: Sequence[str] = (), where: str = "true") -> set[str]:
        """Compare the rows of a read; returns who read them where Spark's readers may."""
        names = ", ".join(f"`{c}`" for c in columns) or "*"
        sql = f"SELECT {names} FROM paimon.db.`{table}` WHERE {where}"
        found = self.spark.sql(sql)
        got = rows_of(found.toArrow())
        with setting(self.spark, FILE_READER, "false"):
            frame = self.spark.sql(sql)
            assert readers(frame) <= {PYTHON}, plan_of(frame)
            through_python = rows_of(frame.toArrow())
        scan = self.catalog.table(f"db.{table}").scan(list(columns) or None, where=None if where == "true" else where)
        want = to_microseconds(rows_of(scan.to_arrow()))
        assert_same_rows(want, through_python, about=f"Python: {sql}")
        assert_same_rows(want, got, about=f"{readers(found)}: {sql}")
        return readers(found)

    def matching(self, table: str, conditions: Sequence[str], key: str = "id") -> dict[str, list[Any]]:
        """The keys of the rows that each condition lets through, read by Spark's readers alone."""
        parts = [f"SELECT {n} AS c, `{key}` AS k FROM paimon.db.`{table}` WHERE {w}" for n, w in enumerate(conditions)]
        sql = " UNION ALL ".join(parts)
        frame = self.spark.sql(sql)
        assert readers(frame) <= {PARQUET, ORC}, plan_of(frame)
        got = self._by_condition(frame, conditions)
        with setting(self.spark, FILE_READER, "false"):
            frame = self.spark.sql(sql)
            assert readers(frame) <= {PYTHON}, plan_of(frame)
            assert self._by_condition(frame, conditions) == got
        scans = {w: self.catalog.table(f"db.{table}").scan([key], where=w).to_arrow().column(key) for w in conditions}
        assert {w: sorted(column.to_pylist(), key=str) for w, column in scans.items()} == got
        return got

    def _by_condition(self, frame: DataFrame, conditions: Sequence[str]) -> dict[str, list[Any]]:
        found: dict[int, list[Any]] = {n: [] for n in range(len(conditions))}
        for row in frame.collect():
            found[row.c].append(row.k)
        return {w: sorted(found[n], key=str) for n, w in enumerate(conditions)}
