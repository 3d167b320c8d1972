"""NaN, infinities and both zeros through Spark: conditions of reads and streams, and changes of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table

pytestmark = [pytest.mark.spark]

NAN, INF = float("nan"), float("inf")
VALUES = [1.0, 2.0, NAN, None, -0.0, 0.0, INF, -INF]
CONDITIONS = {
    "x > 10": {2, 6},
    "x = double('NaN')": {2},
    "x >= double('Infinity')": {2, 6},
    "x IN (double('NaN'), 1)": {0, 2},
    "NOT x <= 10": {2, 6},
    "x BETWEEN 2 AND double('NaN')": {1, 2, 6},
    "x = 0.0D": {4, 5},
    "x <= -0.0D": {4, 5, 7},
}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("db")
    return catalog


def numbers(catalog: Catalog, name: str, keys: tuple[str, ...] = (), **options: str) -> Table:
    ids = pa.array(range(len(VALUES)), pa.int32())
    data = pa.table({"id": ids, "x": VALUES})
    table = catalog.create_table(f"db.{name}", data.schema, primary_keys=keys, options=options)
    table.write(data)
    return table


def stored(table: Table) -> dict[int, Any]:
    found = table.scan().to_arrow()
    return dict(zip(found.column("id").to_pylist(), map(repr, found.column("x").to_pylist()), strict=True))


@pytest.mark.quick
def test_batch_and_stream_reads_with_a_condition(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = numbers(catalog, "t")
    for n, (where, ids) in enumerate(CONDITIONS.items()):
        frame = spark.read.format("paimon").option("where", where).load(table.location)
        assert {r.id for r in frame.collect()} == ids, where
        frame = spark.read.format("paimon").load(table.location).where(where)
        assert {r.id for r in frame.collect()} == ids, where
        if n < 3:
            stream = spark.readStream.format("paimon").option("where", where).load(table.location)
            writer = stream.writeStream.format("memory").queryName(f"nan_{n}").trigger(availableNow=True)
            writer.option("checkpointLocation", str(tmp_path / f"c{n}")).start().awaitTermination()
            assert {r.id for r in spark.table(f"nan_{n}").collect()} == ids, where


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["append", "keys"])
def test_rows_are_deleted_updated_and_merged(spark: SparkSession, catalog: Catalog, keys: tuple[str, ...]) -> None:
    options = {"bucket": "1"} if keys else {}
    before = dict(enumerate(map(repr, VALUES)))
    deleted = numbers(catalog, "deleted", keys, **options)
    deleted.delete("x > 10")
    assert stored(deleted) == {i: v for i, v in before.items() if i not in (2, 6)}
    deleted.delete("x = 0")
    assert stored(deleted) == {i: v for i, v in before.items() if i not in (2, 4, 5, 6)}
    updated = numbers(catalog, "updated", keys, **options)
    updated.update("x = double('NaN')", {"x": "-1"})
    assert stored(updated) == {**before, 2: "-1.0"}
    catalog.sql("UPDATE db.updated SET x = 7 WHERE x IN (0.0D, double('Infinity'))")
    assert stored(updated) == {**before, 2: "-1.0", 4: "7.0", 5: "7.0", 6: "7.0"}
    merged = numbers(catalog, "merged", keys, **options)
    numbers(catalog, "source")
    catalog.sql(
        "MERGE INTO db.merged t USING (SELECT x FROM db.source WHERE x > 10) s ON t.x = s.x "
        "WHEN MATCHED AND t.x = double('NaN') THEN DELETE WHEN MATCHED THEN UPDATE SET x = 5"
    )
    assert stored(merged) == {**{i: v for i, v in before.items() if i != 2}, 6: "5.0"}
