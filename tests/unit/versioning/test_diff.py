"""Two versions compared by metadata: the files, columns and options that differ, and how the versions are related."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.errors import InvalidInputError, SnapshotExpiredError, VersionNotFoundError
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import CACHE, data_manifests
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.version import text_version
from paimon_spark.storage.local import LocalStore
from paimon_spark.text import counted
from tests.harness.real_tables import a_catalog
from tests.unit.versioning.publishing import new_table, put

Key = tuple[bytes, int, str]


def _live(table: Table, version: str) -> dict[Key, tuple[int, int]]:
    found = resolve(table.handle, text_version(version))
    if found.snapshot is None:
        return {}
    rows = live_entries(found.handle, data_manifests(found.handle, found.snapshot)).to_pylist()
    return {(r["partition"], r["bucket"], r["file_name"]): (r["row_count"], r["file_size"]) for r in rows}


def check(table: Table, old: str, new: str) -> paimon_spark.Diff:
    """The diff of two versions, which is the difference of their live files."""
    before, after = _live(table, old), _live(table, new)
    found = table.diff(old, new)
    rows = found.files.to_pylist()
    by_change = {
        change: {(r["partition"], r["bucket"], r["file_name"]): (r["row_count"], r["file_size"])
                 for r in rows if r["change"] == change}
        for change in ("added", "removed", "changed")
    }  # fmt: skip
    assert by_change["added"] == {k: v for k, v in after.items() if k not in before}
    assert by_change["removed"] == {k: v for k, v in before.items() if k not in after}
    assert by_change["changed"].keys() <= before.keys() & after.keys()
    assert found.rows_added == sum(r for r, _ in by_change["added"].values())
    assert found.bytes_removed == sum(size for _, size in by_change["removed"].values())
    assert found.files_added == len(by_change["added"]) == sum(p.files_added for p in found.partitions)
    json.dumps(found.to_dict())
    return found


def append_table(root: Path, **options: str) -> Table:
    catalog = a_catalog(root / "wh")
    schema = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("v", pa.string())])
    catalog.create_table("db.a", schema, partition_keys=["dt"], options=options)
    return catalog.table("db.a")


def add(table: Table, ids: range, dt: str | None = "d1", **values: Any) -> None:
    columns = {"id": pa.array(ids, pa.int64()), "dt": pa.array([dt] * len(ids), pa.string()), **values}
    table.write(pa.table(columns))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keyed", [True, False])
def test_a_diff_is_the_difference_of_the_live_files_in_any_history(tmp_path: Path, seed: int, keyed: bool) -> None:
    random = Random(seed)
    options = {"compaction.min.file-num": "2", "snapshot.num-retained.min": "2"}
    table = new_table(tmp_path, **options) if keyed else append_table(tmp_path, **options)
    branches, versions = ["main"], ["main"]
    for step in range(24):
        name = random.choice(branches)
        branch = table if name == "main" else table.branch(name)
        act = random.choice(("write", "write", "write", "compact", "tag", "branch", "overwrite", "expire", "alter"))
        head = branch.snapshots()[-1:]
        if act == "write" and keyed:
            put(branch, **{f"k{random.randrange(9)}": "x"})
        elif act == "write":
            add(branch, range(step, step + 2), random.choice(("d1", "d2", None)))
        elif act == "overwrite" and head:
            branch.write(branch.scan().to_arrow().slice(0, 3), mode="overwrite")
        elif act == "compact" and head:
            branch.compact(full=keyed)
        elif act == "tag" and head:
            branch.create_tag(f"t{step}")
            versions.append(f"{name}.t{step}")
        elif act == "branch" and head:
            branch.create_branch(f"b{step}", empty=True)
            branches.append(f"b{step}")
            versions.append(f"b{step}")
        elif act == "alter":
            branch.alter(set_options={"snapshot.num-retained.max": str(10 + step)})
        elif act == "expire" and len(branch.snapshots()) > 2:
            branch.expire_snapshots(retain_max=2, retain_min=1)
    versions += [f"{b}.snapshot.{s.id}" for b in branches for s in table.branch(b).snapshots()[:2]]
    for _ in range(20):
        old, new = random.choice(versions), random.choice(versions)
        found, back = check(table, old, new), check(table, new, old)
        assert (found.files_added, found.bytes_added, found.rows_added) == (
            back.files_removed,
            back.bytes_removed,
            back.rows_removed,
        )
        assert (found.common_snapshot_id, found.ahead, found.behind) == (
            back.common_snapshot_id,
            back.behind,
            back.ahead,
        )
        assert old != new or found.is_same


def test_a_diff_tells_partitions_rows_and_the_relation_of_branches(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    add(table, range(3, 8), "d2")
    fix = table.branch("fix")
    add(fix, range(2), None)
    add(fix, range(4), "a/b=c")
    found = check(table, "main", "fix")
    assert [p.name for p in found.partitions] == ["dt=a/b=c", "dt=d2", "dt=null"]
    assert [dict(p.partition) for p in found.partitions] == [{"dt": "a/b=c"}, {"dt": "d2"}, {"dt": None}]
    assert (found.rows_added, found.rows_removed, found.files_added, found.files_removed) == (6, 5, 2, 1)
    assert (found.common_snapshot_id, found.ahead, found.behind) == (1, 2, 1)
    assert (found.old.branch, found.old.snapshot_id, found.new.branch, found.new.snapshot_id) == ("main", 2, "fix", 3)
    assert (found.old.label, found.new.label) == ("head of main", "head of fix")
    since = fix.diff("v1")
    assert (since.rows_added, since.rows_removed, since.ahead, since.behind) == (6, 0, 2, 0)
    assert check(table, "v1", "fix.v1").is_same and check(table, "1", "fix.1").is_same


def test_after_a_merge_main_is_the_branch_and_the_backup_is_what_main_was(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    table.create_branch("fix", snapshot_id=1)
    add(table, range(3, 8))
    add(table.branch("fix"), range(2))
    backup = table.merge_branch("fix", if_main_moved="replace").backup_branch
    assert backup is not None and check(table, "fix", "main").is_same
    found = check(table, backup, "main")
    assert (found.rows_added, found.rows_removed, found.ahead, found.behind) == (2, 5, 1, 1)


def test_a_rollback_leaves_no_difference_to_where_it_went(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    for i in range(3):
        add(table, range(i, i + 1))
    table.create_branch("kept", snapshot_id=3)
    table.rollback_to(1)
    assert check(table, "1", "main").is_same
    add(table, range(9))
    found = check(table, "kept", "main")
    assert (found.common_snapshot_id, found.ahead, found.behind) == (1, 1, 2)
    assert (found.rows_added, found.rows_removed) == (9, 2)


def test_an_expired_snapshot_that_a_tag_keeps_is_compared(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    for i in range(5):
        add(table, range(i, i + 1))
        table.create_tag(f"t{i}") if i == 1 else None
    table.expire_snapshots(retain_max=1, retain_min=1)
    found = check(table, "t1", "main")
    assert (found.rows_added, found.ahead, found.behind, found.common_snapshot_id) == (3, 3, 0, 2)
    with pytest.raises(SnapshotExpiredError):
        table.diff(1)
    with pytest.raises(VersionNotFoundError):
        table.diff("nothing")
    with pytest.raises(InvalidInputError):
        table.at("t1").diff("main")


def test_a_branch_without_snapshots_has_nothing(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    table.create_branch("bare", empty=True)
    assert check(table, "bare", "main").is_same
    add(table, range(3))
    found = check(table, "bare", "main")
    assert (found.rows_added, found.ahead, found.behind, found.common_snapshot_id) == (3, 1, 0, None)
    assert found.old.snapshot_id is None and found.old.total_rows == 0
    add(table.branch("bare"), range(2))
    found = check(table, "bare", "main")
    assert (found.rows_added, found.rows_removed, found.common_snapshot_id) == (3, 2, None)
    assert (found.ahead, found.behind) == (1, 1)


def test_a_deletion_vector_changes_its_file_and_compaction_replaces_it(tmp_path: Path) -> None:
    table = append_table(tmp_path, **{"deletion-vectors.enabled": "true"})
    add(table, range(10))
    add(table, range(10, 15), "d2")
    table.delete("id < 3")
    found = check(table, "2", "main")
    assert (found.files_changed, found.rows_deleted, found.rows_restored) == (1, 3, 0)
    assert [(p.name, p.files_changed, p.rows_deleted) for p in found.partitions] == [("dt=d1", 1, 3)]
    back = check(table, "3", "2")
    assert (back.files_changed, back.rows_deleted, back.rows_restored) == (1, 0, 3)
    table.delete("id = 12")
    found = check(table, "3", "main")
    assert [(p.name, p.files_changed, p.rows_deleted) for p in found.partitions] == [("dt=d2", 1, 1)]
    assert not found.is_same


def test_as_many_but_other_rows_deleted_on_a_branch_is_a_change(tmp_path: Path) -> None:
    table = append_table(tmp_path, **{"deletion-vectors.enabled": "true"})
    add(table, range(10))
    table.create_branch("other", snapshot_id=1)
    table.create_branch("same", snapshot_id=1)
    table.delete("id = 3")
    table.branch("same").delete("id = 3")
    table.branch("other").delete("id = 4")
    assert check(table, "main", "same").is_same
    found = check(table, "main", "other")
    assert (found.files_changed, found.rows_deleted, found.rows_restored) == (1, 0, 0) and not found.is_same


def test_columns_are_told_by_their_ids_and_options_by_their_text(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(1))
    table.create_tag("v1")
    table.alter(
        add={"n": "INT", "r": "STRUCT<a: INT, b: STRING>"},
        rename={"v": "text"},
        retype={"id": "DECIMAL(20, 0)"},
        set_options={"snapshot.num-retained.max": "77"},
        move={"n": "first"},
    )
    found = table.diff("v1")
    told = {(c.kind, c.name): (c.old, c.new) for c in found.columns}
    assert told["renamed", "text"] == ("v", "text") and told["added", "n"] == (None, "INT")
    assert told["retyped", "id"] == ("BIGINT", "DECIMAL(20, 0)")
    assert {kind for kind, _ in told} == {"renamed", "added", "retyped"}
    assert found.options["snapshot.num-retained.max"] == (None, "77")
    assert found.files_added == 0 and not found.is_same
    add(table, range(1))
    table.create_tag("v2")
    table.alter(drop=["n"], add={"r.c": "INT"}, rename={"r.a": "aa"}, comments={"text": "words"}, move={"id": "last"})
    told = {(c.kind, c.name): (c.old, c.new) for c in table.diff("v2").columns}
    assert told["dropped", "n"] == ("INT", None) and told["added", "r.c"] == (None, "INT")
    assert told["renamed", "r.aa"] == ("r.a", "r.aa") and told["commented", "text"] == (None, "words")
    assert ("moved", "id") in told and len(told) == 5


def test_columns_that_two_branches_added_are_not_renamings_though_they_have_one_id(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(1))
    table.create_branch("fix", snapshot_id=1)
    table.alter(add={"ours": "INT"})
    table.branch("fix").alter(add={"theirs": "INT"})
    found = table.diff("main", "fix")
    assert [(c.kind, c.name) for c in found.columns] == [("added", "theirs"), ("dropped", "ours")]


def test_only_manifests_that_the_versions_do_not_share_are_read_and_no_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = append_table(tmp_path)
    for i in range(5):
        add(table, range(i, i + 1))
    CACHE.clear()
    read: list[str] = []
    real = LocalStore.read

    def noted(store: LocalStore, path: str) -> bytes:
        read.append(path)
        return real(store, path)

    monkeypatch.setattr(LocalStore, "read", noted)
    found = table.diff(4, 5)
    assert (found.files_added, found.rows_added) == (1, 1)
    manifests = {p for p in read if "/manifest/manifest-" in p and "manifest-list" not in p}
    assert len(manifests) == 1 and not any("bucket-" in p for p in read)


def test_a_diff_prints_what_differs_and_no_secret(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    table.create_branch("fix", snapshot_id=1)
    fix = table.branch("fix").alter(add={"more": "INT"}, set_options={"my.secret": "hush"})
    add(fix, range(2), more=pa.array([1, 2], pa.int32()), v=["a", "b"])
    lines = str(table.diff("main", "fix")).splitlines()
    assert lines[:2] == [
        "db.a: head of main (snapshot 1) -> head of fix (snapshot 2)",
        "1 commit ahead, 0 commits behind",
    ]
    assert lines[2].startswith("+ 1 file, 2 rows, ") and lines[3] == "- 0 files, 0 rows, 0 B"
    assert "column more added: - -> INT" in lines and not any("hush" in line for line in lines)
    assert str(table.diff(1, "fix")).startswith("db.a: snapshot 1 -> head of fix (snapshot 2)\n")
    assert "snapshot 1: on main, schema 0" in table.diff(1, "fix")._repr_html_()
    assert str(table.diff("main", "main")).splitlines()[1:] == ["0 commits ahead, 0 commits behind", "the same"]


def test_bytes_of_files_without_data_are_told(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    table.create_tag("v")
    add(table, range(3))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime(2999, 1, 1))
    gone = table.delete_tag("v", dry_run=True)
    sizes = [(Path(table.handle.store.url(path).removeprefix("file://"))).stat().st_size for path in gone.paths]
    assert (gone.data_files, gone.bytes) == (0, sum(sizes)) and gone.bytes > 0
    assert replace(gone, bytes=0).files_summary == counted(len(sizes), "file")
