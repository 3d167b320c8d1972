"""When a process writes what it has to tell, and that nothing of it is lost, whatever fails."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass

import pytest

from paimon_spark.engine.commit.listeners import CommitEvent, CommitListener
from paimon_spark.errors import CommitError, CorruptFileError, StorageError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.lineage.index.provenance import Provenance, SourceRange, TableRef
from paimon_spark.lineage.index.tables import SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, SOURCE_SNAPSHOT, Index, Rows, rows_of
from paimon_spark.lineage.index.warehouse import quote_name
from paimon_spark.lineage.recording import recorder as process_recorders
from paimon_spark.lineage.recording import recorder as recorder_module
from paimon_spark.lineage.recording import row_queue as recorder_state
from paimon_spark.lineage.recording.catch_up import CaughtUp, known_sinks
from paimon_spark.lineage.recording.maintenance import forget_job
from paimon_spark.lineage.recording.recorder import Recorder, flush_all, flush_of, recorder_for
from paimon_spark.lineage.recording.row_queue import ExpectedJob, QueuedRows, RowQueue
from tests.harness.lineage_index import MemoryIndex, ref_of

SINK, SOURCE = ref_of("d.t"), ref_of("d.s")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def index() -> MemoryIndex:
    return MemoryIndex().switch_on()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(index: MemoryIndex, clock: Clock) -> Recorder:
    return Recorder(index, 10_000, clock=clock, background=False)


def batch(barrier: int, job: str = "j") -> Provenance:
    return Provenance(job, barrier, (SourceRange(SOURCE, last=barrier + 100),), query_id="q")


def event_of(index: MemoryIndex, ref: TableRef, snapshot: Snapshot) -> CommitEvent:
    location = index.warehouse.store.url(index.warehouse.table_root(ref.database, ref.bare))
    return CommitEvent(
        ref.name, ref.branch, location, "user", 0, snapshot.id, CommitKind.APPEND, 0, snapshot.properties or {}
    )


def rows(barrier: int, job: str = "j") -> dict[str, list[tuple[object, ...]]]:
    return rows_of(batch(barrier, job), SINK, barrier + 1)


def barriers(index: MemoryIndex) -> list[int]:
    return [row[1] for row in index.rows(SINK_SNAPSHOT)]


# --- when


def test_the_first_rows_are_written_at_once_and_the_next_when_the_interval_is_over(
    index: MemoryIndex, recorder: Recorder, clock: Clock
) -> None:
    assert recorder.due_in_s() is None
    recorder.add(rows(0))
    assert recorder.due_in_s() == 0
    assert recorder.tick()
    recorder.add(rows(1))
    recorder.add(rows(2))
    assert recorder.due_in_s() == 10
    assert not recorder.tick()
    clock.now += 9.5
    assert not recorder.tick()
    clock.now += 0.5
    assert recorder.tick()
    assert barriers(index) == [0, 1, 2]
    assert recorder.due_in_s() is None


def test_without_an_interval_a_batch_is_one_commit_to_each_table_of_snapshots(index: MemoryIndex, clock: Clock) -> None:
    recorder = Recorder(index, 0, clock=clock, background=False)
    for barrier in range(5):
        recorder.add(rows(barrier))
        assert recorder.due_in_s() == 0
        assert recorder.tick()
        assert not recorder.tick()
        assert barriers(index) == list(range(barrier + 1))
    commits = Counter(name for upsert in index.upserts for name in upsert)
    assert commits == {SOURCE_SNAPSHOT.name: 5, SINK_SNAPSHOT.name: 5, SOURCE_JOB.name: 1, SINK_JOB.name: 1}


def test_after_a_pause_longer_than_the_interval_rows_are_written_at_once(recorder: Recorder, clock: Clock) -> None:
    recorder.add(rows(0))
    recorder.tick()
    clock.now += 500
    recorder.add(rows(1))
    assert recorder.due_in_s() == 0


def test_rows_of_many_batches_are_two_commits_and_the_sinks_snapshot_comes_last(
    index: MemoryIndex, recorder: Recorder
) -> None:
    for barrier in range(50):
        recorder.add(rows(barrier))
    assert recorder.flush()
    assert [set(u) for u in index.upserts] == [
        {SOURCE_JOB.name, SINK_JOB.name, SOURCE_SNAPSHOT.name},
        {SINK_SNAPSHOT.name},
    ]
    assert index.rows(SINK_JOB) == [("j", "d", "t")]


def test_a_jobs_row_is_written_once_by_a_process_but_again_after_an_hour(
    index: MemoryIndex, recorder: Recorder, clock: Clock
) -> None:
    for barrier in range(3):
        recorder.add(rows(barrier))
        recorder.flush()
    assert sum(SINK_JOB.name in u for u in index.upserts) == 1
    clock.now += 3601
    recorder.add(rows(3))
    recorder.flush()
    assert sum(SINK_JOB.name in u for u in index.upserts) == 2


def test_the_shortest_interval_of_those_who_share_a_recorder_holds(index: MemoryIndex) -> None:
    first = recorder_for(index)
    assert first.interval_ms == 10_000
    assert recorder_for(index, 3_000) is first
    assert recorder_for(index, 60_000) is first
    assert first.interval_ms == 3_000
    assert recorder_for(MemoryIndex()) is not first


# --- what


def test_a_commit_is_recorded_by_what_its_snapshot_says(index: MemoryIndex, recorder: Recorder) -> None:
    assert isinstance(recorder, CommitListener)
    for ref in (SINK, ref_of("d.t$branch_fix")):
        recorder.on_commit(event_of(index, ref, index.commit(ref, batch(7))))
    recorder.flush()
    assert index.rows(SINK_SNAPSHOT) == [("j", 7, "d", "t", 1), ("j", 7, "d", "t$branch_fix", 1)]
    assert index.rows(SOURCE_SNAPSHOT) == [("j", 7, "d", "s", 107)]
    assert index.rows(SOURCE_JOB) == [("j", "d", "s")]


def test_commits_that_say_nothing_or_are_of_lineage_or_elsewhere_are_not_recorded(
    index: MemoryIndex, recorder: Recorder
) -> None:
    recorder.on_commit(event_of(index, SINK, index.commit(SINK)))
    recorder.on_commit(event_of(index, ref_of("paimon.t"), index.commit(SINK, batch(1))))
    elsewhere = event_of(MemoryIndex(), SINK, index.commit(SINK, batch(2)))
    recorder.on_commit(elsewhere)
    assert recorder.waiting_rows == 0


def test_without_data_lineage_only_jobs_are_recorded(clock: Clock) -> None:
    index = MemoryIndex().switch_on(data=False)
    recorder = Recorder(index, clock=clock, background=False)
    recorder.add(rows(0))
    assert recorder.flush()
    assert index.rows(SINK_JOB) == [("j", "d", "t")]
    assert index.rows(SOURCE_JOB) == [("j", "d", "s")]
    assert index.rows(SINK_SNAPSHOT) == index.rows(SOURCE_SNAPSHOT) == []


def test_the_later_of_two_rows_with_one_key_holds(index: MemoryIndex, recorder: Recorder) -> None:
    for snapshot_id in (4, 5):
        recorder.add(rows_of(batch(1), SINK, snapshot_id))
    recorder.flush()
    assert index.rows(SINK_SNAPSHOT) == [("j", 1, "d", "t", 5)]


def test_whoever_adds_rows_is_told_once_they_are_there(index: MemoryIndex, recorder: Recorder) -> None:
    told: list[list[int]] = []
    index.failures = [StorageError("no")]
    recorder.add(rows(0), lambda: told.append(barriers(index)))
    assert not recorder.flush()
    assert told == []
    assert recorder.flush()
    assert told == [[0]]


# --- failures


def test_rows_that_cannot_be_written_wait_and_keep_their_order(
    index: MemoryIndex, recorder: Recorder, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.add(rows_of(batch(0), SINK, 1))
    index.failures = [StorageError("the store is gone"), CommitError("lost the race"), None, StorageError("again")]
    assert not recorder.flush()
    recorder.add(rows_of(batch(0), SINK, 2))
    assert not recorder.flush()
    assert not recorder.flush()
    assert recorder.flush()
    assert index.rows(SINK_SNAPSHOT) == [("j", 0, "d", "t", 2)]
    texts = [r.getMessage() for r in caplog.records]
    assert [("the store is gone" in t, "lost the race" in t) for t in texts] == [(True, False), (False, True)]
    assert all(r.levelno == logging.WARNING for r in caplog.records)


def test_rows_that_come_while_others_cannot_be_written_are_written_after_them(
    index: MemoryIndex, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = MemoryIndex.upsert

    def fail(self: MemoryIndex, some: Rows) -> None:
        monkeypatch.setattr(MemoryIndex, "upsert", whole)
        recorder.add(rows_of(batch(0), SINK, 3))
        raise StorageError("gone")

    monkeypatch.setattr(MemoryIndex, "upsert", fail)
    for snapshot_id in (1, 2):
        recorder.add(rows_of(batch(0), SINK, snapshot_id))
    assert not recorder.flush()
    assert recorder.flush()
    assert index.rows(SINK_SNAPSHOT) == [("j", 0, "d", "t", 3)]


def test_of_a_failure_that_lasts_one_warns_every_ten_minutes(
    index: MemoryIndex, recorder: Recorder, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    index.failures = [StorageError("gone")] * 1000
    recorder.add(rows(0))
    tries = 0
    for _ in range(1200):
        tries += recorder.tick()
        clock.now += 1
    assert 2 <= len(caplog.records) <= 3
    assert 20 <= tries <= 60


def test_a_row_that_can_never_be_written_does_not_hold_up_the_others(
    index: MemoryIndex, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.add(rows(0))
    recorder.add({SINK_SNAPSHOT.name: [("short",)]})
    recorder.add(rows(2))
    assert recorder.flush()
    assert barriers(index) == [0, 2]
    assert any("dropping rows that cannot be written" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("how", ["given up", "no tables", "the store fails"])
def test_who_is_told_of_rows_that_are_written_is_not_told_of_others(
    index: MemoryIndex, recorder: Recorder, how: str
) -> None:
    told: list[str] = []
    if how == "no tables":
        index.is_there = False
    else:
        failure = RuntimeError("bad") if how == "given up" else OSError("too many open files")
        index.failures = [failure, failure]
    recorder.add(rows(0), lambda: told.append("first"))
    recorder.flush()
    assert told == []
    index.is_there, index.failures = True, []
    recorder.add(rows(1), lambda: told.append("second"))
    recorder.flush()
    assert told == (["first", "second"] if how == "the store fails" else ["second"])
    assert barriers(index) == ([0, 1] if how == "the store fails" else [1])


def test_rows_beyond_the_bound_are_let_go_and_looked_for_again(
    index: MemoryIndex, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder_state, "MOST_ROWS", 40)
    recorder.expect("j", SINK, query_id="q")
    snapshot = index.commit(SINK, batch(0))
    recorder.on_commit(event_of(index, SINK, snapshot))
    assert recorder.flush()
    index.failures = [StorageError("gone")]
    for barrier in range(1, 30):
        recorder.on_commit(event_of(index, SINK, index.commit(SINK, batch(barrier))))
        if barrier == 5:
            assert not recorder.flush()
    assert recorder.waiting_rows <= 40
    assert any("are dropped" in r.getMessage() for r in caplog.records)
    assert recorder.flush()
    assert barriers(index) == list(range(30))


def test_nothing_is_written_where_there_are_no_lineage_tables_any_more(recorder: Recorder, index: MemoryIndex) -> None:
    index.is_there = False
    recorder.expect("j", SINK, query_id="q")
    recorder.on_commit(event_of(index, SINK, index.commit(SINK, batch(0))))
    assert recorder.flush()
    assert index.upserts == []
    assert recorder.waiting_rows == 0
    assert recorder.due_in_s() == 10
    index.is_there = True
    recorder.on_commit(event_of(index, SINK, index.commit(SINK, batch(1))))
    assert recorder.flush()
    assert barriers(index) == [0, 1]


# --- earlier processes


def test_rows_of_an_earlier_process_are_written_with_the_first_of_this_one(
    index: MemoryIndex, recorder: Recorder
) -> None:
    for barrier in range(5):
        index.commit(SINK, batch(barrier))
    recorder.expect("j", SINK, query_id="q")
    recorder.on_commit(event_of(index, SINK, index.commit(SINK, batch(5))))
    assert recorder.tick()
    assert barriers(index) == [0, 1, 2, 3, 4, 5]
    sinks = index.warehouse.store.list(f"{index.warehouse.lineage_dir}/sinks")
    assert [i.name for i in sinks] == [f"{quote_name(SINK.name)}.json"]
    assert known_sinks(index) == {SINK}


def test_no_row_is_written_before_those_of_earlier_processes_could_be_looked_for(
    index: MemoryIndex, clock: Clock
) -> None:
    found: list[CaughtUp | Exception] = [StorageError("gone"), CaughtUp(rows(0))]
    asked = []

    def find(_: Index, expected: ExpectedJob) -> CaughtUp:
        asked.append(expected)
        answer = found.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    recorder = Recorder(index, clock=clock, background=False, catch_up=find)
    for _ in range(3):
        recorder.expect("j", SINK, query_id="q", checkpoint="file:///c")
    recorder.add(rows(1))
    assert not recorder.flush()
    assert barriers(index) == []
    assert recorder.flush()
    assert barriers(index) == [0, 1]
    recorder.expect("j", SINK, query_id="q")
    recorder.add(rows(2))
    recorder.flush()
    assert asked == [ExpectedJob("j", SINK, "q", "file:///c")] * 2


def test_a_snapshot_that_can_never_be_read_does_not_hold_up_the_rows_that_come(
    index: MemoryIndex, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def find(_: Index, expected: ExpectedJob) -> CaughtUp:
        raise CorruptFileError("snapshot-3 is damaged")

    recorder = Recorder(index, clock=clock, background=False, catch_up=find)
    recorder.expect("j", SINK, query_id="q")
    recorder.add(rows(1))
    assert recorder.flush()
    assert barriers(index) == [1]
    assert any("snapshot-3" in r.getMessage() for r in caplog.records)


def test_a_query_whose_batches_are_empty_still_looks_for_rows_of_earlier_processes(
    index: MemoryIndex, recorder: Recorder, clock: Clock
) -> None:
    index.commit(SINK, batch(0))
    recorder.expect("j", SINK, query_id="q")
    assert recorder.due_in_s() == 10
    clock.now += 10
    assert recorder.tick()
    assert barriers(index) == [0]
    assert recorder.due_in_s() is None


def test_a_job_that_is_forgotten_while_its_rows_wait_comes_back_only_when_it_commits_again(index: MemoryIndex) -> None:
    recorder = recorder_for(index, 3_600_000)
    recorder.add(rows(0))
    assert recorder.flush()
    recorder.add(rows(1))
    forget_job(index, "j")
    assert recorder.flush()
    assert index.rows(SINK_SNAPSHOT) == index.rows(SINK_JOB) == []
    recorder.add(rows(2))
    assert recorder.flush()
    assert barriers(index) == [2]
    assert index.rows(SINK_JOB) == [("j", "d", "t")]


# --- threads and processes


def test_threads_that_record_at_once_lose_nothing(index: MemoryIndex) -> None:
    recorder = Recorder(index, 0)

    def run(job: str) -> None:
        for barrier in range(200):
            recorder.add(rows(barrier, job))

    threads = [threading.Thread(target=run, args=(f"j{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.flush()
    assert len(index.rows(SINK_SNAPSHOT)) == 800


def test_a_thread_with_nothing_to_write_ends_and_another_writes_what_comes(
    index: MemoryIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "_LONGEST_SLEEP_S", 0.01)
    recorder = Recorder(index, 0)
    for barrier in range(3):
        there = threading.Event()
        recorder.add(rows(barrier), there.set)
        thread = recorder._state.thread
        assert there.wait(30)
        if thread is not None:
            thread.join(30)
        assert recorder._state.thread is None
    assert barriers(index) == [0, 1, 2]


def test_recorders_with_nothing_to_write_make_room_for_others() -> None:
    first = recorder_for(MemoryIndex().switch_on())
    waits = recorder_for(MemoryIndex())
    waits._background = False
    with waits._state.lock:
        waits._state.add(QueuedRows(rows(0)))
    for _ in range(100):
        recorder_for(MemoryIndex())
    kept = set(process_recorders._registry.recorders.values())
    assert waits in kept
    assert first not in kept
    assert len(kept) <= 64
    waits._state = RowQueue()


def test_rows_of_jobs_are_forgotten_after_a_while(
    index: MemoryIndex, recorder: Recorder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_state, "_MOST_JOBS", 10)
    for run in range(30):
        recorder.expect(f"j{run}", SINK)
        recorder.add(rows(0, f"j{run}"))
        recorder.flush()
        clock.now += 3600
    assert len(recorder._state.job_rows) <= 12
    assert len(recorder._state.caught_up) <= 10


def test_the_background_thread_writes_and_whoever_waits_is_told(index: MemoryIndex) -> None:
    recorder = Recorder(index, 3_600_000)
    there = threading.Event()
    recorder.add(rows(0), there.set)
    assert there.wait(60)
    recorder.add(rows(1))
    assert recorder.flush(timeout_s=60)
    assert barriers(index) == [0, 1]
    assert recorder.flush(timeout_s=60)


def test_whoever_waits_for_a_store_that_hangs_waits_no_longer_than_asked(index: MemoryIndex) -> None:
    recorder = Recorder(index, 3_600_000)
    go = threading.Event()
    upsert = index.upsert
    index.upsert = lambda rows: (go.wait(60), upsert(rows))[0]  # type: ignore[assignment, method-assign]
    recorder.add(rows(0))
    assert not recorder.flush(timeout_s=0.01)
    go.set()
    assert recorder.flush(timeout_s=60)
    assert barriers(index) == [0]


def test_a_failed_flush_is_told_to_who_waits(index: MemoryIndex) -> None:
    recorder = Recorder(index, 3_600_000)
    index.failures = [StorageError("gone")] * 2
    recorder.add(rows(0))
    assert not recorder.flush(timeout_s=60) or barriers(index) == [0]
    index.failures = []
    assert recorder.flush()
    assert barriers(index) == [0]


def test_all_recorders_of_a_process_are_flushed(index: MemoryIndex) -> None:
    others = [index, MemoryIndex().switch_on()]
    for one in others:
        recorder_for(one, 3_600_000).add(rows(0))
        recorder_for(one, 3_600_000).add(rows(1))
    assert flush_all()
    assert [barriers(one) for one in others] == [[0, 1]] * 2
    assert flush_of(index.warehouse)
    assert flush_of(MemoryIndex().warehouse)


def test_a_recorder_cannot_be_pickled(recorder: Recorder) -> None:
    with pytest.raises(TypeError, match="recorder_for"):
        pickle.dumps(recorder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_writes_its_own_rows_and_none_of_its_parents() -> None:
    index = MemoryIndex().switch_on()
    recorder = recorder_for(index, 3_600_000)
    recorder.flush()
    recorder._state.last_flush = recorder._clock()  # as if it had just written
    recorder.add(rows(0))
    # As when another thread writes at the moment of the fork.
    with recorder._state.flushing, recorder._state.lock:
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(60)
                mine = MemoryIndex(index.warehouse).switch_on()
                assert recorder.waiting_rows == 0
                assert recorder.flush()
                assert index.rows(SINK_SNAPSHOT) == []
                assert recorder_for(mine) is not recorder
                recorder_for(mine).add(rows(5))
                assert recorder_for(mine).flush(timeout_s=30)
                assert barriers(mine) == [5]
                os._exit(0)
            except BaseException as e:  # noqa: BLE001 - told by the exit code
                print(repr(e), file=sys.stderr)
                os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert recorder.waiting_rows == 4
    assert recorder.flush()
    assert barriers(index) == [0]


ENDING = """
import sys
from concurrent.futures import ThreadPoolExecutor
from paimon_spark.lineage.recording.recorder import recorder_for
from tests.harness.lineage_index import MemoryIndex, ref_of
from paimon_spark.lineage.index.provenance import Provenance
from paimon_spark.lineage.index.tables import rows_of

class Index(MemoryIndex):
    def upsert(self, rows):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(super().upsert, rows).result()
        print(sorted(row[1] for row in rows.get("sink_snapshot_lineage", ())), flush=True)

recorder = recorder_for(Index().switch_on(), 3_600_000)
for barrier in range(3):
    recorder.add(rows_of(Provenance("j", barrier), ref_of("d.t"), barrier + 1))
    recorder.flush() if barrier == 0 else None
"""


@pytest.mark.ci
def test_what_waits_when_the_process_ends_is_written_with_thread_pools_still_open() -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "[1, 2]"


@pytest.mark.ci
def test_a_process_ends_though_its_store_hangs() -> None:
    script = ENDING.replace("        with ThreadPool", "        import time; time.sleep(600)\n        with ThreadPool")
    script = script.replace("    recorder.flush() if barrier == 0 else None\n", "")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0
