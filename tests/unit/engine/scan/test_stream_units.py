"""Files that a stream reads of a snapshot, and their order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from paimon_spark.engine.scan.incremental import Content
from paimon_spark.engine.scan.query import Reason, ScanQuery
from paimon_spark.engine.scan.stream_units import plan_whole
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.errors import (
    FileMissingError,
    InvalidInputError,
    SnapshotExpiredError,
    UnsupportedFeatureError,
)
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.types import INT, DataField, RowType
from tests.harness.planned import QUERY, ROW, appended, by_day, file, keyed, names, unit_names, units, where
from tests.harness.table_builder import TableBuilder


def test_a_unit_of_an_append_table_is_a_file() -> None:
    t = appended()
    t.commit(file("a", size=100, rows=3), file("b", size=200, rows=4))
    t.commit(file("c", size=300, rows=5))
    u = units(t, Content.STATE)
    assert unit_names(u) == [["a"], ["b"], ["c"]]
    assert u.files.tolist() == [1, 1, 1]
    assert u.size_bytes.tolist() == [100, 200, 300]
    assert u.row_counts.tolist() == [3, 4, 5]
    assert {s.mode for s in u.splits(0, 3)} == {SplitMode.RAW}
    assert unit_names(units(t, Content.DELTA)) == [["c"]]


def test_an_empty_commit_has_no_units() -> None:
    t = appended()
    t.commit()
    for content in (Content.STATE, Content.DELTA, Content.CHANGELOG):
        u = units(t, content)
        assert len(u) == 0
        assert u.splits(0, 0) == ()
    assert len(units(keyed_after_nothing(), Content.OVERWRITE)) == 0


def keyed_after_nothing() -> TableBuilder:
    t = keyed()
    t.commit(kind=CommitKind.OVERWRITE)
    return t


def test_units_are_in_the_order_of_partition_bytes_bucket_and_age() -> None:
    t = by_day()
    t.commit(
        file("z1", partition={"p": "z"}, bucket=1, sequence=(10, 19)),
        file("a1 late", partition={"p": "a"}, bucket=1, sequence=(30, 39)),
        file("z0", partition={"p": "z"}, bucket=0),
        file("a1 early", partition={"p": "a"}, bucket=1, sequence=(20, 29)),
        file("a0", partition={"p": "a"}, bucket=0),
    )
    assert unit_names(units(t, Content.DELTA)) == [["a0"], ["a1 early"], ["a1 late"], ["z0"], ["z1"]]
    assert unit_names(units(t, Content.STATE)) == [["a0"], ["a1 late", "a1 early"], ["z0"], ["z1"]]


def test_the_order_and_its_digest_are_kept_by_every_release() -> None:
    """Checkpoints count units: were these texts to change, running queries would have to begin anew."""
    t = by_day()
    x, y = {"p": "x"}, {"p": "y"}
    a, b = file("a", 0, 9, partition=x), file("b", 5, 20, partition=x, sequence=(10, 19))
    log = [file("log", partition=y)]
    t.commit(a, b, file("c", 40, 50, partition=x), file("d", partition=y, bucket=1), changelog=log)
    assert units(t, Content.STATE).digest == "f8c81e4b11ca12b1"
    assert units(t, Content.DELTA).digest == "1f8dd571e993df2b"
    assert units(t, Content.CHANGELOG).digest == "ce192b7c4cef166c"
    t.commit(file("e", 3, 4, partition=x), deletes=[a, b], kind=CommitKind.OVERWRITE)
    assert units(t, Content.OVERWRITE).digest == "cf41be8d0462cb6f"
    assert unit_names(units(t, Content.STATE)) == [["e"], ["c"], ["d"]]


def test_the_digest_tells_other_files_and_other_units() -> None:
    digests = set()
    for files in (["a"], ["b"], ["a", "b"], ["b", "a"], ["ab"]):
        t = appended()
        t.commit(*map(file, files))
        digests.add(units(t, Content.STATE).digest)
    assert len(digests) == 5
    t = keyed()
    t.commit(file("a", 0, 20), file("b", 15, 30))
    assert len(units(t, Content.STATE)) == 1
    assert units(t, Content.STATE).digest not in digests


def test_a_condition_leaves_out_units_and_the_digest_tells() -> None:
    t = appended()
    t.commit(file("a", 0, 9), file("b", 10, 19))
    u = units(t, Content.DELTA, where("k > 12"))
    assert unit_names(u) == [["b"]]
    assert [s.reason for s in u.report.skipped] == [Reason.STATISTICS]
    assert u.digest != units(t, Content.DELTA).digest
    t = by_day()
    t.commit(file("x", partition={"p": "x"}), file("y", partition={"p": "y"}))
    assert unit_names(units(t, Content.DELTA, where("p = 'y'"))) == [["y"]]
    assert unit_names(units(t, Content.STATE, where("p = 'y'"))) == [["y"]]


def test_changes_are_not_merged_and_have_no_vectors() -> None:
    t = keyed(**{"deletion-vectors.enabled": "true"})
    t.commit(file("a"), file("b"), vectors={"a": (1, 1)})
    (split,) = units(t, Content.DELTA).splits(0, 2)
    assert split.mode is SplitMode.CHANGES
    assert split.deletions == ()


def test_deletion_vectors_count_in_a_state() -> None:
    t = appended()
    t.commit(file("a"), file("b"), vectors={"b": (7, 2)})
    u = units(t, Content.STATE)
    assert u.splits(0, 1)[0].deletions == ()
    (vector,) = u.splits(1, 2)[0].deletions
    assert vector is not None
    assert vector.offset == 7


def test_the_changelog_of_any_commit_is_read() -> None:
    t = keyed(**{"changelog-producer": "lookup"})
    t.commit(file("a"))
    compacted = t.commit(file("b", level=5), deletes=[], kind=CommitKind.COMPACT, changelog=[file("log 1")])
    overwritten = t.commit(file("c"), kind=CommitKind.OVERWRITE, changelog=[file("log 2"), file("log 3", bucket=1)])
    assert unit_names(units(t, Content.CHANGELOG, snapshot=compacted)) == [["log 1"]]
    assert unit_names(units(t, Content.CHANGELOG, snapshot=overwritten)) == [["log 2"], ["log 3"]]


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, ["l0", "l1", "l5"]),
        ({"changelog-producer": "input"}, ["l0", "l1", "l5"]),
        ({"changelog-producer": "lookup"}, ["l1", "l5"]),
        ({"changelog-producer": "full-compaction"}, ["l5"]),
        ({"changelog-producer": "full-compaction", "num-levels": "2"}, ["l1", "l5"]),
        ({"deletion-vectors.enabled": "true"}, ["l0", "l1", "l5"]),
        ({"merge-engine": "first-row"}, ["l0", "l1", "l5"]),
        ({"merge-engine": "first-row", "changelog-producer": "lookup"}, ["l1", "l5"]),
    ],
)
def test_a_state_holds_what_no_later_change_tells_of(options: dict[str, str], seen: list[str]) -> None:
    t = keyed(**options)
    t.commit(file("l0"), file("l1", level=1), file("l5", level=5))
    u = units(t, Content.STATE)
    assert sorted(names(u.splits(0, len(u)))) == seen


def test_a_state_is_of_inserts() -> None:
    t = keyed()
    t.commit(file("a"))
    assert units(t, Content.STATE).request.as_inserts
    assert not units(t, Content.DELTA).request.as_inserts
    assert t.last is not None
    assert plan_whole(t.open(), [(t.last, Content.STATE)], QUERY).request.as_inserts
    assert not plan_whole(t.open(), [(t.last, Content.DELTA)], QUERY).request.as_inserts


@pytest.fixture(params=[("UTC", 0), ("Asia/Kolkata", 19_800_000)], ids=["utc", "kolkata"])
def offset_ms(request: pytest.FixtureRequest) -> Iterator[int]:
    """By how much the machine's clock on the wall is ahead of UTC."""
    zone, offset = request.param
    with pytest.MonkeyPatch.context() as around:
        around.setenv("TZ", zone)
        time.tzset()
        yield offset
    time.tzset()


@pytest.mark.parametrize("content", [Content.STATE, Content.DELTA, Content.CHANGELOG])
def test_files_made_before_a_moment_are_left_out(content: Content, offset_ms: int) -> None:
    t = appended()  # manifests hold the wall clock of the writer
    files = [file("old", created_ms=999 + offset_ms), file("new", created_ms=1000 + offset_ms)]
    t.commit(*files, changelog=files)
    u = units(t, content, replace(QUERY, created_since_ms=1000))
    assert unit_names(u) == [["new"]]
    assert [s.reason for s in u.report.skipped] == [Reason.CREATED]


def test_a_whole_range_keeps_to_the_moment_of_the_query() -> None:
    t = appended()
    old = t.commit(file("old", created_ms=1))
    new = t.commit(file("new", created_ms=2_000_000_000_000))
    query = replace(QUERY, created_since_ms=1_000_000_000_000)
    assert names(plan_whole(t.open(), [(old, Content.DELTA), (new, Content.DELTA)], query).splits) == ["new"]


def test_an_append_that_removed_files_is_refused() -> None:
    t = appended()
    a = file("a")
    first = t.commit(a)
    second = t.commit(file("b"), deletes=[a])
    with pytest.raises(InvalidInputError, match=r"snapshot 2 of .* removed files"):
        units(t, Content.DELTA)
    with pytest.raises(InvalidInputError, match=r"snapshot 2 of .* removed files"):
        plan_whole(t.open(), [(first, Content.DELTA), (second, Content.DELTA)], QUERY)


def test_of_an_overwrite_of_an_append_table_what_it_added_is_read() -> None:
    t = appended()
    a, passing = file("a"), file("passing")
    t.commit(a)
    t.commit(file("b"), passing, deletes=[a, passing], kind=CommitKind.OVERWRITE)
    assert unit_names(units(t, Content.DELTA)) == [["b"]]


def test_a_file_that_comes_back_after_another_commit_removed_it_counts() -> None:
    t = appended()
    a = file("a")
    wanted = [(t.commit(a), Content.DELTA)]
    wanted.append((t.commit(deletes=[a], kind=CommitKind.OVERWRITE), Content.DELTA))
    wanted.append((t.commit(a), Content.DELTA))
    assert names(plan_whole(t.open(), wanted, QUERY).splits) == ["a", "a"]


def test_metadata_that_is_gone_is_named_with_its_snapshot() -> None:
    t = appended()
    gone = t.commit(file("a"))
    t.commit(file("b"))
    t.table.delete(f"{t.table.root}/manifest/{gone.delta_manifest_list}")
    CACHE.clear()
    with pytest.raises(FileMissingError, match=r"manifest-list-main-1-1 of snapshot 1 .* alive are 1 to 2"):
        plan_whole(t.open(), [(gone, Content.DELTA)], QUERY)


def test_the_place_of_changed_rows_of_keys_is_refused() -> None:
    t = keyed()
    t.commit(file("a"))
    u = units(t, Content.DELTA, ScanQuery(columns=("k", "__paimon_file_path")))
    with pytest.raises(UnsupportedFeatureError, match="__paimon_file_path"):
        u.splits(0, 1)


def test_files_of_evolving_rows_stay_together_only_within_a_commit() -> None:
    t = appended(**{"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    x = {"first_row_id": 0}
    first = t.commit(
        file("x1", write_cols=("k",), **x), file("x2", write_cols=("v", "p"), **x), file("y", first_row_id=10),
        next_row_id=20,
    )  # fmt: skip
    second = t.commit(file("x3", write_cols=("v",), **x), file("z", write_cols=("k",), first_row_id=20), next_row_id=30)
    assert [sorted(n) for n in unit_names(units(t, Content.STATE))] == [["x1", "x2", "x3"], ["y"], ["z"]]
    assert [sorted(n) for n in unit_names(units(t, Content.DELTA, snapshot=first))] == [["x1", "x2"], ["y"]]
    u = units(t, Content.DELTA, snapshot=second)
    assert unit_names(u) == [["z"]], "x3 changes rows that were there, which a stream of new rows passes over"
    assert [(s.reason, s.files) for s in u.report.skipped] == [(Reason.UPDATED, 1)]
    splits = plan_whole(t.open(), [(first, Content.DELTA), (second, Content.DELTA)], QUERY).splits
    assert [sorted(names([s])) for s in splits] == [["x1", "x2", "y"], ["z"]]


def test_whether_evolving_rows_are_new_cannot_be_told_without_the_snapshot_before() -> None:
    t = appended(**{"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    t.commit(file("x", first_row_id=0), next_row_id=10)
    whole = t.commit(file("y", first_row_id=10), next_row_id=20)
    part = t.commit(file("z", first_row_id=20, write_cols=("v",)), next_row_id=30)
    t.table.delete(t.table.layout().snapshot_path(1))
    assert unit_names(units(t, Content.DELTA, snapshot=whole)) == [["y"]]
    assert unit_names(units(t, Content.DELTA, snapshot=part)) == [["z"]]
    t.table.delete(t.table.layout().snapshot_path(2))
    with pytest.raises(SnapshotExpiredError, match=r"snapshot 3 of .* added files with some columns"):
        units(t, Content.DELTA, snapshot=part)


def test_files_of_older_schemas_are_read_with_them() -> None:
    t = appended()
    t.commit(file("old"))
    wider = RowType(False, (*ROW.fields, DataField(3, "w", INT)))
    t.evolve(TableSchema(1, wider, 3, options=t.schema.options))
    snapshot = t.commit(file("new", schema_id=1))
    u = units(t, Content.STATE)
    assert sorted(u.request.file_schemas) == [0, 1]
    assert u.request.columns == ("k", "v", "p", "w")
    assert sorted(units(t, Content.DELTA, snapshot=snapshot).request.file_schemas) == [1]
