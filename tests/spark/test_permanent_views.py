"""CREATE, SELECT, SHOW and DROP of permanent views, by `catalog.sql` and by plain Spark on an attached catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from tests.harness.rest_server import rest_server

pytestmark = [pytest.mark.spark]
Run: TypeAlias = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    if getattr(request, "param", "jdbc") == "rest":
        with rest_server(tmp_path) as server:
            yield server.options()
    else:
        yield {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "warehouse": str(tmp_path / "wh")}


@pytest.fixture
def catalog(options: dict[str, str]) -> Catalog:
    made = paimon_spark.load_catalog(**options)
    made.create_database("shop")
    made.create_database("other")
    made.create_table("shop.sales", "id INT, v STRING").write(
        pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", None]})
    )
    return made


@pytest.fixture(params=["catalog.sql", pytest.param("attached", marks=pytest.mark.newest)])
def run(
    request: pytest.FixtureRequest, spark: SparkSession, catalog: Catalog, options: dict[str, str]
) -> Iterator[Run]:
    """Runs a statement whose names begin with `paimon.`, with `shop` as the current database and no temporary views."""
    _drop_temporary_views(spark)  # of other tests
    if request.param == "attached":
        paimon_spark.attach(spark, name="paimon", **options)
        spark.sql("USE paimon.shop")
        yield lambda sql: [tuple(row) for row in spark.sql(sql).collect()]
        spark.sql("USE spark_catalog.default")
        paimon_spark.detach(spark, "paimon")
    else:
        catalog.sql("USE shop")
        yield lambda sql: [tuple(row) for row in catalog.sql(sql).collect()]
        spark.conf.unset("spark.paimon-spark.current-database")
    _drop_temporary_views(spark)


def _drop_temporary_views(spark: SparkSession) -> None:
    for name in spark.catalog.listTables():
        if name.isTemporary:
            spark.catalog.dropTempView(name.name)


@pytest.mark.parametrize("options", ["jdbc", "rest"], indirect=True)
def test_a_view_is_created_read_and_dropped(run: Run, catalog: Catalog) -> None:
    run(
        "CREATE VIEW big (k COMMENT 'the key', name) COMMENT 'large ones' TBLPROPERTIES ('a' = 'b') "
        "AS SELECT id, v FROM sales WHERE id > 1"
    )
    made = catalog.view("shop.big")
    assert [(f.name, str(f.type), f.description) for f in made.row_type] == [
        ("k", "INT", "the key"),
        ("name", "STRING", None),
    ]
    assert (made.comment, made.options) == ("large ones", {"a": "b"})
    assert made.query == "SELECT id, v FROM `shop`.sales WHERE id > 1"
    assert run("SELECT * FROM big ORDER BY k") == [(2, "b"), (3, None)]
    assert run("SELECT b.k, s.v FROM paimon.shop.big b JOIN sales s ON s.id = b.k WHERE name = 'b'") == [(2, "b")]
    run("CREATE VIEW paimon.other.counted AS WITH sales AS (SELECT k FROM big) SELECT count(*) AS n FROM sales")
    assert run("SELECT n + 1 FROM paimon.other.counted") == [(3,)]
    run("CREATE TABLE copied AS SELECT * FROM big")
    assert run("SELECT count(*) FROM copied") == [(2,)]
    assert run("SHOW VIEWS") == [("shop", "big", False)]
    assert run("SHOW VIEWS IN paimon.other LIKE 'c*'") == [("other", "counted", False)]
    assert run("SHOW VIEWS IN paimon.other LIKE 'none_such*'") == []
    run("CREATE VIEW IF NOT EXISTS big AS SELECT 1 AS one")
    run("CREATE OR REPLACE VIEW big AS SELECT v FROM sales WHERE v IS NOT NULL; ")
    assert run("SELECT * FROM big ORDER BY v") == [("a",), ("b",)]
    run("DROP VIEW big")
    run("DROP VIEW IF EXISTS big")
    assert catalog.list_views("shop") == []


def test_a_temporary_view_hides_a_permanent_one_but_not_from_its_own_query(run: Run) -> None:
    run("CREATE VIEW all_sales AS SELECT id FROM sales")
    run("CREATE TEMPORARY VIEW sales AS SELECT 9 AS id")
    assert run("SELECT count(*) FROM all_sales") == [(3,)]
    run("CREATE TEMPORARY VIEW all_sales AS SELECT 9 AS id")
    assert run("SELECT id FROM all_sales") == [(9,)]
    assert ("", "all_sales", True) in run("SHOW VIEWS")
    run("DROP VIEW all_sales")
    assert run("SELECT count(*) FROM all_sales") == [(3,)]


@pytest.mark.quick
def test_views_of_system_tables_branches_and_java(run: Run, catalog: Catalog) -> None:
    catalog.table("shop.sales").create_branch("fix", empty=False)
    run("CREATE VIEW history AS SELECT snapshot_id FROM `sales$snapshots`")
    run("CREATE VIEW fixed AS SELECT count(*) AS n FROM `sales$branch_fix`")
    assert (run("SELECT * FROM history"), run("SELECT * FROM fixed")) == ([(1,)], [(3,)])
    # Java keeps the text as it was given, and names the columns by position.
    catalog.create_view("shop.of_java", "SELECT id, v FROM sales -- all", columns="`a b` INT, c STRING")
    assert run("SELECT `a b` FROM of_java WHERE c = 'a'") == [(1,)]
    run("ALTER TABLE sales DROP COLUMN v")
    with pytest.raises(Exception, match=r"`?v`? cannot be resolved|has no column|no column"):
        run("SELECT * FROM of_java")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE VIEW big AS SELECT 1 AS one", "there is a view shop.big; use CREATE OR REPLACE VIEW"),
        ("CREATE VIEW sales AS SELECT 1 AS one", "there is a table shop.sales"),
        ("CREATE VIEW v (a, b) AS SELECT 1 AS one", "names 2 columns, and its query has 1: one"),
        ("CREATE VIEW v AS SELECT * FROM temporary", "reads the temporary view temporary"),
        ("CREATE VIEW v AS SELECT * FROM nowhere", "nowhere"),
        ("CREATE VIEW v AS DROP TABLE paimon.shop.sales", "must be a SELECT, found: DROP TABLE paimon.shop.sales"),
        ("CREATE VIEW v AS WITH a AS (SELECT 1) INSERT INTO sales SELECT 1, 'a'", "must be a SELECT|INSERT"),
        ("CREATE VIEW v WITH SCHEMA EVOLUTION AS SELECT 1 AS one", "WITH SCHEMA EVOLUTION is not supported"),
        ("CREATE VIEW paimon.nowhere.v AS SELECT 1 AS one", "nowhere"),
        ("CREATE VIEW `sales$branch_b` AS SELECT 1 AS one", "only a whole table can be a view"),
        ("CREATE OR REPLACE VIEW big AS SELECT * FROM big", "would read itself, through shop.big"),
        ("CREATE OR REPLACE VIEW big AS SELECT * FROM outer_big", "would read itself, through shop.outer_big"),
        ("DROP VIEW nowhere", "there is no view shop.nowhere"),
        ("DROP VIEW sales", "shop.sales is a table, not a view; use DROP TABLE"),
        ("INSERT INTO big VALUES (1, 'a')", "shop.big is a view and not a table|TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM big VERSION AS OF 1", "neither a version nor options|TABLE_OR_VIEW_NOT_FOUND"),
        ("DROP TABLE big", "has no table 'big'|Use DROP VIEW instead"),
    ],
)
def test_what_cannot_be_done_says_so(run: Run, catalog: Catalog, statement: str, said: str) -> None:
    run("CREATE TEMPORARY VIEW temporary AS SELECT 1 AS one")
    run("CREATE VIEW big AS SELECT * FROM sales")
    run("CREATE VIEW outer_big AS SELECT * FROM big")
    with pytest.raises(Exception, match=said):
        run(statement)
    assert catalog.list_views("shop") == ["big", "outer_big"]
    assert catalog.list_views("other") == []


@pytest.mark.newest
def test_what_spark_shows_of_a_view(spark: SparkSession, catalog: Catalog, options: dict[str, str]) -> None:
    paimon_spark.attach(spark, name="listed", **options)
    try:
        spark.sql(
            "CREATE VIEW listed.shop.big (k COMMENT 'the key') COMMENT 'large' AS SELECT id FROM listed.shop.sales"
        )
        assert [tuple(r) for r in spark.sql("DESCRIBE listed.shop.big").collect()] == [("k", "int", "the key")]
        (text,) = spark.sql("SHOW CREATE TABLE listed.shop.big").collect()[0]
        assert text.startswith("CREATE VIEW listed.shop.big (\n  k COMMENT 'the key')\nCOMMENT 'large'\nAS ")
        assert spark.table("listed.shop.big").where("k > 1").count() == 2
        assert not spark.catalog.tableExists("listed.shop.nothing")
        with pytest.raises(Exception, match=r"run CREATE OR REPLACE VIEW shop\.big AS"):
            spark.sql("ALTER VIEW listed.shop.big AS SELECT 1 AS k")
        with pytest.raises(Exception, match="cannot be renamed this way"):
            spark.sql("ALTER VIEW listed.shop.big RENAME TO listed.shop.bigger")
    finally:
        paimon_spark.detach(spark, "listed")


def test_what_no_view_can_be_is_refused_when_read(spark: SparkSession, catalog: Catalog) -> None:
    for view, read in (("a", "b"), ("b", "a")):
        catalog.create_view(f"shop.{view}", f"SELECT * FROM {read}", columns="id INT")
    with pytest.raises(Exception, match=r"view shop\.a reads itself: shop\.a reads shop\.b reads shop\.a"):
        catalog.view("shop.a").to_spark(spark)
    catalog.create_view("shop.drops", "DROP TABLE shop.sales", columns="id INT")
    reads: tuple[Callable[[], object], ...] = (
        catalog.view("shop.drops").to_spark,
        lambda: catalog.sql("SELECT * FROM shop.drops", session=spark),
    )
    for reading in reads:
        with pytest.raises(Exception, match=r"the query of a view must be a SELECT, found: DROP TABLE shop\.sales"):
            reading()
    with pytest.raises(Exception, match="must be a SELECT"):
        catalog.create_view("shop.more", "DELETE FROM shop.sales")
    assert catalog.table("shop.sales").scan().to_arrow().num_rows == 3
    catalog.create_view("shop.two", "SELECT 1, 2", columns="id INT")
    with pytest.raises(Exception, match=r"view shop\.two has 1 columns, and its query now has 2"):
        catalog.sql("SELECT * FROM shop.two", session=spark)
