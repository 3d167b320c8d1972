"""System tables through format("paimon"): the same rows as in Arrow, filters, branches, versions."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.system_tables.registry import NAMES
from tests.harness.golden import golden_path
from tests.harness.rows import assert_same_rows, rows_of, to_microseconds

pytestmark = [pytest.mark.spark, pytest.mark.newest]

BRANCHES = str(golden_path("branches"))
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["false", "true"], ids=["spark filters", "filters pushed"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    before = spark.conf.get(PUSHDOWN, "false")
    assert before is not None
    spark.conf.set(PUSHDOWN, request.param)
    yield spark
    spark.conf.set(PUSHDOWN, before)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with a tag, a branch, a deleted row and ids of rows."""
    catalog = paimon_spark.load_catalog(warehouse=str(tmp_path_factory.mktemp("wh")))
    catalog.create_database("db")
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string()), ("ts", pa.timestamp("ns"))])
    options = {"bucket": "2", "rowkind.field": "v", "write-only": "true"}
    catalog.create_table("db.t", schema, primary_keys=["k"], options=options)
    t = catalog.table("db.t")
    t.write(pa.table({"k": [1, 2, 3], "v": ["+I"] * 3, "ts": pa.array([1, None, 3], pa.timestamp("ns"))}))
    t.create_tag("v1")
    t.create_branch("fix", tag="v1")
    t.write(pa.table({"k": [2], "v": ["-D"], "ts": pa.array([None], pa.timestamp("ns"))}))
    return t.location


def load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("paimon").options(**{"time-zone": "UTC", **options}).load(path)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "row_tracking"])
def test_spark_shows_what_arrow_shows(spark: SparkSession, path: str, name: str) -> None:
    frame = load(spark, f"{path}${name}")
    scan = paimon_spark.load_table(f"{path}${name}", **{"time-zone": "UTC"}).scan()
    assert frame.columns == list(scan.row_type.names)
    assert [f.nullable for f in frame.schema] == [f.type.nullable for f in scan.row_type]
    want = to_microseconds(rows_of(scan.to_arrow()))
    assert_same_rows(want, to_microseconds(rows_of(frame.toArrow())), about=name)


@pytest.mark.quick
def test_filters_columns_and_joins(session: SparkSession, path: str) -> None:
    frame = load(session, f"{path}$audit_log")
    assert [tuple(r) for r in frame.where("rowkind = '-D'").select("k", "rowkind").collect()] == [(2, "-D")]
    assert [r.k for r in frame.where("k > 1 and rowkind <> '-D'").collect()] == [3]
    files = load(session, f"{path}$FILES", columns="file_path,record_count,level", where="record_count > 0")
    [total] = files.where("level = 0").agg({"record_count": "sum"}).collect()
    assert total[0] == 4
    assert load(session, f"{path}$snapshots").where("snapshot_id >= 2").count() == 1
    assert load(session, f"{path}$snapshots").where("commit_time < timestamp_ntz'1999-01-01 00:00:00'").count() == 0
    tags = load(session, f"{path}$tags").alias("t")
    snapshots = load(session, f"{path}$snapshots").alias("s")
    joined = tags.join(snapshots, "snapshot_id").where("tag_name = 'v1'").select("t.branches", "s.commit_kind")
    assert [tuple(r) for r in joined.collect()] == [(["fix"], "APPEND")]


@pytest.mark.quick
def test_branches_versions_and_a_declared_schema(spark: SparkSession, path: str) -> None:
    assert load(spark, f"{path}$branch_fix$snapshots").count() == 1
    assert load(spark, f"{path}$files").count() > load(spark, f"{path}$files", versionAsOf="v1").count()
    declared = spark.read.format("paimon").schema("RECORD_COUNT BIGINT, file_path STRING").load(f"{path}$files")
    assert declared.columns == ["RECORD_COUNT", "file_path"]
    assert sum(r.RECORD_COUNT for r in declared.collect()) == 4
    empty = load(spark, f"{path}$branch_fix$consumers")
    assert empty.collect() == []


def test_a_scan_becomes_a_dataframe(spark: SparkSession, path: str) -> None:
    scan = paimon_spark.load_table(f"{path}$branch_fix$tags").scan(columns=["tag_name"], where="tag_name like 'v%'")
    assert [r.tag_name for r in scan.to_spark(spark).collect()] == ["v1"]


@pytest.mark.quick
def test_errors_name_the_system_table(spark: SparkSession, path: str) -> None:
    with pytest.raises(PySparkException, match=r"no system table 'filez'; did you mean 'files'"):
        load(spark, f"{path}$filez")
    with pytest.raises(PySparkException, match=r"\$files is a system table, which is only read"):
        load(spark, f"{path}$files").write.format("paimon").mode("append").save(f"{path}$files")
    with pytest.raises(PySparkException, match=r"\$row_tracking: its rows have no ids"):
        load(spark, f"{path}$row_tracking").collect()


def test_of_a_table_that_java_wrote(spark: SparkSession) -> None:
    assert load(spark, f"{BRANCHES}$branches").count() > 1
    assert load(spark, f"{BRANCHES}$files").select("min_value_stats").collect()[0][0].startswith("{")
