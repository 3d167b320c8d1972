"""Reads of streams are recorded at their source, for sinks that do not: batch by batch, over crashes."""

from __future__ import annotations

import logging

import pytest

from paimon_spark.errors import StorageError
from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.lineage.index import tables as settings
from paimon_spark.lineage.index.job_registry import Registration, claim_name, register_query
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.tables import SOURCE_JOB, SOURCE_SNAPSHOT
from paimon_spark.lineage.index.warehouse import Warehouse, WarehouseTable, forget_warnings
from paimon_spark.lineage.recording.read_notes import stream_notes, write_note
from paimon_spark.lineage.recording.read_recording import SourceRecording
from paimon_spark.lineage.recording.recorder import Recorder
from paimon_spark.options.lineage import LineageOptions
from paimon_spark.streaming.offset import Part, Phase, StreamOffset
from tests.harness.fault_store import Fault, FaultStore
from tests.harness.lineage_index import MemoryIndex

T = TableRef("db", "t")
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def _told_nothing() -> None:
    forget_warnings()


@pytest.fixture
def index() -> MemoryIndex:
    return MemoryIndex().switch_on()


def at(snapshot: int, part: Part | None = None) -> StreamOffset:
    return StreamOffset("file:///wh/db.db/t", "main", snapshot, part=part)


class Query:
    """A streaming query with one source; each run of it is a process of its own."""

    def __init__(
        self, index: MemoryIndex, query_id: str = "q-1", name: str | None = "q", job: str | None = None
    ) -> None:
        self.index, self.query_id, self.name, self.job = index, query_id, name, job
        self.now = 0.0
        self.start()

    def start(self) -> None:
        home = WarehouseTable(self.index.warehouse, T)
        self.recorder = Recorder(self.index, background=False)
        asked = LineageOptions(self.job)
        self.source = SourceRecording(home, asked, self.index, self.recorder, clock=lambda: self.now)

    def run(self, batch: int, start: int, end: int, part: Part | None = None) -> bool:
        """Plan a batch and run the task that reads its first partition, twice; whether it noted something."""
        ticket = self.source.ticket(at(start), at(end, part))
        if ticket is None:
            return False
        who = TaskIdentity("app", self.query_id, batch, self.name)
        return all([write_note(ticket, who), write_note(ticket, who)])

    def over(self, end: int) -> None:
        """Spark goes on from there; rows that wait are written."""
        self.source.ended(at(end))
        assert self.recorder.flush()

    @property
    def noted(self) -> list[int]:
        return [n.batch_id for n in stream_notes(self.index.warehouse, self.query_id)]


def test_batches_that_are_over_have_their_rows_and_the_newest_note_stays(index: MemoryIndex) -> None:
    query = Query(index)
    for batch, end in enumerate((3, 4, 9)):
        assert query.run(batch, end - 1, end)
        query.over(end)
        assert query.noted == [batch]
    assert index.rows(SOURCE_SNAPSHOT) == [("q", 0, *T, 3), ("q", 1, *T, 4), ("q", 2, *T, 9)]
    assert index.rows(SOURCE_JOB) == [("q", *T)]


def test_a_batch_that_runs_has_no_row(index: MemoryIndex) -> None:
    query = Query(index)
    query.run(0, 0, 3)
    query.over(0)
    assert index.rows(SOURCE_SNAPSHOT) == []
    query.over(3)
    query.run(1, 3, 5)
    query.over(3)
    assert index.rows(SOURCE_SNAPSHOT) == [("q", 0, *T, 3)]
    query.over(6)  # a batch of which nothing was planned here came after it
    assert index.rows(SOURCE_SNAPSHOT) == [("q", 0, *T, 3), ("q", 1, *T, 5)]


def test_a_batch_that_ends_inside_a_snapshot_has_the_last_one_read_whole(index: MemoryIndex) -> None:
    query = Query(index)
    part = Part(Phase.CHANGES, 1, 3, "d")
    query.run(0, 3, 5, part)
    query.source.ended(at(5, part))
    query.recorder.flush()
    assert index.rows(SOURCE_SNAPSHOT) == [("q", 0, *T, 4)]
    (note,) = stream_notes(index.warehouse, "q-1")
    assert (note.after, note.last, note.within) == (3, 4, 5)
    query.run(1, 5, 5, Part(Phase.CHANGES, 2, 3, "d"))
    query.source.ended(at(5, part))
    query.recorder.flush()
    assert index.rows(SOURCE_SNAPSHOT) == [("q", 0, *T, 4)]


def test_no_note_goes_before_its_row_is_there(index: MemoryIndex) -> None:
    query = Query(index)
    index.failures += [StorageError("full")] * 3
    for batch, end in enumerate((3, 4, 9)):
        query.run(batch, end - 1, end)
        query.source.ended(at(end))
        assert not query.recorder.flush()
    assert query.noted == [0, 1, 2]
    assert query.recorder.flush()
    assert query.noted == [2]
    assert len(index.rows(SOURCE_SNAPSHOT)) == 3


def test_what_a_run_left_when_it_died_the_next_one_records(index: MemoryIndex) -> None:
    query = Query(index)
    query.run(0, 0, 3)
    query.over(3)
    query.run(1, 3, 4)
    query.start()
    assert query.run(1, 3, 4)
    query.source.ended(at(4))
    query.run(2, 4, 5)
    query.start()
    query.run(3, 5, 6)
    query.over(6)
    assert [r[1:] for r in index.rows(SOURCE_SNAPSHOT)] == [(0, *T, 3), (1, *T, 4), (2, *T, 5), (3, *T, 6)]
    assert query.noted == [3]


def test_the_query_is_asked_for_once_and_leaves_nothing(index: MemoryIndex) -> None:
    query = Query(index)
    query.run(0, 0, 3)
    assert len(index.warehouse.store.list(f"{index.warehouse.lineage_dir}/notes/readers")) == 1
    query.over(3)
    assert index.warehouse.store.list(f"{index.warehouse.lineage_dir}/notes/readers") == []
    query.run(1, 3, 4)
    assert index.warehouse.store.list(f"{index.warehouse.lineage_dir}/notes/readers") == []


def test_where_the_sink_records_the_sources_nothing_is_noted_after_the_first_batch(index: MemoryIndex) -> None:
    query = Query(index)
    query.run(0, 0, 3)
    register_query(index.warehouse, "q-1", Registration("q", "/cp", sink_records_sources=True))
    query.over(3)
    assert query.noted == []
    assert not query.run(1, 3, 4)
    assert index.rows(SOURCE_SNAPSHOT) == []


def test_what_was_left_before_the_sink_recorded_is_not_lost(index: MemoryIndex) -> None:
    query = Query(index)
    query.run(0, 0, 3)
    register_query(index.warehouse, "q-1", Registration("q", "/cp", sink_records_sources=True))
    query.start()
    query.run(1, 3, 4)
    query.over(4)
    assert index.rows(SOURCE_SNAPSHOT) == [("q", 0, *T, 3)]
    assert query.noted == []


def test_a_sink_that_begins_to_record_is_noticed_within_a_minute(index: MemoryIndex) -> None:
    query = Query(index)
    query.run(0, 0, 3)
    query.over(3)
    register_query(index.warehouse, "q-1", Registration("q", "/cp", sink_records_sources=True))
    query.now = 61.0
    assert query.run(1, 3, 4)
    query.over(4)
    assert not query.run(2, 4, 5)
    assert query.noted == []
    assert [r[1] for r in index.rows(SOURCE_SNAPSHOT)] == [0, 1]


@pytest.mark.parametrize(
    ("job", "name", "registered", "expected"),
    [(None, None, None, "q-1"), (None, "n", None, "n"), ("j", "n", None, "j"), ("j", "n", "s", "s")],
)
def test_the_job_is_named_as_the_sink_says_else_the_read_else_the_query(
    index: MemoryIndex, job: str | None, name: str | None, registered: str | None, expected: str
) -> None:
    query = Query(index, name=name, job=job)
    if registered is not None:
        register_query(index.warehouse, "q-1", Registration(registered))
    query.run(0, 0, 3)
    query.over(3)
    assert index.rows(SOURCE_JOB) == [(expected, *T)]


def test_two_queries_of_one_name_do_not_mix(index: MemoryIndex) -> None:
    claim_name(index.warehouse, "q", "another query")
    query = Query(index)
    query.run(0, 0, 3)
    query.over(3)
    assert index.rows(SOURCE_SNAPSHOT) == [("q@q-1", 0, *T, 3)]


def test_where_tables_alone_are_recorded_the_first_batch_is_enough() -> None:
    index = MemoryIndex().switch_on(data=False)
    query = Query(index)
    query.run(0, 0, 3)
    query.over(3)
    assert not query.run(1, 3, 4)
    assert index.rows(SOURCE_JOB) == [("q", *T)]
    assert index.rows(SOURCE_SNAPSHOT) == []


def test_where_lineage_is_off_nothing_is_written_nor_asked_more_than_once() -> None:
    index = MemoryIndex(is_there=False)
    store = FaultStore(index.warehouse.store)
    index.warehouse = Warehouse(store, index.warehouse.root)
    query = Query(index)
    assert not any(query.run(n, n, n + 1) for n in range(20))
    query.over(20)
    assert store.calls == []
    assert index.reads == []


def test_a_query_without_a_note_goes_on(index: MemoryIndex) -> None:
    query = Query(index)
    assert query.source.ticket(at(0), at(3)) is not None  # and no task reads it
    query.over(3)
    query.run(1, 3, 4)
    query.over(4)
    assert [r[1] for r in index.rows(SOURCE_SNAPSHOT)] == [1]


@pytest.mark.ci
def test_whatever_the_store_does_the_query_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    index = MemoryIndex().switch_on()
    store = FaultStore(index.warehouse.store)
    index.warehouse = Warehouse(store, index.warehouse.root)
    expected = [(n, *T, n + 1) for n in range(6)]
    for call in range(1, 40):
        query = Query(index, query_id=f"q-{call}", name=f"n-{call}")
        store.arm(Fault(call, path_part="_lineage"))
        with caplog.at_level(logging.WARNING):
            for batch in range(6):
                query.run(batch, batch, batch + 1)
                query.source.ended(at(batch + 1))
                query.recorder.flush()
        failed = bool(store.failed)
        store.arm(None)
        rows = [r[1:] for r in index.rows(SOURCE_SNAPSHOT) if r[0] == f"n-{call}"]
        # One note may have failed to be written, and with it its row.
        assert set(rows) <= set(expected)
        assert len(rows) >= len(expected) - 1
        if not failed:
            return
    raise AssertionError("there are more calls than that")


def test_a_switch_that_is_turned_off_ends_the_notes(index: MemoryIndex) -> None:
    query = Query(index)
    query.run(0, 0, 3)
    query.over(3)
    index.upsert({"catalog_options": [("table-lineage", "false"), ("data-lineage", "false")]})
    settings.forget_settings(index.warehouse)
    assert not query.run(1, 3, 4)
    query.over(4)
    assert query.noted == [0]
