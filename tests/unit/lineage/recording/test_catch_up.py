"""After any crash the lineage tables come to say what the snapshots and checkpoints say."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.engine.commit.listeners import CommitEvent
from paimon_spark.errors import CorruptFileError, StorageError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.lineage.index.job_registry import Registration, register_query
from paimon_spark.lineage.index.provenance import Provenance, SourceRange, TableRef, decode_provenance
from paimon_spark.lineage.index.tables import SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, SOURCE_SNAPSHOT, rows_of
from paimon_spark.lineage.recording.catch_up import (
    CaughtUp,
    catch_up,
    mark_searched,
    read_searched_batch,
    read_searched_to,
    register_sink,
)
from paimon_spark.lineage.recording.checkpoints import Checkpoint, Ends
from paimon_spark.lineage.recording.maintenance import Synced, forget_job, sync
from paimon_spark.lineage.recording.read_notes import NoteTicket, write_note
from paimon_spark.lineage.recording.recorder import Recorder
from paimon_spark.lineage.recording.row_queue import ExpectedJob
from tests.harness.lineage_checkpoint import write_checkpoint
from tests.harness.lineage_index import MemoryIndex, ref_of

SINK, SOURCE = ref_of("d.t"), ref_of("d.s")
SINKS = (SINK, ref_of("d.t$branch_fix"))
STREAMS = ("stream", "it's")
BATCHES = ("nightly",)


@pytest.fixture
def index() -> MemoryIndex:
    return MemoryIndex().switch_on()


def batch(barrier: int, job: str = "stream", query_id: str | None = "q") -> Provenance:
    return Provenance(job, barrier, (SourceRange(SOURCE, last=barrier + 100),), query_id)


def caught(index: MemoryIndex, found: CaughtUp) -> list[tuple[int, int]]:
    """Barrier and snapshot of the rows found."""
    return [(row[1], row[4]) for row in found.rows.get(SINK_SNAPSHOT.name, ())]


def record(index: MemoryIndex, *snapshots: Snapshot, sink: TableRef = SINK) -> None:
    for snapshot in snapshots:
        provenance = decode_provenance(snapshot.properties)
        assert provenance is not None
        index.upsert(rows_of(provenance, sink, snapshot.id))


# --- one query


def test_batches_newer_than_the_last_one_recorded_are_found_oldest_first(index: MemoryIndex) -> None:
    made = [index.commit(SINK, batch(b)) for b in range(10)]
    record(index, *made[:6])
    found = catch_up(index, ExpectedJob("stream", SINK, query_id="q"))
    assert caught(index, found) == [(6, 7), (7, 8), (8, 9), (9, 10)]
    assert found.rows[SOURCE_SNAPSHOT.name] == [("stream", b, "d", "s", b + 100) for b in range(6, 10)]
    assert found.rows[SOURCE_JOB.name] == [("stream", "d", "s")]
    assert found.rows[SINK_JOB.name] == [("stream", "d", "t")]
    assert index.upserts[6:] == []


def test_of_a_long_history_with_nothing_missing_a_few_snapshots_are_read(index: MemoryIndex) -> None:
    made = [index.commit(SINK, batch(b)) for b in range(5000)]
    record(index, made[-1])
    assert catch_up(index, ExpectedJob("stream", SINK, query_id="q")).rows == {}
    assert index.snapshots_read <= 4


def test_snapshots_of_others_and_those_that_say_nothing_are_passed_over(index: MemoryIndex) -> None:
    index.commit(SINK, batch(0))
    record(index, index.histories[SINK][0])
    for barrier in range(1, 4):
        index.commit(SINK)
        index.commit(SINK, batch(barrier, "another", None))
        index.commit(SINK, kind=CommitKind.COMPACT)
        index.commit(SINK, batch(barrier))
        index.commit(SINK, properties={"paimon-spark.lineage.job": "stream"})
    assert [b for b, _ in caught(index, catch_up(index, ExpectedJob("stream", SINK, query_id="q")))] == [1, 2, 3]


def test_a_query_s_first_batch_ends_the_search(index: MemoryIndex) -> None:
    for _ in range(1000):
        index.commit(SINK)
    for barrier in range(2):
        index.commit(SINK, batch(barrier))
    assert caught(index, catch_up(index, ExpectedJob("stream", SINK, query_id="q"))) == [(0, 1001), (1, 1002)]
    assert index.snapshots_read == 2


def test_of_a_branch_that_was_recorded_under_another_name_all_is_looked_through(index: MemoryIndex) -> None:
    for barrier in range(3):
        index.commit(SINK, batch(barrier, "nightly", None))
    index.commit(SINK, kind=CommitKind.COMPACT)  # and then it was merged into main
    register_sink(index, SINK)
    assert caught(index, catch_up(index, ExpectedJob("nightly", SINK))) == [(0, 1), (1, 2), (2, 3)]


def test_after_a_roll_back_the_batches_that_came_in_place_are_found(index: MemoryIndex) -> None:
    made = [index.commit(SINK, batch(b)) for b in range(6)]
    record(index, *made)
    index.roll_back(SINK, 3)
    assert catch_up(index, ExpectedJob("stream", SINK, query_id="q")).rows == {}
    for barrier in (6, 7):
        index.commit(SINK, batch(barrier))
    assert caught(index, catch_up(index, ExpectedJob("stream", SINK, query_id="q"))) == [(6, 4), (7, 5)]


def test_an_expired_history_gives_what_is_alive(index: MemoryIndex) -> None:
    for barrier in range(10):
        index.commit(SINK, batch(barrier))
    index.expire(SINK, 8)
    assert caught(index, catch_up(index, ExpectedJob("stream", SINK, query_id="q"))) == [(7, 8), (8, 9), (9, 10)]


def test_a_branch_that_is_gone_gives_nothing(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    assert catch_up(index, ExpectedJob("stream", SINK, query_id="q")) == CaughtUp()
    assert catch_up(index, ExpectedJob("nightly", SINK)) == CaughtUp()
    assert sync(index).rows == {}


def test_what_was_forgotten_stays_so_and_what_came_after_is_found(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    for barrier in range(4):
        index.commit(SINK, batch(barrier), time_ms=1000 + barrier)
        index.commit(SINK, batch(barrier, "nightly", None), time_ms=1000 + barrier)
    forget_job(index, "stream", now_ms=1002)
    assert [b for b, _ in caught(index, catch_up(index, ExpectedJob("stream", SINK, query_id="q")))] == [3]
    sync(index)
    assert [row[:2] for row in index.rows(SINK_SNAPSHOT)] == [*(("nightly", b) for b in range(4)), ("stream", 3)]


# --- batches without rows


def test_batches_without_rows_are_told_by_the_checkpoint(index: MemoryIndex, tmp_path: Path) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3, 4, 9, 12], committed=3)
    record(index, index.commit(SINK, batch(0)))
    found = catch_up(index, ExpectedJob("stream", SINK, query_id="q", checkpoint=url))
    assert found.rows == {
        SOURCE_JOB.name: [("stream", "d", "s")],
        SOURCE_SNAPSHOT.name: [("stream", b, "d", "s", last) for b, last in enumerate([3, 4, 9])],
    }
    mark_searched(index, found)
    assert catch_up(index, ExpectedJob("stream", SINK, query_id="q", checkpoint=url)) == CaughtUp()


def test_a_sync_reads_the_checkpoints_that_are_registered(index: MemoryIndex, tmp_path: Path) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3, 4], committed=2)
    register_query(index.warehouse, "q", Registration("stream", url, sink_records_sources=True))
    register_query(index.warehouse, "other", Registration("k", url, sink_records_sources=False))
    register_query(index.warehouse, "gone", Registration("l", f"file://{tmp_path}/gone", sink_records_sources=True))
    assert sync(index).rows == {SOURCE_JOB.name: 1, SOURCE_SNAPSHOT.name: 2}
    assert index.rows(SOURCE_SNAPSHOT) == [("stream", 0, "d", "s", 3), ("stream", 1, "d", "s", 4)]
    assert sync(index).rows == {}


def test_a_query_begun_anew_where_the_checkpoint_was_is_not_taken_for_the_earlier_one(
    index: MemoryIndex, tmp_path: Path
) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3, 4], committed=2, query_id="another")
    register_query(index.warehouse, "q", Registration("stream", url, sink_records_sources=True))
    assert catch_up(index, ExpectedJob("stream", SINK, query_id="q", checkpoint=url)) == CaughtUp()
    assert sync(index) == Synced({}, ())
    assert read_searched_batch(index.warehouse, "q") == -1


def test_each_file_of_offsets_is_read_once(index: MemoryIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3, 4, 9, 12], committed=4)
    read: list[int] = []
    ends = Checkpoint.ends

    def counted(self: Checkpoint, batch_id: int) -> Ends:
        read.append(batch_id)
        return ends(self, batch_id)

    monkeypatch.setattr(Checkpoint, "ends", counted)
    assert (
        len(catch_up(index, ExpectedJob("stream", SINK, query_id="q", checkpoint=url)).rows[SOURCE_SNAPSHOT.name]) == 4
    )
    assert read == [0, 1, 2, 3]


def test_a_checkpoint_that_cannot_be_read_holds_up_nothing_else(
    index: MemoryIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3], committed=1)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text("nonsense")
    register_query(index.warehouse, "q", Registration("stream", url, sink_records_sources=True))
    register_sink(index, SINK)
    index.commit(SINK, batch(0))
    assert caught(index, catch_up(index, ExpectedJob("stream", SINK, query_id="q", checkpoint=url))) == [(0, 1)]
    done = sync(index)
    assert index.rows(SINK_SNAPSHOT) == [("stream", 0, "d", "t", 1)]
    assert len(done.unreadable) == 1
    assert url in done.unreadable[0]


# --- sync


def test_a_sync_writes_what_runs_of_a_batch_job_that_overtook_each_other_left(index: MemoryIndex) -> None:
    index.commit(SINK, batch(0, "nightly", None))
    killed = index.commit(SINK, batch(1, "nightly", None))
    record(index, index.histories[SINK][0], index.commit(SINK, batch(2, "nightly", None)))
    assert sync(index).rows == {SINK_JOB.name: 1, SINK_SNAPSHOT.name: 1, SOURCE_JOB.name: 1, SOURCE_SNAPSHOT.name: 1}
    assert ("nightly", 1, "d", "t", killed.id) in index.rows(SINK_SNAPSHOT)


def test_a_run_of_a_batch_job_finds_what_runs_before_it_left_and_notes_how_far_it_looked(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    index.commit(SINK, batch(0, "nightly", None))
    record(index, index.commit(SINK, batch(1, "nightly", None)))
    found = catch_up(index, ExpectedJob("nightly", SINK))
    assert caught(index, found) == [(0, 1)]
    index.upsert(found.rows)
    mark_searched(index, found)
    index.snapshots_read = 0
    assert catch_up(index, ExpectedJob("nightly", SINK)) == CaughtUp()
    assert index.snapshots_read == 1


def test_a_sync_reads_what_came_since_the_last_one(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    for barrier in range(2000):
        index.commit(SINK, batch(barrier))
    sync(index)
    assert len(index.rows(SINK_SNAPSHOT)) == 2000
    index.snapshots_read = 0
    index.commit(SINK, batch(2000))
    sync(index)
    assert len(index.rows(SINK_SNAPSHOT)) == 2001
    assert index.snapshots_read <= 3
    assert sync(index).rows == {}


def test_a_sync_that_breaks_off_is_done_again(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    index.commit(SINK, batch(0))
    index.failures = [None, StorageError("gone")]
    with pytest.raises(StorageError, match="gone"):
        sync(index)
    assert read_searched_to(index.warehouse, SINK) is None
    assert sync(index).rows[SINK_SNAPSHOT.name] == 1


def test_a_sync_after_a_roll_back_looks_at_the_history_that_is(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    for barrier in range(6):
        index.commit(SINK, batch(barrier))
    sync(index)
    for keep, barriers in ((3, range(6, 12)), (2, range(12, 13)), (1, range(0))):
        index.roll_back(SINK, keep)
        for barrier in barriers:
            index.commit(SINK, batch(barrier))
        sync(index)
        assert says(index, SINK) <= set(index.rows(SINK_SNAPSHOT))


def test_a_sync_with_data_lineage_switched_on_later_goes_back_to_the_beginning(
    index: MemoryIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_sink(index, SINK)
    index.commit(SINK, batch(0))
    for module in ("recording.catch_up", "recording.maintenance", "index.tables"):
        monkeypatch.setattr(f"paimon_spark.lineage.{module}.records_data", lambda _: False)
    assert sync(index).rows == {SINK_JOB.name: 1, SOURCE_JOB.name: 1}
    assert sync(index).rows == {}
    for module in ("recording.catch_up", "recording.maintenance", "index.tables"):
        monkeypatch.setattr(f"paimon_spark.lineage.{module}.records_data", lambda _: True)
    sync(index)
    assert index.rows(SINK_SNAPSHOT) == [("stream", 0, "d", "t", 1)]


def test_a_branch_that_cannot_be_read_holds_up_no_other(index: MemoryIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    for ref in SINKS:
        register_sink(index, ref)
        index.commit(ref, batch(0))
    whole = MemoryIndex.snapshots

    def damaged(self: MemoryIndex, ref: TableRef, after: int = 0) -> Any:
        if ref == SINK:
            raise CorruptFileError("snapshot-1 is damaged")
        return whole(self, ref, after)

    monkeypatch.setattr(MemoryIndex, "snapshots", damaged)
    done = sync(index)
    assert done.unreadable == ("d.t: CorruptFileError: snapshot-1 is damaged",)
    assert index.rows(SINK_SNAPSHOT) == [("stream", 0, "d", "t$branch_fix", 1)]


def test_notes_that_were_left_become_rows(index: MemoryIndex) -> None:
    ticket = NoteTicket(index.warehouse, SOURCE, True, 1, 8, None, 5, "token")
    assert write_note(ticket, TaskIdentity("app", "reading", 3, "reader"))
    assert sync(index).rows == {SOURCE_JOB.name: 1, SOURCE_SNAPSHOT.name: 1}
    assert index.rows(SOURCE_SNAPSHOT) == [("reader", 3, "d", "s", 8)]


# --- copies


def copy(index: MemoryIndex, snapshot: Snapshot, kind: CommitKind = CommitKind.OVERWRITE) -> Snapshot:
    """As a rollback to the latest, or a compaction of manifests, makes it."""
    return index.commit(SINK, kind=kind, properties=snapshot.properties)


def test_a_snapshot_with_the_properties_of_another_is_no_batch(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    made = [index.commit(SINK, batch(b)) for b in range(4)]
    sync(index)
    copy(index, made[1])
    copy(index, made[3], CommitKind.COMPACT)
    assert sync(index).rows == {}
    assert catch_up(index, ExpectedJob("stream", SINK, query_id="q")).rows == {}
    index.commit(SINK, batch(4))
    sync(index)
    assert [row[4] for row in index.rows(SINK_SNAPSHOT)] == [1, 2, 3, 4, 7]


def test_a_copy_counts_where_its_original_was_never_seen(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    made = [index.commit(SINK, batch(b)) for b in range(3)]
    copy(index, made[1])
    index.expire(SINK, 4)
    sync(index)
    assert index.rows(SINK_SNAPSHOT) == [("stream", 1, "d", "t", 4)]


def test_of_two_commits_of_one_batch_the_later_counts(index: MemoryIndex) -> None:
    register_sink(index, SINK)
    for barrier in (0, 1, 1, 1):
        index.commit(SINK, batch(barrier))
    assert caught(index, catch_up(index, ExpectedJob("stream", SINK, query_id="q"))) == [(0, 1), (1, 4)]
    sync(index)
    assert [row[4] for row in index.rows(SINK_SNAPSHOT)] == [1, 4]
    for _ in range(2):
        index.commit(SINK)
        assert sync(index).rows == {}
    elsewhere = MemoryIndex(tables=index.tables, histories=index.histories)  # has not been looked through
    assert sync(elsewhere).rows == {}


def test_what_was_there_before_the_first_recorded_commit_is_not_looked_through(index: MemoryIndex) -> None:
    for _ in range(1000):
        index.commit(SINK)
    register_sink(index, SINK)
    index.commit(SINK, batch(0, "nightly", None))
    register_sink(index, SINK)
    index.snapshots_read = 0
    assert caught(index, catch_up(index, ExpectedJob("nightly", SINK))) == [(0, 1001)]
    assert index.snapshots_read <= 2


# --- any course of events


def says(index: MemoryIndex, ref: TableRef) -> set[tuple[Any, ...]]:
    """The rows that the snapshots alive of a branch tell."""
    out: dict[tuple[str, int], tuple[Any, ...]] = {}
    for snapshot in index.histories.get(ref, ()):
        provenance = decode_provenance(snapshot.properties)
        if provenance is not None:
            out[(provenance.job, provenance.barrier)] = (provenance.job, provenance.barrier, *ref, snapshot.id)
    return set(out.values())


@dataclass
class World:
    """Jobs that commit, each in a process that may be killed at any instant."""

    index: MemoryIndex = field(default_factory=lambda: MemoryIndex().switch_on())
    recorders: dict[str, Recorder] = field(default_factory=dict)
    barriers: dict[str, int] = field(default_factory=dict)
    ever: set[tuple[Any, ...]] = field(default_factory=set)

    def recorder(self, process: str) -> Recorder:
        if process not in self.recorders:
            self.recorders[process] = Recorder(self.index, background=False)
        return self.recorders[process]

    def commit(self, job: str, process: str, sink: TableRef, *, told: bool) -> None:
        """A batch; a process that is killed right after its commit tells its recorder nothing."""
        query_id = None if job in BATCHES else f"query of {job}"
        barrier = self.barriers[job] = self.barriers.get(job, -1) + 1
        recorder = self.recorder(process)
        recorder.expect(job, sink, query_id=query_id)
        snapshot = self.index.commit(sink, batch(barrier, job, query_id))
        self.ever.add((job, barrier, *sink, snapshot.id))
        if told:
            store, home = self.index.warehouse.store, self.index.warehouse.table_root(sink.database, sink.bare)
            properties = snapshot.properties or {}
            kind = CommitKind.APPEND
            recorder.on_commit(
                CommitEvent(sink.name, sink.branch, store.url(home), "u", 0, snapshot.id, kind, 0, properties)
            )
        else:
            self.kill(process)

    def kill(self, process: str) -> None:
        self.recorders.pop(process, None)


def course(draw: Any, world: World) -> None:
    for _ in range(draw(st.integers(1, 25))):
        sink = SINKS[draw(st.integers(0, 9)) // 8]
        what = draw(st.sampled_from(["stream"] * 4 + ["batch"] * 3 + ["flush"] * 2 + ["fail", "kill"] + OTHERS))
        if what == "stream":
            job = draw(st.sampled_from(STREAMS))
            world.commit(job, job, SINKS[STREAMS.index(job)], told=draw(st.integers(0, 3)) > 0)
        elif what == "batch":
            process = draw(st.sampled_from(["run 1", "run 2", "run 3"]))
            world.commit("nightly", process, sink, told=draw(st.integers(0, 3)) > 0)
        elif world.recorders and what in ("flush", "fail", "kill"):
            process = draw(st.sampled_from(sorted(world.recorders)))
            if what == "fail":  # killed between the commits of a flush, or before
                world.index.failures = [None] * draw(st.integers(0, 1)) + [StorageError("killed")]
            if what != "kill":
                world.recorder(process).flush()
            if what != "flush":
                world.kill(process)
            world.index.failures = []
        elif what == "foreign":
            world.index.commit(sink)
        elif what == "roll back":
            history = world.index.histories.get(sink, [])
            if len(history) > 1:
                world.index.roll_back(sink, draw(st.sampled_from([s.id for s in history])))
        elif what == "expire":
            history = world.index.histories.get(sink, [])
            if history:
                world.index.expire(sink, draw(st.sampled_from([s.id for s in history])))
        elif what == "sync":
            sync(world.index)


OTHERS = ["foreign", "roll back", "expire", "sync"]


@settings(max_examples=max(1, settings().max_examples // 2))
@given(st.data())
def test_after_a_sync_the_tables_say_what_the_snapshots_say(data: st.DataObject) -> None:
    world = World()
    course(data.draw, world)
    sync(world.index)
    told = set(world.index.rows(SINK_SNAPSHOT))
    for ref in SINKS:
        assert says(world.index, ref) <= told
    assert told <= world.ever
    assert_whole(world.index)


@settings(max_examples=max(1, settings().max_examples // 2))
@given(st.data())
def test_a_query_that_runs_again_records_all_of_its_batches_alive(data: st.DataObject) -> None:
    world = World()
    course(data.draw, world)
    for job, sink in zip(STREAMS, SINKS, strict=True):
        if data.draw(st.booleans()):
            world.kill(job)
        world.commit(job, job, sink, told=True)
        assert world.recorder(job).flush()
        mine = {row for row in says(world.index, sink) if row[0] == job}
        assert mine <= set(world.index.rows(SINK_SNAPSHOT))
    assert_whole(world.index)


def assert_whole(index: MemoryIndex) -> None:
    """Where the row of a sink's snapshot is, all of its batch is."""
    sources, jobs = set(index.rows(SOURCE_SNAPSHOT)), set(index.rows(SINK_JOB))
    for job, barrier, database, table, _ in index.rows(SINK_SNAPSHOT):
        assert (job, barrier, *SOURCE, barrier + 100) in sources
        assert (job, database, table) in jobs
        assert (job, *SOURCE) in index.rows(SOURCE_JOB)
