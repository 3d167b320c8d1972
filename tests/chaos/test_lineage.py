"""Lineage says of every snapshot what its rows say, whatever dies or expires meanwhile: the picture of PIP-5."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import BatchesLostError, PaimonError
from paimon_spark.lineage.index import table_index as lineage_index
from paimon_spark.lineage.index import tables
from paimon_spark.lineage.index.provenance import Provenance, TableRef, decode_provenance
from paimon_spark.lineage.index.table_index import TableIndex
from paimon_spark.lineage.index.tables import SINK_SNAPSHOT, SOURCE_SNAPSHOT, TABLES, rows_of
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.lineage.recording import stream_recording
from paimon_spark.lineage.recording.recorder import Recorder, flush_all
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.storage.urls import open_store
from tests.chaos.lineage_checks import check, check_unified, recorded, truth
from tests.chaos.pipeline_runs import Run, expire_some, expire_unneeded, run, said
from tests.harness.fault_points import FULL, SHARE, selected_points
from tests.harness.fault_store import Fault, FaultStore
from tests.harness.mini_engine import Step
from tests.harness.pipelines import Pipeline, picture

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

LIMITED = {"read.stream.maxFilesPerTrigger": "1"}
JOBS: dict[str, dict[str, Any]] = {
    "aligned": {},
    "limited": {"read": LIMITED},
    "flushed-often": {"write": {"lineage.flush-interval": "0 s"}},
}


def a_pipeline(folder: Path, jobs: str = "aligned") -> Pipeline:
    return Pipeline(str(folder / "wh"), folder, picture(**JOBS[jobs])).make()


def synced(pipeline: Pipeline) -> dict[str, int]:
    flush_all()
    pipeline.catalog.lineage.sync()
    return check(pipeline)


def a_while(pipeline: Pipeline, turns: int, seed: int = 1) -> None:
    """Jobs, writers and compaction take turns, some batches each."""
    chance = random.Random(seed)
    for turn in range(turns):
        for root in chance.sample(pipeline.roots, chance.randrange(1, 4)):
            pipeline.write(root, f"{seed}.{turn}", chance.randrange(1, 4))
        for job in chance.sample(pipeline.jobs, chance.randrange(1, 4)):
            pipeline.engine(job).run()
        if chance.random() < 0.4:
            pipeline.table(chance.choice(pipeline.tables)).compact(full=True)


@pytest.mark.parametrize("jobs", JOBS)
def test_every_snapshot_is_recorded_with_what_its_rows_prove(jobs: str, tmp_path: Path) -> None:
    pipeline = a_pipeline(tmp_path, jobs)
    a_while(pipeline, 40 if FULL else 10)
    figures = synced(pipeline)
    assert figures["proofs"] > 20 and figures["lost"] == 0


def test_the_unified_version_is_consistent_and_the_newest_that_is(tmp_path: Path) -> None:
    pipeline = a_pipeline(tmp_path)
    told = []
    for turn in range(40 if FULL else 8):
        a_while(pipeline, 1, seed=turn)
        if all(pipeline.data_snapshots(t) for t in ("t5", "t6")):
            told.append(check_unified(pipeline))
    pipeline.run()
    told.append(check_unified(pipeline))
    heads = {f"db.{t}": pipeline.data_snapshots(t)[-1].id for t in ("t5", "t6")}
    assert all(told[-1][name] >= head for name, head in heads.items())
    assert len({tuple(t.values()) for t in told}) > 2
    check(pipeline)


@pytest.mark.parametrize("jobs", JOBS if FULL else ["aligned", "flushed-often"])
def test_lineage_is_whole_after_jobs_were_killed(jobs: str, tmp_path: Path) -> None:
    pipeline = a_pipeline(tmp_path, jobs)
    figures = run(Run(pipeline, kills=60 if FULL else 6))
    before = synced(pipeline)
    pipeline.run()
    print(jobs, figures, before, synced(pipeline), said(pipeline))
    if jobs != "limited":
        check_unified(pipeline)


def test_expiry_beside_killed_jobs_leaves_what_they_need_to_find_their_last_batch(tmp_path: Path) -> None:
    pipeline = a_pipeline(tmp_path)
    job = pipeline.job("etl 1")

    def killed_after_a_commit(label: str) -> None:
        pipeline.write("t3", label)
        steps = pipeline.engine(job).steps()
        while next(steps) is not Step.COMMITTED:
            pass
        steps.close()
        pipeline.table(job.sink).compact(full=True)

    for label in "abc":
        pipeline.write("t3", label)
        pipeline.engine(job).run()
    killed_after_a_commit("d")
    expire_unneeded(pipeline, job.sink, retain_max=1)
    pipeline.engine(job).run()
    killed_after_a_commit("e")
    expire_some(pipeline, job.sink, retain_max=1)
    with pytest.raises(BatchesLostError, match="it is unknown whether batch 4"):
        pipeline.engine(job).run()


def test_a_rebuilt_index_is_the_one_that_was(tmp_path: Path) -> None:
    pipeline = a_pipeline(tmp_path)
    a_while(pipeline, 8)
    synced(pipeline)
    live = recorded(pipeline)
    for job in pipeline.jobs:
        expire_some(pipeline, job.sink, retain_max=2)
    gone = truth(pipeline).gone.keys()
    for name in TABLES:
        shutil.rmtree(tmp_path / "wh" / "paimon.db" / name)
    as_another_process()
    pipeline.catalog.lineage.rebuild()
    rebuilt = recorded(pipeline)
    assert (rebuilt.sink_jobs, rebuilt.source_jobs, rebuilt.read) == (live.sink_jobs, live.source_jobs, live.read)
    assert rebuilt.made == {k: v for k, v in live.made.items() if k not in gone}
    check(pipeline)


def short(folder: Path) -> Pipeline:
    """Two batches of each job, whose rows are all in the lineage tables."""
    pipeline = a_pipeline(folder)
    for label in "ab":
        for root in pipeline.roots:
            pipeline.write(root, label)
        pipeline.run()
    synced(pipeline)
    return pipeline


def index_of(pipeline: Pipeline, faulty: bool = False) -> tuple[TableIndex, FaultStore]:
    store, root = open_store(pipeline.warehouse)
    faults = FaultStore(store)
    return TableIndex(Warehouse(faults if faulty else store, root)), faults


WRONG: dict[str, Callable[[TableIndex], object]] = {
    "missing made": lambda i: i.delete(SINK_SNAPSHOT, "job = 'etl 1' AND barrier_id = 0"),
    "missing read": lambda i: i.delete(SOURCE_SNAPSHOT, "job = 'etl 2' AND barrier_id = 0 AND `table` = 't3'"),
    "wrong made": lambda i: i.upsert({SINK_SNAPSHOT.name: [("etl 1", 0, "db", "t5", 2)]}),
    "wrong read": lambda i: i.upsert({SOURCE_SNAPSHOT.name: [("etl 1", 0, "db", "t2", 2)]}),
    "surplus made": lambda i: i.upsert({SINK_SNAPSHOT.name: [("etl 1", 99, "db", "t5", 3)]}),
    "surplus read": lambda i: i.upsert({SOURCE_SNAPSHOT.name: [("etl 1", 99, "db", "t2", 1)]}),
    "surplus table": lambda i: i.upsert({SINK_SNAPSHOT.name: [("etl 1", 0, "db", "t6", 1)]}),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_check_notices_a_row_that_is_missing_wrong_or_surplus(what: str, tmp_path: Path) -> None:
    pipeline = short(tmp_path)
    WRONG[what](index_of(pipeline)[0])
    with pytest.raises(AssertionError, match=r"surplus|missing"):
        check(pipeline)


FAULTS: dict[str, Callable[[int], Fault]] = {
    "once": lambda at: Fault(at, retryable=False),
    "answer-lost": lambda at: Fault(at, after=True),
    "killed": lambda at: Fault(at, forever=True, retryable=False),
}


def as_after_a_crash(pipeline: Pipeline, kept: Path) -> None:
    """The lineage tables as they are in a copy, with nothing remembered of what they became since."""
    lineage = Path(pipeline.warehouse) / "paimon.db"
    shutil.rmtree(lineage)
    shutil.copytree(kept, lineage)
    as_another_process()


def as_another_process() -> None:
    """Forget what this process knows of lineage tables: also the store through which it opened them."""
    CACHE.clear()
    lineage_index._HANDLES.clear()
    tables._CACHE.clear()
    stream_recording.forget_queries()


def flushed(pipeline: Pipeline, index: TableIndex, faults: FaultStore, fault: Fault | None) -> bool:
    """A process that has committed all batches flushes what it knows; whether all of it was written."""
    recorder = Recorder(index, background=False)
    for job in pipeline.jobs:
        ref, checkpoint = TableRef("db", job.sink), pipeline.checkpoint(job)
        recorder.expect(job.name, ref, query_id=checkpoint.query_id(), checkpoint=str(checkpoint.root))
        for snapshot in pipeline.data_snapshots(job.sink):
            recorder.add(rows_of(one(decode_provenance(snapshot.properties)), ref, snapshot.id))
    faults.arm(fault)
    done = recorder.flush()
    assert fault is None or faults.failed, f"{fault} was never injected"
    if not done and not (fault and fault.forever):
        faults.arm(None)
        assert recorder.flush(), "the store is well again, but rows are not written"
    return done


def one(found: Provenance | None) -> Provenance:
    assert found is not None
    return found


@pytest.mark.faults
@pytest.mark.parametrize("how", FAULTS)
def test_a_flush_that_fails_at_any_call_is_made_up_for(how: str, tmp_path: Path) -> None:
    pipeline = short(tmp_path)
    lineage = Path(pipeline.warehouse) / "paimon.db"
    for name in (*TABLES, "_lineage/walked", "_lineage/read"):  # as if all that was committed waited to be written
        shutil.rmtree(lineage / name)
    as_another_process()
    pipeline.catalog.lineage.enable()
    as_another_process()
    kept = tmp_path / "kept"
    shutil.copytree(lineage, kept)
    index, faults = index_of(pipeline, faulty=True)
    assert flushed(pipeline, index, faults, None)
    calls = len(faults.calls)
    assert calls > 20
    as_another_process()
    check(pipeline)
    failed = 0
    for at in selected_points(range(1, calls + 1), max(1, calls // 12)):
        as_after_a_crash(pipeline, kept)
        failed += not flushed(pipeline, index, faults, FAULTS[how](at))
        as_another_process()
        pipeline.catalog.lineage.sync()
        check(pipeline)
    assert failed or SHARE


@pytest.mark.faults
@pytest.mark.parametrize("how", FAULTS)
def test_enable_that_dies_at_any_call_is_done_by_the_next(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(number: int, fault: Fault | None) -> tuple[Pipeline, FaultStore]:
        """A warehouse of its own, in which a process enables lineage."""
        pipeline = Pipeline(str(tmp_path / f"{number}" / "wh"), tmp_path / f"{number}").make(lineage=False)
        index, faults = index_of(pipeline, faulty=True)
        faults.arm(fault)
        with monkeypatch.context() as patch, contextlib.suppress(PaimonError):
            patch.setattr("paimon_spark.api.lineage_verbs.warehouse_of", lambda _: index.warehouse)
            pipeline.catalog.lineage.enable()
        as_another_process()
        return pipeline, faults

    calls = len(tried(0, None)[1].calls)
    assert calls > 20
    half_done = 0
    for at in selected_points(range(1, calls + 1), max(1, calls // 8)):
        pipeline, faults = tried(at, FAULTS[how](at))
        assert faults.failed
        before = pipeline.catalog.lineage.status()
        half_done += not before.data
        pipeline.write("t1", "before")
        pipeline.engine(pipeline.job("etl 0")).run()  # nothing of it fails
        assert pipeline.catalog.lineage.enable().data
        if at % 3 == 1:
            as_another_process()
            pipeline.write("t1", "after")
            pipeline.run()
            flush_all()
            pipeline.catalog.lineage.sync()
            assert recorded(pipeline).made["etl 0", 1] == 2
    assert half_done or SHARE
