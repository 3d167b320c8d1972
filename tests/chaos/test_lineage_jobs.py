"""Spark itself runs the picture of PIP-5, and is killed with all its processes: lineage says what the rows say."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.lineage_checks import check, check_unified
from tests.chaos.test_stream_jobs import session_of
from tests.harness.pipelines import Pipeline
from tests.harness.until import until

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.streaming, pytest.mark.timeout(3600)]

KILLS = 20 if os.environ.get("PAIMON_SPARK_CHAOS") == "full" else 1
ROOT = Path(__file__).parents[2]


class Jobs:
    """Spark with the jobs of a pipeline, in a session of processes of its own."""

    def __init__(self, pipeline: Pipeline, name: str, once: bool = False) -> None:
        home = pipeline.logs / "spark"
        home.mkdir(exist_ok=True)
        self._pipeline, self._log = pipeline, pipeline.logs / f"spark-{name}.txt"
        asked = {"warehouse": pipeline.warehouse, "logs": str(pipeline.logs), "home": str(home), "once": once}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.lineage_job", json.dumps(asked)],
                cwd=ROOT,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run_for(self, batches: int, within_s: float = 300) -> None:
        """Let all jobs together begin so many batches more, while rows come."""
        begun, label = _begun(self._pipeline), 0
        goal = begun + batches - 1
        while begun < goal:
            label += 1
            for root in self._pipeline.roots:
                self._pipeline.write(root, f"{self._process.pid}.{label}")
            # However slow the machine, jobs are not left far behind.
            until(
                lambda: self._process.poll() is not None or _begun(self._pipeline) != begun,  # noqa: B023
                self.output,
                seconds=within_s,
                poll_s=0.2,
            )
            assert self._process.poll() is None, self.output()
            begun = _begun(self._pipeline)

    def finish(self) -> None:
        assert self._process.wait(600) == 0, self.output()

    def kill(self) -> None:
        """Kill every process of the session: Spark's Python daemons have groups of their own."""
        for process in session_of(self._process.pid):
            with suppress(ProcessLookupError):  # it ended since it was found
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def output(self) -> str:
        said = self._log.read_text(errors="replace")
        return f"{said[:4000]}\n…\n{said[4000:][-4000:]}"  # what failed first, and what came of it


def _begun(pipeline: Pipeline) -> int:
    newest = [pipeline.checkpoint(job).begun() for job in pipeline.jobs]
    return sum(0 if batch is None else batch + 1 for batch in newest)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_lineage_is_whole_after_spark_was_killed(tmp_path: Path) -> None:
    pipeline, chance = Pipeline(str(tmp_path / "wh"), tmp_path).make(), random.Random(1)
    for life in range(KILLS):
        jobs = Jobs(pipeline, str(life))
        try:
            jobs.run_for(chance.randrange(6, 9))
            time.sleep(chance.uniform(0, 2))
        finally:
            jobs.kill()
    pipeline.catalog.lineage.sync()
    before = check(pipeline)
    last = Jobs(pipeline, "last", once=True)
    try:
        last.finish()
    finally:
        last.kill()
    pipeline.catalog.lineage.sync()
    figures = check(pipeline)
    # Of the batches that began before a kill, any number was committed.
    assert before["snapshots"] >= KILLS and figures["snapshots"] >= max(before["snapshots"], 6 * KILLS / 2)
    assert figures["lost"] == 0
    assert check_unified(pipeline)
    print(before, figures)
