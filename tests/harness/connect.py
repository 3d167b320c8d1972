"""A Spark Connect server in a process of its own, and clients of it, each in another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.harness.server_start import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a JVM of a test is started with besides: it lives too briefly for the second compiler to pay.
LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_SERVER = """
import sys
from pyspark.sql import SparkSession

home = sys.argv[1]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
    .config("spark.connect.grpc.binding.port", "0")
    .config("spark.sql.artifact.isolation.enabled", "true")
    .config("spark.sql.artifact.isolation.alwaysApplyClassloader", "true")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home} " + "JVM")
    .config("spark.local.dir", home + "/local")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", home + "/warehouse")
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)
java = spark.sparkContext._jvm.java.lang
loader = java.Thread.currentThread().getContextClassLoader()
service = java.Class.forName("org.apache.spark.sql.connect.service.SparkConnectService$", True, loader)
print(service.getField("MODULE$").get(None).localPort(), flush=True)
sys.stdin.read()
spark.stop()
""".replace("JVM", LIGHT_JVM)

_CLIENT = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession

import paimon_spark

home = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
try:
    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    run(spark, home)
    assert SparkContext._jvm is None and SparkContext._gateway is None
finally:
    spark.stop()
print("connect ok")
"""


@dataclass(frozen=True)
class ConnectServer:
    """A server that runs: clients find it at `url`, and its log in `log`."""

    url: str
    log: Path

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A session of a client in this process, which may have a classic session, too."""
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        made = RemoteSession.builder.remote(self.url).create()
        try:
            yield made  # type: ignore[misc]  # it has the methods of a classic one
        finally:
            made.stop()

    def run(self, script: str, home: Path) -> None:
        """Run a client without a JVM, which fails the test when it fails.

        Args:
            script: Python code with a function `run(spark, home)`; `paimon_spark` is imported.
            home: a directory, given to `run` as text.
        """
        done = subprocess.run(
            [sys.executable, "-c", script + _CLIENT, str(home)],
            env={**_plain_environment(), "SPARK_REMOTE": self.url},
            cwd="/",  # nothing of the project but what is installed can be found
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        told = f"{done.stdout[-2000:]}{done.stderr[-6000:]}\nserver: {self.log.read_text(errors='replace')[-3000:]}"
        assert done.returncode == 0, told
        assert "connect ok" in done.stdout, told


@contextmanager
def connect_server(home: Path) -> Iterator[ConnectServer]:
    """Run a server as long as the block does; what it writes for itself goes into the directory `home`."""
    log = home / "server.log"
    with log.open("wb") as stderr:
        server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(home)],
            env={**_plain_environment(), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert server.stdin is not None and server.stdout is not None
    try:
        yield ConnectServer(f"sc://127.0.0.1:{int(first_line(server, log))}", log)
    finally:
        server.stdin.close()  # it ends then
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(30)
        server.stdout.close()


def _plain_environment() -> dict[str, str]:
    """The environment without what would make Spark find another session."""
    return {k: v for k, v in os.environ.items() if k not in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")}
