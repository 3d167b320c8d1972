"""Statements of Spark's session catalog: refused with what to do instead; temporary views work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql import Row, SparkSession

import paimon_spark

NAME = "of_session_catalog"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("shop")
    catalog.create_table("shop.t", "id INT, v STRING").write(pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}))
    return tmp_path / "wh" / "shop.db" / "t"


@pytest.fixture(autouse=True)
def _no_table_stays(spark: SparkSession) -> Iterator[None]:
    yield
    spark.sql(f"DROP TABLE IF EXISTS {NAME}")


@pytest.mark.parametrize(
    "statement",
    [
        lambda spark, path: spark.sql(f"CREATE TABLE {NAME} USING paimon LOCATION '{path}'"),
        lambda spark, path: spark.sql(f"CREATE TABLE {NAME} USING paimon OPTIONS (path '{path}')"),
        lambda spark, path: spark.sql(f"CREATE TABLE {NAME} USING paimon_py LOCATION '{path}x'"),
        lambda spark, path: spark.catalog.createTable(NAME, source="paimon", path=path),
        lambda spark, path: spark.sql(f"CREATE TABLE {NAME} USING paimon AS SELECT 1 id"),
        lambda spark, path: spark.sql(f"CREATE TABLE {NAME} USING paimon LOCATION '{path}' AS SELECT 1 id"),
        lambda spark, path: spark.range(1).write.format("paimon").mode("append").saveAsTable(NAME),
        lambda spark, path: spark.range(1).writeTo(NAME).using("paimon").create(),
    ],
)
def test_what_spark_asks_for_is_refused_with_what_to_use(
    statement: Callable[[SparkSession, str], Any], spark: SparkSession, table: Path
) -> None:
    with pytest.raises(PySparkException) as raised:
        statement(spark, str(table))
    last = [line for line in str(raised.value).splitlines() if "errors." in line][-1]
    assert "Spark's session catalog" in last
    assert 'paimon_spark.attach(spark, "/warehouse")' in last
    assert not spark.catalog.tableExists(NAME)


def test_a_name_that_spark_registered_unasked_is_refused_and_dropped_without_harm(
    spark: SparkSession, table: Path
) -> None:
    before = sorted(table.rglob("*"))
    spark.sql(f"CREATE TABLE {NAME} (id INT, v STRING) USING paimon LOCATION '{table}'")
    with pytest.raises(PySparkException, match=r"attach.* CREATE TEMPORARY VIEW … USING paimon"):
        spark.table(NAME).collect()
    with pytest.raises(PySparkException, match=r'attach.* insertInto .*df\.write\.format\("paimon"\)\.save\("db\.t"\)'):
        spark.sql(f"INSERT INTO {NAME} VALUES (2, 'b')")
    spark.sql(f"DROP TABLE {NAME}")
    assert sorted(table.rglob("*")) == before


@pytest.mark.parametrize("name", [NAME, f"default.{NAME}", f"spark_catalog.default.{NAME}"])
def test_a_session_with_an_attached_catalog_registers_no_name(spark: SparkSession, table: Path, name: str) -> None:
    paimon_spark.attach(spark, str(table.parents[1]))
    try:
        with pytest.raises(UnsupportedOperationException, match=r"name the table paimon\.db\.t") as raised:
            spark.sql(f"CREATE TABLE {name} (id INT) USING paimon LOCATION '{table}'")
        assert "\n" not in str(raised.value).strip()
        spark.sql(f"CREATE TABLE {name} (id INT) USING parquet")
    finally:
        paimon_spark.detach(spark)
    assert spark.catalog.tableExists(NAME)


def test_a_stream_into_a_table_of_spark_says_start(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    rows = spark.readStream.format("paimon").load(str(table))
    writer = rows.writeStream.format("paimon").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(
        PySparkException, match=r'attach.* toTable, .*df\.writeStream\.format\("paimon"\)\.start\("db\.t"\)'
    ):
        writer.trigger(availableNow=True).toTable(NAME).awaitTermination()


@pytest.mark.quick
def test_temporary_views_read_and_insert(spark: SparkSession, table: Path) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW by_path USING paimon OPTIONS (path '{table}')")
    options = f"path 'shop.t', warehouse '{table.parent.parent}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW by_name (v STRING) USING paimon OPTIONS ({options})")
    assert spark.sql("SELECT * FROM by_path").collect() == [Row(id=1, v="a")]
    assert spark.sql("SELECT * FROM by_name").collect() == [Row(v="a")]
    spark.sql("INSERT INTO by_path VALUES (2, 'b')")
    assert paimon_spark.load_table(str(table)).scan().to_arrow().column("id").to_pylist() == [1, 2]
