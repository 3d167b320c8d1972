"""Recorded statements that would do something else than to write their table again are refused before any runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import PaimonError
from paimon_spark.lineage.index.provenance import STATEMENT, StatementRecord
from paimon_spark.sql.execute import check_again
from tests.harness.command_line import CommandLine
from tests.harness.doors import Door

pytestmark = pytest.mark.spark

SAFE = (
    "INSERT INTO daily SELECT day, n FROM raw",
    "INSERT INTO paimon.shop.daily (day, n) SELECT day, sum(n) FROM raw GROUP BY day HAVING sum(n) > 0",
    "INSERT OVERWRITE daily VALUES (1, 2), (3, abs(-4))",
    "INSERT INTO daily WITH a (x, y) AS (SELECT day, n FROM raw) SELECT x, y FROM a WHERE x IN (SELECT day FROM daily)",
    "WITH a AS (SELECT * FROM raw) INSERT INTO daily SELECT * FROM a",
    "INSERT INTO daily SELECT t.a, rank() OVER (PARTITION BY t.b ORDER BY t.b) FROM (SELECT day, n FROM raw) t(a, b)",
    "INSERT INTO daily SELECT CAST(n AS DECIMAL(10, 2)), CASE WHEN (n > 1) THEN (1) ELSE (2) END FROM raw",
    "INSERT INTO daily SELECT x, 1 FROM raw LATERAL VIEW explode(array(day, n)) v AS x",
    "INSERT INTO daily SELECT r.day, count(*) FILTER (WHERE r.n > 0) FROM raw r JOIN daily USING (day) GROUP BY r.day",
    "INSERT INTO daily SELECT unix_timestamp(date'2024-01-01'), id FROM range(3)",
    "INSERT INTO daily TABLE raw",
    "INSERT INTO daily SELECT * FROM raw VERSION AS OF 1",
    "INSERT INTO daily SELECT day, n FROM paimon_incremental_query('shop.raw', '0', '1')",
    "INSERT INTO daily SELECT 'java_method(1)', n FROM raw -- uuid()",
    "DELETE FROM daily WHERE day = 1 AND EXISTS (SELECT 1 FROM raw WHERE raw.day = daily.day)",
    "UPDATE daily SET n = n + (2), day = coalesce(day, 1) WHERE n IN (1, 2)",
    "MERGE INTO daily USING (SELECT max(day) day FROM raw) r ON r.day = daily.day WHEN MATCHED THEN DELETE",
    "MERGE INTO daily d USING raw r ON r.day = d.day WHEN NOT MATCHED AND r.n > (1) THEN INSERT (day) VALUES ((r.day))",
    "MERGE INTO daily AS d USING raw ON raw.day = d.day WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
)
HOSTILE = (
    "DROP TABLE raw",
    "DROP TABLE daily",
    "TRUNCATE TABLE daily",
    "SELECT * FROM raw",
    "CALL sys.rollback(table => 'shop.daily', version => '1')",
    "SET spark.sql.session.timeZone = UTC",
    "EXECUTE IMMEDIATE 'DROP TABLE shop.raw'",
    "ALTER TABLE daily DROP COLUMN n",
    "CREATE TABLE c AS SELECT 1",
    "ADD JAR '/tmp/x.jar'",
    "CREATE TEMPORARY FUNCTION f AS 'x.y'",
    "INSERT INTO raw SELECT * FROM daily",
    "INSERT INTO other.daily SELECT * FROM daily",
    "INSERT INTO daily$branch_main SELECT * FROM raw",
    "INSERT INTO daily$branch_fix SELECT * FROM raw",
    "INSERT INTO daily WITH ('branch' = 'main') SELECT * FROM raw",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT * FROM raw",
    "INSERT INTO IDENTIFIER('shop.daily') SELECT * FROM raw",
    "DELETE FROM raw",
    "DELETE FROM raw WHERE day = 1",
    "UPDATE raw SET n = 1",
    "MERGE INTO raw USING daily ON raw.day = daily.day WHEN MATCHED THEN DELETE",
    "INSERT INTO daily SELECT 1, java_method('java.lang.System', 'getenv', 'HOME')",
    "INSERT INTO daily SELECT 1, JAVA_METHOD ('java.lang.System', 'getenv', 'HOME')",
    "INSERT INTO daily SELECT 1, `java_method`('java.lang.System', 'getenv', 'HOME')",
    "INSERT INTO daily SELECT 1, java_method/* */('java.lang.System', 'getenv', 'HOME')",
    "INSERT INTO daily SELECT 1, reflect('java.lang.System', 'getenv', 'HOME')",
    "INSERT INTO daily SELECT 1, try_reflect('java.lang.System', 'getenv', 'HOME')",
    "INSERT INTO daily SELECT 1, system.builtin.java_method('java.lang.System', 'getenv', 'HOME')",
    "INSERT INTO daily SELECT transform(array(1), x -> java_method('java.lang.System', 'getenv', 'HOME'))[0], 1",
    "INSERT INTO daily SELECT day, from_protobuf(CAST('' AS BINARY), 'M', '/etc/passwd') FROM raw",
    "INSERT INTO daily SELECT TRANSFORM(day) USING 'touch /tmp/x' AS (a, b) FROM raw",
    "INSERT INTO daily SELECT * FROM (MAP day USING 'cat' AS a, b FROM raw)",
    "INSERT INTO daily SELECT * FROM csv.`/etc/passwd`",
    "INSERT INTO daily SELECT * FROM text.`/etc/passwd`",
    "INSERT INTO daily SELECT day, (SELECT max(value) FROM text.`/etc/passwd`) FROM raw",
    "WITH a AS (SELECT * FROM text.`/etc/passwd`) INSERT INTO daily SELECT 1, value FROM a",
    "INSERT INTO daily SELECT * FROM raw JOIN parquet.`/tmp` USING (day)",
    "INSERT INTO daily SELECT * FROM raw UNION SELECT * FROM a_view",
    "INSERT INTO daily SELECT * FROM spark_catalog.default.x",
    "INSERT INTO daily SELECT 1, n FROM IDENTIFIER('shop.raw')",
    "INSERT INTO daily SELECT 1, uuid()",
    "INSERT INTO daily SELECT 1, rand(7)",
    "INSERT INTO daily SELECT 1, unix_timestamp()",
    "INSERT INTO daily SELECT 1, now()",
    "INSERT INTO daily SELECT 1, current_date",
    "INSERT INTO daily SELECT 1, current_timestamp()",
    "INSERT INTO daily SELECT 1, my_function(n) FROM raw",
    "INSERT INTO daily SELECT 1, shop.f(n) FROM raw",
    "INSERT INTO daily SELECT * FROM raw TABLESAMPLE (50 PERCENT)",
    "INSERT INTO daily SELECT 1, '${env:HOME}'",
    "INSERT INTO daily PARTITION (day = java_method('java.lang.System', 'nanoTime')) SELECT 1",
    "INSERT INTO daily REPLACE WHERE day = (SELECT max(value) FROM text.`/etc/passwd`) SELECT * FROM raw",
    "INSERT INTO daily SELECT 1, 2; DROP TABLE raw",
    "FROM raw INSERT INTO daily SELECT 1, uuid()",
    "FROM raw INSERT INTO daily SELECT * INSERT INTO raw SELECT *",
    "DELETE FROM daily WHERE day = (SELECT max(length(value)) FROM text.`/etc/passwd`)",
    "DELETE FROM daily WHERE java_method('java.lang.System', 'exit', 1) = ''",
    "UPDATE daily SET n = (SELECT max(length(value)) FROM text.`/etc/passwd`)",
    "UPDATE daily SET n = 1 WHERE n = reflect('java.lang.System', 'nanoTime')",
    "MERGE INTO daily USING text.`/etc/passwd` r ON false WHEN NOT MATCHED THEN INSERT (day, n) VALUES (1, 2)",
    "MERGE INTO daily USING raw ON raw.day = daily.day AND rand() > 0.5 WHEN MATCHED THEN DELETE",
    "MERGE INTO daily USING raw ON raw.day = daily.day WHEN MATCHED THEN UPDATE SET n = length(uuid())",
    "MERGE INTO daily USING raw ON raw.day = daily.day WHEN MATCHED AND uuid() > '' THEN DELETE",
    "",
    "   ",
    "no statement at all (",
)


@pytest.fixture
def catalog(door: Door, tmp_path: Path) -> Catalog:
    """raw → daily by a statement for each of two days."""
    made = door.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    made.create_database("default")
    for name in ("raw", "daily"):
        made.create_table(f"shop.{name}", "day BIGINT, n BIGINT")
    made.lineage.enable()
    for day in (1, 2):
        made.sql(f"INSERT INTO paimon.shop.raw VALUES ({day}, 10)")
        made.sql(f"INSERT INTO paimon.shop.daily SELECT day, n FROM paimon.shop.raw WHERE raw.day = {day}")
    made.pipeline("shop.raw").branch("fix", before=("shop.raw", 2))
    return made


def forge(catalog: Catalog, sql: str, **more: str) -> None:
    """Put a statement into the properties of the newest snapshot of daily."""
    path = Path(catalog.warehouse.removeprefix("file:")) / "shop.db/daily/snapshot/snapshot-2"
    raw = json.loads(path.read_text())
    raw["properties"][STATEMENT] = json.dumps({"sql": sql, "catalog": "paimon", "database": "shop", **more})
    path.write_text(json.dumps(raw))


@pytest.mark.quick
def test_only_writes_of_the_table_that_their_text_fixes_pass(catalog: Catalog) -> None:
    catalog.sql("SELECT 1 AS day, 2 AS n").createOrReplaceTempView("a_view")
    wrong = {sql: error for sql in SAFE if (error := refused(catalog, sql))}
    assert wrong == {}
    assert [sql for sql in HOSTILE if not refused(catalog, sql)] == []


def test_queries_of_permanent_views_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    names = f"jdbc:sqlite:{tmp_path}/names.db"
    made = paimon_spark.load_catalog(metastore="jdbc", uri=names, warehouse=str(tmp_path / "wh"))
    made.create_database("shop")
    for name in ("raw", "daily"):
        made.create_table(f"shop.{name}", "day BIGINT, n BIGINT")
    made.create_view("shop.good", "SELECT day, n FROM raw")
    made.create_view("shop.bad", "SELECT day, length(java_method('java.lang.System', 'nanoTime')) AS n FROM raw")
    made.create_view("shop.above", "SELECT * FROM good")
    made.create_view("shop.beside", "SELECT * FROM raw UNION ALL SELECT * FROM bad")
    found = {
        view: refused(made, f"INSERT INTO daily SELECT * FROM {view}") for view in ("good", "above", "bad", "beside")
    }
    assert not found["good"] and not found["above"]
    assert "java_method" in found["bad"] and "java_method" in found["beside"]


def refused(catalog: Catalog, sql: str) -> str:
    try:
        check_again(catalog, [(StatementRecord(sql, "paimon", "shop"), "shop.daily")])
    except PaimonError as e:
        return str(e)
    return ""


def test_nothing_runs_when_one_statement_is_refused(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    forge(catalog, "DELETE FROM raw")
    fix = catalog.pipeline_branch("fix")
    assert [s.sql for s in fix.statements()] == ["DELETE FROM raw"]
    with pytest.raises(
        PaimonError, match=r"snapshot of shop.daily is not run again: it writes shop.raw.*, not shop.daily"
    ):
        fix.run_statements()
    cli = CommandLine(Path(catalog.warehouse), capsys)
    ran = cli("pipeline", "rerun", "fix", "--yes")
    assert ran.code != 0 and "nothing was run" in ran.err
    assert catalog.table("shop.raw").branch("fix").scan().to_arrow().num_rows == 1
    assert catalog.table("shop.raw").scan().to_arrow().num_rows == 2


def test_jobs_that_the_warehouse_does_not_know_are_told(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    fix = catalog.pipeline_branch("fix")
    assert [s.is_known for s in fix.statements()] == [True]
    jobs = Path(catalog.warehouse.removeprefix("file:")) / "paimon.db/_lineage/jobs"
    for path in jobs.glob("*.json"):
        path.unlink()
    cli = CommandLine(Path(catalog.warehouse), capsys)
    assert "a job that this warehouse has not registered" in cli("pipeline", "statements", "fix").out
    asked = cli("pipeline", "rerun", "fix")
    assert asked.code != 0 and "nothing was changed" in asked.err and "INSERT INTO paimon.shop.daily" in asked.err
    assert [s.is_done for s in fix.statements()] == [False]
