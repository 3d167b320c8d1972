"""DataFrames and statements of Spark that write to attached catalogs: rows, snapshots, files, conversions, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

import paimon_spark
from paimon_spark.api.catalog import Catalog
from tests.harness.marks import slow_except
from tests.harness.recorded import came_from, recording_catalog, said

NAME = "writes"
pytestmark = pytest.mark.oldest

DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
POLICY = "spark.sql.storeAssignmentPolicy"


@dataclass(frozen=True)
class Warehouse:
    """A session with an attached catalog, and the catalog itself."""

    spark: SparkSession
    catalog: Catalog
    home: Path

    def sql(self, text: str) -> DataFrame:
        return self.spark.sql(text)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """The rows of a table of the database db, sorted."""
        found = self.spark.table(f"{NAME}.db.{table}").select(*(columns or ("*",))).collect()
        return sorted((tuple(r) for r in found), key=repr)

    def snapshots(self, table: str) -> int:
        return len(self.catalog.table(f"db.{table}").snapshots())

    def files(self) -> list[str]:
        """All files of the warehouse."""
        return sorted(str(p.relative_to(self.home)) for p in self.home.rglob("*") if p.is_file())

    def data_files(self, table: str) -> int:
        """The number of files that a scan reads."""
        handle = self.catalog.table(f"db.{table}")
        return sum(len(s.files) for s in handle.scan().plan().splits)


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Iterator[Warehouse]:
    catalog = paimon_spark.attach(spark, str(tmp_path / "wh"), name=NAME)
    spark.sql(f"CREATE DATABASE {NAME}.db")
    yield Warehouse(spark, catalog, tmp_path / "wh")
    for key in (DYNAMIC, POLICY):
        spark.conf.unset(key)
    paimon_spark.detach(spark, NAME)


@pytest.fixture
def parts(warehouse: Warehouse) -> DataFrame:
    """The rows of the table db.t, of three partitions, and with others of the same columns."""
    warehouse.sql(f"CREATE TABLE {NAME}.db.t (id INT, v STRING, dt STRING, hr INT) PARTITIONED BY (dt, hr)")
    rows = warehouse.spark.createDataFrame(
        [(1, "a", "x", 1), (2, "b", "x", 2), (3, "c", "y", 1)], "id INT, v STRING, dt STRING, hr INT"
    )
    rows.writeTo(f"{NAME}.db.t").append()
    return rows


def test_an_overwrite_replaces_rows_and_keeps_the_definition(warehouse: Warehouse) -> None:
    name = f"{NAME}.db.kept"
    warehouse.sql(
        f"CREATE TABLE {name} (id INT, dt STRING, v STRING COMMENT 'c') PARTITIONED BY (dt) COMMENT 'of rows' "
        "TBLPROPERTIES ('primary-key' = 'id,dt', 'bucket' = '1', 'snapshot.num-retained.max' = '77')"
    )
    warehouse.sql(f"INSERT INTO {name} VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    schema = warehouse.catalog.table("db.kept").schema
    rows = warehouse.spark.createDataFrame([(3, "c", "z")], "id INT, dt STRING, v STRING")
    steps: list[tuple[Callable[[], object], list[tuple[Any, ...]]]] = [
        (lambda: rows.write.mode("overwrite").saveAsTable(name), [(3, "c", "z")]),
        (lambda: rows.select("v", "id", "dt").write.mode("overwrite").saveAsTable(name), [(3, "c", "z")]),
        (lambda: rows.write.mode("overwrite").partitionBy("dt").saveAsTable(name), [(3, "c", "z")]),
        (lambda: warehouse.sql(f"INSERT INTO {name} VALUES (1, 'a', 'x')").collect(), [(1, "a", "x"), (3, "c", "z")]),
        (
            lambda: rows.write.mode("overwrite").option("replaceWhere", "dt = 'c'").saveAsTable(name),
            [(1, "a", "x"), (3, "c", "z")],
        ),
        (
            lambda: rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").saveAsTable(name),
            [(1, "a", "x"), (3, "c", "z")],
        ),
        (lambda: rows.writeTo(name).overwritePartitions(), [(1, "a", "x"), (3, "c", "z")]),
        (lambda: rows.writeTo(name).overwrite(F.col("dt") == "c"), [(1, "a", "x"), (3, "c", "z")]),
        (lambda: warehouse.spark.table(name).write.mode("overwrite").saveAsTable(name), [(1, "a", "x"), (3, "c", "z")]),
        (lambda: rows.write.mode("overwrite").insertInto(name), [(3, "c", "z")]),
    ]
    for number, (act, expected) in enumerate(steps, warehouse.snapshots("kept") + 1):
        act()
        assert warehouse.rows("kept") == expected
        assert warehouse.snapshots("kept") == number, "one commit"
        assert warehouse.catalog.table("db.kept").schema == schema
    before = warehouse.rows("kept")
    for write, text in (
        (rows.write.option("replaceWhere", "dt = 'zz'"), "dt=c"),
        (rows.withColumn("more", F.lit(1)).write, "more"),
        (rows.write.partitionBy("v"), "partitioned by dt"),
        (rows.write.option("overwriteSchema", "perhaps"), "overwriteSchema"),
        (rows.write.option("overwriteSchema", "true").option("replaceWhere", "dt = 'c'"), "exclude each other"),
        (rows.write.option("userMetadata", "x"), "userMetadata"),
    ):
        refused(lambda write=write: write.mode("overwrite").saveAsTable(name), text)  # type: ignore[misc]
    assert warehouse.rows("kept") == before
    assert warehouse.catalog.table("db.kept").schema == schema
    rows.drop("v").write.mode("overwrite").partitionBy("dt").option("overwriteSchema", "true").saveAsTable(name)
    assert warehouse.catalog.table("db.kept").row_type.names == ("id", "dt")
    assert "overwriteSchema" not in warehouse.catalog.table("db.kept").options.raw


def renumbered(rows: DataFrame, number: int) -> DataFrame:
    """The first row, with another id."""
    return rows.where("id = 1").withColumn("id", F.lit(number))


def refused(act: Callable[[], Any], *texts: str) -> PySparkException:
    """The error of a write, in one line with all of `texts`."""
    with pytest.raises(PySparkException) as raised:
        act()
    text = str(raised.value).strip()
    assert "\n" not in text, text
    assert "py4j" not in text.lower(), text
    assert all(t in text for t in texts), text
    return raised.value


@pytest.mark.quick
def test_append_matches_columns_by_name_and_makes_one_file_a_partition(warehouse: Warehouse, parts: DataFrame) -> None:
    assert warehouse.rows("t") == [(1, "a", "x", 1), (2, "b", "x", 2), (3, "c", "y", 1)]
    assert (warehouse.snapshots("t"), warehouse.data_files("t")) == (1, 3)
    parts.select("hr", "id", "dt").repartition(5).writeTo(f"{NAME}.db.t").append()
    assert warehouse.rows("t", "id", "v").count((1, None)) == 1
    assert (warehouse.snapshots("t"), warehouse.data_files("t")) == (2, 6)
    table = f"{NAME}.db.t"
    refused(lambda: parts.withColumn("more", F.lit(1)).writeTo(table).append(), "no column 'more'", "id, v, dt, hr")
    refused(lambda: parts.writeTo(f"{NAME}.db.`t$snapshots`").append())
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        parts.writeTo(f"{NAME}.db.nope").append()
    assert warehouse.snapshots("t") == 2


@pytest.mark.quick
def test_overwrite_replaces_the_partitions_that_are_named(warehouse: Warehouse, parts: DataFrame) -> None:
    writer = renumbered(parts, 10).writeTo(f"{NAME}.db.t")
    writer.overwrite((F.col("dt") == "x") & (F.col("hr") == 1))
    assert warehouse.rows("t", "id") == [(10,), (2,), (3,)]
    writer.overwrite(F.col("dt") == "x")
    assert warehouse.rows("t", "id") == [(10,), (3,)]
    writer.overwrite(F.lit(True))
    assert (warehouse.rows("t", "id"), warehouse.snapshots("t")) == ([(10,)], 4)
    refused(lambda: writer.overwrite(F.col("id") == 1), "overwrite by column id", "dt, hr", "DELETE FROM")
    for condition in (F.col("dt") > "x", (F.col("dt") == "x") | (F.col("dt") == "y"), F.col("dt").isNull()):
        refused(partial(writer.overwrite, condition), "name constants of partition columns")
    refused(lambda: writer.overwrite(F.col("dt") == "y"), "dt=x/hr=1")
    by_option = renumbered(parts, 10).writeTo(f"{NAME}.db.t").option("overwrite.partition", "dt=x")
    refused(lambda: by_option.overwrite(F.lit(True)), "option overwrite.partition", "overwrite(col(")
    assert warehouse.snapshots("t") == 4


@pytest.mark.quick
def test_dynamic_overwrites_replace_the_partitions_of_the_rows(warehouse: Warehouse, parts: DataFrame) -> None:
    renumbered(parts, 10).select("hr", "dt", "v", "id").writeTo(f"{NAME}.db.t").overwritePartitions()
    assert warehouse.rows("t", "id") == [(10,), (2,), (3,)]
    assert (warehouse.snapshots("t"), warehouse.data_files("t")) == (2, 3)
    by_position = renumbered(parts, 20).toDF("a", "b", "c", "d")
    warehouse.spark.conf.set(DYNAMIC, "dynamic")
    by_position.write.insertInto(f"{NAME}.db.t", overwrite=True)
    assert warehouse.rows("t", "id") == [(2,), (20,), (3,)]
    renumbered(parts, 30).writeTo(f"{NAME}.db.t").overwrite(F.lit(True))  # whatever the setting is
    assert warehouse.rows("t", "id") == [(30,)]


@pytest.mark.slow
def test_no_way_of_writing_ignores_how_partitions_are_overwritten(warehouse: Warehouse, parts: DataFrame) -> None:
    table, before = f"{NAME}.db.t", warehouse.rows("t")
    path = warehouse.catalog.table("db.t").location
    one = parts.where("id = 2")
    misspelt = one.write.mode("overwrite").option("partitionOverwriteMode", "dynamc")
    wrong: list[Callable[[], object]] = [
        lambda: misspelt.saveAsTable(table),
        lambda: misspelt.saveAsTable(f"{NAME}.db.new"),
        lambda: misspelt.insertInto(table),
        lambda: misspelt.format("paimon").save(path),
        lambda: one.writeTo(table).option("partitionOverwriteMode", "dynamc").overwrite(F.lit(True)),
        lambda: warehouse.sql(
            f"INSERT OVERWRITE {table} WITH ('partitionOverwriteMode' = 'dynamc') SELECT * FROM {table}"
        ),
        lambda: warehouse.sql(f"INSERT INTO {table} WITH ('partitionOverwriteMode' = 'dynamc') SELECT * FROM {table}"),
    ]
    for act in wrong:
        with pytest.raises(
            PySparkException, match=r"partitionOverwriteMode = 'dynamc': expected one of static, dynamic"
        ):
            act()
    refused(
        lambda: warehouse.sql(f"INSERT OVERWRITE {table} WITH ('overwrite.partition' = 'dt=x') SELECT * FROM {table}"),
        "overwrite.partition = 'dt=x'", "PARTITION (dt = '2024-01-01')",
    )  # fmt: skip
    assert warehouse.rows("t") == before
    assert not warehouse.catalog.list_tables("db")[1:]
    warehouse.spark.conf.set(DYNAMIC, "dynamic")
    ways: list[Callable[[DataFrame], object]] = [
        lambda rows: rows.write.mode("overwrite").saveAsTable(table),
        lambda rows: rows.write.insertInto(table, overwrite=True),
        lambda rows: rows.write.format("paimon").mode("overwrite").save(path),
    ]
    for number, way in enumerate(ways, 1):
        way(one.withColumn("id", F.lit(10 * number + 2)))
        assert sorted(warehouse.rows("t", "id")) == [(1,), (3,), (10 * number + 2,)], "the setting holds for every way"
    refused(
        lambda: one.writeTo(table).option("partitionOverwriteMode", "static").overwritePartitions(),
        "overwritePartitions()", "partitionOverwriteMode = static",
    )  # fmt: skip
    static: list[Callable[[DataFrame], object]] = [
        lambda rows: rows.write.mode("overwrite").option("partitionOverwriteMode", "static").saveAsTable(table),
        lambda rows: rows.write.option("partitionOverwriteMode", "static").insertInto(table, overwrite=True),
        lambda rows: (
            rows.write.format("paimon").option("partitionOverwriteMode", "static").mode("overwrite").save(path)
        ),
    ]
    for number, way in enumerate(static, 1):
        parts.write.format("paimon").mode("append").save(path)
        way(one.withColumn("id", F.lit(100 * number + 2)))
        assert warehouse.rows("t", "id") == [(100 * number + 2,)], "an option outweighs the setting"


@pytest.mark.slow
def test_spark_reads_a_time_by_its_option(warehouse: Warehouse, parts: DataFrame) -> None:
    table = f"{NAME}.db.t"
    first = warehouse.catalog.table("db.t").snapshots()[0]
    renumbered(parts, 10).writeTo(table).append()
    at = first.time_ms + 1
    when = F.timestamp_millis(F.lit(at))
    text = warehouse.spark.range(1).select(F.date_format(when, "yyyy-MM-dd HH:mm:ss.SSS")).head()[0]  # type: ignore[index]
    assert warehouse.spark.read.option("timestampAsOf", text).table(table).count() == 3
    assert warehouse.sql(f"SELECT * FROM {table} WITH ('timestampAsOf' = '{text}')").count() == 3
    assert warehouse.spark.read.option("versionAsOf", 1).table(table).count() == 3
    assert warehouse.spark.table(table).count() == 4


@pytest.mark.slow
def test_insert_into_matches_columns_by_position(warehouse: Warehouse, parts: DataFrame) -> None:
    table = f"{NAME}.db.t"
    renumbered(parts, 10).toDF("a", "b", "c", "d").write.insertInto(table)
    assert (10, "a", "x", 1) in warehouse.rows("t")
    refused(lambda: parts.select("id").write.insertInto(table), "has 1 columns", "by position")
    refused(lambda: parts.select("v", "id", "dt", "hr").write.insertInto(table), "column id", "INT", "string")
    renumbered(parts, 20).write.option("partitionOverwriteMode", "dynamic").insertInto(table, overwrite=True)
    assert warehouse.rows("t", "id") == [(2,), (20,), (3,)]
    renumbered(parts, 30).write.insertInto(table, overwrite=True)
    assert warehouse.rows("t", "id") == [(30,)]
    with pytest.raises(PySparkException, match=r"partitionBy.*insertInto|insertInto.*partitionBy"):
        parts.write.partitionBy("dt").insertInto(table)


@pytest.mark.slow
def test_tables_without_partitions_and_with_keys_are_overwritten(warehouse: Warehouse) -> None:
    warehouse.sql(f"CREATE TABLE {NAME}.db.a (id INT, v STRING)")
    warehouse.sql(f"CREATE TABLE {NAME}.db.k (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='2')")
    rows = warehouse.spark.createDataFrame([(i, "old") for i in range(20)], "id INT, v STRING").repartition(6)
    for name in ("a", "k"):
        rows.writeTo(f"{NAME}.db.{name}").append()
    assert warehouse.data_files("k") == 2
    some = rows.where("id < 3").withColumn("v", F.lit("new"))
    some.writeTo(f"{NAME}.db.k").append()
    assert warehouse.rows("k", "v").count(("new",)) == 3
    assert len(warehouse.rows("k")) == 20
    for name in ("a", "k"):
        some.writeTo(f"{NAME}.db.{name}").overwritePartitions()
        assert warehouse.rows(name) == [(0, "new"), (1, "new"), (2, "new")]
        some.where("id = 1").writeTo(f"{NAME}.db.{name}").overwrite(F.lit(True))
        assert warehouse.rows(name) == [(1, "new")]


@pytest.mark.quick
def test_tables_are_created_and_replaced_with_their_rows(warehouse: Warehouse, parts: DataFrame) -> None:
    new = parts.writeTo(f"{NAME}.db.n").using("paimon").partitionedBy(F.col("dt"))
    new.tableProperty("primary-key", "dt,id").tableProperty("bucket", "2").create()
    table = warehouse.catalog.table("db.n")
    assert (table.schema.partition_keys, table.schema.primary_keys) == (("dt",), ("dt", "id"))
    assert table.schema.options["bucket"] == "2"
    assert (len(warehouse.rows("n")), warehouse.snapshots("n")) == (3, 1)
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        parts.writeTo(f"{NAME}.db.n").create()
    own = warehouse.spark.table(f"{NAME}.db.n").selectExpr("id * 10 AS ten", "dt")
    refused(own.writeTo(f"{NAME}.db.n").createOrReplace, "partitioned by dt", "partitioned by nothing")
    own.writeTo(f"{NAME}.db.n").partitionedBy(F.col("dt")).createOrReplace()
    assert warehouse.rows("n") == [(10, "x"), (20, "x"), (30, "y")]
    assert warehouse.catalog.table("db.n").schema.primary_keys == ()
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        parts.writeTo(f"{NAME}.db.none").replace()


@pytest.mark.slow
def test_more_ways_to_create_tables(warehouse: Warehouse, parts: DataFrame) -> None:
    parts.limit(1).writeTo(f"{NAME}.db.t").partitionedBy(F.col("dt"), F.col("hr")).replace()
    assert (len(warehouse.rows("t")), warehouse.snapshots("t")) == (1, 3)
    refused(lambda: parts.writeTo(f"{NAME}.db.p").using("orc").create(), "orc", "Paimon")
    years = parts.withColumn("d", F.current_date()).writeTo(f"{NAME}.db.p").partitionedBy(F.partitioning.years("d"))
    refused(years.create, "partitions are by columns")
    parts.writeTo(f"{NAME}.db.b").partitionedBy(F.partitioning.bucket(3, "id")).create()
    assert warehouse.catalog.table("db.b").schema.options["bucket-key"] == "id"
    warehouse.sql(f"CREATE TABLE {NAME}.db.c PARTITIONED BY (dt) AS SELECT * FROM {NAME}.db.b")
    assert len(warehouse.rows("c")) == 3
    warehouse.sql(f"CREATE OR REPLACE TABLE {NAME}.db.b AS SELECT id + 1 AS more FROM {NAME}.db.b")
    assert warehouse.rows("b") == [(2,), (3,), (4,)]
    warehouse.sql(f"INSERT INTO {NAME}.db.b SELECT more FROM {NAME}.db.b")
    assert len(warehouse.rows("b")) == 6


@pytest.mark.slow
def test_save_as_table_in_every_mode(warehouse: Warehouse, parts: DataFrame) -> None:
    name = f"{NAME}.db.s"
    parts.write.format("paimon").partitionBy("dt").option("primary-key", "dt,id").saveAsTable(name)
    schema = warehouse.catalog.table("db.s").schema
    assert (schema.partition_keys, schema.primary_keys) == (("dt",), ("dt", "id"))
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        parts.write.mode("errorifexists").saveAsTable(name)
    parts.write.mode("ignore").saveAsTable(name)
    assert warehouse.snapshots("s") == 1
    renumbered(parts, 10).select("dt", "id", "hr", "v").write.mode("append").saveAsTable(name)
    assert warehouse.rows("s", "id", "v") == [(1, "a"), (10, "a"), (2, "b"), (3, "c")]
    warehouse.spark.table(name).where("id < 3").write.mode("overwrite").partitionBy("dt").saveAsTable(name)
    assert warehouse.rows("s", "id") == [(1,), (2,)]
    assert warehouse.catalog.table("db.s").schema == schema
    refused(lambda: parts.write.option("primary-keys", "id").saveAsTable(f"{NAME}.db.wrong"), "primary-key")


@pytest.mark.slow
def test_branches_are_written(warehouse: Warehouse, parts: DataFrame) -> None:
    warehouse.catalog.table("db.t").create_branch("b")
    branch = f"{NAME}.db.`t$branch_b`"
    renumbered(parts, 10).writeTo(branch).append()
    renumbered(parts, 11).write.insertInto(branch)
    renumbered(parts, 12).write.mode("append").saveAsTable(branch)
    warehouse.sql(f"INSERT INTO {NAME}.db.t$branch_b SELECT id + 100, v, dt, hr FROM {NAME}.db.t WHERE id = 1")
    assert warehouse.rows("`t$branch_b`", "id") == [(1,), (10,), (101,), (11,), (12,), (2,), (3,)]
    renumbered(parts, 20).writeTo(branch).overwritePartitions()
    assert warehouse.rows("`t$branch_b`", "id") == [(2,), (20,), (3,)]
    assert warehouse.snapshots("t") == 1
    refused(lambda: parts.writeTo(branch).createOrReplace(), "is a branch")


STORED = {  # type of the column, value, what is stored
    "long": ("INT", "3L", "3"),
    "number": ("STRING", "12", "12"),
    "scale": ("DECIMAL(6, 2)", "1.2300BD", "1.23"),
    "half": ("FLOAT", "0.5D", "0.5"),
    "spaces": ("VARCHAR(3)", "'abc  '", "abc"),
    "nothing": ("INT", "NULL", "None"),
    "fields": ("STRUCT<a: INT, b: INT>", "named_struct('a', 1)", "Row(a=1, b=None)"),
}
REFUSED = {  # type of the column, value; Spark's own tables store most of them with another value
    "double": ("INT", "1.5D"),
    "whole double": ("INT", "2.0D"),
    "nan": ("INT", "double('NaN')"),
    "overflow": ("INT", "3000000000L"),
    "text": ("INT", "'12'"),
    "time of day": ("DATE", "timestamp'2024-01-02 03:04:05'"),
    "scale": ("DECIMAL(6, 2)", "1.2345BD"),
    "precision": ("DECIMAL(6, 2)", "123456.0BD"),
    "long to double": ("DOUBLE", "9007199254740993L"),
    "long text": ("VARCHAR(3)", "'abcd'"),
    "long char": ("CHAR(3)", "'abcd'"),
    "null": ("INT NOT NULL", "CAST(NULL AS INT)"),
    "nested": ("STRUCT<a: INT>", "named_struct('a', 1.5D)"),
    "element": ("ARRAY<INT>", "array(1.5D)"),
    "more fields": ("STRUCT<a: INT>", "named_struct('a', 1, 'b', 2)"),
}


def ways_to_write(warehouse: Warehouse, values: str) -> dict[str, Callable[[], Any]]:
    """What writes `values`, a list of SELECT with names, to the table db.c."""
    table, rows = f"{NAME}.db.c", warehouse.sql(f"SELECT {values}")
    return {
        "writeTo": rows.select(*rows.columns[::-1]).writeTo(table).append,
        "insertInto": lambda: rows.write.insertInto(table),
        "spark.sql": lambda: warehouse.sql(f"INSERT INTO {table} SELECT {values}"),
        "catalog.sql": lambda: warehouse.catalog.sql(f"INSERT INTO db.c SELECT {values}", session=warehouse.spark),
    }


def check_refused(warehouse: Warehouse, name: str) -> None:
    """Check that all ways to write a value refuse it alike, and leave nothing."""
    of_column, value = REFUSED[name]
    warehouse.sql(f"CREATE TABLE {NAME}.db.c (id INT, v {of_column})")
    before, errors = warehouse.files(), {}
    for way, act in ways_to_write(warehouse, f"1 AS id, {value} AS v").items():
        with pytest.raises((PySparkException, paimon_spark.PaimonError)) as raised:
            act()
        errors[way] = str(raised.value).strip()
    assert len(set(errors.values())) == 1, errors
    assert all("\n" not in text and "column v" in text for text in errors.values()), errors
    assert warehouse.files() == before


@pytest.mark.parametrize("name", slow_except(REFUSED, "double", "nested"))
def test_values_that_would_change_are_refused_alike_by_all_ways(warehouse: Warehouse, name: str) -> None:
    check_refused(warehouse, name)


@pytest.mark.slow
@pytest.mark.newest
@pytest.mark.parametrize("policy", ["STRICT", "LEGACY"])
@pytest.mark.parametrize("name", ["double", "overflow", "long to double"])
def test_the_store_assignment_policy_of_spark_changes_nothing(warehouse: Warehouse, name: str, policy: str) -> None:
    warehouse.spark.conf.set(POLICY, policy)
    check_refused(warehouse, name)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["ANSI", "STRICT", "LEGACY"])
def test_values_are_converted_where_nothing_is_lost(warehouse: Warehouse, policy: str) -> None:
    warehouse.spark.conf.set(POLICY, policy)
    columns = ", ".join(f"{name} {of_column}" for name, (of_column, _, _) in STORED.items())
    warehouse.sql(f"CREATE TABLE {NAME}.db.c ({columns})")
    ways = ways_to_write(warehouse, ", ".join(f"{value} AS {name}" for name, (_, value, _) in STORED.items()))
    for act in ways.values():
        act()
    found = [tuple(map(str, row)) for row in warehouse.rows("c")]
    assert found == [tuple(stored for _, _, stored in STORED.values())] * len(ways)


@pytest.mark.slow
def test_dates_become_timestamps_and_fields_match_by_name_or_position(warehouse: Warehouse) -> None:
    warehouse.sql(f"CREATE TABLE {NAME}.db.d (id INT, t TIMESTAMP, n TIMESTAMP_NTZ, s STRUCT<a: INT, b: STRING>)")
    rows = warehouse.sql(
        "SELECT named_struct('b', 'x', 'a', 1) AS s, 1 AS id, date'2024-01-02' AS t, date'2024-01-03' AS n"
    )
    rows.writeTo(f"{NAME}.db.d").append()
    warehouse.sql(
        f"INSERT INTO {NAME}.db.d SELECT 1, date'2024-01-02', date'2024-01-03', named_struct('p', 1, 'q', 'x')"
    )
    rows.selectExpr("id", "t", "n", "named_struct('p', 1, 'q', 'x')").write.insertInto(f"{NAME}.db.d")
    found = warehouse.spark.table(f"{NAME}.db.d").selectExpr("id", "string(t)", "string(n)", "s.a", "s.b").collect()
    assert {tuple(r) for r in found} == {(1, "2024-01-02 00:00:00", "2024-01-03 00:00:00", 1, "x")}
    assert len(found) == 3


def test_columns_are_added_where_the_write_asks_for_it(warehouse: Warehouse, parts: DataFrame) -> None:
    table = f"{NAME}.db.t"
    more = renumbered(parts, 10).withColumn("more", F.lit(7))
    more.writeTo(table).option("mergeSchema", "true").append()
    assert warehouse.spark.table(table).columns == ["id", "v", "dt", "hr", "more"]
    assert (10, 7) in warehouse.rows("t", "id", "more")
    refused(lambda: more.withColumn("x", F.lit(1)).writeTo(table).append(), "no column 'x'")


@pytest.mark.slow
def test_statements_and_save_as_table_add_columns(warehouse: Warehouse, parts: DataFrame) -> None:
    table = f"{NAME}.db.t"
    renumbered(parts, 10).withColumn("one", F.lit(1)).write.option("mergeSchema", "true").mode("append").saveAsTable(
        table
    )
    made = warehouse.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT 11 id, 'x' dt, 1 hr, 2 two")
    assert [tuple(r) for r in made.collect()] == [(1, 1)]
    merge = (
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING (SELECT 11 id, 3 three UNION ALL SELECT 12, 4) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert [tuple(r) for r in warehouse.sql(merge).collect()] == [(2, 1, 0, 1)]
    assert warehouse.spark.table(table).columns == ["id", "v", "dt", "hr", "one", "two", "three"]
    rows = warehouse.rows("t", "id", "one", "two", "three")
    assert {(10, 1, None, None), (11, None, 2, 3), (12, None, None, 4)} <= set(rows)


def test_merge_into_of_dataframes_is_refused_with_what_to_use(warehouse: Warehouse, parts: DataFrame) -> None:
    for condition in (F.lit(True), F.expr(f"{NAME}.db.t.id = 1")):
        merge = parts.mergeInto(f"{NAME}.db.t", condition).whenNotMatched().insertAll()
        refused(merge.merge, f"mergeInto of {NAME}.db.t", "MERGE INTO")
    text = f"MERGE INTO {NAME}.db.t AS t USING {{df}} AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    made = warehouse.spark.sql(text, df=renumbered(parts, 10))
    assert [tuple(r) for r in made.collect()] == [(1, 0, 0, 1)]


@pytest.fixture
def failing(parts: DataFrame) -> DataFrame:
    """Rows of which one raises an error in one of two tasks."""

    checked = F.udf(lambda number: 6 // (number - 3), "int")
    return parts.repartition(2).select(checked("id").alias("id"), "v", "dt", "hr")


WRITES: dict[str, Callable[[DataFrame], Any]] = {
    "append": lambda rows: rows.writeTo(f"{NAME}.db.t").append(),
    "overwritePartitions": lambda rows: rows.writeTo(f"{NAME}.db.t").overwritePartitions(),
    "insertInto": lambda rows: rows.write.insertInto(f"{NAME}.db.t", overwrite=True),
    "create": lambda rows: rows.writeTo(f"{NAME}.db.new").create(),
    "createOrReplace": lambda rows: rows.writeTo(f"{NAME}.db.t").partitionedBy("dt", "hr").createOrReplace(),
    "saveAsTable": lambda rows: rows.write.mode("overwrite").partitionBy("dt", "hr").saveAsTable(f"{NAME}.db.t"),
    "INSERT": lambda rows: rows.sparkSession.sql(f"INSERT INTO {NAME}.db.t SELECT * FROM {{rows}}", rows=rows),
    "CTAS": lambda rows: rows.sparkSession.sql(f"CREATE TABLE {NAME}.db.new AS SELECT * FROM {{rows}}", rows=rows),
    "RTAS": lambda rows: rows.sparkSession.sql(
        f"REPLACE TABLE {NAME}.db.t PARTITIONED BY (dt, hr) AS SELECT * FROM {{rows}}", rows=rows
    ),
}


@pytest.mark.parametrize("name", slow_except(WRITES, "create"))
def test_a_write_that_fails_half_way_leaves_nothing(warehouse: Warehouse, failing: DataFrame, name: str) -> None:
    before = warehouse.files()
    with pytest.raises(PySparkException, match="ZeroDivisionError") as raised:
        WRITES[name](failing)
    assert "py4j" not in str(raised.value)
    assert warehouse.files() == before
    assert not warehouse.spark.catalog.tableExists(f"{NAME}.db.new")
    assert len(warehouse.rows("t")) == 3


@pytest.mark.slow
def test_a_table_whose_new_rows_are_refused_is_as_before(warehouse: Warehouse, parts: DataFrame) -> None:
    files, rows = warehouse.files(), warehouse.rows("t")
    null = parts.withColumn("v", F.when(F.col("id") < 3, F.col("v"))).writeTo(f"{NAME}.db.t").partitionedBy("dt", "hr")
    refused(null.tableProperty("primary-key", "dt,hr,v").createOrReplace, "column v", "null")
    assert warehouse.rows("t") == rows
    assert warehouse.catalog.table("db.t").schema.primary_keys == ()
    assert [f for f in warehouse.files() if f.endswith(".parquet")] == [f for f in files if f.endswith(".parquet")]


@pytest.mark.slow
def test_a_stream_appends_to_a_table_with_keys_exactly_once(
    warehouse: Warehouse, parts: DataFrame, tmp_path: Path
) -> None:
    warehouse.sql(f"CREATE TABLE {NAME}.db.k (id INT, v STRING) TBLPROPERTIES ('primary-key'='id', 'bucket'='1')")

    def run() -> None:
        rows = warehouse.spark.readStream.table(f"{NAME}.db.t").select("v", "id")
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).toTable(f"{NAME}.db.k").awaitTermination()

    run()
    assert warehouse.rows("k") == [(1, "a"), (2, "b"), (3, "c")]
    made = warehouse.snapshots("k")
    run()
    assert warehouse.snapshots("k") == made
    renumbered(parts, 4).writeTo(f"{NAME}.db.t").append()
    run()
    assert warehouse.rows("k") == [(1, "a"), (2, "b"), (3, "c"), (4, "a")]


@pytest.mark.slow
def test_plain_writes_make_as_few_files_as_table_write(warehouse: Warehouse) -> None:
    rows = warehouse.spark.range(400).selectExpr("int(id) AS id", "string(id % 4) AS dt").repartition(8)
    for name, more in (("p", "PARTITIONED BY (dt)"), ("b", "TBLPROPERTIES ('bucket'='3', 'bucket-key'='id')")):
        numbers = []
        for way in ("frame", "table", "insert"):
            warehouse.sql(f"CREATE TABLE {NAME}.db.{name}_{way} (id INT, dt STRING) {more}")
        rows.writeTo(f"{NAME}.db.{name}_frame").append()
        warehouse.catalog.table(f"db.{name}_table").write(rows)
        warehouse.spark.sql(f"INSERT INTO {NAME}.db.{name}_insert SELECT * FROM {{rows}}", rows=rows)
        numbers = [warehouse.data_files(f"{name}_{way}") for way in ("frame", "table", "insert")]
        assert numbers == [numbers[0]] * 3
        assert numbers[0] <= 4
        assert all(len(warehouse.rows(f"{name}_{way}")) == 400 for way in ("frame", "table", "insert"))


@pytest.mark.slow
def test_a_script_inserts_by_position_and_by_name(warehouse: Warehouse, parts: DataFrame) -> None:
    table = f"{NAME}.db.t"
    warehouse.sql(
        f"BEGIN INSERT INTO {table} (id, dt, hr) VALUES (100, 's', 1); "
        f"INSERT INTO {table} BY NAME SELECT 1 AS hr, 's' AS dt, 101 AS id; "
        f"INSERT OVERWRITE {table} PARTITION (dt = 'x', hr = 1) (id) SELECT 102; END"
    ).collect()
    assert warehouse.rows("t", "id", "dt", "hr") == [
        (100, "s", 1), (101, "s", 1), (102, "x", 1), (2, "x", 2), (3, "y", 1),
    ]  # fmt: skip


@pytest.mark.slow
def test_sessions_made_from_an_attached_one_write(warehouse: Warehouse, parts: DataFrame) -> None:
    other = warehouse.spark.newSession()
    rows = other.createDataFrame([("q", 1, 50)], "v STRING, hr INT, id INT").withColumn("dt", F.lit("z"))
    rows.writeTo(f"{NAME}.db.t").append()
    rows.select("id", "v", "dt", "hr").toDF("a", "b", "c", "d").write.insertInto(f"{NAME}.db.t")
    assert warehouse.rows("t").count((50, "q", "z", 1)) == 2


@pytest.mark.slow
def test_lineage_knows_the_tables_that_a_dataframe_was_read_from(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    catalog = recording_catalog(tmp_path / "wh", "abxyzw", schema)
    for name in "aab":
        catalog.table(f"db.{name}").write(pa.table({"id": [1, 2], "v": ["a", "b"]}, schema=schema))
    paimon_spark.attach(spark, catalog.warehouse, name=NAME)
    try:
        a, b = (spark.table(f"{NAME}.db.{n}") for n in "ab")
        joined = a.join(b.select("id"), "id")
        joined.writeTo(f"{NAME}.db.x").append()
        spark.read.option("versionAsOf", 1).table(f"{NAME}.db.a").writeTo(f"{NAME}.db.z").overwritePartitions()
        joined.writeTo(f"{NAME}.db.made").create()
        spark.range(2).selectExpr("id", "'q' AS v").write.insertInto(f"{NAME}.db.w")
        cached = a.cache()
        cached.count()
        cached.join(b.select("id"), "id").writeTo(f"{NAME}.db.y").append()
        cached.unpersist()
        joined.writeTo(f"{NAME}.db.b").createOrReplace()
    finally:
        paimon_spark.detach(spark, NAME)
    assert came_from(catalog.table("db.x")) == {"db.a": 2, "db.b": 1}
    assert came_from(catalog.table("db.z")) == {"db.a": 1}
    assert came_from(catalog.table("db.made")) == {"db.a": 2, "db.b": 1}
    assert came_from(catalog.table("db.w")) == {}
    assert came_from(catalog.table("db.b")) == {"db.a": 2}
    assert all(said(catalog.table(f"db.{n}")).knows_sources for n in ("x", "z", "made", "w", "b"))
    assert not said(catalog.table("db.y")).knows_sources


def test_the_session_catalog_registers_no_table_that_nobody_can_read(
    warehouse: Warehouse, parts: DataFrame, tmp_path: Path
) -> None:
    session, text = warehouse.spark, ("Spark's session catalog", "attach", "TEMPORARY VIEW")
    refused(lambda: session.sql("CREATE TABLE nobody (id INT) USING paimon"), *text)
    to_path = parts.write.format("paimon").option("path", str(tmp_path / "path"))
    refused(lambda: to_path.saveAsTable("nobody"), *text)
    stream = session.readStream.table(f"{NAME}.db.t").writeStream.format("paimon")
    refused(lambda: stream.option("checkpointLocation", str(tmp_path / "c")).toTable("nobody"), *text)
    assert not session.catalog.tableExists("spark_catalog.default.nobody")
    assert not (tmp_path / "path").exists()
    session.sql("CREATE TABLE nobody (id INT) USING parquet")
    session.sql("DROP TABLE nobody")
