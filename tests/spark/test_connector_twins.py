"""Cases of the tests of Java Paimon's Spark connector that write and read rows, by `spark.sql`, with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.harness.scripts import Script, params, parsed

pytestmark = [pytest.mark.spark, pytest.mark.newest]

SETTINGS = {
    "grows": {"spark.paimon.write.merge-schema": "true"},
    "widens": {"spark.paimon.write.merge-schema": "true", "spark.paimon.write.merge-schema.type-widening": "true"},
}
KEYED = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
INFO = f"CREATE TABLE t (id INT, info STRUCT<a: STRING, b: STRING>) {KEYED}"
OLD = "INSERT INTO t VALUES (1, named_struct('a', 'oldA', 'b', 'oldB'))"
NARROW = f"CREATE TABLE t (id INT, info STRUCT<a: STRING>) {KEYED}\nINSERT INTO t VALUES (1, named_struct('a', 'x'))"

SCHEMAS = """
== MergeIntoAlignment: source extra columns silently dropped under star expansion
CREATE TABLE t (id INT, name STRING) {keyed}
INSERT INTO t VALUES (1, 'a')
MERGE INTO t USING (SELECT * FROM VALUES (1, 'A', 'upd'), (2, 'b', 'ins') x(id, name, op)) s ON t.id = s.id {both}
SELECT * FROM t
> (1, 'A'), (2, 'b')
== MergeIntoAlignment: source extra columns evolve target schema | grows
CREATE TABLE t (id INT, name STRING) {keyed}
INSERT INTO t VALUES (1, 'a')
MERGE INTO t USING (SELECT * FROM VALUES (1, 'A', 'upd'), (2, 'b', 'ins') x(id, name, op)) s ON t.id = s.id {both}
SELECT id, name, op FROM t
> (1, 'A', 'upd'), (2, 'b', 'ins')
== MergeIntoAlignment: target has extra column missing in source | grows
CREATE TABLE t (id STRING, name STRING, tenants ARRAY<STRING>) {keyed}
INSERT INTO t VALUES ('n0', 'old', array('t1'))
MERGE INTO t USING (SELECT * FROM VALUES ('n0', 'updated'), ('n1', 'foo') x(id, name)) s ON t.id = s.id {both}
SELECT * FROM t
> ('n0', 'updated', ['t1']), ('n1', 'foo', None)
== MergeIntoAlignment: UPDATE * and INSERT * top-level missing source col throws
CREATE TABLE t (id INT, name STRING, score INT) {keyed}
INSERT INTO t VALUES (1, 'a', 10)
MERGE INTO t USING (SELECT 1 AS id, 'A' AS name) s ON t.id = s.id {updated}
! score
MERGE INTO t USING (SELECT 2 AS id, 'b' AS name) s ON t.id = s.id {inserted}
! score
MERGE INTO t USING (SELECT 2 AS id, 'b' AS name) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, zz) VALUES (1, 2)
! zz
MERGE INTO t USING (SELECT 2 AS id, 'b' AS name) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, name) VALUES
  (s.id, s.name)
MERGE INTO t USING (SELECT 1 AS id, 'A' AS name) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.name = s.name
SELECT * FROM t
> (1, 'A', 10), (2, 'b', None)
== MergeIntoAlignment: UPDATE * nested struct, source missing a leaf preserves target leaf | grows
{info}
MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 'newA') AS info) s ON t.id = s.id {updated}
SELECT id, info.a, info.b FROM t
> (1, 'newA', 'oldB')
== MergeIntoAlignment: UPDATE * and INSERT * nested struct, source missing target field throws
{info}
MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 'newA') AS info) s ON t.id = s.id {updated}
! info|b
MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 'newA') AS info) s ON t.id = s.id {inserted}
! info|b
== MergeIntoAlignment: UPDATE * nested struct, source extra field throws
{narrow}
MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 'newA', 'b', 'newB') AS info) s ON t.id = s.id {updated}
! info|b
== MergeIntoAlignment: UPDATE * nested struct, source extra field evolves schema | grows
{narrow}
MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 'newA', 'b', 'newB') AS info) s ON t.id = s.id {updated}
SELECT id, info.a, info.b FROM t
> (1, 'newA', 'newB')
== MergeIntoAlignment: UPDATE * nested struct, NULL source collapses to NULL struct
{info}
MERGE INTO t USING (SELECT 1 AS id, CAST(NULL AS STRUCT<a: STRING, b: STRING>) AS info) s ON t.id = s.id {updated}
SELECT * FROM t
> (1, None)
== MergeIntoAlignment: UPDATE * nested struct matching schemas, NULL source collapses | grows
{info}
MERGE INTO t USING (SELECT 1 AS id, CAST(NULL AS STRUCT<a: STRING, b: STRING>) AS info) s ON t.id = s.id {updated}
SELECT * FROM t
> (1, None)
== MergeIntoAlignment: INSERT * nested struct, source missing a leaf gets NULL | grows
{empty}
MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 'newA') AS info) s ON t.id = s.id {inserted}
SELECT id, info.a, info.b FROM t
> (1, 'newA', None)
== MergeIntoAlignment: UPDATE * 3-level nested struct preserves deep leaves | grows
CREATE TABLE t (id INT, l1 STRUCT<a: STRING, l2: STRUCT<b: STRING, l3: STRUCT<c: STRING, d: STRING>>>) {keyed}
INSERT INTO t VALUES (1, named_struct('a', 'oldA', 'l2', named_struct('b', 'oldB', 'l3', named_struct('c', 'oldC',
  'd', 'oldD'))))
MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 'newA', 'l2', named_struct('b', 'newB', 'l3', named_struct('c',
  'newC'))) AS l1) s ON t.id = s.id {updated}
SELECT l1.a, l1.l2.b, l1.l2.l3.c, l1.l2.l3.d FROM t
> ('newA', 'newB', 'newC', 'oldD')
== MergeIntoAlignment: explicit INSERT and UPDATE SET of a new column evolve target schema by that column | grows
CREATE TABLE t (id INT, name STRING) {keyed}
INSERT INTO t VALUES (1, 'a')
MERGE INTO t USING (SELECT * FROM VALUES (1, 'A', 9, 0), (2, 'b', 10, 20) x(id, name, one, two)) s ON t.id = s.id WHEN
  MATCHED THEN UPDATE SET t.name = s.name, one = s.one WHEN NOT MATCHED THEN INSERT (id, name, one) VALUES (s.id,
  s.name, s.one)
SELECT * FROM t
> (1, 'A', 9), (2, 'b', 10)
== MergeIntoAlignment: UPDATE explicit nested-field assignment preserves sibling field
{info}
MERGE INTO t USING (SELECT 1 AS id, 'newA' AS a) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.info.a = s.a
SELECT id, info.a, info.b FROM t
> (1, 'newA', 'oldB')
== MergeIntoAlignment: names of columns and of nested struct fields match case-insensitively
{info}
MERGE INTO t USING (SELECT 1 AS ID, named_struct('B', 'newB', 'A', 'newA') AS INFO) s ON t.id = s.id {both}
SELECT id, info.a, info.b FROM t
> (1, 'newA', 'newB')
== WriteMergeSchema: Merge into append-only target evolves schema | grows
CREATE TABLE t (id INT, name STRING)
INSERT INTO t VALUES (1, 'a'), (2, 'b')
MERGE INTO t USING (SELECT * FROM VALUES (1, 'a2', 100), (3, 'c', 30) x(ID, NAME, value)) s ON t.id = s.id {both}
SELECT id, name, value FROM t
> (1, 'a2', 100), (2, 'b', None), (3, 'c', 30)
== WriteMergeSchema: Merge into nested struct fields case mismatch | grows
{info}
MERGE INTO t USING (SELECT 1 AS id, named_struct('A', 'x', 'B', 'y', 'c', 'z') AS info) s ON t.id = s.id {both}
SELECT id, info FROM t
> (1, ('x', 'y', 'z'))
== WriteMergeSchema: Merge into with type-widening=true, INT to BIGINT widens existing column | widens
CREATE TABLE t (id INT, v INT) {keyed}
INSERT INTO t VALUES (1, 10)
MERGE INTO t USING (SELECT 1 AS id, 2000000000000 AS v) s ON t.id = s.id {updated}
SELECT v, typeof(v) FROM t
> (2000000000000, 'bigint')
== MergeIntoTable: fail in case that more than one source rows match the same target row
CREATE TABLE t (id INT, b INT, c STRING)
INSERT INTO t VALUES (1, 10, 'c1'), (2, 20, 'c2')
MERGE INTO t USING (SELECT * FROM VALUES (1, 100, 'c11'), (1, 1000, 'c111'), (3, 300, 'c33') x(id, b, c)) s ON t.id =
  s.id WHEN MATCHED THEN UPDATE SET b = s.b {inserted}
! more than one|match
SELECT * FROM t
> (1, 10, 'c1'), (2, 20, 'c2')
== MergeIntoTable: fail in case that update/insert same column multiple times
CREATE TABLE t (id INT, b INT, c STRING)
INSERT INTO t VALUES (1, 10, 'c1')
MERGE INTO t USING (SELECT * FROM VALUES (1, 100, 'c11'), (3, 300, 'c33') x(id, b, c)) s ON t.id = s.id WHEN MATCHED
  THEN UPDATE SET b = s.b, b = s.id {inserted}
! b
MERGE INTO t USING (SELECT * FROM VALUES (1, 100, 'c11'), (3, 300, 'c33') x(id, b, c)) s ON t.id = s.id {updated} WHEN
  NOT MATCHED THEN INSERT (id, id, c) VALUES (id, b, c)
! id
== WriteMergeSchema: nested struct with missing fields | grows
CREATE TABLE t (id INT, info STRUCT<f1 STRING, f2 STRING, f3 STRING>)
INSERT INTO t VALUES (1, struct('a', 'b', 'c'))
INSERT INTO t BY NAME SELECT 2 AS id, named_struct('f2', 'y', 'f3', 'z') AS info
INSERT INTO t BY NAME SELECT 3 AS id, named_struct('f1', 'x', 'f4', 'w', 'f3', 'z') AS info
SELECT * FROM t
> (1, ('a', 'b', 'c', None)), (2, (None, 'y', 'z', None)), (3, ('x', None, 'z', 'w'))
== WriteMergeSchema: nested struct with type evolution | widens
CREATE TABLE t (id INT, info STRUCT<f1 INT, f2 STRING>)
INSERT INTO t VALUES (1, struct(10, 'a'))
INSERT INTO t BY NAME SELECT 2 AS id, named_struct('f1', 20L, 'f3', 'new', 'f2', 'b') AS info
SELECT * FROM t
> (1, (10, 'a', None)), (2, (20, 'b', 'new'))
SELECT DISTINCT typeof(info.f1) FROM t
> ('bigint',)
== WriteMergeSchema: INT to BIGINT keeps target type | grows
CREATE TABLE t (id INT, value INT)
INSERT INTO t BY NAME SELECT 2 AS id, CAST(200 AS BIGINT) AS value
SELECT id, value, typeof(value) FROM t
> (2, 200, 'int')
"""
"""Structs whose fields are fewer, more or in another order, columns that are added and widened, MERGE that fails."""

ROWS = """
== DefaultValue: MAP TYPE
CREATE TABLE t (id BIGINT NOT NULL, col1 MAP<INT, DOUBLE> DEFAULT NULL, col2 MAP<INT, DOUBLE> DEFAULT map(), col3
  MAP<INT, DOUBLE> DEFAULT map(99, 9.5D))
INSERT INTO t VALUES (1, map(1, 1.5), map(2, 2.5), map(3, 3.5)), (3, map(7, 7.5), NULL, map(9, 9.5)), (4, map(10,
  1.5), map(11, 1.5), NULL), (5, NULL, NULL, NULL)
SELECT * FROM t
> (1, {1: 1.5}, {2: 2.5}, {3: 3.5}), (3, {7: 7.5}, {}, {9: 9.5}), (4, {10: 1.5}, {11: 1.5}, {99: 9.5}), (5,
  None, {}, {99: 9.5})
== SparkWrite (Java): write with default values of arrays, structs and maps
CREATE TABLE t (id INT, l ARRAY<INT> DEFAULT array(1, 2), s STRUCT<a: INT, b: STRING> DEFAULT struct(1, 'x'), m
  MAP<BIGINT, STRING> DEFAULT map(9, 'hi'))
INSERT INTO t (id) VALUES (1)
SELECT * FROM t
> (1, [1, 2], (1, 'x'), {9: 'hi'})
== DefaultValue: unsupported default value
CREATE TABLE t (a INT, b TIMESTAMP DEFAULT current_timestamp())
! current_timestamp|default
CREATE TABLE t (a INT DEFAULT 1)
ALTER TABLE t ALTER COLUMN a SET DEFAULT current_timestamp()
! current_timestamp|default
== Spark: FROM t INSERT INTO
CREATE TABLE t (id INT, v STRING)
CREATE TABLE few (id INT, v STRING)
CREATE TABLE ids (id INT)
INSERT INTO few VALUES (1, 'a'), (2, 'b')
FROM few INSERT INTO t SELECT id, v WHERE id > 1
SELECT * FROM t
> (2, 'b')
FROM few INSERT INTO t SELECT id + 10, v INSERT OVERWRITE ids SELECT id WHERE v = 'a'
! several commits
WITH q AS (SELECT 7 AS id, 'q' AS v) FROM q INSERT INTO t SELECT id, v
FROM few INSERT OVERWRITE t SELECT id + 10, v WHERE v = 'a'
SELECT * FROM t
> (11, 'a')
== PaimonQuery: Query input_file_name()
CREATE TABLE t (id INT, pt STRING) PARTITIONED BY (pt)
INSERT INTO t VALUES (1, '2024'), (3, '2024')
INSERT INTO t VALUES (2, '2025'), (6, '2026')
SELECT count(DISTINCT f) FROM (SELECT input_file_name() AS f FROM t)
> (3,)
SELECT id, regexp_replace(input_file_name(), '.*/t/(.*)/[^/]*[.]', '$1 ') FROM t WHERE id > 2
> (3, 'pt=2024/bucket-0 parquet'), (6, 'pt=2026/bucket-0 parquet')
SELECT count(*) FROM t WHERE NOT endswith(input_file_name(), __paimon_file_path)
> (0,)
== PaimonQuery: select from parquet datasource path under paimon catalog
CREATE TABLE t (id INT, name STRING)
INSERT INTO t VALUES (1, 'a')
SELECT * FROM parquet.`{warehouse}/db.db/t/bucket-0`
> (1, 'a')
== TableValuedFunctions: incremental query with inconsistent tag bucket
CREATE TABLE t (a INT, b INT) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '1')
INSERT INTO t VALUES (1, 11), (2, 22)
CALL sys.create_tag('db.t', 'd1', 1)
ALTER TABLE t SET TBLPROPERTIES ('bucket' = '2')
INSERT OVERWRITE t SELECT * FROM t
INSERT INTO t VALUES (3, 33)
CALL sys.create_tag('db.t', 'd3', 3)
DELETE FROM t WHERE a = 1
CALL sys.create_tag('db.t', 'd4', 4)
UPDATE t SET b = 222 WHERE a = 2
CALL sys.create_tag('db.t', 'd5', 5)
SELECT * FROM paimon_incremental_query('t', 'd1', 'd3')
> (3, 33)
SELECT * FROM paimon_incremental_query('t', 'd1', 'd4')
> (3, 33)
SELECT * FROM paimon_incremental_query('t', 'd1', 'd5')
> (2, 222), (3, 33)
SELECT * FROM paimon_incremental_query('`t$audit_log`', 'd1', 'd4')
> ('-D', 1, 11), ('+I', 3, 33)
SELECT * FROM paimon_incremental_query('`t$audit_log`', 'd1', 'd5')
> ('-D', 1, 11), ('+U', 2, 222), ('+I', 3, 33)
== DeleteFromTable: delete with lookup, deduplicate
CREATE TABLE t (id INT, name STRING, age INT) TBLPROPERTIES ('changelog-producer' = 'lookup', 'primary-key' = 'id',
  'merge-engine' = 'deduplicate')
INSERT INTO t VALUES (1, 'a', NULL)
INSERT INTO t VALUES (2, 'b', NULL)
INSERT INTO t VALUES (1, NULL, 16)
DELETE FROM t WHERE id = 1
SELECT * FROM t
> (2, 'b', None)
== DeleteFromTable: delete with lookup, first-row
CREATE TABLE t (id INT, name STRING, age INT) TBLPROPERTIES ('changelog-producer' = 'lookup', 'primary-key' = 'id',
  'merge-engine' = 'first-row')
INSERT INTO t VALUES (1, 'a', NULL)
INSERT INTO t VALUES (2, 'b', NULL)
INSERT INTO t VALUES (1, NULL, 16)
DELETE FROM t WHERE id = 1
SELECT * FROM t
> (2, 'b', None)
== DeleteFromTable: delete with lookup, partial-update
CREATE TABLE t (id INT, name STRING, age INT) TBLPROPERTIES ('changelog-producer' = 'lookup', 'primary-key' = 'id',
  'merge-engine' = 'partial-update', 'partial-update.remove-record-on-delete' = 'true')
INSERT INTO t VALUES (1, 'a', NULL)
INSERT INTO t VALUES (2, 'b', NULL)
INSERT INTO t VALUES (1, NULL, 16)
DELETE FROM t WHERE id = 1
SELECT * FROM t
> (2, 'b', None)
== DeleteFromTable: delete with lookup, aggregation
CREATE TABLE t (id INT, name STRING, age INT) TBLPROPERTIES ('changelog-producer' = 'lookup', 'primary-key' = 'id',
  'merge-engine' = 'aggregation', 'aggregation.remove-record-on-delete' = 'true')
INSERT INTO t VALUES (1, 'a', NULL)
INSERT INTO t VALUES (2, 'b', NULL)
INSERT INTO t VALUES (1, NULL, 16)
DELETE FROM t WHERE id = 1
SELECT * FROM t
> (2, 'b', None)
== DeleteFromTable: first-row table
CREATE TABLE t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'merge-engine' =
  'first-row')
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')
DELETE FROM t WHERE id = 3
SELECT * FROM t
> (1, 'a'), (2, 'b')
== PostponeBucketTable: compacted-full reads what was compacted
CREATE TABLE t (k INT, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'write-only' = 'true')
INSERT INTO t VALUES (1, 'base-1'), (2, 'base-2')
CALL sys.compact('db.t')
INSERT INTO t VALUES (1, 'new-1'), (3, 'new-3')
SET spark.paimon.scan.mode = compacted-full
SELECT * FROM t
> (1, 'base-1'), (2, 'base-2')
RESET spark.paimon.scan.mode
SELECT * FROM t
> (1, 'new-1'), (2, 'base-2'), (3, 'new-3')
== RowTracking: UPDATE whose condition names the sequence number
CREATE TABLE t (id INT, data INT) TBLPROPERTIES ('row-tracking.enabled' = 'true')
INSERT INTO t SELECT /*+ REPARTITION(1) */ id, id AS data FROM range(1, 4)
UPDATE t SET data = 22 WHERE id = 2
UPDATE t SET data = 67 WHERE _SEQUENCE_NUMBER = 2
SELECT *, _ROW_ID, _SEQUENCE_NUMBER FROM t
> (1, 1, 0, 1), (2, 67, 1, 3), (3, 3, 2, 1)
== Variant: nested variant in struct
CREATE TABLE t (id INT, data STRUCT<name: STRING, v: VARIANT>)
INSERT INTO t VALUES (1, struct('Alice', parse_json('{"score":95}'))), (2, struct('Bob', parse_json('{"score":88}')))
SELECT id, data.name, variant_get(data.v, '$.score', 'int') FROM t
> (1, 'Alice', 95), (2, 'Bob', 88)
SELECT data.name FROM t WHERE variant_get(data.v, '$.score', 'int') > 90
> ('Alice',)
"""
"""Defaults, DELETE by merge engine, and queries that name files, versions and scan modes."""

SCRIPTS = parsed(
    SCHEMAS + ROWS,
    keyed=KEYED,
    info=f"{INFO}\n{OLD}",
    narrow=NARROW,
    empty=INFO,
    both="WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    updated="WHEN MATCHED THEN UPDATE SET *",
    inserted="WHEN NOT MATCHED THEN INSERT *",
)


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    catalog = paimon_spark.attach(spark, str(tmp_path), name="twins")
    catalog.create_database("db")
    spark.sql("USE twins.db")
    yield tmp_path
    spark.catalog.setCurrentCatalog("spark_catalog")
    paimon_spark.detach(spark, "twins")


@pytest.mark.parametrize("script", params(SCRIPTS))
def test_rows_are_those_that_the_connectors_tests_expect(spark: SparkSession, warehouse: Path, script: Script) -> None:
    script.run(spark, warehouse, SETTINGS)
