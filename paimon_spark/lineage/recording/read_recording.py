"""Record reads of named batch jobs, and of streaming queries whose sink records no sources.

Only a task knows for which job or query it reads, so the planner gives it a ticket, and the task writes a note (module
`read_notes`). In process the note is written where the rows are read.

The notes of a streaming query are turned into rows by the process that plans its reads, where the sink does not: it is
no Paimon table, or one of another warehouse, or a function. A sync does it for processes that died and for batch jobs
that only read; it deletes a note only after its row was seen in the lineage tables: one pass finds the missing rows, a
later one deletes the notes.

Tests: tests/unit/lineage/recording/test_read_recording.py, tests/unit/lineage/recording/test_pending_notes.py
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from paimon_spark.lineage.index.job_registry import (
    all_forgotten,
    claim_name,
    draw_barrier,
    find_owner,
    find_registration,
    reserve_barrier,
)
from paimon_spark.lineage.index.provenance import Provenance
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import (
    LINEAGE_IS_OFF,
    SOURCE_JOB,
    SOURCE_SNAPSHOT,
    Index,
    RowLists,
    Rows,
    column_equals,
    merge_rows,
    only_jobs,
    records_data,
    rows_of,
    settings_of,
)
from paimon_spark.lineage.index.warehouse import (
    Warehouse,
    WarehouseTable,
    find_warehouse_table,
    is_lineage_table,
    warn_once,
)
from paimon_spark.lineage.recording.checkpoints import read_in_part, read_whole
from paimon_spark.lineage.recording.read_notes import (
    NoteTicket,
    ReadNote,
    all_batch_jobs,
    all_stream_queries,
    batch_notes,
    delete_notes,
    forget_old_readers,
    forget_reader,
    give_barrier,
    mark_recorded,
    newest_per_source,
    old_batch_notes,
    query_of_reader,
    stream_notes,
    stream_notes_of,
    this_process,
    write_note,
)
from paimon_spark.lineage.recording.recorder import Recorder, recorder_for
from paimon_spark.metadata.retry import now_ms
from paimon_spark.options.lineage import LineageOptions, parse_lineage_options

if TYPE_CHECKING:
    from paimon_spark.engine.scan.plan import Plan
    from paimon_spark.jobs.lineage_port import TaskIdentity
    from paimon_spark.metadata.handle import TableHandle
    from paimon_spark.streaming.offset import StreamOffset

_LOOK_AGAIN_S: Final = 60.0
"""How often to check whether the sink records the query's sources."""
_STOP_S: Final = 3.0
"""Longest wait of a query that stops for its last rows."""
_OVER_MS: Final = 10 * 60_000
"""After this time a batch without a successor counts as over, and a batch job that wrote nothing as one that reads."""
_KEPT_MS: Final = 7 * 24 * 3_600_000
"""How long the newest note of a source stays once it is recorded, for later commits of its job."""


def source_recording(handle: TableHandle) -> SourceRecording | None:
    """Prepare to record a stream of a branch; None for one that is never recorded. Reads nothing, never raises."""
    home = find_warehouse_table(handle)
    if home is None or is_lineage_table(home.ref):
        return None
    return SourceRecording(home, parse_lineage_options(handle.overrides), open_index(home.warehouse))


@dataclass(slots=True)
class SourceRecording:
    """Records what one reader of one streaming query reads of the branch `home`. Never raises. Not thread-safe.

    Attributes:
        options: lineage options of the read.
        recorder: writes the rows; None: that of the warehouse in this process.
        clock: monotonic seconds.
    """

    home: WarehouseTable
    options: LineageOptions
    index: Index
    recorder: Recorder | None = None
    clock: Callable[[], float] = time.monotonic
    _reader: str = field(default_factory=lambda: uuid.uuid4().hex)
    _planned: StreamOffset | None = None
    _task: TaskIdentity | None = None
    _job: str | None = None
    _looked_s: float = float("-inf")
    _added: int = -1
    _kept: list[ReadNote] = field(default_factory=list)
    _is_done: bool = False

    def ticket(self, start: StreamOffset, end: StreamOffset) -> NoteTicket | None:
        """The ticket for the tasks of a batch; None where lineage is off, or the sink records the sources.

        Where lineage is off this is at most one request a minute.
        """
        try:
            if self._is_done:
                return None
            settings = settings_of(self.index)
            if not settings.table or (self._added >= 0 and not settings.data):
                return None
            self._planned = end
            return NoteTicket(
                self.home.warehouse,
                self.home.ref,
                is_stream=True,
                after=read_whole(start),
                last=read_whole(end),
                within=read_in_part(end),
                time_ms=now_ms(),
                job=self.options.job,
                reader=self._reader if self._task is None else None,
            )
        except Exception as e:  # noqa: BLE001 - no query fails for its lineage
            self._warn(e)
            return None

    def ended(self, offset: StreamOffset) -> None:
        """Record the batches up to an offset, from which Spark continues or which it reports as processed."""
        planned = self._planned
        if planned is None or (offset != planned and _progress(offset) < _progress(planned)):
            return
        self._planned = None
        try:
            self._record()
        except Exception as e:  # noqa: BLE001 - as above; the notes stay until the next batch is over
            self._warn(e)

    def flush(self, timeout_s: float | None = None) -> None:
        """Write the queued rows."""
        if self.recorder is not None and self.recorder.waiting_rows:
            self.recorder.flush(timeout_s)

    def stop(self) -> None:
        """Write the last rows of a query that stops."""
        self.flush(_STOP_S)

    def _record(self) -> None:
        """Queue the rows of all batches that have notes, as none is running now."""
        task = self._task = self._task or self._query()
        if task is None or task.query_id is None:  # no task has read the plan, or none could note it
            return
        warehouse = self.home.warehouse
        if self._has_sink_that_records(task):
            notes = stream_notes_of(warehouse, task.query_id, self.home.ref)
            # The sink records the batches of this run, unless it began only now; it may not know those of earlier runs.
            began = task.batch_id if self._added < 0 else None
            self._add([n for n in notes if began is None or n.batch_id < began], [*notes, *self._kept])
            self._is_done = True
            return
        notes = stream_notes_of(warehouse, task.query_id, self.home.ref, after=self._added)
        if notes:
            kept = newest_per_source(notes)
            paths = {n.path for n in kept}
            self._add(notes, [n for n in (*notes, *self._kept) if n.path not in paths])
            self._added, self._kept = max(n.batch_id for n in notes), kept

    def _query(self) -> TaskIdentity | None:
        """The query, which the first task wrote beside its note."""
        task = query_of_reader(self.home.warehouse, self._reader)
        if task is not None:
            forget_reader(self.home.warehouse, self._reader)
        return task

    def _has_sink_that_records(self, task: TaskIdentity) -> bool:
        """Whether the sink has registered the query as one whose sources it records; also finds the query's name."""
        now = self.clock()
        if self._job is not None and now - self._looked_s < _LOOK_AGAIN_S:
            return False
        assert task.query_id is not None
        registration = find_registration(self.index.warehouse, task.query_id)
        if registration is not None:
            self._job = registration.job
        elif self._job is None:
            self._job = claim_name(
                self.index.warehouse, self.options.job or task.query_name or task.query_id, task.query_id
            )
        self._looked_s = now
        return registration is not None and registration.sink_records_sources

    def _add(self, notes: Sequence[ReadNote], unneeded: Sequence[ReadNote]) -> None:
        """Queue the rows of notes; once written, delete the notes that are no longer needed."""
        assert self._job is not None
        rows = rows_of_notes(self._job, [n for n in notes if not n.is_recorded])
        if not rows:
            delete_notes(self.home.warehouse, unneeded)
            return
        if self.recorder is None:
            interval_ms = settings_of(self.index).interval_ms(self.options.flush_interval_ms)
            self.recorder = recorder_for(self.index, interval_ms)
        self.recorder.add(rows, partial(delete_notes, self.home.warehouse, unneeded))

    def _warn(self, error: Exception) -> None:
        warn_once(self.home.ref.name, "cannot record yet what a streaming query reads of it", error)


def _progress(offset: StreamOffset) -> tuple[int, bool, int]:
    """Sort key of offsets."""
    part = offset.part
    return offset.snapshot_id or 0, part is None, 0 if part is None else part.units


def read_tickets(handle: TableHandle, plan: Plan, after: int | None) -> tuple[NoteTicket, ...]:
    """Tickets for the tasks of a batch read that names its job, one for each branch. Never raises."""
    try:
        return _read_tickets(handle, plan, after)
    except Exception as e:  # noqa: BLE001 - no read fails for its lineage
        warn_once(handle.describe(), "cannot record what batch jobs read of it", e)
        return ()


def note_read(tickets: Sequence[NoteTicket]) -> None:
    """Note a read of this process. Never raises."""
    for ticket in tickets:
        write_note(ticket, this_process())


def _read_tickets(handle: TableHandle, plan: Plan, after: int | None) -> tuple[NoteTicket, ...]:
    options = parse_lineage_options(handle.overrides)
    home = find_warehouse_table(handle)
    if options.job is None or home is None or is_lineage_table(home.ref):
        return ()
    if not settings_of(open_index(home.warehouse)).table:
        warn_once(home.warehouse.url, LINEAGE_IS_OFF)
        return ()
    read = {plan.branch: None if plan.snapshot is None else plan.snapshot.id}
    for split in plan.splits:  # of two branches read as one table
        if split.branch != plan.branch:
            read[split.branch] = max(split.snapshot_id, read.get(split.branch) or 0)
    token, time_ms = uuid.uuid4().hex, now_ms()
    return tuple(
        NoteTicket(
            home.warehouse,
            home.ref.on_branch(branch),
            is_stream=False,
            after=after,
            last=last,
            within=None,
            time_ms=time_ms,
            token=token,
            job=options.job,
            barrier=options.barrier,
        )
        for branch, last in read.items()
    )


def rows_of_notes(job: str, notes: Iterable[ReadNote], barrier: int | None = None) -> RowLists:
    """The rows of notes of one warehouse under `barrier`, else that of each note; of one batch the slowest counts."""
    parts = []
    by_batch = sorted(notes, key=lambda n: n.batch_id)
    for batch, some in groupby(by_batch, key=lambda n: n.batch_id):
        sources = tuple(n.range for n in newest_per_source(some))
        parts.append(rows_of(Provenance(job, batch if barrier is None else barrier, sources), None, None))
    return merge_rows(parts)


def rows_of_pending_notes(index: Index, at_ms: int | None = None) -> Rows:
    """The missing rows of notes. Deletes notes whose rows are there, except for the newest.

    Of a batch that may be running only the job is recorded, as its source row would say that it made no snapshot. It is
    over when a later one has begun, or ten minutes before `at_ms` (default: now).

    Raises:
        StorageError: notes or lineage tables cannot be read or written.
        CorruptFileError: the file of the owner of a name is unreadable.
    """
    at_ms = now_ms() if at_ms is None else at_ms
    warehouse = index.warehouse
    search = _PendingSearch(index, at_ms, all_forgotten(warehouse), records_data(index))
    queries = [(query_id, stream_notes(warehouse, query_id)) for query_id in all_stream_queries(warehouse)]
    queries.sort(key=lambda q: min((n.time_ms for n in q[1]), default=0))  # a name goes to the first of its queries
    parts = [search.of_query(*query) for query in queries]
    parts += [search.of_job(job) for job in all_batch_jobs(warehouse)]
    forget_old_readers(warehouse, at_ms - _KEPT_MS)
    return merge_rows(parts)


def delete_old_recorded(warehouse: Warehouse, job: str, at_ms: int | None = None) -> None:
    """Delete the notes of a batch job that were recorded long ago, also where nothing asks for a sync."""
    oldest = (now_ms() if at_ms is None else at_ms) - _KEPT_MS
    delete_notes(warehouse, [n for n in old_batch_notes(warehouse, job, oldest) if n.is_recorded])


@dataclass(frozen=True, slots=True)
class _PendingSearch:
    """A search for notes without rows; `forgotten`: when jobs were forgotten."""

    index: Index
    at_ms: int
    forgotten: Mapping[str, int]
    records_data: bool

    def of_query(self, query_id: str, notes: Sequence[ReadNote]) -> Rows:
        newest = max((n.batch_id for n in notes), default=-1)
        left = [n for n in notes if not n.is_recorded]
        registration = find_registration(self.index.warehouse, query_id)
        kept = [] if registration is not None and registration.sink_records_sources else newest_per_source(notes)
        self._delete_old(notes)
        if not left:
            return {}
        wanted = left[-1].job or left[-1].task.query_name or query_id
        job = self._job(wanted, query_id, left) if registration is None else registration.job
        over = [n for n in left if n.batch_id < newest or self._is_over(n)]
        missing = {} if job is None else self._missing(job, over, running=[n for n in left if n not in over])
        if not missing:
            self._mark_or_delete(over, kept)
        return missing

    def of_job(self, named: str) -> Rows:
        notes = batch_notes(self.index.warehouse, named)
        self._delete_old(notes)
        old = [n for n in notes if not n.is_recorded and self._is_over(n)]
        return merge_rows(
            [self._of_run(named, run, list(some)) for run, some in groupby(sorted(old, key=_run), key=_run)]
        )

    def _of_run(self, named: str, run: tuple[str, str, int], notes: Sequence[ReadNote]) -> Rows:
        """The rows of the reads of one application or micro-batch; of each branch the newest counts."""
        query_id = run[1] or None
        newest = newest_per_source(notes)
        job = self._job(named, query_id, newest)
        if job is None:
            self._mark_or_delete(notes, newest)
            return {}
        barrier: int | None = None
        if query_id is None:
            warehouse = self.index.warehouse
            barrier = max((n.barrier for n in newest if n.barrier is not None), default=None)
            if barrier is None:
                barrier = draw_barrier(self.index, job)
            else:
                reserve_barrier(warehouse, job, barrier)
            newest = [n if n.barrier == barrier else give_barrier(warehouse, n, barrier) for n in newest]
        missing = self._missing(job, newest, barrier)
        if not missing:
            self._mark_or_delete(notes, newest)
        return missing

    def _job(self, wanted: str, query_id: str | None, notes: Iterable[ReadNote]) -> str | None:
        """The name of a job; None where it was forgotten since, so that it takes no name."""
        forgotten = self.forgotten.get(wanted, -1)
        if all(n.time_ms <= forgotten for n in notes) and find_owner(self.index.warehouse, wanted) is None:
            return None
        return claim_name(self.index.warehouse, wanted, query_id)

    def _missing(
        self, job: str, notes: Sequence[ReadNote], barrier: int | None = None, running: Sequence[ReadNote] = ()
    ) -> RowLists:
        """Missing rows of finished batches, and the job of a running one; forgotten ones are left out."""
        forgotten = self.forgotten.get(job, -1)
        rows, begun = (
            rows_of_notes(job, [n for n in some if n.time_ms > forgotten], barrier) for some in (notes, running)
        )
        out = {}
        for name, wanted in merge_rows([rows if self.records_data else only_jobs(rows), only_jobs(begun)]).items():
            where, table = column_equals("job", job), SOURCE_JOB
            if name == SOURCE_SNAPSHOT.name:
                barriers, table = [row[1] for row in wanted], SOURCE_SNAPSHOT
                where += f" AND barrier_id BETWEEN {min(barriers)} AND {max(barriers)}"
            there = set(zip(*(column.to_pylist() for column in self.index.read(table, where).columns), strict=True))
            if missing := [row for row in wanted if row not in there]:
                out[name] = missing
        return out

    def _mark_or_delete(self, notes: Sequence[ReadNote], kept: Sequence[ReadNote]) -> None:
        """Of notes whose rows are there, mark those that are kept, and delete the others."""
        paths = {n.path: n for n in kept}
        for note in notes:
            if note.path in paths:
                mark_recorded(self.index.warehouse, paths[note.path])
        delete_notes(self.index.warehouse, [n for n in notes if n.path not in paths])

    def _delete_old(self, notes: Iterable[ReadNote]) -> None:
        oldest = self.at_ms - _KEPT_MS
        delete_notes(self.index.warehouse, [n for n in notes if n.is_recorded and n.time_ms < oldest])

    def _is_over(self, note: ReadNote) -> bool:
        return note.time_ms < self.at_ms - _OVER_MS


def _run(note: ReadNote) -> tuple[str, str, int]:
    return note.task.app_id, note.task.query_id or "", note.batch_id
