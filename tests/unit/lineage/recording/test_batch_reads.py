"""Batch reads in this process that name their job are noted when their rows are read; others are not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import enable, forget_settings
from paimon_spark.lineage.index.warehouse import Warehouse, find_warehouse_table, forget_warnings
from paimon_spark.lineage.recording.read_notes import ReadNote, all_batch_jobs, batch_notes, this_process
from tests.harness.real_tables import a_table, put

T = TableRef("db", "t")
JOB = {"lineage.job": "j"}


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Snapshots 1, 2 and 3, each with one row more."""
    forget_warnings()
    made = a_table("k BIGINT, p STRING", by="p", where=tmp_path)
    for k in (1, 2, 3):
        put(made, (k, "a"))
    enable(open_index(warehouse(made)))
    forget_settings(warehouse(made))
    yield made
    forget_settings(warehouse(made))


def warehouse(table: Table) -> Warehouse:
    home = find_warehouse_table(table.handle)
    assert home is not None
    return home.warehouse


def noted(table: Table) -> list[ReadNote]:
    return batch_notes(warehouse(table), "j")


def test_rows_that_are_read_are_noted_and_plans_are_not(table: Table) -> None:
    scan = table.scan(**JOB)
    scan.plan()
    batches = scan.to_batches()
    assert noted(table) == []
    assert sum(b.num_rows for b in batches) == 3
    (note,) = noted(table)
    assert (note.ref, note.after, note.last, note.within) == (T, None, 3, None)
    assert note.task == this_process()
    assert scan.to_arrow().num_rows == 3
    assert len(noted(table)) == 2
    assert len({n.task.app_id for n in noted(table)}) == 1


def test_reads_without_a_job_are_not_noted(table: Table) -> None:
    assert table.scan().to_arrow().num_rows == 3
    assert all_batch_jobs(warehouse(table)) == []
    assert not warehouse(table).store.exists(f"{warehouse(table).lineage_dir}/notes")


def test_a_version_is_noted_as_its_snapshot(table: Table) -> None:
    table.create_tag("v", snapshot_id=2)
    assert table.scan(version="v", **JOB).to_arrow().num_rows == 2
    assert table.scan(version=1, **JOB).to_arrow().num_rows == 1
    assert [n.last for n in noted(table)] == [2, 1]


def test_an_incremental_read_is_noted_with_both_ends(table: Table) -> None:
    assert table.scan(**JOB, **{"incremental-between": "1,3"}).to_arrow().num_rows == 2
    assert [(n.after, n.last) for n in noted(table)] == [(1, 3)]


def test_a_branch_is_noted_under_its_name(table: Table) -> None:
    table.create_tag("v", snapshot_id=2)
    table.create_branch("fix", tag="v")
    branch = paimon_spark.load_table(f"{table.location}$branch_fix", **JOB)
    assert branch.scan().to_arrow().num_rows == 2
    assert [(n.ref, n.last) for n in noted(table)] == [(TableRef("db", "t$branch_fix"), 2)]


def test_two_branches_read_as_one_table_are_both_noted(table: Table) -> None:
    table.create_branch("other", empty=True)
    put(paimon_spark.load_table(f"{table.location}$branch_other"), (9, "b"))
    assert table.scan(**JOB, **{"scan.fallback-branch": "other"}).to_arrow().num_rows == 4
    assert sorted((n.ref.table, n.last) for n in noted(table)) == [("t", 3), ("t$branch_other", 1)]


def test_an_empty_table_is_noted_without_a_snapshot(table: Table, tmp_path: Path) -> None:
    catalog = paimon_spark.load_catalog(str(tmp_path))
    empty = catalog.create_table("db.e", "k BIGINT")
    assert empty.scan(**JOB).to_arrow().num_rows == 0
    assert [(n.ref.table, n.last) for n in noted(table)] == [("e", None)]


def test_system_tables_and_lineage_tables_are_not_noted(table: Table, tmp_path: Path) -> None:
    for name in ("db.t$snapshots", "db.t$ro", "paimon.catalog_options"):
        paimon_spark.load_table(name, warehouse=str(tmp_path), **JOB).scan().to_arrow()
    assert noted(table) == []


def test_where_lineage_is_off_a_job_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forget_warnings()
    table = a_table("k BIGINT", where=tmp_path)
    with caplog.at_level(logging.WARNING):
        table.scan(**JOB).to_arrow()
        table.scan(**JOB).to_arrow()
    assert len([r for r in caplog.records if "lineage.job" in r.getMessage()]) == 1
    assert not (tmp_path / "paimon.db").exists()


def test_a_table_outside_of_any_warehouse_is_read_as_ever(tmp_path: Path) -> None:
    table = a_table("k BIGINT, p STRING", where=tmp_path / "wh")
    put(table, (1, "a"))
    (tmp_path / "wh" / "db.db" / "t").rename(tmp_path / "alone")
    assert paimon_spark.load_table(str(tmp_path / "alone"), **JOB).scan().to_arrow().num_rows == 1


def test_a_note_that_cannot_be_written_fails_no_read(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    blocked = Path(warehouse(table).lineage_dir) / "notes"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("no directory")
    with caplog.at_level(logging.WARNING):
        assert table.scan(**JOB).to_arrow().num_rows == 3
        assert table.scan(**JOB).to_arrow().num_rows == 3
    assert len([r for r in caplog.records if "db.t" in r.getMessage()]) == 1
