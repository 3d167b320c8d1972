"""Attached catalogs through Spark Connect: plain Spark on tables of several warehouses, from clients without a JVM.

Each function whose name begins with `client_` is the code of a client, which runs in a process of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import paimon_spark
from paimon_spark.errors import (
    PaimonError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.harness.connect import ConnectServer
from tests.harness.foreign import IN_CURRENT, MISSPELT, statements

pytestmark = [pytest.mark.spark, pytest.mark.connect]


_IMPORTS: Final = """
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

import paimon_spark
from paimon_spark.errors import *
"""
"""What the code of clients finds imported, as this module has it."""
CASES: Final[list[tuple[str, str]]] = []
UNQUALIFIED: Final[list[tuple[str, str]]] = []
"""Values that the code of a client is given."""


def _run(server: ConnectServer, client: Callable[[Any, str], None], home: Path, **given: Any) -> None:
    """Run the code of a client, after that of `prepare`; it finds the values `given` by their names."""
    code = inspect.getsource(client).replace(f"def {client.__name__}(", "def run(", 1)
    values = "\n".join(f"{name} = {value!r}" for name, value in given.items())
    server.run(f"{_IMPORTS}\n{values}\n{inspect.getsource(_prepare)}\n{code}", home)


def _prepare(spark: Any, home: str) -> tuple[Callable[..., list[Any]], Callable[..., str]]:
    """Attach two warehouses, with a table in one.

    Returns what runs a statement, and what returns the text of an error, which must be one line.
    """
    paimon_spark.attach(spark, f"{home}/one")
    paimon_spark.attach(spark, f"{home}/two", name="lake")

    def rows(statement: str, *args: Any, **values: Any) -> list[Any]:
        return sorted(map(tuple, spark.sql(statement, *args, **values).collect()))

    def error(act: Callable[[], Any], kind: type[Exception] = PaimonError) -> str:
        with pytest.raises(kind) as found:
            act()
        text = str(found.value)
        assert "\n" not in text, text
        assert "Traceback" not in text, text
        return text

    rows("CREATE DATABASE paimon.shop")
    rows("CREATE DATABASE lake.shop")
    rows("CREATE TABLE paimon.shop.t (id BIGINT, v STRING, dt STRING) PARTITIONED BY (dt)")
    paimon_spark.load_catalog(f"{home}/one").table("shop.t").write(
        pa.table({"id": [1, 2], "v": ["a", "b"], "dt": ["p1", "p2"]})
    )
    return rows, error


def client_of_all_doors(spark: Any, home: str) -> None:
    rows, error = _prepare(spark, home)
    frame = spark.table("paimon.shop.t")
    assert sorted(map(tuple, frame.where("t.id > 1").select("t.v").collect())) == [("b",)]

    frame.where("id = 1").writeTo("lake.shop.t").create()
    assert rows("SELECT a.id, b.v FROM paimon.shop.t a JOIN lake.shop.t b ON a.id = b.id") == [(1, "a")]
    assert rows("SHOW TABLES IN lake.shop") == [("shop", "t", False)]

    rows("USE lake.shop")
    assert rows("SELECT current_catalog(), current_database(), id FROM t") == [("lake", "shop", 1)]
    assert spark.catalog.tableExists("t")
    rows("USE spark_catalog")
    assert "nope" in error(lambda: spark.table("paimon.shop.nope"))


def test_plain_spark_reads_and_writes_tables_of_two_warehouses(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_of_all_doors, tmp_path)


def client_of_a_branch(spark: Any, home: str) -> None:
    rows, error = _prepare(spark, home)
    rows("ALTER TABLE paimon.shop.t CREATE BRANCH fix")
    spark.conf.set("spark.paimon.branch", "fix")
    spark.createDataFrame([(3, "c", "p1")], "id BIGINT, v STRING, dt STRING").writeTo("paimon.shop.t").append()
    rows("INSERT INTO paimon.shop.t VALUES (4, 'd', 'p1')")
    spark.createDataFrame([(5, "e", "p1")], "id BIGINT, v STRING, dt STRING").write.insertInto("paimon.shop.t")
    assert sorted(r.id for r in spark.table("paimon.shop.t").select("t.id").collect()) == [1, 2, 3, 4, 5]
    assert rows("SELECT t.id FROM paimon.shop.t WHERE t.id > 3") == [(4,), (5,)]
    assert "works on its branch 'fix'" in error(lambda: rows("DROP TABLE paimon.shop.t"))
    path = f"{home}/one/shop.db/t"
    more = spark.createDataFrame([(6, "f", "p1")], "id BIGINT, v STRING, dt STRING")
    more.write.format("paimon").mode("append").save(path)
    assert sorted(r.id for r in spark.read.format("paimon").load(path).collect()) == [1, 2, 3, 4, 5, 6]
    query = more.write.format("paimon").option("branch", "main").mode("append")
    spark.conf.set("spark.sql.caseSensitive", "true")
    assert "caseSensitive" in error(lambda: query.save(path))
    assert "caseSensitive" in error(lambda: rows("INSERT INTO paimon.shop.t VALUES (4, 'd', 'p1')"))
    spark.conf.unset("spark.sql.caseSensitive")
    spark.conf.unset("spark.paimon.branch")
    assert rows("SELECT id FROM paimon.shop.t") == [(1,), (2,)]
    assert sorted(r.id for r in spark.read.format("paimon").load(path).collect()) == [1, 2]
    assert "__paimon_file_path" in error(lambda: rows("SELECT input_file_name() FROM paimon.shop.t"))


@pytest.mark.quick
def test_a_session_works_on_a_branch(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_of_a_branch, tmp_path)


def client_of_statements(spark: Any, home: str) -> None:
    rows, _ = _prepare(spark, home)
    rows("ALTER TABLE paimon.shop.t CREATE TAG v1")
    rows("ALTER TABLE paimon.shop.t CREATE BRANCH fix")
    assert rows("INSERT INTO paimon.shop.t VALUES (3, 'c', 'p1'), (4, 'd', 'p1')") == [(2, 2)]
    assert rows("UPDATE paimon.shop.t SET v = 'z' WHERE id = :id", {"id": 3}) == [(1,)]
    assert rows("DELETE FROM paimon.shop.t WHERE id = 4") == [(1,)]
    rows("CREATE TABLE lake.shop.k (id BIGINT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    merge = (
        "MERGE INTO lake.shop.k USING paimon.shop.t AS s ON lake.shop.k.id = s.id WHEN NOT MATCHED THEN INSERT "
        "(id, v) VALUES (s.id, s.v)"
    )
    assert rows(merge) == [(3, 0, 0, 3)]
    assert rows("SELECT id, v FROM lake.shop.k") == [(1, "a"), (2, "b"), (3, "z")]

    assert len(rows("SELECT * FROM paimon.shop.t VERSION AS OF 'v1'")) == 2
    rows("INSERT INTO paimon.shop.t$branch_fix VALUES (9, 'fix', 'p9')")
    for name in ("paimon.shop.t$branch_fix", "paimon.shop.`t$branch_fix`", "paimon.shop.t.branch_fix"):
        assert [r[0] for r in rows(f"SELECT id FROM {name}")] == [1, 2, 9], name
    assert rows("SELECT tag_name FROM paimon.shop.t$tags WHERE tag_name = 'v1'") == [("v1",)]
    assert ("v1",) in rows("SHOW TAGS paimon.shop.t")
    assert rows("CALL paimon.sys.create_tag('shop.t', 'v2')") == [(True,)]
    changes = "SELECT v FROM paimon_incremental_query('paimon.shop.t', 'v1', 'v2')"
    assert rows(changes) == [("z",)], rows(changes)
    assert rows("SELECT id FROM paimon.shop.t WHERE dt = paimon.sys.max_pt('shop.t')") == [(2,)]
    assert rows("SELECT id FROM IDENTIFIER(:name) WHERE id < 2", {"name": "paimon.shop.t"}) == [(1,)]
    assert rows("EXECUTE IMMEDIATE 'SELECT count(*) FROM lake.shop.k'") == [(3,)]

    both = "SELECT paimon.shop.t.v, lake.shop.t.v FROM paimon.shop.t, lake.shop.t WHERE paimon.shop.t.id = 1"
    rows("CREATE TABLE lake.shop.t AS SELECT 7 AS id, 'seven' AS v")
    assert rows(both) == [("a", "seven")]

    frame = spark.createDataFrame([(1, "one"), (5, "five")], "id BIGINT, word STRING")
    assert rows("SELECT word FROM {f} JOIN paimon.shop.t USING (id)", f=frame) == [("one",)]
    assert rows("SELECT {x} AS x FROM paimon.shop.t WHERE id = {i}", x="it's", i=1) == [("it's",)]
    assert rows("INSERT INTO lake.shop.k SELECT * FROM {f} WHERE id = ?", [5], f=frame)[0][1] == 1
    assert rows("SELECT v FROM lake.shop.k WHERE id = 5") == [("five",)]

    rows("CREATE TEMPORARY VIEW view AS SELECT * FROM paimon.shop.t")
    rows("USE paimon.shop")
    assert len(rows("SELECT * FROM view")) == len(rows("SELECT * FROM t")) == 3
    rows("SET spark.paimon.paimon.*.*.scan.tag-name = v1")
    assert (len(rows("SELECT * FROM t")), len(rows("SELECT * FROM lake.shop.k"))) == (2, 4)


@pytest.mark.slow
def test_statements_of_all_kinds_run(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_of_statements, tmp_path)


def client_of_names(spark: Any, home: str) -> None:
    rows, error = _prepare(spark, home)
    api = spark.catalog
    assert rows("SHOW CATALOGS") == [("lake",), ("paimon",), ("spark_catalog",)]
    assert [c.name for c in api.listCatalogs()] == ["lake", "paimon", "spark_catalog"]
    assert rows("SHOW DATABASES") == [("default",)]
    assert rows("SHOW DATABASES IN paimon") == [("shop",)]
    assert (api.currentCatalog(), api.currentDatabase()) == ("spark_catalog", "default")
    assert api.databaseExists("lake.shop")
    assert not api.databaseExists("lake.nope")
    assert api.getDatabase("lake.shop").catalog == "lake"
    assert not api.tableExists("paimon.shop.nope")
    assert api.tableExists("paimon.shop.t")
    assert api.tableExists("paimon.shop.t$snapshots")
    assert [t.name for t in api.listTables("paimon.shop")] == ["t"]

    api.setCurrentCatalog("paimon")
    assert (api.currentCatalog(), api.currentDatabase()) == ("paimon", "default")
    assert [d.name for d in api.listDatabases()] == ["shop"]
    api.setCurrentDatabase("shop")
    assert rows("SELECT current_catalog(), current_schema()") == [("paimon", "shop")]
    assert rows("SHOW CURRENT NAMESPACE") == [("paimon", "shop")]
    spark.range(1).createTempView("view")
    assert [(t.name, t.isTemporary) for t in api.listTables()] == [("t", False), ("view", True)]
    assert [(c.name, c.dataType, c.isPartition) for c in api.listColumns("t")] == [
        ("id", "bigint", False), ("v", "string", False), ("dt", "string", True)]  # fmt: skip
    assert (api.getTable("t").catalog, api.getTable("t").namespace) == ("paimon", ["shop"])
    assert spark.table("t").count() == spark.read.table("shop.t").count() == 2
    assert "nope" in error(lambda: api.setCurrentDatabase("nope"))
    assert "nope" in error(lambda: api.listTables("nope"))
    assert api.currentDatabase() == "shop"

    made = api.createTable("made", schema=spark.table("t").schema, description="a copy")
    assert (made.columns, api.getTable("made").description) == (["id", "v", "dt"], "a copy")
    assert "TRUNCATE" not in error(lambda: api.cacheTable("t"))
    assert not api.isCached("t")
    api.refreshTable("t")
    if hasattr(api, "dropTable"):  # since Spark 4.2
        api.truncateTable("made")
        api.dropTable("made")
        api.createDatabase("lake.more")
        api.dropDatabase("lake.more")
        assert api.getCreateTableString("t").startswith("CREATE TABLE paimon.shop.t")
        assert [p.partition for p in api.listPartitions("t")] == ["dt=p1", "dt=p2"]
        assert "path" in api.getTableProperties("t")
        assert [v.name for v in api.listViews()] == ["view"]
        api.analyzeTable("t")
        assert not api.tableExists("made")

    api.setCurrentCatalog("spark_catalog")
    assert rows("SHOW CURRENT NAMESPACE") == [("spark_catalog", "default")]
    assert [t.name for t in api.listTables()] == ["view"]


@pytest.mark.slow
def test_the_current_catalog_and_spark_catalog_know_the_names(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_of_names, tmp_path)


def client_of_reads(spark: Any, home: str) -> None:
    rows, error = _prepare(spark, home)
    rows("ALTER TABLE paimon.shop.t CREATE TAG v1")
    rows("INSERT INTO paimon.shop.t VALUES (3, 'c', 'p3')")
    read = spark.read
    assert read.option("versionAsOf", "v1").table("paimon.shop.t").count() == 2
    assert spark.read.option("where", "id > 1").option("columns", "id").table("paimon.shop.t").columns == ["id"]
    assert "versionAsOf" in error(lambda: spark.read.option("versionAsOx", "v1").table("paimon.shop.t"))
    assert "v9" in error(lambda: spark.read.option("versionAsOf", "v9").table("paimon.shop.t"))
    assert "schema" in error(lambda: spark.read.schema("id INT").table("paimon.shop.t"))
    assert spark.table("paimon.shop.t$snapshots").count() == 2
    spark.conf.set("spark.paimon.scan.tag-name", "v1")
    assert spark.table("paimon.shop.t").count() == 2
    assert spark.read.option("versionAsOf", "2").table("paimon.shop.t").count() == 3
    spark.conf.unset("spark.paimon.scan.tag-name")

    spark.range(3).createTempView("t")
    rows("USE paimon.shop")
    assert spark.table("t").columns == ["id"]
    assert spark.table("shop.t").count() == 3
    if hasattr(read, "changes"):
        assert "CHANGES" not in error(lambda: read.changes("shop.t"))

    assert "system table" in error(lambda: spark.readStream.table("shop.t$snapshots"))
    assert "scan.mode" in error(lambda: spark.readStream.option("scan.mod", "latest").table("shop.t"))
    assert "schema" in error(lambda: spark.readStream.schema("id INT").table("shop.t"))
    reader = spark.readStream
    assert reader.table("shop.t").columns == reader.table("paimon.shop.t").columns == ["id", "v", "dt"]
    source = spark.readStream.option("scan.mode", "from-snapshot").option("scan.snapshot-id", "2").table("shop.t")
    writer = source.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{home}/c1")
    query = writer.partitionBy("dt").option("primary-key", "dt,id").toTable("lake.shop.sink", queryName="copy")
    query.awaitTermination()
    assert query.name == "copy"
    assert rows("SELECT * FROM lake.shop.sink") == [(3, "c", "p3")]
    assert "PRIMARY" not in rows("SHOW CREATE TABLE lake.shop.sink")[0][0]
    assert "PARTITIONED BY (dt)" in rows("SHOW CREATE TABLE lake.shop.sink")[0][0]
    rows("INSERT INTO t VALUES (4, 'd', 'p4')".replace("INTO t", "INTO shop.t"))
    again = spark.readStream.table("shop.t").writeStream.trigger(availableNow=True)
    again.option("checkpointLocation", f"{home}/c2").toTable("lake.shop.sink").awaitTermination()
    assert [r[0] for r in rows("SELECT id FROM lake.shop.sink")] == [1, 2, 3, 4]
    assert "partitioned" in error(lambda: source.writeStream.partitionBy("id").toTable("lake.shop.sink"))

    warehouse = f"{home}/two"

    def into_two(frame: Any, _: int) -> None:
        import paimon_spark  # in the process of the server

        paimon_spark.attach(frame.sparkSession, warehouse, name="two")
        frame.writeTo("two.shop.batches").append()

    rows("CREATE TABLE lake.shop.batches (id BIGINT, v STRING, dt STRING)")
    batches = spark.readStream.table("shop.t").writeStream.trigger(availableNow=True).foreachBatch(into_two)
    batches.option("checkpointLocation", f"{home}/c3").start().awaitTermination()
    assert len(rows("SELECT * FROM lake.shop.batches")) == 4


@pytest.mark.slow
@pytest.mark.streaming
def test_dataframes_and_streams_read_by_name(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_of_reads, tmp_path)


def client_of_writes(spark: Any, home: str) -> None:
    rows, error = _prepare(spark, home)
    frame = spark.createDataFrame([(5, "e", "p1"), (6, "f", "p3")], "id BIGINT, v STRING, dt STRING")

    def ids(table: str = "paimon.shop.t") -> list[int]:
        return [r[0] for r in rows(f"SELECT id FROM {table}")]

    frame.select("dt", "v", "id").writeTo("paimon.shop.t").append()
    assert ids() == [1, 2, 5, 6]
    frame.where("id = 5").writeTo("paimon.shop.t").overwritePartitions()
    assert ids() == [2, 5, 6]
    frame.where("id = 6").withColumn("id", F.lit(7)).writeTo("paimon.shop.t").overwrite(F.col("dt") == "p3")
    assert ids() == [2, 5, 7]
    eight = frame.where("id = 5").withColumn("id", F.lit(8))
    eight.writeTo("paimon.shop.t").overwrite(F.expr("dt = 'p1'") & F.lit(True))
    assert ids() == [2, 7, 8]
    assert "p1" in error(lambda: frame.writeTo("paimon.shop.t").overwrite(F.col("dt") == "p3"))
    frame.writeTo("paimon.shop.t").overwrite(F.lit(True))
    assert ids() == [5, 6]
    for wrong in (F.col("id") == 5, F.col("dt") > "p1"):
        assert "dt" in error(lambda c=wrong: frame.writeTo("paimon.shop.t").overwrite(c), UnsupportedFeatureError)
    more = frame.withColumn("more", F.lit(1))
    assert "'more'" in error(lambda: more.writeTo("paimon.shop.t").append(), SchemaMismatchError)
    more.writeTo("paimon.shop.t").option("mergeSchema", True).append()
    assert spark.table("paimon.shop.t").columns == ["id", "v", "dt", "more"]
    error(lambda: frame.writeTo("paimon.shop.nope").append(), TableNotFoundError)
    error(lambda: frame.writeTo("paimon.shop.t$snapshots").append())

    writer = frame.writeTo("lake.shop.made").using("paimon").partitionedBy("dt", F.partitioning.bucket(2, "id"))
    writer.tableProperty("primary-key", "dt,id").create()
    made = rows("SHOW CREATE TABLE lake.shop.made")[0][0]
    assert "PARTITIONED BY (dt)" in made
    assert "'bucket' = '2'" in made
    error(lambda: frame.writeTo("lake.shop.made").create(), TableAlreadyExistsError)
    error(lambda: frame.writeTo("lake.shop.other").replace(), TableNotFoundError)
    error(lambda: frame.writeTo("lake.shop.other").partitionedBy(F.partitioning.years("dt")).create())
    error(lambda: frame.writeTo("lake.shop.other").using("parquet").create(), UnsupportedFeatureError)
    error(lambda: frame.select("nope").writeTo("lake.shop.other").create(), Exception)
    assert not spark.catalog.tableExists("lake.shop.other")
    replaced = spark.table("lake.shop.made").where("id = 5")
    replaced.writeTo("lake.shop.made").partitionedBy("dt").createOrReplace()  # reads what it replaces
    assert ids("lake.shop.made") == [5]
    assert "bucket" not in rows("SHOW CREATE TABLE lake.shop.made")[0][0]
    assert "MERGE INTO" in error(lambda: frame.mergeInto("lake.shop.made", F.lit(True)), UnsupportedFeatureError)

    frame.write.option("primary-key", "id").saveAsTable("lake.shop.saved")
    assert "'primary-key' = 'id'" in rows("SHOW CREATE TABLE lake.shop.saved")[0][0]
    error(lambda: frame.write.saveAsTable("lake.shop.saved"), TableAlreadyExistsError)
    frame.write.mode("ignore").saveAsTable("lake.shop.saved")
    frame.select("dt", "id", "v").write.mode("append").format("paimon").saveAsTable("lake.shop.saved")
    assert ids("lake.shop.saved") == [5, 6]
    assert "nothing" in error(lambda: frame.write.partitionBy("dt").mode("append").saveAsTable("lake.shop.saved"))
    error(lambda: frame.write.format("parquet").mode("append").saveAsTable("lake.shop.saved"), UnsupportedFeatureError)
    error(lambda: frame.write.mode("overwite").saveAsTable("lake.shop.wrong"))
    error(lambda: frame.write.saveAsTable("lake.nope.saved"))
    commits = len(rows("SELECT * FROM lake.shop.`saved$snapshots`"))
    frame.where("id = 6").write.mode("overwrite").saveAsTable("lake.shop.saved")
    assert ids("lake.shop.saved") == [6]
    assert "'primary-key' = 'id'" in rows("SHOW CREATE TABLE lake.shop.saved")[0][0]
    assert len(rows("SELECT * FROM lake.shop.`saved$snapshots`")) == commits + 1
    new = spark.createDataFrame([(90, "n", "p9"), (91, "n", "p9")], "id BIGINT, v STRING, dt STRING")
    new.where("id = 90").write.mode("append").saveAsTable("paimon.shop.t")
    kept = [i for i in ids() if i != 90]
    new.where("id = 91").write.mode("overwrite").option("replaceWhere", "dt = 'p9'").saveAsTable("paimon.shop.t")
    assert ids() == sorted([*kept, 91])
    properties = rows("SHOW CREATE TABLE paimon.shop.t")[0][0]
    assert "replaceWhere" not in properties and "PARTITIONED BY (dt)" in properties
    rows("DELETE FROM paimon.shop.t WHERE id > 80")
    frame.write.bucketBy(3, "id").saveAsTable("lake.shop.buckets")
    assert "'bucket' = '3'" in rows("SHOW CREATE TABLE lake.shop.buckets")[0][0]

    frame.toDF("a", "b", "c").write.insertInto("lake.shop.buckets")
    assert ids("lake.shop.buckets") == [5, 5, 6, 6]
    frame.where("id = 5").write.insertInto("lake.shop.buckets", overwrite=True)
    assert ids("lake.shop.buckets") == [5]
    assert "position" in error(lambda: frame.select("id").write.insertInto("lake.shop.buckets"), SchemaMismatchError)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.table("paimon.shop.t").where("id = 6").limit(1).write.insertInto("paimon.shop.t", overwrite=True)
    assert ids() == [5, 5, 6]


@pytest.mark.slow
def test_dataframes_are_written_by_name(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_of_writes, tmp_path)


def client_beside_spark(spark: Any, home: str) -> None:
    rows, error = _prepare(spark, home)
    spark.sql("DROP TABLE IF EXISTS own")
    rows("CREATE TABLE own USING parquet AS SELECT * FROM paimon.shop.t")
    assert spark.table("own").count() == 2
    rows("INSERT INTO own SELECT * FROM paimon.shop.t WHERE id = 1")
    assert rows("SELECT count(*) FROM own JOIN paimon.shop.t USING (id)") == [(3,)]
    spark.range(1).selectExpr("id", "'x' v", "'p' dt").write.insertInto("own")
    with pytest.raises(AnalysisException, match="Cannot write into v1 table"):
        spark.range(1).writeTo("default.own").append()
    spark.range(1).write.mode("overwrite").saveAsTable("own2")
    assert spark.catalog.tableExists("own2")
    rows("DELETE FROM paimon.shop.t")
    rows("INSERT INTO paimon.shop.t SELECT * FROM own WHERE id = 2")

    rows("USE paimon.shop")
    assert rows("SELECT count(*) FROM spark_catalog.default.own") == [(4,)]
    assert "'own'" in error(lambda: rows("SELECT * FROM own"))
    assert rows("SELECT id FROM t") == [(2,)]
    rows("DROP TABLE spark_catalog.default.own")
    rows("USE spark_catalog.default")
    rows("DROP TABLE own2")

    for wrong in ("SELECT * FROM own", "SELECT * FROM nope.own"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(wrong).collect()
    with pytest.raises(ParseException, match="SELEC"):
        spark.sql("SELEC 1").collect()
    column = error(lambda: spark.sql("SELECT nope, v FROM paimon.shop.t").collect(), AnalysisException)
    assert "`v`" in column, column
    assert "CREATE TEMPORARY VIEW" in error(lambda: spark.sql("CACHE TABLE paimon.shop.t"))
    assert "Connect" in error(lambda: spark.sql("SHOW FUNCTIONS IN paimon.shop"))
    assert "EXPLAIN SELECT" in error(lambda: spark.sql("EXPLAIN INSERT INTO paimon.shop.t VALUES (1, 'a', 'b')"))
    assert "plan" in spark.sql("EXPLAIN SELECT * FROM paimon.shop.t").columns


@pytest.mark.slow
def test_tables_and_errors_of_spark_stay_its_own(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_beside_spark, tmp_path)


def client_of_sessions(spark: Any, home: str) -> None:
    rows, error = _prepare(spark, home)

    def is_unknown(session: Any, name: str = "paimon.shop.t") -> bool:
        try:
            session.table(name).schema  # noqa: B018 - looks the table up
        except AnalysisException as e:
            return "shop" in str(e)
        return False

    rows("USE lake.shop")
    copy = spark.cloneSession()
    assert copy.catalog.currentCatalog() == "lake"
    assert copy.sql("SELECT count(*) FROM paimon.shop.t").collect()[0][0] == 2
    copy.sql("USE paimon.shop")
    assert (copy.catalog.currentCatalog(), spark.catalog.currentCatalog()) == ("paimon", "lake")
    if hasattr(type(spark), "newSession"):  # since Spark 4.3
        new = spark.newSession()
        assert new.catalog.currentCatalog() == "spark_catalog"
        assert new.table("paimon.shop.t").count() == 2
        new.client.close()  # PySpark may wait for ever for a session that is open when the process ends

    paimon_spark.detach(spark, "lake")
    assert spark.catalog.currentCatalog() == "spark_catalog"
    assert is_unknown(spark, "lake.shop.t")
    assert not is_unknown(spark)
    assert copy.catalog.databaseExists("lake.shop")
    assert "paimon" in error(lambda: paimon_spark.detach(spark, "lake"))

    other = paimon_spark.attach(spark, f"{home}/three")  # in place of the first one
    other.create_database("three")
    assert rows("SHOW DATABASES IN paimon") == [("three",)]
    assert paimon_spark.attach(spark).warehouse == f"{home}/three"
    spark.conf.set("spark.sql.catalog.set.warehouse", f"{home}/one")
    spark.conf.set("spark.sql.catalog.set.table-default.bucket", "4")
    assert paimon_spark.attach(spark, name="set").options["table-default.bucket"] == "4"
    rows("CREATE TABLE set.shop.buckets (id INT) TBLPROPERTIES ('bucket-key' = 'id')")
    assert "'bucket' = '4'" in rows("SHOW CREATE TABLE set.shop.buckets")[0][0]
    spark.conf.set("spark.sql.catalog.jar", "org.apache.paimon.spark.SparkCatalog")
    assert "SparkCatalog" in error(lambda: paimon_spark.attach(spark, f"{home}/one", name="jar"))

    def work(number: int) -> int:
        spark.sql(f"INSERT INTO set.shop.t VALUES ({number}, 'x', 'p{number}')")
        return int(spark.sql(f"SELECT count(*) FROM set.shop.t WHERE id = {number}").collect()[0][0])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(10, 18))) == [1] * 8
    assert len(rows("SELECT * FROM set.shop.t")) == 10

    for name in ("paimon", "set"):
        paimon_spark.detach(spark, name)
    assert is_unknown(spark, "set.shop.t")
    left = [key for key in dict(spark.conf.getAll) if key.startswith("spark.sql.catalog.")]
    assert not [key for key in left if key.startswith(("spark.sql.catalog.paimon", "spark.sql.catalog.lake"))], left
    assert "spark.sql.catalog.set.warehouse" in left  # it was set before
    assert rows("SELECT 1") == [(1,)]
    assert not is_unknown(copy)
    copy.client.close()


@pytest.mark.slow
def test_catalogs_come_and_go_with_sessions(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_of_sessions, tmp_path)


def client_of_lineage(spark: Any, home: str) -> None:
    rows, _ = _prepare(spark, home)
    catalog = paimon_spark.attach(spark, f"{home}/one")
    catalog.lineage.enable()
    rows("CREATE TABLE paimon.shop.copy AS SELECT * FROM paimon.shop.t")
    spark.table("paimon.shop.t").writeTo("paimon.shop.copy").append()
    jobs = "SELECT DISTINCT job FROM {}.paimon.{}_job_lineage WHERE table LIKE '%{}%'"
    sinks = [r[0] for r in rows(jobs.format("paimon", "sink", "copy"))]
    assert len(sinks) == 2, sinks
    assert all(job.startswith("shop.copy:") for job in sinks), sinks
    joined = (
        "SELECT count(*) > 0 FROM paimon.paimon.source_job_lineage s JOIN paimon.paimon.sink_job_lineage k "
        "ON s.job = k.job"
    )
    assert rows(joined) == [(True,)]


@pytest.mark.slow
def test_lineage_is_recorded_and_queried(server: ConnectServer, tmp_path: Path) -> None:
    _run(server, client_of_lineage, tmp_path)


def client_of_other_formats(spark: Any, home: str) -> None:
    rows, error = _prepare(spark, home)
    rows("CREATE DATABASE paimon.db")
    rows("CREATE TABLE paimon.db.t (a INT, b INT)")
    for sql, said in CASES:
        if "paimon." in sql:  # what names no catalog is about the current one, which is Spark's
            assert said in error(lambda sql=sql: rows(sql)), sql
    for sql in MISSPELT[:-1]:
        assert "there is no catalog 'paimn'" in error(lambda sql=sql: rows(sql.format(c="paimn"))), sql
    rows("USE paimon.db")
    for sql, said in (*UNQUALIFIED, *IN_CURRENT):
        assert said in error(lambda sql=sql: rows(sql)), sql
    for sql in MISSPELT:
        assert "there is no catalog 'paimn'" in error(lambda sql=sql: rows(sql.format(c="paimn"))), sql


def test_what_is_written_elsewhere_is_named_here(server: ConnectServer, tmp_path: Path) -> None:
    given = {
        "CASES": statements("paimon.", "paimon", is_plain=True),
        "UNQUALIFIED": statements("", "paimon", is_plain=True),
        "IN_CURRENT": IN_CURRENT,
        "MISSPELT": MISSPELT,
    }
    _run(server, client_of_other_formats, tmp_path, **given)
