"""spark-submit as a process of its own, with a small local master."""

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


def job_script() -> Path:
    """The script that the command line says is to be submitted."""
    told = subprocess.run(
        [sys.executable, "-m", "paimon_spark", "job-script"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return Path(told.stdout.strip())
