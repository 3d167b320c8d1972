"""The picture of PIP-5 with Spark's own queries: tables 1 to 6, and two ETLs whose results are read together."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.chaos.lineage_checks import check, check_unified
from tests.harness.pipelines import Pipeline, picture
from tests.harness.spark_pipelines import run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.streaming, pytest.mark.newest, pytest.mark.timeout(900)]

LIMITS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
"""Whether sources may limit their micro-batches."""


def test_two_etls_of_the_same_tables_are_read_at_their_unified_version(spark: SparkSession, tmp_path: Path) -> None:
    jobs = picture(**({} if LIMITS else {"read": {}}))
    pipeline = Pipeline(str(tmp_path / "wh"), tmp_path, jobs).make()
    for turn in range(2):
        for root in pipeline.roots:
            pipeline.write(root, f"{turn}")
            pipeline.write(root, f"{turn}.")
        for job in jobs:
            run(spark, pipeline, job)
    for root in pipeline.roots:
        pipeline.write(root, "last")
    for name in ("etl 0", "etl 1"):  # the other ETL is behind
        run(spark, pipeline, pipeline.job(name))
    pipeline.catalog.lineage.sync()
    figures = check(pipeline)
    assert figures["proofs"] >= (20 if LIMITS else 12)
    found = check_unified(pipeline)
    heads = {f"db.{t}": pipeline.data_snapshots(t)[-1].id for t in ("t5", "t6")}
    assert found["db.t5"] < heads["db.t5"]
    assert found["db.t6"] >= heads["db.t6"]  # it may be a compaction of the newest rows

    def read(table: str, **options: int) -> DataFrame:
        rows = spark.read.format("paimon").options(**options).load(pipeline.url(table))
        return rows.where("source IN ('t2', 't3')").select("id", "source", "seen", "root")

    five, six = (read(t, **{"scan.snapshot-id": found[f"db.{t}"]}) for t in ("t5", "t6"))
    assert five.count() == 24
    assert five.exceptAll(six).count() == six.exceptAll(five).count() == 0
    assert read("t5").exceptAll(read("t6")).count() == 6
