"""Writers commit to main right before any call to the store of a rebase, of one table or several: main keeps all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paimon_spark import Table
from paimon_spark.jobs.rebase.rebase import rebase
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.pipelines.branching import create_pipeline_branch
from paimon_spark.pipelines.rebasing import publish_rebased
from paimon_spark.versioning.branches import create_branch
from tests.harness.acting_store import ActingStore, Commits
from tests.harness.fault_store import Call
from tests.harness.real_tables import a_catalog
from tests.harness.table_files import missing_files

Keys = set[int]
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "keys": {"primary_keys": ["k"], "options": {"bucket": "1"}},
    "deletion vectors": {"primary_keys": ["k"], "options": {"bucket": "1", "deletion-vectors.enabled": "true"}},
}


class Tables:
    """Tables in memory whose main and branch `fix` each have a commit since the fork, and an ActingStore of them."""

    def __init__(self, *kinds: str) -> None:
        catalog = a_catalog(f"memory:///{uuid.uuid4().hex}/wh")
        self.names = [f"db.t{n}" for n in range(len(kinds))]
        for name, kind in zip(self.names, kinds, strict=True):
            catalog.create_table(name, "k BIGINT", **KINDS[kind])
        self.plain = {name: catalog.table(name) for name in self.names}
        self.store = ActingStore(self.plain["db.t0"].handle.store)
        self.root = self.plain["db.t0"].handle.layout.root.rsplit("/", 2)[0]
        self.warehouse = Warehouse(self.store, self.root)
        for name in self.names:
            self.write(name, 1)
        if len(kinds) == 1:
            create_branch(self.plain["db.t0"].handle, "fix")
        else:
            handles = {name: table.handle for name, table in self.plain.items()}
            create_pipeline_branch(self.warehouse, "fix", handles, dict.fromkeys(self.names, 1))
        for name in self.names:
            self.plain[name].branch("fix").write(self.rows(2))
            self.write(name, 3)
        self._saved = {p: bytes(f.getvalue()) for p, f in MemoryFileSystem.store.items() if self.root in p}

    @staticmethod
    def rows(key: int) -> pa.Table:
        return pa.table({"k": pa.array([key], pa.int64())})

    def write(self, name: str, key: int) -> None:
        self.plain[name].write(self.rows(key))

    def keys(self, name: str) -> Keys:
        return set(self.plain[name].scan().to_arrow()["k"].to_pylist())

    @property
    def through(self) -> dict[str, Table]:
        """Main of each table by the ActingStore."""
        return {n: replace(table, handle=replace(table.handle, store=self.store)) for n, table in self.plain.items()}

    def restore(self) -> None:
        for path in [p for p in MemoryFileSystem.store if self.root in p]:
            del MemoryFileSystem.store[path]
        for path, data in self._saved.items():
            MemoryFileSystem().pipe_file(path, data)

    def calls(self, act: Callable[[], object]) -> list[Call]:
        found: list[Call] = []
        with self.store.meanwhile(lambda _, call: found.append(call)):
            act()
        return found

    def commits_beside(self, act: Callable[[], object], moments: list[int]) -> Commits:
        """Each table gets a commit right before one of the calls of `act`, which succeeds; main keeps it."""
        told, beyond = Commits(), 0
        for n in moments:
            self.restore()
            commits, calls = Commits(), [0]

            def write(number: int, _: Call, n: int = n, commits: Commits = commits, calls: list[int] = calls) -> None:
                calls[0] = number
                for i, name in enumerate(self.names if number == n else ()):
                    commits.attempt(str(100 + i), lambda: self.write(name, 100 + i))  # noqa: B023

            with self.store.meanwhile(write):
                act()
            if calls[0] < n:  # what this process has read before is not read again
                beyond += 1
                continue
            assert len(commits.all) == len(self.names), f"nobody commits at call {n}"
            for i, name in enumerate(self.names):
                keys, own = self.keys(name), str(100 + i)
                assert {1, 2, 3} <= keys
                assert (own in commits.made) <= (100 + i in keys)
                assert (own in commits.refused) <= (100 + i not in keys)
                assert missing_files(self.plain[name].handle) == []
                assert [
                    b.name
                    for b in self.plain[name].branches(include_internal=True)
                    if b.name.startswith("main-rebase-")
                ] == []
            told.include(commits)
        assert beyond <= len(moments) // 10, f"{beyond} of {len(moments)} moments never came"
        return told


def passing(branch: str, snapshot: int | str | None) -> tuple[int | str | None, Mapping[str, str]]:
    return snapshot, {"checked": "yes"}


@pytest.mark.parametrize("step", [200, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("checks", [pytest.param(False, marks=pytest.mark.slow), True], ids=["", "checked"])
@pytest.mark.parametrize("kind", KINDS)
def test_writers_never_wait_for_a_rebase_of_one_table_nor_fail(kind: str, checks: bool, step: int) -> None:
    tables = Tables(kind)

    def act() -> None:
        rebase(tables.through["db.t0"], "fix", check=passing if checks else None)

    calls = tables.calls(act)
    made = [n for n, c in enumerate(calls, 1) if c.verb == "create_exclusive" and "/t0/snapshot/snapshot-" in c.path]
    assert made, "the rebase is an ordinary commit to main"
    decisive = {n for at in made for n in range(at - 3, at + 2)}
    told = tables.commits_beside(act, sorted({*range(1, len(calls) + 1, step), *decisive}))
    assert told.made and not told.refused and not told.unknown
    assert [b.name for b in tables.plain["db.t0"].branches(include_internal=True)] == ["fix"], (
        "nothing is moved to a backup"
    )


@pytest.mark.parametrize(
    ("checks", "step"), [(True, 600), *(pytest.param(c, 1, marks=pytest.mark.slow) for c in (False, True))]
)
def test_main_of_several_tables_keeps_all_commits_beside_their_rebase(checks: bool, step: int) -> None:
    tables = Tables("append", "keys", "append")

    def act() -> None:
        publish_rebased(
            tables.warehouse,
            tables.through,
            snapshots=dict.fromkeys(tables.names, 2),
            name="fix",
            on_conflict="fail",
            check=(lambda _: []) if checks else None,
        )

    calls = tables.calls(act)
    journalled = [n for n, c in enumerate(calls, 1) if c.verb == "write" and "/intent/plan-" in c.path]
    decided = next(n for n, c in enumerate(calls, 1) if c.verb == "create_exclusive" and "/changes/" in c.path)
    decisive = range(max(n for n in journalled if n < decided), decided + 2)
    told = tables.commits_beside(act, sorted({*range(1, len(calls) + 1, step), *decisive}))
    assert told.made
