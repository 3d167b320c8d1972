"""Notes of reads: what tasks write, what is found again, what is passed over."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.warehouse import Warehouse, forget_warnings, quote_name
from paimon_spark.lineage.recording.read_notes import (
    NoteTicket,
    all_batch_jobs,
    all_stream_queries,
    batch_notes,
    delete_notes,
    forget_old_readers,
    forget_reader,
    give_barrier,
    mark_recorded,
    newest_per_source,
    query_of_reader,
    stream_notes,
    stream_notes_of,
    write_note,
)
from tests.harness.fault_store import Fault, FaultStore
from tests.harness.lineage_index import memory_warehouse

T = TableRef("db", "t")
U = TableRef("db", "u$branch_fix")
QUERY = TaskIdentity("app", "q-1", 4, "a name")


@pytest.fixture
def warehouse() -> Warehouse:
    forget_warnings()
    return memory_warehouse()


def of_stream(warehouse: Warehouse, last: int | None = 7, ref: TableRef = T, **more: object) -> NoteTicket:
    ticket = NoteTicket(warehouse, ref, is_stream=True, after=5, last=last, within=None, time_ms=1000)
    return replace(ticket, **more)  # type: ignore[arg-type]


def of_batch(warehouse: Warehouse, token: str, job: str | None = "j", ref: TableRef = T, **more: object) -> NoteTicket:
    ticket = NoteTicket(warehouse, ref, False, None, 7, None, 1000, token, job)
    return replace(ticket, **more)  # type: ignore[arg-type]


def files(warehouse: Warehouse, folder: str) -> list[str]:
    return [i.name for i in warehouse.store.list(f"{warehouse.lineage_dir}/notes/{folder}")]


def test_a_database_whose_name_has_dots_is_told(warehouse: Warehouse) -> None:
    ref = TableRef("a.b", "t$branch_fix")
    assert write_note(of_stream(warehouse, ref=ref), QUERY)
    assert [n.ref for n in stream_notes_of(warehouse, "q-1", ref)] == [ref]


def test_a_stream_s_note_holds_what_was_read_and_for_whom(warehouse: Warehouse) -> None:
    assert write_note(pickle.loads(pickle.dumps(of_stream(warehouse, within=8, job="j"))), QUERY)
    (note,) = stream_notes(warehouse, "q-1")
    assert (note.ref, note.after, note.last, note.within, note.job) == (T, 5, 7, 8, "j")
    assert note.task == QUERY
    assert note.range.warehouse is None
    assert all_stream_queries(warehouse) == ["q-1"]
    assert all_batch_jobs(warehouse) == []


def test_a_task_that_runs_twice_leaves_one_file_with_the_same_bytes(warehouse: Warehouse) -> None:
    write_note(of_stream(warehouse), QUERY)
    (name,) = files(warehouse, "stream/q-1")
    path = f"{warehouse.lineage_dir}/notes/stream/q-1/{name}"
    before = warehouse.store.read(path)
    write_note(of_stream(warehouse), QUERY)
    assert files(warehouse, "stream/q-1") == [name]
    assert warehouse.store.read(path) == before


def test_a_stream_outside_of_a_query_notes_nothing(warehouse: Warehouse) -> None:
    assert not write_note(of_stream(warehouse), TaskIdentity("app"))
    assert not write_note(of_batch(warehouse, "1", job=None), QUERY)
    assert not warehouse.store.exists(warehouse.lineage_dir)


def test_notes_of_one_branch_are_read_without_the_others(warehouse: Warehouse) -> None:
    for batch in (2, 10, 9):
        write_note(of_stream(warehouse, batch), QUERY._replace(batch_id=batch))
        write_note(of_stream(warehouse, batch, U), QUERY._replace(batch_id=batch))
    write_note(of_stream(warehouse, 1), QUERY._replace(query_id="q-2"))
    assert [(n.batch_id, n.ref) for n in stream_notes_of(warehouse, "q-1", U)] == [(2, U), (9, U), (10, U)]
    assert [n.batch_id for n in stream_notes_of(warehouse, "q-1", T, after=2)] == [9, 10]
    assert len(stream_notes(warehouse, "q-1")) == 6
    assert stream_notes(warehouse, "q-3") == []


def test_of_two_sources_that_read_one_branch_the_slower_counts(warehouse: Warehouse) -> None:
    write_note(of_stream(warehouse, 8), QUERY)
    write_note(of_stream(warehouse, 7), QUERY)
    write_note(of_stream(warehouse, 3), QUERY._replace(batch_id=3))
    (newest,) = newest_per_source(stream_notes(warehouse, "q-1"))
    assert (newest.batch_id, newest.last) == (4, 7)


def test_a_state_that_is_half_read_counts_as_nothing_read(warehouse: Warehouse) -> None:
    write_note(of_stream(warehouse, None, within=7), QUERY)
    write_note(of_stream(warehouse, 7), QUERY)
    (newest,) = newest_per_source(stream_notes(warehouse, "q-1"))
    assert (newest.last, newest.within) == (None, 7)


def test_batch_jobs_have_a_note_for_each_read_and_the_newest_of_each_branch_counts(warehouse: Warehouse) -> None:
    me, other = TaskIdentity("app-1"), TaskIdentity("app-2")
    write_note(of_batch(warehouse, "a", time_ms=3, last=9), me)
    write_note(of_batch(warehouse, "b", time_ms=2), me)
    write_note(of_batch(warehouse, "c", ref=U), me)
    write_note(of_batch(warehouse, "d", time_ms=9), other)
    found = batch_notes(warehouse, "j", "app-1")
    assert [n.time_ms for n in found] == [2, 3, 1000]
    assert sorted((n.ref, n.last) for n in newest_per_source(found)) == [(T, 9), (U, 7)]
    assert [n.task for n in batch_notes(warehouse, "j")].count(other) == 1
    assert all_batch_jobs(warehouse) == ["j"]


def test_an_application_s_notes_are_not_those_of_one_whose_id_begins_alike(warehouse: Warehouse) -> None:
    write_note(of_batch(warehouse, "a"), TaskIdentity("app"))
    write_note(of_batch(warehouse, "b"), TaskIdentity("app-1"))
    assert [n.task.app_id for n in batch_notes(warehouse, "j", "app")] == ["app"]


@given(
    st.text(min_size=1).filter(str.strip) | st.sampled_from(["a/b", "..", ".", "a b.c", "x" * 300, "é" * 300, "a%2Fb"])
)
def test_any_text_is_the_name_of_a_job(job: str) -> None:
    warehouse = memory_warehouse()
    assert write_note(of_batch(warehouse, "t", job=job), TaskIdentity("app/1"))
    assert all_batch_jobs(warehouse) == [job]
    assert [n.job for n in batch_notes(warehouse, job)] == [job]
    assert batch_notes(warehouse, job + "2") == []
    (folder,) = files(warehouse, "batch")
    assert folder == quote_name(job)
    assert len(folder.encode()) <= 120
    assert not folder.startswith(".")


@given(st.text(), st.text())
def test_no_two_names_share_a_file(one: str, other: str) -> None:
    assert (quote_name(one) == quote_name(other)) == (one == other)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff", b'{"version":1,"table":1}', b'{"version":"1"}'])
def test_files_that_are_no_notes_are_left_alone_with_a_warning(
    warehouse: Warehouse, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    write_note(of_stream(warehouse), QUERY)
    foreign = f"{warehouse.lineage_dir}/notes/stream/q-1/0-{'0' * 12}-1.json"
    warehouse.store.write(foreign, data)
    warehouse.store.write(f"{warehouse.lineage_dir}/notes/stream/q-1/.tmp.json", data)
    with caplog.at_level(logging.WARNING):
        assert len(stream_notes(warehouse, "q-1")) == 1
        assert len(stream_notes(warehouse, "q-1")) == 1
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert foreign in caplog.text
    assert warehouse.store.read(foreign) == data
    assert all_stream_queries(warehouse) == ["q-1"]


def test_a_note_of_a_later_release_is_left_alone(warehouse: Warehouse) -> None:
    write_note(of_stream(warehouse), QUERY)
    (name,) = files(warehouse, "stream/q-1")
    path = f"{warehouse.lineage_dir}/notes/stream/q-1/{name}"
    warehouse.store.write(path, json.dumps({**json.loads(warehouse.store.read(path)), "version": 2}).encode())
    assert stream_notes(warehouse, "q-1") == []


def test_a_note_that_cannot_be_written_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    forget_warnings()
    plain = memory_warehouse()
    store = FaultStore(plain.store)
    store.arm(Fault(1, forever=True))
    warehouse = Warehouse(store, plain.root)
    with caplog.at_level(logging.WARNING):
        assert not write_note(of_stream(warehouse), QUERY)
        assert not write_note(of_stream(warehouse, 8), QUERY)
    assert len(caplog.records) == 1
    assert "db.t" in caplog.text


def test_notes_are_marked_numbered_and_removed(warehouse: Warehouse) -> None:
    write_note(of_batch(warehouse, "a"), TaskIdentity("app"))
    (note,) = batch_notes(warehouse, "j")
    numbered = give_barrier(warehouse, note, 12)
    assert batch_notes(warehouse, "j") == [numbered]
    mark_recorded(warehouse, numbered)
    assert batch_notes(warehouse, "j") == [replace(note, barrier=12, is_recorded=True)]
    delete_notes(warehouse, [note])
    delete_notes(warehouse, [note])
    assert batch_notes(warehouse, "j") == []


def test_a_reader_learns_its_query_from_its_first_task(warehouse: Warehouse) -> None:
    assert query_of_reader(warehouse, "r") is None
    write_note(of_stream(warehouse, reader="r"), QUERY)
    assert query_of_reader(warehouse, "r") == QUERY
    assert query_of_reader(warehouse, "other") is None
    forget_reader(warehouse, "r")
    assert query_of_reader(warehouse, "r") is None


def test_what_readers_never_looked_up_goes_with_time(warehouse: Warehouse) -> None:
    write_note(of_stream(warehouse, reader="r"), QUERY)
    forget_old_readers(warehouse, 1)
    assert query_of_reader(warehouse, "r") == QUERY
    forget_old_readers(warehouse, 1 << 60)
    assert query_of_reader(warehouse, "r") is None
