"""df.write and Table.write in a classic session: what becomes visible, what not, and what is left on disk."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import paimon_spark
from paimon_spark.errors import DataError, SchemaMismatchError
from tests.harness.golden import golden_path
from tests.harness.keywords import keywords
from tests.harness.marks import slow_except

pytestmark = pytest.mark.spark

KINDS: dict[str, dict[str, str]] = {
    "unaware": {},
    "partitioned": {"partition": "dt"},
    "buckets": {"bucket": "3", "bucket-key": "id"},
    "partitioned_buckets": {"bucket": "3", "bucket-key": "id", "partition": "dt"},
    "keys": {"primary-key": "id", "bucket": "3"},
    "partitioned_keys": {"primary-key": "dt,id", "partition": "dt", "bucket": "2"},
    "dynamic": {"primary-key": "id", "dynamic-bucket.target-row-num": "30"},
    "partitioned_dynamic": {"primary-key": "dt,id", "partition": "dt"},
    "postponed": {"primary-key": "dt,id", "partition": "dt", "bucket": "-2", "postpone.default-bucket-num": "2"},
    "nullable_keys": {"primary-key": "dt,id", "bucket": "2", "primary-key.nullable": "true"},
    "deletion_vectors": {"primary-key": "id", "bucket": "2", "deletion-vectors.enabled": "true"},
}


def save(df: DataFrame, path: Path | str, mode: str = "append", **options: str) -> None:
    df.write.format("paimon").mode(mode).options(**options).save(str(path))


def read(spark: SparkSession, path: Path | str, **options: str) -> list[Row]:
    return sorted(spark.read.format("paimon").options(**options).load(str(path)).collect(), key=str)


def files(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 100, numPartitions=4).selectExpr("id", "concat('p', id % 3) dt", "id * 2 v")


def expected(df: DataFrame, times: int = 1) -> list[Row]:
    return sorted(df.collect() * times, key=str)


ON_OLDEST = ("unaware", "partitioned_keys", "dynamic")


@pytest.mark.parametrize("kind", slow_except(KINDS, *ON_OLDEST, "buckets", "postponed"))
def test_both_writes_make_the_rows_visible(spark: SparkSession, rows: DataFrame, kind: str, tmp_path: Path) -> None:
    path, keyed = tmp_path / "t", "primary-key" in KINDS[kind]
    save(rows, path, **KINDS[kind])
    assert read(spark, path) == expected(rows)
    table = paimon_spark.load_table(str(path))
    head = table.snapshots()[-1].id
    changed = rows.withColumn("v", F.col("v") + 1)
    result = table.write(changed)
    assert result.snapshot_ids[0] == head + 1
    assert result.snapshot_id == table.snapshots()[-1].id
    found = read(spark, path)
    assert found == (expected(changed) if keyed else expected(rows.union(changed)))
    assert table.scan().to_arrow().num_rows == len(found)


@pytest.mark.newest
def test_waiting_rows_are_merged_by_tasks(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path, waits, merges = tmp_path / "t", "postpone.batch-write-fixed-bucket", {"postpone.merge-on-read": "true"}
    save(rows, path, **KINDS["postponed"])
    changed = rows.where("id % 3 < 2").withColumn("v", F.lit(-1).cast("bigint"))
    save(changed, path, **{waits: "false"})
    assert read(spark, path) == expected(rows)
    merged = expected(rows.where("id % 3 = 2").union(changed))
    assert read(spark, path, **merges) == merged
    found = spark.read.format("paimon").options(**merges).load(str(path)).where("dt = 'p1' and id < 10")
    assert sorted(found.collect(), key=str) == [r for r in merged if r.dt == "p1" and r.id < 10]


@pytest.mark.newest
@pytest.mark.parametrize("kind", ["buckets", "partitioned_buckets", "keys", "dynamic", "partitioned_dynamic"])
def test_table_write_gives_each_bucket_to_one_task(
    spark: SparkSession, rows: DataFrame, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    save(rows.limit(0), path, **KINDS[kind])
    paimon_spark.load_table(str(path)).write(rows)
    found = paimon_spark.load_table(str(path)).scan().plan().splits
    buckets = [(s.partition, s.bucket) for s in found for _ in s.files]
    assert len(buckets) == len(set(buckets)) > 1


@pytest.mark.quick
@pytest.mark.newest
def test_one_key_in_many_tasks_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    many = spark.range(0, 4000, numPartitions=8).selectExpr("id % 50 k", "id v")
    for options in ({"bucket": "2"}, {}):
        path = tmp_path / f"t{len(options)}"
        save(many, path, **{"primary-key": "k", **options})
        found = read(spark, path)
        assert sorted(r.k for r in found) == list(range(50))
        assert all(r.v % 50 == r.k for r in found)
        save(many.selectExpr("k", "-1L v"), path)
        assert {r.v for r in read(spark, path)} == {-1}


@pytest.mark.quick
def test_an_overwrite_replaces_everything_or_what_was_asked(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    save(rows, path, partition="dt")
    new = spark.createDataFrame([(1, "p0", -1)], "id LONG, dt STRING, v LONG")
    save(new, path, "overwrite", partitionOverwriteMode="dynamic")
    assert read(spark, path) == expected(rows.where("dt <> 'p0'").union(new))
    save(new.drop("dt"), path, "overwrite", **{"overwrite.partition": "dt=p1"})
    assert read(spark, path) == expected(rows.where("dt = 'p2'").union(new).union(new.withColumn("dt", F.lit("p1"))))
    save(new, path, "overwrite")
    assert read(spark, path) == expected(new)
    save(new.limit(0), path, "overwrite")
    assert read(spark, path) == []


@pytest.mark.quick
def test_a_branch_is_written_and_main_is_not(spark: SparkSession, tmp_path: Path) -> None:
    import shutil

    path = tmp_path / "t"
    shutil.copytree(golden_path("branches"), path)
    main, branch = read(spark, path), read(spark, path, branch="from_tag")
    save(spark.read.format("paimon").option("branch", "from_tag").load(str(path)), path, "overwrite", branch="from_tag")
    assert read(spark, path, branch="from_tag") == branch
    paimon_spark.load_table(f"{path}$branch_from_tag").write(
        spark.read.format("paimon").option("branch", "from_tag").load(str(path)).limit(0), mode="overwrite"
    )
    assert read(spark, path, branch="from_tag") == []
    assert read(spark, path) == main
    with pytest.raises(PySparkException, match="has no branch 'fixx'"):
        save(spark.range(1), path, branch="fixx")


@pytest.mark.quick
def test_names_in_a_warehouse_are_written(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match=r"has no database 'db'.*create_database\(name\)"):
        save(rows, "db.t", warehouse=str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PySparkException, match=r"no warehouse is given; give the option warehouse"):
        save(rows, "db.t")
    paimon_spark.load_catalog(str(tmp_path)).create_database("db")
    save(rows, "db.t", warehouse=str(tmp_path))
    assert read(spark, tmp_path / "db.db" / "t") == expected(rows)
    assert paimon_spark.load_catalog(str(tmp_path)).list_tables("db") == ["t"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("id, dt, v, 1 more", "no column 'more'"),
        pytest.param("dt, v", "id", marks=pytest.mark.newest),
        pytest.param("cast(id as string) id, dt, v", "id", marks=pytest.mark.newest),
        ("if(id = 77, null, id) id, dt, v", "primary key"),
        pytest.param("id, if(id = 77, null, dt) dt, v", "dt", marks=pytest.mark.newest),
        pytest.param("id, dt, if(id = 77, 1L << 40, v) v", "v", marks=pytest.mark.newest),
        pytest.param("id, if(id = 77, 'too long', dt) dt, v", "dt", marks=pytest.mark.newest),
    ],
)
def test_bad_rows_leave_nothing(
    spark: SparkSession, rows: DataFrame, change: str, message: str, tmp_path: Path
) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    catalog.create_database("db")
    ddl = "id BIGINT, dt VARCHAR(3) NOT NULL, v INT"
    table = catalog.create_table("db.t", ddl, primary_keys=["id"], options={"bucket": "2"})
    path = tmp_path / "db.db" / "t"
    table = catalog.table("db.t")
    table.write(rows)
    before = files(path)
    bad = rows.selectExpr(*change.split(", ")) if "(" not in change else rows.selectExpr(*_expressions(change))
    with pytest.raises(PySparkException, match=message):
        save(bad, path)
    assert files(path) == before
    with pytest.raises((DataError, SchemaMismatchError), match=message):
        table.write(bad)
    assert files(path) == before


def _expressions(text: str) -> list[str]:
    """`text` at commas that are in no parentheses."""
    out, depth = [""], 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return out


@pytest.mark.quick
def test_a_task_that_fails_midway_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    good = spark.range(0, 200_000, numPartitions=2).selectExpr("id", "uuid() v")
    save(good.limit(10), path, **{"target-file-size": "64 kb"})
    before = files(path)

    def fail_late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 150_000 in batch.column(0).to_pylist():
                raise RuntimeError("the source broke")

    with pytest.raises(PySparkException, match="the source broke"):
        save(good.mapInArrow(fail_late, good.schema), path)
    assert len(read(spark, path)) == 10
    assert files(path) == before


@pytest.mark.newest
def test_a_table_that_a_failed_write_made_is_gone(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    bad = rows.withColumn("id", F.expr("if(id = 77, null, id)"))
    with pytest.raises(PySparkException, match="primary key"):
        save(bad, tmp_path / "t", **{"primary-key": "id", "bucket": "1"})
    assert not (tmp_path / "t").exists()


@pytest.mark.quick
@pytest.mark.newest
def test_row_kinds_come_from_a_column(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    schema = "id LONG, v STRING, op STRING"
    first = spark.createDataFrame([(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")], schema)
    save(first, path, **{"primary-key": "id", "bucket": "2", "rowkind.field": "op"})
    save(spark.createDataFrame([(1, "A", "+U"), (2, "b", "-D"), (3, "c", "-U")], schema), path)
    assert [r.v for r in read(spark, path)] == ["A"]
    with pytest.raises(PySparkException, match="none of"):
        save(spark.createDataFrame([(1, "A", "?")], schema), path)


@pytest.mark.quick
@pytest.mark.newest
def test_merge_schema_grows_the_branch(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(rows, path)
    wider = rows.withColumn("more", F.lit("x"))
    with pytest.raises(PySparkException, match=r"write\.merge-schema"):
        save(wider, path)
    save(wider, path, **keywords({"write.merge-schema": "true"}))
    paimon_spark.load_table(str(path)).write(wider.withColumn("m2", F.lit(1)), **keywords({"write.merge-schema": True}))
    found = read(spark, path)
    assert [r.more for r in found].count("x") == 200
    assert [r.m2 for r in found].count(1) == 100


@pytest.mark.quick
def test_all_types_come_back(spark: SparkSession, tmp_path: Path) -> None:
    golden = str(golden_path("append_all_types_parquet"))
    skipped = [f.name for f in paimon_spark.load_table(golden).row_type if "TIME(" in str(f.type)]
    source = spark.read.format("paimon").load(golden).drop(*skipped)
    for file_format in ("parquet", "avro", "orc"):
        path = tmp_path / file_format
        if file_format == "orc":  # fractions of seconds before 1970 are refused there
            source = source.drop(*(c for c, t in source.dtypes if "timestamp" in t))
        save(source, path, **{"file.format": file_format})
        # As text in Spark, since Python has no year 0.
        found, wanted = (
            sorted(r[0] for r in df.selectExpr(f"to_json(struct({', '.join(source.columns)}))").collect())
            for df in (spark.read.format("paimon").load(str(path)), source)
        )
        assert found == wanted


@pytest.mark.newest
def test_columns_of_other_case_and_order_are_matched(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    save(rows, tmp_path / "t")
    save(rows.selectExpr("v V", "dt", "id Id"), tmp_path / "t")
    assert read(spark, tmp_path / "t") == expected(rows, 2)


@pytest.mark.newest
def test_small_batches_of_spark_are_regrouped(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(0, 200_000, numPartitions=1).selectExpr("id", "id % 7 v"), tmp_path / "t")
    (file,) = (tmp_path / "t").rglob("data-*.parquet")
    assert pq.ParquetFile(file).num_row_groups == 1
    assert pq.ParquetFile(file).metadata.num_rows == 200_000


@pytest.mark.quick
def test_modes_and_options_that_do_not_exist_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(3), tmp_path / "t")
    for mode in ("error", "ignore"):
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(spark.range(3), tmp_path / "t", mode)
    with pytest.raises(PySparkException, match=r"'overwrite\.partition'"):
        save(spark.range(3), tmp_path / "t", "overwrite", **{"overwrite.partitions": "dt=1"})
    with pytest.raises(PySparkException, match="chooses what is read"):
        save(spark.range(3), tmp_path / "t", versionAsOf="1")
    with pytest.raises(PySparkException, match="no table is named"):
        spark.range(3).write.format("paimon").mode("append").save()


def test_a_session_is_configured_in_one_call(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    before: dict[str, Any] = {k: spark.conf.get(k) for k in ("spark.sql.execution.arrow.maxBytesPerBatch",)}
    try:
        done = paimon_spark.configure_session(spark)
        assert done.keys() == before.keys()
        assert {k: spark.conf.get(k) for k in done} == done
        save(rows, tmp_path / "t")
        assert read(spark, tmp_path / "t") == expected(rows)
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def test_threads_that_know_no_session_write_too(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    save(rows, tmp_path / "t")
    table = paimon_spark.load_table(str(tmp_path / "t"))
    with ThreadPoolExecutor(1) as thread:  # where Spark itself finds sources in Python for reads alone
        assert thread.submit(table.write, rows).result().snapshot_ids == (2,)
    try:
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(paimon_spark.configure_session, spark).result()
            thread.submit(save, rows, tmp_path / "t").result()
    finally:
        for key in done:
            spark.conf.unset(key)
    assert read(spark, tmp_path / "t") == expected(rows, 3)


def test_decimals_and_doubles_become_floats_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql(
        "SELECT id, cast(cast(rand(7) * 1e9 AS DECIMAL(38, 18)) * 123456789 AS DECIMAL(30, 12)) AS d,"
        " cast(rand(8) * 1e6 AS DECIMAL(9, 3)) AS s, rand(9) * 1e20 AS x FROM range(500)"
    )
    rows = spark.createDataFrame(rows.collect(), rows.schema)  # the same random numbers each time
    columns = "cast(d AS DOUBLE) AS a, cast(d AS FLOAT) AS b, cast(s AS FLOAT) AS c, cast(x AS FLOAT) AS e"
    wanted = rows.selectExpr("id", *columns.split(", "))
    table = paimon_spark.load_catalog(str(tmp_path))
    table.create_database("d")
    opened = table.create_table("d.t", "id BIGINT, a DOUBLE, b FLOAT, c FLOAT, e FLOAT")
    opened.write(rows.selectExpr("id", "d AS a", "d AS b", "s AS c", "x AS e"))
    assert read(spark, opened.location) == expected(wanted)
    # A column of decimals that becomes DOUBLE goes on taking decimals.
    changed = table.create_table("d.u", "id BIGINT, a DECIMAL(20, 4)")
    changed.write(rows.selectExpr("id", "cast(d / 1e9 AS DECIMAL(20, 4)) AS a"))
    changed.alter(retype={"a": "DOUBLE"})
    changed.write(rows.selectExpr("id", "cast(d / 1e9 AS DECIMAL(20, 4)) AS a"))
    twice = rows.selectExpr("id", "cast(cast(d / 1e9 AS DECIMAL(20, 4)) AS DOUBLE) AS a")
    assert read(spark, changed.location) == expected(twice, 2)
