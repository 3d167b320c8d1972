"""Definitions of tables and databases by SQL: made, changed, replaced, dropped; of the catalog, or Spark's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    PaimonError,
    SqlSyntaxError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    WarehouseNotFoundError,
)
from tests.harness import doors
from tests.harness.doors import Door, rows

pytestmark = [pytest.mark.spark, pytest.mark.newest, pytest.mark.catalog_door]


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path, door: Door) -> Catalog:
    spark.conf.unset("spark.paimon-spark.current-database")
    for view in spark.catalog.listTables():
        if view.isTemporary:  # another test's, which would hide a table of its name
            spark.catalog.dropTempView(view.name)
    return door.load_catalog(str(tmp_path / "w"))


def run(catalog: Catalog, *statements: str) -> None:
    for statement in statements:
        assert catalog.sql(statement).columns[:1] in ([], ["num_affected_rows"]), statement


def refused(catalog: Catalog, sql: str, kind: type[PaimonError], *parts: str, plain: str | None = None) -> None:
    with doors.refused(catalog, kind, ".*".join(map(re.escape, parts)), plain=plain):
        catalog.sql(sql)


def definition(catalog: Catalog, name: str) -> dict[str, Any]:
    table = catalog.table(name)
    path = Path(table.location.removeprefix("file://")) / "schema" / f"schema-{table.schema.id}"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def shape(catalog: Catalog, name: str) -> list[tuple[int, str, Any]]:
    return [(f["id"], f["name"], f["type"]) for f in definition(catalog, name)["fields"]]


def test_a_warehouse_that_does_not_exist_is_reported(catalog: Catalog) -> None:
    for statement in ("CREATE TABLE db.t (a INT)", "SELECT * FROM db.t", "SHOW TABLES IN db"):
        refused(catalog, statement, WarehouseNotFoundError, "there is no warehouse at", "catalog.create_database")
    assert rows(catalog, "SHOW DATABASES") == []
    run(catalog, "CREATE DATABASE IF NOT EXISTS db")
    assert [row[0] for row in catalog.sql("SHOW DATABASES").collect()] == ["db"]


@pytest.mark.quick
def test_a_table_is_made_as_its_clauses_say(catalog: Catalog) -> None:
    run(
        catalog,
        "CREATE DATABASE IF NOT EXISTS db",
        """CREATE TABLE db.t (
            user_id BIGINT COMMENT 'who', Item BIGINT NOT NULL, behavior STRING DEFAULT 'pv',
            s STRUCT<f1: STRING, f2: INT NOT NULL>, dt STRING, hh STRING
        ) USING paimon PARTITIONED BY (DT, hh) COMMENT 'all of it'
        TBLPROPERTIES ('primary-key' = 'dt,HH,user_id', 'bucket' = '2', 'file.format' = 'orc')""",
    )
    found = definition(catalog, "db.t")
    assert found["partitionKeys"] == ["dt", "hh"]
    assert found["primaryKeys"] == ["dt", "hh", "user_id"]
    assert found["options"] == {"bucket": "2", "file.format": "orc"}
    assert found["comment"] == "all of it"
    fields = {f["name"]: f for f in found["fields"]}
    assert list(fields) == ["user_id", "Item", "behavior", "s", "dt", "hh"]
    assert fields["user_id"] == {"id": 0, "name": "user_id", "type": "BIGINT NOT NULL", "description": "who"}
    assert fields["behavior"]["defaultValue"] == "'pv'"
    assert [f["type"] for f in fields["s"]["type"]["fields"]] == ["STRING", "INT NOT NULL"]
    # Nothing happens the second time, whatever the columns; without IF NOT EXISTS it is an error.
    run(catalog, "CREATE TABLE IF NOT EXISTS paimon.db.t (other INT)")
    assert definition(catalog, "db.t") == found
    refused(catalog, "CREATE TABLE db.t (a INT)", TableAlreadyExistsError, "db.t")
    # The database `default` is there when it is needed.
    run(catalog, "CREATE TABLE t (`a.b` INT, `Ünï` STRING)")
    assert catalog.list_tables("default") == ["t"]
    run(catalog, "INSERT INTO t VALUES (1, 'x')", "DROP TABLE t")
    refused(catalog, "DROP TABLE db.tt", TableNotFoundError, "did you mean", "t")
    run(catalog, "DROP TABLE IF EXISTS db.tt", "DROP TABLE db.t PURGE")
    assert catalog.list_tables("db") == []


def test_what_no_table_can_be_is_refused_and_leaves_nothing(catalog: Catalog, tmp_path: Path) -> None:
    run(catalog, "CREATE DATABASE db")
    shapes: list[tuple[Any, ...]] = [
        ("(a INT) PARTITIONED BY (substr(a, 1))", UnsupportedFeatureError, "substr"),
        ("(a INT) PARTITIONED BY (b)", InvalidInputError, "b", "_LEGACY_ERROR_TEMP_3060"),
        ("(a INT) TBLPROPERTIES ('primary-key' = 'x')", InvalidInputError, "x"),
        ("(a INT) TBLPROPERTIES ('bucket' = 'many')", InvalidOptionError, "many"),
        ("(a INT) TBLPROPERTIES ('owner' = 'me')", InvalidOptionError, "owner"),
        ("(a INT) TBLPROPERTIES ('primary-keys' = 'a')", InvalidOptionError, "did you mean 'primary-key'"),
        ("(a INT) TBLPROPERTIES ('Merge-Engine' = 'first-row')", InvalidOptionError, "did you mean 'merge-engine'"),
        ("(a BINARY) TBLPROPERTIES ('blob-field' = 'a')", UnsupportedFeatureError, "blob-field"),
        (f"(a INT) LOCATION '{tmp_path / 'elsewhere'}'", UnsupportedFeatureError, "load_table("),
        ("(a INT) USING parquet", UnsupportedFeatureError, "USING paimon"),
        ("(a INT PRIMARY KEY)", UnsupportedFeatureError, "'primary-key' = 'a'"),
        ("(a INT", SqlSyntaxError, "found the end"),
        ("(a INT DEFAULT 'x')", InvalidInputError, "x", "INVALID_DEFAULT_VALUE.DATA_TYPE"),
    ]
    for sql, kind, part, *plain in shapes:
        refused(catalog, f"CREATE TABLE db.t {sql}", kind, part, plain=next(iter(plain), None))
    refused(
        catalog, "CREATE TABLE db.t$branch_x (a INT)", UnsupportedFeatureError, "CALL sys.create_branch('db.t', 'x')"
    )
    refused(catalog, "CREATE TABLE nowhere.t (a INT)", DatabaseNotFoundError, "db")
    refused(catalog, "CREATE TABLE nowhere.t AS SELECT 1 a", DatabaseNotFoundError, "CREATE DATABASE")
    assert catalog.list_databases() == ["db"]
    refused(catalog, "CREATE TABLE paimon.dbb.t (a INT)", DatabaseNotFoundError, "did you mean", "db")
    refused(catalog, "REPLACE TABLE db.t (a INT)", TableNotFoundError, "CREATE OR REPLACE")
    assert list((tmp_path / "w" / "db.db").iterdir()) == []
    run(catalog, f"CREATE TABLE db.t (a INT) LOCATION '{tmp_path}/w/db.db/t'")


def test_tables_of_other_formats_and_catalogs_are_sparks(catalog: Catalog, spark: SparkSession) -> None:
    place = "spark_catalog.default."
    catalog.sql(f"CREATE TABLE {place}of_spark (a INT, b STRING) USING parquet OPTIONS (x 1 + 1)")
    try:
        assert spark.catalog.tableExists("of_spark")
        catalog.sql(f"ALTER TABLE {place}of_spark ADD COLUMNS (c INT)")
        catalog.sql(f"ALTER TABLE {place}of_spark SET TBLPROPERTIES ('x' = 'y')")
        catalog.sql(f"ALTER TABLE {place}of_spark SET LOCATION '/tmp/nowhere'")
        assert spark.table("of_spark").columns == ["a", "b", "c"]
        properties = "TBLPROPERTIES ('bucket' = '3', 'bucket-key' = 'a')"
        run(catalog, f"CREATE TABLE ours LIKE {place}of_spark USING paimon {properties}")
        assert [f[1] for f in shape(catalog, "default.ours")] == ["a", "b", "c"]
        catalog.sql(f"CREATE VIEW {place}of_spark_view AS SELECT * FROM {place}of_spark")
        for statement in ("CREATE VIEW v AS SELECT * FROM ours", "CREATE VIEW paimon.default.v AS SELECT 1"):
            refused(catalog, statement, UnsupportedFeatureError, "holds no views")
    finally:
        spark.sql("DROP VIEW IF EXISTS of_spark_view")
        catalog.sql(f"DROP TABLE {place}of_spark")
    assert not spark.catalog.tableExists("of_spark")
    assert catalog.list_tables("default") == ["ours"]


def test_a_table_is_made_of_a_query_or_not_at_all(catalog: Catalog) -> None:
    run(
        catalog,
        "CREATE TABLE src (id BIGINT NOT NULL, v STRING COMMENT 'text', dt DATE)",
        "INSERT INTO src VALUES (1, 'a', DATE '2024-01-01'), (2, NULL, DATE '2024-01-02')",
        "CREATE TABLE t PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '1') AS FROM src",
        "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS other",
        "CREATE TABLE none AS SELECT * FROM src WHERE id > 5",
    )
    assert rows(catalog, "SELECT id, v, CAST(dt AS STRING) FROM t") == [(1, "a", "2024-01-01"), (2, None, "2024-01-02")]
    assert [f[2] for f in shape(catalog, "default.t")] == ["BIGINT NOT NULL", "STRING", "DATE NOT NULL"]
    assert [f[2] for f in shape(catalog, "default.none")] == ["BIGINT", "STRING", "DATE"]
    assert rows(catalog, "SELECT * FROM none") == []
    for wrong in [
        "SELECT id, v FROM missing",
        "SELECT CAST(raise_error('no') AS INT) AS a",
        "SELECT CAST(NULL AS INT) AS a, 1 AS b",
    ]:
        with pytest.raises(Exception, match=r"missing|no|null|NOT NULL"):
            catalog.sql(f"CREATE TABLE failed TBLPROPERTIES ('primary-key' = 'a') AS {wrong}")
        assert "failed" not in catalog.list_tables("default"), wrong


def test_a_table_like_another_has_its_columns_keys_options_and_comment(catalog: Catalog) -> None:
    run(
        catalog,
        "CREATE TABLE s (id INT, name CHAR(4) COMMENT 'n', t TIMESTAMP_NTZ, pt STRING DEFAULT 'x') COMMENT 'source' "
        "PARTITIONED BY (pt) TBLPROPERTIES ('primary-key' = 'id,pt', 'bucket' = '5', 'target-file-size' = '128MB')",
        "CREATE TABLE u LIKE s TBLPROPERTIES ('bucket' = '8')",
    )
    source, made = definition(catalog, "default.s"), definition(catalog, "default.u")
    assert made["options"] == {"bucket": "8", "target-file-size": "128MB"}
    assert {k: made[k] for k in ("fields", "primaryKeys", "partitionKeys", "comment")} == {
        k: source[k] for k in ("fields", "primaryKeys", "partitionKeys", "comment")
    }
    catalog.table("default.s").create_branch("fix", empty=True)
    run(catalog, "ALTER TABLE `s$branch_fix` ADD COLUMN extra STRING", "CREATE TABLE f LIKE `s$branch_fix`")
    assert [f[1] for f in shape(catalog, "default.f")] == ["id", "name", "t", "pt", "extra"]
    assert [f[1] for f in shape(catalog, "default.s")] == ["id", "name", "t", "pt"]
    run(catalog, "CREATE TABLE IF NOT EXISTS f LIKE s")
    refused(catalog, "CREATE TABLE g LIKE s$files", UnsupportedFeatureError, "system table")
    refused(catalog, "CREATE TABLE default.g LIKE s STORED AS PARQUET", UnsupportedFeatureError, "USING paimon")


def test_a_replaced_table_keeps_its_history(catalog: Catalog) -> None:
    run(
        catalog,
        "CREATE TABLE t (id BIGINT, data STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')",
        "INSERT INTO t VALUES (1, 'old')",
        "REPLACE TABLE t (id STRING, data STRING, amount INT) COMMENT 'new' TBLPROPERTIES ('bucket' = '-1')",
    )
    assert rows(catalog, "SELECT * FROM t") == []
    assert rows(catalog, "SELECT id, data FROM t VERSION AS OF 1") == [(1, "old")]
    found = definition(catalog, "default.t")
    assert (found["primaryKeys"], found["options"], found["comment"]) == ([], {"bucket": "-1"}, "new")
    # A column that is the same keeps its id; the others never mean an old one.
    assert shape(catalog, "default.t") == [(2, "id", "STRING"), (1, "data", "STRING"), (3, "amount", "INT")]
    run(
        catalog,
        "INSERT INTO t VALUES ('x', 'y', 1), ('z', 'y', 2)",
        "CREATE OR REPLACE TABLE t TBLPROPERTIES ('bucket' = '-1') AS SELECT amount + 1 n, id FROM t WHERE amount = 1",
    )
    assert rows(catalog, "SELECT * FROM t") == [(2, "x")]
    assert rows(catalog, "SELECT * FROM t VERSION AS OF 3") == [("x", "y", 1), ("z", "y", 2)]
    # What fails leaves rows and definition as they were.
    with pytest.raises(Exception, match="no such luck"):
        catalog.sql("CREATE OR REPLACE TABLE t AS SELECT CAST(raise_error('no such luck') AS INT) AS a")
    assert rows(catalog, "SELECT * FROM t") == [(2, "x")]
    assert [f[1] for f in shape(catalog, "default.t")] == ["n", "id"]
    refused(
        catalog, "REPLACE TABLE t (a INT, b INT) PARTITIONED BY (b)", UnsupportedFeatureError, "partitioned by nothing"
    )
    refused(catalog, "REPLACE TABLE t (a INT) TBLPROPERTIES ('bucket' = 'x')", InvalidOptionError, "bucket")
    run(catalog, "CREATE OR REPLACE TABLE fresh AS SELECT 1 AS a")
    assert rows(catalog, "SELECT * FROM fresh") == [(1,)]


@pytest.mark.quick
def test_columns_and_properties_change_and_nothing_does_when_one_cannot(catalog: Catalog) -> None:
    run(
        catalog,
        "CREATE TABLE t (id INT NOT NULL, c0 INT, v STRUCT<f1: STRING, f2: INT>, a ARRAY<STRUCT<f1: STRING, f2: INT>>, "
        "m MAP<INT, STRUCT<f1: STRING, f2: INT>>) TBLPROPERTIES ('write-buffer-size' = '256 MB')",
        "INSERT INTO t SELECT 1, 2, named_struct('f1', 'x', 'f2', 3), array(named_struct('f1', 'y', 'f2', 4)), "
        "map(1, named_struct('f1', 'z', 'f2', 5))",
        "ALTER TABLE t SET TBLPROPERTIES ('write-buffer-size' = '128 MB', 'comment' = 'c')",
        "ALTER TABLE t ADD COLUMNS (c1 INT, c2 STRING COMMENT 'two' AFTER C0)",
        "ALTER TABLE t ADD COLUMN v.f3 STRING FIRST",
        "ALTER TABLE t ADD COLUMN A.element.f3 STRING AFTER F1",
        "ALTER TABLE t ADD COLUMN m.value.f3 STRING",
        "ALTER TABLE t RENAME COLUMN c0 TO `c zero`",
        "ALTER TABLE t RENAME COLUMN v.f1 TO f100",
        "ALTER TABLE t ALTER COLUMN m.value.f2 TYPE BIGINT",
        "ALTER TABLE t ALTER COLUMN `C ZERO` TYPE DOUBLE COMMENT 'was an int'",
        "ALTER TABLE t ALTER COLUMN c1 FIRST",
        "ALTER TABLE t ALTER COLUMN id DROP NOT NULL",
        "ALTER TABLE t ALTER COLUMN c2 SET DEFAULT 'later'",
        "ALTER TABLE t CHANGE COLUMN c1 c1 BIGINT COMMENT 'one'",
        "ALTER TABLE t DROP COLUMN a.element.f2",
        "ALTER TABLE t DROP COLUMNS IF EXISTS (nothing, c1)",
    )
    table = catalog.table("default.t")
    assert table.row_type.names == ("id", "c zero", "c2", "v", "a", "m")
    assert (table.schema.comment, table.schema.options) == ("c", {"write-buffer-size": "128 MB"})
    assert rows(catalog, "SELECT id, `c zero`, c2, v.f3, v.f100, a[0].f1, a[0].f3, m[1].f2 FROM t") == [
        (1, 2.0, None, None, "x", "y", None, 5)
    ]
    fields = {f["name"]: f for f in definition(catalog, "default.t")["fields"]}
    assert fields["c2"]["defaultValue"] == "'later'"
    assert fields["c zero"]["description"] == "was an int"
    before = definition(catalog, "default.t")
    actions: list[tuple[Any, ...]] = [
        ("ADD COLUMNS (n1 INT, id INT)", AlreadyExistsError, "id", "FIELD_ALREADY_EXISTS"),
        ("ADD COLUMN n INT NOT NULL", InvalidInputError, "NOT NULL"),
        ("ADD COLUMN n INT DEFAULT 1", UnsupportedFeatureError, "SET DEFAULT"),
        ("DROP COLUMNS (c2, nothing)", ColumnNotFoundError, "nothing"),
        ("ALTER COLUMN idd TYPE BIGINT", ColumnNotFoundError, "did you mean"),
        ("ALTER COLUMN c2 TYPE ARRAY<INT>", InvalidInputError, "c2", "CANNOT_UPDATE_FIELD.ARRAY_TYPE"),
        ("SET TBLPROPERTIES ('write-buffer-size' = 'big')", InvalidOptionError, "big"),
        ("SET TBLPROPERTIES ('path' = '/x')", InvalidOptionError, "path"),
        ("SET TBLPROPERTIES ('buckets' = '4')", InvalidOptionError, "did you mean 'bucket'"),
        ("REPLACE COLUMNS (a INT)", UnsupportedFeatureError, "ADD, DROP"),
        ("SET LOCATION '/x'", UnsupportedFeatureError, "stays in its place"),
        ("FROB", SqlSyntaxError, "FROB"),
    ]
    for action, kind, part, *plain in actions:
        refused(catalog, f"ALTER TABLE t {action}", kind, part, plain=next(iter(plain), None))
    assert definition(catalog, "default.t") == before
    run(catalog, "ALTER TABLE t UNSET TBLPROPERTIES ('write-buffer-size', 'comment', 'not-there')")
    after = definition(catalog, "default.t")
    assert (after["options"], after.get("comment")) == ({}, None)


def test_tables_get_other_names(catalog: Catalog) -> None:
    run(
        catalog,
        "CREATE DATABASE db",
        "CREATE TABLE db.t (a INT)",
        "ALTER TABLE db.t RENAME TO u",
        "ALTER TABLE paimon.db.u RENAME TO paimon.db.`w x`",
        "CREATE DATABASE other",
        "ALTER TABLE db.`w x` RENAME TO other.y",
    )
    assert (catalog.list_tables("db"), catalog.list_tables("other")) == ([], ["y"])
    refused(catalog, "ALTER TABLE other.y RENAME TO spark_catalog.db.t", InvalidInputError, "another catalog")
    refused(catalog, "ALTER TABLE other.y RENAME TO dbb.t", DatabaseNotFoundError, "did you mean")
    catalog.table("other.y").create_branch("b", empty=True)
    refused(catalog, "ALTER TABLE other.y$branch_b RENAME TO z", UnsupportedFeatureError, "sys.rename_branch")
    refused(catalog, "DROP TABLE other.y$branch_b", UnsupportedFeatureError, "CALL sys.delete_branch('other.y', 'b')")
    refused(catalog, "DROP TABLE other.y$files", InvalidOptionError, "system table")
    run(catalog, "ALTER TABLE other.y$branch_b ADD COLUMN b INT", "ALTER TABLE other.y$branch_b DROP COLUMN a")
    assert [f[1] for f in shape(catalog, "other.y")] == ["a"]
    assert catalog.table("other.y$branch_b").row_type.names == ("b",)


@pytest.mark.quick
def test_databases_are_made_and_dropped(catalog: Catalog, tmp_path: Path) -> None:
    run(
        catalog, "CREATE SCHEMA x", "CREATE DATABASE IF NOT EXISTS x", f"CREATE DATABASE y LOCATION '{tmp_path}/w/y.db'"
    )
    refused(catalog, "CREATE DATABASE x", DatabaseAlreadyExistsError, "x")
    refused(catalog, "CREATE DATABASE z LOCATION '/z'", UnsupportedFeatureError, "z.db")
    refused(catalog, "CREATE DATABASE z COMMENT 'z'", UnsupportedFeatureError, "COMMENT")
    refused(catalog, "ALTER DATABASE x SET DBPROPERTIES ('a' = 'b')", UnsupportedFeatureError, "cannot be altered")
    run(catalog, "CREATE TABLE x.t (a INT)")
    refused(catalog, "DROP DATABASE x", InvalidInputError, "not empty", "t", plain="SCHEMA_NOT_EMPTY")
    run(catalog, "DROP DATABASE x CASCADE", "DROP SCHEMA IF EXISTS paimon.x", "DROP NAMESPACE y RESTRICT")
    assert catalog.list_databases() == []
    refused(catalog, "DROP DATABASE x", DatabaseNotFoundError, "x")


def test_partitions_of_every_type_are_dropped_by_one_commit(catalog: Catalog) -> None:
    run(
        catalog,
        "CREATE TABLE t (v INT, d DATE, i INT, s STRING, b BOOLEAN, ts TIMESTAMP) PARTITIONED BY (d, i, s, b, ts)",
        "INSERT INTO t VALUES (1, DATE '2024-01-01', -1, 'a''b', true, TIMESTAMP '2024-01-01 10:00:00'), "
        "(2, DATE '2024-01-01', 2, NULL, false, NULL), (3, DATE '2024-01-02', 2, 'x', NULL, NULL), "
        "(4, DATE '2024-01-03', 4, '', NULL, NULL)",
        "ALTER TABLE t ADD IF NOT EXISTS PARTITION (d = '2025-01-01', i = 1, s = 'x', b = true, ts = NULL)",
        "ALTER TABLE t DROP PARTITION (d = DATE '2024-01-01', i = -1, s = 'a''b', b = TRUE, "
        "ts = TIMESTAMP '2024-01-01 10:00:00')",
    )
    assert rows(catalog, "SELECT v FROM t") == [(2,), (3,), (4,)]
    table = catalog.table("default.t")
    head = table.snapshots()[-1].id
    refused(
        catalog, "ALTER TABLE t DROP PARTITION (i = 2, s = NULL)", InvalidInputError, "begin with the first of d, i"
    )
    run(catalog, "ALTER TABLE t DROP PARTITION (D = '2024-01-02'), PARTITION (d = '2024-01-01', i = 2, s = NULL)")
    assert rows(catalog, "SELECT v FROM t") == [(4,)]
    assert table.snapshots()[-1].id == head + 1
    # What is not there is an error when it is named by all columns, as in Java, and no commit.
    run(catalog, "ALTER TABLE t DROP PARTITION (d = '2024-01-02')")
    missing = "PARTITION (d = '2024-01-02', i = 2, s = 'x', b = NULL, ts = NULL)"
    refused(catalog, f"ALTER TABLE t DROP {missing}", NotFoundError, "IF EXISTS")
    run(catalog, f"ALTER TABLE t DROP IF EXISTS {missing}")
    refused(catalog, "ALTER TABLE t DROP PARTITION (x = 1)", InvalidInputError, "not a partition column")
    refused(catalog, "ALTER TABLE t DROP PARTITION (d = 'not a day')", PaimonError, "not a day")
    refused(catalog, "ALTER TABLE t ADD PARTITION (d = '2025-01-01')", InvalidInputError, "partitioned by")
    assert table.snapshots()[-1].id == head + 1
    assert table.drop_partitions({"i": 4}).partitions != ()
    assert table.drop_partitions("d=2024-01-03").snapshot_id is None
    run(catalog, "CREATE TABLE plain (a INT)")
    refused(catalog, "ALTER TABLE plain DROP PARTITION (a = 1)", InvalidInputError, "no partitions")
