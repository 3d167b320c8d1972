"""Overwrites replace what they name, as it is when their snapshot is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.engine.commit.overwrite import NamedPartitions, PresentPartitions
from paimon_spark.errors import InvalidInputError
from paimon_spark.format.metadata_files.index_manifest import HASH, IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.snapshots import latest_snapshot, list_snapshot_ids
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import (
    APPEND,
    KEYED,
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


def filled(root: str, schema: TableSchema = PARTITIONED, **options: str) -> TableHandle:
    """Files named after their partitions 1, 2 and null."""
    table = make_table(LocalStore(), root, schema, **options)
    committer(table).commit([message(table, a_file(f"p{p}"), p=p) for p in (1, 2, None)])
    return table


def test_an_overwrite_replaces_the_table(root: str) -> None:
    table = filled(root)
    made = committer(table).overwrite([message(table, a_file("new"), p=7)], operation="OVERWRITE").snapshot
    assert made is not None and (made.commit_kind, made.delta_record_count) == (CommitKind.OVERWRITE, -20)
    assert set(files(table)) == {"new"}


@pytest.mark.parametrize(
    ("specs", "left"),
    [
        ([{"p": "1"}], {"p2", "pNone"}),
        ([{"p": 2}], {"p1", "pNone"}),
        ([{"p": None}], {"p1", "p2"}),
        ([{"p": "__DEFAULT_PARTITION__"}, {"p": "2"}], {"p1"}),
        ([{"p": "9"}], {"p1", "p2", "pNone"}),
        ([{}], set()),
    ],
)
def test_partitions_are_dropped_by_value(root: str, specs: list[Mapping[str, object]], left: set[str]) -> None:
    table = filled(root)
    assert committer(table).drop_partitions(specs).snapshot_ids == (2,)
    assert set(files(table)) == left


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"q": "1"}, "'q' is not a partition column"),
        ({"p": "one"}, "'one' is not a value of partition column 'p'"),
        ({"p": "1.5"}, "'1.5' is not a value of partition column 'p'"),
    ],
)
def test_partitions_named_wrongly_are_refused(root: str, spec: Mapping[str, object], message: str) -> None:
    table = filled(root)
    with pytest.raises(InvalidInputError, match=message):
        committer(table).drop_partitions([spec])
    with pytest.raises(InvalidInputError, match="no partition"):
        committer(table).drop_partitions([])


def test_rows_outside_of_the_named_partition_are_refused(root: str) -> None:
    table = filled(root)
    named = NamedPartitions(({"p": 1},))
    with pytest.raises(InvalidInputError, match="has rows for p=2, which is not among them"):
        committer(table).overwrite([message(table, a_file("x"), p=2)], partitions=named)
    committer(table).overwrite([message(table, a_file("x"), p=1)], partitions=named)
    assert set(files(table)) == {"x", "p2", "pNone"}


def test_present_partitions_are_replaced_and_nothing_without_rows(root: str) -> None:
    table = filled(root)
    assert committer(table).overwrite([], partitions=PresentPartitions()).snapshot is None
    committer(table).overwrite(
        [message(table, a_file("x"), p=1), message(table, a_file("y"))], partitions=PresentPartitions()
    )
    assert set(files(table)) == {"x", "y", "p2"}


def test_present_partitions_of_a_table_without_any_are_all_of_it(root: str) -> None:
    table = filled(root, APPEND)
    committer(table).overwrite([], partitions=PresentPartitions())
    assert files(table) == {}


def test_truncating_makes_a_snapshot_every_time(root: str) -> None:
    table = filled(root)
    assert committer(table).truncate().snapshot_ids == (2,)
    made = committer(table).truncate().snapshot
    assert made is not None and (made.id, made.total_record_count, made.operation) == (3, 0, "TRUNCATE")
    assert files(table) == {}


def test_the_first_commit_may_be_an_overwrite(root: str) -> None:
    table = make_table(LocalStore(), root)
    committer(table).overwrite([message(table, a_file("a"))])
    assert set(files(table)) == {"a"} and list_snapshot_ids(table) == [1]


def test_postponed_rows_stay_unless_all_are_postponed(tmp_path: Path) -> None:
    for buckets, left in (("2", {"later"}), ("-2", set())):
        table = make_table(LocalStore(), f"{tmp_path}/{buckets}", KEYED, bucket=buckets)
        committer(table).commit([message(table, a_file("later", keys=(0, 9)), bucket=-2, buckets=-2)])
        committer(table).overwrite([])
        assert set(files(table)) == left


def test_index_files_go_with_their_partition(root: str) -> None:
    table = make_table(LocalStore(), root, PARTITIONED)

    def entry(name: str, p: int) -> Any:
        return IndexManifestEntry(0, partition(table, p), 0, HASH, name, 4, 1)

    messages = [message(table, a_file(f"f{p}"), p=p, new_index_files=(entry(f"h{p}", p),)) for p in (1, 2)]
    committer(table).commit(messages)
    fresh = message(table, a_file("g1"), p=1, new_index_files=(entry("g", 1),))
    committer(table).overwrite([fresh], partitions=PresentPartitions())
    head = latest_snapshot(table)
    assert head is not None and head.index_manifest is not None
    assert {e.file_name for e in read_index_manifest(table, head.index_manifest)} == {"g", "h2"}


@pytest.mark.parametrize(("keys", "level"), [([(0, 4), (5, 9)], 5), ([(0, 5), (5, 9)], 0)])
def test_new_files_go_to_the_highest_level_when_their_keys_are_apart(
    root: str, keys: list[tuple[int, int]], level: int
) -> None:
    table = make_table(LocalStore(), root, KEYED)
    new = [a_file(f"f{i}", keys=k) for i, k in enumerate(keys)]
    committer(table).overwrite([message(table, *new), message(table, a_file("alone", keys=(0, 9)), bucket=1)])
    assert {f.level for n, f in files(table).items() if n != "alone"} == {level}
    assert files(table)["alone"].level == 5


def test_new_files_stay_low_when_told_so_or_when_compactions_come_along(tmp_path: Path) -> None:
    low = a_file("a", keys=(0, 9))
    told = make_table(LocalStore(), f"{tmp_path}/1", KEYED, overwrite_upgrade="false")
    committer(told).overwrite([message(told, low)])
    assert files(told)["a"].level == 0
    with_compaction = make_table(LocalStore(), f"{tmp_path}/2", KEYED)
    high = a_file("b", level=3, keys=(0, 9))
    done = committer(with_compaction).overwrite(
        [message(with_compaction, low), compaction(with_compaction, [low], [high])]
    )
    assert [s.commit_kind for s in done.snapshots] == [CommitKind.OVERWRITE, CommitKind.COMPACT]
    assert files(with_compaction) == {"b": high}


def test_changelog_files_of_an_overwrite_are_deleted(root: str) -> None:
    table = make_table(LocalStore(), root, KEYED)
    path = table.layout.data_path(table.layout.bucket_path("", 0), "log")
    table.store.write(path, b"rows")
    made = (
        committer(table)
        .overwrite([message(table, a_file("a", keys=(0, 9)), changelog_files=(a_file("log", keys=(0, 9)),))])
        .snapshot
    )
    assert made is not None and made.changelog_manifest_list is None
    assert not table.store.exists(path)


def test_an_operation_that_paimon_does_not_know_is_refused(root: str) -> None:
    table = make_table(LocalStore(), root)
    with pytest.raises(InvalidInputError, match="unknown operation 'WIPE'"):
        committer(table).overwrite([], operation="WIPE")
