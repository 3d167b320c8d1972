"""Where branches left others: written down, or told from what both share."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.errors import CorruptFileError
from paimon_spark.metadata import small_files
from paimon_spark.metadata.branches import (
    Fork,
    decode,
    encode,
    fork_of,
    fork_path,
    lineage,
    list_branch_names,
    list_branches,
    newest_shared,
)
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.tag_names import guard_name, guarded_branch
from paimon_spark.storage.urls import open_store
from tests.harness.tables import MetadataTable, a_snapshot

GOLDEN = Path(__file__).parents[2] / "fixtures" / "java-0.9"
FORK = Fork("main", 3, "v1", 3000, 4000, {"main": "branch-guard-fix"})


def test_guards_are_named_by_their_branch() -> None:
    assert guard_name("fix") == "branch-guard-fix"
    assert guarded_branch("branch-guard-fix") == "fix"
    for name in ("branch-guard-", "branch-guard", "fix", "xbranch-guard-fix"):
        assert guarded_branch(name) is None


@pytest.mark.parametrize("fork", [FORK, Fork("dev-é", None), Fork("main", 1, None, 1, 2, {"a": "b", "main": "c"})])
def test_a_record_comes_back(fork: Fork) -> None:
    assert decode(encode(fork), "FORK") == fork


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "parent": "", "snapshotId": 1}',
        b'{"version": 1, "parent": "main", "snapshotId": "1"}', b'{"version": 1, "parent": "main", "snapshotId": true}',
        b'{"version": 1, "parent": "main", "snapshotId": 1, "guards": ["x"]}',
        b'{"version": 1, "parent": "main", "snapshotId": 1, "tag": 3}', b"\xff",
    ],
)  # fmt: skip
def test_garbage_is_named(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="branch-x/FORK does not say where its branch comes from"):
        decode(data, "branch-x/FORK")


def test_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(CorruptFileError, match=r"FORK is of version 2, known is 1; use a newer release"):
        decode(encode(FORK).replace(b'"version": 1', b'"version": 2'), "FORK")


def test_what_is_written_down_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    built = MetadataTable().schema().snapshots([1, 2]).schema(branch="fix").snapshots([2], "fix").tag("v", 2, "fix")
    on_fix = built.open("fix")
    built.put(fork_path(on_fix), encode(FORK))
    assert fork_of(on_fix) == FORK
    [branch] = list_branches(built.open())
    assert (branch.created_from_tag, branch.created_from_snapshot_id, branch.fork) == ("v1", 3, FORK)
    built.put(fork_path(on_fix), b"{")
    with pytest.raises(CorruptFileError, match=r"branch/branch-fix/FORK"):
        fork_of(on_fix)


def test_main_left_nothing() -> None:
    built = MetadataTable().schema().snapshots([1]).schema(branch="fix").snapshots([1], "fix")
    assert fork_of(built.open()) is None
    built.put(f"{built.root}/MAIN-BRANCH", b"fix")
    assert fork_of(built.open()) is None
    assert fork_of(built.open("fix")) is None, "it is main"


def other(snapshot_id: int, branch: str) -> object:
    """A snapshot that has an id of main's, and nothing else."""
    return a_snapshot(snapshot_id, base_manifest_list=f"{branch}-{snapshot_id}", delta_manifest_list=f"{branch}-d")


def test_the_newest_shared_snapshot_is_the_fork() -> None:
    built = MetadataTable().schema().snapshots(range(1, 30)).schema(branch="b").snapshots(range(5, 9), "b")
    built.snapshots([other(i, "b") for i in range(9, 40)], "b")  # type: ignore[misc]
    assert fork_of(built.open("b")) == Fork("main", 8, None, 8000, recorded=False)
    assert lineage(built.open("b"), 20) == [("b", 20), ("main", 8)]
    assert lineage(built.open("b"), 6) == [("b", 6), ("main", 6)]


def test_tags_tell_when_snapshots_have_expired() -> None:
    built = MetadataTable().schema().snapshots([20]).tag("v3", 3).tag("v5", 5)
    built.schema(branch="b").tag("v3", 3, "b").tag("v5", 5, "b").tag("branch-guard-b", 5, "b")
    built.snapshots([other(9, "b")], "b")  # type: ignore[list-item]
    assert fork_of(built.open("b")) == Fork("main", 5, "v5", 5000, recorded=False)
    built.delete(built.layout().tag_path("v5"))
    assert fork_of(built.open("b")) == Fork("main", 3, "v3", 3000, recorded=False)
    built.snapshots([5])
    found = fork_of(built.open("b"))
    assert found is not None and found.snapshot_id == 5, "the tag of the branch is main's snapshot"


def test_equal_ids_are_not_equal_snapshots() -> None:
    built = MetadataTable().schema().snapshots([1, 2, 3]).tag("v", 2).schema(branch="b")
    built.snapshots([other(i, "b") for i in (1, 2, 3)], "b").tag("v", other(2, "b"), "b")  # type: ignore[misc, arg-type]
    assert fork_of(built.open("b")) is None
    assert lineage(built.open("b"), 2) == [("b", 2)]


def test_a_branch_of_a_branch_names_that_and_never_the_other_way_round() -> None:
    built = MetadataTable().schema().snapshots([1, 2])
    built.schema(branch="z").snapshots([2, other(3, "z"), other(4, "z")], "z")  # type: ignore[list-item]
    built.schema(branch="a").snapshots([other(4, "z"), other(5, "a")], "a")  # type: ignore[list-item]
    assert fork_of(built.open("z")) == Fork("main", 2, None, 2000, recorded=False)
    found = fork_of(built.open("a"))
    assert found is not None and (found.parent, found.snapshot_id) == ("z", 4)
    assert lineage(built.open("a"), 5) == [("a", 5), ("z", 4), ("main", 2)]
    for snapshot_id in (1, 2):
        built.delete(built.layout().snapshot_path(snapshot_id))
    assert fork_of(built.open("z")) is None, "what its child shares with it is not where it comes from"


def test_siblings_without_their_parent_have_one_of_them_first() -> None:
    built = MetadataTable().schema().snapshots([9]).schema(branch="a").schema(branch="b")
    built.snapshots([2], "a").snapshots([2], "b")
    found = fork_of(built.open("b"))
    assert found is not None and (found.parent, found.snapshot_id) == ("a", 2)
    assert fork_of(built.open("a")) is None


def test_lineages_end_even_in_circles() -> None:
    built = MetadataTable().schema().schema(branch="a").schema(branch="b").snapshots([7], "a").snapshots([7], "b")
    built.put(fork_path(built.open("a")), encode(Fork("b", 5)))
    built.put(fork_path(built.open("b")), encode(Fork("a", 6)))
    assert lineage(built.open("a"), 7) == [("a", 7), ("b", 5)]
    built.put(fork_path(built.open("b")), encode(Fork("gone", 4)))
    assert lineage(built.open("a"), 7) == [("a", 7), ("b", 5), ("gone", 4)]


def test_working_directories_are_no_branches() -> None:
    built = MetadataTable().schema().schema(branch=".merge-1").schema(branch="fix").snapshots([1], ".merge-1")
    assert list_branch_names(built.open()) == ["fix"]
    assert [b.name for b in list_branches(built.open())] == ["fix"]
    built.snapshots([1], "fix")
    assert fork_of(built.open("fix")) is None


def golden(table: str, branch: str) -> TableHandle:
    store, root = open_store(str(GOLDEN / table / "table"))
    return open_table(store, root, branch)


@pytest.mark.parametrize(
    ("table", "branch", "fork"),
    [
        ("branches", "from_tag", ("main", 1, "t1")),
        ("branches", "untouched", ("main", 1, "t1")),
        ("branches", "empty", None),
        ("fast_forwarded", "dev", ("main", 3, None)),
    ],
)
def test_branches_of_java(table: str, branch: str, fork: tuple[str, int, str] | None) -> None:
    found = fork_of(golden(table, branch))
    assert (found and (found.parent, found.snapshot_id, found.tag)) == fork
    assert found is None or not found.recorded


def test_what_is_shared_is_the_same_both_ways() -> None:
    a, b = golden("fast_forwarded", "dev"), golden("fast_forwarded", "main")
    assert newest_shared(a, b) == newest_shared(b, a) is not None
