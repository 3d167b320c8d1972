"""Manifests made fewer by a snapshot of their own: the same files, nothing else changed, or no snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import pytest

from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.errors import CommitOutcomeUnknownError, CommitRetriesExhaustedError, StorageError
from paimon_spark.format.metadata_files import table_schema
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.manifests import data_manifests, read_manifest_list
from paimon_spark.metadata.retry import Clock
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshot_ids
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from tests.harness.commits import PARTITIONED, Calm, a_file, committer, compaction, files, make_table, manifest_names
from tests.harness.commits import message as message_of
from tests.harness.fault_store import Fault, FaultStore


def a_table(commits: int = 4, **options: str) -> TableHandle:
    store, root = open_store(f"memory://{uuid4().hex}/t")
    table = make_table(store, root, PARTITIONED, **options)
    for i in range(commits):
        committer(table).commit([message_of(table, a_file(f"f{i}"), p=i % 2)], watermark=100 + i, properties={"k": "v"})
    return table


def calm() -> Clock:
    clock = Calm()
    return Clock(clock.clock_ms, clock.sleep, lambda: 0.0)


def compact_manifest(table: TableHandle, clock: Clock | None = None) -> Snapshot | None:
    clock = clock or Clock()
    user = new_commit_user(table.options)
    committer = Committer(table, user, clock=clock)
    return committer.compact_manifests().snapshot


def test_the_same_files_are_in_one_manifest_and_nothing_else_changes() -> None:
    table = a_table()
    head, before = latest_snapshot(table), files(table)
    assert head is not None
    made = compact_manifest(table, calm())
    assert made is not None and made == latest_snapshot(table)
    assert made.id == head.id + 1
    assert made.commit_kind is CommitKind.COMPACT
    assert made.commit_identifier == 2**63 - 1
    assert files(table) == before
    assert len(data_manifests(table, made)) == 1
    assert read_manifest_list(table, made.delta_manifest_list) == []
    assert made.delta_record_count == 0
    kept = ("schema_id", "index_manifest", "total_record_count", "watermark", "statistics", "properties")
    assert [getattr(made, n) for n in kept] == [getattr(head, n) for n in kept]
    assert made.next_row_id in (head.next_row_id, 0)
    assert made.changelog_manifest_list is None


def test_a_second_time_makes_no_snapshot_and_leaves_no_file() -> None:
    table = a_table()
    compact_manifest(table)
    before = manifest_names(table), list_snapshot_ids(table)
    assert compact_manifest(table) is None
    assert (manifest_names(table), list_snapshot_ids(table)) == before


def test_manifests_of_the_same_number_and_entries_are_not_written_again() -> None:
    """A manifest is closed a little before its target size; then each of them looks small."""
    table = a_table(6, manifest__target_file_size="1 kb")
    compact_manifest(table)
    found = manifest_names(table)
    assert compact_manifest(table) is None
    assert manifest_names(table) == found


def test_deletes_go_though_one_manifest_would_do() -> None:
    table = a_table(1)
    committer(table).commit([compaction(table, [files(table)["f0"]], [a_file("g")], p=0)])
    head = latest_snapshot(table)
    assert head is not None
    made = compact_manifest(table)
    assert made is not None
    assert [(m.num_added_files, m.num_deleted_files) for m in data_manifests(table, made)] == [(1, 0)]
    assert list(files(table)) == ["g"]


def test_a_table_without_snapshots_or_with_one_manifest_stays() -> None:
    assert compact_manifest(a_table(0)) is None
    table = a_table(1)
    assert compact_manifest(table) is None
    assert list_snapshot_ids(table) == [1]


def test_the_definition_of_the_head_stays_in_force() -> None:
    """As in Paimon: the snapshot is of the schema that the head is of, not of one that came later."""
    table = a_table()
    newer = replace(table.schema, id=1)
    table.store.create_exclusive(table.layout.schema_path(1), table_schema.encode(newer))
    made = compact_manifest(open_table(table.store, table.layout.root, name="t"))
    assert made is not None
    assert made.schema_id == 0


class Meddling:
    """A store that lets others act right before a snapshot file is created."""

    def __init__(self, inner: Store, acts: list[Callable[[], object]]) -> None:
        self._inner, self._acts = inner, acts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_exclusive(self, path: str, data: bytes) -> None:
        if self._acts and "/snapshot/snapshot-" in path:
            self._acts.pop(0)()
        self._inner.create_exclusive(path, data)


def meddled(table: TableHandle, *acts: Callable[[], object]) -> TableHandle:
    return open_table(cast(Store, Meddling(table.store, list(acts))), table.layout.root, name="t")


def test_what_others_commit_meanwhile_is_kept_and_merged() -> None:
    table = a_table()
    kept = set(files(table)) - {"f0"} | {"new"}

    def others() -> None:
        committer(table).commit([message_of(table, a_file("new"), p=0, deleted=[files(table)["f0"]])])

    made = compact_manifest(meddled(table, others), calm())
    assert made is not None
    assert made.id == 6
    assert set(files(table)) == kept
    assert len(data_manifests(table, made)) == 1


def test_when_others_do_it_first_nothing_is_left_to_do() -> None:
    table = a_table()
    assert compact_manifest(meddled(table, lambda: compact_manifest(table)), calm()) is None
    assert list_snapshot_ids(table) == [1, 2, 3, 4, 5]
    head = latest_snapshot(table)
    assert head is not None
    assert len(manifest_names(table) & {head.base_manifest_list, head.delta_manifest_list}) == 2


def test_it_gives_up_when_others_are_always_faster() -> None:
    table = a_table(2, commit__max_retries="1")
    number = iter(range(100))

    def other() -> None:
        committer(table).commit([message_of(table, a_file(f"n{next(number)}"), p=0)])

    with pytest.raises(CommitRetriesExhaustedError, match="tried 2 times"):
        compact_manifest(meddled(table, other, other, other), calm())
    assert len(files(table)) == 4


@pytest.mark.parametrize("at", range(1, 9))
def test_a_store_that_fails_leaves_the_old_manifests_or_the_new_ones(at: int) -> None:
    table = a_table()
    before = files(table)
    store = FaultStore(table.store)
    handle = open_table(store, table.layout.root, name="t")
    store.arm(Fault(at, forever=True, verbs=frozenset(("write", "create_exclusive", "open_output", "output.close"))))
    with contextlib.suppress(StorageError, CommitOutcomeUnknownError):
        compact_manifest(handle, calm())
    assert files(table) == before
