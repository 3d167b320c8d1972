"""The newest operation on main that kept a backup can be undone, and the undo too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import BranchDivergedError, InvalidInputError, PaimonError
from paimon_spark.maintenance import change as intents
from paimon_spark.maintenance.change import recover
from paimon_spark.metadata.branches import NEW_BACKUP
from paimon_spark.metadata.journal.change import MoveLate, Put
from paimon_spark.metadata.journal.execution import run_step
from paimon_spark.storage.local import LocalStore
from paimon_spark.versioning import names
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.unit.versioning.publishing import files, ids, in_order, new_table, put, rows, tags
from tests.unit.versioning.test_late_commits import Foreign
from tests.unit.versioning.test_merge_crashes import a_table, check_one_of_both, through

FORMER = {1: "a", 2: "main", 3: "main"}
FIXED = {1: "a", 2: "fixed"}
OPERATIONS: dict[str, tuple[Callable[[Table], Any], dict[int, str], str]] = {
    "fast-forward": (lambda t: t.fast_forward("fix"), FIXED, "fast-forward of main to branch 'fix'"),
    "replace": (lambda t: t.replace_main("fix"), FIXED, "replacement of main by branch 'fix'"),
    "rollback": (lambda t: t.rollback_to(1, backup=True), {1: "a"}, "rollback of branch 'main' to snapshot 1"),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main: 1, 2 (tag `two`), 3 (tag `three`); `fix` of 1: 2."""
    table = new_table(tmp_path)
    put(table, k1="a")
    table.create_branch("fix", snapshot_id=1)
    for i in (2, 3):
        put(table, **{f"k{i}": "main"})
        table.create_tag({2: "two", 3: "three"}[i])
    put(table.branch("fix"), k2="fixed")
    return table


def opened(table: Table) -> Table:
    return paimon_spark.load_table(table.handle.layout.root)


@pytest.mark.parametrize("prefix", [NEW_BACKUP, "main-backup-"])
def test_backups_of_earlier_versions_are_undone(table: Table, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "NEW_BACKUP", prefix)
    kept = str(table.fast_forward("fix").backup_branch)
    monkeypatch.undo()
    assert kept.startswith(prefix)
    undone = opened(table).undo()
    assert (rows(opened(table)), str(undone.backup_branch).startswith(NEW_BACKUP)) == (FORMER, True)
    in_order(opened(table))


@pytest.mark.parametrize("name", OPERATIONS)
def test_main_has_its_former_history_again_and_what_came_is_kept(table: Table, name: str) -> None:
    act, after, what = OPERATIONS[name]
    act(table)
    table = opened(table)
    assert (rows(table), tags(table)) == (after, [])
    before = files(table)
    would = table.undo(dry_run=True)
    assert files(table) == before
    done = table.undo()
    assert (done.operation, done.snapshot_id, done.restored_snapshots) == (what, 3, (2, 3))
    assert (done.discarded_snapshots, would.operation) == (would.discarded_snapshots, what)
    table = opened(table)
    assert (rows(table), ids(table), tags(table)) == (FORMER, [1, 2, 3], ["three", "two"])
    assert rows(table.at("two")) == {1: "a", 2: "main"}
    assert done.restored_from not in [b.name for b in table.branches(include_internal=True)]
    in_order(table)
    if name == "rollback":
        assert done.backup_branch is None
        with pytest.raises(InvalidInputError, match="has nothing to undo"):
            table.undo()
        return
    assert done.backup_branch is not None
    assert rows(table.branch(done.backup_branch)) == FIXED
    again = table.undo()
    assert again.operation == f"undo of the {what}"
    assert rows(opened(table)) == after
    in_order(opened(table))


def test_a_rollback_keeps_what_it_takes_in_a_backup(table: Table) -> None:
    table.branch("main").create_branch("child", snapshot_id=2)
    would = table.rollback_to(1, backup=True, dry_run=True)
    done = table.rollback_to(1, backup=True)
    assert done.backup_branch is not None
    assert (done.snapshots, done.tags, done.removed.paths) == ((2, 3), ("three", "two"), ())
    assert (would.snapshots, would.tags, would.removed.paths) == ((2, 3), ("three", "two"), ())
    assert (rows(table), ids(table), tags(table)) == ({1: "a"}, [1], [])
    kept = table.branch(done.backup_branch)
    assert (rows(kept), ids(kept), tags(kept)) == (FORMER, [1, 2, 3], ["three", "two"])
    assert rows(table.branch("child")) == {1: "a", 2: "main"}
    in_order(table)
    assert [f for f in table.doctor() if f.branch == done.backup_branch] == []
    assert table.rollback_to(1, backup=True).backup_branch is None
    with pytest.raises(InvalidInputError, match="backups are of main"):
        table.branch("fix").rollback_to(1, backup=True)


def test_when_main_has_moved_it_is_refused_or_keeps_the_later_commits(table: Table) -> None:
    table.fast_forward("fix")
    table.compact(full=True)
    assert table.undo(dry_run=True).snapshot_id == 3  # a compaction is no move
    put(table, k9="later")
    before = files(table)
    with pytest.raises(BranchDivergedError, match=r"main has moved since \(snapshots \d+\)\. Pass if_main_moved='repl"):
        table.undo()
    with pytest.raises(InvalidInputError, match="expected 'refuse' or 'replace'"):
        table.undo(if_main_moved="rebase")  # type: ignore[arg-type]
    assert files(table) == before
    done = table.undo(if_main_moved="replace")
    assert rows(table) == FORMER
    assert done.backup_branch is not None
    assert rows(table.branch(done.backup_branch)) == {**FIXED, 9: "later"}
    in_order(table)


def test_a_later_operation_without_a_backup_is_a_move(table: Table) -> None:
    table.fast_forward("fix")
    table.rollback_to(1)
    put(table, k5="other")
    with pytest.raises(BranchDivergedError, match="main has moved since"):
        table.undo()


def test_what_cannot_be_undone_is_refused_with_what_to_do(table: Table) -> None:
    with pytest.raises(InvalidInputError, match=r"has nothing to undo.*rollback_to goes back"):
        table.undo()
    with pytest.raises(InvalidInputError, match="opened without a branch"):
        table.branch("fix").undo()
    backup = table.fast_forward("fix").backup_branch
    assert backup is not None
    put(table.branch(backup), k8="x")
    with pytest.raises(InvalidInputError, match=rf"was written to since; fast_forward\('{backup}'\)"):
        table.undo()
    table.rename_branch(backup, "kept")
    with pytest.raises(InvalidInputError, match="has nothing to undo"):
        table.undo()


def test_a_backup_that_something_needs_stays_after_the_undo(table: Table) -> None:
    backup = table.fast_forward("fix").backup_branch
    assert backup is not None
    table.branch(backup).create_branch("of-backup", snapshot_id=2)
    table.undo()
    assert rows(table) == FORMER
    assert {"of-backup", backup} <= {b.name for b in table.branches(include_internal=True)}
    table.undo()  # the fast-forward back, not the one that was undone
    assert rows(table) == FIXED
    in_order(table)


@pytest.mark.ci
@pytest.mark.parametrize("verb", ["fast_forward", "replace_main"])
def test_killed_at_any_change_of_the_store_it_is_done_or_not(tmp_path: Path, verb: str) -> None:
    made = a_table(tmp_path / "made")
    getattr(made, verb)("fix")
    seen = finished = False
    for n in range(1, 200):
        place = tmp_path / str(n) / "wh" / "db.db" / "t"
        shutil.copytree(made.handle.layout.root, place)
        table = paimon_spark.load_table(str(place))
        store = FaultStore(LocalStore())
        faulty = through(store, table)
        store.arm(Fault(n, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            faulty.undo()
        over = not store.failed
        store.arm(None)
        is_undone = not check_one_of_both(table)
        assert is_undone >= seen, "the later it is killed, the more is done"
        recover(table.handle)
        is_finished = not check_one_of_both(table)
        assert is_finished >= max(is_undone, finished)
        seen, finished = is_undone, is_finished
        if not is_finished:
            opened(table).undo()
        assert not check_one_of_both(table)
        if over or n % 4 == 0:
            in_order(opened(table))
            opened(table).undo()
            assert check_one_of_both(table)
        shutil.rmtree(tmp_path / str(n))
        if over:
            return
    raise AssertionError


@pytest.mark.ci
def test_a_rollback_that_is_killed_keeps_its_backup(tmp_path: Path) -> None:
    made = a_table(tmp_path / "made")
    for n in range(1, 200):
        place = tmp_path / str(n) / "wh" / "db.db" / "t"
        shutil.copytree(made.handle.layout.root, place)
        table = paimon_spark.load_table(str(place))
        store = FaultStore(LocalStore())
        faulty = through(store, table)
        store.arm(Fault(n, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            faulty.rollback_to("good", backup=True)
        over = not store.failed
        store.arm(None)
        recover(table.handle)
        table = opened(table)
        assert ids(table) in ([1], [1, 2, 3])
        backups = [b.name for b in table.branches(include_internal=True) if b.name.startswith("main_backup_")]
        assert len(backups) == (ids(table) == [1])
        if n % 4 == 0 or over:
            in_order(table)
        if backups:
            assert table.undo().snapshot_id == 3
            assert not check_one_of_both(table)
        shutil.rmtree(tmp_path / str(n))
        if over:
            return
    raise AssertionError


def test_undo_and_redo_are_named_after_what_they_undo(table: Table) -> None:
    table.merge_branch("fix", if_main_moved="replace")
    merge = "merge into main of branch 'fix'"
    assert [opened(table).undo().operation for _ in range(4)] == [merge, f"undo of the {merge}"] * 2


def test_the_text_of_an_undo_names_tags_that_main_loses(table: Table) -> None:
    table.rollback_to(1, backup=True)
    table.branch("fix").create_tag("of-fix")
    table.merge_branch("fix")
    done = table.undo(if_main_moved="replace")
    text = "undid the rollback of branch 'main' to snapshot 1: main is at snapshot 3; 1 snapshot (2), 1 tag (of-fix) of"
    assert str(done) == (
        f"{text} main kept as branch {done.backup_branch}\n"
        "rows: main lost 1 and gained 2 (stored records; a row may have several)"
    )
    assert repr(done) == str(done)


def test_columns_and_options_that_changed_since_are_kept_and_named(table: Table) -> None:
    table.rollback_to(1, backup=True)
    table.alter(add={"c": "INT"})
    with pytest.raises(BranchDivergedError, match=r"main has moved since \(schemas 1\)"):
        table.undo()
    planned = table.undo(if_main_moved="replace", dry_run=True)
    assert "; 1 schema (1) of main would be kept as branch main_backup_" in str(planned)
    done = table.undo(if_main_moved="replace")
    assert (done.discarded_snapshots, done.discarded_schemas) == ((), (1,))
    assert done.backup_branch is not None
    assert opened(table).schema.row_type.names == ("k", "v")
    assert opened(table).branch(done.backup_branch).schema.row_type.names == ("k", "v", "c")


def test_an_undo_names_the_commits_that_another_engine_makes_meanwhile(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.rollback_to(1, backup=True)
    foreign, real = Foreign(opened(table), monkeypatch), run_step

    def run(*step: Any) -> None:
        if not foreign.done and isinstance(step[1], Put) and step[1].path == "MAIN-BRANCH":
            foreign.commit()
        real(*step)

    monkeypatch.setattr(intents, "run_step", run)
    done = table.undo()
    assert foreign.done
    assert (done.discarded_snapshots, done.backup_branch is None) == ((2,), False)
    assert rows(opened(table)) == FORMER
    assert rows(opened(table).branch(str(done.backup_branch))) == {1: "a", 900: "foreign"}
    in_order(opened(table))


@pytest.mark.parametrize("is_later", [False, True], ids=["during", "after"])
def test_a_rollback_with_a_backup_keeps_what_another_engine_commits_meanwhile(
    table: Table, monkeypatch: pytest.MonkeyPatch, is_later: bool
) -> None:
    """It sees the former head, and publishes its commit before the steps of the rollback are over, or after them."""
    foreign, real = Foreign(opened(table), monkeypatch), run_step
    published = Path(table.handle.layout.snapshot_path(4))
    held: list[bytes] = []

    def run(*given: Any) -> None:
        if not foreign.done:
            foreign.commit()
            if is_later:
                held.append(published.read_bytes())
                published.unlink()
        real(*given)
        if held and isinstance(given[1], MoveLate):
            published.write_bytes(held.pop())

    monkeypatch.setattr(intents, "run_step", run)
    done = table.rollback_to(1, backup=True)
    assert (foreign.done, held) == ([900], [])
    assert (done.snapshots, ids(table)) == ((2, 3, 4), [1])
    assert rows(table.branch(str(done.backup_branch))) == {**FORMER, 900: "foreign"}
    in_order(table)
