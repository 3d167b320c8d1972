"""Long-lived changelogs: snapshots that expired but whose changelog files are kept.

Source: Java `utils/ChangelogManager`.
"""

from __future__ import annotations

from paimon_spark.format.metadata_files.snapshot import Snapshot, decode
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import CHANGELOG_PREFIX
from paimon_spark.metadata.small_files import find_decoded, numbered
from paimon_spark.metadata.snapshots import find_snapshot, snapshot_missing


def list_changelog_ids(handle: TableHandle) -> list[int]:
    """Ids of the snapshots kept for their changelog, ascending."""
    return numbered(handle.store, handle.layout.changelog_dir, CHANGELOG_PREFIX)


def find_changelog(handle: TableHandle, snapshot_id: int) -> Snapshot | None:
    """The snapshot kept for its changelog; None when there is none. Raises CorruptFileError."""
    return find_decoded(handle.store, handle.layout.changelog_path(snapshot_id), decode)


def get_snapshot_or_changelog(handle: TableHandle, snapshot_id: int) -> Snapshot:
    """The snapshot, alive or kept for its changelog.

    Raises:
        SnapshotExpiredError: it is older than all that are kept.
        SnapshotNotFoundError: it never was.
        CorruptFileError: it cannot be decoded.
    """
    snapshot = find_snapshot(handle, snapshot_id) or find_changelog(handle, snapshot_id)
    if snapshot is None:
        raise snapshot_missing(handle, snapshot_id)
    return snapshot
