"""A branch published as main: what moves, what is discarded and kept, what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import BranchDivergedError, BranchNotFoundError, InvalidInputError
from paimon_spark.maintenance import change
from paimon_spark.metadata.branches import read_fork
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import MoveLate, Step
from paimon_spark.metadata.journal.execution import run_step
from paimon_spark.metadata.tags import guard_name
from paimon_spark.versioning.tags import create_tag, replace_tag
from tests.unit.versioning.publishing import files, ids, in_order, new_table, put, rows, tags


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main: 1 (a tag), 2; branch `fix` of the tag."""
    made = new_table(tmp_path)
    put(made, k1="a")
    create_tag(made.handle, "good")
    made.create_branch("fix", tag="good")
    return made


def test_main_takes_the_branch_and_keeps_what_it_loses(table: Table) -> None:
    put(table, k2="wrong")
    create_tag(table.handle, "bad")
    put(table, k3="wrong too")
    fix = table.branch("fix")
    put(fix, k2="right")
    create_tag(fix.handle, "checked")
    before, wrong = rows(fix), rows(table)
    result = table.merge_branch("fix", if_main_moved="replace")
    assert (result.branch, result.fork_snapshot_id, result.published_snapshot_id) == ("fix", 1, 2)
    assert (result.moved_snapshots, result.moved_tags) == ((2,), ("checked",))
    assert (result.discarded_snapshots, result.discarded_tags) == ((2, 3), ("bad",))
    assert rows(table) == rows(fix) == before and ids(table) == [1, 2] and tags(table) == ["checked", "good"]
    assert result.backup_branch is not None and result.backup_branch.startswith("main_backup_")
    backup = table.branch(result.backup_branch)
    assert rows(backup) == wrong and ids(backup) == [1, 2, 3] and tags(backup) == ["bad"]
    assert result.removed.data_files == 0
    in_order(table)


def test_without_backup_what_nothing_needs_goes_at_once(table: Table) -> None:
    put(table, k2="wrong")
    create_tag(table.handle, "bad")
    put(table.branch("fix"), k2="right")
    result = table.merge_branch("fix", backup=False, if_main_moved="replace")
    assert result.backup_branch is None and result.discarded_snapshots == (2,) and result.removed.data_files == 1
    assert [b.name for b in table.branches(include_internal=True)] == ["fix"] and tags(table) == ["good"]
    assert rows(table) == {1: "a", 2: "right"}
    in_order(table)


def test_nothing_discarded_needs_no_backup(table: Table) -> None:
    put(table.branch("fix"), k2="right")
    result = table.fast_forward("fix")
    assert result.backup_branch is None and result.discarded_snapshots == () and result.moved_snapshots == (2,)
    assert rows(table) == {1: "a", 2: "right"}
    in_order(table)


def test_a_branch_without_anything_of_its_own_changes_nothing(table: Table) -> None:
    put(table, k2="more")
    before = ids(table)
    result = table.merge_branch("fix")
    assert (result.moved_snapshots, result.discarded_snapshots, result.backup_branch) == ((), (), None)
    assert result.published_snapshot_id == 2 and ids(table) == before and rows(table) == {1: "a", 2: "more"}


def test_twice(table: Table) -> None:
    fix = table.branch("fix")
    put(fix, k2="right")
    table.merge_branch("fix")
    fork = read_fork(fix.handle)
    assert fork is not None and (fork.parent, fork.snapshot_id) == ("main", 2)
    put(table, k3="main")
    put(fix, k4="fix")
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.fork_snapshot_id == 2 and result.discarded_snapshots == (3,) and result.moved_snapshots == (3,)
    assert rows(table) == {1: "a", 2: "right", 4: "fix"} and ids(table) == [1, 2, 3]
    again = table.merge_branch("fix")
    assert again.moved_snapshots == () and again.backup_branch is None
    in_order(table)


@pytest.mark.parametrize("version", [2, "2", "v2", "snapshot.2", "tag-name.v2"])
def test_exactly_the_audited_snapshot_is_published(table: Table, version: int | str) -> None:
    fix = table.branch("fix")
    put(fix, k2="checked")
    create_tag(fix.handle, "v2")
    put(fix, k3="later")
    fix.alter(add={"n": "INT"})
    create_tag(fix.handle, "v3")
    result = table.merge_branch("fix", snapshot=version)
    assert result.published_snapshot_id == 2 and result.moved_tags == ("v2",)
    assert rows(table) == {1: "a", 2: "checked"} and ids(table) == [1, 2] and tags(table) == ["good", "v2"]
    assert paimon_spark.load_table(table.location).schema.row_type.names == ("k", "v")
    assert ids(fix) == [1, 2, 3] and tags(fix) == ["good", "v2", "v3"]
    in_order(table)
    assert table.merge_branch("fix").moved_snapshots == (3,)
    assert rows(table) == {1: "a", 2: "checked", 3: "later"}


def test_an_audited_tag_whose_snapshot_has_expired(table: Table) -> None:
    fix = table.branch("fix")
    put(fix, k2="checked")
    create_tag(fix.handle, "v2")
    put(fix, k3="later")
    put(fix, k4="later")
    fix.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))
    assert ids(fix) == [4]
    table.merge_branch("fix", snapshot="v2")
    assert rows(table) == {1: "a", 2: "checked"} and ids(table) == [1, 2]
    in_order(table)


def test_schemas_move_too(table: Table) -> None:
    fix = table.branch("fix")
    fix.alter(add={"n": "INT"})
    table.alter(add={"other": "STRING"})
    fix = table.branch("fix")
    fix.write(pa.table({"k": pa.array([2], pa.int64()), "v": ["x"], "n": pa.array([7], pa.int32())}))
    with pytest.raises(BranchDivergedError, match=r"after snapshot 1 \(schemas 1\)"):
        table.merge_branch("fix")
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.discarded_schemas == (1,) and result.backup_branch is not None
    found = table.scan().to_arrow()
    assert found.column_names == ["k", "v", "n"] and found.sort_by("k")["n"].to_pylist() == [None, 7]
    assert table.branch(result.backup_branch).scan().to_arrow().column_names == ["k", "v", "other"]
    in_order(table)


def test_only_the_definition_changed_on_the_branch(table: Table) -> None:
    table.branch("fix").alter(add={"n": "INT"})
    result = table.merge_branch("fix")
    assert result.published_snapshot_id == 1 and result.backup_branch is None
    assert table.scan().to_arrow().column_names == ["k", "v", "n"]
    in_order(table)


def test_early_snapshots_of_the_branch_have_expired(table: Table) -> None:
    put(table, k2="wrong")
    fix = table.branch("fix")
    for n in range(2, 5):
        put(fix, **{f"k{n}": "right"})
    fix.expire_snapshots(retain_max=2, retain_min=2, older_than=datetime.now(UTC))
    result = table.merge_branch("fix", if_main_moved="replace")
    assert ids(table) == [3, 4] and tags(table) == ["good"], "no hole; tags up to the fork stay"
    assert result.discarded_snapshots == (1, 2)
    assert rows(table.at("good")) == {1: "a"}
    assert rows(table.branch(str(result.backup_branch))) == {1: "a", 2: "wrong"}
    in_order(table)


def test_main_has_expired_beyond_the_fork(table: Table) -> None:
    for n in range(2, 5):
        put(table, **{f"k{n}": "wrong"})
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))
    assert ids(table) == [4]
    put(table.branch("fix"), k2="right")
    result = table.merge_branch("fix", if_main_moved="replace")
    assert ids(table) == [1, 2] and result.discarded_snapshots == (4,) and result.fork_snapshot_id == 1
    backup = table.branch(str(result.backup_branch))
    assert ids(backup) == [4] and rows(backup) == {1: "a", 2: "wrong", 3: "wrong", 4: "wrong"}
    in_order(table)


def test_an_empty_branch_written_to_shares_nothing(table: Table) -> None:
    table.create_branch("fresh", empty=True)
    put(table.branch("fresh"), k9="new")
    result = table.merge_branch("fresh", if_main_moved="replace")
    assert result.fork_snapshot_id is None and result.discarded_snapshots == (1,) and result.discarded_tags == ("good",)
    assert rows(table) == {9: "new"} and tags(table) == []
    backup = table.branch(str(result.backup_branch))
    assert rows(backup) == {1: "a"} and tags(backup) == ["good"]
    fork = read_fork(table.branch("fix").handle)
    assert fork is not None and fork.parent == result.backup_branch
    in_order(table)


def test_into_an_empty_main(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.create_branch("fresh", empty=True)
    put(table.branch("fresh"), k9="new")
    result = table.merge_branch("fresh")
    assert result.backup_branch is None and rows(table) == {9: "new"}
    in_order(table)


def test_a_branch_of_a_branch_brings_the_history_between(table: Table) -> None:
    put(table, k2="wrong")
    fix = table.branch("fix")
    put(fix, k2="fix")
    put(fix, k3="fix")
    fix.create_branch("deep", snapshot_id=3)
    deep = table.branch("deep")
    put(deep, k4="deep")
    put(fix, k5="fix alone")
    result = table.merge_branch("deep", if_main_moved="replace")
    assert result.fork_snapshot_id == 1 and result.moved_snapshots == (2, 3, 4)
    assert ids(table) == [1, 2, 3, 4] and rows(table) == rows(deep) == {1: "a", 2: "fix", 3: "fix", 4: "deep"}
    assert rows(table.at(2)) == {1: "a", 2: "fix"}
    in_order(table)
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.fork_snapshot_id == 3 and result.discarded_snapshots == (4,)
    assert rows(table) == {1: "a", 2: "fix", 3: "fix", 5: "fix alone"}
    in_order(table)


def test_guards_of_other_branches_go_back_with_main(table: Table) -> None:
    put(table, k2="wrong")
    table.create_branch("late", snapshot_id=2)
    put(table.branch("late"), k7="late")
    put(table.branch("fix"), k2="right")
    result = table.merge_branch("fix", if_main_moved="replace")
    guards = {t.name: t.snapshot for t in table.tags(include_internal=True) if t.name.startswith("branch-guard-")}
    assert set(guards) == {guard_name(n) for n in ("fix", "late", str(result.backup_branch))}
    assert guards[guard_name("fix")].id == 2 and guards[guard_name("late")].id == 1
    fork = read_fork(table.branch("late").handle)
    assert fork is not None and (fork.parent, fork.snapshot_id) == (result.backup_branch, 2)
    on_backup = {t.name: t.snapshot.id for t in table.branch(str(result.backup_branch)).tags(include_internal=True)}
    assert on_backup[guard_name("late")] == 2
    late = table.merge_branch("late", if_main_moved="replace")
    assert late.fork_snapshot_id == 1 and rows(table) == {1: "a", 2: "wrong", 7: "late"} and ids(table) == [1, 2, 3]
    in_order(table)
    for branch in [b.name for b in table.branches(include_internal=True)]:
        table.delete_branch(branch)
        in_order(table)


def test_a_guard_follows_when_main_takes_the_parent(table: Table) -> None:
    fix = table.branch("fix")
    put(fix, k2="fix")
    fix.create_branch("child", snapshot_id=2)
    put(fix, k3="fix")
    guard = next(t for t in table.tags(include_internal=True) if t.name == guard_name("child"))
    assert guard.snapshot.id == 1
    table.merge_branch("fix")
    guard = next(t for t in table.tags(include_internal=True) if t.name == guard_name("child"))
    assert guard.snapshot.id == 2
    in_order(table)


def test_a_tag_that_the_branch_moved_is_the_branchs(table: Table) -> None:
    fix = table.branch("fix")
    put(fix, k2="right")
    replace_tag(fix.handle, "good")
    with pytest.raises(BranchDivergedError, match=r"after snapshot 1 \(tags good\)"):  # either side may have moved it
        table.merge_branch("fix")
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.discarded_tags == ("good",) and result.moved_tags == ("good",)
    assert rows(table.at("good")) == {1: "a", 2: "right"}
    assert rows(table.branch(str(result.backup_branch)).at("good")) == {1: "a"}
    in_order(table)


def test_refusals(table: Table) -> None:
    table.create_branch("empty", empty=True)
    put(table, k2="more")
    put(table.branch("fix"), k3="fix")
    state = (ids(table), tags(table), [b.name for b in table.branches(include_internal=True)])
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("main", {}, "main itself"),
        ("empty", {}, "empty"),
        ("fix", {"snapshot": 1}, "not newer than 1, where the branch left main"),
        ("fix", {"snapshot": "main.2"}, "is a version of table db.t"),
    ]
    for name, more, words in refused:
        with pytest.raises(InvalidInputError, match=words):
            table.merge_branch(name, **more)
    with pytest.raises(BranchNotFoundError, match="no branch 'fixx'"):
        table.merge_branch("fixx")
    with pytest.raises(InvalidInputError, match="only main can be given another branch's history"):
        table.branch("fix").merge_branch("empty")
    with pytest.raises(paimon_spark.errors.NotFoundError):
        table.merge_branch("fix", snapshot="nope")
    assert state == (ids(table), tags(table), [b.name for b in table.branches(include_internal=True)])
    in_order(table)


def test_a_branch_whose_base_nobody_knows_is_published_with_a_backup_only(table: Table) -> None:
    put(table, k2="main")
    fix = table.branch("fix")
    put(fix, k3="fix")
    put(fix, k4="fix")
    fix.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))
    files = fsspec.filesystem("file")
    root = fix.handle.layout.branch_root
    for path in ["FORK", "tag/tag-good", f"tag/tag-{guard_name('fix')}"]:
        files.rm(f"{root}/{path}")
    with pytest.raises(InvalidInputError, match=r"where it left main is unknown.* backup=True"):
        table.merge_branch("fix", backup=False)
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.fork_snapshot_id is None and result.discarded_snapshots == (1, 2)
    assert rows(table) == {1: "a", 3: "fix", 4: "fix"} and ids(table) == [3]


def test_what_another_engine_commits_meanwhile_goes_to_the_backup(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lands on the former history after that was read."""
    put(table, k2="wrong")
    put(table, k3="late")
    late = Path(table.handle.layout.snapshot_path(3))
    text = late.read_bytes()
    late.unlink()
    (late.parent / "LATEST").write_text("2")
    fix = table.branch("fix")
    fix.alter(add={"n": "INT"})
    put(fix, k5="right")
    real = run_step

    def landed(handle: TableHandle, step: Step) -> None:
        if isinstance(step, MoveLate):
            late.write_bytes(text)
        real(handle, step)

    monkeypatch.setattr(change, "run_step", landed)
    result = table.merge_branch("fix", if_main_moved="replace")
    backup = table.branch(str(result.backup_branch))
    assert ids(table) == [1, 2] and rows(table) == {1: "a", 5: "right"}
    assert ids(backup) == [1, 2, 3] and rows(backup) == {1: "a", 2: "wrong", 3: "late"}
    in_order(table)
    assert table.doctor() == []


def test_a_branch_rolled_back_to_before_it_was_merged(table: Table) -> None:
    """It leaves main earlier then, and needs an older snapshot of main to be kept."""
    fix = table.branch("fix")
    put(fix, k2="b")
    put(fix, k3="c")
    table.merge_branch("fix")
    put(table, k4="main")
    fix.rollback_to(2)
    fork = read_fork(fix.handle)
    assert fork is not None and fork.snapshot_id == 2 and fork.guards == {"main": guard_name("fix")}
    assert {t.name: t.snapshot.id for t in table.tags(include_internal=True)}[guard_name("fix")] == 2
    in_order(table)
    put(fix, k6="x")
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.fork_snapshot_id == 2 and result.discarded_snapshots == (3, 4)
    assert rows(table) == {1: "a", 2: "b", 6: "x"}
    assert rows(table.branch(str(result.backup_branch))) == {1: "a", 2: "b", 3: "c", 4: "main"}
    in_order(table)


@pytest.mark.parametrize("verb", ["merge_branch", "replace_main"])
def test_main_takes_the_history_of_a_branch_of_a_branch(table: Table, verb: str) -> None:
    """The branch between leaves main later then: the record, the guard and the doctor agree, and go on agreeing."""
    fix = table.branch("fix")
    put(fix, k2="fix")
    fix.create_branch("child", snapshot_id=2)
    put(fix, k3="more")
    getattr(table, verb)("child")
    opened = paimon_spark.load_table(table.location)
    fork = read_fork(opened.branch("fix").handle)
    assert fork is not None and (fork.parent, fork.snapshot_id) == ("main", 2)
    assert {t.name: t.snapshot.id for t in opened.tags(include_internal=True)}[guard_name("fix")] == 2
    assert opened.doctor() == []
    put(opened, k4="main")
    result = opened.merge_branch("fix", if_main_moved="replace")
    assert result.fork_snapshot_id == 2 and rows(opened) == {1: "a", 2: "fix", 3: "more"}
    assert rows(opened.branch(str(result.backup_branch))) == {1: "a", 2: "fix", 4: "main"}
    assert paimon_spark.load_table(table.location).doctor() == []
    in_order(opened)


@pytest.mark.parametrize("backup", [True, False])
@pytest.mark.parametrize("verb", ["merge_branch", "fast_forward"])
def test_a_dry_run_tells_what_the_merge_does(table: Table, verb: str, backup: bool) -> None:
    put(table, k2="wrong")
    create_tag(table.handle, "bad")
    fix = table.branch("fix")
    put(fix, k2="right")
    create_tag(fix.handle, "checked")
    before = files(table)
    more = {"if_main_moved": "replace"} if verb == "merge_branch" else {}
    told = getattr(table, verb)("fix", backup=backup, dry_run=True, **more)
    assert files(table) == before
    done = getattr(table, verb)("fix", backup=backup, **more)
    assert (told.backup_branch is None) == (done.backup_branch is None) == (not backup)
    assert replace(told, backup_branch=None) == replace(done, backup_branch=None)
    assert told.discarded_snapshots == (2,) and told.removed.data_files == (0 if backup else 1)
    assert (told.removed.bytes > 0) is not backup
    in_order(table)


def test_a_dry_run_of_nothing_and_of_what_is_refused(table: Table) -> None:
    before = files(table)
    told = table.merge_branch("fix", dry_run=True)
    assert told == table.merge_branch("fix") and told.published_snapshot_id == 1 and told.moved_snapshots == ()
    with pytest.raises(BranchNotFoundError, match="nobody"):
        table.merge_branch("nobody", dry_run=True)
    assert files(table) == before
