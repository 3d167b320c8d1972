"""How a table stands at one look: its head, what is alive, its refs and branches, and what is due."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from paimon_spark.errors import InvalidInputError, TableNotFoundError
from paimon_spark.maintenance.consumers import Consumer, write_consumer
from paimon_spark.versioning.status import read_status
from tests.unit.versioning.publishing import new_table, put
from tests.unit.versioning.test_diff import add, append_table


def test_a_new_table_has_no_head_and_nothing_is_due(tmp_path: Path) -> None:
    found = new_table(tmp_path).status()
    assert (found.table, found.branch, found.kind, found.bucket) == ("db.t", "main", "primary key", "fixed (1)")
    assert (found.merge_engine, found.primary_keys, found.schema_id, found.columns) == ("deduplicate", ("k",), 0, 2)
    assert found.head is None and (found.files, found.bytes, found.rows, found.snapshots) == (0, 0, 0, 0)
    assert (found.branches, found.consumers, found.operation, found.due, found.findings) == ((), (), None, (), None)
    json.dumps(found.to_dict())


def test_status_counts_files_refs_branches_and_consumers(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    add(table, range(4), "d2")
    table.create_tag("v1")
    table.create_savepoint()
    table.create_branch("fix", tag="v1")
    table.create_branch("bare", empty=True)
    add(table, range(5))
    fix = table.branch("fix")
    add(fix, range(1))
    add(fix, range(1))
    write_consumer(table.handle, Consumer("etl", 2))
    table.create_tag("old", time_retained=timedelta(milliseconds=1))
    found = table.status()
    assert (found.kind, found.bucket, found.merge_engine, found.partition_keys) == ("append", "unaware", None, ("dt",))
    assert found.head is not None and (found.head.snapshot_id, found.head.kind) == (3, "APPEND")
    files = list(Path(table.handle.layout.root).rglob("bucket-0/*.parquet"))
    assert (found.files, found.rows, found.snapshots) == (3, 12, 3) and len(files) == 5
    assert (found.tags, found.savepoints, found.guards) == (2, 1, 1)
    told = {b.name: (b.base, b.base_snapshot_id, b.base_tag, b.ahead, b.behind) for b in found.branches}
    assert told == {"fix": ("main", 2, "v1", 2, 1), "bare": ("main", None, None, 0, 3)}
    assert [(c.name, c.next_snapshot_id, c.behind) for c in found.consumers] == [("etl", 2, 2)]
    assert found.due == ("1 tags have expired: expire_tags()",)
    on_fix = fix.status()
    assert (on_fix.branch, on_fix.files, on_fix.rows, on_fix.guards) == ("fix", 4, 9, 1)
    json.dumps(found.to_dict())


def test_what_is_due_is_said(tmp_path: Path) -> None:
    table = append_table(tmp_path, **{"compaction.min.file-num": "3", "snapshot.num-retained.min": "2"})
    for i in range(3):
        add(table, range(i, i + 1))
    assert table.status().due == ("1 partitions have many small files: compact()",)
    later = table.snapshots()[-1].time_ms + 10 * 3_600_000
    due = read_status(table.handle, clock_ms=lambda: later).due
    assert due[0] == "snapshots are old enough to expire: expire_snapshots()" and len(due) == 2
    table.compact()
    assert table.status().due == ()


def test_a_bucket_with_many_sorted_runs_wants_compaction(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"num-sorted-run.compaction-trigger": "3", "write-only": "true"})
    for i in range(3):
        put(table, **{f"k{i}": "x"})
    assert table.status().due == ("1 buckets have many small files: compact()",)
    table.compact(full=True)
    assert table.status().due == ()


def test_the_doctor_is_asked_when_wanted(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    assert table.status(doctor=True).findings == ()
    (Path(table.handle.layout.root) / "snapshot" / "LATEST").write_text("77")
    findings = table.status(doctor=True).findings
    assert findings is not None and [f.kind for f in findings] == [f.kind for f in table.doctor()]


def test_sizes_are_shown_when_wanted(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    table.create_branch("fix")
    add(table.branch("fix"), range(3, 9))
    table.create_tag("v1")
    assert table.status().sizes is None
    status = table.status(sizes=True)
    assert status.sizes is not None
    assert {(s.kind, s.name): s.bytes for s in status.sizes} == {(s.kind, s.name): s.bytes for s in table.sizes()}
    assert status.sizes[0].name == "fix"
    assert "branch fix: alone keeps" in str(status)
    assert "alone kept by" in status._repr_html_()
    assert status.to_dict()["sizes"][0]["bytes"] == status.sizes[0].bytes


def test_a_version_has_no_status_and_a_table_that_was_dropped_says_so(tmp_path: Path) -> None:
    table = append_table(tmp_path)
    add(table, range(3))
    with pytest.raises(InvalidInputError):
        table.at(1).status()
    shutil.rmtree(table.handle.layout.root)
    with pytest.raises(TableNotFoundError):
        table.status()
