"""INSERT, DELETE, UPDATE, MERGE and TRUNCATE by catalog.sql, on every kind of table."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import (
    ColumnNotFoundError,
    DataError,
    InvalidInputError,
    PaimonError,
    SchemaMismatchError,
    SqlSyntaxError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.harness.doors import Door, refused
from tests.harness.marks import slow_except
from tests.harness.real_tables import read
from tests.harness.recorded import came_from, recording_catalog, said

pytestmark = [pytest.mark.spark, pytest.mark.newest]

KINDS: dict[str, dict[str, Any]] = {
    "partitioned": {"partition_keys": ["p"]},
    "vectors": {"partition_keys": ["p"], "options": {"deletion-vectors.enabled": "true"}},
    "keys": {"primary_keys": ["id"], "options": {"bucket": "2"}},
    "dynamic": {"primary_keys": ["id", "p"], "partition_keys": ["p"]},
}
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def catalog(tmp_path: Path, door: Door) -> Catalog:
    made = door.load_catalog(str(tmp_path / "wh"))
    made.create_database("default")
    made.create_database("db")
    return made


@pytest.fixture
def sql(spark: SparkSession, catalog: Catalog) -> Any:
    def run(statement: str, args: Any = None) -> None:
        assert catalog.sql(statement, args=args, session=spark).columns[:1] in ([], ["num_affected_rows"])

    return run


@pytest.mark.quick
def test_the_inserts_of_paimons_documentation(spark: SparkSession, catalog: Catalog, sql: Any) -> None:
    catalog.create_table("default.my_table", "id INT, pt STRING", partition_keys=["pt"])

    def found() -> list[tuple[Any, ...]]:
        return read(catalog.table("default.my_table"))

    both = [(1, "p1"), (2, "p2")]
    for overwrite in (
        "INSERT OVERWRITE my_table VALUES (3, 'p1')",
        "INSERT OVERWRITE my_table PARTITION (pt) VALUES (3, 'p1')",
    ):
        sql("TRUNCATE TABLE my_table")
        assert found() == []
        sql("INSERT INTO my_table VALUES (1, 'p1'), (2, 'p2')")
        assert found() == both
        sql(overwrite)
        assert found() == [(3, "p1")]
    sql("INSERT OVERWRITE my_table SELECT * FROM VALUES (1, 'p1'), (2, 'p2') AS x(a, b)")
    sql("INSERT OVERWRITE my_table PARTITION (pt='p1') VALUES (3)")
    assert found() == [(2, "p2"), (3, "p1")]
    spark.conf.set(OVERWRITE_MODE, "dynamic")
    try:
        sql("INSERT OVERWRITE my_table VALUES (4, 'p1')")
        assert found() == [(2, "p2"), (4, "p1")]
        sql("INSERT OVERWRITE my_table SELECT * FROM my_table WHERE false")
        assert found() == [(2, "p2"), (4, "p1")]
        sql("INSERT OVERWRITE my_table PARTITION (pt = 'p2') SELECT 5 WHERE false")
        assert found() == [(4, "p1")]
    finally:
        spark.conf.unset(OVERWRITE_MODE)
    sql("INSERT OVERWRITE my_table SELECT id + 1, pt FROM my_table")
    assert found() == [(5, "p1")]
    sql("INSERT INTO my_table PARTITION (pt = 'it''s, `odd`=') (id) SELECT 6")
    sql("INSERT OVERWRITE my_table PARTITION (pt = 'it''s, `odd`=') SELECT id + 1 FROM my_table WHERE id = 6")
    assert found() == [(5, "p1"), (7, "it's, `odd`=")]
    sql("TRUNCATE TABLE my_table PARTITION (pt = 'p1')")
    assert found() == [(7, "it's, `odd`=")]
    sql("INSERT OVERWRITE my_table SELECT * FROM my_table WHERE false")
    assert found() == []


def test_columns_of_an_insert_go_by_position_by_list_and_by_name(
    spark: SparkSession, catalog: Catalog, sql: Any
) -> None:
    catalog.create_table(
        "db.t", "id BIGINT NOT NULL, `a.b` STRING DEFAULT 'none', f DOUBLE, p INT, q DATE", partition_keys=["p", "q"]
    )
    sql("INSERT INTO db.t PARTITION (p = 1, q = DATE '2024-01-01') VALUES (1, 'x', 1.5), (2, DEFAULT, NULL)")
    sql("INSERT INTO db.t PARTITION (q = '2024-01-02') (p, id) SELECT 2, 3")
    sql("INSERT INTO db.t (id) VALUES (:id)", {"id": 4})
    sql("INSERT INTO db.t BY NAME SELECT 5 AS ID, 0.5 AS F")
    sql("INSERT INTO db.t TABLE db.t")
    day = {n: __import__("datetime").date(2024, 1, n) for n in (1, 2)}
    expected = [
        (1, "x", 1.5, 1, day[1]),
        (2, "none", None, 1, day[1]),
        (3, "none", None, 2, day[2]),
        (4, "none", None, None, None),
        (5, "none", 0.5, None, None),
    ]
    assert read(catalog.table("db.t")) == [row for row in expected for _ in range(2)]
    sql("INSERT INTO db.t REPLACE WHERE q = '2024-01-02' AND p = 2 SELECT 9, 'r', NULL, 2, DATE '2024-01-02'")
    assert [r for r in read(catalog.table("db.t")) if r[3] == 2] == [(9, "r", None, 2, day[2])]
    before = read(catalog.table("db.t"))
    for statement, error, message in (
        ("INSERT INTO db.t VALUES (1, 'x')", SchemaMismatchError, "has 2 columns.*5 of table db.t"),
        ("INSERT INTO db.t (id, id) VALUES (1, 2)", InvalidInputError, "named twice"),
        ("INSERT INTO db.t (idd) VALUES (1)", ColumnNotFoundError, "did you mean 'id'"),
        ("INSERT INTO db.t (id) VALUES ('1')", SchemaMismatchError, "CAST"),
        ("INSERT INTO db.t (id) VALUES (1.5)", SchemaMismatchError, "CAST"),
        ("INSERT INTO db.t (p) VALUES (1)", SchemaMismatchError, "NOT NULL"),
        ("INSERT INTO db.t (id, p) VALUES (1, 3000000000)", DataError, "3000000000"),
        ("INSERT INTO db.t BY NAME SELECT 1 AS id, 2 AS more", SchemaMismatchError, "no column 'more'"),
        ("INSERT INTO db.t PARTITION (id = 1) VALUES (1)", InvalidInputError, "not a partition column"),
        (
            "INSERT INTO db.t PARTITION (p = 'x') (id) VALUES (1)",
            InvalidInputError,
            "not a value of partition column 'p'",
        ),
        ("INSERT OVERWRITE db.t PARTITION (p = 1) IF NOT EXISTS TABLE db.t", UnsupportedFeatureError, "IF NOT"),
        ("INSERT INTO db.t REPLACE WHERE id = 1 TABLE db.t", UnsupportedFeatureError, "partition columns"),
        ("INSERT INTO db.t REPLACE WHERE p = 1 OR true TABLE db.t", UnsupportedFeatureError, "partition columns"),
        ("INSERT INTO db.t REPLACE WHERE p = 7 SELECT 1, 'x', NULL, 8, NULL", InvalidInputError, "not among them"),
        ("INSERT INTO db.t$files SELECT 1", InvalidInputError, "system table"),
        ("INSERT INTO db.tt SELECT 1", TableNotFoundError, "did you mean 't'"),
        ("COPY INTO db.t FROM '/x' FILE_FORMAT = (TYPE = CSV)", UnsupportedFeatureError, "INSERT INTO db.t BY NAME"),
        ("LOAD DATA INPATH '/x' INTO TABLE db.t", UnsupportedFeatureError, "INSERT INTO t"),
        ("FROM db.t INSERT INTO db.t SELECT * INSERT INTO db.t SELECT *", UnsupportedFeatureError, "several commits"),
        ("INSERT INTO db.t", SqlSyntaxError, "a query"),
    ):
        with refused(catalog, error, match=message):
            sql(statement)
    assert read(catalog.table("db.t")) == before


def test_the_schema_grows_where_the_session_or_the_statement_says_so(
    spark: SparkSession, catalog: Catalog, sql: Any
) -> None:
    catalog.create_table("default.t", "a INT, b STRING")
    spark.conf.set("spark.paimon.write.merge-schema", "true")
    try:
        sql("INSERT INTO t VALUES (1, '1'), (2, '2')")
        sql("INSERT INTO t BY NAME SELECT 3 AS a, '3' AS b, 3 AS c")
    finally:
        spark.conf.unset("spark.paimon.write.merge-schema")
    sql("INSERT INTO t WITH ('write.merge-schema' = 'true') BY NAME SELECT 4 AS a, true AS d")
    assert read(catalog.table("default.t")) == [
        (1, "1", None, None),
        (2, "2", None, None),
        (3, "3", 3, None),
        (4, None, None, True),
    ]


def test_hive_style_partitions_come_last(spark: SparkSession, catalog: Catalog, sql: Any) -> None:
    catalog.create_table("default.t", "pt STRING, id INT, hh STRING", partition_keys=["pt", "hh"])
    setting = "spark.paimon.write.hive-style-dynamic-partition.enabled"
    spark.conf.set(setting, "true")
    try:
        sql("INSERT INTO t PARTITION (pt, hh) SELECT 1 AS x, 'p' AS y, 'h' AS z")
        sql("INSERT INTO t PARTITION (hh, pt) SELECT 2, 'p', 'h'")  # in the order of the table's partitions, as Java
        sql("INSERT INTO t PARTITION (pt = 'q', hh) SELECT 3, 'h'")
        sql("INSERT INTO t PARTITION (pt, hh = 'i') SELECT 4, 'p'")
        sql("INSERT INTO t PARTITION (pt, hh) SELECT 'p' AS pt, 5 AS id, 'h' AS hh")
        sql("INSERT INTO t VALUES ('p', 6, 'h')")
        sql("INSERT OVERWRITE t PARTITION (pt, hh) SELECT * FROM VALUES (7, 'p', 'j'), (8, 'p', 'j')")
    finally:
        spark.conf.unset(setting)
    assert read(catalog.table("default.t")) == [("p", 7, "j"), ("p", 8, "j")]
    sql("INSERT INTO t PARTITION (pt, hh) SELECT 'p', 9, 'h'")
    assert ("p", 9, "h") in read(catalog.table("default.t"))


@pytest.mark.parametrize("keys", [["a"], []])
def test_a_statement_that_fails_leaves_the_schema(spark: SparkSession, catalog: Catalog, sql: Any, keys: Any) -> None:
    options = {"bucket": "1"} if keys else {}
    catalog.create_table("default.t", "a INT, b STRING, s STRUCT<x: INT>", primary_keys=keys, options=options)
    sql("INSERT INTO t VALUES (1, '1', named_struct('x', 1)), (2, '2', named_struct('x', 2))")
    before = catalog.table("default.t").schema
    set_to = "WITH ('write.merge-schema' = 'true') BY NAME"
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        sql(f"INSERT INTO t {set_to} SELECT CAST(concat('x', id) AS INT) AS a, id AS c FROM range(3)")
    spark.conf.set("spark.paimon.write.merge-schema", "true")
    on = "ON t.a = s.a WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    new = "named_struct('y', a + 1, 'x', a) AS s, a * 10 AS c"
    try:
        with refused(catalog, PaimonError, match="matches several rows of the source"):
            sql(f"MERGE INTO t USING (SELECT a, 'm' AS b, {new} FROM VALUES (1), (1) AS v(a)) s {on}")
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            sql(f"MERGE INTO t USING (SELECT a, CAST('m' AS INT) AS b, {new} FROM VALUES (1), (3) AS v(a)) s {on}")
        assert catalog.table("default.t").schema == before
        assert read(catalog.table("default.t")) == [(1, "1", {"x": 1}), (2, "2", {"x": 2})]
        sql(f"MERGE INTO t USING (SELECT a, 'm' AS b, {new} FROM VALUES (1), (3) AS v(a)) s {on}")
    finally:
        spark.conf.unset("spark.paimon.write.merge-schema")
    assert read(catalog.table("default.t")) == [
        (1, "m", {"x": 1, "y": 2}, 10),
        (2, "2", {"x": 2, "y": None}, None),
        (3, "m", {"x": 3, "y": 4}, 30),
    ]


@pytest.fixture
def of_spark(spark: SparkSession) -> Iterator[None]:
    """A temporary view of Spark."""
    spark.createDataFrame([(8,)], "n INT").createOrReplaceTempView("of_spark")
    yield
    spark.catalog.dropTempView("of_spark")


@pytest.mark.usefixtures("of_spark")
@pytest.mark.parametrize("kind", slow_except(KINDS, "keys"))
def test_rows_change_by_any_condition(catalog: Catalog, sql: Any, kind: str) -> None:
    catalog.create_table("db.t", "id INT, p STRING, v INT, s STRUCT<a: INT, `b c`: STRING>", **KINDS[kind])
    catalog.create_table("default.other", "id INT")
    sql("INSERT INTO db.t SELECT id, 'p' || id % 3, id * 10, named_struct('a', id, 'b c', 'x') FROM range(9)")
    sql("INSERT INTO other VALUES (1), (2), (NULL)")
    expected: dict[int, tuple[Any, ...]]
    expected = {i: (i, f"p{i % 3}", i * 10, {"a": i, "b c": "x"}) for i in range(9)}

    def check() -> None:
        assert read(catalog.table("db.t")) == list(expected.values())

    sql("DELETE FROM db.t AS `the t` WHERE `the t`.id IN (SELECT id FROM other) AND v = :v", {"v": 10})
    del expected[1]
    check()
    sql("DELETE FROM db.t WHERE EXISTS (SELECT 1 FROM of_spark WHERE n = db.t.id) OR id = ? AND p = ?", [7, "p1"])
    del expected[7], expected[8]
    check()
    sql("UPDATE db.t SET s.`b c` = 'it''s {x}', v = v + (SELECT max(id) FROM other) WHERE db.t.v > 40")
    for i in (5, 6):
        expected[i] = (i, f"p{i % 3}", i * 10 + 2, {"a": i, "b c": "it's {x}"})
    check()
    sql("WITH q AS (SELECT 2 AS id) UPDATE db.t x SET V = NULL, x.s = NULL WHERE x.id = (SELECT id FROM q)")
    expected[2] = (2, "p2", None, None)
    check()
    sql("DELETE FROM db.t WHERE v IS NULL")
    del expected[2]
    check()
    snapshots = len(catalog.table("db.t").snapshots())
    sql("DELETE FROM db.t WHERE p = 'nowhere'")
    sql("DELETE FROM db.t WHERE false")
    assert len(catalog.table("db.t").snapshots()) == snapshots
    sql("DELETE FROM db.t WHERE p IN ('p0', 'p9')")
    expected = {i: r for i, r in expected.items() if r[1] != "p0"}
    check()
    for statement, error, message in (
        ("UPDATE db.t SET nothing = 1", ColumnNotFoundError, "no column 'nothing'"),
        ("UPDATE db.t SET s.d = 1", ColumnNotFoundError, "no field 'd'"),
        ("UPDATE db.t SET v.d = 1", InvalidInputError, "not a STRUCT"),
        ("UPDATE db.t SET v = 1, V = 2", InvalidInputError, "set twice"),
        ("UPDATE db.t SET v = 'text'", SchemaMismatchError, "CAST"),
    ):
        with refused(catalog, error, match=message):
            sql(statement)
    check()
    sql("DELETE FROM db.t")
    assert read(catalog.table("db.t")) == []


@pytest.mark.parametrize("kind", slow_except(KINDS, "keys"))
def test_the_merge_of_paimons_documentation_and_all_kinds_of_clauses(
    spark: SparkSession, catalog: Catalog, sql: Any, kind: str
) -> None:
    catalog.create_table("default.target", "id INT, p STRING, c STRING, d INT DEFAULT 7", **KINDS[kind])
    catalog.create_table("db.source", "id INT, p STRING, c STRING, d INT", primary_keys=["id"])
    sql("INSERT INTO target SELECT id, 'p' || id % 2, 'c' || id, 0 FROM range(8)")
    sql("INSERT INTO db.source SELECT id, 'p' || id % 2, 's' || id, 100 FROM range(4, 12)")
    sql(
        """MERGE INTO target USING db.source ON target.id = source.id AND target.p = db.source.p
        WHEN MATCHED AND target.id = 5 THEN UPDATE SET d = source.d + target.d + 0, c = concat(target.c, source.c)
        WHEN MATCHED AND source.c > 's5' THEN UPDATE SET *
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND c > 's8' THEN INSERT (id, p, c) VALUES (id, p, CASE WHEN id = 9 THEN 'nine' END)
        WHEN NOT MATCHED BY TARGET AND id = 10 THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND id = 0 THEN UPDATE SET c = NULL, d = DEFAULT
        WHEN NOT MATCHED BY SOURCE AND c IN ('c1', 'c2') THEN DELETE"""
    )
    expected = [
        (0, "p0", None, 7),
        (3, "p1", "c3", 0),
        (5, "p1", "c5s5", 100),
        (6, "p0", "s6", 100),
        (7, "p1", "s7", 100),
        (9, "p1", "nine", 7),
        (10, "p0", "s10", 100),
    ]
    assert read(catalog.table("default.target")) == expected
    twice = "(SELECT 3 AS id UNION ALL SELECT 3) AS s ON t.id = s.id"
    for statement, error, message in (
        (f"MERGE INTO target t USING {twice} WHEN MATCHED THEN UPDATE SET c = 'x'", DataError, "several rows"),
        (f"MERGE INTO target t USING {twice} WHEN MATCHED AND t.d > 9 THEN DELETE", DataError, "several rows"),
        (
            "MERGE INTO target USING db.source s ON target.id = s.id AND s.id IN (SELECT 1) WHEN MATCHED THEN DELETE",
            UnsupportedFeatureError,
            "put it into",
        ),
        (
            "MERGE INTO target t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            SchemaMismatchError,
            "no column p, c, d",
        ),
        (
            "MERGE INTO target t USING (SELECT 3 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET d = 'x'",
            SchemaMismatchError,
            "CAST",
        ),
    ):
        with refused(catalog, error, match=message):
            sql(statement)
    assert read(catalog.table("default.target")) == expected
    sql(f"MERGE INTO target t USING {twice} WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND id > 5 THEN DELETE")
    assert [r[0] for r in read(catalog.table("default.target"))] == [0, 5]
    sql("MERGE INTO target t USING (SELECT :n AS n) ON id = n WHEN MATCHED THEN UPDATE SET c = :c", {"n": 5, "c": "?"})
    assert (5, "p1", "?", 100) in read(catalog.table("default.target"))


def test_branches_and_tables_of_spark_are_written_by_their_names(
    spark: SparkSession, catalog: Catalog, sql: Any, tmp_path: Path, door: Door
) -> None:
    catalog.create_table("default.t", "id INT, v STRING", primary_keys=["id"], options={"bucket": "1"})
    sql("INSERT INTO t VALUES (1, 'main')")
    catalog.table("default.t").create_branch("fix", snapshot_id=1)
    sql("INSERT INTO t$branch_fix VALUES (2, 'a'), (3, 'b')")
    sql("UPDATE default.`t$branch_fix` b SET v = 'x' WHERE b.id = 2")
    sql("DELETE FROM t$branch_fix WHERE id = 3")
    sql("MERGE INTO t$branch_fix b USING t ON t.id = b.id WHEN MATCHED THEN UPDATE SET v = t.v || '!'")
    assert read(catalog.table("default.t$branch_fix")) == [(1, "main!"), (2, "x")]
    assert read(catalog.table("default.t")) == [(1, "main")]
    sql("TRUNCATE TABLE t$branch_fix")
    assert (read(catalog.table("default.t$branch_fix")), read(catalog.table("default.t"))) == ([], [(1, "main")])
    of_spark = "spark_catalog.default.rows_of_spark"
    spark.sql(f"CREATE TABLE rows_of_spark (id INT, v STRING) USING parquet LOCATION '{tmp_path / 'sp'}'")
    try:
        sql(f"INSERT INTO {of_spark} SELECT * FROM t")
        assert [tuple(r) for r in spark.table("rows_of_spark").collect()] == [(1, "main")]
        sql(f"INSERT INTO t SELECT id + 1, v FROM {of_spark}")
        assert read(catalog.table("default.t")) == [(1, "main"), (2, "main")]
    finally:
        spark.sql("DROP TABLE rows_of_spark")
    assert not [t.name for t in spark.catalog.listTables() if t.isTemporary and t.name.startswith("paimon_")]


def test_inserts_from_the_table_itself_and_by_others_at_once_lose_nothing(
    spark: SparkSession, catalog: Catalog, sql: Any
) -> None:
    catalog.create_table("db.t", "id INT, v INT")
    sql("INSERT INTO db.t VALUES (1, 1), (2, 2)")
    errors: list[BaseException] = []

    def insert(number: int) -> None:
        try:
            catalog.sql(f"INSERT INTO db.t SELECT id + {number}, v FROM db.t WHERE id < 10", session=spark)
        except BaseException as e:  # noqa: BLE001 - shown below
            errors.append(e)

    threads = [threading.Thread(target=insert, args=(n,)) for n in (10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [r[0] for r in read(catalog.table("db.t"))] == [1, 2, 11, 12, 21, 22, 31, 32]


def test_what_a_statement_reads_is_recorded_as_its_source_and_nothing_that_others_read(
    spark: SparkSession, tmp_path: Path, door: Door
) -> None:
    import pyarrow as pa

    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    catalog = door.through(recording_catalog(tmp_path / "wh", "abxy", schema))

    def run(statement: str) -> None:
        catalog.sql(statement, session=spark)

    run("INSERT INTO db.a VALUES (1, 'a'), (2, 'b')")
    assert (came_from(catalog.table("db.a")), said(catalog.table("db.a")).knows_sources) == ({}, True)
    run("INSERT INTO db.b SELECT id, 'z' FROM db.a")
    assert came_from(catalog.table("db.b")) == {"db.a": 1}
    run("INSERT INTO db.x SELECT a.id, b.v FROM db.a JOIN db.b ON a.id = b.id")
    assert came_from(catalog.table("db.x")) == {"db.a": 1, "db.b": 1}
    run("MERGE INTO db.x USING db.b ON x.id = b.id AND b.id = 1 WHEN MATCHED THEN UPDATE SET v = b.v || '!'")
    assert came_from(catalog.table("db.x")) == {"db.b": 1}
    run("UPDATE db.x SET v = 'u' WHERE id IN (SELECT id FROM db.a WHERE id = 2)")
    assert came_from(catalog.table("db.x")) == {"db.a": 1}
    run("DELETE FROM db.x WHERE id = 1")
    assert (came_from(catalog.table("db.x")), said(catalog.table("db.x")).knows_sources) == ({}, True)
    assert read(catalog.table("db.x")) == [(2, "u")]
    assert {said(catalog.table(f"db.{n}")).barrier for n in "abx"} == {0}
    assert [j.name.rpartition(":")[0] for j in catalog.lineage.jobs()] == [
        "db.a:insert", "db.b:insert", "db.x:delete", "db.x:insert", "db.x:merge", "db.x:update",
    ]  # fmt: skip
    named = door.load_catalog(str(tmp_path / "wh"), **{"lineage.job": "nightly"})
    named.sql("INSERT INTO db.y SELECT * FROM db.x", session=spark)
    assert (said(catalog.table("db.y")).job, came_from(catalog.table("db.y"))) == ("nightly", {"db.x": 4})
