"""What a tag is made of, and whether that is still there when the tag is.

Our own expiry waits for the table's lock; that of other engines asks nobody.
"""

from __future__ import annotations

from paimon_spark.errors import InvalidInputError, SnapshotExpiredError, SnapshotNotFoundError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.changes import TableChange
from paimon_spark.maintenance.expire_snapshots import reopened
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, snapshot_missing
from paimon_spark.metadata.tags import find_tag, list_tags, tag_of_snapshot
from paimon_spark.versioning.reopening import change_branch
from paimon_spark.versioning.tag_steps import deletion


def tag_source(handle: TableHandle, snapshot_id: int | None) -> Snapshot:
    """The snapshot to tag: the head for None, else the one of that id, alive or held by another tag.

    Raises:
        SnapshotNotFoundError: there is none, or no snapshot at all; SnapshotExpiredError: there was.
        InvalidInputError: it is no number.
    """
    if snapshot_id is None:
        head = latest_snapshot(handle)
        if head is None:
            raise SnapshotNotFoundError(
                f"{handle.describe()} has no snapshot yet, so there is nothing to tag; write rows first",
                table=handle.name,
                branch=handle.branch,
            )
        return head
    if isinstance(snapshot_id, bool) or not isinstance(snapshot_id, int):
        raise InvalidInputError(
            f"snapshot_id = {snapshot_id!r} is no snapshot of {handle.describe()}: give its number",
            argument="snapshot_id",
        )
    found = find_snapshot(handle, snapshot_id) if snapshot_id > 0 else None
    if found is not None:
        return found
    tag = tag_of_snapshot(handle, snapshot_id)
    if tag is None:
        raise snapshot_missing(handle, snapshot_id)
    return tag.snapshot


def check_still_there(handle: TableHandle, tag: Tag) -> None:
    """Take a tag back whose snapshot another engine let expire while it was made: its files may be gone.

    One small read when all is well. Raises SnapshotExpiredError: so it was.
    """
    snapshot = tag.snapshot
    if same_snapshot(find_snapshot(handle, snapshot.id), snapshot):
        return
    handle = reopened(handle)
    if same_snapshot(find_snapshot(handle, snapshot.id), snapshot):
        return
    if any(same_snapshot(t.snapshot, snapshot) for t in list_tags(handle) if t.name != tag.name):
        return

    def plan(branch: TableHandle) -> TableChange | None:
        found = find_tag(branch, tag.name)
        if found is None or found.snapshot != snapshot:
            return None
        return deletion(
            branch,
            [found],
            "create-tag",
            f"removal of tag {tag.name!r} on branch {branch.branch!r}, whose snapshot expired",
        )

    change_branch(handle, "create-tag", plan)
    raise SnapshotExpiredError(
        f"snapshot {snapshot.id} of {handle.describe()} expired while tag {tag.name!r} was made of it, so the tag is "
        "gone too; tag a later snapshot",
        table=handle.name,
        branch=handle.branch,
        snapshot_id=snapshot.id,
        tag=tag.name,
    )
