"""Tags, branches and merges of ours beside a Java that knows nothing of them, and the other way round."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import CorruptFileError, PaimonError
from paimon_spark.metadata.handle import open_table
from paimon_spark.storage.local import LocalStore
from paimon_spark.versioning.damage import Severity
from tests.harness.fault_store import MUTATING, Fault, FaultStore
from tests.harness.rows import difference, rows_of
from tests.harness.table_files import missing_files
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop

KEYED = {"pk": ["k"], "partition": [], "tableOptions": {"bucket": "1"}}
APPEND: dict[str, Any] = {"pk": [], "partition": [], "tableOptions": {}}
KINDS = pytest.mark.parametrize("kind", [KEYED, APPEND], ids=["keyed", "append"])


@pytest.fixture
def make(java: JavaPaimon, tmp_path: Path) -> Callable[[dict[str, Any]], Table]:
    """Makes a table `k INT, v STRING` by Java's hand."""

    def made(kind: dict[str, Any]) -> Table:
        path = str(tmp_path / "t")
        java.call("createTable", path=path, fields=[["k", "INT NOT NULL"], ["v", "STRING"]], comment=None, **kind)
        return paimon_spark.load_table(path)

    return made


def write(table: Table, rows: list[list[Any]], **more: Any) -> None:
    k, v = zip(*rows, strict=True)
    data = pa.table({"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.string())})
    table.write(data, **{"write-only": True, **more})


def replaced(table: Table, rows: list[list[Any]]) -> None:
    write(table, rows, mode="overwrite")


def rows(table: Table) -> list[dict[str, Any]]:
    types = {"k": "INT NOT NULL", "v": "STRING"}
    return sorted(rows_of(table.scan().to_arrow(), types), key=str)


def by_java(java: JavaPaimon, table: Table, **call: Any) -> list[dict[str, Any]]:
    return sorted(java.call("read", path=table.location.removeprefix("file://"), **call)["rows"], key=str)


def everything(table: Table) -> dict[str, list[dict[str, Any]]]:
    """Rows of every version of every branch that does not expire: heads and tags."""
    found = {}
    for name in ("main", *(b.name for b in table.branches(include_internal=True))):
        branch = table.branch(name)
        found[name] = rows(branch)
        for tag in branch.tags(include_internal=True):
            found[f"{name}.{tag.name}"] = rows(branch.at(f"tag-name.{tag.name}"))
    return found


@KINDS
def test_what_java_expires_on_main_our_branches_and_savepoints_keep(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    table = make(kind)
    path = table.location.removeprefix("file://")
    write(table, [[1, "a"], [2, "b"]])
    table.create_tag("v1")
    table.create_branch("from_tag", tag="v1")
    write(table, [[3, "c"]])
    savepoint = table.create_savepoint()
    table.create_branch("from_snapshot", snapshot_id=savepoint.id)
    write(table.branch("from_tag"), [[1, "fixed"], [9, "branch"]])
    table.branch("from_tag").create_tag("done")
    table.branch("from_tag").create_branch("nested", tag="done")
    table.create_branch("empty", empty=True)
    replaced(table, [[7, "x"]])
    replaced(table, [[8, "y"]])
    before = everything(table)

    java.call("deleteTag", path=path, name="v1")
    java.call("expireSnapshots", path=path, retain=1)
    java.call("removeOrphans", path=path)

    del before["main.v1"]
    assert len(table.snapshots()) == 1
    assert everything(table) == before
    assert missing_files(table.handle) == []
    for name in ("main", "from_tag", "from_snapshot", "nested"):
        assert by_java(java, table, branch=name) == before[name]
    assert by_java(java, table, options={"scan.tag-name": f"savepoint-{savepoint.id}"}) == rows(
        table.at(f"savepoint.{savepoint.id}")
    )
    # And it goes on: both write on the branch, and we expire it.
    java.call("write", path=path, branch="from_tag", rows=[[20, "java"]])
    table.branch("from_tag").expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC))
    assert missing_files(table.handle) == []
    assert everything(table)["nested"] == before["nested"]
    assert everything(table)["main"] == before["main"]
    assert everything(table)["from_tag.done"] == before["from_tag.done"]


def test_java_expiring_a_branch_looks_at_the_tags_of_main(
    make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    """A fault of Java (`AbstractFileStore.newTagManager`), as of 2.0.0: so no guard on a branch could help there."""
    table = make(APPEND)
    path = table.location.removeprefix("file://")
    write(table, [[1, "a"]])
    java.call("createTag", path=path, name="base")
    java.call("createBranch", path=path, name="b", tag="base")
    java.call("write", path=path, branch="b", rows=[[2, "b"]])
    java.call("createTag", path=path, branch="b", name="own")
    java.call("write", path=path, branch="b", rows=[[3, "c"]])
    java.call("expireSnapshots", path=path, branch="b", retain=1)
    [reply] = java.run([{"op": "read", "path": path, "branch": "b", "branchTag": "own"}])
    assert "FileNotFoundException" in reply["error"]
    assert "missing-files" in {finding.kind for finding in table.doctor()}


@KINDS
def test_what_java_expires_on_our_branch_takes_what_only_the_branch_keeps(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    """Its tag, its savepoint and its child are lost, and told by the doctor; heads and all of main are whole."""
    table = make(kind)
    path = table.location.removeprefix("file://")
    write(table, [[1, "a"]])
    table.create_tag("base")
    table.create_branch("b", tag="base")
    branch = table.branch("b")
    write(branch, [[2, "b"]])
    branch.create_tag("own")
    branch.create_branch("child", tag="own")
    replaced(branch, [[3, "c"]])
    savepoint = branch.create_savepoint()
    for n in (4, 5):
        replaced(branch, [[n, "later"]])
    before = everything(table)
    assert before["child"] == before["b.own"] == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
    assert table.doctor() == []

    java.call("expireSnapshots", path=path, branch="b", retain=1)

    assert rows(table) == by_java(java, table) == rows(table.at("tag-name.base")) == before["main"]
    assert rows(branch) == by_java(java, table, branch="b") == before["b"] == [{"k": 5, "v": "later"}]
    lost = {"own": branch.at("tag-name.own"), "savepoint": branch.at(f"savepoint.{savepoint.id}")}
    for state in (*lost.values(), table.branch("child")):
        with pytest.raises(CorruptFileError, match="is missing"):
            rows(state)
    [reply] = java.run([{"op": "read", "path": path, "branch": "child"}])
    assert "FileNotFoundException" in reply["error"]
    found = {f.branch: f for f in table.doctor() if f.kind == "missing-files"}
    assert set(found) == {"b", "child"}
    assert all(f.severity is Severity.ERROR for f in found.values())
    assert "tag 'own'" in found["b"].message and f"tag 'savepoint-{savepoint.id}'" in found["b"].message

    # As the finding says: without these refs the table is whole, and goes on.
    table.delete_branch("child")
    branch.delete_tag("own")
    branch.delete_savepoint(savepoint.id)
    assert not [f for f in table.doctor() if f.kind == "missing-files"]
    assert missing_files(table.handle) == []
    table.merge_branch("b", if_main_moved="replace")
    assert by_java(java, table) == before["b"]


@pytest.mark.parametrize("write_only", [False, True])
def test_a_branch_that_is_write_only_keeps_its_tags_when_java_writes(
    write_only: bool, make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    """As docs/limits.md tells to set it: Java's commits expire nothing there."""
    few = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
    table = make({**APPEND, "tableOptions": few})
    path = table.location.removeprefix("file://")
    write(table, [[1, "a"]])
    table.create_branch("b", snapshot_id=1)
    branch = table.branch("b")
    if write_only:
        branch = branch.alter(set_options={"write-only": "true"})
    write(branch, [[2, "b"]])
    branch.create_tag("own")
    replaced(branch, [[3, "c"]])
    java.call("write", path=path, branch="b", rows=[[4, "java"]])
    kinds = {finding.kind for finding in table.doctor()}
    if write_only:
        assert rows(branch.at("tag-name.own")) == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
        assert "missing-files" not in kinds and len(branch.snapshots()) == 4
    else:
        assert "missing-files" in kinds and len(branch.snapshots()) == 1


def test_java_makes_automatic_tags_of_a_branch_on_main(
    make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    """The same fault: such a tag of another history stands among main's, on which other engines rely."""
    automatic = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
    table = make({**APPEND, "tableOptions": automatic})
    write(table, [[1, "a"]])
    table.create_branch("b", snapshot_id=1)
    java.call("write", path=table.location.removeprefix("file://"), branch="b", rows=[[2, "b"]])
    assert [t.name for t in table.branch("b").tags(include_internal=True)] == ["branch-guard-b"]
    assert len(table.tags(include_internal=True)) == 2


@KINDS
def test_java_reads_and_extends_merged_main(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    table = make(kind)
    path = table.location.removeprefix("file://")
    write(table, [[1, "a"], [2, "b"]])
    table.create_tag("good")
    write(table, [[3, "wrong"]])
    table.create_tag("bad")
    table.create_branch("fix", tag="good")
    fix = table.branch("fix")
    write(fix, [[3, "right"]])
    fix.alter(add={"n": "INT"})
    fix.create_tag("checked")
    result = table.merge_branch("fix", if_main_moved="replace")
    assert result.backup_branch is not None
    table = paimon_spark.load_table(path)
    want = [{"k": 1, "n": None, "v": "a"}, {"k": 2, "n": None, "v": "b"}, {"k": 3, "n": None, "v": "right"}]
    assert sorted(java.call("read", path=path)["rows"], key=str) == sorted(
        java.call("read", path=path, branch="fix")["rows"], key=str
    )
    assert len(want) == len(java.call("read", path=path)["rows"])
    listing = java.call("listing", path=path)
    assert "checked" in listing["tags"] and "good" in listing["tags"] and "bad" not in listing["tags"]
    java.call("write", path=path, rows=[[4, "java", 5]])
    java.call("compact", path=path)
    java.call("expireSnapshots", path=path, retain=1)
    assert missing_files(table.handle) == []
    assert sorted(java.call("read", path=path, branch=result.backup_branch)["rows"], key=str) == rows(
        table.branch(result.backup_branch)
    )
    got = sorted(rows_of(table.scan().to_arrow(), {"k": "INT NOT NULL", "v": "STRING", "n": "INT"}), key=str)
    assert difference(sorted(java.call("read", path=path)["rows"], key=str), got, ()) is None


@KINDS
def test_java_reads_and_extends_a_rebased_main(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    table = make(kind)
    path = table.location.removeprefix("file://")
    write(table, [[1, "a"]])
    write(table, [[2, "b"]])
    table.create_branch("fix")
    java.call("write", path=path, rows=[[3, "java"]])
    fix = table.branch("fix")
    fix.delete("k = 1")
    write(fix, [[4, "fix"]])
    table.merge_branch("fix", if_main_moved="rebase")
    assert [(r["k"], r["v"]) for r in rows(table)] == [(2, "b"), (3, "java"), (4, "fix")]
    assert by_java(java, table) == rows(table)
    java.call("write", path=path, rows=[[5, "java"]])
    write(fix, [[6, "fix"]])
    table.merge_branch("fix", if_main_moved="rebase")
    java.call("compact", path=path)
    assert [r["k"] for r in rows(table)] == [2, 3, 4, 5, 6]
    assert by_java(java, table) == rows(table)
    java.call("expireSnapshots", path=path, retain=1)
    assert missing_files(table.handle) == []
    assert by_java(java, table) == rows(table)


@KINDS
def test_what_java_fast_forwards_we_read_and_the_doctor_knows(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    table = make(kind)
    path = table.location.removeprefix("file://")
    write(table, [[1, "a"]])
    table.create_tag("base")
    java.call("createBranch", path=path, name="dev", tag="base")
    kinds = {finding.kind for finding in table.doctor()}
    assert "unprotected-base" in kinds
    table.doctor(repair=True)
    write(table, [[2, "lost"]])
    java.call("write", path=path, branch="dev", rows=[[3, "dev"]])
    java.call("fastForward", path=path, name="dev")
    assert rows(table) == by_java(java, table) == rows(table.branch("dev"))
    java.call("write", path=path, rows=[[4, "after"]])
    assert rows(table) == by_java(java, table)
    assert table.remove_orphan_files(older_than=datetime.now(UTC)) is not None
    assert missing_files(table.handle) == []


@KINDS
def test_rolling_back_reads_alike(
    kind: dict[str, Any], make: Callable[[dict[str, Any]], Table], java: JavaPaimon
) -> None:
    table = make(kind)
    path = table.location.removeprefix("file://")
    write(table, [[1, "a"]])
    table.create_tag("one")
    write(table, [[2, "b"]])
    replaced(table, [[3, "c"]])
    table.rollback_to_as_latest("one")
    assert rows(table) == by_java(java, table) == [{"k": 1, "v": "a"}]
    assert [s.id for s in table.snapshots()] == [1, 2, 3, 4]
    java.call("write", path=path, rows=[[5, "java"]])
    assert rows(table) == by_java(java, table) == [{"k": 1, "v": "a"}, {"k": 5, "v": "java"}]
    table.rollback_to(2)
    assert rows(table) == by_java(java, table) == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
    java.call("write", path=path, rows=[[6, "again"]])
    assert rows(table) == by_java(java, table)
    assert missing_files(table.handle) == []


def test_java_finds_a_branch_under_one_name_whenever_its_renaming_is_killed(
    make: Callable[[dict[str, Any]], Table], java: JavaPaimon, tmp_path: Path
) -> None:
    """On a local disk, where directories move at once. Java knows nothing of `intent/`."""
    table = make(KEYED)
    write(table, [[1, "a"]])
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    fix = table.branch("fix").alter(add={"n": "INT"})
    write(fix, [[2, "fix"]])
    want = by_java(java, table, branch="fix")
    seen = []
    for changes in range(1, 100):
        path = str(tmp_path / str(changes))
        shutil.copytree(table.location.removeprefix("file://"), path)
        store = FaultStore(LocalStore())
        opened = Table(open_table(store, path))
        store.arm(Fault(changes, after=True, forever=True, retryable=False, verbs=MUTATING))
        with suppress(PaimonError):
            opened.rename_branch("fix", "renamed")
        [name] = java.call("listing", path=path)["branches"]
        assert sorted(java.call("read", path=path, branch=name)["rows"], key=str) == want, name
        assert [b.name for b in paimon_spark.load_table(path).branches(include_internal=True)] == [name]
        seen.append(name)
        shutil.rmtree(path)
        if not store.failed:
            break
    assert seen == sorted(seen) and set(seen) == {"fix", "renamed"} and len(seen) > 5
