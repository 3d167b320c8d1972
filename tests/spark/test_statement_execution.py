"""Statements on attached catalogs run when Spark executes them, each once: not when Spark parses or explains them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog

NAME = "executed"
TABLE = f"{NAME}.db.t"
pytestmark = pytest.mark.oldest

WRITES = [
    f"ALTER TABLE {TABLE} CREATE TAG made",
    f"ALTER TABLE {TABLE} CREATE BRANCH made",
    f"INSERT INTO {TABLE} VALUES (7, 'g', 'x')",
    f"WITH s AS (SELECT 8 AS id, 'h' AS v, 'x' AS dt) INSERT INTO {TABLE} SELECT * FROM s",
    f"DELETE FROM {TABLE} WHERE id = 1",
    f"UPDATE {TABLE} SET v = 'z' WHERE id = 2",
    f"MERGE INTO {TABLE} t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    f"CALL {NAME}.sys.create_tag(table => 'db.t', tag => concat('m', 'ade2'))",
    f"ALTER TABLE {TABLE} DROP PARTITION (dt = 'x')",
    f"TRUNCATE TABLE {TABLE}",
    f"CREATE TABLE {NAME}.db.made LIKE {TABLE}",
]
COUNTS = {
    "INSERT": ["num_affected_rows", "num_inserted_rows"],
    "WITH": ["num_affected_rows", "num_inserted_rows"],
    "DELETE": ["num_affected_rows"],
    "UPDATE": ["num_affected_rows"],
    "MERGE": ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"],
    "TRUNCATE": ["num_affected_rows"],
    "ALTER": [],
    "CREATE": [],
}


@dataclass(frozen=True)
class Warehouse:
    """A session with an attached catalog that has the table db.t, and the catalog itself."""

    spark: SparkSession
    catalog: Catalog
    home: Path

    def files(self) -> list[str]:
        """All files of the warehouse."""
        return sorted(str(p.relative_to(self.home)) for p in self.home.rglob("*") if p.is_file())

    def snapshots(self) -> int:
        return len(self.catalog.table("db.t").snapshots())

    def ids(self) -> list[int]:
        return sorted(row.id for row in self.spark.table(TABLE).collect())

    def plan(self, sql: str) -> Any:
        return self.spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Iterator[Warehouse]:
    catalog = paimon_spark.attach(spark, str(tmp_path / "wh"), name=NAME)
    spark.sql(f"CREATE DATABASE {NAME}.db")
    spark.sql(f"CREATE TABLE {TABLE} (id INT, v STRING, dt STRING) PARTITIONED BY (dt)")
    spark.sql(f"INSERT INTO {TABLE} VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    spark.sql(f"INSERT INTO {TABLE} VALUES (3, 'c', 'y')")
    yield Warehouse(spark, catalog, tmp_path / "wh")
    paimon_spark.detach(spark, NAME)


def test_parsing_and_explaining_statements_writes_nothing(warehouse: Warehouse) -> None:
    before = warehouse.files()
    for sql in WRITES:
        warehouse.plan(sql).toString()
        assert warehouse.files() == before, sql
        with suppress(PySparkException):  # Spark explains some statements only
            warehouse.spark.sql(f"EXPLAIN {sql}").collect()
        assert warehouse.files() == before, sql


def test_each_statement_runs_once(warehouse: Warehouse) -> None:
    for sql in WRITES:
        before, count = warehouse.files(), warehouse.snapshots()
        shown = warehouse.spark.sql(sql)
        after = warehouse.files()
        assert after != before, sql
        assert warehouse.snapshots() <= count + 1, sql
        shown.collect()
        shown.show()
        assert warehouse.files() == after, sql
        assert shown.columns == COUNTS.get(sql.split()[0], shown.columns), sql


def test_a_plan_runs_when_spark_executes_it_and_knows_its_columns_before(warehouse: Warehouse) -> None:
    plan = warehouse.plan(f"DELETE FROM {TABLE} WHERE id = 1")
    assert [plan.output().apply(i).name() for i in range(plan.output().size())] == ["num_affected_rows"]
    assert warehouse.ids() == [1, 2, 3]
    jvm: Any = warehouse.spark._jvm
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(warehouse.spark._jsparkSession, plan)
    assert [row.getLong(0) for row in rows.collect()] == [1]
    assert warehouse.ids() == [2, 3]


def test_a_statement_runs_once_in_another_thread_and_in_a_micro_batch(warehouse: Warehouse, tmp_path: Path) -> None:
    spark, count = warehouse.spark, warehouse.snapshots()
    thread = threading.Thread(target=lambda: spark.sql(f"INSERT INTO {TABLE} VALUES (4, 'd', 'x')").collect())
    thread.start()
    thread.join()
    assert warehouse.snapshots() == count + 1
    spark.range(5, 7).selectExpr("int(id) AS id").write.parquet(str(tmp_path / "in"))

    def write(rows: Any, _: int) -> None:
        rows.createOrReplaceTempView("batch")
        rows.sparkSession.sql(f"INSERT INTO {TABLE} SELECT id, 'm', 'z' FROM batch")

    stream = spark.readStream.schema("id INT").parquet(str(tmp_path / "in"))
    query = stream.writeStream.foreachBatch(write).trigger(availableNow=True).option(
        "checkpointLocation", str(tmp_path / "check")
    ).start()  # fmt: skip
    query.awaitTermination()
    assert warehouse.ids() == [1, 2, 3, 4, 5, 6]
    assert warehouse.snapshots() == count + 2


def test_a_missing_table_is_reported_as_by_spark(warehouse: Warehouse) -> None:
    for sql in ("INSERT INTO {} VALUES (1, 'a', 'x')", "DELETE FROM {}", "UPDATE {} SET v = 'a'"):
        with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND.*missing"):
            warehouse.spark.sql(sql.format(f"{NAME}.db.missing"))


def test_a_wrong_statement_is_refused_when_it_is_parsed_or_run_and_writes_nothing(warehouse: Warehouse) -> None:
    before = warehouse.files()
    for sql, text in (
        (f"INSERT INTO {TABLE} VALUES (1)", "columns"),
        (f"UPDATE {TABLE} SET missing = 1", "missing"),
        (f"CALL {NAME}.sys.create_tag('db.t', 'a', 1, 2, 3, 4)", "takes at most"),
        (f"CALL {NAME}.sys.none('db.t')", "there is no procedure"),
        (f"OPTIMIZE {TABLE}", "compact"),
    ):
        with pytest.raises(PySparkException) as raised:
            warehouse.spark.sql(sql)
        assert text in str(raised.value)
        assert len(str(raised.value).strip().splitlines()) == 1
    assert warehouse.files() == before


def test_a_script_runs_statements_with_its_variables(warehouse: Warehouse) -> None:
    spark = warehouse.spark
    script = f"""BEGIN
        DECLARE x INT DEFAULT 3;
        DECLARE name STRING DEFAULT 'made';
        CREATE TABLE {NAME}.db.s (id INT, v STRING);
        INSERT INTO {NAME}.db.s SELECT id, v FROM {TABLE};
        DELETE FROM {NAME}.db.s WHERE id = 1;
        UPDATE {NAME}.db.s SET v = 'new' WHERE id = x;
        MERGE INTO {NAME}.db.s t USING (SELECT x + 1 AS id) s ON t.id = s.id
            WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);
        CALL {NAME}.sys.create_tag('db.s', name);
        FOR row AS SELECT id FROM {TABLE} WHERE id > 2 DO
            INSERT INTO {NAME}.db.s VALUES (row.id * 10, 'for');
        END FOR;
        IF x > 5 THEN TRUNCATE TABLE {NAME}.db.s; ELSE INSERT INTO {NAME}.db.s VALUES (50, 'else'); END IF;
        SELECT * FROM {NAME}.db.s ORDER BY id;
    END"""
    before = warehouse.files()
    warehouse.plan(script)
    assert warehouse.files() == before
    shown = spark.sql(script)
    expected = [(2, "b"), (3, "new"), (4, None), (30, "for"), (50, "else")]
    assert [tuple(row) for row in shown.collect()] == expected
    table = warehouse.catalog.table("db.s")
    assert [tag.name for tag in table.tags()] == ["made"]
    assert len(table.snapshots()) == 6
    spark.sql(f"BEGIN DELETE FROM {NAME}.db.s WHERE id = :id; END", args={"id": 50})
    assert [tuple(row) for row in spark.table(f"{NAME}.db.s").orderBy("id").collect()] == expected[:-1]


def test_a_script_handles_errors_and_refuses_what_the_grammar_of_spark_lacks(warehouse: Warehouse) -> None:
    spark = warehouse.spark
    spark.sql(
        f"BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DELETE FROM {TABLE} WHERE id = 1; END; "
        f"UPDATE {NAME}.db.missing SET v = 'a'; END"
    )
    assert warehouse.ids() == [2, 3]
    with pytest.raises(PySparkException, match="a script, BEGIN … END, cannot hold this statement"):
        spark.sql(f"BEGIN DELETE FROM {TABLE}; ALTER TABLE {TABLE} CREATE TAG made; END")
    assert warehouse.ids() == [2, 3]
