"""What `catalog.sql` says of statements that are wrong: what was asked, what was found, what to do."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import Catalog
from paimon_spark.errors import InvalidOptionError, SqlSyntaxError, TableNotFoundError

pytestmark = [pytest.mark.spark, pytest.mark.newest]


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Catalog:
    found = paimon_spark.load_catalog(str(tmp_path))
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
    with pytest.raises(TableNotFoundError) as error:
        catalog.sql(sql)

    assert said in str(error.value)


@pytest.mark.parametrize(
    "sql",
    ["SELECT amuont FROM shop.orders", "SELECT count(*) FROM shop.orders o WHERE o.amuont > 1"],
)
def test_for_a_column_with_a_typing_error_the_columns_of_the_table_are_offered(catalog: Catalog, sql: str) -> None:
    with pytest.raises(AnalysisException, match=r"Did you mean one of the following\? .*`amount`"):
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
    with pytest.raises(SqlSyntaxError, match=f"Spark cannot parse the statement: .*{near}"):
        catalog.sql(sql)


def test_a_procedure_without_its_database_is_told_where_it_is(catalog: Catalog) -> None:
    with pytest.raises(SqlSyntaxError, match=r"write CALL sys\.create_tag\(…\)"):
        catalog.sql("CALL create_tag('shop.orders', 'v2')")


def test_what_a_read_refuses_is_raised_without_the_trace_of_sparks_worker(catalog: Catalog) -> None:
    with pytest.raises(InvalidOptionError) as error:
        catalog.sql("SELECT * FROM paimon_incremental_query('shop.orders', 2, 1)")

    assert "Traceback" not in str(error.value)
    assert "incremental-between" in str(error.value)
