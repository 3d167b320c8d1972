"""Reads whose snapshot expires under them: told apart from tables whose files are gone though they are needed."""

from __future__ import annotations

from paimon_spark.errors import FileMissingError, PaimonError, SnapshotExpiredError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import is_alive
from paimon_spark.metadata.tags import find_tag


def has_expired(handle: TableHandle, snapshot: Snapshot, error: PaimonError, tag: str | None = None) -> bool:
    """Whether an error is that of a file that went with its snapshot.

    Args:
        handle: the branch that is read.
        snapshot: what is read of it.
        error: what the read raised.
        tag: by which the snapshot was asked for.
    """
    if not isinstance(error, FileMissingError) and not isinstance(error.__cause__, FileMissingError):
        return False
    if tag is not None:
        found = find_tag(handle, tag)
        if found is not None and found.snapshot.base_manifest_list == snapshot.base_manifest_list:
            return False
    return not is_alive(handle, snapshot)


def expired(handle: TableHandle, snapshot: Snapshot) -> SnapshotExpiredError:
    """The error for a snapshot that expired while it was read."""
    return SnapshotExpiredError(
        f"snapshot {snapshot.id} of {handle.describe()} expired while it was read, and files of it are gone: read "
        "again. Where reads last long, let snapshots live longer (snapshot.time-retained), or read a tag",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot.id,
    )
