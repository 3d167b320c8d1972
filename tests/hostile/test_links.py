"""Symbolic links in tables: whatever a verb does, what they point to stays as it is."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import InvalidInputError, PaimonError, StorageError
from paimon_spark.storage.local import LocalStore, check_path
from paimon_spark.storage.urls import open_store
from tests.harness.real_tables import a_catalog
from tests.harness.verbs import VERBS, rows
from tests.harness.victims import state

OLD_S = 400_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A warehouse with a table of several snapshots, a tag, a branch and a consumer."""
    catalog = a_catalog(tmp_path / "wh")
    options = {"bucket": "1", "write-only": "true", "changelog-producer": "input"}
    table = catalog.create_table("db.t", "k BIGINT NOT NULL, v STRING", primary_keys=["k"], options=options)
    for i in range(4):
        table.write(rows(i, i + 1))
    table.create_tag("v1", snapshot_id=1)
    table.create_branch("fix", tag="v1")
    table.branch("fix").write(rows(9))
    return catalog


@pytest.fixture
def root(tmp_path: Path, catalog: Catalog) -> Path:
    return tmp_path / "wh" / "db.db" / "t"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of somebody else, with old files of names as a table has them, a table, and folders without files."""
    place = tmp_path / "home" / "somebody"
    for name in (
        "notes.txt", "data-1.parquet", "snapshot-1", "snapshot-99", "LATEST", "manifest-1", "tag-v0", "schema-7",
        "consumer-me", "bucket-0/data-2.parquet", "snapshot/snapshot-1", "branch-x/schema/schema-0", "schema/schema-0",
        "dt=1/bucket-0/data-3.parquet",
    ):  # fmt: skip
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"of {name}")
    (place / "empty" / "bucket-0").mkdir(parents=True)
    other = a_catalog(place / "other")
    other.create_table("db.theirs", "k BIGINT NOT NULL, v STRING", primary_keys=["k"]).write(rows(1, 2, 3))
    old = time.time() - OLD_S
    for path in [place, *place.rglob("*")]:
        os.utime(path, (old, old))
    return place


USED = (
    "orphans", "orphans, tried", "write", "write to the branch", "overwrite", "create_tag", "delete_tag",
    "create_branch", "rename_branch", "delete_branch", "delete_branch x", "replace_main", "rollback", "expire",
    "compact", "purge", "alter", "reset_consumer", "read", "doctor", "rename_table", "drop_table", "drop_database",
)  # fmt: skip
DIRECTORIES = (
    "tag", "branch/branch-fix", "bucket-0", "evil",
    *(pytest.param(name, marks=pytest.mark.ci) for name in (
        "snapshot", "schema", "manifest", "branch", "consumer", "changelog", "index", "statistics", "intent",
        "bucket-7", "sink", "branch/branch-x", "branch/branch-fix/snapshot", "branch/branch-fix/tag",
        "branch/branch-fix/schema",
    )),
)  # fmt: skip


def put_link(place: Path, target: Path | str) -> None:
    """Replace what is at a place by a link."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


@pytest.mark.parametrize("name", [name for name in USED if name != "delete_branch x"])
def test_every_verb_works_on_a_table_without_links(catalog: Catalog, name: str) -> None:
    VERBS[name](catalog, catalog.table("db.t"))


@pytest.mark.parametrize("where", DIRECTORIES)
def test_no_verb_reaches_the_target_of_a_link_to_a_directory(
    catalog: Catalog, root: Path, victim: Path, where: str, tmp_path: Path
) -> None:
    before = state(victim)
    kept = tmp_path / "kept"
    shutil.copytree(root.parent, kept, symlinks=True)
    for name in USED:
        shutil.rmtree(root.parent, ignore_errors=True)
        shutil.copytree(kept, root.parent, symlinks=True)
        table = catalog.table("db.t")
        put_link(root / where, victim)
        for opened in (table, None):
            with suppress(PaimonError):
                VERBS[name](catalog, opened or catalog.table("db.t"))
            assert state(victim) == before, name


@pytest.mark.parametrize("where", ["bucket-7", "evil", "bucket-0", "snapshot", "schema", "tag", "branch", "dt=1"])
def test_dropping_unlinks_the_links(catalog: Catalog, root: Path, victim: Path, where: str) -> None:
    before = state(victim)
    put_link(root / where, victim)
    if where == "schema":  # then it is no table
        with pytest.raises(PaimonError, match="stays"):
            catalog.drop_database("db", cascade=True)
    else:
        assert catalog.drop_table("db.t") == []
        assert not root.exists()
    assert state(victim) == before


def test_links_to_the_folder_above_end(catalog: Catalog, root: Path) -> None:
    (root / "evil").symlink_to("..")
    (root / "more").symlink_to("..")
    (root / "bucket-0" / "k=1").symlink_to("..")
    (root / "branch" / "branch-loop").symlink_to("../..")
    (root / "itself").symlink_to("itself")
    table = catalog.table("db.t")
    assert [b.name for b in table.branches(include_internal=True)] == ["fix"]
    assert table.remove_orphan_files().files == 0
    table.write(rows(70))
    table.compact(full=True)
    assert table.scan().to_arrow().num_rows == 6
    assert catalog.drop_table("db.t") == []
    assert os.listdir(root.parent) == []


def test_old_links_in_a_bucket_are_orphans_that_are_unlinked(catalog: Catalog, root: Path, victim: Path) -> None:
    before = state(victim)
    for name, target in (("data-9.parquet", victim / "data-1.parquet"), ("data-dir", victim)):
        (root / "bucket-0" / name).symlink_to(target)
        os.utime(root / "bucket-0" / name, (time.time() - OLD_S,) * 2, follow_symlinks=False)
    assert catalog.table("db.t").remove_orphan_files().files == 2
    assert not (root / "bucket-0" / "data-dir").is_symlink()
    assert state(victim) == before


def test_expiry_unlinks_a_linked_file(catalog: Catalog, root: Path, victim: Path) -> None:
    for path in (*(root / "bucket-0").iterdir(), *(root / "manifest").iterdir(), *(root / "snapshot").iterdir()):
        copy = victim / path.name
        shutil.copy2(path, copy)
    before, table = state(victim), catalog.table("db.t")
    table.scan().to_arrow()
    for path in (root / "bucket-0").iterdir():
        put_link(path, victim / path.name)
    with pytest.raises(StorageError, match="is a symbolic link"):
        table.scan().to_arrow()
    with pytest.raises(StorageError, match="is a symbolic link"):
        table.compact(full=True)
    table.delete_branch("fix")
    table.delete_tag("v1")
    table.write(rows(), mode="overwrite")
    table.expire_snapshots(1, retain_min=1)
    assert list((root / "bucket-0").iterdir()) == []
    assert state(victim) == before


def test_messages_name_the_link(catalog: Catalog, root: Path, victim: Path) -> None:
    put_link(root / "tag", victim)
    with pytest.raises(StorageError) as caught:
        catalog.table("db.t").create_tag("v2", snapshot_id=2)
    assert f"{root}/tag is a symbolic link" in str(caught.value)
    assert "\n" not in str(caught.value)


# --- links that users make


def test_a_warehouse_may_be_a_link(tmp_path: Path, catalog: Catalog, root: Path) -> None:
    (tmp_path / "link").symlink_to("wh")
    linked = paimon_spark.load_catalog(str(tmp_path / "link"))
    table = linked.table("db.t")
    table.write(rows(80))
    table.create_tag("v2", snapshot_id=2)
    table.compact(full=True)
    table.remove_orphan_files()
    assert table.scan().to_arrow().num_rows == 6
    linked.drop_table("db.t")
    assert not root.exists()


def test_a_table_may_be_a_link_that_dropping_removes_alone(tmp_path: Path, catalog: Catalog, root: Path) -> None:
    disk = tmp_path / "disk" / "t"
    disk.parent.mkdir()
    root.rename(disk)
    root.symlink_to(disk)
    assert catalog.list_tables("db") == ["t"]
    for table in (catalog.table("db.t"), paimon_spark.load_table(str(root))):
        table.write(rows(90))
        table.expire_snapshots(2, retain_min=1)
        assert table.scan().to_arrow().num_rows == 6
    before = state(disk)
    catalog.drop_table("db.t")
    assert not root.is_symlink() and catalog.list_tables("db") == []
    assert state(disk) == before


def test_a_database_may_be_a_link_that_dropping_removes_alone(tmp_path: Path, catalog: Catalog, root: Path) -> None:
    disk = tmp_path / "disk.db"
    root.parent.rename(disk)
    root.parent.symlink_to(disk)
    assert (catalog.list_databases(), catalog.list_tables("db")) == (["db"], ["t"])
    catalog.table("db.t").write(rows(90))
    before = state(disk)
    with pytest.raises(PaimonError, match="is not empty: it holds t"):
        catalog.drop_database("db")
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []
    assert state(disk) == before


def test_dropping_a_database_unlinks_its_linked_tables(tmp_path: Path, catalog: Catalog, victim: Path) -> None:
    before = state(victim)
    (tmp_path / "wh" / "db.db" / "theirs").symlink_to(victim / "other" / "db.db" / "theirs")
    assert catalog.list_tables("db") == ["t", "theirs"]
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []
    assert state(victim) == before


def test_no_table_is_created_in_the_target_of_a_link(tmp_path: Path, catalog: Catalog, victim: Path) -> None:
    before = state(victim)
    (tmp_path / "wh" / "db.db" / "new").symlink_to(victim / "empty")
    with pytest.raises(InvalidInputError, match=r"db\.new cannot be created: .*new is a symbolic link"):
        catalog.create_table("db.new", "k BIGINT")
    with pytest.raises(InvalidInputError, match="is a symbolic link"):
        catalog.create_table("db.new", "k BIGINT", ignore_if_exists=True)
    with pytest.raises(PaimonError):
        catalog.rename_table("db.t", "db.new")
    assert state(victim) == before
    assert catalog.list_tables("db") == ["t"]


# --- the store


def test_what_a_store_does_with_a_link_inside(tmp_path: Path, victim: Path) -> None:
    before = state(victim)
    (tmp_path / "t").mkdir()
    store, root = open_store(str(tmp_path / "t"))
    (tmp_path / "t" / "a").symlink_to(victim)
    (tmp_path / "t" / "f").symlink_to(victim / "notes.txt")
    assert [(i.name, i.is_directory, i.links_directory) for i in store.list(root)] == [
        ("a", False, True),
        ("f", False, False),
    ]
    refused: list[Callable[[], object]] = [
        lambda: store.list(f"{root}/a"),
        lambda: store.read(f"{root}/a/notes.txt"),
        lambda: store.read(f"{root}/f"),
        lambda: check_path(store, f"{root}/a/data-1.parquet"),
        lambda: store.read_range(f"{root}/f", 0, 1),
        lambda: store.read_many([f"{root}/a/notes.txt"]),
        lambda: store.open(f"{root}/a/notes.txt"),
        lambda: store.exists(f"{root}/a/notes.txt"),
        lambda: store.create_exclusive(f"{root}/a/new", b"1"),
        lambda: store.create_exclusive(f"{root}/a/deep/new", b"1"),
        lambda: store.write(f"{root}/a/notes.txt", b"1"),
        lambda: store.open_output(f"{root}/a/new"),
        lambda: store.open_output(f"{root}/f"),
        lambda: store.make_directory(f"{root}/a/new"),
        lambda: store.rename_tree(f"{root}/a/empty", f"{root}/b"),
        lambda: store.rename_tree(f"{root}/a", f"{root}/b"),
    ]
    for act in refused:
        with pytest.raises(StorageError, match=r"t/(a|f) is a symbolic link, and links inside .* are not followed"):
            act()
    assert isinstance(store, LocalStore)
    assert not store.remove_if_empty(f"{root}/a/empty/bucket-0")
    store.delete(f"{root}/a/notes.txt")
    store.delete_many([f"{root}/a/LATEST", f"{root}/a/notes.txt"])
    store.delete_tree(f"{root}/a/bucket-0")
    store.write(f"{root}/f", b"its own")
    assert (tmp_path / "t" / "f").read_bytes() == b"its own" and not (tmp_path / "t" / "f").is_symlink()
    store.delete_tree(f"{root}/a")
    assert os.listdir(tmp_path / "t") == ["f"]
    assert state(victim) == before


def test_a_local_url_of_fsspec_is_this_store(tmp_path: Path) -> None:
    store, root = open_store(f"local://{tmp_path}/t")
    assert isinstance(store, LocalStore) and root == f"{tmp_path}/t"
