"""Another engine goes on committing to main, and asks for no lock, while a branch is merged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.commit import attempts
from paimon_spark.engine.commit.verify import verify_committed
from paimon_spark.engine.write.request import new_job
from paimon_spark.errors import CommitConflictError, PaimonError
from paimon_spark.jobs.write.batch import place_of, plan_write
from paimon_spark.maintenance import change as intents
from paimon_spark.metadata.journal.change import IfSnapshots, MoveLate
from paimon_spark.metadata.journal.execution import run_step
from paimon_spark.options.write_request import WriteMode, parse_batch_write_options
from tests.unit.versioning.publishing import SCHEMA, ids, in_order, new_table, put, rows


class Foreign:
    """Commits to main's own directory as engines do that know neither MAIN-BRANCH nor intents."""

    def __init__(self, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        options = parse_batch_write_options({}, WriteMode.APPEND)
        self.job = plan_write(place_of(table, options), options, WriteMode.APPEND, SCHEMA)
        self.patch, self.done = monkeypatch, list[int]()

    def commit(self, verify: Callable[..., bool] = lambda *_: True) -> None:
        key = 900 + len(self.done)
        job = replace(self.job, base=None, job=new_job())
        messages = job.write(pa.table({"k": [key], "v": ["foreign"]}, schema=SCHEMA).to_batches())
        with self.patch.context() as patch:
            patch.setattr(attempts, "verify_committed", verify)
            job.commit(messages)
        self.done.append(key)


@pytest.mark.ci
@pytest.mark.parametrize(("on_main", "on_fix"), [(0, 1), (0, 3), (1, 3), (2, 2), (3, 1)])
def test_nothing_is_lost_whenever_it_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_main: int, on_fix: int
) -> None:
    """Before each step that readers of main see; the head is the published one, or what was committed on top of it."""
    real = run_step
    for times in (1, 2):
        for at in range(100):
            table = new_table(tmp_path / f"{times}-{at}")
            put(table, k1="a")
            table.create_branch("fix", snapshot_id=1)
            for _ in range(on_main):
                put(table, k2="main")
            for _ in range(on_fix):
                put(table.branch("fix"), k3="fix")
            foreign, count = Foreign(paimon_spark.load_table(table.location), monkeypatch), [0]

            def run(*given: object, at: int = at, count: list[int] = count, foreign: Foreign = foreign) -> None:
                path = getattr(given[1], "path", "")
                if not path.startswith(("snapshot/", "MAIN-BRANCH")) and count[0]:
                    real(*given)  # type: ignore[arg-type]
                    return
                if count[0] == at:
                    monkeypatch.setattr(intents, "run_step", real)
                    for _ in range(times):  # noqa: B023
                        foreign.commit()
                    monkeypatch.setattr(intents, "run_step", run)
                count[0] += 1
                real(*given)  # type: ignore[arg-type]

            monkeypatch.setattr(intents, "run_step", run)
            result = table.merge_branch("fix", if_main_moved="replace")
            monkeypatch.setattr(intents, "run_step", real)
            if not foreign.done:
                break
            opened = paimon_spark.load_table(table.location)
            found, case = rows(opened), f"{times} at step {at}"
            kept = set(found)
            for branch in opened.branches(include_internal=True):
                kept |= set(rows(opened.branch(branch.name)))
            assert set(foreign.done) <= kept, case
            assert {k: v for k, v in found.items() if k < 900} == {1: "a", 3: "fix"}, case
            missing = set(foreign.done) - set(found)
            if missing:
                assert result.backup_branch is not None, case
                assert missing <= set(rows(opened.branch(result.backup_branch))), case
            in_order(opened)
            assert [f.kind for f in opened.doctor() if f.kind == "spliced-history"] == [], case
        else:
            raise AssertionError


def test_without_a_backup_it_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    put(table.branch("fix"), k3="fix")
    foreign, real = Foreign(paimon_spark.load_table(table.location), monkeypatch), run_step

    def run(*given: object) -> None:
        monkeypatch.setattr(intents, "run_step", real)
        foreign.commit()
        real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(intents, "run_step", run)
    assert table.merge_branch("fix", backup=False, if_main_moved="replace").backup_branch is None
    assert rows(paimon_spark.load_table(table.location)) == {1: "a", 3: "fix"}


@pytest.mark.parametrize("verb", ["merge_branch", "replace_main"])
def test_a_commit_moved_by_an_operation_that_died_is_on_a_branch(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path)
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    put(table.branch("fix"), k3="fix")
    foreign, real, count = Foreign(paimon_spark.load_table(table.location), monkeypatch), run_step, [0]

    def run(*given: object) -> None:
        count[0] += 1
        if count[0] == 1:
            monkeypatch.setattr(intents, "run_step", real)
            foreign.commit()
            monkeypatch.setattr(intents, "run_step", run)
        real(*given)  # type: ignore[arg-type]
        if type(given[1]).__name__ in ("PutNew", "SetAside"):
            raise OSError("killed")

    monkeypatch.setattr(intents, "run_step", run)
    with pytest.raises((OSError, PaimonError)):
        getattr(table, verb)("fix")
    monkeypatch.setattr(intents, "run_step", real)
    put(paimon_spark.load_table(table.location), k5="next")
    opened = paimon_spark.load_table(table.location)
    assert rows(opened) == {1: "a", 3: "fix", 5: "next"}
    (backup,) = [b.name for b in opened.branches(include_internal=True) if b.name.startswith("main_backup_")]
    assert rows(opened.branch(backup)) == {1: "a", 900: "foreign"}
    assert [f for f in opened.doctor(repair=True) if f.branch == backup] == []
    opened.remove_orphan_files()
    assert rows(paimon_spark.load_table(table.location).branch(backup)) == {1: "a", 900: "foreign"}


@pytest.mark.slow
@pytest.mark.parametrize(("on_main", "on_fix"), [(0, 2), (1, 3), (2, 2), (3, 1), (5, 1)])
@pytest.mark.parametrize("finished", [False, True], ids=["killed", "finished"])
@pytest.mark.parametrize("expired", [False, True], ids=["", "expired"])
def test_commits_to_the_former_and_the_new_main_are_all_on_a_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_main: int, on_fix: int, finished: bool, expired: bool
) -> None:
    """Another engine commits before a step of a merge, which is killed at its end; then main is written and expires.

    `expired`: only the head of the branch is left, so that main has a gap before it.
    """
    real = run_step
    for at in range(100):
        table = new_table(tmp_path / str(at))
        put(table, k1="a")
        table.create_branch("fix", snapshot_id=1)
        written = {1}
        for n in range(on_main):
            put(table, **{f"k{10 + n}": "main"})
            written.add(10 + n)
        for n in range(on_fix):
            put(table.branch("fix"), **{f"k{20 + n}": "fix"})
            written.add(20 + n)
        if expired:
            expire(table.branch("fix"))
        foreign, count = Foreign(paimon_spark.load_table(table.location), monkeypatch), [0]

        def run(*given: object, at: int = at, count: list[int] = count, foreign: Foreign = foreign) -> None:
            if count[0] == at:
                monkeypatch.setattr(intents, "run_step", real)
                foreign.commit()
                monkeypatch.setattr(intents, "run_step", run)
            count[0] += 1
            real(*given)  # type: ignore[arg-type]
            if not finished and isinstance(given[1], IfSnapshots | MoveLate):
                raise KeyboardInterrupt

        monkeypatch.setattr(intents, "run_step", run)
        with nullcontext() if finished else pytest.raises(KeyboardInterrupt):
            table.merge_branch("fix", if_main_moved="replace")
        monkeypatch.setattr(intents, "run_step", real)
        if not foreign.done:
            break

        def check(case: str, table: Table = table, written: set[int] = written) -> None:
            opened = paimon_spark.load_table(table.location)
            branches = [opened, *(opened.branch(b.name) for b in opened.branches(include_internal=True))]
            found = set().union(*(rows(b) for b in branches))
            assert written <= found, case

        for n in range(on_main + 2):
            put(paimon_spark.load_table(table.location), **{f"k{100 + n}": "later"})
            written.add(100 + n)
            check(f"write {n} after step {at}")
        written |= set(foreign.done)
        expire(paimon_spark.load_table(table.location))
        check(f"expired after step {at}")
        put(paimon_spark.load_table(table.location).branch("fix"), k200="fix")
        written.add(200)
        paimon_spark.load_table(table.location).merge_branch("fix", if_main_moved="replace")
        check(f"merged again after step {at}")


@pytest.mark.parametrize("backup", [False, True])
def test_a_commit_verified_after_a_merge_that_left_a_gap_is_kept_or_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backup: bool
) -> None:
    """It is published while main is replaced by a branch of which only the head is left."""
    table = new_table(tmp_path)
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    for n in range(4):
        put(table.branch("fix"), **{f"k{20 + n}": "fix"})
    expire(table.branch("fix"))
    verified, given = verify_committed, list[tuple[Any, ...]]()
    slow, real = Foreign(paimon_spark.load_table(table.location), monkeypatch), run_step

    def published(*arguments: Any) -> bool:
        given.append(arguments)
        return True

    def run(*step: Any) -> None:
        monkeypatch.setattr(intents, "run_step", real)
        slow.commit(published)
        real(*step)

    monkeypatch.setattr(intents, "run_step", run)
    table.merge_branch("fix", backup=backup, if_main_moved="replace")
    opened = paimon_spark.load_table(table.location)
    if backup:
        assert verified(*given[0])
        (name,) = [b.name for b in opened.branches(include_internal=True) if b.name.startswith("main_backup_")]
        assert rows(opened.branch(name)) == {1: "a", 900: "foreign"}
    else:
        with pytest.raises(CommitConflictError, match="was given another history"):
            verified(*given[0])
    assert rows(opened) == {1: "a", 20: "fix", 21: "fix", 22: "fix", 23: "fix"}
    assert ids(opened) == [5]


def expire(table: Table) -> None:
    """Expire all snapshots but the head."""
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))
