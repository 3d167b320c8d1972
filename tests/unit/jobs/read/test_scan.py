"""Scans that are pinned to a snapshot before they are planned."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.table import Table
from paimon_spark.errors import SnapshotExpiredError
from tests.harness.real_tables import a_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = a_table(pa.schema([("id", pa.int64())]), where=tmp_path)
    made.write(pa.table({"id": [0]}))
    return made


def test_a_pinned_scan_reads_the_snapshot_that_was_the_newest(table: Table) -> None:
    scan = table.scan()
    pinned, planned = scan.pinned(), table.scan()
    planned.plan()
    table.write(pa.table({"id": [1]}))
    assert pinned.snapshot_id == 1 and scan.snapshot_id is None
    assert [s.to_arrow().num_rows for s in (pinned, pinned.project(["id"]), planned.pinned())] == [1, 1, 1]
    assert [s.to_arrow().num_rows for s in (scan, scan.pinned(), table.scan().pinned())] == [2, 2, 2]


def test_a_pinned_scan_keeps_the_moment_since_which_files_are_read(table: Table) -> None:
    scan = table.scan(**{"scan.file-creation-time-millis": str(2**45)})
    assert scan.to_arrow().num_rows == 0 and scan.pinned().to_arrow().num_rows == 0


def test_a_pinned_scan_refuses_a_table_whose_main_was_replaced(table: Table) -> None:
    table.alter(add={"n": "INT"})
    table.create_branch("other")
    pinned = table.scan().pinned()
    table.replace_main("other")
    with pytest.raises(SnapshotExpiredError, match="was given another history after snapshot 1 was chosen: read again"):
        pinned.plan()


def test_the_same_columns_and_some_splits_keep_the_plan(table: Table) -> None:
    table.write(pa.table({"id": [1]}))
    scan = table.scan(["id"])
    plan = scan.plan()
    assert scan.project(["id"]).plan() is plan
    assert scan.with_splits(()).plan().splits == () and scan.with_splits(plan.splits).to_arrow().num_rows == 2
