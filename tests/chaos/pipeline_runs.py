"""The jobs of a pipeline, each a process that is killed and started again, while others write, compact and expire."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from paimon_spark.api import lineage_verbs
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.lineage.recording import stream_recording
from paimon_spark.metadata.manifests import CACHE
from tests.chaos.streams import BUSY
from tests.harness.mini_engine import Step, Tasks
from tests.harness.pipelines import Pipeline
from tests.harness.until import until

_ACTS: Final = ("compact", "compact", "expire", "sync")
# What the server of processes loads once for all.
WARM = (lineage_verbs, stream_recording)


@dataclass(frozen=True)
class Run:
    """How a pipeline runs.

    Attributes:
        kills: how often a job is killed, all jobs together, at least.
        acts: how often each thing is done beside them, at least; what was refused does not count.
        life_s: the longest that a job lives after it did some steps.
        pause_s: the longest that others rest after what they did.
        expires: whether others expire snapshots; they always compact, and ask lineage.
    """

    pipeline: Pipeline
    kills: int = 6
    acts: int = 3
    life_s: float = 0.3
    pause_s: float = 0.1
    expires: bool = True
    seed: int = 1


def run(asked: Run) -> dict[str, int]:
    """Until the jobs were killed so often. None of them runs any more then, and none has come to its end."""
    pipeline = asked.pipeline
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.chaos.pipeline_runs"])
    chance = random.Random(asked.seed)
    others: list[Any] = [context.Process(target=job, args=(asked,)) for job in (_writer, _keeper)]
    queries: dict[str, Any] = {}
    lives = kills = 0

    def begin(name: str) -> None:
        nonlocal lives
        lives += 1
        queries[name] = context.Process(target=_query, args=(asked, name, lives))
        queries[name].start()

    try:
        for process in others:
            process.start()
        for job in pipeline.jobs:
            begin(job.name)
        while kills < asked.kills or _acts_done(pipeline) < asked.acts:
            name = chance.choice(sorted(queries))
            _wait(pipeline, queries[name], chance.randrange(25))
            queries[name].join(chance.uniform(0, asked.life_s))
            assert all(p.exitcode is None for p in others), said(pipeline)
            for other, query in queries.items():
                if other == name and query.exitcode is None:
                    query.kill()
                    query.join()
                    kills += 1
                if query.exitcode is not None:
                    assert query.exitcode in (0, -9), f"{other}: {said(pipeline)}"
                    begin(other)
            assert lives < 20 * (asked.kills + kills), f"jobs end by themselves all the time: {said(pipeline)}"
        (pipeline.logs / "stop").touch()
        for process in others:
            process.join(60)
            assert process.exitcode == 0, said(pipeline)
    finally:
        for process in (*others, *queries.values()):
            if process.exitcode is None:
                process.kill()
                process.join()
    CACHE.clear()
    return {"kills": kills, "lives": lives}


def said(pipeline: Pipeline) -> str:
    """What processes said of their errors."""
    logs = sorted(pipeline.logs.glob("*.log"))
    return "\n".join(line for path in logs for line in path.read_text().splitlines() if line.startswith("# "))


def _wait(pipeline: Pipeline, query: Any, steps: int) -> None:
    """Wait until the process has done so many steps."""
    name = f"query-{query.pid}"
    until(
        lambda: query.exitcode is not None or _count(pipeline, name) >= steps,
        lambda: f"{_count(pipeline, name)} steps of {name}",
        poll_s=0.005,
    )


def _count(pipeline: Pipeline, name: str) -> int:
    """Lines that a process has written."""
    path = pipeline.logs / f"{name}.log"
    return path.read_text().count("\n") if path.exists() else 0


def _acts_done(pipeline: Pipeline) -> int:
    """How often the thing was done that was done least often beside the jobs."""
    paths = [pipeline.logs / f"{name}.log" for name in ("writer", "keeper")]
    lines = Counter(line for path in paths if path.exists() for line in path.read_text().splitlines())
    return min(lines[act] for act in ("write", *_ACTS))


def _query(asked: Run, name: str, life: int) -> None:
    """A process that runs a job until it is killed."""
    log = _log(asked.pipeline, f"query-{os.getpid()}")
    tasks = Tasks(threads=life % 2 == 1, lost=0.2, seed=life)
    try:
        for step in asked.pipeline.engine(asked.pipeline.job(name), available_now=False, tasks=tasks).steps():
            if step is Step.IDLE:
                time.sleep(0.02)
            os.write(log, f"{step.value}\n".encode())
    except BUSY as e:
        os.write(log, f"refused {type(e).__name__} {e!s:.500}\n".encode())
    except BaseException as e:
        os.write(log, f"# {name} {type(e).__name__} {json.dumps(str(e)[:2000])}\n".encode())
        raise


def _writer(asked: Run) -> None:
    """A process that writes to the root tables."""
    pipeline, chance = asked.pipeline, random.Random(f"{asked.seed} writer")
    log = _log(pipeline, "writer")
    label = 0
    while not (pipeline.logs / "stop").exists():
        label += 1
        for root in chance.sample(pipeline.roots, chance.randrange(1, len(pipeline.roots) + 1)):
            try:
                pipeline.write(root, str(label), chance.randrange(1, 6))
                os.write(log, b"write\n")
            except BUSY:
                continue
            except Exception as e:
                os.write(log, f"# {type(e).__name__} {json.dumps(str(e)[:2000])}\n".encode())
                raise
        time.sleep(chance.uniform(0, asked.pause_s))


def _keeper(asked: Run) -> None:
    """A process that compacts and expires tables, and asks lineage what it knows."""
    pipeline, chance = asked.pipeline, random.Random(f"{asked.seed} keeper")
    log = _log(pipeline, "keeper")

    def compact() -> None:
        pipeline.table(chance.choice(pipeline.tables)).compact(full=chance.random() < 0.3)

    def expire() -> None:
        for table in pipeline.tables if asked.expires else ():
            expire_unneeded(pipeline, table, chance.randrange(1, 4))

    def sync() -> None:
        pipeline.catalog.lineage.sync()

    acts: dict[str, Callable[[], None]] = {"compact": compact, "expire": expire, "sync": sync}
    while not (pipeline.logs / "stop").exists():
        for name in chance.sample(_ACTS, len(_ACTS)):
            try:
                acts[name]()
                os.write(log, f"{name}\n".encode())
            except BUSY as e:
                os.write(log, f"refused {name} {type(e).__name__}\n".encode())
            except Exception as e:
                os.write(log, f"# {name} {type(e).__name__} {json.dumps(str(e)[:2000])}\n".encode())
                raise
        time.sleep(chance.uniform(0, asked.pause_s))


def expire_unneeded(pipeline: Pipeline, table: str, retain_max: int) -> None:
    """Expire what no query needs any more.

    The consumers of its readers keep what they need of a table. Of a sink, the snapshots since the last batches of its
    query stay, however many they are: without them nobody could tell whether a batch is there.
    """
    readers = [j for j in pipeline.jobs if table in j.sources]
    if any(pipeline.checkpoint(j).begun() is None for j in readers):
        return  # its consumer keeps nothing yet
    writer = next((j for j in pipeline.jobs if j.sink == table), None)
    if writer is None:
        expire_some(pipeline, table, retain_max=retain_max, older_than=datetime.now(UTC))
    elif needed := pipeline.checkpoint(writer).needs_sink_since():
        expire_some(pipeline, table, older_than=needed)


def expire_some(pipeline: Pipeline, table: str, **limits: Any) -> None:
    """Expire snapshots, once it is written down what they were."""
    opened = pipeline.table(table)
    log = _log(pipeline, f"expired-{table}")
    own = [s for s in opened.snapshots() if s.commit_kind is not CommitKind.COMPACT]
    os.write(log, "".join(f"{json.dumps([s.commit_user, s.commit_identifier, s.id])}\n" for s in own).encode())
    os.close(log)
    opened.expire_snapshots(retain_min=1, **limits)


def _log(pipeline: Pipeline, name: str) -> int:
    return os.open(pipeline.logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
