"""Tags, savepoints, branches, merges and expiry of ours beside pypaimon, and what pypaimon does to them.

pypaimon 2.1.0 has tags, branches, rolling back and fast-forwarding, but neither expiry nor orphan cleaning nor
compaction, and it never deletes a data or manifest file that was committed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.versioning.damage import Severity
from tests.harness.rows import rows_of
from tests.harness.table_files import missing_files
from tests.interop.comparing import disagreement, version_options
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon

pytestmark = pytest.mark.interop

KEYED = {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "1"}}
APPEND: dict[str, Any] = {"pk": [], "partition": [], "tableOptions": {}}
KINDS = pytest.mark.parametrize("kind", [KEYED, APPEND], ids=["keyed", "append"])
EXPIRE: dict[str, Any] = {"retain_max": 1, "retain_min": 1}


@pytest.fixture
def make(java: JavaPaimon, tmp_path: Path) -> Callable[[dict[str, Any]], Table]:
    """Makes a table `k INT, v STRING` by Java's hand, in a warehouse that pypaimon can open."""

    def made(kind: dict[str, Any]) -> Table:
        path = str(tmp_path / "wh" / "db.db" / "t")
        java.call("createTable", path=path, fields=[["k", "INT NOT NULL"], ["v", "STRING"]], comment=None, **kind)
        return paimon_spark.load_table(path)

    return made


def path_of(table: Table) -> str:
    return table.location.removeprefix("file://")


def write(table: Table, rows: list[list[Any]], **more: Any) -> None:
    k, v, *n = zip(*rows, strict=True)
    data = {"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.string())}
    if n:
        data["n"] = pa.array(n[0], pa.int32())
    table.write(pa.table(data), **{"write-only": True, **more})


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows_of(table.scan().to_arrow())), key=str)


def kinds_of(table: Table) -> set[tuple[str, str]]:
    return {(f.kind, f.branch) for f in table.doctor()}


def agree(table: Table, py: PyPaimon, java: JavaPaimon | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """Every head, snapshot and tag of every branch reads alike for all; the rows of each, by label."""
    path = path_of(table)
    theirs = py.call("versions", path=path)
    ours = {}
    for label, reply in theirs.items():
        assert "error" not in reply, f"pypaimon, {label}: {reply['error']}"
        found = disagreement(path, reply, options=version_options(label))
        assert found is None, f"pypaimon, {label}: {found}"
        ours[label] = rows(paimon_spark.load_table(path, **version_options(label)))
    if java is not None:
        replies = java.call("versions", path=path)["versions"]
        assert set(replies) == set(theirs)
        for label, reply in replies.items():
            assert "error" not in reply, f"Java, {label}: {reply['error']}"
            found = disagreement(path, reply, options=version_options(label))
            assert found is None, f"Java, {label}: {found}"
    assert missing_files(table.handle) == []
    return ours


def now() -> datetime:
    return datetime.now(UTC)


@KINDS
def test_every_version_of_every_branch_reads_alike(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"], [2, "b"]])
    table.create_tag("v1")
    write(table, [[3, "c"]])
    savepoint = table.create_savepoint()
    table.create_branch("fix", tag="v1")
    table.create_branch("late", snapshot_id=savepoint.id)
    table.create_branch("blank", empty=True)
    fix = table.branch("fix")
    write(fix, [[1, "fixed"], [9, "branch"]])
    fix.create_tag("done", time_retained=None)
    fix.create_branch("nested", tag="done")
    write(table.branch("nested"), [[10, "nested"]])
    write(fix, [[11, "later"]])
    fix.compact(full=True)
    table.branch("late").alter(add={"n": "INT"})
    write(table.branch("late"), [[4, "d", 4]])
    before = agree(table, py, java)

    # pypaimon goes on with what is ours, on main and on branches.
    for name, row in (("main", [20, "py"]), ("fix", [1, "py"]), ("nested", [22, "py"]), ("blank", [23, "py"])):
        py.call("write", path=path, branch=name, rows=[row])
    py.call("write", path=path, branch="late", rows=[[24, "py", 7]])
    py.call("createTag", path=path, branch="fix", name="theirs")
    java.call("write", path=path, branch="fix", rows=[[30, "java"]])
    after = agree(table, py, java)
    assert {label: after[label] for label in before if "=" in label.removeprefix("branch=")} == {
        label: rows_ for label, rows_ in before.items() if "=" in label.removeprefix("branch=")
    }
    assert (
        (20, "py") in after["latest"] and (22, "py") in after["branch=nested"] and (23, "py") in after["branch=blank"]
    )

    # And we go on with what is pypaimon's: compact, expire, clean; whatever is left still reads alike.
    for name in ("main", "fix", "nested", "late"):
        branch = table.branch(name)
        branch.compact(full=True)
        branch.expire_snapshots(**EXPIRE, older_than=now())
    table.remove_orphan_files(older_than=now())
    kept = agree(table, py, java)
    assert {label: after[label] for label in kept if label in after} == {
        label: rows_ for label, rows_ in kept.items() if label in after
    }
    assert {"branch=fix,tag=done", "branch=fix,tag=theirs", f"tag=savepoint-{savepoint.id}"} < set(kept)
    assert kinds_of(table) == set()


@KINDS
def test_pypaimon_reads_and_extends_merged_main(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"], [2, "b"]])
    table.create_tag("good")
    write(table, [[3, "wrong"]])
    table.create_tag("bad")
    table.create_branch("other", tag="bad")
    table.create_branch("fix", tag="good")
    fix = table.branch("fix")
    write(fix, [[3, "right"]])
    py.call("write", path=path, branch="fix", rows=[[4, "py"]])
    fix.alter(add={"n": "INT"})
    fix.create_tag("checked")
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.backup_branch is not None
    table = paimon_spark.load_table(path)
    merged = agree(table, py, java)
    assert merged["latest"] == merged["branch=fix"] and merged["tag=checked"] == [row[:2] for row in merged["latest"]]
    assert (3, "wrong") in merged[f"branch={result.backup_branch}"] and "tag=bad" not in merged
    assert (3, "wrong") in merged["branch=other"]

    py.call("write", path=path, rows=[[5, "py", 5]])
    py.call("write", path=path, branch="fix", rows=[[6, "py", 6]])
    py.call("write", path=path, branch=result.backup_branch, rows=[[7, "py"]])
    py.call("write", path=path, branch="other", rows=[[8, "py"]])
    extended = agree(table, py, java)
    assert (5, "py", 5) in extended["latest"] and (5, "py", 5) not in extended["branch=fix"]
    table.merge_branch("fix", backup=False, if_main_moved="replace")
    again = agree(table, py, java)
    assert (6, "py", 6) in again["latest"] and (5, "py", 5) not in again["latest"]
    for name in ("branch=other", f"branch={result.backup_branch}", "branch=fix"):
        assert again[name] == extended[name]


@KINDS
def test_rolling_back_and_going_on(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_tag("one")
    write(table, [[2, "b"]])
    write(table, [[3, "c"]], mode="overwrite")
    table.rollback_to_as_latest("one")
    assert agree(table, py, java)["latest"] == [(1, "a")]
    py.call("write", path=path, rows=[[5, "py"]])
    assert agree(table, py, java)["latest"] == [(1, "a"), (5, "py")]
    table.rollback_to(2)
    py.call("write", path=path, rows=[[6, "again"]])
    assert agree(table, py, java)["latest"] == [(1, "a"), (2, "b"), (6, "again")]
    py.call("rollback", path=path, target="one")
    assert agree(table, py, java)["latest"] == [(1, "a")]
    write(table, [[7, "ours"]])
    table.remove_orphan_files(older_than=now())
    assert agree(table, py, java)["latest"] == [(1, "a"), (7, "ours")]


@KINDS
def test_where_pypaimon_rolls_back_our_branches_stay(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    """It takes main's later tags with it, guards and savepoints too, but no files; `doctor` puts the guard back."""
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    write(table, [[2, "b"]])
    savepoint = table.create_savepoint()
    table.create_branch("fix", snapshot_id=savepoint.id)
    write(table.branch("fix"), [[9, "fix"]])
    before = agree(table, py, java)
    py.call("rollback", path=path, target=1)
    assert table.savepoints() == [] and table.tags(include_internal=True) == []
    assert rows(table.branch("fix")) == before["branch=fix"]
    write(table, [[3, "other"]], mode="overwrite")
    assert ("unprotected-base", "fix") in kinds_of(table)
    table.remove_orphan_files(older_than=now())
    assert agree(table, py, java)["branch=fix"] == before["branch=fix"]

    found = {(f.kind, f.branch): f.repaired for f in table.doctor(repair=True)}
    assert found[("unprotected-base", "fix")]
    write(table, [[4, "other"]], mode="overwrite")
    java.call("expireSnapshots", path=path, retain=1)
    java.call("removeOrphans", path=path)
    assert agree(table, py, java)["branch=fix"] == before["branch=fix"]
    table.merge_branch("fix", if_main_moved="replace")
    assert agree(table, py, java)["latest"] == before["branch=fix"]


@KINDS
def test_tags_of_pypaimon(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    py.call("createTag", path=path, name="x")
    py.call("createTag", path=path, name="y")
    table.create_branch("fix", tag="x")
    write(table.branch("fix"), [[2, "fix"]])
    py.call("createTag", path=path, branch="fix", name="on_fix")
    write(table, [[3, "c"]])
    py.call("replaceTag", path=path, name="y")
    py.call("renameTag", path=path, name="y", to="z")
    tags = {t.name: t.snapshot.id for t in table.tags(include_internal=True)}
    assert tags == {"x": 1, "z": 2, "branch-guard-fix": 1}
    assert py.call("listing", path=path) == {"tags": sorted(tags), "branches": ["fix"]}
    assert py.call("deleteTag", path=path, name="x") == {"deleted": True}
    write(table, [[4, "d"]], mode="overwrite")
    table.expire_snapshots(**EXPIRE, older_than=now())
    table.delete_tag("z")
    kept = agree(table, py, java)
    assert kept["branch=fix"] == kept["branch=fix,tag=on_fix"] == [(1, "a"), (2, "fix")]
    assert kept["tag=branch-guard-fix"] == [(1, "a")]
    table.delete_branch("fix")
    assert table.remove_orphan_files(older_than=now()).files == 0
    assert set(agree(table, py, java)) == {"latest", "snapshot=3"}


@KINDS
def test_branches_of_pypaimon(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    """Made without a guard, renamed and deleted without theirs: nothing is lost, and `doctor` puts it right."""
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_tag("base")
    py.call("createBranch", path=path, name="dev", tag="base")
    py.call("createBranch", path=path, name="blank")
    py.call("write", path=path, branch="dev", rows=[[2, "dev"]])
    assert {b.name for b in table.branches(include_internal=True)} == {"dev", "blank"}
    assert kinds_of(table) == {("unprotected-base", "dev")}
    assert all(f.repaired for f in table.doctor(repair=True)) and kinds_of(table) == set()
    table.create_branch("ours", tag="base")
    write(table.branch("ours"), [[3, "ours"]])

    py.call("renameBranch", path=path, name="ours", to="theirs")
    assert kinds_of(table) >= {("unprotected-base", "theirs"), ("stale-guard", "main")}
    py.call("deleteBranch", path=path, name="blank")
    py.call("deleteTag", path=path, name="base")
    assert all(f.repaired for f in table.doctor(repair=True)) and kinds_of(table) == set()
    write(table, [[4, "other"]], mode="overwrite")
    java.call("expireSnapshots", path=path, retain=1)
    table.expire_snapshots(**EXPIRE, older_than=now())
    kept = agree(table, py, java)
    assert kept["branch=dev"] == [(1, "a"), (2, "dev")] and kept["branch=theirs"] == [(1, "a"), (3, "ours")]

    py.call("deleteBranch", path=path, name="dev")
    assert kinds_of(table) == {("stale-guard", "main")}
    table.doctor(repair=True)
    assert kinds_of(table) == set()
    table.merge_branch("theirs", if_main_moved="replace")
    table.remove_orphan_files(older_than=now())
    assert agree(table, py, java)["latest"] == [(1, "a"), (3, "ours")]


@KINDS
def test_pypaimons_fast_forward_of_a_main_that_stood_still(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    """It copies snapshots, but neither schemas nor tags: the head cannot be read until `doctor` has mended it."""
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_tag("base")
    table.create_branch("dev", tag="base")
    dev = table.branch("dev")
    dev.alter(add={"n": "INT"})
    write(dev, [[2, "dev", 5]])
    dev.create_tag("on_dev")
    py.call("fastForward", path=path, name="dev")
    assert kinds_of(table) == {("missing-schema", "main")}
    assert all(f.repaired for f in table.doctor(repair=True)) and kinds_of(table) == set()
    got = agree(paimon_spark.load_table(path), py, java)
    assert got["latest"] == got["branch=dev"] == got["branch=dev,tag=on_dev"]
    py.call("write", path=path, rows=[[3, "py", 6]])
    write(paimon_spark.load_table(path), [[4, "ours", 7]])
    assert len(agree(table, py, java)["latest"]) == 4
    assert kinds_of(table) == set()


@KINDS
def test_pypaimons_fast_forward_onto_another_schema_of_the_same_id(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    """All read main with columns that its files lack; the doctor tells, and merging puts it right."""
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_branch("dev", snapshot_id=1)
    table.branch("dev").alter(add={"n": "INT"})
    write(table.branch("dev"), [[2, "dev", 5]])
    table.alter(add={"m": "STRING"})
    py.call("fastForward", path=path, name="dev")
    assert rows(table) == [(1, "a", None), (2, "dev", None)]
    assert kinds_of(table) == {("other-schema", "dev")}
    result = table.merge_branch("dev", if_main_moved="replace")
    assert result.discarded_schemas == (1,) and result.backup_branch is not None
    got = agree(paimon_spark.load_table(path), py, java)
    assert got["latest"] == got["branch=dev"] == [(1, "a", None), (2, "dev", 5)]
    assert kinds_of(table) == {("other-schema", result.backup_branch)}


@KINDS
def test_pypaimons_broken_fast_forward_is_told_by_the_doctor(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    """Main's later snapshots stay behind those of the branch, so its head is still the former one."""
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_tag("base")
    py.call("createBranch", path=path, name="dev", tag="base")
    py.call("write", path=path, branch="dev", rows=[[2, "dev"]])
    write(table, [[3, "main"]])
    py.call("write", path=path, rows=[[4, "main"]])
    py.call("fastForward", path=path, name="dev")
    assert rows(table) == [(1, "a"), (3, "main"), (4, "main")]

    spliced = [f for f in table.doctor() if f.kind == "spliced-history"]
    assert len(spliced) == 1 and spliced[0].branch == "main" and spliced[0].severity is Severity.WARNING
    assert "snapshot 3 was not made on snapshot 2" in spliced[0].message and "snapshot.2" in spliced[0].remedy
    assert not any(f.repaired for f in table.doctor(repair=True) if f.kind == "spliced-history")
    before = agree(table, py, java)
    # What was main's snapshot 2 is gone from the table, and with it no row of the head.
    table.remove_orphan_files(older_than=now())
    assert agree(table, py, java) == before

    # As the remedy says: the head is kept as a branch, then main goes back to the snapshot of the branch.
    table.create_branch("former_main", snapshot_id=3)
    table.rollback_to("snapshot.2")
    after = agree(table, py, java)
    assert after["latest"] == after["branch=dev"] == [(1, "a"), (2, "dev")]
    assert after["branch=former_main"] == [(1, "a"), (3, "main"), (4, "main")]
    assert not {kind for kind in kinds_of(table) if kind[0] == "spliced-history" and kind[1] == "main"}
    py.call("write", path=path, rows=[[5, "py"]])
    assert agree(table, py, java)["latest"] == [(1, "a"), (2, "dev"), (5, "py")]


@KINDS
def test_a_merge_mends_pypaimons_broken_fast_forward(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_branch("dev", snapshot_id=1)
    write(table.branch("dev"), [[2, "dev"]])
    write(table, [[3, "main"]])
    write(table, [[4, "main"]])
    py.call("fastForward", path=path, name="dev")
    assert ("spliced-history", "main") in kinds_of(table)
    result = table.merge_branch("dev", if_main_moved="replace")
    after = agree(table, py, java)
    assert after["latest"] == after["branch=dev"] == [(1, "a"), (2, "dev")]
    assert result.backup_branch is not None
    assert after[f"branch={result.backup_branch}"] == [(1, "a"), (3, "main"), (4, "main")]
    assert ("spliced-history", "main") not in kinds_of(table)


@KINDS
def test_expiring_a_history_that_pypaimon_put_together(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    """Neighbours share nothing there; what a later one, a tag or a branch needs stays, and nothing else."""
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_branch("dev", snapshot_id=1)
    write(table.branch("dev"), [[2, "dev"]], mode="overwrite")
    for n in range(3, 6):
        write(table, [[n, "main"]])
    table.create_tag("kept", snapshot_id=3)
    py.call("fastForward", path=path, name="dev")
    before = agree(table, py, java)
    table.expire_snapshots(**EXPIRE, older_than=now())
    table.remove_orphan_files(older_than=now())
    after = agree(table, py, java)
    assert [s.id for s in table.snapshots()] == [4]
    assert after == {label: before[label] for label in after}
    table.delete_branch("dev")
    table.delete_tag("kept")
    assert agree(table, py, java) == {label: before[label] for label in ("latest", "snapshot=4")}
    assert table.remove_orphan_files(older_than=now()).files == 0


def test_pypaimons_fast_forward_of_an_expired_main_leaves_a_hole(
    make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    table = make(APPEND)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_branch("dev", snapshot_id=1)
    write(table.branch("dev"), [[2, "dev"]])
    for n in range(3, 7):
        write(table, [[n, "main"]])
    table.expire_snapshots(**EXPIRE, older_than=now())
    py.call("fastForward", path=path, name="dev")
    found = {f.kind: f.message for f in table.doctor() if f.branch == "main"}
    assert "there is a hole: snapshot 2 is followed by 5" in found["spliced-history"]
    assert "stale-hint" in found
    table.doctor(repair=True)
    assert len(agree(table, py, java)["latest"]) == 5
    table.merge_branch("dev", if_main_moved="replace")
    assert agree(table, py, java)["latest"] == [(1, "a"), (2, "dev")]
    assert kinds_of(table) == set()


@KINDS
def test_pypaimon_expires_nothing(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon, java: JavaPaimon
) -> None:
    """Whatever the table's options say; the next commit of ours does it, and keeps what branches need."""
    limits = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
    table = make({**kind, "tableOptions": {**kind["tableOptions"], **limits}})
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_branch("dev", snapshot_id=1)
    for n in range(3):
        py.call("write", path=path, rows=[[n + 2, "py"]], overwrite={})
    assert [s.id for s in table.snapshots()] == [1, 2, 3, 4]
    py.call("write", path=path, branch="dev", rows=[[9, "dev"]])
    table.write(pa.table({"k": pa.array([5], pa.int32()), "v": ["ours"]}))
    assert len(table.snapshots()) < 3
    kept = agree(table, py, java)
    assert kept["branch=dev"] == [(1, "a"), (9, "dev")] and kept["tag=branch-guard-dev"] == [(1, "a")]


@KINDS
def test_after_replace_main_pypaimon_finds_the_branch_by_its_name(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], py: PyPaimon
) -> None:
    table = make(kind)
    path = path_of(table)
    write(table, [[1, "a"]])
    table.create_branch("new", snapshot_id=1)
    write(table.branch("new"), [[2, "new"]])
    write(table, [[3, "former"]])
    result = table.replace_main("new")
    assert "error" in py.attempt("read", path=path)
    py.call("write", path=path, branch="new", rows=[[4, "py"]])
    reply = py.call("read", path=path, branch="new")
    assert disagreement(path, reply, options={}) is None
    assert rows(paimon_spark.load_table(path)) == [(1, "a"), (2, "new"), (4, "py")]
    reply = py.call("read", path=path, branch=result.backup_branch)
    assert disagreement(path, reply, options={"branch": str(result.backup_branch)}) is None
