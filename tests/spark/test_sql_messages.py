"""Messages of `catalog.sql` about wrong statements: what was asked, what was found, what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark import Catalog
from paimon_spark.errors import DatabaseNotFoundError, InvalidOptionError, SqlSyntaxError, TableNotFoundError
from paimon_spark.sql.tokens import abbreviated
from tests.harness.doors import Door, refused

pytestmark = [pytest.mark.spark, pytest.mark.newest, pytest.mark.catalog_door]


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path, door: Door) -> Catalog:
    found = door.load_catalog(str(tmp_path))
    found.create_database("shop")
    rows = pa.table({"id": pa.array([1], pa.int32()), "amount": [10.0]})
    table = found.create_table("shop.orders", rows.schema)
    table.write(rows)
    table.create_tag("v1")
    table.write(rows)
    return found


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM Shop.orders", "no database 'Shop'; did you mean 'shop'"),
        ("SELECT * FROM SHOP.ORDERS$tags", "no database 'SHOP'; did you mean 'shop'"),
        ("INSERT INTO shop.orders SELECT * FROM shp.orders", "no database 'shp'; did you mean 'shop'"),
        ("DROP TABLE Shop.orders", "no database 'Shop'; did you mean 'shop'"),
        ("SELECT * FROM orders", "write database.table, or set the database with USE"),
        ("SELECT * FROM shop.Orders", "no table 'Orders'; did you mean 'orders'"),
    ],
)
def test_a_table_that_is_nowhere_is_looked_for_in_the_warehouse_too(catalog: Catalog, sql: str, said: str) -> None:
    kind = DatabaseNotFoundError if sql.startswith("DROP") else TableNotFoundError
    with refused(catalog, kind, match=re.escape(said)):
        catalog.sql(sql)


@pytest.mark.parametrize(
    "sql",
    ["SELECT amuont FROM shop.orders", "SELECT count(*) FROM shop.orders o WHERE o.amuont > 1"],
)
def test_for_a_column_with_a_typing_error_the_columns_of_the_table_are_offered(catalog: Catalog, sql: str) -> None:
    with refused(catalog, AnalysisException, match=r"Did you mean one of the following\? .*`amount`"):
        catalog.sql(sql)


@pytest.mark.parametrize(
    ("sql", "near"),
    [
        ("SELECT * FORM shop.orders", "'shop'"),
        ("SELCT * FROM shop.orders", "'SELCT'"),
        ("TRUNCATE shop.orders", "TABLE"),
    ],
)
def test_a_typing_error_in_a_keyword_is_a_syntax_error(catalog: Catalog, sql: str, near: str) -> None:
    with refused(catalog, SqlSyntaxError, match=f"Spark cannot parse the statement: .*{near}"):
        catalog.sql(sql)


def test_a_procedure_without_its_database_is_told_where_it_is(catalog: Catalog) -> None:
    said = r"write CALL sys\.create_tag\(…\)"
    with refused(catalog, SqlSyntaxError, match=said, plain="UNRESOLVED_ROUTINE"):
        catalog.sql("CALL create_tag('shop.orders', 'v2')")


def test_what_a_read_refuses_is_raised_without_the_trace_of_sparks_worker(catalog: Catalog) -> None:
    with refused(catalog, InvalidOptionError) as error:
        catalog.sql("SELECT * FROM paimon_incremental_query('shop.orders', 2, 1)")

    assert "Traceback" not in str(error.value)
    assert "incremental-between" in str(error.value)


@pytest.mark.parametrize(
    ("sql", "condition", "offered"),
    [
        ("SELECT amuont FROM shop.orders", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "[`amount`, `id`]"),
        ("SELECT id FROM shop.orders WHERE amuont > 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "[`amount`, `id`]"),
        (
            "SELECT b.ids FROM shop.orders a JOIN shop.orders b ON a.id = b.id",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "[`b`.`id`, `b`.`amount`]",
        ),
        ("SELECT id FROM shop.orders a, shop.orders b", "AMBIGUOUS_REFERENCE", "[`a`.`id`, `b`.`id`]"),
        ("SELECT no_such(id) FROM shop.orders", "UNRESOLVED_ROUTINE", "Cannot resolve routine `no_such`"),
        ("DELETE FROM shop.orders WHERE amuont = 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "[`amount`, `id`]"),
        ("UPDATE shop.orders SET id = idd", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "[`id`, `amount`]"),
        (
            "MERGE INTO shop.orders t USING shop.orders s ON t.idd = s.id WHEN MATCHED THEN DELETE",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "`t`.`id`",
        ),
    ],
)
def test_errors_of_spark_are_one_line_about_the_statement_as_given(
    catalog: Catalog, door: Door, capfd: pytest.CaptureFixture[str], sql: str, condition: str, offered: str
) -> None:
    with refused(catalog, AnalysisException) as error:
        catalog.sql(sql)

    assert error.value.getCondition() == condition
    text = str(error.value)
    assert all(column in text for column in re.findall(r"`[\w`.]+`", offered))
    if door.is_plain:  # the message of Spark's error is Spark's
        return
    assert "\n" not in text and text.endswith(f"; in: {abbreviated(sql)}")
    assert text.startswith(f"[{condition}] ") and error.value.getCondition() == condition
    assert error.value.getSqlState() in text
    assert capfd.readouterr().err == ""  # PySpark logs nothing


def test_a_column_that_is_unknown_is_planned_once(
    catalog: Catalog, spark: SparkSession, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    run = SparkSession.sql

    def noting(session: SparkSession, text: str, **given: Any) -> DataFrame:
        texts.append(text)
        return run(session, text, **given)

    monkeypatch.setattr(SparkSession, "sql", noting)

    with refused(catalog, AnalysisException):
        catalog.sql("SELECT amuont FROM shop.orders", session=spark)

    assert texts == (["SELECT amuont FROM shop.orders"] if door.is_plain else [])  # else Spark gets a plan


def test_plans_show_the_names_of_tables(catalog: Catalog, spark: SparkSession, door: Door) -> None:
    spark.range(1).createTempView("`shop.orders`")
    [row] = catalog.sql("EXPLAIN EXTENDED SELECT * FROM shop.orders a, shop.orders VERSION AS OF 1 b").collect()
    frame = catalog.sql("SELECT * FROM shop.orders$tags")

    assert row.plan.count("SubqueryAlias paimon.shop.orders\n") == 2
    with pytest.raises(AnalysisException, match=r"paimon\.shop\.`orders\$tags`"):
        frame.select("nothing")
    assert [t.name for t in spark.catalog.listTables() if t.isTemporary and "orders" in t.name] == ["shop.orders"]
    spark.catalog.dropTempView("shop.orders")


def test_a_syntax_error_shows_no_name_of_a_view(catalog: Catalog, spark: SparkSession) -> None:
    sql = "SELECT id FROM shop.orders FETCH FIRST 1 ROWS ONLY"  # a statement that sqlglot parses, and Spark does not
    with refused(catalog, SqlSyntaxError, match=rf"^Spark cannot parse the statement: Syntax error .*: {sql}$"):
        catalog.sql(sql)
