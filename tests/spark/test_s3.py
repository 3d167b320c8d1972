"""A warehouse on S3 in a classic session: every front door, with credentials in the options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.cli.main import main
from tests.harness.s3_server import make_bucket, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.s3, pytest.mark.newest]


@pytest.fixture
def s3_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        make_bucket(options, "lake")
        yield options


def test_a_table_is_corrected_on_a_branch(spark: SparkSession, s3_options: dict[str, str], tmp_path: Path) -> None:
    paimon_spark.configure_session(spark)
    catalog = paimon_spark.load_catalog("s3://lake/wh", **s3_options)
    catalog.sql("CREATE DATABASE shop")
    catalog.sql("CREATE TABLE shop.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    catalog.sql("CREATE TABLE shop.copy (id INT, v STRING)")
    table, copy = "s3://lake/wh/shop.db/t", "s3://lake/wh/shop.db/copy"

    rows = spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b'), (3, 'wrong') AS t(id, v)")
    rows.write.format("paimon").options(**s3_options).mode("append").save(table)
    catalog.sql("ALTER TABLE shop.t CREATE BRANCH fix")
    catalog.sql("UPDATE shop.`t$branch_fix` SET v = 'c' WHERE id = 3")
    fixed = spark.read.format("paimon").options(**s3_options).option("branch", "fix").load(table)
    assert {tuple(r) for r in fixed.collect()} == {(1, "a"), (2, "b"), (3, "c")}
    assert catalog.sql("SELECT v FROM shop.t WHERE id = 3").collect() == [("wrong",)]

    catalog.table("shop.t").merge_branch("fix", if_main_moved="replace")
    (
        spark.readStream.format("paimon").options(**s3_options).load(table)
        .writeStream.format("paimon").options(**s3_options)
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start(copy)
    ).awaitTermination()  # fmt: skip
    read = catalog.sql("SELECT * FROM shop.copy ORDER BY id").collect()
    assert [tuple(r) for r in read] == [(1, "a"), (2, "b"), (3, "c")]
    assert catalog.table("shop.t").doctor() == []


def test_a_stream_of_an_attached_catalog(spark: SparkSession, s3_options: dict[str, str], tmp_path: Path) -> None:
    paimon_spark.attach(spark, "s3://lake/attached", name="lake", **s3_options)
    try:
        spark.sql("CREATE DATABASE lake.shop")
        spark.sql("CREATE TABLE lake.shop.t AS SELECT 1 id")
        spark.sql("CREATE TABLE lake.shop.copy (id INT)")
        writer = spark.readStream.table("lake.shop.t").writeStream.trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "c")).toTable("lake.shop.copy").awaitTermination()
        assert [r.id for r in spark.table("lake.shop.copy").collect()] == [1]
    finally:
        paimon_spark.detach(spark, "lake")


def test_the_command_line_runs_sql_there(
    spark: SparkSession, s3_options: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    paimon_spark.load_catalog("s3://lake/wh", **s3_options).create_database("db")
    told = [word for key, value in s3_options.items() for word in ("-o", f"{key}={value}")]
    statements = (
        "CREATE TABLE db.t (id INT); INSERT INTO db.t VALUES (1); ALTER TABLE db.t CREATE TAG made; SHOW TAGS db.t"
    )
    assert main(["sql", statements, "--json", "--warehouse", "s3://lake/wh", *told]) == 0
    assert [row["tag"] for row in json.loads(capsys.readouterr().out)] == ["made"]
