"""Record the commits of batch writes: which job made them, from which sources.

Recorded are writes that name their job (option `lineage.job`), and those of Spark jobs that run inside a streaming
query (foreachBatch in a classic session), which need no option. A commit cannot see what its rows were made of: its
sources are the reads that tasks noted for the same job in the same application, of each branch the newest. So a
DataFrame that is cached and written twice has its sources twice; a job whose reads lack the option has unknown ones.

The barrier of a batch job is the next number of its runs, that of a micro-batch its id; option `lineage.barrier`
overrides both. It is the identifier of the commit too. One DataFrame written to three tables is three writes: three
barriers, unless the option gives one.

foreachBatch: all that one micro-batch writes has its id as barrier. Two tables written have a row each. A table written
twice in one micro-batch has one row, of the later snapshot, which holds the rows of both; so has a table written again
because the micro-batch came again, as foreachBatch runs at least once.

A table that is read to write it (INSERT OVERWRITE t … FROM t, a MERGE) is no source of itself: every snapshot stems
from the one before it. Another branch of it is one.

Tests: tests/unit/lineage/recording/test_batch_recording.py, tests/unit/lineage/recording/test_batch_reads.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from paimon_spark.jobs.lineage_port import CommitLineage, TaskIdentity, not_recorded
from paimon_spark.lineage.index.job_registry import (
    Registration,
    claim_name,
    draw_barrier,
    find_registration,
    register_query,
    reserve_barrier,
)
from paimon_spark.lineage.index.provenance import STATEMENT, Provenance, SourceRange, TableRef, is_statement_job
from paimon_spark.lineage.index.table_index import open_index
from paimon_spark.lineage.index.tables import LINEAGE_IS_OFF, settings_of
from paimon_spark.lineage.index.warehouse import (
    Warehouse,
    WarehouseTable,
    find_warehouse_table,
    is_lineage_table,
    warn_once,
)
from paimon_spark.lineage.recording.commit_recording import CommitRecording, RecordedBranch, recorded_branch
from paimon_spark.lineage.recording.read_notes import (
    ReadNote,
    batch_notes,
    delete_notes,
    mark_recorded,
    newest_stream_notes,
    this_process,
)
from paimon_spark.lineage.recording.read_recording import delete_old_recorded
from paimon_spark.metadata.layout import MAIN
from paimon_spark.options.lineage import BARRIER, JOB, NO_SOURCES, LineageOptions, parse_lineage_options

if TYPE_CHECKING:
    from paimon_spark.metadata.handle import TableHandle

_FLUSH_S: Final = 10.0
"""Longest wait of a batch write for its rows in the lineage tables."""
_TIDIED_EVERY: Final = 16
"""Runs of a job between two deletions of old notes of its reads."""


def batch_commit(handle: TableHandle, run: TaskIdentity | None = None, *, reads_nothing: bool = False) -> CommitLineage:
    """The lineage of a batch write that is about to be committed; called once for each commit, as it draws a barrier.

    Never raises: a failure is one warning for each process, and the write goes on.
    """
    try:
        write = _recorded_write(handle, run, reads_nothing)
        return not_recorded() if write is None else write.prepare()
    except Exception as e:  # noqa: BLE001 - no write fails for its lineage
        warn_once(handle.describe(), "cannot record what batch jobs write to it", e)
        return not_recorded()


def rebase_commit(handle: TableHandle, branch: str, after: int, last: int) -> CommitLineage:
    """The lineage of a rebase, whose source is the branch; as `rebase_commit` of `jobs/lineage_port.py`.

    The commit on a branch that becomes main holds its provenance alone: rows of main are found there, those of the
    branch would outlive it. Never raises.
    """
    try:
        home = find_warehouse_table(handle)
        main = None if home is None else recorded_branch(WarehouseTable(home.warehouse, home.ref.on_branch(MAIN)))
        if main is None:
            return not_recorded()
        job = claim_name(main.home.warehouse, f"{main.home.ref.name}:rebase", None)
        barrier = draw_barrier(main.index, job) if main.settings.data else 0
        source = SourceRange(main.home.ref.on_branch(branch), after=after, last=last)
        recording = CommitRecording(Provenance(job, barrier, (source,)), main.home, main.recorder(job, None))
        if not main.settings.data:
            return not_recorded()._replace(finish=lambda _: recording.record_reads())
        listeners = (recording,) if handle.branch == MAIN else ()
        return CommitLineage(barrier, recording.properties, listeners, partial(_flush, recording))
    except Exception as e:  # noqa: BLE001 - no rebase fails for its lineage
        warn_once(handle.describe(), "cannot record what a rebase writes to it", e)
        return not_recorded()


def _flush(recording: CommitRecording, made: bool) -> None:
    """Write the rows of a commit now, as the process may end right after it."""
    if made:
        recording.recorder.flush(_FLUSH_S)


def next_barrier(warehouse: Warehouse, sink: TableRef, job: str) -> int | None:
    """A number that ties the reads and the write of one run together; None where nothing is recorded. Never raises."""
    try:
        index = open_index(warehouse)
        if is_lineage_table(sink) or not settings_of(index).data:
            return None
        return draw_barrier(index, claim_name(index.warehouse, job, None))
    except Exception as e:  # noqa: BLE001 - no write fails for its lineage
        warn_once(sink.name, "cannot record what batch jobs write to it", e)
        return None


def _recorded_write(handle: TableHandle, run: TaskIdentity | None, reads_nothing: bool) -> _Write | None:
    """The write, when its warehouse records lineage."""
    options = parse_lineage_options(handle.overrides)
    home = find_warehouse_table(handle)
    branch = None if home is None else recorded_branch(home)
    if branch is not None:
        return _Write(branch, run or this_process(), options, reads_nothing)
    if options.job is not None:
        _warn_of_no_effect(handle, home)
    return None


def _warn_of_no_effect(handle: TableHandle, home: WarehouseTable | None) -> None:
    """Warn that a write names its job where nothing is recorded."""
    if home is None:
        warn_once(
            handle.describe(),
            f"option {JOB.key} has no effect, as the table is outside any warehouse: its path is not "
            "<warehouse>/<database>.db/<table>",
        )
    elif not is_lineage_table(home.ref):
        warn_once(home.warehouse.url, LINEAGE_IS_OFF)


@dataclass(frozen=True, slots=True)
class _Write:
    """A write to a branch whose warehouse records lineage; its tasks ran for `run`."""

    branch: RecordedBranch
    run: TaskIdentity
    options: LineageOptions
    reads_nothing: bool

    @property
    def _warehouse(self) -> Warehouse:
        return self.branch.home.warehouse

    def prepare(self) -> CommitLineage:
        job = self._job()
        taken, old = ([], []) if self.options.no_sources else self._notes()
        knows = bool(taken) or self.reads_nothing or self.options.no_sources
        if not knows and not self.options.unknown_sources:
            self._warn_of_no_notes(job)
        knows = knows and not self.options.unknown_sources
        sources = _sources(taken, self.branch.home.ref)
        barrier = self._barrier(job)
        provenance = Provenance(job, barrier, sources, self.run.query_id, knows)
        recorder = self.branch.recorder(job, self.options.flush_interval_ms, query_id=self.run.query_id)
        recording = CommitRecording(provenance, self.branch.home, recorder)
        finish = partial(self._finish, recording, tuple(n for n in taken if n.task.batch_id is None), tuple(old))
        if not self.branch.settings.data:
            return not_recorded()._replace(finish=finish)
        statement = {} if self.options.statement is None else {STATEMENT: self.options.statement}
        return CommitLineage(barrier, {**recording.properties, **statement}, (recording,), finish)

    def _job(self) -> str:
        """Its name in the lineage tables; a query that is not registered is."""
        query_id, warehouse = self.run.query_id, self._warehouse
        if query_id is None:
            assert self.options.job is not None
            return claim_name(warehouse, self.options.job, None)
        job = claim_name(warehouse, self.options.job or self.run.query_name or query_id, query_id)
        if find_registration(warehouse, query_id) is None:
            # No checkpoint is known here, so its sources go on writing notes.
            register_query(warehouse, query_id, Registration(job))
        return job

    def _notes(self) -> tuple[list[ReadNote], list[ReadNote]]:
        """The notes that count, one for each source, and notes of batch reads that newer ones replace."""
        run, warehouse = self.run, self._warehouse
        taken: list[ReadNote] = []
        if run.query_id is not None and run.batch_id is not None:
            taken += newest_stream_notes(warehouse, run.query_id, run.batch_id)
        of_job = [] if self.options.job is None else batch_notes(warehouse, self.options.job, run.app_id)
        # Of reads and writes that both were given a barrier those with the same one belong together.
        given = self.options.barrier
        of_run = [n for n in of_job if _is_of_run(n.task, run) and (given is None or n.barrier in (None, given))]
        newest = {n.ref: n for n in of_run}  # older ones come first
        taken += newest.values()
        return taken, [n for n in of_run if newest[n.ref] is not n]

    def _barrier(self, job: str) -> int:
        if not self.branch.settings.data:  # single runs are not recorded
            return 0
        is_batch = self.run.query_id is None
        if self.options.barrier is not None:
            if is_batch:
                reserve_barrier(self._warehouse, job, self.options.barrier)
            return self.options.barrier
        if is_batch or self.run.batch_id is None:
            return draw_barrier(self.branch.index, job)
        return self.run.batch_id

    def _finish(
        self, recording: CommitRecording, recorded: Sequence[ReadNote], old: Sequence[ReadNote], made: bool
    ) -> None:
        """After the commit: write the rows of batch jobs now, and mark or delete the notes of their reads."""
        try:
            if not made or not self.branch.settings.data:
                recording.record_reads()
            # The process may end right after a batch job; that of a query mostly goes on.
            is_at_once = self.run.query_id is None and self.options.flush_interval_ms is None
            is_done = is_at_once and recording.recorder.flush(_FLUSH_S)
            if made or is_done:
                for note in recorded:
                    if not note.is_recorded:
                        mark_recorded(self._warehouse, note)
                delete_notes(self._warehouse, old)
            if self.options.job is not None and recording.provenance.barrier % _TIDIED_EVERY == 0:
                delete_old_recorded(self._warehouse, self.options.job)
        except Exception as e:  # noqa: BLE001 - the commit is done
            warn_once(self.branch.home.ref.name, "what a batch job read and wrote will be recorded later", e)

    def _warn_of_no_notes(self, job: str) -> None:
        """Warn of missing notes, for batch jobs only: a query may read no table, and its reads take no options."""
        sink = self.branch.home.ref
        if self.run.query_id is not None or sink.on_branch(MAIN).name in self.branch.settings.declared:
            return
        if is_statement_job(job, sink.on_branch(MAIN).name):
            warn_once(
                sink.name,
                f"the sources of {job} are unknown, as it reads no table of this warehouse; where all its rows come "
                f"from outside: CALL sys.declare_lineage_source('{sink.on_branch(MAIN).name}')",
            )
        else:
            warn_once(
                sink.name,
                f"job {job} is recorded without sources, as this application has no note of a read of it; if it read "
                f"tables of this warehouse, give the reads the option {JOB.key} = {self.options.job!r} too; if it read "
                f"tables of another one, give those reads and this write the same number as option {BARRIER.key}; if "
                f"it read no tables, give this write the option {NO_SOURCES.key} = true",
            )


def _is_of_run(task: TaskIdentity, run: TaskIdentity) -> bool:
    """Whether a batch read is of the same application, and not after the same micro-batch."""
    if task.app_id != run.app_id or task.query_id != run.query_id:
        return False
    return run.batch_id is None or task.batch_id is None or task.batch_id <= run.batch_id


def _sources(notes: Iterable[ReadNote], sink: TableRef) -> tuple[SourceRange, ...]:
    """One range for each branch read; of two sources that read the same one, that of the slower."""
    found: dict[TableRef, SourceRange] = {}
    for note in notes:
        known = found.get(note.ref)
        if note.ref != sink and (known is None or (note.last or 0) < (known.last or 0)):
            found[note.ref] = note.range
    return tuple(found[ref] for ref in sorted(found))
