"""Where branches left others: written down, or told from what both share."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.commit.checks import check_schema
from paimon_spark.errors import (
    BranchNotFoundError,
    CommitConflictError,
    CorruptFileError,
    InvalidOptionError,
    TagNotFoundError,
)
from paimon_spark.format.metadata_files.snapshot import Tag, encode_tag
from paimon_spark.metadata import small_files
from paimon_spark.metadata.branches import (
    Branch,
    Fork,
    ancestry,
    branch_exists,
    decode_fork,
    encode_fork,
    fork_of,
    fork_path,
    list_branch_names,
    list_branches,
    newest_shared,
)
from paimon_spark.metadata.handle import TableHandle, branch_names, open_table
from paimon_spark.metadata.tags import (
    find_tag,
    get_savepoint,
    get_tag,
    guard_name,
    guarded_branch,
    list_savepoints,
    list_tags,
    savepoint_id_of,
    tag_names,
    tag_of_snapshot,
    tag_periods,
)
from paimon_spark.options.retention import parse_tag_options
from paimon_spark.storage.urls import open_store
from tests.harness.tables import MetadataTable, a_schema, a_snapshot


def test_tags_come_by_snapshot_and_name() -> None:
    built = MetadataTable().schema().tag("b", 2).tag("a", 2).tag("z", 1).tag("savepoint-10", 10)
    handle = built.open()
    assert [t.name for t in list_tags(handle)] == ["z", "a", "b", "savepoint-10"]
    assert tag_names(handle) == ["a", "b", "savepoint-10", "z"]
    assert tag_of_snapshot(handle, 2) == Tag("a", a_snapshot(2))
    assert tag_of_snapshot(handle, 3) is None


def test_success_files_and_temporary_files_are_no_tags() -> None:
    built = MetadataTable().schema().tag("v1", 1)
    built.put(f"{built.root}/tag/tag-success-file/v1_SUCCESS", b"{}")
    built.put(f"{built.root}/tag/.tag-v2.tmp", b"{}")
    built.put(f"{built.root}/tag/tag-", b"{}")
    assert tag_names(built.open()) == ["v1"]
    assert [t.name for t in list_tags(built.open())] == ["v1"]


def test_a_tag_keeps_its_life_time() -> None:
    built = MetadataTable().schema()
    tag = Tag("v1", a_snapshot(1), datetime(2024, 1, 2, 3, 4, 5, 678901), 86400.5)
    built.put(built.layout().tag_path("v1"), encode_tag(tag))
    assert get_tag(built.open(), "v1") == tag


def test_a_tag_that_no_file_can_have_is_just_missing() -> None:
    handle = MetadataTable().schema().open()
    for name in ("", " ", "a/b", "../x", "a\0b"):
        assert find_tag(handle, name) is None
        with pytest.raises(TagNotFoundError, match="it has no tags"):
            get_tag(handle, name)


def test_a_broken_tag_breaks_the_listing_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    built = MetadataTable().schema().tag("good", 1)
    built.put(built.layout().tag_path("bad"), b"")
    with pytest.raises(CorruptFileError, match="tag/tag-bad"):
        list_tags(built.open())
    assert tag_names(built.open()) == ["bad", "good"]


def test_a_tag_deleted_while_listing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    built = MetadataTable().schema().tag("a", 1).tag("b", 2)
    handle = built.open()
    read_many = type(handle.store).read_many

    def delete_first(store: object, paths: list[str]) -> object:
        built.delete(built.layout().tag_path("a"))
        return read_many(store, paths)  # type: ignore[arg-type]

    monkeypatch.setattr(type(handle.store), "read_many", delete_first)
    assert [t.name for t in list_tags(handle)] == ["b"]


def test_savepoints_are_tags_of_their_snapshot() -> None:
    built = MetadataTable().schema().tag("savepoint-10", 10).tag("savepoint-9", 9).tag("savepoint-x", 1).tag("v", 1)
    handle = built.open()
    assert [s.id for s in list_savepoints(handle)] == [9, 10]
    assert get_savepoint(handle, 9).snapshot == a_snapshot(9)
    assert savepoint_id_of("savepoint-9") == 9
    for name in ("savepoint-", "savepoint-x", "xsavepoint-1", "savepoint-٣"):
        assert savepoint_id_of(name) is None


def test_branches_tell_their_base() -> None:
    built = MetadataTable().schema().snapshots([1, 2]).schema(branch="plain")
    built.schema(branch="tagged").tag("v2", 2, "tagged").tag("later", 3, "tagged").snapshots([2, 3], "tagged")
    built.schema(branch="cut").snapshots([2], "cut").tag("later", 3, "cut")
    built.put(f"{built.root}/branch/file", b"")
    built.put(f"{built.root}/branch/other/x", b"")
    found = list_branches(built.open())
    assert [(b.name, b.created_from_tag, b.created_from_snapshot_id) for b in found] == [
        ("cut", None, 2),
        ("plain", None, None),
        ("tagged", "v2", 2),
    ]
    assert not any(b.is_main for b in found)
    assert list_branches(built.open("tagged")) == found


def test_a_promoted_branch_is_marked() -> None:
    built = MetadataTable().schema().schema(branch="fix").schema(branch="dev")
    built.put(f"{built.root}/MAIN-BRANCH", b"fix")
    assert {b.name: b.is_main for b in list_branches(built.open())} == {"dev": False, "fix": True}


def test_branches_exist_by_their_schema() -> None:
    built = MetadataTable().schema().schema(branch="fix")
    built.put(f"{built.root}/branch/branch-half/consumer/consumer-x", b"")
    handle = built.open()
    assert branch_exists(handle, "main")
    assert branch_exists(handle, "fix")
    for name in ("half", "no", "", "../x", "a/b", " "):
        assert not branch_exists(handle, name)
    assert list_branch_names(handle) == ["fix"]
    assert branch_names(handle.store, handle.layout) == ["fix", "half"], "what is in it may hold on to files"
    assert isinstance(list_branches(handle)[0], Branch)


@pytest.mark.parametrize("act", ["open", "commit"])
def test_a_branch_that_goes_while_its_schema_is_read_is_not_there(monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    built = MetadataTable().schema(a_schema(7), branch="fix").schema()
    handle = built.open("fix")
    path = built.layout("fix").schema_path(7)
    read = type(handle.store).read

    def deleted_meanwhile(store: object, asked: str) -> bytes:
        if asked == path and handle.store.exists(path):
            built.delete(path)
        return read(store, asked)  # type: ignore[arg-type]

    monkeypatch.setattr(type(handle.store), "read", deleted_meanwhile)
    if act == "open":
        with pytest.raises(BranchNotFoundError, match="has no branch 'fix'"):
            built.open("fix")
    else:
        with pytest.raises(CommitConflictError, match="its schema is gone, so it was dropped"):
            check_schema(handle)


def test_a_schema_that_is_listed_and_broken_stays_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    built = MetadataTable().schema().schema(a_schema(7), branch="fix")
    handle = built.open("fix")
    built.put(built.layout("fix").schema_path(7), b"{")
    with pytest.raises(CorruptFileError, match="branch-fix/schema/schema-7"):
        built.open("fix")
    with pytest.raises(CorruptFileError, match="branch-fix/schema/schema-7"):
        check_schema(handle)


GOLDEN = Path(__file__).parents[2] / "fixtures" / "java-0.9"
FORK = Fork("main", 3, "v1", 3000, 4000, {"main": "branch-guard-fix"})


def test_guards_are_named_by_their_branch() -> None:
    assert guard_name("fix") == "branch-guard-fix"
    assert guarded_branch("branch-guard-fix") == "fix"
    for name in ("branch-guard-", "branch-guard", "fix", "xbranch-guard-fix"):
        assert guarded_branch(name) is None


@pytest.mark.parametrize("fork", [FORK, Fork("dev-é", None), Fork("main", 1, None, 1, 2, {"a": "b", "main": "c"})])
def test_a_record_comes_back(fork: Fork) -> None:
    assert decode_fork(encode_fork(fork), "FORK") == fork


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "parent": "", "snapshotId": 1}',
        b'{"version": 1, "parent": "main", "snapshotId": "1"}', b'{"version": 1, "parent": "main", "snapshotId": true}',
        b'{"version": 1, "parent": "main", "snapshotId": 1, "guards": ["x"]}',
        b'{"version": 1, "parent": "main", "snapshotId": 1, "tag": 3}', b"\xff",
    ],
)  # fmt: skip
def test_garbage_is_named(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="branch-x/FORK cannot be decoded"):
        decode_fork(data, "branch-x/FORK")


def test_a_later_version_is_not_guessed_at() -> None:
    with pytest.raises(CorruptFileError, match=r"FORK is of version 2, known is 1; use a newer release"):
        decode_fork(encode_fork(FORK).replace(b'"version": 1', b'"version": 2'), "FORK")


def test_what_is_written_down_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", ())
    built = MetadataTable().schema().snapshots([1, 2]).schema(branch="fix").snapshots([2], "fix").tag("v", 2, "fix")
    on_fix = built.open("fix")
    built.put(fork_path(on_fix), encode_fork(FORK))
    assert fork_of(on_fix) == FORK
    [branch] = list_branches(built.open())
    assert (branch.created_from_tag, branch.created_from_snapshot_id, branch.fork) == ("v1", 3, FORK)
    built.put(fork_path(on_fix), b"{")
    with pytest.raises(CorruptFileError, match=r"branch/branch-fix/FORK"):
        fork_of(on_fix)


def test_main_left_nothing() -> None:
    built = MetadataTable().schema().snapshots([1]).schema(branch="fix").snapshots([1], "fix")
    assert fork_of(built.open()) is None
    built.put(f"{built.root}/MAIN-BRANCH", b"fix")
    assert fork_of(built.open()) is None
    assert fork_of(built.open("fix")) is None, "it is main"


def other(snapshot_id: int, branch: str) -> object:
    """A snapshot that has an id of main's, and nothing else."""
    return a_snapshot(snapshot_id, base_manifest_list=f"{branch}-{snapshot_id}", delta_manifest_list=f"{branch}-d")


def test_the_newest_shared_snapshot_is_the_fork() -> None:
    built = MetadataTable().schema().snapshots(range(1, 30)).schema(branch="b").snapshots(range(5, 9), "b")
    built.snapshots([other(i, "b") for i in range(9, 40)], "b")  # type: ignore[misc]
    assert fork_of(built.open("b")) == Fork("main", 8, None, 8000, recorded=False)
    assert ancestry(built.open("b"), 20) == [("b", 20), ("main", 8)]
    assert ancestry(built.open("b"), 6) == [("b", 6), ("main", 6)]


def test_tags_tell_when_snapshots_have_expired() -> None:
    built = MetadataTable().schema().snapshots([20]).tag("v3", 3).tag("v5", 5)
    built.schema(branch="b").tag("v3", 3, "b").tag("v5", 5, "b").tag("branch-guard-b", 5, "b")
    built.snapshots([other(9, "b")], "b")  # type: ignore[list-item]
    assert fork_of(built.open("b")) == Fork("main", 5, "v5", 5000, recorded=False)
    built.delete(built.layout().tag_path("v5"))
    assert fork_of(built.open("b")) == Fork("main", 3, "v3", 3000, recorded=False)
    built.snapshots([5])
    found = fork_of(built.open("b"))
    assert found is not None and found.snapshot_id == 5, "the tag of the branch is main's snapshot"


def test_equal_ids_are_not_equal_snapshots() -> None:
    built = MetadataTable().schema().snapshots([1, 2, 3]).tag("v", 2).schema(branch="b")
    built.snapshots([other(i, "b") for i in (1, 2, 3)], "b").tag("v", other(2, "b"), "b")  # type: ignore[misc, arg-type]
    assert fork_of(built.open("b")) is None
    assert ancestry(built.open("b"), 2) == [("b", 2)]


def test_a_branch_of_a_branch_names_that_and_never_the_other_way_round() -> None:
    built = MetadataTable().schema().snapshots([1, 2])
    built.schema(branch="z").snapshots([2, other(3, "z"), other(4, "z")], "z")  # type: ignore[list-item]
    built.schema(branch="a").snapshots([other(4, "z"), other(5, "a")], "a")  # type: ignore[list-item]
    assert fork_of(built.open("z")) == Fork("main", 2, None, 2000, recorded=False)
    found = fork_of(built.open("a"))
    assert found is not None and (found.parent, found.snapshot_id) == ("z", 4)
    assert ancestry(built.open("a"), 5) == [("a", 5), ("z", 4), ("main", 2)]
    for snapshot_id in (1, 2):
        built.delete(built.layout().snapshot_path(snapshot_id))
    assert fork_of(built.open("z")) is None, "what its child shares with it is not where it comes from"


def test_siblings_without_their_parent_have_one_of_them_first() -> None:
    built = MetadataTable().schema().snapshots([9]).schema(branch="a").schema(branch="b")
    built.snapshots([2], "a").snapshots([2], "b")
    found = fork_of(built.open("b"))
    assert found is not None and (found.parent, found.snapshot_id) == ("a", 2)
    assert fork_of(built.open("a")) is None


def test_lineages_end_even_in_circles() -> None:
    built = MetadataTable().schema().schema(branch="a").schema(branch="b").snapshots([7], "a").snapshots([7], "b")
    built.put(fork_path(built.open("a")), encode_fork(Fork("b", 5)))
    built.put(fork_path(built.open("b")), encode_fork(Fork("a", 6)))
    assert ancestry(built.open("a"), 7) == [("a", 7), ("b", 5)]
    built.put(fork_path(built.open("b")), encode_fork(Fork("gone", 4)))
    assert ancestry(built.open("a"), 7) == [("a", 7), ("b", 5), ("gone", 4)]


def test_working_directories_are_no_branches() -> None:
    built = MetadataTable().schema().schema(branch=".merge-1").schema(branch="fix").snapshots([1], ".merge-1")
    assert list_branch_names(built.open()) == ["fix"]
    assert [b.name for b in list_branches(built.open())] == ["fix"]
    built.snapshots([1], "fix")
    assert fork_of(built.open("fix")) is None


def golden(table: str, branch: str) -> TableHandle:
    store, root = open_store(str(GOLDEN / table / "table"))
    return open_table(store, root, branch)


@pytest.mark.parametrize(
    ("table", "branch", "fork"),
    [
        ("branches", "from_tag", ("main", 1, "t1")),
        ("branches", "untouched", ("main", 1, "t1")),
        ("branches", "empty", None),
        ("fast_forwarded", "dev", ("main", 3, None)),
    ],
)
def test_branches_of_java(table: str, branch: str, fork: tuple[str, int, str] | None) -> None:
    found = fork_of(golden(table, branch))
    assert (found and (found.parent, found.snapshot_id, found.tag)) == fork
    assert found is None or not found.recorded


def test_what_is_shared_is_the_same_both_ways() -> None:
    a, b = golden("fast_forwarded", "dev"), golden("fast_forwarded", "main")
    assert newest_shared(a, b) == newest_shared(b, a) is not None


PERIOD, DURATION, FORMATTER = "tag.creation-period", "tag.creation-period-duration", "tag.period-formatter"
MOMENT = datetime(2024, 3, 5, 7, 45, 59, 999000)
OPTIONS = [
    ({}, "2024-03-04"),
    ({FORMATTER: "without_dashes"}, "20240304"),
    ({FORMATTER: "WITHOUT_DASHES_AND_SPACES"}, "20240304"),
    ({PERIOD: "hourly"}, "2024-03-05 06"),
    ({PERIOD: "hourly", FORMATTER: "without_dashes"}, "20240305 06"),
    ({PERIOD: "hourly", FORMATTER: "without_dashes_and_spaces"}, "2024030506"),
    ({PERIOD: "two-hours"}, "2024-03-05 04"),
    ({PERIOD: "two-hours", FORMATTER: "without_dashes"}, "2024-03-05 04"),
    ({DURATION: "30 min"}, "202403050700"),
    ({DURATION: "30 min", PERIOD: "hourly", FORMATTER: "with_dashes"}, "202403050700"),
    ({DURATION: "7 d"}, "202402220000"),  # weeks are counted from a Thursday, 1 January 1970
]


@pytest.mark.parametrize(("options", "name"), OPTIONS)
def test_a_time_is_named_by_the_period_that_was_over(options: dict[str, str], name: str) -> None:
    periods = tag_periods(parse_tag_options(options))
    assert periods.name_of(periods.last_whole(MOMENT)) == name


@pytest.mark.parametrize("options", [options for options, _ in OPTIONS])
@given(moment=st.datetimes(datetime(1971, 1, 1), datetime(9999, 1, 1)))
def test_names_say_their_time(options: dict[str, str], moment: datetime) -> None:
    periods = tag_periods(parse_tag_options(options))
    begin = periods.last_whole(moment)
    assert periods.time_of(periods.name_of(begin)) == begin
    assert begin + periods.length <= moment < begin + 2 * periods.length


def test_a_year_has_four_digits() -> None:
    assert tag_periods(parse_tag_options({})).name_of(datetime(33, 4, 3)) == "0033-04-03"


def test_before_1970_periods_are_cut_as_java_cuts_them() -> None:
    assert tag_periods(parse_tag_options({})).last_whole(datetime(1969, 12, 31, 12)) == datetime(1969, 12, 31)
    assert tag_periods(parse_tag_options({})).last_whole(datetime(1969, 12, 30, 12)) == datetime(1969, 12, 30)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "2024-3-5"),
        ({}, "2024-02-30"),
        ({}, "20240305"),
        ({}, "v2024-03-05"),
        ({PERIOD: "hourly"}, "2024-03-05"),
        ({PERIOD: "hourly"}, "2024-03-05 24"),
        ({FORMATTER: "without_dashes"}, "2024-03-05"),
        ({DURATION: "30 min"}, "2024-03-05 04"),
    ],
)
def test_other_names_say_no_time(options: dict[str, str], name: str) -> None:
    assert tag_periods(parse_tag_options(options)).time_of(name) is None


def test_days_end_at_the_first_blank() -> None:
    assert tag_periods(parse_tag_options({})).time_of("2024-03-05 anything") == datetime(2024, 3, 5)


def test_a_period_is_longer_than_nothing() -> None:
    with pytest.raises(InvalidOptionError, match=r"tag\.creation-period-duration = '0 s': expected at least 1"):
        tag_periods(parse_tag_options({DURATION: "0 s"}))
    assert tag_periods(parse_tag_options({DURATION: "1 ms"})).length == timedelta(milliseconds=1)
