"""A snapshot made so late that its id had been taken, and had expired, since its head was read.

Nothing follows from such a snapshot, so its rows would never be seen. Exclusive creation cannot prevent it: the file
that had the id is gone. It takes a writer that stops for longer than snapshots live, in the middle of a commit.
"""

from __future__ import annotations

from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import SNAPSHOT_PREFIX
from paimon_spark.metadata.manifests import delta_manifests, read_manifest_list
from paimon_spark.metadata.snapshots import find_snapshot, list_snapshot_ids


def is_stray(handle: TableHandle, made: Snapshot) -> bool:
    """Whether later snapshots are there that do not follow from `made`, which was just created."""
    if max(list_snapshot_ids(handle), default=0) <= made.id:
        return False
    following = find_snapshot(handle, made.id + 1)
    if following is None:
        # Expiry removes ascending ids: while this one is there, the gap is older than it.
        return is_alive(handle, made)
    ours = {m.file_name for m in delta_manifests(handle, made)}
    theirs = {m.file_name for m in read_manifest_list(handle, following.base_manifest_list)}
    if ours and ours <= theirs:
        return False
    total, delta = following.total_record_count, following.delta_record_count
    if total is not None and delta is not None and total - delta != made.total_record_count:
        return True
    changed = {i.name: i.modified_ms for i in handle.store.list(handle.layout.snapshot_dir)}
    mine, later = (changed.get(f"{SNAPSHOT_PREFIX}{i}") for i in (made.id, following.id))
    return mine is not None and later is not None and later < mine


def is_alive(handle: TableHandle, snapshot: Snapshot) -> bool:
    """Whether the id still holds this very snapshot."""
    found = find_snapshot(handle, snapshot.id)
    return found is not None and found.uuid == snapshot.uuid
