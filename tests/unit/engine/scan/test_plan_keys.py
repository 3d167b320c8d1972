"""Planning of primary-key tables: what is merged with what, and what may be skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.merge.runs import key_ranks, sections
from paimon_spark.engine.scan.plan import Plan, plan_batch
from paimon_spark.engine.scan.query import Reason, ScanQuery
from paimon_spark.engine.scan.units import MERGE, Units, joined, overlapping, single_files
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.metadata_files.data_file import FileSource
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.types import BIGINT, DOUBLE, INT, STRING, DataField, RowType, TimestampType
from tests.harness.table_builder import File, TableBuilder

ROW = RowType(False, (DataField(0, "k", INT.with_nullable(False)), DataField(1, "v", INT), DataField(2, "p", STRING)))


def table(**options: str) -> TableBuilder:
    given = {"bucket": "1", **{k.replace("_", "-"): v for k, v in options.items()}}
    return TableBuilder(TableSchema(0, ROW, 2, primary_keys=("k",), options=given))


def file(name: str, low: int, high: int, level: int = 0, v: tuple[int, int] | None = None, **more: Any) -> File:
    bounds = {"low": {"k": low}, "high": {"k": high}, "nulls": {"k": 0}}
    if v is not None:
        bounds = {"low": {"k": low, "v": v[0]}, "high": {"k": high, "v": v[1]}, "nulls": {"k": 0, "v": 0}}
    return File(name, level=level, total_buckets=1, **bounds, **more)  # type: ignore[arg-type]


def plan(t: TableBuilder, where: str | None = None, **query: Any) -> Plan:
    CACHE.clear()
    handle = t.open()
    predicate = None if where is None else parse_predicate(where, handle.schema.row_type, "UTC")
    return plan_batch(handle, t.last, ScanQuery(predicate=predicate, **query))


def shape(p: Plan) -> list[tuple[str, list[str]]]:
    return sorted((s.mode.value, sorted(f.file_name for f in s.files)) for s in p.splits)


def test_overlapping_files_are_merged_and_others_are_not() -> None:
    t = table()
    t.commit(file("a", 1, 5), file("b", 5, 9), file("c", 10, 12), file("d", 20, 30, level=5), file("e", 40, 50))
    assert shape(plan(t)) == [("merge", ["a", "b"]), ("raw", ["c", "d", "e"])]


def test_a_file_with_retracts_is_merged_even_alone() -> None:
    t = table()
    t.commit(file("retracts", 1, 5, deletes=1), file("unknown", 6, 9, deletes=None), file("clean", 10, 12))
    assert shape(plan(t)) == [("merge", ["retracts", "unknown"]), ("raw", ["clean"])]


def test_sections_stay_whole_when_splits_are_small() -> None:
    t = table(**{"source.split.target-size": "1 b"})
    t.commit(file("a", 1, 5), file("b", 3, 9), file("c", 8, 12), file("d", 13, 14), file("e", 14, 15))
    assert shape(plan(t)) == [("merge", ["a", "b", "c"]), ("merge", ["d", "e"])]


def test_one_compacted_level_needs_no_merge() -> None:
    t = table()
    t.commit(*(file(f"f{i}", 10 * i, 10 * i + 9, level=5) for i in range(3)))
    assert shape(plan(t)) == [("raw", ["f0", "f1", "f2"])]


def test_two_levels_are_merged_where_they_overlap() -> None:
    t = table()
    t.commit(file("old", 0, 9, level=5), file("new", 5, 6, level=4), file("far", 20, 29, level=5))
    assert shape(plan(t)) == [("merge", ["new", "old"]), ("raw", ["far"])]


def test_deletion_vectors_hide_level_0_and_make_levels_independent() -> None:
    t = table(**{"deletion-vectors.enabled": "true"})
    t.commit(file("l0", 0, 9), file("l4", 5, 6, level=4), file("l5", 0, 9, level=5), vectors={"l5": (1, 2)})
    p = plan(t)
    assert shape(p) == [("raw", ["l4", "l5"])]
    assert [d is not None for d in p.splits[0].deletions] == [f.file_name == "l5" for f in p.splits[0].files]
    assert {s.reason: s.files for s in p.report.skipped} == {Reason.LEVEL: 1}


def test_merge_on_read_brings_level_0_back() -> None:
    t = table(**{"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"})
    t.commit(file("l0", 0, 9), file("l5", 0, 9, level=5), vectors={"l5": (1, 2)})
    (split,) = plan(t).splits
    assert split.mode is SplitMode.MERGE
    assert {f.file_name: d is not None for f, d in zip(split.files, split.deletions, strict=True)} == {
        "l0": False,
        "l5": True,
    }


def test_first_row_hides_level_0() -> None:
    t = table(**{"merge-engine": "first-row"})
    t.commit(file("l0", 0, 9), file("l4", 5, 6, level=4), file("l5", 0, 9, level=5))
    assert shape(plan(t)) == [("raw", ["l4", "l5"])]


def test_manifests_of_hidden_levels_are_not_opened() -> None:
    t = table(**{"deletion-vectors.enabled": "true"})
    t.commit(file("l0", 0, 9))
    t.commit(file("l5", 0, 9, level=5))
    assert plan(t).report.manifests_skipped == 1


def test_files_that_wait_in_a_postponed_bucket_are_not_read() -> None:
    t = table(bucket="-2")
    t.commit(file("waits", 0, 9, bucket=-2), file("real", 0, 9, bucket=0))
    t.commit(file("later", 0, 9, bucket=-2))
    p = plan(t)
    assert shape(p) == [("raw", ["real"])]
    assert p.report.manifests_skipped == 1


def test_key_conditions_skip_files_inside_a_section() -> None:
    t = table(**{"merge-engine": "aggregation"})
    t.commit(file("a", 1, 5), file("b", 4, 9), file("c", 8, 12))
    p = plan(t, "k = 10 AND v > 0")
    assert shape(p) == [("raw", ["c"])]
    assert {s.reason: s.files for s in p.report.skipped} == {Reason.KEY_RANGE: 2}


def test_key_ranges_are_told_by_first_and_last_keys_when_statistics_are_missing() -> None:
    t = table()
    t.commit(File("a", low_key={"k": 1}, high_key={"k": 5}), File("b", low_key={"k": 6}, high_key={"k": 9}))
    assert shape(plan(t, "k < 3")) == [("raw", ["a"])]


@pytest.mark.parametrize("levels", [(0, 0), (0, 5)])
def test_a_largest_key_that_is_not_known_may_be_any(levels: tuple[int, int]) -> None:
    """Early versions of Paimon's Rust library write null for keys of most types, into either end."""
    t = table()
    t.commit(file("known", 4, 6, level=levels[0]), File("rust", level=levels[1], low_key={}, high_key={}))
    assert shape(plan(t)) == [("merge", ["known", "rust"])]
    assert shape(plan(t, "k = 6")) == [("merge", ["known", "rust"])]


def test_a_part_of_a_largest_key_that_is_not_known_may_be_any() -> None:
    row = RowType(False, (DataField(0, "a", INT.with_nullable(False)), DataField(1, "b", INT.with_nullable(False))))
    t = TableBuilder(TableSchema(0, row, 1, primary_keys=("a", "b"), options={"bucket": "1"}))
    t.commit(
        File("rust", low_key={"a": 1}, high_key={"a": 2}),
        File("inside", low_key={"a": 2, "b": 7}, high_key={"a": 2, "b": 8}),
        File("after", low_key={"a": 3, "b": 0}, high_key={"a": 3, "b": 8}),
    )
    assert shape(plan(t)) == [("merge", ["inside", "rust"]), ("raw", ["after"])]


def test_keys_cut_off_at_microseconds_stand_for_the_whole_microsecond() -> None:
    """pypaimon writes TIMESTAMP(9) keys of [...123456001, ...123456789] as [...123456000, ...123456000]."""
    cut, exact = (1_700_000_000_123, 456_000), (1_700_000_000_123, 456_789)
    row = RowType(False, (DataField(0, "k", TimestampType(False, 9)),))
    t = TableBuilder(TableSchema(0, row, 0, primary_keys=("k",), options={"bucket": "1"}))
    t.commit(File("pypaimon", low={"k": cut}, high={"k": cut}, nulls={"k": 0}))
    # Conditions compare microseconds, so that statistics cut off there are right for them.
    assert shape(plan(t, "k = TIMESTAMP '2023-11-14 22:13:20.123456'")) == [("raw", ["pypaimon"])]
    t.commit(File("java", low_key={"k": exact}, high_key={"k": (1_700_000_000_999, 0)}))
    assert shape(plan(t)) == [("merge", ["java", "pypaimon"])]
    section = plan(t).splits[0]
    ranks = key_ranks(section.files, [TimestampType(False, 9)])
    assert [len(s.runs) for s in sections(ranks)] == [2]


def test_a_limit_counts_the_rows_of_compacted_files_only() -> None:
    """Level 0 may hold retracts that nobody counted; so may a file that a compaction only moved down."""
    t = table(**{"source.split.target-size": "1 b"})
    moved = FileSource.APPEND
    t.commit(*(file(f"f{i}", 10 * i, 10 * i + 9, level=5, source=moved if i == 0 else None) for i in range(3)))
    assert [f.file_name for s in plan(t, limit=10).splits for f in s.files] == ["f0", "f1"]
    t.commit(file("new", 40, 49))
    assert len(plan(t, limit=1000).splits) == 4
    assert {s.reason: s.files for s in plan(t, limit=10).report.skipped} == {Reason.LIMIT: 2}


def test_values_skip_single_files_only() -> None:
    t = table()
    t.commit(file("a", 1, 5, v=(0, 9)), file("b", 10, 12, v=(100, 109)))
    assert shape(plan(t, "v = 5")) == [("raw", ["a"])]


def test_values_never_skip_one_file_of_a_section() -> None:
    t = table()
    t.commit(file("old", 1, 5, v=(0, 9)), file("new", 1, 5, v=(100, 109)), file("c", 8, 9, v=(0, 9)))
    # a row with v = 5 in `old` may have been replaced in `new`
    assert shape(plan(t, "v = 5")) == [("merge", ["new", "old"]), ("raw", ["c"])]
    # no version of any row of the section matches
    assert shape(plan(t, "v = 50")) == []


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_values_skip_no_section_whose_rows_are_put_together(engine: str) -> None:
    t = table(**{"merge-engine": engine})
    t.commit(file("a", 1, 5, v=(0, 9)), file("b", 1, 5, v=(100, 109)), file("c", 8, 9, v=(0, 9)))
    assert shape(plan(t, "v = 50")) == [("merge", ["a", "b"])]


def test_values_skip_files_of_deletion_vector_tables_one_by_one() -> None:
    t = table(**{"deletion-vectors.enabled": "true"})
    t.commit(file("l4", 5, 6, level=4, v=(0, 9)), file("l5", 0, 9, level=5, v=(100, 109)))
    assert shape(plan(t, "v = 5")) == [("raw", ["l4"])]


def test_read_optimised_reads_the_last_level() -> None:
    t = table(**{"num-levels": "6"})
    t.commit(file("l0", 0, 9), file("l4", 0, 9, level=4), file("l5", 0, 9, level=5))
    assert shape(plan(t, max_level_only=True)) == [("raw", ["l5"])]


def test_keys_of_several_columns_are_compared_column_by_column() -> None:
    row = RowType(
        False,
        (
            DataField(0, "a", STRING.with_nullable(False)),
            DataField(1, "b", DOUBLE.with_nullable(False)),
            DataField(2, "p", BIGINT.with_nullable(False)),
        ),
    )
    t = TableBuilder(
        TableSchema(0, row, 2, partition_keys=("p",), primary_keys=("p", "a", "b"), options={"bucket": "1"})
    )

    def key(name: str, low: tuple[str, float], high: tuple[str, float], p: int = 1) -> File:
        return File(
            name,
            {"p": p},
            low_key={"a": low[0], "b": low[1]},
            high_key={"a": high[0], "b": high[1]},
        )

    t.commit(
        key("1", ("a", 1.0), ("a", 9.0)),
        key("2", ("a", 9.5), ("b", -1.0)),
        key("3", ("b", -0.0), ("b", -0.0)),
        key("4", ("b", 0.0), ("é", float("nan"))),
        key("5", ("é", float("inf")), ("é", float("nan"))),
        key("6", ("a", 1.0), ("z", 1.0), p=2),
    )
    assert shape(plan(t)) == [("merge", ["4", "5"]), ("raw", ["1", "2", "3"]), ("raw", ["6"])]


def test_the_place_of_merged_rows_is_refused() -> None:
    t = table()
    t.commit(file("a", 1, 5))
    assert plan(t, columns=("k", "__paimon_file_path")).splits
    t.commit(file("b", 1, 5))
    for name in ("__paimon_file_path", "__paimon_row_index"):
        with pytest.raises(UnsupportedFeatureError, match=f"{name} of table .*merged from several files"):
            plan(t, columns=("k", name))
    assert plan(t, columns=("k", "__paimon_bucket")).splits


ranges = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 8)).map(lambda t: (t[0], t[1], t[1] + t[2])),
    min_size=1,
    max_size=25,
)


@given(ranges)
def test_sections_are_the_finest_parts_without_a_common_key(files: list[tuple[int, int, int]]) -> None:
    groups, low, high = (np.array([f[i] for f in files], np.int64) for i in range(3))
    units = overlapping(groups, low, high, MERGE)
    assert sorted(units.files.tolist()) == list(range(len(files)))
    ends = [*units.starts.tolist()[1:], len(files)]
    parts = [units.files[a:b].tolist() for a, b in zip(units.starts.tolist(), ends, strict=True)]
    for part, group in zip(parts, units.groups.tolist(), strict=True):
        assert {files[i][0] for i in part} == {group}
        assert len(connected(part, files)) == len(part)
    for i, one in enumerate(parts):
        for other in parts[i + 1 :]:
            assert not any(touch(files[a], files[b]) for a in one for b in other)


def touch(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    return a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2]


def connected(part: list[int], files: list[tuple[int, int, int]]) -> set[int]:
    found, queue = {part[0]}, [part[0]]
    while queue:
        a = queue.pop()
        for b in part:
            if b not in found and touch(files[a], files[b]):
                found.add(b)
                queue.append(b)
    return found


def test_huge_ranges_do_not_overflow() -> None:
    groups = np.array([0, 0, 1, 1], np.int64)
    low = np.array([0, 2**61, 0, 2**61 - 5], np.int64)
    high = np.array([2**61 - 1, 2**62, 2**61, 2**61 + 9], np.int64)
    units = overlapping(groups, low, high, MERGE)
    assert units.sizes.tolist() == [1, 1, 2]


@given(ranges, st.lists(st.booleans(), min_size=60, max_size=60))
def test_kept_units_keep_their_files(files: list[tuple[int, int, int]], chosen: list[bool]) -> None:
    groups, low, high = (np.array([f[i] for f in files], np.int64) for i in range(3))
    both = joined(single_files(groups, 0, low), renumbered(overlapping(groups, low, high, MERGE), len(files)))
    mask = np.array(chosen[: len(both)], np.bool_)
    kept = both.keep(mask)
    assert parts_of(kept) == [p for p, ok in zip(parts_of(both), mask.tolist(), strict=True) if ok]
    assert [g for g, _ in sorted(zip(both.groups.tolist(), both.modes.tolist(), strict=True))] == both.groups.tolist()


def renumbered(units: Units, by: int) -> Units:
    return Units(units.files + by, units.starts, units.groups, units.modes)


def parts_of(units: Units) -> list[list[int]]:
    if not len(units):
        return []
    ends = [*units.starts.tolist()[1:], len(units.files)]
    return [units.files[a:b].tolist() for a, b in zip(units.starts.tolist(), ends, strict=True)]
