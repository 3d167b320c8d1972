"""Spark Declarative Pipelines that read and write tables of an attached catalog."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark import Catalog, load_catalog
from tests.harness.pipeline_project import PipelineProject
from tests.harness.real_tables import read

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
suffix = spark.conf.get("test.suffix", "")

dp.create_streaming_table(f"big{suffix}", table_properties={"primary-key": "id", "bucket": "1"})


@dp.append_flow(target=f"big{suffix}", name="to_big" + suffix.replace("$", "_"))
def to_big():
    return spark.readStream.table("orders").where("amount >= 20").select("id", "amount")


@dp.materialized_view(
    name=f"days{suffix}",
    comment="What days come to",
    partition_cols=["day"],
    table_properties={"primary-key": "day,kind", "bucket": "1"},
)
def days():
    orders = spark.read.table("orders").withColumn("kind", F.lit("all"))
    found = orders.groupBy("day", "kind").agg(F.sum("amount").alias("amount"))
    return found.withColumn("late", F.lit(1)) if suffix else found
"""
SQL = """
CREATE MATERIALIZED VIEW named_in_sql TBLPROPERTIES ('file.format' = 'orc') AS SELECT count(*) AS n FROM orders;
"""
FAILS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
fails = spark.conf.get("test.fails", "no") == "yes"


@F.udf("int")
def checked(number):
    if fails and number > 1:
        raise ValueError(f"wrong number {number}")
    return number


@dp.table
def copied():
    return spark.readStream.table("orders").select(checked("id").alias("id"))


@dp.materialized_view
def computed():
    return spark.read.table("orders").select(checked("id").alias("id"))
"""
IN_FULL = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import paimon_spark

spark = SparkSession.active()
paimon_spark.attach(spark)


@dp.table(name="paimon.shop.copied")
def copied():
    return spark.readStream.table("paimon.shop.orders").select("id", "day")
"""


def project_of(home: Path, files: dict[str, str], **options: Any) -> tuple[PipelineProject, Catalog]:
    project = PipelineProject(home)
    project.write(files, **options)
    catalog = load_catalog(project.warehouse)
    catalog.create_database("shop")
    catalog.create_table("shop.orders", "id INT, day STRING, amount DOUBLE")
    order(catalog, (1, "mon", 10.0), (2, "tue", 20.0))
    return project, catalog


def order(catalog: Catalog, *rows: tuple[int, str, float]) -> None:
    columns = [pa.array(c) for c in zip(*rows, strict=True)]
    table = pa.table({"id": columns[0].cast(pa.int32()), "day": columns[1], "amount": columns[2]})
    catalog.table("shop.orders").write(table)


def commits(catalog: Catalog, name: str) -> list[str]:
    return [s.commit_kind.value for s in catalog.table(f"shop.{name}").snapshots()]


def test_flows_add_new_rows_and_compute_views_anew_on_main_and_on_branches(tmp_path: Path) -> None:
    project, catalog = project_of(tmp_path, {"flows.py": PYTHON, "views.sql": SQL})
    with project.runs() as pipeline:
        assert pipeline.run() is None
        assert read(catalog.table("shop.big")) == [(2, 20.0)]
        assert read(catalog.table("shop.days")) == [("mon", "all", 10.0), ("tue", "all", 20.0)]
        assert read(catalog.table("shop.named_in_sql")) == [(2,)]
        days = catalog.table("shop.days").schema
        assert (days.primary_keys, days.partition_keys) == (("day", "kind"), ("day",))
        assert days.comment == "What days come to"
        assert catalog.table("shop.named_in_sql").schema.options["file.format"] == "orc"

        order(catalog, (3, "tue", 30.0))
        assert pipeline.run() is None
        assert read(catalog.table("shop.big")) == [(2, 20.0), (3, 30.0)]
        assert commits(catalog, "big") == ["APPEND", "APPEND"], "only new rows are read"
        assert read(catalog.table("shop.days")) == [("mon", "all", 10.0), ("tue", "all", 50.0)]
        assert read(catalog.table("shop.named_in_sql")) == [(3,)]
        assert commits(catalog, "days") == ["APPEND", "OVERWRITE", "APPEND"], "the table is the same one"
        assert [f.type.nullable for f in catalog.table("shop.big").schema.fields] == [False, True]

        for name in ("big", "days"):
            catalog.table(f"shop.{name}").create_branch("fix")
        assert pipeline.run({"test.suffix": "$branch_fix"}, full_refresh=True) is None
        assert read(catalog.table("shop.big$branch_fix")) == [(2, 20.0), (3, 30.0)]
        assert read(catalog.table("shop.days$branch_fix")) == [("mon", "all", 10.0, 1), ("tue", "all", 50.0, 1)]
        assert commits(catalog, "big$branch_fix") == ["APPEND", "OVERWRITE", "APPEND"]
        assert read(catalog.table("shop.days")) == [("mon", "all", 10.0), ("tue", "all", 50.0)]
        assert commits(catalog, "big") == ["APPEND", "APPEND"]
    for name in ("orders", "big", "big$branch_fix", "days", "days$branch_fix", "named_in_sql"):
        assert catalog.table(f"shop.{name}").doctor() == []


def test_a_failing_flow_leaves_no_rows_of_its_own(tmp_path: Path) -> None:
    project, catalog = project_of(tmp_path, {"flows.py": FAILS})
    with project.runs() as pipeline:
        assert pipeline.run() is None
        order(catalog, (3, "wed", 30.0))
        error = pipeline.run({"test.fails": "yes", "spark.sql.pipelines.maxFlowRetryAttempts": "0"})
        assert error is not None and "wrong number" in error
        assert read(catalog.table("shop.copied")) == [(1,), (2,)]
        assert commits(catalog, "copied") == ["APPEND"]
        # Spark empties a materialized view before it computes it: the former rows are those of the snapshot before.
        assert read(catalog.table("shop.computed")) == []
        assert commits(catalog, "computed") == ["APPEND", "OVERWRITE"]
        for name in ("copied", "computed"):
            table = catalog.table(f"shop.{name}")
            assert table.doctor() == []
            assert table.remove_orphan_files(datetime.now(UTC), dry_run=True).paths == ()
        catalog.table("shop.computed").rollback_to_as_latest(1)
        assert read(catalog.table("shop.computed")) == [(1,), (2,)]

        assert pipeline.run(full_refresh=True) is None
        assert read(catalog.table("shop.copied")) == [(1,), (2,), (3,)]
        assert read(catalog.table("shop.computed")) == [(1,), (2,), (3,)]
        assert commits(catalog, "copied") == ["APPEND", "OVERWRITE", "APPEND"]


def test_the_command_runs_flows_that_attach_the_catalog_and_name_tables_in_full(tmp_path: Path) -> None:
    project, catalog = project_of(tmp_path, {"flows.py": IN_FULL}, names_catalog=False)
    done = project.command("run", "--spec", "spark-pipeline.yml")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert read(catalog.table("shop.copied")) == [(1, "mon"), (2, "tue")]
    assert catalog.table("shop.copied").doctor() == []
