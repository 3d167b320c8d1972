"""catalog.lineage beside real jobs: what streams recorded, jobs that start from it, answers as Spark tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import Catalog
from tests.harness.real_tables import put

pytestmark = [pytest.mark.spark, pytest.mark.streaming, pytest.mark.newest]


def run(catalog: Catalog, frame: DataFrame, sink: str, job: str, checkpoints: Path) -> None:
    """One run of a streaming job, until nothing is new."""
    writer = frame.writeStream.format("paimon").queryName(job).option("checkpointLocation", str(checkpoints / job))
    query = writer.trigger(availableNow=True).start(catalog.table(sink).location)
    try:
        query.awaitTermination()
    finally:
        query.stop()


def source(spark: SparkSession, catalog: Catalog, name: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("paimon").option("warehouse", catalog.warehouse)
    return reader.options(**options).load(name)


def keys(frame: DataFrame) -> list[int]:
    return sorted(row.k for row in frame.select("k").collect())


@pytest.mark.slow
def test_jobs_start_from_the_unified_version(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("db")
    for name in ("src", "left", "right", "joined"):
        catalog.create_table(f"db.{name}", "k BIGINT")
    lineage = catalog.lineage
    lineage.enable()
    for sink, new in (("left", (1, 2)), ("right", ()), ("left", (3,))):
        if new:
            put(catalog.table("db.src"), *new)
        run(catalog, source(spark, catalog, "db.src"), f"db.{sink}", f"to-{sink}", tmp_path)

    assert lineage.unified_version(["db.left", "db.right"]) == {"db.left": 1, "db.right": 1}
    assert lineage.upstream("db.left", snapshot=2).snapshots == {"db.src": 2}

    batch = lineage.start_options(["db.left", "db.right"], "report", streaming=False)
    reader = spark.read.format("paimon").option("warehouse", catalog.warehouse)
    assert keys(reader.options(**batch["db.left"]).load("db.left")) == [1, 2]

    starts = lineage.start_options(["db.left", "db.right"], "join")
    assert starts["db.left"] == {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1", "lineage.job": "join"}
    run(catalog, source(spark, catalog, "db.left", **starts["db.left"]), "db.joined", "join", tmp_path)
    # The snapshot whole, and then what came after it: 3 has come by now.
    assert keys(catalog.table("db.joined").scan().to_spark(spark)) == [1, 2, 3]
    assert lineage.jobs()["join"].start == {"db.left": 1, "db.right": 1}
    assert lineage.jobs()["join"].query_id
    assert set(lineage.upstream("db.joined").snapshots) == {"db.left", "db.src"}
    assert [n.name for n in lineage.graph("db.joined").nodes if n.kind == "job"] == ["join", "to-left"]


def test_answers_are_spark_tables_and_showing_them_runs_no_job(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("db")
    for name in ("a", "b"):
        catalog.create_table(f"db.{name}", "k BIGINT")
    catalog.lineage.enable()
    put(catalog.table("db.a"), 1)
    job = {"lineage.job": "copy"}
    catalog.table("db.b", **job).write(catalog.table("db.a", **job).scan().to_arrow())

    found = catalog.lineage.upstream("db.b", snapshot=1)
    rows = found.to_spark(spark).where("kind = 'table'").collect()
    assert [(r.name, r.snapshot, list(r.path)) for r in rows] == [("db.a", 1, ["db.b", "copy", "db.a"])]
    impact = catalog.lineage.impact("db.a", snapshot=1).to_spark(spark)
    assert [(r.name, list(r.snapshots)) for r in impact.where("depth = 1").collect()] == [("db.b", [1])]
    assert catalog.lineage.jobs().to_spark().count() == 2
    assert catalog.lineage.status().to_spark(spark).collect()[0].data is True
    empty = catalog.lineage.upstream("db.a").to_spark(spark)
    assert empty.columns == ["kind", "name", "warehouse", "depth", "snapshot", "path"] and empty.count() == 0

    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    assert "db.a" in found._repr_html_() and "flowchart" in catalog.lineage.graph()._repr_html_()
    assert set(tracker.getJobIdsForGroup(None)) == before
