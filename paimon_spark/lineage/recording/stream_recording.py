"""Record the micro-batches of streaming queries: which query made them, from which sources.

What each source has read is in Spark's checkpoint, by the number of the batch. The checkpoint is the one that the query
was given, else one below the directory that its session is configured with. Where it cannot be read, the notes of
reading tasks are used.

Before the first commit of a process the query is registered in the warehouse, so that its commits are found even when
the process dies right after.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_spark.engine.commit.listeners import event_of
from paimon_spark.errors import StorageError
from paimon_spark.jobs.lineage_port import CommitLineage, QueryRun
from paimon_spark.lineage.index.job_registry import (
    Registration,
    claim_name,
    find_owner,
    find_registration,
    register_query,
)
from paimon_spark.lineage.index.provenance import Provenance, SourceRange
from paimon_spark.lineage.index.tables import SINK_JOB, column_equals, table_is
from paimon_spark.lineage.index.warehouse import find_warehouse_table, warn_once
from paimon_spark.lineage.recording.checkpoints import Checkpoint, Ends, find_checkpoint, source_ranges
from paimon_spark.lineage.recording.commit_recording import (
    CommitRecording,
    RecordedBranch,
    record_commit,
    recorded_branch,
)
from paimon_spark.lineage.recording.read_notes import newest_stream_notes
from paimon_spark.lineage.recording.recorder import Recorder
from paimon_spark.metadata.layout import MAIN
from paimon_spark.options.lineage import OF_ONE_USE, LineageOptions, parse_lineage_options

if TYPE_CHECKING:
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.index.warehouse import Warehouse
    from paimon_spark.metadata.handle import TableHandle

_LOOK_AGAIN_S: Final = 60.0
"""First pause before a checkpoint that was not found is searched for again."""
_TRY_AGAIN_S: Final = 10.0
"""How long a query stays unrecorded after its name could not be looked up: failing stores may be slow."""
_SLOW_S: Final = 3.0
"""A checkpoint that takes longer to fail is not read again soon, so that batches do not wait for it."""
_LONGEST_PAUSE_S: Final = 3600.0
_MOST: Final = 64


def stream_commit(handle: TableHandle, run: QueryRun, batch_id: int) -> CommitLineage:
    """The lineage of a micro-batch that is about to be committed.

    Never raises: a failure is one warning for each process. Where lineage is off this is at most one look at the
    warehouse a minute, else one small read, and some more for the first batch of a process.
    """
    try:
        sink = _sink_of(handle, run)
        recording = None if sink is None else sink.recording(batch_id)
    except Exception as e:  # noqa: BLE001 - no batch fails for its lineage
        warn_once(handle.describe(), f"cannot record the batches of query {run.query_id}", e)
        recording = None
    if recording is None:
        return CommitLineage(batch_id)

    def finish(made: bool) -> None:
        if not made:
            recording.record_reads()

    return CommitLineage(batch_id, recording.properties, (recording,), finish)


def stream_committed_before(handle: TableHandle, run: QueryRun, snapshot: Snapshot) -> None:
    """Record a micro-batch that an earlier process committed. Never raises. Rows written twice are the same rows."""
    try:
        sink = _sink_of(handle, run)
        if sink is not None:
            record_commit(sink.recorder(sink.query()), event_of(handle, snapshot))
    except Exception as e:  # noqa: BLE001 - the batch is in
        warn_once(handle.describe(), f"cannot record the batches of query {run.query_id}", e)


def forget_queries() -> None:
    """Forget all queries, as a new process."""
    _QUERIES.clear()
    _FAILED.clear()


@dataclass(slots=True)
class _Query:
    """State of a query in this process.

    Attributes:
        job: its name in the lineage tables.
        replays: the job that it runs again on a branch; None for any other query.
        checkpoint: None until it is found.
        failed_at_s: when it was last not found, or took long to fail.
        failures: how often in a row.
        newest: the batch whose ends were read last, and these ends.
        tables_recorded: whether its rows are written in a warehouse that records only tables.
    """

    job: str
    replays: str | None = None
    checkpoint: Checkpoint | None = None
    failed_at_s: float = 0.0
    failures: int = 0
    newest: tuple[int, Ends] | None = None
    tables_recorded: bool = False

    @property
    def checkpoint_url(self) -> str | None:
        return None if self.checkpoint is None else self.checkpoint.url

    def fail(self) -> None:
        """Reading the checkpoint failed; wait before the next try."""
        self.failed_at_s = _seconds()
        self.failures += 1

    @property
    def waits(self) -> bool:
        """Whether it is too early to read the checkpoint again."""
        pause_s = min(_LONGEST_PAUSE_S, _LOOK_AGAIN_S * 2.0 ** min(self.failures - 1, 10))
        return self.failures > 0 and _seconds() - self.failed_at_s <= pause_s


_QUERIES: dict[tuple[object, ...], _Query] = {}
_FAILED: dict[tuple[object, ...], float] = {}
"""When the name of a query could last not be looked up."""


def _sink_of(handle: TableHandle, run: QueryRun) -> _Sink | None:
    """The sink, when its warehouse records lineage."""
    home = find_warehouse_table(handle)
    if home is None:
        if any(key in handle.overrides for key in OF_ONE_USE if key.startswith("lineage.")):
            warn_once(
                handle.describe(),
                "cannot record it outside any warehouse: its path is not <warehouse>/<database>.db/<table>",
            )
        return None
    branch = recorded_branch(home)
    return None if branch is None else _Sink(handle, run, branch, parse_lineage_options(handle.overrides))


@dataclass(frozen=True, slots=True)
class _Sink:
    """A sink whose warehouse records lineage."""

    handle: TableHandle
    run: QueryRun
    branch: RecordedBranch
    options: LineageOptions

    @property
    def _warehouse(self) -> Warehouse:
        return self.branch.home.warehouse

    def recording(self, batch_id: int) -> CommitRecording | None:
        query = self.query()
        if query.tables_recorded and not self.branch.settings.data:
            return None
        sources = self._sources(query, batch_id)
        provenance = Provenance(query.job, batch_id, sources or (), self.run.query_id, sources is not None)
        recording = CommitRecording(provenance, self.branch.home, self.recorder(query))
        if self.branch.settings.data:
            return recording
        recording.record_reads()  # the recorder keeps only the rows of jobs
        query.tables_recorded = True
        return None

    def recorder(self, query: _Query) -> Recorder:
        interval_ms, query_id = self.options.flush_interval_ms, self.run.query_id
        return self.branch.recorder(query.job, interval_ms, query_id=query_id, checkpoint=query.checkpoint_url)

    def query(self) -> _Query:
        """State of the query in this process; the first call registers it."""
        key = (self._warehouse.identity, self.branch.home.ref, self.run, self.options.job)
        query = _QUERIES.get(key)
        if query is None:
            query = _Query(*self._job_name(key))
            self._find_checkpoint(query)
            self._register(query)
            while len(_QUERIES) >= _MOST:
                _QUERIES.pop(next(iter(_QUERIES)), None)
            _QUERIES[key] = query
        elif query.checkpoint is None and not query.waits and self._find_checkpoint(query):
            self._register(query)
        return query

    def _job_name(self, key: tuple[object, ...]) -> tuple[str, str | None]:
        """The name under which the query is recorded, and the job that it replays."""
        failed_s = _FAILED.get(key)
        if failed_s is not None and _seconds() - failed_s < _TRY_AGAIN_S:
            raise StorageError(f"the name of its job could not be looked up {_seconds() - failed_s:.0f} s ago")
        wanted = self.options.job or self.run.name or self.run.query_id
        try:
            known = find_registration(self._warehouse, self.run.query_id)
            if known is not None and known.replays == wanted:  # also when it goes on on main, after a publication
                return known.job, wanted
            branch = self._replayed_on(wanted)
            job = claim_name(self._warehouse, wanted, self.run.query_id, branch)
        except Exception:
            if len(_FAILED) >= _MOST:
                _FAILED.clear()
            _FAILED[key] = _seconds()
            raise
        _FAILED.pop(key, None)
        return job, None if branch is None or job == wanted else wanted

    def _replayed_on(self, wanted: str) -> str | None:
        """The branch on which this query runs a job again that writes main of the table; None where it does not."""
        ref = self.branch.home.ref
        owner = None if ref.branch == MAIN else find_owner(self._warehouse, wanted)
        if owner is None or owner.query_id in (None, self.run.query_id):
            return None
        main = ref.on_branch(MAIN)
        written = self.branch.index.read(SINK_JOB, f"{column_equals('job', wanted)} AND {table_is(main)}")
        return ref.branch if written.num_rows else None

    def _find_checkpoint(self, query: _Query) -> bool:
        """Look for the checkpoint; whether it is found."""
        run = self.run
        try:
            query.checkpoint = find_checkpoint(self.handle.store, run)
        except Exception as e:  # noqa: BLE001 - a driver's directory may be one that this process has no way to
            query.fail()
            self._warn_of_checkpoint(e)
            return False
        query.failures = 0
        return True

    def _register(self, query: _Query) -> None:
        checkpoint = query.checkpoint_url
        is_known = checkpoint is not None
        registration = Registration(query.job, checkpoint, sink_records_sources=is_known, replays=query.replays)
        try:
            register_query(self._warehouse, self.run.query_id, registration)
        except Exception as e:  # noqa: BLE001 - rows of snapshots are found without it
            warn_once(self.handle.describe(), f"cannot register query {self.run.query_id}", e)

    def _sources(self, query: _Query, batch_id: int) -> tuple[SourceRange, ...] | None:
        """Sources of the batch; None when they cannot be found."""
        if query.checkpoint is not None and not query.waits:
            began_s = _seconds()
            try:
                sources = self._by_checkpoint(query, query.checkpoint, batch_id)
            except Exception as e:  # noqa: BLE001 - as above
                if _seconds() - began_s > _SLOW_S:
                    query.fail()
                self._warn_of_checkpoint(e)
            else:
                query.failures = 0
                return sources
        return self._by_notes(batch_id)

    def _by_checkpoint(self, query: _Query, checkpoint: Checkpoint, batch_id: int) -> tuple[SourceRange, ...]:
        now = checkpoint.ends(batch_id)
        newest, query.newest = query.newest, (batch_id, now)
        is_next = newest is not None and newest[0] == batch_id - 1
        before = newest[1] if is_next and newest is not None else checkpoint.ends_before(batch_id)
        return source_ranges(before, now, self._warehouse)

    def _by_notes(self, batch_id: int) -> tuple[SourceRange, ...] | None:
        """Sources in this warehouse from the notes of tasks; None without notes."""
        notes = newest_stream_notes(self._warehouse, self.run.query_id, batch_id)
        return tuple(n.range for n in sorted(notes, key=lambda n: repr(n.ref))) or None

    def _warn_of_checkpoint(self, error: Exception) -> None:
        warn_once(
            self.handle.describe(),
            f"cannot read the checkpoint of query {self.run.query_id}; its sources come from the notes of its tasks",
            error,
        )


def _seconds() -> float:
    """Seconds of a clock that only goes forward."""
    return time.monotonic()
