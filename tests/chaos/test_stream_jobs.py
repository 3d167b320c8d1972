"""Spark itself runs the query, and is killed with its JVM and all its Python workers: each row arrives exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.stream_checks import check
from tests.chaos.streams import PATIENCE, RENAMED, Stream, make, run

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.streaming, pytest.mark.timeout(3600)]

KILLS = 30 if os.environ.get("PAIMON_SPARK_CHAOS") == "full" else 2
ROOT = Path(__file__).parents[2]
QUERIES: dict[str, dict[str, Any]] = {
    "append": {"read": {"read.stream.maxFilesPerTrigger": "20"}},
    "lookup-changes": {"producer": "lookup", "keeps": True, "read": {"read.stream.aligned": "true"}},
}


class Job:
    """Spark with the query, in a session of processes of its own."""

    def __init__(self, stream: Stream, name: str, once: bool) -> None:
        home = stream.logs / "spark"
        home.mkdir(exist_ok=True)
        self._stream, self._log = stream, stream.logs / f"spark-{name}.txt"
        asked = {
            "source": stream.url("src"),
            "sink": stream.sink_url,
            "checkpoint": str(stream.checkpoint.root),
            "home": str(home),
            "read": stream.source_options,
            "write": {"branch": "out", **PATIENCE},
            "renamed": RENAMED,
            "once": once,
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.stream_job", json.dumps(asked)],
                cwd=ROOT,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def started(self, batches: int, within_s: float = 300) -> None:
        """Wait until it has begun so many batches more."""
        goal = _begun(self._stream) + batches
        end = time.monotonic() + within_s
        while _begun(self._stream) < goal:
            assert self.exitcode is None, self.output()
            assert time.monotonic() < end, f"no batch: {self.output()}"
            time.sleep(0.05)

    def join(self, timeout: float | None = None) -> None:
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return
        if self.exitcode not in (0, -9):
            self._log.with_suffix(".log").write_text(f"# {self.output()}")

    def kill(self) -> None:
        """Kill every process of the session: Spark's Python daemons have groups of their own."""
        for process in session_of(self._process.pid):
            with contextlib.suppress(ProcessLookupError):  # it ended since it was found
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]


def session_of(leader: int) -> list[int]:
    """Processes of the session that this process leads."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found.append(int(path.parent.name))
    return found


def _begun(stream: Stream) -> int:
    begun = stream.checkpoint.begun()
    return -1 if begun is None else begun


def begin(stream: Stream, life: int) -> Job:
    job = Job(stream, str(life), once=False)
    job.started(2)
    return job


def finish(stream: Stream) -> None:
    job = Job(stream, "last", once=True)
    try:
        job.join(600)
        assert job.exitcode == 0, job.output()
    finally:
        job.kill()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("query", QUERIES)
def test_each_row_arrives_once(query: str, tmp_path: Path) -> None:
    stream = Stream(str(tmp_path / "wh"), tmp_path, **QUERIES[query], kills=KILLS, life_s=2.0, pause_s=2.0)
    make(stream)
    figures = run(stream, begin, finish)
    print(query, {**figures, **check(stream)})
