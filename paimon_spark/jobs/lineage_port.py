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
    from paimon_spark.lineage.recording.read_notes import NoteTicket
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
    """A streaming query, as the process that commits its batches knows it.

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
        """Note a read whose rows this process reads itself."""

    def batch_commit(self, handle: TableHandle, run: TaskIdentity | None, *, reads_nothing: bool) -> CommitLineage:
        """As `batch_commit` of this module."""

    def rebase_commit(self, handle: TableHandle, branch: str, after: int, last: int) -> CommitLineage:
        """As `rebase_commit` of this module."""

    def stream_commit(self, handle: TableHandle, run: QueryRun, batch_id: int) -> CommitLineage:
        """The lineage of a micro-batch, right before its commit."""

    def stream_committed_before(self, handle: TableHandle, run: QueryRun, snapshot: Snapshot) -> None:
        """Record a micro-batch that an earlier process committed and may not have recorded."""


_load: Callable[[], LineageListener]


def connect(load: Callable[[], LineageListener]) -> None:
    """Set what imports the listener."""
    global _load
    _load = load


def listener() -> LineageListener:
    """The connected listener. Imports it."""
    return _load()


def read_tickets(handle: TableHandle, plan: Plan, after: int | None = None) -> tuple[NoteTicket, ...]:
    """The notes of the tasks of a batch read, a ticket for each branch; none unless the read names its job.

    `after` is the snapshot that an incremental read begins after.
    """
    from paimon_spark.options.lineage import JOB

    return _load().read_tickets(handle, plan, after) if JOB.key in handle.overrides else ()


def batch_commit(handle: TableHandle, run: TaskIdentity | None = None, *, reads_nothing: bool = False) -> CommitLineage:
    """The lineage of a batch write, right before its commit; called once for each commit. Never raises.

    Only writes that name their job (`lineage.job`) or run inside a streaming query are recorded; for others nothing is
    loaded or looked up. Arguments as of `commit_batch`.
    """
    from paimon_spark.options.lineage import JOB

    if JOB.key not in handle.overrides and (run is None or run.query_id is None):
        return not_recorded()
    return _load().batch_commit(handle, run, reads_nothing=reads_nothing)


def rebase_commit(handle: TableHandle, branch: str, after: int, last: int) -> CommitLineage:
    """The lineage of a rebase of `branch`, right before its commit: its snapshots after `after`, up to `last`.

    `handle` is main, or a branch that becomes main once its rows are checked. Never raises.
    """
    return _load().rebase_commit(handle, branch, after, last)
