"""Provenance of the batches of a stream, against their rows, with every kind of store and checkpoint."""

from __future__ import annotations

import json
import logging
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.engine.commit.listeners import CommitEvent, event_of
from paimon_spark.errors import PaimonError, StorageError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.jobs.read.stream import open_stream
from paimon_spark.jobs.write.stream import StreamWrite, plan_stream_write
from paimon_spark.jobs.write.stream_batch import StreamResult
from paimon_spark.lineage.index import job_registry as jobs
from paimon_spark.lineage.index import table_index as lineage_index
from paimon_spark.lineage.index import tables as settings
from paimon_spark.lineage.index import warehouse as warehouse_module
from paimon_spark.lineage.index.provenance import (
    JOB,
    Provenance,
    SourceRange,
    TableRef,
    decode_provenance,
    encode_provenance,
)
from paimon_spark.lineage.index.tables import (
    CATALOG_OPTIONS,
    SINK_JOB,
    SINK_SNAPSHOT,
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    Definition,
)
from paimon_spark.lineage.index.warehouse import Warehouse, forget_warnings
from paimon_spark.lineage.recording import checkpoints as spark_log
from paimon_spark.lineage.recording import commit_recording, recorder, stream_recording
from paimon_spark.lineage.recording.read_notes import NoteTicket, write_note
from paimon_spark.lineage.recording.recorder import flush_of
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.storage.urls import open_store
from paimon_spark.streaming.offset import StreamOffset
from paimon_spark.streaming.offset import encode as encode_offset
from tests.harness.fault_store import Fault, FaultStore
from tests.harness.mini_engine import Checkpoint, MiniEngine, Tasks
from tests.harness.sinks import through

QUERY = "6f9e5c0e-4f0a-4b8e-9c39-1f1e7f2d7a01"
SCHEMA = pa.schema([pa.field("src", pa.string()), pa.field("id", pa.int64()), pa.field("n", pa.int64())])
DST = TableRef("db", "dst")


class World:
    """A warehouse, and the checkpoint of a query.

    Rows of a source say of which table and snapshot they are.
    """

    def __init__(self, home: Path, url: str | None = None) -> None:
        self.url = f"memory:///{uuid.uuid4().hex}/wh" if url is None else url
        self.catalog = paimon_spark.load_catalog(self.url)
        self.catalog.create_database("db")
        self.home = home
        self.index = lineage_index.open_index(Warehouse(*open_store(self.url)))

    def switch_on(self, **options: str) -> World:
        self.index.create()
        self.index.upsert(
            {CATALOG_OPTIONS.name: list((options or {"table-lineage": "true", "data-lineage": "true"}).items())}
        )
        return self

    def path(self, table: str) -> str:
        return f"{self.url}/db.db/{table}"

    def table(self, name: str, branch: str = "main") -> Table:
        return paimon_spark.load_table(self.path(name), branch=branch)

    def make(self, name: str, **options: str) -> None:
        """Every row of a commit is in a partition of its own, so that a snapshot can be read in parts."""
        self.catalog.create_table(f"db.{name}", SCHEMA, partition_keys=["n"], options=options)

    def feed(self, name: str, rows: int = 3, branch: str = "main") -> None:
        """One more snapshot, of several files."""
        table = self.table(name, branch)
        snapshot = len(table.snapshots()) + 1
        table.write(told(name, snapshot, rows))

    def sink(
        self, options: Mapping[str, str] | None = None, name: str = "dst", *, complete: bool = False
    ) -> StreamWrite:
        return self.sink_of(SCHEMA, options or {}, name, complete)

    def sink_of(self, columns: pa.Schema, options: Mapping[str, str], name: str, complete: bool) -> StreamWrite:
        given = {"path": self.path(name), "checkpointlocation": str(self.home), **options}
        return plan_stream_write(given, complete, columns, lambda: row_type(columns))

    def log(self, batch: int, *ends: StreamOffset, start: StreamOffset | None = None) -> None:
        """Spark is about to run a batch."""
        (self.home / "offsets").mkdir(parents=True, exist_ok=True)
        (self.home / "metadata").write_text(json.dumps({"id": QUERY}))
        lines = [encode_offset(e) | ({} if start is None else {"start": encode_offset(start)}) for e in ends]
        text = "\n".join(["v1", "{}", *map(json.dumps, lines)])
        (self.home / "offsets" / str(batch)).write_text(text)

    def at(self, snapshot: int, table: str = "a") -> StreamOffset:
        return StreamOffset(self.path(table), "main", snapshot, f"m{snapshot}")

    def batch(self, number: int, *ends: int, rows: int = 2, sink: StreamWrite | None = None) -> StreamResult:
        """A batch that ends after these snapshots of the tables a, b…"""
        if ends:
            self.log(number, *(self.at(end, "abc"[i]) for i, end in enumerate(ends)))
        return write(sink or self.sink(), number, rows)

    def made(self, name: str = "dst") -> list[Snapshot]:
        return self.table(name).snapshots()

    def provenance(self, name: str = "dst") -> list[Provenance | None]:
        return [decode_provenance(s.properties) for s in self.made(name) if s.commit_kind is not CommitKind.COMPACT]

    def recorded(self, table: Definition) -> list[tuple[Any, ...]]:
        assert flush_of(self.index.warehouse)
        return sorted(tuple(row.values()) for row in self.index.read(table).to_pylist())


def told(name: str, snapshot: int, rows: int) -> pa.Table:
    values = {"src": [name] * rows, "id": [snapshot] * rows, "n": list(range(rows))}
    return pa.table(values, schema=SCHEMA)


def write(sink: StreamWrite, number: int, rows: int = 2, query: str = QUERY, conf: str | None = None) -> StreamResult:
    written = sink.task().write(told("x", 1, rows).to_batches(), 0, query, number)
    return sink.commit([replace(written, checkpoint_conf=conf)], number)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield World(tmp_path / "chk")
    stream_recording.forget_queries()


@pytest.fixture(autouse=True)
def _warnings_come_anew() -> None:
    forget_warnings()


def engine(world: World, checkpoint: Checkpoint, sources: list[tuple[str, dict[str, str]]], **sink: str) -> MiniEngine:
    def open_sources() -> list[Any]:
        return [open_stream(world.path(name), {"path": world.path(name), **given}) for name, given in sources]

    options = {**checkpoint.spark_options(), **sink}
    return MiniEngine(checkpoint, open_sources, lambda columns: world.sink_of(columns, options, "dst", False), Tasks(2))


READS: dict[str, dict[str, str]] = {
    "everything": {},
    "aligned": {"read.stream.aligned": "true"},
    "in_parts": {"read.stream.maxRowsPerTrigger": "2"},
    "changes": {"scan.snapshot-id": "1", "read.stream.maxRowsPerTrigger": "4"},
}


@pytest.mark.ci
@pytest.mark.parametrize("read", READS)
def test_each_snapshot_says_what_its_rows_prove(world: World, read: str, tmp_path: Path) -> None:
    world.switch_on()
    for name in ("a", "b"):
        world.make(name)
        for _ in range(3):
            world.feed(name)
    checkpoint = Checkpoint(tmp_path / "chk")
    sources = [("a", READS[read]), ("b", {})]
    engine(world, checkpoint, sources).run()
    world.feed("a")
    engine(world, checkpoint, sources).run()
    world.feed("b")
    engine(world, checkpoint, sources).run()

    handle = world.table("dst")
    found = [(s, p) for s in handle.snapshots() if (p := decode_provenance(s.properties)) is not None]
    assert len(found) == len(handle.snapshots()) > 2
    before: dict[TableRef | None, int | None] = {}
    for snapshot, provenance in found:
        assert provenance.barrier == snapshot.commit_identifier
        assert provenance.query_id == provenance.job == snapshot.commit_user
        rows = handle.scan(**{"scan.snapshot-id": str(snapshot.id)}).to_arrow().to_pylist()
        seen = Counter((r["src"], r["id"]) for r in rows)
        assert {s.ref for s in provenance.sources} == {TableRef("db", "a"), TableRef("db", "b")}
        for source in provenance.sources:
            assert source.ref is not None
            name, last, within = source.ref.table, source.last or 0, source.within
            whole = {i for (src, i), count in seen.items() if src == name and count == 3}
            partly = {i for (src, i), count in seen.items() if src == name and count < 3}
            state_in_parts = read == "in_parts" and within is not None and within <= 3
            if state_in_parts:
                assert name == "a" and source.last is None
            else:
                assert whole == set(range(1, last + 1))
                assert partly <= ({within} if within else set())
            if source.ref in before:
                assert source.after == before[source.ref]
            before[source.ref] = source.last
    assert [s.last for s in found[-1][1].sources] == [4, 4]
    in_parts = [s.within for _, p in found for s in p.sources if s.within is not None]
    assert bool(in_parts) == (read in ("in_parts", "changes"))

    barriers = [(p.job, p.barrier, *DST, s.id) for s, p in found]
    assert world.recorded(SINK_SNAPSHOT) == barriers
    of_sources = {
        (p.job, p.barrier, *s.ref, s.last) for _, p in found for s in p.sources if s.ref is not None and s.last
    }
    assert set(world.recorded(SOURCE_SNAPSHOT)) == of_sources


def test_a_query_goes_by_its_name_else_by_its_id_or_as_the_write_says(world: World) -> None:
    world.switch_on()
    world.batch(0, 1, sink=world.sink(name="d1"))
    world.batch(0, 1, sink=world.sink({"queryname": "etl"}, "d2"))
    world.batch(0, 1, sink=world.sink({"queryname": "other", "lineage.job": "nightly job/ü"}, "d3"))
    jobs_of = [p.job for n in ("d1", "d2", "d3") for p in world.provenance(n) if p is not None]
    assert jobs_of == [QUERY, "etl", "nightly job/ü"]
    assert {row[0] for row in world.recorded(SINK_JOB)} == {QUERY, "etl", "nightly job/ü"}
    assert all(not k.startswith("lineage.") for k in world.table("d3").handle.schema.options)


def test_a_name_belongs_to_the_first_query_that_took_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.switch_on()
    world.batch(0, 1, sink=world.sink({"queryname": "etl"}))
    other = "11111111-2222-3333-4444-555555555555"
    (world.home / "metadata").write_text(json.dumps({"id": other}))
    stream_recording.forget_queries()
    write(world.sink({"queryname": "etl"}), 0, query=other)
    assert [p.job for p in world.provenance() if p] == ["etl", "etl@11111111"]
    assert "belongs to another query" in caplog.text


def test_a_query_that_runs_a_job_again_on_a_branch_is_that_job_and_warns_of_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.switch_on()
    world.batch(0, 1, sink=world.sink({"queryname": "etl"}))
    world.recorded(SINK_JOB)
    world.table("dst").create_branch("fix")
    other, third = (f"{n}1111111-2222-3333-4444-555555555555" for n in (1, 3))

    def replay(query: str, number: int, **options: str) -> None:
        (world.home / "metadata").write_text(json.dumps({"id": query}))
        stream_recording.forget_queries()
        write(world.sink({"queryname": "etl", **options}), number, query=query)

    replay(other, 0, branch="fix")
    replay(third, 0, branch="fix")
    known = jobs.registrations(world.index.warehouse)
    assert {query: (k.job, k.replays) for query, k in known.items()} == {
        QUERY: ("etl", None), other: ("etl@fix", "etl"), third: ("etl@31111111", "etl"),
    }  # fmt: skip
    world.table("dst").fast_forward("fix")
    replay(other, 1)
    assert [p.job for p in world.provenance() if p][-1] == "etl@fix", "it goes on on main under its name"
    jobs.register_query(world.index.warehouse, other, jobs.Registration("etl@fix"))
    kept = jobs.find_registration(world.index.warehouse, other)
    assert kept is not None and kept.replays == "etl"
    assert "belongs to" not in caplog.text


def test_another_job_of_that_name_on_a_branch_is_not_taken_for_a_replay(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.switch_on()
    world.batch(0, 1, sink=world.sink({"queryname": "etl"}))
    world.recorded(SINK_JOB)
    world.make("d2")
    world.table("d2").create_branch("fix", empty=True)
    other = "11111111-2222-3333-4444-555555555555"
    (world.home / "metadata").write_text(json.dumps({"id": other}))
    write(world.sink({"queryname": "etl", "branch": "fix"}, "d2"), 0, query=other)
    assert jobs.registrations(world.index.warehouse)[other].job == "etl@11111111"
    assert "belongs to another query" in caplog.text


def test_where_lineage_is_off_nothing_is_said_and_next_to_nothing_read(world: World) -> None:
    store = FaultStore(open_store(world.url)[0])
    sink = through(world.sink(), store)
    calls = []
    for number in range(4):
        store.arm(None)
        world.batch(number, number + 1, sink=sink)
        calls.append([c for c in store.calls if "paimon.db" in c.path])
    assert all(s.properties is None or JOB not in s.properties for s in world.made())
    assert len(calls[0]) <= 2
    assert calls[1:] == [[], [], []]
    assert not world.index.exists()


def test_where_lineage_is_on_a_batch_costs_one_small_read_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(recorder.Recorder, "_start", lambda self: None)  # its own thread is another matter
        world = World(tmp_path / "chk", f"file://{tmp_path}/wh").switch_on()
        plain = World(tmp_path / "off_chk", f"file://{tmp_path}/off")
        counts = []
        for one in (world, plain):
            store = FaultStore(open_store(one.url)[0])
            sink = through(one.sink(), store)
            for number in range(6):
                store.arm(None)
                one.batch(number, number + 1, sink=sink)
            counts.append(Counter(c.verb for c in store.calls))
    more = counts[0] - counts[1]
    assert more == {"read": 1}
    assert not counts[1] - counts[0]


def test_of_a_warehouse_that_records_tables_alone_snapshots_say_nothing(world: World) -> None:
    world.switch_on(**{"table-lineage": "true"})
    world.batch(0, 1)
    world.batch(1, 2)
    assert world.provenance() == [None, None]
    assert world.recorded(SINK_JOB) == [(QUERY, *DST)]
    assert world.recorded(SOURCE_JOB) == [(QUERY, "db", "a")]
    assert world.recorded(SINK_SNAPSHOT) == world.recorded(SOURCE_SNAPSHOT) == []


def test_a_batch_without_rows_records_what_it_read(world: World) -> None:
    world.switch_on()
    world.batch(0, 1)
    world.batch(1, 5, rows=0)
    assert len(world.made()) == 1
    assert world.recorded(SOURCE_SNAPSHOT) == [(QUERY, 0, "db", "a", 1), (QUERY, 1, "db", "a", 5)]
    assert world.recorded(SINK_SNAPSHOT) == [(QUERY, 0, *DST, 1)]


def test_the_compaction_of_a_batch_says_nothing(world: World) -> None:
    world.switch_on()
    world.catalog.create_table(
        "db.dst", SCHEMA, primary_keys=["n"], options={"bucket": "1", "merge-engine": "first-row"}
    )
    world.batch(0, 1)
    kinds = [(s.commit_kind, decode_provenance(s.properties) is not None) for s in world.made()]
    assert kinds == [(CommitKind.APPEND, True), (CommitKind.COMPACT, False)]
    assert world.recorded(SINK_SNAPSHOT) == [(QUERY, 0, *DST, 1)]


def test_complete_output_says_it_too(world: World) -> None:
    world.switch_on()
    world.batch(0, 1)
    world.batch(1, 2, rows=0, sink=world.sink(complete=True))
    assert [p.barrier for p in world.provenance() if p] == [0, 1]
    assert [s.commit_kind for s in world.made()] == [CommitKind.APPEND, CommitKind.OVERWRITE]


def test_a_batch_that_a_dead_process_committed_is_recorded_by_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.switch_on()
    with monkeypatch.context() as patched:
        patched.setattr(recorder.Recorder, "on_commit", lambda self, event: None)
        world.batch(0, 3)
    stream_recording.forget_queries()
    assert world.batch(0, 3).was_committed
    assert world.recorded(SINK_SNAPSHOT) == [(QUERY, 0, *DST, 1)]
    assert world.recorded(SOURCE_SNAPSHOT) == [(QUERY, 0, "db", "a", 3)]
    assert len(world.made()) == 1


def test_the_query_is_registered_before_its_first_commit(world: World) -> None:
    world.switch_on()
    world.make("dst")
    store = FaultStore(open_store(world.url)[0])
    store.arm(Fault(1, forever=True, verbs=frozenset(("create_exclusive",)), path_part="dst/snapshot/"))
    with pytest.raises(PaimonError):
        world.batch(0, 1, sink=through(world.sink({"commit.max-retries": "0"}), store))
    found = jobs.find_registration(world.index.warehouse, QUERY)
    assert found == jobs.Registration(QUERY, f"file://{world.home}", True)


def test_a_sink_outside_of_a_warehouse_is_not_recorded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for n, (options, warned) in enumerate([({}, 0), ({"lineage.job": "j"}, 1)]):
        given = {"path": str(tmp_path / f"t{n}"), "checkpointlocation": str(tmp_path / "chk"), **options}
        sink = plan_stream_write(given, False, SCHEMA, lambda: row_type(SCHEMA))
        for number in range(2):
            write(sink, number)
        assert caplog.text.count("outside any warehouse") == warned


def test_a_checkpoint_removed_under_the_query_is_one_warning(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.switch_on()
    world.batch(0, 1)
    shutil.rmtree(world.home)
    for number in (1, 2):
        world.batch(number)
    assert [(p.knows_sources, p.barrier) for p in world.provenance() if p] == [(True, 0), (False, 1), (False, 2)]
    assert len([r for r in caplog.records if "checkpoint" in r.getMessage()]) == 1


def test_a_query_without_a_checkpoint_that_is_found_says_so(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.switch_on()
    for number in range(2):
        write(world.sink({"checkpointlocation": "nowhere://x"}), number)
    assert [p.knows_sources for p in world.provenance() if p] == [False, False]
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING and "checkpoint" in r.getMessage()]) == 1
    found = jobs.find_registration(world.index.warehouse, QUERY)
    assert found is not None and not found.sink_records_sources


@pytest.mark.parametrize(("takes_s", "read"), [(10.0, [1, 4, 5, 6]), (0.0, [1, 2, 3, 4, 5, 6])])
def test_batches_do_not_wait_again_soon_for_a_checkpoint_that_takes_its_time_to_fail(
    world: World, monkeypatch: pytest.MonkeyPatch, takes_s: float, read: list[int]
) -> None:
    world.switch_on()
    now, asked, fails = [1000.0], list[int](), {1, 4}
    monkeypatch.setattr(stream_recording, "_seconds", lambda: now[0])
    world.batch(0, 1)
    ends = spark_log.Checkpoint.ends

    def slow(self: spark_log.Checkpoint, batch_id: int) -> spark_log.Ends:
        if batch_id >= len(world.made()):  # not of the batch before
            asked.append(batch_id)
        now[0] += takes_s
        if batch_id in fails:
            fails.discard(batch_id)
            raise StorageError("no answer")
        return ends(self, batch_id)

    monkeypatch.setattr(spark_log.Checkpoint, "ends", slow)
    for number, later_s in enumerate([0.0, 20.0, 20.0, 30.0, 130.0, 10.0], start=1):
        now[0] += later_s
        world.batch(number, number + 1)
    assert asked == read
    known = [p.barrier for p in world.provenance() if p and p.knows_sources]
    assert known == [0, *(n for n in read if n not in (1, 4))]


@pytest.mark.ci
def test_a_checkpoint_that_is_not_found_is_looked_for_ever_more_seldom(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.switch_on()
    now, looks = [1000.0], list[float]()
    monkeypatch.setattr(stream_recording, "_seconds", lambda: now[0])

    def slow(*_: object, **__: object) -> Any:
        looks.append(now[0])
        now[0] += 45.0
        raise StorageError("no answer")

    monkeypatch.setattr(stream_recording, "find_checkpoint", slow)
    for number in range(20):
        write(world.sink(), number)
        now[0] += 30.0
    assert looks == [1000.0, 1135.0, 1330.0, 1645.0]


@pytest.mark.ci
def test_what_tasks_noted_of_an_earlier_batch_is_not_what_a_later_one_read(world: World) -> None:
    world.switch_on()
    ticket = NoteTicket(world.index.warehouse, TableRef("db", "a"), True, after=3, last=5, within=None, time_ms=1)
    assert write_note(ticket, TaskIdentity("app", QUERY, 0))
    for number in (0, 1):
        write(world.sink({"checkpointlocation": "nowhere://x"}), number)
    ranges = [p.sources for p in world.provenance() if p]
    assert ranges == [(SourceRange(TableRef("db", "a"), after=after, last=5),) for after in (3, 5)]


@pytest.mark.ci
@pytest.mark.parametrize("name", ["etl", None])
def test_checkpoints_are_found_below_the_directory_of_the_session(world: World, name: str | None) -> None:
    world.switch_on()
    conf = world.home.parent
    world.home = conf / (name or str(uuid.uuid4()))
    named = {} if name is None else {"queryname": name}
    sink = world.sink(named)
    sink = replace(sink, options=replace(sink.options, checkpoint=None))
    for number in range(2):
        world.log(number, world.at(number + 1))
        write(sink, number, conf=f"file:{conf}")
    ranges = [p.sources for p in world.provenance() if p]
    assert ranges == [(SourceRange(TableRef("db", "a"), last=1),), (SourceRange(TableRef("db", "a"), after=1, last=2),)]


@pytest.mark.ci
def test_branches_are_tables_of_their_own(world: World) -> None:
    world.switch_on()
    world.make("dst")
    world.table("dst").create_branch("fix", empty=True)
    world.log(0, StreamOffset(world.path("a"), "fix", 4, "m4"))
    write(world.sink({"branch": "fix"}), 0)
    assert world.recorded(SINK_SNAPSHOT) == [(QUERY, 0, "db", "dst$branch_fix", 1)]
    assert world.recorded(SOURCE_SNAPSHOT) == [(QUERY, 0, "db", "a$branch_fix", 4)]


def fail(*_: object, **__: object) -> Any:
    raise RuntimeError("the worst")


def fail_of_store(*_: object, **__: object) -> Any:
    raise StorageError("the network is gone")


@pytest.mark.ci
@pytest.mark.parametrize("how", [fail, fail_of_store])
@pytest.mark.parametrize(
    ("where", "what"),
    [
        (commit_recording, "settings_of"),
        (commit_recording, "open_index"),
        (stream_recording, "claim_name"),
        (stream_recording, "register_query"),
        (stream_recording, "find_checkpoint"),
        (stream_recording, "source_ranges"),
        (commit_recording, "recorder_for"),
        (recorder.Recorder, "expect"),
        (recorder.Recorder, "on_commit"),
        (recorder.Recorder, "add"),
    ],
)
def test_whatever_fails_in_recording_the_batch_is_committed(
    world: World, where: Any, what: str, how: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.switch_on()
    with monkeypatch.context() as patched:
        patched.setattr(where, what, how)
        assert world.batch(0, 1).snapshot_ids == (1,)
        assert world.batch(1, 2).snapshot_ids == (2,)
        assert world.batch(2, 3, rows=0).snapshot_ids == ()
        assert world.batch(2, 3, rows=0).snapshot_ids == ()
        assert world.batch(1, 2).was_committed
    assert [s.commit_identifier for s in world.made()] == [0, 1]
    ours = [r for r in caplog.records if r.levelno == logging.WARNING and r.name == warehouse_module.__name__]
    assert len(ours) <= 2
    assert ours or what == "register_query"
    stream_recording.forget_queries()
    assert world.batch(3, 4).snapshot_ids == (3,)
    assert world.provenance()[-1] == Provenance(QUERY, 3, (SourceRange(TableRef("db", "a"), after=3, last=4),), QUERY)


def test_an_event_of_a_batch_tells_its_provenance(world: World) -> None:
    told: list[CommitEvent] = []

    class Stub:
        def on_commit(self, event: CommitEvent) -> None:
            told.append(event)

    world.switch_on()
    world.batch(0, 1)
    [snapshot] = world.made()
    commit_recording.record_commit(Stub(), event_of(world.table("dst").handle, snapshot))  # type: ignore[arg-type]
    provenance = world.provenance()[0]
    assert provenance is not None
    assert told[0].properties.items() >= encode_provenance(provenance).items()


@pytest.mark.ci
@pytest.mark.parametrize("at", range(1, 9))
@pytest.mark.parametrize("part", ["paimon.db", "chk"])
def test_a_store_that_fails_once_where_lineage_looks_stops_no_batch(tmp_path: Path, part: str, at: int) -> None:
    world = World(tmp_path / "chk", f"file://{tmp_path}/wh").switch_on()
    store = FaultStore(open_store(world.url)[0])
    sink = through(world.sink(), store)
    stream_recording.forget_queries()
    settings.forget_settings(world.index.warehouse)
    store.arm(Fault(at, retryable=False, path_part=part))
    for number in range(3):
        assert world.batch(number, number + 1, sink=sink).snapshot_ids == (number + 1,)
    store.arm(None)
    stream_recording.forget_queries()
    settings.forget_settings(world.index.warehouse)
    assert world.batch(3, 4).snapshot_ids == (4,)
    newest = world.provenance()[-1]
    assert newest == Provenance(QUERY, 3, (SourceRange(TableRef("db", "a"), after=3, last=4),), QUERY)
