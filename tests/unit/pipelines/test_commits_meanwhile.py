"""Writers commit to main right before any call to the store of a publication of several tables: none is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.jobs.branch_access import open_to_change
from paimon_spark.metadata.branches import BACKUP_PREFIX, list_branch_names
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.lock import find_lock
from paimon_spark.pipelines.branching import create_pipeline_branch
from paimon_spark.pipelines.publishing import publish, undo_release
from paimon_spark.pipelines.records import list_release_records
from tests.harness.acting_store import ActingStore, Commits
from tests.harness.commits import a_file, committer, message
from tests.harness.fault_store import Call
from tests.harness.table_files import missing_files
from tests.unit.pipelines.warehouse import TABLES, SmallWarehouse


def branched(*, moved: bool) -> SmallWarehouse:
    """With a pipeline branch `fix` of one commit; with `moved` main has one too."""
    made = SmallWarehouse.new(ActingStore)
    for table in TABLES:
        made.commit(table, f"{table}1")
    create_pipeline_branch(made.warehouse, "fix", made.handles, dict.fromkeys(TABLES, 1))
    for table in TABLES:
        made.commit(table, f"{table}fix", "fix")
        if moved:
            made.commit(table, f"{table}moved")
    return made


def published() -> SmallWarehouse:
    made = branched(moved=True)
    release(made, "replace")
    return made


def release(made: SmallWarehouse, if_main_moved: str, only_on: int | None = None) -> None:
    heads, branches = dict.fromkeys(TABLES, 2), dict.fromkeys(TABLES, "fix")
    demanded = None if only_on is None else dict.fromkeys(TABLES, only_on)
    publish(
        made.warehouse, branches, made.handles, snapshots=heads, name="fix",
        if_main_moved=if_main_moved, only_on=demanded,
    )  # fmt: skip


def undo(made: SmallWarehouse, if_main_moved: str) -> None:
    undo_release(made.warehouse, list_release_records(made.warehouse)[-1], made.handles, if_main_moved=if_main_moved)


class Act(NamedTuple):
    """A publication.

    Attributes:
        before: makes the warehouse that it is made in.
        run: makes it.
        keeps: main loses no commit that was made beside it.
        brings: the end of the names of files that it brings to main.
    """

    before: Callable[[], SmallWarehouse]
    run: Callable[[SmallWarehouse], None]
    keeps: bool
    brings: str


ACTS = {
    "refuse": Act(lambda: branched(moved=False), lambda made: release(made, "refuse"), True, "fix"),
    "refuse other heads": Act(lambda: branched(moved=False), lambda made: release(made, "refuse", 1), True, "fix"),
    "replace": Act(lambda: branched(moved=True), lambda made: release(made, "replace"), False, "fix"),
    "undo": Act(published, lambda made: undo(made, "refuse"), True, "moved"),
    "undo, replace": Act(published, lambda made: undo(made, "replace"), False, "moved"),
}


class Writers:
    """Writers of main of each table, with stores of their own: one that opened it before, and one that opens it now."""

    def __init__(self, made: SmallWarehouse) -> None:
        self.made = SmallWarehouse(made.store, made.root)
        self.opened = {table: self._open(table) for table in TABLES}
        self.commits = Commits()

    def _open(self, table: str) -> TableHandle:
        return open_to_change(self.made.store.inner, self.made.path(table), name=table)

    def commit(self) -> None:
        for table in TABLES:
            for who in ("before", "now"):
                self.commits.attempt(f"{table}-{who}", partial(self._commit, table, who))

    def _commit(self, table: str, who: str) -> None:
        self.add(self.opened[table] if who == "before" else self._open(table), f"{table}-{who}")

    @staticmethod
    def add(handle: TableHandle, name: str) -> None:
        committer(handle).commit([message(handle, a_file(name))])


def check(made: SmallWarehouse, commits: Commits, act: Act) -> bool:
    """Each commit is where it should be, and all tables have the publication, or none, which is returned."""
    brought = set()
    for table in TABLES:
        main, handle = made.live(table), made.on(table)
        others = {name: made.live(table, name) for name in list_branch_names(handle)}
        backups = set[str]().union(*(live for name, live in others.items() if name.startswith(BACKUP_PREFIX)))
        everywhere = main.union(*others.values())
        own = {name for name in commits.made if name.startswith(table)}
        assert own <= (main if act.keeps else main | backups)
        assert not commits.refused & everywhere
        assert [path for path in missing_files(handle) if "/bucket-" not in path] == []
        assert find_lock(handle) is None
        brought.add(f"{table}{act.brings}" in main)
    assert len(brought) == 1
    return brought.pop()


def moments(made: SmallWarehouse, run: Callable[[SmallWarehouse], None], step: int) -> list[int]:
    """Numbers of calls: all from the first journal to a few after the decision, and every `step`-th of the others."""
    calls: list[Call] = []
    with store_of(made).meanwhile(lambda _, call: calls.append(call)):
        run(made)
    journalled = next(n for n, call in enumerate(calls, 1) if "/intent/plan-" in call.path and call.verb == "write")
    decided = next(n for n, call in enumerate(calls, 1) if "/changes/" in call.path and call.verb == "create_exclusive")
    assert journalled < decided
    return sorted({*range(1, len(calls) + 1, step), *range(journalled, decided + 5)})


def store_of(made: SmallWarehouse) -> ActingStore:
    assert isinstance(made.store, ActingStore)
    return made.store


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("refuse", 29),
        ("replace", 29),
        ("undo", 150),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ACTS),
    ],
)
def test_no_commit_beside_a_publication_is_lost(name: str, step: int) -> None:
    act = ACTS[name]
    made = act.before()
    saved = made.saved()
    ends, told = set[bool](), Commits()
    for n in moments(made, act.run, step):
        made.restore(saved)
        writers = Writers(made)

        def commit(number: int, _: Call, n: int = n, writers: Writers = writers) -> None:
            if number == n:
                writers.commit()

        with store_of(made).meanwhile(commit), suppress(PaimonError):
            act.run(made)
        assert len(writers.commits.all) == 2 * len(TABLES), f"nobody commits at call {n}"
        ends.add(check(made, writers.commits, act))
        told.include(writers.commits)
    assert ends == {True, False} if act.keeps else {True}
    assert told.made and told.refused


@pytest.mark.parametrize("name", ACTS)
def test_no_commit_during_which_all_is_published_is_lost(name: str) -> None:
    """The publication begins and ends right before any call to the store of one commit."""
    act = ACTS[name]
    made = act.before()
    saved = made.saved()
    n, total = 0, 1
    while n < total:
        n += 1
        made.restore(saved)
        writers = Writers(made)
        table = TABLES[n % len(TABLES)]
        handle = replace(writers.opened[table], store=made.store)

        def run(number: int, _: Call, n: int = n) -> None:
            if number == n:
                with suppress(PaimonError):
                    act.run(made)

        with store_of(made).meanwhile(run) as turn:
            writers.commits.attempt(f"{table}-slow", lambda: writers.add(handle, f"{table}-slow"))  # noqa: B023
        total = turn.calls
        check(made, writers.commits, act)
    assert n > 10
