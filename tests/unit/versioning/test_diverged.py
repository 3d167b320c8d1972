"""merge_branch when main has commits of its own: refused unless they are to be replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import BranchDivergedError, InvalidInputError, PaimonError
from paimon_spark.maintenance.change import change_table
from paimon_spark.sql.procedures import call
from paimon_spark.versioning import merge
from paimon_spark.versioning.merge import merge_branch
from tests.unit.versioning.publishing import files, ids, in_order, new_table, put, rows, tags


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main with one snapshot, and a branch `fix` of it with one more."""
    table = new_table(tmp_path)
    put(table, k1="old")
    table.create_branch("fix")
    put(table.branch("fix"), k1="right")
    return table


@pytest.mark.parametrize("more", [{}, {"dry_run": True}, {"backup": False}, {"snapshot": 2}])
def test_a_main_that_moved_is_not_replaced_by_accident(table: Table, more: dict[str, Any]) -> None:
    put(table, k2="wrong")
    before = files(table)
    with pytest.raises(BranchDivergedError) as raised:
        table.merge_branch("fix", **more)
    message = str(raised.value)
    assert "main has commits that it does not have, after snapshot 1 (snapshots 2)" in message
    assert len(message) < 300
    for way in ("if_main_moved='replace'", "if_main_moved='rebase'"):
        assert way in message
    assert ("which deletes them" in message) == (more.get("backup") is False)
    assert raised.value.kind == "branch-diverged"
    assert raised.value.context["snapshot_ids"] == (2,)
    assert files(table) == before


def test_a_main_that_moved_is_replaced_when_told(table: Table) -> None:
    put(table, k2="wrong")
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.discarded_snapshots == (2,) and result.backup_branch is not None
    assert rows(table) == {1: "right"}
    assert rows(table.branch(result.backup_branch)) == {1: "old", 2: "wrong"}
    in_order(table)


def test_a_main_that_did_not_move_is_merged_and_merged_again(table: Table) -> None:
    assert table.merge_branch("fix").discarded_snapshots == ()
    assert table.merge_branch("fix").already_merged
    put(table, k3="later")
    assert table.merge_branch("fix").already_merged  # main has all of the branch
    put(table.branch("fix"), k1="again")
    with pytest.raises(BranchDivergedError, match=r"after snapshot 2 \(snapshots 3\)"):
        table.merge_branch("fix")


def test_compactions_of_main_do_not_count(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    put(table, k1="old")
    put(table, k1="newer")
    table.create_branch("fix")
    put(table.branch("fix"), k1="right")
    table.compact(full=True)
    assert [s.commit_kind.value for s in table.snapshots()] == ["APPEND", "APPEND", "COMPACT"]
    assert table.merge_branch("fix").published_snapshot_id == 3
    assert rows(table) == {1: "right"}
    in_order(table)


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize(
    ("act", "found"),
    [
        (lambda t: t.alter(drop=["v"]), "schemas 1"),
        (lambda t: t.alter(add={"n": "INT"}), "schemas 1"),
        (lambda t: t.alter(set_options={"snapshot.num-retained.max": "99"}), "schemas 1"),
        (lambda t: t.create_tag("kept"), "tags kept"),
        (lambda t: t.create_savepoint(), "tags savepoint-"),
        (lambda t: [t.create_tag("kept"), t.alter(comment="c")], "tags kept; schemas 1"),
    ],
    ids=["a column dropped", "a column added", "an option", "a tag", "a savepoint", "both"],
)
def test_what_users_did_to_main_counts(tmp_path: Path, act: Callable[[Table], Any], found: str, compacts: bool) -> None:
    table = new_table(tmp_path)
    put(table, k1="old")
    put(table, k1="newer")
    table.create_branch("fix")
    put(table.branch("fix"), k1="right")
    if compacts or "tag" in found:  # a tag of the fork itself stays
        table.compact(full=True)
    act(table)
    before, names = files(table), table.scan().to_arrow().column_names
    for dry_run in (False, True):
        with pytest.raises(BranchDivergedError, match=found) as raised:
            table.merge_branch("fix", dry_run=dry_run)
        assert "main has tags or schema changes that it does not have" in str(raised.value)
    assert files(table) == before
    opened = paimon_spark.load_table(table.location)
    assert opened.scan().to_arrow().column_names == names
    result = opened.merge_branch("fix", if_main_moved="replace")
    assert result.discarded_schemas or result.discarded_tags
    assert all(text in str(result) for text in ("main lost", "kept as branch"))
    in_order(opened)


def test_a_tag_on_what_both_share_stays_and_hinders_nothing(table: Table) -> None:
    table.create_tag("kept", snapshot_id=1)
    assert table.merge_branch("fix").discarded_tags == ()
    assert tags(table) == ["kept"]


@pytest.mark.parametrize("act", [lambda t: t.alter(add={"n": "INT"}), lambda t: t.create_tag("kept")])
def test_an_undo_drops_nothing_that_users_did_since(table: Table, act: Callable[[Table], Any]) -> None:
    put(table, k1="wrong")
    table.merge_branch("fix", if_main_moved="replace")
    act(table)
    with pytest.raises(BranchDivergedError, match=r"main has moved since \((tags kept|schemas 1)\)"):
        table.undo()
    assert rows(table) == {1: "right"}
    table.undo(if_main_moved="replace")
    assert rows(table) == {1: "wrong"}


def test_commits_of_main_that_expired_count(table: Table) -> None:
    put(table, k2="wrong")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert ids(table) == [3]
    with pytest.raises(BranchDivergedError):
        table.merge_branch("fix")


def test_a_branch_that_began_empty_needs_an_empty_main(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.create_branch("fresh", empty=True)
    put(table.branch("fresh"), k1="right")
    put(table, k2="wrong")
    with pytest.raises(BranchDivergedError, match="that it does not have \\(snapshots 1\\)"):
        table.merge_branch("fresh")
    assert table.merge_branch("fresh", if_main_moved="replace").published_snapshot_id == 1


def test_a_fast_forward_replaces_whatever_main_has(table: Table) -> None:
    put(table, k2="wrong")
    assert table.fast_forward("fix").discarded_snapshots == (2,)
    assert rows(table) == {1: "right"}


def test_a_commit_made_while_the_merge_waits_for_the_lock_counts(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    real, planned = change_table, threading.Event()

    def commit_first(*args: Any, **more: Any) -> Any:
        if not planned.is_set():
            planned.set()
            put(table, k2="just before")
        return real(*args, **more)

    monkeypatch.setattr(merge, "change_table", commit_first)
    with pytest.raises(BranchDivergedError, match="snapshots 2"):
        table.merge_branch("fix")
    assert rows(table) == {1: "old", 2: "just before"}


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        ("keep", InvalidInputError, "if_main_moved='keep': expected 'refuse', 'replace' or 'rebase'"),
        (None, InvalidInputError, "expected 'refuse', 'replace' or 'rebase'"),
        ("rebsae", InvalidInputError, "expected 'refuse', 'replace' or 'rebase'; did you mean 'rebase'?"),
    ],
)
def test_other_choices_are_refused_by_name(table: Table, choice: Any, error: type[PaimonError], message: str) -> None:
    before = files(table)
    with pytest.raises(error, match=message):
        table.merge_branch("fix", if_main_moved=choice)
    assert files(table) == before


def test_what_a_rebase_does_with_conflicts_is_checked_first(table: Table) -> None:
    put(table, k2="wrong")
    before = files(table)
    anything: Any = table
    for way in ("refuse", "replace", "rebase"):
        with pytest.raises(InvalidInputError, match=r"on_conflict='thiers': expected .*; did you mean 'theirs'\?"):
            anything.merge_branch("no such branch", if_main_moved=way, on_conflict="thiers")
    for way in ("refuse", "replace"):
        with pytest.raises(InvalidInputError, match="on_conflict='theirs' is for a rebase"):
            anything.merge_branch("fix", if_main_moved=way, on_conflict="theirs")
    assert files(table) == before


def test_the_procedure_replaces_as_paimon_unless_told(table: Table) -> None:
    put(table, k2="wrong")
    catalog = paimon_spark.load_catalog(table.location.rpartition("/db.db/")[0])
    with pytest.raises(BranchDivergedError):
        call(catalog, "merge_branch", ["db.t", "fix"], {"if_main_moved": "refuse"})
    with pytest.raises(BranchDivergedError, match=r"is at snapshot 2, not at 1 as only_if_main_is demands"):
        call(catalog, "merge_branch", ["db.t", "fix"], {"only_if_main_is": 1})
    before = files(table)
    planned = call(catalog, "merge_branch", ["db.t", "fix"], {"dry_run": True}).rows
    assert files(table) == before
    found = call(catalog, "merge_branch", ["db.t", "fix"], {"only_if_main_is": 2})
    ((done, head, discarded, backup, already, lost, gained, by_partition),) = found.rows
    assert (done, head, discarded, already) == (True, 2, 1, False) and backup
    assert (lost, gained, by_partition) == (1, 1, "") == planned[0][5:]


def test_a_branch_starts_from_the_head(table: Table) -> None:
    put(table, k2="more")
    made = table.create_branch("dev")
    assert (made.created_from_snapshot_id, made.created_from_tag) == (2, None)
    assert rows(table.branch("dev")) == {1: "old", 2: "more"}
    of_branch = table.branch("fix").create_branch("of-fix")
    assert (of_branch.fork is None or of_branch.fork.parent, rows(table.branch("of-fix"))) == ("fix", {1: "right"})
    in_order(table)


def test_a_branch_starts_empty_when_told_or_when_there_is_nothing(table: Table, tmp_path: Path) -> None:
    assert table.create_branch("bare", empty=True).created_from_snapshot_id is None
    assert rows(table.branch("bare")) == {}
    unwritten = new_table(tmp_path / "other")
    assert unwritten.create_branch("dev").created_from_snapshot_id is None


@pytest.mark.parametrize(
    ("version", "parent", "tag", "expected"),
    [
        ("v1", "main", "v1", {1: "old"}),
        ("1", "main", None, {1: "old"}),
        (1, "main", None, {1: "old"}),
        ("fix", "fix", None, {1: "right"}),
        ("fix.2", "fix", None, {1: "right"}),
        ("fix.checked", "fix", "checked", {1: "right"}),
        ("main", "main", None, {1: "old", 2: "more"}),
    ],
)
def test_a_branch_starts_from_any_version(
    table: Table, version: str | int, parent: str, tag: str | None, expected: dict[int, str]
) -> None:
    table.create_tag("v1", snapshot_id=1)
    table.branch("fix").create_tag("checked")
    put(table, k2="more")
    made = table.create_branch("dev", version=version)
    assert made.fork is not None
    assert (made.fork.parent, made.created_from_tag) == (parent, tag)
    assert rows(table.branch("dev")) == expected
    in_order(table)


def test_two_starts_of_a_branch_are_refused(table: Table) -> None:
    before = files(table)
    with pytest.raises(InvalidInputError, match="is given version and empty to start from; give one of them"):
        table.create_branch("dev", version="1", empty=True)
    with pytest.raises(InvalidInputError, match="is given tag and version"):
        table.create_branch("dev", tag="v1", version="1")
    assert files(table) == before


def test_procedure_starts_empty_as_paimon_unless_told(table: Table) -> None:
    catalog = paimon_spark.load_catalog(table.location.rpartition("/db.db/")[0])
    call(catalog, "create_branch", ["db.t", "bare"])
    call(catalog, "create_branch", ["db.t", "dev"], {"version": "fix"})
    starts = {b.name: b.created_from_snapshot_id for b in table.branches(include_internal=True)}
    assert (starts["bare"], starts["dev"]) == (None, 2)


def test_only_the_verb_of_tables_rebases(table: Table) -> None:
    before = files(table)
    with pytest.raises(InvalidInputError, match="expected 'refuse' or 'replace'"):
        merge_branch(table.handle, "fix", if_main_moved="rebase")
    assert files(table) == before
