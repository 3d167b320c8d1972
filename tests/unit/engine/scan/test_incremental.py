"""Incremental reads between two versions: by delta, changelog or difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.engine.scan.incremental import plan_incremental
from paimon_spark.engine.scan.plan import Plan
from paimon_spark.engine.scan.query import Reason, ScanQuery
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.errors import InvalidInputError, InvalidOptionError, SnapshotExpiredError
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.metadata.resolve import BETWEEN, resolve_range
from paimon_spark.options.scan import Incremental, IncrementalMode
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import INT, DataField, RowType
from tests.harness.real_tables import a_catalog
from tests.harness.table_builder import File, TableBuilder

ROW = RowType(False, (DataField(0, "k", INT.with_nullable(False)), DataField(1, "v", INT)))


def keyed(**options: str) -> TableBuilder:
    return TableBuilder(TableSchema(0, ROW, 1, primary_keys=("k",), options={"bucket": "1", **options}))


def appended(**options: str) -> TableBuilder:
    return TableBuilder(TableSchema(0, ROW, 1, options={"bucket": "-1", **options}))


def file(name: str, low: int = 0, high: int = 9, **more: Any) -> File:
    more.setdefault("total_buckets", 1)
    return File(name, low={"k": low}, high={"k": high}, nulls={"k": 0}, **more)


def plan(
    t: TableBuilder, between: str, mode: IncrementalMode = IncrementalMode.AUTO, where: str | None = None, **asked: Any
) -> Plan:
    CACHE.clear()
    found = resolve_range(t.open(), BETWEEN, between)
    predicate = None if where is None else parse_predicate(where, ROW, "UTC")
    return plan_incremental(found, ScanQuery(predicate=predicate), Incremental(BETWEEN, between, mode, **asked))


def names(p: Plan) -> list[str]:
    return sorted(f.file_name for s in p.splits for f in s.files)


def diff(p: Plan) -> list[tuple[list[str], list[str]]]:
    assert {s.mode for s in p.splits} <= {SplitMode.DIFF}
    return sorted((sorted(f.file_name for f in s.before_files), sorted(f.file_name for f in s.files)) for s in p.splits)


def test_delta_gives_the_files_that_appends_added() -> None:
    t = keyed()
    a, b = file("a"), file("b")
    t.commit(a)
    t.commit(b)
    t.commit(file("ab", level=5), deletes=[a, b], kind=CommitKind.COMPACT)
    t.commit(file("c"))
    t.commit(file("d"), kind=CommitKind.OVERWRITE)
    p = plan(t, "1,5")
    assert names(p) == ["b", "c"]
    assert {s.mode for s in p.splits} == {SplitMode.CHANGES}
    assert p.snapshot is not None
    assert p.snapshot.id == 5
    assert names(plan(t, "0,5")) == ["a", "b", "c"]
    assert names(plan(t, "3,3")) == []


def test_rows_of_append_tables_are_read_as_they_lie_without_vectors() -> None:
    t = appended()
    t.commit(file("a"), vectors={"a": (1, 1)})
    t.commit(file("b"))
    (split,) = plan(t, "0,2").splits
    assert split.mode is SplitMode.RAW
    assert split.deletions == ()


def test_an_append_that_removed_files_is_refused() -> None:
    t = appended()
    a = file("a")
    t.commit(a)
    t.commit(file("b"), deletes=[a])
    with pytest.raises(InvalidInputError, match=r"snapshot 2 of .* removed files"):
        plan(t, "0,2")
    assert names(plan(t, "1,2", IncrementalMode.DIFF)) == ["b"]


def test_auto_takes_the_changelog_where_there_is_one() -> None:
    t = keyed(**{"changelog-producer": "input"})
    t.commit(file("a"), changelog=[file("log-a")])
    t.commit(file("b"), changelog=[file("log-b")])
    t.commit(file("c"), changelog=[file("log-c")], kind=CommitKind.OVERWRITE)
    t.commit(file("d"), kind=CommitKind.COMPACT)
    assert names(plan(t, "0,4")) == ["log-a", "log-b"]
    assert names(plan(t, "0,4", IncrementalMode.DELTA)) == ["a", "b"]


def test_changes_are_skipped_by_statistics_row_by_row() -> None:
    t = keyed()
    t.commit(file("a", 0, 9), file("b", 5, 20))
    assert names(plan(t, "0,1", where="k = 15")) == ["b"]


def test_level_0_is_not_hidden_from_changes() -> None:
    t = keyed(**{"merge-engine": "first-row"})
    t.commit(file("a"))
    assert names(plan(t, "0,1")) == ["a"]


def test_diff_compares_sections_that_changed() -> None:
    t = keyed()
    a, b, c = file("a", 0, 9), file("b", 20, 29), file("c", 40, 49)
    t.commit(a, b, c)
    t.commit(file("a2", 5, 6))
    t.commit(deletes=[c], kind=CommitKind.OVERWRITE)
    t.commit(file("new", 60, 69))
    p = plan(t, "1,4", IncrementalMode.DIFF)
    assert diff(p) == [([], ["new"]), (["a"], ["a", "a2"]), (["c"], [])]
    assert {s.reason: s.files for s in p.report.skipped} == {Reason.UNCHANGED: 2}


def test_a_new_deletion_vector_is_a_change() -> None:
    t = keyed(**{"deletion-vectors.enabled": "true"})
    t.commit(file("a", level=5), file("b", 20, 29, level=5))
    t.commit(vectors={"a": (1, 1)}, kind=CommitKind.OVERWRITE)
    p = plan(t, "1,2", IncrementalMode.DIFF)
    assert diff(p) == [(["a"], ["a"])]
    assert p.splits[0].before_deletions == ()
    assert p.splits[0].deletions[0] is not None


def test_two_tags_are_compared_unless_told_otherwise() -> None:
    t = keyed()
    first = t.commit(file("a"))
    last = t.commit(file("b", 5, 6))
    t.table.tag("one", first).tag("two", last)
    assert diff(plan(t, "one,two")) == [(["a"], ["a", "b"])]
    assert names(plan(t, "one,two", tags_are_snapshots=True)) == ["b"]


def test_append_tables_differ_by_their_new_files() -> None:
    t = appended()
    a = file("a")
    t.commit(a)
    t.commit(file("b"))
    t.commit(file("c"), deletes=[a], kind=CommitKind.OVERWRITE)
    assert names(plan(t, "1,3", IncrementalMode.DIFF)) == ["b", "c"]
    assert names(plan(t, "0,1", IncrementalMode.DIFF)) == ["a"]


def test_states_with_other_bucket_numbers_are_compared_together() -> None:
    t = keyed()
    a = file("a")
    t.commit(a)
    halves = [file(name, bucket=n, total_buckets=2) for n, name in enumerate("bc")]
    t.commit(*halves, deletes=[a], kind=CommitKind.OVERWRITE)
    (split,) = plan(t, "1,2", IncrementalMode.DIFF).splits
    assert ([f.file_name for f in split.before_files], [f.file_name for f in split.files]) == (["a"], ["b", "c"])
    paths = [split.path_of(f) for f in (*split.before_files, *split.files)]
    assert [path.rsplit("/", 2)[1] for path in paths] == ["bucket-0", "bucket-0", "bucket-1"]


def test_an_expired_snapshot_in_between_is_an_error() -> None:
    t = keyed()
    first = t.commit(file("a"))
    t.commit(file("b"))
    t.commit(file("c"))
    t.table.tag("one", first)
    t.table.delete(t.table.layout().snapshot_path(1))
    t.table.delete(t.table.layout().snapshot_path(2))
    with pytest.raises(SnapshotExpiredError, match="snapshot 2 of"):
        plan(t, "one,3")
    assert diff(plan(t, "one,3", IncrementalMode.DIFF)) == [(["a"], ["a", "b", "c"])]


def test_an_automatic_tag_that_was_not_made_has_no_changes(tmp_path: Path) -> None:
    catalog = a_catalog(tmp_path)
    t = catalog.create_table("db.t", pa.schema([("k", pa.int64())]))

    def changed(tag: str) -> list[list[int]]:
        asked = {"incremental-to-auto-tag": tag}
        views = (catalog.table(f"db.{name}") for name in ("t", "t$audit_log", "t$branch_main"))
        return [view.scan(**asked).to_arrow()["k"].to_pylist() for view in views]

    assert changed("2020-01-02") == [[], [], []], "nor has a table without snapshots"
    for day in (1, 3):
        t.write(pa.table({"k": [day]}))
        t.create_tag(f"2020-01-0{day}")
    assert changed("2020-01-02") == [[], [], []]
    assert changed("2020-01-01") == [[], [], []], "there is none before it"
    assert changed("2020-01-03") == [[3], [3], [3]]
    assert t.scan(**{"incremental-to-auto-tag": "2020-01-02"}).plan().snapshot is None
    with pytest.raises(InvalidOptionError, match="makes no tags by time"):
        changed("v1")
