"""The numbers of rows that SQL and tables report for Spark jobs, compared with the rows before and after."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from paimon_spark.api.catalog import Catalog
from tests.harness.doors import Door
from tests.harness.keywords import keywords
from tests.harness.marks import slow_except

pytestmark = [pytest.mark.spark, pytest.mark.newest]

TRACKS = {"row-tracking.enabled": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, dict[str, Any]] = {
    "rewrite": {"partition_keys": ["dt"]},
    "buckets": {"options": {"bucket": "2", "bucket-key": "id"}},
    "vectors": {"partition_keys": ["dt"], "options": VECTORS},
    "row_ids": {"partition_keys": ["dt"], "options": TRACKS},
    "evolution": {"partition_keys": ["dt"], "options": {**TRACKS, **VECTORS, "data-evolution.enabled": "true"}},
    "keys": {"primary_keys": ["id", "dt"], "partition_keys": ["dt"], "options": {"bucket": "2"}},
    "dynamic": {"primary_keys": ["id", "dt"], "partition_keys": ["dt"]},
    "cross": {"primary_keys": ["id"], "partition_keys": ["dt"]},
    "keys_vectors": {"primary_keys": ["id"], "options": {"bucket": "1", **VECTORS}},
    "kind_field": {"primary_keys": ["id"], "options": {"bucket": "2", "rowkind.field": "kind"}},
}
KEYED = ("keys", "dynamic", "cross", "keys_vectors", "kind_field")
Rows = dict[int, tuple[Any, ...]]


@pytest.fixture
def catalog(tmp_path: Path, door: Door) -> Catalog:
    made = door.load_catalog(str(tmp_path / "wh"))
    made.create_database("db")
    return made


def rows_of(catalog: Catalog) -> Rows:
    found = [tuple(r.values()) for r in catalog.table("db.t").scan(columns=["id", "dt", "v"]).to_arrow().to_pylist()]
    rows = {r[0]: r[1:] for r in found}
    assert len(rows) == len(found)
    return rows


def changes(before: Rows, after: Rows) -> dict[str, int]:
    updated = sum(before[i] != after[i] for i in before.keys() & after.keys())
    numbers = {"updated": updated, "deleted": len(before.keys() - after), "inserted": len(after.keys() - before)}
    return {"affected": sum(numbers.values()), **numbers}


@pytest.mark.parametrize("kind", slow_except(KINDS, "rewrite", "keys"))
def test_statements_return_the_numbers_of_rows_that_they_change(
    spark: SparkSession, catalog: Catalog, kind: str
) -> None:
    catalog.create_table("db.t", "id BIGINT, dt STRING, v BIGINT, kind STRING", **KINDS[kind])

    def run(statement: str, *named: str, unknown: bool = False) -> None:
        before = rows_of(catalog)
        frame = catalog.sql(statement, session=spark)
        numbers = changes(before, rows_of(catalog))
        assert frame.dtypes == [(f"num_{name}_rows", "bigint") for name in named]
        assert frame.collect() == [tuple(None if unknown else numbers[name] for name in named)]

    source = "SELECT id, concat('p', id % 3) AS dt, id * 2 AS v, '+I' AS kind FROM range({}, {}, 1, 3)"
    run(f"INSERT INTO db.t {source.format(0, 60)}", "affected", "inserted")
    run(f"INSERT INTO db.t {source.format(60, 70)}", "affected", "inserted")
    run(f"INSERT INTO db.t {source.format(0, 0)}", "affected", "inserted")
    run("DELETE FROM db.t WHERE id % 10 = 3 OR id = (SELECT max(id) FROM db.t)", "affected")
    run("UPDATE db.t SET v = v + 1000 WHERE id < 20", "affected")
    run("UPDATE db.t SET v = -1 WHERE id = 12345", "affected")
    run("DELETE FROM db.t WHERE id = 12345", "affected")
    run(
        "MERGE INTO db.t AS t USING (SELECT id, concat('p', id % 3) AS dt FROM range(0, 120, 2, 3)) AS s "
        "ON t.id = s.id AND t.dt = s.dt WHEN MATCHED AND t.id > 40 THEN DELETE WHEN MATCHED THEN UPDATE SET v = -7 "
        "WHEN NOT MATCHED AND s.id > 100 THEN INSERT (id, dt, v, kind) VALUES (s.id, s.dt, 0, '+I') "
        "WHEN NOT MATCHED BY SOURCE AND t.id < 10 THEN DELETE",
        *("affected", "updated", "deleted", "inserted"),
    )
    # Rows of keys may wait for a merge, and nothing but a read would tell how many are left by it.
    unknown = kind in KEYED and kind != "keys_vectors"
    run("DELETE FROM db.t WHERE dt = 'p1'", "affected", unknown=unknown and "partition_keys" in KINDS[kind])
    run("TRUNCATE TABLE db.t", "affected", unknown=unknown)
    run("DELETE FROM db.t", "affected")
    run(f"INSERT INTO db.t {source.format(0, 5)}", "affected", "inserted")
    written = catalog.sql(f"INSERT OVERWRITE db.t {source.format(2, 9)}", session=spark)
    assert written.collect() == [(7, 7)] and len(rows_of(catalog)) == 7
    assert catalog.sql("ALTER TABLE db.t SET TBLPROPERTIES ('owner-team' = 'a')", session=spark).columns == []


@pytest.mark.parametrize("kind", slow_except((k for k in KINDS if k != "kind_field"), "rewrite", "keys"))
def test_results_hold_the_numbers_of_rows(spark: SparkSession, catalog: Catalog, kind: str) -> None:
    table = catalog.create_table("db.t", "id BIGINT, dt STRING, v BIGINT", **KINDS[kind])

    def run(act: Callable[[], Any], unknown: int | None = 0) -> None:
        before = rows_of(catalog)
        result = act()
        numbers = changes(before, rows_of(catalog))
        updated, deleted = numbers["updated"], numbers["deleted"]
        found = result.inserted_rows, result.updated_rows, result.deleted_rows
        assert found == (numbers["inserted"], updated if unknown == 0 else None, deleted)

    def rows(low: int, high: int, tasks: int = 3) -> DataFrame:
        return (
            spark.range(low, high, 1, tasks)
            .withColumn("dt", F.expr("concat('p', id % 3)"))
            .withColumn("v", F.col("id"))
        )

    upserts = None if kind in KEYED else 0
    run(lambda: table.write(rows(0, 40)), upserts)
    run(lambda: table.write(rows(40, 50, 1).toArrow()), upserts)
    run(lambda: table.write(rows(0, 0)))
    run(lambda: table.delete("v % 7 = 2"))
    run(lambda: table.update("id > 25", {"v": "v * 3 + 1"}))
    run(
        lambda: table.merge(
            rows(30, 60),
            "t.id = s.id AND t.dt = s.dt",
            when_matched_delete="s.id = 31",
            when_matched_update={"v": "s.v + 100"},
            when_not_matched_insert="*",
            when_not_matched_condition="s.id > 50",
            when_not_matched_by_source_delete="t.id = 1",
        )
    )
    snapshots = len(table.snapshots())
    result = table.merge(rows(0, 5), "t.id = s.id", when_matched_update={"v": "s.v"}, when_matched_condition="false")
    assert str(result) == "nothing to write" and len(table.snapshots()) == snapshots


@pytest.mark.quick
def test_rows_that_replace_others_count_as_written(spark: SparkSession, catalog: Catalog) -> None:
    kinds: list[tuple[str, dict[str, Any]]] = [("upserts", {}), ("moves", {"partition_keys": ["dt"]})]
    for name, options in kinds:
        catalog.create_table(f"db.{name}", "id INT, dt STRING", primary_keys=["id"], **options)
        catalog.sql(f"INSERT INTO db.{name} VALUES (1, 'a'), (2, 'a'), (3, 'a')", session=spark)
        made = catalog.sql(f"INSERT INTO db.{name} VALUES (2, 'b'), (3, 'b'), (4, 'b')", session=spark)
        assert made.collect() == [(3, 3)]
        assert catalog.table(f"db.{name}").scan().to_arrow().num_rows == 4


def test_a_changelog_leaves_the_affected_rows_unknown(spark: SparkSession, catalog: Catalog) -> None:
    options: dict[str, Any] = {"bucket": "1", "rowkind.field": "kind"}
    catalog.create_table("db.t", "id BIGINT, kind STRING", primary_keys=["id"], options=options)
    made = catalog.sql("INSERT INTO db.t VALUES (1, '+I'), (2, '+U'), (3, '-D')", session=spark)
    assert made.collect() == [(None, 2)]


def test_writes_of_others_are_not_counted(spark: SparkSession, catalog: Catalog, monkeypatch: Any) -> None:
    """Also those of the same commit user, between the start of the job and the look at its snapshot."""
    from paimon_spark.spark import dataframe_write

    table = catalog.create_table("db.t", "id BIGINT")
    save = dataframe_write._save

    def beside(*args: Any) -> None:
        table.write(spark.range(2).toArrow(), **keywords({"commit.user": "same"}))
        save(*args)
        table.write(spark.range(5).toArrow(), **keywords({"commit.user": "same"}))

    monkeypatch.setattr(dataframe_write, "_save", beside)
    assert table.write(spark.range(3), **keywords({"commit.user": "same"})).inserted_rows == 3
    nothing = table.write(spark.range(0), **keywords({"commit.user": "same"}))
    assert nothing.inserted_rows == 0
    monkeypatch.setattr(dataframe_write, "_later", lambda handle, after: table.snapshots()[-1:])  # others expired
    assert table.write(spark.range(3)).inserted_rows is None


def test_df_write_leaves_no_numbers_in_the_snapshot(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("db.t", "id BIGINT")
    spark.range(3).write.format("paimon").mode("append").save(table.location)
    table.write(spark.range(3))
    assert ["row-counts" in json.dumps(s.properties) for s in table.snapshots()] == [False, True]
