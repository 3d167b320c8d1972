"""Tags of any version: on a branch that has the snapshot, so that no engine takes files from another history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError, TagNotFoundError, VersionNotFoundError
from paimon_spark.sql.procedures import call
from tests.unit.versioning.publishing import files, in_order, new_table, put, rows, tags


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Main with the tag `v1` of snapshot 1, and a branch `fix` of it with its own snapshot 2, tagged `checked`."""
    table = new_table(tmp_path)
    put(table, k1="old")
    table.create_tag("v1")
    table.create_branch("fix")
    put(table.branch("fix"), k1="right")
    table.branch("fix").create_tag("checked")
    put(table, k2="main")
    return table


@pytest.mark.parametrize(
    ("version", "branch", "snapshot_id", "expected"),
    [
        ("v1", None, 1, {1: "old"}),
        ("1", None, 1, {1: "old"}),
        (1, None, 1, {1: "old"}),
        ("main", None, 2, {1: "old", 2: "main"}),
        ("fix.1", None, 1, {1: "old"}),  # main has it too
        ("fix", "fix", 2, {1: "right"}),
        ("fix.2", "fix", 2, {1: "right"}),
        ("fix.checked", "fix", 2, {1: "right"}),
    ],
)
def test_a_tag_of_any_version_is_on_a_branch_that_has_it(
    table: Table, version: str | int, branch: str | None, snapshot_id: int, expected: dict[int, Any]
) -> None:
    made = table.create_tag("new", version=version)
    assert (made.branch, made.snapshot.id) == (branch, snapshot_id)
    assert rows(table.at("new" if branch is None else f"{branch}.new")) == expected
    assert ("new" in tags(table)) == (branch is None)
    in_order(table)


def test_a_branch_tags_a_version_of_main(table: Table) -> None:
    fix = table.branch("fix")
    assert fix.create_tag("ours", version="main.v1").branch is None  # the branch has snapshot 1 too
    assert fix.create_tag("theirs", version="main.2").branch == "main"
    assert rows(table.at("theirs")) == {1: "old", 2: "main"}
    in_order(table)


def test_a_tag_moves_to_any_version(table: Table) -> None:
    table.create_tag("new")
    assert table.replace_tag("new", version="fix.1").snapshot.id == 1
    assert rows(table.at("new")) == {1: "old"}
    put(table.branch("fix"), k3="more")
    moved = table.replace_tag("checked", version="fix.3")
    assert (moved.branch, moved.snapshot.id) == ("fix", 3)
    with pytest.raises(TagNotFoundError, match=r"branch 'fix' of table db\.t has no tag 'new'"):
        table.replace_tag("new", version="fix.3")
    in_order(table)


def test_an_expired_snapshot_is_taken_from_its_tag(table: Table) -> None:
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert table.create_tag("again", version="v1").snapshot.id == 1
    assert rows(table.at("again")) == {1: "old"}
    in_order(table)


def test_what_is_no_version_tags_nothing(table: Table) -> None:
    before = files(table)
    with pytest.raises(VersionNotFoundError):
        table.create_tag("new", version="nope")
    with pytest.raises(InvalidInputError, match="is given snapshot_id and version; give one of them"):
        table.create_tag("new", version="v1", snapshot_id=1)
    assert files(table) == before


def test_the_procedures_take_versions(table: Table) -> None:
    catalog = paimon_spark.load_catalog(table.location.rpartition("/db.db/")[0])
    call(catalog, "create_tag", ["db.t", "new"], {"version": "fix.2"})
    call(catalog, "replace_tag", ["db.t", "v1"], {"version": "main"})
    assert tags(table.branch("fix")) == ["checked", "new"]
    assert rows(table.at("v1")) == {1: "old", 2: "main"}
