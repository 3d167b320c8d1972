"""The lineage tables of a warehouse on S3, made and written by several at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import fsspec
import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import SINK_SNAPSHOT, LineageSettings, enable, read_settings
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.storage.urls import open_store
from tests.harness.s3_server import s3_server

pytestmark = [pytest.mark.s3, pytest.mark.ci]
FLUSHES = 4


def test_lineage_tables_on_an_object_store_are_made_and_written_by_many() -> None:
    with s3_server() as options:
        fs = fsspec.filesystem(
            "s3",
            key="test",
            secret="test",
            endpoint_url=options["s3.endpoint"],
            client_kwargs={"region_name": options["s3.region"]},
        )
        fs.mkdir("/lineage-tables")
        catalog = paimon_spark.load_catalog("s3://lineage-tables/wh", **options)
        catalog.create_database("db")
        table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
        table.write(pa.table({"id": pa.array([1], pa.int64())}))
        index = open_index(Warehouse(*open_store("s3://lineage-tables/wh", options)))
        assert (index.exists(), read_settings(index)) == (False, LineageSettings())

        def work(number: int) -> None:
            enable(index)
            for b in range(FLUSHES):
                index.upsert({SINK_SNAPSHOT.name: [(f"j{number}", b, "db", "t", 1)]})

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        found = index.read(SINK_SNAPSHOT).select(["job", "barrier_id"]).to_pylist()
        assert sorted(map(tuple, (r.values() for r in found))) == [
            (f"j{n}", b) for n in range(3) for b in range(FLUSHES)
        ]
        assert read_settings(index) == LineageSettings(table=True, data=True)
        assert list(index.refs()) == [TableRef("db", "t")]
        assert [s.id for s in index.snapshots(TableRef("db", "t"))] == [1]
        assert index.delete(SINK_SNAPSHOT, "barrier_id = 0") == 3
        assert len(index.read(SINK_SNAPSHOT)) == 3 * (FLUSHES - 1)
