"""Changes of rows in FLOAT partitions whose directories another writer named."""

from __future__ import annotations

from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.jobs.upkeep import compaction
from tests.harness.float_partitions import (
    KINDS,
    NUMBERS,
    directories,
    leftovers,
    made,
    read,
    respelled,
    rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.newest, pytest.mark.usefixtures("spark")]


@pytest.fixture(autouse=True)
def compactions_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "active_spark_jobs", lambda: None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_spelled_otherwise_is_read_and_changed_where_it_lies(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = made(root, **KINDS[kind])
    expected = read(table)
    assert len(expected) == len(NUMBERS)
    respelled(root)
    there = directories(root)
    assert read(table) == expected
    assert leftovers(table) == []

    table.write(rows(100))
    assert directories(root) == there
    assert len(read(table)) == 2 * len(NUMBERS)
    table.update("k = 100 OR k = 2", {"d": "'new'"})
    table.delete("k = 1 OR k = 104")
    assert len(read(table)) == 2 * len(NUMBERS) - 2
    assert leftovers(table) == []
    paths = paimon_spark.load_table(f"{root}$files").scan(["file_path"]).to_arrow()["file_path"].to_pylist()
    assert paths
    assert all(Path(p.removeprefix("file:")).exists() for p in paths)

    expected = read(table)
    table.compact(full=True)
    assert read(table) == expected
    assert directories(root) == there
    table.write(rows(), mode="overwrite")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert directories(root) == there
    assert leftovers(table) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_with_two_spellings_has_the_rows_of_both(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = made(root, **KINDS[kind])
    names = directories(root)
    respelled(root)
    for path in names:
        path.mkdir(exist_ok=True)  # as if a writer with the other text had come
    table.write(rows(100))
    assert all(list(path.glob("bucket-*/data-*")) for path in names)
    assert len(directories(root)) == 2 * len(NUMBERS)
    assert len(read(table)) == 2 * len(NUMBERS)
    assert leftovers(table) == []
    paths = paimon_spark.load_table(f"{root}$files").scan(["file_path"]).to_arrow()["file_path"].to_pylist()
    assert len({Path(p).parent for p in paths}) >= 2 * len(NUMBERS)
    assert all(Path(p.removeprefix("file:")).exists() for p in paths)

    table.delete("k = 1 OR k = 102")
    table.update("k = 101", {"d": "'new'"})
    expected = read(table)
    assert len(expected) == 2 * len(NUMBERS) - 2
    table.compact(full=True)
    assert read(table) == expected
    assert leftovers(table) == []
    before = sum(p.is_file() for p in root.rglob("bucket-*/data-*"))
    table.purge()
    assert before > 0
    assert not [p for p in root.rglob("bucket-*/*") if p.is_file()]
