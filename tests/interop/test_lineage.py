"""Lineage tables are tables to everybody: Java Paimon, its Spark connector and pypaimon read and write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.lineage.index.table_index import TableIndex, open_index
from paimon_spark.lineage.index.tables import (
    CATALOG_OPTIONS,
    JOB_STARTUP,
    SINK_JOB,
    SINK_SNAPSHOT,
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    TABLES,
    Definition,
    enable,
    read_settings,
)
from paimon_spark.lineage.index.warehouse import DATABASE, Warehouse
from paimon_spark.storage.urls import open_store
from tests.harness.rows import difference
from tests.interop.comparing import disagreement
from tests.interop.connector import Connector
from tests.interop.java_paimon import JavaPaimon
from tests.interop.pypaimon_peer import PyPaimon

pytestmark = pytest.mark.interop

JOB = "job_name"
CROSS_CATALOG = f"""
    SELECT k.snapshot_id FROM catalog2.paimon.sink_snapshot_lineage k
    JOIN catalog1.paimon.source_snapshot_lineage s
    ON s.job=k.job AND s.barrier_id=k.barrier_id
    WHERE s.job='{JOB}' AND s.snapshot_id=10
"""
"""The query of the proposal, of the tables that have these columns."""


@pytest.fixture
def index(tmp_path: Path) -> TableIndex:
    """Lineage tables with rows of several flushes, and files of lineage's own beside them."""
    return written(tmp_path / "wh")


def written(folder: Path) -> TableIndex:
    index = open_index(Warehouse(*open_store(str(folder), {})))
    enable(index)
    for barrier in range(12):
        index.upsert(
            {
                SOURCE_JOB.name: [(JOB, "db", "src"), ("it's", "d b", "größe$branch_fix")],
                SINK_JOB.name: [(JOB, "db", "dst")],
                SOURCE_SNAPSHOT.name: [(JOB, barrier, "db", "src", barrier + 5)],
                SINK_SNAPSHOT.name: [(JOB, barrier, "db", "dst", barrier * 2 + 1)],
            }
        )
    index.upsert({JOB_STARTUP.name: [("new", "db", "dst", 23)]})
    assert index.delete(SINK_SNAPSHOT, "barrier_id = 0") == 1
    own = folder / "paimon.db" / "_lineage"
    for name in ("jobs/job_name.json", "jobs/job_name/1", "notes/batch/x/note.json"):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text("{}")
    return index


def path_of(index: TableIndex, definition: Definition) -> str:
    return index.warehouse.table_root(DATABASE, definition.name)


def ours(index: TableIndex, definition: Definition) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = index.read(definition).to_pylist()
    return found


@pytest.mark.parametrize("definition", TABLES.values(), ids=list(TABLES))
def test_java_and_pypaimon_read_what_we_wrote(
    definition: Definition, index: TableIndex, java: JavaPaimon, py: PyPaimon
) -> None:
    path = path_of(index, definition)
    assert ours(index, definition)
    for reply in (java.call("read", path=path), py.call("read", path=path)):
        assert difference(ours(index, definition), reply["rows"]) is None
        assert disagreement(path, reply, options={}) is None


def test_we_read_on_what_java_upserts_compacts_and_expires(index: TableIndex, java: JavaPaimon) -> None:
    path = path_of(index, SINK_SNAPSHOT)
    java.call("write", path=path, rows=[[JOB, 5, "db", "dst", 500], [JOB, 99, "db", "dst", 990]])
    java.call("compact", path=path, full=True)
    java.call("expireSnapshots", path=path, retain=1)
    found = {r["barrier_id"]: r["snapshot_id"] for r in ours(index, SINK_SNAPSHOT)}
    assert found == {**{b: b * 2 + 1 for b in range(1, 12)}, 5: 500, 99: 990}
    for barrier in range(5, 30):
        index.upsert({SINK_SNAPSHOT.name: [(JOB, barrier, "db", "dst", 7)]})
    index.delete(SINK_SNAPSHOT, "barrier_id > 90")
    reply = java.call("read", path=path)
    assert {r["barrier_id"]: r["snapshot_id"] for r in reply["rows"]} == {
        **{b: b * 2 + 1 for b in range(1, 5)},
        **dict.fromkeys(range(5, 30), 7),
    }
    assert disagreement(path, reply, options={}) is None


def test_lineage_switched_by_java_is_seen(index: TableIndex, java: JavaPaimon) -> None:
    java.call("write", path=path_of(index, CATALOG_OPTIONS), rows=[["data-lineage", "false"]])
    assert (read_settings(index).table, read_settings(index).data) == (True, False)


def test_pypaimon_upserts_and_we_read_on(index: TableIndex, py: PyPaimon) -> None:
    path = path_of(index, SOURCE_SNAPSHOT)
    py.call("write", path=path, rows=[[JOB, 3, "db", "src", 300], [JOB, 50, "db", "src", 55]])
    index.upsert({SOURCE_SNAPSHOT.name: [(JOB, 50, "db", "src", 56)]})
    found = {r["barrier_id"]: r["snapshot_id"] for r in ours(index, SOURCE_SNAPSHOT)}
    assert found == {**{b: b + 5 for b in range(12)}, 3: 300, 50: 56}


def test_tables_that_java_made_of_the_proposals_columns_are_used(tmp_path: Path, java: JavaPaimon) -> None:
    index = open_index(Warehouse(*open_store(str(tmp_path / "wh"), {})))
    types = {"string": "STRING", "int64": "BIGINT"}
    fields = [[n, types[str(t)]] for n, t in SINK_SNAPSHOT.columns.items()]
    path = path_of(index, SINK_SNAPSHOT)
    java.call(
        "createTable", path=path, fields=fields, pk=list(SINK_SNAPSHOT.keys), partition=[], tableOptions={"bucket": "2"}
    )
    enable(index)
    index.upsert({SINK_SNAPSHOT.name: [(JOB, b, "db", "t", b) for b in range(20)]})
    reply = java.call("read", path=path)
    assert index.read(SINK_SNAPSHOT).schema == SINK_SNAPSHOT.schema
    assert len(reply["rows"]) == 20
    assert disagreement(path, reply, options={}) is None


def test_javas_catalog_sees_tables_only_and_leaves_the_rest_alone(
    index: TableIndex, java: JavaPaimon, tmp_path: Path
) -> None:
    def call(does: str, **arguments: Any) -> Any:
        return java.call("catalog", path=str(tmp_path / "wh"), database=DATABASE, does=does, **arguments)

    own = tmp_path / "wh" / "paimon.db" / "_lineage"
    files = sorted(p for p in own.rglob("*") if p.is_file())
    assert call("listDatabases")["names"] == [DATABASE]
    assert call("listTables")["names"] == sorted(TABLES)
    before = {d.name: ours(index, d) for d in TABLES.values()}
    call("removeOrphans")
    assert {d.name: ours(index, d) for d in TABLES.values()} == before
    call("dropTable", table=JOB_STARTUP.name)
    assert call("listTables")["names"] == sorted(TABLES.keys() - {JOB_STARTUP.name})
    assert sorted(p for p in own.rglob("*") if p.is_file()) == files
    index.upsert({JOB_STARTUP.name: [("again", "db", "dst", 1)]})
    assert call("listTables")["names"] == sorted(TABLES)
    call("dropDatabase", cascade=True)
    assert not index.exists()
    assert paimon_spark.load_catalog(index.warehouse.url).list_databases() == []


def test_the_proposals_query_runs_in_javas_spark_over_two_warehouses(tmp_path: Path, connector: Connector) -> None:
    first, second = written(tmp_path / "one"), written(tmp_path / "two")
    catalogs = {"catalog1": tmp_path / "one", "catalog2": tmp_path / "two"}
    sink = "catalog2.paimon.sink_snapshot_lineage"
    statements = [
        CROSS_CATALOG,
        "SHOW TABLES IN catalog1.paimon",
        "SELECT * FROM catalog1.paimon.source_job_lineage",
        f"INSERT INTO {sink} VALUES ('{JOB}', 5, 'db', 'dst', 4242L)",
        CROSS_CATALOG,
        f"DELETE FROM {sink} WHERE barrier_id = 7",
        "CALL catalog2.sys.compact(table => 'paimon.sink_snapshot_lineage')",
        "CALL catalog1.sys.remove_orphan_files(table => 'paimon.*')",
        CROSS_CATALOG,
    ]
    results = connector.rows(catalogs, statements)
    errors = {s: r["error"] for s, r in zip(statements, results, strict=True) if isinstance(r, dict)}
    assert not errors
    assert results[0] == [[11]]
    assert sorted(row[1] for row in results[1]) == sorted(TABLES)
    assert sorted(results[2]) == sorted([[JOB, "db", "src"], ["it's", "d b", "größe$branch_fix"]])
    assert results[4] == results[8] == [[4242]]
    found = {r["barrier_id"]: r["snapshot_id"] for r in ours(second, SINK_SNAPSHOT)}
    assert found == {**{b: b * 2 + 1 for b in range(1, 12) if b != 7}, 5: 4242}
    assert len(ours(first, SOURCE_SNAPSHOT)) == 12
    second.upsert({SINK_SNAPSHOT.name: [(JOB, 7, "db", "dst", 15)]})
    assert len(ours(second, SINK_SNAPSHOT)) == 11
