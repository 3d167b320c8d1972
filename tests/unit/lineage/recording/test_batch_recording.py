"""Batch jobs in one process: what their commits say of whence rows came, and what the lineage tables say then."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import Catalog
from paimon_spark.api.table import Table
from paimon_spark.engine.commit import attempts
from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER
from paimon_spark.errors import InvalidOptionError, StorageError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.lineage_port import TaskIdentity
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.lineage.index.provenance import Provenance, TableRef, decode_provenance
from paimon_spark.lineage.index.table_index import TableIndex
from paimon_spark.lineage.index.tables import Rows
from paimon_spark.lineage.index.warehouse import forget_warnings
from paimon_spark.lineage.recording import batch_recording as batch_recording_module
from paimon_spark.lineage.recording import read_notes as notes
from paimon_spark.lineage.recording import read_recording as left_notes
from paimon_spark.lineage.recording.maintenance import sync
from paimon_spark.lineage.recording.read_recording import rows_of_pending_notes
from paimon_spark.lineage.recording.recorder import Recorder, recorder_for
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.handle import open_table
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.write_request import WriteMode
from tests.harness.keywords import keywords
from tests.harness.real_tables import a_catalog
from tests.harness.recorded import came_from, head, index_of, recording_catalog, rows, said, sinks, sources, switch

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
JOB: dict[str, Any] = {"lineage.job": "j"}


@pytest.fixture(autouse=True)
def nothing_was_warned_of_yet() -> None:
    forget_warnings()


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A warehouse that records, with the tables a, b, x, y and z of the database db."""
    return recording_catalog(tmp_path / "wh", "abxyz", ROWS.schema)


def warnings_of(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and part in r.getMessage()]


def test_a_write_says_which_snapshots_its_job_read(catalog: Catalog) -> None:
    a, b, x = (catalog.table(f"db.{n}") for n in "abx")
    a.write(ROWS)
    a.write(ROWS)
    b.write(ROWS)
    joined = a.scan(**JOB).to_arrow().join(b.scan(**JOB).to_arrow().select(["id"]), "id")
    x.write(joined, **JOB)
    assert said(x) == Provenance("j", 0, said(x).sources)
    assert came_from(x) == {"db.a": 2, "db.b": 1}
    assert head(x).commit_identifier == 0
    assert sources(catalog) == [("j", 0, "a", 2), ("j", 0, "b", 1)]
    assert sinks(catalog) == [("j", 0, "x", 1)]
    assert rows(catalog, "source_job_lineage") == [("j", "a"), ("j", "b")]
    assert rows(catalog, "sink_job_lineage") == [("j", "x")]


def test_a_table_opened_for_a_job_needs_no_options_again(catalog: Catalog) -> None:
    catalog.table("db.a").write(ROWS)
    found = catalog.table("db.a", **JOB).scan().to_arrow()
    catalog.table("db.x", **JOB).write(found)
    assert sources(catalog) == [("j", 0, "a", 1)] and sinks(catalog) == [("j", 0, "x", 1)]


@pytest.mark.ci
def test_each_of_three_sinks_has_a_barrier_and_all_sources(catalog: Catalog) -> None:
    catalog.table("db.a").write(ROWS)
    found = catalog.table("db.a").scan(**JOB).to_arrow()
    for name in "xyz":
        catalog.table(f"db.{name}").write(found, **JOB)
    assert sinks(catalog) == [("j", 0, "x", 1), ("j", 1, "y", 1), ("j", 2, "z", 1)]
    assert sources(catalog) == [("j", n, "a", 1) for n in (0, 1, 2)]


@pytest.mark.ci
def test_one_barrier_may_be_given_to_all_writes_of_a_run(catalog: Catalog) -> None:
    catalog.table("db.a").write(ROWS)
    found = catalog.table("db.a").scan(**JOB).to_arrow()
    given: dict[str, Any] = {**JOB, "lineage.barrier": "20"}
    for name in "xy":
        catalog.table(f"db.{name}").write(found, **given)
    assert sinks(catalog) == [("j", 20, "x", 1), ("j", 20, "y", 1)]
    assert head(catalog.table("db.y")).commit_identifier == 20
    catalog.table("db.z").write(found, **JOB)
    assert sinks(catalog)[-1] == ("j", 21, "z", 1)


@pytest.mark.ci
def test_the_newest_read_of_each_table_counts(catalog: Catalog) -> None:
    a, b, x = (catalog.table(f"db.{n}") for n in "abx")
    for table in (a, b, a):
        table.write(ROWS)
    a.scan(version="1", **JOB).to_arrow()
    x.write(b.scan(**JOB).to_arrow(), **JOB)
    x.write(a.scan(**JOB).to_arrow(), **JOB)
    assert sources(catalog) == [("j", 0, "a", 1), ("j", 0, "b", 1), ("j", 1, "a", 2), ("j", 1, "b", 1)]


def test_reads_of_other_jobs_and_without_a_job_do_not_count(catalog: Catalog) -> None:
    a, b, x, y = (catalog.table(f"db.{n}") for n in "abxy")
    for table in (a, b):
        table.write(ROWS)
    a.scan(**{"lineage.job": "k"}).to_arrow()
    b.scan().to_arrow()
    y.scan(**JOB).to_arrow()  # empty, and read all the same
    x.write(ROWS, **JOB)
    assert [s.ref for s in said(x).sources] == [TableRef("db", "y")]
    assert sources(catalog) == [] and rows(catalog, "source_job_lineage") == [("j", "y")]


def test_branches_are_tables_of_their_own(catalog: Catalog) -> None:
    a, x = catalog.table("db.a"), catalog.table("db.x")
    a.write(ROWS)
    a.create_tag("base")
    a.create_branch("fix", tag="base")
    a.branch("fix").write(ROWS)
    x.write(ROWS)
    x.create_tag("base")
    x.create_branch("dev", tag="base")
    x.branch("dev").write(a.branch("fix").scan(**JOB).to_arrow(), **JOB)
    assert sources(catalog) == [("j", 0, "a$branch_fix", 2)]
    assert sinks(catalog) == [("j", 0, "x$branch_dev", 2)]
    assert said(x.branch("dev")).sources[0].ref == TableRef("db", "a$branch_fix")


def test_a_branch_written_from_main_has_main_as_its_source(catalog: Catalog) -> None:
    a = catalog.table("db.a")
    a.write(ROWS)
    a.create_branch("fix", snapshot_id=1)
    a.branch("fix").write(a.scan(**JOB).to_arrow(), **JOB)
    assert sources(catalog) == [("j", 0, "a", 1)] and sinks(catalog) == [("j", 0, "a$branch_fix", 2)]


def test_a_version_read_is_recorded_as_its_snapshot(catalog: Catalog) -> None:
    a, x = catalog.table("db.a"), catalog.table("db.x")
    a.write(ROWS)
    a.write(ROWS)
    a.create_tag("v1", snapshot_id=1)
    a.write(ROWS)
    x.write(a.scan(version="v1", **JOB).to_arrow(), **JOB)
    assert came_from(x) == {"db.a": 1}


def test_a_write_without_rows_records_what_was_read_and_uses_up_its_barrier(catalog: Catalog) -> None:
    a, x = catalog.table("db.a"), catalog.table("db.x")
    a.write(ROWS)
    none = a.scan(where="id > 9", **JOB).to_arrow()
    assert x.write(none, **JOB).snapshot_id is None
    assert sources(catalog) == [("j", 0, "a", 1)] and sinks(catalog) == []
    assert rows(catalog, "sink_job_lineage") == [("j", "x")]
    x.write(a.scan(**JOB).to_arrow(), **JOB)
    assert sinks(catalog) == [("j", 1, "x", 1)]


@pytest.mark.parametrize("options", [{}, {"partitionOverwriteMode": "dynamic"}, {"overwrite.partition": "v=a"}])
def test_overwrites_are_recorded(catalog: Catalog, options: dict[str, Any]) -> None:
    p = catalog.create_table("db.p", ROWS.schema, partition_keys=["v"])
    p.write(ROWS)
    catalog.table("db.a").write(ROWS)
    found = catalog.table("db.a").scan(where="v = 'a'", **JOB).to_arrow()
    p.write(found, mode="overwrite", **JOB, **options)
    assert said(p).barrier == head(p).commit_identifier == 0 and came_from(p) == {"db.a": 1}
    assert sinks(catalog) == [("j", 0, "p", 2)]


def test_a_table_overwritten_from_itself_is_no_source_of_its_own(catalog: Catalog) -> None:
    a, x = catalog.table("db.a"), catalog.table("db.x")
    a.write(ROWS)
    x.write(ROWS)
    both = pa.concat_tables([x.scan(**JOB).to_arrow(), a.scan(**JOB).to_arrow()])
    x.write(both, mode="overwrite", **JOB)
    assert came_from(x) == {"db.a": 1} and sources(catalog) == [("j", 0, "a", 1)]
    a.write(a.scan(**{"lineage.job": "k"}).to_arrow(), mode="overwrite", **{"lineage.job": "k"})
    assert said(a) == Provenance("k", 0)


def test_a_write_that_makes_its_table_is_recorded_and_the_table_stores_nothing_of_it(catalog: Catalog) -> None:
    catalog.table("db.a").write(ROWS)
    found = catalog.table("db.a").scan(**JOB).to_arrow()
    path = catalog.table("db.a").handle.location.removesuffix("/a") + "/made"
    job = plan_path_write({"path": path, **JOB}, WriteMode.APPEND, found.schema, lambda: row_type(found.schema))
    assert job.created
    job.commit(job.write(found.to_batches()))
    made = catalog.table("db.made")
    assert came_from(made) == {"db.a": 1} and sinks(catalog) == [("j", 0, "made", 1)]
    assert not [k for k in made.handle.schema.options if k.startswith("lineage")]


def test_rows_that_need_a_compaction_are_recorded_once(catalog: Catalog) -> None:
    k = catalog.create_table(
        "db.k", ROWS.schema, primary_keys=["id"], options={"bucket": "1", "deletion-vectors.enabled": "true"}
    )
    catalog.table("db.a").write(ROWS)
    result = k.write(catalog.table("db.a").scan(**JOB).to_arrow(), **JOB)
    assert result.snapshot_ids == (1, 2)
    first, second = k.snapshots()
    assert decode_provenance(first.properties) is not None and decode_provenance(second.properties) is None
    assert sinks(catalog) == [("j", 0, "k", 1)]


def test_deletes_are_recorded(catalog: Catalog) -> None:
    a, x = catalog.table("db.a"), catalog.table("db.x", **JOB)
    a.write(ROWS)
    x.write(ROWS)
    gone = a.scan(where="id = 2", **JOB).to_arrow().column("id").to_pylist()
    x.delete(f"id in ({gone[0]})")
    assert came_from(x) == {"db.a": 1} and said(x).barrier == 1
    assert sinks(catalog) == [("j", 0, "x", 1), ("j", 1, "x", 2)]
    assert catalog.table("db.x").scan().to_arrow().num_rows == 1


def test_a_delete_that_read_nothing_has_no_sources_and_no_warning(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    x = catalog.table("db.x")
    x.write(ROWS)
    catalog.table("db.x", **JOB).delete("id = 1")
    assert said(x) == Provenance("j", 0) and not warnings_of(caplog, "lineage")


def test_a_job_that_noted_no_read_has_unknown_sources_and_one_warning(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    x = catalog.table("db.x")
    x.write(catalog.table("db.a").scan().to_arrow(), **JOB)
    x.write(ROWS, **JOB)
    x.write(ROWS, **JOB)
    assert said(x).knows_sources is False and said(x).sources == ()
    assert len(warnings_of(caplog, "give the reads the option lineage.job = 'j' too")) == 1
    assert len(warnings_of(caplog, "the same number as option lineage.barrier")) == 1


def test_a_statement_of_unknown_sources_has_one_short_warning_and_none_once_declared(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    x = catalog.table("db.x")
    of_sql: dict[str, Any] = {"lineage.job": "db.x:insert:1a2b3c4d"}
    x.write(ROWS, **of_sql)
    (said,) = warnings_of(caplog, "lineage")
    assert said.endswith(
        "the sources of db.x:insert:1a2b3c4d are unknown, as it reads no table of this warehouse; where all its rows "
        "come from outside: CALL sys.declare_lineage_source('db.x')"
    )
    catalog.lineage.declare_source("db.x")
    caplog.clear()
    x.write(ROWS, **{**of_sql, "lineage.job": "db.x:insert:5e6f7a8b"})
    x.write(ROWS, **JOB)
    assert not warnings_of(caplog, "lineage")


def test_without_a_job_nothing_is_recorded(catalog: Catalog) -> None:
    a, x = catalog.table("db.a"), catalog.table("db.x")
    a.write(ROWS)
    x.write(a.scan().to_arrow())
    assert head(x).properties is None or decode_provenance(head(x).properties) is None
    assert head(x).commit_identifier == BATCH_COMMIT_IDENTIFIER
    assert sinks(catalog) == [] == rows(catalog, "sink_job_lineage")


_PLAIN = """
import sys, pyarrow as pa, paimon_spark
rows = pa.table({"id": [1]})
path = sys.argv[1]
catalog = paimon_spark.load_catalog(path)
catalog.create_database("db")
t = catalog.create_table("db.t", rows.schema)
t.write(rows); t.write(t.scan().to_arrow(), mode="overwrite"); t.delete("id = 1")
print(sorted(m for m in sys.modules if m.startswith("paimon_spark.lineage")))
"""


@pytest.mark.ci
def test_without_a_job_nothing_of_lineage_is_imported(tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-c", _PLAIN, str(tmp_path / "wh")], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]", out.stdout
    assert not (tmp_path / "wh" / "paimon.db").exists()


def test_a_job_in_a_warehouse_that_does_not_record_warns_once_and_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = a_catalog(tmp_path / "wh")
    made = [catalog.create_table(f"db.{n}", ROWS.schema) for n in "tu"]
    for table in (*made, *made):
        table.scan(**JOB).to_arrow()
        table.write(ROWS, **JOB)
    assert [head(t).id for t in made] == [2, 2] and head(made[0]).commit_identifier == BATCH_COMMIT_IDENTIFIER
    warned = warnings_of(caplog, "lineage")
    assert len(warned) == 1 and "catalog.lineage.enable()" in warned[0]
    assert not (tmp_path / "wh" / "paimon.db").exists()


def test_a_table_outside_any_warehouse_warns_once_and_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "alone")
    job = plan_path_write({"path": path}, WriteMode.APPEND, ROWS.schema, lambda: row_type(ROWS.schema))
    job.commit(job.write(ROWS.to_batches()))
    table = paimon_spark.load_table(path)
    table.write(ROWS, **JOB)
    table.write(ROWS, **JOB)
    warned = warnings_of(caplog, "lineage")
    assert head(table).id == 3 and len(warned) == 1 and "<warehouse>/<database>.db/<table>" in warned[0]


def test_a_warehouse_that_records_tables_alone_keeps_no_snapshots(catalog: Catalog) -> None:
    switch(catalog, data=False)
    a, x = catalog.table("db.a"), catalog.table("db.x")
    a.write(ROWS)
    x.write(a.scan(**JOB).to_arrow(), **JOB)
    assert rows(catalog, "source_job_lineage") == [("j", "a")] and rows(catalog, "sink_job_lineage") == [("j", "x")]
    assert sources(catalog) == [] == sinks(catalog)
    assert decode_provenance(head(x).properties) is None


@pytest.mark.parametrize(
    "options", [{"lineage.job": " "}, {**JOB, "lineage.barrier": "-1"}, {**JOB, "lineage.barrier": str(2**63 - 1)}]
)
def test_a_wrong_option_of_lineage_is_an_error_before_anything_is_written(
    catalog: Catalog, options: dict[str, Any]
) -> None:
    x = catalog.table("db.x")
    with pytest.raises(InvalidOptionError, match="lineage"):
        x.write(ROWS, **options)
    assert x.snapshots() == []


def test_a_write_goes_on_when_its_lineage_cannot_be_recorded(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*args: object) -> int:
        raise StorageError("no way")

    monkeypatch.setattr("paimon_spark.lineage.recording.batch_recording.draw_barrier", fails)
    x = catalog.table("db.x")
    assert x.write(ROWS, **JOB).snapshot_id == 1
    assert decode_provenance(head(x).properties) is None and len(warnings_of(caplog, "no way")) == 1


def test_a_write_goes_on_when_its_rows_cannot_be_flushed_and_they_come_with_the_next(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*args: object) -> None:
        raise StorageError("no way")

    x = catalog.table("db.x")
    with monkeypatch.context() as m:
        m.setattr(TableIndex, "upsert", fails)
        assert x.write(ROWS, **JOB).snapshot_id == 1
    assert said(x).barrier == 0 and warnings_of(caplog, "no way")
    x.write(ROWS, **JOB)
    assert sinks(catalog) == [("j", 0, "x", 1), ("j", 1, "x", 2)]


def test_a_micro_batch_has_read_nothing_of_a_source_that_only_an_earlier_one_read(catalog: Catalog) -> None:
    warehouse = index_of(catalog).warehouse
    for batch, (name, after, last) in enumerate((("a", 3, 5), ("b", 1, 2))):
        ticket = notes.NoteTicket(warehouse, TableRef("db", name), True, after, last, None, time_ms=1)
        assert notes.write_note(ticket, TaskIdentity("app", "q", batch))
    handle = open_table(warehouse.store, warehouse.table_root("db", "x"))
    found = decode_provenance(batch_recording_module.batch_commit(handle, TaskIdentity("app", "q", 1)).properties)
    assert found is not None
    assert [(s.ref.table, s.after, s.last) for s in found.sources if s.ref] == [("a", 5, 5), ("b", 1, 2)]


def test_a_write_waits_no_longer_than_a_while_for_its_rows(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    upsert = TableIndex.upsert

    def hangs(self: TableIndex, rows: Rows) -> None:
        assert go.wait(60)
        upsert(self, rows)

    monkeypatch.setattr(batch_recording_module, "_FLUSH_S", 0.05)
    monkeypatch.setattr(TableIndex, "upsert", hangs)
    x = catalog.table("db.x")
    assert x.write(ROWS, **JOB).snapshot_id == 1
    assert not go.is_set()
    go.set()
    assert recorder_for(index_of(catalog)).flush(60)
    assert sinks(catalog) == [("j", 0, "x", 1)]


@pytest.mark.ci
def test_notes_of_reads_that_were_recorded_long_ago_go(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        catalog.table("db.x").write(catalog.table("db.a").scan(**JOB).to_arrow(), **JOB)

    def app(number: int) -> None:
        monkeypatch.setattr(notes, "_PROCESS", f"app-{number}")

    catalog.table("db.a").write(ROWS)
    for number in range(16):
        app(number)
        run()
    warehouse = index_of(catalog).warehouse
    assert len(notes.batch_notes(warehouse, "j")) == 16
    monkeypatch.setattr(left_notes, "_KEPT_MS", -60_000)
    run()
    assert len(notes.batch_notes(warehouse, "j")) == 0


def test_a_job_with_an_interval_of_its_own_leaves_its_rows_to_the_recorder(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[object] = []

    def flush(self: Recorder, timeout_s: float | None = None) -> bool:
        flushed.append(self)
        return True

    monkeypatch.setattr(Recorder, "flush", flush)
    x = catalog.table("db.x")
    x.write(ROWS, **JOB, **keywords({"lineage.flush-interval": "1 h"}))
    assert not flushed
    x.write(ROWS, **JOB)
    assert len(flushed) == 1


def test_a_job_that_was_pickled_is_recorded_and_is_no_larger_for_it(catalog: Catalog) -> None:
    def planned(**options: str) -> bytes:
        path = catalog.table("db.x").handle.location
        return pickle.dumps(plan_path_write({"path": path, **options}, WriteMode.APPEND, ROWS.schema))

    pickled = planned(**JOB)
    assert len(pickled) < len(planned()) + 100
    job = pickle.loads(pickled)
    job.commit(job.write(ROWS.to_batches()))
    assert sinks(catalog) == [("j", 0, "x", 1)]


def test_attempts_that_others_outran_draw_no_other_barrier(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    x = catalog.table("db.x")
    path = x.handle.location
    job = plan_path_write({"path": path, **JOB}, WriteMode.APPEND, ROWS.schema)
    messages = job.write(ROWS.to_batches())
    stale_heads(monkeypatch, x, 2)
    job.commit(messages)
    assert head(x).id == 3 and said(x).barrier == 0
    x.write(ROWS, **JOB)
    assert sinks(catalog) == [("j", 0, "x", 3), ("j", 1, "x", 4)]


@pytest.mark.ci
def test_writes_of_one_user_and_barrier_that_race_are_both_kept(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = catalog.table("db.x")
    same: dict[str, Any] = {**JOB, "lineage.barrier": "5", "commit.user": "etl"}
    x.write(ROWS, **same)
    stale_heads(monkeypatch, x, 1, lambda: x.write(ROWS, **same))
    x.write(ROWS, **same)
    assert x.scan().to_arrow().num_rows == 3 * ROWS.num_rows
    assert sinks(catalog) == [("j", 5, "x", 3)]


def stale_heads(monkeypatch: pytest.MonkeyPatch, table: Table, times: int, write: Any = None) -> None:
    """Have others commit to a table after a commit looked at its head, some times."""
    real, left = latest_snapshot, [times]

    def latest(handle: Any) -> Snapshot | None:
        found = real(handle)
        if handle.layout.root == table.handle.layout.root and left[0]:
            left[0] -= 1
            (write or (lambda: table.write(ROWS)))()
        return found

    monkeypatch.setattr(attempts, "latest_snapshot", latest)


_RACER = """
import sys, pyarrow as pa, paimon_spark
catalog = paimon_spark.load_catalog(sys.argv[1])
sys.stdin.readline()
for _ in range(2):
    catalog.table("db." + sys.argv[2]).write(pa.table({"id": [1], "v": ["r"]}), **{"lineage.job": "j"})
"""


@pytest.mark.ci
def test_processes_of_one_job_that_race_draw_different_barriers(catalog: Catalog, tmp_path: Path) -> None:
    wh = str(tmp_path / "wh")
    racers = [
        subprocess.Popen([sys.executable, "-c", _RACER, wh, name], stdin=subprocess.PIPE, text=True)
        for name in ("x", "x", "y")
    ]
    for r in racers:
        assert r.stdin is not None
        r.stdin.write("go\n")
        r.stdin.close()
    assert [r.wait(120) for r in racers] == [0, 0, 0]
    written = [decode_provenance(s.properties) for n in "xy" for s in catalog.table(f"db.{n}").snapshots()]
    barriers = sorted(p.barrier for p in written if p is not None)
    assert len(barriers) == 6 == len(set(barriers))
    sync(index_of(catalog))
    assert sorted(b for _, b, _, _ in sinks(catalog)) == barriers


@pytest.mark.ci
def test_threads_of_one_job_draw_different_barriers(catalog: Catalog) -> None:
    catalog.table("db.a").write(ROWS)
    found = catalog.table("db.a").scan(**JOB).to_arrow()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: catalog.table(f"db.{n}").write(found, **JOB), "xyzxyz"))
    assert len({b for _, b, _, _ in sinks(catalog)}) == 6 == len(sinks(catalog))
    assert len(sources(catalog)) == 6


_KILLED = """
import os, signal, sys, pyarrow as pa, paimon_spark
from paimon_spark.lineage.index.table_index import TableIndex
catalog = paimon_spark.load_catalog(sys.argv[1])
found = catalog.table("db.a").scan(**{"lineage.job": "j"}).to_arrow()
TableIndex.upsert = lambda self, rows: os.kill(os.getpid(), signal.SIGKILL)
catalog.table("db.x").write(found, **{"lineage.job": "j"})
"""


@pytest.mark.ci
def test_a_process_killed_between_its_commit_and_its_rows_is_found_again(catalog: Catalog, tmp_path: Path) -> None:
    catalog.table("db.a").write(ROWS)
    died = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "wh")], capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    x = catalog.table("db.x")
    assert came_from(x) == {"db.a": 1} and sinks(catalog) == []
    sync(index_of(catalog))
    assert sinks(catalog) == [("j", 0, "x", 1)] and sources(catalog) == [("j", 0, "a", 1)]


@pytest.mark.ci
def test_the_next_run_of_a_job_finds_what_a_killed_one_left(catalog: Catalog, tmp_path: Path) -> None:
    catalog.table("db.a").write(ROWS)
    subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "wh")], capture_output=True, check=False)
    x = catalog.table("db.x")
    x.write(catalog.table("db.a").scan(**JOB).to_arrow(), **JOB)
    assert sinks(catalog) == [("j", 0, "x", 1), ("j", 1, "x", 2)]
    assert sources(catalog) == [("j", 0, "a", 1), ("j", 1, "a", 1)]


@pytest.mark.ci
def test_notes_that_a_write_took_are_not_recorded_once_more_and_old_ones_go(catalog: Catalog, tmp_path: Path) -> None:
    a, x = catalog.table("db.a"), catalog.table("db.x")
    for _ in range(3):
        a.write(ROWS)
        x.write(a.scan(**JOB).to_arrow(), **JOB)
    notes = list((tmp_path / "wh" / "paimon.db" / "_lineage" / "notes" / "batch" / "j").iterdir())
    assert len(notes) == 1 and b'"recorded":true' in notes[0].read_bytes()
    for note in notes:
        os.utime(note, (0, 0))
    sync(index_of(catalog))
    assert [b for _, b, _, _ in sources(catalog)] == [0, 1, 2]


def test_a_job_from_one_warehouse_to_another_joins_by_the_barrier_given_to_both(
    catalog: Catalog, tmp_path: Path
) -> None:
    other = recording_catalog(tmp_path / "other", "ax", ROWS.schema)
    catalog.table("db.a").write(ROWS)
    given: dict[str, Any] = {**JOB, "lineage.barrier": "7"}
    other.table("db.x").write(catalog.table("db.a").scan(**given).to_arrow(), **given)
    assert sinks(other) == [("j", 7, "x", 1)] and sources(other) == []
    index = index_of(catalog)
    index.upsert(rows_of_pending_notes(index, at_ms=now_ms() + 3_600_000))
    assert sources(catalog) == [("j", 7, "a", 1)] and sinks(catalog) == []
    catalog.table("db.y").write(ROWS, **JOB)
    assert sinks(catalog) == [("j", 8, "y", 1)]


def test_lineage_tables_written_under_a_job_are_not_recorded(catalog: Catalog) -> None:
    catalog.table("paimon.job_startup").write(
        pa.table({"job": ["j"], "database": ["db"], "table": ["a"], "snapshot_id": [1]}), **JOB
    )
    assert rows(catalog, "sink_job_lineage") == []


@pytest.mark.parametrize("job", ["my job", "a/b", "q\"'", "name.with.dots", "überlänge" * 40])
def test_any_name_of_a_job_is_recorded(catalog: Catalog, job: str) -> None:
    catalog.table("db.a").write(ROWS)
    given: dict[str, Any] = {"lineage.job": job}
    catalog.table("db.x").write(catalog.table("db.a").scan(**given).to_arrow(), **given)
    assert sinks(catalog) == [(job, 0, "x", 1)] and sources(catalog) == [(job, 0, "a", 1)]
