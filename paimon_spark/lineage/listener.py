"""Listener that write jobs call: records the commits of batch writes and of streaming queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.jobs.lineage_port import CommitLineage, TaskIdentity

if TYPE_CHECKING:
    from paimon_spark.format.snapshot import Snapshot
    from paimon_spark.jobs.stream_run import QueryRun
    from paimon_spark.metadata.handle import TableHandle


class Listener:
    """A `LineageListener`."""

    def batch_commit(self, handle: TableHandle, run: TaskIdentity | None, *, reads_nothing: bool) -> CommitLineage:
        """The lineage of a batch write that is about to be committed."""
        from paimon_spark.lineage.batch_recording import batch_lineage

        return batch_lineage(handle, run, reads_nothing=reads_nothing)

    def stream_commit(self, handle: TableHandle, run: QueryRun, batch_id: int) -> CommitLineage:
        """The lineage of a micro-batch that is about to be committed."""
        from paimon_spark.lineage.stream_recording import stream_lineage

        return stream_lineage(handle, run, batch_id)

    def stream_committed_before(self, handle: TableHandle, run: QueryRun, snapshot: Snapshot) -> None:
        """Record a micro-batch that an earlier process committed and may not have recorded."""
        from paimon_spark.lineage.stream_recording import record_again

        record_again(handle, run, snapshot)
