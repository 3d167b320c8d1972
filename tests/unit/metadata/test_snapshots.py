"""Snapshots of a branch: earliest, latest, by time and by watermark, beside expiry."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import CorruptFileError, SnapshotExpiredError, SnapshotNotFoundError
from paimon_spark.format.metadata_files.snapshot import encode
from paimon_spark.metadata import small_files
from paimon_spark.metadata.snapshots import (
    earliest_snapshot,
    earliest_snapshot_id,
    find_changelog,
    find_snapshot,
    get_snapshot,
    latest_snapshot,
    latest_snapshot_id,
    list_changelog_ids,
    list_snapshots,
    snapshot_at_or_after_ms,
    snapshot_at_or_after_watermark,
    snapshot_at_or_before_ms,
)
from tests.harness.tables import MetadataTable, a_snapshot


def table(*ids: int) -> MetadataTable:
    return MetadataTable().schema().snapshots(ids)


def test_a_table_without_commits_has_no_ends() -> None:
    handle = table().open()
    assert latest_snapshot(handle) is None
    assert earliest_snapshot(handle) is None
    assert list_snapshots(handle) == []
    assert snapshot_at_or_before_ms(handle, 10**15) is None
    assert snapshot_at_or_after_ms(handle, 0) is None
    assert snapshot_at_or_after_watermark(handle, 0) is None


HINTS = [None, "7", "5", "3", "9", "1", "0", "-1", "garbage", "", "99999999999999999999999", "7\n", "\x00"]


@pytest.mark.parametrize("latest", HINTS)
@pytest.mark.parametrize("earliest", HINTS)
def test_no_hint_changes_the_answer(latest: str | None, earliest: str | None) -> None:
    built = table(5, 6, 7)
    if latest is not None:
        built.hint("LATEST", latest)
    if earliest is not None:
        built.hint("EARLIEST", earliest)
    handle = built.open()
    assert latest_snapshot_id(handle) == 7
    # Java trusts an EARLIEST hint whose snapshot exists, wherever it points.
    assert earliest_snapshot_id(handle) == (7 if earliest in ("7", "7\n") else 5)


def test_a_good_hint_spares_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = table(5, 6, 7).hint("LATEST", "7").hint("EARLIEST", "5").open()
    monkeypatch.setattr(type(handle.store), "list", lambda *a: pytest.fail("listed"))
    assert latest_snapshot_id(handle) == 7
    assert earliest_snapshot_id(handle) == 5
    assert snapshot_at_or_before_ms(handle, 6500) == a_snapshot(6)


def test_temporary_files_are_no_snapshots() -> None:
    built = table(1)
    for name in (".snapshot-2.abc.tmp", "snapshot-2abc.tmp", "snapshot-x", "2"):
        built.put(f"{built.root}/snapshot/{name}", b"")
    assert latest_snapshot_id(built.open()) == 1


def test_expiry_while_looking_for_the_earliest_goes_on_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    built = table(5, 6, 7)
    handle = built.open()
    listed = type(handle.store).list

    def list_then_expire(store: object, directory: str) -> object:
        found = listed(store, directory)  # type: ignore[arg-type]
        path = handle.layout.snapshot_path(5)
        if handle.store.exists(path):
            built.delete(path)
        return found

    monkeypatch.setattr(type(handle.store), "list", list_then_expire)
    assert earliest_snapshot_id(handle) == 6


def test_missing_snapshots_say_why() -> None:
    handle = table(5, 6, 7).open()
    assert get_snapshot(handle, 6) == a_snapshot(6)
    with pytest.raises(SnapshotExpiredError, match=r"snapshot 4 of table db\.t has expired: .* 5 to 7"):
        get_snapshot(handle, 4)
    for wrong in (8, 0, -3):
        with pytest.raises(SnapshotNotFoundError, match=rf"no snapshot {wrong}: .* 5 to 7") as caught:
            get_snapshot(handle, wrong)
        assert not isinstance(caught.value, SnapshotExpiredError)
    with pytest.raises(SnapshotNotFoundError, match="it has no snapshot"):
        get_snapshot(table().open(), 1)


def test_a_broken_snapshot_names_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "WAITS_S", (0,))
    built = table(1)
    built.put(built.layout().snapshot_path(2), b"{}")
    with pytest.raises(CorruptFileError, match="snapshot/snapshot-2"):
        latest_snapshot(built.open())


def test_snapshots_of_a_branch_are_its_own() -> None:
    built = table(1, 2).schema(branch="fix").snapshots([1, 2, 3], "fix")
    assert latest_snapshot_id(built.open()) == 2
    assert latest_snapshot_id(built.open("fix")) == 3


IDS = st.sets(st.integers(1, 40), min_size=1, max_size=12).map(sorted)


@given(IDS, st.lists(st.integers(0, 6), min_size=40, max_size=40), st.integers(0, 130), st.data())
def test_times_are_found_as_by_looking_at_all(ids: list[int], gaps: list[int], asked: int, data: st.DataObject) -> None:
    """Ids may have holes, times repeat, hints may be anything."""
    times = {i: 1 + sum(gaps[:i]) for i in ids}
    built = MetadataTable().schema().snapshots(a_snapshot(i, times[i]) for i in ids)
    if data.draw(st.booleans()):
        built.hint("LATEST", str(data.draw(st.sampled_from([ids[-1], ids[-1] + 5]))))
    handle = built.open()
    before = [i for i in ids if times[i] <= asked]
    after = [i for i in ids if times[i] >= asked]
    found = snapshot_at_or_before_ms(handle, asked)
    assert (found.id if found else None) == (before[-1] if before else None)
    found = snapshot_at_or_after_ms(handle, asked)
    assert (found.id if found else None) == (after[0] if after else None)


@given(IDS, st.lists(st.none() | st.integers(0, 3), min_size=41, max_size=41), st.integers(-1, 60))
def test_watermarks_are_found_as_by_looking_at_all(ids: list[int], steps: list[int | None], asked: int) -> None:
    marks: dict[int, int | None] = {}
    for i in ids:
        step = steps[i]
        marks[i] = None if step is None else sum(s or 0 for s in steps[: i + 1])
    built = MetadataTable().schema().snapshots(a_snapshot(i, watermark=marks[i]) for i in ids)
    found = snapshot_at_or_after_watermark(built.open(), asked)
    expected = next((i for i in ids if (mark := marks[i]) is not None and mark >= asked), None)
    assert (found.id if found else None) == expected


def test_a_time_costs_few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    built = MetadataTable().schema().snapshots(range(1, 1025)).hint("LATEST", "1024").hint("EARLIEST", "1")
    handle = built.open()
    reads: list[str] = []
    read = type(handle.store).read

    def counting(store: object, path: str) -> bytes:
        reads.append(path)
        return read(store, path)  # type: ignore[arg-type]

    monkeypatch.setattr(type(handle.store), "read", counting)
    assert snapshot_at_or_before_ms(handle, 300_500) == a_snapshot(300)
    assert len(reads) <= 15
    assert bisect_right(range(1, 1025), 300) == 300


def test_changelogs_outlive_their_snapshots() -> None:
    built = table(5, 6)
    for i in (3, 4):
        built.put(built.layout().changelog_path(i), encode(a_snapshot(i)))
    built.put(f"{built.root}/changelog/LATEST", b"-1")
    handle = built.open()
    assert list_changelog_ids(handle) == [3, 4]
    assert find_changelog(handle, 4) == a_snapshot(4)
    assert find_snapshot(handle, 4) is None
    assert find_changelog(handle, 3) == a_snapshot(3)
    assert find_snapshot(handle, 5) == a_snapshot(5)
    with pytest.raises(SnapshotExpiredError):
        get_snapshot(handle, 2)
