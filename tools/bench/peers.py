"""Peers in their own virtual environments, each one long-lived process that answers JSON requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HOME = HERE.parent.parent / ".bench"
OUR_PATH = f"{HERE}{os.pathsep}{HERE.parent.parent}"
"""The module path of scripts that use this package."""


def pins() -> dict[str, str]:
    lines = (HERE / "versions.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def environment(name: str, *requirements: str) -> str:
    """The interpreter of a virtual environment that holds `requirements`, made when it is not there."""
    folder = HOME / "venv" / name
    stamp = folder / ".stamp"
    wanted = "\n".join(requirements)
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *requirements], check=True)
        stamp.write_text(wanted)
    return str(folder / "bin" / "python")


def java_connector_jar() -> str:
    """The Java connector's bundle, fetched by Maven. Raises RuntimeError when it cannot."""
    group, artifact, version = pins()["JAVA_CONNECTOR"].split(":")
    target = HOME / "jars" / f"{artifact}-{version}.jar"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
        coordinates = f"{group}:{artifact}:{version}"
        command = [
            "mvn",
            "-q",
            "-B",
            f"{plugin}:copy",
            f"-Dartifact={coordinates}",
            f"-DoutputDirectory={target.parent}",
        ]
        try:
            subprocess.run(command, check=True, cwd=target.parent)
        except (OSError, subprocess.CalledProcessError) as e:
            raise RuntimeError(f"the Java connector {coordinates} could not be fetched with Maven: {e}") from e
    return str(target)


class Worker:
    """One running worker script. `ask` sends a request and waits for its answer; `send` and `answer` are the halves."""

    def __init__(self, python: str, script: str, *arguments: str) -> None:
        env = {
            **os.environ,
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "PYTHONPATH": str(HERE),
        }
        if python == sys.executable:
            env["PYTHONPATH"] = OUR_PATH
        self.process = subprocess.Popen(
            [python, str(HERE / script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env,
        )  # fmt: skip

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.send(request)
        return self.answer()

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"the worker ended with {self.process.wait()}"}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def start(name: str) -> Worker:
    """A worker by name: ours, pypaimon, rust, spark, spark-tuned, java (the Spark connector), java-core.

    Raises RuntimeError when it has no set-up.
    """
    pin = pins()
    match name:
        case "ours":
            return Worker(sys.executable, "worker_ours.py")
        case "pypaimon":
            return Worker(environment("pypaimon", pin["PYPAIMON"]), "worker_pypaimon.py")
        case "rust":
            return Worker(rust_python(), "worker_rust.py")
        case "spark":
            return Worker(sys.executable, "worker_spark.py")
        case "spark-tuned":
            return Worker(sys.executable, "worker_spark.py", "tuned")
        case "java-core":
            subprocess.run([HERE.parents[1] / "tests" / "interop" / "setup.sh"], check=True)
            return Worker(sys.executable, "worker_java.py")
        case "java":
            jar = java_connector_jar()
            python = environment("java", pin["JAVA_CONNECTOR_PYSPARK"], "pyarrow<20", "numpy", "setuptools")
            return Worker(python, "worker_spark.py", "java", jar)
    raise ValueError(name)


def rust_python() -> str:
    return environment("rust", pins()["PYPAIMON_RUST"], "pyarrow", "numpy")


def build_datasets(scale: float) -> Path:
    """The folder of tables of that scale, made by the peers when missing."""
    out = HOME / f"data-{scale:g}"
    subprocess.run([rust_python(), HERE / "datasets.py", out, str(scale)], check=True)
    subprocess.run([environment("pypaimon", pins()["PYPAIMON"]), HERE / "dataset_plan.py", out, str(scale)], check=True)
    ours = {**os.environ, "PYTHONPATH": OUR_PATH}
    for script in ("dataset_changes.py", "dataset_histories.py"):
        subprocess.run([sys.executable, HERE / script, out, str(scale)], check=True, env=ours)
    return out
