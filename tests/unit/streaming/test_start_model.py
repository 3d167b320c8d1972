"""Starts of random histories, compared with what is said of them by looking at every snapshot that ever was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.errors import HistoryChangedError, PaimonError, SnapshotExpiredError, SnapshotNotFoundError
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.stream_read import parse_stream_options
from paimon_spark.streaming.offset import StreamOffset
from paimon_spark.streaming.start import UNPLANNED, first_offset
from tests.harness.search import examples
from tests.harness.tables import MetadataTable, a_snapshot

pytestmark = pytest.mark.slow

LATEST_TIME = 12
Answer = tuple[str, int] | type[PaimonError]


@dataclass(frozen=True)
class Past:
    """All snapshots that ever were, and what of them is left.

    Attributes:
        history: by id, from 1 on; their times never go back.
        alive: ids of those that are snapshots still; the newest always is.
        kept: ids of those that are left for their changelogs.
        tagged: ids of those that have a tag `t<id>`.
        hint: what `LATEST` says, right or wrong; None without the file.
    """

    history: tuple[Snapshot, ...]
    alive: frozenset[int]
    kept: frozenset[int]
    tagged: frozenset[int]
    hint: int | None

    @property
    def head(self) -> int:
        return len(self.history)

    @property
    def readable(self) -> frozenset[int]:
        """Ids of the snapshots whose changes can be read."""
        return self.alive | self.kept

    @contextmanager
    def opened(self) -> Iterator[TableHandle]:
        """The table, taken away afterwards: what lies in memory makes each listing there slower."""
        table = MetadataTable().schema().snapshots(s for s in self.history if s.id in self.alive)
        for s in self.history:
            if s.id in self.kept:
                table.put(table.layout().changelog_path(s.id), snapshot_file.encode(s))
            if s.id in self.tagged:
                table.tag(f"t{s.id}", s)
        if self.hint is not None:
            table.hint("LATEST", str(self.hint))
        yield table.open()
        fsspec.filesystem("memory").rm(table.root, recursive=True)


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    head = draw(st.integers(1, 9))
    times = sorted(draw(st.lists(st.integers(1, LATEST_TIME), min_size=head, max_size=head)))
    kinds = draw(
        st.lists(st.sampled_from([*[CommitKind.APPEND] * 3, CommitKind.COMPACT]), min_size=head, max_size=head)
    )
    added = draw(st.lists(st.integers(0, 5), min_size=head, max_size=head))
    history = tuple(
        a_snapshot(
            i + 1, times[i], commit_kind=kinds[i], total_record_count=sum(added[: i + 1]), delta_record_count=added[i]
        )
        for i in range(head)
    )
    ids = st.integers(1, head)
    oldest = draw(st.integers(1, (head + 1) // 2))
    holes = draw(st.sets(ids, max_size=3))
    alive = frozenset(range(oldest, head + 1)) - holes | {head}
    kept = frozenset(range(draw(ids), oldest)) - draw(st.sets(ids, max_size=1)) - alive
    hint = draw(st.none() | st.just(head) | st.sampled_from(sorted(alive)))
    # A hint before a hole makes the snapshot before the hole the newest: only wrong in ways that are noticed.
    usable = hint is None or hint == head or hint + 1 in alive
    return Past(history, alive, kept, frozenset(draw(st.sets(ids, max_size=3))), hint if usable else None)


def started(past: Past, **options: str) -> Answer:
    """Where a stream begins: ('changes', id) from the changes of a snapshot on, ('state', id) with that state."""
    with past.opened() as handle:
        return started_on(handle, past, **options)


def started_on(handle: TableHandle, past: Past, **options: str) -> Answer:
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    try:
        offset = first_offset(handle, parse_stream_options(given))
    except PaimonError as e:
        return type(e)
    return checked(past, offset)


def checked(past: Past, offset: StreamOffset) -> tuple[str, int]:
    """The answer of an offset that says of its snapshot what is true."""
    assert offset.snapshot_id is not None
    if offset.snapshot_id:
        truth = past.history[offset.snapshot_id - 1]
        assert offset.rows == truth.total_record_count
        known = offset.snapshot_id in past.readable | past.tagged
        assert offset.made == truth.delta_manifest_list or (offset.made is None and not offset.part)
        assert offset.made is None or known
    else:
        assert (offset.made, offset.rows, offset.part) == (None, None, None)
    if offset.part is None:
        return "changes", offset.snapshot_id + 1
    assert offset.part == UNPLANNED
    return "state", offset.snapshot_id


@given(pasts())
@settings(max_examples=examples(60), deadline=None)
def test_the_newest_needs_no_search(past: Past) -> None:
    assert started(past) == ("state", past.head)
    assert started(past, scan__mode="latest") == ("changes", past.head + 1)


@given(pasts())
@settings(max_examples=examples(80), deadline=None)
def test_the_compacted_one_is_the_newest_from_which_nothing_is_missing(past: Past) -> None:
    expected = past.head
    for i in range(past.head, 0, -1):
        if i not in past.alive:
            break
        if past.history[i - 1].commit_kind is CommitKind.COMPACT:
            expected = i
            break
    assert started(past, scan__mode="compacted-full") == ("state", expected)


@given(pasts(), st.integers(1, 11))
@settings(max_examples=examples(100), deadline=None)
def test_an_id_is_begun_with_or_refused(past: Past, asked: int) -> None:
    found = started(past, scan__snapshot_id=str(asked))
    if asked in past.readable or asked == past.head + 1:
        assert found == ("changes", asked)
    else:
        assert found is (SnapshotExpiredError if asked <= past.head else SnapshotNotFoundError)
    if asked not in past.tagged:
        assert started(past, versionAsOf=str(asked)) == found


@given(pasts(), st.integers(1, 11))
@settings(max_examples=examples(100), deadline=None)
def test_a_state_is_begun_with_when_what_follows_is_there(past: Past, asked: int) -> None:
    follows = asked == past.head or asked + 1 in past.readable
    later = SnapshotNotFoundError if asked > past.head else SnapshotExpiredError
    by_id = started(past, scan__snapshot_id=str(asked), scan__mode="from-snapshot-full")
    assert by_id == (("state", asked) if asked in past.alive and follows else later)
    if asked in past.tagged:
        by_tag = started(past, scan__tag_name=f"t{asked}", scan__mode="from-snapshot-full")
        assert by_tag == (("state", asked) if follows else SnapshotExpiredError)
        changes = started(past, scan__tag_name=f"t{asked}")
        assert changes == (("changes", asked) if asked in past.readable else SnapshotExpiredError)


@given(pasts(), st.integers(0, LATEST_TIME + 1))
@settings(max_examples=examples(200), deadline=None)
def test_no_snapshot_since_a_time_is_left_out(past: Past, time_ms: int) -> None:
    first = next((s.id for s in past.history if s.time_ms >= time_ms), past.head + 1)
    found = started(past, scan__timestamp_millis=str(time_ms))
    told = first == 1 or first - 1 in past.readable | past.tagged
    if first > past.head or (first in past.readable and told):
        assert found == ("changes", first)
    else:
        assert found is SnapshotExpiredError


@given(pasts(), st.integers(0, LATEST_TIME + 1))
@settings(max_examples=examples(150), deadline=None)
def test_a_creation_time_is_that_of_files_unless_a_snapshot_before_it_is_there(past: Past, time_ms: int) -> None:
    first = next((s.id for s in past.history if s.time_ms >= time_ms), past.head + 1)
    found = started(past, scan__creation_time_millis=str(time_ms))
    if first <= past.head and {first - 1, first} <= past.readable:
        assert found == ("changes", first)
    else:
        assert found == ("state", past.head)


@given(pasts(), st.integers(1, 11))
@settings(max_examples=examples(60), deadline=None)
def test_a_consumer_goes_on_like_an_id(past: Past, asked: int) -> None:
    with past.opened() as handle:
        handle.store.write(f"{handle.layout.consumer_dir}/consumer-c", f'{{"nextSnapshot": {asked}}}'.encode())
        found = started_on(handle, past, consumer_id="c")
    if asked <= past.head + 1:
        assert found == started(past, scan__snapshot_id=str(asked))
    else:
        assert found is HistoryChangedError
