"""Fields of a new snapshot: those taken over from the one before, and those of the commit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.engine.commit.listeners import CommitEvent
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.data_file import FileSource, SimpleStats
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema, encode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import changelog_manifests, delta_manifests, read_manifests
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot
from paimon_spark.storage.local import LocalStore
from paimon_spark.types import BIGINT
from tests.harness.commits import (
    APPEND,
    KEYED,
    NO_STATS,
    PARTITIONED,
    a_file,
    committer,
    compaction,
    files,
    make_table,
    message,
    partition,
)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"{tmp_path}/t"


def table_of(root: str, schema: TableSchema = APPEND, **options: str) -> TableHandle:
    return make_table(LocalStore(), root, schema, **options)


def head(table: TableHandle) -> Snapshot:
    found = latest_snapshot(table)
    assert found is not None
    return found


def patch_head(table: TableHandle, **changes: Any) -> None:
    """Rewrite the newest snapshot, as another writer would have made it."""
    changed = replace(head(table), **changes)
    table.store.write(table.layout.snapshot_path(changed.id), snapshot_file.encode(changed))


def test_the_larger_watermark_stays(root: str) -> None:
    table = table_of(root)
    for given, kept in ((None, None), (5, 5), (3, 5), (None, 5), (9, 9)):
        committer(table).commit([message(table, a_file(f"f{given}"))], watermark=given)
        assert head(table).watermark == kept
        table.store.delete(f"{table.layout.snapshot_dir}/LATEST")


def test_statistics_live_as_long_as_their_schema(root: str) -> None:
    table = table_of(root)
    committer(table).commit([message(table, a_file("a"))])
    table.store.write(table.layout.statistics_path("stat-1"), json.dumps({"snapshotId": 1, "schemaId": 0}).encode())
    patch_head(table, statistics="stat-1")
    committer(table).commit([message(table, a_file("b"))])
    assert head(table).statistics == "stat-1"
    table.store.create_exclusive(table.layout.schema_path(1), encode(replace(table.schema, id=1)))
    committer(table).commit([message(table, a_file("c"))])
    assert head(table).statistics is None
    patch_head(table, statistics="stat-gone")
    committer(table).commit([message(table, a_file("d"))])
    assert head(table).statistics is None


def test_properties_are_those_of_the_commit_alone(root: str) -> None:
    table = table_of(root)
    committer(table).commit([message(table, a_file("a"))], properties={"x": "1"})
    assert head(table).properties == {"x": "1"}
    committer(table).commit([message(table, a_file("b"))])
    assert head(table).properties is None


def test_the_largest_sequence_number_is_kept_when_the_table_says_so(root: str) -> None:
    table = table_of(root, KEYED)
    committer(table).commit([message(table, a_file("a", keys=(0, 9), rows=50))])
    asked = make_options(table, write__sequence_number_init_mode="snapshot")
    for name, rows, largest in (("b", 10, 49), ("c", 60, 59), ("d", 5, 59)):
        committer(asked).commit([message(asked, a_file(name, keys=(0, 9), rows=rows))], properties={"x": "1"})
        assert head(asked).properties == {"x": "1", "sequence.generation.max-sequence-number": str(largest)}


def make_options(table: TableHandle, **options: str) -> TableHandle:
    from paimon_spark.metadata.handle import open_table

    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return open_table(table.store, table.layout.root, name="t", options=given)


def test_unknown_keys_and_index_types_of_others(root: str) -> None:
    table = table_of(root)
    other = IndexManifestEntry(0, partition(table), 0, "BTREE", "g", 4, 1)
    committer(table).commit([message(table, a_file("a"), new_index_files=(other,))])
    first = head(table).index_manifest
    committer(table).commit([message(table, a_file("b"))])
    assert head(table).index_manifest == first
    patch_head(table, extra={"later": 1}, total_record_count=None)
    committer(table).commit([message(table, a_file("c"))])
    assert head(table).extra == {} and head(table).total_record_count == 30


def test_changelog_files_have_a_list_of_their_own(root: str) -> None:
    table = table_of(root, KEYED)
    log = a_file("log", keys=(0, 9), rows=3)
    committer(table).commit([message(table, a_file("a", keys=(0, 9)), changelog_files=(log,))])
    found = head(table)
    assert (found.changelog_record_count, found.total_record_count) == (3, 10)
    names = read_manifests(table, changelog_manifests(table, found)).column("file_name").to_pylist()
    assert names == ["log"] and set(files(table)) == {"a"}


def test_row_ids_are_given_partition_by_partition(root: str) -> None:
    table = table_of(root, PARTITIONED, row_tracking__enabled="true")
    committer(table).commit(
        [message(table, a_file("a", rows=3), p=1), message(table, a_file("b", rows=4), p=2),
         message(table, a_file("c", rows=5), p=1)]
    )  # fmt: skip
    found = files(table)
    assert {n: f.first_row_id for n, f in found.items()} == {"a": 0, "c": 3, "b": 8}
    assert {(f.min_sequence_number, f.max_sequence_number) for f in found.values()} == {(1, 1)}
    assert head(table).next_row_id == 12
    committer(table).commit([message(table, a_file("d", rows=2), p=1)])
    assert files(table)["d"].first_row_id == 12 and head(table).next_row_id == 14


def test_files_that_have_row_ids_keep_them(root: str) -> None:
    table = table_of(root, row_tracking__enabled="true")
    committer(table).commit([message(table, a_file("a", rows=3))])
    old = files(table)["a"]
    merged = a_file(
        "b", rows=3, first_row_id=0, min_sequence_number=1, max_sequence_number=1, file_source=FileSource.COMPACT
    )
    committer(table).commit([compaction(table, [old], [merged])])
    assert files(table) == {"b": merged}
    changed = a_file("c", rows=3, min_sequence_number=1, max_sequence_number=0, write_cols=("_ROW_ID", "v"))
    committer(table).commit([message(table, changed, deleted=[merged])])
    found = files(table)["c"]
    assert (found.min_sequence_number, found.max_sequence_number, found.first_row_id) == (1, 3, None)
    assert head(table).next_row_id == 3


def test_ungrouped_row_ids_follow_the_messages(root: str) -> None:
    table = table_of(root, PARTITIONED, row_tracking__enabled="true", row_tracking__partition_group_on_commit="false")
    committer(table).commit([message(table, a_file(n, rows=2), p=p) for n, p in (("a", 1), ("b", 2), ("c", 1))])
    assert {n: f.first_row_id for n, f in files(table).items()} == {"a": 0, "b": 2, "c": 4}


def test_entries_follow_the_messages(root: str) -> None:
    table = table_of(root)
    committer(table).commit([message(table, a_file("b"), a_file("a")), message(table, a_file("c"))])
    entries = read_manifests(table, delta_manifests(table, head(table)))
    assert entries.column("file_name").to_pylist() == ["b", "a", "c"]
    assert entries.column("total_buckets").to_pylist() == [-1, -1, -1]


@pytest.mark.parametrize("dropped", [True, False])
def test_deletions_carry_statistics_unless_told_not_to(root: str, dropped: bool) -> None:
    table = table_of(root, manifest__delete_file_drop_stats=str(dropped).lower())
    stats = SimpleStats(binary_row.encode([1], [BIGINT]), binary_row.encode([9], [BIGINT]), (2,))
    old = a_file("a", value_stats=stats, value_stats_cols=("k",))
    committer(table).commit([message(table, old)])
    new = a_file("b", value_stats=stats, value_stats_cols=("k",))
    committer(table).commit([message(table, new, deleted=[old])])
    entries = read_manifests(table, delta_manifests(table, head(table)))
    bare = old._replace(value_stats=NO_STATS, value_stats_cols=())
    assert files_of(entries) == [new, bare if dropped else old]
    assert files(table) == {"b": new}


def test_a_twin_of_a_stream_does_not_commit_again(root: str) -> None:
    table = table_of(root)
    committer(table, "stream").commit([message(table, a_file("a"))], 1)
    slow = committer(table, "stream", filtered_up_to=1)
    committer(table, "stream").commit([message(table, a_file("b"))], 2)
    mine = message(table, a_file("mine"))
    path = table.layout.data_path(table.layout.bucket_path("", 0), "mine")
    table.store.write(path, b"rows")
    assert slow.commit([mine], 2).snapshot_ids == (2,)
    assert set(files(table)) == {"a", "b"} and get_snapshot(table, 2).commit_identifier == 2
    slow.abort([mine])
    assert not table.store.exists(path)


def test_abort_deletes_what_did_not_land_and_nothing_else(root: str) -> None:
    table = table_of(root, PARTITIONED)
    bucket = f"{table.layout.root}/p=1/bucket-0"
    paths = {n: f"{bucket}/{n}" for n in ("a", "a.index", "log", "old", "landed")}
    index = f"{table.layout.root}/index/i"
    for path in (*paths.values(), index):
        table.store.write(path, b"x")
    ours, landed = committer(table), message(table, a_file("landed"), p=1)
    ours.commit([landed])
    entry = IndexManifestEntry(0, partition(table, 1), 0, "HASH", "i", 4, 1)
    old = a_file("old")
    ours.abort(
        [landed, message(
            table, a_file("a", extra_files=("a.index",)), old._replace(level=3), p=1,
            deleted=[old], changelog_files=(a_file("log"),), new_index_files=(entry,),
        )]
    )  # fmt: skip
    assert {n for n, path in paths.items() if table.store.exists(path)} == {"old", "landed"}
    assert not table.store.exists(index)


def test_listeners_hear_of_snapshots_and_cannot_fail_them(root: str, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    class Broken:
        def on_commit(self, event: CommitEvent) -> None:
            raise ValueError("no")

    class Hearing:
        def on_commit(self, event: CommitEvent) -> None:
            heard.append(event.snapshot_id)

    table = table_of(root)
    ours = committer(table, listeners=(Broken(), Hearing()))
    ours.commit([message(table, a_file("a"))])
    ours.commit([])
    assert heard == [1] and "Broken failed after snapshot 1" in caplog.text
