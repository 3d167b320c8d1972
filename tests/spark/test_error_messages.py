"""Errors of this package as Spark shows them: the message in a line or two, without a traceback of Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import paimon_spark

pytestmark = pytest.mark.spark

SHORT = 450
"""Most characters of an error of a batch: the message, and Spark's words around it."""
SHORT_STREAM = 1300
"""Most characters of an error of a query that runs: Spark adds the query, its offsets and its plan."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    catalog = paimon_spark.load_catalog(str(tmp_path / "w"))
    catalog.create_database("d")
    table = catalog.create_table("d.t", "id INT NOT NULL, v STRING", primary_keys=["id"])
    table.write(pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}))
    return table.location


def shown(act: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as raised:
        act()
    return str(raised.value)


def check(text: str, answer: str, most: int, within: int = 300) -> None:
    assert answer in text[:within], text
    assert len(text) <= most, f"{len(text)} characters: {text}"
    assert "Traceback" not in text and 'File "' not in text, text


READS = {
    "an unknown option": ({"scan.mod": "x"}, "unknown read option 'scan.mod'; did you mean 'scan.mode'"),
    "a wrong value": ({"read.batch-size": "many"}, "option read.batch-size = 'many': expected a whole number"),
    "a missing version": ({"versionAsOf": "nope"}, "table d.t has no version 'nope'"),
    "a missing column": ({"where": "idd = 1"}, "column 'idd' does not exist; did you mean 'id'?"),
}


@pytest.mark.parametrize("case", READS)
def test_an_error_of_a_read_is_short(spark: SparkSession, path: str, case: str) -> None:
    options, answer = READS[case]
    text = shown(lambda: spark.read.format("paimon").options(**options).load(path).collect())
    check(text, answer, SHORT)
    assert "stream" not in text


@pytest.mark.quick
def test_an_error_of_a_write_is_short(spark: SparkSession, path: str) -> None:
    rows = spark.sql("SELECT 1 AS id, 'a' AS v")

    def write(**options: str) -> None:
        rows.write.format("paimon").mode("append").options(**options).save(path)

    check(shown(lambda: write(**{"merge-engin": "x"})), "unknown write option 'merge-engin'; did you mean", SHORT)
    check(shown(lambda: write(**{"write-buffer-size": "x"})), "option write-buffer-size = 'x': expected a size", SHORT)


@pytest.mark.quick
def test_an_error_in_a_task_is_short(spark: SparkSession, path: str) -> None:
    nulls = spark.sql("SELECT cast(null AS int) AS id, 'a' AS v")
    text = shown(lambda: nulls.write.format("paimon").mode("append").save(path))
    check(text, "column id of table d.t is a column of the primary key", SHORT)


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("scan.mod", "unknown read option 'scan.mod'; did you mean 'scan.mode'"),
        ("read.stream.maxRowsPerTrigger", "option read.stream.maxRowsPerTrigger = 'x': expected a whole number"),
    ],
)
def test_an_option_of_a_stream_is_refused_before_the_query_starts(
    spark: SparkSession, path: str, option: str, answer: str
) -> None:
    text = shown(lambda: spark.readStream.format("paimon").option(option, "x").load(path))
    check(text, answer, SHORT)
    assert "batch" not in text


def test_an_error_of_a_query_that_runs_says_first_what_is_wrong(spark: SparkSession, path: str, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("cast(value AS int) AS id", "'a' AS v")
    to_table = rows.writeStream.format("paimon").option("path", path).option("merge-engin", "x")
    from_table = spark.readStream.format("paimon").option("scan.mode", "latest-delta").load(path).writeStream

    def run(writer: object, name: str) -> None:
        query = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()  # type: ignore[attr-defined]
        query.awaitTermination(60)

    check(shown(lambda: run(to_table, "to")), "unknown write option 'merge-engin'", SHORT_STREAM)
    text = shown(lambda: run(from_table.format("noop"), "from"))
    # Spark's own words before it take 300 characters.
    check(text, "scan.mode = 'latest-delta' is not available in streams; give one of", SHORT_STREAM, within=400)


def test_a_table_function_shows_its_error_in_a_line(spark: SparkSession, path: str, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "w"))
    catalog.register_functions(spark, prefix="short_")
    text = shown(lambda: spark.sql("SELECT * FROM short_paimon_table('d.t', 'nope')").collect())
    assert "has no version 'nope'" in text and "Traceback" not in text


def test_other_errors_keep_their_traceback(spark: SparkSession) -> None:
    from pyspark.sql.datasource import DataSource

    from paimon_spark.spark.worker_errors import errors_in_one_line

    @errors_in_one_line
    class Broken(DataSource):
        @classmethod
        def name(cls) -> str:
            return "broken"

        def schema(self) -> str:
            raise KeyError("a bug")

    spark.dataSource.register(Broken)
    text = shown(lambda: spark.read.format("broken").load())
    assert "Traceback" in text and "KeyError: 'a bug'" in text and "in schema" in text


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """An attached catalog with table `shop.orders`, which has a branch `sfix`."""
    name = "of_messages"
    catalog = paimon_spark.attach(spark, str(tmp_path / "w"), name=name)
    catalog.create_database("shop")
    catalog.create_table("shop.orders", "id BIGINT, v STRING").create_branch("sfix")
    yield name
    spark.catalog.setCurrentCatalog("spark_catalog")
    paimon_spark.detach(spark, name)


@pytest.mark.quick
def test_a_table_that_an_attached_catalog_lacks_is_told_in_a_line_with_the_nearest(
    spark: SparkSession, lake: str
) -> None:
    rows = spark.range(1)
    no_table, no_database = "no table 'order'; did you mean 'orders'?", "no database 'shp'; did you mean 'shop'?"
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: spark.sql(f"SELECT * FROM {lake}.shop.order"), no_table),
        (lambda: spark.sql(f"SELECT * FROM {lake}.shp.orders"), no_database),
        (lambda: spark.sql(f"SELECT * FROM {lake}.shop.`order$branch_sfix`"), no_table),
        (lambda: spark.sql(f"INSERT INTO {lake}.shop.order VALUES (1, 'a')"), no_table),
        (lambda: spark.sql(f"DESCRIBE {lake}.shop.order"), no_table),
        (lambda: spark.sql(f"USE {lake}.shp"), no_database),
        (lambda: spark.table(f"{lake}.shop.order"), no_table),
        (lambda: rows.writeTo(f"{lake}.shop.order").append(), no_table),
        (lambda: spark.readStream.table(f"{lake}.shop.order"), no_table),
    ]
    for call, answer in calls:
        text = shown(call)
        check(text, answer, SHORT)
        assert text.startswith(("[TABLE_OR_VIEW_NOT_FOUND] ", "[SCHEMA_NOT_FOUND] ")) and "\n" not in text
    spark.sql(f"USE {lake}.shop")
    check(shown(lambda: spark.table("order")), no_table, SHORT)
    with pytest.raises(AnalysisException) as raised:
        spark.table("order")
    assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    spark.sql("DROP TABLE IF EXISTS order_")
    assert not spark.catalog.tableExists("order_")
    spark.sql("USE spark_catalog.default")
    assert "did you mean" not in shown(lambda: spark.table("order"))  # a name of Spark's


@pytest.mark.quick
def test_a_branch_that_a_stream_is_to_write_to_and_that_is_missing_is_not_to_be_created(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("value AS id", "'a' AS v")
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "c"))
    text = shown(lambda: writer.toTable(f"{lake}.shop.orders$branch_sfx"))
    check(text, "table shop.orders has no branch 'sfx'; did you mean 'sfix'?; its branches are main, sfix", SHORT)
    assert "create_branch" not in text
