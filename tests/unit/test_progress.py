"""Long work tells how far it is to whoever listens, and to nobody else; a listener that fails hurts nothing."""

from __future__ import annotations

import contextvars
import threading
from pathlib import Path

import pytest

from paimon_spark import progress
from paimon_spark.progress import Progress
from paimon_spark.storage.fsspec_store import FsspecStore
from tests.unit.versioning.publishing import new_table, put
from tests.unit.versioning.test_diff import add, append_table


def test_nobody_is_told_outside() -> None:
    told: list[Progress] = []
    with progress.reporting(told.append, every_s=0):
        progress.report("dig", 1, 2, "holes")
    progress.report("dig", 2, 2, "holes")
    assert told == [Progress("dig", 1, 2, "holes")]


def test_the_same_work_is_told_now_and_then_and_at_its_end() -> None:
    told: list[Progress] = []
    now = 0.0

    def clock() -> float:
        return now

    with progress.reporting(told.append, every_s=1, clock=clock):
        for i in range(1, 11):
            now += 0.25
            progress.report("dig", i, 10)
        progress.report("fill", 1, None)
        progress.report("fill", 2, None)
    assert [(p.what, p.done) for p in told] == [("dig", 1), ("dig", 5), ("dig", 9), ("dig", 10), ("fill", 1)]


def test_a_listener_that_fails_is_logged_once_and_the_work_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Progress] = []

    def fail(told: Progress) -> None:
        calls.append(told)
        raise ValueError("no")

    with progress.reporting(fail, every_s=0):
        assert list(progress.counted(range(3), "dig", total=3)) == [0, 1, 2]
    assert len(calls) == 3 and len(caplog.records) == 1


def test_what_a_listener_does_itself_is_not_told_to_it() -> None:
    told: list[Progress] = []

    def listen(one: Progress) -> None:
        told.append(one)
        progress.report("listen", 1)

    with progress.reporting(listen, every_s=0):
        progress.report("dig", 1)
        progress.report("dig", 2)
    assert [p.what for p in told] == ["dig", "dig"]


def test_many_threads_call_it_one_at_a_time() -> None:
    inside, most, count = 0, 0, 0

    def listen(_: Progress) -> None:
        nonlocal inside, most, count
        inside += 1
        most, count = max(most, inside), count + 1
        inside -= 1

    def work() -> None:
        for i in range(200):
            progress.report("dig", i)

    with progress.reporting(listen, every_s=0):
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (most, count) == (1, 800)


def test_an_inner_listener_takes_over_for_a_while() -> None:
    outer: list[Progress] = []
    inner: list[Progress] = []
    with progress.reporting(outer.append, every_s=0):
        with progress.reporting(inner.append, every_s=0):
            progress.report("dig", 1)
        progress.report("dig", 2)
    assert ([p.done for p in inner], [p.done for p in outer]) == ([1], [2])


def test_counting_tells_the_end_of_what_has_no_total() -> None:
    told: list[Progress] = []
    with progress.reporting(told.append, every_s=1000):
        assert list(progress.counted(["a", "bcd"], "write", "letters", size=len)) == ["a", "bcd"]
    assert told == [Progress("write", 1, None, "letters"), Progress("write", 4, 4, "letters")]


def test_the_long_verbs_of_a_table_tell_how_far_they_are(tmp_path: Path) -> None:
    told: list[Progress] = []

    def ends() -> set[tuple[str, str, int]]:
        found = {(p.what, p.unit, p.done) for p in told if p.done == p.total}
        told.clear()
        return found

    table = append_table(tmp_path, **{"compaction.min.file-num": "2"})
    with progress.reporting(told.append, every_s=0):
        for i in range(3):
            add(table, range(i, i + 5))
        assert ("write", "rows", 5) in ends()
        assert table.scan().to_arrow().num_rows == 15 and ("read", "rows", 15) in ends()
        table.compact(full=True)
        assert ("compact", "buckets", 1) in ends()
        table.create_branch("b", snapshot_id=4)
        assert any(what == "create-branch" and unit == "steps" for what, unit, _ in ends())
        removed = table.expire_snapshots(retain_max=1, retain_min=1)
        assert removed.snapshots and any(what == "delete" and unit == "files" for what, unit, _ in ends())
        table.remove_orphan_files(dry_run=True)
        assert {"list", "look at files"} <= {what for what, _, _ in ends()}
        table.doctor()
        assert ("look for damage", "branches", 2) in ends()


def test_a_merge_tells_its_steps(tmp_path: Path) -> None:
    told: list[Progress] = []
    table = new_table(tmp_path)
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    put(table.branch("fix"), k2="b")
    with progress.reporting(told.append, every_s=0):
        table.merge_branch("fix")
    steps = [p for p in told if p.unit == "steps"]
    assert steps and steps[-1].done == steps[-1].total and len({p.what for p in steps}) == 1


def test_renaming_on_a_store_of_objects_tells_what_is_copied() -> None:
    told: list[Progress] = []
    store = FsspecStore("memory")
    for i in range(4):
        store.write(f"/progress/old/f{i}", b"x")
    with progress.reporting(told.append, every_s=0):
        store.rename_tree("/progress/old", "/progress/new")
    store.delete_tree("/progress/new")
    assert told == [Progress("copy", i, 4, "files") for i in range(1, 5)]
