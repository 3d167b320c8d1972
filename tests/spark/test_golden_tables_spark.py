"""Golden tables read through Spark exactly as their producers' own readers read them.

Every snapshot is read without Spark, in `tests/format`; here the first and the head of each table, and all other reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from tests.harness.golden import GoldenRead, golden_reads, readable_as_arrow
from tests.harness.rows import Row, rows_of, to_microseconds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LATER_SNAPSHOT = re.compile(r"(.*,)?snapshot=(?!1$)\d+")
READS = [read for read in golden_reads() if not LATER_SNAPSHOT.fullmatch(read.label)]
# What a release of Spark could make of values is seen at these heads.
ON_OLDEST = {
    "append_all_types_avro", "append_all_types_orc", "append_all_types_parquet", "append_partitioned_escaped",
    "append_schema_evolution", "branches", "empty_table", "pk_deletion_vectors", "pk_partial_update", "py_append_types",
}  # fmt: skip


def on_oldest(read: GoldenRead) -> bool:
    return read.label == "latest" and read.table in ON_OLDEST


EACH = [pytest.param(r, marks=() if on_oldest(r) else pytest.mark.newest) for r in READS]
# One read a type: where instants and wall clock times could slip by a session's zone.
WITH_TIMES = [
    read
    for read in READS
    if read.label == "latest"
    and read.table in {"append_all_types_avro", "append_all_types_orc", "append_all_types_parquet", "py_append_types"}
]


def load(spark: SparkSession, read: GoldenRead) -> DataFrame:
    reader = spark.read.format("paimon").options(**read.options)
    if read.columns is not None:
        reader = reader.option("columns", ",".join(read.columns))
    return reader.load(str(read.path))


def rows_through_spark(spark: SparkSession, read: GoldenRead) -> list[Row]:
    # Where the producer's types are not recorded, ours say which integers are times of day.
    own = {f.name: str(f.type) for f in paimon_spark.load_table(str(read.path)).row_type}
    frame = load(spark, read)
    if read.label == "latest" and read.schema:
        assert frame.columns == [name for _, name, _ in read.schema if read.columns is None or name in read.columns]
    return rows_of(frame.toArrow(), {**own, **read.types})


def as_spark_holds(read: GoldenRead) -> GoldenRead:
    """The read with timestamps as coarse as Spark's."""
    return GoldenRead(
        read.table,
        read.label,
        read.path,
        read.options,
        read.columns,
        tuple(to_microseconds(list(read.rows))),
        None if read.written is None else tuple(to_microseconds(list(read.written))),
        read.schema,
        read.unordered,
    )


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, in a time zone with an offset and daylight saving."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        yield spark
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


@pytest.mark.parametrize("read", EACH, ids=str)
def test_rows_and_columns_are_those_of_the_producer(spark: SparkSession, read: GoldenRead) -> None:
    read = readable_as_arrow(read)
    as_spark_holds(read).check(rows_through_spark(spark, read))


@pytest.mark.parametrize("read", WITH_TIMES, ids=str)
def test_the_zone_of_the_session_changes_no_value(new_york: SparkSession, read: GoldenRead) -> None:
    as_spark_holds(read).check(rows_through_spark(new_york, read))
