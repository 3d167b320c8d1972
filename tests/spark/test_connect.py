"""Through Spark Connect: the server runs in a process of its own, the client has no JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.golden import golden_path

pytestmark = [pytest.mark.spark, pytest.mark.connect]

SCRIPT = """
import sys
from pyspark.sql import SparkSession

import paimon_spark

path = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
try:
    def rows(df):
        return sorted(map(str, df.collect()))

    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    head = rows(spark.read.format("paimon").load(path))
    assert head and head == rows(spark.read.format("paimon_py").load(path))
    tag = rows(spark.read.format("paimon").option("versionAsOf", "t1").load(path))
    assert tag and tag != head
    assert rows(spark.sql("SELECT * FROM {t}", t=spark.read.format("paimon").load(path))) == head

    table = paimon_spark.load_table(path)
    assert rows(table.scan().to_spark(spark)) == head
    assert rows(table.at("t1").scan(columns=["k", "v"]).to_spark()) == tag

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert rows(spark.read.format("paimon").load(path).where("k = 1")) == [r for r in head if "k=1," in r]

    try:
        spark.read.format("paimon").option("versionAsOf", "t11").load(path).collect()
    except Exception as e:
        assert "has no version 't11'" in str(e), e
    else:
        raise AssertionError("a version that does not exist was read")
    paimon_spark.register(spark)
    assert rows(spark.read.format("paimon").load(path)) == head
finally:
    spark.stop()
print("connect ok")
"""


def _run(script: str, argument: str) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if k not in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")}
    return subprocess.run(
        [sys.executable, "-c", script, argument],
        env={**environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        cwd="/",  # nothing of the project but what is installed can be found
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_reads_work_without_a_jvm_in_the_client() -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    done = _run(SCRIPT, str(golden_path("branches")))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "connect ok" in done.stdout


WRITE_SCRIPT = """
import sys
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.table import compaction

home = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
try:
    def rows(path):
        return sorted(map(tuple, spark.read.format("paimon").load(path).collect()))

    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    assert paimon_spark.configure_session(spark)
    df = spark.range(60).selectExpr("id", "concat('p', id % 3) dt", "id * 2 v")
    expected = sorted(map(tuple, df.collect()))
    for name, options in {
        "append": {"partition": "dt"},
        "fixed": {"primary-key": "id", "bucket": "3"},
        "dynamic": {"primary-key": "dt,id", "partition": "dt"},
    }.items():
        path = f"{home}/{name}"
        df.write.format("paimon").mode("append").options(**options).save(path)
        assert rows(path) == expected, name
        result = paimon_spark.load_table(path).write(df, mode="overwrite")
        assert result.snapshot_id == 2, result
        assert rows(path) == expected, name
    for name in ("append", "fixed"):
        table = paimon_spark.load_table(f"{home}/{name}")
        table.delete("id >= 30")
        table.update("id = 1", {"v": "v + 100"})
        source = df.where("id in (2, 40)").selectExpr("id", "dt", "-1L v")
        table.merge(source, "t.id = s.id", when_matched_delete="true", when_not_matched_insert="*")
        wanted = [r for r in expected if r[0] < 30 and r[0] not in (1, 2)] + [(1, "p1", 102), (40, "p1", -1)]
        assert rows(f"{home}/{name}") == sorted(wanted), name
        table.write(df, mode="overwrite")
    try:
        paimon_spark.load_table(f"{home}/fixed").write(df.selectExpr("if(id = 7, null, id) id", "dt", "v"))
    except paimon_spark.PaimonError as e:
        assert "primary key" in str(e), e
    else:
        raise AssertionError("a null key was written")
    assert rows(f"{home}/fixed") == expected
    compaction.HERE_BYTES = 0
    table = paimon_spark.load_table(f"{home}/append")
    table.write(df)
    result = table.compact(full=True)
    assert len(result.snapshot_ids) == 1 and result.files_before > result.files_after == 3, result
    assert rows(f"{home}/append") == sorted(expected * 2)
finally:
    spark.stop()
print("connect ok")
"""


def test_writes_work_without_a_jvm_in_the_client(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    done = _run(WRITE_SCRIPT, str(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "connect ok" in done.stdout


STREAM_SCRIPT = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession

import paimon_spark

home = sys.argv[1]
catalog = paimon_spark.load_catalog(home)
catalog.create_database("db")
table = catalog.create_table("db.t", "k BIGINT", options={"bucket": "1", "bucket-key": "k"})
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
try:
    def follow(**options):
        df = spark.readStream.format("paimon").options(**options).load(table.location)
        writer = df.writeStream.format("parquet").option("checkpointLocation", home + "/c").trigger(availableNow=True)
        return writer.start(home + "/out")

    for n in range(2):
        table.write(pa.table({"k": [n]}))
        assert follow().awaitTermination(120)
        assert sorted(r.k for r in spark.read.parquet(home + "/out").collect()) == list(range(n + 1))
    table.rollback_to(1)
    table.write(pa.table({"k": [7]}))
    query = follow()
    try:
        query.awaitTermination(120)
    except Exception as e:
        assert "HistoryChangedError" in str(e), e
    else:
        raise AssertionError("another history was read")
    assert "HistoryChangedError" in str(query.exception()), query.exception()
finally:
    spark.stop()
print("connect ok")
"""


def test_streams_work_without_a_jvm_in_the_client(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    done = _run(STREAM_SCRIPT, str(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "connect ok" in done.stdout


SQL_SCRIPT = """
import sys
from pyspark.sql import SparkSession

import paimon_spark

catalog = paimon_spark.load_catalog(sys.argv[1])
builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.warehouse.dir", sys.argv[1] + "-of-spark").getOrCreate()
try:
    def rows(statement, args=None):
        return [tuple(row) for row in catalog.sql(statement, args, spark).collect()]

    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    catalog.create_database("db")
    table = catalog.create_table("db.t", "a INT, b STRING")
    table.write(spark.createDataFrame([(1, "x"), (2, "{y}")], "a INT, b STRING"))
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.write(spark.createDataFrame([(3, "z")], "a INT, b STRING"))
    assert rows("SELECT count(*) FROM db.t") == [(3,)]
    assert rows("SELECT b, '{}' FROM db.t VERSION AS OF fix.v1 WHERE a = :a", {"a": 2}) == [("{y}", "{}")]
    assert rows("SELECT t.a, u.b FROM db.t JOIN db.t$branch_fix u ON db.t.a = u.a ORDER BY 1") == [(1, "x"), (2, "{y}")]
    assert rows("SELECT tag_name FROM db.t$tags WHERE tag_name = 'v1'") == [("v1",)]
    assert rows("WITH t AS (SELECT a FROM db.t) SELECT max(a) FROM t") == [(3,)]
    assert rows("SELECT a FROM db.t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 HOUR WHERE a > 2") == [(3,)]
    catalog.sql("CREATE TEMPORARY VIEW v AS SELECT a FROM db.t VERSION AS OF 'v1'", session=spark)
    assert rows("SELECT count(*) FROM v") == [(2,)]
    catalog.sql("CREATE TABLE spark_catalog.default.sp USING parquet AS SELECT * FROM db.t", session=spark)
    try:
        catalog.sql("INSERT INTO spark_catalog.default.sp SELECT * FROM db.t WHERE a = 1", session=spark)
        assert rows("SELECT count(*) FROM spark_catalog.default.sp") == [(4,)]
    finally:
        spark.sql("DROP TABLE spark_catalog.default.sp")
finally:
    spark.stop()
print("connect ok")
"""


def test_queries_of_the_catalog_run_through_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    done = _run(SQL_SCRIPT, str(tmp_path / "warehouse"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "connect ok" in done.stdout
