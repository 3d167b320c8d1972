"""DataFrames written to tables whose keys may move between partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark

pytestmark = [pytest.mark.spark, pytest.mark.newest]

TABLE = {"primary-key": "id", "partition": "dt", "dynamic-bucket.target-row-num": "10"}


def save(df: DataFrame, path: Path, **options: str) -> None:
    df.write.format("paimon").mode("append").options(**options).save(str(path))


def read(spark: SparkSession, path: Path) -> dict[int, str]:
    rows = spark.read.format("paimon").load(str(path)).collect()
    assert len({r.id for r in rows}) == len(rows)
    return {r.id: r.dt for r in rows}


def rows(spark: SparkSession, dt: str, start: int, end: int) -> DataFrame:
    return spark.range(start, end, numPartitions=4).selectExpr("id", f"'{dt}' dt", "id * 2 v")


@pytest.mark.quick
def test_keys_move_when_one_task_sees_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(rows(spark, "a", 0, 40).coalesce(1), path, **TABLE)
    assert read(spark, path) == dict.fromkeys(range(40), "a")
    with pytest.raises(PySparkException, match=r"write it with Table\.write, or df\.coalesce\(1\)\.write"):
        save(rows(spark, "b", 20, 60), path)
    assert read(spark, path) == dict.fromkeys(range(40), "a")
    paimon_spark.load_table(str(path)).write(rows(spark, "b", 20, 60))
    assert read(spark, path) == {**dict.fromkeys(range(20), "a"), **dict.fromkeys(range(20, 60), "b")}
    save(rows(spark, "c", 0, 30).coalesce(1), path)
    assert read(spark, path) == {**dict.fromkeys(range(30), "c"), **dict.fromkeys(range(30, 60), "b")}


def test_a_session_changes_rows_wherever_their_keys_are(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(rows(spark, "a", 0, 40).coalesce(1), path, **TABLE)
    table = paimon_spark.load_table(str(path))
    table.delete("id < 10")
    table.update("id >= 30", {"dt": "'b'"})
    table.merge(
        spark.range(20, 50, numPartitions=3).selectExpr("id AS n"),
        "id = n",
        when_matched_update={"dt": "concat(dt, '!')"},
        when_not_matched_insert={"id": "n", "dt": "'c'"},
    )
    expected = dict.fromkeys(range(10, 20), "a") | dict.fromkeys(range(20, 30), "a!")
    assert read(spark, path) == expected | dict.fromkeys(range(30, 40), "b!") | dict.fromkeys(range(40, 50), "c")
