"""A query that ended is noticed by the session that watches its queries: stopped, failed, or done; and run again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import paimon_spark
from paimon_spark.errors import LineageError
from tests.harness.until import until

pytestmark = [pytest.mark.spark, pytest.mark.streaming, pytest.mark.newest, pytest.mark.timeout(600)]


@pytest.mark.slow
def test_the_end_of_a_query_is_noticed_and_another_takes_over(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"), **{"data-lineage": "true"})
    catalog.create_database("db")
    for name in "ab":
        catalog.create_table(f"db.{name}", "id INT")
    lineage = catalog.lineage
    lineage.watch(spark)
    lineage.watch(spark)  # once is enough

    def put(key: int) -> None:
        catalog.table("db.a").write(pa.table({"id": pa.array([key], pa.int32())}))

    def start(job: str, *, once: bool = False, fail_at: int | None = None) -> StreamingQuery:
        rows = spark.readStream.format("paimon").load(str(tmp_path / "wh" / "db.db" / "a"))
        if fail_at is not None:
            rows = rows.selectExpr(f"if(id = {fail_at}, cast(raise_error('it fails') as int), id) id")
        writer = rows.writeStream.format("paimon").queryName(job).option("checkpointLocation", str(tmp_path / job))
        writer = writer.option("lineage.flush-interval", "0")
        return (writer.trigger(availableNow=True) if once else writer).start(str(tmp_path / "wh" / "db.db" / "b"))

    def has_ended(job: str, wanted: bool) -> None:
        until(lambda: (lineage.jobs()[job].ended_ms is not None) is wanted, lambda: lineage.jobs()[job], poll_s=0.2)

    put(1)
    query = start("old")
    query.processAllAvailable()
    has_ended("old", False)
    put(2)
    query.processAllAvailable()
    query.stop()
    has_ended("old", True)
    old_end = lineage.jobs()["old"].sources["db.a"]
    assert old_end is not None and lineage.unified_version(["db.b"])["db.b"] == lineage.jobs()["old"].sinks["db.b"]

    put(3)
    query = start("new", fail_at=4)
    query.processAllAvailable()
    made = lineage.jobs()["new"].sinks["db.b"]
    assert made is not None
    assert lineage.unified_version(["db.a", "db.b"]) == {"db.a": 3, "db.b": made}
    assert lineage.start_options(["db.b"], "report")["db.b"]["scan.snapshot-id"] == str(made)
    put(4)
    with pytest.raises(StreamingQueryException, match="it fails"):
        query.awaitTermination(120)
    has_ended("new", True)

    assert start("old", once=True).awaitTermination(240)  # it runs again, so both write the table
    has_ended("old", True)
    with pytest.raises(LineageError, match="no unified version"):
        lineage.unified_version(["db.b"])
