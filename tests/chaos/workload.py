"""Processes that write to one table at once while they are killed, and what the table must hold afterwards.

Every commit has a label, which decides its rows. The label begins the name of the commit's user, so the snapshots
of a branch say which commits landed and in which order; replaying them gives the rows it must hold.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_spark.api.table import Table
from paimon_spark.errors import CommitConflictError, CommitRetriesExhaustedError, PaimonError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Tag, encode_tag
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import MAIN, Layout
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.metadata.snapshots import list_snapshot_ids, list_snapshots
from paimon_spark.storage.urls import open_store
from paimon_spark.types import BIGINT, INT, STRING, DataField, RowType
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

BRANCHES = (MAIN, "one", "two")
COLUMNS = RowType(
    False,
    (
        DataField(0, "p", INT.with_nullable(False)),
        DataField(1, "k", BIGINT.with_nullable(False)),
        DataField(2, "v", STRING),
    ),
)
ARROW = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.string())])
PATIENCE: dict[str, Any] = {
    "commit.max-retries": "1000",
    "commit.min-retry-wait": "5 ms",
    "commit.max-retry-wait": "200 ms",
}
FIRST = "first"
_SLOTS = 40


@dataclass(frozen=True)
class Scenario:
    """A table and those who write to it.

    Attributes:
        url, storage: where it is.
        keys, options: of the table, which is partitioned by `p`.
        overwrites: whether some commits replace a partition.
        kills: processes killed in the middle of a commit.
        commit_s: about how long a commit takes.
    """

    url: str
    logs: Path
    storage: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    overwrites: bool = False
    processes: int = 4
    commits: int = 8
    kills: int = 5
    commit_s: float = 0.1
    seed: int = 1

    def handle(self, branch: str = MAIN, options: Mapping[str, str] | None = None) -> TableHandle:
        store, root = open_store(self.url, dict(self.storage))
        return open_table(store, root, branch, "t", options)


@dataclass(frozen=True)
class Commit:
    """What a label stands for.

    Attributes:
        replaced: the partition that the commit overwrites; None for one that adds rows.
    """

    label: str
    rows: tuple[tuple[int, int, str], ...]
    replaced: int | None


def commit_of(scenario: Scenario, label: str) -> Commit:
    """The commit of a label: the same in every process."""
    chance = random.Random(f"{scenario.seed} {label}")
    # A writer has keys of its own, so that the order of its commits decides what they hold.
    owner = 0 if label == FIRST else 1 + int(label.split("-")[1])
    replaced = chance.randrange(3) if scenario.overwrites and label != FIRST and chance.random() < 0.25 else None
    keys = chance.sample(range(_SLOTS), chance.randrange(1, 20))
    rows = tuple(
        (k % 3 if replaced is None else replaced, owner * _SLOTS + k, f"{label} {'x' * chance.randrange(50)}")
        for k in keys
    )
    return Commit(label, rows, replaced)


def make_table(scenario: Scenario) -> None:
    """The table with one snapshot, and the branches made from its tag."""
    store, root = open_store(scenario.url, dict(scenario.storage))
    create_table(store, root, COLUMNS, scenario.keys, ("p",), scenario.options, name="t")
    _write(scenario, MAIN, commit_of(scenario, FIRST))
    layout = Layout(root)
    (snapshot,) = list_snapshots(scenario.handle())
    store.write(layout.tag_path("base"), encode_tag(Tag("base", snapshot)))
    for branch in BRANCHES[1:]:
        there = layout.with_branch(branch)
        for old, new in (
            (layout.tag_path("base"), there.tag_path("base")),
            (layout.snapshot_path(1), there.snapshot_path(1)),
            (layout.schema_path(0), there.schema_path(0)),
        ):
            store.create_exclusive(new, store.read(old))


def run(scenario: Scenario) -> None:
    """Let the writers write, and kill some of them; each goes on where it was, until all have done their commits.

    No writer ends a commit while a kill is due, so all kills are made, however fast the commits are.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.chaos.workload"])
    chance = random.Random(scenario.seed)
    running: dict[int, Any] = {}
    deadline = time.monotonic() + 1500
    waiting = set(range(scenario.processes))
    try:
        while waiting or running:
            assert time.monotonic() < deadline, "the writers hang"
            for number in list(waiting):
                waiting.discard(number)
                running[number] = context.Process(target=_writer, args=(scenario, number))
                running[number].start()
            time.sleep(0.01)
            logs = {n: _log(scenario, n) for n in range(scenario.processes)}
            committing = [n for n in running if logs[n] and logs[n][-1][0] == "begin"]
            if committing and _is_kill_due(scenario):
                time.sleep(chance.uniform(0, scenario.commit_s))
                victim = running[chance.choice(committing)]
                victim.kill()
                victim.join()
                if victim.exitcode == -9:
                    (scenario.logs / f"kill-{_kills(scenario)}").touch()
            for number, process in list(running.items()):
                if process.exitcode is None:
                    continue
                process.join()
                del running[number]
                assert process.exitcode in (0, -9), (
                    f"writer {number} ended with {process.exitcode}: see {scenario.logs}"
                )
                if process.exitcode == -9:
                    waiting.add(number)
    finally:
        for process in running.values():
            process.kill()
            process.join()


def check(scenario: Scenario) -> dict[str, int]:
    """Fail unless the table holds exactly what the writers did. Returns figures of the run."""
    logs = {n: _log(scenario, n) for n in range(scenario.processes)}
    for n, log in logs.items():
        assert any(word != "begin" for word, _ in log), f"writer {n} never ended a commit"
    assert _kills(scenario) == scenario.kills, "not every kill was made"
    said = {label: word for log in logs.values() for word, label in log}
    landed: Counter[str] = Counter()
    CACHE.clear()
    for branch in BRANCHES:
        handle = scenario.handle(branch)
        snapshots = list_snapshots(handle)
        assert list_snapshot_ids(handle) == list(range(1, len(snapshots) + 1)), f"{branch}: a hole among the ids"
        # A commit may be followed by the compaction that came with it.
        labels = [s.commit_user.split("_")[0] for s in snapshots if s.commit_kind is not CommitKind.COMPACT]
        assert len(set(labels)) == len(labels), f"{branch}: a commit landed twice: {labels}"
        landed.update(labels[1:] if branch != MAIN else labels)
        expected = sorted(_replayed(scenario, labels))
        found = sorted(tuple(row.values()) for row in Table(handle).scan().to_arrow().to_pylist())
        assert found == expected, f"{branch}: {_difference(found, expected)}"
    assert {label for label, word in said.items() if word == "done"} <= set(landed), "a commit that succeeded is gone"
    failed = {label for label, word in said.items() if word in ("conflict", "exhausted", "failed")}
    assert not failed & set(landed), "a commit that failed has landed"
    assert set(landed) <= {*said, FIRST}
    killed = [label for label, word in said.items() if word == "begin"]
    handle = scenario.handle()
    assert missing_files(handle) == []
    unnamed = {f.path for f in files_on_disk(handle)} - reachable_files(handle)
    left = {f.path for f in orphans(handle)}
    assert unnamed == left
    assert killed or not left, f"nobody was killed, and yet files were left: {sorted(left)}"
    return {
        "landed": len(landed),
        "failed": len(failed),
        "killed": len(killed),
        "killed and landed": len(set(killed) & set(landed)),
        "orphans": len(left),
    }


def _replayed(scenario: Scenario, labels: list[str]) -> list[tuple[int, int, str]]:
    rows: list[tuple[int, int, str]] = []
    for label in labels:
        commit = commit_of(scenario, label)
        if commit.replaced is not None:
            rows = [row for row in rows if row[0] != commit.replaced]
        if scenario.keys:
            keys = {row[:2] for row in commit.rows}
            rows = [row for row in rows if row[:2] not in keys]
        rows += commit.rows
    return rows


def _difference(found: list[Any], expected: list[Any]) -> str:
    ours, theirs = Counter(found), Counter(expected)
    return f"too many {list((ours - theirs).elements())[:5]}, too few {list((theirs - ours).elements())[:5]}"


def _write(scenario: Scenario, branch: str, commit: Commit) -> None:
    columns = list(zip(*commit.rows, strict=True))
    rows = pa.table([pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)], schema=ARROW)
    options: dict[str, Any] = {**PATIENCE, "commit.user-prefix": commit.label}
    table = Table(scenario.handle(branch))
    if commit.replaced is None:
        table.write(rows, **options)
    else:
        table.write(rows, mode="overwrite", **options, **{"overwrite.partition": f"p={commit.replaced}"})


def _writer(scenario: Scenario, number: int) -> None:
    """A process: the rest of its commits, each first said to be begun, then what became of it."""
    begun = sum(word == "begin" for word, _ in _log(scenario, number, last=False))
    branch = BRANCHES[number % len(BRANCHES)]
    log = os.open(_log_path(scenario, number), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for i in range(begun, scenario.commits):
        label = f"w-{number}-{i}"
        os.write(log, f"begin {label}\n".encode())
        try:
            _write(scenario, branch, commit_of(scenario, label))
            word = "done"
        except CommitConflictError:
            word = "conflict"
        except CommitRetriesExhaustedError:
            word = "exhausted"
        except PaimonError as e:
            os.write(log, f"# {type(e).__name__} {e!s:.2000}\n".encode())
            raise
        while _is_kill_due(scenario):
            time.sleep(0.01)
        os.write(log, f"{word} {label}\n".encode())


def _kills(scenario: Scenario) -> int:
    """How many processes were killed."""
    return len([*scenario.logs.glob("kill-*")])


def _is_kill_due(scenario: Scenario) -> bool:
    """Whether so many commits are begun that the next process is to be killed; kills are spread over the commits."""
    kills = _kills(scenario)
    begun = sum(len(_log(scenario, n)) for n in range(scenario.processes))
    every = scenario.processes * scenario.commits / (scenario.kills + 1)
    return kills < scenario.kills and begun >= (kills + 1) * every


def _log_path(scenario: Scenario, number: int) -> Path:
    return scenario.logs / f"writer-{number}.log"


def _log(scenario: Scenario, number: int, last: bool = True) -> list[tuple[str, str]]:
    """Word and label of each line; the last word of each label, or all of them."""
    path = _log_path(scenario, number)
    lines = path.read_text().splitlines() if path.exists() else []
    said = [(word, label) for word, label in (line.split(" ", 1) for line in lines) if word != "#"]
    return [(word, label) for label, word in {label: word for word, label in said}.items()] if last else said
