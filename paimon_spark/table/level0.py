"""The compaction that follows a write to a table whose new rows are not seen, or not told of, before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paimon_spark.commit.committer import Committer
from paimon_spark.errors import CommitConflictError, CommitError, CommitOutcomeUnknownError, PaimonError
from paimon_spark.handoff.commit_message import CommitMessage
from paimon_spark.maintenance.compact import compact_level0, hides_level0
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.snapshots import latest_snapshot

_ATTEMPTS: Final = 5


def compact_written(
    handle: TableHandle, commit_user: str, messages: Sequence[CommitMessage], snapshot_ids: Sequence[int]
) -> tuple[int, ...]:
    """Merge level 0 of the buckets that `messages` wrote, where the table needs it; ids of the snapshots made.

    Others may compact the same buckets meanwhile; then what they left is looked at again.

    Raises:
        CommitError: the rows are in, as `snapshot_ids`, but they were not compacted.
    """
    if not snapshot_ids or not hides_level0(handle):
        return ()
    buckets = {(m.partition, m.bucket) for m in messages if m.data.new_files}
    try:
        return _compact(handle, commit_user, buckets, _ATTEMPTS)
    except PaimonError as e:
        raise CommitError(
            f"the rows are in {handle.describe()}, as snapshot {snapshot_ids[-1]}: do not write them again. But they "
            f"are seen only after a compaction, which failed: {e}. Write any row to their buckets to try it again",
            table=handle.name,
            branch=handle.branch,
            snapshot_id=snapshot_ids[-1],
        ) from e


def _compact(handle: TableHandle, commit_user: str, buckets: set[tuple[bytes, int]], attempts: int) -> tuple[int, ...]:
    head = latest_snapshot(handle)
    # Others may have added columns and filled them since the write was planned: their files are written anew too.
    newest = open_table(handle.store, handle.layout.root, handle.branch, handle.name, handle.overrides)
    messages = [] if head is None else compact_level0(newest, head, buckets, commit_user)
    if not messages:
        return ()
    committer = Committer(newest, commit_user)
    try:
        return committer.commit(messages).snapshot_ids
    except CommitOutcomeUnknownError:
        raise
    except CommitConflictError:
        committer.abort(messages)
        if attempts == 1:
            raise
        return _compact(handle, commit_user, buckets, attempts - 1)
    except PaimonError:
        committer.abort(messages)
        raise
