"""`spark.paimon.branch`: reads and writes of a session go to a branch of the tables that have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import InvalidInputError, InvalidOptionError, PaimonError
from tests.harness.doors import Door

pytestmark = pytest.mark.spark
SETTING = "spark.paimon.branch"
CREATE = "spark.paimon.branch.create"


@pytest.fixture
def catalog(door: Door, tmp_path: Path) -> Iterator[Catalog]:
    """`shop.raw` and `shop.daily` with a branch `fix`, `shop.other` without."""
    made = door.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    for name in ("raw", "daily", "other"):
        table = made.create_table(f"shop.{name}", "id BIGINT, v STRING", options={"bucket": "-1"})
        table.write(pa.table({"id": [1], "v": ["main"]}))
    for name in ("raw", "daily"):
        made.table(f"shop.{name}").create_branch("fix")
    made.table("shop.raw").create_tag("before")
    yield made
    for key in (SETTING, CREATE):
        door.spark.conf.unset(key)


def ids(catalog: Catalog, table: str, branch: str = "main") -> list[int]:
    return sorted(catalog.table(f"shop.{table}").branch(branch).scan().to_arrow()["id"].to_pylist())


def rows(catalog: Catalog, statement: str) -> list[int]:
    return sorted(row[0] for row in catalog.sql(statement).collect())


@pytest.mark.quick
def test_statements_go_to_the_branch_of_tables_that_have_it(catalog: Catalog, spark: SparkSession) -> None:
    spark.conf.set(SETTING, "fix")
    catalog.sql("INSERT INTO paimon.shop.raw VALUES (2, 'fix')")
    catalog.sql("INSERT INTO paimon.shop.`other$branch_main` VALUES (3, 'main')")
    catalog.sql("INSERT OVERWRITE paimon.shop.daily SELECT id, v FROM paimon.shop.raw WHERE raw.v = 'fix'")
    catalog.sql("UPDATE paimon.shop.daily SET v = 'x' WHERE daily.id = 2")
    catalog.sql("DELETE FROM paimon.shop.raw WHERE id = 1")
    catalog.sql(
        "MERGE INTO paimon.shop.raw t USING (SELECT id + 10 AS id, v FROM paimon.shop.daily) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert [ids(catalog, t) for t in ("raw", "daily", "other")] == [[1], [1], [1, 3]]
    assert [ids(catalog, t, "fix") for t in ("raw", "daily")] == [[2, 12], [2]]
    assert rows(catalog, "SELECT id FROM paimon.shop.raw") == [2, 12]
    assert rows(catalog, "SELECT shop.raw.id FROM paimon.shop.raw JOIN paimon.shop.daily d ON raw.id = d.id") == [2]
    assert rows(catalog, "SELECT id FROM paimon.shop.other") == [1, 3]
    assert rows(catalog, "SELECT snapshot_id FROM paimon.shop.`daily$snapshots`")[-1] > 1
    spark.conf.unset(SETTING)
    assert rows(catalog, "SELECT id FROM paimon.shop.raw") == [1]
    spark.conf.set(SETTING, "main")
    assert rows(catalog, "SELECT id FROM paimon.shop.raw") == [1]


def test_names_versions_and_options_of_a_statement_win(catalog: Catalog, spark: SparkSession) -> None:
    catalog.table("shop.raw").branch("fix").write(pa.table({"id": [2], "v": ["fix"]}))
    catalog.table("shop.raw").write(pa.table({"id": [5], "v": ["main"]}))
    catalog.table("shop.raw").create_branch("other")
    spark.conf.set(SETTING, "fix")
    assert rows(catalog, "SELECT id FROM paimon.shop.raw") == [1, 2]
    assert rows(catalog, "SELECT id FROM paimon.shop.`raw$branch_other`") == [1, 5]
    assert rows(catalog, "SELECT id FROM paimon.shop.raw VERSION AS OF 2") == [1, 5]
    assert rows(catalog, "SELECT id FROM paimon.shop.raw VERSION AS OF 'before'") == [1]
    assert rows(catalog, "SELECT id FROM paimon.shop.raw VERSION AS OF 'main'") == [1, 5]
    assert rows(catalog, "SELECT id FROM paimon.shop.raw WITH ('scan.snapshot-id' = '2')") == [1, 5]
    assert rows(catalog, "SELECT id FROM paimon.shop.raw WITH ('branch' = 'other')") == [1, 5]
    assert rows(catalog, "SELECT id FROM paimon_incremental_query('paimon.shop.raw', 1, 2)") == [5]
    catalog.sql("INSERT INTO paimon.shop.`raw$branch_other` VALUES (9, 'other')")
    assert ids(catalog, "raw", "other") == [1, 5, 9]


def test_columns_change_on_the_branch(catalog: Catalog, spark: SparkSession) -> None:
    spark.conf.set(SETTING, "fix")
    catalog.sql("ALTER TABLE paimon.shop.raw ADD COLUMNS (note STRING)")
    assert catalog.table("shop.raw").row_type.names == ("id", "v")
    assert catalog.table("shop.raw").branch("fix").row_type.names == ("id", "v", "note")
    catalog.sql("CALL sys.create_tag('shop.raw', 'audited')")
    assert "audited" in {t.name for t in catalog.table("shop.raw").branch("fix").tags()}


def test_whole_tables_stay(catalog: Catalog, spark: SparkSession) -> None:
    spark.conf.set(SETTING, "fix")
    catalog.sql("CREATE TABLE IF NOT EXISTS paimon.shop.raw (id BIGINT)")
    for statement in (
        "DROP TABLE paimon.shop.raw",
        "DROP TABLE IF EXISTS paimon.shop.raw",
        "ALTER TABLE paimon.shop.raw RENAME TO shop.new",
        "CREATE OR REPLACE TABLE paimon.shop.raw AS SELECT 7L AS id",
    ):
        with pytest.raises((PaimonError, PySparkException), match="this session works on its branch 'fix'"):
            catalog.sql(statement)
    assert ids(catalog, "raw") == [1]
    catalog.sql("CREATE TABLE paimon.shop.made AS SELECT id FROM paimon.shop.raw")
    assert ids(catalog, "made") == [1]
    with pytest.raises((PaimonError, PySparkException), match=r"shop\.other is not changed: it has no branch 'fix'"):
        catalog.sql("DROP TABLE paimon.shop.other")
    catalog.sql("DROP TABLE IF EXISTS paimon.shop.none")
    spark.conf.unset(SETTING)
    catalog.sql("DROP TABLE paimon.shop.other")


CHANGES = (
    "INSERT INTO paimon.shop.raw VALUES (2, 'x')",
    "INSERT OVERWRITE paimon.shop.raw VALUES (2, 'x')",
    "DELETE FROM paimon.shop.raw WHERE id = 1",
    "UPDATE paimon.shop.raw SET v = 'x'",
    "MERGE INTO paimon.shop.raw t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE paimon.shop.raw",
    "ALTER TABLE paimon.shop.raw ADD COLUMNS (note STRING)",
    "ALTER TABLE paimon.shop.raw SET TBLPROPERTIES ('snapshot.num-retained.max' = '99')",
    "COMMENT ON TABLE paimon.shop.raw IS 'x'",
    "ALTER TABLE paimon.shop.raw CREATE TAG t",
    "ALTER TABLE paimon.shop.raw RENAME TO shop.new",
    "ANALYZE TABLE paimon.shop.raw COMPUTE STATISTICS",
    "CREATE OR REPLACE TABLE paimon.shop.raw AS SELECT 7L AS id",
    "DROP TABLE paimon.shop.raw",
    "CALL paimon.sys.create_tag('shop.raw', 't')",
    "CALL paimon.sys.compact('shop.raw')",
    "CALL paimon.sys.expire_snapshots('shop.raw')",
    "CALL paimon.sys.merge_branch('shop.raw', 'fix')",
    "CALL paimon.sys.rollback('shop.raw', '1')",
)


@pytest.mark.quick
@pytest.mark.parametrize("key", [SETTING, "spark.wap.branch", "spark.paimon.scan.branch"])
def test_a_slip_in_the_name_of_the_branch_changes_nothing(catalog: Catalog, spark: SparkSession, key: str) -> None:
    root = Path(catalog.table("shop.raw").location.removeprefix("file://"))
    before = {str(p): p.stat().st_mtime_ns for p in root.rglob("*")}
    spark.conf.set(key, "fxi")
    try:
        for statement in CHANGES if key == SETTING else CHANGES[:8]:
            with pytest.raises((PaimonError, PySparkException)) as raised:
                catalog.sql(statement)
            message = str(raised.value).partition("\n")[0]
            assert f"shop.raw is not changed: it has no branch 'fxi', which {key} names; did you mean 'fix'?" in message
        assert rows(catalog, "SELECT id FROM paimon.shop.raw") == [1], "it is read on main"
    finally:
        spark.conf.unset(key)
    assert {str(p): p.stat().st_mtime_ns for p in root.rglob("*")} == before


def test_a_branch_set_for_one_table_takes_every_change(catalog: Catalog, spark: SparkSession) -> None:
    key = "spark.paimon.*.shop.raw.branch"
    spark.conf.set(key, "fix")
    try:
        catalog.sql("INSERT INTO paimon.shop.raw VALUES (2, 'x')")
        catalog.sql("DELETE FROM paimon.shop.raw WHERE id = 1")
        catalog.sql("ALTER TABLE paimon.shop.raw ADD COLUMNS (note STRING)")
        catalog.sql("CALL paimon.sys.create_tag('shop.raw', 'of_fix')")
        catalog.sql("INSERT INTO paimon.shop.other VALUES (3, 'main')")
        assert rows(catalog, "SELECT id FROM paimon.shop.raw") == [2]
        spark.conf.set(key, "gone")
        with pytest.raises((PaimonError, PySparkException), match="has no branch 'gone'"):
            catalog.sql("SELECT * FROM paimon.shop.raw").collect()
    finally:
        spark.conf.unset(key)
    assert (ids(catalog, "raw"), ids(catalog, "raw", "fix"), ids(catalog, "other")) == ([1], [2], [1, 3])
    assert "of_fix" in {t.name for t in catalog.table("shop.raw").branch("fix").tags()}
    assert catalog.table("shop.raw").row_type.names == ("id", "v")


def test_settings_that_cannot_be_followed_are_refused(catalog: Catalog, spark: SparkSession) -> None:
    for settings, message in (
        ({SETTING: " "}, "the name of a branch is blank"),
        ({SETTING: "fix", "spark.wap.branch": "other"}, "set one of them"),
        ({"spark.wap.id": "1"}, "spark.wap.id = '1': commits staged by an id are not supported"),
    ):
        for key, value in settings.items():
            spark.conf.set(key, value)
        with pytest.raises((PaimonError, PySparkException), match=message):
            catalog.sql("INSERT INTO paimon.shop.raw VALUES (2, 'x')")
        for key in settings:
            spark.conf.unset(key)
    assert ids(catalog, "raw") == ids(catalog, "raw", "fix") == [1]


@pytest.mark.quick
def test_a_write_creates_the_branch_where_asked(catalog: Catalog, spark: SparkSession) -> None:
    spark.conf.set(SETTING, "late")
    spark.conf.set(CREATE, "true")
    assert rows(catalog, "SELECT id FROM paimon.shop.raw") == [1]
    assert "late" not in {b.name for b in catalog.table("shop.raw").branches()}
    catalog.sql("INSERT INTO paimon.shop.raw VALUES (2, 'late')")
    catalog.sql("DELETE FROM paimon.shop.daily WHERE id = 1")
    assert (ids(catalog, "raw"), ids(catalog, "raw", "late")) == ([1], [1, 2])
    assert (ids(catalog, "daily"), ids(catalog, "daily", "late")) == ([1], [])
    catalog.create_table("shop.empty", "id BIGINT, v STRING")
    catalog.sql("INSERT INTO paimon.shop.empty VALUES (4, 'late')")
    assert (ids(catalog, "empty"), ids(catalog, "empty", "late")) == ([], [4])
    spark.conf.set(CREATE, "perhaps")
    with pytest.raises((InvalidOptionError, PySparkException), match="expected true or false"):
        catalog.sql("INSERT INTO paimon.shop.other VALUES (2, 'late')")


@pytest.mark.quick
def test_dataframes_and_streams(spark: SparkSession, tmp_path: Path) -> None:
    plain = paimon_spark.load_catalog(str(tmp_path / "wh"))
    plain.create_database("shop")
    for name in ("raw", "daily"):
        table = plain.create_table(f"shop.{name}", "id BIGINT", options={"bucket": "-1"})
        table.write(pa.table({"id": [1]}))
        table.create_branch("fix")
    paimon_spark.attach(spark, str(tmp_path / "wh"), name="sb", branch="fix")
    try:
        spark.range(2, 4).toDF("id").writeTo("sb.shop.raw").append()
        spark.range(4, 5).toDF("id").write.insertInto("sb.shop.raw")
        spark.range(5, 6).toDF("id").write.mode("append").saveAsTable("sb.shop.raw")
        assert sorted(r.id for r in spark.table("sb.shop.raw").collect()) == [1, 2, 3, 4, 5]
        assert sorted(r.id for r in spark.read.table("sb.shop.raw").where("id > 3").collect()) == [4, 5]
        query = (
            spark.readStream.table("sb.shop.raw")
            .writeStream.option("checkpointLocation", str(tmp_path / "cp"))
            .trigger(availableNow=True)
            .toTable("sb.shop.daily")
        )
        query.awaitTermination()
        assert ids(plain, "raw") == ids(plain, "daily") == [1]
        assert ids(plain, "daily", "fix") == [1, 1, 2, 3, 4, 5]
        # Snapshot 4 is on the branch alone, and 5 does not exist yet: a stream starts there, another read cannot.
        for start, expected in ((4, [5]), (5, [])):
            options = {"scan.mode": "from-snapshot", "scan.snapshot-id": str(start)}
            stream = spark.readStream.options(**options).table("sb.shop.raw")
            query = stream.writeStream.format("memory").queryName(f"from{start}").trigger(availableNow=True).start()
            query.awaitTermination()
            assert [r.id for r in spark.table(f"from{start}").collect()] == expected
        for read in ("id", "count(*)"):
            with pytest.raises(PySparkException, match="has no snapshot 5"):
                spark.read.option("scan.snapshot-id", "5").table("sb.shop.raw").selectExpr(read).collect()
        assert [r.id for r in spark.read.option("scan.snapshot-id", "1").table("sb.shop.raw").collect()] == [1]
        with pytest.raises(PySparkException, match="works on its branch 'fix'"):
            spark.range(1).toDF("id").writeTo("sb.shop.raw").createOrReplace()
        spark.range(1).toDF("id").write.mode("overwrite").saveAsTable("sb.shop.raw")
        assert (ids(plain, "raw"), ids(plain, "raw", "fix")) == ([1], [0])
    finally:
        paimon_spark.detach(spark, "sb")
    on_fix = paimon_spark.load_catalog(str(tmp_path / "wh"), branch="fix")
    on_fix.create_table("shop.alone", "id BIGINT")
    assert on_fix.table("shop.raw").branch_name == "fix"
    assert on_fix.table("shop.raw$branch_fix").branch_name == "fix"
    assert on_fix.table("shop.raw", branch="main").branch_name == "main"
    assert on_fix.table("shop.raw", **{"scan.version": "1"}).branch_name == "main"
    assert on_fix.table("shop.alone").branch_name == "main"
    with pytest.raises(InvalidInputError):
        on_fix.pipeline()
