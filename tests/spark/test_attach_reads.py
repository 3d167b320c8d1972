"""Reads of attached tables: Spark's own readers, Python through Spark, and Arrow give the same rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

import paimon_spark
from paimon_spark.api.table import Table
from tests.harness.golden import GoldenRead, golden_reads, readable_as_arrow
from tests.harness.marks import slow_except
from tests.harness.rows import rows_of, to_microseconds
from tests.harness.three_reads import ORC, PARQUET, PYTHON, ThreeReads, plan_of, readers, setting, skips

pytestmark = pytest.mark.spark

NAN, INF = float("nan"), float("inf")
ROWS = 30
BASE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int32()),
        "v": [str(i) for i in range(ROWS)],
        "p": pa.array([i % 3 for i in range(ROWS)], pa.int32()),
    }
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wh")


@pytest.fixture(scope="module")
def three(spark: SparkSession, warehouse: Path) -> Iterator[ThreeReads]:
    catalog = paimon_spark.attach(spark, str(warehouse))
    catalog.create_database("db")
    yield ThreeReads(spark, catalog)
    paimon_spark.detach(spark)


def made(
    three: ThreeReads,
    name: str,
    data: pa.Table,
    keys: tuple[str, ...] = (),
    parts: tuple[str, ...] = (),
    **options: str,
) -> Table:
    """A table with rows; options have `_` for `-` and `__` for a dot."""
    named = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    table = three.catalog.create_table(
        f"db.{name}", data.schema, primary_keys=keys, partition_keys=parts, options=named
    )
    table.write(data)
    return table


def data_file(warehouse: Path, name: str) -> Path:
    """The only data file of a table."""
    (found,) = (warehouse / "db.db" / name).rglob("bucket-*/*.parquet")
    return found


def conditions(column: str, literals: list[str]) -> list[str]:
    """Conditions of every operator."""
    out = [
        text
        for literal in literals
        for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")
        for text in (f"{column} {op} {literal}", f"NOT ({column} {op} {literal})")
    ]
    first, last = literals[0], literals[-1]
    return [
        *out,
        *(f"{literal} < {column}" for literal in literals),
        f"{column} IN ({', '.join(literals)})",
        f"{column} NOT IN ({first}, {last})",
        f"{column} IN ({first}, NULL)",
        f"{column} IS NULL",
        f"{column} IS NOT NULL",
        f"{column} <=> NULL",
        f"{column} BETWEEN {first} AND {last}",
        f"{column} = {first} OR {column} IS NULL",
        f"{column} = {first} OR id = 1",
        f"{column} <> {first} AND id > 0",
    ]


PARTITIONS: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "STRING": (
        pa.string(),
        ["a", "x y%/é=", "a:b", "__HIVE_DEFAULT_PARTITION__x", "a'b", "ü\\b", "{x}*?[y]", "a\nb", None],
        ["'a'", "'a:b'", "'a''b'", "'x y%/é='"],
    ),
    "TINYINT": (pa.int8(), [0, -5, None], ["0", "-5", "300"]),
    "INT": (pa.int32(), [0, -5, 2**31 - 1, None], ["0", "-5", "3000000000"]),
    "BIGINT": (pa.int64(), [0, 2**63 - 1, -(2**63), None], ["0", "9223372036854775807"]),
    "DATE": (
        pa.date32(),
        [date(2020, 1, 1), date(1, 1, 1), date(1500, 2, 28), date(1582, 10, 10), date(9999, 12, 31), None],
        ["DATE'2020-01-01'", "DATE'0001-01-01'", "DATE'1582-10-10'"],
    ),
    "BOOLEAN": (pa.bool_(), [True, False, None], ["true", "false"]),
    "DECIMAL": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-0.01"), None], ["1.5", "-0.01", "1.505"]),
    "DECIMAL38": (
        pa.decimal128(38, 10),
        [Decimal("1.5"), Decimal("-12345678901234567890.0000000001"), None],
        ["1.5", "-12345678901234567890.0000000001"],
    ),
    "DOUBLE": (
        pa.float64(), [1.5, NAN, -0.0, 0.0, INF, None], ["1.5D", "double('NaN')", "-0.0D", "double('Infinity')"],
    ),
    "FLOAT": (pa.float32(), [0.1, NAN, -0.0, -INF, None], ["float('0.1')", "float('NaN')", "0.1D"]),
    "TIMESTAMP3": (
        pa.timestamp("ms"),
        [datetime(2020, 1, 1, 1, 2, 3, 4000), datetime(1500, 1, 1), None],
        ["TIMESTAMP_NTZ'2020-01-01 01:02:03.004'", "TIMESTAMP_NTZ'2020-01-01 01:02:03.004001'"],
    ),
    "TIMESTAMP6": (
        pa.timestamp("us"),
        [datetime(2020, 1, 1, 1, 2, 3, 4567), datetime(1, 1, 1), None],
        ["TIMESTAMP_NTZ'2020-01-01 01:02:03.004567'", "TIMESTAMP_NTZ'0001-01-01 00:00:00'"],
    ),
    "LTZ": (
        pa.timestamp("us", "UTC"),
        [datetime(2020, 1, 1, 1, 2, 3, 4567, UTC), datetime(1900, 1, 1, tzinfo=UTC), None],
        ["TIMESTAMP'2020-01-01 01:02:03.004567Z'", "TIMESTAMP'1900-01-01 00:00:00Z'"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", slow_except(PARTITIONS, "STRING", "DATE", "DOUBLE", "LTZ"))
def test_partition_columns_come_from_metadata(three: ThreeReads, name: str) -> None:
    kind, values, literals = PARTITIONS[name]
    table, ids = f"of_{name.lower()}", pa.array(range(len(values)), pa.int32())
    made(three, table, pa.table({"id": ids, "p": pa.array(values, kind), "v": ids}), parts=("p",))
    assert three.check(table, ["v", "p", "id"]) == {PARQUET}
    frame = three.spark.sql(f"SELECT id FROM paimon.db.{table} WHERE p = {literals[0]}")
    assert "Filter (" not in plan_of(frame) and "skipped by partition" in plan_of(frame)
    assert [r.id for r in frame.collect()] == [0]


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTITIONS)
def test_conditions_of_every_operator_choose_partitions(three: ThreeReads, name: str) -> None:
    kind, values, literals = PARTITIONS[name]
    table = f"where_{name.lower()}"
    ids = pa.array(range(len(values)), pa.int32())
    made(three, table, pa.table({"id": ids, "p": pa.array(values, kind), "v": ids}), parts=("p",))
    three.matching(table, conditions("p", literals))
    if name == "STRING":
        three.matching(table, ["p LIKE 'a%'", "p LIKE '%b'", "p LIKE '%:%'", "p LIKE 'x_y%'", "NOT p LIKE 'a%'"])


LONG = "a" * 300
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "b": (pa.bool_(), [True, None, False, True, None, False], ["true", "false"]),
    "i1": (pa.int8(), [1, None, -128, 127, 0, -1], ["1", "-128", "200"]),
    "i2": (pa.int16(), [1, None, -32768, 32767, 0, -1], ["1", "-32768", "40000"]),
    "i4": (pa.int32(), [1, None, -(2**31), 2**31 - 1, 0, -1], ["1", "-2147483648", "3000000000"]),
    "i8": (pa.int64(), [1, None, -(2**63), 2**63 - 1, 0, -1], ["1", "9223372036854775807"]),
    "f4": (pa.float32(), [1.5, None, NAN, -0.0, INF, 0.1], ["float('0.1')", "float('NaN')", "0.0D", "0.1D"]),
    "f8": (pa.float64(), [-0.0, None, NAN, INF, -INF, 0.1], ["0.0D", "double('NaN')", "double('Infinity')", "0.1D"]),
    "d9": (
        pa.decimal128(9, 2),
        [Decimal("1.25"), None, Decimal("-9999999.99"), Decimal(0), Decimal("99.90"), Decimal("-0.01")],
        ["1.25", "99.9", "-0.01", "1.255"],
    ),
    "d18": (
        pa.decimal128(18, 2),
        [Decimal("1.25"), None, Decimal("-9999999999999999.99"), Decimal(0), Decimal("99.90"), Decimal("-0.01")],
        ["1.25", "99.9", "-0.015"],
    ),
    "d38": (
        pa.decimal128(38, 2),
        [Decimal("1.25"), None, Decimal(f"-{'9' * 36}.99"), Decimal(0), Decimal("99.90"), Decimal("-0.01")],
        ["1.25", "99.90", f"-{'9' * 36}.99"],
    ),
    "s": (pa.string(), ["é€𝄞", None, "", LONG, "a%b_\\", "😀" * 80], ["'a'", "''", "'é€𝄞'", f"'{LONG}'"]),
    "x": (
        pa.binary(), [b"\x00\xff", None, b"", b"a" * 300, b"\xff" * 200, b"a"], ["X'00FF'", "X''", f"X'{'FF' * 200}'"],
    ),
    "dt": (
        pa.date32(),
        [date(1970, 1, 1), None, date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31), date(1582, 10, 15)],
        ["DATE'1970-01-01'", "DATE'1582-10-10'", "DATE'1582-10-15'", "DATE'1582-10-04'"],
    ),
    "t3": (
        pa.timestamp("ms"),
        [datetime(1970, 1, 1), None, datetime(1, 1, 1), datetime(1582, 10, 10, 1, 2, 3, 4000), datetime(9999, 12, 31),
         datetime(2020, 1, 1, 0, 0, 0, 1000)],
        ["TIMESTAMP_NTZ'1970-01-01 00:00:00'", "TIMESTAMP_NTZ'2020-01-01 00:00:00.001'",
         "TIMESTAMP_NTZ'2020-01-01 00:00:00.001001'", "TIMESTAMP_NTZ'1582-10-10 01:02:03.004'"],
    ),
    "t6": (
        pa.timestamp("us"),
        [datetime(1970, 1, 1), None, datetime(1, 1, 1), datetime(1582, 10, 10, 1, 2, 3, 4567),
         datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2020, 1, 1, 0, 0, 0, 1)],
        ["TIMESTAMP_NTZ'1970-01-01 00:00:00'", "TIMESTAMP_NTZ'2020-01-01 00:00:00.000001'",
         "TIMESTAMP_NTZ'1582-10-10 01:02:03.004567'"],
    ),
    "z3": (
        pa.timestamp("ms", "UTC"),
        [datetime(1970, 1, 1, tzinfo=UTC), None, datetime(1900, 1, 1, tzinfo=UTC),
         datetime(1582, 10, 10, 1, 2, 3, 4000, UTC), datetime(9999, 12, 31, tzinfo=UTC),
         datetime(2020, 1, 1, 0, 0, 0, 1000, UTC)],
        ["TIMESTAMP'1970-01-01 00:00:00Z'", "TIMESTAMP'2020-01-01 00:00:00.001Z'",
         "TIMESTAMP'2020-01-01 00:00:00.001001Z'", "TIMESTAMP'1582-10-10 01:02:03.004Z'"],
    ),
    "z6": (
        pa.timestamp("us", "UTC"),
        [datetime(1970, 1, 1, tzinfo=UTC), None, datetime(1900, 1, 1, tzinfo=UTC),
         datetime(1582, 10, 10, 1, 2, 3, 4567, UTC), datetime(9999, 12, 31, tzinfo=UTC),
         datetime(2020, 1, 1, 0, 0, 0, 1, UTC)],
        ["TIMESTAMP'1970-01-01 00:00:00Z'", "TIMESTAMP'2020-01-01 00:00:00.000001Z'",
         "TIMESTAMP'1582-10-10 01:02:03.004567Z'"],
    ),
}  # fmt: skip
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "ar": (pa.list_(pa.int32()), [[1, None, 3], None, [], [1], [2], [None]]),
    "mp": (pa.map_(pa.string(), pa.float64()), [[("a", 1.0)], None, [], [("b", None)], [("c", NAN)], [("d", -0.0)]]),
    "st": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, None, {"x": None, "y": None}, {"x": 2, "y": ""}, {"x": 3, "y": "c"}, {"x": 4, "y": "d"}],
    ),
    "nest": (
        pa.list_(pa.struct([("a", pa.list_(pa.int64())), ("t", pa.timestamp("us"))])),
        [[{"a": [1], "t": datetime(1500, 1, 1)}], None, [], [None], [{"a": None, "t": None}], [{"a": [], "t": None}]],
    ),
}  # fmt: skip
ALL_TYPES = pa.table(
    {
        "id": pa.array(range(6), pa.int32()),
        **{name: pa.array(values, kind) for name, (kind, values, _) in COLUMNS.items()},
        **{name: pa.array(values, kind) for name, (kind, values) in NESTED.items()},
    }
)
PLAIN_IN_ORC = ["id", "b", "i1", "i2", "i4", "i8", "f4", "f8", "d9", "d18", "d38", "s", "x"]


@pytest.mark.quick
def test_values_of_every_type_are_those_that_python_reads(three: ThreeReads) -> None:
    made(three, "all_types", ALL_TYPES, parquet__row_group__rows="2")
    assert three.check("all_types") == {PARQUET}
    made(three, "all_orc", ALL_TYPES.select([*PLAIN_IN_ORC, "dt"]), file__format="orc")
    assert three.check("all_orc", PLAIN_IN_ORC) == {ORC}
    assert three.check("all_orc") == {PYTHON}  # of dates before 1582, ORC has two forms
    made(three, "all_avro", ALL_TYPES.select(["id", "s"]), file__format="avro")
    assert three.check("all_avro") == {PYTHON}
    fine = pa.table({"id": pa.array([1], pa.int32()), "t9": pa.array([1_500], pa.timestamp("ns"))})
    made(three, "nanoseconds", fine)
    assert three.check("nanoseconds") == {PYTHON} and three.check("nanoseconds", ["id"]) == {PARQUET}


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
def test_conditions_of_every_operator_find_values_of_every_type(three: ThreeReads, column: str) -> None:
    data = ALL_TYPES.select(["id", column] if column != "id" else ["id"])
    made(three, f"find_{column}", data)
    pq.write_table(data, data_file(Path(three.catalog.warehouse), f"find_{column}"), row_group_size=1)
    three.matching(f"find_{column}", conditions(column, COLUMNS[column][2]))
    if column == "s":
        likes = ("a%", "%b%", "%\\\\\\\\", "é%", "😀%", f"{LONG}%", "_", "")
        three.matching("find_s", [f"s LIKE '{p}'" for p in likes] + [f"NOT s LIKE '{p}'" for p in likes])
    if column in PLAIN_IN_ORC:
        made(three, f"orc_{column}", data, file__format="orc")
        three.matching(f"orc_{column}", conditions(column, COLUMNS[column][2]))


def test_conditions_that_skip_row_groups_lose_no_row(three: ThreeReads) -> None:
    wanted = {
        "f4 = float('0.1')": [5], "f8 > 10": [2, 3], "f8 = 0": [0], "dt > DATE'1582-10-10'": [0, 4, 5],
        "dt < DATE'1582-10-13'": [2, 3], "t3 < TIMESTAMP_NTZ'1970-01-01 00:00:00.0001'": [0, 2, 3],
        "t3 <> TIMESTAMP_NTZ'1970-01-01 00:00:00.0001'": [0, 2, 3, 4, 5], "i4 = -1": [5], "s = '😀'": [],
        f"x > X'{'FF' * 199}'": [4], "d38 < -1": [2], "st.x = 2": [3],
    }  # fmt: skip
    made(three, "groups", ALL_TYPES)
    pq.write_table(ALL_TYPES, data_file(Path(three.catalog.warehouse), "groups"), row_group_size=1)
    assert three.matching("groups", list(wanted)) == wanted

    def skipped(where: str) -> list[str]:
        return skips(three.spark.sql(f"SELECT id FROM paimon.db.groups WHERE {where}"))

    assert skipped("i4 = 1 AND f8 > 1") == ["i4 IS NOT NULL AND i4 = 1"]
    assert skipped("dt > DATE'1582-10-10'") == ["dt IS NOT NULL"]
    assert skipped("dt > DATE'1600-01-01'") == ["dt IS NOT NULL AND dt > DATE '1600-01-01'"]
    assert skipped("t3 > TIMESTAMP_NTZ'2000-01-01 00:00:00'") == []  # of milliseconds
    assert len(skipped("t6 > TIMESTAMP_NTZ'2000-01-01 00:00:00'")) == 1


def test_columns_of_files_are_found_whatever_the_table_calls_them_now(three: ThreeReads) -> None:
    def alter(**changes: Any) -> None:
        three.catalog.table("db.evolved").alter(**changes)

    def write(**columns: Any) -> None:
        kinds = {f.name: f.type for f in three.catalog.table("db.evolved").scan().arrow_schema}
        three.catalog.table("db.evolved").write(pa.table({n: pa.array(v, kinds[n]) for n, v in columns.items()}))

    made(three, "evolved", pa.table({"id": pa.array([0, 1], pa.int32()), "a": ["x", None], "b": ["y", "z"]}))
    alter(add={"n": "INT"})
    write(id=[2, 3], a=["q", "r"], b=["s", "t"], n=[1, None])
    assert three.check("evolved") == {PARQUET}
    wanted = {"n IS NULL": [0, 1, 3], "n = 1": [2], "n <=> NULL": [0, 1, 3], "b = 's'": [2]}
    assert three.matching("evolved", list(wanted)) == wanted
    alter(rename={"a": "x"})  # then each has the name that the other had
    alter(rename={"b": "a"})
    alter(rename={"x": "b"})
    assert three.check("evolved") == {PARQUET}
    write(id=[4], a=["new a"], b=["new b"], n=[7])
    wanted = {"a = 'y'": [0], "b = 'y'": [], "a IS NULL": [], "b IS NULL": [1], "a LIKE 'new%'": [4], "n > 0": [2, 4]}
    assert three.matching("evolved", list(wanted)) == wanted
    assert skips(three.spark.sql("SELECT id FROM paimon.db.evolved WHERE a = 'y' AND id = 0")) == [
        "id IS NOT NULL AND id = 0"
    ]
    alter(drop=["n"])
    alter(add={"n": "INT"})
    assert three.matching("evolved", ["n IS NULL", "n = 1"]) == {"n IS NULL": [0, 1, 2, 3, 4], "n = 1": []}
    alter(retype={"id": "BIGINT"})
    write(id=[5], a=["newest"])
    assert three.check("evolved", ["a", "n"]) == {PARQUET}
    assert three.check("evolved", ["id", "a"]) == {PARQUET, PYTHON}
    assert three.check("evolved", ["id", "a"], "id > 3") == {PARQUET, PYTHON}


def test_wider_texts_and_wider_rows(three: ThreeReads) -> None:
    three.catalog.sql("CREATE TABLE db.wider (id INT, v VARCHAR(3), c CHAR(3), r STRUCT<x: INT>)")
    three.spark.sql("INSERT INTO paimon.db.wider VALUES (1, 'abc', 'ab', named_struct('x', 1)), (2, NULL, NULL, NULL)")
    table = three.catalog.table("db.wider")
    assert three.check("wider") == {PARQUET}
    table.alter(retype={"v": "VARCHAR(10)"})
    assert three.matching("wider", ["v = 'abc'", "v IS NULL"]) == {"v = 'abc'": [1], "v IS NULL": [2]}
    table.alter(retype={"v": "VARCHAR(2)"})
    assert three.check("wider", ["id", "v"]) == {PYTHON}
    three.catalog.sql("ALTER TABLE db.wider ADD COLUMN r.y INT")
    assert three.check("wider", ["id", "r"]) == {PYTHON}


def keyed(three: ThreeReads, name: str, **options: str) -> Table:
    """A table with keys, of two commits: the second changes rows of partition 1."""
    table = made(three, name, BASE, ("p", "id"), ("p",), **{"bucket": "1", **options})
    table.write(
        pa.table({**dict(zip(BASE.column_names, BASE.columns, strict=True)), "v": ["new"] * ROWS}).filter(
            pc.equal(BASE["p"], 1)
        )
    )
    return table


@pytest.mark.quick
def test_only_files_that_must_be_merged_go_through_python(three: ThreeReads) -> None:
    """And the rest of the read goes through Spark's own reader."""
    table = keyed(three, "keyed")
    assert three.check("keyed") == {PARQUET, PYTHON}
    assert three.check("keyed", where="p = 1") == {PYTHON}
    assert three.check("keyed", where="p <> 1 AND v <> '3'") == {PARQUET}
    assert three.check("keyed", ["v"], "id > 3 AND v LIKE '%1%'") == {PARQUET, PYTHON}
    frame = three.spark.sql("SELECT p, count(*) n, max(v) v FROM paimon.db.keyed GROUP BY p ORDER BY p")
    assert [tuple(r) for r in frame.collect()] == [(0, 10, "9"), (1, 10, "new"), (2, 10, "8")]
    table.compact(full=True)
    assert three.check("keyed") == {PARQUET}
    assert three.matching("keyed", ["v = 'new' AND id < 5", "p = 2 AND id < 5"])["p = 2 AND id < 5"] == [2]
    deleted = made(three, "vectors", BASE, parts=("p",), deletion_vectors__enabled="true")
    deleted.delete("id = 4")
    assert three.check("vectors") == {PARQUET, PYTHON} and three.check("vectors", where="p = 0") == {PARQUET}
    frame = three.spark.sql("SELECT * FROM paimon.db.vectors")
    assert re.findall(r"(\d of \d) files", plan_of(frame)) == ["2 of 3", "1 of 3"]
    retracts = made(three, "retracts", BASE, ("id",), bucket="1")
    retracts.delete("id < 10")
    assert three.check("retracts") == {PYTHON}


def test_files_of_several_formats_in_one_read(three: ThreeReads) -> None:
    table = made(three, "formats", BASE, parts=("p",))
    for name in ("orc", "avro"):
        table.alter(set_options={"file.format": name})
        three.catalog.table("db.formats").write(BASE)
    assert three.check("formats") == {PARQUET, ORC, PYTHON}
    assert three.check("formats", ["v", "p"], "id < 4 AND p > 0") == {PARQUET, ORC, PYTHON}
    frame = three.spark.sql("SELECT count(DISTINCT id), count(v), sum(p) FROM paimon.db.formats WHERE id <> 7")
    assert [tuple(r) for r in frame.collect()] == [(29, 87, 87)]


def ids(frame: DataFrame) -> list[int]:
    return sorted(r.id for r in frame.select("id").collect())


@pytest.mark.parametrize("way", slow_except(("table", "scan", "plain table", "plain scan"), "table"))
def test_each_use_of_a_dataframe_has_its_own_conditions(three: ThreeReads, way: str) -> None:
    name = f"uses_{way.replace(' ', '_')}"
    if "plain" in way:
        made(three, name, BASE, parts=("p",))
    else:
        keyed(three, name)
    is_scan = "scan" in way
    frame = three.catalog.table(f"db.{name}").scan().to_spark() if is_scan else three.spark.table(f"paimon.db.{name}")
    first, second = frame.where("id < 3"), frame.where("p = 1 AND id < 9")
    assert ids(first.union(second)) == [0, 1, 1, 2, 4, 7]
    assert ids(frame) == list(range(ROWS)) and frame.count() == ROWS
    other = frame.where("id > 20").select(fn.col("p").alias("q")).distinct()
    assert ids(frame.where("id < 6").join(other, fn.col("p") == fn.col("q"), "left_semi")) == [0, 1, 2, 3, 4, 5]
    assert ids(first.join(second.select("id"), "id")) == [1]
    assert ids(frame.where(f"id = (SELECT max(id) FROM paimon.db.{name} WHERE p = 1)")) == [28]
    assert ids(first.unionByName(first.where("id > 0")).where("v <> '2'")) == [0, 1, 1]
    frame.createOrReplaceTempView("used")
    sql = "WITH c AS (SELECT * FROM used WHERE id < 5) SELECT a.id FROM c a JOIN c b ON a.id = b.id + 1"
    assert ids(three.spark.sql(sql)) == [1, 2, 3, 4]
    assert len(frame.limit(4).collect()) == 4 and frame.limit(0).collect() == []


@pytest.mark.parametrize("name", ["dynamic", "dynamic_keyed"])
def test_partitions_are_skipped_by_values_of_a_join(three: ThreeReads, name: str) -> None:
    if name == "dynamic":
        made(three, name, BASE, parts=("p",))
    else:
        keyed(three, name)
    made(three, f"{name}_keys", pa.table({"k": pa.array([1, 7], pa.int32()), "n": ["x", "y"]}))
    sql = f"SELECT t.id FROM paimon.db.{name} t JOIN paimon.db.{name}_keys ON p = k WHERE n IN ('x', 'z') AND id > 3"
    frame = three.spark.sql(sql)
    assert ids(frame) == [i for i in range(4, ROWS) if i % 3 == 1]
    assert re.search(r"RuntimeFilters: \[dynamicpruningexpression\(p#\d+L? IN dynamicpruning", plan_of(frame))
    twice = f"({sql} AND p > 0) UNION ALL (SELECT id FROM paimon.db.{name} WHERE id < 3)"
    assert ids(three.spark.sql(twice)) == sorted([0, 1, 2, *(i for i in range(4, ROWS) if i % 3 == 1)])
    by_self = f"SELECT a.id FROM paimon.db.{name} a JOIN paimon.db.{name} b ON a.p = b.p WHERE b.id = 4 AND a.id < 9"
    assert ids(three.spark.sql(by_self)) == [1, 4, 7]


@pytest.mark.quick
def test_counts_and_limits_come_from_metadata_where_that_is_exact(three: ThreeReads) -> None:
    merged = keyed(three, "counted")
    table = made(three, "counted_rows", BASE, parts=("p",), deletion_vectors__enabled="true")
    table.delete("id = 4")

    def count(relation: str, where: str = "true") -> tuple[int, bool]:
        frame = three.spark.sql(f"SELECT count(*) AS n FROM paimon.db.{relation} WHERE {where}")
        (row,) = frame.collect()
        return row.n, "BatchScan" not in plan_of(frame)

    assert count("counted_rows") == (29, True)
    assert count("counted_rows", "p = 1") == (9, True)
    assert count("counted_rows", "p = 1 AND id > 4") == (8, False)
    assert count("counted_rows VERSION AS OF 1") == (30, True)
    assert count("counted", "p = 1") == (10, False)
    assert count("counted") == (30, False)
    merged.write(BASE)
    merged.compact(full=True)
    assert count("counted") == (30, True)
    limited = three.spark.sql("SELECT id FROM paimon.db.counted_rows LIMIT 3")
    assert len(limited.collect()) == 3 and "skipped by limit" in plan_of(limited)
    filtered = three.spark.sql("SELECT id FROM paimon.db.counted_rows WHERE id > 5 LIMIT 3")
    assert len(filtered.collect()) == 3 and "skipped by limit" not in plan_of(filtered)
    assert three.spark.sql("SELECT count(*) c FROM (SELECT 1 FROM paimon.db.counted LIMIT 7)").collect()[0].c == 7
    assert three.spark.sql("SELECT count(*), max(id) FROM paimon.db.counted_rows").collect()[0] == (29, 29)
    assert len(three.spark.sql("SELECT 1 FROM paimon.db.counted").collect()) == ROWS


def test_a_small_table_is_broadcast(three: ThreeReads) -> None:
    made(three, "small", pa.table({"k": pa.array(range(1000), pa.int32()), "t": ["x" * 50] * 1000}))
    made(three, "large", pa.table({"id": pa.array(range(400_000), pa.int32()), "v": ["y" * 9] * 400_000}))
    with setting(three.spark, "spark.sql.adaptive.enabled", "false"):
        joined = three.spark.sql("SELECT id FROM paimon.db.large JOIN paimon.db.small ON id = k")
        assert "BroadcastHashJoin [id#" in plan_of(joined) and "BuildRight" in plan_of(joined)
        scan = three.catalog.table("db.small").scan().to_spark()
        assert "BroadcastHashJoin" in plan_of(three.spark.table("paimon.db.large").join(scan, fn.expr("id = k")))
        assert joined.count() == 1000


ANALYZED = """
    SELECT /*+ COALESCE(1) */ id, CAST(id % 7 AS SMALLINT) AS k, id / 3.0D AS x, CAST(id AS DECIMAL(9, 2)) AS d,
        id % 2 = 0 AS b, CAST(NULL AS INT) AS nothing,
        DATE'1969-12-01' + CAST(id AS INT) AS day,
        TIMESTAMP_NTZ'1969-12-31 23:59:59.25' + make_interval(0, 0, 0, id) AS n,
        IF(id % 4 = 0, NULL, repeat('ä', CAST(id % 5 AS INT))) AS s, CAST('abc' AS BINARY) AS y
    FROM range(500)
"""
CONDITIONS_OF_ANALYZED = (
    "true", "k = 3", "day < DATE'1970-01-01'", "x > 100", "d <= 7", "s IS NULL", "s = 'ä'",
    "nothing > 2", "NOT b OR k IN (1, 2)",
)  # fmt: skip


def estimates(frame: DataFrame) -> tuple[int, dict[str, str]]:
    """What Spark knows of the rows and columns of a query."""
    plan: Any = frame._jdf.queryExecution().optimizedPlan
    stats = plan().stats()
    columns = dict(re.findall(r"(\w+)#\d+L? -> (ColumnStat\(.*?\))(?:;|$)", stats.attributeStats().mkString(";")))
    return int(stats.rowCount().get()), columns


def test_spark_knows_the_columns_that_analyze_looked_at(three: ThreeReads) -> None:
    spark = three.spark
    spark.sql(f"CREATE TABLE paimon.db.analyzed AS {ANALYZED}")
    spark.sql(f"CREATE TABLE default.analyzed USING parquet AS {ANALYZED}")
    try:
        for name in ("paimon.db.analyzed", "default.analyzed"):
            spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
        with setting(spark, "spark.sql.cbo.enabled", "true"):
            for where in CONDITIONS_OF_ANALYZED:
                ours, theirs = (
                    estimates(spark.sql(f"SELECT * FROM {name} WHERE {where}"))
                    for name in ("paimon.db.analyzed", "default.analyzed")
                )
                assert ours[1] == {c: v for c, v in theirs[1].items() if c != "n"}
                assert ours[0] == theirs[0], where
            rows, columns = estimates(spark.table("paimon.db.analyzed"))
            assert rows == 500 and columns.keys() == {"id", "k", "x", "d", "b", "nothing", "day", "s", "y"}
            assert estimates(spark.table("paimon.db.analyzed").where("n < '1970-03-01' AND n <> '1970-01-01'"))[0] > 0
    finally:
        spark.sql("DROP TABLE default.analyzed")
    table = three.catalog.table("db.analyzed")
    table.alter(rename={"k": "kind"}, add={"more": "INT"})
    with setting(spark, "spark.sql.cbo.enabled", "true"):
        assert estimates(spark.sql("SELECT kind FROM paimon.db.analyzed"))[1].keys() == {"kind"}
        spark.sql("INSERT INTO paimon.db.analyzed BY NAME SELECT 1L AS id")
        assert estimates(spark.sql("SELECT kind FROM paimon.db.analyzed"))[1] == {}  # another schema
        (file,) = Path(table.location.removeprefix("file://")).glob("statistics/*")
        file.write_bytes(b"{}")
        found = spark.sql("SELECT * FROM paimon.db.analyzed VERSION AS OF 2")
        assert estimates(found) == (500, {}) and found.count() == 500


def rows_by_spark(three: ThreeReads, path: Path, data: pa.Table, **conf: str) -> bytes:
    """The Parquet file that Spark writes of rows."""
    with ExitStack() as stack:
        for key, value in conf.items():
            stack.enter_context(setting(three.spark, f"spark.sql.parquet.{key}", value))
        three.spark.createDataFrame(data).coalesce(1).write.mode("overwrite").parquet(str(path))
    (file,) = path.glob("*.parquet")
    return file.read_bytes()


def test_files_of_other_writers_are_read_as_python_reads_them(three: ThreeReads, tmp_path: Path) -> None:
    warehouse = Path(three.catalog.warehouse)
    times = ALL_TYPES.select(["id", "t6", "z6", "dt", "s"])
    times = times.set_column(3, "dt", pa.array([date(1500, 2, 28), None, *COLUMNS["dt"][1][3:], date(1900, 1, 1)]))
    after_1970 = ["t6 <> TIMESTAMP_NTZ'1970-01-01 00:00:00.0001'", "z6 < TIMESTAMP'1970-01-01 00:00:00.0001Z'"]

    def read(name: str, where: list[str] | None = None, **options: Any) -> tuple[set[str], set[str]]:
        made(three, name, times)
        pq.write_table(times, data_file(warehouse, name), row_group_size=1, **options)
        if where:
            three.matching(name, where)
        return three.check(name, ["id", "t6", "z6"]), three.check(name, ["id", "dt", "s"])

    assert read("millis", after_1970, coerce_timestamps="ms", allow_truncated_timestamps=True) == ({PARQUET}, {PARQUET})
    assert read("int96", use_deprecated_int96_timestamps=True) == ({PYTHON}, {PARQUET})
    assert read("old_parquet", version="1.0") == ({PARQUET}, {PARQUET})
    for mode in ("CORRECTED", "LEGACY"):
        content = rows_by_spark(
            three, tmp_path / mode, times, datetimeRebaseModeInWrite=mode, int96RebaseModeInWrite=mode,
        )  # fmt: skip
        made(three, mode, times, data_file__prefix="part-")
        data_file(warehouse, mode).write_bytes(content)
        assert three.check(mode, ["id", "z6"]) == {PYTHON}  # Spark writes INT96
        assert three.check(mode, ["id", "dt"]) == ({PYTHON} if mode == "LEGACY" else {PARQUET})
        assert three.check(mode, ["id", "s"]) == {PARQUET}


def test_files_of_a_migrated_table_may_have_other_types(three: ThreeReads) -> None:
    data = pa.table({"id": pa.array([1, 2], pa.int32()), "b": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2))})
    for name, column, kind, reader in (
        ("as_they_are", "id", pa.int32(), PARQUET),
        ("longs", "id", pa.int64(), PYTHON),
        ("other_scale", "b", pa.decimal128(9, 3), PYTHON),
    ):
        made(three, name, data, data_file__prefix="part-")
        other = data.set_column(data.column_names.index(column), column, data[column].cast(kind))
        pq.write_table(other, data_file(Path(three.catalog.warehouse), name))
        assert three.check(name) == {reader}, name


def test_files_without_field_ids_are_read_by_name_or_in_python(three: ThreeReads) -> None:
    data = BASE.select(["id", "v"])
    wrong = pa.schema([pa.field("id", pa.int32(), True, {"PARQUET:field_id": "1"}),
                       pa.field("v", pa.string(), True, {"PARQUET:field_id": "0"})])  # fmt: skip
    for name, content in (("without_ids", data), ("wrong_ids", data.cast(wrong))):
        table = made(three, name, data)
        pq.write_table(content, data_file(Path(three.catalog.warehouse), name))
        assert three.check(name) == {PARQUET}
        table.alter(rename={"v": "w"})
        assert three.check(name) == {PYTHON} and three.check(name, ["id"]) == {PARQUET}
        three.catalog.table(f"db.{name}").write(data.rename_columns(["id", "w"]))
        assert three.check(name) == {PARQUET, PYTHON}


def test_names_that_spark_or_sql_could_misread(three: ThreeReads) -> None:
    names = ["id", "a.b", "a`b", "a b,;{}()=", "ä", "Übergröße", "select", "_col0"]
    data = pa.table({n: pa.array([1, 2], pa.int32()) for n in names})
    made(three, "names", data)
    assert three.check("names") == {PARQUET}
    wanted = {f"`{n.replace('`', '``')}` > 1": [2] for n in names}
    assert three.matching("names", list(wanted)) == wanted
    made(three, "hive_names", pa.table({"_col0": [1, 2], "_col1": [3, 4]}), file__format="orc")
    assert three.check("hive_names", ["_col1"]) == {PYTHON}


@pytest.mark.quick
def test_versions_branches_metadata_columns_and_fallback(three: ThreeReads) -> None:
    table = made(three, "versions", BASE, parts=("p",))
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.branch("fix").write(BASE.slice(0, 2))
    table.write(BASE, mode="overwrite")
    table.alter(add={"n": "INT"})
    table.write(BASE.slice(0, 1))

    def read(relation: str, columns: str = "*") -> tuple[int, set[str]]:
        frame = three.spark.sql(f"SELECT {columns} FROM paimon.db.{relation}")
        return len(frame.collect()), readers(frame)

    assert read("versions VERSION AS OF 'v1'") == (30, {PARQUET})
    assert read("versions VERSION AS OF 'fix'") == (32, {PARQUET})
    assert read("`versions$branch_fix` WHERE p = 0") == (11, {PARQUET})
    assert read("versions WHERE n IS NULL") == (31, {PARQUET})
    assert read("versions", "id, __paimon_file_path") == (31, {PYTHON})
    joined = "versions a JOIN paimon.db.versions VERSION AS OF 'fix' b ON a.id = b.id AND b.id < 2"
    assert read(joined, "a.id, b.v") == (6, {PARQUET})
    tracked = made(three, "tracked", BASE, row_tracking__enabled="true")
    tracked.write(BASE)
    assert read("tracked", "id, _ROW_ID")[1] == {PYTHON} and read("tracked", "id") == (60, {PARQUET})
    assert three.check("tracked") == {PARQUET}
    fallback = made(three, "fallen", BASE.filter(pc.equal(BASE["p"], 0)), ("p", "id"), ("p",), bucket="1")
    fallback.create_branch("other")
    fallback.branch("other").write(BASE.filter(pc.equal(BASE["p"], 1)), mode="overwrite")
    fallback.alter(set_options={"scan.fallback-branch": "other"})
    assert three.check("fallen") == {PARQUET} and three.check("fallen", where="p = 1") == {PARQUET}
    empty = three.catalog.create_table("db.nothing", BASE.schema)
    assert three.check("nothing") == {PARQUET} and empty.scan().to_spark().count() == 0
    three.catalog.table("db.versions").delete("true")
    assert three.check("versions") == {PARQUET}


READS = [r for r in golden_reads() if not re.fullmatch(r"(.*,)?snapshot=(?!1$)\d+", r.label)]


@pytest.mark.slow
@pytest.mark.newest
@pytest.mark.parametrize("read", READS, ids=str)
def test_golden_tables_are_read_as_their_producers_read_them(spark: SparkSession, read: GoldenRead) -> None:
    read = readable_as_arrow(read)
    table = paimon_spark.load_table(str(read.path), **read.options)
    own = {f.name: str(f.type) for f in table.row_type}
    frame = table.scan(None if read.columns is None else list(read.columns)).to_spark(spark)
    assert readers(frame)
    got = rows_of(frame.toArrow(), {**own, **read.types})
    written = None if read.written is None else tuple(to_microseconds(list(read.written)))
    replace(read, rows=tuple(to_microseconds(list(read.rows))), written=written).check(got)
