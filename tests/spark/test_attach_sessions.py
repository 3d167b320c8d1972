"""Attached catalogs in long-lived applications: sessions, caches, threads and streams, with the options of Spark."""

from __future__ import annotations

import gc
import itertools
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaObject
from pyspark import InheritableThread
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

import paimon_spark
from paimon_spark.api.catalog import Catalog, load_catalog
from paimon_spark.errors import InvalidInputError, InvalidOptionError
from paimon_spark.spark_catalog.jvm.gateway import Gateway, gateway_of
from paimon_spark.spark_catalog.jvm.proxies import Proxy
from paimon_spark.spark_catalog.session.parser import ParserProxy
from tests.harness.marks import slow_except
from tests.harness.table_files import files_on_disk, missing_files, reachable_files
from tests.harness.three_reads import setting
from tests.harness.until import until

pytestmark = pytest.mark.spark

_NUMBERS = itertools.count()
QUERY_COUNT = 1000 if os.environ.get("PAIMON_SPARK_CHAOS") == "full" else 300


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    """Of a catalog, detached after the test. Each test has another, as sessions keep what they inherited."""
    made = f"of_sessions{next(_NUMBERS)}"
    yield made
    for attached in (made, f"{made}_2"):
        if spark.conf.get(f"spark.sql.catalog.{attached}", None) is not None:
            paimon_spark.detach(spark, attached)
    spark.catalog.setCurrentCatalog("spark_catalog")
    spark.catalog.clearCache()


def warehouse_with(folder: Path, *ids: int) -> str:
    """A warehouse whose table `db.t` has these ids."""
    catalog = load_catalog(str(folder))
    catalog.create_database("db")
    write(catalog, "t", *ids)
    return str(folder)


def write(catalog: Catalog, table: str, *ids: int) -> None:
    """Append ids to a table, from outside of Spark; it is created first if it is missing."""
    rows = pa.table({"id": pa.array(ids, pa.int32()), "v": [str(i) for i in ids]})
    if table not in catalog.list_tables("db"):
        catalog.create_table(f"db.{table}", rows.schema)
    catalog.table(f"db.{table}").write(rows)


def ids_of(rows: DataFrame) -> list[int]:
    """The ids of all rows, sorted."""
    return sorted(row.id for row in rows.select("id").collect())


# Attach and detach


@pytest.mark.quick
def test_attaching_again_changes_the_warehouse_or_adds_options(spark: SparkSession, tmp_path: Path, name: str) -> None:
    first, second = warehouse_with(tmp_path / "one", 1), warehouse_with(tmp_path / "two", 2)
    paimon_spark.attach(spark, first, name=name)
    before = spark.table(f"{name}.db.t")
    paimon_spark.attach(spark, first, name=name)
    assert ids_of(spark.table(f"{name}.db.t")) == [1]
    assert spark.table(f"{name}.db.t").cache().count() == 1
    paimon_spark.attach(spark, second, name=name)
    assert ids_of(spark.table(f"{name}.db.t")) == [2]  # not the cached rows of the other warehouse
    assert ids_of(before) == [1]
    added = paimon_spark.attach(spark, name=name, **{"table-default.file.format": "orc"})
    assert added.warehouse == second
    spark.sql(f"CREATE TABLE {name}.db.o (id INT)")
    spark.sql(f"INSERT INTO {name}.db.o VALUES (1)")
    assert list((tmp_path / "two").rglob("o/bucket-*/*.orc"))
    assert paimon_spark.attach(spark, first, name=name).options == {}  # those of the other warehouse are gone
    paimon_spark.detach(spark, name)
    with pytest.raises(AnalysisException, match=name):
        spark.table(f"{name}.db.t")
    assert ids_of(before) == [1]
    assert [k for k in spark.conf.getAll if k.startswith(f"spark.sql.catalog.{name}")] == []
    with pytest.raises(InvalidInputError, match=f"no catalog {name} is attached"):
        paimon_spark.detach(spark, name)


@pytest.mark.quick
def test_warehouses_under_two_names_are_joined(spark: SparkSession, tmp_path: Path, name: str) -> None:
    paimon_spark.attach(spark, warehouse_with(tmp_path / "one", 1, 2), name=name)
    paimon_spark.attach(spark, warehouse_with(tmp_path / "two", 2, 3), name=f"{name}_2")
    joined = spark.sql(f"SELECT a.id FROM {name}.db.t a JOIN {name}_2.db.t b ON a.id = b.id AND a.v = b.v")
    assert ids_of(joined) == [2]
    spark.sql(f"INSERT INTO {name}.db.t SELECT * FROM {name}_2.db.t WHERE id = 3")
    assert ids_of(spark.table(f"{name}.db.t")) == [1, 2, 3]
    paimon_spark.detach(spark, name)
    assert ids_of(spark.table(f"{name}_2.db.t")) == [2, 3]


@pytest.mark.quick
def test_settings_alone_name_the_warehouse(spark: SparkSession, tmp_path: Path, name: str) -> None:
    warehouse = warehouse_with(tmp_path, 1)
    with (
        setting(spark, f"spark.sql.catalog.{name}.warehouse", warehouse),
        setting(spark, f"spark.sql.catalog.{name}.table-default.bucket", "3"),
    ):
        catalog = paimon_spark.attach(spark, name=name)
        assert (catalog.warehouse, catalog.options) == (warehouse, {"table-default.bucket": "3"})
        assert ids_of(spark.table(f"{name}.db.t")) == [1]
        paimon_spark.detach(spark, name)
        assert spark.conf.get(f"spark.sql.catalog.{name}.warehouse") == warehouse  # the user's own stays


@pytest.mark.parametrize("wrong", ["", "a.b", "a b", "spark_catalog", "a`b", "a/b"])
def test_names_that_spark_cannot_take_are_refused(spark: SparkSession, tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InvalidOptionError, match="cannot be the name of a catalog; use letters, digits"):
        paimon_spark.attach(spark, str(tmp_path), name=wrong)


def test_a_name_of_another_catalog_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with (
        setting(spark, "spark.sql.catalog.of_others", "org.example.Catalog"),
        pytest.raises(
            InvalidInputError, match=r"catalog of_others already, of class org\.example\.Catalog; attach with"
        ),
    ):
        paimon_spark.attach(spark, str(tmp_path), name="of_others")


# Sessions


def cloned(spark: SparkSession) -> SparkSession:
    """A session as Spark makes one for each streaming query."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def test_other_sessions_have_the_catalog_and_a_place_of_their_own(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    paimon_spark.attach(spark, warehouse_with(tmp_path, 1), name=name)
    assert ids_of(SparkSession.builder.getOrCreate().table(f"{name}.db.t")) == [1]
    new = spark.newSession()
    new.sql(f"USE {name}.db")
    assert ids_of(new.table("t")) == [1]
    new.sql("INSERT INTO t VALUES (2, 'b')")
    copy = cloned(new)
    assert copy.catalog.currentCatalog() == "spark_catalog"  # Spark copies no current catalog
    assert ids_of(copy.table(f"{name}.db.t")) == [1, 2]
    copy.range(3, 4).selectExpr("CAST(id AS INT) id", "'c' v").writeTo(f"{name}.db.t").append()
    assert ids_of(new.table("t")) == [1, 2, 3]
    assert spark.catalog.currentCatalog() == "spark_catalog"
    new.sql("CREATE TABLE made (id INT)")  # in the database that is current there
    assert spark.catalog.tableExists(f"{name}.db.made")
    paimon_spark.detach(new, name)
    assert new.catalog.currentCatalog() == "spark_catalog"
    assert ids_of(copy.table(f"{name}.db.t")) == ids_of(spark.table(f"{name}.db.t")) == [1, 2, 3]


@pytest.mark.quick
def test_use_and_the_functions_of_spark_catalog(spark: SparkSession, tmp_path: Path, name: str) -> None:
    catalog = paimon_spark.attach(spark, warehouse_with(tmp_path, 1), name=name)
    write(catalog, "u", 5)
    current = "SELECT current_catalog() c, current_database() d"
    spark.sql(f"USE {name}")
    assert spark.sql(current).first() == Row(c=name, d="default")
    spark.sql("USE db")
    assert spark.sql(current).first() == Row(c=name, d="db")
    spark.sql("USE spark_catalog.default")
    spark.catalog.setCurrentCatalog(name)
    spark.catalog.setCurrentDatabase("db")
    assert spark.sql(current).first() == Row(c=name, d="db")
    assert [t.name for t in spark.catalog.listTables() if not t.isTemporary] == ["t", "u"]
    assert [t.name for t in spark.catalog.listTables(f"{name}.db", "u*") if not t.isTemporary] == ["u"]
    assert {d.name for d in spark.catalog.listDatabases()} == {"db"}
    assert name in {c.name for c in spark.catalog.listCatalogs()}
    assert [c.name for c in spark.catalog.listColumns("t")] == ["id", "v"]
    assert spark.catalog.getTable("t").namespace == ["db"]
    assert [spark.catalog.tableExists(t) for t in ("t", "none", f"{name}.db.u", f"{name}.none.u")] == [
        True, False, True, False,
    ]  # fmt: skip
    assert [spark.catalog.databaseExists(d) for d in ("db", "none", f"{name}.db")] == [True, False, True]
    with pytest.raises(AnalysisException, match="none"):
        spark.sql("USE none")
    assert spark.sql(current).first() == Row(c=name, d="db")


# Caches


def test_cached_rows_stay_until_this_session_writes_or_refreshes(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    catalog = paimon_spark.attach(spark, warehouse_with(tmp_path, 1), name=name)
    table = f"{name}.db.t"
    spark.catalog.cacheTable(table)
    assert ids_of(spark.table(table)) == [1]
    write(catalog, "t", 2)
    assert spark.catalog.isCached(table)
    assert ids_of(spark.table(table)) == [1]
    spark.catalog.refreshTable(table)
    assert ids_of(spark.table(table)) == [1, 2]
    write(catalog, "t", 3)
    assert ids_of(spark.table(table)) == [1, 2]
    spark.sql(f"REFRESH TABLE {table}")
    assert ids_of(spark.table(table)) == [1, 2, 3]
    row = spark.range(4, 5).selectExpr("CAST(id AS INT) id", "'4' v")
    row.writeTo(table).append()
    assert ids_of(spark.table(table)) == [1, 2, 3, 4]
    spark.sql(f"INSERT INTO {table} VALUES (5, '5')")
    assert ids_of(spark.table(table)) == [1, 2, 3, 4, 5]
    spark.sql(f"DELETE FROM {table} WHERE id < 4")
    assert ids_of(spark.table(table)) == [4, 5]
    spark.sql(f"CALL {name}.sys.rollback('db.t', '2')")
    assert ids_of(spark.table(table)) == [1, 2]
    spark.sql(f"ALTER TABLE {table} ADD COLUMN w INT")
    assert spark.table(table).columns == ["id", "v", "w"]
    assert ids_of(spark.table(table)) == [1, 2]
    spark.catalog.uncacheTable(table)
    assert not spark.catalog.isCached(table)


def test_persisted_rows_are_those_of_the_newest_snapshot_and_checkpoints_stay(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    catalog = paimon_spark.attach(spark, warehouse_with(tmp_path / "wh", 1, 2), name=name)
    table = f"{name}.db.t"
    kept = spark.table(table).where("id > 1").persist()
    first = spark.sql(f"SELECT * FROM {table} VERSION AS OF 1").persist()
    assert (ids_of(kept), ids_of(first)) == ([2], [1, 2])
    spark.sparkContext.setCheckpointDir(str(tmp_path / "checkpoints"))
    checkpoint = spark.table(table).checkpoint()
    local = spark.table(table).localCheckpoint()
    write(catalog, "t", 3)
    assert (ids_of(kept), ids_of(first)) == ([2, 3], [1, 2])  # as Spark asks for the version of a table in each query
    assert ids_of(checkpoint) == ids_of(local) == [1, 2]
    assert ids_of(spark.table(table).where("id > 2")) == [3]  # another query reads the newest rows
    kept.unpersist()
    assert ids_of(kept) == [2, 3]
    assert ids_of(first) == [1, 2]


# Threads


def in_threads(*acts: Callable[[], Any], timeout: float = 200) -> None:
    """Run each in a thread of its own. Raises the first error; AssertionError: one does not end."""
    errors: list[BaseException] = []

    def guarded(act: Callable[[], Any]) -> None:
        try:
            act()
        except BaseException as e:  # noqa: BLE001 - raised again below
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(act,), daemon=True) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    assert not any(thread.is_alive() for thread in threads), "a thread does not end"
    if errors:
        raise errors[0]


@pytest.mark.parametrize(
    ("threads", "rounds"), [pytest.param(4, 1, id="few"), pytest.param(8, 6, id="many", marks=pytest.mark.slow)]
)
def test_threads_read_write_and_alter_tables(
    spark: SparkSession, tmp_path: Path, name: str, threads: int, rounds: int
) -> None:
    """Half of the threads share a session, the others have one each."""
    paimon_spark.attach(spark, warehouse_with(tmp_path, 0), name=name)
    spark.sql(f"CREATE TABLE {name}.db.k (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    tables = ("t", "k")

    def work(number: int) -> None:
        session = spark.newSession() if number % 2 else spark
        for n in range(rounds):
            own, table = number * 100 + n + 1, f"{name}.db.{tables[(number // 2 + n) % 2]}"
            session.sql(f"INSERT INTO {table} VALUES ({own}, '{own}')")
            assert session.sql(f"SELECT v FROM {table} WHERE id = {own}").first() == Row(v=str(own))
            rows = session.sql(f"SELECT a.id + 10000 id, b.v FROM {table} a JOIN {table} b ON a.v = b.v")
            rows.where(f"id = {own} + 10000").writeTo(f"{name}.db.k").append()
            changed = f"{name}.db.of_{number}_{n}"
            session.sql(f"CREATE TABLE {changed} (id INT)")
            session.sql(f"ALTER TABLE {changed} ADD COLUMN more STRING")
            assert session.table(changed).columns == ["id", "more"]
            session.sql(f"DROP TABLE {changed}")
            with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
                session.table(changed)

    in_threads(*(partial(work, number) for number in range(threads)))
    of = {i * 100 + n + 1: tables[(i // 2 + n) % 2] for i in range(threads) for n in range(rounds)}
    assert ids_of(spark.table(f"{name}.db.t")) == sorted([0, *(i for i, t in of.items() if t == "t")])
    assert ids_of(spark.table(f"{name}.db.k")) == sorted(
        [*(i + 10000 for i in of), *(i for i, t in of.items() if t == "k")]
    )


# Streams


def test_streams_run_statements_on_attached_tables(spark: SparkSession, tmp_path: Path, name: str) -> None:
    catalog = paimon_spark.attach(spark, warehouse_with(tmp_path / "wh", 1, 2), name=name)
    spark.sql(f"CREATE TABLE {name}.db.sink (id INT, v STRING)")
    spark.sql(f"CREATE TABLE {name}.db.log (batch BIGINT, n BIGINT)")

    def act(rows: DataFrame, batch: int) -> None:
        session = rows.sparkSession
        rows.createOrReplaceTempView("batch")
        session.sql(f"INSERT INTO {name}.db.log SELECT {batch}, count(*) FROM batch")
        known = session.table(f"{name}.db.sink")
        session.sql("SELECT * FROM batch").join(known, "id", "left_anti").writeTo(f"{name}.db.sink").append()
        session.sql(f"CALL {name}.sys.create_tag('db.sink', 'batch_{batch}')")

    def run() -> None:
        query = (
            spark.readStream.table(f"{name}.db.t")
            .writeStream.foreachBatch(act)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    run()
    write(catalog, "t", 2, 3)
    run()
    assert ids_of(spark.table(f"{name}.db.sink")) == [1, 2, 3]
    assert sorted(map(tuple, spark.table(f"{name}.db.log").collect())) == [(0, 2), (1, 2)]
    assert ids_of(spark.sql(f"SELECT * FROM {name}.db.sink VERSION AS OF 'batch_0'")) == [1, 2]


@pytest.mark.slow
def test_a_stream_goes_from_table_to_table(spark: SparkSession, tmp_path: Path, name: str) -> None:
    catalog = paimon_spark.attach(spark, warehouse_with(tmp_path / "wh", 1, 2), name=name)
    spark.sql(f"CREATE TABLE {name}.db.sink (id INT, v STRING)")
    for more in ((), (3,)):
        if more:
            write(catalog, "t", *more)
        query = (
            spark.readStream.table(f"{name}.db.t")
            .where("id <> 1")
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .toTable(f"{name}.db.sink")
        )
        assert query.awaitTermination(120)
    assert ids_of(spark.table(f"{name}.db.sink")) == [2, 3]


# The options of Spark


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A catalog of a fact table with partitions, and a small table with keys; both also as views of Spark's rows."""
    name = "of_options"
    catalog = paimon_spark.attach(spark, str(tmp_path_factory.mktemp("shop")), name=name)
    catalog.create_database("db")
    sales = pa.table(
        {
            "id": pa.array(range(300), pa.int32()),
            "k": pa.array([i * 7 % 20 for i in range(300)], pa.int32()),
            "p": pa.array([i % 3 for i in range(300)], pa.int32()),
            "v": [None if i % 11 == 0 else f"v{i % 13}" for i in range(300)],
        }
    )
    keys = pa.table({"k": pa.array(range(20), pa.int32()), "name": [f"n{i}" for i in range(20)]})
    made = catalog.create_table("db.sales", sales.schema, partition_keys=["p"])
    made.write(sales.slice(0, 200))
    made.write(sales.slice(200))
    spark.createDataFrame(sales.slice(0, 200)).createOrReplaceTempView("plain_sales_1")
    spark.createDataFrame(sales).createOrReplaceTempView("plain_sales")
    found = catalog.create_table("db.keys", keys.schema, primary_keys=["k"], options={"bucket": "2"})
    found.write(keys)
    found.write(keys.slice(3, 2))
    spark.createDataFrame(keys).createOrReplaceTempView("plain_keys")
    yield name
    paimon_spark.detach(spark, name)
    for view in ("plain_sales_1", "plain_sales", "plain_keys"):
        spark.catalog.dropTempView(view)


QUERIES = [
    "SELECT s.id, n.name FROM sales s JOIN keys n ON s.k = n.k WHERE n.name IN ('n3', 'n5')",
    "SELECT n.name, (SELECT max(s.id) FROM sales s WHERE s.k = n.k AND s.p = 1) m FROM keys n",
    "SELECT * FROM sales s WHERE EXISTS (SELECT 1 FROM keys n WHERE n.k = s.k AND n.name < 'n2')",
    "SELECT * FROM sales s WHERE id > (SELECT avg(id) FROM sales i WHERE i.p = s.p)",
    "SELECT * FROM sales WHERE k NOT IN (SELECT k FROM keys WHERE name LIKE 'n1%')",
    "SELECT a.id, b.id FROM sales a JOIN sales b ON a.id = b.id + 3 AND a.p = b.p WHERE a.v = 'v5'",
    "SELECT n.id FROM sales n LEFT ANTI JOIN sales_1 o ON n.id = o.id",
    "SELECT a.id, b.id FROM sales a FULL JOIN sales_1 b ON a.id = b.id WHERE a.p = 1 OR b.id IS NULL",
    "SELECT p, v, count(*) c, count(DISTINCT k) d FROM sales GROUP BY GROUPING SETS ((p), (p, v))",
    "SELECT id, row_number() OVER (PARTITION BY p ORDER BY k, id) r FROM sales",
    "SELECT p FROM sales WHERE v IS NULL UNION ALL SELECT k FROM keys WHERE k = 3 INTERSECT SELECT p FROM sales",
    "SELECT s.v FROM sales s JOIN keys n ON s.p = n.k WHERE n.name = 'n1'",  # skips partitions while it runs
    "SELECT x.c FROM sales s, LATERAL (SELECT count(*) c FROM keys n WHERE n.k < s.k) x WHERE s.id < 9",
]
OPTIONS: dict[str, dict[str, str]] = {
    "default": {},
    "not adaptive": {"spark.sql.adaptive.enabled": "false"},
    "bloom filters": {
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
        "spark.sql.optimizer.runtime.bloomFilter.creationSideThreshold": "1GB",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    },
    "sort-merge joins": {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"},
    "interpreted": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "Python reader": {"spark.paimon-spark.file-reader": "false"},
    "rows": {"spark.sql.parquet.enableVectorizedReader": "false"},
    "no subquery reuse": {"spark.sql.exchange.reuse": "false", "spark.sql.execution.reuseSubquery": "false"},
}


def bag(rows: DataFrame) -> list[str]:
    """The rows in any order."""
    return sorted(map(repr, map(tuple, rows.collect())))


@pytest.mark.parametrize("options", slow_except(OPTIONS, "not adaptive"))
def test_queries_give_the_rows_of_plain_spark(spark: SparkSession, shop: str, options: str) -> None:
    names = {"sales_1": f"{shop}.db.sales VERSION AS OF 1", "sales": f"{shop}.db.sales", "keys": f"{shop}.db.keys"}
    with ExitStack() as stack:
        for key, value in OPTIONS[options].items():
            stack.enter_context(setting(spark, key, value))
        for query in QUERIES:
            ours = re.sub(r"\b(FROM|JOIN) (sales_1|sales|keys)\b", lambda m: f"{m[1]} {names[m[2]]}", query)
            plain = re.sub(r"\b(FROM|JOIN) (sales_1|sales|keys)\b", r"\1 plain_\2", query)
            expected = bag(spark.sql(plain))
            assert expected, query
            assert bag(spark.sql(ours)) == expected, (options, query)


def test_a_sample_is_one_of_the_rows(spark: SparkSession, shop: str) -> None:
    sample = spark.sql(f"SELECT id FROM {shop}.db.sales TABLESAMPLE (50 PERCENT) REPEATABLE (7)")
    assert 100 < sample.count() < 200
    assert ids_of(sample) == ids_of(sample)
    assert len(ids_of(spark.sql(f"SELECT id FROM {shop}.db.sales TABLESAMPLE (5 ROWS)"))) == 5


@pytest.mark.parametrize("has_arrow", ["true", "false"])
def test_to_pandas_gives_all_rows(spark: SparkSession, shop: str, has_arrow: str) -> None:
    with setting(spark, "spark.sql.execution.arrow.pyspark.enabled", has_arrow):
        found: Any = spark.table(f"{shop}.db.sales").where("p = 1").select("id", "v").toPandas()
    assert sorted(found["id"]) == list(range(1, 300, 3))


def test_functions_of_python_run_above_a_scan(spark: SparkSession, shop: str) -> None:
    double = fn.udf(lambda x: 2 * x, "int")
    sales = spark.table(f"{shop}.db.sales")
    found = sales.where(double("id") > 590).select(double("id").alias("id"))
    assert ids_of(found) == [592, 594, 596, 598]
    joined = sales.join(spark.table(f"{shop}.db.keys"), double("id") == fn.col("name").substr(2, 9).cast("int"))
    assert ids_of(joined) == list(range(10))
    grouped = sales.select("id", "p").groupBy("p").applyInArrow(lambda t: t.slice(0, 1), "id int, p int")
    assert len(ids_of(grouped)) == 3


# Interrupted queries


@pytest.mark.parametrize("by", slow_except(["interruptAll", "tag", "job group"], "job group"))
def test_an_interrupted_query_leaves_the_session_usable(
    spark: SparkSession, tmp_path: Path, name: str, by: str
) -> None:
    paimon_spark.attach(spark, warehouse_with(tmp_path, 1), name=name)
    session = spark.newSession()
    session.udf.register("sleeping", _sleeping, "int")
    # The function is of the range's rows: of the table's one row, it would be evaluated once, before the join.
    slow = f"SELECT t.id + 0 * sleeping(CAST(r.id AS INT)) id, v FROM {name}.db.t t JOIN range(0, 60, 1, 2) r"
    statements: dict[str, Callable[[], Any]] = {
        "read": lambda: session.sql(slow).collect(),
        "insert": lambda: session.sql(f"INSERT INTO {name}.db.t {slow}"),
        "append": lambda: session.sql(slow).writeTo(f"{name}.db.t").append(),
        "create": lambda: session.sql(f"CREATE TABLE {name}.db.made AS {slow}"),
    }
    context: Any = spark.sparkContext
    tracker, raised = context.statusTracker(), []

    def run(statement: str) -> None:
        if by == "tag":
            context.addJobTag("slow")
        elif by == "job group":
            context.setJobGroup("slow", "to be cancelled", True)
        with pytest.raises(Exception, match=r"(?i)cancel") as error:  # of many classes
            statements[statement]()
        assert "UndeclaredThrowable" not in str(error.value)
        raised.append(statement)

    interrupt: dict[str, Callable[[], Any]] = {
        "interruptAll": session.interruptAll,
        "tag": partial(context.cancelJobsWithTag, "slow"),  # session.interruptTag knows only tags of its own thread
        "job group": partial(context.cancelJobGroup, "slow"),
    }
    for statement in statements if by == "interruptAll" else ("read", "append"):
        thread = InheritableThread(target=partial(run, statement), session=spark)
        thread.start()
        until(lambda: tracker.getActiveStageIds() or not thread.is_alive())  # noqa: B023 - called at once

        def has_ended(thread: threading.Thread = thread) -> bool:
            interrupt[by]()  # again and again: the stages may be those of a statement before
            thread.join(0.5)
            return not thread.is_alive()

        until(has_ended)
        assert ids_of(session.table(f"{name}.db.t")) == [1]
    assert raised == (list(statements) if by == "interruptAll" else ["read", "append"])
    assert not session.catalog.tableExists(f"{name}.db.made")
    session.sql(f"INSERT INTO {name}.db.t VALUES (2, 'b')")
    assert ids_of(session.table(f"{name}.db.t")) == [1, 2]
    table = load_catalog(str(tmp_path)).table("db.t")
    assert [s.id for s in table.snapshots()] == [1, 2]
    table.remove_orphan_files(older_than=datetime.now(UTC))
    assert {f.path for f in files_on_disk(table.handle)} <= reachable_files(table.handle)
    assert missing_files(table.handle) == []


def _sleeping(number: int) -> int:
    time.sleep(0.2)
    return number


def driver(act: str, home: Path, **environment: str) -> str:
    """Run a driver of its own; what it has printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.attached_driver", act, str(home)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0 and "held" in done.stdout, done.stdout + done.stderr[-5000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("pins", ["true", "false"], ids=["pinned threads", "threads of the pool"])
def test_a_second_application_of_the_process_attaches_again(tmp_path: Path, pins: str) -> None:
    driver("restarted", tmp_path, PYSPARK_PIN_THREAD=pins)


@pytest.mark.parametrize("pins", ["true", "false"], ids=["pinned threads", "threads of the pool"])
def test_python_is_called_with_a_token_alone(tmp_path: Path, pins: str) -> None:
    driver("called", tmp_path, PYSPARK_PIN_THREAD=pins)


@pytest.mark.slow
def test_ctrl_c_leaves_the_session_usable(tmp_path: Path) -> None:
    told = driver("interrupted", tmp_path)
    assert told.count("interrupted") == 4, told


# Growth


class Usage(NamedTuple):
    """What an application holds."""

    threads: int
    """Of Python."""
    called: int
    """Python objects that the JVM can call."""
    held: int
    """Java objects that Python holds."""
    memory_mib: int
    """Of the driver's Python process."""
    parsers: int
    """Of sessions that live."""


def usage(spark: SparkSession) -> Usage:
    """What is held once both collectors have run."""
    gateway: Any = spark.sparkContext._gateway
    for _ in range(4):
        gc.collect()
        gateway.jvm.System.gc()
        time.sleep(0.5)  # finalizers, in threads of their own
    called = list(gateway.gateway_property.pool.dict.values())
    held = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway().getBindings().size()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    parsers = sum(isinstance(c, ParserProxy) for c in called)
    return Usage(threading.active_count(), len(called), held, resident >> 20, parsers)


def mixed_queries(spark: SparkSession, name: str) -> Iterator[Callable[[], Any]]:
    """Queries and statements of all kinds, without end."""
    t, k = f"{name}.db.t", f"{name}.db.k"
    for i in itertools.count():
        yield from (
            partial(_run, spark, f"SELECT * FROM {t} WHERE id > {i % 90} AND p = 1"),
            partial(_run, spark, f"SELECT t.v, k.v FROM {t} t JOIN {k} k ON t.id = k.id"),
            partial(_run, spark, f"SELECT count(*) FROM {t} WHERE id IN (SELECT id FROM {k} WHERE v > '1')"),
            partial(_run, spark, f"SELECT * FROM {t} WHERE id = (SELECT max(id) FROM {k})"),
            partial(_run, spark, f"CREATE OR REPLACE TEMPORARY VIEW of_growth AS SELECT id FROM {t} WHERE p = {i % 3}"),
            partial(_run, spark, "SELECT count(id) FROM of_growth WHERE id > 3"),
            spark.table(t).where("id = 3").toPandas,
            partial(_run, spark, f"SELECT * FROM {name}.db.`t$snapshots`"),
            partial(_run, spark, f"DESCRIBE {t}"),
            partial(_run, spark, f"CALL {name}.sys.create_tag(table => 'db.t', tag => 'of_{i}')"),
        )
        if i % 4 == 0:
            yield partial(_run, spark, f"INSERT INTO {k} VALUES ({i % 20}, 'x{i}')")
            yield spark.table(t).limit(1).select("id", "v").writeTo(k).append


def _run(spark: SparkSession, statement: str) -> None:
    spark.sql(statement).collect()


@pytest.mark.slow
@pytest.mark.newest
@pytest.mark.timeout(1500)
def test_many_queries_and_twenty_sessions_leave_nothing(spark: SparkSession, tmp_path: Path, name: str) -> None:
    paimon_spark.attach(spark, warehouse_with(tmp_path, 0), name=name)
    spark.sql(f"DROP TABLE {name}.db.t")
    spark.sql(f"CREATE TABLE {name}.db.t PARTITIONED BY (p) AS "
              "SELECT CAST(id AS INT) id, CAST(id AS STRING) v, CAST(id % 3 AS INT) p FROM range(100)")  # fmt: skip
    spark.sql(f"CREATE TABLE {name}.db.k (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    spark.sql(f"INSERT INTO {name}.db.k SELECT CAST(id AS INT), 'x' FROM range(20)")
    queries = mixed_queries(spark, name)
    for act in itertools.islice(queries, 100):
        act()
    before = usage(spark)
    for act in itertools.islice(queries, QUERY_COUNT):
        act()
    after = usage(spark)
    for i in range(20):
        session = spark.newSession()
        session.sql(f"USE {name}.db")
        assert session.sql("SELECT count(*) FROM t").collect() == [(100,)]
        session.sql(f"INSERT INTO k VALUES (1, 'session {i}')")
        session.table("k").where("id = 1").collect()
        del session
    spark.sql("SELECT 1").collect()  # the active session again
    # Threads of Spark's pools keep the session that was active when they began, until they have been idle for 60 s.
    until(lambda: usage(spark).parsers <= before.parsers + 4, lambda: (before, usage(spark)), seconds=180, poll_s=5)
    last = usage(spark)
    print(before, after, last, sep="\n")
    for found in (after, last):
        assert found.threads <= before.threads + 20, (before, found)
        assert found.called <= before.called + 100, (before, found)
        assert found.held <= before.held + 200, (before, found)
        assert found.memory_mib <= before.memory_mib * 1.15 + 10, (before, found)
    assert last.parsers <= before.parsers + 4, (before, last)


class _Task(Proxy, implements=("java.lang.Runnable",)):
    """A call from a thread of the JVM, which calls the JVM in turn."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.names: list[str] = []

    def run(self) -> None:
        self.names.append(self.gateway.static("java.lang.Thread", "currentThread")().getName())


def test_threads_of_the_jvm_that_have_ended_leave_none_in_python(spark: SparkSession) -> None:
    gateway = gateway_of(spark.sparkContext)
    usage(spark)
    before, task = threading.active_count(), _Task(gateway)
    thread_class = gateway.cls("java.lang.Thread")
    count, callers = 60, 4

    def start_threads(number: int) -> None:
        for i in range(count):
            thread = thread_class(task, f"caller {number} {i}")
            thread.start()
            if i % 3:
                thread.join()

    in_threads(*(partial(start_threads, number) for number in range(callers)))
    until(lambda: len(task.names) >= count * callers, lambda: len(task.names))
    assert sorted(task.names) == sorted(f"caller {n} {i}" for n in range(callers) for i in range(count))
    until(lambda: threading.active_count() <= before + 40, threading.active_count)
