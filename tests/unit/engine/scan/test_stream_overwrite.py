"""Stream reads of an overwrite of a table with keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.engine.scan.incremental import Content
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.errors import (
    SnapshotExpiredError,
)
from paimon_spark.format.metadata_files.snapshot import CommitKind
from tests.harness.planned import file, keyed, names, units, where


def test_an_overwrite_puts_overlapping_files_of_both_sides_together() -> None:
    t = keyed()
    a, b, kept = file("a", 0, 9), file("b", 20, 29), file("kept", bucket=1)
    t.commit(a, b, kept)
    t.commit(file("new", 5, 12), file("far", 40, 49), deletes=[a, b], kind=CommitKind.OVERWRITE)
    u = units(t, Content.OVERWRITE)
    splits = u.splits(0, len(u))
    assert {s.mode for s in splits} == {SplitMode.REPLACED}
    sides = [([f.file_name for f in s.before_files], names([s])) for s in splits]
    assert sides == [(["a"], ["new"]), (["b"], []), ([], ["far"])]
    assert u.files.tolist() == [2, 1, 1]
    assert u.splits(1, 2) == splits[1:2]


def test_a_file_that_an_overwrite_both_removes_and_adds_changes_nothing() -> None:
    t = keyed()
    a, b = file("a", 0, 9), file("b", 20, 29)
    t.commit(a, b)
    t.commit(a, deletes=[a, b], kind=CommitKind.OVERWRITE)
    (split,) = units(t, Content.OVERWRITE).splits(0, 1)
    assert [f.file_name for f in split.before_files] == ["b"]


def test_an_overwrite_counts_the_vectors_of_the_snapshot_before() -> None:
    t = keyed(**{"deletion-vectors.enabled": "true"})
    a = file("a", level=5)
    t.commit(a, vectors={"a": (7, 2)})
    t.commit(deletes=[a], kind=CommitKind.OVERWRITE, vectors={})
    (split,) = units(t, Content.OVERWRITE).splits(0, 1)
    (vector,) = split.before_deletions
    assert vector is not None
    assert vector.offset == 7
    assert t.last is not None
    t.table.delete(t.table.layout().snapshot_path(t.last.id - 1))
    with pytest.raises(SnapshotExpiredError, match=r"snapshot 2 of .* overwrote files"):
        units(t, Content.OVERWRITE)


def test_an_overwrite_skips_what_no_row_matches_but_where_rows_are_put_together() -> None:
    for options, found in (({}, 1), ({"merge-engine": "partial-update"}, 2)):
        t = keyed(**options)
        a = replace(file("a", 0, 9), low={"k": 0, "v": 1}, high={"k": 9, "v": 1}, nulls={"k": 0, "v": 0})
        b = replace(a, name="b", low={"k": 20, "v": 5}, high={"k": 29, "v": 5})
        t.commit(a, b)
        t.commit(deletes=[a, b], kind=CommitKind.OVERWRITE)
        assert len(units(t, Content.OVERWRITE, where("v = 5"))) == found
