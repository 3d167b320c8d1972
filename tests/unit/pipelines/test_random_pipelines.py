"""Pipelines of random shape with recorded jobs: faults, branches before them, replays, publications and undos.

Every row has an id of its own, and a job replaces its sink by the rows of its sources: so the rows of a version say
which snapshots it stems from, whatever lineage claims.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark import Catalog, Release
from paimon_spark.errors import BranchDivergedError, InvalidInputError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from tests.harness.search import is_nightly
from tests.harness.table_files import missing_files

Rows: TypeAlias = frozenset[int]
NONE: Rows = frozenset()


@dataclass
class World:
    """A warehouse, and what must be in it.

    Attributes:
        jobs: sink → the tables that its job reads; tables without a job are where rows come in.
        main: table → rows.
        branches: pipeline branch → table → rows.
        releases: those that may be undone, with main before and after.
    """

    catalog: Catalog
    rng: random.Random
    jobs: dict[str, list[str]]
    roots: list[str]
    main: dict[str, Rows] = field(default_factory=dict)
    branches: dict[str, dict[str, Rows]] = field(default_factory=dict)
    releases: list[tuple[Release, dict[str, Rows]]] = field(default_factory=list)
    last: int = 0

    @classmethod
    def new(cls, place: Path, seed: int) -> World:
        rng = random.Random(seed)
        catalog = paimon_spark.load_catalog(str(place))
        catalog.create_database("d")
        names = [f"d.t{n}" for n in range(rng.randint(3, 6))]
        roots = names[: rng.randint(1, 2)]
        jobs = {name: sorted(rng.sample(names[:at], min(2, at))) for at, name in enumerate(names) if at >= len(roots)}
        jobs[names[len(roots)]] = list(roots)
        for name in names:
            keys = {"primary_keys": ["id"], "options": {"bucket": "1"}} if rng.random() < 0.5 else {}
            catalog.create_table(name, "id BIGINT", **keys)  # type: ignore[arg-type]
        catalog.lineage.enable()
        return cls(catalog, rng, jobs, roots, dict.fromkeys(names, NONE))

    def rows(self, table: str, branch: str = "main") -> Rows:
        found = self.catalog.table(table).branch(branch).scan().to_arrow()["id"].to_pylist()
        assert len(set(found)) == len(found)
        return frozenset(found)

    def put(self, table: str, branch: str = "main") -> int:
        self.last += 1
        self.catalog.table(table).branch(branch).write(pa.table({"id": pa.array([self.last], pa.int64())}))
        state = self.main if branch == "main" else self.branches[branch]
        state[table] |= {self.last}
        return self.last

    def run(self, sink: str, branch: str = "main") -> None:
        """Run the job of a table, on main or on a branch of the tables that have it."""
        job = {"lineage.job": f"job of {sink}"}
        state = self.main if branch == "main" else self.branches[branch]
        here = {t: branch if t in state else "main" for t in (*self.jobs[sink], sink)}
        read = [self.catalog.table(t).branch(here[t]).scan(**job).to_arrow() for t in self.jobs[sink]]
        rows = frozenset(i for table in read for i in table["id"].to_pylist())
        made = pa.table({"id": pa.array(sorted(rows), pa.int64())})
        self.catalog.table(sink).branch(here[sink]).write(made, mode="overwrite", **job)
        (state if sink in state else self.main)[sink] = rows

    def check(self) -> None:
        for table, rows in self.main.items():
            assert self.rows(table) == rows, table
            names = {
                b.name
                for b in self.catalog.table(table).branches(include_internal=True)
                if not b.name.startswith("main_backup")
            }
            assert names == {name for name, state in self.branches.items() if table in state}
            for name in names:
                assert self.rows(table, name) == self.branches[name][table], (table, name)
            assert missing_files(self.catalog.table(table).handle) == []


def downstream(world: World, root: str) -> set[str]:
    """The tables that jobs make of a table, directly or not."""
    found = {root}
    for sink in sorted(world.jobs):
        if found & set(world.jobs[sink]):
            found.add(sink)
    return found


def correct(world: World, name: str) -> None:
    """A fault at a random moment, then a branch of the pipeline from before it, and its jobs on the branch."""
    root = world.rng.choice(world.roots)
    wrong = world.put(root)
    written = [s.id for s in world.catalog.table(root).snapshots() if s.commit_kind is not CommitKind.COMPACT]
    snapshot = written[-1]
    for _ in range(world.rng.randint(0, 4)):
        act(world)
    if world.rng.random() < 0.5:
        world.put(root)
    pipeline = world.catalog.pipeline(root)
    recorded = {t for t in downstream(world, root) if t == root or world.catalog.table(t).snapshots()}
    assert set(pipeline.tables) <= downstream(world, root)
    branch = pipeline.branch(name, before=(root, snapshot))
    state = {}
    for table, start in branch.tables.items():
        main = world.catalog.table(table)
        rows = NONE if start is None else frozenset(main.at(f"snapshot.{start}").scan().to_arrow()["id"].to_pylist())
        assert wrong not in rows, f"{table} would start with the wrong row"
        state[table] = rows
    assert recorded >= set(branch.tables)
    world.branches[name] = state
    world.check()
    world.put(root, name)
    for step in branch.replay_plan():
        world.run(step.job.removeprefix("job of "), name)
    assert all(wrong not in rows for rows in world.branches[name].values())
    diffs = branch.diff()
    for table, diff in diffs.items():
        assert (diff.added, diff.removed) == (
            len(world.branches[name][table] - world.main[table]),
            len(world.main[table] - world.branches[name][table]),
        )


def publish(world: World) -> None:
    if not world.branches:
        return
    name = world.rng.choice(sorted(world.branches))
    if any(not world.catalog.table(t).branch(name).snapshots() for t in world.branches[name]):
        return
    before = dict(world.main)
    branch = world.catalog.pipeline_branch(name)
    try:
        release = branch.publish(if_main_moved=world.rng.choice(["refuse", "replace"]))
    except BranchDivergedError:
        return
    for table, rows in world.branches[name].items():
        if table in release.backups:
            world.main[table] = rows
    if release.already_published:
        with pytest.raises(InvalidInputError, match="no release was made"):
            release.table(next(iter(release.tables)))
        return
    if release.backups:
        world.releases.append((release, before))
    for table in release.tables:
        read = release.table(table).scan().to_arrow()["id"].to_pylist()
        assert frozenset(read) == world.main[table], "a release reads what it published"


def undo(world: World) -> None:
    if not world.releases:
        return
    release, before = world.releases.pop()
    later = [r for r, _ in world.releases]
    assert release.id > max((r.id for r in later), default=0)
    release.undo(if_main_moved="replace")
    for table in release.backups:
        world.main[table] = before[table]


def delete(world: World) -> None:
    if world.branches:
        name = world.rng.choice(sorted(world.branches))
        world.catalog.pipeline_branch(name).delete()
        del world.branches[name]


def act(world: World) -> None:
    """Something that production does."""
    if world.jobs and world.rng.random() < 0.6:
        world.run(world.rng.choice(sorted(world.jobs)))
    else:
        world.put(world.rng.choice(world.roots))


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(40 if is_nightly() else 4))
def test_random_pipelines_with_jobs(tmp_path: Path, seed: int) -> None:
    world = World.new(tmp_path / "wh", seed)
    for root in world.roots:
        world.put(root)
    for sink in sorted(world.jobs):
        world.run(sink)  # lineage answers no questions about a table that no job has read or written
    for number in range(14):
        match world.rng.choice(["act", "act", "correct", "publish", "publish", "undo", "delete"]):
            case "act":
                act(world)
            case "correct":
                correct(world, f"fix{number}")
            case "publish":
                publish(world)
            case "undo":
                undo(world)
            case "delete":
                delete(world)
        world.check()
