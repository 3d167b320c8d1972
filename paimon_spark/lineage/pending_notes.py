"""Turn notes of reads into rows where nobody did: their process died, or their batch job only read.

A note is deleted only after its row was seen in the lineage tables: one pass finds the missing rows, a later one
deletes the notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from paimon_spark.lineage.job_registry import (
    all_forgotten,
    claim_name,
    draw_barrier,
    find_owner,
    find_registration,
    reserve_barrier,
)
from paimon_spark.lineage.provenance import Provenance
from paimon_spark.lineage.read_notes import (
    ReadNote,
    all_batch_jobs,
    all_stream_queries,
    batch_notes,
    delete_notes,
    forget_old_readers,
    give_barrier,
    mark_recorded,
    newest_per_source,
    now_ms,
    old_batch_notes,
    stream_notes,
)
from paimon_spark.lineage.settings import records_data
from paimon_spark.lineage.tables import (
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    RowLists,
    Rows,
    column_equals,
    merge_rows,
    only_jobs,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paimon_spark.lineage.tables import Index
    from paimon_spark.lineage.warehouse import Warehouse

_SETTLED_MS: Final = 10 * 60_000
"""After this time a batch without a successor counts as over, and a batch job that wrote nothing as one that reads."""
_KEPT_MS: Final = 7 * 24 * 3_600_000
"""How long the newest note of a source stays once it is recorded, for later commits of its job."""


def rows_of_notes(job: str, notes: Iterable[ReadNote], barrier: int | None = None) -> RowLists:
    """The rows of notes of one warehouse; of several of a batch and branch the slowest counts.

    `barrier` is that of a batch job; None: the micro-batch of each note.
    """
    parts = []
    by_batch = sorted(notes, key=lambda n: n.batch_id)
    for batch, some in groupby(by_batch, key=lambda n: n.batch_id):
        sources = tuple(n.range for n in newest_per_source(some))
        parts.append(rows_of(Provenance(job, batch if barrier is None else barrier, sources), None, None))
    return merge_rows(parts)


def rows_of_pending_notes(index: Index, at_ms: int | None = None) -> Rows:
    """The missing rows of notes. Deletes notes whose rows are there, except for the newest.

    Of a batch that may be running only the job is recorded, as its source row would say that it made no snapshot. It is
    over when a later one has begun, or after ten minutes.

    Args:
        index: the lineage tables.
        at_ms: now, in epoch milliseconds.

    Raises:
        StorageError: notes or lineage tables cannot be read or written.
        CorruptFileError: the file of the owner of a name is unreadable.
    """
    at_ms = now_ms() if at_ms is None else at_ms
    warehouse = index.warehouse
    work = _Work(index, at_ms, all_forgotten(warehouse), records_data(index))
    queries = [(query_id, stream_notes(warehouse, query_id)) for query_id in all_stream_queries(warehouse)]
    queries.sort(key=lambda q: min((n.time_ms for n in q[1]), default=0))  # a name goes to the first of its queries
    parts = [work.of_query(*query) for query in queries]
    parts += [work.of_job(job) for job in all_batch_jobs(warehouse)]
    forget_old_readers(warehouse, at_ms - _KEPT_MS)
    return merge_rows(parts)


def delete_old_recorded(warehouse: Warehouse, job: str, at_ms: int | None = None) -> None:
    """Delete the notes of a batch job that were recorded long ago, also where nothing asks for a sync.

    `job` is the name that the reads gave; `at_ms` is now, in epoch milliseconds. Raises StorageError.
    """
    oldest = (now_ms() if at_ms is None else at_ms) - _KEPT_MS
    delete_notes(warehouse, [n for n in old_batch_notes(warehouse, job, oldest) if n.is_recorded])


@dataclass(frozen=True, slots=True)
class _Work:
    """One pass; `forgotten`: when jobs were forgotten; `with_data`: whether rows of snapshots are written."""

    index: Index
    at_ms: int
    forgotten: Mapping[str, int]
    with_data: bool

    def of_query(self, query_id: str, notes: Sequence[ReadNote]) -> Rows:
        newest = max((n.batch_id for n in notes), default=-1)
        left = [n for n in notes if not n.is_recorded]
        known = find_registration(self.index, query_id)
        kept = [] if known is not None and known.sink_records_sources else newest_per_source(notes)
        self._delete_old(notes)
        if not left:
            return {}
        wanted = left[-1].job or left[-1].who.query_name or query_id
        job = self._job(wanted, query_id, left) if known is None else known.job
        over = [n for n in left if n.batch_id < newest or self._is_old(n)]
        missing = {} if job is None else self._missing(job, over, running=[n for n in left if n not in over])
        if not missing:
            self._settle(over, kept)
        return missing

    def of_job(self, named: str) -> Rows:
        notes = batch_notes(self.index.warehouse, named)
        self._delete_old(notes)
        old = [n for n in notes if not n.is_recorded and self._is_old(n)]
        parts = []
        for run, some in groupby(sorted(old, key=_run), key=_run):
            parts.append(self._of_run(named, run, list(some)))
        return merge_rows(parts)

    def _of_run(self, named: str, run: tuple[str, str, int], notes: Sequence[ReadNote]) -> Rows:
        """The rows of the reads of one application or micro-batch; of each branch the newest counts."""
        query_id = run[1] or None
        newest = newest_per_source(notes)
        job = self._job(named, query_id, newest)
        if job is None:
            self._settle(notes, newest)
            return {}
        barrier: int | None = None
        if query_id is None:
            barrier = max((n.barrier for n in newest if n.barrier is not None), default=None)
            warehouse = self.index.warehouse
            if barrier is None:
                barrier = draw_barrier(self.index, job)
            else:
                reserve_barrier(warehouse, job, barrier)
            newest = [n if n.barrier == barrier else give_barrier(warehouse, n, barrier) for n in newest]
        missing = self._missing(job, newest, barrier)
        if not missing:
            self._settle(notes, newest)
        return missing

    def _job(self, wanted: str, query_id: str | None, notes: Iterable[ReadNote]) -> str | None:
        """The name of a job; None where it was forgotten since, so that it takes no name."""
        forgotten = self.forgotten.get(wanted, -1)
        if all(n.time_ms <= forgotten for n in notes) and find_owner(self.index, wanted) is None:
            return None
        return claim_name(self.index, wanted, query_id)

    def _missing(
        self, job: str, notes: Sequence[ReadNote], barrier: int | None = None, running: Sequence[ReadNote] = ()
    ) -> Rows:
        """The missing rows of notes of batches that are over, and of a batch that may be `running`.

        Notes of a job from before it was forgotten are skipped.
        """
        forgotten = self.forgotten.get(job, -1)
        rows, begun = (
            rows_of_notes(job, [n for n in some if n.time_ms > forgotten], barrier) for some in (notes, running)
        )
        return self._not_there(job, merge_rows([rows if self.with_data else only_jobs(rows), only_jobs(begun)]))

    def _settle(self, notes: Iterable[ReadNote], kept: Sequence[ReadNote]) -> None:
        """Notes whose rows are there: mark those that are kept, delete the others."""
        paths = {n.path: n for n in kept}
        gone = []
        for note in notes:
            if note.path in paths:
                mark_recorded(self.index.warehouse, paths[note.path])
            else:
                gone.append(note)
        delete_notes(self.index.warehouse, gone)

    def _not_there(self, job: str, rows: Rows) -> RowLists:
        out = {}
        for table in (SOURCE_JOB, SOURCE_SNAPSHOT):
            wanted = rows.get(table.name, ())
            if not wanted:
                continue
            where = column_equals("job", job)
            if table is SOURCE_SNAPSHOT:
                barriers = [row[1] for row in wanted]
                where += f" AND barrier_id BETWEEN {min(barriers)} AND {max(barriers)}"
            found = self.index.read(table, where)
            there = set(zip(*(column.to_pylist() for column in found.columns), strict=True))
            missing = [row for row in wanted if row not in there]
            if missing:
                out[table.name] = missing
        return out

    def _delete_old(self, notes: Iterable[ReadNote]) -> None:
        oldest = self.at_ms - _KEPT_MS
        delete_notes(self.index.warehouse, [n for n in notes if n.is_recorded and n.time_ms < oldest])

    def _is_old(self, note: ReadNote) -> bool:
        return note.time_ms < self.at_ms - _SETTLED_MS


def _run(note: ReadNote) -> tuple[str, str, int]:
    return note.who.app_id, note.who.query_id or "", note.batch_id
