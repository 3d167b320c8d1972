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
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitRetriesExhaustedError,
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    NotFoundError,
    OperationInProgressError,
    SnapshotExpiredError,
)
from paimon_spark.jobs import after_commit, compaction
from paimon_spark.jobs import batch_write as writing
from paimon_spark.maintenance.change import recover
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.versioning import merge, savepoints
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

# The server of processes has these modules, and pandas, which Arrow loads with its first array; each process would
# spend most of its short life importing them.
WARM = (after_commit, compaction, writing, merge, savepoints, pa.array([1]))

PATIENCE = {"commit.max-retries": "1000", "commit.min-retry-wait": "5 ms", "commit.max-retry-wait": "200 ms"}
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


def make(scene: Scene) -> None:
    """The table with a row, and its branch `fix`."""
    warehouse, _, table = scene.url.rpartition("/")
    catalog = paimon_spark.load_catalog(warehouse.rpartition("/")[0])
    catalog.create_database("db")
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    keys = {"primary_keys": ["k"], "options": {"bucket": "1"}} if scene.keyed else {}
    catalog.create_table(f"db.{table}", schema, **keys)
    _write(scene, "main", -1, "first")
    scene.open().create_tag("base")
    scene.open().create_branch("fix", tag="base")


def run(scene: Scene) -> None:
    """Let all of them at it for some seconds, and kill some."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.chaos.keepers"])
    chance = random.Random(scene.seed)
    jobs: list[tuple[Callable[[Scene, int, int], None], int]] = [
        *((_writer, n) for n in range(scene.writers)),
        *((_keeper, n) for n in range(scene.keepers)),
        (_reader, 0),
    ]
    running: dict[int, Any] = {}
    lives = Counter[int]()
    end = time.monotonic() + scene.seconds
    moments = sorted(time.monotonic() + 2 + chance.uniform(0, scene.seconds - 3) for _ in range(scene.kills))
    try:
        while time.monotonic() < end or running:
            for number, (job, own) in enumerate(jobs):
                if number not in running and time.monotonic() < end:
                    lives[number] += 1
                    left = end - time.monotonic()
                    running[number] = context.Process(target=job, args=(scene, own, lives[number], left))
                    running[number].start()
            time.sleep(0.01)
            if moments and time.monotonic() > moments[0]:
                moments.pop(0)
                victims = [n for n in running if jobs[n][0] is not _reader]
                if victims:
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


def check(scene: Scene) -> dict[str, int]:
    """Fail unless everything said to be written is there, everything alive reads, and nothing else is left."""
    CACHE.clear()
    table = scene.open()
    recover(table.handle)
    said = _said(scene)
    done = {row for row, word in said.items() if word == "done"}
    found: set[int] = set()
    versions = 0
    for name in ("main", *(b.name for b in table.branches())):
        branch = table.branch(name)
        head = branch.scan().to_arrow().column("k").to_pylist()
        assert len(set(head)) == len(head), f"{name}: rows twice"
        found |= set(head)
        for snapshot in branch.snapshots():
            branch.at(f"snapshot.{snapshot.id}").scan().to_arrow()
            versions += 1
        for tag in branch.tags():
            branch.at(f"tag-name.{tag.name}").scan().to_arrow()
            versions += 1
    assert done <= found, f"rows that were written are gone: {sorted(done - found)[:10]} of {len(done)}"
    failed = {row for row, word in said.items() if word == "conflict"}
    assert not failed & found, f"rows whose write failed are there: {sorted(failed & found)[:10]}"
    assert missing_files(table.handle) == []
    left = len(orphans(table.handle))
    table.remove_orphan_files(older_than=datetime.now(timezone.utc))
    assert orphans(table.handle) == []
    unnamed = {f.path for f in files_on_disk(table.handle)} - reachable_files(table.handle)
    assert not {p for p in unnamed if "/intent/" not in p and not p.endswith(("/FORK", "/UNDO"))}, sorted(unnamed)[:10]
    return {"rows": len(found), "done": len(done), "conflicts": len(failed), "versions": versions, "orphans": left}


def _write(scene: Scene, branch: str, row: int, text: str) -> None:
    data = pa.table({"k": pa.array([row], pa.int64()), "v": pa.array([text])})
    scene.open(branch).write(data, **PATIENCE)


def _writer(scene: Scene, number: int, life: int, seconds: float) -> None:
    """A process that writes rows of its own, to main or to `fix`."""
    branch = ("main", "fix")[number % 2]
    end = time.monotonic() + seconds
    log = os.open(scene.logs / f"writer-{number}-{life}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    row = number * 1_000_000 + life * 10_000
    while time.monotonic() < end:
        row += 1
        os.write(log, f"begin {row}\n".encode())
        try:
            _write(scene, branch, row, f"{number}.{life}")
            word = "done"
        except BUSY:
            word = "conflict"
        except Exception as e:
            os.write(log, f"# {type(e).__name__} {e!s:.2000}\n".encode())
            raise
        os.write(log, f"{word} {row}\n".encode())


def _keeper(scene: Scene, number: int, life: int, seconds: float) -> None:
    """A process that does what keeps and changes versions, at random."""
    chance = random.Random(f"{scene.seed} {number} {life}")
    end = time.monotonic() + seconds
    log = os.open(scene.logs / f"keeper-{number}-{life}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    acts = _acts(scene, chance, f"{number}-{life}")
    while time.monotonic() < end:
        act = chance.choice(acts)
        os.write(log, f"begin {act.__name__}\n".encode())
        try:
            act()
        except (*BUSY, NotFoundError, AlreadyExistsError, InvalidInputError) as e:
            os.write(log, f"refused {type(e).__name__} {e!s:.300}\n".encode())
        except Exception as e:
            os.write(log, f"# {act.__name__} {type(e).__name__} {e!s:.2000}\n".encode())
            raise
        time.sleep(chance.uniform(0, 0.05))


def _acts(scene: Scene, chance: random.Random, own: str) -> list[Callable[[], Any]]:
    def some_branch() -> Table:
        names = ["main", "fix", *(b.name for b in scene.open().branches() if b.name.startswith("b-"))]
        return scene.open(chance.choice(names))

    def tag() -> None:
        some_branch().create_tag(f"t-{own}-{chance.randrange(10**6)}")

    def untag() -> None:
        branch = some_branch()
        names = [t.name for t in branch.tags() if t.name.startswith("t-")]
        if names:
            branch.delete_tag(chance.choice(names))

    def branch() -> None:
        tags = [t.name for t in scene.open().tags() if t.name.startswith("t-")]
        if tags and len(scene.open().branches()) < 6:
            scene.open().create_branch(f"b-{own}-{chance.randrange(10**6)}", tag=chance.choice(tags))

    def unbranch() -> None:
        names = [b.name for b in scene.open().branches() if b.name.startswith("b-")]
        if names:
            scene.open().delete_branch(chance.choice(names))

    def expire() -> None:
        some_branch().expire_snapshots(
            retain_max=chance.randrange(1, 5), retain_min=1, older_than=datetime.now(timezone.utc)
        )

    def compact() -> None:
        some_branch().compact(full=chance.random() < 0.3)

    def savepoint() -> None:
        some_branch().create_savepoint()

    def publish() -> None:
        scene.open().merge_branch("fix", if_main_moved="replace")

    acts: list[Callable[[], Any]] = [tag, untag, branch, unbranch, expire, compact, savepoint]
    return [*acts, publish] if scene.merges else acts


def _reader(scene: Scene, number: int, life: int, seconds: float) -> None:
    """A process that reads main: it must always read, and without merges rows never go."""
    end = time.monotonic() + seconds
    log = os.open(scene.logs / f"reader-{number}-{life}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen: set[int] = set()
    while time.monotonic() < end:
        try:
            scan = scene.open().scan()
            rows = scan.to_arrow().column("k").to_pylist()
            assert len(set(rows)) == len(rows), f"rows twice in {scan.plan().snapshot}"
            assert scene.merges or seen <= set(rows), f"rows are gone: {sorted(seen - set(rows))[:5]}"
            seen = set(rows)
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
