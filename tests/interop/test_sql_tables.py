"""The same DDL, run by Java Paimon's Spark connector, `catalog.sql` or `spark.sql`, makes the same definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from paimon_spark.errors import PaimonError
from tests.harness.doors import Door
from tests.interop.connector import Connector

pytestmark = [pytest.mark.interop, pytest.mark.spark]

MADE = [
    "CREATE DATABASE {c}.db",
    "CREATE TABLE {c}.db.plain (user_id BIGINT, item_id BIGINT, behavior STRING, dt STRING, hh STRING) USING paimon",
    (
        "CREATE TABLE {c}.db.keyed (user_id BIGINT, v STRING, dt STRING, hh STRING) PARTITIONED BY (dt, hh) "
        "COMMENT 'a comment' TBLPROPERTIES ('primary-key' = 'dt,hh,user_id', 'bucket' = '2', 'file.format' = 'orc')"
    ),
    (
        "CREATE TABLE {c}.db.types (a BOOLEAN NOT NULL COMMENT 'yes', b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, "
        "g DOUBLE, h DECIMAL(10, 2), i STRING, j VARCHAR(5), k CHAR(3), l BINARY, m DATE, n TIMESTAMP, o ARRAY<INT>, "
        "p MAP<STRING, ARRAY<DOUBLE>>, `q.r` STRUCT<x: INT, `y z`: STRUCT<w: STRING COMMENT 'deep'>>, `Ünï` INT)"
    ),
    "CREATE TABLE {c}.db.hive (a INT) PARTITIONED BY (dt STRING, h INT)",
    (
        "CREATE TABLE {c}.db.nested (id INT, v STRUCT<f1: STRING, f2: INT>, a ARRAY<STRUCT<f1: STRING, f2: INT>>, "
        "m MAP<INT, STRUCT<f1: STRING, f2: INT>>, c0 INT, c9 STRING)"
    ),
    (
        "CREATE TABLE {c}.db.of_query PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '1') AS "
        "SELECT CAST(1 AS BIGINT) AS id, 'x' AS v, ARRAY(1) AS l, '2024-01-01' AS dt"
    ),
]
ALTERED = [
    "ALTER TABLE {c}.db.plain SET TBLPROPERTIES ('write-buffer-size' = '256 MB', 'comment' = 'new comment')",
    "ALTER TABLE {c}.db.plain ADD COLUMNS (c1 INT, c2 STRING COMMENT 'second')",
    "ALTER TABLE {c}.db.plain RENAME COLUMN item_id TO item",
    "ALTER TABLE {c}.db.plain DROP COLUMN hh",
    "ALTER TABLE {c}.db.plain ADD COLUMN c3 INT FIRST",
    "ALTER TABLE {c}.db.plain ADD COLUMN c4 INT AFTER behavior",
    "ALTER TABLE {c}.db.plain ALTER COLUMN c1 TYPE BIGINT",
    "ALTER TABLE {c}.db.plain ALTER COLUMN c1 COMMENT 'first'",
    "ALTER TABLE {c}.db.plain ALTER COLUMN dt FIRST",
    "ALTER TABLE {c}.db.plain ALTER COLUMN user_id AFTER c4",
    "ALTER TABLE {c}.db.keyed UNSET TBLPROPERTIES ('comment')",
    "ALTER TABLE {c}.db.types ALTER COLUMN a DROP NOT NULL",
    "ALTER TABLE {c}.db.types ALTER COLUMN f TYPE DOUBLE",
    "ALTER TABLE {c}.db.nested ALTER COLUMN c0 TYPE BIGINT",
    "ALTER TABLE {c}.db.nested DROP COLUMNS (c9)",
    "ALTER TABLE {c}.db.hive RENAME TO db.hive_two",
    "ALTER TABLE {c}.db.of_query ADD COLUMN n INT COMMENT 'n'",
    "ALTER TABLE {c}.db.of_query DROP PARTITION (dt = '2024-01-01')",
]
REFUSED = [
    "CREATE TABLE {c}.db.plain (a INT)",
    "CREATE TABLE {c}.db.x (a STRING) PARTITIONED BY (substr(a, 1, 2))",
    "CREATE TABLE {c}.db.x (a INT) TBLPROPERTIES ('primary-key' = 'b')",
    "CREATE DATABASE {c}.elsewhere LOCATION '/nowhere'",
    "ALTER TABLE {c}.db.plain ADD COLUMN behavior INT",
    "ALTER TABLE {c}.db.plain DROP COLUMN nothing",
    "ALTER TABLE {c}.db.plain ALTER COLUMN behavior TYPE ARRAY<INT>",
    "ALTER TABLE {c}.db.keyed DROP COLUMN user_id",
    "ALTER TABLE {c}.db.keyed RENAME COLUMN dt TO day",
    "ALTER TABLE {c}.db.keyed DROP PARTITION (dt = 'x', hh = 'y')",
    "DROP TABLE {c}.db.nothing",
    "DROP DATABASE {c}.db",
]
NESTED = [
    "ALTER TABLE {c}.db.nested ADD COLUMN v.f3 STRING AFTER f1",
    "ALTER TABLE {c}.db.nested RENAME COLUMN a.element.f1 TO f100",
    "ALTER TABLE {c}.db.nested DROP COLUMN m.value.f2",
]
"""Java alters fields inside columns from 1.0 on, later than the connector."""
ONLY_OF_THE_CONNECTOR = {"owner", "provider"}
"""Who ran the statement, as Spark tells connectors, and what stood after USING: options that mean nothing."""


def definitions(warehouse: Path) -> dict[str, Any]:
    """Of every table of `db`, its schema files, but for what says when and by whom."""
    out: dict[str, Any] = {}
    for table in sorted((warehouse / "db.db").iterdir()):
        for path in sorted((table / "schema").glob("schema-*")):
            found = json.loads(path.read_text())
            found.pop("timeMillis")
            found.pop("version")
            found["options"] = {k: v for k, v in found["options"].items() if k not in ONLY_OF_THE_CONNECTOR}
            found["comment"] = found.get("comment") or ""
            out[f"{table.name} {path.name}"] = found
    return out


def test_definitions_by_sql_are_those_of_the_connector(
    spark: SparkSession, door: Door, connector: Connector, tmp_path: Path
) -> None:
    spark.conf.unset("spark.paimon-spark.current-database")
    ours, theirs, mixed = (tmp_path / name for name in ("ours", "theirs", "mixed"))
    for warehouse in (ours, mixed):
        catalog = door.load_catalog(str(warehouse))
        for statement in MADE:
            catalog.sql(statement.format(c="paimon"))
    made = definitions(ours)
    # They make and alter their own tables, refuse what we refuse, and alter those that we made.
    batches = {"theirs": [*MADE, *ALTERED, *REFUSED], "mixed": ALTERED}
    statements = [s.format(c=name) for name, batch in batches.items() for s in batch]
    results = dict(zip(statements, connector.rows({"theirs": theirs, "mixed": mixed}, statements), strict=True))
    surprising = [
        (statement, results[statement.format(c=name)])
        for name, batch in batches.items()
        for statement in batch
        if isinstance(results[statement.format(c=name)], dict) != (statement in REFUSED)
    ]
    assert surprising == []
    by_them = definitions(theirs)
    assert {k: v for k, v in by_them.items() if k.endswith("schema-0") and not k.startswith("hive")} == {
        k: v for k, v in made.items() if not k.startswith("hive")
    }
    catalog = door.load_catalog(str(ours))
    for statement in ALTERED:
        catalog.sql(statement.format(c="paimon"))
    for statement in REFUSED:
        with pytest.raises(PySparkException if door.is_plain else PaimonError):
            catalog.sql(statement.format(c="paimon"))
    assert definitions(ours) == by_them
    assert definitions(mixed) == by_them
    # And we alter what they made and altered.
    catalog = door.load_catalog(str(theirs))
    for statement in NESTED:
        catalog.sql(statement.format(c="paimon"))
    columns = catalog.sql("SELECT v.f3, a[0].f100 AS f100, m[1].f1 AS f1 FROM db.nested")
    assert (columns.columns, columns.collect()) == (["f3", "f100", "f1"], [])
    assert [r.id for r in catalog.sql("SELECT id FROM db.of_query VERSION AS OF 1").collect()] == [1]
