"""DROP TABLE and DROP DATABASE leave what no writer of Paimon makes, and name it."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from pathlib import Path
from uuid import uuid4

import fsspec
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.cli.main import main
from paimon_spark.errors import InvalidInputError
from tests.harness.golden import FIXTURES
from tests.harness.real_tables import a_catalog

ROWS = pa.table({"k": pa.array([1, 2], pa.int64()), "p": pa.array(["a", "b"])})
UUID = "01234567-89ab-cdef-0123-456789abcdef"
FOREIGN = (
    "README.md", "export.parquet", "notes/todo.txt", "notes/deep/er/a.csv", "p=a/list.csv", "p=a/bucket-0/mine.csv",
    "p=a/bucket-0/mine.parquet", f"p=a/bucket-0/part-00000-{UUID}-c000.snappy.parquet", "p=a/bucket-0/sub/x",
    "q/bucket-0/data-1.parquet", "snapshot/snapshot-1.bak", "snapshot/old/snapshot-1", "schema/mine.json",
    "manifest/mine.txt", "tag/notes", "branch/notes.txt", "branch/mine/x", "branch/branch-fix/notes.txt",
    "bucket-x/data-1", "data-1.parquet", "consumer/x",
)  # fmt: skip


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return a_catalog(tmp_path / "wh")


def fill(catalog: Catalog, name: str = "db.t") -> None:
    """Make a table with a tag, branches, a consumer and statistics."""
    table = catalog.create_table(name, "k BIGINT, p STRING", partition_keys=["p"])
    table.write(ROWS)
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.branch("fix").write(ROWS)
    table.reset_consumer("me", next_snapshot=1)
    table.write(ROWS)
    table.compact(full=True)


def plant(place: Path, *names: str) -> None:
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)


def files(place: Path) -> dict[str, str]:
    return {str(p.relative_to(place)): p.read_text() for p in place.rglob("*") if p.is_file()}


def test_a_table_leaves_the_files_of_others(catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(catalog)
    root = tmp_path / "wh" / "db.db" / "t"
    plant(root, *FOREIGN)
    with caplog.at_level(logging.WARNING):
        left = catalog.drop_table("db.t")
    assert files(root) == {name: name for name in FOREIGN}
    tops = {f"file://{root}/{n}" for n in FOREIGN if n.count("/") < 2 and not n.startswith("notes/")}
    assert set(left) >= tops - {f"file://{root}/bucket-x/data-1", f"file://{root}/branch/mine/x"}
    assert f"file://{root}/notes" in left and f"file://{root}/bucket-x" in left
    assert "no writer of Paimon made" in caplog.text and f"file://{root}/README.md" in caplog.text
    assert catalog.list_tables("db") == []


def test_a_table_without_others_goes_whole(catalog: Catalog, tmp_path: Path) -> None:
    fill(catalog)
    root = tmp_path / "wh" / "db.db" / "t"
    plant(
        root, "p=a/_SUCCESS", f"snapshot/.snapshot-9.{UUID}.tmp", "service/service-primary-key-lookup",
        "tag/tag-success-file/tag-2024_SUCCESS", "metadata/v1.metadata.json", "metadata/version-hint.text",
        f"p=a/bucket-0/compacted-changelog-{UUID}$0-39253.cc-orc", f"index/btree-global-index-{UUID}.index",
        "p=gone/bucket-postpone/data-u-user-s-0-w-1.parquet", "p=a/bucket-0/.data-1.parquet.crc",
    )  # fmt: skip
    assert catalog.drop_table("db.t") == []
    assert not root.exists()


def golden() -> list[Path]:
    return sorted(p.parent for p in FIXTURES.rglob("schema") if p.is_dir() and p.parent.parent.name != "branch")


def test_golden_tables_go_whole(catalog: Catalog, tmp_path: Path) -> None:
    tables = golden()
    assert len(tables) > 20
    for place in tables:
        shutil.copytree(place, tmp_path / "wh" / "db.db" / "t")
        assert catalog.drop_table("db.t") == [], place
        assert list((tmp_path / "wh" / "db.db").iterdir()) == []


def test_files_of_a_migrated_table_keep_their_names_and_go(catalog: Catalog, tmp_path: Path) -> None:
    """Java's migration from Hive moves files into buckets by their own names."""
    from paimon_spark.metadata.own_files import OwnFiles
    from paimon_spark.storage.urls import open_store
    from tests.harness.commits import a_file, committer, make_table, message

    root = tmp_path / "wh" / "db.db" / "t"
    handle = make_table(open_store(str(root))[0], str(root))
    committer(handle).commit([message(handle, a_file("part-00000.parquet"))])
    plant(root / "bucket-0", "part-00000.parquet", "part-00001.parquet")
    found = OwnFiles(handle.store, str(root)).find()
    assert f"{root}/bucket-0/part-00000.parquet" in found.own
    assert found.others == [f"{root}/bucket-0/part-00001.parquet"]
    assert catalog.drop_table("db.t") == [f"file://{root}/bucket-0/part-00001.parquet"]
    assert files(root) == {"bucket-0/part-00001.parquet": "part-00001.parquet"}


@pytest.mark.parametrize("name", ["notes.txt", "folder/a.csv", "empty/", ".hidden", "other/schema/notes"])
def test_a_database_with_anything_in_it_is_not_dropped(catalog: Catalog, tmp_path: Path, name: str) -> None:
    place = tmp_path / "wh" / "db.db"
    if name.endswith("/"):
        (place / name).mkdir()
    else:
        plant(place, name)
    before = files(place)
    first = name.partition("/")[0]
    with pytest.raises(InvalidInputError, match="is not empty") as caught:
        catalog.drop_database("db")
    assert first in str(caught.value) and "\n" not in str(caught.value)
    fill(catalog)
    with pytest.raises(InvalidInputError, match="is not empty: it holds t"):
        catalog.drop_database("db")
    with pytest.raises(InvalidInputError, match="stays, without its tables") as caught:
        catalog.drop_database("db", cascade=True)
    assert first in str(caught.value)
    assert (files(place), [p.name for p in place.iterdir()], catalog.list_databases()) == (before, [first], ["db"])


def test_a_broken_link_keeps_a_database(catalog: Catalog, tmp_path: Path) -> None:
    link = tmp_path / "wh" / "db.db" / "link"
    link.symlink_to("nowhere")
    for cascade in (False, True):
        with pytest.raises(InvalidInputError):
            catalog.drop_database("db", cascade=cascade)
    link.unlink()
    catalog.drop_database("db")
    assert catalog.list_databases() == []


def test_what_a_table_left_keeps_its_database(catalog: Catalog, tmp_path: Path) -> None:
    fill(catalog)
    plant(tmp_path / "wh" / "db.db" / "t", "README.md")
    with pytest.raises(InvalidInputError, match=r"stays, without its tables: .* holds t, "):
        catalog.drop_database("db", cascade=True)
    assert files(tmp_path / "wh") == {"db.db/t/README.md": "README.md"}


def test_in_memory_too() -> None:
    warehouse = f"memory://hostile-{uuid4().hex}"
    catalog, memory = paimon_spark.load_catalog(warehouse), fsspec.filesystem("memory")
    base = warehouse.removeprefix("memory:/")
    try:
        catalog.create_database("db")
        fill(catalog)
        memory.pipe_file(f"{base}/db.db/t/p=a/bucket-0/mine.csv", b"1")
        memory.pipe_file(f"{base}/db.db/t/README.md", b"2")
        memory.pipe_file(f"{base}/db.db/notes.txt", b"3")
        with pytest.raises(InvalidInputError, match="is not empty: it holds t"):
            catalog.drop_database("db")
        assert len(catalog.drop_table("db.t")) == 2
        with pytest.raises(InvalidInputError, match=r"is not empty: .*notes\.txt"):
            catalog.drop_database("db")
        with pytest.raises(InvalidInputError, match=r"stays, without its tables: .*notes\.txt"):
            catalog.drop_database("db", cascade=True)
        assert sorted(memory.find(base)) == [
            f"{base}/db.db/notes.txt", f"{base}/db.db/t/README.md", f"{base}/db.db/t/p=a/bucket-0/mine.csv",
        ]  # fmt: skip
        memory.rm(f"{base}/db.db/notes.txt")
        memory.rm(f"{base}/db.db/t", recursive=True)
        catalog.drop_database("db")
        assert catalog.list_databases() == []
    finally:
        if memory.exists(base):
            memory.rm(base, recursive=True)


def test_names_in_a_metastore_go_and_files_of_others_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sqlite3.connect(tmp_path / "names.db").close()
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"), metastore="jdbc", uri=f"jdbc:sqlite:{tmp_path}/names.db")
    catalog.create_database("db")
    fill(catalog)
    fill(catalog, "db.u")
    place = tmp_path / "wh" / "db.db"
    plant(place, "t/README.md", "notes.txt")
    assert catalog.drop_table("db.t") == [f"file://{place}/t/README.md"]
    assert catalog.list_tables("db") == ["u"]
    catalog.drop_table("db.u")
    with pytest.raises(InvalidInputError, match=r"is not empty: .*notes\.txt, t"):
        catalog.drop_database("db")
    with caplog.at_level(logging.WARNING):
        assert catalog.drop_database("db", cascade=True) == [f"file://{place}/notes.txt", f"file://{place}/t"]
    assert "notes.txt" in caplog.text
    assert catalog.list_databases() == []
    assert files(place) == {"t/README.md": "t/README.md", "notes.txt": "notes.txt"}


def test_the_command_line_names_what_stays(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(catalog)
    place = tmp_path / "wh" / "db.db"
    plant(place, "t/README.md")
    warehouse = ["--warehouse", str(tmp_path / "wh")]
    assert main([*warehouse, "table", "drop", "db.t", "--yes"]) == 0
    assert f"left, as no writer of Paimon made it: file://{place}/t/README.md" in capsys.readouterr().out
    assert main([*warehouse, "database", "drop", "db", "--yes"]) != 0
    assert "holds t, " in capsys.readouterr().err
    assert files(place) == {"t/README.md": "t/README.md"}
