"""Messages become one snapshot, with the counts and lists that Paimon expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshot_ids
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import APPEND, KEYED, a_file, committer, compaction, files, make_table, message


@pytest.fixture
def table(tmp_path: Path) -> TableHandle:
    return make_table(LocalStore(), f"{tmp_path}/t", APPEND)


def test_an_append_makes_the_next_snapshot(table: TableHandle) -> None:
    first = committer(table).commit([message(table, a_file("a", rows=3))], operation="WRITE")
    second = committer(table).commit([message(table, a_file("b", rows=4))], watermark=7)
    assert first.snapshot_ids == (1,) and second.snapshot_ids == (2,)
    head = latest_snapshot(table)
    assert head is not None and head == second.snapshot
    assert (head.commit_kind, head.total_record_count, head.delta_record_count) == (CommitKind.APPEND, 7, 4)
    assert (head.watermark, head.next_row_id, head.changelog_record_count, head.index_manifest) == (7, 0, None, None)
    assert first.snapshot is not None and first.snapshot.operation == "WRITE"
    assert set(files(table)) == {"a", "b"}
    assert table.store.read(f"{table.layout.snapshot_dir}/LATEST") == b"2"
    assert table.store.read(f"{table.layout.snapshot_dir}/EARLIEST") == b"1"


def test_nothing_to_commit_makes_no_snapshot_unless_asked(table: TableHandle) -> None:
    assert committer(table).commit([]).snapshot_ids == ()
    assert committer(table).commit([message(table)]).snapshot is None
    assert list_snapshot_ids(table) == []
    assert committer(table).commit([], force_create=True).snapshot_ids == (1,)


def test_a_commit_of_rows_and_compaction_makes_two_snapshots(tmp_path: Path) -> None:
    table = make_table(LocalStore(), f"{tmp_path}/t", KEYED)
    old = a_file("a", keys=(0, 9))
    new = a_file("b", level=5, keys=(0, 9))
    result = committer(table).commit([message(table, old), compaction(table, [old], [new])])
    assert [s.commit_kind for s in result.snapshots] == [CommitKind.APPEND, CommitKind.COMPACT]
    assert set(files(table)) == {"b"}
    assert result.snapshots[1].total_record_count == 10 and result.snapshots[1].delta_record_count == 0
