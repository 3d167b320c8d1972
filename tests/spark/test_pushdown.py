"""Spark's filter pushdown, off (the default) and on: the same rows, also of a DataFrame that is used again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import datasource as ds
from pyspark.sql import functions as fn

from tests.harness.golden import golden_path

pytestmark = pytest.mark.spark
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@contextmanager
def pushdown(spark: SparkSession, on: bool) -> Iterator[None]:
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, str(on).lower())
    try:
        yield
    finally:
        spark.conf.set(PUSHDOWN, str(before))


QUERIES = [
    ("append_all_types_parquet", "id > 1"),
    ("append_all_types_parquet", "f_bool"),
    ("append_all_types_parquet", "not f_bool"),
    ("append_all_types_parquet", "f_tiny = 127 or f_tiny is null"),
    ("append_all_types_parquet", "f_double = double('NaN')"),
    ("append_all_types_parquet", "f_double > 0 and f_float < 3"),
    ("append_all_types_parquet", "f_dec38 <> 0"),
    ("append_all_types_parquet", "f_dec9 in (1, 2.5, null)"),
    ("append_all_types_parquet", "f_char = 'ab'"),
    ("append_all_types_parquet", "f_string like 'a%'"),
    ("append_all_types_parquet", "f_string like '%a%' and f_varchar is not null"),
    ("append_all_types_parquet", "f_date >= date'1970-01-01'"),
    ("append_all_types_parquet", "f_time > 0"),
    ("append_all_types_parquet", "f_ts6 < timestamp_ntz'2000-01-01 00:00:00'"),
    ("append_all_types_parquet", "f_ts9 >= timestamp_ntz'1970-01-01 00:00:00'"),
    ("append_all_types_parquet", "f_ltz3 > timestamp'1970-01-01 00:00:00'"),
    ("append_all_types_parquet", "f_bytes = X'00'"),
    ("append_all_types_parquet", "f_row is null"),
    ("append_all_types_parquet", "f_string <=> null"),
    ("append_all_types_parquet", "f_int <=> 2147483647"),
    ("append_partitioned_escaped", "true"),
    ("branches", "k = 1"),
    ("branches", "k = 1 and v = 'x'"),
    ("pk_deletion_vectors", "true"),
    ("pk_partial_update", "true"),
]


ON_OLDEST = (
    "id > 1",
    "f_bool",
    "f_dec9 in (1, 2.5, null)",
    "f_string like 'a%'",
    "f_string <=> null",
    "k = 1 and v = 'x'",
)
EACH_QUERY = [pytest.param(*q, marks=() if q[1] in ON_OLDEST else pytest.mark.newest) for q in QUERIES]
MERGED = [
    "pk_deletion_vectors",
    *(pytest.param(t, marks=pytest.mark.newest) for t in ("pk_partial_update", "pk_aggregation", "pk_first_row")),
]


@pytest.mark.parametrize(("table", "condition"), EACH_QUERY)
def test_a_condition_gives_the_same_rows_pushed_and_not(spark: SparkSession, table: str, condition: str) -> None:
    def read() -> list[str]:
        df = spark.read.format("paimon").load(str(golden_path(table)))
        return sorted(map(str, df.where(condition).toArrow().to_pylist()))

    with pushdown(spark, False):
        without = read()
    with pushdown(spark, True):
        assert read() == without


@pytest.mark.parametrize("table", MERGED)
def test_conditions_on_merged_rows_hold_after_the_merge(spark: SparkSession, table: str) -> None:
    path = str(golden_path(table))
    with pushdown(spark, False):
        df = spark.read.format("paimon").load(path)
        found = df.collect()
        conditions = [(name, row[name]) for name in df.columns for row in found[:3] if isinstance(row[name], int | str)]
        expected = {(n, v): sorted(str(r) for r in found if r[n] is not None and r[n] != v) for n, v in conditions}
    with pushdown(spark, True):
        df = spark.read.format("paimon").load(path)
        for name, value in conditions:
            got = sorted(str(r) for r in df.where(fn.col(name) != fn.lit(value)).collect())
            assert got == expected[name, value], (name, value)


@pytest.mark.parametrize("on", [False, True], ids=["off", "on"])
def test_a_dataframe_may_be_used_again_after_a_filter(spark: SparkSession, on: bool) -> None:
    with pushdown(spark, on):
        df = spark.read.format("paimon").load(str(golden_path("append_all_types_parquet"))).select("id")
        ids = sorted(r.id for r in df.collect())
        assert len(ids) > 2
        first, last = df.where(f"id = {ids[0]}"), df.where(f"id = {ids[-1]}")
        assert [r.id for r in first.collect()] == ids[:1]
        assert sorted(r.id for r in df.collect()) == ids
        assert sorted(r.id for r in first.union(last).collect()) == [ids[0], ids[-1]]
        assert first.join(df.withColumnRenamed("id", "other")).count() == len(ids)


class _Numbers(ds.DataSourceReader):
    """The numbers below ten; it takes filters as PySpark's documentation has it."""

    def __init__(self) -> None:
        self.above = -1

    def pushFilters(self, filters: list[ds.Filter]) -> Iterator[ds.Filter]:
        for f in filters:
            if isinstance(f, ds.GreaterThan):
                self.above = max(self.above, f.value)
            else:
                yield f

    def read(self, partition: ds.InputPartition) -> Iterator[tuple[int]]:
        return ((n,) for n in range(self.above + 1, 10))


class _NumbersSource(ds.DataSource):
    @classmethod
    def name(cls) -> str:
        return "numbers_below_ten"

    def schema(self) -> str:
        return "n INT"

    def reader(self, schema: Any) -> _Numbers:
        return _Numbers()


def test_spark_gives_a_filter_that_a_source_took_to_later_queries_too(spark: SparkSession) -> None:
    """Why this source takes none. When this fails Spark has mended it, and filters may be taken again."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(_NumbersSource)
    with pushdown(spark, True):
        df = spark.read.format("numbers_below_ten").load()
        assert [df.count(), df.where("n > 6").count(), df.count()] == [10, 3, 3]


@pytest.mark.quick
def test_a_user_schema_with_another_type_is_filtered_by_spark(spark: SparkSession) -> None:
    path = str(golden_path("branches"))
    for on in (False, True):
        with pushdown(spark, on):
            df = spark.read.format("paimon").schema("k BIGINT").load(path)
            assert df.where("k = 1").count() == 1
            assert df.where(f"k < {2**40}").count() == df.count()
