"""Whence the rows of a batch write came, found out beside the driver right before it is committed.

Recorded are writes that name their job (option `lineage.job`), and those of Spark jobs that run inside a streaming
query (foreachBatch in a classic session), which need no option. Nobody tells a commit what its rows were made of: what
it read is what reading tasks noted for the same job in the same application, of each branch the newest read. So a
DataFrame that was cached and is written twice has its sources twice; a job that reads without the option has unknown
ones.

The barrier of a batch job is the next number of its runs, of a micro-batch its id, and in either case what option
`lineage.barrier` says. It is the identifier of the commit too. One DataFrame written to three tables is three writes:
three barriers, unless the option says one.

foreachBatch: all that one micro-batch writes has its id as barrier. Two tables written have a row each. A table written
twice in one micro-batch has one row, of the later snapshot, which holds the rows of both; so has a table written again
because the micro-batch came again, as foreachBatch runs at least once.

A table that is read to write it (INSERT OVERWRITE t … FROM t, a MERGE) is no source of its own: every snapshot stems
from the one before it. Another branch of it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER
from paimon_spark.options.lineage import BARRIER, JOB, NO_SOURCES, LineageOptions, parse_lineage_options

if TYPE_CHECKING:
    from paimon_spark.engine.commit.listeners import CommitListener
    from paimon_spark.jobs.recording import Recording
    from paimon_spark.lineage.model import SourceRange, TableRef
    from paimon_spark.lineage.note import Note, TaskIdentity
    from paimon_spark.lineage.place import Home, Warehouse
    from paimon_spark.lineage.recorder import Recorder
    from paimon_spark.lineage.switch import Switch
    from paimon_spark.lineage.tables import Index
    from paimon_spark.metadata.handle import TableHandle


_FLUSH_S: Final = 10.0
"""How long a batch write waits for its rows in the lineage tables."""
_TIDIED_EVERY: Final = 16
"""Runs of a job between two looks for old notes of its reads."""


@dataclass(frozen=True, slots=True)
class BatchRecording:
    """What the commit of a batch write says of its lineage, and what follows it. Of one not recorded: nothing.

    Attributes:
        identifier: of the commit.
        provenance: properties of the snapshot of its rows.
        listeners: told of each snapshot made.
        finish: called after the commit, with whether it made a snapshot. Raises nothing.
    """

    identifier: int = BATCH_COMMIT_IDENTIFIER
    provenance: Mapping[str, str] = field(default_factory=dict)
    listeners: tuple[CommitListener, ...] = ()
    finish: Callable[[bool], None] = lambda made: None


NOT_RECORDED: Final = BatchRecording()


def batch_recording(
    handle: TableHandle, run: TaskIdentity | None = None, *, reads_nothing: bool = False
) -> BatchRecording:
    """How the batch write that is about to be committed is recorded. Called once for each commit: it draws a barrier.

    Never raises: what goes wrong is one warning for each process, and the write goes on. Without a job, and outside of
    streaming queries, nothing is looked up.

    Args:
        handle: the branch, with the options of the write.
        run: for whom its tasks ran; None: it was written in this process.
        reads_nothing: whether the rows need not come from anywhere, so that no note of a read is no gap.
    """
    if JOB.key not in handle.overrides and (run is None or run.query_id is None):
        return NOT_RECORDED
    try:
        write = _recorded_write(handle, run, reads_nothing)
        return NOT_RECORDED if write is None else write.recording()
    except Exception as e:  # noqa: BLE001 - no write fails for its lineage
        from paimon_spark.jobs.recording import warn_once

        warn_once(handle.describe(), "what batch jobs write to it is not recorded", e)
        return NOT_RECORDED


def next_barrier(warehouse: Warehouse, sink: TableRef, job: str) -> int | None:
    """The number of a run of a batch job, for its reads and its write to give as option, which then belong together.

    None where nothing is recorded. Never raises.
    """
    from paimon_spark.jobs.lineage_index import open_index
    from paimon_spark.jobs.recording import warn_once
    from paimon_spark.lineage.barriers import draw_barrier
    from paimon_spark.lineage.jobs import own
    from paimon_spark.lineage.place import is_of_lineage
    from paimon_spark.lineage.switch import switch_of

    try:
        index = open_index(warehouse)
        if is_of_lineage(sink) or not switch_of(index).data:
            return None
        return draw_barrier(index, own(index, job, None))
    except Exception as e:  # noqa: BLE001 - no write fails for its lineage
        warn_once(sink.name, "what batch jobs write to it is not recorded", e)
        return None


def _recorded_write(handle: TableHandle, run: TaskIdentity | None, reads_nothing: bool) -> _Write | None:
    """The write, when its warehouse records."""
    from paimon_spark.jobs.recording import LINEAGE_IS_OFF, warn_once
    from paimon_spark.lineage.place import home_of, is_of_lineage

    asked = parse_lineage_options(handle.overrides)
    home = home_of(handle)
    if home is None:
        if asked.job is not None:
            warn_once(
                handle.describe(),
                f"option {JOB.key} is of no use, as the table is outside any warehouse: its path is not "
                "<warehouse>/<database>.db/<table>. What is written is not recorded",
            )
        return None
    if is_of_lineage(home.ref):
        return None
    from paimon_spark.jobs.lineage_index import open_index
    from paimon_spark.lineage.switch import switch_of

    index = open_index(home.warehouse)
    switch = switch_of(index)
    if not switch.table:
        if asked.job is not None:
            warn_once(home.warehouse.url, LINEAGE_IS_OFF)
        return None
    if run is None:
        from paimon_spark.lineage.notes import this_process

        run = this_process()
    return _Write(home, run, index, switch, asked, reads_nothing)


@dataclass(frozen=True, slots=True)
class _Write:
    """A write to a branch whose warehouse records.

    Attributes:
        run: for whom its tasks ran.
    """

    home: Home
    run: TaskIdentity
    index: Index
    switch: Switch
    asked: LineageOptions
    reads_nothing: bool

    def recording(self) -> BatchRecording:
        from paimon_spark.jobs.recording import Recording
        from paimon_spark.lineage.model import Provenance

        job = self._job()
        taken, old = ([], []) if self.asked.no_sources else self._notes()
        knows = bool(taken) or self.reads_nothing or self.asked.no_sources
        if not knows and not self.asked.unknown_sources:
            self._warn_of_no_notes(job)
        knows = knows and not self.asked.unknown_sources
        sources = _sources(taken, self.home.ref)
        barrier = self._barrier(job)
        provenance = Provenance(job, barrier, sources, self.run.query_id, knows)
        recording = Recording(provenance, self.home, self._recorder(job))
        finish = partial(self._finish, recording, tuple(n for n in taken if n.who.batch_id is None), tuple(old))
        if not self.switch.data:
            return BatchRecording(finish=finish)
        return BatchRecording(barrier, recording.properties, (recording,), finish)

    def _job(self) -> str:
        """Its name in the lineage tables; the first time in this process, its query is registered."""
        from paimon_spark.lineage.jobs import Registration, own, register_query, registered

        query_id = self.run.query_id
        if query_id is None:
            assert self.asked.job is not None
            return own(self.index, self.asked.job, None)
        job = own(self.index, self.asked.job or self.run.query_name or query_id, query_id)
        if registered(self.index, query_id) is None:
            # Its sources go on noting what they read: no checkpoint is at hand where this is known.
            register_query(self.index, query_id, Registration(job))
        return job

    def _notes(self) -> tuple[list[Note], list[Note]]:
        """Of each source the notes that count, and notes of batch reads that newer ones replace."""
        from paimon_spark.lineage.notes import batch_notes, newest_per_source, stream_notes

        run, warehouse = self.run, self.home.warehouse
        taken: list[Note] = []
        if run.query_id is not None and run.batch_id is not None:
            notes = stream_notes(warehouse, run.query_id)
            newest_of_stream = newest_per_source(n for n in notes if n.batch_id <= run.batch_id)
            taken += [n.in_batch(run.batch_id) for n in newest_of_stream]
        of_job = [] if self.asked.job is None else batch_notes(warehouse, self.asked.job, run.app_id)
        own = [n for n in of_job if _is_of_run(n.who, run) and self._is_same_run(n)]
        newest = {n.ref: n for n in own}  # older ones come first
        taken += newest.values()
        return taken, [n for n in own if newest[n.ref] is not n]

    def _is_same_run(self, note: Note) -> bool:
        """Whether reads and this write do not say that they are different runs of the job."""
        return None in (note.barrier, self.asked.barrier) or note.barrier == self.asked.barrier

    def _barrier(self, job: str) -> int:
        from paimon_spark.lineage.barriers import draw_barrier, keep_barrier

        if not self.switch.data:  # nothing of a single run is written down
            return 0
        is_batch = self.run.query_id is None
        if self.asked.barrier is not None:
            if is_batch:
                keep_barrier(self.home.warehouse, job, self.asked.barrier)
            return self.asked.barrier
        if is_batch or self.run.batch_id is None:
            return draw_barrier(self.index, job)
        return self.run.batch_id

    def _recorder(self, job: str) -> Recorder:
        from paimon_spark.lineage.recorder import recorder_for

        recorder = recorder_for(self.index, self.switch.interval_ms(self.asked.flush_interval_ms))
        recorder.expect(job, self.home.ref, query_id=self.run.query_id)
        return recorder

    def _finish(self, recording: Recording, recorded: Sequence[Note], old: Sequence[Note], made: bool) -> None:
        """The commit is done: its rows are written down, and what was noted of batch reads is settled."""
        from paimon_spark.jobs.recording import warn_once
        from paimon_spark.lineage.left_notes import delete_recorded
        from paimon_spark.lineage.notes import delete_notes, mark_recorded

        try:
            if not made or not self.switch.data:
                recording.nothing_made()
            # The process may end right after a batch job; what a query writes goes on in it, as a rule.
            is_done = self._is_at_once and recording.recorder.flush(_FLUSH_S)
            if made or is_done:
                for note in recorded:
                    if not note.is_recorded:
                        mark_recorded(self.home.warehouse, note)
                delete_notes(self.home.warehouse, old)
            if self.asked.job is not None and recording.provenance.barrier % _TIDIED_EVERY == 0:
                delete_recorded(self.home.warehouse, self.asked.job)
        except Exception as e:  # noqa: BLE001 - the commit is done
            warn_once(self.home.ref.name, "what a batch job read and wrote is recorded later", e)

    @property
    def _is_at_once(self) -> bool:
        return self.run.query_id is None and self.asked.flush_interval_ms is None

    def _warn_of_no_notes(self, job: str) -> None:
        """Of batch jobs alone: what a query reads need be no table at all, and it has nothing to give an option to."""
        from paimon_spark.jobs.recording import warn_once

        if self.run.query_id is None:
            warn_once(
                self.home.ref.name,
                f"job {job} is recorded without sources, as no read of it was noted in this application; if it read "
                f"tables of this warehouse, give option {JOB.key} = {self.asked.job!r} to the reads too; if it read "
                f"tables of another one, give both those reads and this write one number as option {BARRIER.key}; if "
                f"it read none, give this write option {NO_SOURCES.key} = true",
            )


def _is_of_run(who: TaskIdentity, run: TaskIdentity) -> bool:
    """Whether a batch read was one of the same application, and before the end of the same micro-batch."""
    if who.app_id != run.app_id or who.query_id != run.query_id:
        return False
    return run.batch_id is None or who.batch_id is None or who.batch_id <= run.batch_id


def _sources(notes: Iterable[Note], sink: TableRef) -> tuple[SourceRange, ...]:
    """One range for each branch read: of two sources of a query that read the same one, that of the slower."""
    found: dict[TableRef, SourceRange] = {}
    for note in notes:
        known = found.get(note.ref)
        if note.ref != sink and (known is None or (note.last or 0) < (known.last or 0)):
            found[note.ref] = note.range
    return tuple(found[ref] for ref in sorted(found))
