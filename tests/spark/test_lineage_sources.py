"""Reads of Paimon tables by Spark are recorded at the tables, whatever the rows are written to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.lineage.index.table_index import TableIndex, open_index
from paimon_spark.lineage.index.tables import (
    SINK_SNAPSHOT,
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    Definition,
    enable,
    forget_settings,
)
from paimon_spark.lineage.index.warehouse import find_warehouse_table
from paimon_spark.lineage.recording import read_recording as left_notes
from paimon_spark.lineage.recording.maintenance import sync
from paimon_spark.lineage.recording.read_notes import all_stream_queries, batch_notes, stream_notes
from paimon_spark.metadata.retry import now_ms
from tests.harness.real_tables import put

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.streaming]

ALL = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
Start = Callable[[DataFrame, Path], StreamingQuery]


def make(home: Path, name: str = "db.t", *, on: bool = True) -> Table:
    catalog = paimon_spark.load_catalog(str(home))
    catalog.create_database("db", ignore_if_exists=True)
    table = catalog.create_table(name, "k BIGINT")
    if on:
        enable(index_of(table))
        forget_settings(index_of(table).warehouse)
    return table


def index_of(table: Table) -> TableIndex:
    home = find_warehouse_table(table.handle)
    assert home is not None
    return open_index(home.warehouse)


def rows(table: Table, of: Definition = SOURCE_SNAPSHOT) -> list[tuple[Any, ...]]:
    found = index_of(table).read(of)
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True))


def stream(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    return spark.readStream.format("paimon").options(**ALL, **options).load(table.location)


def settle(index: TableIndex) -> None:
    """As `sync` does eleven minutes later, when a batch that none has followed counts as over: Spark may not say so."""
    with mock.patch.object(left_notes, "now_ms", return_value=now_ms() + 11 * 60_000):
        sync(index)


def end(query: StreamingQuery) -> str:
    """Wait for a query that stops by itself; its id."""
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    return str(query.id)


def to_noop(df: DataFrame, home: Path) -> StreamingQuery:
    return _writer(df, home).format("noop").start()


def to_parquet(df: DataFrame, home: Path) -> StreamingQuery:
    return _writer(df, home).format("parquet").option("path", str(home / "out")).start()


def to_function(df: DataFrame, home: Path) -> StreamingQuery:
    def twice(batch: DataFrame, _: int) -> None:
        assert batch.collect() == batch.collect()

    return _writer(df, home).foreachBatch(twice).start()


def _writer(df: DataFrame, home: Path, name: str = "a job/1") -> DataStreamWriter:
    checkpoint = str(home / f"checkpoint of {name.replace('/', '-')}")
    return df.writeStream.queryName(name).option("checkpointLocation", checkpoint).trigger(availableNow=True)


NEWEST = pytest.mark.newest


@pytest.mark.parametrize(
    "start", [pytest.param(to_noop, marks=NEWEST), pytest.param(to_parquet, marks=NEWEST), to_function]
)
def test_batches_to_a_sink_that_is_no_paimon_table_are_recorded(
    spark: SparkSession, tmp_path: Path, start: Start
) -> None:
    table = make(tmp_path)
    for k in range(3):
        put(table, k)
        query_id = end(start(stream(spark, table), tmp_path))
    settle(index_of(table))
    assert rows(table) == [("a job/1", b, "db", "t", b + 1) for b in range(3)]
    assert rows(table, SOURCE_JOB) == [("a job/1", "db", "t")]
    settle(index_of(table))  # where Spark never said that batches are over, notes go once their rows were seen
    notes = stream_notes(index_of(table).warehouse, query_id)
    assert [n.batch_id for n in notes] == [2]
    assert notes[0].task.query_name == "a job/1"


@pytest.mark.newest  # PySpark 4.1 does not say that a query is about to end
def test_a_query_that_ends_has_written_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    for k in range(3):
        put(table, k)
    end(to_noop(stream(spark, table, **{"read.stream.maxFilesPerTrigger": "1"}), tmp_path))
    assert rows(table) == [("a job/1", b, "db", "t", b + 1) for b in range(3)]


def test_two_sources_are_both_recorded_and_one_that_is_idle_keeps_its_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, other = make(tmp_path), make(tmp_path, "db.u")
    put(one, 1)
    put(other, 2)
    put(other, 3)
    both = stream(spark, one).union(stream(spark, other))
    end(to_noop(both, tmp_path))
    put(one, 4)
    query_id = end(to_noop(both, tmp_path))
    settle(index_of(one))
    assert rows(one) == [("a job/1", 0, "db", "t", 1), ("a job/1", 0, "db", "u", 2), ("a job/1", 1, "db", "t", 2)]
    newest = {n.ref.table: n.batch_id for n in stream_notes(index_of(one).warehouse, query_id)}
    assert newest == {"t": 1, "u": 0}


def test_a_batch_that_fails_and_runs_again_has_one_row(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1)

    def fail(batch: DataFrame, _: int) -> None:
        batch.collect()
        raise RuntimeError("the sink fails")

    with pytest.raises(StreamingQueryException):
        end(_writer(stream(spark, table), tmp_path).foreachBatch(fail).start())
    put(table, 2)
    for _ in range(2):  # PySpark 4.1 runs the batch that failed, and ends
        end(to_function(stream(spark, table), tmp_path))
    settle(index_of(table))
    assert rows(table) == [("a job/1", 0, "db", "t", 1), ("a job/1", 1, "db", "t", 2)]


@pytest.mark.newest
def test_the_read_may_name_the_job_and_a_second_query_of_the_name_has_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path)
    put(table, 1)
    named = stream(spark, table, **{"lineage.job": "mine"})
    end(_writer(named, tmp_path, "x").format("noop").start())
    query_id = end(_writer(named, tmp_path, "y").format("noop").start())
    settle(index_of(table))
    assert [r[0] for r in rows(table)] == ["mine", f"mine@{query_id[:8]}"]


@pytest.mark.newest
def test_snapshots_without_rows_for_the_query_are_recorded_too(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, 1)
    end(to_noop(stream(spark, table, where="k > 100"), tmp_path))
    settle(index_of(table))
    assert rows(table) == [("a job/1", 0, "db", "t", 1)]


@pytest.mark.newest
def test_notes_that_cannot_be_written_change_nothing_for_the_query(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    own = tmp_path / "paimon.db" / "_lineage"
    own.mkdir(exist_ok=True)
    (own / "notes").write_text("no directory")
    for k in range(2):
        put(table, k)
        end(to_parquet(stream(spark, table), tmp_path))
    assert sorted(r.k for r in spark.read.parquet(str(tmp_path / "out")).collect()) == [0, 1]
    assert rows(table) == []


@pytest.mark.newest
def test_with_a_sink_in_another_warehouse_the_join_of_both_gives_the_pairs(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = make(tmp_path / "one"), make(tmp_path / "two")
    for k in range(3):
        put(source, k)
        writer = _writer(stream(spark, source), tmp_path, "copy")
        end(writer.format("paimon").start(sink.location))
    settle(index_of(source))
    settle(index_of(sink))
    assert rows(source, SINK_SNAPSHOT) == []
    assert rows(sink, SOURCE_SNAPSHOT) == []
    view = {"s": (source, SOURCE_SNAPSHOT), "k": (sink, SINK_SNAPSHOT)}
    for name, (table, of) in view.items():
        lineage = f"{table.location.rpartition('/db.db/')[0]}/paimon.db/{of.name}"
        spark.read.format("paimon").load(lineage).createOrReplaceTempView(name)
    pairs = spark.sql(
        "SELECT s.snapshot_id, k.snapshot_id FROM k JOIN s ON s.job = k.job AND s.barrier_id = k.barrier_id "
        "WHERE s.job = 'copy'"
    ).collect()
    for name in view:
        spark.catalog.dropTempView(name)
    assert sorted(map(tuple, pairs)) == [(1, 1), (2, 2), (3, 3)]


def test_a_sink_of_the_same_warehouse_records_alone(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = make(tmp_path), make(tmp_path, "db.sink")
    for k in range(2):
        put(source, k)
        end(_writer(stream(spark, source), tmp_path, "copy").format("paimon").start(sink.location))
    settle(index_of(source))
    assert rows(source) == [("copy", 0, "db", "t", 1), ("copy", 1, "db", "t", 2)]
    assert rows(source, SINK_SNAPSHOT) == [("copy", 0, "db", "sink", 1), ("copy", 1, "db", "sink", 2)]
    warehouse = index_of(source).warehouse
    assert all(n.batch_id == 1 for q in all_stream_queries(warehouse) for n in stream_notes(warehouse, q))


@pytest.mark.newest
def test_where_lineage_is_off_nothing_is_made(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, on=False)
    put(table, 1)
    end(to_noop(stream(spark, table), tmp_path))
    assert spark.read.format("paimon").option("lineage.job", "j").load(table.location).count() == 1
    assert not (tmp_path / "paimon.db").exists()


def test_batch_reads_that_name_their_job_are_noted_by_a_task(spark: SparkSession, tmp_path: Path) -> None:
    table, empty = make(tmp_path), make(tmp_path, "db.e")
    put(table, 1)
    put(table, 2)

    def read(of: Table, **options: str) -> DataFrame:
        return spark.read.format("paimon").option("lineage.job", "j").options(**options).load(of.location)

    assert sorted(r.k for r in read(table).collect()) == [1, 2]
    assert read(table, **{"scan.snapshot-id": "1"}).count() == 1
    assert read(empty).count() == 0
    spark.read.format("paimon").load(table.location).collect()
    notes = batch_notes(index_of(table).warehouse, "j")
    assert [(n.ref.table, n.last) for n in notes] == [("t", 2), ("t", 1), ("e", None)]
    assert {n.task.app_id for n in notes} == {spark.sparkContext.applicationId}
    assert {n.task.query_id for n in notes} == {None}
