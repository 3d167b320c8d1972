"""Cases of the tests of Java Paimon's Spark connector on partitions, statistics and snapshots, by `spark.sql`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from tests.harness.scripts import Script, params, parsed

pytestmark = [pytest.mark.spark, pytest.mark.newest]

SETTINGS = {
    "hive": {
        "spark.paimon.write.hive-style-dynamic-partition.enabled": "true",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
    },
    "some": {"spark.paimon.read.allow.fullScan": "false"},
}
PARTED = """
CREATE TABLE t (a INT, dt INT, hh STRING, mm STRING) PARTITIONED BY (dt, hh, mm)
INSERT INTO t VALUES (1, 20240101, '00', '00'), (2, 20240101, '00', '01'), (3, 20240101, '01', '00'),
  (4, 20240102, '00', '00'), (5, 20240102, '00', '01')
"""

SCRIPTS = parsed(
    """
== InsertOverwriteTable: [hive-tail-enabled] dynamic overwrite accepts Hive partition order | hive
CREATE TABLE t (id INT, dt STRING, name STRING, hr STRING) PARTITIONED BY (dt, hr)
INSERT INTO t VALUES (1, '29', 'old', '00'), (2, '29', 'old', '01')
INSERT OVERWRITE t PARTITION (dt, hr) SELECT 3 AS id, 'new' AS name, '30' AS dt, '10' AS hr
INSERT OVERWRITE t PARTITION (dt, hr) SELECT 4 AS id, '31' AS dt, 'in order' AS name, '11' AS hr
INSERT OVERWRITE t PARTITION (dt = '32', hr) SELECT 5 AS id, 'mixed' AS name, '12' AS hr
SELECT * FROM t
> (1, '29', 'old', '00'), (2, '29', 'old', '01'), (3, '30', 'new', '10'), (4, '31', 'in order', '11'), (5, '32',
  'mixed', '12')
== InsertOverwriteTable: [table-order-default] dynamic partition follows table order
CREATE TABLE t (ds STRING, part STRING, uid STRING, value STRING) PARTITIONED BY (ds, part)
INSERT OVERWRITE t PARTITION (ds, part) SELECT '20260808' AS ds, 'p1' AS part, '1001' AS uid, '0.8' AS m
SELECT ds, part, uid, value FROM t
> ('20260808', 'p1', '1001', '0.8')
== PaimonQuery: disallow full scan | some
CREATE TABLE whole (a INT)
INSERT INTO whole VALUES (1), (2)
SELECT * FROM whole
> (1,), (2,)
CREATE TABLE t (a INT, p INT) PARTITIONED BY (p)
INSERT INTO t VALUES (1, 1), (2, 2)
SELECT * FROM t
! full.?scan
SELECT * FROM t WHERE p > 0
! full.?scan
SELECT * FROM t WHERE p > 1
> (2, 2)
SELECT sys.max_pt('t')
> ('2',)
== PaimonPartitionManagement: batch drop partitions
{parted}
ALTER TABLE t DROP PARTITION (dt = 20240101)
SHOW PARTITIONS t
> ('dt=20240102/hh=00/mm=00',), ('dt=20240102/hh=00/mm=01',)
ALTER TABLE t DROP PARTITION (hh = '00')
! dt|first partition
ALTER TABLE t DROP PARTITION (dt = 20240102, hh = '00')
SHOW PARTITIONS t
>
== PaimonPartitionManagement: batch drop partitions with mixed full and partial specs
{parted}
ALTER TABLE t DROP PARTITION (dt = 20240101, hh = '00', mm = '00'), PARTITION (dt = 20240102)
SELECT count(*) FROM `t$snapshots` WHERE commit_kind = 'OVERWRITE'
> (1,)
SHOW PARTITIONS t
> ('dt=20240101/hh=00/mm=01',), ('dt=20240101/hh=01/mm=00',)
== PaimonPartitionManagement: Partition for partitioned table
CREATE TABLE t (a INT, dt BIGINT, hh VARCHAR(4)) PARTITIONED BY (dt, hh)
INSERT INTO t VALUES (1, 20240101, '00'), (2, 20240102, '00')
ALTER TABLE t DROP PARTITION (dt = 20240101, hh = '00'), PARTITION (dt = 99, hh = '00')
! 99
SHOW PARTITIONS t PARTITION (dt = 20240101)
> ('dt=20240101/hh=00',)
SHOW PARTITIONS t PARTITION (hh = '11')
>
ALTER TABLE t DROP PARTITION (dt = 20240101, hh = '00'), PARTITION (dt = 20240102, hh = '00')
SELECT * FROM t
>
== DDL: Drop Partition by partial spec
{parted}
ALTER TABLE t DROP PARTITION (dt = 20230101)
SELECT count(*) FROM t
> (5,)
ALTER TABLE t DROP PARTITION (dt = 20230101, hh = '00', mm = '00')
! 20230101
ALTER TABLE t DROP PARTITION (hh = '00', mm = '00')
! dt|first partition
== PaimonPartitionManagement: drop null partition with specified default partition name
CREATE TABLE t (a INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ('partition.default-name' = '__X__')
INSERT INTO t VALUES (1, '20240601'), (2, NULL)
SHOW PARTITIONS t
> ('dt=20240601',), ('dt=null',)
ALTER TABLE t DROP PARTITION (dt = NULL)
SHOW PARTITIONS t
> ('dt=20240601',)
== AnalyzeTable: analyze specialized, non-exist and unsupported cols, no scan and partition
CREATE TABLE t (id STRING, name STRING, i INT, m MAP<INT, STRING>) TBLPROPERTIES ('primary-key' = 'id')
INSERT INTO t VALUES ('1', 'a', 1, map(1, 'a')), ('2', 'aaa', 1, NULL)
ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS m
! m
ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS fake_col
! fake_col
ANALYZE TABLE t COMPUTE STATISTICS NOSCAN
! noscan
ANALYZE TABLE t PARTITION (id = '1') COMPUTE STATISTICS
! partition
ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS name, i
""",
    parted=PARTED.strip(),
)


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[Catalog]:
    made = paimon_spark.attach(spark, str(tmp_path), name="twins")
    made.create_database("db")
    spark.sql("USE twins.db")
    yield made
    spark.catalog.setCurrentCatalog("spark_catalog")
    paimon_spark.detach(spark, "twins")


@pytest.mark.parametrize("script", params(SCRIPTS))
def test_tables_are_as_the_connectors_tests_expect(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, script: Script
) -> None:
    script.run(spark, tmp_path, SETTINGS)


TYPES = (
    "id STRING, s SHORT, f FLOAT, d DECIMAL(10, 5), b BOOLEAN, day DATE, at TIMESTAMP_NTZ, bytes BINARY, c VARCHAR(20)"
)
ANALYSED = (
    "('1', 1, 1.0, 12.12345, true, DATE '2020-01-01', TIMESTAMP_NTZ '2020-01-01', binary('example binary1'), 'a')",
    "('2', NULL, 1.0, 12.12345, false, DATE '2020-01-02', TIMESTAMP_NTZ '2020-01-02', binary('binary3'), 'aaa')",
)


def test_statistics_are_those_of_analyze_table_test(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql(f"CREATE TABLE t ({TYPES}) TBLPROPERTIES ('primary-key' = 'id')")
    for row in ANALYSED:
        spark.sql(f"INSERT INTO t VALUES {row}")
    spark.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS")
    (found,) = spark.sql("SELECT snapshot_id, schema_id, mergedRecordCount, colstat FROM `t$statistics`").collect()
    assert tuple(found)[:3] == (2, 0, 2)
    columns = {
        name: tuple(stats.get(k) for k in ("distinctCount", "min", "max", "nullCount", "avgLen", "maxLen"))
        for name, stats in json.loads(found.colstat).items()
    }
    assert columns == {
        "id": (2, None, None, 0, 1, 1),
        "s": (1, "1", "1", 1, 2, 2),
        "f": (1, "1.0", "1.0", 0, 4, 4),
        "d": (1, "12.12345", "12.12345", 0, 8, 8),
        "b": (2, "false", "true", 0, 1, 1),
        "day": (2, "18262", "18263", 0, 4, 4),
        "at": (2, "2020-01-01 00:00:00.000000", "2020-01-02 00:00:00.000000", 0, 8, 8),
        "bytes": (2, None, None, 0, 11, 15),
        "c": (2, None, None, 0, 2, 3),
    }
    spark.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS c, day")
    (found,) = spark.sql("SELECT colstat FROM `t$statistics`").collect()
    assert set(json.loads(found.colstat)) == {"c", "day"}


MERGED = "SELECT 1 AS id, 'm' AS name, 'x' AS dt UNION ALL SELECT 9, 'n', 'y'"
CLAUSES = "WHEN MATCHED THEN UPDATE SET t.name = s.name WHEN NOT MATCHED THEN INSERT *"
OPERATIONS = [
    ("CREATE TABLE t PARTITIONED BY (dt) AS SELECT 1 AS id, 'a' AS name, 'x' AS dt", "CREATE_TABLE_AS_SELECT"),
    ("CREATE OR REPLACE TABLE t (id INT, name STRING, dt STRING) PARTITIONED BY (dt)", None),
    ("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')", "WRITE"),
    ("INSERT OVERWRITE t VALUES (1, 'a2', 'x'), (2, 'b2', 'x'), (3, 'c2', 'y')", "OVERWRITE"),
    ("UPDATE t SET name = 'updated' WHERE id = 1", "UPDATE"),
    ("DELETE FROM t WHERE id = 2", "DELETE"),
    (f"MERGE INTO t USING ({MERGED}) s ON t.id = s.id {CLAUSES}", "MERGE"),
    ("DELETE FROM t WHERE dt = 'x'", "TRUNCATE"),
    ("DELETE FROM t", "TRUNCATE"),
    ("INSERT INTO t VALUES (5, 'e', 'x')", "WRITE"),
    ("TRUNCATE TABLE t", "TRUNCATE"),
    ("CREATE OR REPLACE TABLE t PARTITIONED BY (dt) AS SELECT 1 AS id, 'x' AS dt", "CREATE_OR_REPLACE_TABLE_AS_SELECT"),
    ("REPLACE TABLE t PARTITIONED BY (dt) AS SELECT 2 AS id, 'x' AS dt", "REPLACE_TABLE_AS_SELECT"),
]


def test_snapshots_name_the_operations_of_snapshot_operation_test(spark: SparkSession, catalog: Catalog) -> None:
    found = []
    for statement, operation in OPERATIONS:
        spark.sql(statement)
        last = max(catalog.table("db.t").snapshots(), key=lambda s: s.id, default=None)
        found.append((statement, operation and last and last.operation))
    assert found == OPERATIONS


def test_a_partition_is_described_as_in_describe_table_test(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql(
        "CREATE TABLE t (id INT NOT NULL, name STRING DEFAULT 'Bob', age INT COMMENT 'Age') "
        "PARTITIONED BY (year INT COMMENT 'Year', month INT, day INT)"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a', 16, 2025, 9, 20), (2, 'b', 17, 2025, 9, 21), (3, 'c', 18, 2025, 9, 21)")
    found = spark.sql("DESCRIBE FORMATTED t PARTITION (year = 2025, month = 9, day = 21)").collect()
    texts = {row.col_name: row.data_type for row in found}
    assert texts["Partition Values"] == "[year=2025, month=9, day=21]"
    assert {"fileCount", "fileSizeInBytes", "lastFileCreationTime", "recordCount=2"} <= set(
        re.findall(r"fileCount|fileSizeInBytes|lastFileCreationTime|recordCount=\d+", texts["Partition Parameters"])
    )
    described = [(row.col_name, row.data_type, row.comment) for row in found]
    assert ("age", "int", "Age") in described
    assert ("name", "string", "'Bob'") in described
    assert ("id", "int", "NOT NULL") in described
    with pytest.raises(PySparkException, match="2022"):
        spark.sql("DESCRIBE FORMATTED t PARTITION (year = 2022, month = 9, day = 21)").collect()


def test_partitions_are_shown_as_in_describe_table_test(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE t (id INT, a STRING, b STRING) PARTITIONED BY (a, b)")
    spark.sql("INSERT INTO t VALUES (1, '2024', '11'), (2, '2024', '12'), (3, '2024', '11')")
    with pytest.raises(PySparkException, match=r"(?i)partition"):
        spark.sql("SHOW TABLE EXTENDED IN db LIKE 't' PARTITION (a = '2022', b = '11')").collect()
    with pytest.raises(PySparkException, match=r"(?i)partition"):
        spark.sql("SHOW TABLE EXTENDED IN db LIKE 't' PARTITION (a = '2024')").collect()
    (row,) = spark.sql("SHOW TABLE EXTENDED IN db LIKE 't' PARTITION (a = '2024', b = 11)").collect()
    assert (row.namespace, row.tableName, row.isTemporary) == ("db", "t", False)
    for text in ("Partition Values", "Partition Parameters", "recordCount=2", "Partition Statistics", "2 rows"):
        assert text in row.information


def test_save_as_table_overwrites_as_in_data_frame_write_test(spark: SparkSession, catalog: Catalog) -> None:
    def saved(*values: tuple[int, str, str]) -> list[tuple[int, str, str]]:
        rows = spark.createDataFrame(list(values), "a INT, b STRING, pt STRING")
        rows.write.format("paimon").mode("overwrite").saveAsTable("twins.db.t")
        return sorted((r.a, r.b, r.pt) for r in spark.table("twins.db.t").collect())

    spark.sql("CREATE TABLE t (a INT, b STRING, pt STRING) PARTITIONED BY (pt) TBLPROPERTIES ('primary-key' = 'a,pt')")
    spark.sql("INSERT INTO t VALUES (1, 'x1', 'p1'), (2, 'x2', 'p2'), (3, 'x3', 'p1')")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    dynamic = saved((4, "x4", "p1"))
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert saved((5, "x5", "p3")) == [(5, "x5", "p3")]
    schema = catalog.table("db.t").schema
    assert (schema.primary_keys, schema.partition_keys) == (("a", "pt"), ("pt",))
    assert dynamic == [(2, "x2", "p2"), (4, "x4", "p1")], "dynamic overwrites keep the other partitions"
