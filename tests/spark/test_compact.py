"""Table.compact as a Spark job: the same result as in process, and no file left when a task fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.engine.compaction import sorting
from paimon_spark.errors import CorruptFileError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.jobs.upkeep import compaction
from tests.harness.marks import slow_except

pytestmark = [pytest.mark.spark, pytest.mark.newest]

KINDS: dict[str, dict[str, str]] = {
    "partitions": {"partition": "dt"},
    "vectors": {"partition": "dt", "deletion-vectors.enabled": "true"},
    "keys": {"primary-key": "id", "bucket": "2", "write-only": "true"},
    "key_vectors": {"primary-key": "id", "bucket": "2", "deletion-vectors.enabled": "true", "write-only": "true"},
}


@pytest.fixture(autouse=True)
def in_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "HERE_BYTES", 0)


def made(spark: SparkSession, path: Path, kind: str) -> paimon_spark.Table:
    for start in range(3):
        rows = spark.range(start * 20, 60 + start, numPartitions=2).selectExpr("id", "concat('p', id % 3) dt", "id v")
        rows.write.format("paimon").mode("append").options(**KINDS[kind]).save(str(path))
    return paimon_spark.load_table(str(path))


def found(spark: SparkSession, path: Path) -> list[tuple[int, str, int]]:
    return sorted((r.id, r.dt, r.v) for r in spark.read.format("paimon").load(str(path)).collect())


def files(path: Path) -> set[Path]:
    return {p for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", slow_except(KINDS, "vectors", "keys"))
def test_tasks_run_in_spark_and_are_committed_once(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(spark, path, kind)
    if "vectors" in kind and "key" not in kind:
        table.delete("id % 10 = 3")
    before = found(spark, path)
    result = table.compact(full=True)
    assert len(result.snapshot_ids) == 1
    assert result.snapshot is not None and result.snapshot.commit_kind is CommitKind.COMPACT
    assert result.buckets > 1 and result.files_before > result.files_after
    if kind != "key_vectors":  # rows of level 0 were not seen before
        assert found(spark, path) == before
    assert found(spark, path)[-1] == (61, "p1", 61)
    assert len({r[0] for r in found(spark, path)}) == len([i for i in range(62) if kind != "vectors" or i % 10 != 3])
    assert table.compact(full=True).snapshot_ids == ()


def test_files_of_all_tasks_go_when_one_fails(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(spark, path, "vectors")
    table.delete("id % 10 = 3")
    data = sorted(p for p in path.rglob("*.parquet") if "dt=p1" in str(p))
    data[0].write_bytes(b"no Parquet at all")
    before = files(path)
    head = table.snapshots()[-1]
    with pytest.raises(CorruptFileError, match=data[0].name):
        table.compact(full=True)
    assert files(path) == before
    assert table.snapshots()[-1] == head


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        pytest.param("plain", "order", marks=pytest.mark.slow),
        pytest.param("partitions", "zorder", marks=pytest.mark.slow),
        ("vectors", "hilbert"),
    ],
)
def test_rows_are_sorted_in_spark(
    spark: SparkSession, kind: str, strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "RANGE_BYTES", 300)
    path = tmp_path / "t"
    options = {**KINDS.get(kind, {}), "target-file-size": "900 b"}
    for start in range(3):
        rows = spark.range(start, 3000, 3, numPartitions=2).selectExpr("id", "concat('p', id % 3) dt", "hash(id) v")
        rows.write.format("paimon").mode("append").options(**options).save(str(path))
    table = paimon_spark.load_table(str(path))
    if kind == "vectors":
        table.delete("id % 10 = 3")
    before, old = found(spark, path), files(path)
    result = table.compact(order_by=["v", "id"], order_strategy=strategy)
    assert result.snapshot is not None and result.snapshot.commit_kind is CommitKind.COMPACT
    assert result.files_after > 3 and result.buckets == (1 if kind == "plain" else 3)
    assert found(spark, path) == before
    splits = paimon_spark.load_table(str(path)).scan().plan().splits
    assert len({p for p in files(path) - old if "bucket-" in str(p)}) == sum(len(s.files) for s in splits)
    if strategy == "order" and kind == "plain":
        read = paimon_spark.load_table(str(path)).scan().to_arrow()["v"].to_pylist()
        assert read == sorted(read)


def test_a_failed_sort_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(spark, path, "partitions")
    victim = next(p for p in sorted(path.rglob("data-*")) if p.is_file())
    victim.write_bytes(b"not a file")
    before = files(path)
    with pytest.raises(CorruptFileError):
        table.compact(order_by="v")
    assert files(path) == before


@pytest.mark.quick
def test_incremental_clustering_runs_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("d")
    options = {"clustering.incremental": "true", "clustering.columns": "v", "deletion-vectors.enabled": "true"}
    table = catalog.create_table("d.t", "id BIGINT, dt STRING, v INT", options=options)
    path = tmp_path / "d.db" / "t"
    rows = spark.range(1000).selectExpr("id", "'x' dt", "hash(id) v").repartition(2)
    rows.write.format("paimon").mode("append").save(str(path))
    assert table.compact(full=True).files_before == 2
    for start in range(5):
        spark.range(start, start + 1).selectExpr("id", "'x' dt", "7 v").write.format("paimon").mode("append").save(
            str(path)
        )
    table.delete("id = 2")
    expected = found(spark, path)
    before = [f["level"] for f in files_of(table)]
    done = table.compact()
    assert before.count(5) > 0 and 2 <= done.files_before <= 5, "the sorted level stays"
    assert found(spark, path) == expected
    levels = [f["level"] for f in files_of(table)]
    assert levels.count(5) == before.count(5) and max(level for level in levels if level != 5) > 0


def test_the_procedure_sorts(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.attach(spark, str(tmp_path / "wh"), name="sorts")
    try:
        spark.sql("CREATE DATABASE sorts.d")
        spark.sql("CREATE TABLE sorts.d.t AS SELECT id, hash(id) v FROM range(1000)")
        spark.sql("CALL sorts.sys.compact(table => 'd.t', order_strategy => 'zorder', order_by => 'v,id')")
        assert catalog.table("d.t").snapshots()[-1].commit_kind is CommitKind.COMPACT
        assert spark.table("sorts.d.t").count() == 1000
    finally:
        paimon_spark.detach(spark, "sorts")


def test_rescaling_runs_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = made(spark, path, "keys")
    before = found(spark, path)
    assert table.rescale(8).snapshot_ids
    assert found(spark, path) == before
    assert len({p.parent for p in map(Path, (f["file_path"] for f in files_of(table)))}) == 8

    there = files(path)
    data = [p for p in there if p.suffix == ".parquet" and p.parent.name == "bucket-7"]
    for broken in data:
        broken.write_bytes(b"no Parquet at all")
    with pytest.raises(CorruptFileError):
        table.rescale(4)
    assert files(path) == there


def files_of(table: paimon_spark.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = paimon_spark.load_table(f"{table.location}$files").scan().to_arrow().to_pylist()
    return rows
