"""Lineage tables are rebuilt from the tables that are alive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.engine.commit.listeners import CommitEvent
from paimon_spark.errors import CorruptFileError, StorageError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.lineage.index.job_registry import (
    NameOwner,
    Registration,
    claim_name,
    draw_barrier,
    find_owner,
    register_query,
    registrations,
)
from paimon_spark.lineage.index.provenance import Provenance, SourceRange, TableRef
from paimon_spark.lineage.index.tables import SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, SOURCE_SNAPSHOT, rows_of
from paimon_spark.lineage.recording import maintenance as rebuild_module
from paimon_spark.lineage.recording.catch_up import register_sink
from paimon_spark.lineage.recording.maintenance import forget_job, rebuild, sync
from paimon_spark.lineage.recording.recorder import Recorder
from paimon_spark.lineage.recording.snapshot_provenance import read_snapshot_provenance
from tests.harness.lineage_checkpoint import write_checkpoint
from tests.harness.lineage_index import MemoryIndex, ref_of

SINK, SOURCE = ref_of("d.t"), ref_of("d.s")
SINKS = (SINK, ref_of("d.t$branch_fix"), ref_of("e.u"))
JOBS = {"stream": "query 1", "it's": "query 2", "nightly": None, "hourly": None}


@pytest.fixture
def index() -> MemoryIndex:
    return MemoryIndex().switch_on()


def batch(barrier: int, job: str = "stream", sources: tuple[SourceRange, ...] | None = None) -> Provenance:
    given = (SourceRange(SOURCE, last=barrier + 100),) if sources is None else sources
    return Provenance(job, barrier, given, JOBS.get(job))


def record(index: MemoryIndex, ref: TableRef, provenance: Provenance, **how: Any) -> Snapshot:
    """A commit, and its rows."""
    snapshot = index.commit(ref, provenance, **how)
    index.upsert(rows_of(provenance, ref, snapshot.id))
    return snapshot


def test_after_the_database_is_gone_it_is_as_before(index: MemoryIndex) -> None:
    for barrier in range(5):
        for job, sink in zip(JOBS, (*SINKS, SINK), strict=True):
            claim_name(index.warehouse, job, JOBS[job])
            record(index, sink, batch(barrier, job))
    before, owners = index.everything(), {job: find_owner(index.warehouse, job) for job in JOBS}
    index.drop_tables()
    index.switch_on()
    done = rebuild(index)
    assert index.everything() == before
    assert {job: find_owner(index.warehouse, job) for job in JOBS} == owners
    assert done.rows == {name: len(some) for name, some in before.items() if some}
    assert done.jobs == tuple(sorted(JOBS))
    assert done.unreadable == ()
    assert registrations(index.warehouse) == {
        "query 1": Registration("stream", None, sink_records_sources=True),
        "query 2": Registration("it's", None, sink_records_sources=True),
    }
    assert draw_barrier(index, "nightly") == 5


def test_a_second_rebuild_writes_nothing(index: MemoryIndex) -> None:
    for barrier in range(5):
        index.commit(SINK, batch(barrier))
    assert rebuild(index).rows[SINK_SNAPSHOT.name] == 5
    index.upserts.clear()
    assert rebuild(index).rows == {}
    assert index.upserts == []


def test_what_nothing_tells_of_any_more_stays(index: MemoryIndex) -> None:
    for barrier in range(5):
        record(index, SINK, batch(barrier))
    before = index.everything()
    index.expire(SINK, 5)
    assert rebuild(index).rows == {}
    assert index.everything() == before
    index.drop(SINK)
    assert rebuild(index).rows == {}
    assert index.everything() == before


def test_a_row_that_says_otherwise_is_set_right(index: MemoryIndex) -> None:
    snapshot = index.commit(SINK, batch(3))
    index.upsert(rows_of(batch(3), SINK, 77))
    assert rebuild(index).rows == {SINK_SNAPSHOT.name: 1}
    assert index.rows(SINK_SNAPSHOT) == [("stream", 3, *SINK, snapshot.id)]


def test_tags_tell_of_snapshots_that_expired(index: MemoryIndex) -> None:
    for barrier in range(5):
        index.commit(SINK, batch(barrier))
    index.tag(SINK, "kept", 2)
    index.tag(SINK, "alive", 5)
    index.expire(SINK, 4)
    rebuild(index)
    assert [row[1] for row in index.rows(SINK_SNAPSHOT)] == [1, 3, 4]


def test_a_batch_that_a_tag_and_a_newer_snapshot_hold_is_of_the_newer_one(index: MemoryIndex) -> None:
    index.commit(SINK, batch(0))
    index.tag(SINK, "old", 1)
    index.commit(SINK, batch(0))
    index.expire(SINK, 2)
    rebuild(index)
    assert index.rows(SINK_SNAPSHOT) == [("stream", 0, *SINK, 2)]


def test_copies_do_not_replace_their_originals(index: MemoryIndex) -> None:
    first = record(index, SINK, batch(0))
    record(index, SINK, batch(1))
    index.commit(SINK, kind=CommitKind.OVERWRITE, properties=first.properties)
    before = index.everything()
    assert rebuild(index).rows == {}
    index.expire(SINK, 3)
    assert rebuild(index).rows == {}
    assert index.everything() == before


def test_forgotten_jobs_stay_forgotten_but_for_what_came_later(index: MemoryIndex) -> None:
    for barrier in range(4):
        record(index, SINK, batch(barrier), time_ms=1000 + barrier)
    forget_job(index, "stream", now_ms=1002)
    assert rebuild(index).jobs == ("stream",)
    assert [row[1] for row in index.rows(SINK_SNAPSHOT)] == [3]


def test_only_jobs_are_rebuilt_where_only_they_are_recorded() -> None:
    index = MemoryIndex().switch_on(data=False)
    index.commit(SINK, batch(0))
    assert rebuild(index).rows == {SINK_JOB.name: 1, SOURCE_JOB.name: 1}


def test_sources_elsewhere_and_snapshots_of_nobody_are_left_out(index: MemoryIndex) -> None:
    elsewhere = (
        SourceRange(SOURCE, warehouse="file:///other", last=4),
        SourceRange(None, location="file:///x", last=2),
    )
    index.commit(SINK, batch(0, sources=elsewhere))
    index.commit(SINK)
    index.commit(SINK, properties={"paimon-spark.lineage.job": "x", "paimon-spark.lineage.barrier": "no"})
    assert rebuild(index).rows == {SINK_JOB.name: 1, SINK_SNAPSHOT.name: 1}


def test_a_name_that_another_query_took_stays_its(index: MemoryIndex) -> None:
    index.commit(SINK, batch(0))
    claim_name(index.warehouse, "stream", "another query")
    rebuild(index)
    assert find_owner(index.warehouse, "stream") == NameOwner("stream", "another query")


def test_the_name_is_of_the_query_that_used_it_last(index: MemoryIndex) -> None:
    index.commit(SINK, Provenance("stream", 7, query_id="old"), time_ms=1)
    index.commit(SINKS[2], Provenance("stream", 0, query_id="new"), time_ms=2)
    rebuild(index)
    assert find_owner(index.warehouse, "stream") == NameOwner("stream", "new")


@pytest.mark.parametrize("many", [1, 3, 50])
def test_long_histories_are_written_in_parts_older_ones_first(
    index: MemoryIndex, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild_module, "_MANY", many)
    for barrier in (*range(10), 9, 9):
        index.commit(SINK, batch(barrier))
    index.failures = [None] * 4 + [StorageError("killed")] if many == 1 else []
    if many == 1:
        with pytest.raises(StorageError):
            rebuild(index)
        assert [row[1] for row in index.rows(SINK_SNAPSHOT)] == [0, 1]
    rebuild(index)
    assert [(row[1], row[4]) for row in index.rows(SINK_SNAPSHOT)] == [*((b, b + 1) for b in range(9)), (9, 12)]


def test_what_cannot_be_read_is_told_and_holds_up_nothing(
    index: MemoryIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for sink in SINKS:
        index.commit(sink, batch(0, "nightly"))
    whole = MemoryIndex.snapshots

    def damaged(self: MemoryIndex, ref: TableRef, after: int = 0) -> Any:
        if ref == SINK:
            raise CorruptFileError("snapshot-1 is damaged")
        return whole(self, ref, after)

    monkeypatch.setattr(MemoryIndex, "snapshots", damaged)
    done = rebuild(index, {"stream": f"file://{tmp_path}/nowhere"})
    assert len(index.rows(SINK_SNAPSHOT)) == 2
    assert len(done.unreadable) == 2
    assert done.unreadable[0] == "snapshots of d.t: CorruptFileError: snapshot-1 is damaged"
    assert f"file://{tmp_path}/nowhere" in done.unreadable[1]


# --- checkpoints


def test_a_checkpoint_that_is_given_tells_of_batches_without_rows_and_is_known_then(
    index: MemoryIndex, tmp_path: Path
) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3, 4, 9, 12], committed=3, query_id="query 1")
    index.commit(SINK, batch(1, sources=(SourceRange(SOURCE, last=4),)))
    done = rebuild(index, {"stream": str(tmp_path / "checkpoint")})
    assert done.unreadable == ()
    assert index.rows(SOURCE_SNAPSHOT) == [("stream", b, *SOURCE, last) for b, last in enumerate([3, 4, 9])]
    assert registrations(index.warehouse) == {"query 1": Registration("stream", url, sink_records_sources=True)}
    assert rebuild(index).rows == {}


def test_a_sink_is_gone_through_under_the_name_that_it_was_recorded_under(
    index: MemoryIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    for barrier in range(2):
        index.commit(SINKS[1], batch(barrier))
    register_sink(index, SINKS[1])
    monkeypatch.setattr(index, "refs", lambda: iter([SINKS[2]]))  # main means that branch
    rebuild(index)
    assert index.rows(SINK_SNAPSHOT) == [("stream", 0, *SINKS[1], 1), ("stream", 1, *SINKS[1], 2)]


def test_checkpoints_that_are_registered_are_read(index: MemoryIndex, tmp_path: Path) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3, 4], committed=2, query_id="query 1")
    register_query(index.warehouse, "query 1", Registration("stream", url, sink_records_sources=True))
    register_query(
        index.warehouse, "query 2", Registration("it's", f"file://{tmp_path}/gone", sink_records_sources=True)
    )
    assert rebuild(index).rows == {SOURCE_JOB.name: 1, SOURCE_SNAPSHOT.name: 2}


def test_a_query_begun_anew_where_a_registered_checkpoint_was_is_not_taken_for_the_earlier_one(
    index: MemoryIndex, tmp_path: Path
) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3, 4], committed=2, query_id="another")
    register_query(index.warehouse, "query 1", Registration("stream", url, sink_records_sources=True))
    done = rebuild(index)
    assert (done.rows, done.unreadable) == ({}, ())


def test_a_checkpoint_that_is_given_tells_of_its_query_under_the_name_that_the_query_has(
    index: MemoryIndex, tmp_path: Path
) -> None:
    url = write_checkpoint(tmp_path, index.warehouse, SOURCE, [3], committed=1, query_id="another query")
    claim_name(index.warehouse, "stream", "query 1")
    rebuild(index, {"stream": url})
    assert index.rows(SOURCE_SNAPSHOT) == [("stream@another ", 0, *SOURCE, 3)]
    register_query(index.warehouse, "third query", Registration("it's", None))
    write_checkpoint(tmp_path, index.warehouse, SOURCE, [3], committed=1, query_id="third query")
    rebuild(index, {"free": url})
    assert index.rows(SOURCE_JOB) == [("it's", *SOURCE), ("stream@another ", *SOURCE)]
    assert find_owner(index.warehouse, "free") is None


# --- any course of events


@pytest.mark.ci
@given(st.data())
def test_a_rebuild_says_of_what_is_alive_what_was_recorded(data: st.DataObject) -> None:
    index = MemoryIndex().switch_on()
    recorders = {sink: Recorder(index, background=False) for sink in SINKS}
    barriers: dict[str, int] = {}
    # A row says which snapshot a number was used for last; that of an earlier use comes back with a rebuild only.
    reuses = data.draw(st.booleans())
    for _ in range(data.draw(st.integers(1, 30))):
        sink = data.draw(st.sampled_from(SINKS))
        history = index.histories.get(sink, [])
        what = data.draw(st.sampled_from(["commit"] * 6 + ["flush", "kill", "foreign", "copy", "roll back", "expire"]))
        if what == "commit":
            job = data.draw(st.sampled_from(sorted(JOBS)))
            claim_name(index.warehouse, job, JOBS[job])
            again = reuses and data.draw(st.integers(0, 3)) == 0 and JOBS[job] is None and job in barriers
            barriers[job] = barriers[job] if again else barriers.get(job, -1) + 1
            recorders[sink].expect(job, sink, query_id=JOBS[job])
            snapshot = index.commit(sink, batch(barriers[job], job))
            recorders[sink].on_commit(event_of(index, sink, snapshot))
        elif what == "flush":
            recorders[sink].flush()
        elif what == "kill":
            recorders[sink] = Recorder(index, background=False)
        elif what == "foreign":
            index.commit(sink)
        elif what == "copy" and history:
            index.commit(sink, properties=data.draw(st.sampled_from(history)).properties)
        elif what == "roll back" and history and not reuses:
            index.roll_back(sink, data.draw(st.sampled_from(history)).id)
        elif what == "expire" and history:
            index.expire(sink, data.draw(st.sampled_from(history)).id)
    for recorder in recorders.values():
        recorder.flush()
    sync(index)
    live, owners = index.everything(), {job: find_owner(index.warehouse, job) for job in barriers}
    assert rebuild(index).rows == {}
    index.drop_tables()
    index.switch_on()
    rebuild(index)
    said = {(ref, s.id): read_snapshot_provenance(s) for ref, history in index.histories.items() for s in history}
    originals = {(*one.batch, *ref, i) for (ref, i), one in said.items() if one is not None and not one.is_copy}
    rebuilt = index.everything()
    assert {row for row in live[SINK_SNAPSHOT.name] if row in originals} == originals & set(rebuilt[SINK_SNAPSHOT.name])
    for name, rows in rebuilt.items():
        if name != SINK_SNAPSHOT.name:
            assert set(rows) <= set(live[name])
    for job in {row[0] for row in rebuilt[SINK_JOB.name]}:
        assert find_owner(index.warehouse, job) == owners[job]


def event_of(index: MemoryIndex, ref: TableRef, snapshot: Snapshot) -> CommitEvent:
    location = index.warehouse.store.url(index.warehouse.table_root(ref.database, ref.bare))
    said = snapshot.properties or {}
    return CommitEvent(ref.name, ref.branch, location, "user", 0, snapshot.id, CommitKind.APPEND, 0, said)
