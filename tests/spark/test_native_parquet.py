"""Queries of catalog.sql that Spark's own Parquet reader answers: only those whose rows are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.spark.dataframe import as_options
from paimon_spark.spark.session import FILE_READER as SETTING
from paimon_spark.types import INT, STRING, DataField, RowType

ROW_TYPE = RowType(fields=(DataField(0, "i4", INT), DataField(1, "s", STRING)))
pytestmark = [pytest.mark.spark, pytest.mark.newest]

COLUMNS = {
    "b": pa.array([True, None, False]),
    "i1": pa.array([1, None, -128], pa.int8()),
    "i2": pa.array([1, None, -32768], pa.int16()),
    "i4": pa.array([1, None, -(2**31)], pa.int32()),
    "i8": pa.array([1, None, -(2**63)], pa.int64()),
    "f4": pa.array([1.5, None, float("nan")], pa.float32()),
    "f8": pa.array([-0.0, None, float("inf")], pa.float64()),
    "d9": pa.array([Decimal("1.25"), None, Decimal("-9999999.99")], pa.decimal128(9, 2)),
    "d38": pa.array([Decimal("1.25"), None, Decimal("-1.00")], pa.decimal128(38, 2)),
    "s": pa.array(["é€𝄞", None, ""]),
    "x": pa.array([b"\x00\xff", None, b""]),
    "dt": pa.array([0, None, -719162], pa.date32()),
    "p": pa.array(["x y%/é=", "a:b", None]),
}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = paimon_spark.load_catalog(str(tmp_path / "a warehouse"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.table(COLUMNS).schema, partition_keys=["p"])
    table.write(pa.table(COLUMNS))
    return catalog


def is_native(frame: DataFrame) -> bool:
    """Whether Spark reads Parquet files itself. Of classic sessions alone."""
    return "(Spark's Parquet reader" in frame._jdf.queryExecution().toString()


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)


def data_file(table: str, root: Path) -> Path:
    """The only data file of a table."""
    (found,) = root.rglob(f"db.db/{table}/bucket-*/*.parquet")
    return found


def matching(catalog: Catalog, table: str, conditions: Sequence[str]) -> dict[str, list[int]]:
    """Ids of the rows that each condition lets through: by Spark's reader, by Python, and by a Scan."""
    cases = [f"SELECT {n} AS c, id FROM db.{table} WHERE {w}" for n, w in enumerate(conditions)]
    frame = catalog.sql(" UNION ALL ".join(cases))
    assert is_native(frame)
    found: list[list[int]] = [[] for _ in conditions]
    for row in frame.collect():
        found[row.c].append(row.id)
    scans = [catalog.table(f"db.{table}").scan(columns=["id"], where=w).to_arrow() for w in conditions]
    assert [sorted(ids) for ids in found] == [sorted(s.column("id").to_pylist()) for s in scans]
    return {w: sorted(ids) for w, ids in zip(conditions, found, strict=True)}


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.mark.quick
def test_columns_of_plain_types_have_the_values_that_python_reads(spark: SparkSession, catalog: Catalog) -> None:
    names = ", ".join(n for n in COLUMNS if n != "p")
    native = catalog.sql(f"SELECT {names} FROM db.t")
    assert is_native(native)
    found = rows(native)
    spark.conf.set(SETTING, "false")
    try:
        through_python = catalog.sql(f"SELECT {names} FROM db.t")
        assert not is_native(through_python)
        assert rows(through_python) == found and len(found) == 3
        assert through_python.dtypes == native.dtypes
    finally:
        spark.conf.unset(SETTING)


@pytest.mark.quick
def test_the_version_the_condition_and_the_partition_asked_for_are_read(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.table("db.t")
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.branch("fix").write(pa.table({"i4": pa.array([7], pa.int32()), "p": ["new"]}))
    table.write(pa.table(COLUMNS), mode="overwrite")
    table.write(pa.table(COLUMNS))

    def count(relation: str, where: str = "true") -> int:
        frame = catalog.sql(f"SELECT count(*) AS n, count(i4) FROM {relation} WHERE {where}")
        assert is_native(frame)
        return int(frame.collect()[0].n)

    assert count("db.t") == 6
    assert count("db.t VERSION AS OF 'v1'") == 3
    assert count("db.t$branch_fix", "i4 = 7") == 1
    assert count("db.t VERSION AS OF 'fix'") == 4
    assert count("db.t", "p = 'a:b'") == 2
    assert catalog.sql("SELECT count(*) AS n FROM db.t").collect()[0].n == 6
    assert [r.i4 for r in catalog.sql("SELECT a.i4 FROM db.t a JOIN db.t VERSION AS OF 'v1' b USING (i4)").collect()]


@pytest.mark.parametrize("native", ["true", "false"])
def test_a_condition_among_the_options_chooses_rows(spark: SparkSession, catalog: Catalog, native: str) -> None:
    spark.conf.set(SETTING, native)
    try:
        for where, expected in (("true", [1]), ("i4 < 0", []), ("b", [1])):
            for option in ("i4 > 0 OR false", "i4 > 0 -- comment"):
                found = catalog.sql(f"SELECT i4 FROM db.t WITH ('where' = '{option}') WHERE {where}")
                assert [r.i4 for r in found.collect()] == expected
            with pytest.raises(Exception, match="cannot parse the condition 'i4 > 0\\) OR \\(true'"):
                catalog.sql(f"SELECT i4 FROM db.t WITH ('where' = 'i4 > 0) OR (true') WHERE {where}").collect()
    finally:
        spark.conf.unset(SETTING)


def test_conditions_of_a_query_reach_a_read_in_python(spark: SparkSession, catalog: Catalog) -> None:
    spark.conf.set(SETTING, "false")
    try:
        frame = catalog.sql("SELECT s FROM db.t WHERE i4 > 0 AND s LIKE 'é%' AND f8 = double('-0.0')")
        assert [r.s for r in frame.collect()] == ["é€𝄞"]
    finally:
        spark.conf.unset(SETTING)
    scan = (
        catalog.table("db.t")
        .scan(["s"])
        .filtered([parse_predicate("i4 > 0", ROW_TYPE), parse_predicate("s LIKE 'é%'", ROW_TYPE)])
    )
    assert as_options(scan)["where"] == "(`i4` > 0) AND (`s` LIKE 'é%')"


def test_what_files_alone_do_not_say_is_read_in_python(spark: SparkSession, catalog: Catalog) -> None:
    def native(name: str, columns: str = "*") -> bool:
        frame = catalog.sql(f"SELECT {columns} FROM db.{name}")
        frame.collect()
        return is_native(frame)

    ids = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", "c"]})
    options: dict[str, dict[str, str]] = {
        "plain": {},
        "orc": {"file.format": "orc"},
        "vectors": {"deletion-vectors.enabled": "true"},
        "filled": {"fields.v.default-value": "none"},
    }
    for name, given in options.items():
        catalog.create_table(f"db.{name}", ids.schema, options=given).write(ids)
    catalog.table("db.vectors").delete("id = 2")
    for name, times in (("keys", 1), ("merged", 2)):
        keyed = catalog.create_table(f"db.{name}", ids.schema, primary_keys=["id"], options={"bucket": "1"})
        for _ in range(times):
            keyed.write(ids)
    catalog.create_table("db.empty", ids.schema)
    assert {n: native(n) for n in (*options, "keys", "merged", "empty")} == {
        "plain": True, "orc": False, "vectors": False, "filled": False, "keys": True, "merged": False, "empty": True,
    }  # fmt: skip
    assert native("t", "i4, p")
    assert not native("plain", "id, __paimon_file_path")
    catalog.table("db.plain").alter(retype={"id": "BIGINT"}, rename={"v": "w"}, add={"v": "STRING"})
    assert [tuple(r) for r in catalog.sql("SELECT * FROM db.plain ORDER BY id").collect()] == [
        (1, "a", None), (2, "b", None), (3, "c", None),
    ]  # fmt: skip
    assert not native("plain", "id") and native("plain", "v") and native("plain", "w")


def test_a_file_that_is_gone_is_an_error_whatever_the_session_passes_over(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    frame = catalog.sql("SELECT i4 FROM db.t")
    assert is_native(frame)
    next(tmp_path.rglob("data-*.parquet")).unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
            frame.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


NAN = float("nan")
NUMBERS = {  # NaN and -0.0 alone in row groups of their own
    "id": pa.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], pa.int32()),
    "x": pa.array([1.0, 2.0, NAN, None, -0.0, -0.0, NAN, NAN, float("inf"), float("-inf")]),
}


def numbers(catalog: Catalog, name: str) -> pa.Table:
    data = pa.table({**NUMBERS, "f": NUMBERS["x"].cast(pa.float32())})
    catalog.create_table(f"db.{name}", data.schema).write(data)
    return data


def foreign_numbers(catalog: Catalog, root: Path) -> None:
    """A table whose file has the statistics that pyarrow writes: bounds that leave out NaN, and dictionaries."""
    data = numbers(catalog, "foreign")
    file = data_file("foreign", root)
    pq.write_table(data, file, row_group_size=2, use_dictionary=True, write_page_index=True)
    stats = pq.read_metadata(file).row_group(1).column(1).statistics
    assert not stats.has_min_max
    pq.write_table(data, file, row_group_size=4, use_dictionary=True, write_page_index=True)
    assert pq.read_metadata(file).row_group(0).column(1).statistics.max == 2.0


@pytest.mark.parametrize("writer", ["ours", "foreign"])
@pytest.mark.parametrize("column", ["x", "f"])
def test_nan_and_both_zeros_are_found_in_files_of_every_writer(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, writer: str, column: str
) -> None:
    if writer == "ours":
        numbers(catalog, writer)
    else:
        foreign_numbers(catalog, tmp_path)
    nan, every = "double('NaN')", {1, 2, 3, 5, 6, 7, 8, 9, 10}
    nans = {3, 7, 8}
    want = {
        "{c} > 10": nans | {9},
        "{c} >= 2": nans | {2, 9},
        "{c} > double('Infinity')": nans,
        "{c} >= double('Infinity')": nans | {9},
        "{c} < 1": {5, 6, 10},
        "{c} <= double('Infinity')": every - nans,
        f"{{c}} = {nan}": nans,
        f"{{c}} <=> {nan}": nans,
        f"{{c}} <> {nan}": every - nans,
        f"{{c}} >= {nan}": nans,
        f"{{c}} <= {nan}": every,
        f"{{c}} < {nan}": every - nans,
        f"{{c}} > {nan}": set(),
        "{c} <> 1": every - {1},
        f"{{c}} IN ({nan}, 1)": nans | {1},
        f"{{c}} NOT IN ({nan}, 1)": every - nans - {1},
        "{c} IN (7, 1)": {1},
        f"{{c}} BETWEEN 2 AND {nan}": nans | {2, 9},
        "{c} NOT BETWEEN -10 AND 10": nans | {9, 10},
        "NOT {c} <= 10": nans | {9},
        "NOT {c} > 10": every - nans - {9},
        "NOT ({c} > 10 OR id = 1)": every - nans - {9, 1},
        "{c} = 0": {5, 6},
        "{c} = -0.0D": {5, 6},
        "{c} <=> 0.0D": {5, 6},
        "{c} IN (0.0D, 7)": {5, 6},
        "{c} >= 0 AND {c} <= 0": {5, 6},
        "{c} < 0": {10},
        "{c} > -0.0D": nans | {1, 2, 9},
        "{c} IS NULL": {4},
        "{c} IS NOT NULL": every,
    }
    given = {w.format(c=column): ids for w, ids in want.items()}
    found = matching(catalog, writer, list(given))
    assert {w: set(ids) for w, ids in found.items()} == given


@pytest.mark.parametrize("writer", ["ours", "foreign"])
def test_joins_and_subqueries_find_nan_and_both_zeros(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, writer: str
) -> None:
    if writer == "ours":
        numbers(catalog, writer)
    else:
        foreign_numbers(catalog, tmp_path)
    keys = pa.table({"k": [100.0, NAN, 0.0]})
    catalog.create_table("db.k", keys.schema).write(keys)
    large = f"(SELECT x FROM db.{writer} WHERE x > 10)"

    def ids(sql: str) -> list[int]:
        frame = catalog.sql(sql.replace("{t}", f"db.{writer}"))
        assert is_native(frame)
        return sorted(row[0] for row in frame.collect())

    assert ids("SELECT id FROM {t} WHERE x IN (SELECT k FROM db.k WHERE k > 1)") == [3, 7, 8]
    rest = [1, 2, 4, 9, 10]
    assert ids("SELECT id FROM {t} LEFT ANTI JOIN db.k ON x = k") == rest
    assert ids("SELECT id FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM db.k WHERE k = a.x AND k >= 0)") == rest
    assert ids(f"SELECT 1 FROM db.k WHERE EXISTS (SELECT 1 FROM {large} l WHERE l.x = k)") == [1]
    assert ids(f"SELECT CAST(k AS INT) FROM db.k LEFT ANTI JOIN {large} l ON l.x = k") == [0, 100]
    assert ids(f"SELECT count(*) FROM db.k LEFT JOIN {large} l ON l.x = k WHERE l.x IS NULL") == [2]
    assert ids("SELECT /*+ MERGE(k) */ id FROM {t} JOIN db.k k ON x = k AND k > 10") == [3, 7, 8]
    assert ids("SELECT CAST(max(x) > 10 AS INT) FROM {t}") == [1]


def test_conditions_on_other_columns_still_skip_row_groups(spark: SparkSession, catalog: Catalog) -> None:
    numbers(catalog, "t2")
    plan = catalog.sql("SELECT id, x FROM db.t2 WHERE id > 5 AND x > 10")._jdf.queryExecution().toString()
    assert "row groups where id IS NOT NULL AND id > 5)" in plan


def test_comments_of_columns_stay(spark: SparkSession, catalog: Catalog) -> None:
    catalog.sql("CREATE TABLE db.c (x DOUBLE COMMENT 'a number', `a``b.c` FLOAT, i INT COMMENT 'another')")
    catalog.sql("INSERT INTO db.c VALUES (1.5, 2.5, 3)")
    frame = catalog.sql("SELECT * FROM db.c")
    assert is_native(frame) and [tuple(r) for r in frame.collect()] == [(1.5, 2.5, 3)]
    assert [(f.name, f.metadata.get("comment")) for f in frame.schema] == [
        ("x", "a number"), ("a`b.c", None), ("i", "another"),
    ]  # fmt: skip


@pytest.mark.parametrize("as_integer", [False, True])
def test_decimals_are_found_in_every_layout(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, as_integer: bool
) -> None:
    values = [Decimal("-9999999.99"), Decimal("-0.01"), None, Decimal("1.25"), Decimal("99.90")]
    columns = {f"d{n}": pa.array(values, pa.decimal128(n, 2)) for n in (9, 18, 38)}
    data = pa.table({"id": pa.array([1, 2, 3, 4, 5], pa.int32()), **columns})
    catalog.create_table("db.d", data.schema).write(data)
    pq.write_table(data, data_file("d", tmp_path), store_decimal_as_integer=as_integer, row_group_size=2)
    want = {"{c} < 0": [1, 2], "{c} = 1.25": [4], "{c} = 1.250": [4], "{c} > 99.9": [], "{c} >= 99.9": [5]}
    for column in columns:
        given = {w.format(c=column): ids for w, ids in want.items()}
        assert matching(catalog, "d", list(given)) == given


def test_decimals_that_got_more_digits_are_read_in_python(spark: SparkSession, catalog: Catalog) -> None:
    data = pa.table({"id": pa.array([1, 2], pa.int32()), "d": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2))})
    table = catalog.create_table("db.d", data.schema)
    table.write(data)
    table.alter(retype={"d": "DECIMAL(12, 4)"})
    frame = catalog.sql("SELECT id FROM db.d WHERE d = 1.25")
    assert [r.id for r in frame.collect()] == [1] and not is_native(frame)


def test_old_dates_are_the_same_whatever_the_session_takes_them_for(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    days = [date(1, 1, 1), date(1000, 2, 28), date(1582, 10, 4), date(1582, 10, 15), None]
    data = pa.table({"id": pa.array([1, 2, 3, 4, 5], pa.int32()), "dt": pa.array(days)})
    catalog.create_table("db.old", data.schema).write(data)
    want = {
        "dt = DATE'0001-01-01'": [1],
        "dt < DATE'1582-10-04'": [1, 2],
        "dt = DATE'1582-10-04'": [3],
        "dt >= DATE'1582-10-10'": [4],
    }
    for mode in ("LEGACY", "EXCEPTION", "CORRECTED"):
        with setting(spark, "spark.sql.parquet.datetimeRebaseModeInRead", mode):
            assert matching(catalog, "old", list(want)) == want
    # A migration takes over files of Spark's releases before 3.0, whose dates Spark shifts and Paimon does not.
    catalog.create_table("db.moved", data.schema, options={"data-file.prefix": "part-"}).write(data)
    pq.write_table(data.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}), data_file("moved", tmp_path))
    frame = catalog.sql("SELECT dt FROM db.moved WHERE id = 1")
    assert [r.dt for r in frame.collect()] == [days[0]] and not is_native(frame)
    assert is_native(catalog.sql("SELECT id FROM db.moved"))


def test_long_texts_are_found_beyond_the_bounds_that_writers_cut_short(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    texts = ["a" * 100, "a" * 100 + "b", "a" * 99 + "é", "\U0001f600" * 80, "\uffff" * 80, None]
    data = pa.table({"id": pa.array([1, 2, 3, 4, 5, 6], pa.int32()), "s": texts})
    catalog.create_table("db.long", data.schema).write(data)
    spark.createDataFrame(data.to_pylist(), "id INT, s STRING").coalesce(1).write.option(
        "parquet.statistics.truncate.length", "4"
    ).option("parquet.columnindex.truncate.length", "4").parquet(str(tmp_path / "cut"))
    (cut,) = (tmp_path / "cut").glob("*.parquet")
    data_file("long", tmp_path).write_bytes(cut.read_bytes())
    stats = pq.read_metadata(data_file("long", tmp_path)).row_group(0).column(1).statistics
    assert len(stats.min) <= 4
    given = {f"s = '{t}'": [n] for n, t in enumerate(texts, 1) if t} | {
        f"s > '{'a' * 100}'": [2, 3, 4, 5],
        f"s >= '{texts[3]}'": [4],
        f"s LIKE '{'a' * 99}%'": [1, 2, 3],
        f"s IN ('{texts[3]}', '{texts[4]}')": [4, 5],
    }
    assert matching(catalog, "long", list(given)) == given


def test_char_is_compared_as_it_is_stored(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    catalog.sql("CREATE TABLE db.c (id INT, c CHAR(4))")
    data = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "c": ["ab", "ab  ", "abcd"]})
    catalog.table("db.c").write(data)
    pq.write_table(data, data_file("c", tmp_path))  # Flink's text may be short
    with_python = {}
    conditions = ["c = 'ab'", "c = 'ab  '", "c > 'ab'", "c LIKE 'ab%'", "c IN ('ab', 'abcd')"]
    found = matching(catalog, "c", conditions)
    with setting(spark, SETTING, "false"):
        for w in conditions:
            frame = catalog.sql(f"SELECT id FROM db.c WHERE {w}")
            with_python[w] = sorted(r.id for r in frame.collect())
    assert with_python == found


def test_names_that_differ_in_case_are_told_apart(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    two = pa.table({"id": pa.array([1, 2], pa.int32()), "a": [1, 2], "Z": [2, 1], "b": [0, 0]})
    catalog.create_table("db.two", two.schema).write(two)
    # Other engines make such tables.
    schema = tmp_path / "a warehouse/db.db/two/schema/schema-0"
    schema.write_text(schema.read_text().replace('"Z"', '"A"'))
    pq.write_table(two.rename_columns(["id", "a", "A", "b"]), data_file("two", tmp_path))

    def ids(where: str, column: str = "id") -> tuple[bool, list[Any]]:
        frame = catalog.sql(f"SELECT {column} FROM db.two WHERE {where}")
        found = sorted(r[0] for r in frame.collect())
        return is_native(frame), found

    with setting(spark, "spark.sql.caseSensitive", "true"):
        assert ids("a = 1") == (False, [1]) and ids("A = 1") == (False, [2])
    assert ids("b = 0") == (True, [1, 2])
    table = catalog.table("db.two")
    table.alter(drop=["A"])  # the file has both, the table one
    assert ids("a = 1") == (False, [1]) and ids("a > 0", "a") == (False, [1, 2])
    table.alter(drop=["a"], add={"A": "BIGINT"})
    assert ids("A IS NULL") == (False, [1, 2])


def test_old_times_and_nested_values_are_those_that_python_reads(spark: SparkSession, catalog: Catalog) -> None:
    catalog.sql(
        "CREATE TABLE db.k (id INT, m TIMESTAMP, n TIMESTAMP_NTZ, r STRUCT<x: DOUBLE>, l ARRAY<DOUBLE>, "
        "mp MAP<STRING, DOUBLE>)"
    )
    catalog.sql(
        "INSERT INTO db.k VALUES (1, TIMESTAMP'1500-01-01 00:00:00', TIMESTAMP_NTZ'1800-01-01 00:00:00.5', "
        "named_struct('x', double('NaN')), array(1.0, double('NaN')), map('k', double('NaN')))"
    )
    for column, where in {
        "m": "m < TIMESTAMP'1582-01-01 00:00:00'",
        "n": "n < TIMESTAMP_NTZ'1900-01-01 00:00:00'",
        "r": "r.x > 10",
        "l": "array_max(l) > 10",
        "mp": "mp['k'] = double('NaN')",
    }.items():
        frame = catalog.sql(f"SELECT id, {column} FROM db.k WHERE {where}")
        assert [r.id for r in frame.collect()] == [1] and is_native(frame), column
