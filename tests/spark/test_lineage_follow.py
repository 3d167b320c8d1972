"""Two running queries over the same two tables: the second one reads the pairs of snapshots that the first one read."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import paimon_spark
from paimon_spark.api.lineage_question import warehouse_of
from paimon_spark.lineage.recording.checkpoints import open_checkpoint
from tests.harness.keywords import keywords
from tests.harness.until import until

pytestmark = [pytest.mark.spark, pytest.mark.streaming, pytest.mark.newest, pytest.mark.timeout(600)]

Pair = tuple[int | None, int | None]
"""Snapshots of tables a and b at the end of a batch."""


class World:
    """Tables a and b, and queries that join them into x and y."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.catalog = paimon_spark.load_catalog(str(home / "wh"), **{"data-lineage": "true"})
        self.catalog.create_database("db")
        for name in "abxy":
            columns = "k BIGINT, v BIGINT" if name in "ab" else "k BIGINT, a BIGINT, b BIGINT"
            self.catalog.create_table(f"db.{name}", columns)

    def url(self, name: str) -> str:
        return str(self.home / "wh" / "db.db" / name)

    def put(self, name: str, key: int) -> None:
        self.catalog.table(f"db.{name}").write(pa.table({"k": pa.array([key], pa.int64()), "v": [key * 10]}))

    def start(self, job: str, sink: str, *, once: bool = False, **read: str) -> StreamingQuery:
        """Start a query that joins a and b."""
        a, b = (self.spark.readStream.format("paimon").options(**read).load(self.url(n)) for n in "ab")
        rows = a.withColumnRenamed("v", "a").join(b.withColumnRenamed("v", "b"), "k").select("k", "a", "b")
        writer = rows.writeStream.format("paimon").queryName(job).option("checkpointLocation", str(self.home / job))
        writer = writer.option("lineage.flush-interval", "0").option("lineage.job", job)
        return (writer.trigger(availableNow=True) if once else writer).start(self.url(sink))

    def pairs(self, job: str) -> list[Pair]:
        """What each batch of a query had read at its end, by its checkpoint."""
        checkpoint = open_checkpoint(warehouse_of(self.catalog).store, str(self.home / job))
        batches = sorted(int(p.name) for p in (self.home / job / "commits").iterdir() if p.name.isdigit())
        ends = [checkpoint.ends(n).ends for n in batches]
        return [tuple({o.table[-1]: o.snapshot_id for o in end.values()}[n] for n in "ab") for end in ends]  # type: ignore[misc]


@pytest.mark.slow
def test_a_query_reads_the_pairs_of_snapshots_that_another_one_read(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    world.put("a", 0)
    world.put("b", 0)
    stop = threading.Event()

    def produce() -> None:
        for key in range(1, 200):
            world.put("a", key)
            world.put("b", key)
            if stop.wait(0.3):
                return

    def second() -> StreamingQuery:
        return world.start("etl 2", "y", **keywords({"lineage.follow": "etl 1", "lineage.job": "etl 2"}))

    first = world.start("etl 1", "x")
    until(lambda: bool(world.catalog.table("db.x").snapshots()))
    producer = threading.Thread(target=produce)
    producer.start()
    queries = [first]
    try:
        queries.append(second())
        until(lambda: (tmp_path / "etl 2" / "commits" / "1").exists())
        queries[-1].stop()  # it goes on where it was
        queries.append(second())
        until(lambda: (tmp_path / "etl 2" / "commits" / "4").exists())
        stop.set()
        producer.join()
        last = (len(world.catalog.table("db.a").snapshots()), len(world.catalog.table("db.b").snapshots()))
        until(lambda: world.pairs("etl 1")[-1] == last and world.pairs("etl 2")[-1] == last)
    finally:
        stop.set()
        for query in queries:
            query.stop()
        producer.join()
    read, followed = world.pairs("etl 1"), [p for p in world.pairs("etl 2") if p != (None, None)]
    assert set(followed) <= set(read)
    begun = read.index(followed[0])
    assert list(dict.fromkeys(followed)) == list(dict.fromkeys(read[begun:]))  # none left out from then on
    assert all(before <= after for before, after in pairwise(followed))
    found = world.catalog.lineage.unified_version(["db.x", "db.y"])
    rows = [world.catalog.table(t).at(str(found[t])).scan().to_arrow().sort_by("k") for t in ("db.x", "db.y")]
    assert rows[0] == rows[1] and len(rows[0]) == last[0]


@pytest.mark.slow
def test_a_query_that_ends_follows_up_to_the_newest_batch(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    follow = {"lineage.follow": "etl 1", "lineage.job": "etl 2"}
    for key in range(3):
        world.put("a", key)
        world.put("b", key)
        assert world.start("etl 1", "x", once=True).awaitTermination(240)
        world.put("a", 100 + key)  # what the job has not read yet is left alone
        assert world.start("etl 2", "y", once=True, **follow).awaitTermination(240)
    assert world.pairs("etl 2")[-1] == world.pairs("etl 1")[-1] == (5, 3)
    rows = [world.catalog.table(f"db.{t}").scan().to_arrow().sort_by("k") for t in "xy"]
    assert rows[0] == rows[1] and len(rows[0]) == 3


def test_a_job_that_does_not_exist_is_told(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    world.put("a", 0)
    world.put("b", 0)
    query = world.start("etl 2", "y", **keywords({"lineage.follow": "etl one", "lineage.job": "etl 2"}))
    with pytest.raises(StreamingQueryException, match="'etl one': no such job is recorded"):
        query.awaitTermination(240)
    read = spark.read.format("paimon").option("lineage.follow", "etl 1")
    with pytest.raises(PySparkException, match=r"lineage\.follow has no effect on a batch read"):
        read.load(world.url("a")).collect()
