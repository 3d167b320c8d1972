"""What others did to a branch while it was compacted, as errors."""

from __future__ import annotations

from paimon_spark.engine.commit.attempts import CommitResult
from paimon_spark.errors import CommitConflictError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle


def expired_under_way(handle: TableHandle, snapshot: Snapshot) -> CommitConflictError:
    """The error when a snapshot went, and files of it, while it was compacted."""
    return CommitConflictError(
        f"snapshot {snapshot.id} of {handle.describe()} expired while it was compacted, and another was committed. "
        "Nothing was changed; do it again, or let snapshots live longer (snapshot.time-retained)",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot.id,
    )


def compacted_by_twin(handle: TableHandle, committed: CommitResult) -> CommitConflictError:
    """The error when another process of the same stream compacted the rows of the same batch."""
    snapshot_id = committed.snapshot_ids[-1]
    return CommitConflictError(
        f"another process of the same query compacted {handle.describe()} after the same batch, as snapshot "
        f"{snapshot_id}; of two processes of one query only one can go on: stop the other",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot_id,
    )
