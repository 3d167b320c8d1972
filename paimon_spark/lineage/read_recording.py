"""Record what is read by batch jobs that name themselves, and by streaming queries whose sink records nothing.

Only a task knows for which job or query it reads, so the planner gives it a ticket, and the task writes a note (module
`read_notes`). In process the note is written where the rows are read.

The notes of a streaming query are turned into rows by the process that plans its reads, where the sink does not: it is
no Paimon table, or one of another warehouse, or a function.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_spark.lineage.checkpoints import read_in_part, read_whole
from paimon_spark.lineage.job_registry import claim_name, find_registration
from paimon_spark.lineage.pending_notes import rows_of_notes
from paimon_spark.lineage.provenance import TableRef
from paimon_spark.lineage.read_notes import (
    NoteTicket,
    ReadNote,
    delete_notes,
    newest_per_source,
    now_ms,
    stream_notes_of,
    this_process,
    write_note,
)
from paimon_spark.lineage.recorder import Recorder, recorder_for
from paimon_spark.lineage.settings import LINEAGE_IS_OFF, settings_of
from paimon_spark.lineage.table_index import open_index
from paimon_spark.lineage.warehouse import WarehouseTable, find_warehouse_table, is_lineage_table, warn_once
from paimon_spark.options.lineage import LineageOptions, parse_lineage_options

if TYPE_CHECKING:
    from paimon_spark.engine.scan.plan import Plan
    from paimon_spark.jobs.lineage_port import TaskIdentity
    from paimon_spark.lineage.tables import Index
    from paimon_spark.metadata.handle import TableHandle
    from paimon_spark.streaming.offset import StreamOffset

_LOOK_AGAIN_S: Final = 60.0
"""How often to check whether the sink records the query's sources."""
_STOP_S: Final = 3.0
"""Longest wait of a query that stops for its last rows."""


def source_recording(handle: TableHandle) -> SourceRecording | None:
    """Prepare to record a stream of a branch; None for one that is never recorded. Reads nothing, never raises."""
    home = find_warehouse_table(handle)
    if home is None or is_lineage_table(home.ref):
        return None

    return SourceRecording(home, parse_lineage_options(handle.overrides), open_index(home.warehouse))


@dataclass(slots=True)
class SourceRecording:
    """Records what one reader of one streaming query reads. Nothing here raises. Not thread-safe.

    Attributes:
        home: the branch read.
        asked: lineage options of the read.
        index: the lineage tables of its warehouse.
        recorder: writes the rows; None: that of the warehouse in this process.
        clock: monotonic seconds.
    """

    home: WarehouseTable
    asked: LineageOptions
    index: Index
    recorder: Recorder | None = None
    clock: Callable[[], float] = time.monotonic
    _reader: str = field(default_factory=lambda: uuid.uuid4().hex)
    _planned: StreamOffset | None = None
    _who: TaskIdentity | None = None
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
            return self._ticket(start, end)
        except Exception as e:  # noqa: BLE001 - no query fails for its lineage
            self._warn(e)
            return None

    def ended(self, offset: StreamOffset) -> None:
        """Batches up to an offset are over, as Spark continues from it or reports it as processed."""
        planned = self._planned
        if planned is None or not _is_at_or_after(offset, planned):
            return
        self._planned = None
        try:
            self._record()
        except Exception as e:  # noqa: BLE001 - as above; the notes stay until the next batch is over
            self._warn(e)

    def flush(self, timeout_s: float | None = None) -> None:
        """Write the queued rows, as no more will come."""
        if self.recorder is not None and self.recorder.waiting_rows:
            self.recorder.flush(timeout_s)

    def stop(self) -> None:
        """The query stops."""
        self.flush(_STOP_S)

    def _ticket(self, start: StreamOffset, end: StreamOffset) -> NoteTicket | None:

        if self._is_done:
            return None
        switch = settings_of(self.index)
        if not switch.table or (self._added >= 0 and not switch.data):
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
            job=self.asked.job,
            reader=self._reader if self._who is None else None,
        )

    def _record(self) -> None:
        """Queue the rows of batches that are over: all that have notes, as none is running now."""
        who = self._known()
        if who is None or who.query_id is None:  # no task has read the plan, or none could note it
            return
        warehouse = self.home.warehouse
        if self._has_sink_that_records(who):
            notes = stream_notes_of(warehouse, who.query_id, self.home.ref)
            # The sink records the batches of this run, unless it began only now; it may not know those of earlier runs.
            began = who.batch_id if self._added < 0 else None
            self._add([n for n in notes if began is None or n.batch_id < began], [*notes, *self._kept])
            self._is_done = True
            return
        notes = stream_notes_of(warehouse, who.query_id, self.home.ref, after=self._added)
        if notes:
            kept = newest_per_source(notes)
            paths = {n.path for n in kept}
            self._add(notes, [n for n in (*notes, *self._kept) if n.path not in paths])
            self._added, self._kept = max(n.batch_id for n in notes), kept

    def _known(self) -> TaskIdentity | None:
        """The query, which the first task wrote beside its note."""
        if self._who is None:
            from paimon_spark.lineage.read_notes import forget_reader, query_of_reader

            self._who = query_of_reader(self.home.warehouse, self._reader)
            if self._who is not None:
                forget_reader(self.home.warehouse, self._reader)
        return self._who

    def _has_sink_that_records(self, who: TaskIdentity) -> bool:
        """Whether the sink has registered the query as one whose sources it records; also finds the query's name."""
        now = self.clock()
        if self._job is not None and now - self._looked_s < _LOOK_AGAIN_S:
            return False
        assert who.query_id is not None
        known = find_registration(self.index, who.query_id)
        if known is not None:
            self._job = known.job
        elif self._job is None:
            self._job = claim_name(self.index, self.asked.job or who.query_name or who.query_id, who.query_id)
        self._looked_s = now
        return known is not None and known.sink_records_sources

    def _add(self, notes: Sequence[ReadNote], unneeded: Sequence[ReadNote]) -> None:
        """Queue the rows of notes; once written, delete the notes that are no longer needed."""
        assert self._job is not None
        rows = rows_of_notes(self._job, [n for n in notes if not n.is_recorded])
        if not rows:
            self._remove(unneeded)
            return
        if self.recorder is None:
            interval_ms = settings_of(self.index).interval_ms(self.asked.flush_interval_ms)
            self.recorder = recorder_for(self.index, interval_ms)
        self.recorder.add(rows, partial(self._remove, unneeded))

    def _remove(self, notes: Sequence[ReadNote]) -> None:

        delete_notes(self.home.warehouse, notes)

    def _warn(self, error: Exception) -> None:

        warn_once(self.home.ref.name, "cannot record yet what a streaming query reads of it", error)


def _is_at_or_after(offset: StreamOffset, end: StreamOffset) -> bool:
    return offset == end or _place(offset) >= _place(end)


def _place(offset: StreamOffset) -> tuple[int, bool, int]:
    part = offset.part
    return offset.snapshot_id or 0, part is None, 0 if part is None else part.units


def read_tickets(handle: TableHandle, plan: Plan, after: int | None) -> tuple[NoteTicket, ...]:
    """What the tasks of a batch read that names its job note, one ticket for each branch. Never raises."""
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

    asked = parse_lineage_options(handle.overrides)
    job = asked.job
    home = find_warehouse_table(handle)
    if job is None or home is None or is_lineage_table(home.ref):
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
            TableRef.of(home.ref.database, home.ref.bare, branch),
            is_stream=False,
            after=after,
            last=last,
            within=None,
            time_ms=time_ms,
            token=token,
            job=job,
            barrier=asked.barrier,
        )
        for branch, last in read.items()
    )
