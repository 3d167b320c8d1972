"""Lineage of streams in Spark: what each snapshot says of its sources, against the rows that it holds."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.lineage.index.provenance import JOB, Provenance, SourceRange, TableRef, decode_provenance
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import SOURCE_SNAPSHOT, enable
from paimon_spark.lineage.index.warehouse import find_warehouse_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

A, B = TableRef("db", "a"), TableRef("db", "b")
ROWS = 3
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"


class World:
    """A warehouse with the sources a and b. A row of theirs says of which table and snapshot it is."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.catalog: Catalog = paimon_spark.load_catalog(str(home / "wh"))
        self.catalog.create_database("db")
        schema = pa.schema([("src", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
        for name in ("a", "b"):
            self.catalog.create_table(f"db.{name}", schema, partition_keys=["n"])  # a file for each row of a commit
            self.feed(name, 2)
        warehouse = find_warehouse_table(self.catalog.table("db.a").handle)
        assert warehouse is not None
        self.index = open_index(warehouse.warehouse)

    def feed(self, name: str, snapshots: int = 1) -> None:
        table = self.catalog.table(f"db.{name}")
        before = len(table.snapshots())
        for at in range(before + 1, before + 1 + snapshots):
            table.write(pa.table({"src": [name] * ROWS, "id": pa.array([at] * ROWS), "n": pa.array(range(ROWS))}))

    def path(self, name: str) -> str:
        return str(self.home / "wh" / "db.db" / name)

    def stream(self, name: str, **options: str) -> DataFrame:
        return self.spark.readStream.format("paimon").options(**options).load(self.path(name))

    def run(
        self,
        df: DataFrame,
        sink: str,
        name: str | None = None,
        options: Mapping[str, str] | None = None,
        *,
        mode: str = "append",
        conf: bool = False,
    ) -> str:
        """Process what is there; the id of the query."""
        writer = df.writeStream.format("paimon").outputMode(mode).options(**(options or {})).trigger(availableNow=True)
        if name is not None:
            writer = writer.queryName(name)
        if not conf:
            writer = writer.option("checkpointLocation", str(self.home / f"chk_{sink}"))
        query = writer.start(self.path(sink))
        try:
            assert query.awaitTermination(180), "the query does not end"
        finally:
            query.stop()
        return str(query.id)

    def made(self, sink: str) -> list[Snapshot]:
        return [s for s in self.catalog.table(f"db.{sink}").snapshots() if s.commit_kind is not CommitKind.COMPACT]

    def said(self, sink: str) -> list[Provenance]:
        found = [decode_provenance(s.properties) for s in self.made(sink)]
        assert None not in found
        return [p for p in found if p is not None]

    def rows(self, sink: str, snapshot: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            self.catalog.table(f"db.{sink}").scan(**{"scan.snapshot-id": str(snapshot)}).to_arrow().to_pylist()
        )
        return found


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    made = World(spark, tmp_path)
    enable(made.index)
    return made


@pytest.fixture
def configured(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The session keeps checkpoints in a directory."""
    spark.conf.set(CHECKPOINTS, f"file:{tmp_path}/checkpoints")
    try:
        yield tmp_path / "checkpoints"
    finally:
        spark.conf.unset(CHECKPOINTS)


def read_of(source: SourceRange) -> tuple[int, int]:
    return source.after or 0, source.last or 0


@pytest.mark.slow
def test_a_query_is_recorded_by_its_name_its_id_or_the_name_that_the_write_gives(
    world: World, configured: Path
) -> None:
    named = world.run(world.stream("a"), "named", "etl")
    by_conf = world.run(world.stream("a"), "by_conf", "by conf", conf=True)
    unnamed = world.run(world.stream("a"), "unnamed", conf=True)
    given = world.run(world.stream("a"), "given", "other", {"lineage.job": "nightly"})
    for sink, query, job in (
        ("named", named, "etl"),
        ("by_conf", by_conf, "by conf"),
        ("unnamed", unnamed, unnamed),
        ("given", given, "nightly"),
    ):
        assert world.said(sink) == [Provenance(job, 0, (SourceRange(A, last=2),), query)]
        assert not [k for k in world.catalog.table(f"db.{sink}").handle.schema.options if k.startswith("lineage")]
    assert (configured / "by conf" / "offsets" / "0").exists()
    world.catalog.lineage.sync()
    jobs = {"etl", "by conf", unnamed, "nightly"}
    for table in ("sink_snapshot_lineage", "source_snapshot_lineage", "sink_job_lineage", "source_job_lineage"):
        rows = world.spark.read.format("paimon").load(str(world.home / "wh" / "paimon.db" / table)).collect()
        assert sorted(r.job for r in rows) == sorted(jobs), table


@pytest.mark.parametrize(
    "read",
    [
        {},
        pytest.param({"read.stream.aligned": "true"}, marks=[pytest.mark.newest, pytest.mark.slow]),
        pytest.param(
            {"read.stream.maxRowsPerTrigger": "2", "scan.snapshot-id": "1"},
            marks=[pytest.mark.newest, pytest.mark.slow],
        ),
    ],
)
def test_snapshots_say_what_their_rows_prove(world: World, read: dict[str, str]) -> None:
    def both() -> DataFrame:
        return world.stream("a", **read).unionByName(world.stream("b"))

    world.run(both(), "t", "etl")
    world.feed("a", 2)
    world.run(both(), "t", "etl")
    world.feed("b")
    world.run(both(), "t", "etl")
    said = world.said("t")
    assert len(said) >= 3
    before, in_parts = {A: 0, B: 0}, False
    for snapshot, p in zip(world.made("t"), said, strict=True):
        assert p.job == "etl"
        assert p.barrier == snapshot.commit_identifier
        assert [s.ref for s in p.sources] == [A, B]
        rows = world.rows("t", snapshot.id)
        for source in p.sources:
            assert source.ref is not None
            after, last = read_of(source)
            assert after == before[source.ref]
            before[source.ref] = last
            seen = [r["id"] for r in rows if r["src"] == source.ref.table]
            whole = {i for i in seen if seen.count(i) == ROWS}
            assert whole == set(range(1, last + 1))
            assert set(seen) - whole <= {source.within}
            in_parts |= source.within is not None
    assert before == {A: 4, B: 3}
    assert in_parts == ("read.stream.maxRowsPerTrigger" in read)


@pytest.mark.newest
@pytest.mark.slow
def test_a_join_and_a_rate_source_name_their_paimon_sources(world: World) -> None:
    a = world.stream("a").select(F.col("id").alias("a"), "n")
    b = world.stream("b").select(F.col("id").alias("b"), "n")
    world.run(a.join(b, "n"), "joined", "join")
    world.feed("b")
    world.run(a.join(b, "n"), "joined", "join")
    for snapshot, p in zip(world.made("joined"), world.said("joined"), strict=True):
        rows = world.rows("joined", snapshot.id)
        assert [(s.ref, s.last) for s in p.sources] == [(A, max(r["a"] for r in rows)), (B, max(r["b"] for r in rows))]
    assert [p.sources[1] for p in world.said("joined")][-1] == SourceRange(B, after=2, last=3)

    rate = world.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    query = world.run(rate.select(F.col("value").alias("n")), "rated")
    assert world.said("rated") == [Provenance(query, 0, (), query)]


@pytest.mark.newest
def test_complete_output_says_whence_the_whole_table_came(world: World) -> None:
    def totals() -> DataFrame:
        return world.stream("a").groupBy("id").count()

    world.run(totals(), "t", "totals", mode="complete")
    world.feed("a")
    world.run(totals(), "t", "totals", mode="complete")
    for snapshot, p in zip(world.made("t"), world.said("t"), strict=True):
        assert max(r["id"] for r in world.rows("t", snapshot.id)) == p.sources[0].last
    assert [p.sources[0].last for p in world.said("t")] == [2, 3]


@pytest.mark.newest
def test_a_batch_whose_rows_are_all_left_out_is_recorded(world: World) -> None:
    world.run(world.stream("a").where("id < 3"), "t", "few")
    world.feed("a")
    world.run(world.stream("a").where("id < 3"), "t", "few")
    assert len(world.made("t")) == 1
    world.catalog.lineage.sync()
    found = world.index.read(SOURCE_SNAPSHOT)
    assert sorted(found.select(["barrier_id", "snapshot_id"]).to_pylist(), key=str) == [
        {"barrier_id": 0, "snapshot_id": 2},
        {"barrier_id": 1, "snapshot_id": 3},
    ]


@pytest.mark.quick
@pytest.mark.newest
def test_where_lineage_is_off_snapshots_say_nothing(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path)
    world.run(world.stream("a"), "t", "etl")
    assert all(JOB not in (s.properties or {}) for s in world.made("t"))
    assert not (tmp_path / "wh" / "paimon.db").exists()


@pytest.mark.newest
def test_a_sink_outside_of_a_warehouse_works_unrecorded(world: World) -> None:
    path = world.home / f"t{uuid.uuid4().hex}"
    writer = world.stream("a").writeStream.format("paimon").option("checkpointLocation", str(world.home / "chk"))
    query = writer.option("lineage.job", "j").trigger(availableNow=True).start(str(path))
    assert query.awaitTermination(180)
    [snapshot] = paimon_spark.load_table(str(path)).snapshots()
    assert JOB not in (snapshot.properties or {})


@pytest.mark.parametrize("given", ["the branch alone", "all settings of the step"])
def test_an_unchanged_stream_runs_again_on_a_branch_as_the_job_that_it_is(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, given: str
) -> None:
    catalog = paimon_spark.attach(spark, str(tmp_path / "wh"), name="again")
    catalog.create_database("shop")
    catalog.lineage.enable()
    for name in ("events", "orders"):
        catalog.create_table(f"shop.{name}", "id BIGINT")

    def job(checkpoint: str) -> None:
        stream = spark.readStream.table("again.shop.events").writeStream.queryName("events_to_orders")
        stream = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        assert stream.toTable("again.shop.orders").awaitTermination(180)

    def ids(branch: str) -> list[int]:
        return sorted(catalog.table("shop.orders").branch(branch).scan().to_arrow()["id"].to_pylist())

    try:
        for n in range(4):
            catalog.table("shop.events").write(pa.table({"id": [n]}))
            job(str(tmp_path / "checkpoint"))
        fix = catalog.pipeline("shop.events").branch("fix", before=("shop.events", 3))
        catalog.table("shop.events").branch("fix").write(pa.table({"id": [100]}))
        (step,) = fix.replay_plan()
        settings = step.settings if given.startswith("all") else {"spark.paimon.branch": "fix"}
        for key, value in settings.items():
            spark.conf.set(key, value)
        assert step.checkpoint is not None
        job(step.checkpoint)
        for key in settings:
            spark.conf.unset(key)
        assert (ids("fix"), ids("main")) == ([0, 1, 100], [0, 1, 2, 3])
        if settings != step.settings:
            catalog.table("shop.events").branch("fix").write(pa.table({"id": [102]}))
            spark.conf.set("spark.paimon.branch", "fix")
            job(step.checkpoint)  # goes on where it stopped
            other = spark.readStream.table("again.shop.events").writeStream.queryName("copied").format("memory")
            assert other.trigger(availableNow=True).start().awaitTermination(180)
            spark.conf.unset("spark.paimon.branch")
            assert ids("fix") == [0, 1, 100, 102]
            rows = sorted(row.id for row in spark.table("copied").collect())
            assert rows == [0, 1, 100, 102], "no job of the pipeline, so that it starts where streams do"
            return
        fix.publish(if_main_moved="replace")
        catalog.table("shop.events").write(pa.table({"id": [101]}))
        (step,) = catalog.pipeline("shop.events").branch("next", before=("shop.events", 4)).replay_plan()
        assert (step.job, step.start_options["shop.events$branch_next"]["scan.snapshot-id"]) == (
            "events_to_orders",
            "4",
        )
        assert "belongs to" not in caplog.text
    finally:
        for key in ("branch", "*.shop.events.scan.mode", "*.shop.events.scan.snapshot-id"):
            spark.conf.unset(f"spark.paimon.{key}")
        paimon_spark.detach(spark, "again")


def test_a_stream_whose_fault_is_its_own_runs_again_from_main_of_its_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The source is right and has no branch: the stream starts there before the newest snapshot, and goes on."""
    catalog = paimon_spark.attach(spark, str(tmp_path / "wh"), name="own")
    catalog.create_database("shop")
    catalog.lineage.enable()
    for name in ("events", "orders"):
        catalog.create_table(f"shop.{name}", "id BIGINT")

    def job(checkpoint: str, factor: int) -> None:
        stream = spark.readStream.table("own.shop.events").selectExpr(f"id * {factor} AS id").writeStream
        stream = stream.queryName("own_orders").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        assert stream.toTable("own.shop.orders").awaitTermination(180)

    def ids(branch: str) -> list[int]:
        return sorted(catalog.table("shop.orders").branch(branch).scan().to_arrow()["id"].to_pylist())

    try:
        for n in range(1, 5):
            catalog.table("shop.events").write(pa.table({"id": [n]}))
            job(str(tmp_path / "checkpoint"), 1 if n < 3 else -1)
        for number, root in enumerate(("shop.events", "shop.orders")):
            fix = catalog.pipeline(root).branch(f"fix{number}", before=("shop.orders", 3))
            assert fix.tables == {"shop.orders": 2}
            (step,) = fix.replay_plan()
            assert step.start_options == {"shop.events": {"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}}
            assert step.checkpoint is not None
            spark.conf.set("spark.paimon.branch", fix.name)
            job(step.checkpoint, 1)
            assert ids(fix.name) == [1, 2, 3, 4]
            if number:
                catalog.table("shop.events").write(pa.table({"id": [5]}))
                job(step.checkpoint, 1)
                assert ids(fix.name) == [1, 2, 3, 4, 5], "what main gets later arrives, too"
            spark.conf.unset("spark.paimon.branch")
        assert ids("main") == [-4, -3, 1, 2]
    finally:
        spark.conf.unset("spark.paimon.branch")
        paimon_spark.detach(spark, "own")
