"""Batch jobs of Spark that name their job, and foreachBatch, which need not: what is recorded of their writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.lineage.index.provenance import TableRef, decode_provenance
from tests.harness.recorded import came_from, head, recording_catalog, rows, said, sinks, sources, switch

pytestmark = [pytest.mark.spark, pytest.mark.newest]

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
JOB = {"lineage.job": "j"}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A warehouse that records, with rows in the tables a and b of the database db, and none in x and y."""
    catalog = recording_catalog(tmp_path / "wh", "abxy", ROWS.schema)
    for name in "aab":
        catalog.table(f"db.{name}").write(ROWS)
    return catalog


def load(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    return spark.read.format("paimon").options(**options).load(table.handle.location)


def save(df: DataFrame, table: Table | str, mode: str = "append", **options: str) -> None:
    path = table if isinstance(table, str) else table.handle.location
    df.write.format("paimon").mode(mode).options(**options).save(path)


@pytest.mark.quick
def test_a_job_that_joins_two_tables_has_both_as_sources(spark: SparkSession, catalog: Catalog) -> None:
    a, b, x = (catalog.table(f"db.{n}") for n in "abx")
    joined = load(spark, a, **JOB).join(load(spark, b, **JOB).select("id"), "id")
    save(joined, x, **JOB)
    assert came_from(x) == {"db.a": 2, "db.b": 1} and said(x).knows_sources and said(x).query_id is None
    assert head(x).commit_identifier == said(x).barrier == 0
    assert sources(catalog) == [("j", 0, "a", 2), ("j", 0, "b", 1)]
    assert sinks(catalog) == [("j", 0, "x", 1)]
    assert rows(catalog, "source_job_lineage") == [("j", "a"), ("j", "b")]


@pytest.mark.quick
def test_table_write_and_scan_to_spark_are_recorded(spark: SparkSession, catalog: Catalog) -> None:
    x = catalog.table("db.x", **JOB)
    x.write(catalog.table("db.a", **JOB).scan(version="1").to_spark(spark))
    assert came_from(x) == {"db.a": 1} and sinks(catalog) == [("j", 0, "x", 1)]


def test_a_cached_dataframe_written_twice_has_its_sources_twice(spark: SparkSession, catalog: Catalog) -> None:
    a, x, y = (catalog.table(f"db.{n}") for n in "axy")
    cached = load(spark, a, **JOB).cache()
    try:
        save(cached, x, **JOB)
        save(cached, y, "overwrite", **JOB)
    finally:
        cached.unpersist()
    assert sinks(catalog) == [("j", 0, "x", 1), ("j", 1, "y", 1)]
    assert sources(catalog) == [("j", 0, "a", 2), ("j", 1, "a", 2)]


def test_a_write_that_makes_its_table_is_recorded(spark: SparkSession, catalog: Catalog) -> None:
    path = catalog.table("db.x").handle.location.removesuffix("/x") + "/made"
    save(load(spark, catalog.table("db.a"), **JOB), path, **JOB, **{"primary-key": "id", "bucket": "1"})
    made = catalog.table("db.made")
    assert came_from(made) == {"db.a": 2} and sinks(catalog) == [("j", 0, "made", 1)]
    assert not [k for k in made.handle.schema.options if k.startswith("lineage")]


def test_a_write_without_rows_records_what_was_read(spark: SparkSession, catalog: Catalog) -> None:
    save(load(spark, catalog.table("db.a"), **JOB).where("id > 100"), catalog.table("db.x"), **JOB)
    assert sources(catalog) == [("j", 0, "a", 2)] and sinks(catalog) == []
    assert catalog.table("db.x").snapshots() == []


def test_a_job_named_by_its_write_alone_has_unknown_sources(spark: SparkSession, catalog: Catalog) -> None:
    x = catalog.table("db.x")
    save(load(spark, catalog.table("db.a")), x, **JOB)
    assert said(x).knows_sources is False and said(x).sources == () and sinks(catalog) == [("j", 0, "x", 1)]


def test_writes_without_a_job_are_not_recorded(spark: SparkSession, catalog: Catalog) -> None:
    x = catalog.table("db.x")
    save(load(spark, catalog.table("db.a"), **JOB), x)
    assert decode_provenance(head(x).properties) is None and sinks(catalog) == []


def test_a_job_writes_where_nothing_is_recorded(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    other = paimon_spark.load_catalog(str(tmp_path / "other"))
    other.create_database("db")
    there = other.create_table("db.t", ROWS.schema)
    found = load(spark, catalog.table("db.a"), **JOB)
    save(found, there, **JOB)
    save(found, str(tmp_path / "alone"), **JOB)
    for table in (there, paimon_spark.load_table(str(tmp_path / "alone"))):
        assert decode_provenance(head(table).properties) is None and table.scan().to_arrow().num_rows == 4
    assert not (tmp_path / "other" / "paimon.db").exists()


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["append", "keys"])
def test_row_level_commands_are_recorded_as_writes(spark: SparkSession, catalog: Catalog, keys: list[str]) -> None:
    options = {"bucket": "1"} if keys else {}
    catalog.create_table("db.t", ROWS.schema, primary_keys=keys, options=options).write(ROWS)
    t = catalog.table("db.t", **JOB)
    t.merge(
        load(spark, catalog.table("db.b"), **JOB).where("id = 1"),
        "t.id = s.id",
        when_matched_update={"v": "concat(s.v, '!')"},
    )
    assert came_from(t) == {"db.b": 1} and said(t).barrier == 0
    t.update("id = 2", {"v": "'c'"})
    t.delete("id = 1")
    assert sinks(catalog) == [("j", 0, "t", 2), ("j", 1, "t", 3), ("j", 2, "t", 4)]
    assert [b for _, b, name, _ in sources(catalog) if name == "b"] == [0, 1, 2]
    assert t.scan().to_arrow().to_pylist() == [{"id": 2, "v": "c"}]


def each_batch(
    spark: SparkSession, source: Table, checkpoint: Path, write: Callable[[DataFrame, int], None], **options: str
) -> str:
    """Run what a stream of a table finds through foreachBatch; the id of the query."""
    stream = spark.readStream.format("paimon").options(**options).load(source.handle.location)
    query = (
        stream.writeStream.foreachBatch(write)
        .queryName("both")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(180), "the query does not end"
    finally:
        query.stop()
    return str(query.id)


def test_foreach_batch_records_its_query_without_options(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    a, x, y = (catalog.table(f"db.{n}") for n in "axy")

    def write(df: DataFrame, batch_id: int) -> None:
        save(df, x)
        save(df.where("id = 1"), y, "overwrite")

    aligned = {"read.stream.aligned": "true"}
    query = each_batch(spark, a, tmp_path / "c", write, **aligned)
    a.write(ROWS)
    assert each_batch(spark, a, tmp_path / "c", write, **aligned) == query
    written = {s.id: decode_provenance(s.properties) for s in x.snapshots()}
    batches = {p.barrier: p for p in written.values() if p is not None}
    assert len(batches) == len(written) >= 2
    assert {p.job for p in batches.values()} == {"both"} and {p.query_id for p in batches.values()} == {query}
    assert {s.ref for p in batches.values() for s in p.sources} == {TableRef("db", "a")}
    assert said(x).sources[0].last == 3 and said(x) == said(y)
    catalog.lineage.sync()
    by_batch = {b: s for _, b, name, s in sinks(catalog) if name == "x"}
    assert by_batch == {p.barrier: i for i, p in written.items() if p is not None}
    assert {b for _, b, name, _ in sinks(catalog) if name == "y"} == set(by_batch)
    assert {(j, b): s for j, b, name, s in sources(catalog) if name == "a"} == {
        ("both", b): p.sources[0].last for b, p in batches.items()
    }


def test_a_micro_batch_that_comes_again_has_one_row_of_the_later_snapshot(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    a, x, y = (catalog.table(f"db.{n}") for n in "axy")
    failing = [True]

    def write(df: DataFrame, batch_id: int) -> None:
        save(df, x)
        if failing[0]:
            raise RuntimeError("died between two sinks")
        save(df, y)

    with pytest.raises(Exception, match="died between two sinks"):
        each_batch(spark, a, tmp_path / "c", write)
    first = said(x)
    failing[0] = False
    each_batch(spark, a, tmp_path / "c", write)
    assert head(x).id == 2 and said(x) == first == said(y)
    catalog.lineage.sync()
    assert sinks(catalog) == [("both", 0, "x", 2), ("both", 0, "y", 1)]
    assert sources(catalog) == [("both", 0, "a", 2)]


def test_a_query_with_a_new_checkpoint_is_another_job(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    a, x = catalog.table("db.a"), catalog.table("db.x")
    each_batch(spark, a, tmp_path / "c", lambda df, _: save(df, x))
    second = each_batch(spark, a, tmp_path / "d", lambda df, _: save(df, x))
    assert said(x).job == f"both@{second[:8]}" and said(x).barrier == 0
    catalog.lineage.sync()
    assert sinks(catalog) == [("both", 0, "x", 1), (f"both@{second[:8]}", 0, "x", 2)]


def test_foreach_batch_where_lineage_is_off_is_as_before(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    other = paimon_spark.load_catalog(str(tmp_path / "other"))
    other.create_database("db")
    there = other.create_table("db.t", ROWS.schema)
    each_batch(spark, catalog.table("db.a"), tmp_path / "c", lambda df, _: save(df, there))
    assert head(there).properties is None and not (tmp_path / "other" / "paimon.db").exists()


def test_where_tables_alone_are_recorded_snapshots_are_not(spark: SparkSession, catalog: Catalog) -> None:
    switch(catalog, data=False)
    x = catalog.table("db.x")
    save(load(spark, catalog.table("db.a"), **JOB), x, **JOB)
    assert decode_provenance(head(x).properties) is None
    assert sinks(catalog) == [] and rows(catalog, "sink_job_lineage") == [("j", "x")]


def test_statements_of_one_application_are_jobs_of_their_own(spark: SparkSession, catalog: Catalog) -> None:
    def run(statement: str, args: dict[str, object] | None = None, of: Catalog = catalog) -> None:
        of.sql(statement, args=args, session=spark)

    run("INSERT INTO db.a VALUES (7, 'c')")
    for day in ("a", "b"):
        run("INSERT INTO db.x SELECT * FROM db.a WHERE v = :day", {"day": day})
    run("INSERT INTO db.y VALUES (7, 'z')")
    run("CREATE TABLE db.c AS SELECT * FROM db.b")
    run("CREATE OR REPLACE TABLE db.c AS SELECT id FROM db.a WHERE id > 1")
    run("CREATE TABLE db.e AS SELECT 1 AS id")
    lineage = catalog.lineage
    assert [t.node.name for t in lineage.impact("db.a", snapshot=3).tables] == ["db.c", "db.x"]
    assert [t.node.name for t in lineage.downstream("db.b").tables] == ["db.c"]
    assert [t.node.name for t in lineage.upstream("db.c").tables] == ["db.a", "db.b"]
    assert came_from(catalog.table("db.c")) == {"db.a": 3}
    assert lineage.upstream("db.y").tables == lineage.upstream("db.e").tables == ()
    assert said(catalog.table("db.e")).knows_sources
    days = [decode_provenance(s.properties) for s in catalog.table("db.x").snapshots()]
    assert len({p.job for p in days if p}) == 1 and [p.barrier for p in days if p] == [0, 1]

    # One job by the user's will: each of its statements still says what it read itself.
    named = paimon_spark.load_catalog(catalog.warehouse, **{"lineage.job": "nightly"})
    run("CREATE TABLE db.f AS SELECT * FROM db.x", of=named)
    run("INSERT INTO db.y VALUES (8, 'z')", of=named)
    spark.conf.set("spark.paimon.lineage.job", "of the session")
    try:
        run("CREATE TABLE db.g AS SELECT * FROM db.f", of=named)
    finally:
        spark.conf.unset("spark.paimon.lineage.job")
    assert [said(catalog.table(f"db.{n}")).job for n in "fyg"] == ["nightly", "nightly", "of the session"]
    assert [t.node.name for t in lineage.downstream("db.x").tables] == ["db.f", "db.g"]
    assert lineage.upstream("db.y").tables == () and said(catalog.table("db.y")).barrier == 1
    assert [t.node.name for t in lineage.downstream(job="nightly").tables][:2] == ["db.f", "db.y"]


def test_a_statement_that_reads_a_temporary_view_says_that_not_all_its_sources_are_known(
    spark: SparkSession, catalog: Catalog
) -> None:
    catalog.sql("CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT * FROM db.a", session=spark)
    try:
        catalog.sql("INSERT INTO db.x SELECT s.* FROM seen s JOIN db.b ON s.id = b.id", session=spark)
    finally:
        spark.catalog.dropTempView("seen")
    assert came_from(catalog.table("db.x")) == {"db.b": 1} and not said(catalog.table("db.x")).knows_sources


def test_statements_that_read_no_table_say_so_and_warn_of_nothing(
    spark: SparkSession, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    paimon_spark.attach(spark, catalog.warehouse, name="recorded")
    try:
        spark.sql("INSERT INTO recorded.db.x SELECT id, 'r' FROM range(3)")
        catalog.sql("INSERT INTO db.y SELECT id, 'r' FROM range(3)", session=spark)
        catalog.sql("CREATE TABLE db.made AS SELECT id FROM range(3)", session=spark)
        spark.sql("INSERT INTO recorded.db.b WITH w AS (SELECT 7 AS id) SELECT id, 'w' FROM w")
        assert all(said(catalog.table(f"db.{n}")).knows_sources for n in ("x", "y", "made", "b"))
        assert not [r for r in caplog.records if "sources" in r.getMessage()]
        called = spark.sql("CALL recorded.sys.declare_lineage_source('db.x')").collect()
        assert [tuple(row) for row in called] == [("db.x",)] and catalog.lineage.declared_sources() == ["db.x"]
        assert spark.sql("CALL recorded.sys.retract_lineage_source(table => 'db.x')").collect() == []
    finally:
        paimon_spark.detach(spark, "recorded")


@pytest.mark.quick
def test_statements_of_plain_spark_sql_record_what_they_read(spark: SparkSession, catalog: Catalog) -> None:
    paimon_spark.attach(spark, catalog.warehouse, name="recorded")
    try:
        spark.sql("INSERT INTO recorded.db.a VALUES (7, 'c')")
        spark.sql("INSERT INTO recorded.db.x SELECT * FROM recorded.db.a VERSION AS OF 2")
        spark.sql(
            "MERGE INTO recorded.db.y t USING (SELECT a.* FROM recorded.db.a JOIN recorded.db.b ON a.id = b.id) s "
            "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        )
        spark.conf.set("spark.paimon.lineage.job", "of the session")
        spark.sql("INSERT OVERWRITE recorded.db.b SELECT * FROM recorded.db.x")
    finally:
        spark.conf.unset("spark.paimon.lineage.job")
        paimon_spark.detach(spark, "recorded")
    assert came_from(catalog.table("db.x")) == {"db.a": 2}
    assert came_from(catalog.table("db.y")) == {"db.a": 3, "db.b": 1}
    assert came_from(catalog.table("db.b")) == {"db.x": 1}
    assert all(said(catalog.table(f"db.{n}")).knows_sources for n in "xyb")
    assert said(catalog.table("db.b")).job == "of the session"
    assert catalog.lineage.upstream("db.a").tables == () and said(catalog.table("db.a")).knows_sources
