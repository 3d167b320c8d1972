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
finally:
    spark.stop()
print("connect ok")
"""


def test_writes_work_without_a_jvm_in_the_client(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    done = _run(WRITE_SCRIPT, str(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "connect ok" in done.stdout
