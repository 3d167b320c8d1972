"""Whether a batch of a query is in a branch: whatever was expired, rolled back, or copied to another branch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER
from paimon_spark.errors import UnknownFormatVersionError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, list_snapshot_ids
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from paimon_spark.streaming.batches import (
    QUERY_PROPERTY,
    AlreadyCommitted,
    BatchesMissing,
    BatchOutcome,
    BatchStatus,
    LastBatch,
    NotCommitted,
    OutcomeUnknown,
    Sink,
    SinkLog,
    SnapshotKey,
    find_batch,
    sink_log_path,
    write_sink_log,
)
from tests.harness.fault_store import FaultStore
from tests.harness.search import examples
from tests.harness.tables import MetadataTable, a_snapshot

QUERY = "query"
SINK = Sink(QUERY, QUERY)


class Branch:
    """A branch that a query and others commit to, as metadata alone."""

    def __init__(self, branch: str = "main", table: MetadataTable | None = None, sink: Sink = SINK) -> None:
        self.table, self.branch, self.sink = (table or MetadataTable()).schema(branch=branch), branch, sink
        self.history = 0
        self.handle = self.table.open(branch)

    @property
    def head(self) -> int:
        return max(list_snapshot_ids(self.handle), default=0)

    def put(self, user: str, identifier: int, kind: CommitKind = CommitKind.APPEND, **more: Any) -> Snapshot:
        snapshot_id = self.head + 1
        name = f"list-{self.branch}-{self.history}-{snapshot_id}"
        made = a_snapshot(
            snapshot_id, commit_user=user, commit_identifier=identifier, commit_kind=kind,
            base_manifest_list=f"{name}-0", delta_manifest_list=f"{name}-1", **more,
        )  # fmt: skip
        self.table.snapshots([made], self.branch).hint("LATEST", str(snapshot_id), self.branch)
        return made

    def others(self, count: int = 1) -> Branch:
        for _ in range(count):
            self.put("others", BATCH_COMMIT_IDENTIFIER)
        return self

    def look(self, batch: int, complete: bool = False) -> BatchStatus:
        return find_batch(self.handle, self.sink, batch, complete=complete)

    def outcome(self, batch: int, complete: bool = False) -> BatchOutcome:
        return self.look(batch, complete).outcome

    def note(self, batch: int, has_rows: bool = True) -> Branch:
        """What the commit of a batch does before it makes a snapshot."""
        status = self.look(batch)
        head = None if status.head is None else SnapshotKey.of(status.head)
        write_sink_log(self.handle, SinkLog(QUERY, self.sink.commit_user, batch, has_rows, head, (), status.before))
        return self

    def batch(self, batch: int, has_rows: bool = True, compacts: bool = False) -> Branch:
        """A batch from first to last."""
        self.note(batch, has_rows)
        if has_rows:
            self.put(self.sink.commit_user, batch, properties=self.sink.properties or None)
        if compacts:
            self.put(self.sink.commit_user, batch, CommitKind.COMPACT)
        return self

    def expire(self, up_to: int) -> Branch:
        for i in list_snapshot_ids(self.handle):
            if i <= up_to:
                self.table.delete(self.handle.layout.snapshot_path(i))
        return self

    def roll_back(self, to: int) -> Branch:
        for i in list_snapshot_ids(self.handle):
            if i > to:
                self.table.delete(self.handle.layout.snapshot_path(i))
        self.history += 1
        self.table.hint("LATEST", str(to), self.branch)
        return self

    def without_log(self) -> Branch:
        self.table.delete(sink_log_path(self.handle, QUERY))
        return self


def is_committed(outcome: BatchOutcome, snapshot_id: int | None) -> bool:
    found = outcome.snapshot.id if isinstance(outcome, AlreadyCommitted) and outcome.snapshot is not None else None
    return isinstance(outcome, AlreadyCommitted) and found == snapshot_id


def test_the_first_batch_on_any_branch_is_new() -> None:
    assert Branch().outcome(0) == NotCommitted()
    assert Branch().others(3).outcome(0) == NotCommitted()


def test_a_batch_is_new_until_its_snapshot_is_there() -> None:
    branch = Branch().batch(0).others().batch(1).note(2)
    assert branch.outcome(2) == NotCommitted()
    branch.put(QUERY, 2)
    assert is_committed(branch.outcome(2), 4)
    assert is_committed(branch.others(5).outcome(2), 4)
    assert branch.outcome(3) == NotCommitted()


def test_a_batch_that_made_no_snapshot_is_no_lost_one() -> None:
    branch = Branch().batch(0).batch(1, has_rows=False).batch(2, has_rows=False)
    assert branch.outcome(2) == NotCommitted()
    assert branch.outcome(3) == NotCommitted()
    only_empty = Branch().batch(0, has_rows=False).batch(1, has_rows=False)
    assert only_empty.outcome(2) == NotCommitted()


def test_the_compaction_of_a_batch_is_not_its_rows_and_tells_nothing_of_later_ones() -> None:
    branch = Branch().batch(0, compacts=True)
    assert is_committed(branch.outcome(0), 1)
    assert branch.outcome(1) == NotCommitted()
    branch.batch(1, compacts=True).expire(3)
    assert is_committed(branch.outcome(1), None)


def test_a_checkpoint_that_went_back_is_asked_for_what_is_there() -> None:
    branch = Branch().batch(0).batch(1).batch(2).batch(3)
    assert is_committed(branch.outcome(3), 4)
    for batch in range(3):
        assert isinstance(branch.outcome(batch), AlreadyCommitted)
    branch.others(5).expire(6)
    for batch in range(3):
        assert isinstance(branch.outcome(batch), AlreadyCommitted)


def test_others_of_the_same_name_are_not_the_query() -> None:
    branch = Branch(sink=Sink(QUERY, "etl", is_named=True))
    branch.put("etl", BATCH_COMMIT_IDENTIFIER)
    branch.put("etl", 5)
    branch.put("etl", 6, properties={QUERY_PROPERTY: "another"})
    assert branch.outcome(0) == NotCommitted()
    branch.batch(0)
    assert is_committed(branch.outcome(0), 4)
    assert branch.outcome(1) == NotCommitted()
    branch.put("etl", 1, properties={QUERY_PROPERTY: "another"})
    assert branch.outcome(1) == NotCommitted()


def test_a_batch_job_of_the_name_of_the_query_is_not_its_last_batch() -> None:
    branch = Branch()
    branch.put(QUERY, BATCH_COMMIT_IDENTIFIER)
    assert branch.outcome(0) == NotCommitted()
    assert branch.batch(0).outcome(1) == NotCommitted()


def test_a_prefix_of_the_user_that_changes_loses_no_batch() -> None:
    branch = Branch(sink=Sink(QUERY, f"team_{QUERY}")).batch(0).batch(1)
    branch.sink = Sink(QUERY, f"other_{QUERY}")
    assert is_committed(branch.outcome(1), 2)
    assert branch.outcome(2) == NotCommitted()


def test_a_query_that_was_stopped_while_everything_expired_goes_on() -> None:
    branch = Branch().batch(0).batch(1).others(20).expire(15)
    status = branch.look(2)
    assert (status.outcome, status.before) == (NotCommitted(), LastBatch(1, None))
    assert branch.batch(2).outcome(3) == NotCommitted()


def test_a_query_that_died_in_a_commit_while_everything_expired_is_not_guessed_at() -> None:
    branch = Branch().batch(0).note(1).others(20).expire(15)
    outcome = branch.outcome(1)
    assert isinstance(outcome, OutcomeUnknown)
    assert outcome.is_doubtful
    assert branch.outcome(1, complete=True) == NotCommitted()  # what replaces everything may do so twice


def test_a_tag_still_tells_what_expired() -> None:
    branch = Branch().batch(0).batch(1)
    branch.table.tag("t", find_snapshot(branch.handle, 2) or 0)
    branch.others(20).expire(15)
    assert is_committed(branch.outcome(1), 2)


def test_an_empty_batch_in_doubt_is_committed_again_after_everything_expired() -> None:
    assert Branch().batch(0).note(1, has_rows=False).others(9).expire(5).outcome(1) == NotCommitted()


def test_what_expired_before_the_head_noted_does_not_matter() -> None:
    branch = Branch().batch(0).others(9).batch(1).others(2).expire(9)
    assert is_committed(branch.outcome(1), 11)
    assert branch.outcome(2) == NotCommitted()


def test_a_branch_rolled_back_by_this_batch_alone_gets_it_again() -> None:
    branch = Branch().others().batch(0).batch(1).batch(2).roll_back(3)
    assert branch.outcome(2) == NotCommitted()
    assert branch.others(4).outcome(2) == NotCommitted()


def test_a_branch_rolled_back_by_earlier_batches_has_lost_them() -> None:
    branch = Branch().others().batch(0).batch(1).batch(2).batch(3)
    lost = branch.roll_back(2).others(6).outcome(3)
    assert isinstance(lost, BatchesMissing)
    assert lost.first == 1
    assert branch.outcome(3, complete=True) == NotCommitted()


def test_a_batch_that_was_acknowledged_and_rolled_back_is_lost() -> None:
    branch = Branch().batch(0).batch(1).batch(2).roll_back(2)
    lost = branch.others(3).outcome(3)
    assert isinstance(lost, BatchesMissing)
    assert lost.first == 2


def test_a_roll_back_over_empty_batches_loses_nothing() -> None:
    branch = Branch().batch(0).others(3).batch(1, has_rows=False).batch(2, has_rows=False)
    assert branch.roll_back(2).outcome(3) == NotCommitted()
    assert isinstance(branch.roll_back(0).others().outcome(3), BatchesMissing)


def test_a_roll_back_to_below_what_expired_is_not_guessed_at() -> None:
    branch = Branch().batch(0).others(6).batch(1, has_rows=False).expire(4).roll_back(5)
    assert isinstance(branch.outcome(2), OutcomeUnknown)


def test_a_branch_made_anew_has_lost_everything() -> None:
    branch = Branch().batch(0).batch(1).roll_back(0)
    assert isinstance(branch.outcome(2), BatchesMissing)
    assert isinstance(branch.others(9).outcome(2), BatchesMissing)
    assert branch.without_log().outcome(0) == NotCommitted()


def test_a_query_moved_to_a_branch_made_after_all_its_batches_goes_on() -> None:
    main = Branch().batch(0).batch(1)
    copy = Branch("copy", main.table)
    copy.table.snapshots([s for s in (find_snapshot(main.handle, i) for i in (1, 2)) if s], "copy")
    assert is_committed(copy.outcome(1), 2)
    assert copy.outcome(2) == NotCommitted()


@pytest.mark.parametrize("expired", [0, 1])
def test_a_query_moved_to_another_branch_is_told_what_is_missing(expired: int) -> None:
    branch = Branch("copy", MetadataTable().schema()).others(3).expire(expired)
    assert branch.outcome(0) == NotCommitted()
    outcome = branch.outcome(5)
    if expired:
        assert isinstance(outcome, OutcomeUnknown)
        assert not outcome.is_doubtful
    else:
        assert isinstance(outcome, BatchesMissing)
        assert outcome.first == 0


def test_a_query_that_wrote_elsewhere_meanwhile_is_told_what_is_missing() -> None:
    branch = Branch().batch(0).others()
    lost = branch.outcome(3)
    assert isinstance(lost, BatchesMissing)
    assert lost.first == 1
    branch.put(QUERY, 1)
    branch.put(QUERY, 2)  # by a merge
    assert branch.outcome(3) == NotCommitted()
    assert isinstance(branch.outcome(4), BatchesMissing)
    assert isinstance(branch.others(3).expire(5).outcome(4), OutcomeUnknown)


def test_a_checkpoint_and_a_history_that_went_back_together_go_on() -> None:
    branch = Branch().batch(0).batch(1).batch(2).batch(3).roll_back(2)
    assert branch.outcome(2) == NotCommitted()
    assert is_committed(branch.outcome(1), 2)
    assert isinstance(branch.outcome(3), BatchesMissing)


def test_a_note_that_is_garbage_counts_as_missing() -> None:
    branch = Branch().batch(0).batch(1)
    branch.table.put(sink_log_path(branch.handle, QUERY), b"{")
    assert is_committed(branch.outcome(1), 2)
    assert branch.outcome(2) == NotCommitted()
    assert isinstance(branch.outcome(4), BatchesMissing)


def test_a_note_of_a_later_release_stops_the_query() -> None:
    branch = Branch().batch(0)
    branch.table.put(sink_log_path(branch.handle, QUERY), b'{"version": 9}')
    with pytest.raises(UnknownFormatVersionError):
        branch.outcome(1)


def test_a_note_that_a_slow_twin_put_back_hides_nothing() -> None:
    branch = Branch().batch(0).batch(1)
    early = SinkLog(QUERY, QUERY, 1, True, SnapshotKey.of(find_snapshot(branch.handle, 1) or a_snapshot(1)))
    branch.batch(2).batch(3).note(4)
    branch.put(QUERY, 4)
    write_sink_log(branch.handle, early)
    assert is_committed(branch.outcome(4), 5)
    assert branch.outcome(5) == NotCommitted()


def test_a_twin_that_committed_since_is_seen() -> None:
    branch = Branch().batch(0).note(1)
    assert branch.outcome(1) == NotCommitted()
    branch.put(QUERY, 1)
    assert is_committed(branch.outcome(1), 2)


def test_a_hole_that_another_engine_left_is_another_history() -> None:
    branch = Branch().batch(0).others(3).batch(1).others(4)
    branch.table.delete(branch.handle.layout.snapshot_path(5))
    lost = branch.outcome(2)
    assert isinstance(lost, BatchesMissing)
    assert lost.first == 1


@pytest.mark.parametrize("foreign", [0, 300])
def test_looking_costs_few_calls_however_long_the_history(foreign: int) -> None:
    branch = Branch().others(foreign).batch(0).batch(1)
    handle = branch.handle
    store = FaultStore(handle.store)
    assert find_batch(replace(handle, store=store), SINK, 2).outcome == NotCommitted()
    assert store.count() == 5
    assert (latest_snapshot(handle) or a_snapshot(1)).id == foreign + 2


class LocalTable(MetadataTable):
    """On the local disk, where many small tables are faster than in memory."""

    @property
    def store(self) -> Store:
        return open_store("file:///")[0]

    def put(self, path: str, data: bytes) -> None:
        self.store.write(path, data)

    def delete(self, path: str) -> None:
        self.store.delete(path)


class Told:
    """A branch, and what really is in it: by snapshot id the batch that made it, expired ones too."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.history: dict[int, int | None] = {}
        self.acknowledged: set[int] = set()
        self.rows: dict[int, bool] = {}
        self.next = 0
        self.rolled_to: int | None = None
        self.expired = 0

    def commit(self, batch: int | None) -> None:
        made = self.branch.put(
            "others" if batch is None else QUERY, BATCH_COMMIT_IDENTIFIER if batch is None else batch
        )
        self.history[made.id] = batch

    def check(self) -> BatchOutcome:
        """The verdict on the next batch, held against what is so."""
        outcome = self.branch.outcome(self.next)
        there = set(self.history.values())
        gone = {b for b in self.acknowledged if b < self.next} - there
        if isinstance(outcome, NotCommitted):
            assert self.next not in there
            assert not gone
        elif isinstance(outcome, AlreadyCommitted):
            assert self.next in there
        elif isinstance(outcome, BatchesMissing):
            assert gone
            assert outcome.first <= min(gone)
        else:
            assert self.expired
        return outcome

    def batch(self, has_rows: bool, crash: int) -> None:
        """The next batch, which may die before it is noted, before its snapshot, or before it is acknowledged."""
        outcome = self.check()
        if crash == 0:
            return
        has_rows = self.rows.setdefault(self.next, has_rows)
        if isinstance(
            outcome, BatchesMissing | OutcomeUnknown
        ):  # the user goes on all the same: from here on nothing was before
            self.acknowledged.clear()
            self.history = {i: None if b == self.next else b for i, b in self.history.items()}
        if not isinstance(outcome, AlreadyCommitted):
            self.branch.note(self.next, has_rows)
            if crash == 1:
                return
            if has_rows:
                self.commit(self.next)
        if crash == 2:
            return
        self.rolled_to = None
        self.acknowledged |= {self.next} & set(self.history.values())
        self.next += 1

    def roll_back(self, to: int) -> None:
        if to <= self.expired or to >= self.branch.head:
            return
        self.branch.roll_back(to)
        self.history = {i: b for i, b in self.history.items() if i <= to}
        self.rolled_to = to if self.rolled_to is None else min(to, self.rolled_to)

    def expire(self, up_to: int) -> None:
        # When nothing is left from before a roll-back, nobody can tell that there was one.
        up_to = min(up_to, self.branch.head - 1, self.branch.head if self.rolled_to is None else self.rolled_to - 1)
        if up_to > self.expired:
            self.branch.expire(up_to)
            self.expired = up_to


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.booleans(), st.sampled_from([3, 3, 3, 2, 1, 0])),
        st.tuples(st.just("others"), st.integers(1, 3)),
        st.tuples(st.just("roll_back"), st.integers(1, 4)),
        st.tuples(st.just("expire"), st.integers(0, 3)),
    ),
    max_size=25,
)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_every_verdict_is_true_of_any_history(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    told = Told(Branch(table=LocalTable(f"{tmp_path_factory.mktemp('t')}/t")))
    for step, *given_ in steps:
        if step == "batch":
            told.batch(*given_)
        elif step == "others":
            for _ in range(given_[0]):
                told.commit(None)
        elif step == "roll_back":
            told.roll_back(told.branch.head - given_[0])
        else:
            told.expire(told.branch.head - given_[0])
        told.check()
