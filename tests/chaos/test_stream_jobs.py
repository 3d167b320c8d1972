"""Spark itself runs the query, and is killed with its JVM and all its Python workers: each row arrives exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.metadata.manifests import CACHE
from paimon_spark.streaming.batches import read_sink_log, sink_log_path
from tests.chaos.stream_checks import check, kill_places
from tests.chaos.streams import PATIENCE, RENAMED, Others, Stream, kept, make
from tests.harness.until import until

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.streaming, pytest.mark.timeout(7200)]

FULL = os.environ.get("PAIMON_SPARK_CHAOS") == "full"
KILLS = 30 if FULL else 2
SOAK_S = 1800 if FULL else 0
ROOT = Path(__file__).parents[2]
ALIGNED = {"read.stream.aligned": "true"}
TOO_SLOW = "Timed out while waiting for the Python worker to connect back"
"""What Spark says when a busy machine does not start its processes within 10 s: then the job ended by itself."""
QUERIES: dict[str, dict[str, Any]] = {
    "append": {"read": {"read.stream.maxFilesPerTrigger": "20"}},
    "append-aligned": {"read": ALIGNED},
    "keys": {"producer": "lookup"},
    "keys-aligned-changes": {"producer": "lookup", "keeps": True, "read": ALIGNED},
}


class Job:
    """Spark with the queries, in a session of processes of its own."""

    def __init__(self, streams: Sequence[Stream], folder: Path, name: str, once: bool = False) -> None:
        home = folder / "spark"
        home.mkdir(exist_ok=True)
        self._log = folder / f"spark-{name}.txt"
        queries = [
            {
                "source": stream.url("src"),
                "sink": stream.sink_url,
                "checkpoint": str(stream.checkpoint.root),
                "read": stream.source_options,
                "write": {"branch": "out", **PATIENCE},
                "renamed": RENAMED if stream.kinds else {},
            }
            for stream in streams
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.chaos.stream_job",
                    json.dumps({"home": str(home), "once": once, "queries": queries}),
                ],
                cwd=ROOT,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def started(self, stream: Stream, within_s: float = 600) -> None:
        """Wait until it has begun a batch more of a query."""
        before = _begun(stream)
        until(lambda: self.exitcode is not None or _begun(stream) != before, self.output, seconds=within_s, poll_s=0.05)
        assert self.exitcode is None, self.output()

    def changed(self, path: Path, within_s: float = 600) -> None:
        """Wait until a file is written that is there already, or is not."""
        before = _made(path)
        until(
            lambda: self.exitcode is not None or _made(path) != before,
            lambda: f"{path} stays as it is: {self.output()}",
            seconds=within_s,
            poll_s=0.001,
        )
        assert self.exitcode is None, self.output()

    def finished(self, within_s: float = 1800) -> None:
        """Wait until it has come to its end."""
        assert self._process.wait(within_s) == 0, self.output()

    def kill(self) -> None:
        """Kill every process of the session: Spark's Python daemons have groups of their own."""
        for process in session_of(self._process.pid):
            with contextlib.suppress(ProcessLookupError):  # it ended since it was found
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def output(self) -> str:
        return self._log.read_text(errors="replace")[-50_000:]


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


def _made(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino


def come_to_a_place(job: Job, stream: Stream, life: int) -> None:
    """Wait until the job is where it is to be killed: anywhere, in a batch of a query, or while that is committed."""
    chance = random.Random(f"{stream.seed} {life}")
    job.started(stream)
    if life % 3 == 0:
        time.sleep(chance.uniform(0, 2))
    elif life % 3 == 1:
        job.started(stream)
        time.sleep(chance.uniform(0, 0.4))
    else:
        job.changed(_note(stream))
        time.sleep(chance.uniform(0, 0.06))


def _note(stream: Stream) -> Path:
    """The file that says which batch is about to be committed."""
    return Path(sink_log_path(stream.sink().handle, stream.checkpoint.query_id()))


def place(stream: Stream, life: int) -> None:
    """Write down where a run was when it was killed."""
    begun, ended = stream.checkpoint.begun(), stream.checkpoint.ended()
    sink, user = stream.sink(), stream.checkpoint.query_id()
    noted = read_sink_log(sink.handle, user)
    if begun == ended:
        where = "between batches"
    elif noted is None or noted.batch_id != begun:
        where = "in a batch"
    elif any(s.commit_identifier == begun and s.commit_user == user for s in sink.snapshots()):
        where = "after its commit"
    else:
        where = "in its commit"
    (stream.logs / f"query-{life}.log").write_text(f"{where}\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_each_row_arrives_once(tmp_path: Path) -> None:
    """All queries are in one job: each sees every kill, and they take turns at saying when it is."""
    streams = {}
    for name, query in QUERIES.items():
        (tmp_path / name).mkdir()
        logs = tmp_path / name
        streams[name] = Stream(str(logs / "wh"), logs, **query, pause_s=4.0, ahead=20)
        make(streams[name])
    with Others(list(streams.values())) as others:
        kills = refused = 0
        end = time.monotonic() + SOAK_S
        while kills < KILLS or time.monotonic() < end:
            life = kills + refused + 1
            job = Job(list(streams.values()), tmp_path, str(life))
            try:
                come_to_a_place(job, list(streams.values())[life % len(streams)], life)
                assert job.exitcode is None, job.output()
                kills += 1
            except AssertionError:
                if TOO_SLOW not in job.output() or refused > KILLS:
                    raise
                refused += 1
            finally:
                job.kill()
            others.check()
            for stream in streams.values():
                place(stream, life)
    CACHE.clear()
    batches = {name: stream.checkpoint.ended() for name, stream in streams.items()}
    last = Job(list(streams.values()), tmp_path, "last", once=True)
    try:
        last.finished()
    finally:
        last.kill()
    for name, stream in streams.items():
        beside, places = kept(stream), kill_places(stream)
        print(
            name, {"kills": kills, "refused": refused, "batches": batches[name], **check(stream)}, beside, dict(places)
        )
        assert not FULL or min(beside.values()) > 0, beside
        assert not FULL or places["in a batch"] + places["in its commit"] + places["after its commit"] > 0, places
    all_places = sum((kill_places(stream) for stream in streams.values()), Counter())
    assert not FULL or {"in a batch", "in its commit", "after its commit"} <= set(all_places), all_places
