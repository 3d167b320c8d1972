"""Reachable, missing and orphan files of a table."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from paimon_spark.errors import CorruptFileError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.urls import open_store
from paimon_spark.types import INT, STRING, DataField, RowType
from tests.harness.golden import FIXTURES, PRODUCERS, golden_path
from tests.harness.table_builder import File, TableBuilder
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

TABLES = sorted({p.parent.name for producer in PRODUCERS for p in (FIXTURES / producer).glob("*/table")})

ORPHANS = {"fast_forwarded": 4}
"""Fast-forward removes a snapshot of main and leaves its data file, manifest and two manifest lists behind."""

UUID = "01234567-89ab-cdef-0123-456789abcdef"


def open_golden(path: Path) -> TableHandle:
    store, root = open_store(str(path))
    return open_table(store, root)


def copied(table: str, tmp_path: Path) -> TableHandle:
    shutil.copytree(golden_path(table), tmp_path / "t")
    CACHE.clear()
    return open_golden(tmp_path / "t")


def relative(handle: TableHandle, paths: list[str]) -> list[str]:
    return sorted(p.removeprefix(handle.layout.root + "/") for p in paths)


def orphan_names(handle: TableHandle) -> list[str]:
    return relative(handle, [f.path for f in orphans(handle)])


@pytest.mark.parametrize("table", TABLES)
def test_golden_tables_have_all_they_need_and_nothing_else(table: str) -> None:
    handle = open_golden(golden_path(table))
    assert missing_files(handle) == []
    found = {f.path for f in orphans(handle)}
    assert len(found) == ORPHANS.get(table, 0)
    assert {f.path for f in files_on_disk(handle)} - reachable_files(handle) == found


def test_what_nobody_names_is_an_orphan(tmp_path: Path) -> None:
    handle = copied("append_partitioned_escaped", tmp_path)
    (bucket, *_) = (p for p in (tmp_path / "t").rglob("bucket-0"))
    planted = [
        "manifest/manifest-x-0",
        "manifest/manifest-list-x-0",
        "index/index-x-0",
        "statistics/stat-x-0",
        f"{bucket.relative_to(tmp_path / 't')}/data-x-0.parquet",
        f"{bucket.relative_to(tmp_path / 't')}/.data-x-1.parquet.{UUID}.tmp",
        f"snapshot/.snapshot-9.{UUID}.tmp",
        "snapshot/left-over",
        f"schema/.schema-9.{UUID}.tmp",
        f".MAIN-BRANCH.{UUID}.tmp",
    ]
    for name in planted:
        path = tmp_path / "t" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    assert orphan_names(handle) == sorted(planted)


def test_files_that_are_not_the_tables_are_let_alone(tmp_path: Path) -> None:
    handle = copied("append_partitioned_escaped", tmp_path)
    for name in (
        "README",
        "notes/data-x-0.parquet",
        "bucket-0/data-x-0.parquet",
        "schema/other",
        "p=1/data-x",
        "tag/x",
    ):
        path = tmp_path / "t" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    assert orphan_names(handle) == []


def test_young_files_are_no_orphans_when_asked(tmp_path: Path) -> None:
    handle = copied("branches", tmp_path)
    for name, seconds in (("manifest-old", 1000), ("manifest-young", 3000)):
        path = tmp_path / "t" / "manifest" / name
        path.write_bytes(b"")
        os.utime(path, (seconds, seconds))
    assert relative(handle, [f.path for f in orphans(handle, older_than_ms=2_000_000)]) == ["manifest/manifest-old"]


def test_a_branch_holds_on_to_its_files(tmp_path: Path) -> None:
    handle = copied("branches", tmp_path)
    for path in (tmp_path / "t" / "snapshot", tmp_path / "t" / "tag"):
        shutil.rmtree(path, ignore_errors=True)
    names = set(orphan_names(handle))
    assert missing_files(handle) == []
    shutil.rmtree(tmp_path / "t" / "branch")
    CACHE.clear()
    everything = set(orphan_names(handle))
    assert names < everything
    assert any(n.startswith("bucket-") for n in everything - names)


def test_a_file_that_is_gone_is_missing(tmp_path: Path) -> None:
    handle = copied("pk_deletion_vectors", tmp_path)
    victims = [next((tmp_path / "t").rglob(p)) for p in ("data-*", "index/index-*", "manifest/manifest-list-*")]
    for victim in victims:
        victim.unlink()
    CACHE.clear()
    assert set(missing_files(handle)) >= {str(v) for v in victims[:2]}


def test_a_table_that_cannot_be_read_has_no_orphans(tmp_path: Path) -> None:
    handle = copied("branches", tmp_path)
    next((tmp_path / "t" / "manifest").glob("manifest-list-*")).write_bytes(b"garbage")
    with pytest.raises(CorruptFileError):
        orphans(handle)


def test_paths_follow_partitions_buckets_and_external_places() -> None:
    fields = (DataField(0, "p", STRING), DataField(1, "v", INT))
    builder = TableBuilder(TableSchema(0, RowType(False, fields), 1, partition_keys=("p",)))
    builder.commit(
        File("a", {"p": "x y:z"}, 3),
        File("b", {"p": None}, 0),
        File("c", {"p": "x y:z"}, 3, external_path="file:/elsewhere/p=1/bucket-3/c"),
        File("d", {"p": "q"}, 1, external_path=f"memory:/{builder.table.root}/out/d"),
    )
    builder.commit(deletes=(File("a", {"p": "x y:z"}, 3),), changelog=(File("e", {"p": "q"}, 1),))
    handle = builder.open()
    paths = reachable_files(handle)
    root = handle.layout.root
    assert {p for p in paths if "/manifest/" not in p and "/snapshot/" not in p and "/schema/" not in p} == {
        f"{root}/p=x y%3Az/bucket-3/a",
        f"{root}/p=__DEFAULT_PARTITION__/bucket-0/b",
        "file:///elsewhere/p=1/bucket-3/c",
        f"{root}/out/d",
        f"{root}/p=q/bucket-1/e",
    }
    assert sorted(missing_files(handle)) == sorted(
        [
            "file:///elsewhere/p=1/bucket-3/c",
            f"{root}/p=__DEFAULT_PARTITION__/bucket-0/b",
            f"{root}/out/d",
            f"{root}/p=q/bucket-1/e",
            f"{root}/p=x y%3Az/bucket-3/a",
        ]
    ), "snapshot 1 still needs what snapshot 2 deleted"
    assert LocalStore().identity != handle.store.identity
