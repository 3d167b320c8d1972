"""Port to lineage: notes of reads, provenance for commits, reports of commits.

Lineage is above jobs. `connect` names its listener once, when the package is imported; it loads with the first commit
that may be recorded. Every Spark session imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from paimon_spark.engine.commit.listeners import CommitListener
    from paimon_spark.engine.scan.plan import Plan
    from paimon_spark.format.metadata_files.snapshot import Snapshot
    from paimon_spark.lineage.read_notes import NoteTicket
    from paimon_spark.metadata.handle import TableHandle


class TaskIdentity(NamedTuple):
    """The application, streaming query and micro-batch that a task runs for.

    Attributes:
        app_id: the Spark application; without Spark a uuid of the process.
        query_id: of the streaming query; None outside of one.
        batch_id: the micro-batch.
        query_name: None for a query without a name.
    """

    app_id: str
    query_id: str | None = None
    batch_id: int | None = None
    query_name: str | None = None


class QueryRun(NamedTuple):
    """A streaming query, as known where its batches are committed.

    Attributes:
        name: None for a query without a name.
        checkpoint: option `checkpointLocation` of the query.
        checkpoint_conf: `spark.sql.streaming.checkpointLocation` of its session, where the query has no such option.
    """

    query_id: str
    name: str | None = None
    checkpoint: str | None = None
    checkpoint_conf: str | None = None


class CommitLineage(NamedTuple):
    """Lineage of one commit, prepared before it.

    Attributes:
        identifier: of the commit.
        properties: of the snapshot of the rows: its provenance.
        listeners: notified of each snapshot made.
        finish: called after the commit, with whether it made a snapshot. Raises nothing.
    """

    identifier: int
    properties: Mapping[str, str] = {}
    listeners: tuple[CommitListener, ...] = ()
    finish: Callable[[bool], None] = lambda made: None


def not_recorded() -> CommitLineage:
    """The lineage of a batch commit that is not recorded."""
    from paimon_spark.engine.commit.requests import BATCH_COMMIT_IDENTIFIER

    return CommitLineage(BATCH_COMMIT_IDENTIFIER)


class LineageListener(Protocol):
    """Records reads and commits. No method raises: a failure is a warning, and the job goes on."""

    def read_tickets(self, handle: TableHandle, plan: Plan, after: int | None) -> tuple[NoteTicket, ...]:
        """As `read_tickets` of this module."""

    def note_read(self, tickets: Sequence[NoteTicket]) -> None:
        """As `note_read` of this module."""

    def batch_commit(self, handle: TableHandle, run: TaskIdentity | None, *, reads_nothing: bool) -> CommitLineage:
        """As `batch_commit` of this module."""

    def stream_commit(self, handle: TableHandle, run: QueryRun, batch_id: int) -> CommitLineage:
        """As `stream_commit` of this module."""

    def stream_committed_before(self, handle: TableHandle, run: QueryRun, snapshot: Snapshot) -> None:
        """As `stream_committed_before` of this module."""


_load: Callable[[], LineageListener] | None = None


def connect(load: Callable[[], LineageListener]) -> None:
    """Set what imports the listener."""
    global _load
    _load = load


def read_tickets(handle: TableHandle, plan: Plan, after: int | None = None) -> tuple[NoteTicket, ...]:
    """What the tasks of a batch read note, one ticket for each branch; none unless the read names its job.

    Args:
        handle: of the read.
        plan: what is read.
        after: the snapshot that an incremental read begins after.
    """
    from paimon_spark.options.lineage import JOB

    return () if _load is None or JOB.key not in handle.overrides else _load().read_tickets(handle, plan, after)


def note_read(tickets: Sequence[NoteTicket]) -> None:
    """Note a read whose rows this process reads itself. Never raises."""
    if tickets and _load is not None:
        _load().note_read(tickets)


def batch_commit(handle: TableHandle, run: TaskIdentity | None = None, *, reads_nothing: bool = False) -> CommitLineage:
    """The lineage of a batch write, right before its commit; called once for each commit. Never raises.

    Only writes that name their job (`lineage.job`) or run inside a streaming query are recorded; for others nothing is
    loaded or looked up.

    Args:
        handle: the branch, with the options of the write.
        run: what its tasks ran for; None: it was written in this process.
        reads_nothing: whether its rows may come from no table, so that missing notes of reads are no gap.
    """
    from paimon_spark.options.lineage import JOB

    if _load is None or (JOB.key not in handle.overrides and (run is None or run.query_id is None)):
        return not_recorded()
    return _load().batch_commit(handle, run, reads_nothing=reads_nothing)


def stream_commit(handle: TableHandle, run: QueryRun, batch_id: int) -> CommitLineage:
    """The lineage of a micro-batch, right before its commit. Never raises."""
    return CommitLineage(batch_id) if _load is None else _load().stream_commit(handle, run, batch_id)


def stream_committed_before(handle: TableHandle, run: QueryRun, snapshot: Snapshot) -> None:
    """Record a micro-batch that an earlier process committed and may not have recorded. Never raises."""
    if _load is not None:
        _load().stream_committed_before(handle, run, snapshot)
