"""Rebases as Spark jobs: tasks compare the rows of buckets, and write what main gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.errors import BranchDivergedError, PaimonError, UnsupportedFeatureError
from paimon_spark.jobs.rebase.rows import RebasedRows, RebaseTask
from paimon_spark.spark import tasks
from tests.harness.table_files import files_on_disk, missing_files

pytestmark = pytest.mark.spark
BUCKETS = pytest.mark.parametrize("bucket", ["4", "-1"])


@pytest.fixture
def catalog(tmp_path: Path, spark: SparkSession) -> Catalog:
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("d")
    return made


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of tasks of the jobs that rebases ran, however small they are; their rows come in parts."""
    found: list[int] = []
    run = tasks._run

    def counting(session: SparkSession, work: Any, items: Any) -> Any:
        if isinstance(getattr(work, "__self__", None), RebaseTask):
            found.append(len(items))
        return run(session, work, items)

    monkeypatch.setattr(tasks, "_run", counting)
    monkeypatch.setattr("paimon_spark.jobs.rebase.keys._SPARK_BYTES", 0)
    return found


def put(table: Table, keys: range, text: str) -> None:
    days = [k % 2 for k in keys]
    table.write(pa.table({"day": pa.array(days, pa.int32()), "k": list(keys), "v": [f"{text}{k}" for k in keys]}))


def rows_of(table: Table) -> dict[int, str]:
    return {r["k"]: r["v"] for r in table.scan().to_arrow().to_pylist()}


def made(catalog: Catalog, bucket: str, keys: list[str] | None = None) -> tuple[Table, Table]:
    table = catalog.create_table(
        "d.t",
        "day INT, k BIGINT, v STRING",
        primary_keys=keys or ["day", "k"],
        partition_keys=["day"],
        options={"bucket": bucket},
    )
    put(table, range(200), "base")
    table.create_branch("fix")
    return table, table.branch("fix")


@BUCKETS
def test_tasks_write_what_main_gets(catalog: Catalog, jobs: list[int], bucket: str) -> None:
    table, fix = made(catalog, bucket)
    fix.alter(add={"note": "STRING"})
    put(fix, range(100, 150), "fix")
    put(fix, range(300, 320), "new")
    fix.delete("k < 10")
    put(table, range(150, 200), "main")
    planned = table.merge_branch("fix", if_main_moved="rebase", dry_run=True)
    done = table.merge_branch("fix", if_main_moved="rebase")
    assert planned.rebased_rows == done.rebased_rows == 80
    assert jobs == [8 if bucket == "4" else 2] * 2
    base = {k: f"base{k}" for k in range(10, 100)}
    fixed = {k: f"fix{k}" for k in range(100, 150)} | {k: f"new{k}" for k in range(300, 320)}
    assert rows_of(table) == base | fixed | {k: f"main{k}" for k in range(150, 200)}
    assert missing_files(table.handle) == []


@BUCKETS
def test_conflicts_leave_no_file(catalog: Catalog, jobs: list[int], bucket: str) -> None:
    table, fix = made(catalog, bucket)
    put(fix, range(100, 150), "fix")
    put(table, range(140, 160), "main")
    before = {f.path for f in files_on_disk(table.handle)}
    with pytest.raises(BranchDivergedError, match=r"main changed 10 keys .*k=140"):
        table.merge_branch("fix", if_main_moved="rebase")
    assert {f.path for f in files_on_disk(table.handle)} == before
    done = table.merge_branch("fix", if_main_moved="rebase", on_conflict="theirs")
    assert done.rebased_rows == 50
    assert rows_of(table)[145] == "fix145"
    assert len(jobs) == 2


def test_a_task_that_fails_leaves_no_file(catalog: Catalog, jobs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    table, fix = made(catalog, "4")
    put(fix, range(100, 150), "fix")
    put(table, range(3), "main")
    before = {f.path for f in files_on_disk(table.handle)}
    run = RebaseTask.run

    def failing(self: RebaseTask, pieces: Any, *, alone: bool = False) -> RebasedRows:
        found = run(self, pieces, alone=alone)
        if pieces[0].number == 3:
            raise PaimonError("failed as told")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(RebaseTask, "run", failing)
        with pytest.raises(Exception, match="failed as told"):
            table.merge_branch("fix", if_main_moved="rebase")
    assert {f.path for f in files_on_disk(table.handle)} == before


def test_keys_that_move_between_partitions_are_written_here(catalog: Catalog, jobs: list[int]) -> None:
    table, fix = made(catalog, "-1", ["k"])
    fix.write(pa.table({"day": pa.array([1, 1], pa.int32()), "k": [0, 2], "v": ["moved", "moved"]}))
    put(table, range(3, 4), "main")
    assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows == 2
    assert jobs == []
    found = rows_of(table)
    assert (found[0], found[2], found[3], len(found)) == ("moved", "moved", "main3", 200)


def test_columns_of_rows_in_several_files(catalog: Catalog) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
    table = catalog.create_table("d.e", "day INT, k BIGINT, v STRING", options=options)
    put(table, range(6), "base")
    table.create_branch("fix")
    fix = table.branch("fix")
    put(fix, range(10, 13), "fix")
    fix.update("k = 11", set={"v": "'changed'"})
    fix.delete("k = 1 OR k = 12")
    put(table, range(20, 21), "main")
    table.update("k = 0", set={"v": "'of main'"})
    table.delete("k = 2")
    assert table.merge_branch("fix", if_main_moved="rebase", dry_run=True).rebased_rows == 3
    assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows == 3
    kept = {k: f"base{k}" for k in (3, 4, 5)} | {0: "of main", 20: "main20"}
    assert rows_of(table) == kept | {10: "fix10", 11: "changed"}
    assert missing_files(table.handle) == []
    fix.update("k = 3", set={"v": "'fix'"})
    table.compact(full=True)
    assert table.merge_branch("fix", if_main_moved="rebase").rebased_rows == 1
    assert rows_of(table) == kept | {3: "fix", 10: "fix10", 11: "changed"}
    fix.update("k = 11", set={"v": "'again'"})
    for dry_run in (True, False):
        with pytest.raises(
            UnsupportedFeatureError, match="changed or deleted rows that an earlier rebase of it brought"
        ):
            table.merge_branch("fix", if_main_moved="rebase", dry_run=dry_run)
