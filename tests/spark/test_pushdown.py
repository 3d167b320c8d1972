"""Spark's filter pushdown, off (the default) and on: the same rows, and each pushed filter as Spark means it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as ds
from pyspark.sql import functions as fn

from paimon_spark.predicate.arrow import matches
from paimon_spark.spark.filters import to_predicate
from paimon_spark.types import DataType, parse_type
from tests.harness.golden import golden_path

pytestmark = pytest.mark.spark
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@contextmanager
def pushdown(spark: SparkSession, on: bool) -> Iterator[None]:
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, str(on).lower())
    try:
        yield
    finally:
        spark.conf.set(PUSHDOWN, str(before))


def spark_filters(df: DataFrame) -> bool:
    """Whether Spark's plan has a filter of its own."""
    return "Filter " in str(df._jdf.queryExecution().executedPlan().toString())


QUERIES = [
    ("append_all_types_parquet", "id > 1"),
    ("append_all_types_parquet", "f_bool"),
    ("append_all_types_parquet", "not f_bool"),
    ("append_all_types_parquet", "f_tiny = 127 or f_tiny is null"),
    ("append_all_types_parquet", "f_double = double('NaN')"),
    ("append_all_types_parquet", "f_double > 0 and f_float < 3"),
    ("append_all_types_parquet", "f_dec38 <> 0"),
    ("append_all_types_parquet", "f_dec9 in (1, 2.5, null)"),
    ("append_all_types_parquet", "f_char = 'ab'"),
    ("append_all_types_parquet", "f_string like 'a%'"),
    ("append_all_types_parquet", "f_string like '%a%' and f_varchar is not null"),
    ("append_all_types_parquet", "f_date >= date'1970-01-01'"),
    ("append_all_types_parquet", "f_time > 0"),
    ("append_all_types_parquet", "f_ts6 < timestamp_ntz'2000-01-01 00:00:00'"),
    ("append_all_types_parquet", "f_ts9 >= timestamp_ntz'1970-01-01 00:00:00'"),
    ("append_all_types_parquet", "f_ltz3 > timestamp'1970-01-01 00:00:00'"),
    ("append_all_types_parquet", "f_bytes = X'00'"),
    ("append_all_types_parquet", "f_row is null"),
    ("append_all_types_parquet", "f_string <=> null"),
    ("append_all_types_parquet", "f_int <=> 2147483647"),
    ("append_partitioned_escaped", "true"),
    ("branches", "k = 1"),
    ("branches", "k = 1 and v = 'x'"),
    ("pk_deletion_vectors", "true"),
    ("pk_partial_update", "true"),
]


ON_OLDEST = (
    "id > 1",
    "f_bool",
    "f_dec9 in (1, 2.5, null)",
    "f_string like 'a%'",
    "f_string <=> null",
    "k = 1 and v = 'x'",
)
EACH_QUERY = [pytest.param(*q, marks=() if q[1] in ON_OLDEST else pytest.mark.newest) for q in QUERIES]
MERGED = [
    "pk_deletion_vectors",
    *(pytest.param(t, marks=pytest.mark.newest) for t in ("pk_partial_update", "pk_aggregation", "pk_first_row")),
]


@pytest.mark.parametrize(("table", "condition"), EACH_QUERY)
def test_a_condition_gives_the_same_rows_pushed_and_not(spark: SparkSession, table: str, condition: str) -> None:
    def read() -> list[str]:
        df = spark.read.format("paimon").load(str(golden_path(table)))
        return sorted(map(str, df.where(condition).toArrow().to_pylist()))

    with pushdown(spark, False):
        without = read()
    with pushdown(spark, True):
        assert read() == without


@pytest.mark.parametrize("table", MERGED)
def test_conditions_on_merged_rows_hold_after_the_merge(spark: SparkSession, table: str) -> None:
    path = str(golden_path(table))
    with pushdown(spark, False):
        df = spark.read.format("paimon").load(path)
        found = df.collect()
        conditions = [(name, row[name]) for name in df.columns for row in found[:3] if isinstance(row[name], int | str)]
        expected = {(n, v): sorted(str(r) for r in found if r[n] is not None and r[n] != v) for n, v in conditions}
    with pushdown(spark, True):
        df = spark.read.format("paimon").load(path)
        for name, value in conditions:
            got = sorted(str(r) for r in df.where(fn.col(name) != fn.lit(value)).collect())
            assert got == expected[name, value], (name, value)


def test_what_was_pushed_is_not_evaluated_again(spark: SparkSession) -> None:
    path = str(golden_path("branches"))
    with pushdown(spark, True):
        df = spark.read.format("paimon").load(path).where("k = 1 and v is not null")
        assert not spark_filters(df)
    with pushdown(spark, False):
        df = spark.read.format("paimon").load(path).where("k = 1 and v is not null")
        assert spark_filters(df)


@pytest.mark.newest
def test_nanoseconds_are_left_to_spark(spark: SparkSession) -> None:
    with pushdown(spark, True):
        df = spark.read.format("paimon").load(str(golden_path("append_all_types_parquet")))
        assert spark_filters(df.where("f_ts9 > timestamp_ntz'2000-01-01 00:00:00'"))


def test_a_user_schema_with_another_type_is_filtered_by_spark(spark: SparkSession) -> None:
    path = str(golden_path("branches"))
    for on in (False, True):
        with pushdown(spark, on):
            df = spark.read.format("paimon").schema("k BIGINT").load(path)
            assert df.where("k = 1").count() == 1
            assert df.where(f"k < {2**40}").count() == df.count()


UTC = timezone.utc
NUMBERS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 2.0**-149, 3.4028234663852886e38]
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "b": ("BOOLEAN", pa.bool_(), [True, False]),
    "t": ("TINYINT", pa.int8(), [-128, -1, 0, 1, 127]),
    "i": ("INT", pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "l": ("BIGINT", pa.int64(), [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1]),
    "f": ("FLOAT", pa.float32(), NUMBERS),
    "d": ("DOUBLE", pa.float64(), [*NUMBERS, 1e308, 5e-324]),
    "n": ("DECIMAL(10, 2)", pa.decimal128(10, 2), [Decimal(x) for x in ("0.00", "-1.50", "1.50", "99999999.99")]),
    "s": ("STRING", pa.string(), ["", "a", "ab", "b", "a%b", "ä", "\U0001f600", "\uffff", "a\0"]),
    "y": ("BYTES", pa.binary(), [b"", b"\0", b"a", b"\xff", b"a\xff"]),
    "day": ("DATE", pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
    "at": (
        "TIMESTAMP(6)",
        pa.timestamp("us"),
        [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), datetime(2262, 4, 12)],
    ),
    "z": (
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        pa.timestamp("ms", "UTC"),
        [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=m) for m in (-1, 0, 1, 10**12)],
    ),
}
TYPES: dict[str, DataType] = {name: parse_type(text) for name, (text, _, _) in COLUMNS.items()}


def all_values() -> pa.Table:
    """Rows in which every value and null of every column occurs."""
    length = max(len(values) for _, _, values in COLUMNS.values()) + 1
    return pa.table(
        {
            name: pa.array([[*values, None][i % (len(values) + 1)] for i in range(length)], arrow)
            for name, (_, arrow, values) in COLUMNS.items()
        }
    )


@st.composite
def pushed(draw: st.DrawFn) -> ds.Filter:
    name = draw(st.sampled_from(sorted(COLUMNS)))
    values = COLUMNS[name][2]
    path = (name,)
    value = draw(st.sampled_from(values))
    if name == "z":  # between two milliseconds
        value += timedelta(microseconds=draw(st.sampled_from([0, 1, 999])))
    kinds = [ds.EqualTo, ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual, ds.EqualNullSafe]
    if name == "s":
        kinds += [ds.StringStartsWith, ds.StringEndsWith, ds.StringContains]
    which = draw(st.sampled_from([*kinds, ds.In, ds.IsNull, ds.IsNotNull]))
    one: ds.Filter
    if which is ds.In:
        one = ds.In(path, tuple(draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=3))))
    elif which in (ds.IsNull, ds.IsNotNull):
        one = which(path)
    else:
        one = which(path, value)
    return ds.Not(one) if draw(st.booleans()) else one


def as_spark(f: ds.Filter) -> Any:
    """The filter as a Spark expression."""
    if isinstance(f, ds.Not):
        return ~as_spark(f.child)
    assert hasattr(f, "attribute")
    name = f.attribute[0]
    column = fn.col(name)
    if isinstance(f, ds.IsNull):
        return column.isNull()
    if isinstance(f, ds.IsNotNull):
        return column.isNotNull()
    if isinstance(f, ds.In):
        return column.isin([literal(name, v) for v in f.value])
    assert hasattr(f, "value")
    value = literal(name, f.value)
    match f:
        case ds.EqualTo():
            return column == value
        case ds.EqualNullSafe():
            return column.eqNullSafe(value)
        case ds.GreaterThan():
            return column > value
        case ds.GreaterThanOrEqual():
            return column >= value
        case ds.LessThan():
            return column < value
        case ds.LessThanOrEqual():
            return column <= value
        case ds.StringStartsWith():
            return column.startswith(value)
        case ds.StringEndsWith():
            return column.endswith(value)
    return column.contains(value)


def literal(name: str, value: Any) -> Any:
    """The value as a literal of the column's own type."""
    types = {
        "t": "tinyint", "i": "int", "l": "bigint", "f": "float", "d": "double", "n": "decimal(10,2)",
        "day": "date", "at": "timestamp_ntz",
    }  # fmt: skip
    if name in ("day", "at") and value is not None:
        value = str(value)
    return fn.lit(value).cast(types[name]) if name in types else fn.lit(value)


@pytest.mark.newest
@settings(max_examples=12)
@given(st.lists(pushed(), min_size=20, max_size=40))
def test_every_filter_means_what_spark_means(spark: SparkSession, filters: list[ds.Filter]) -> None:
    table = all_values()
    batch = table.to_batches()[0]
    for_spark = table.append_column("_row", pa.array(range(len(table))))
    place = for_spark.schema.get_field_index("z")
    rows = spark.createDataFrame(
        for_spark.set_column(place, "z", for_spark.column("z").cast(pa.timestamp("us", "UTC")))
    )
    judged = rows.select("_row", *[as_spark(f).alias(f"f{i}") for i, f in enumerate(filters)]).orderBy("_row")
    found = judged.toArrow()
    for i, f in enumerate(filters):
        predicate = to_predicate(f, TYPES)
        assert predicate is not None, f
        kept = matches(predicate, batch).to_pylist()
        assert kept == [v is True for v in found.column(f"f{i}").to_pylist()], f
