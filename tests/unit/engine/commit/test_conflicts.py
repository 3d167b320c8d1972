"""Conflicts between commits: one test for each rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import CommitConflictError, InvalidInputError
from paimon_spark.format.metadata_files.index_manifest import (
    DELETION_VECTORS,
    HASH,
    DeletionVectorRange,
    IndexManifestEntry,
)
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import (
    APPEND,
    KEYED,
    KEYED_PARTITIONED,
    PARTITIONED,
    a_file,
    committer,
    compaction,
    files,
    make_table,
    message,
    on,
    partition,
)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"{tmp_path}/t"


def table_of(root: str, schema: TableSchema = APPEND, **options: str) -> TableHandle:
    return make_table(LocalStore(), root, schema, **options)


def index_entry(
    table: TableHandle, name: str, index_type: str, *data_files: str, bucket: int = 0, p: Any = None
) -> Any:
    ranges = tuple(DeletionVectorRange(f, 1, 20, 1) for f in data_files)
    vectors = ranges if index_type == DELETION_VECTORS else None
    return IndexManifestEntry(0, partition(table, p), bucket, index_type, name, 50, max(len(ranges), 1), vectors)


def index_names(table: TableHandle) -> set[str]:
    head = latest_snapshot(table)
    assert head is not None
    return set() if head.index_manifest is None else {
        e.file_name for e in read_index_manifest(table, head.index_manifest)
    }  # fmt: skip


def conflict(table: TableHandle, *messages: Any, match: str, **options: Any) -> None:
    """The messages are refused, and change nothing."""
    before = latest_snapshot(table)
    with pytest.raises(CommitConflictError, match=match):
        committer(table).commit(messages, **options)
    assert latest_snapshot(table) == before


def test_replacing_files_makes_an_overwrite(root: str) -> None:
    table = table_of(root)
    old = a_file("a")
    committer(table).commit([message(table, old)])
    made = committer(table).commit([message(table, a_file("b", rows=4), deleted=[old])]).snapshot
    assert made is not None and made.commit_kind is CommitKind.OVERWRITE
    assert (made.total_record_count, made.delta_record_count) == (4, -6)


def test_a_file_is_deleted_once(root: str) -> None:
    table = table_of(root)
    old = a_file("a")
    committer(table).commit([message(table, old)])
    committer(table).commit([message(table, deleted=[old])])
    conflict(table, message(table, deleted=[old]), match="replaces a, which another commit deleted or rewrote")


def test_a_file_that_never_was_cannot_be_deleted(root: str) -> None:
    table = table_of(root)
    committer(table).commit([message(table, a_file("a"))])
    conflict(table, message(table, deleted=[a_file("b")]), match="replaces b")


def test_level_and_partition_tell_files_of_one_name_apart(root: str) -> None:
    table = table_of(root, KEYED_PARTITIONED)
    low = a_file("a", keys=(0, 9))
    committer(table).commit([message(table, low, p=1)])
    conflict(table, compaction(table, [low], [], p=2), match="replaces a")
    high = low._replace(level=5)
    conflict(table, compaction(table, [high], [], p=1), match="replaces a")
    committer(table).commit([compaction(table, [low], [high], p=1)])
    assert files(table) == {"a": high}


def test_a_file_is_added_once(root: str) -> None:
    table = table_of(root)
    committer(table).commit([message(table, a_file("a"), a_file("b"))])
    conflict(table, message(table, a_file("a"), deleted=[a_file("b")]), match="adds a, which the table already has")
    conflict(table, message(table, a_file("c"), a_file("c"), deleted=[a_file("b")]), match="names c twice")


def test_duplicates_are_discarded_when_the_table_says_so(root: str) -> None:
    table = table_of(root, commit__discard_duplicate_files="true")
    committer(table).commit([message(table, a_file("a"))])
    made = committer(table).commit([message(table, a_file("a"), a_file("b", rows=3))]).snapshot
    assert made is not None and made.delta_record_count == 3
    assert set(files(table)) == {"a", "b"}


def test_appends_and_compactions_do_not_conflict(root: str) -> None:
    table = table_of(root, KEYED)
    old = a_file("a", keys=(0, 9))
    committer(table).commit([message(table, old)])
    committer(table).commit([message(table, a_file("b", keys=(0, 9)))])
    committer(table).commit([compaction(table, [old], [a_file("c", level=5, keys=(0, 9))])])
    assert set(files(table)) == {"b", "c"}


def test_the_number_of_buckets_of_a_partition_stays(root: str) -> None:
    table = table_of(root, KEYED_PARTITIONED)
    old = a_file("a", keys=(0, 9))
    committer(table).commit([message(table, old, p=1), message(table, a_file("b", keys=(0, 9)), p=2)])
    other = compaction(table, [old], [a_file("c", level=5, keys=(0, 9))], p=1)
    wrong = message(table, a_file("d", keys=(0, 9)), p=1, buckets=4)
    conflict(table, other, _compacting(wrong), match="p=1 has 2 buckets and the commit brings files for 4")
    committer(table).commit([message(table, a_file("e", keys=(0, 9)), p=3, buckets=4)])


def _compacting(given: Any) -> Any:
    return type(given)(given.partition, given.bucket, given.total_buckets, compact=given.data)


def test_an_append_looks_at_buckets_when_an_overwrite_came_since_it_was_planned(root: str) -> None:
    table = table_of(root, KEYED)
    committer(table).commit([message(table, a_file("a", keys=(0, 9)))])
    committer(table).overwrite([message(table, a_file("b", keys=(0, 9)), buckets=4)])
    late = message(table, a_file("c", keys=(0, 9)))
    conflict(table, late, match="has 4 buckets and the commit brings files for 2", planned_on=on(table, 1))
    committer(table).commit([message(table, a_file("c", keys=(0, 9)), buckets=4)], planned_on=on(table, 2))


def test_an_append_whose_writers_do_not_look_is_checked(root: str) -> None:
    table = table_of(root, KEYED, write_only="true", bucket_append_ordered="false")
    committer(table).commit([message(table, a_file("a", keys=(0, 9)))])
    conflict(table, message(table, a_file("b", keys=(0, 9)), buckets=4), match="has 2 buckets")


def test_keys_of_one_level_do_not_overlap(root: str) -> None:
    table = table_of(root, KEYED)
    a, b = a_file("a", keys=(0, 5)), a_file("b", keys=(3, 9))
    committer(table).commit([message(table, a, b)])
    committer(table).commit([compaction(table, [a], [a_file("a2", level=1, keys=(0, 5))])])
    conflict(table, compaction(table, [b], [a_file("b2", level=1, keys=(5, 9))]), match="keys of a2, b2 would overlap")
    committer(table).commit([compaction(table, [b], [a_file("b2", level=2, keys=(5, 9))])])
    c = a_file("c", keys=(5, 9))
    committer(table).commit([message(table, c, bucket=1)])
    committer(table).commit([compaction(table, [c], [c._replace(level=1)], bucket=1)])


def test_a_deletion_vector_is_replaced_by_who_knew_it(root: str) -> None:
    table = table_of(root, deletion_vectors__enabled="true")
    committer(table).commit([message(table, a_file("a"), a_file("b"))])
    first = index_entry(table, "i1", DELETION_VECTORS, "a")
    made = committer(table).commit([message(table, new_index_files=(first,))]).snapshot
    assert made is not None and made.commit_kind is CommitKind.OVERWRITE
    again = index_entry(table, "i2", DELETION_VECTORS, "a")
    conflict(table, message(table, new_index_files=(again,)), match="rows of a were deleted by another commit")
    both = index_entry(table, "i3", DELETION_VECTORS, "a", "b")
    committer(table).commit([message(table, new_index_files=(both,), deleted_index_files=(first,))])
    assert index_names(table) == {"i3"}
    conflict(
        table, message(table, new_index_files=(again,), deleted_index_files=(first,)), match="were deleted by another"
    )


def test_a_file_that_got_a_deletion_vector_is_not_rewritten_by_who_did_not_know(root: str) -> None:
    table = table_of(root, deletion_vectors__enabled="true")
    old = a_file("a")
    vector = index_entry(table, "i1", DELETION_VECTORS, "a")
    committer(table).commit([message(table, old)])
    committer(table).commit([message(table, new_index_files=(vector,))])
    conflict(table, message(table, a_file("b"), deleted=[old]), match="rows of a were deleted by another")
    committer(table).commit([message(table, a_file("b"), deleted=[old], deleted_index_files=(vector,))])
    assert set(files(table)) == {"b"} and index_names(table) == set()
    conflict(table, message(table, new_index_files=(vector,)), match="marks rows of a, which another commit deleted")


def test_vectors_of_a_bucket_are_replaced_by_who_knew_them(root: str) -> None:
    table = table_of(root, KEYED, deletion_vectors__enabled="true")
    a, b = a_file("a", level=1, keys=(0, 4)), a_file("b", level=1, keys=(5, 9))
    fresh = [a_file(f"l{i}", keys=(0, 9)) for i in range(4)]
    committer(table).commit([message(table, a, b, *fresh)])
    first = index_entry(table, "i1", DELETION_VECTORS, "a")
    committer(table).commit([compaction(table, fresh[:1], [], new_index_files=(first,))])
    unaware = index_entry(table, "i2", DELETION_VECTORS, "b")
    conflict(table, compaction(table, fresh[1:2], [], new_index_files=(unaware,)), match="the deletion vectors i1")
    away = a_file("c", level=1, keys=(0, 9))
    conflict(table, compaction(table, [a], [away]), match="rows of a were deleted by another")
    both = index_entry(table, "i4", DELETION_VECTORS, "a", "b")
    known: dict[str, Any] = {"new_index_files": (both,), "deleted_index_files": (first,)}
    committer(table).commit([compaction(table, fresh[1:2], [], **known)])
    conflict(table, compaction(table, fresh[2:3], [], **known), match="the deletion vectors i4")
    assert index_names(table) == {"i4"}


def test_one_job_at_a_time_writes_to_dynamic_buckets(root: str) -> None:
    table = table_of(root, KEYED_PARTITIONED, bucket="-1")
    first = index_entry(table, "h1", HASH, p=1)
    committer(table).commit(
        [message(table, a_file("a", keys=(0, 9)), p=1, new_index_files=(first,))], planned_on=on(table, 0)
    )
    second = index_entry(table, "h2", HASH, p=1)
    late = message(table, a_file("b", keys=(0, 9)), p=1, new_index_files=(second,))
    conflict(table, late, match="dynamic buckets of the same partitions", planned_on=on(table, 0))
    elsewhere = index_entry(table, "h3", HASH, p=2)
    committer(table).commit(
        [message(table, a_file("c", keys=(0, 9)), p=2, new_index_files=(elsewhere,))], planned_on=on(table, 0)
    )
    committer(table).commit([late], planned_on=on(table, 1))
    assert index_names(table) == {"h2", "h3"}


def test_keys_of_dynamic_buckets_must_still_lie_where_writers_found_them(root: str) -> None:
    table = table_of(root, KEYED_PARTITIONED, bucket="-1")
    given = [message(table, a_file(f"a{p}", keys=(0, 9)), p=p, new_index_files=(hashed(table, p),)) for p in (1, 2)]
    committer(table).commit(given, planned_on=on(table, 0))
    committer(table).commit([message(table, a_file("b", keys=(0, 9)), p=1)], planned_on=on(table, 1))
    late = message(table, a_file("c", keys=(0, 9)), p=1)
    committer(table).commit([late], planned_on=on(table, 1))
    committer(table).drop_partitions([{"p": 1}])
    later = message(table, a_file("d", keys=(0, 9)), p=1)
    conflict(table, later, match="changed which keys the dynamic buckets", planned_on=on(table, 3))
    committer(table).commit([message(table, a_file("e", keys=(0, 9)), p=2)], planned_on=on(table, 3))
    assert set(files(table)) == {"a2", "e"}


def hashed(table: TableHandle, p: int) -> IndexManifestEntry:
    entry: IndexManifestEntry = index_entry(table, f"h{p}", HASH, p=p)
    return entry


def test_keys_that_a_rollback_took_are_not_taken_for_known(root: str) -> None:
    table = table_of(root, KEYED_PARTITIONED, bucket="-1")
    for name in ("a", "b"):
        new = message(table, a_file(name, keys=(0, 9)), p=1, new_index_files=(index_entry(table, name, HASH, p=1),))
        committer(table).commit([new])
    base = on(table, 2)
    table.store.delete(table.layout.snapshot_path(2))
    known = message(table, a_file("c", keys=(0, 9)), p=1)
    conflict(table, known, match="snapshot 2, which its writers continued from, is gone", planned_on=base)


def test_two_merges_at_a_time_do_not_add_one_row_twice(root: str) -> None:
    table = table_of(root, PARTITIONED)
    committer(table).commit([message(table, a_file("a"), p=1)], planned_on=on(table, 0), operation="MERGE")
    committer(table).commit([message(table, a_file("b"), p=2)], planned_on=on(table, 0), operation="MERGE")
    committer(table).commit([message(table, a_file("c"), p=3)], operation="WRITE")
    twice = message(table, a_file("d"), p=1)
    conflict(table, twice, match="snapshot 1, a MERGE, added rows", planned_on=on(table, 0), operation="MERGE")
    committer(table).commit([message(table, a_file("e"), p=3)], planned_on=on(table, 0), operation="MERGE")
    committer(table).commit([twice], planned_on=on(table, 1), operation="MERGE")
    assert set(files(table)) == {"a", "b", "c", "d", "e"}


def test_an_empty_table_has_no_file_to_replace(root: str) -> None:
    table = table_of(root)
    conflict(table, message(table, a_file("new"), deleted=[a_file("old")]), match="replaces old")


def test_a_bucket_has_one_hash_index(root: str) -> None:
    table = table_of(root, KEYED, bucket="-1")
    both = (index_entry(table, "h1", HASH), index_entry(table, "h2", HASH))
    with pytest.raises(InvalidInputError, match="two HASH index files for bucket 0, h1 and h2"):
        committer(table).commit([message(table, a_file("a", keys=(0, 9)), new_index_files=both)])


def test_an_overwrite_removes_vectors_that_others_forgot(root: str) -> None:
    table = table_of(root, deletion_vectors__enabled="true")
    forgotten = index_entry(table, "i1", DELETION_VECTORS, "gone")
    committer(table).commit([message(table, a_file("a"), new_index_files=(forgotten,))])
    committer(table).overwrite([message(table, a_file("b"))])
    assert index_names(table) == set() and set(files(table)) == {"b"}


def test_strict_mode_minds_overwrites_and_compactions_of_others(root: str) -> None:
    table = table_of(root, PARTITIONED, commit__strict_mode__last_safe_snapshot="1")
    old = a_file("a")
    committer(table, "other").commit([message(table, old, p=1)])
    committer(table, "other").commit([message(table, deleted=[old], p=1)])
    conflict(table, message(table, a_file("b"), p=1), match="last-safe-snapshot = 1 forbids")
    committer(table).commit([message(table, a_file("b"), p=2)])


def test_a_dropped_or_replaced_table_is_not_committed_to(root: str) -> None:
    table = table_of(root)
    committer(table).commit([message(table, a_file("a"))])
    schema = table.layout.schema_path(0)
    text = table.store.read(schema)
    table.store.write(schema, text.replace(b'"v"', b'"w"'))
    conflict(table, message(table, a_file("b")), match="its schema 0 is another now")
    table.store.delete(schema)
    conflict(table, message(table, a_file("b")), match="was dropped")


def test_a_newer_schema_is_no_conflict_and_is_the_snapshots(root: str) -> None:
    from dataclasses import replace

    from paimon_spark.format.metadata_files import table_schema

    table = table_of(root)
    newer = replace(table.schema, id=1, comment="more")
    table.store.create_exclusive(table.layout.schema_path(1), table_schema.encode(newer))
    committer(table).commit([message(table, a_file("a"))])
    assert get_snapshot(table, 1).schema_id == 1


def test_columns_of_rows_belong_to_the_row_ids_of_one_file(root: str) -> None:
    table = table_of(root, row_tracking__enabled="true", data_evolution__enabled="true")
    committer(table).commit([message(table, a_file("a"), a_file("b"))])
    some: dict[str, Any] = {"write_cols": ("v",), "max_sequence_number": 0}
    committer(table).commit([message(table, a_file("c", first_row_id=10, **some))], planned_on=on(table, 1))
    assert files(table)["c"].max_sequence_number == 2
    for first, rows in ((0, 5), (5, 10), (0, 20)):
        late = message(table, a_file("d", first_row_id=first, rows=rows, **some))
        conflict(table, late, match="holds columns of rows whose files another commit", planned_on=on(table, 2))
    new = message(table, a_file("e", first_row_id=20, **some))  # of rows that no other file has
    committer(table).commit([new], planned_on=on(table, 2))
    old = files(table)
    gone = compaction(table, [old["a"], old["b"], old["c"]], [a_file("f", first_row_id=0, rows=31)])
    conflict(table, gone, match="holds columns of rows whose files another commit")
    part = compaction(table, [old["a"]], [a_file("f", first_row_id=0, rows=20)])
    conflict(table, part, match=r"row ids of . and . would overlap in part")
    done = compaction(table, [old["a"], old["b"], old["c"]], [a_file("f", first_row_id=0, rows=20)])
    committer(table).commit([done])
    assert set(files(table)) == {"e", "f"}


@pytest.mark.parametrize(
    ("theirs", "ours", "clash"),
    [(("v",), ("v",), True), (("v",), ("k",), False), (None, ("k",), True), (("k", "v"), ("v",), True)],
)
def test_two_commits_do_not_change_one_column_of_the_same_rows(
    theirs: tuple[str, ...] | None, ours: tuple[str, ...], clash: bool, root: str
) -> None:
    table = table_of(root, row_tracking__enabled="true", data_evolution__enabled="true")
    committer(table).commit([message(table, a_file("a"), a_file("b"))])
    first = message(table, a_file("c", first_row_id=0, write_cols=theirs))
    committer(table).commit([first], planned_on=on(table, 1))
    late = message(table, a_file("d", first_row_id=0, write_cols=ours))
    if clash:
        conflict(table, late, match=f"2 changed or removed column {ours[0]} in the same files", planned_on=on(table, 1))
    else:
        committer(table).commit([late], planned_on=on(table, 1))
    other = message(table, a_file("e", first_row_id=10, write_cols=ours))
    committer(table).commit([other], planned_on=on(table, 1))
