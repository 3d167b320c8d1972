"""Partitions of FLOAT and DOUBLE columns are found whichever text a writer gave to their directories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import InvalidInputError
from paimon_spark.format import binary_row
from paimon_spark.jobs.upkeep import compaction
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.maintenance.partitions import mark_done
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.partition_path import PartitionDirectories
from paimon_spark.options.write_request import WriteMode
from paimon_spark.sql.functions import max_pt
from paimon_spark.storage.local import LocalStore
from paimon_spark.storage.store import FileInfo
from paimon_spark.types import STRING
from tests.harness.float_partitions import (
    NAMES,
    NUMBERS,
    SMALLEST,
    directories,
    made,
    read,
    respelled,
    rows,
)
from tests.harness.real_tables import a_catalog


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "active_spark_jobs", lambda: None)


def test_new_directories_have_the_text_of_jdk_19(tmp_path: Path) -> None:
    made(tmp_path / "t")
    assert [p.name for p in directories(tmp_path)] == sorted(f"f={name}" for name in NAMES)


@pytest.mark.parametrize("partition", ["f,d", "d,f"])
def test_other_levels_keep_their_place(partition: str, tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = made(root, partition=partition)
    expected = read(table)
    respelled(root)
    there = directories(root)
    assert read(table) == expected
    table.write(rows(100))
    assert directories(root) == there
    assert len(read(table)) == 2 * len(NUMBERS)
    table.drop_partitions({"f": SMALLEST})
    assert len(read(table)) == 2 * len(NUMBERS) - 2


def test_files_of_a_write_that_fails_go_from_where_they_lie(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = made(root)
    respelled(root)
    before = sorted(p for p in root.rglob("*") if p.is_file())
    job = plan_path_write({"path": str(root)}, WriteMode.APPEND, rows().schema, lambda: row_type(rows().schema))
    messages = job.write(rows(100).to_batches())
    assert sorted(p for p in root.rglob("*") if p.is_file()) != before
    Committer(table.handle, "us").abort(messages)
    assert sorted(p for p in root.rglob("*") if p.is_file()) == before


class Unlisted(LocalStore):
    """A store whose directories are not listed."""

    def list(self, directory: str) -> list[FileInfo]:
        raise AssertionError(directory)


def test_partitions_without_such_columns_need_no_listing(tmp_path: Path) -> None:
    table = made(tmp_path / "t", partition="d")
    handle = replace(table.handle, store=Unlisted())
    partition = binary_row.encode(["x"], [STRING])
    assert PartitionDirectories(handle).paths(partition) == ["d=x"]


def test_each_level_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "t"
    table = made(root)
    listed: list[str] = []
    real = LocalStore.list

    def noting(store: LocalStore, path: str) -> list[FileInfo]:
        listed.append(path)
        return real(store, path)

    monkeypatch.setattr(LocalStore, "list", noting)
    assert len(read(table)) == len(NUMBERS)
    assert listed.count(str(root)) == 1


def test_partitions_are_marked_done_where_they_lie(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = made(root, partition="f,d")
    respelled(root)
    mark_done(table.handle, [{"f": "1.4E-45"}, {"f": "0.10", "d": "x"}, {"f": "7.5"}])
    marked = {str(p.parent.relative_to(root)) for p in root.rglob("_SUCCESS")}
    assert marked == {"f=1.40129846432481707e-45", "f=1.00000001490116119e-01/d=x", "f=7.5"}


def test_partitions_are_named_by_any_text_of_their_number(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    count = len(NUMBERS)
    for value in ("1.0E-45", "-3.40282347E38", "NaN", 0.1):
        table.drop_partitions({"f": value})
        count -= 1
        assert len(read(table)) == count
    for text in ("0.123456789123", "1e39", "x"):
        with pytest.raises(
            InvalidInputError, match=r"is not a value of partition column .f. of table .*, which is FLOAT"
        ):
            table.drop_partitions({"f": text})
    table.write(rows().slice(0, 3))
    table.write(rows(100).slice(2, 1), mode="overwrite", **{"overwrite.partition": "f=0.1"})
    assert [k for k, f in read(table) if f.startswith("0.1")] == [100 + 2]


def test_the_largest_partition_is_nan(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path)
    table = catalog.create_table("db.t", "k BIGINT, d STRING, f FLOAT", partition_keys=["f"])
    table.write(rows().slice(0, 2))
    assert max_pt(catalog, "db.t") == "1.4E-45"
    table.write(rows())
    assert max_pt(catalog, "db.t") == "NaN"
