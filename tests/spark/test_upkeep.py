"""Clean-up and expiry by executors: the same files as in one process."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import progress
from paimon_spark.maintenance import listing, reachable, removal
from paimon_spark.spark import tasks
from tests.harness.clock import age_files
from tests.harness.table_files import files_on_disk, missing_files

pytestmark = [pytest.mark.spark, pytest.mark.newest]


@pytest.fixture(autouse=True)
def by_executors(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """However few files there are; the numbers of items of the Spark jobs."""
    jobs: list[int] = []
    run = tasks._run

    def counted(session: SparkSession, work: object, items: list[object]) -> object:
        jobs.append(len(items))
        return run(session, work, items)  # type: ignore[arg-type]

    monkeypatch.setattr(tasks, "_run", counted)
    monkeypatch.setattr(listing, "MANY_FILES", 0)
    monkeypatch.setattr(listing, "_FIRST", 1)
    monkeypatch.setattr(reachable, "_MANY_BYTES", 0)
    monkeypatch.setattr(removal, "_MANY", 1)
    monkeypatch.setattr(removal, "_TOGETHER", 2)
    return jobs


def made(path: Path) -> paimon_spark.Table:
    catalog = paimon_spark.load_catalog(str(path))
    catalog.create_database("d")
    table = catalog.create_table(
        "d.t", "p INT, k BIGINT", primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "2"}
    )
    for n in range(3):
        table.write(pa.table({"p": pa.array([i % 5 for i in range(40)], pa.int32()), "k": range(n, n + 40)}))
    return table


@pytest.mark.quick
def test_orphans_are_found_and_deleted(by_executors: list[int], tmp_path: Path) -> None:
    table = made(tmp_path)
    table.create_branch("fix")
    table.branch("fix").write(pa.table({"p": pa.array([1], pa.int32()), "k": [1000]}))
    root = Path(table.location.removeprefix("file://"))
    planted = [root / f"p={p}" / f"bucket-{b}" / f"data-orphan-{p}.parquet" for p in range(5) for b in range(2)]
    planted.append(root / "manifest" / "manifest-orphan-0")
    before = {f.path for f in files_on_disk(table.handle)}
    for path in planted:
        path.write_bytes(b"PAR1")
    age_files(root)
    now = time.time_ns() // 1_000_000
    here = table.remove_orphan_files(now, dry_run=True, use_spark=False)
    assert by_executors == []
    spread = table.remove_orphan_files(now, dry_run=True)
    assert len(by_executors) >= 1
    assert sorted(spread.paths) == sorted(here.paths) == sorted(map(str, planted))
    seen: list[progress.Progress] = []
    with progress.reporting(seen.append, every_s=0):
        assert table.remove_orphan_files(now).files == len(planted)
    assert {f.path for f in files_on_disk(table.handle)} == before
    assert {p.what for p in seen} >= {"list", "delete"}
    assert seen[-1].done == seen[-1].total == len(planted)


@pytest.mark.quick
def test_expired_snapshots_lose_their_files(by_executors: list[int], tmp_path: Path) -> None:
    table = made(tmp_path)
    table.compact(full=True)
    rows = table.scan().to_arrow().num_rows
    by_executors.clear()
    assert table.expire_snapshots(1, retain_min=1).data_files > 2
    assert len(by_executors) >= 1
    assert table.scan().to_arrow().num_rows == rows
    assert missing_files(table.handle) == []
    assert table.remove_orphan_files(time.time_ns() // 1_000_000, dry_run=True).files == 0
