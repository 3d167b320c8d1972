"""Notes that nobody turned into rows: what a sync writes of them, and when they go."""

from __future__ import annotations

import pytest

from paimon_spark.errors import StorageError
from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.lineage.index.job_registry import Registration, find_owner, register_query
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.tables import SOURCE_JOB, SOURCE_SNAPSHOT
from paimon_spark.lineage.recording.maintenance import forget_job
from paimon_spark.lineage.recording.read_notes import NoteTicket, batch_notes, stream_notes, write_note
from paimon_spark.lineage.recording.read_recording import rows_of_notes, rows_of_pending_notes
from tests.harness.lineage_index import MemoryIndex

T = TableRef("db", "t")
U = TableRef("db", "u")
NOW = 10_000_000_000
SECOND, MINUTE, DAY = 1000, 60_000, 86_400_000
QUERY = TaskIdentity("app", "q-1", 0, "a name")


@pytest.fixture
def index() -> MemoryIndex:
    return MemoryIndex().switch_on()


def noted(index: MemoryIndex, batch: int, last: int | None, ref: TableRef = T, age_ms: int = SECOND) -> None:
    ticket = NoteTicket(index.warehouse, ref, True, None, last, None, NOW - age_ms)
    assert write_note(ticket, QUERY._replace(batch_id=batch))


def read(
    index: MemoryIndex, token: str, last: int, ref: TableRef = T, age_ms: int = 11 * MINUTE, app: str = "a"
) -> None:
    ticket = NoteTicket(index.warehouse, ref, False, None, last, None, NOW - age_ms, token, "j")
    assert write_note(ticket, TaskIdentity(app))


def synced(index: MemoryIndex, at_ms: int = NOW) -> bool:
    """One pass, and what follows it; whether rows were missing."""
    rows = rows_of_pending_notes(index, at_ms)
    index.upsert(rows)
    return bool(rows)


def test_a_batch_has_its_rows_once_it_is_over_and_its_job_at_once(index: MemoryIndex) -> None:
    noted(index, 0, 3)
    noted(index, 1, 5)
    noted(index, 1, 9, U)
    assert synced(index)
    assert index.rows(SOURCE_SNAPSHOT) == [("a name", 0, *T, 3)]
    assert index.rows(SOURCE_JOB) == [("a name", *T), ("a name", *U)]
    noted(index, 2, 6)
    assert synced(index)
    assert index.rows(SOURCE_SNAPSHOT) == [("a name", 0, *T, 3), ("a name", 1, *T, 5), ("a name", 1, *U, 9)]
    assert synced(index, NOW + 11 * MINUTE)
    assert index.rows(SOURCE_SNAPSHOT)[1:] == [("a name", 1, *T, 5), ("a name", 1, *U, 9), ("a name", 2, *T, 6)]


def test_notes_go_only_once_their_rows_are_seen_and_the_newest_stays(index: MemoryIndex) -> None:
    noted(index, 0, 3)
    noted(index, 1, 5)
    rows_of_pending_notes(index, NOW)  # and the process dies
    assert len(stream_notes(index.warehouse, "q-1")) == 2
    assert synced(index)
    assert len(stream_notes(index.warehouse, "q-1")) == 2
    assert not synced(index)
    assert [(n.batch_id, n.is_recorded) for n in stream_notes(index.warehouse, "q-1")] == [(1, False)]
    assert synced(index, NOW + 11 * MINUTE)
    assert not synced(index, NOW + 11 * MINUTE)
    assert [(n.batch_id, n.is_recorded) for n in stream_notes(index.warehouse, "q-1")] == [(1, True)]
    reads = len(index.reads)
    assert not synced(index, NOW + 12 * MINUTE)
    assert len([r for r in index.reads[reads:] if r[0] == SOURCE_SNAPSHOT.name]) == 0
    assert not synced(index, NOW + 8 * DAY)
    assert stream_notes(index.warehouse, "q-1") == []


def test_a_table_that_had_no_snapshot_is_a_source_all_the_same(index: MemoryIndex) -> None:
    noted(index, 0, None)
    assert synced(index)
    assert index.rows(SOURCE_JOB) == [("a name", *T)]
    assert index.rows(SOURCE_SNAPSHOT) == []
    assert not synced(index)


def test_of_two_sources_of_one_branch_the_slower_is_recorded(index: MemoryIndex) -> None:
    noted(index, 0, 4)
    noted(index, 0, 3)
    assert synced(index, NOW + 11 * MINUTE)
    assert index.rows(SOURCE_SNAPSHOT) == [("a name", 0, *T, 3)]


def test_rows_have_the_name_that_the_sink_registered(index: MemoryIndex) -> None:
    register_query(index.warehouse, "q-1", Registration("other"))
    noted(index, 0, 3)
    assert synced(index)
    assert index.rows(SOURCE_JOB) == [("other", *T)]


def test_of_two_queries_of_one_name_the_first_has_it(index: MemoryIndex) -> None:
    for query_id, age_ms in (("q-2", 3 * MINUTE), ("q-1", MINUTE)):
        ticket = NoteTicket(index.warehouse, T, True, None, 3, None, NOW - age_ms)
        assert write_note(ticket, QUERY._replace(query_id=query_id, batch_id=0))
    assert synced(index)
    assert sorted(index.rows(SOURCE_JOB)) == [("a name", *T), ("a name@q-1", *T)]


def test_nothing_stays_of_a_query_whose_sink_records_its_sources(index: MemoryIndex) -> None:
    register_query(index.warehouse, "q-1", Registration("j", "/cp", sink_records_sources=True))
    noted(index, 0, 3, age_ms=11 * MINUTE)
    assert synced(index)
    assert not synced(index)
    assert stream_notes(index.warehouse, "q-1") == []


def test_where_tables_alone_are_recorded_there_are_no_rows_of_snapshots() -> None:
    index = MemoryIndex().switch_on(data=False)
    noted(index, 0, 3)
    noted(index, 1, 4)
    assert rows_of_pending_notes(index, NOW) == {SOURCE_JOB.name: [("a name", *T)]}
    assert synced(index)
    assert not synced(index)
    assert len(stream_notes(index.warehouse, "q-1")) == 1


def test_what_was_noted_of_a_job_that_was_forgotten_is_forgotten(index: MemoryIndex) -> None:
    noted(index, 0, 3)
    noted(index, 1, 4)
    forget_job(index, "a name", NOW)
    assert not synced(index)
    assert find_owner(index.warehouse, "a name") is None
    assert index.rows(SOURCE_JOB) == []
    assert len(stream_notes(index.warehouse, "q-1")) == 1


def test_a_job_that_only_reads_gets_a_barrier_of_its_own_after_ten_minutes(index: MemoryIndex) -> None:
    read(index, "1", 3)
    read(index, "2", 4, age_ms=10 * MINUTE + 1)
    read(index, "3", 7, U)
    read(index, "4", 9, app="b", age_ms=MINUTE)
    assert synced(index)
    barriers = {row[1] for row in index.rows(SOURCE_SNAPSHOT)}
    assert len(barriers) == 1
    assert [(r[2], r[3], r[4]) for r in index.rows(SOURCE_SNAPSHOT)] == [(*T, 4), (*U, 7)]
    assert not synced(index)
    assert sorted(n.last or 0 for n in batch_notes(index.warehouse, "j", "a")) == [4, 7]
    assert synced(index, NOW + 10 * MINUTE)
    assert len({row[1] for row in index.rows(SOURCE_SNAPSHOT)}) == 2
    assert not synced(index, NOW + 10 * MINUTE)
    assert not synced(index, NOW + 8 * DAY)
    assert batch_notes(index.warehouse, "j") == []


def test_a_sync_that_died_before_it_wrote_uses_the_same_barrier_again(index: MemoryIndex) -> None:
    read(index, "1", 3)
    first = rows_of_pending_notes(index, NOW)
    assert first
    assert rows_of_pending_notes(index, NOW) == first
    index.failures.append(StorageError("gone"))
    with pytest.raises(StorageError):
        synced(index)
    assert synced(index)
    assert index.rows(SOURCE_SNAPSHOT) == [tuple(r) for r in first[SOURCE_SNAPSHOT.name]]


def test_reads_inside_a_micro_batch_have_its_number(index: MemoryIndex) -> None:
    ticket = NoteTicket(index.warehouse, T, False, None, 3, None, NOW - 11 * MINUTE, "1", "j")
    write_note(ticket, QUERY._replace(batch_id=8))
    assert synced(index)
    assert index.rows(SOURCE_SNAPSHOT) == [("j", 8, *T, 3)]
    assert not synced(index)


def test_no_notes_are_no_rows(index: MemoryIndex) -> None:
    assert rows_of_pending_notes(index) == {}
    assert rows_of_notes("j", []) == {}
