"""Settings of the session, other types, and odd statements by catalog.sql, as Spark's own tables have them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import PaimonError
from tests.harness.doors import Door, refused
from tests.harness.real_tables import read

pytestmark = [pytest.mark.spark, pytest.mark.newest]


@pytest.fixture
def catalog(tmp_path: Path, door: Door) -> Catalog:
    made = door.load_catalog(str(tmp_path / "wh"))
    made.create_database("default")
    made.create_database("db")
    return made


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)


def test_settings_of_the_session_reach_every_statement_that_changes_rows(spark: SparkSession, catalog: Catalog) -> None:
    catalog.create_table("db.t", "id INT, p STRING, v INT", partition_keys=["p"])
    catalog.sql("INSERT INTO db.t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'b', 3), (4, 'c', 4)", session=spark)
    statements = (
        "INSERT INTO db.t VALUES (5, 'a', 5)",
        "UPDATE db.t SET v = v + 10 WHERE id = 2",
        "DELETE FROM db.t WHERE id = 3",
        "DELETE FROM db.t WHERE p = 'c'",
        "MERGE INTO db.t USING (SELECT 1 AS n) s ON t.id = s.n WHEN MATCHED THEN UPDATE SET v = 100",
        "TRUNCATE TABLE db.t PARTITION (p = 'a')",
    )

    tagged, users = [], []
    with (
        setting(spark, "spark.paimon.*.db.t.tag.automatic-creation", "batch"),
        setting(spark, "spark.paimon.*.db.t.commit.user-prefix", "night"),
    ):
        for statement in statements:
            catalog.sql(statement, session=spark)
            # One tag a day, of the last batch that wrote rows: not of partitions that only go.
            tagged.append([t.snapshot.id for t in catalog.table("db.t").tags()])
            users.append(catalog.table("db.t").snapshots()[-1].commit_user.partition("_")[0])

    assert tagged == [[2], [3], [4], [4], [6], [6]]
    assert users == ["night"] * len(statements)
    assert read(catalog.table("db.t")) == [(2, "b", 12)]


def test_updates_and_merges_take_empty_collections(spark: SparkSession, catalog: Catalog) -> None:
    catalog.create_table("db.t", "id INT, m MAP<STRING, INT>, a ARRAY<INT>, r ROW<x INT, y STRING>")
    catalog.sql(
        "INSERT INTO db.t VALUES (1, map('k', 1), array(1), struct(1, 'b')), (2, NULL, NULL, NULL)", session=spark
    )
    catalog.sql("UPDATE db.t SET m = map(), r = named_struct('x', NULL, 'y', 'z') WHERE id = 2", session=spark)
    catalog.sql(
        "MERGE INTO db.t USING (SELECT 1 AS n) s ON id = n WHEN MATCHED THEN UPDATE SET m = map(), a = array()",
        session=spark,
    )
    found = catalog.sql("SELECT * FROM db.t ORDER BY id", session=spark).collect()
    assert [tuple(r) for r in found] == [(1, {}, [], (1, "b")), (2, {}, None, (None, "z"))]


def test_commits_of_statements_go_by_the_prefix_of_the_session(spark: SparkSession, catalog: Catalog) -> None:
    catalog.create_table("db.t", "id INT, v INT")
    with setting(spark, "spark.paimon.commit.user-prefix", "nightly"):
        catalog.sql("INSERT INTO db.t VALUES (1, 1), (2, 2)", session=spark)
        catalog.sql("UPDATE db.t SET v = 3 WHERE id = 2", session=spark)
    users = catalog.sql("SELECT commit_user FROM db.`t$snapshots`", session=spark).collect()
    assert len(users) == 2
    assert all(user.startswith("nightly_") for (user,) in users)


def test_the_branch_of_the_session_is_where_statements_write_and_calls_work(
    spark: SparkSession, catalog: Catalog
) -> None:
    table = catalog.create_table("db.t", "id INT, v INT", primary_keys=["id"], options={"bucket": "1"})
    catalog.sql("INSERT INTO db.t VALUES (1, 1), (2, 2), (3, 3)", session=spark)
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.create_branch("other", tag="v1")

    with setting(spark, "spark.paimon.paimon.db.t.branch", "fix"):
        for statement in (
            "INSERT INTO db.t VALUES (4, 4)",
            "UPDATE db.t SET v = 20 WHERE id = 2",
            "DELETE FROM db.t WHERE id = 3",
            "MERGE INTO db.t USING (SELECT 1 AS n) s ON id = n WHEN MATCHED THEN UPDATE SET v = 10",
            "CALL sys.create_tag('db.t', 'corrected')",
            "ALTER TABLE db.t CREATE TAG checked",
            "DELETE FROM db.t$branch_other WHERE id = 1",
        ):
            catalog.sql(statement, session=spark)
        seen = sorted(tuple(r) for r in catalog.sql("SELECT * FROM db.t", session=spark).collect())

    assert seen == [(1, 10), (2, 20), (4, 4)]
    assert read(catalog.table("db.t")) == [(1, 1), (2, 2), (3, 3)]
    assert read(catalog.table("db.t$branch_fix")) == seen
    assert read(catalog.table("db.t$branch_other")) == [(2, 2), (3, 3)]
    assert {t.name for t in catalog.table("db.t$branch_fix").tags()} >= {"corrected", "checked"}
    assert not {"corrected", "checked"} & {t.name for t in catalog.table("db.t").tags()}


def test_a_version_of_the_session_is_for_its_queries_alone(spark: SparkSession, catalog: Catalog) -> None:
    catalog.create_table("db.t", "id INT, v INT", primary_keys=["id"], options={"bucket": "1"})
    catalog.sql("INSERT INTO db.t VALUES (1, 1)", session=spark)
    catalog.sql("INSERT INTO db.t VALUES (2, 2)", session=spark)

    with setting(spark, "spark.paimon.scan.snapshot-id", "1"):
        catalog.sql("UPDATE db.t SET v = 20 WHERE id = 2", session=spark)
        catalog.sql("DELETE FROM db.t WHERE id = 1", session=spark)
        seen = catalog.sql("SELECT * FROM db.t", session=spark).collect()

    assert [tuple(r) for r in seen] == [(1, 1)]
    assert read(catalog.table("db.t")) == [(2, 20)]


def test_a_column_is_described_with_what_analyze_found(spark: SparkSession, catalog: Catalog) -> None:
    catalog.create_table("db.t", "id INT, s STRING, n INT, never STRING")
    catalog.sql("INSERT INTO db.t VALUES (1, 'a', 7, 'x'), (5, 'abcd', NULL, 'y')", session=spark)

    def described(statement: str) -> dict[str, str]:
        return dict(tuple(row) for row in catalog.sql(statement, session=spark).collect())

    unknown = dict.fromkeys(
        ("min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len", "histogram"), "NULL"
    )
    of_id = {"col_name": "id", "data_type": "int", "comment": "NULL"}
    assert described("DESCRIBE EXTENDED db.t id") == {**of_id, **unknown}

    catalog.sql("ANALYZE TABLE db.t COMPUTE STATISTICS FOR COLUMNS id, s, n", session=spark)
    catalog.sql("ALTER TABLE db.t RENAME COLUMN n TO m", session=spark)

    assert described("DESCRIBE db.t ID") == of_id
    assert described("DESC EXTENDED db.t id") == {
        **of_id,
        "min": "1",
        "max": "5",
        "num_nulls": "0",
        "distinct_count": "2",
        "avg_col_len": "4",
        "max_col_len": "4",
        "histogram": "NULL",
    }
    of_text = described("DESCRIBE FORMATTED db.t s")
    assert (of_text["min"], of_text["avg_col_len"], of_text["max_col_len"]) == ("NULL", "3", "4")
    assert described("DESCRIBE EXTENDED db.t m")["num_nulls"] == "1"
    assert described("DESCRIBE EXTENDED db.t never") == {
        "col_name": "never",
        "data_type": "string",
        "comment": "NULL",
        **unknown,
    }


@pytest.mark.parametrize(
    ("statement", "words", "plain"),
    [
        ("CREATE TABLE db.t (a INT)", "or use CREATE TABLE IF NOT EXISTS", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE DATABASE db", "use CREATE DATABASE IF NOT EXISTS, or", "SCHEMA_ALREADY_EXISTS"),
        ("DROP DATABASE db", "or use DROP DATABASE … CASCADE", "SCHEMA_NOT_EMPTY"),
        ("ALTER TABLE db.t CREATE BRANCH fix", "or use CREATE BRANCH IF NOT EXISTS", None),
        ("ALTER TABLE db.t CREATE TAG v1", "CREATE OR REPLACE TAG moves it, DELETE TAG deletes it", None),
        ("ALTER TABLE db.t DROP PARTITION (p = 1)", "no partitions to choose from", None),
        ("CALL sys.create_tag('db.t', 'v1')", "replace_tag moves it, delete_tag deletes it", None),
        ("CALL sys.create_tag('db.t', 'v2', 1, 'soon')", "give text such as '7 d'", None),
        ("CALL sys.create_branch('db.t', 'fix', 'v1')", "or ignoreIfExists => 'true'", None),
        (
            "CALL sys.create_branch(table => 'db.t', branch => 'b', tag => 'v1', snapshot => 2)",
            "but snapshot is 2",
            None,
        ),
        ("INSERT INTO db.t BY NAME SELECT 1 AS id, 1 AS w", "or SET spark.paimon.write.merge-schema=true to add", None),
    ],
)
def test_errors_speak_of_what_the_statement_can_say(
    spark: SparkSession, catalog: Catalog, statement: str, words: str, plain: str | None
) -> None:
    """`plain` is Spark's condition where plain `spark.sql` has Spark's own words."""
    table = catalog.create_table("db.t", "id INT, v INT")
    for n in (1, 2):
        table.write(pa.table({"id": pa.array([n], pa.int32()), "v": pa.array([n], pa.int32())}))
    table.create_tag("v1", snapshot_id=1)
    table.create_branch("fix", tag="v1")

    with refused(catalog, PaimonError, plain=plain) as raised:
        catalog.sql(statement, session=spark)

    text = str(raised.value)
    if isinstance(raised.value, AnalysisException):
        assert raised.value.getCondition() == plain is not None
        return
    assert words in text
    if isinstance(raised.value, PySparkException):
        return
    assert text == raised.value.args[0] == str(pickle.loads(pickle.dumps(raised.value)))
    assert re.search(r"=True|=False|timedelta|_id=|leave partitions", text) is None


def test_fields_of_structs_are_filled_by_place_where_columns_are(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    columns = "id INT, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<c: INT>>, m MAP<STRING, STRUCT<d: INT, e: INT>>"
    catalog.create_table("db.t", columns)
    spark.sql(f"CREATE TABLE plain ({columns}) USING parquet LOCATION '{tmp_path / 'plain'}'")
    try:
        for values in (
            "1, struct(1, 'x'), array(struct(2)), map('k', struct(3, 4))",
            "2, named_struct('b', 7, 'a', 'seven'), NULL, map()",
            "3, NULL, array(), NULL",
            "5, struct(5, NULL), array(NULL), map('k', NULL)",
        ):
            spark.sql(f"INSERT INTO plain SELECT {values}")
            catalog.sql(f"INSERT INTO db.t SELECT {values}", session=spark)
        catalog.sql(
            "INSERT INTO db.t BY NAME SELECT 4 AS id, named_struct('b', 'y', 'a', NULL) AS s, array() AS l",
            session=spark,
        )
        spark.sql("INSERT INTO plain BY NAME SELECT 4 AS id, named_struct('b', 'y', 'a', NULL) AS s, array() AS l")
        expected = sorted(map(tuple, spark.table("plain").collect()))
    finally:
        spark.sql("DROP TABLE plain")

    assert sorted(map(tuple, catalog.sql("SELECT * FROM db.t", session=spark).collect())) == expected
    assert expected[1][1] == (7, "seven")


ODD: tuple[tuple[str, set[int], Any], ...] = (
    ("SELECT id FROM db.a VERSION   AS\n\t OF   fix.v2", {1, 3}, None),
    ("SELECT id FROM db.a version /* c */ as -- d\n of fix.v2 WHERE id > 1", {3}, None),
    ("SELECT x.id FROM db.a VERSION AS OF fix.v2 AS x FULL JOIN db.a VERSION AS OF v1 y ON x.id = y.id", {1, 3}, None),
    ("SELECT id FROM db.a VERSION AS OF rel-1.0", {1}, None),
    ("SELECT id FROM db.a VERSION AS OF fix.`v2`", {1, 3}, None),
    ("SELECT id FROM db.a$branch_fix VERSION AS OF 1", {1}, None),
    ("SELECT id FROM db.a VERSION AS OF 1 version WHERE version.id = 1", {1}, None),
    ("SELECT id version FROM db.a", {1, 2}, None),
    ("WITH a AS (SELECT id FROM db.a VERSION AS OF 1) SELECT id FROM a", {1}, None),
    (
        (
            "WITH q AS (TABLE db.a VERSION AS OF fix.v2) "
            "SELECT id FROM q WHERE id IN (SELECT id FROM db.a VERSION AS OF 1)"
        ),
        {1},
        None,
    ),
    ("SELECT (SELECT max(id) FROM db.a VERSION AS OF fix.v2) AS m FROM db.a VERSION AS OF 1", {3}, None),
    (
        (
            "SELECT x.id FROM db.a VERSION AS OF fix.v2 x, "
            "LATERAL (SELECT id FROM db.a VERSION AS OF 1 y WHERE y.id = x.id)"
        ),
        {1},
        None,
    ),
    ("SELECT id FROM db.a VERSION AS OF fix.v2 EXCEPT SELECT id FROM db.a VERSION AS OF 1", {3}, None),
    ("FROM db.a VERSION AS OF fix.v2 |> WHERE id > 1 |> SELECT id", {3}, None),
    ("SELECT id FROM db.a VERSION AS OF ? WHERE id = ?", {1}, ["v1", 1]),
    ("SELECT id FROM db.a VERSION AS OF :v x WHERE x.id = :i", {3}, {"v": "fix.v2", "i": 3}),
    ("SELECT id FROM db.a TIMESTAMP AS OF current_timestamp() - INTERVAL 0 SECONDS WHERE id = 2", {2}, None),
    ("SELECT id FROM db.a WITH (`scan.tag-name` = 'v1') z WHERE z.id = 1", {1}, None),
)


def test_versions_stand_in_odd_statements(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("db.a", "id INT")
    table.write(pa.table({"id": pa.array([1], pa.int32())}))
    table.create_tag("v1")
    table.create_tag("rel-1.0")
    table.create_branch("fix", tag="v1")
    table.write(pa.table({"id": pa.array([2], pa.int32())}))
    table.branch("fix").write(pa.table({"id": pa.array([3], pa.int32())}))
    table.branch("fix").create_tag("v2")

    found = {sql: {row[0] for row in catalog.sql(sql, args=args, session=spark).collect()} for sql, _, args in ODD}

    assert found == {sql: expected for sql, expected, _ in ODD}
