"""Statements of Iceberg and Delta Lake say what to write here, through both doors and the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import PaimonError, TableNotFoundError
from tests.harness.command_line import CommandLine
from tests.harness.doors import Door, using
from tests.harness.foreign import IN_CURRENT, MISSPELT, statements

pytestmark = [pytest.mark.spark, pytest.mark.newest, pytest.mark.quick]


@pytest.fixture
def catalog(tmp_path: Path, door: Door) -> Catalog:
    found = door.load_catalog(str(tmp_path))
    found.create_database("db")
    found.create_table("db.t", "a INT, b INT")
    return found


def _said(catalog: Catalog, sql: str) -> str:
    with pytest.raises((PaimonError, PySparkException)) as found:
        catalog.sql(sql)
    text = str(found.value).strip()
    assert "\n" not in text, text
    return text


@pytest.mark.both_doors
def test_what_is_written_elsewhere_is_named_here(catalog: Catalog, door: Door) -> None:
    for prefix in ("paimon.", ""):
        for sql, said in statements(prefix, "paimon", is_plain=door.is_plain):
            assert said in _said(catalog, sql), sql


@pytest.mark.both_doors
def test_metadata_tables_of_the_current_database_are_named(catalog: Catalog, door: Door, spark: SparkSession) -> None:
    with using(catalog, spark, "db"):
        for sql, said in IN_CURRENT:
            assert said in _said(catalog, sql), sql
    assert catalog.sql("SELECT * FROM db.t.snapshots").columns[0] == "snapshot_id"


@pytest.mark.both_doors
def test_a_catalog_that_is_not_there_is_named_with_the_nearest(catalog: Catalog, door: Door) -> None:
    for sql in MISSPELT:
        said = _said(catalog, sql.format(c="paimn"))
        assert "there is no catalog 'paimn' for paimn." in said and "did you mean 'paimon'?" in said, said


def test_a_catalog_that_is_not_there_is_named_while_sparks_own_is_current(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.attach(spark, str(tmp_path))
    try:
        catalog.create_database("db")
        catalog.create_table("db.t", "a INT, b STRUCT<c: STRUCT<d: INT>>")
        for sql in MISSPELT:
            with pytest.raises(PySparkException, match="there is no catalog 'paimn' for paimn"):
                spark.sql(sql.format(c="paimn"))
        for act in (spark.table, spark.read.table, spark.range(1).writeTo):
            with pytest.raises(PySparkException, match=r"there is no catalog .paimn. for paimn\.db\.t"):
                act("paimn.db.t")
        with pytest.raises(TableNotFoundError, match=r"there is no catalog .paimn. for paimn\.db\.t"):
            catalog.sql("SELECT * FROM paimn.db.t")
        query = "SELECT x.b.c.d, EXTRACT(DAY FROM x.b.c.d * INTERVAL '1' DAY) FROM paimon.db.t x"
        assert spark.sql(query).columns[0] == "d"  # a field is no table
    finally:
        paimon_spark.detach(spark)


def test_the_command_line_says_the_same(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = paimon_spark.load_catalog(str(tmp_path))
    found.create_database("db")
    found.create_table("db.t", "a INT, b INT")
    cli = CommandLine(tmp_path, capsys)
    for sql, said in statements("", "paimon", is_plain=False):
        ran = cli("sql", sql)
        assert ran.code != 0
        assert said in ran.err, sql
        assert len(ran.err.splitlines()) == 1, ran.err


@pytest.mark.both_doors
def test_histories_of_tables_that_are_not_there_are_ours(catalog: Catalog, door: Door, spark: SparkSession) -> None:
    with using(catalog, spark, "db"):
        assert "has no table 'nothere'; its tables are t" in _said(catalog, "DESCRIBE HISTORY db.nothere")
        assert "has no table 'nothere'" in _said(catalog, "DESCRIBE DETAIL db.nothere")
        if door.is_plain:
            for what in ("HISTORY", "DETAIL"):
                assert "no catalog 'paimn' for paimn.db.t; did you mean 'pa" in _said(
                    catalog, f"DESCRIBE {what} paimn.db.t"
                )
            for sql in ("DESCRIBE HISTORY paimon.`/x/y`", "DELETE FROM paimon.`/x/y`"):
                assert "spark.read.format('paimon').load('/x/y')" in _said(catalog, sql)


@pytest.mark.both_doors
def test_calls_that_are_offered_run(catalog: Catalog, door: Door) -> None:
    table = catalog.table("db.t")
    for i in (1, 2, 3):
        table.write(pa.table({"a": [i], "b": [i]}, pa.schema([("a", pa.int32()), ("b", pa.int32())])))
    table.create_branch("audit", version=1)
    catalog.sql("ALTER TABLE paimon.db.t DROP BRANCH audit")
    catalog.sql("ALTER TABLE paimon.db.t CREATE BRANCH audit AS OF VERSION 'main'")
    assert catalog.table("db.t$branch_audit").scan().to_arrow().num_rows == 3
    call = "CALL paimon.sys.expire_snapshots(table => 'db.t', retain_max => 1, retain_min => 1, dry_run => true)"
    (row,) = catalog.sql(call).collect()
    assert row.deleted_snapshots_count == 2 and row.would_do.startswith("would expire: 2 snapshots")
    assert len(table.snapshots()) == 3
    times = "'2020-01-01', '2099-12-31'"
    changes = catalog.sql(f"SELECT * FROM paimon_incremental_between_timestamp('db.t', {times})")
    assert changes.count() == 3
    catalog.sql(
        "CALL paimon.sys.rollback_to_timestamp(table => 'db.t', "
        "timestamp => unix_millis(current_timestamp() + INTERVAL 1 HOUR))"
    )
    text = "SELECT * FROM paimon.db.t TIMESTAMP AS OF timestamp_millis({})"
    assert catalog.sql(text.format(table.snapshots()[1].time_ms)).count() == 2


def test_a_write_by_name_refuses_another_path(spark: SparkSession, tmp_path: Path) -> None:
    catalog = paimon_spark.attach(spark, str(tmp_path))
    catalog.create_database("db")
    catalog.create_table("db.t", "a INT, b INT")
    frame = spark.sql("SELECT 1 AS a, 2 AS b")
    with pytest.raises(PySparkException, match=r"db\.t cannot be stored at '/elsewhere'"):
        frame.writeTo("paimon.db.t").option("path", "/elsewhere").append()
    for sql in ("ALTER TABLE paimon.db.t SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
                "CREATE TABLE paimon.db.x (a INT) TBLPROPERTIES ('delta.constraints.c' = 'a > 0')"):  # fmt: skip
        with pytest.raises(PySparkException, match="would be stored without any effect"):
            spark.sql(sql)
    with pytest.raises(PySparkException, match="'replaceWhere', of Iceberg or Delta Lake"):
        frame.write.format("paimon").mode("append").option("replaceWhere", "a = 1").save(str(tmp_path / "db.db" / "t"))
