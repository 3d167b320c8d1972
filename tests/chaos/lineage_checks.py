"""Checks of lineage tables: they say of each snapshot what its rows say, neither less nor more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow.compute as pc

from paimon_spark.errors import LineageError
from paimon_spark.metadata.manifests import CACHE
from tests.harness.pipelines import Job, Pipeline, Rows, pairs, whole

Made = dict[tuple[str, int], int]
"""(job, barrier) → the snapshot that it made of its sink."""
Read = dict[tuple[str, int, str], int]
"""(job, barrier, source) → the last snapshot read whole."""


@dataclass(frozen=True)
class Truth:
    """What the lineage tables have to say, from snapshots and checkpoints.

    Attributes:
        made: of snapshots alive.
        gone: of snapshots that were expired, as who expired them saw them.
        read: of batches that ended, or whose snapshot is there.
    """

    made: Made
    gone: Made
    read: Read


@dataclass(frozen=True)
class Recorded:
    """The rows of the lineage tables."""

    sink_jobs: set[tuple[str, str, str]]
    source_jobs: set[tuple[str, str, str]]
    made: Made
    read: Read


def truth(pipeline: Pipeline) -> Truth:
    CACHE.clear()
    made: Made = {}
    gone: Made = {}
    read: Read = {}
    for job in pipeline.jobs:
        checkpoint = pipeline.checkpoint(job)
        if checkpoint.begun() is None:
            continue
        query = checkpoint.query_id()
        own = [s for s in pipeline.data_snapshots(job.sink) if s.commit_user == query]
        made |= {(job.name, s.commit_identifier): s.id for s in own}
        gone |= {(job.name, b): s for user, b, s in _expired(pipeline, job.sink) if user == query}
        ended = checkpoint.ended()
        batches = {*range(0 if ended is None else ended + 1), *(b for j, b in (*made, *gone) if j == job.name)}
        for b, (n, source) in product(sorted(batches), enumerate(job.sources)):
            if last := whole(checkpoint.offset(b, n)):
                read[job.name, b, source] = last
    return Truth(made, {k: v for k, v in gone.items() if k not in made}, read)


def recorded(pipeline: Pipeline) -> Recorded:
    """What the lineage tables say, read as anybody reads tables."""
    CACHE.clear()

    def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
        found = list(pairs(pipeline.catalog.table(f"paimon.{name}").scan().to_arrow(), *columns))
        assert len(set(found)) == len(found), f"rows of {name} come twice"
        return found

    named = ("job", "database", "table")
    batches = (*named, "barrier_id", "snapshot_id")
    sinks = {j.name: j.sink for j in pipeline.jobs}
    made: Made = {}
    for job, database, table, barrier, snapshot in rows("sink_snapshot_lineage", *batches):
        assert (database, table) == ("db", sinks.get(job)), f"surplus row of {database}.{table}, written by {job}"
        assert (job, barrier) not in made, f"two rows of {job} {barrier}"
        made[job, barrier] = snapshot
    read: Read = {}
    for job, database, table, barrier, snapshot in rows("source_snapshot_lineage", *batches):
        assert database == "db", f"surplus row of {database}.{table}, read by {job}"
        assert (job, barrier, table) not in read, f"two rows of {job} {barrier} of {table}"
        read[job, barrier, table] = snapshot
    return Recorded(set(rows("sink_job_lineage", *named)), set(rows("source_job_lineage", *named)), made, read)


def check(pipeline: Pipeline) -> dict[str, int]:
    """Fail unless lineage tells of every snapshot what is true, and of no other. Figures of what was compared."""
    expected, found = truth(pipeline), recorded(pipeline)
    started = [j for j in pipeline.jobs if any(job == j.name for job, _ in (*expected.made, *expected.gone))]
    _same("sink_job_lineage", found.sink_jobs, {(j.name, "db", j.sink) for j in started})
    # A job that was killed in its first batch may be known to read, by the notes of its tasks.
    began = [j for j in pipeline.jobs if pipeline.checkpoint(j).begun() is not None]
    reads, may_read = ({(j.name, "db", t) for j in jobs for t in j.sources} for jobs in (started, began))
    _same("source_job_lineage", found.source_jobs - (may_read - reads), reads)
    _same("source_snapshot_lineage", found.read, expected.read)
    # Rows of snapshots that expired before anybody wrote them are nowhere to be found.
    lost = expected.gone.keys() - found.made.keys()
    kept = {k: v for k, v in expected.gone.items() if k not in lost}
    _same("sink_snapshot_lineage", found.made, expected.made | kept)
    rows = Rows(pipeline)
    proofs = sum(_proven(pipeline, rows, job, found) for job in pipeline.jobs)
    return {"snapshots": len(expected.made), "expired": len(kept), "lost": len(lost), "proofs": proofs}


def _same(what: str, found: Any, expected: Any) -> None:
    if found == expected:
        return
    one, two = (set(x.items()) if isinstance(x, Mapping) else x for x in (found, expected))
    raise AssertionError(f"{what}: surplus {sorted(one - two)[:5]}, missing {sorted(two - one)[:5]}")


def _proven(pipeline: Pipeline, rows: Rows, job: Job, found: Recorded) -> int:
    """The rows of every snapshot that a job made are those of its sources at the snapshots recorded; how many."""
    alive = {s.id for s in pipeline.data_snapshots(job.sink)}
    proofs = 0
    for (name, barrier), snapshot in found.made.items():
        if name != job.name or (job.sink in pipeline.keyed and snapshot not in alive):
            continue
        newest = rows.proven(job.sink, snapshot)
        for n, source in enumerate(job.sources):
            last = found.read.get((name, barrier, source), 0)
            end = pipeline.checkpoint(job).offset(barrier, n)
            told = f"{job.sink} {snapshot} is recorded to hold {source} up to {last}"
            share = rows.share(job.sink, snapshot, source)
            ids = share.column("id").to_pylist()
            whole_ids = rows.of(source, last).column("id").to_pylist()
            assert len(ids) == len(set(ids)), f"{told}: rows of it come twice"
            if end.part is None:
                assert newest.get(source, 0) <= last, f"{told}, but its rows come from {newest[source]}"
                assert set(ids) == set(whole_ids), f"{told}: it holds {len(ids)} rows instead of {len(whole_ids)}"
            else:
                assert newest.get(source, 0) <= (end.snapshot_id or 0), f"{told} and within {end.snapshot_id}"
                assert set(ids) >= set(whole_ids), f"{told}: it lacks {len(set(whole_ids) - set(ids))} rows"
            proofs += 1
    return proofs


def check_unified(pipeline: Pipeline, one: str = "t5", other: str = "t6") -> dict[str, int]:
    """Fail unless the unified version is consistent by its rows, and the newest that is; empty when there is none."""
    rows = Rows(pipeline)
    jobs = {j.sink: j for j in pipeline.jobs}
    common = [s for s in jobs[one].sources if s in jobs[other].sources]

    def shares(table: str, snapshot: int) -> tuple[int, ...]:
        """Shares of a source that are of one size are the same rows: `check` has proven it."""
        return tuple(len(rows.share(table, snapshot, source)) for source in common)

    states = [{s.id: shares(t, s.id) for s in pipeline.data_snapshots(t)} for t in (one, other)]
    met = set(states[0].values()) & set(states[1].values())
    names = [f"db.{one}", f"db.{other}"]
    try:
        found = pipeline.catalog.lineage.unified_version(names)
    except LineageError as e:
        if met:
            raise AssertionError(f"there is a unified version with {max(met)} rows of {common}") from e
        return {}
    got = [shares(t, found[n]) for t, n in zip((one, other), names, strict=True)]
    assert got[0] == got[1], f"{found} is not consistent: {got} rows of {common}"
    for source in common:
        sides = [rows.share(t, found[n], source).column("id") for t, n in zip((one, other), names, strict=True)]
        assert pc.all(pc.is_in(sides[0], sides[1])).as_py() in (True, None), f"{found} differs in rows of {source}"
    assert met, f"{found} is told, but no two snapshots are consistent"
    assert got[0] == max(met), f"{found} holds {got[0]} rows of {common}, but there is one that holds {max(met)}"
    for name, state in zip(names, states, strict=True):
        newest = max(s for s, share in state.items() if share == max(met))
        assert found[name] >= newest, f"{name} is told at {found[name]}, but {newest} is as consistent"
    return found


def _expired(pipeline: Pipeline, table: str) -> list[tuple[str, int, int]]:
    path = pipeline.logs / f"expired-{table}.log"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
