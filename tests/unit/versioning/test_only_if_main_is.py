"""`only_if_main_is`: a branch is published only while main's head is the snapshot that the caller looked at."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import BranchDivergedError, InvalidInputError
from paimon_spark.jobs.rebase import rebase as rebases
from tests.unit.versioning.publishing import files, ids, new_table, put, rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main: 1, 2; branch `fix` of 1 has 2."""
    made = new_table(tmp_path)
    put(made, k1="a")
    made.create_branch("fix")
    put(made, k2="main")
    put(made.branch("fix"), k3="fix")
    return made


@pytest.mark.parametrize("way", ["refuse", "replace", "rebase"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_another_head_is_refused_by_name(table: Table, way: Any, dry_run: bool) -> None:
    before = files(table)
    said = (
        "nothing was published: main of table db.t is at snapshot 2, not at 1 as only_if_main_is demands; compare "
        "snapshots 1 and 2, then give 2, or leave only_if_main_is out"
    )
    with pytest.raises(BranchDivergedError, match=re.escape(said)) as e:
        table.merge_branch("fix", if_main_moved=way, only_if_main_is=1, dry_run=dry_run)
    assert e.value.context["snapshot_ids"] == (2,) and files(table) == before


def test_the_head_that_main_has_is_published(table: Table) -> None:
    assert table.merge_branch("fix", if_main_moved="replace", only_if_main_is=2, dry_run=True).dry_run
    table.merge_branch("fix", if_main_moved="replace", only_if_main_is=2)
    assert rows(table) == {1: "a", 3: "fix"}


def test_a_branch_that_is_merged_already_is_looked_at_too(table: Table) -> None:
    table.merge_branch("fix", if_main_moved="rebase")
    with pytest.raises(BranchDivergedError, match="at snapshot 3, not at 2"):
        table.merge_branch("fix", if_main_moved="rebase", only_if_main_is=2)
    assert table.merge_branch("fix", if_main_moved="rebase", only_if_main_is=3).already_merged


def test_a_rebase_on_the_head_that_was_asked_for(table: Table) -> None:
    assert table.merge_branch("fix", if_main_moved="rebase", only_if_main_is=2, dry_run=True).rebased_rows == 1
    done = table.merge_branch("fix", if_main_moved="rebase", only_if_main_is=2)
    assert (done.rebased_rows, done.published_snapshot_id) == (1, 3)
    assert rows(table) == {1: "a", 2: "main", 3: "fix"} and [b.name for b in table.branches()] == ["fix"]


def test_a_rebase_where_main_has_not_moved(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    put(table, k1="a")
    table.create_branch("fix")
    put(table.branch("fix"), k2="fix")
    done = table.merge_branch("fix", if_main_moved="rebase", only_if_main_is=1)
    assert (done.rebased_rows, done.moved_snapshots) == (None, (2,))


def test_a_commit_while_a_rebase_is_made_stops_it(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    adopt = rebases._adopt

    def beside(*arguments: Any) -> Any:
        put(table, k9="meanwhile")
        return adopt(*arguments)

    monkeypatch.setattr(rebases, "_adopt", beside)
    with pytest.raises(BranchDivergedError, match="is at snapshot 3, not at 2 as only_if_main_is demands"):
        table.merge_branch("fix", if_main_moved="rebase", only_if_main_is=2)
    assert rows(table) == {1: "a", 2: "main", 9: "meanwhile"} and ids(table) == [1, 2, 3]
    assert [b.name for b in table.branches()] == ["fix"]


def test_a_commit_while_the_rows_are_staged_stops_the_rebase(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    make = rebases._make
    made: list[str] = []

    def beside(*arguments: Any, **more: Any) -> Any:
        if not made:
            made.append("one commit")
            put(table, k9="meanwhile")
        return make(*arguments, **more)

    monkeypatch.setattr(rebases, "_make", beside)
    with pytest.raises(BranchDivergedError, match="is at snapshot 3, not at 2 as only_if_main_is demands"):
        table.merge_branch("fix", if_main_moved="rebase", only_if_main_is=2)
    assert rows(table) == {1: "a", 2: "main", 9: "meanwhile"}


@pytest.mark.parametrize("wrong", [0, -1, True, "2", 2.0])
def test_what_is_no_id_is_refused(table: Table, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="is not the id of a snapshot"):
        table.merge_branch("fix", only_if_main_is=wrong)


def test_it_is_about_main_alone(table: Table) -> None:
    table.create_branch("other")
    with pytest.raises(InvalidInputError, match="leave one out"):
        table.merge_branch("fix", if_main_moved="rebase", target="other", only_if_main_is=2)
