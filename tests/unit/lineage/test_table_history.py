"""What snapshots tell of tables that lineage is asked about: few looks at a store where most have expired."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.lineage_question import Warehouses, warehouse_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.lineage import table_history as lineage_history
from paimon_spark.lineage.graph import Node
from paimon_spark.lineage.provenance import TableRef
from paimon_spark.lineage.table_history import TableHistory
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import find_snapshot


@pytest.mark.ci
def test_expired_snapshots_are_listed_once_when_many_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path / "wh"))
    catalog.create_database("db")
    table = catalog.create_table("db.t", "id INT")
    for n in range(60):
        table.write(pa.table({"id": pa.array([n], pa.int32())}))
    table.create_tag("kept", snapshot_id=7)
    table.expire_snapshots(retain_max=3, retain_min=1)
    looks = []
    found = find_snapshot

    def counted(handle: TableHandle, snapshot_id: int) -> Snapshot | None:
        looks.append(snapshot_id)
        return found(handle, snapshot_id)

    monkeypatch.setattr(lineage_history, "find_snapshot", counted)
    history = TableHistory(Warehouses.of(catalog, ()).warehouses)
    node = Node(warehouse_of(catalog).url, TableRef("db", "t"))
    there = [i for i in range(1, 70) if history.is_there(node, i)]
    assert there == [7, 58, 59, 60]
    assert len(looks) == 20 + 3 + 9, "twenty in vain, those that are alive, and those that may be newer than the list"
