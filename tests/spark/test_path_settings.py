"""`format("paimon")` with a path follows the settings of the session, as named tables do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import BranchNotFoundError, InvalidOptionError, UnsupportedFeatureError

pytestmark = [pytest.mark.spark, pytest.mark.newest]
PREFIX = "spark.paimon."


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[Catalog]:
    """`shop.raw` with a branch `fix`, and `shop.other` without."""
    made = paimon_spark.attach(spark, str(tmp_path / "wh"))
    made.create_database("shop")
    for name in ("raw", "other"):
        table = made.create_table(f"shop.{name}", "id BIGINT, v STRING")
        table.write(pa.table({"id": [1], "v": ["main"]}))
    made.table("shop.raw").create_branch("fix")
    made.table("shop.raw").branch("fix").write(pa.table({"id": [2], "v": ["fix"]}))
    yield made
    for key in [k for k, _ in _all(spark) if k.startswith((PREFIX, "spark.wap."))]:
        spark.conf.unset(key)
    paimon_spark.detach(spark)


def _all(spark: SparkSession) -> list[tuple[str, str]]:
    return list(spark.conf.getAll.items())


def path(catalog: Catalog, name: str) -> str:
    return catalog.table(f"shop.{name}").location


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def rows(spark: SparkSession, *values: int) -> DataFrame:
    return spark.createDataFrame([(v, "new") for v in values], "id BIGINT, v STRING")


@pytest.mark.quick
def test_reads_and_writes_of_a_path_go_to_the_branch_of_the_session(catalog: Catalog, spark: SparkSession) -> None:
    raw, other = path(catalog, "raw"), path(catalog, "other")
    spark.conf.set(PREFIX + "branch", "fix")
    assert ids(spark.read.format("paimon").load(raw)) == [1, 2]
    assert ids(spark.read.load(raw, format="paimon")) == [1, 2]
    assert ids(spark.read.format("paimon").option("path", raw).load()) == [1, 2]
    assert ids(spark.read.format("paimon").load(other)) == [1]
    assert ids(spark.read.format("paimon").option("branch", "main").load(raw)) == [1]
    assert ids(spark.read.format("paimon").load(raw + "$branch_main")) == [1]
    rows(spark, 3).write.format("paimon").mode("append").save(raw)
    assert sorted(catalog.table("shop.raw").branch("main").scan().to_arrow()["id"].to_pylist()) == [1]
    with pytest.raises(BranchNotFoundError, match=r"has no branch 'fix', which spark\.paimon\.branch names"):
        rows(spark, 4).write.format("paimon").mode("append").save(other)
    spark.conf.unset(PREFIX + "branch")
    assert ids(spark.read.format("paimon").load(raw)) == [1]
    assert ids(spark.read.format("paimon").load(other)) == [1]
    assert ids(spark.read.format("paimon").option("branch", "fix").load(raw)) == [1, 2, 3]


def test_a_write_creates_the_branch_where_the_session_says_so(catalog: Catalog, spark: SparkSession) -> None:
    other = path(catalog, "other")
    spark.conf.set("spark.wap.branch", "fix")
    spark.conf.set(PREFIX + "branch.create", "true")
    rows(spark, 4).write.format("paimon").mode("append").save(other)
    assert ids(spark.read.format("paimon").load(other)) == [1, 4]
    spark.conf.unset("spark.wap.branch")
    assert ids(spark.read.format("paimon").load(other)) == [1]


def test_streams_follow_the_settings(catalog: Catalog, spark: SparkSession, tmp_path: Path) -> None:
    raw, new = path(catalog, "raw"), str(tmp_path / "wh" / "shop.db" / "made")
    spark.conf.set(PREFIX + "branch", "fix")
    spark.conf.set(PREFIX + "write-only", "true")
    stream = spark.readStream.format("paimon").load(raw)
    query = (
        stream.writeStream.format("paimon")
        .option("checkpointLocation", str(tmp_path / "check"))
        .trigger(availableNow=True)
        .start(new)
    )
    query.awaitTermination()
    assert ids(spark.read.format("paimon").load(new)) == [1, 2]
    assert "write-only" not in catalog.table("shop.made").schema.options
    assert catalog.table("shop.made").branches() == []


def test_other_settings_are_options_too_and_those_of_the_reader_win(catalog: Catalog, spark: SparkSession) -> None:
    raw = path(catalog, "raw")
    rows(spark, 5).write.format("paimon").mode("append").save(raw)
    spark.conf.set(PREFIX + "scan.snapshot-id", "1")
    assert ids(spark.read.format("paimon").load(raw)) == [1]
    assert ids(spark.read.format("paimon").option("versionAsOf", "2").load(raw)) == [1, 5]
    spark.conf.unset(PREFIX + "scan.snapshot-id")
    spark.conf.set(PREFIX + "paimon.shop.raw.scan.snapshot-id", "1")
    assert ids(spark.read.format("paimon").load(raw)) == [1]
    assert ids(spark.read.format("paimon").load(path(catalog, "other"))) == [1]
    spark.conf.unset(PREFIX + "paimon.shop.raw.scan.snapshot-id")
    spark.conf.set(PREFIX + "scan.snapshot-ids", "1")
    with pytest.raises(InvalidOptionError, match=r"did you mean 'scan\.snapshot-id'"):
        spark.read.format("paimon").load(raw)


def test_times_are_those_of_the_session(catalog: Catalog, spark: SparkSession) -> None:
    raw = path(catalog, "raw")
    made_ms = catalog.table("shop.raw").snapshots()[0].time_ms
    rows(spark, 6).write.format("paimon").mode("append").save(raw)
    zone = "spark.sql.session.timeZone"
    before = str(spark.conf.get(zone))
    try:
        spark.conf.set(zone, "Asia/Tokyo")
        text = f"{datetime.fromtimestamp((made_ms + 1) / 1000, ZoneInfo('Asia/Tokyo')):%Y-%m-%d %H:%M:%S.%f}"
        assert ids(spark.read.format("paimon").option("timestampAsOf", text).load(raw)) == [1]
    finally:
        spark.conf.set(zone, before)


def test_names_that_differ_in_case_are_not_written(catalog: Catalog, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(UnsupportedFeatureError, match=r"spark\.sql\.caseSensitive = true"):
            rows(spark, 4).write.format("paimon").mode("append").save(path(catalog, "raw"))
        assert ids(spark.read.format("paimon").load(path(catalog, "raw"))) == [1]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
