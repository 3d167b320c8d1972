"""Orphans go when they are old, and a purge leaves a definition."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark import load_table
from paimon_spark.api.table import Table
from paimon_spark.errors import CorruptFileError, InvalidInputError, StorageError, UnsafeDeletionError
from paimon_spark.format.metadata_files.snapshot import encode
from paimon_spark.format.metadata_files.table_schema import encode as encode_schema
from paimon_spark.maintenance.change import change_table, unfinished
from paimon_spark.maintenance.orphan_files import remove_orphan_files
from paimon_spark.maintenance.roots import all_roots
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import DeleteFile, TableChange
from paimon_spark.metadata.manifests import CACHE, read_manifest_list
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshot_ids
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import FileInfo
from tests.harness.commits import KEYED, a_file, committer, files, make_table, message
from tests.harness.fault_store import Fault, FaultStore
from tests.harness.golden import golden_path
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

UUID = "01234567-89ab-cdef-0123-456789abcdef"


def a_table(tmp_path: Path, store: object = None) -> TableHandle:
    """Three snapshots, a tag, and a branch of the first snapshot; with files for what metadata names."""
    table = make_table(store or LocalStore(), str(tmp_path / "t"), KEYED)  # type: ignore[arg-type]
    for i in range(3):
        table.store.write(f"{table.layout.root}/bucket-0/f{i}", b"data")
        committer(table).commit([message(table, a_file(f"f{i}", keys=(i, i)))])
    first = encode(all_roots(table)[0].snapshot)
    table.store.write(f"{table.layout.root}/branch/branch-b/snapshot/snapshot-1", first)
    table.store.write(f"{table.layout.root}/branch/branch-b/schema/schema-0", encode_schema(table.schema))
    table.store.write(f"{table.layout.root}/branch/branch-b/FORK", b"{}")
    table.store.write(f"{table.layout.root}/tag/tag-v1", first)
    return table


def plant(table: TableHandle, *names: str, age_s: float = 200_000) -> None:
    for name in names:
        path = Path(table.layout.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
        os.utime(path, (time.time() - age_s,) * 2)


def test_old_orphans_go_and_young_ones_stay(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    old = ["bucket-0/data-x", "manifest/manifest-x", f"branch/branch-b/.FORK.{UUID}.tmp", "intent/plan-gone"]
    plant(table, *old)
    plant(table, "bucket-0/data-young", "manifest/manifest-young", age_s=3600)
    seen = remove_orphan_files(table, dry_run=True)
    assert (seen.files, seen.bytes) == (4, 20)
    assert len(files_on_disk(table)) == len(reachable_files(table)) + 6 + 1  # FORK is no shared file
    removed = remove_orphan_files(table)
    assert removed == seen
    assert sorted(removed.paths) == sorted(f"{table.layout.root}/{name}" for name in old)
    assert not any(Path(p).exists() for p in removed.paths)
    assert remove_orphan_files(table, int(time.time() * 1000) - 60_000).files == 2
    assert missing_files(table) == []


def test_a_moment_to_come_is_refused(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    with pytest.raises(InvalidInputError, match="not in the past"):
        remove_orphan_files(table, int(time.time() * 1000) + 60_000)
    with pytest.raises(InvalidInputError, match="soon"):
        Table(table).remove_orphan_files("soon")
    assert Table(table).remove_orphan_files("2024-01-31 12:30:00").files == 0


def test_what_cannot_be_read_stops_everything(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    plant(table, "bucket-0/data-x")
    path = Path(table.layout.manifest_path(all_roots(table)[1].snapshot.delta_manifest_list))
    path.write_bytes(b"garbage")
    CACHE.clear()
    with pytest.raises(CorruptFileError, match="manifest-list"):
        remove_orphan_files(table)
    assert (tmp_path / "t" / "bucket-0" / "data-x").exists()


def metadata_needed(table: TableHandle, kind: str) -> str:
    head = all_roots(table)[1].snapshot
    lists = [head.base_manifest_list, head.delta_manifest_list]
    return lists[0] if kind == "list" else read_manifest_list(table, lists[1])[0].file_name


@pytest.mark.parametrize("kind", ["list", "manifest"])
def test_what_is_missing_stops_everything(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path)
    plant(table, "bucket-0/data-x")
    name = metadata_needed(table, kind)
    Path(table.layout.manifest_path(name)).unlink()
    CACHE.clear()
    with pytest.raises(
        UnsafeDeletionError, match=rf"nothing of table t was deleted.* needs .*{name}, which does not ex"
    ):
        remove_orphan_files(table)
    assert (tmp_path / "t" / "bucket-0" / "data-x").exists()


def test_a_missing_index_manifest_stops_everything(tmp_path: Path) -> None:
    shutil.copytree(golden_path("pk_deletion_vectors"), tmp_path / "t")
    table = load_table(str(tmp_path / "t")).handle
    CACHE.clear()
    next((tmp_path / "t" / "manifest").glob("index-manifest-*")).unlink()
    with pytest.raises(UnsafeDeletionError, match=r"needs .*index-manifest-.*, which does not exist"):
        remove_orphan_files(table)


def test_a_branch_without_schema_stops_everything(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    plant(table, "bucket-0/data-x")
    (tmp_path / "t" / "branch" / "branch-b" / "schema" / "schema-0").unlink()
    with pytest.raises(UnsafeDeletionError, match=r"'b' below .* no schema"):
        remove_orphan_files(table)
    (tmp_path / "t" / "branch" / "branch-b").rename(tmp_path / "t" / "branch" / "branch-.merge-1")
    assert remove_orphan_files(table).files == 1, "what a merge lays down is no branch, and holds on to its files"
    assert missing_files(table) == []


class Forgetful(LocalStore):
    """A store whose listings of snapshots are empty."""

    def list(self, directory: str) -> list[FileInfo]:
        return [] if directory.endswith("/snapshot") else super().list(directory)


def test_a_listing_that_leaves_out_the_head_stops_everything(tmp_path: Path) -> None:
    table = replace(a_table(tmp_path), store=Forgetful())
    plant(table, "bucket-0/data-x")
    with pytest.raises(UnsafeDeletionError, match=r"does not list .*snapshot-3"):
        remove_orphan_files(table)
    with pytest.raises(UnsafeDeletionError, match="does not list"):
        change_table(
            table, "x", lambda: TableChange("x", "x", (DeleteFile("tag/tag-v1"),), tuple(all_roots(table)[:1]))
        )
    assert (tmp_path / "t" / "tag" / "tag-v1").exists()


def test_an_unfinished_change_is_finished_first_and_its_intent_kept_until_then(tmp_path: Path) -> None:
    store = FaultStore(LocalStore())
    table = a_table(tmp_path, store)
    store.arm(Fault(1, retryable=False, verbs=frozenset(["delete"]), path_part="tag-v1"))
    with pytest.raises(StorageError):
        change_table(
            table, "delete-tag", lambda: TableChange("delete-tag", "deletion of v1", (DeleteFile("tag/tag-v1"),))
        )
    for path in (tmp_path / "t" / "intent").iterdir():
        os.utime(path, (1, 1))
    assert remove_orphan_files(table, dry_run=True).files == 0
    assert unfinished(table) is not None
    assert remove_orphan_files(table).finished == "deletion of v1"
    assert not (tmp_path / "t" / "tag" / "tag-v1").exists()


def test_stores_are_not_asked_file_by_file(tmp_path: Path) -> None:
    store = FaultStore(LocalStore())
    table = a_table(tmp_path, store)
    counts = []
    for n in (10, 1000):
        plant(table, *(f"bucket-0/data-{n}-{i}" for i in range(n)))
        CACHE.clear()
        store.arm(None)
        assert remove_orphan_files(table).files == n
        counts.append(len(store.calls))
    assert counts[0] == counts[1] < 80


def test_a_purge_leaves_an_empty_snapshot_and_the_definition(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    plant(table, "consumer/consumer-c", "changelog/LATEST")
    planned = Table(table).purge(dry_run=True)
    assert planned.tags == ("v1",) and planned.data_files == 3
    removed = Table(table).purge()
    assert removed.data_files == 3 and removed.tags == ("v1",) and set(removed.snapshots) == {"1", "2", "3", "b.1"}
    assert list_snapshot_ids(table) == [4] and files(table) == {}
    assert sorted(p.name for p in (tmp_path / "t" / "bucket-0").iterdir()) == []
    assert not list((tmp_path / "t" / "branch").iterdir())
    assert not (tmp_path / "t" / "tag").exists() and not (tmp_path / "t" / "consumer").exists()
    assert (tmp_path / "t" / "snapshot" / "EARLIEST").read_text() == "4"
    CACHE.clear()
    assert missing_files(table) == [] and remove_orphan_files(table, int(time.time() * 1000)).files == 0
    committer(table).commit([message(table, a_file("g", keys=(1, 1)))])
    head = latest_snapshot(table)
    assert head is not None and head.id == 5


def test_a_purge_is_refused_where_it_would_take_what_is_read(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    with pytest.raises(InvalidInputError, match=r"branch 'b'.*call it on main"):
        Table(table).branch("b").purge()
    schema = replace(table.schema, id=1, options={**table.schema.options, "scan.fallback-branch": "b"})
    table.store.write(table.layout.schema_path(1), encode_schema(schema))
    with pytest.raises(InvalidInputError, match=r"scan.fallback-branch names branch 'b'"):
        Table(table).purge()
    assert json.loads((tmp_path / "t" / "tag" / "tag-v1").read_text())["id"] == 1
