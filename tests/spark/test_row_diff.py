"""Row differences in Spark jobs and queries, beside those found in process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import Catalog, Table
from paimon_spark.jobs.row_diff import row_diff as row_diff_job
from paimon_spark.spark import row_diff as spark_row_diff
from tests.harness.rows import row_line, rows_of

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, dt STRING, n INT, t TIMESTAMP_NTZ(9), m MAP<STRING, INT>, l ARRAY<ROW<a INT>>"


def rows(table: Table, ids: range, n: int, nanos: int = 0) -> pa.Table:
    schema = table.scan().arrow_schema
    at = pa.array([1_700_000_000_000_000_000 + nanos] * len(ids), pa.timestamp("ns"))
    found = [{"id": i, "dt": f"d{i % 3}", "n": n, "m": [("a", n)], "l": [{"a": i}, None]} for i in ids]
    return pa.Table.from_pylist(found, schema).set_column(3, "t", at)


@pytest.fixture(params=[True, False], ids=["keys", "append"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    """`shop.t` with branch `fix`: changed, removed and added rows, and rows that were rewritten as they are."""
    made = paimon_spark.load_catalog(str(tmp_path / "wh"))
    made.create_database("shop")
    keyed: dict[str, Any] = {"primary_keys": ["dt", "id"], "options": {"bucket": "2"}} if request.param else {}
    table = made.create_table("shop.t", COLUMNS, partition_keys=["dt"], **keyed)
    table.write(rows(table, range(500), 1))
    table.create_branch("fix")
    fix = table.branch("fix")
    fix.delete("id < 3")
    fix.write(rows(table, range(10, 15), 2))
    fix.write(rows(table, range(20, 22), 1, nanos=7))
    fix.write(rows(table, range(600, 604), 1))
    fix.compact(full=True)
    return made


def lines(found: pa.Table) -> Counter[str]:
    return Counter(map(row_line, rows_of(found)))


@pytest.mark.quick
def test_a_spark_job_finds_what_this_process_finds(
    catalog: Catalog, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.table("shop.t")
    here = table.diff("main", "fix", rows=True)
    monkeypatch.setattr(row_diff_job, "_SPARK_BYTES", 0)
    monkeypatch.setattr(spark_row_diff, "_PART_BYTES", 2000)
    there = table.diff("main", "fix", rows=True)
    assert (there.added, there.removed, there.changed) == (here.added, here.removed, here.changed)
    assert there.columns == here.columns
    assert len(there.samples) == len(here.samples)
    if table.schema.primary_keys:
        assert (here.added, here.removed, here.changed) == (4, 3, 7)
        assert here.columns == {"n": 5, "t": 2, "m": 5}
    frame = there.to_spark(spark)
    assert frame.columns == ["_change", *table.schema.row_type.names]
    counts = {row["_change"]: row["count"] for row in frame.groupBy("_change").count().collect()}
    assert counts == dict(Counter(here.to_arrow().column("_change").to_pylist()))
    micros = frame.where("id IN (20, 21)").selectExpr("CAST(t AS STRING) AS t").collect()
    assert {row.t for row in micros} == {"2023-11-14 22:13:20"}, "Spark has no nanoseconds"
    nested = frame.where("id = 601").collect()[0]
    assert (nested["_change"], nested["m"], nested["l"][0]["a"], nested["l"][1]) == ("added", {"a": 1}, 601, None)


@pytest.mark.quick
def test_sql_through_every_door(catalog: Catalog, spark: SparkSession) -> None:
    table = catalog.table("shop.t")
    expected = Counter(table.diff("main", "fix", rows=True).to_arrow().column("_change").to_pylist())
    query = "SELECT _change, count(*) AS c FROM paimon_table_diff({}) WHERE id < 5000 GROUP BY _change"

    def counts(text: str) -> dict[str, int]:
        return {row["_change"]: row["c"] for row in spark.sql(text).collect()}

    found = catalog.sql(query.format("'shop.t', 'main', 'fix'"), session=spark).collect()
    assert {row["_change"]: row["c"] for row in found} == expected
    assert catalog.sql("SELECT * FROM paimon_table_diff('shop.t', 'main')", session=spark).collect() == []
    with pytest.raises(paimon_spark.PaimonError, match=r"paimon_table_diff\(table, old, new\) takes 2 or 3 arguments"):
        catalog.sql("SELECT * FROM paimon_table_diff('shop.t')", session=spark)
    with pytest.raises(paimon_spark.VersionNotFoundError):
        catalog.sql("SELECT * FROM paimon_table_diff('shop.t', 'main', 'fixx')", session=spark)
    catalog.register_functions(spark, prefix="own_")
    assert counts(query.format("'shop.t', 'main', 'fix'").replace("paimon_table_diff", "own_paimon_table_diff")) == (
        expected
    )
    paimon_spark.attach(spark, catalog.warehouse, name="rd")
    try:
        assert counts(query.format("'rd.shop.t', 'main', 'fix'")) == expected
        joined = spark.sql(
            "SELECT d._change, t.n FROM paimon_table_diff('rd.shop.t', 'main', 'fix') d "
            "JOIN rd.shop.t t ON d.id = t.id WHERE d.id = 1"
        ).collect()
        assert [tuple(row) for row in joined] == [("removed", 1)]
    finally:
        paimon_spark.detach(spark, "rd")
