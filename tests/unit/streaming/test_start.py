"""Starts of streams: scan modes, versions, times and consumers."""

from __future__ import annotations

import json

import pytest

from paimon_spark.errors import (
    CorruptFileError,
    HistoryChangedError,
    InvalidInputError,
    InvalidOptionError,
    OffsetError,
    PaimonError,
    SavepointNotFoundError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    TagNotFoundError,
    VersionNotFoundError,
    VersionSyntaxError,
)
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.options.stream_read import parse_stream_options
from paimon_spark.streaming.history import ChangingHistoryError
from paimon_spark.streaming.offset import Phase, StreamOffset
from paimon_spark.streaming.start import UNPLANNED, first_offset
from paimon_spark.versioning.branches import create_branch
from tests.harness.fault_store import FaultStore
from tests.harness.history import History
from tests.harness.tables import MetadataTable, a_schema, a_snapshot

COMPACT = CommitKind.COMPACT
BATCH_JOB = 2**63 - 1


def a_table(*snapshots: int | Snapshot) -> MetadataTable:
    """Snapshot n was made at n seconds."""
    return MetadataTable().schema().snapshots(snapshots)


def keep_changelog(table: MetadataTable, *snapshots: int | Snapshot) -> MetadataTable:
    """Snapshots that expired and whose changelogs are kept."""
    for item in snapshots:
        found = a_snapshot(item) if isinstance(item, int) else item
        table.put(table.layout().changelog_path(found.id), snapshot_file.encode(found))
    return table


def consumer(table: MetadataTable, name: str, text: str) -> MetadataTable:
    table.put(f"{table.layout().consumer_dir}/consumer-{name}", text.encode())
    return table


def first(table: MetadataTable | TableHandle, /, **options: str) -> StreamOffset:
    """Options are written with `_` for `-`, and `__` for `.`."""
    handle = table.open() if isinstance(table, MetadataTable) else table
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return first_offset(handle, parse_stream_options(given, handle.schema.options))


def refused(kind: type[PaimonError], table: MetadataTable | TableHandle, /, **options: str) -> str:
    with pytest.raises(kind) as caught:
        first(table, **options)
    assert type(caught.value) is kind
    return caught.value.message


def changes_after(snapshot_id: int | None, *, known: bool = True) -> tuple[object, ...]:
    """What an offset says that stands after a snapshot of `a_table`."""
    made = f"manifest-list-{snapshot_id}-1" if snapshot_id and known else None
    return snapshot_id, made, None, Phase.CHANGES


def state_of(snapshot_id: int) -> tuple[object, ...]:
    return snapshot_id, f"manifest-list-{snapshot_id}-1", UNPLANNED, Phase.CHANGES


def said(offset: StreamOffset) -> tuple[object, ...]:
    return offset.snapshot_id, offset.made, offset.part, offset.begins_with


# A branch without snapshots


@pytest.mark.parametrize(
    ("options", "begins_with"),
    [
        ({}, Phase.STATE),
        ({"scan__mode": "compacted-full"}, Phase.STATE),
        ({"scan__file_creation_time_millis": "5"}, Phase.STATE),
        ({"scan__creation_time_millis": "5"}, Phase.STATE),
        ({"scan__mode": "latest"}, Phase.CHANGES),
        ({"scan__timestamp_millis": "5"}, Phase.CHANGES),
        ({"scan__snapshot_id": "1"}, Phase.CHANGES),
        ({"versionAsOf": "main"}, Phase.CHANGES),
        ({"versionAsOf": "main", "scan__mode": "from-snapshot-full"}, Phase.STATE),
    ],
)
def test_a_branch_without_snapshots_begins_with_what_comes(options: dict[str, str], begins_with: Phase) -> None:
    offset = first(a_table(), **options)
    assert (offset.snapshot_id, offset.made, offset.part, offset.begins_with) == (None, None, None, begins_with)


def test_a_snapshot_of_an_empty_branch_cannot_be_waited_for() -> None:
    assert "has no snapshot 2 (scan.snapshot-id = 2): it has no snapshot" in refused(
        SnapshotNotFoundError, a_table(), scan__snapshot_id="2"
    )
    assert "the newest one at the latest" in refused(
        SnapshotNotFoundError, a_table(), scan__snapshot_id="1", scan__mode="from-snapshot-full"
    )


# The newest snapshot


def test_an_offset_says_of_what_table_branch_and_snapshot_it_is() -> None:
    table = a_table(1, a_snapshot(2, total_record_count=7))
    assert first(table, scan__mode="latest") == StreamOffset(
        table.open().location, "main", 2, "manifest-list-2-1", rows=7
    )


def test_all_rows_are_the_state_of_the_newest_snapshot() -> None:
    table = a_table(1, 2, 3)
    for options in ({}, {"scan__mode": "full"}, {"scan__mode": "latest-full"}):
        assert said(first(table, **options)) == state_of(3)


def test_the_latest_begins_after_the_newest_snapshot() -> None:
    assert said(first(a_table(5, 6), scan__mode="latest")) == changes_after(6)


def test_files_since_a_time_are_those_of_the_newest_state() -> None:
    assert said(first(a_table(5, 6), scan__file_creation_time_millis="0")) == state_of(6)


# The newest compacted snapshot


def test_the_compacted_state_is_that_of_the_newest_compaction() -> None:
    compacted = [a_snapshot(i, commit_kind=COMPACT) for i in (2, 4)]
    table = a_table(1, compacted[0], 3, compacted[1], 5, 6)
    assert said(first(table, scan__mode="compacted-full")) == state_of(4)


def test_a_head_that_a_compaction_made_needs_no_search() -> None:
    table = a_table(1, 2, a_snapshot(3, commit_kind=COMPACT)).hint("LATEST", "3")
    store = FaultStore(table.store)
    assert said(first(open_table(store, table.root), scan__mode="compacted-full")) == state_of(3)
    assert store.count(frozenset({"list"}), "snapshot") == 0


def test_where_nothing_was_compacted_the_newest_snapshot_is_read() -> None:
    assert said(first(a_table(1, 2), scan__mode="compacted-full")) == state_of(2)


def test_compactions_are_found_far_back() -> None:
    table = a_table(*(a_snapshot(i, commit_kind=COMPACT if i in (3, 7) else CommitKind.APPEND) for i in range(1, 201)))
    assert said(first(table, scan__mode="compacted-full")) == state_of(7)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"full-compaction.delta-commits": "3"}, 3),
        ({"full-compaction.delta-commits": "5"}, 5),
        ({"full-compaction.delta-commits": "0"}, 5),
        ({"changelog-producer": "full-compaction"}, 5),
        ({}, 5),
    ],
)
def test_only_full_compactions_count_where_they_are_planned(options: dict[str, str], found: int) -> None:
    table = MetadataTable().schema(a_schema(options=options))
    kinds = {3: COMPACT, 5: COMPACT}
    table.snapshots(a_snapshot(i, commit_kind=kinds.get(i, CommitKind.APPEND)) for i in range(1, 8))
    assert said(first(table, scan__mode="compacted-full")) == state_of(found)


def test_compactions_of_batch_jobs_are_full() -> None:
    table = MetadataTable().schema(a_schema(options={"full-compaction.delta-commits": "3"}))
    table.snapshots([1, a_snapshot(2, commit_kind=COMPACT, commit_identifier=BATCH_JOB), 3])
    assert said(first(table, scan__mode="compacted-full")) == state_of(2)


def test_a_compaction_before_a_hole_is_no_start() -> None:
    table = a_table(a_snapshot(1, commit_kind=COMPACT), 4, 5)
    assert said(first(table, scan__mode="compacted-full")) == state_of(5)


# By id


@pytest.mark.parametrize(("asked", "after"), [(1, 0), (2, 1), (3, 2), (4, 3)])
def test_an_id_begins_with_its_changes_or_with_the_next_snapshot(asked: int, after: int) -> None:
    for options in ({"scan__snapshot_id": str(asked)}, {"versionAsOf": str(asked)}):
        assert said(first(a_table(1, 2, 3), **options)) == changes_after(after)


@pytest.mark.parametrize("key", ["scan__snapshot_id", "versionAsOf"])
def test_an_id_further_ahead_is_refused(key: str) -> None:
    text = refused(SnapshotNotFoundError, a_table(1, 2, 3), **{key: "5"})
    assert "has no snapshot 5" in text
    assert "its snapshots alive are 1 to 3" in text
    assert "begins with the one after the newest at the latest" in text


@pytest.mark.parametrize("key", ["scan__snapshot_id", "versionAsOf"])
def test_an_expired_id_is_refused_with_where_to_begin(key: str) -> None:
    text = refused(SnapshotExpiredError, a_table(4, 5), **{key: "3"})
    assert "snapshot 3 of table db.t, with which the stream was to begin" in text
    assert "has expired: changes can be read from snapshot 4 on" in text
    assert "begin there (scan.snapshot-id = 4), or with all rows (scan.mode = latest-full)" in text
    assert "tag" not in text


def test_the_error_of_an_expired_id_names_a_tag_that_holds_it() -> None:
    text = refused(SnapshotExpiredError, a_table(4, 5).tag("v1", 3), scan__snapshot_id="3")
    assert "tag 'v1' holds the state of snapshot 3" in text
    assert "scan.mode = from-snapshot-full and scan.tag-name = v1" in text


def test_the_error_of_an_expired_id_names_a_tag_after_which_nothing_is_missing() -> None:
    table = a_table(4, 5).tag("v1", 2).tag("v2", 3)
    text = refused(SnapshotExpiredError, table, scan__snapshot_id="2")
    assert "scan.mode = from-snapshot-full and scan.tag-name = v2 begin" in text
    assert said(first(table, scan__tag_name="v2", scan__mode="from-snapshot-full")) == state_of(3)
    assert "tag 'v" not in refused(SnapshotExpiredError, a_table(4, 5).tag("v1", 2), scan__snapshot_id="2")


def test_the_first_snapshot_alive_begins_after_one_that_nobody_knows() -> None:
    table = a_table(a_snapshot(4, total_record_count=12, delta_record_count=2), 5)
    offset = first(table, scan__snapshot_id="4")
    assert said(offset) == changes_after(3, known=False)
    assert offset.rows == 10


def test_where_old_writers_counted_no_rows_none_are_expected() -> None:
    assert first(a_table(4, 5), scan__snapshot_id="4").rows is None


def test_long_lived_changelogs_can_be_begun_with() -> None:
    table = keep_changelog(a_table(4, 5), 2, 3)
    assert said(first(table, scan__snapshot_id="2")) == changes_after(1, known=False)
    assert said(first(table, scan__snapshot_id="3")) == changes_after(2)
    assert said(first(table, versionAsOf="3")) == changes_after(2)
    assert said(first(table, scan__snapshot_id="4")) == changes_after(3)
    assert "from snapshot 2 on" in refused(SnapshotExpiredError, table, scan__snapshot_id="1")


def test_a_hole_is_no_start_and_the_error_names_what_follows_it() -> None:
    table = a_table(1, 5, 6)
    assert "changes can be read from snapshot 5 on" in refused(SnapshotExpiredError, table, scan__snapshot_id="3")
    assert said(first(table, scan__snapshot_id="5")) == changes_after(4, known=False)


# By id, in full


def test_the_state_of_an_id_is_read_where_it_is_asked_in_full() -> None:
    for options in ({"scan__snapshot_id": "2"}, {"versionAsOf": "2"}):
        assert said(first(a_table(1, 2, 3), scan__mode="from-snapshot-full", **options)) == state_of(2)


def test_a_changelog_has_no_state() -> None:
    table = keep_changelog(a_table(4, 5), 3)
    text = refused(SnapshotExpiredError, table, scan__snapshot_id="3", scan__mode="from-snapshot-full")
    assert "has expired: changes can be read from snapshot 3 on" in text


def test_a_state_whose_following_changes_expired_is_refused() -> None:
    text = refused(SnapshotExpiredError, a_table(1, 4, 5), scan__snapshot_id="1", scan__mode="from-snapshot-full")
    assert "snapshot 2 of table db.t, which follows scan.snapshot-id = 1, has expired" in text
    assert "changes can be read from snapshot 4 on" in text


def test_the_state_of_a_snapshot_to_come_is_refused() -> None:
    text = refused(SnapshotNotFoundError, a_table(1, 2), scan__snapshot_id="3", scan__mode="from-snapshot-full")
    assert "begins with the newest one at the latest" in text


# Tags, savepoints and other versions


@pytest.mark.parametrize(
    "options",
    [
        {"scan__tag_name": "v1"},
        {"scan__version": "v1"},
        {"versionAsOf": "tag-name.v1"},
        {"scan__tag_id": "2"},
        {"scan__version": "snapshot.2"},
        {"scan__savepoint_id": "2"},
        {"versionAsOf": "savepoint.2"},
        {"versionAsOf": "main.v1"},
    ],
)
def test_versions_begin_with_the_changes_of_their_snapshot_or_its_state(options: dict[str, str]) -> None:
    table = a_table(1, 2, 3).tag("v1", 2).tag("savepoint-2", 2)
    assert said(first(table, **options)) == changes_after(1)
    assert said(first(table, scan__mode="from-snapshot-full", **options)) == state_of(2)


def test_a_branch_as_a_version_is_its_newest_snapshot() -> None:
    assert said(first(a_table(1, 2, 3), versionAsOf="main")) == changes_after(2)
    assert said(first(a_table(1, 2, 3), versionAsOf="main", scan__mode="from-snapshot-full")) == state_of(3)


def test_a_watermark_as_a_version_is_the_first_snapshot_that_reached_it() -> None:
    table = a_table(1, a_snapshot(2, watermark=50), a_snapshot(3, watermark=60))
    assert said(first(table, scan__version="watermark-51")) == changes_after(2)
    text = refused(SnapshotNotFoundError, table, scan__version="watermark-61")
    assert "has no snapshot with a watermark at or after 61" in text


def test_a_tag_whose_snapshot_expired_still_has_its_state() -> None:
    table = a_table(3, 4).tag("v1", 2)
    assert said(first(table, scan__tag_name="v1", scan__mode="from-snapshot-full")) == state_of(2)
    text = refused(SnapshotExpiredError, table, scan__tag_name="v1")
    assert "snapshot 2 of table db.t, with which the stream was to begin (scan.tag-name = v1), has expired" in text
    assert "tag 'v1' holds the state of snapshot 2" in text


def test_a_tag_whose_snapshot_left_a_changelog_has_its_changes() -> None:
    table = keep_changelog(a_table(3, 4).tag("v1", 2), 2)
    assert said(first(table, scan__tag_name="v1")) == changes_after(1, known=False)


def test_a_tag_after_which_changes_expired_is_refused() -> None:
    table = a_table(5, 6).tag("v1", 2)
    text = refused(SnapshotExpiredError, table, scan__tag_name="v1", scan__mode="from-snapshot-full")
    assert "snapshot 3 of table db.t, which follows scan.tag-name = v1, has expired" in text
    assert said(first(keep_changelog(table, 3, 4), scan__tag_name="v1", scan__mode="from-snapshot-full")) == state_of(2)


@pytest.mark.parametrize("mode", ["from-snapshot", "from-snapshot-full"])
def test_a_tag_of_another_history_is_refused(mode: str) -> None:
    other = a_snapshot(2, delta_manifest_list="of-another-history")
    text = refused(HistoryChangedError, a_table(1, 2, 3).tag("v1", other), scan__tag_name="v1", scan__mode=mode)
    assert "scan.tag-name = v1 is snapshot 2 of another history than table db.t has now" in text
    assert "the branch has another snapshot 2" in text
    ahead = refused(HistoryChangedError, a_table(1, 2).tag("v1", 4), scan__tag_name="v1", scan__mode=mode)
    assert "its snapshots alive are 1 to 2" in ahead


def test_an_expired_tag_on_which_the_next_snapshot_was_not_made_is_refused() -> None:
    after = a_snapshot(3, total_record_count=10, delta_record_count=4)
    table = a_table(after).tag("v1", a_snapshot(2, total_record_count=7))
    text = refused(HistoryChangedError, table, scan__tag_name="v1", scan__mode="from-snapshot-full")
    assert "it has 7 rows, and the branch had 6 before snapshot 3" in text
    fits = a_table(after).tag("v1", a_snapshot(2, total_record_count=6))
    assert first(fits, scan__tag_name="v1", scan__mode="from-snapshot-full").rows == 6


def test_engines_that_count_rows_in_their_own_way_are_believed() -> None:
    table = a_table(a_snapshot(2, total_record_count=7), a_snapshot(3, total_record_count=10, delta_record_count=4))
    assert said(first(table, scan__snapshot_id="2", scan__mode="from-snapshot-full")) == state_of(2)


def test_a_version_of_another_branch_is_refused_with_the_option_to_give() -> None:
    table = a_table(1, 2).schema(branch="fix").snapshots([1, 2, 3], "fix").tag("v1", 3, "fix")
    text = refused(InvalidOptionError, table, versionAsOf="fix.v1")
    assert "versionAsOf = fix.v1 is tag 'v1' of branch 'fix', but the stream reads table db.t" in text
    assert "give option branch = fix" in text
    assert said(first(table.open("fix"), versionAsOf="fix.v1")) == changes_after(2)
    assert "head of fix" in refused(InvalidOptionError, table, versionAsOf="fix")


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"scan__tag_name": "v2"}, TagNotFoundError, "has no tag 'v2'; did you mean 'v1'?; its tags are v1"),
        ({"scan__savepoint_id": "7"}, SavepointNotFoundError, "has no savepoint 7"),
        ({"scan__tag_id": "7"}, TagNotFoundError, "has no tag of snapshot 7"),
        ({"versionAsOf": "nothing"}, VersionNotFoundError, "has no version 'nothing'"),
        ({"scan__timestamp": "yesterday"}, VersionSyntaxError, "scan.timestamp = 'yesterday' is no timestamp"),
        ({"scan__timestamp": "2024-01-01", "time_zone": "Mars"}, InvalidOptionError, "no time zone is called 'Mars'"),
    ],
)
def test_versions_that_are_not_there_are_refused(options: dict[str, str], kind: type[PaimonError], words: str) -> None:
    assert words in refused(kind, a_table(1, 2).tag("v1", 2), **options)


# By time


@pytest.mark.parametrize(
    ("time_ms", "after"),
    [(-5, 0), (0, 0), (1000, 0), (1001, 1), (2000, 1), (2500, 2), (3000, 2), (3001, 3), (10**15, 3)],
)
def test_a_time_begins_with_the_first_snapshot_since(time_ms: int, after: int) -> None:
    assert said(first(a_table(1, 2, 3), scan__timestamp_millis=str(time_ms))) == changes_after(after)


def test_timestamps_are_text_in_the_zone_of_the_read() -> None:
    table = a_table(1, 2, 3)
    for key in ("scan__timestamp", "timestampAsOf"):
        assert said(first(table, time_zone="UTC", **{key: "1970-01-01 00:00:02"})) == changes_after(1)
        assert said(first(table, time_zone="+01:00", **{key: "1970-01-01 01:00:02.001"})) == changes_after(2)


def test_a_time_before_which_snapshots_expired_is_refused() -> None:
    for time_ms in ("0", "3999", "4000"):
        text = refused(SnapshotExpiredError, a_table(4, 5), scan__timestamp_millis=time_ms)
        assert f"snapshot 3 of table db.t, which may be later than scan.timestamp-millis = {time_ms}, has exp" in text
        assert "begin there (scan.snapshot-id = 4)" in text
    assert said(first(a_table(4, 5), scan__timestamp_millis="4001")) == changes_after(4)


def test_a_tag_tells_that_nothing_since_has_expired() -> None:
    table = a_table(4, 5).tag("v1", 3)
    assert said(first(table, scan__timestamp_millis="3001")) == changes_after(3, known=False)
    refused(SnapshotExpiredError, table, scan__timestamp_millis="3000")


def test_a_time_is_looked_for_among_changelogs_too() -> None:
    table = keep_changelog(a_table(5, 6), 2, 3, 4)
    assert said(first(table, scan__timestamp_millis="4500")) == changes_after(4)
    assert said(first(table, scan__timestamp_millis="4000")) == changes_after(3)
    assert said(first(table, scan__timestamp_millis="2001")) == changes_after(2)
    refused(SnapshotExpiredError, table, scan__timestamp_millis="2000")


def test_a_time_in_a_hole_is_refused() -> None:
    table = a_table(1, 5, 6)
    text = refused(SnapshotExpiredError, table, scan__timestamp_millis="3000")
    assert "snapshot 4 of table db.t, which may be later" in text
    assert said(first(table, scan__timestamp_millis="500")) == changes_after(0)
    assert said(first(table, scan__timestamp_millis="5001")) == changes_after(5)


@pytest.mark.parametrize(("time_ms", "found"), [("4500", 4), ("5000", 4), ("5001", 5)])
def test_a_creation_time_begins_with_the_first_snapshot_since(time_ms: str, found: int) -> None:
    assert said(first(a_table(4, 5, 6), scan__creation_time_millis=time_ms)) == changes_after(found)


@pytest.mark.parametrize("time_ms", ["0", "4000", "6001"])
def test_a_creation_time_that_no_snapshot_tells_is_that_of_files(time_ms: str) -> None:
    assert said(first(a_table(4, 5, 6), scan__creation_time_millis=time_ms)) == state_of(6)


# Consumers


def test_a_consumer_goes_on_with_its_next_snapshot_whatever_the_mode() -> None:
    table = consumer(a_table(1, 2, 3), "etl", '{"nextSnapshot": 2}')
    for options in ({}, {"scan__mode": "latest"}, {"scan__snapshot_id": "77"}):
        assert said(first(table, consumer_id="etl", **options)) == changes_after(1)
    assert said(first(consumer(table, "done", '{"nextSnapshot": 4}'), consumer_id="done")) == changes_after(3)


def test_a_new_consumer_begins_where_the_mode_says_and_so_does_one_to_be_ignored() -> None:
    table = consumer(a_table(1, 2, 3), "etl", '{"nextSnapshot": 2}')
    assert said(first(table, consumer_id="new")) == state_of(3)
    assert said(first(table, consumer_id="etl", consumer__ignore_progress="true")) == state_of(3)


def test_a_consumer_of_a_branch_without_snapshots_waits_for_the_first() -> None:
    offset = first(consumer(a_table(), "etl", '{"nextSnapshot": 1}'), consumer_id="etl")
    assert said(offset) == changes_after(None)


def test_a_consumer_can_go_on_with_a_changelog() -> None:
    table = consumer(keep_changelog(a_table(4), 3), "etl", '{"nextSnapshot": 3}')
    assert said(first(table, consumer_id="etl")) == changes_after(2, known=False)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ('{"nextSnapshot": 2}', SnapshotExpiredError, "has yet to read snapshot 2, which has expired: changes can be"),
        ('{"nextSnapshot": 2}', SnapshotExpiredError, "reset the consumer, or give consumer.ignore-progress = true"),
        ('{"nextSnapshot": 7}', HistoryChangedError, "continues with snapshot 7, but its snapshots alive are 4 to 5"),
        ('{"nextSnapshot": 0}', OffsetError, "continues with snapshot 0, but ids begin with 1"),
        ("{}", CorruptFileError, "reset the consumer"),
    ],
)
def test_a_consumer_that_cannot_go_on_is_told_so(text: str, kind: type[PaimonError], words: str) -> None:
    assert words in refused(kind, consumer(a_table(4, 5), "etl", text), consumer_id="etl")


def test_a_name_that_no_consumer_can_have_is_refused() -> None:
    assert "cannot be the name of a consumer" in refused(InvalidInputError, a_table(1), consumer_id="a/b")


# What the table stores


def test_a_stored_start_is_where_streams_begin() -> None:
    table = MetadataTable().schema(a_schema(options={"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}))
    table.snapshots([1, 2, 3])
    assert said(first(table)) == changes_after(1)
    assert said(first(table, scan__mode="from-snapshot-full")) == state_of(2)
    assert said(first(table, scan__mode="latest")) == changes_after(3)


# Branches


@pytest.fixture
def forked() -> History:
    """Main has snapshots 1 to 4; branch `fix` left it at tag `v1` of snapshot 3 and has 4 and 5 of its own."""
    history = History()
    history.commits(4)
    history.put_tag("v1", 3)
    create_branch(history.on(), "fix", tag="v1")
    history.commits(2, "fix")
    return history


def test_a_branch_begins_with_the_snapshot_at_which_it_left(forked: History) -> None:
    fix = forked.on("fix")
    assert forked.ids("fix") == [3, 4, 5]
    for options in ({"scan__snapshot_id": "3"}, {"scan__tag_name": "v1"}, {"versionAsOf": "fix.v1"}):
        offset = first(fix, **options)
        assert (offset.table, offset.branch) == (fix.location, "fix")
        assert (offset.snapshot_id, offset.made, offset.rows) == (2, None, 20)
    assert first(fix, scan__mode="latest").made == forked.head("fix").delta_manifest_list
    full = first(fix, scan__tag_name="v1", scan__mode="from-snapshot-full")
    assert (full.snapshot_id, full.part, full.rows) == (3, UNPLANNED, 30)


def test_what_came_before_a_branch_left_is_not_on_it(forked: History) -> None:
    fix = forked.on("fix")
    for options in ({"scan__snapshot_id": "2"}, {"scan__timestamp_millis": "0"}):
        text = refused(SnapshotExpiredError, fix, **options)
        assert "snapshot 2 of branch 'fix' of table db.t" in text
        assert "is not on this branch, which left 'main' at snapshot 3" in text
        assert "begin there (scan.snapshot-id = 3)" in text
    forked.expire(3, "fix")
    assert "left 'main'" not in refused(SnapshotExpiredError, fix, scan__snapshot_id="3")


def test_each_branch_has_consumers_of_its_own(forked: History) -> None:
    fix, main = forked.on("fix"), forked.on()
    forked.store.write(f"{fix.layout.consumer_dir}/consumer-etl", json.dumps({"nextSnapshot": 5}).encode())
    assert first(fix, consumer_id="etl").snapshot_id == 4
    assert first(main, consumer_id="etl").part == UNPLANNED


def test_a_main_that_moves_while_a_version_is_looked_for_is_looked_at_again() -> None:
    table = a_table(1, 2).schema(branch="fix").snapshots([1, 2, 3], "fix").tag("v1", 3, "fix")
    before = table.open()
    table.put(before.layout.main_branch_file, b"fix")
    with pytest.raises(ChangingHistoryError):
        first(before, scan__tag_name="v1")
    assert said(first(table, scan__tag_name="v1")) == changes_after(2)
    assert said(first(table, versionAsOf="fix.v1")) == changes_after(2)


# What it costs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scan__mode": "latest"},
        {"scan__snapshot_id": "15"},
        {"scan__snapshot_id": "41"},
        {"scan__snapshot_id": "20", "scan__mode": "from-snapshot-full"},
        {"scan__file_creation_time_millis": "0"},
    ],
)
def test_a_good_start_lists_nothing_and_reads_little(options: dict[str, str]) -> None:
    table = a_table(*range(1, 41)).hint("LATEST", "40")
    store = FaultStore(table.store)
    handle = open_table(store, table.root)
    store.arm(None)
    first(handle, **options)
    assert store.count(frozenset({"list"})) == 0
    assert 0 < len(store.calls) <= 8
