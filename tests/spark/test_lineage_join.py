"""The query of the proposal over the lineage tables of two warehouses, in Spark SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark.lineage.index.table_index import TableIndex, open_index
from paimon_spark.lineage.index.tables import SINK_SNAPSHOT, SOURCE_SNAPSHOT, Definition, Rows
from paimon_spark.lineage.index.warehouse import DATABASE, Warehouse
from paimon_spark.storage.urls import open_store

pytestmark = [pytest.mark.spark, pytest.mark.newest]


def lineage_of(warehouse: Path, rows: Rows) -> TableIndex:
    index = open_index(Warehouse(*open_store(str(warehouse), {})))
    index.create()
    index.upsert(rows)
    return index


def view(spark: SparkSession, name: str, index: TableIndex, definition: Definition) -> None:
    path = index.warehouse.store.url(index.warehouse.table_root(DATABASE, definition.name))
    spark.read.format("paimon").load(path).createOrReplaceTempView(name)


@pytest.mark.quick
def test_what_came_of_a_source_snapshot_is_joined_over_two_warehouses(spark: SparkSession, tmp_path: Path) -> None:
    jobs = ("job_name", "another")
    sources = lineage_of(
        tmp_path / "one", {SOURCE_SNAPSHOT.name: [(j, b, "db", "src", b + 5) for j in jobs for b in range(9)]}
    )
    sinks = lineage_of(
        tmp_path / "two", {SINK_SNAPSHOT.name: [(j, b, "db", "dst", b + 100) for j in jobs for b in range(3, 9)]}
    )
    view(spark, "catalog1_source_snapshot_lineage", sources, SOURCE_SNAPSHOT)
    view(spark, "catalog2_sink_snapshot_lineage", sinks, SINK_SNAPSHOT)

    def joined(snapshot_id: int) -> list[int]:
        found = spark.sql(f"""
            SELECT k.snapshot_id FROM catalog2_sink_snapshot_lineage k
            JOIN catalog1_source_snapshot_lineage s
            ON s.job=k.job AND s.barrier_id=k.barrier_id
            WHERE s.job='job_name' AND s.snapshot_id={snapshot_id}
        """)
        return [row.snapshot_id for row in found.collect()]

    assert joined(10) == [105]
    assert joined(5) == []  # its barrier made no snapshot
    sinks.upsert({SINK_SNAPSHOT.name: [("job_name", 5, "db", "dst", 777)]})
    view(spark, "catalog2_sink_snapshot_lineage", sinks, SINK_SNAPSHOT)
    assert joined(10) == [777]
