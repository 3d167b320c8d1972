"""Projects of Spark Declarative Pipelines, run in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SPEC = """
name: test
storage: {storage}
{names}
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.catalog.paimon.warehouse: "{warehouse}"
  spark.sql.shuffle.partitions: "1"
  spark.sql.pipelines.execution.watchdog.minRetryTime: 1s
"""
_RUNS = """
import json, sys
from pathlib import Path

from pyspark.pipelines import cli
from pyspark.sql import SparkSession

import paimon_spark

home = Path(sys.argv[1])
for line in sys.stdin:
    settings, full_refresh = json.loads(line)
    builder = SparkSession.builder.master("local[2]").config("spark.api.mode", "connect")
    for key, value in settings.items():
        builder = builder.config(key, value)
    paimon_spark.attach(builder.getOrCreate(), str(home / "warehouse"))
    try:
        cli.run(home / "spark-pipeline.yml", full_refresh=[], full_refresh_all=full_refresh, refresh=[], dry=False)
        error = None
    except Exception as e:
        error = f"{type(e).__name__}: {e}"
    print("result", json.dumps(error), flush=True)
"""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "OFF",
}


@dataclass(frozen=True)
class PipelineProject:
    """A project whose tables are in `warehouse`."""

    home: Path

    @property
    def warehouse(self) -> str:
        return str(self.home / "warehouse")

    def write(self, files: Mapping[str, str], *, names_catalog: bool = True) -> None:
        """Write the spec, and transformations by file name."""
        names = "catalog: paimon\ndatabase: shop" if names_catalog else ""
        storage = (self.home / "storage").as_uri()
        spec = _SPEC.format(storage=storage, names=names, warehouse=self.warehouse)
        (self.home / "spark-pipeline.yml").write_text(spec)
        (self.home / "transformations").mkdir(exist_ok=True)
        for name, text in files.items():
            (self.home / "transformations" / name).write_text(text)

    @contextmanager
    def runs(self) -> Iterator[PipelineRuns]:
        """A process that runs the pipeline, attached before `spark-pipeline.yml` is read."""
        log = self.home / "runs.log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", _RUNS, str(self.home)],
                env=environment(),
                cwd=self.home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        try:
            yield PipelineRuns(process, log)
        finally:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()  # it ends then
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
            process.stdout.close()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `spark-pipelines`, PySpark's own command."""
        settings = [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
        return subprocess.run(
            [Path(sys.executable).parent / "spark-pipelines", *settings, *arguments],
            env=environment(),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


class PipelineRuns:
    """Runs of a pipeline, one after the other."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def run(self, settings: Mapping[str, str] | None = None, *, full_refresh: bool = False) -> str | None:
        """Run the pipeline once; the error, or None."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([{**SETTINGS, **(settings or {})}, full_refresh]), file=self._process.stdin, flush=True)
        told: list[str] = []
        for line in self._process.stdout:
            kind, _, value = line.partition(" ")
            if kind == "result":
                error: Any = json.loads(value)
                return None if error is None else f"{error}\n{''.join(told)}"
            told.append(line)
        raise AssertionError("".join(told) + self._log.read_text(errors="replace")[-6000:])


def environment() -> dict[str, str]:
    """The environment of a process that makes its own session, with this project's packages."""
    root = str(Path(__file__).resolve().parents[2])
    plain = {k: v for k, v in os.environ.items() if k not in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")}
    path = os.pathsep.join(filter(None, (root, plain.get("PYTHONPATH"))))
    return {**plain, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
