"""Log records of operations, and their levels."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paimon_spark import Table
from tests.harness.real_tables import a_table, put


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return a_table("k BIGINT", keys="k", options={"bucket": "1"}, where=tmp_path / "wh")


def test_what_changed_is_logged_as_info(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "paimon_spark"):
        put(table, 1, 2)
        table.create_branch("fix")
        put(table.branch("fix"), 3)
        table.merge_branch("fix")
        table.delete_branch("fix")
        table.compact(full=True)
        table.expire_snapshots(retain_max=1, retain_min=1)
        table.remove_orphan_files(older_than=datetime.now(UTC) - timedelta(hours=1))
        table.scan().to_arrow()
    found = [(r.levelname, r.name.rpartition(".")[0], r.getMessage().partition(", in ")[0]) for r in caplog.records]
    assert found == [
        ("INFO", "paimon_spark.engine.commit", "table db.t: snapshot 1, APPEND, +2 rows"),
        ("INFO", "paimon_spark.maintenance", "table db.t: creation of branch 'fix'; deleted 0 files, 0 B"),
        ("INFO", "paimon_spark.engine.commit", "branch 'fix' of table db.t: snapshot 2, APPEND, +1 rows"),
        ("INFO", "paimon_spark.maintenance", "table db.t: merge into main of branch 'fix'; deleted 0 files, 0 B"),
        *found[4:5],
        ("INFO", "paimon_spark.engine.commit", "table db.t: snapshot 3, COMPACT, +0 rows"),
        *found[6:7],
        ("INFO", "paimon_spark.maintenance", "table db.t: deleted 0 orphan files"),
    ]
    assert found[4][2].startswith("table db.t: deletion of branch 'fix'; deleted 2 snapshots (fix.1, fix.2)")
    assert found[6][2].startswith("table db.t: expiry of snapshots 1 to 2 of table db.t; deleted 2 snapshots (1, 2)")


def test_what_was_skipped_is_logged_for_debugging(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    put(table, 1)
    with caplog.at_level(logging.DEBUG, "paimon_spark"):
        table.scan(where="k > 5").to_arrow()
    (record,) = [r for r in caplog.records if r.levelno == logging.DEBUG]
    assert record.getMessage().startswith("read of table db.t, snapshot 1: ")
    assert "files: 0 of 1 read" in record.getMessage()
