"""Strict mode: nobody else may have changed what a commit touches since a snapshot that is known.

Source: Java `operation/commit/StrictModeChecker`.
"""

from __future__ import annotations

import numpy as np

from paimon_spark.engine.commit.entries import numbers, where
from paimon_spark.engine.commit.index_files import head_index
from paimon_spark.engine.commit.partitions import Touched
from paimon_spark.engine.commit.wanted import Wanted
from paimon_spark.errors import CommitConflictError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import find_snapshot, get_snapshot
from paimon_spark.options.commit import LAST_SAFE_SNAPSHOT, CommitOptions


def check_strictly(
    handle: TableHandle,
    options: CommitOptions,
    wanted: Wanted,
    touched: Touched,
    head: Snapshot,
    commit_user: str,
) -> None:
    """Check the snapshots of other users after `commit.strict-mode.last-safe-snapshot`; nothing when it is not set.

    Compactions and overwrites may not have touched the same partitions; for an overwrite appends may not either.

    Raises:
        CommitConflictError: one has.
        SnapshotExpiredError: one of them is gone, so it cannot be told.
    """
    if options.last_safe_snapshot is None or not touched:
        return
    for snapshot_id in range(options.last_safe_snapshot + 1, head.id + 1):
        snapshot = head if snapshot_id == head.id else get_snapshot(handle, snapshot_id)
        if snapshot.commit_user != commit_user and _touches(handle, wanted, touched, snapshot):
            raise CommitConflictError(
                f"snapshot {snapshot.id} of {handle.describe()}, {snapshot.commit_kind.value} by user "
                f"{snapshot.commit_user}, changed partitions that the commit of user {commit_user} changes too, and "
                f"{LAST_SAFE_SNAPSHOT.key} = {options.last_safe_snapshot} forbids that. Nothing was committed; "
                "read the table again and write again",
                table=handle.name,
                branch=handle.branch,
                snapshot_id=snapshot.id,
            )


def _touches(handle: TableHandle, wanted: Wanted, touched: Touched, snapshot: Snapshot) -> bool:
    if snapshot.commit_kind in (CommitKind.COMPACT, CommitKind.OVERWRITE):
        return len(touched.delta(snapshot)) > 0 or _touches_index(handle, touched, snapshot)
    if snapshot.commit_kind is CommitKind.APPEND and wanted.kind is CommitKind.OVERWRITE:
        entries = touched.delta(snapshot)
        return len(where(entries, np.asarray(numbers(entries, "bucket") >= 0))) > 0
    return False


def _touches_index(handle: TableHandle, touched: Touched, snapshot: Snapshot) -> bool:
    before = find_snapshot(handle, snapshot.id - 1)
    if before is not None and before.index_manifest == snapshot.index_manifest:
        return False
    return any(e.partition in touched.bytes for e in head_index(handle, snapshot))
