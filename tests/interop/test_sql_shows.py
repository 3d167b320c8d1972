"""SHOW, DESCRIBE, tags and ANALYZE by SQL: Java Paimon's Spark connector and we show one table alike.

The connector is of 0.9 on Spark 3.5, which has neither the statements on tags nor SHOW TABLE EXTENDED.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paimon_spark
from tests.harness.doors import Door
from tests.interop.connector import Connector
from tests.interop.java_paimon import JavaPaimon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.spark]

MAKE = (
    "CREATE DATABASE IF NOT EXISTS p.db",
    (
        "CREATE TABLE p.db.t (id BIGINT NOT NULL COMMENT 'the key', v STRING, d DECIMAL(10,2) COMMENT 'its \\'q\\'', "
        "c CHAR(3), vc VARCHAR(7), ts TIMESTAMP, nt TIMESTAMP_NTZ, arr ARRAY<STRUCT<a: INT, b: STRING>>, "
        "m MAP<STRING, INT>, dt STRING, hh INT) PARTITIONED BY (dt, hh) COMMENT 'a table' "
        "TBLPROPERTIES ('primary-key' = 'id,dt,hh', 'bucket' = '2')"
    ),
    "INSERT INTO p.db.t SELECT 1, 'a', 1.5, 'abc', 'x', null, null, null, null, '2024-01-01', 1",
    "INSERT INTO p.db.t SELECT 2, 'b', null, null, null, null, null, null, null, 'a/b=c', 10",
    "CREATE TABLE p.db.m (`a b` INT, p DATE, q BOOLEAN, r DECIMAL(5,2), s TIMESTAMP) PARTITIONED BY (p, q, r, s)",
    "INSERT INTO p.db.m SELECT 1, DATE'2024-01-05', true, CAST(1.5 AS DECIMAL(5,2)), TIMESTAMP'2024-01-01 12:00:00'",
    "INSERT INTO p.db.m SELECT 2, CAST(null AS DATE), false, CAST(2 AS DECIMAL(5,2)), null",
)
ASKED = (
    "DESCRIBE {c}.db.t",
    "DESCRIBE {c}.db.m",
    "DESCRIBE {c}.db.t id",
    "DESC EXTENDED {c}.db.t v",
    "SHOW COLUMNS IN {c}.db.t",
    "SHOW PARTITIONS {c}.db.t",
    "SHOW PARTITIONS {c}.db.t PARTITION (hh = 10)",
    "SHOW PARTITIONS {c}.db.m",
    "SHOW TBLPROPERTIES {c}.db.t ('bucket')",
    "SHOW TABLES IN {c}.db",
    "SHOW TABLES IN {c}.db LIKE 'T*|x'",
    "SHOW DATABASES IN {c} LIKE 'd*b'",
    "DESC EXTENDED {c}.db.t",
    "SHOW CREATE TABLE {c}.db.t",
    "SHOW TBLPROPERTIES {c}.db.t",
)


@pytest.fixture(scope="module")
def shown(connector: Connector, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A warehouse of the connector's, and what it shows of it."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    statements = [*MAKE, *(text.format(c="p") for text in ASKED)]
    replies = connector.rows({"p": warehouse}, statements)
    failed = [(text, r["error"]) for text, r in zip(statements, replies, strict=True) if isinstance(r, dict)]
    assert not failed, failed
    return warehouse, dict(zip(ASKED, replies[len(MAKE) :], strict=True))


def test_a_table_of_javas_is_shown_as_java_shows_it(
    shown: tuple[Path, dict[str, Any]], spark: SparkSession, door: Door
) -> None:
    warehouse, theirs = shown
    catalog = door.load_catalog(str(warehouse))
    ours = {
        text: [list(row) for row in catalog.sql(text.format(c="paimon"), session=spark).collect()] for text in ASKED
    }
    path = catalog.table("db.t").location
    # Where ours differ on purpose: what Java 2.0 shows and 0.9 did not, and how a location is written.
    extended = "DESC EXTENDED {c}.db.t"
    new = [row for row in ours[extended] if row not in theirs[extended]]
    assert [row[0] for row in new] == [
        "__paimon_partition",
        "__paimon_bucket",
        "Location",
        "Table Properties",
        "# Column Not Null",
        "id",
        "dt",
        "hh",
    ]
    gone = [row[0] for row in theirs[extended] if row not in ours[extended]]
    assert [name for name in gone if name != "Owner"] == ["Table Properties"]
    create = "SHOW CREATE TABLE {c}.db.t"
    stated = theirs[create][0][0].replace("CREATE TABLE p.", "CREATE TABLE paimon.")
    assert ours[create] == [["".join(line for line in stated.splitlines(keepends=True) if "'path' =" not in line)]]
    properties = "SHOW TBLPROPERTIES {c}.db.t"
    assert [[k, path if k == "path" else v] for k, v in theirs[properties] if k != "owner"] == ours[properties]
    # Spark tells what is known of a column's values, for its own tables; 0.9 does not.
    column = "DESC EXTENDED {c}.db.t v"
    known = ours[column][len(theirs[column]) :]
    assert [name for name, _ in known] == [
        "min",
        "max",
        "num_nulls",
        "distinct_count",
        "avg_col_len",
        "max_col_len",
        "histogram",
    ]
    ours[column] = ours[column][: len(theirs[column])]
    for text in ASKED[: ASKED.index(extended)]:
        assert ours[text] == theirs[text], text


def test_tags_of_sql_are_javas_and_the_reverse(
    shown: tuple[Path, dict[str, Any]], java: JavaPaimon, spark: SparkSession, door: Door, tmp_path: Path
) -> None:
    shutil.copytree(shown[0], tmp_path / "wh")
    catalog = door.load_catalog(str(tmp_path / "wh"))
    path = catalog.table("db.t").location.removeprefix("file://")

    def sql(text: str) -> list[list[Any]]:
        return [list(row) for row in catalog.sql(text, session=spark).collect()]

    sql("ALTER TABLE db.t CREATE TAG `ours.1` AS OF VERSION 1 RETAIN 12 HOURS")
    sql("ALTER TABLE db.t CREATE BRANCH fix FROM TAG `ours.1`")
    sql("ALTER TABLE db.t$branch_fix CREATE TAG there")
    java.call("createTag", path=path, name="theirs", snapshot=2)
    (kept,) = (row for row in java.call("read", path=path, system="tags")["rows"] if row["tag_name"] == "ours.1")
    assert (kept["snapshot_id"], kept["time_retained"]) == (1, "PT12H")
    assert "fix" in java.call("listing", path=path)["branches"]
    assert java.call("listing", path=path, branch="fix")["tags"]["there"]["id"] == 1
    assert [row["id"] for row in java.call("read", path=path, branch="fix")["rows"]] == [1]
    assert [name for (name,) in sql("SHOW TAGS db.t") if "guard" not in name] == ["ours.1", "theirs"]
    sql("ALTER TABLE db.t RENAME TAG theirs TO `now ours`")
    java.call("deleteTag", path=path, name="now ours")
    assert [name for (name,) in sql("SHOW TAGS db.t") if "guard" not in name] == ["ours.1"]


def test_java_reads_the_statistics_that_analyze_leaves(
    shown: tuple[Path, dict[str, Any]], java: JavaPaimon, spark: SparkSession
) -> None:
    catalog = paimon_spark.load_catalog(warehouse=str(shown[0]))
    catalog.create_database("other")
    catalog.create_table(
        "other.stats",
        "k BIGINT, s STRING, d DECIMAL(10,2), x DOUBLE, b BOOLEAN, day DATE, n TIMESTAMP_NTZ, l TIMESTAMP, y BINARY",
    )
    frame = spark.sql(
        "SELECT * FROM VALUES "
        "(1L, 'abc', 1.50BD, 1e10D, true, DATE'2024-01-05', TIMESTAMP_NTZ'2024-01-01 12:00:00.25', "
        "TIMESTAMP'2024-01-01', X'01'), "
        "(-2L, 'ü', null, -0.5D, false, DATE'1969-12-31', TIMESTAMP_NTZ'1969-12-31 23:59:59', null, null), "
        "(null, null, null, null, null, null, null, null, null) AS t(k, s, d, x, b, day, n, l, y)"
    )
    catalog.table("other.stats").write(frame)
    assert catalog.sql("ANALYZE TABLE other.stats COMPUTE STATISTICS FOR ALL COLUMNS", session=spark).collect() == []
    path = catalog.table("other.stats").location.removeprefix("file://")
    (theirs,) = java.call("read", path=path, system="statistics")["rows"]
    assert (theirs["snapshot_id"], theirs["schema_id"], theirs["mergedRecordCount"]) == (1, 0, 3)
    found = json.loads(theirs["colstat"])
    assert found["k"] == {
        "colId": 0,
        "distinctCount": 2,
        "min": "-2",
        "max": "1",
        "nullCount": 1,
        "avgLen": 8,
        "maxLen": 8,
    }
    bounds = {name: (column.get("min"), column.get("max")) for name, column in found.items()}
    assert bounds == {
        "k": ("-2", "1"),
        "s": (None, None),
        "d": ("1.50", "1.50"),
        "x": ("-0.5", "1.0E10"),
        "b": ("false", "true"),
        "day": ("-1", "19727"),
        "n": ("1969-12-31 23:59:59.000000", "2024-01-01 12:00:00.250000"),
        "l": (None, None),
        "y": (None, None),
    }
    assert (found["s"]["avgLen"], found["s"]["maxLen"], found["y"]["maxLen"]) == (2, 3, 1)
    kinds = [(s.id, s.commit_kind.value) for s in catalog.table("other.stats").snapshots()]
    assert kinds == [(1, "APPEND"), (2, "ANALYZE")]
    # Java's own ANALYZE comes after ours, and rows are as they were.
    java.call("analyze", path=path, records=3)
    assert catalog.table("other.stats").scan().to_arrow().num_rows == 3
    assert [len(java.call("read", path=path)["rows"])] == [3]
