"""Plain Spark on catalogs whose names are in a JDBC metastore, or on the server of a REST catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.cli.main import main
from paimon_spark.errors import UnsupportedFeatureError
from tests.harness.rest_server import rest_server

pytestmark = [pytest.mark.spark]


@pytest.fixture
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    if getattr(request, "param", "jdbc") == "rest":
        with rest_server(tmp_path) as server:
            yield server.options()
    else:
        yield {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "warehouse": str(tmp_path / "wh")}


@pytest.fixture
def catalog(spark: SparkSession, options: dict[str, str]) -> Iterator[Catalog]:
    yield paimon_spark.attach(spark, name="listed", **options)
    paimon_spark.detach(spark, "listed")


@pytest.mark.parametrize("options", ["jdbc", "rest"], indirect=True)
def test_statements_and_dataframes(spark: SparkSession, catalog: Catalog, options: dict[str, str]) -> None:
    spark.sql("CREATE DATABASE listed.shop")
    spark.sql(
        "CREATE TABLE listed.shop.sales (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')"
    )
    spark.sql("INSERT INTO listed.shop.sales VALUES (1, 'a'), (2, 'b')")
    spark.sql("CREATE TABLE listed.shop.copies AS SELECT * FROM listed.shop.sales")
    spark.table("listed.shop.sales").writeTo("listed.shop.more").create()
    spark.sql("ALTER TABLE listed.shop.more RENAME TO listed.shop.others")
    spark.table("listed.shop.sales").write.format("paimon").options(**options).mode("append").save("shop.saved")
    assert [r.tableName for r in spark.sql("SHOW TABLES IN listed.shop").collect()] == [
        "copies",
        "others",
        "sales",
        "saved",
    ]
    assert catalog.list_tables("shop") == ["copies", "others", "sales", "saved"]
    spark.sql("UPDATE listed.shop.sales SET v = 'B' WHERE id = 2")
    for name in ("copies", "others", "saved"):
        assert spark.table(f"listed.shop.{name}").count() == 2
    rows = spark.read.format("paimon").options(**options).load("shop.sales").orderBy("id").collect()
    assert [tuple(r) for r in rows] == [(1, "a"), (2, "B")]
    spark.sql("DROP TABLE listed.shop.saved")
    assert "saved" not in catalog.list_tables("shop")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("listed.shop.saved").count()


@pytest.mark.parametrize("options", ["jdbc", "rest"], indirect=True)
def test_permanent_views(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE DATABASE listed.shop")
    spark.sql("CREATE TABLE listed.shop.sales (id INT, v STRING)")
    spark.sql("INSERT INTO listed.shop.sales VALUES (1, 'a'), (2, 'b')")
    made = catalog.create_view("shop.big", "SELECT id, count(*) AS n FROM sales WHERE id > 1 GROUP BY id")
    assert [(f.name, str(f.type)) for f in made.row_type] == [("id", "INT"), ("n", "BIGINT NOT NULL")]
    assert [tuple(r) for r in catalog.view("shop.big").to_spark().collect()] == [(2, 1)]
    catalog.view("shop.big").to_spark(spark).createOrReplaceTempView("big")
    try:
        assert spark.sql("SELECT sum(n) FROM big").collect()[0][0] == 1
    finally:
        spark.catalog.dropTempView("big")
    with pytest.raises(Exception, match="nowhere"):
        catalog.create_view("shop.bad", "SELECT * FROM nowhere")
    assert catalog.list_views("shop") == ["big"]


def test_lineage_tables_are_listed(spark: SparkSession, catalog: Catalog) -> None:
    catalog.create_database("shop")
    catalog.lineage.enable(table=True, data=True)
    assert {"catalog_options", "source_job_lineage", "sink_snapshot_lineage"} <= set(catalog.list_tables("paimon"))
    spark.sql("CREATE TABLE listed.shop.sales (id INT)")
    spark.sql("INSERT INTO listed.shop.sales VALUES (1)")
    assert spark.table("listed.paimon.sink_job_lineage").count() == 1


@pytest.mark.parametrize("tokens", ["true", "false"])
def test_every_way_to_write_asks_the_server(spark: SparkSession, tmp_path: Path, tokens: str) -> None:
    with rest_server(tmp_path / "server") as server:
        server.config["data-token.enabled"] = tokens
        catalog = paimon_spark.attach(spark, name="served", **server.options())
        try:
            catalog.create_database("shop")
            catalog.create_table("shop.sales", "id BIGINT, v BIGINT")

            def commits() -> int:
                return sum(path.endswith("/sales/commit") for _, path in server.calls)

            table = catalog.table("shop.sales")
            table.write(spark.range(5).selectExpr("id", "id v"))
            table.delete("id = 1")
            table.update("id = 2", {"v": "9"})
            spark.range(5, 7).selectExpr("id", "id v").writeTo("served.shop.sales").append()
            rows = spark.readStream.table("served.shop.sales").filter("id = 0").selectExpr("id + 10 id", "v")
            query = rows.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
            query.toTable("served.shop.sales").awaitTermination()
            assert commits() == 5
            found = sorted((r.id, r.v) for r in spark.table("served.shop.sales").collect())
            assert found == [(0, 0), (2, 9), (3, 3), (4, 4), (5, 5), (6, 6), (10, 0)]
            assert catalog.table("shop.sales").scan().to_spark(spark).where("v > 4").count() == 3
            assert spark.table("served.shop.`sales$snapshots`").count() == 5
            assert bool(server.tokens) is (tokens == "true")
        finally:
            paimon_spark.detach(spark, "served")


@pytest.mark.parametrize("options", ["rest"], indirect=True)
def test_a_rest_catalog_has_no_directory_for_lineage(catalog: Catalog) -> None:
    with pytest.raises(UnsupportedFeatureError, match="lineage and pipelines of the REST catalog"):
        catalog.lineage.enable(table=True)


def test_the_command_line(catalog: Catalog, options: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    catalog.create_database("shop")
    catalog.create_table("shop.sales", "id INT")
    reach = [word for key, value in options.items() if key != "warehouse" for word in ("--option", f"{key}={value}")]
    named = ["--warehouse", catalog.warehouse, "--table", "shop.sales", "--name", "fix"]
    assert main(["create-branch", *named, *reach]) == 0
    assert [b.name for b in catalog.table("shop.sales").branches()] == ["fix"]
