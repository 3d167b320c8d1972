"""Writers that commit to main beside an operation that gives main another history, and where their commits must be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event, Thread
from typing import NamedTuple

from paimon_spark.errors import PaimonError
from paimon_spark.jobs.branch_access import open_to_change
from paimon_spark.metadata.branches import is_backup_name, list_branch_names
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.lock import find_lock
from tests.harness.acting_store import ActingStore, Commits
from tests.harness.commits import a_file, committer, message
from tests.harness.fault_store import Call
from tests.harness.table_files import missing_files
from tests.unit.pipelines.warehouse import SmallWarehouse


class Act(NamedTuple):
    """An operation on tables of a warehouse, whose store is an ActingStore.

    Attributes:
        before: makes the warehouse that it is made in.
        run: makes it.
        keeps: main loses no commit that was made beside it.
        is_done: whether main of a table has it.
        tables: those that it changes.
    """

    before: Callable[[], SmallWarehouse]
    run: Callable[[SmallWarehouse], object]
    keeps: bool
    is_done: Callable[[SmallWarehouse, str], bool]
    tables: tuple[str, ...]


class Writers:
    """Writers of main of each table, with stores of their own: one that opened it before, and one that opens it now."""

    def __init__(self, made: SmallWarehouse, tables: tuple[str, ...]) -> None:
        self.made, self.tables = made, tables
        self.opened = {table: self._open(table) for table in tables}
        self.commits = Commits()

    def _open(self, table: str) -> TableHandle:
        return open_to_change(self.made.store.inner, self.made.path(table), name=table)

    def commit(self) -> None:
        for table in self.tables:
            for who in ("before", "now"):
                self.commits.attempt(f"{table}-{who}", partial(self._commit, table, who))

    def _commit(self, table: str, who: str) -> None:
        self.add(self.opened[table] if who == "before" else self._open(table), f"{table}-{who}")

    @staticmethod
    def add(handle: TableHandle, name: str) -> None:
        committer(handle).commit([message(handle, a_file(name))])


def check(made: SmallWarehouse, commits: Commits, act: Act) -> bool:
    """Each commit is where it should be, and all tables have the operation, or none; returns which."""
    done = set[bool]()
    for table in act.tables:
        main, handle = made.live(table), made.on(table)
        others = {name: made.live(table, name) for name in list_branch_names(handle)}
        backups = set[str]().union(*(live for name, live in others.items() if is_backup_name(name)))
        own = {name for name in commits.made if name.startswith(table)}
        assert own <= (main if act.keeps else main | backups)
        assert not commits.refused & main.union(*others.values())
        assert [path for path in missing_files(handle) if "/bucket-" not in path] == []
        assert find_lock(handle) is None
        done.add(act.is_done(made, table))
    assert len(done) == 1
    return done.pop()


def moments(made: SmallWarehouse, act: Act, step: int) -> list[int]:
    """Numbers of calls: all from the first journal to a few after the last or the decision, and others by `step`."""
    calls: list[Call] = []
    with store_of(made).meanwhile(lambda _, call: calls.append(call)):
        act.run(made)
    journals = [n for n, call in enumerate(calls, 1) if "/intent/plan-" in call.path and call.verb == "write"]
    decided = [n for n, call in enumerate(calls, 1) if "/changes/" in call.path and call.verb == "create_exclusive"]
    end = decided[0] if decided else journals[0]
    assert journals[0] <= end
    return sorted({*range(1, len(calls) + 1, step), *range(journals[0], end + 5)})


def store_of(made: SmallWarehouse) -> ActingStore:
    assert isinstance(made.store, ActingStore)
    return made.store


def commits_beside(act: Act, step: int) -> tuple[set[bool], Commits]:
    """Writers commit right before a call to the store of the operation, of each of `moments`.

    Returns whether the operation was done, and what the writers were told.
    """
    made = act.before()
    saved = made.saved()
    ends, told = set[bool](), Commits()
    for n in moments(made, act, step):
        made.restore(saved)
        writers = Writers(made, act.tables)

        def commit(number: int, _: Call, n: int = n, writers: Writers = writers) -> None:
            if number == n:
                writers.commit()

        with store_of(made).meanwhile(commit), suppress(PaimonError):
            act.run(made)
        assert len(writers.commits.all) == 2 * len(act.tables), f"nobody commits at call {n}"
        ends.add(check(made, writers.commits, act))
        told.include(writers.commits)
    return ends, told


def commits_around(act: Act) -> Commits:
    """The whole operation runs right before a call to the store of one commit, of each of its calls.

    Returns what the writers were told.
    """
    made = act.before()
    saved = made.saved()
    told, first = Commits(), made.on(act.tables[0])
    with store_of(made).meanwhile(lambda *_: None) as alone:
        Writers.add(first, "alone")
    for n in range(1, alone.calls + 1):
        made.restore(saved)
        table = act.tables[n % len(act.tables)]
        commits, handle = Commits(), made.on(table)

        def run(number: int, _: Call, n: int = n) -> None:
            if number == n:
                with suppress(PaimonError):
                    act.run(made)

        with store_of(made).meanwhile(run) as turn:
            commits.attempt(f"{table}-slow", partial(Writers.add, handle, f"{table}-slow"))
        assert turn.calls >= n
        check(made, commits, act)
        told.include(commits)
    assert alone.calls > 10
    return told


def commits_across(act: Act, step: int) -> tuple[set[bool], Commits]:
    """As `commits_beside`; each writer makes its snapshot there, and goes on once the operation has ended."""
    made = act.before()
    saved = made.saved()
    ends, told = set[bool](), Commits()
    for n in moments(made, act, step):
        made.restore(saved)
        table = act.tables[n % len(act.tables)]
        writer = _PausedWriter(made, table)

        def begin(number: int, _: Call, n: int = n, writer: _PausedWriter = writer) -> None:
            if number == n:
                writer.begin()

        with store_of(made).meanwhile(begin), suppress(PaimonError):
            act.run(made)
        writer.end()
        assert len(writer.commits.all) == 1, f"nobody commits at call {n}"
        ends.add(check(made, writer.commits, act))
        told.include(writer.commits)
    return ends, told


class _PausedWriter:
    """A writer in a thread of its own, which stops between its snapshot and the look at its branch after it."""

    def __init__(self, made: SmallWarehouse, table: str) -> None:
        self.name, self.commits = f"{table}-paused", Commits()
        self._handle = open_to_change(ActingStore(made.store.inner), made.path(table), name=table)
        self._is_paused, self._goes_on = Event(), Event()
        self._thread = Thread(target=self._commit)

    def begin(self) -> None:
        self._thread.start()
        assert self._is_paused.wait(60)

    def end(self) -> None:
        self._goes_on.set()
        self._thread.join()

    def _commit(self) -> None:
        store = self._handle.store
        assert isinstance(store, ActingStore)
        try:
            with store.meanwhile(self._pause):
                self.commits.attempt(self.name, partial(Writers.add, self._handle, self.name))
        finally:
            self._is_paused.set()

    def _pause(self, _: int, call: Call) -> None:
        if call.path.endswith("/intent/intent"):
            self._is_paused.set()
            assert self._goes_on.wait(60)
