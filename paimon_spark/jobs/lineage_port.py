"""Port to lineage: what write jobs ask for before a commit, and report after it.

Lineage is above jobs. `connect` names its listener once, when the package is imported; it loads with the first commit
that may be recorded. Every Spark session imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from paimon_spark.engine.commit.committer import MadeSnapshot
    from paimon_spark.format.snapshot import Snapshot
    from paimon_spark.jobs.stream_run import QueryRun
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


class CommitLineage(NamedTuple):
    """Lineage of one commit, prepared before it.

    Attributes:
        identifier: of the commit.
        properties: of the snapshot of the rows: its provenance.
        listeners: called with each snapshot made.
        finish: called after the commit, with whether it made a snapshot. Raises nothing.
    """

    identifier: int
    properties: Mapping[str, str] = {}
    listeners: tuple[Callable[[MadeSnapshot], None], ...] = ()
    finish: Callable[[bool], None] = lambda made: None


def not_recorded() -> CommitLineage:
    """The lineage of a batch commit that is not recorded."""
    from paimon_spark.engine.commit.attempts import BATCH_COMMIT_IDENTIFIER

    return CommitLineage(BATCH_COMMIT_IDENTIFIER)


class LineageListener(Protocol):
    """Prepares and records the lineage of commits. No method raises: a failure is a warning, and the write goes on."""

    def batch_commit(self, handle: TableHandle, run: TaskIdentity | None, *, reads_nothing: bool) -> CommitLineage:
        """The lineage of a batch write that is about to be committed."""
        ...

    def stream_commit(self, handle: TableHandle, run: QueryRun, batch_id: int) -> CommitLineage:
        """The lineage of a micro-batch that is about to be committed."""
        ...

    def stream_committed_before(self, handle: TableHandle, run: QueryRun, snapshot: Snapshot) -> None:
        """Record a micro-batch that an earlier process committed and may not have recorded. Safe to repeat."""
        ...


_load: Callable[[], LineageListener] | None = None


def connect(load: Callable[[], LineageListener]) -> None:
    """Name the listener; `load` is called when it is first needed, and must be cheap to call again."""
    global _load
    _load = load


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
