"""Through Spark Connect: the server runs in a process of its own, a client has no JVM. One server for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_spark
from tests.harness.connect import ConnectServer
from tests.harness.golden import golden_path
from tests.harness.recorded import came_from, recording_catalog, said, sinks, sources

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.connect]

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})


READS = """
def run(spark, path):
    def rows(df):
        return sorted(map(str, df.collect()))

    head = rows(spark.read.format("paimon").load(path))
    assert head and head == rows(spark.read.format("paimon_py").load(path))
    tag = rows(spark.read.format("paimon").option("versionAsOf", "t1").load(path))
    assert tag and tag != head
    assert rows(spark.sql("SELECT * FROM {t}", t=spark.read.format("paimon").load(path))) == head

    table = paimon_spark.load_table(path)
    assert rows(table.scan().to_spark(spark)) == head
    assert rows(table.at("t1").scan(columns=["k", "v"]).to_spark()) == tag

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert rows(spark.read.format("paimon").load(path).where("k = 1")) == [r for r in head if "k=1," in r]

    try:
        spark.read.format("paimon").option("versionAsOf", "t11").load(path).collect()
    except Exception as e:
        assert "has no version 't11'" in str(e), e
    else:
        raise AssertionError("a version that does not exist was read")
    paimon_spark.register(spark)
    assert rows(spark.read.format("paimon").load(path)) == head
"""


def test_reads_work_without_a_jvm_in_the_client(server: ConnectServer) -> None:
    server.run(READS, golden_path("branches"))


ERRORS = """
def run(spark, path):
    def shown(act):
        try:
            act()
        except Exception as e:
            return str(e)
        raise AssertionError("no error")

    def read():
        spark.read.format("paimon").option("scan.mod", "x").load(path).collect()

    def write():
        spark.range(1).write.format("paimon").mode("append").option("merge-engin", "x").save(path)

    for act, answer in ((read, "unknown read option 'scan.mod'"), (write, "unknown write option 'merge-engin'")):
        text = shown(act)
        assert answer in text[:300] and "Traceback" not in text, text
    done = paimon_spark.configure_session(spark)
    assert done["spark.sql.connect.serverStacktrace.enabled"] == "false", done
    for act in (read, write):
        assert len(shown(act)) < 450, shown(act)
"""


def test_errors_are_short(server: ConnectServer) -> None:
    server.run(ERRORS, golden_path("branches"))


WRITES = """
def run(spark, home):
    from paimon_spark.jobs.upkeep import compaction

    def rows(path):
        return sorted(map(tuple, spark.read.format("paimon").load(path).collect()))

    assert paimon_spark.configure_session(spark)
    df = spark.range(60).selectExpr("id", "concat('p', id % 3) dt", "id * 2 v")
    expected = sorted(map(tuple, df.collect()))
    for name, options in {
        "append": {"partition": "dt"},
        "fixed": {"primary-key": "id", "bucket": "3"},
        "dynamic": {"primary-key": "dt,id", "partition": "dt"},
    }.items():
        path = f"{home}/{name}"
        df.write.format("paimon").mode("append").options(**options).save(path)
        assert rows(path) == expected, name
        result = paimon_spark.load_table(path).write(df, mode="overwrite")
        assert result.snapshot_id == 2, result
        assert rows(path) == expected, name
    for name in ("append", "fixed"):
        table = paimon_spark.load_table(f"{home}/{name}")
        table.delete("id >= 30")
        table.update("id = 1", {"v": "v + 100"})
        source = df.where("id in (2, 40)").selectExpr("id", "dt", "-1L v")
        table.merge(source, "t.id = s.id", when_matched_delete="true", when_not_matched_insert="*")
        wanted = [r for r in expected if r[0] < 30 and r[0] not in (1, 2)] + [(1, "p1", 102), (40, "p1", -1)]
        assert rows(f"{home}/{name}") == sorted(wanted), name
        table.write(df, mode="overwrite")
    try:
        paimon_spark.load_table(f"{home}/fixed").write(df.selectExpr("if(id = 7, null, id) id", "dt", "v"))
    except paimon_spark.PaimonError as e:
        assert "primary key" in str(e), e
    else:
        raise AssertionError("a null key was written")
    assert rows(f"{home}/fixed") == expected
    compaction.HERE_BYTES = 0
    table = paimon_spark.load_table(f"{home}/append")
    table.write(df)
    result = table.compact(full=True)
    assert len(result.snapshot_ids) == 1 and result.files_before > result.files_after == 3, result
    assert rows(f"{home}/append") == sorted(expected * 2)
"""


def test_writes_work_without_a_jvm_in_the_client(server: ConnectServer, tmp_path: Path) -> None:
    server.run(WRITES, tmp_path)


STREAMED_READS = """
def run(spark, home):
    import pyarrow as pa

    catalog = paimon_spark.load_catalog(home)
    catalog.create_database("db")
    table = catalog.create_table("db.t", "k BIGINT", options={"bucket": "1", "bucket-key": "k"})

    def follow(**options):
        df = spark.readStream.format("paimon").options(**options).load(table.location)
        writer = df.writeStream.format("parquet").option("checkpointLocation", home + "/c").trigger(availableNow=True)
        return writer.start(home + "/out")

    for n in range(2):
        table.write(pa.table({"k": [n]}))
        assert follow().awaitTermination(120)
        assert sorted(r.k for r in spark.read.parquet(home + "/out").collect()) == list(range(n + 1))
    table.rollback_to(1)
    table.write(pa.table({"k": [7]}))
    query = follow()
    try:
        query.awaitTermination(120)
    except Exception as e:
        assert "HistoryChangedError" in str(e), e
    else:
        raise AssertionError("another history was read")
    assert "HistoryChangedError" in str(query.exception()), query.exception()
"""


def test_streams_work_without_a_jvm_in_the_client(server: ConnectServer, tmp_path: Path) -> None:
    server.run(STREAMED_READS, tmp_path)


STREAMED_WRITES = """
def run(spark, home):
    reader = spark.readStream.schema("id LONG, dt STRING, v LONG").option("maxFilesPerTrigger", 1)
    stream = reader.parquet(home + "/feed")
    for _ in range(2):
        writer = stream.writeStream.format("paimon").option("checkpointLocation", home + "/checkpoint")
        query = writer.options(**{"primary-key": "id", "bucket": "2"}).trigger(availableNow=True).start(home + "/t")
        assert query.awaitTermination(180)
        assert query.exception() is None, query.exception()
    assert spark.read.format("paimon").load(home + "/t").count() == 60
    with open(home + "/query", "w") as out:
        out.write(str(query.id))
"""


def test_streams_are_written_through_spark_connect(server: ConnectServer, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    for at, first in enumerate((0, 20)):
        ids = range(first, first + 40)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "dt": [f"p{i % 3}" for i in ids], "v": list(ids)})
        pq.write_table(rows, path := tmp_path / "feed" / f"{at}.parquet")
        os.utime(path, (at + 1, at + 1))
    server.run(STREAMED_WRITES, tmp_path)
    made = [(s.commit_user, s.commit_identifier) for s in paimon_spark.load_table(str(tmp_path / "t")).snapshots()]
    assert made == [((tmp_path / "query").read_text(), batch) for batch in range(2)]


QUERIES = """
def run(spark, home):
    catalog = paimon_spark.load_catalog(home + "/warehouse")

    def rows(statement, args=None):
        return [tuple(row) for row in catalog.sql(statement, args=args, session=spark).collect()]

    catalog.create_database("db")
    table = catalog.create_table("db.t", "a INT, b STRING")
    table.write(spark.createDataFrame([(1, "x"), (2, "{y}")], "a INT, b STRING"))
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.write(spark.createDataFrame([(3, "z")], "a INT, b STRING"))
    assert rows("SELECT count(*) FROM db.t") == [(3,)]
    assert rows("SELECT b, '{}' FROM db.t VERSION AS OF fix.v1 WHERE a = :a", {"a": 2}) == [("{y}", "{}")]
    assert rows("SELECT t.a, u.b FROM db.t JOIN db.t$branch_fix u ON db.t.a = u.a ORDER BY 1") == [(1, "x"), (2, "{y}")]
    assert rows("SELECT tag_name FROM db.t$tags WHERE tag_name = 'v1'") == [("v1",)]
    assert rows("WITH t AS (SELECT a FROM db.t) SELECT max(a) FROM t") == [(3,)]
    assert rows("SELECT a FROM db.t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 HOUR WHERE a > 2") == [(3,)]
    catalog.sql("CREATE TEMPORARY VIEW v AS SELECT a FROM db.t VERSION AS OF 'v1'", session=spark)
    assert rows("SELECT count(*) FROM v") == [(2,)]
    catalog.sql("CREATE TABLE spark_catalog.default.sp USING parquet AS SELECT * FROM db.t", session=spark)
    try:
        catalog.sql("INSERT INTO spark_catalog.default.sp SELECT * FROM db.t WHERE a = 1", session=spark)
        assert rows("SELECT count(*) FROM spark_catalog.default.sp") == [(4,)]
    finally:
        spark.sql("DROP TABLE spark_catalog.default.sp")
"""


def test_queries_of_the_catalog_run_through_connect(server: ConnectServer, tmp_path: Path) -> None:
    server.run(QUERIES, tmp_path)


STATEMENTS = """
def run(spark, home):
    import pyarrow as pa
    from pyspark.errors import AnalysisException
    from pyspark.sql.connect.session import SparkSession

    catalog = paimon_spark.load_catalog(home)
    catalog.create_database("db")
    table = catalog.create_table("db.t", "id BIGINT NOT NULL, v STRING", primary_keys=["id"], options={"bucket": 1})
    table.write(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.create_savepoint()

    def rows(text, args=None):
        return sorted(map(tuple, catalog.sql(text, args=args, session=spark).collect()))

    table.merge(pa.table({"id": [2, 3], "v": ["m", "n"]}), "t.id = s.id", when_matched_update="*",
                when_not_matched_insert="*")
    assert rows("SELECT * FROM db.t") == [(1, "a"), (2, "m"), (3, "n")]
    assert rows("SELECT id FROM db.t /*+ OPTIONS('scan.tag-name' = 'v1') */ x") == [(1,), (2,)]
    assert rows("SELECT id FROM IDENTIFIER(:t || '$branch_fix')", {"t": "db.t"}) == [(1,), (2,)]
    assert rows("SELECT id FROM IDENTIFIER(?) WHERE id > ?", ["db.t", 2]) == [(3,)]
    assert rows("EXECUTE IMMEDIATE 'SELECT v FROM db.t WHERE id = ?' USING 3") == [("n",)]
    assert len(rows("SELECT * FROM db.t#savepoints")) == 1
    catalog.sql("COMMENT ON COLUMN db.t.v IS 'text'", session=spark)
    assert rows("DESCRIBE db.t v")[-1] == ("data_type", "string") and ("comment", "text") in rows("DESCRIBE db.t v")
    found = catalog.sql("DESCRIBE HISTORY db.t", session=spark).collect()
    assert [r.version for r in found] == sorted((s.id for s in table.snapshots()), reverse=True)
    assert ("paimon", ["sys"], "sys", "compact") in rows("SHOW PROCEDURES")
    catalog.sql("USE db", session=spark)
    assert rows("SELECT current_catalog(), current_database(), max(id) FROM t") == [("paimon", "db", 3)]
    catalog.sql("USE paimon", session=spark)

    plan = rows("EXPLAIN EXTENDED SELECT * FROM db.t a JOIN db.t b ON a.id = b.id")[0][0]
    assert "SubqueryAlias a" in plan and "_pyspark" not in plan, plan
    for text, said in {
        "SELECT vv FROM db.t": "[`v`, `id`]",
        "SELECT a.idd FROM db.t a JOIN db.t b ON a.id = b.id": "[`a`.`id`, `a`.`v`]",
        "DELETE FROM db.t WHERE vv = 1": "[`v`, `id`]",
    }.items():
        texts, sql = [], SparkSession.sql
        SparkSession.sql = lambda self, text, *given, **more: (texts.append(text), sql(self, text, *given, **more))[1]
        try:
            catalog.sql(text, session=spark)
        except AnalysisException as e:
            shown = str(e)
        else:
            raise AssertionError(text)
        finally:
            SparkSession.sql = sql
        assert said in shown and shown.endswith("; in: " + text) and "\\n" not in shown, shown
        assert e_condition(shown) == "UNRESOLVED_COLUMN.WITH_SUGGESTION", shown
        assert len(texts) == 1, texts


def e_condition(text):
    return text[1 : text.index("]")]
"""


def test_statements_of_other_engines_run_through_connect(server: ConnectServer, tmp_path: Path) -> None:
    server.run(STATEMENTS, tmp_path)


CHANGES = """
def run(spark, home):
    catalog = paimon_spark.load_catalog(home)
    catalog.create_database("default")
    for name, keys, options in (("append", [], {}), ("keyed", ["id"], {"bucket": "1"})):
        table = catalog.create_table(f"default.{name}", "id INT, v INT", primary_keys=keys, options=options)

        def sql(text, args=None):
            return tuple(catalog.sql(text.format(t=name), args=args, session=spark).collect()[0])

        assert sql("INSERT INTO {t} VALUES (1, 1), (2, 2), (3, 3), (4, 4)") == (4, 4)
        assert sql("INSERT INTO {t} (id) SELECT id + 4 FROM {t} WHERE id = 4") == (1, 1)
        assert sql("DELETE FROM {t} WHERE id = ? OR id IN (SELECT max(id) FROM {t})", [1]) == (2,)
        assert sql("UPDATE {t} SET v = v + :n WHERE id = (SELECT min(id) FROM {t})", {"n": 10}) == (1,)
        assert sql(
            "MERGE INTO {t} AS t USING (SELECT id + 1 AS id FROM {t} WHERE id > 2) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = -1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (id, 0) "
            "WHEN NOT MATCHED BY SOURCE AND v = 3 THEN DELETE"
        ) == (3, 1, 1, 1)
        found = sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())
        assert found == [(2, 12), (4, -1), (5, 0)], found
        assert sql("INSERT OVERWRITE {t} SELECT id, v FROM {t} WHERE id = 5") == (1, 1)
        assert table.scan().to_arrow().to_pylist() == [{"id": 5, "v": 0}]
        tagged = catalog.sql(f"CALL sys.create_tag('{name}', tag => :tag)", args={"tag": "it's"}, session=spark)
        assert (tagged.dtypes, tagged.collect()) == ([("result", "boolean")], [(True,)])
        sql("TRUNCATE TABLE {t}")
        assert catalog.sql(f"SELECT id FROM {name} VERSION AS OF 'it''s'", session=spark).collect() == [(5,)]
        assert table.scan().to_arrow().num_rows == 0
        try:
            sql("INSERT INTO {t} VALUES (1, 3000000000)")
        except paimon_spark.errors.DataError as e:
            assert "3000000000" in str(e), e
        else:
            raise AssertionError("a value that does not fit was written")
"""


@pytest.mark.newest
def test_rows_change_without_a_jvm_in_the_client(server: ConnectServer, tmp_path: Path) -> None:
    server.run(CHANGES, tmp_path)


RECORDED_JOB = """
def run(spark, home):
    df = spark.read.format("paimon").option("lineage.job", "j").load(home + "/db.db/a")
    df.write.format("paimon").mode("append").option("lineage.job", "j").save(home + "/db.db/x")
"""


@pytest.mark.newest
def test_a_job_through_connect_is_recorded(server: ConnectServer, tmp_path: Path) -> None:
    catalog = recording_catalog(tmp_path / "wh", "ax", ROWS.schema)
    for _ in range(2):
        catalog.table("db.a").write(ROWS)
    server.run(RECORDED_JOB, tmp_path / "wh")
    assert came_from(catalog.table("db.x")) == {"db.a": 2}
    assert sources(catalog) == [("j", 0, "a", 2)] and sinks(catalog) == [("j", 0, "x", 1)]


RECORDED_STREAM = """
def run(spark, home):
    import time

    lineage = paimon_spark.load_catalog(home + "/wh").lineage
    lineage.watch(spark)
    spark.conf.set("spark.sql.streaming.checkpointLocation", home + "/checkpoints")
    df = spark.readStream.format("paimon").load(home + "/wh/db.db/a")
    query = df.writeStream.format("paimon").queryName("etl").trigger(availableNow=True).start(home + "/wh/db.db/t")
    assert query.awaitTermination(180)
    with open(home + "/query", "w") as out:
        out.write(str(query.id))
    for _ in range(1800):
        if lineage.jobs()["etl"].ended_ms is not None:
            return
        time.sleep(0.1)
    raise AssertionError("the end of the query is not noticed")
"""


@pytest.mark.newest
def test_streams_through_connect_say_the_same(server: ConnectServer, tmp_path: Path) -> None:
    catalog = recording_catalog(tmp_path / "wh", "a", ROWS.schema)
    for _ in range(2):
        catalog.table("db.a").write(ROWS)
    server.run(RECORDED_STREAM, tmp_path)
    sink = catalog.table("db.t")
    assert len(sink.snapshots()) == 1
    found = said(sink)
    assert (found.job, found.barrier, found.query_id) == ("etl", 0, (tmp_path / "query").read_text())
    assert came_from(sink) == {"db.a": 2}


SHORT_ERRORS = """
def lines(act):
    try:
        act()
    except Exception as e:
        return str(e).splitlines()
    raise AssertionError("no error")


def run(spark, home):
    catalog = paimon_spark.load_catalog(home)
    CALL(catalog, spark)
    wrong = lines(lambda: spark.sql("SELECT count(*) FROM NAME('d.t', 'v9')").collect())
    assert any("has no version 'v9'" in line for line in wrong), wrong
    missing = lines(lambda: spark.sql("SELECT * FROM nobody").collect())
    assert len(wrong) < 25 and len(missing) < 10 and "JVM stacktrace" not in str(wrong + missing), wrong + missing
"""


@pytest.mark.parametrize(
    "call",
    [
        "lambda catalog, spark: catalog.register_functions(spark)",
        "lambda catalog, spark: (catalog.sql('SELECT * FROM d.t', session=spark), catalog.register_functions(spark))",
    ],
    ids=["register_functions", "sql"],
)
def test_errors_are_short_once_the_package_was_called(server: ConnectServer, tmp_path: Path, call: str) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("d")
    catalog.create_table("d.t", ROWS.schema).write(ROWS)
    server.run(SHORT_ERRORS.replace("CALL", f"({call})").replace("NAME", "paimon_table"), tmp_path)


LOCAL = """
import sys
import paimon_spark
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.remote("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", sys.argv[1] + "/spark")
    .getOrCreate()
)
catalog = paimon_spark.attach(spark, sys.argv[1])
catalog.create_database("shop")
catalog.create_table("shop.orders", "id BIGINT").create_branch("fix")
for statement in (
    "SELECT * FROM paimon.shop.orders$branch_fx",
    "SELECT * FROM paimon.shop.order",
    "SELECT idd FROM paimon.shop.orders",
):
    try:
        spark.sql(statement).collect()
    except Exception as e:
        text = str(e)
        assert len(text.splitlines()) < 10 and "JVM stacktrace" not in text, text
    else:
        raise AssertionError(statement)
spark.stop()
print("local connect ok")
"""


def test_errors_are_short_where_the_server_runs_in_this_process(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    done = subprocess.run(
        [sys.executable, "-c", LOCAL, str(tmp_path)],
        env={k: v for k, v in os.environ.items() if k not in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "local connect ok" in done.stdout, f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
