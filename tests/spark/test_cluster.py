"""A standalone cluster from the pip package: a master and two workers, each in its own process.

Executors need nothing but the data files: metadata is moved away between planning and reading.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.harness.golden import golden_path
from tests.harness.until import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster, pytest.mark.newest]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOST = "127.0.0.1"
DEADLINE_S = 90

DRIVER = """
import shutil, sys
from pyspark.sql import SparkSession

master, append, merged = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.executor.memory", "512m")
    .config("spark.executor.cores", "1")
    .config("spark.cores.max", "2")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)
try:
    assert spark.sparkContext.master.startswith("spark://")
    for path in (append, merged):
        df = spark.read.format("paimon").load(path)
        expected = sorted(map(str, df.collect()))
        assert expected

        df = spark.read.format("paimon").option("read.batch-size", "1000").load(path)
        plan = df._jdf.queryExecution().executedPlan()
        partitions = plan.execute().getNumPartitions()  # planned here: what follows has only the plan
        for folder in ("manifest", "snapshot", "schema"):
            shutil.move(f"{path}/{folder}", f"{path}/{folder}.hidden")
        try:
            found = sorted(map(str, df.collect()))
        finally:
            for folder in ("manifest", "snapshot", "schema"):
                shutil.move(f"{path}/{folder}.hidden", f"{path}/{folder}")
        assert found == expected, (found, expected)
        print("partitions", partitions)
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print("executors", executors)
finally:
    spark.stop()
"""


def start(role: str, *arguments: str, home: Path) -> subprocess.Popen[bytes]:
    log = (home / f"{role.rsplit('.', 1)[-1]}-{time.monotonic_ns()}.log").open("wb")
    environ = {
        **os.environ,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_WORKER_DIR": str(home / "work"),
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with log:
        return subprocess.Popen(
            [str(SPARK_CLASS), role, *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )


def wait_for(home: Path, pattern: str, count: int = 1) -> str:
    """The first match in the logs, once there are `count` of them."""

    def text() -> str:
        return "".join(p.read_text(errors="replace") for p in sorted(home.glob("*.log")))

    until(lambda: len(re.findall(pattern, text())) >= count, lambda: (pattern, text()[-3000:]), seconds=DEADLINE_S)
    return str(re.findall(pattern, text())[0])


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    processes = [
        start(
            "org.apache.spark.deploy.master.Master",
            *("--host", HOST, "--port", "0", "--webui-port", "0"),
            home=tmp_path,
        )
    ]
    try:
        url = wait_for(tmp_path, r"Starting Spark master at (spark://\S+)")
        for _ in range(2):
            worker = ("--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", "0", url)
            processes.append(start("org.apache.spark.deploy.worker.Worker", *worker, home=tmp_path))
        wait_for(tmp_path, r"Registering worker (\S+)", count=2)
        yield url
    finally:
        for process in reversed(processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)


def test_executors_read_from_the_plan_alone(master: str, tmp_path: Path) -> None:
    tables = []
    for name in ("append_many_commits", "pk_lsm_levels"):
        tables.append(str(tmp_path / name))
        shutil.copytree(golden_path(name), tables[-1])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, master, *tables],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "executors 2" in done.stdout, done.stdout
