"""Maintenance of the lineage tables: write missing rows, remove a job, rebuild everything.

`sync` writes what processes died before they wrote, `forget` removes a job that has ended, `rebuild` restores the
tables as far as snapshots, tags and checkpoints hold their content.

Tests: tests/unit/lineage/recording/test_maintenance.py, tests/unit/lineage/recording/test_pending_notes.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from paimon_spark.display import ShownAsText
from paimon_spark.errors import PaimonError
from paimon_spark.lineage.index.job_registry import (
    Registration,
    all_forgotten,
    claim_name,
    find_owner,
    find_registration,
    mark_forgotten,
    register_query,
    registrations,
    release_name,
)
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.tables import (
    JOB_STARTUP,
    SINK_JOB,
    SINK_SNAPSHOT,
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    TABLES,
    RowLists,
    Rows,
    column_equals,
    job_barriers_between,
    recorded_rows,
    records_data,
    write_rows,
)
from paimon_spark.lineage.recording.catch_up import (
    CaughtUp,
    SearchedTo,
    checkpoint_rows,
    known_sinks,
    mark_searched,
    missing_of_branch,
    missing_of_checkpoint,
    recorded_snapshots,
    register_sink,
)
from paimon_spark.lineage.recording.checkpoints import open_checkpoint
from paimon_spark.lineage.recording.read_recording import rows_of_pending_notes
from paimon_spark.lineage.recording.recorder import flush_of, forget_queued
from paimon_spark.lineage.recording.snapshot_provenance import (
    NewestSnapshots,
    SnapshotProvenance,
    rows_of_snapshots,
    unforgotten,
)
from paimon_spark.metadata.retry import now_ms as time_ms
from paimon_spark.text import counted, safe, shown

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.index.tables import Definition, Index

_MANY: Final = 50_000
"""Batches whose rows are held together."""


@dataclass(frozen=True, slots=True, repr=False)
class Rebuilt(ShownAsText):
    """Result of a rebuild: rows written by lineage table, jobs found (sorted), and what could not be read and why."""

    rows: Mapping[str, int]
    jobs: tuple[str, ...]
    unreadable: tuple[str, ...]

    def text_lines(self) -> list[str]:
        return _counts("rebuilt", self.rows, self.unreadable)


class _Known(NamedTuple):
    """A job, from its newest snapshot."""

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
    """Write every missing row that a snapshot, a tag or a checkpoint holds. Safe to repeat.

    Creates missing lineage tables, keeps rows of which nothing is left, and restores the ownership of job names.

    Args:
        index: the lineage tables.
        checkpoints: URLs of checkpoints by job, in addition to those that are registered.

    Raises:
        StorageError, CommitError: the lineage tables, or files of lineage, cannot be read or written.
    """
    index.create()
    work = _Work(index, all_forgotten(index.warehouse))
    for ref in _all_branches(work):
        _rebuild_branch(work, ref)
    _restore_registrations(work)
    _rebuild_from_checkpoints(work, checkpoints or {})
    return Rebuilt(work.counts, tuple(sorted(work.jobs)), tuple(work.unreadable))


def nothing_to_rebuild(index: Index) -> bool:
    """Whether there are no lineage tables, and no snapshot or tag with provenance. Raises StorageError."""
    if index.exists():
        return False
    work = _Work(index, all_forgotten(index.warehouse))
    return not any(True for ref in _all_branches(work) for _ in _provenances(work, ref)) and not work.unreadable


@contextmanager
def _collecting_errors(work: _Work, what: str) -> Iterator[None]:
    """Add an error to `unreadable`, so that it does not stop the rest."""
    try:
        yield
    except PaimonError as e:
        work.unreadable.append(f"{what}: {type(e).__name__}: {e}")


def _all_branches(work: _Work) -> Iterator[TableRef]:
    """Every branch, and branches recorded as sinks under another name, which main may be by now."""
    listed = set()
    with _collecting_errors(work, "list of tables"):
        for ref in work.index.refs():
            listed.add(ref)
            yield ref
    yield from sorted(known_sinks(work.index) - listed)


def _rebuild_branch(work: _Work, ref: TableRef) -> None:
    """Write the missing rows of a branch; the next sync finds what is committed meanwhile."""
    head: Snapshot | None = None
    unreadable = len(work.unreadable)
    with suppress(PaimonError):  # reported when all of them are read
        head = next(iter(work.index.snapshots(ref)), None)
    parts, is_sink = _missing_of_branch(work, ref)
    for rows in reversed(parts):
        write_rows(work.index, rows, work.counts)
    if is_sink and head is not None and unreadable == len(work.unreadable):
        register_sink(work.index, ref)
        searched_to = SearchedTo(head.id, head.delta_manifest_list, records_data(work.index))
        mark_searched(work.index, CaughtUp(searched={ref: searched_to}))


def _missing_of_branch(work: _Work, ref: TableRef) -> tuple[list[Rows], bool]:
    """The missing rows of a branch in parts, newest batches first, and whether it is a sink."""
    parts: list[Rows] = []
    is_sink = False
    batches: list[SnapshotProvenance] = []
    newest = NewestSnapshots()
    for found in _provenances(work, ref):
        is_sink = True
        known = work.jobs.get(found.provenance.job)
        if known is None or known.time_ms < found.time_ms:
            provenance = found.provenance
            work.jobs[provenance.job] = _Known(found.time_ms, provenance.query_id, provenance.knows_sources)
        if newest.offer(found):
            batches.append(found)
        if len(batches) == _MANY:
            parts.append(_missing_rows(work.index, rows_of_snapshots(batches, ref)))
            batches = []
    if copies := newest.copies():
        recorded = recorded_snapshots(work.index, ref, copies)
        batches += [s for s in copies if s.batch not in recorded]
    if batches:
        parts.append(_missing_rows(work.index, rows_of_snapshots(batches, ref)))
    return parts, is_sink


def _provenances(work: _Work, ref: TableRef) -> Iterator[SnapshotProvenance]:
    """The provenance of snapshots alive, newest first, then of those that only tags hold."""
    index = work.index
    alive: set[str] = set()
    with _collecting_errors(work, f"snapshots of {ref.name}"):
        for snapshot in index.snapshots(ref):
            if snapshot.properties:
                alive.add(snapshot.delta_manifest_list)
                yield from unforgotten([snapshot], work.forgotten)
    tagged: list[Snapshot] = []
    with _collecting_errors(work, f"tags of {ref.name}"):
        tagged = sorted(index.tagged(ref).values(), key=lambda s: (s.time_ms, s.id), reverse=True)
    yield from unforgotten((s for s in tagged if s.delta_manifest_list not in alive), work.forgotten)


def _missing_rows(index: Index, rows: Rows) -> RowLists:
    """The rows that the lineage tables lack, or hold with other values."""
    rows = recorded_rows(index, rows)
    return {name: _missing_of_table(index, TABLES[name], some) for name, some in rows.items() if some}


def _missing_of_table(index: Index, table: Definition, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    wanted, names = table.to_arrow(rows), list(table.columns)
    if table in (SOURCE_SNAPSHOT, SINK_SNAPSHOT):
        conditions = job_barriers_between((row[0], row[1]) for row in rows)
    else:
        conditions = (column_equals("job", job) for job in sorted({row[0] for row in rows}))
    there = [index.read(table, where) for where in conditions]
    if any(t.num_rows for t in there):
        wanted = wanted.join(pa.concat_tables(there).select(names), names, join_type="left anti").select(names)
        wanted = wanted.sort_by([(n, "ascending") for n in names])
    return list(zip(*(c.to_pylist() for c in wanted.columns), strict=True))


def _restore_registrations(work: _Work) -> None:
    """Restore missing owners of job names, and registrations of queries."""
    warehouse = work.index.warehouse
    for job, known in work.jobs.items():
        with _collecting_errors(work, f"registration of job {job!r}"):
            if find_owner(warehouse, job) is None:
                claim_name(warehouse, job, known.query_id)
            if known.query_id is not None and find_registration(warehouse, known.query_id) is None:
                register_query(warehouse, known.query_id, Registration(job, None, known.knows_sources))


def _rebuild_from_checkpoints(work: _Work, given: Mapping[str, str]) -> None:
    """Write the source rows of batches that made no snapshot."""
    warehouse = work.index.warehouse
    found: dict[str, tuple[str, str]] = {}
    for job, location in given.items():
        with _collecting_errors(work, f"checkpoint {location} of job {job!r}"):
            checkpoint = open_checkpoint(warehouse.store, location)
            query_id = checkpoint.query_id()
            if query_id is None:
                work.unreadable.append(f"checkpoint {location} of job {job!r}: there is none")
                continue
            known = find_registration(warehouse, query_id)
            name = claim_name(warehouse, job, query_id) if known is None else known.job
            register_query(warehouse, query_id, Registration(name, checkpoint.url, sink_records_sources=True))
            found[query_id] = name, checkpoint.url
    for query_id, registered in registrations(warehouse).items():
        if registered.checkpoint is not None and registered.sink_records_sources:
            found.setdefault(query_id, (registered.job, registered.checkpoint))
    for query_id, (job, location) in found.items():
        rows: Rows = {}
        with _collecting_errors(work, f"checkpoint {location} of job {job!r}"):
            rows, newest = checkpoint_rows(warehouse, job, query_id, location, forgotten_ms=work.forgotten.get(job))
            if newest is not None:
                work.jobs.setdefault(job, _Known(0, None, True))
        write_rows(work.index, _missing_rows(work.index, rows), work.counts)


def forget_job(index: Index, job: str, now_ms: int | None = None) -> int:
    """Remove the rows of a job that has ended, and free its name; a job that still runs is recorded again.

    Returns the number of rows removed. Everything not newer than `now_ms` (epoch milliseconds, None: now) is forgotten.
    Safe to repeat after a failure.

    Raises:
        StorageError, CommitError: something could not be written; what was forgotten stays forgotten.
    """
    warehouse = index.warehouse
    mark_forgotten(warehouse, job, time_ms() if now_ms is None else now_ms)
    forget_queued(warehouse, job)
    tables = (SOURCE_SNAPSHOT, SINK_SNAPSHOT, SOURCE_JOB, SINK_JOB, JOB_STARTUP) if index.exists() else ()
    gone = sum(index.delete(table, column_equals("job", job)) for table in tables)
    release_name(warehouse, job)
    return gone


@dataclass(frozen=True, slots=True, repr=False)
class Synced(ShownAsText):
    """Result of a sync: rows written by lineage table, and what could not be read and why."""

    rows: Mapping[str, int]
    unreadable: tuple[str, ...] = ()

    def text_lines(self) -> list[str]:
        return _counts("wrote", self.rows, self.unreadable)


def _counts(verb: str, rows: Mapping[str, int], unreadable: Sequence[str]) -> list[str]:
    total = sum(rows.values())
    out = [f"{verb} {counted(total, 'row')}: {shown(dict(rows))}" if total else "nothing is missing"]
    return [*out, *(f"could not be read: {safe(text)}" for text in unreadable)]


def sync(index: Index) -> Synced:
    """Write the missing rows of all jobs: of snapshots, of checkpoints, and of notes whose reader died.

    Each sink and checkpoint is searched from where the last search ended. One that cannot be read is reported, and does
    not stop the others.

    Raises:
        StorageError, CommitError: the lineage tables, or files of lineage, cannot be read or written.
    """
    flush_of(index.warehouse)
    work = _Work(index, all_forgotten(index.warehouse))
    for what, find in _searches(work):
        caught: CaughtUp | None = None
        with _collecting_errors(work, what):
            caught = find()
        if caught is not None:
            write_rows(index, recorded_rows(index, caught.rows), work.counts)
            mark_searched(index, caught)
    return Synced(work.counts, tuple(work.unreadable))


def _searches(work: _Work) -> Iterator[tuple[str, Callable[[], CaughtUp]]]:
    """Searches of a sync, in order; each must end before the next is taken."""
    index, forgotten = work.index, work.forgotten
    for ref in sorted(known_sinks(index)):
        yield ref.name, partial(missing_of_branch, index, ref, forgotten)
    for query_id, known in registrations(index.warehouse).items():
        job, checkpoint = known.job, known.checkpoint
        if checkpoint is not None and known.sink_records_sources:
            find = partial(missing_of_checkpoint, index.warehouse, job, query_id, checkpoint, forgotten.get(job))
            yield f"checkpoint {checkpoint} of job {job!r}", find
    yield "notes of reads", lambda: CaughtUp(rows_of_pending_notes(index))
