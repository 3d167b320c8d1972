"""Rebuild: the lineage tables as far as snapshots, tags and checkpoints tell them.

Source: own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from paimon_spark.errors import PaimonError
from paimon_spark.lineage.catch_up import checkpoint_rows, known_sinks
from paimon_spark.lineage.forgotten import all_forgotten
from paimon_spark.lineage.jobs import Registration, own, owner_of, register_query, registered, registrations
from paimon_spark.lineage.model import TableRef
from paimon_spark.lineage.rows import only_jobs, records_data, write
from paimon_spark.lineage.said import Newest, Said, recorded_of, rows_of_all, said_by
from paimon_spark.lineage.sql import barriers_between, is_
from paimon_spark.lineage.tables import SINK_SNAPSHOT, SOURCE_SNAPSHOT, TABLES, Rows
from paimon_spark.lineage.walked import Walked, note_sink, note_walked

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.tables import Definition, Index

_MANY: Final = 50_000
"""Batches whose rows are held together."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild found.

    Attributes:
        rows: how many rows were added or changed, by lineage table.
        jobs: of which anything was found, sorted.
        unreadable: what could not be read, and why.
    """

    rows: Mapping[str, int]
    jobs: tuple[str, ...]
    unreadable: tuple[str, ...]


class _Known(NamedTuple):
    """The newest that is known of a job."""

    time_ms: int
    query_id: str | None
    knows_sources: bool


@dataclass(slots=True)
class _Work:
    index: Index
    forgotten: Mapping[str, int]
    counts: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, _Known] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)


def rebuild(index: Index, checkpoints: Mapping[str, str] | None = None) -> Rebuilt:
    """Write every row that a snapshot, a tag or a checkpoint tells and that is not there. Safe to repeat.

    Rows of which nothing tells any more stay. Whose the names of jobs are is restored too.

    Args:
        index: the lineage tables; they are made if they are missing.
        checkpoints: URLs of checkpoints by the job of the query, beside those that are registered.

    Raises:
        StorageError, CommitError: the lineage tables, or lineage's own files, cannot be read or written.
    """
    index.create()
    work = _Work(index, all_forgotten(index.warehouse))
    for ref in _refs(work):
        _rebuild_branch(work, ref)
    _restore(work)
    _from_checkpoints(work, checkpoints or {})
    return Rebuilt(work.counts, tuple(sorted(work.jobs)), tuple(work.unreadable))


def nothing_to_rebuild(index: Index) -> bool:
    """Whether there are no lineage tables, and no snapshot or tag that tells of a job. Nothing is written.

    Raises:
        StorageError: a store failed.
    """
    if index.exists():
        return False
    work = _Work(index, all_forgotten(index.warehouse))
    return not any(True for ref in _refs(work) for _ in _said(work, ref)) and not work.unreadable


@contextmanager
def _told(work: _Work, what: str) -> Iterator[None]:
    """What cannot be read holds up nothing else."""
    try:
        yield
    except PaimonError as e:
        work.unreadable.append(f"{what}: {type(e).__name__}: {e}")


def _refs(work: _Work) -> Iterator[TableRef]:
    """Every branch, and those that were recorded as sinks under another name: main may mean them by now."""
    listed = set()
    with _told(work, "list of tables"):
        for ref in work.index.refs():
            listed.add(ref)
            yield ref
    yield from sorted(known_sinks(work.index) - listed)


def _rebuild_branch(work: _Work, ref: TableRef) -> None:
    """Write what a branch tells of. What is committed meanwhile is for the next sync to look through."""
    head: Snapshot | None = None
    unreadable = len(work.unreadable)
    with suppress(PaimonError):  # told when all of them are read
        head = next(iter(work.index.snapshots(ref)), None)
    parts, is_sink = _missing_of(work, ref)
    for rows in reversed(parts):
        write(work.index, rows, work.counts)
    if is_sink and head is not None and unreadable == len(work.unreadable):
        note_sink(work.index, ref)
        note_walked(work.index.warehouse, ref, Walked(head.id, head.delta_manifest_list, records_data(work.index)))


def _missing_of(work: _Work, ref: TableRef) -> tuple[list[Rows], bool]:
    """Rows of a branch that are not in the lineage tables, in parts, newest batches first; whether it is a sink."""
    parts: list[Rows] = []
    is_sink = False
    batches: list[Said] = []
    newest = Newest()
    for said in _said(work, ref):
        is_sink = True
        known = work.jobs.get(said.provenance.job)
        if known is None or known.time_ms < said.time_ms:
            provenance = said.provenance
            work.jobs[provenance.job] = _Known(said.time_ms, provenance.query_id, provenance.knows_sources)
        if newest.offer(said):
            batches.append(said)
        if len(batches) == _MANY:
            parts.append(_not_there(work.index, rows_of_all(batches, ref)))
            batches = []
    if copies := newest.copies():
        recorded = recorded_of(work.index, ref, copies)
        batches += [s for s in copies if s.batch not in recorded]
    if batches:
        parts.append(_not_there(work.index, rows_of_all(batches, ref)))
    return parts, is_sink


def _said(work: _Work, ref: TableRef) -> Iterator[Said]:
    """What snapshots alive say of whence they came, newest first, then what those say that only tags hold."""
    index = work.index
    alive: set[str] = set()
    with _told(work, f"snapshots of {ref.name}"):
        for snapshot in index.snapshots(ref):
            if snapshot.properties:
                alive.add(snapshot.delta_manifest_list)
                yield from _one(work, snapshot)
    tagged: list[Snapshot] = []
    with _told(work, f"tags of {ref.name}"):
        tagged = sorted(index.tagged(ref).values(), key=lambda s: (s.time_ms, s.id), reverse=True)
    for snapshot in tagged:
        if snapshot.delta_manifest_list not in alive:
            yield from _one(work, snapshot)


def _one(work: _Work, snapshot: Snapshot) -> Iterator[Said]:
    said = said_by(snapshot)
    if said is not None and said.time_ms > work.forgotten.get(said.provenance.job, -1):
        yield said


def _not_there(index: Index, rows: Rows) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that the lineage tables do not hold as they are."""
    rows = rows if records_data(index) else only_jobs(rows)
    return {name: kept for name, some in rows.items() if some and (kept := _new(index, TABLES[name], some))}


def _new(index: Index, table: Definition, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, t) for c, t in zip(columns, table.columns.values(), strict=True)]
    wanted = pa.Table.from_arrays(arrays, schema=table.schema)
    names = list(table.columns)
    there = [index.read(table, w) for w in _where(table, columns)]
    if any(t.num_rows for t in there):
        wanted = wanted.join(pa.concat_tables(there).select(names), names, join_type="left anti").select(names)
        wanted = wanted.sort_by([(n, "ascending") for n in names])
    return list(zip(*(c.to_pylist() for c in wanted.columns), strict=True))


def _where(table: Definition, columns: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Conditions that rows with the same keys fulfil, one for each job."""
    place = list(table.columns).index("job")
    if table not in (SOURCE_SNAPSHOT, SINK_SNAPSHOT):
        yield from (is_("job", job) for job in sorted(set(columns[place])))
        return
    bounds: dict[str, tuple[int, int]] = {}
    for job, barrier in zip(columns[place], columns[list(table.columns).index("barrier_id")], strict=True):
        low, high = bounds.get(job, (barrier, barrier))
        bounds[job] = min(low, barrier), max(high, barrier)
    yield from barriers_between(bounds)


def _restore(work: _Work) -> None:
    """Whose the names of jobs are, and which queries there are, where nothing says so any more."""
    warehouse = work.index.warehouse
    for job, known in work.jobs.items():
        with _told(work, f"registration of job {job!r}"):
            if owner_of(warehouse, job) is None:
                own(warehouse, job, known.query_id)
            if known.query_id is not None and registered(warehouse, known.query_id) is None:
                register_query(warehouse, known.query_id, Registration(job, None, known.knows_sources))


def _from_checkpoints(work: _Work, given: Mapping[str, str]) -> None:
    """Source rows of batches without rows, which no snapshot tells of."""
    warehouse = work.index.warehouse
    found = {query_id: one for job, location in given.items() for query_id, one in _register(work, job, location)}
    for query_id, known in registrations(warehouse).items():
        if known.checkpoint is not None and known.sink_records_sources:
            found.setdefault(query_id, (known.job, known.checkpoint))
    for query_id, (job, location) in found.items():
        rows: Rows = {}
        with _told(work, f"checkpoint {location} of job {job!r}"):
            rows, newest = checkpoint_rows(warehouse, job, query_id, location, forgotten_ms=work.forgotten.get(job))
            if newest is not None:
                work.jobs.setdefault(job, _Known(0, None, True))
        write(work.index, _not_there(work.index, rows), work.counts)


def _register(work: _Work, job: str, location: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """A checkpoint that was given is known from now on: its query, the name that the query has, and where it lies."""
    from paimon_spark.lineage.spark_log import open_checkpoint

    warehouse = work.index.warehouse
    with _told(work, f"checkpoint {location} of job {job!r}"):
        checkpoint = open_checkpoint(warehouse.store, location)
        query_id = checkpoint.query_id()
        if query_id is None:
            work.unreadable.append(f"checkpoint {location} of job {job!r}: there is none")
            return
        known = registered(warehouse, query_id)
        name = own(warehouse, job, query_id) if known is None else known.job
        register_query(warehouse, query_id, Registration(name, checkpoint.url, sink_records_sources=True))
        yield query_id, (name, checkpoint.url)
