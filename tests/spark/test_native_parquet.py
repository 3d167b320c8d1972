"""Queries of catalog.sql that Spark's own Parquet reader answers: only those whose rows are the same."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.spark.native_parquet import SETTING
from paimon_spark.table.catalog import Catalog

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
    return "FileScan parquet" in frame._jdf.queryExecution().toString()  # type: ignore[operator]


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


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


def test_the_version_the_condition_and_the_partition_asked_for_are_read(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.table("db.t")
    table.create_tag("v1")
    table.create_branch("fix", tag="v1")
    table.branch("fix").write(pa.table({"i4": pa.array([7], pa.int32()), "p": ["new"]}))
    table.write(pa.table(COLUMNS), mode="overwrite")
    table.write(pa.table(COLUMNS))

    def count(relation: str, where: str = "true") -> int:
        frame = catalog.sql(f"SELECT count(*) AS n, count(i4) FROM {relation} WHERE {where}")
        assert is_native(frame) is ("p" not in where)
        return int(frame.collect()[0].n)

    assert count("db.t") == 6
    assert count("db.t VERSION AS OF 'v1'") == 3
    assert count("db.t$branch_fix", "i4 = 7") == 1
    assert count("db.t VERSION AS OF 'fix'") == 4
    assert count("db.t", "p = 'a:b'") == 2
    assert catalog.sql("SELECT count(*) AS n FROM db.t").collect()[0].n == 6
    assert [r.i4 for r in catalog.sql("SELECT a.i4 FROM db.t a JOIN db.t VERSION AS OF 'v1' b USING (i4)").collect()]


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
    catalog.create_table("db.keys", ids.schema, ["id"], options={"bucket": "1"}).write(ids)
    catalog.create_table("db.empty", ids.schema)
    assert {n: native(n) for n in (*options, "keys", "empty")} == {
        "plain": True, "orc": False, "vectors": False, "filled": False, "keys": False, "empty": False,
    }  # fmt: skip
    assert not native("t", "i4, p")
    assert not native("plain", "id, __paimon_file_path")
    catalog.table("db.plain").alter(retype={"id": "BIGINT"}, rename={"v": "w"}, add={"v": "STRING"})
    assert [tuple(r) for r in catalog.sql("SELECT * FROM db.plain ORDER BY id").collect()] == [
        (1, "a", None), (2, "b", None), (3, "c", None),
    ]  # fmt: skip
    assert not native("plain", "id") and not native("plain", "v") and not native("plain", "w")


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
