"""An earlier state becomes the newest, by a new snapshot; nothing of the history goes.

Source: Java `RollbackToAsLatestProcedure`, `operation/FileStoreCommitImpl.rollbackToAsLatest`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from paimon_spark.display.values import ShownAsFacts
from paimon_spark.engine.commit.committer import Committer
from paimon_spark.errors import CommitOutcomeUnknownError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.changes import TableChange
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.tags import find_tag
from paimon_spark.versioning.reopening import change_branch
from paimon_spark.versioning.rollback import find_target, nothing_there
from paimon_spark.versioning.tag_source import check_still_there
from paimon_spark.versioning.tag_steps import deletion, put_tag

AS_LATEST: Final = "rollback-to-as-latest-"
"""What the names of tags and commit users begin with that Paimon makes for it."""


@dataclass(frozen=True, slots=True)
class Restored(ShownAsFacts):
    """What making an earlier state the newest did.

    Attributes:
        snapshot: the head now, with the state of `target`.
        target: the snapshot that was asked for.
        previous: the head before.
        tag: the tag that keeps the files of `target`; None when none was made.
    """

    snapshot: Snapshot
    target: Snapshot
    previous: Snapshot
    tag: str | None = None


def rollback_to_as_latest(handle: TableHandle, version: str | int) -> Restored:
    """Make the state of an earlier version the branch's newest, by a new snapshot of kind OVERWRITE.

    The snapshots between stay and can be read. Files of the version are kept by a tag `rollback-to-as-latest-…`, as
    Paimon does it, unless it was asked for by a tag's name: its expiry takes a file that was deleted once for gone. The
    tag may go when the snapshots up to the new one have expired. The head itself is left as it is.

    Args:
        handle: the branch.
        version: a snapshot id, or any version text that means a snapshot of this branch. An expired snapshot is taken
            from a tag of it.

    Raises:
        InvalidInputError: it is no version, or on another branch.
        NotFoundError: there is no such version; SnapshotExpiredError: it expired meanwhile.
        CommitError: others were faster every time, or nobody knows whether the snapshot was made.
        OperationInProgressError: another process changes the table's refs all the time.
    """
    kept = _keep(handle, version)
    if isinstance(kept, Restored):
        return kept
    tag, is_new = kept
    try:
        if is_new:
            check_still_there(handle, tag)
        return _commit(handle, tag, is_new)
    except CommitOutcomeUnknownError:
        raise
    except Exception:
        if is_new:
            _take_back(handle, tag)
        raise


def _keep(handle: TableHandle, version: str | int) -> Restored | tuple[Tag, bool]:
    """A tag of the target and whether it was made for this; what was done, when the target is the head."""
    found: list[Restored | tuple[Tag, bool]] = []

    def plan(branch: TableHandle) -> TableChange | None:
        target = find_target(branch, version)
        head = latest_snapshot(branch)
        if head is None:
            raise nothing_there(branch)
        asked = find_tag(branch, version.strip()) if isinstance(version, str) else None
        if same_snapshot(head, target):
            found.append(Restored(head, target, head))
            return None
        if asked is not None:
            found.append((asked, False))
            return None
        tag = Tag(f"{AS_LATEST}{target.id}-{uuid.uuid4()}", target)
        found.append((tag, True))
        label = f"tagging of snapshot {target.id} on branch {branch.branch!r}"
        return TableChange("create-tag", label, (put_tag(branch, tag),))

    change_branch(handle, "create-tag", plan)
    return found[-1]


def _commit(handle: TableHandle, tag: Tag, is_new: bool) -> Restored:
    """Commit under the lock, so that nobody deletes the tag before the new snapshot holds on to its files too."""
    done: list[Restored] = []

    def plan(branch: TableHandle) -> None:
        head = latest_snapshot(branch)
        if head is None:
            raise nothing_there(branch)
        target = find_target(branch, f"tag-name.{tag.name}")
        made = Committer(branch, f"{AS_LATEST}{uuid.uuid4()}").restore(target).snapshots[0]
        done.append(Restored(made, target, head, tag.name if is_new else None))

    change_branch(handle, "rollback-to-as-latest", plan)
    return done[-1]


def _take_back(handle: TableHandle, tag: Tag) -> None:
    def plan(branch: TableHandle) -> TableChange | None:
        found = find_tag(branch, tag.name)
        return (
            None
            if found is None
            else deletion(branch, [found], "delete-tag", f"removal of tag {tag.name!r}, not needed")
        )

    change_branch(handle, "delete-tag", plan)
