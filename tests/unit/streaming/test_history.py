"""Streams beside rollback, restore and publication of their branch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import groupby
from typing import Any, cast

import pytest

from paimon_spark import Table
from paimon_spark.errors import (
    BranchNotFoundError,
    HistoryChangedError,
    OffsetError,
    SchemaChangedError,
    SnapshotExpiredError,
)
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.maintenance.expiry import Limits, expire_snapshots
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import LATEST
from paimon_spark.metadata.snapshots import get_snapshot
from paimon_spark.storage.store import Store
from paimon_spark.streaming.offset import Phase, StreamOffset
from paimon_spark.streaming.source import StreamSource
from paimon_spark.versioning.merge import merge_branch
from paimon_spark.versioning.replace_main import replace_main
from paimon_spark.versioning.rollback import rollback_to
from tests.harness.commits import a_file, committer, message
from tests.harness.fault_store import MUTATING, FaultStore
from tests.harness.history import History
from tests.harness.streams import again, names, stream, table_of

Publish = Callable[[Table, str], Any]


def replacing_merge(table: Table, name: str) -> Any:
    """Publish a branch although main has moved."""
    return table.merge_branch(name, if_main_moved="replace")


def after(history: History, snapshot_id: int, branch: str = "main") -> StreamOffset:
    """Everything up to a snapshot has been read."""
    handle = history.on(branch)
    s = get_snapshot(handle, snapshot_id)
    return StreamOffset(handle.location, branch, s.id, s.delta_manifest_list, s.total_record_count)


def source_of(history: History, branch: str = "main") -> StreamSource:
    return stream(history.on(branch))


def read(history: History, start: StreamOffset, branch: str = "main") -> list[str]:
    """What a query that starts again reads up to the head."""
    source = source_of(history, branch)
    return names(source, start, source.next(start))


# --- roll-backs


def test_a_roll_back_to_what_was_read_or_later_changes_nothing() -> None:
    history = History()
    history.commits(5)
    start = after(history, 3)
    table_of(history).rollback_to(3)
    assert source_of(history).next(start) == start
    history.commit()
    assert read(history, start) == ["f6"]


def test_a_roll_back_behind_what_was_read_is_an_error_that_says_what_is_gone() -> None:
    history = History()
    history.commits(5)
    start = after(history, 5)
    table_of(history).rollback_to(2)
    with pytest.raises(
        HistoryChangedError, match=r"up to snapshot 5.*head is snapshot 2.*snapshots 3 to 5 are gone"
    ) as e:
        source_of(history).next(start)
    assert "new checkpointLocation" in str(e.value) and "no branch keeps it" in str(e.value)


def test_a_roll_back_whose_ids_were_taken_again_is_noticed() -> None:
    history = History()
    history.commits(3)
    start = after(history, 3)
    table_of(history).rollback_to(1)
    history.commits(5)
    with pytest.raises(HistoryChangedError, match="its snapshot 3 is another one now"):
        source_of(history).next(start)


def test_a_state_restored_as_the_newest_goes_on() -> None:
    history = History()
    history.commits(3)
    start = after(history, 3)
    table_of(history).rollback_to_as_latest(1)
    history.commit()
    assert read(history, start) == ["f4"]
    for i in (1, 2, 3):
        history.expire(i)
    assert read(history, start) == ["f4"]


def test_a_roll_back_between_the_offset_and_the_plan_is_an_error() -> None:
    history = History()
    history.commits(2)
    source, start = source_of(history), after(history, 1)
    end = source.next(start)
    table_of(history).rollback_to(1)
    found = r"a batch of the stream was to read up to snapshot 2: .* no longer exists"
    with pytest.raises(HistoryChangedError, match=found):
        source.plan(start, end)
    history.commit()
    with pytest.raises(HistoryChangedError, match="snapshot 2 is another one now"):
        source.plan(start, end)


def test_a_roll_back_on_its_way_is_waited_for() -> None:
    history = History()
    history.commits(4)
    start, snapshots = after(history, 2), history.on().layout.snapshot_dir
    history.store.delete(f"{snapshots}/snapshot-3")
    waits: list[float] = []

    def roll_back_goes_on(seconds: float) -> None:
        waits.append(seconds)
        history.store.write(f"{snapshots}/{LATEST}", b"2")
        history.store.delete(f"{snapshots}/snapshot-4")

    source = stream(history.on(), around={"sleep": roll_back_goes_on})
    assert source.next(start) == start
    assert len(waits) == 1


def test_a_snapshot_missing_for_good_is_an_error() -> None:
    history = History()
    history.commits(5)
    start = after(history, 2)
    history.expire(3)
    waits: list[float] = []
    source = stream(history.on(), around={"sleep": waits.append})
    with pytest.raises(HistoryChangedError, match="is missing, though earlier and later ones exist"):
        source.next(start)
    assert 1 < sum(waits) < 10
    with pytest.raises(HistoryChangedError, match="snapshot 3 is missing among those alive"):
        source_of(history).next(dataclasses.replace(start, snapshot_id=3, made="m"))


# --- other histories of main


def with_a_branch(history: History) -> None:
    """main has snapshots 1 to 6, and branch `dev` left it at 3 and has one more, 4."""
    history.commits(3)
    table_of(history).create_branch("dev", snapshot_id=3)
    history.commits(3)
    history.commit("dev")


@pytest.mark.parametrize("publish", [replacing_merge, Table.replace_main])
def test_another_history_of_main_is_an_error_that_says_where_the_former_one_is(publish: Publish) -> None:
    history = History()
    with_a_branch(history)
    start = after(history, 5)
    running = source_of(history)
    done = publish(table_of(history), "dev")
    for source in (running, source_of(history)):
        with pytest.raises(HistoryChangedError) as e:
            source.next(start)
        text = str(e.value)
        assert "part after snapshot 3" in text and "snapshots 4 to 5 are gone" in text
        assert f"branch {done.backup_branch!r} keeps it" in text and "scan.snapshot-id = 4" in text
        assert e.value.context["kept_on"] == done.backup_branch and e.value.context["shared_id"] == 3
    assert read(history, start, done.backup_branch) == ["f6"]


@pytest.mark.parametrize("publish", [replacing_merge, Table.replace_main])
def test_a_stream_that_has_read_what_both_share_goes_on_in_the_new_history(publish: Publish) -> None:
    history = History()
    with_a_branch(history)
    start, before = after(history, 2), after(history, 3)
    running = source_of(history)
    assert names(running, start, before) == ["f3"]
    publish(table_of(history), "dev")
    history.commit()
    assert read(history, before) == ["f7", "f8"]
    assert names(running, start, running.next(start)) == ["f3", "f7", "f8"]


def test_a_history_that_was_thrown_away_is_an_error_too() -> None:
    history = History()
    with_a_branch(history)
    start = after(history, 5)
    table_of(history).merge_branch("dev", backup=False, if_main_moved="replace")
    with pytest.raises(HistoryChangedError, match="no branch keeps it"):
        source_of(history).next(start)


def test_a_stream_of_a_branch_goes_on_when_main_becomes_it() -> None:
    history = History()
    with_a_branch(history)
    start = after(history, 3, "dev")
    table_of(history).replace_main("dev")
    history.commit("dev")
    assert read(history, start, "dev") == ["f7", "f8"]


def test_main_in_another_directory_is_followed_by_a_running_query() -> None:
    history = History()
    history.commits(2)
    source, start = source_of(history), after(history, 2)
    table_of(history).create_branch("next", snapshot_id=2)
    history.commit("next")
    table_of(history).replace_main("next")
    assert names(source, start, source.next(start)) == ["f3"]
    assert source.handle.layout.main_branch == "next"


def test_a_merge_in_the_middle_of_a_trigger_is_not_read_by_halves() -> None:
    history = History()
    with_a_branch(history)
    start = after(history, 3)
    source = source_of(history)
    table = table_of(history)
    merged: list[bool] = []
    find = history.store.read

    def read_file(path: str) -> bytes:
        found = find(path)
        if path.endswith("snapshot-6") and not merged:
            merged.append(True)
            table.merge_branch("dev", if_main_moved="replace")
        return found

    handle = source.handle
    store: Any = _Hooked(history.store, read_file)
    hooked = dataclasses.replace(handle, store=store)
    source = StreamSource(hooked, source.options, sleep=lambda _: None)
    end = source.next(start)
    assert merged
    assert names(source, start, end) == ["f7"]


class _Hooked:
    """A store whose reads tests come between."""

    def __init__(self, inner: object, read: Callable[[str], bytes]) -> None:
        self._inner, self.read = inner, read

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class _Stepped:
    """A store after whose every change something is done."""

    def __init__(self, inner: FaultStore, then: Callable[[], None]) -> None:
        self._inner, self._then = inner, then

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)
        if name not in MUTATING:
            return verb

        def stepped(*args: Any) -> Any:
            done = verb(*args)
            self._then()
            return done

        return stepped


@pytest.mark.parametrize(
    ("verb", "later"),
    [
        (lambda handle: merge_branch(handle, "dev", if_main_moved="replace"), ["f7"]),
        (lambda handle: replace_main(handle, "dev"), ["f7"]),
        (lambda handle: rollback_to(handle, 3), []),
        (lambda handle: rollback_to(handle, 5), ["f4", "f5"]),
        (lambda handle: expire_snapshots(handle, Limits(retain_max=3)), ["f4", "f5", "f6"]),
    ],
    ids=["merge", "replace", "roll-back", "roll-back-later", "expiry"],
)
def test_at_every_step_of_an_operation_a_stream_reads_one_history_or_the_other(
    verb: Callable[[TableHandle], object], later: list[str]
) -> None:
    history = History()
    with_a_branch(history)
    start, seen = after(history, 3), list[list[str]]()
    running, holes = source_of(history), list[str]()

    def look() -> None:
        for source in (running, source_of(history)):
            try:
                end = source.next(start)
                seen.append(names(source, start, end))
            except HistoryChangedError as e:
                holes.append(str(e))

    verb(dataclasses.replace(history.on(), store=cast(Store, _Stepped(history.store, look))))
    look()
    before = ["f4", "f5", "f6"]
    assert len(seen) > 10 and seen[0] == before and seen[-1] == later
    assert [files for files, _ in groupby(seen)] == ([before] if later == before else [before, later])
    # Only while it is looked at does a roll-back stand still with its work half done.
    assert not holes or later == []
    assert all("is missing, though earlier and later ones exist" in text for text in holes)


# --- branches and tables made anew


def test_a_branch_deleted_under_a_stream_is_an_error() -> None:
    history = History()
    with_a_branch(history)
    source, start = source_of(history, "dev"), after(history, 4, "dev")
    table_of(history).delete_branch("dev")
    with pytest.raises(BranchNotFoundError, match="'dev'"):
        source.next(start)


def test_a_branch_made_anew_is_noticed_but_for_what_it_has_again() -> None:
    history = History()
    with_a_branch(history)
    base, start = after(history, 3, "dev"), after(history, 4, "dev")
    table_of(history).delete_branch("dev")
    table_of(history).create_branch("dev", snapshot_id=3)
    with pytest.raises(HistoryChangedError, match="head is snapshot 3"):
        source_of(history, "dev").next(start)
    history.commits(2, "dev")
    with pytest.raises(HistoryChangedError, match="its snapshot 4 is another one now"):
        source_of(history, "dev").next(start)
    assert read(history, base, "dev") == ["f8", "f9"]


def test_a_table_made_anew_is_noticed_whatever_it_has_by_then() -> None:
    history = History()
    history.commits(3)
    start = after(history, 2)
    history.store.delete_tree(f"{history.root}/snapshot")
    with pytest.raises(HistoryChangedError, match="it has no snapshot"):
        source_of(history).next(start)
    history.commit()
    with pytest.raises(HistoryChangedError, match="head is snapshot 1"):
        source_of(history).next(start)
    history.commits(4)
    with pytest.raises(HistoryChangedError, match="another one"):
        source_of(history).next(start)
    history.expire(1)
    history.expire(2)  # and its snapshots too expire
    with pytest.raises(HistoryChangedError, match=r"another|not made on"):
        source_of(history).next(dataclasses.replace(start, rows=7))


def test_a_table_made_anew_with_other_columns_is_said_to_be_another_history() -> None:
    history = History()
    history.commits(2)
    source, start = source_of(history), after(history, 2)
    other = History()
    fields = tuple(dataclasses.replace(f, id=f.id + 10) for f in other.table.schema.fields)
    row_type = dataclasses.replace(other.table.schema.row_type, fields=fields)
    schema = dataclasses.replace(other.table.schema, row_type=row_type)
    history.store.write(history.on().layout.schema_path(0), schema_file.encode(schema))
    with pytest.raises(SchemaChangedError):
        source.next(start)
    history.store.delete_tree(f"{history.root}/snapshot")
    with pytest.raises(HistoryChangedError):
        source.next(start)


# --- expiry


def test_what_was_read_may_expire() -> None:
    history = History()
    history.commits(5)
    start = after(history, 2)
    table_of(history).expire_snapshots(retain_max=3)
    assert history.ids() == [3, 4, 5]
    assert read(history, start) == ["f3", "f4", "f5"]


def test_what_was_not_read_may_not() -> None:
    history = History()
    history.commits(5)
    starts = [StreamOffset(history.on().location, "main", None), StreamOffset(history.on().location, "main", 0)]
    starts.append(after(history, 1))
    source, end = source_of(history), after(history, 3)
    table_of(history).expire_snapshots(retain_max=2)
    for start in starts:
        with pytest.raises(SnapshotExpiredError) as e:
            source_of(history).next(start)
        text = str(e.value)
        assert f"snapshot {(start.snapshot_id or 0) + 1} of" in text and "its snapshots alive are 4 to 5" in text
        assert "consumer-id" in text and "new checkpointLocation" in text and "scan.snapshot-id = 4" in text
        with pytest.raises(SnapshotExpiredError):
            source.plan(start, end)


def test_a_snapshot_that_expires_between_the_offset_and_the_plan_is_an_error() -> None:
    history = History()
    history.commits(4)
    source, start = source_of(history), after(history, 1)
    end = source.next(start)
    history.expire(1)
    history.expire(2)
    with pytest.raises(SnapshotExpiredError, match="snapshot 2"):
        source.plan(start, end)


def test_the_next_snapshot_has_to_continue_the_rows_of_one_that_expired() -> None:
    history = History()
    history.commits(4)
    start = after(history, 2)
    history.expire(1)
    history.expire(2)
    assert read(history, start) == ["f3", "f4"]
    with pytest.raises(HistoryChangedError, match="snapshot 3 was not made on that one"):
        source_of(history).next(dataclasses.replace(start, rows=19))
    assert source_of(history).next(dataclasses.replace(start, rows=None)).snapshot_id == 4


def test_snapshots_of_writers_that_count_no_rows_are_read_too() -> None:
    history = History()
    history.commits(4)
    starts = [after(history, 1), after(history, 2)]
    for i in (1, 2, 3, 4):
        made = dataclasses.replace(get_snapshot(history.on(), i), total_record_count=None, delta_record_count=None)
        history.store.write(history.on().layout.snapshot_path(i), snapshot_file.encode(made))
    source = source_of(history)
    assert names(source, starts[0], source.next(starts[0])) == ["f2", "f3", "f4"]
    assert source.next(starts[0]).rows is None
    history.expire(1)
    history.expire(2)
    assert read(history, starts[1]) == ["f3", "f4"]


def test_snapshots_that_miscount_are_read_as_long_as_they_stay_what_they_are() -> None:
    history = History()
    history.commits(3)
    start = after(history, 1)
    made = dataclasses.replace(get_snapshot(history.on(), 3), total_record_count=7)
    history.store.write(history.on().layout.snapshot_path(3), snapshot_file.encode(made))
    assert read(history, start) == ["f2", "f3"]


def test_long_lived_changelogs_are_read_after_their_snapshots() -> None:
    history = History(changelog__num_retained__max="100", changelog__num_retained__min="50")
    history.commits(5)
    start, end = after(history, 1), after(history, 3)
    table_of(history).expire_snapshots(retain_max=1)
    assert history.ids() == [5]
    assert read(history, start) == ["f2", "f3", "f4", "f5"]
    source = source_of(history)
    assert names(source, start, end) == ["f2", "f3"]
    assert source.next(end).snapshot_id == 5
    with pytest.raises(HistoryChangedError, match="snapshot 3 is another one now"):
        source.next(dataclasses.replace(end, made="another"))
    layout = history.on().layout
    for i in (1, 2):
        history.store.delete(layout.changelog_path(i))
    with pytest.raises(SnapshotExpiredError, match=r"changelogs are kept of 3 to 4.*scan.snapshot-id = 3 what is left"):
        source.next(start)


def test_a_state_is_read_from_a_tag_when_its_snapshot_has_expired() -> None:
    history = History()
    history.commits(3)
    table_of(history).create_tag("kept", snapshot_id=2)
    source = stream(history.on(), scan__mode="from-snapshot-full", scan__tag_name="kept")
    start = source.first()
    history.expire(1)
    history.expire(2)
    end = source.next(start)
    assert names(source, start, end) == ["f1", "f2"]
    assert names(source, end, source.next(end)) == ["f3"]
    history.commit()
    history.expire(3)
    with pytest.raises(SnapshotExpiredError, match="snapshot 3"):
        source.plan(start, end)


# --- hints


@pytest.mark.parametrize("hint", [b"1", b"3", b"900", b"nonsense", None])
def test_the_head_is_found_whatever_the_hint_says(hint: bytes | None) -> None:
    history = History()
    history.commits(12)
    path = f"{history.on().layout.snapshot_dir}/{LATEST}"
    history.store.delete(path) if hint is None else history.store.write(path, hint)
    source = source_of(history)
    assert source.next(after(history, 2)).snapshot_id == 12
    assert source.next(after(history, 12)) == after(history, 12)


# --- offsets of something else


def test_an_offset_of_another_table_or_branch_is_refused_where_its_snapshot_does_not_tell() -> None:
    history = History()
    history.commits(2)
    here = history.on().location
    source = source_of(history)
    for other in (
        StreamOffset("memory:///other/wh/db.db/t", "main", 0),
        StreamOffset("memory:///other/wh/db.db/t", "main", 2, "m", 20),
        StreamOffset(here, "dev", 0),
        StreamOffset(here, "dev", None, begins_with=Phase.STATE),
        StreamOffset(here, "dev", 9, "m"),
    ):
        with pytest.raises(OffsetError, match=f"of branch {other.branch!r}.*checkpointLocation of its own"):
            source.next(other)


def test_a_table_that_was_moved_is_told_by_its_snapshot() -> None:
    history = History()
    history.commits(2)
    start = dataclasses.replace(after(history, 1), table="s3a://bucket/former/place")
    assert read(history, start) == ["f2"]
    same = dataclasses.replace(StreamOffset(history.on().location, "main", 0), table=f"memory:/{history.root}")
    assert read(history, same) == ["f1", "f2"]


# --- what it costs


def test_triggers_cost_a_handful_of_small_reads_however_long_the_history() -> None:
    costs = []
    for count in (20, 100):
        history = History()
        history.commits(count)
        source, start = source_of(history), after(history, count)
        history.store.arm(None)
        assert source.next(start) == start
        idle = history.store.calls
        history.commit()
        history.store.arm(None)
        end = again(source.next(start))
        one = history.store.calls
        history.store.arm(None)
        assert len(source.plan(start, end).splits) == 1
        planned = history.store.calls
        assert not any(c.verb == "list" for c in (*idle, *one, *planned))
        costs.append((len(idle), len(one), len(planned)))
    assert costs[0] == costs[1]
    assert costs[0][0] <= 6 and costs[0][1] <= 10 and costs[0][2] <= 12


def test_a_stream_that_fell_behind_goes_to_the_head_at_once() -> None:
    history = History()
    history.commits(100)
    source, start = source_of(history), after(history, 1)
    history.store.arm(None)
    end = source.next(start)
    assert end.snapshot_id == 100 and len(history.store.calls) <= 12
    history.store.arm(None)
    assert len(names(source, start, end)) == 99
    assert history.store.count(frozenset(("read_many",)), "snapshot-") <= 7
    assert history.store.count(frozenset(("read",)), "/snapshot-") <= 6
    assert history.store.count(frozenset(("list",))) == 0


def test_writers_that_leave_no_hint_cost_no_listing_while_they_are_followed() -> None:
    history = History()
    history.commits(30)
    path = f"{history.on().layout.snapshot_dir}/{LATEST}"
    source, start = source_of(history), after(history, 30)
    for hint in (None, b"7"):
        history.store.delete(path) if hint is None else history.store.write(path, hint)
        hand = committer(history.on())
        hand.commit([message(history.on(), a_file(f"g{hint!r}"))])
        history.store.delete(path) if hint is None else history.store.write(path, hint)
        history.store.arm(None)
        end = source.next(start)
        assert end.snapshot_id == (start.snapshot_id or 0) + 1
        assert history.store.count(frozenset(("list",))) == 0
        start = end
