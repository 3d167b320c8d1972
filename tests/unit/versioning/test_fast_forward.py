"""fast_forward is Paimon's verb: main becomes the branch, also when that takes it back; what main loses is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import BranchNotFoundError, InvalidInputError
from paimon_spark.metadata.branches import read_fork
from paimon_spark.versioning.tags import create_tag
from tests.unit.versioning.publishing import files, ids, in_order, new_table, put, rows, tags


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main: 1, 2 (a tag), 3, 4; branch `fix` of the tag, with nothing of its own."""
    made = new_table(tmp_path)
    for n, value in enumerate("abcd", 1):
        put(made, **{f"k{n}": value})
    create_tag(made.handle, "v2", snapshot_id=2)
    made.create_branch("fix", tag="v2")
    return made


def test_main_goes_back_to_a_branch_that_nothing_was_written_to(table: Table) -> None:
    """Java `FastForwardProcedureTest`: the second call takes back what came between."""
    first = table.fast_forward("fix")
    assert not first.already_merged and first.discarded_snapshots == (3, 4)
    assert (first.fork_snapshot_id, first.published_snapshot_id, first.moved_snapshots) == (2, 2, ())
    assert rows(table) == {1: "a", 2: "b"} and ids(table) == [1, 2] and tags(table) == ["v2"]
    put(table, k5="e")
    put(table, k6="f")
    assert rows(table) == {1: "a", 2: "b", 5: "e", 6: "f"}
    second = table.fast_forward("fix")
    assert rows(table) == rows(table.branch("fix")) == {1: "a", 2: "b"}
    kept = [rows(table.branch(str(r.backup_branch))) for r in (first, second)]
    assert kept == [{1: "a", 2: "b", 3: "c", 4: "d"}, {1: "a", 2: "b", 5: "e", 6: "f"}]
    in_order(table)


def test_without_backup_what_main_loses_is_gone(table: Table) -> None:
    result = table.fast_forward("fix", backup=False)
    assert result.backup_branch is None and result.removed.data_files == 2
    assert [b.name for b in table.branches(include_internal=True)] == ["fix"] and rows(table) == {1: "a", 2: "b"}
    in_order(table)


def test_a_branch_that_was_merged_before_takes_main_back_too(table: Table) -> None:
    fix = table.branch("fix")
    put(fix, k9="fix")
    table.merge_branch("fix", if_main_moved="replace")
    put(table, k10="main")
    assert table.merge_branch("fix").already_merged and rows(table)[10] == "main"
    result = table.fast_forward("fix")
    assert result.discarded_snapshots == (4,) and rows(table) == rows(fix) == {1: "a", 2: "b", 9: "fix"}
    fork = read_fork(fix.handle)
    assert fork is not None and (fork.parent, fork.snapshot_id) == ("main", 3)
    in_order(table)


def test_twice_does_nothing_the_second_time(table: Table) -> None:
    put(table.branch("fix"), k9="fix")
    table.fast_forward("fix")
    before = files(table)
    again = table.fast_forward("fix")
    assert again.already_merged and again.published_snapshot_id == 3 and again.backup_branch is None
    assert again == table.fast_forward("fix", dry_run=True)
    assert {p for p in files(table) if not p.startswith("intent")} == {p for p in before if not p.startswith("intent")}


def test_a_schema_that_only_main_has_goes_with_a_backup(table: Table) -> None:
    table.fast_forward("fix")
    table.alter(add={"more": "INT"})
    assert table.merge_branch("fix").already_merged
    result = table.fast_forward("fix")
    assert result.discarded_schemas == (1,) and result.backup_branch is not None
    opened = table.branch(result.backup_branch)
    assert opened.schema.row_type.names == ("k", "v", "more")
    in_order(table)
    assert rows(table) == {1: "a", 2: "b"}


def test_main_gets_the_branchs_tags_of_the_fork_and_before(table: Table) -> None:
    """Paimon copies the whole tag directory of the branch."""
    fix = table.branch("fix")
    create_tag(fix.handle, "audited")
    create_tag(table.handle, "late")
    table.delete_tag("v2")
    result = table.fast_forward("fix")
    assert result.moved_tags == ("audited", "v2") and result.discarded_tags == ("late",)
    assert tags(table) == ["audited", "v2"] and rows(table.at("audited")) == {1: "a", 2: "b"}
    in_order(table)


@pytest.mark.parametrize("version", [2, "v2"])
def test_exactly_an_older_snapshot_of_the_branch(table: Table, version: int | str) -> None:
    put(table.branch("fix"), k9="fix")
    table.merge_branch("fix", if_main_moved="replace")
    with pytest.raises(InvalidInputError, match=r"not newer than 2, where the branch left main; .* or fast_forward"):
        table.merge_branch("fix", snapshot=version)
    result = table.fast_forward("fix", snapshot=version)
    assert result.discarded_snapshots == (3,) and rows(table) == {1: "a", 2: "b"} and ids(table) == [1, 2]
    in_order(table)
    assert table.fast_forward("fix").moved_snapshots == (3,)
    assert rows(table) == {1: "a", 2: "b", 9: "fix"}


def test_a_dry_run_of_going_back(table: Table) -> None:
    before = files(table)
    told = table.fast_forward("fix", backup=False, dry_run=True)
    assert files(table) == before
    assert told == table.fast_forward("fix", backup=False) and told.discarded_snapshots == (3, 4)


def test_branches_that_left_main_later_stay_whole(table: Table) -> None:
    table.create_branch("late", snapshot_id=4)
    put(table.branch("late"), k7="late")
    result = table.fast_forward("fix")
    fork = read_fork(table.branch("late").handle)
    assert fork is not None and (fork.parent, fork.snapshot_id) == (result.backup_branch, 4)
    in_order(table)
    table.fast_forward("late")
    assert rows(table) == {1: "a", 2: "b", 3: "c", 4: "d", 7: "late"} and ids(table) == [1, 2, 3, 4, 5]
    in_order(table)


def test_what_java_refuses_is_refused(table: Table) -> None:
    """An empty branch, main itself, no such branch, and a call on the branch: as `FileSystemBranchManager`."""
    table.create_branch("empty", empty=True)
    state = (ids(table), tags(table))
    for name, error, words in (
        ("empty", InvalidInputError, "the fast-forward of branch 'empty' of table db.t is refused: it has no snapshot"),
        ("main", InvalidInputError, "main itself"),
        ("fixx", BranchNotFoundError, "no branch 'fixx'; did you mean 'fix'"),
    ):
        with pytest.raises(error, match=words):
            table.fast_forward(name)
    with pytest.raises(InvalidInputError, match="only main can be given"):
        table.branch("fix").fast_forward("fix")
    assert state == (ids(table), tags(table))


def test_a_merge_of_what_main_has_says_so(table: Table) -> None:
    put(table, k5="more")
    result = table.merge_branch("fix")
    assert result.already_merged and result.published_snapshot_id == 5
    assert str(result) == "branch fix is already merged: main has every commit of it, and stays at snapshot 5"
    assert "already merged" in result._repr_html_()
    assert rows(table) == {1: "a", 2: "b", 3: "c", 4: "d", 5: "more"}
    put(table.branch("fix"), k9="fix")
    done = table.merge_branch("fix", if_main_moved="replace")
    assert not done.already_merged and "already merged" not in done._repr_html_()
