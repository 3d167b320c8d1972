"""Statements of other engines and of newer Spark: hints, computed names, history, comments, procedures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    SqlSyntaxError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.harness.doors import Door, collected, refused, rows

pytestmark = [pytest.mark.spark, pytest.mark.newest, pytest.mark.catalog_door]


@pytest.fixture
def catalog(tmp_path: Path, spark: SparkSession, door: Door) -> Iterator[Catalog]:
    """Two snapshots of shop.orders: tag v1 and branch fix at the first, a savepoint at the second."""
    made = door.load_catalog(warehouse=str(tmp_path))
    made.create_database("shop")
    table = made.create_table("shop.orders", "id INT, amount DOUBLE")
    for key in (1, 2):
        table.write(pa.table({"id": pa.array([key], pa.int32()), "amount": [key * 1.5]}))
    table.create_tag("v1", snapshot_id=1)
    table.create_branch("fix", tag="v1")
    table.create_savepoint()
    yield made
    made.sql("USE paimon", session=spark)


@pytest.mark.parametrize(
    ("sql", "ids"),
    [
        ("SELECT id FROM shop.orders /*+ OPTIONS('scan.tag-name' = 'v1') */", [1]),
        ("SELECT o.id FROM shop.orders /*+ OPTIONS('scan.snapshot-id'='1') */ AS o WHERE o.id > 0", [1]),
        ("SELECT id FROM shop.orders /*+ options('scan.branch'='fix') */ VERSION AS OF 1", [1]),
        ("SELECT id FROM shop.orders VERSION AS OF 1 /*+ OPTIONS('branch'='fix') */ o", [1]),
        ("SELECT /*+ COALESCE(1) */ id FROM shop.orders /*+ OPTIONS('scan.snapshot-id'='2') */", [1, 2]),
        ("SELECT id FROM IDENTIFIER('shop.orders')", [1, 2]),
        ("SELECT id FROM IDENTIFIER('shop.' || 'orders$branch_fix')", [1]),
        ("SELECT a.id FROM shop.orders a, IDENTIFIER('shop.orders') b WHERE a.id = b.id", [1, 2]),
        ("EXECUTE IMMEDIATE 'SELECT id FROM shop.orders WHERE id = ?' USING 1 + 1", [2]),
        ("EXECUTE IMMEDIATE 'SELECT id FROM shop.' || 'orders WHERE id < :most' USING 2 AS most", [1]),
        ("EXECUTE IMMEDIATE 'SELECT id FROM shop.orders WHERE id < :m[''most'']' USING map('most', 2) AS m", [1]),
        ("EXECUTE IMMEDIATE 'SELECT id FROM shop.orders WHERE id = ?.x' USING named_struct('x', 2)", [2]),
    ],
)
def test_hints_and_computed_names_are_understood(
    catalog: Catalog, spark: SparkSession, sql: str, ids: list[int]
) -> None:
    assert rows(catalog, sql) == [(i,) for i in ids]


def test_rows_are_written_by_computed_names_and_with_hints(catalog: Catalog, spark: SparkSession) -> None:
    catalog.sql("INSERT INTO shop.orders /*+ OPTIONS('branch'='fix') */ VALUES (7, 7.0)", session=spark)
    catalog.sql(
        "INSERT INTO IDENTIFIER(:t || '$branch_fix') VALUES (:id, 8.0)",
        args={"t": "shop.orders", "id": 8},
        session=spark,
    )
    catalog.sql("EXECUTE IMMEDIATE 'UPDATE shop.orders SET amount = ? WHERE id = ?' USING 9.0D, 2", session=spark)
    catalog.sql("DELETE FROM IDENTIFIER(?) WHERE id = ?", args=["shop.orders", 1], session=spark)

    assert rows(catalog, "SELECT id FROM shop.orders$branch_fix") == [(1,), (7,), (8,)]
    assert rows(catalog, "SELECT * FROM shop.orders") == [(2, 9.0)]


def test_execute_immediate_leaves_statements_of_spark_to_spark(
    catalog: Catalog, spark: SparkSession, door: Door
) -> None:
    assert rows(catalog, "EXECUTE IMMEDIATE 'SELECT :a + 1' USING 1 AS a") == [(2,)]
    assert rows(catalog, "EXECUTE IMMEDIATE 'SELECT ?' USING array(map('a', 1))") == [([{"a": 1}],)]
    spark.sql("DECLARE OR REPLACE VARIABLE paimon_found INT")
    catalog.sql("EXECUTE IMMEDIATE 'SELECT 5' INTO paimon_found", session=spark)
    assert rows(catalog, "SELECT paimon_found") == [(5,)]
    into = "EXECUTE IMMEDIATE 'SELECT max(id) FROM shop.orders' INTO paimon_found"
    if door.is_plain:  # Spark knows the table itself
        catalog.sql(into)
        assert rows(catalog, "SELECT paimon_found") == [(2,)]
    else:
        with refused(catalog, UnsupportedFeatureError, match="use SET VAR paimon_found = "):
            catalog.sql(into, session=spark)
    spark.sql("DROP TEMPORARY VARIABLE paimon_found")


def test_savepoints_have_the_name_of_the_proposal_too(catalog: Catalog, spark: SparkSession) -> None:
    expected = rows(catalog, "SELECT * FROM shop.orders$savepoints")

    assert [row[0] for row in expected] == [catalog.table("shop.orders").savepoints()[0].id]
    assert rows(catalog, "SELECT * FROM shop.orders#savepoints AS s") == expected
    assert rows(catalog, "SELECT * FROM shop.`orders#savepoints`") == expected
    path = catalog.table("shop.orders").location + "#savepoints"
    assert [tuple(r) for r in spark.read.format("paimon").load(path).collect()] == expected


def test_the_current_database_follows_use(catalog: Catalog, spark: SparkSession, door: Door) -> None:
    query = "SELECT current_catalog(), current_database(), upper(current_schema()) AS s, count(*) FROM orders"
    of_spark = rows(catalog, "SELECT current_catalog(), current_database()")
    catalog.sql("USE shop", session=spark)

    found = catalog.sql(query, session=spark)
    assert found.columns[:3] == ["current_catalog()", "current_schema()", "s"]  # Spark has one name for both
    assert collected(catalog, found) == [("paimon", "shop", "SHOP", 2)]
    catalog.sql("USE spark_catalog.default", session=spark)
    assert rows(catalog, "SELECT current_catalog(), current_database()") == of_spark


@pytest.mark.quick
def test_the_history_of_a_branch_is_described(catalog: Catalog, spark: SparkSession) -> None:
    found = catalog.sql("DESCRIBE HISTORY shop.orders", session=spark).collect()

    log = catalog.table("shop.orders").history(branch="main").commits
    assert [(r.version, r.operation, r.rowDelta, r.userName) for r in found] == [
        (c.id, c.kind, c.snapshot.rows_changed, c.user) for c in log
    ]
    assert [int(r.timestamp.timestamp() * 1000) for r in found] == [c.time_ms for c in log]
    first, last = found[-1], found[0]
    assert (first.version, first.tags, first.branches) == (1, ["v1"], ["fix"])
    assert (last.tags, last.branches) == ([f"savepoint-{last.version}"], ["main"])
    assert [r.version for r in catalog.sql("DESC HISTORY shop.orders LIMIT 1", session=spark).collect()] == [
        last.version
    ]
    with refused(catalog, InvalidInputError, match="limit = 0: give 1 or more, or leave LIMIT out"):
        catalog.sql("DESC HISTORY shop.orders LIMIT 0", session=spark)
    of_branch = catalog.sql("DESC HISTORY shop.orders$branch_fix", session=spark).collect()
    assert [r.version for r in of_branch] == [1]


def test_comments_are_set_and_removed(catalog: Catalog, spark: SparkSession) -> None:
    catalog.sql("COMMENT ON TABLE shop.orders IS 'all orders'", session=spark)
    catalog.sql("COMMENT ON COLUMN shop.orders.ID IS 'who'", session=spark)
    catalog.sql("COMMENT ON COLUMN paimon.shop.orders$branch_fix.amount IS 'euro'", session=spark)

    schema = catalog.table("shop.orders").schema
    assert (schema.comment, [f.description for f in schema.fields]) == ("all orders", ["who", None])
    assert catalog.table("shop.orders$branch_fix").schema.fields[1].description == "euro"
    catalog.sql("COMMENT ON TABLE shop.orders IS NULL", session=spark)
    assert not catalog.table("shop.orders").schema.comment
    with refused(catalog, ColumnNotFoundError, match="no column amuont; did you mean 'amount'"):
        catalog.sql("COMMENT ON COLUMN shop.orders.amuont IS 'x'", session=spark)
    incorrect = "INVALID_SQL_SYNTAX.COMMENT_ON_COLUMN_INCORRECT_IDENTIFIER"
    with refused(catalog, SqlSyntaxError, match="names no column", plain=incorrect):
        catalog.sql("COMMENT ON COLUMN orders IS 'x'", session=spark)
    with refused(catalog, UnsupportedFeatureError, match="database 'shop' cannot be altered"):
        catalog.sql("COMMENT ON DATABASE shop IS 'x'", session=spark)


@pytest.mark.quick
def test_procedures_are_listed_as_spark_lists_them(catalog: Catalog, spark: SparkSession) -> None:
    found = catalog.sql("SHOW PROCEDURES", session=spark)

    assert found.columns == ["catalog", "namespace", "schema", "procedure_name"]
    names = [r.procedure_name for r in found.collect()]
    assert names == sorted(names) and {"compact", "rollback", "create_branch"} <= set(names)
    assert "migrate_table" not in names  # refused
    assert tuple(found.collect()[0])[:3] == ("paimon", ["sys"], "sys")
    assert catalog.sql("SHOW PROCEDURES IN paimon.sys", session=spark).count() == len(names)


@pytest.mark.parametrize("statement", ["OPTIMIZE {}", "VACUUM {}", "RESTORE TABLE {} TO VERSION AS OF 1"])
def test_statements_of_delta_lake_are_refused_by_name(catalog: Catalog, spark: SparkSession, statement: str) -> None:
    verb = statement.split()[0]
    with refused(
        catalog, UnsupportedFeatureError, match=rf"^{verb} is not supported for table shop\.orders\. Use CALL sys\."
    ):
        catalog.sql(statement.format("shop.orders"), session=spark)
    with refused(catalog, TableNotFoundError, match="did you mean 'orders'"):
        catalog.sql(statement.format("shop.order"), session=spark)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT * FROM shop.orders WHERE", "WHERE, found the end at position 32"),
        ("SELECT * FROM (SELECT * FROM shop.orders WHERE) o", "WHERE, found ')'"),
        ("SELECT * FROM shop.orders WHERE ORDER BY id", "WHERE, found 'ORDER' at position 33"),
        ("SELECT id FROM shop.orders GROUP BY id HAVING", "HAVING, found the end"),
    ],
)
def test_a_condition_that_is_missing_is_a_syntax_error(
    catalog: Catalog, spark: SparkSession, door: Door, sql: str, found: str
) -> None:
    if door.is_plain and "HAVING" not in sql:  # Spark takes WHERE for an alias
        assert catalog.sql(sql).count() == 2
        return
    with refused(catalog, SqlSyntaxError, match=f"expected a condition after {found.replace(')', '[)]')}"):
        catalog.sql(sql, session=spark)


def test_a_column_that_cannot_be_dropped_has_a_nearest_name(catalog: Catalog, spark: SparkSession) -> None:
    with refused(catalog, ColumnNotFoundError, match="no column amuont; did you mean 'amount'"):
        catalog.sql("ALTER TABLE shop.orders DROP COLUMN amuont", session=spark)
