"""spark-submit and scripts as processes of their own, with a small local master."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def submitted(
    home: Path, *words: str, script: Path | None = None, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line as a job.

    Args:
        home: directory of the process and of what it writes.
        words: the command.
        script: instead of the package's own.
        settings: of Spark, beside those that keep it small and quiet.
    """
    submit = Path(sys.executable).with_name("spark-submit")
    chosen = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
        **(settings or {}),
    }
    options = [f"--conf={key}={value}" for key, value in chosen.items()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [str(submit), "--master", "local[2]", *options, str(script or job_script()), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env=environment,
    )


def run_unactivated(home: Path, *words: str, **chosen: str) -> subprocess.CompletedProcess[str]:
    """Run this environment's Python where it is not activated: `python3` of the PATH finds no installed packages.

    Args:
        home: directory of the process and of what it writes.
        words: of the command line of Python.
        chosen: environment variables to set besides.
    """
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    bare = folder / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if k not in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")}
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env={**kept, "PATH": path, "PYTHONPATH": str(ROOT), **chosen},
    )


def job_script() -> Path:
    """The script that the command line says is to be submitted."""
    told = subprocess.run(
        [sys.executable, "-m", "paimon_spark", "job-script"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return Path(told.stdout.strip())
