"""Tags as steps of a change: the tag's file, and the file beside it that says it was made.

Source: Java `utils/TagManager`, `tag/SuccessFileTagCallback`.

Guard tags as steps: the base of a branch, tagged on every branch that its history passed through.

Paimon's expiry spares the files of the nearest older tag of main, and of nothing else; deleting a tag spares those of
its neighbours on its own branch. They may rely on these as long as all tags of a branch are of its own history: so what
is put on a parent is the parent's snapshot at which the history left it, never the newer one that the branch begins
with. Where Paimon expires a branch it looks at main's tags too, which are of another history: no guard helps there.

Source: Java `operation/FileDeletionBase.createDataFileSkipperForTags`, `AbstractFileStore.newTagManager`.

What a tag is made of, and whether that is still there when the tag is.

Our own expiry waits for the table's lock; that of other engines asks nobody.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from paimon_spark.errors import FileMissingError, InvalidInputError, SnapshotExpiredError, SnapshotNotFoundError
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag, encode_tag
from paimon_spark.maintenance.change import change_branch, reopened
from paimon_spark.metadata.branches import ancestry, branch_exists, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import Delete, Put, Root, RootKind, Step, TableChange, relative_path
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, snapshot_missing
from paimon_spark.metadata.tags import find_tag, guard_name, guarded_branch, list_tags, tag_of_snapshot
from paimon_spark.options.tags import TagOptions


def new_tag(name: str, snapshot: Snapshot, retained_s: float | None, now: datetime) -> Tag:
    """A tag made now; `retained_s` None is for ever, and then its creation is not written down, as in Java."""
    return Tag(name, snapshot, None if retained_s is None else now, retained_s)


def tag_root(handle: TableHandle, tag: Tag) -> Root:
    """What holds on to the tag's files."""
    return Root(RootKind.TAG, handle.layout.directory_branch, tag.name, tag.snapshot)


def put_tag(handle: TableHandle, tag: Tag) -> Put:
    """Make or replace the tag's file."""
    return Put(relative_path(handle, handle.layout.tag_path(tag.name)), encode_tag(tag).decode())


def create_steps(handle: TableHandle, options: TagOptions, tag: Tag) -> tuple[Step, ...]:
    """Make a tag, and with option `tag.create-success-file` the file that tells of it, after it."""
    if not options.success_file:
        return (put_tag(handle, tag),)
    now_ms = time.time_ns() // 1_000_000
    path = _success_path(handle, tag.name)
    told = json.dumps({"creationTime": _created_ms(handle, path, now_ms), "modificationTime": now_ms}, indent=2)
    return put_tag(handle, tag), Put(relative_path(handle, path), told)


def delete_steps(handle: TableHandle, options: TagOptions, name: str) -> tuple[Step, ...]:
    """Remove a tag, and what tells of it."""
    tag = Delete(relative_path(handle, handle.layout.tag_path(name)))
    return (tag, Delete(relative_path(handle, _success_path(handle, name)))) if options.success_file else (tag,)


def deletion(handle: TableHandle, tags: Sequence[Tag], kind: str, label: str) -> TableChange:
    """The change that deletes tags with what only they need."""
    options = handle.options.tags
    steps = tuple(step for tag in tags for step in delete_steps(handle, options, tag.name))
    return TableChange(kind, label, steps, tuple(tag_root(handle, tag) for tag in tags))


def living_branch(handle: TableHandle, tag_name: str) -> str | None:
    """The branch whose base a tag of this name guards; None for other tags, and when the branch is gone."""
    branch = guarded_branch(tag_name)
    return branch if branch is not None and branch_exists(handle, branch) else None


def _success_path(handle: TableHandle, name: str) -> str:
    return f"{handle.layout.tag_success_dir}/{name}_SUCCESS"


def _created_ms(handle: TableHandle, path: str, now_ms: int) -> int:
    """When the file was first made; now when it is new, or says nothing of it."""
    try:
        told = json.loads(handle.store.read(path))
        return int(told["creationTime"])
    except (FileMissingError, ValueError, KeyError, TypeError):
        return now_ms


@dataclass(frozen=True, slots=True)
class Guards:
    """Guards of one branch to be.

    Attributes:
        names: the guard's name by the branch it is put on, for the `FORK` file.
        steps: put them.
        released: guards of that name that are overwritten; what a branch of this name left that others removed.
    """

    names: Mapping[str, str]
    steps: tuple[Put, ...]
    released: tuple[Root, ...]


def guard_put(on_branch: TableHandle, branch: str, snapshot: Snapshot) -> Put:
    """Tag a snapshot of a branch as the base of `branch`, for ever."""
    path = on_branch.layout.tag_path(guard_name(branch))
    return Put(relative_path(on_branch, path), snapshot_file.encode(snapshot).decode())


def plan_guards(handle: TableHandle, branch: str, snapshot: Snapshot) -> Guards:
    """Guards on the handle's branch and its parents, up to main, for a branch made of one of its snapshots.

    A parent of which nobody knows that snapshot any more has no guard; the doctor says so.
    """
    names: dict[str, str] = {}
    steps: list[Put] = []
    released: list[Root] = []
    child = handle
    for name, snapshot_id in ancestry(handle, snapshot.id):
        parent = handle.on_branch_directory(name)
        base = snapshot if snapshot_id == snapshot.id else known(parent, snapshot_id) or known(child, snapshot_id)
        child = parent
        if base is None:
            continue
        names[name] = guard_name(branch)
        steps.append(guard_put(parent, branch, base))
        old = find_tag(parent, guard_name(branch))
        if old is not None and old.snapshot != base:
            released.append(Root(RootKind.TAG, parent.layout.directory_branch, old.name, old.snapshot))
    return Guards(names, tuple(steps), tuple(released))


def known(handle: TableHandle, snapshot_id: int) -> Snapshot | None:
    """The snapshot of the branch, alive or in a tag; None when it has expired."""
    found = find_snapshot(handle, snapshot_id)
    if found is not None:
        return found
    tag = tag_of_snapshot(handle, snapshot_id)
    return None if tag is None else tag.snapshot


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
