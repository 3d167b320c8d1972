"""Snapshots of tables that lineage is asked about: few looks at a store where most have expired."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.lineage_question import Warehouses, warehouse_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.lineage.asking import table_history as lineage_history
from paimon_spark.lineage.asking.graph import Node
from paimon_spark.lineage.asking.table_history import TableHistory
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import find_snapshot
from tests.harness.clock import StandingClock
from tests.harness.real_tables import a_catalog


@pytest.mark.ci
def test_expired_snapshots_are_listed_once_when_many_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = a_catalog(tmp_path / "wh")
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


def test_a_snapshot_that_was_committed_after_its_reader_is_of_another_history(
    tmp_path: Path, clock: StandingClock
) -> None:
    """Snapshot 2 of a was read into snapshot 1 of b; main of a was rolled back since, and written again."""
    catalog = a_catalog(tmp_path / "wh")
    row = pa.table({"id": pa.array([1], pa.int32())})
    a, b = (catalog.create_table(f"db.{name}", "id INT") for name in "ab")
    nodes = [Node(warehouse_of(catalog).url, TableRef("db", name)) for name in "ab"]

    def is_replaced(read: int) -> bool:
        return TableHistory(Warehouses.of(catalog, ()).warehouses).is_replaced(nodes[0], read, nodes[1], 1)

    a.write(row)
    a.write(row)
    b.write(row)
    assert not is_replaced(2)
    a.rollback_to(1)
    assert is_replaced(2), "there is none of that id"
    clock.advance(60_000)
    a.write(row)
    assert not is_replaced(2), "the clocks of two writers may differ"
    a.rollback_to(1)
    clock.advance(600_000)
    a.write(row)
    assert is_replaced(2)
    assert not is_replaced(1)
    catalog.drop_table("db.a")
    assert not is_replaced(2), "nothing is known of a dropped table"


def test_a_deleted_branch_is_told_from_one_of_a_dropped_table(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path / "wh")
    table = catalog.create_table("db.t", "id INT")
    url = warehouse_of(catalog).url

    def deleted() -> dict[str, bool]:
        history = TableHistory(Warehouses.of(catalog, ()).warehouses)
        return {name: history.is_deleted(Node(url, TableRef.of("db", "t", name))) for name in ("main", "kept", "gone")}

    for name in ("kept", "gone"):
        table.create_branch(name)
    assert not any(deleted().values())
    table.delete_branch("gone")
    assert deleted() == {"main": False, "kept": False, "gone": True}
    history = TableHistory(Warehouses.of(catalog, ()).warehouses)
    assert history.refs(Node(url, TableRef.of("db", "t", "gone"))).is_deleted
    catalog.drop_table("db.t")
    assert not any(deleted().values())
