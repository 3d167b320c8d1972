"""Batches of a stream source: initial state, changes, and following another job."""

from __future__ import annotations

import dataclasses
import tracemalloc
from itertools import chain
from typing import Any

import pytest

from paimon_spark.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    InvalidOptionError,
    OffsetError,
    PaimonError,
    SchemaChangedError,
    SnapshotExpiredError,
    StorageError,
)
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.options.stream_read import ReadLimits
from paimon_spark.streaming.offset import Part, Phase, StreamOffset
from paimon_spark.streaming.source import StreamSource
from paimon_spark.types import BIGINT, STRING, DataField, RowType
from tests.harness.commits import a_file, committer, message
from tests.harness.fault_store import Fault
from tests.harness.history import History
from tests.harness.streams import again, batches, names, stream, table_of
from tests.harness.table_builder import File, TableBuilder

APPEND, COMPACT, OVERWRITE, ANALYZE = CommitKind
ROW = RowType(False, (DataField(0, "k", BIGINT.with_nullable(False)), DataField(1, "v", STRING)))
ONE = ReadLimits(max_files=1)
TWO = ReadLimits(max_files=2)
ALL = ReadLimits()


class Table(TableBuilder):
    """Tables whose commits are few words: `add("a b")` commits two files. Every file has keys of its own."""

    made = 0

    def files(self, text: str) -> list[File]:
        found = []
        for name in text.split():
            self.made += 1
            low, high = {"k": self.made * 10}, {"k": self.made * 10 + 9}
            total = int(self.schema.options["bucket"])
            found.append(File(name, low=low, high=high, nulls={"k": 0, "v": 0}, total_buckets=total))
        return found

    def add(self, text: str = "", kind: CommitKind = APPEND, changelog: str = "", **changes: Any) -> Snapshot:
        made = self.commit(*self.files(text), kind=kind, changelog=self.files(changelog))
        self.last = dataclasses.replace(made, **changes)
        self.table.snapshots([self.last])
        return self.last

    def stream(self, around: dict[str, Any] | None = None, **options: str) -> StreamSource:
        CACHE.clear()
        return stream(self.open(), around=around, **options)


def appended(**options: str) -> Table:
    return Table(TableSchema(0, ROW, 2, options={"bucket": "-1", **options}))


def keyed(**options: str) -> Table:
    return Table(TableSchema(0, ROW, 2, primary_keys=("k",), options={"bucket": "1", **options}))


def all_batches(source: StreamSource, limits: ReadLimits | None = None) -> list[list[str]]:
    return [sorted(files) for _, files in batches(source, again(source.first()), limits)]


# --- what is read


def test_a_table_without_snapshots_is_waited_for() -> None:
    for mode, later in (("latest-full", [["a", "b"], ["c"]]), ("latest", [["a"], ["b"], ["c"]])):
        table = appended()
        source = table.stream(scan__mode=mode)
        start = source.first()
        assert start.snapshot_id is None and source.next(start) == start and source.newest() is None
        assert source.plan(start, start).splits == ()
        table.add("a"), table.add("b")
        found = list(batches(source, again(start), None if mode == "latest-full" else ONE))
        table.add("c")
        found += batches(source, again(source.newest() or start))
        assert [sorted(files) for _, files in found] == later


def test_a_state_comes_before_the_changes_and_never_with_them() -> None:
    table = appended()
    table.add("a b"), table.add("c")
    source = table.stream()
    start = source.first()
    table.add("d"), table.add("e")
    assert [files for _, files in batches(source, again(start))] == [["a", "b", "c"], ["d", "e"]]
    limited = [files for _, files in batches(source, again(start), TWO)]
    assert limited == [["a", "b"], ["c"], ["d", "e"]]


def test_a_stream_that_follows_a_job_reads_up_to_where_that_had_read() -> None:
    table = appended()
    table.add("a"), table.add("b")
    source = table.stream(lineage__follow="etl 1", lineage__job="etl 2")
    start = source.first()
    table.add("c"), table.add("d")
    assert source.next_up_to(start, 0, 0).position == start  # the job had read nothing yet
    state = source.next_up_to(start, 3, 2)
    assert (state.snapshot_id, state.barrier, names(source, start, state)) == (2, 3, ["a", "b"])
    behind = source.next_up_to(again(state), 4, 1)
    assert (behind.snapshot_id, behind.barrier, names(source, state, behind)) == (2, 4, [])  # never back
    later = source.next_up_to(again(behind), 5, 3)
    assert (later.snapshot_id, later.barrier, names(source, behind, later)) == (3, 5, ["c"])
    assert source.next_up_to(later, 6, 9) == later  # the branch does not have it yet


def test_a_stream_that_follows_a_job_goes_on_from_offsets_of_its_own() -> None:
    table = appended()
    table.add("a b"), table.add("c d"), table.add("e")
    alone = table.stream(scan__mode="latest-full")
    start = alone.first()
    in_state = alone.next(start, ONE)
    source = table.stream(lineage__follow="etl 1", lineage__job="etl 2")
    rest = source.next_up_to(again(in_state), 0, 1)
    assert (rest.snapshot_id, rest.part, rest.barrier) == (3, None, None)
    in_changes = table.stream(scan__snapshot_id="2").next(StreamOffset(start.table, "main", 1), ONE)
    end = source.next_up_to(again(in_changes), 1, 2)
    assert (end.snapshot_id, end.part, end.barrier, names(source, in_changes, end)) == (2, None, 1, ["d"])


def test_what_a_followed_job_had_read_may_have_expired() -> None:
    table = appended()
    for name in "abc":
        table.add(name)
    source = table.stream(lineage__follow="etl 1", lineage__job="etl 2")
    table.open().store.delete(f"{table.open().layout.snapshot_dir}/snapshot-1")
    with pytest.raises(SnapshotExpiredError, match="snapshot 1"):
        source.next_up_to(source.first(), 0, 1)


@pytest.mark.parametrize("limits", [ALL, ONE])
def test_snapshots_that_hold_nothing_are_passed_over(limits: ReadLimits) -> None:
    table = appended()
    table.add("a")
    source = table.stream(scan__mode="latest")
    start = source.first()
    for kind in (COMPACT, ANALYZE, OVERWRITE, APPEND):
        table.add("x" if kind is not APPEND else "", kind)
    end = source.next(start, limits)
    assert end.snapshot_id == 5 and end.part is None and names(source, start, end) == []
    assert source.next(end, limits) == end


def test_a_batch_holds_all_changes_up_to_the_head() -> None:
    table = keyed(**{"changelog-producer": "input"})
    table.add("a", changelog="la"), table.add("b", COMPACT), table.add("c", changelog="lc"), table.add("d", OVERWRITE)
    source = table.stream(scan__snapshot_id="1")
    start = source.first()
    end = source.next(start)
    plan = source.plan(start, end)
    assert names(source, start, end) == ["la", "lc"]
    assert plan.snapshot is not None and plan.snapshot.id == 4
    assert plan.table_name == source.table_name and plan.row_type == source.row_type
    assert source.newest() == end


def test_overwrites_are_read_where_asked() -> None:
    table = keyed()
    first = table.files("a")
    table.commit(*first)
    table.commit(*table.files("b"), deletes=first, kind=OVERWRITE)
    source = table.stream(scan__snapshot_id="2", streaming_read_overwrite="true")
    start = source.first()
    assert sorted(names(source, start, source.next(start))) == ["-a", "b"]
    other = table.stream(scan__snapshot_id="2")
    assert names(other, start, other.next(start)) == []
    with pytest.raises(InvalidOptionError):
        appended().stream(streaming_read_overwrite="true")


def test_columns_conditions_and_kinds_are_those_of_the_query() -> None:
    table = keyed(**{"changelog-producer": "input"})
    table.add(changelog="la lb")
    source = table.stream(columns="v", where="k >= 20", read__changelog="true", scan__snapshot_id="1")
    start = source.first()
    plan = source.plan(start, source.next(start))
    assert source.row_type.names == ("rowkind", "v") == plan.row_type.names
    assert [f.file_name for s in plan.splits for f in s.files] == ["lb"]
    request = plan.requests["main"]
    assert request.with_row_kind and request.columns == ("v",) and request.predicate is not None
    with pytest.raises(ColumnNotFoundError, match="'w'"):
        table.stream(columns="w")


def test_files_made_before_a_moment_are_no_part_of_the_state() -> None:
    table = appended()
    table.commit(*(dataclasses.replace(f, created_ms=i) for i, f in enumerate(table.files("a b c"))))
    source = table.stream(scan__file_creation_time_millis="1")
    start = source.first()
    table.add("d")
    assert [files for _, files in batches(source, start, ONE)] == [["b"], ["c"], ["d"]]


# --- limits and offsets in the middle of a snapshot


@pytest.mark.parametrize(
    ("limits", "read"),
    [
        (ALL, [["a", "b", "c", "d", "e"]]),
        (ONE, [["a"], ["b"], ["c"], ["d"], ["e"]]),
        (TWO, [["a", "b"], ["c", "d"], ["e"]]),
        (ReadLimits(max_bytes=1001), [["a", "b"], ["c", "d"], ["e"]]),
        (ReadLimits(max_rows=25), [["a", "b", "c"], ["d", "e"]]),
        (ReadLimits(max_files=4, max_rows=15), [["a", "b"], ["c", "d"], ["e"]]),
    ],
)
@pytest.mark.parametrize("mode", ["changes", "state"])
def test_batches_are_as_large_as_the_limits_let_them(limits: ReadLimits, read: list[list[str]], mode: str) -> None:
    table = appended()
    if mode == "state":
        table.add("a b c d e")
        source = table.stream()
    else:
        table.add("a b c"), table.add("x", COMPACT), table.add("d"), table.add("e")
        source = table.stream(scan__snapshot_id="1")
    assert [files for _, files in batches(source, again(source.first()), limits)] == read


def test_limits_of_the_options_count_where_the_engine_gives_none() -> None:
    table = appended()
    table.add("a b c")
    source = table.stream(scan__snapshot_id="1", read__stream__maxFilesPerTrigger="2")
    assert all_batches(source) == [["a", "b"], ["c"]]
    assert all_batches(source, ONE) == [["a"], ["b"], ["c"]]
    assert all_batches(source, ALL) == [["a", "b", "c"]]


def test_a_batch_planned_again_is_the_same_whatever_came_since() -> None:
    table = appended()
    table.add("a b c"), table.add("d e")
    source = table.stream(scan__snapshot_id="1")
    start, found = again(source.first()), []
    for end, files in batches(source, start, TWO):
        found.append((start, end, files))
        start = again(end)
    table.add("f"), table.add("g", COMPACT)
    for start, end, files in reversed(found):
        assert names(table.stream(scan__mode="latest"), start, end) == files
        assert names(table.stream(source__split__target_size="1 b"), start, end) == files
    first, last = found[0][0], found[-1][1]
    assert names(source, first, last) == ["a", "b", "c", "d", "e"]
    middle = found[0][1]
    assert middle.part is not None and names(source, middle, last) == ["c", "d", "e"]


def test_limits_may_change_in_the_middle_of_a_snapshot() -> None:
    table = appended()
    table.add("a b c d"), table.add("e")
    source = table.stream(scan__snapshot_id="1")
    start = source.first()
    middle = again(source.next(start, ONE))
    assert names(source, middle, source.next(middle)) == ["b", "c", "d", "e"]
    aligned = table.stream(read__stream__aligned="true")
    end = aligned.next(middle)
    assert names(aligned, middle, end) == ["b", "c", "d"] and aligned.next(end).snapshot_id == 2


@pytest.mark.parametrize("mode", ["latest-full", "from-snapshot"])
def test_units_that_are_not_those_that_were_counted_are_refused(mode: str) -> None:
    table = appended()
    table.add("a b c")
    options: dict[str, Any] = {"scan__mode": mode} | ({"scan__snapshot_id": "1"} if mode == "from-snapshot" else {})
    source = table.stream(**options)
    middle = again(source.next(source.first(), ONE))
    other = table.stream(**options, where="k >= 20")
    end = dataclasses.replace(middle, part=None)
    for act in (
        lambda: other.next(middle, ONE),
        lambda: other.plan(middle, end),
        lambda: other.plan(source.first(), middle),
    ):
        with pytest.raises(OffsetError, match=r"part of snapshot 1 .* was read, 1 of 3 pieces; now it has 2") as e:
            act()
    assert "condition (where)" in str(e.value) and "new checkpointLocation" in str(e.value)
    assert middle.part is not None
    same_number = dataclasses.replace(middle, part=dataclasses.replace(middle.part, digest="another"))
    with pytest.raises(OffsetError, match="now it has 3, which are not the same"):
        source.plan(same_number, end)


def test_a_part_of_a_snapshot_of_which_nothing_is_read_now_is_refused() -> None:
    table = keyed(**{"changelog-producer": "input"})
    table.add("x y", COMPACT, changelog="a b")
    source = table.stream(scan__snapshot_id="1")
    middle = again(source.next(source.first(), ONE))
    other = stream(table.open(changelog_producer="none"))
    with pytest.raises(OffsetError, match="nothing of it is read"):
        other.plan(middle, dataclasses.replace(middle, part=None))


def test_offsets_in_the_wrong_order_are_refused() -> None:
    table = appended()
    table.add("a b"), table.add("c")
    source = table.stream(scan__snapshot_id="1")
    start = source.first()
    one = source.next(start, ONE)
    end = source.next(one)
    for pair in ((end, one), (one, start), (end, dataclasses.replace(end, part=Part(Phase.CHANGES, 0, 1, "d")))):
        with pytest.raises(OffsetError, match="the checkpoint is damaged"):
            source.plan(*pair)


def test_a_snapshot_read_in_part_must_not_expire() -> None:
    table = appended()
    table.add("a b"), table.add("c"), table.add("d")
    source = table.stream(scan__snapshot_id="1")
    middle = source.next(source.first(), ONE)
    table.table.delete(table.open().layout.snapshot_path(1))
    with pytest.raises(SnapshotExpiredError, match=r"snapshot 1 .* before the stream had read all of it"):
        source.next(middle)


def test_units_of_a_state_are_found_once_and_forgotten_when_it_was_read() -> None:
    history = History()
    history.commits(12)
    source = stream(history.on())
    start, costs = again(source.first()), []
    CACHE.clear()
    history.store.arm(None)
    for end, files in batches(source, start, ONE):
        costs.append(len(history.store.calls))
        assert len(files) == 1 and source.handle is not None
        start = end
        CACHE.clear()
        history.store.arm(None)
    assert len(costs) == 12 and len(set(costs[2:-1])) == 1 and costs[2] < costs[0]
    assert source._planner._remembered == {}


# --- waiting for rows


class Clock:
    now = 10**12

    def __call__(self) -> int:
        return self.now


def test_rows_are_waited_for_until_they_are_there_or_it_took_too_long() -> None:
    table, clock = appended(), Clock()
    table.add("a")
    limits = ReadLimits(min_rows=30, max_delay_ms=1000)
    source = table.stream({"clock_ms": clock}, scan__snapshot_id="1")
    first = source.next(source.first(), limits)
    assert first.snapshot_id == 1  # at first nothing is waited for
    table.add("b")
    assert source.next(first, limits) == first
    table.add("c"), table.add("x", COMPACT)
    clock.now += 1000
    assert source.next(first, limits) == first
    table.add("d")
    end = source.next(first, limits)
    assert names(source, first, end) == ["b", "c", "d"]
    table.add("e")
    assert source.next(end, limits) == end
    clock.now += 1001
    assert names(source, end, source.next(end, limits)) == ["e"]


def test_a_clock_that_is_put_back_makes_no_batch_wait_longer() -> None:
    table, clock = appended(), Clock()
    table.add("a")
    limits = ReadLimits(min_rows=1000, max_delay_ms=1000)
    source = table.stream({"clock_ms": clock}, scan__snapshot_id="1")
    end = source.next(source.first(), limits)
    table.add("b")
    assert source.next(end, limits) == end
    clock.now -= 86_400_000
    assert names(source, end, source.next(end, limits)) == ["b"]


def test_what_is_waited_for_is_counted_once() -> None:
    table, clock = appended(), Clock()
    table.add("a")
    limits = ReadLimits(min_rows=1000, max_delay_ms=1000)
    source = table.stream({"clock_ms": clock}, scan__snapshot_id="1")
    start = source.next(source.first(), limits)
    for n in range(20):
        table.add(f"f{n}")
    assert source.next(start, limits) == start
    history = History()  # counts calls
    store = history.store
    counted = dataclasses.replace(source.handle, store=dataclasses.replace(store, inner=source.handle.store))
    source._planner.handle = counted
    store.arm(None)
    assert source.next(start, limits) == start
    assert len(store.calls) <= 10
    clock.now += 2000
    assert len(names(source, start, source.next(start, limits))) == 20


def test_snapshots_that_are_waited_for_are_counted_once() -> None:
    history = History()
    history.commits(20)
    source = stream(history.on(), scan__snapshot_id="1", read__stream__aligned__snapshots="25")
    start = source.first()
    assert source.next(start) == start
    history.store.arm(None)
    assert source.next(start) == start
    assert len(history.store.calls) <= 12
    table_of(history).rollback_to(18)
    history.commits(6)
    assert source.next(start) == start
    history.commits(2)
    end = source.next(start)
    assert end.snapshot_id == 25
    assert names(source, start, end) == [f"f{n}" for n in (*range(1, 19), *range(21, 28))]


@pytest.mark.parametrize("later", [0, 5])
def test_a_roll_back_over_rows_that_are_only_waited_for_does_not_matter(later: int) -> None:
    history = History()
    history.commits(2)
    source = stream(history.on(), scan__snapshot_id="1")
    limits = ReadLimits(min_rows=1000, max_delay_ms=10**9)
    start = source.next(source.first(), limits)
    history.commits(3)
    assert source.next(start, limits) == start
    table_of(history).rollback_to(3)
    made = history.commits(later)
    assert source.next(start, limits) == start
    source.stop_at_newest()
    end = source.next(start, limits)
    assert end.snapshot_id == 3 + len(made)
    assert names(source, start, end) == ["f3", *(f"f{6 + n}" for n in range(later))]


def test_a_full_batch_waits_for_no_rows() -> None:
    table, clock = appended(), Clock()
    table.add("a")
    source = table.stream({"clock_ms": clock}, scan__snapshot_id="1")
    limits = ReadLimits(max_files=2, min_rows=1000, max_delay_ms=1000)
    start = source.next(source.first(), limits)
    table.add("b"), table.add("c"), table.add("d")
    end = source.next(start, limits)
    assert names(source, start, end) == ["b", "c"]
    assert source.next(end, limits) == end


# --- the end of what there is


@pytest.mark.parametrize("limits", [ALL, ONE, ReadLimits(min_rows=1000, max_delay_ms=10**9)])
def test_what_is_there_now_is_read_to_its_end_and_nothing_later(limits: ReadLimits) -> None:
    table = appended()
    table.add("a"), table.add("b c")
    source = table.stream(scan__snapshot_id="1")
    source.stop_at_newest()
    start, read = again(source.first()), []
    for end, files in batches(source, start, limits):
        read += files
        table.add("later")
        start = end
    assert read == ["a", "b", "c"] and source.next(start, limits) == start


def test_an_empty_table_ends_at_once() -> None:
    for mode in ("latest", "latest-full"):
        table = appended()
        source = table.stream(scan__mode=mode)
        source.stop_at_newest()
        start = source.first()
        table.add("later")
        assert source.next(start) == start


def test_what_has_expired_before_the_end_is_an_error() -> None:
    table = appended()
    table.add("a"), table.add("b"), table.add("c")
    source = table.stream(scan__snapshot_id="1")
    source.stop_at_newest()
    start = source.first()
    first = source.next(start, ONE)
    for _ in range(3):
        table.add("later")
    for i in (1, 2, 3):
        table.table.delete(table.open().layout.snapshot_path(i))
    with pytest.raises(SnapshotExpiredError):
        source.next(first)


def test_a_stream_ends_before_the_first_snapshot_beyond_its_watermark() -> None:
    def bounded() -> Table:
        made = appended()
        for name, mark in (("a", 5), ("b", None), ("c", 10), ("d", 11), ("e", None), ("f", 12)):
            made.add(name, watermark=mark)
        return made

    table = bounded()
    for limits in (ALL, ONE):
        source = table.stream(scan__snapshot_id="1", scan__bounded__watermark="10")
        read = [files for _, files in batches(source, source.first(), limits)]
        assert [*chain(*read)] == ["a", "b", "c"]
        state = table.stream(scan__bounded__watermark="10")
        assert [*chain(*all_batches(state))] == ["a", "b", "c", "d", "e", "f"]
        end = state.next(state.first())
        table.add("unmarked")
        assert state.next(end) == end
        table = bounded()
    aligned = table.stream(scan__snapshot_id="1", scan__bounded__watermark="10", read__stream__aligned__snapshots="2")
    assert all_batches(aligned) == [["a", "b"], ["c"]]


def test_young_snapshots_are_not_there_yet() -> None:
    table, clock = appended(), Clock()
    for n, name in enumerate("abcd"):
        table.add(name, time_ms=clock.now - 4000 + 1000 * n)
    source = table.stream({"clock_ms": clock}, scan__snapshot_id="1", streaming__read__snapshot__delay="2500 ms")
    start = source.first()
    end = source.next(start)
    assert names(source, start, end) == ["a", "b"] and source.next(end) == end
    clock.now += 500
    assert names(source, end, source.next(end, ONE)) == ["c"]


# --- alignment


def test_an_aligned_batch_is_one_snapshot_that_changed_something() -> None:
    table = appended()
    table.add("a b"), table.add("c")
    source = table.stream(read__stream__aligned="true")
    start = source.first()
    table.add("d e"), table.add("x", COMPACT), table.add(), table.add("f"), table.add("y", COMPACT)
    found = list(batches(source, start))
    assert [files for _, files in found] == [["a", "b", "c"], ["d", "e"], ["f"], []]
    assert [end.snapshot_id for end, _ in found] == [2, 3, 6, 7]


def test_a_snapshot_of_which_the_condition_leaves_nothing_is_none() -> None:
    table = appended()
    table.add("a"), table.add("b"), table.add("c")
    source = table.stream(read__stream__aligned="true", scan__snapshot_id="1", where="k >= 20")
    assert all_batches(source) == [["b"], ["c"]]


def test_several_snapshots_are_waited_for_unless_nothing_more_is_to_come() -> None:
    table = appended()
    for name in "abc":
        table.add(name)
    options: dict[str, Any] = {"read__stream__aligned__snapshots": "2", "scan__snapshot_id": "1"}
    source = table.stream(**options)
    assert all_batches(source) == [["a", "b"]]
    ends = table.stream(**options)
    ends.stop_at_newest()
    assert all_batches(ends) == [["a", "b"], ["c"]]
    table.add("d")
    assert all_batches(source) == [["a", "b"], ["c", "d"]]


# --- schemas under the query


def evolved(table: Table, schema_id: int, *fields: DataField) -> None:
    table.evolve(dataclasses.replace(table.schema, id=schema_id, row_type=RowType(False, fields), highest_field_id=9))


def test_a_query_goes_on_with_its_columns_until_it_starts_again() -> None:
    table = appended()
    table.add("a")
    source = table.stream(scan__snapshot_id="1")
    start = source.first()
    evolved(table, 1, ROW.fields[0], DataField(1, "renamed", STRING), DataField(3, "more", STRING))
    table.commit(*(dataclasses.replace(f, schema_id=1) for f in table.files("b")))
    plan = source.plan(start, source.next(start))
    request = plan.requests["main"]
    assert source.row_type.names == request.columns == ("k", "v")
    assert sorted(request.file_schemas) == [0, 1] and request.schema.id == 0
    assert table.stream().row_type.names == ("k", "renamed", "more")


@pytest.mark.parametrize("limits", [ALL, ONE])
def test_a_column_that_is_dropped_ends_the_query_unless_it_starts_again(limits: ReadLimits) -> None:
    table = appended()
    table.add("a")
    source, narrow = table.stream(scan__snapshot_id="1"), table.stream(columns="k")
    start = source.first()
    evolved(table, 1, ROW.fields[0])
    table.commit(*(dataclasses.replace(f, schema_id=1, stats_cols=("k",)) for f in table.files("b")))
    fresh = table.stream()
    end = fresh.next(start)
    with pytest.raises(SchemaChangedError, match="column 'v'"):
        list(batches(source, start, limits))
    with pytest.raises(SchemaChangedError):
        source.plan(start, end)
    assert narrow.next(start) == end
    assert names(fresh, start, end)[-1] == "b"


# --- damage and failures


def test_files_that_are_gone_say_that_the_snapshot_has_expired_where_it_has() -> None:
    table = appended()
    table.add("a b"), table.add("c"), table.add("d")
    source = table.stream(scan__snapshot_id="1")
    start = source.first()
    end = source.next(start)
    manifests = f"{table.table.root}/manifest/manifest-main-2-0"
    table.table.delete(manifests)
    CACHE.clear()
    with pytest.raises(PaimonError) as e:
        source.plan(start, end)
    assert isinstance(e.value, (StorageError, CorruptFileError, SnapshotExpiredError))


def test_a_store_that_fails_at_any_call_leaves_the_source_as_it_was() -> None:
    history = History()
    history.commits(3)
    source = stream(history.on(), scan__snapshot_id="1", consumer_id="c")
    start = source.first()

    def batch() -> list[str]:
        CACHE.clear()
        end = source.next(start, TWO)
        found = names(source, start, end)
        source.committed(end)
        return found

    assert batch() == ["f1", "f2"]
    history.store.arm(None)
    assert batch() == ["f1", "f2"]
    calls = len(history.store.calls)
    assert calls > 10
    for at in range(1, calls + 1):
        history.store.arm(Fault(at))
        with pytest.raises(StorageError):
            batch()
        history.store.arm(None)
        assert batch() == ["f1", "f2"]


# --- what it costs


@pytest.mark.ci
def test_a_thousand_small_snapshots_are_read_some_at_a_time_without_listing_or_piling_up() -> None:
    history = History()
    handle = history.on()
    history.commit()
    template = committer(handle).commit([message(handle, a_file("x"))]).snapshot
    assert template is not None
    for n in range(2, 1001):
        # As many snapshots with the same manifests: what they cost to make is not what is tested.
        made = dataclasses.replace(template, id=n, total_record_count=None)
        history.store.write(handle.layout.snapshot_path(n), snapshot_file.encode(made))
    history.store.write(f"{handle.layout.snapshot_dir}/LATEST", b"1000")
    source = stream(handle, scan__snapshot_id="1")
    offset = start = source.first()
    tracemalloc.start()
    peaks = []
    for trigger in range(30):
        tracemalloc.reset_peak()
        history.store.arm(None)
        end = source.next(offset, ReadLimits(max_files=10))
        assert len(source.plan(offset, end).splits) >= 1
        assert end.snapshot_id == 10 * (trigger + 1)
        assert history.store.count(frozenset(("list",))) == 0
        assert len(history.store.calls) < 40
        peaks.append(tracemalloc.get_traced_memory()[1])
        offset = end
    tracemalloc.stop()
    assert max(peaks[10:]) < 2 * max(peaks[:10]) + 200_000
    history.store.arm(None)
    end = source.next(start)
    assert end.snapshot_id == 1000 and len(history.store.calls) <= 12
    history.store.arm(None)
    plan = source.plan(start, end)
    assert sum(len(s.files) for s in plan.splits) == 1000
    assert len(history.store.calls) < 40


def test_the_schema_of_the_query_stays_when_the_table_gets_options() -> None:
    table = appended()
    table.add("a")
    source = table.stream(scan__snapshot_id="1")
    changed = dataclasses.replace(table.schema, id=1, options={**table.schema.options, "write-buffer-size": "1 mb"})
    table.table.put(table.open().layout.schema_path(1), schema_file.encode(changed))
    assert source.next(source.first()).snapshot_id == 1
    assert source.handle.schema.id == 0


def test_an_offset_is_the_same_after_the_checkpoint() -> None:
    table = appended()
    table.add("a b")
    source = table.stream()
    start = source.first()
    for offset in (start, source.next(start, ONE), source.next(start)):
        assert again(offset) == offset
    assert isinstance(source.newest(), StreamOffset)
