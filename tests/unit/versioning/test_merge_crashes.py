"""Publishing a branch, killed after each call to the store, and beside readers and writers."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import CommitConflictError, CommitRetriesExhaustedError, PaimonError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.maintenance.change import recover
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.schemas import schemas_by_id
from paimon_spark.storage.local import LocalStore
from paimon_spark.versioning.tags import create_tag
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.search import is_nightly
from tests.unit.versioning.publishing import ids, in_order, new_table, put, rows

pytestmark = pytest.mark.ci

OLD = {1: "a", 2: "wrong", 3: "wrong"}
NEW = {1: "a", 2: "right"}


def a_table(root: Path) -> Table:
    """Main: 1 (a tag), 2, 3 and a schema of its own; `fix` of the tag: 2 with another schema of the same id."""
    table = new_table(root)
    put(table, k1="a")
    create_tag(table.handle, "good")
    table.create_branch("fix", tag="good")
    table.create_branch("late", tag="good")
    put(table, k2="wrong")
    table.alter(add={"other": "STRING"})
    table.write(pa.table({"k": pa.array([3], pa.int64()), "v": ["wrong"], "other": ["x"]}))
    create_tag(table.handle, "bad")
    table.create_branch("child", snapshot_id=2)
    fix = table.branch("fix")
    fix.alter(add={"n": "INT"})
    fix.write(pa.table({"k": pa.array([2], pa.int64()), "v": ["right"], "n": pa.array([7], pa.int32())}))
    create_tag(table.branch("fix").handle, "checked")
    return table


def through(store: FaultStore, table: Table) -> Table:
    """The table as the store shows it."""
    return Table(open_table(store, table.handle.layout.root, name="db.t"))


def check_one_of_both(table: Table) -> bool:
    """Main has the old rows and definition, or the new ones; whether the new."""
    opened = paimon_spark.load_table(table.handle.layout.root)
    found = opened.scan().to_arrow()
    is_new: bool = found.column_names == ["k", "v", "n"]
    assert is_new or found.column_names == ["k", "v", "other"]
    read = dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert read == (NEW if is_new else OLD)
    assert rows(opened.at("good")) == {1: "a"}
    return is_new


VERBS: dict[str, Callable[[Table], Any]] = {
    "merge": lambda t: t.merge_branch("fix", if_main_moved="replace"),
    "merge without backup": lambda t: t.merge_branch("fix", backup=False, if_main_moved="replace"),
    "replace": lambda t: t.replace_main("fix"),
    "replace without backup": lambda t: t.replace_main("fix", backup=False),
}


@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_any_change_of_the_store(tmp_path: Path, verb: str) -> None:
    was_new = [False]
    made = Path(a_table(tmp_path / "made").handle.layout.root)
    for n in range(1, 200):
        place = tmp_path / str(n) / "wh" / "db.db" / "t"
        shutil.copytree(made, place)
        table = paimon_spark.load_table(str(place))
        store = FaultStore(LocalStore())
        opened = through(store, table)
        store.arm(Fault(n, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            VERBS[verb](opened)
        over = not store.failed
        store.arm(None)
        is_new = check_one_of_both(table)
        assert is_new >= was_new[-1], "the later it is killed, the more is done"
        was_new.append(is_new)
        recover(table.handle)
        assert check_one_of_both(table) >= is_new
        if over or n % 4 == 0:
            finish(table, verb)
            assert check_one_of_both(table)
            in_order(paimon_spark.load_table(table.handle.layout.root))
        shutil.rmtree(tmp_path / str(n))
        if over:
            assert n > 10
            return
    raise AssertionError


def finish(table: Table, verb: str) -> None:
    """Ask again, as a user would."""
    opened = paimon_spark.load_table(table.handle.layout.root)
    if not check_one_of_both(table):
        VERBS[verb](opened)
    elif verb == "merge":
        result = opened.merge_branch("fix", if_main_moved="replace")
        assert result.moved_snapshots == ()
        backups = [b.name for b in opened.branches(include_internal=True) if b.name.startswith("main_backup")]
        assert len(backups) == 1 and rows(opened.branch(backups[0])) == OLD


@pytest.mark.parametrize("verb", ["merge", "replace"])
def test_readers_beside_see_the_old_or_the_new(tmp_path: Path, verb: str) -> None:
    for n in range(8 if is_nightly() else 3):
        table = a_table(tmp_path / str(n))
        stop, errors = threading.Event(), list[Exception]()
        seen: tuple[list[bool], list[bool]] = ([], [])  # of each reader

        def read(seen: list[bool], table: Table = table, stop: Any = stop, errors: list[Exception] = errors) -> None:
            opened = table
            while not stop.is_set():
                try:
                    seen.append(check_one_of_both(opened))
                    found = opened.scan().to_arrow()  # by a handle from before
                    assert found.num_rows == (2 if found.column_names == ["k", "v", "n"] else 3)
                except Exception as e:  # noqa: BLE001
                    errors.append(e)
                    return

        readers = [threading.Thread(target=read, args=(own,)) for own in seen]
        for reader in readers:
            reader.start()
        VERBS[verb](table)
        stop.set()
        for reader in readers:
            reader.join()
        assert not errors, errors
        assert all(own == sorted(own) for own in seen), "a reader never sees the old rows after the new ones"
        in_order(paimon_spark.load_table(table.handle.layout.root))


@pytest.mark.parametrize("verb", VERBS)
def test_a_reader_whose_main_is_replaced_while_it_plans_reads_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    table = a_table(tmp_path)
    asked: list[int] = []

    def replaced(handle: TableHandle, ids: Iterable[int]) -> dict[int, TableSchema]:
        asked.append(1)
        if len(asked) == 1:
            VERBS[verb](table)
        return schemas_by_id(handle, ids)

    monkeypatch.setattr("paimon_spark.engine.scan.one_branch.schemas_by_id", replaced)
    found = table.scan().to_arrow()
    assert found.column_names == ["k", "v", "n"] and len(asked) > 1
    assert dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)) == NEW


@pytest.mark.parametrize("verb", ["merge", "replace"])
def test_commits_beside_are_kept_or_refused(tmp_path: Path, verb: str) -> None:
    for n in range(6 if is_nightly() else 3):
        table = a_table(tmp_path / str(n))
        start = threading.Barrier(3)
        done: dict[str, list[int]] = {"main": [], "fix": []}
        errors: list[Exception] = []

        def write(
            branch: str, table: Table = table, start: Any = start, done: Any = done, errors: Any = errors
        ) -> None:
            start.wait()
            for i in range(6):
                key = 100 + i if branch == "main" else 200 + i
                try:
                    put(paimon_spark.load_table(table.handle.layout.root).branch(branch), **{f"k{key}": branch})
                    done[branch].append(key)
                except (CommitConflictError, CommitRetriesExhaustedError):
                    pass
                except Exception as e:  # noqa: BLE001
                    errors.append(e)

        writers = [threading.Thread(target=write, args=(b,)) for b in done]
        for writer in writers:
            writer.start()
        start.wait()
        VERBS[verb](table)
        for writer in writers:
            writer.join()
        assert not errors, errors
        opened = paimon_spark.load_table(table.handle.layout.root)
        kept: set[int] = set()
        for name in ["main", *(b.name for b in opened.branches(include_internal=True))]:
            kept |= rows(opened.branch(name)).keys()
        assert {*done["main"], *done["fix"]} <= kept
        assert len(done["fix"]) == 6, "jobs on the branch are not disturbed"
        in_order(opened)
        assert [f for f in opened.doctor() if f.kind == "spliced-history"] == []


KILLED = """
import sys, os, signal, threading
import paimon_spark
from paimon_spark.maintenance import change as intents
root, verb, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
run, count = intents.run_step, [0]
def stepping(*arguments):
    count[0] += 1
    if count[0] > at:
        os.kill(os.getpid(), signal.SIGKILL)
    run(*arguments)
intents.run_step = stepping
table = paimon_spark.load_table(root)
getattr(table, verb)("fix", **({"if_main_moved": "replace"} if verb == "merge_branch" else {}))
"""


@pytest.mark.parametrize(("verb", "at"), [("merge_branch", 3), ("merge_branch", 28), ("replace_main", 25)])
def test_a_process_that_is_killed(tmp_path: Path, verb: str, at: int) -> None:
    table = a_table(tmp_path)
    root = table.handle.layout.root
    ended = subprocess.run([sys.executable, "-c", KILLED, root, verb, str(at)], check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    check_one_of_both(table)
    put(paimon_spark.load_table(root), k9="next")
    opened = paimon_spark.load_table(root)
    assert rows(opened) == {**NEW, 9: "next"}, "the next access completes it, and writes on top"
    in_order(opened)


def test_a_commit_that_lands_in_the_middle_is_turned_away(tmp_path: Path) -> None:
    """A job that began before the merge, and commits after it."""
    table = a_table(tmp_path)
    from paimon_spark.jobs.write.batch import place_of, plan_write
    from paimon_spark.options.write_request import WriteMode, parse_batch_write_options

    data = pa.table({"k": pa.array([50], pa.int64()), "v": ["slow"], "other": ["x"]})
    options = parse_batch_write_options({}, WriteMode.APPEND)
    job = plan_write(place_of(table, options), options, WriteMode.APPEND, data.schema)
    messages = job.write(data.to_batches())
    table.merge_branch("fix", if_main_moved="replace")
    with pytest.raises(CommitConflictError):
        job.commit(messages)
    job.abort(messages)
    opened = paimon_spark.load_table(table.handle.layout.root)
    assert rows(opened) == NEW and ids(opened) == [1, 2]
    in_order(opened)
