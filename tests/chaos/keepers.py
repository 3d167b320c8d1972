"""Processes that write while others tag, branch, merge, compact and expire the same table, and all get killed.

Rows are only ever added, and each row is written once, so a row that was said to be written is in the head of some
branch for good, and never twice in one.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CommitRetriesExhaustedError,
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    NotFoundError,
    OperationInProgressError,
    SnapshotExpiredError,
)
from paimon_spark.jobs.upkeep import after_commit, compaction
from paimon_spark.jobs.write import batch as writing
from paimon_spark.maintenance.change import recover
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.versioning import merge, savepoints
from tests.harness.real_tables import a_catalog
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

# The server of processes has these modules, and pandas, which Arrow loads with its first array; each process would
# spend most of its short life importing them.
WARM = (after_commit, compaction, writing, merge, savepoints, pa.array([1]))

PATIENCE: dict[str, Any] = {
    "commit.max-retries": "1000",
    "commit.min-retry-wait": "5 ms",
    "commit.max-retry-wait": "200 ms",
}
_BEGIN = "begin"
"""File that lets all begin."""
NOTHING = object()
"""What an act returns that found nothing to do."""
BUSY = (CommitConflictError, CommitRetriesExhaustedError, OperationInProgressError)


@dataclass(frozen=True)
class Scene:
    """A table and who is at it.

    Attributes:
        keyed: whether it has a primary key.
        merges: whether keepers publish `fix` as main.
        kills: processes killed at a random moment; each is started again.
    """

    url: str
    logs: Path
    keyed: bool = False
    merges: bool = False
    writers: int = 2
    keepers: int = 2
    seconds: float = 9.0
    kills: int = 9
    seed: int = 1

    def open(self, branch: str = "main") -> Table:
        return paimon_spark.load_table(self.url, branch=branch)


Job: TypeAlias = Callable[[Scene, int, int, float], None]
"""What a process does: the scene, its number among those of its kind, its life, and for how many seconds."""


def make(scene: Scene) -> None:
    """The table with a row, and its branch `fix`."""
    warehouse, _, table = scene.url.rpartition("/")
    catalog = a_catalog(warehouse.rpartition("/")[0])
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    keys: dict[str, Any] = {"primary_keys": ["k"], "options": {"bucket": "1"}} if scene.keyed else {}
    catalog.create_table(f"db.{table}", schema, **keys)
    _write(scene, "main", -1, "first")
    scene.open().create_tag("base")
    scene.open().create_branch("fix", tag="base")


def run(scene: Scene) -> None:
    """Let all of them at it for some seconds, and kill some. Time counts from when all are ready.

    A process that was killed is started again: until the time is over, and until each job has done something.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.chaos.keepers"])
    chance = random.Random(scene.seed)
    jobs = _jobs(scene)
    running: dict[int, Any] = {}
    lives = Counter[int]()

    def start(number: int, seconds: float) -> None:
        job, own = jobs[number]
        lives[number] += 1
        running[number] = context.Process(target=job, args=(scene, own, lives[number], seconds))
        running[number].start()

    try:
        for number in range(len(jobs)):
            start(number, scene.seconds)
        _wait_until_ready(scene, running)
        end = time.monotonic() + scene.seconds
        moments = sorted(time.monotonic() + chance.uniform(0, scene.seconds - 1) for _ in range(scene.kills))
        idle = set(range(len(jobs)))
        while time.monotonic() < end or running or moments or idle:
            idle = {n for n in idle if not _acts_done(scene, *jobs[n])}
            for number in range(len(jobs)):
                left = end - time.monotonic()
                if number not in running and (left > 0 or moments or number in idle):
                    start(number, left)
            time.sleep(0.01)
            victims = [n for n in running if jobs[n][0] is not _reader]
            if victims and moments and time.monotonic() > moments[0]:
                moments.pop(0)
                running[chance.choice(victims)].kill()
            for number, process in list(running.items()):
                if process.exitcode is not None:
                    process.join()
                    del running[number]
                    assert process.exitcode in (0, -9), (
                        f"{jobs[number]} ended with {process.exitcode}: {_errors(scene)}"
                    )
            assert time.monotonic() < end + 120, "they hang"
    finally:
        for process in running.values():
            process.kill()
            process.join()


def _wait_until_ready(scene: Scene, running: dict[int, Any]) -> None:
    """Wait until each process could begin, and let all begin."""
    limit = time.monotonic() + 120
    while len([*scene.logs.glob("*-1.log")]) < len(running):
        assert time.monotonic() < limit, "they do not start"
        assert all(process.exitcode is None for process in running.values()), f"one failed: {_errors(scene)}"
        time.sleep(0.01)
    (scene.logs / _BEGIN).touch()


def check(scene: Scene) -> dict[str, int]:
    """Fail unless everything said to be written is there, everything alive reads, and nothing else is left."""
    for job, own in _jobs(scene):
        assert _acts_done(scene, job, own), f"{_name(job)} {own} never acted"
    CACHE.clear()
    table = scene.open()
    recover(table.handle)
    said = _said(scene)
    done = {row for row, word in said.items() if word == "done"}
    found: set[int] = set()
    versions = 0
    for name in ("main", *(b.name for b in table.branches(include_internal=True))):
        branch = table.branch(name)
        head = branch.scan().to_arrow().column("k").to_pylist()
        assert len(set(head)) == len(head), f"{name}: rows twice"
        found |= set(head)
        for snapshot in branch.snapshots():
            branch.at(f"snapshot.{snapshot.id}").scan().to_arrow()
            versions += 1
        for tag in branch.tags(include_internal=True):
            branch.at(f"tag-name.{tag.name}").scan().to_arrow()
            versions += 1
    assert done <= found, f"rows that were written are gone: {sorted(done - found)[:10]} of {len(done)}"
    failed = {row for row, word in said.items() if word == "conflict"}
    assert not failed & found, f"rows whose write failed are there: {sorted(failed & found)[:10]}"
    assert missing_files(table.handle) == []
    left = len(orphans(table.handle))
    table.remove_orphan_files(older_than=datetime.now(UTC))
    assert orphans(table.handle) == []
    unnamed = {f.path for f in files_on_disk(table.handle)} - reachable_files(table.handle)
    assert not {p for p in unnamed if "/intent/" not in p and not p.endswith(("/FORK", "/REBASED", "/UNDO"))}, sorted(
        unnamed
    )[:10]
    return {"rows": len(found), "done": len(done), "conflicts": len(failed), "versions": versions, "orphans": left}


def _jobs(scene: Scene) -> list[tuple[Job, int]]:
    return [
        *((_writer, n) for n in range(scene.writers)),
        *((_keeper, n) for n in range(scene.keepers)),
        (_reader, 0),
    ]


def _name(job: Job) -> str:
    return job.__name__.removeprefix("_")


def _acts_done(scene: Scene, job: Job, own: int) -> int:
    """How often a job has said that it did something, in all its lives."""
    logs = scene.logs.glob(f"{_name(job)}-{own}-*.log")
    return sum(line.startswith("done ") for log in logs for line in log.read_text().splitlines())


def _begun_log(scene: Scene, job: Job, number: int, life: int) -> int:
    """The log of a process, which waits here until all have one."""
    log = os.open(scene.logs / f"{_name(job)}-{number}-{life}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while not (scene.logs / _BEGIN).exists():
        time.sleep(0.01)
    return log


def _write(scene: Scene, branch: str, row: int, text: str) -> None:
    data = pa.table({"k": pa.array([row], pa.int64()), "v": pa.array([text])})
    scene.open(branch).write(data, **PATIENCE)


def _writer(scene: Scene, number: int, life: int, seconds: float) -> None:
    """A process that writes rows of its own, to main or to `fix`."""
    branch = ("main", "fix")[number % 2]
    log = _begun_log(scene, _writer, number, life)
    end = time.monotonic() + seconds
    row = number * 1_000_000 + life * 10_000
    acted = False
    while time.monotonic() < end or not acted:
        row += 1
        os.write(log, f"begin {row}\n".encode())
        try:
            _write(scene, branch, row, f"{number}.{life}")
            word, acted = "done", True
        except BUSY:
            word = "conflict"
        except CommitOutcomeUnknownError as e:
            if not _is_elsewhere(e):
                os.write(log, f"# {type(e).__name__} {e!s:.2000}\n".encode())
                raise
            word = "elsewhere"
        except Exception as e:
            os.write(log, f"# {type(e).__name__} {e!s:.2000}\n".encode())
            raise
        os.write(log, f"{word} {row}\n".encode())


def _is_elsewhere(error: CommitOutcomeUnknownError) -> bool:
    """Whether a tag or a branch was created from a snapshot that a merge took away."""
    return "created from it before" in str(error)


def _keeper(scene: Scene, number: int, life: int, seconds: float) -> None:
    """A process that does what keeps and changes versions, at random."""
    chance = random.Random(f"{scene.seed} {number} {life}")
    log = _begun_log(scene, _keeper, number, life)
    end = time.monotonic() + seconds
    acts = _acts(scene, chance, f"{number}-{life}")
    acted = False
    while time.monotonic() < end or not acted:
        act = chance.choice(acts)
        os.write(log, f"begin {act.__name__}\n".encode())
        try:
            if act() is not NOTHING:
                os.write(log, f"done {act.__name__}\n".encode())
                acted = True
        except (*BUSY, NotFoundError, AlreadyExistsError, InvalidInputError) as e:
            os.write(log, f"refused {type(e).__name__} {e!s:.300}\n".encode())
        except Exception as e:
            if isinstance(e, CommitOutcomeUnknownError) and _is_elsewhere(e):
                continue
            os.write(log, f"# {act.__name__} {type(e).__name__} {e!s:.2000}\n".encode())
            raise
        time.sleep(chance.uniform(0, 0.05))


def _acts(scene: Scene, chance: random.Random, own: str) -> list[Callable[[], Any]]:
    def some_branch() -> Table:
        names = [
            "main",
            "fix",
            *(b.name for b in scene.open().branches(include_internal=True) if b.name.startswith("b-")),
        ]
        return scene.open(chance.choice(names))

    def tag() -> None:
        some_branch().create_tag(f"t-{own}-{chance.randrange(10**6)}")

    def untag() -> Any:
        branch = some_branch()
        names = [t.name for t in branch.tags(include_internal=True) if t.name.startswith("t-")]
        return branch.delete_tag(chance.choice(names)) if names else NOTHING

    def branch() -> Any:
        tags = [t.name for t in scene.open().tags(include_internal=True) if t.name.startswith("t-")]
        if not tags or len(scene.open().branches(include_internal=True)) >= 6:
            return NOTHING
        return scene.open().create_branch(f"b-{own}-{chance.randrange(10**6)}", tag=chance.choice(tags))

    def unbranch() -> Any:
        names = [b.name for b in scene.open().branches(include_internal=True) if b.name.startswith("b-")]
        return scene.open().delete_branch(chance.choice(names)) if names else NOTHING

    def expire() -> Any:
        result = some_branch().expire_snapshots(
            retain_max=chance.randrange(1, 5), retain_min=1, older_than=datetime.now(UTC)
        )
        return result if result.snapshots else NOTHING

    def compact() -> Any:
        result = some_branch().compact(full=chance.random() < 0.3)
        return result if result.snapshot_ids else NOTHING

    def savepoint() -> None:
        some_branch().create_savepoint()

    def publish() -> None:
        scene.open().merge_branch("fix", if_main_moved="replace")

    acts: list[Callable[[], Any]] = [tag, untag, branch, unbranch, expire, compact, savepoint]
    return [*acts, publish] if scene.merges else acts


def _reader(scene: Scene, number: int, life: int, seconds: float) -> None:
    """A process that reads main: it must always read, and without merges rows never go."""
    log = _begun_log(scene, _reader, number, life)
    end = time.monotonic() + seconds
    seen: set[int] = set()
    acted = False
    while time.monotonic() < end or not acted:
        try:
            scan = scene.open().scan()
            rows = scan.to_arrow().column("k").to_pylist()
            assert len(set(rows)) == len(rows), f"rows twice in {scan.plan().snapshot}"
            assert scene.merges or seen <= set(rows), f"rows are gone: {sorted(seen - set(rows))[:5]}"
            seen = set(rows)
            if not acted:
                os.write(log, b"done reading\n")
                acted = True
        except (SnapshotExpiredError, FileMissingError):
            pass  # what it read has expired meanwhile: some keep one snapshot alone
        except CorruptFileError as e:
            if "is missing" not in str(e):  # else the same: `check` sees whether a version stays damaged
                raise
        except Exception as e:
            os.write(log, f"# {type(e).__name__} {e!s:.2000}\n".encode())
            raise


def _said(scene: Scene) -> dict[int, str]:
    said = {}
    for path in sorted(scene.logs.glob("writer-*.log")):
        for line in path.read_text().splitlines():
            word, _, row = line.partition(" ")
            if word != "#":
                said[int(row)] = word
    return said


def _errors(scene: Scene) -> str:
    lines = [
        f"{p.name}: {line}" for p in scene.logs.glob("*.log") for line in p.read_text().splitlines() if line[0] == "#"
    ]
    return "\n".join(lines)
