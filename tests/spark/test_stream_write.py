"""df.writeStream in a classic session: what becomes visible, that it does so once, and what is left on disk."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import paimon_spark
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from tests.harness.clock import age_files
from tests.harness.until import until

pytestmark = pytest.mark.spark

KINDS: dict[str, dict[str, str]] = {
    "append": {},
    "append_buckets": {"bucket": "2", "bucket-key": "id", "partition": "dt"},
    "keys": {"primary-key": "id", "bucket": "2"},
    "dynamic": {"primary-key": "dt,id", "partition": "dt", "dynamic-bucket.target-row-num": "30"},
}


class Feed:
    """A folder of Parquet files that a stream reads one a batch, in the order they came."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark, self._home, self._files = spark, home, 0
        home.mkdir()

    def add(self, first: int, count: int = 40, v: int = 0) -> None:
        ids = range(first, first + count)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "dt": [f"p{i % 3}" for i in ids], "v": [i + v for i in ids]})
        path = self._home / f"{self._files}.parquet"
        pq.write_table(rows, path)
        self._files += 1
        os.utime(path, (self._files, self._files))

    def stream(self, files_per_batch: int = 1) -> DataFrame:
        reader = self._spark.readStream.schema("id LONG, dt STRING, v LONG")
        return reader.option("maxFilesPerTrigger", files_per_batch).parquet(str(self._home))


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    made = Feed(spark, tmp_path / "feed")
    made.add(0)
    made.add(20)
    return made


def run(df: DataFrame, path: Path | str, checkpoint: Path, mode: str = "append", **options: str) -> str:
    """Process what is there; the id of the query."""
    writer = df.writeStream.format("paimon").outputMode(mode).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(path))
    try:
        assert query.awaitTermination(180), "the query does not end"
    finally:
        query.stop()
    return str(query.id)


def forget_commit(checkpoint: Path, batch: int) -> None:
    """Leave the checkpoint as a driver does that died after the commit of a batch, before it noted that."""
    for path in (checkpoint / "commits").glob(f"*{batch}*"):
        path.unlink()


def orphans(path: Path) -> int:
    """How many orphan files a table has, however new they are."""
    age_files(path)
    return paimon_spark.load_table(str(path)).remove_orphan_files(int(time.time() * 1000), dry_run=True).files


def read(spark: SparkSession, path: Path | str, **options: str) -> list[tuple[Any, ...]]:
    df = spark.read.format("paimon").options(**options).load(str(path))
    return sorted(map(tuple, df.collect()))


def files(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}


def data_files(path: Path) -> set[str]:
    return {f for f in files(path) if "bucket-" in f}


def snapshots(path: Path | str) -> list[Snapshot]:
    return paimon_spark.load_table(str(path)).snapshots()


def rows(*ranges: tuple[int, int]) -> list[tuple[int, str, int]]:
    return sorted((i, f"p{i % 3}", i) for first, count in ranges for i in range(first, first + count))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "keys" else pytest.mark.newest) for k in KINDS])
def test_batches_come_once_over_restarts_and_replays(
    spark: SparkSession, feed: Feed, kind: str, tmp_path: Path
) -> None:
    path, checkpoint, keyed = tmp_path / "t", tmp_path / "checkpoint", "primary-key" in KINDS[kind]
    query = run(feed.stream(), path, checkpoint, **KINDS[kind])
    expected = rows((0, 60)) if keyed else rows((0, 40), (20, 40))
    assert read(spark, path) == expected
    made = [s for s in snapshots(path) if s.commit_kind is CommitKind.APPEND]
    assert [(s.commit_user, s.commit_identifier) for s in made] == [(query, 0), (query, 1)]

    feed.add(100)
    assert run(feed.stream(), path, checkpoint, **KINDS[kind]) == query
    expected = sorted(expected + rows((100, 40)))
    assert read(spark, path) == expected
    before, head = data_files(path), snapshots(path)[-1].id

    forget_commit(checkpoint, 2)
    run(feed.stream(), path, checkpoint, **KINDS[kind])
    assert (checkpoint / "commits" / "2").exists()
    assert snapshots(path)[-1].id == head
    assert data_files(path) == before
    assert read(spark, path) == expected

    feed.add(200)
    run(feed.stream(), path, checkpoint, **KINDS[kind])
    assert read(spark, path) == sorted(expected + rows((200, 40)))
    assert [s.commit_identifier for s in snapshots(path) if s.commit_kind is CommitKind.APPEND] == [0, 1, 2, 3]
    assert orphans(path) == 0


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow, id="append"),
        pytest.param({"primary-key": "dt", "bucket": "1"}, marks=pytest.mark.newest, id="keys"),
    ],
)
def test_complete_mode_replaces_the_table(
    spark: SparkSession, feed: Feed, options: dict[str, str], tmp_path: Path
) -> None:
    path, checkpoint = tmp_path / "t", tmp_path / "checkpoint"
    counts = feed.stream().groupBy("dt").count()
    run(counts, path, checkpoint, "complete", **options)
    assert read(spark, path) == [("p0", 27), ("p1", 26), ("p2", 27)]
    head = snapshots(path)[-1].id
    forget_commit(checkpoint, 1)
    run(counts, path, checkpoint, "complete", **options)
    assert snapshots(path)[-1].id == head
    feed.add(0, 3)
    run(counts, path, checkpoint, "complete", **options)
    assert read(spark, path) == [("p0", 28), ("p1", 27), ("p2", 28)]
    assert read(spark, path, versionAsOf="1") == [("p0", 14), ("p1", 13), ("p2", 13)]


@pytest.mark.quick
@pytest.mark.newest
def test_a_branch_is_written_and_main_is_not(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    path = tmp_path / "t"
    run(feed.stream(), path, tmp_path / "main")
    table = paimon_spark.load_table(str(path))
    table.create_tag("v1", snapshot_id=1)
    table.create_branch("fix", tag="v1")
    feed.add(300)
    query = run(feed.stream().where("id >= 300"), path, tmp_path / "fix", branch="fix")
    assert read(spark, path, branch="fix") == rows((0, 40), (300, 40))
    assert read(spark, path) == rows((0, 40), (20, 40))
    on_branch = table.branch("fix").snapshots()
    assert on_branch[-1].commit_user == query
    forget_commit(tmp_path / "fix", 2)
    run(feed.stream().where("id >= 300"), f"{path}$branch_fix", tmp_path / "fix")
    assert table.branch("fix").snapshots() == on_branch


@pytest.mark.parametrize(
    ("change", "mode", "options", "message"),
    [
        ("id, dt, v, 1 more", "append", {}, "no column 'more'"),
        pytest.param("id, dt, cast(v as string) v", "append", {}, "column v", marks=pytest.mark.newest),
        pytest.param("id, dt, v", "append", {"branch": "fixx"}, "has no branch 'fixx'", marks=pytest.mark.newest),
        pytest.param("id, dt, v", "append", {"comit.user": "me"}, "commit.user", marks=pytest.mark.newest),
        ("id, dt, v", "update", {}, "does not support Update mode"),  # Spark's words: we are not asked
    ],
)
def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    feed: Feed, change: str, mode: str, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    catalog.create_table("db.t", "id BIGINT NOT NULL, dt STRING NOT NULL, v BIGINT")
    path = tmp_path / "db.db" / "t"
    before = files(path)
    with pytest.raises(StreamingQueryException, match=message):
        run(feed.stream().selectExpr(*change.split(", ")), path, tmp_path / "checkpoint", mode, **options)
    assert files(path) == before


def test_a_failed_task_leaves_no_files_and_its_batch_comes_later(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    path, checkpoint = tmp_path / "t", tmp_path / "checkpoint"
    keyed = {"primary-key": "id", "bucket": "2"}
    run(feed.stream(), path, checkpoint, **keyed)
    before = files(path)
    for i in range(2):
        feed.add(1000 + 100 * i)
    told = tmp_path / "the driver has the message of the other task"

    def fail_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 1139 in batch.column(0).to_pylist():
                until(told.exists, seconds=180)
                raise RuntimeError("the source broke")

    stream, tracker = feed.stream(2), spark.sparkContext.statusTracker()
    writer = stream.mapInArrow(fail_late, stream.schema).writeStream.format("paimon").options(**keyed)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(path))
    try:
        until(lambda: [s for s in map(tracker.getStageInfo, tracker.getActiveStageIds()) if s and s.numCompletedTasks])
        assert len(data_files(path)) > len([f for f in before if "bucket-" in f])
        told.touch()
        with pytest.raises(StreamingQueryException, match="the source broke"):
            query.awaitTermination(180)
    finally:
        told.touch()
        query.stop()
    assert files(path) == before
    run(stream, path, checkpoint, **keyed)
    assert read(spark, path) == rows((0, 60), (1000, 40), (1100, 40))
    assert orphans(path) == 0


@pytest.mark.newest
def test_a_changelog_is_applied_to_a_branch(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    path = tmp_path / "t"
    run(feed.stream(), path, tmp_path / "main", **{"primary-key": "id", "bucket": "2", "changelog-producer": "input"})
    table = paimon_spark.load_table(str(path))
    table.create_tag("v1")
    table.create_branch("copy", tag="v1")
    feed.add(10, 5, v=1000)
    run(feed.stream(), path, tmp_path / "main")
    kinds = spark.createDataFrame(
        [(1, "x", 1, "-D"), (2, "x", 2, "+U"), (900, "x", 3, "+I")], "id LONG, dt STRING, v LONG, _VALUE_KIND STRING"
    )
    kinds.write.format("paimon").mode("append").save(str(path))
    changes = spark.readStream.format("paimon").option("read.changelog", "true").option("scan.tag-name", "v1")
    run(changes.load(str(path)).withColumnRenamed("rowkind", "_VALUE_KIND"), path, tmp_path / "copy", branch="copy")
    found = read(spark, path, branch="copy")
    assert found == read(spark, path)
    assert {r[0]: r[2] for r in found}[900] == 3
    assert 1 not in {r[0] for r in found}


@pytest.mark.quick
@pytest.mark.newest
def test_row_kinds_come_from_a_column(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"primary-key": "id", "bucket": "1", "rowkind.field": "op"}
    kinds = feed.stream().withColumn("op", F.expr("if(id = 30 and v = 30 and dt = 'p0', '-D', '+I')"))
    run(kinds, path, tmp_path / "checkpoint", **options)
    assert [r[0] for r in read(spark, path)] == [i for i in range(60) if i != 30]


@pytest.mark.quick
@pytest.mark.newest
def test_two_queries_write_one_table(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    path = tmp_path / "t"
    # A first row: where two queries make the first rows with keys at once, one of them may have to be started again.
    first = spark.createDataFrame([(-1, "x", 0)], "id LONG, dt STRING, v LONG")
    first.write.format("paimon").mode("append").options(**{"primary-key": "id", "bucket": "1"}).save(str(path))
    for i in range(4):
        feed.add(100 * (i + 1))
    started = [
        feed.stream()
        .selectExpr(f"id + 10000 * {i} id", "dt", "v")
        .writeStream.format("paimon")
        .option("checkpointLocation", str(tmp_path / f"checkpoint{i}"))
        .trigger(availableNow=True)
        .start(str(path))
        for i in range(2)
    ]
    try:
        assert all(q.awaitTermination(180) for q in started)
    finally:
        for q in started:
            q.stop()
    assert len(read(spark, path)) == 1 + 2 * (60 + 160)
    made = [(s.commit_user, s.commit_identifier) for s in snapshots(path)[1:] if s.commit_kind is CommitKind.APPEND]
    assert sorted(made) == sorted((str(q.id), batch) for q in started for batch in range(6))


def test_foreach_batch_writes_with_the_batch_writer(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    path = tmp_path / "t"

    def upsert(batch: DataFrame, number: int) -> None:
        batch.write.format("paimon").mode("append").options(**{"primary-key": "id", "bucket": "1"}).save(str(path))

    writer = feed.stream().writeStream.foreachBatch(upsert).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(180)
    assert read(spark, path) == rows((0, 60))
    assert len(snapshots(path)) == 2


@pytest.mark.newest
def test_a_commit_makes_tags_and_is_of_the_user_named(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "daily", "commit.user": "loader"}
    run(feed.stream(), path, tmp_path / "checkpoint", **options)
    assert [s.commit_user for s in snapshots(path)] == ["loader"] * 2
    assert len(paimon_spark.load_table(str(path)).tags()) == 1
    forget_commit(tmp_path / "checkpoint", 1)
    run(feed.stream(), path, tmp_path / "checkpoint", **options)
    assert len(snapshots(path)) == 2
    # Another query of the same name is another query: its batches are not taken for those that are there.
    shutil.rmtree(tmp_path / "checkpoint")
    run(feed.stream(2), path, tmp_path / "checkpoint", **options)
    assert len(read(spark, path)) == 160


@pytest.mark.newest
@pytest.mark.slow
def test_batches_of_a_query_and_statements_that_write_rows_move_the_tag_of_batches(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("db")
    named = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "newest"}
    table = catalog.create_table("db.t", "id BIGINT, dt STRING, v BIGINT", partition_keys=["dt"], options=named)
    path, checkpoint = table.location, tmp_path / "checkpoint"

    def tagged() -> list[int]:
        return [t.snapshot.id for t in catalog.table("db.t").tags()]

    run(feed.stream(), path, checkpoint)
    assert tagged() == [2]
    table.delete_tag("newest")
    forget_commit(checkpoint, 1)  # the driver died before it made the tag
    run(feed.stream(), path, checkpoint)
    assert tagged() == [2]
    for number, (statement, moves) in enumerate(
        (
            ("INSERT INTO db.t VALUES (1, 'a', 1)", True),
            ("UPDATE db.t SET v = 2 WHERE id = 1", True),
            ("DELETE FROM db.t WHERE id = 1 AND v = 2", True),
            ("DELETE FROM db.t WHERE dt = 'p1'", False),
            ("ALTER TABLE db.t DROP PARTITION (dt = 'p2')", False),
            ("ANALYZE TABLE db.t COMPUTE STATISTICS", False),
            ("INSERT OVERWRITE db.t SELECT * FROM db.t WHERE id < 0", False),
            ("INSERT INTO db.t VALUES (1, 'a', 1)", True),
            ("TRUNCATE TABLE db.t", False),
        )
    ):
        before = tagged()
        catalog.sql(statement, session=spark)
        head = snapshots(path)[-1].id
        assert head == 3 + number, statement
        assert tagged() == ([head] if moves else before), statement
