"""Steps that write tags, guard tags, success files and forks; the snapshots to tag.

A guard tag marks the base of a branch on every branch that its history passed through. Paimon's expiry spares the files
of the nearest older tag of main, and deleting a tag spares those of its neighbours on its branch. That is safe while
all tags of a branch are of its own history: so the guard on a parent is the parent's snapshot at which the history left
it, not the newer one at which the branch starts. When Paimon expires a branch it also uses main's tags, which are of
another history: no guard helps there.

Two guards keep the last rebase of a branch, so that the next can begin there: one is on the branch that got the
changes, at the commit of the rebase; the other on the branch itself, at the snapshot that the commit holds. The next
rebase moves both; they are deleted with the branch.

Expiry of other engines takes no lock, so a new tag's snapshot may have expired.

Source: Java `utils/TagManager`, `tag/SuccessFileTagCallback`, `AbstractFileStore.newTagManager`,
`operation/FileDeletionBase.createDataFileSkipperForTags`.

Tests: tests/unit/versioning/test_tags.py, test_guards.py, test_tags_of_versions.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from paimon_spark.errors import InvalidInputError, PaimonError, SnapshotExpiredError, SnapshotNotFoundError
from paimon_spark.format.json_files import find_object
from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag, encode_tag
from paimon_spark.maintenance.change import change_branch, reopened
from paimon_spark.metadata.branches import Fork, ancestry, branch_exists, encode_fork, fork_path, same_snapshot
from paimon_spark.metadata.handle import TableHandle, refuse_on_server, server_of
from paimon_spark.metadata.journal.change import (
    CreateOnServer,
    DeleteFile,
    Put,
    Root,
    RootKind,
    Step,
    TableChange,
    relative_path,
)
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.small_files import find_bytes
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, snapshot_missing
from paimon_spark.metadata.tags import (
    find_tag,
    guard_name,
    guarded_branch,
    list_tags,
    rebase_guard_name,
    tag_of_snapshot,
)
from paimon_spark.options.retention import TagOptions
from paimon_spark.redaction import get_logger

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def new_tag(name: str, snapshot: Snapshot, retained_s: float | None, now: datetime) -> Tag:
    """A tag created now; with `retained_s` None it never expires and its creation is not recorded, as in Java."""
    return Tag(name, snapshot, None if retained_s is None else now, retained_s)


def tag_root(handle: TableHandle, tag: Tag) -> Root:
    """The root that keeps the tag's files."""
    return Root(RootKind.TAG, handle.layout.directory_branch, tag.name, tag.snapshot)


def put_tag(handle: TableHandle, tag: Tag) -> Put:
    """Create or replace the tag's file."""
    return Put(relative_path(handle, handle.layout.tag_path(tag.name)), encode_tag(tag).decode())


def put_fork(handle: TableHandle, fork: Fork) -> Put:
    """Create or replace the `FORK` file of the handle's branch."""
    return Put(relative_path(handle, fork_path(handle)), encode_fork(fork).decode())


def local_time(epoch_ms: int, zone: tzinfo | None = None) -> datetime:
    """The local time in a zone, None meaning the machine's. Raises OverflowError, ValueError, OSError."""
    return (_EPOCH + timedelta(milliseconds=epoch_ms)).astimezone(zone).replace(tzinfo=None)


def create_steps(handle: TableHandle, options: TagOptions, tag: Tag) -> tuple[Step, ...]:
    """Create a tag, then with option `tag.create-success-file` its success file."""
    if not options.success_file:
        return (put_tag(handle, tag),)
    now_ms = time.time_ns() // 1_000_000
    path = _success_path(handle, tag.name)
    content = json.dumps({"creationTime": _created_ms(handle, path, now_ms), "modificationTime": now_ms}, indent=2)
    return put_tag(handle, tag), Put(relative_path(handle, path), content)


def delete_steps(handle: TableHandle, options: TagOptions, name: str) -> tuple[Step, ...]:
    """Delete a tag and its success file."""
    tag = DeleteFile(relative_path(handle, handle.layout.tag_path(name)))
    return (tag, DeleteFile(relative_path(handle, _success_path(handle, name)))) if options.success_file else (tag,)


def delete_tags_change(handle: TableHandle, tags: Sequence[Tag], kind: str, label: str) -> TableChange:
    """The change that deletes tags and the files that only they need."""
    options = handle.options.tags
    steps = tuple(step for tag in tags for step in delete_steps(handle, options, tag.name))
    return TableChange(kind, label, steps, tuple(tag_root(handle, tag) for tag in tags))


def existing_guarded_branch(handle: TableHandle, tag_name: str) -> str | None:
    """The existing branch whose base a tag of this name guards; None for other tags."""
    branch = guarded_branch(tag_name)
    return branch if branch is not None and branch_exists(handle, branch) else None


def _success_path(handle: TableHandle, name: str) -> str:
    return f"{handle.layout.tag_success_dir}/{name}_SUCCESS"


def _created_ms(handle: TableHandle, path: str, now_ms: int) -> int:
    """When the file was first created; `now_ms` when it is new or not readable."""
    data = find_bytes(handle.store, path)
    found = None if data is None else find_object(data, lambda raw: int(raw["creationTime"]))
    return now_ms if found is None else found


@dataclass(frozen=True, slots=True)
class Guards:
    """Guard tags to create for one branch.

    Attributes:
        names: the guard's name by the branch that has it, for the `FORK` file.
        steps: create them.
        released: guards that are overwritten, left by a branch of the same name that another engine deleted.
    """

    names: Mapping[str, str]
    steps: tuple[Put, ...]
    released: tuple[Root, ...]


def guard_put(on_branch: TableHandle, branch: str, snapshot: Snapshot) -> Put:
    """Create the guard tag of `branch` on a branch."""
    path = on_branch.layout.tag_path(guard_name(branch))
    return Put(relative_path(on_branch, path), snapshot_file.encode(snapshot).decode())


def plan_guards(handle: TableHandle, branch: str, snapshot: Snapshot | None) -> Guards:
    """Plan guards on the handle's branch and its parents, up to main, for a branch created from `snapshot`.

    An empty branch, for which it is None, needs none.
    A parent on which that snapshot has expired gets no guard; the doctor reports it.
    """
    names: dict[str, str] = {}
    steps: list[Put] = []
    released: list[Root] = []
    if snapshot is None:
        return Guards({}, (), ())
    child = handle
    for name, snapshot_id in ancestry(handle, snapshot.id):
        parent = handle.on_branch_directory(name)
        base = (
            snapshot
            if snapshot_id == snapshot.id
            else find_known_snapshot(parent, snapshot_id) or find_known_snapshot(child, snapshot_id)
        )
        child = parent
        if base is None:
            continue
        names[name] = guard_name(branch)
        steps.append(guard_put(parent, branch, base))
        old = find_tag(parent, guard_name(branch))
        if old is not None and old.snapshot != base:
            released.append(Root(RootKind.TAG, parent.layout.directory_branch, old.name, old.snapshot))
    return Guards(names, tuple(steps), tuple(released))


def create_on_server(handle: TableHandle, branch: str, guards: Guards) -> tuple[CreateOnServer, ...]:
    """The step that lets a server create a branch, from the guard that main has by then; none without a server."""
    if server_of(handle.store) is None:
        return ()
    if handle.branch != MAIN:
        refuse_on_server(handle, "a branch", "create the branch from main")
    return (CreateOnServer(branch, guards.names.get(MAIN, "")),)


def find_known_snapshot(handle: TableHandle, snapshot_id: int) -> Snapshot | None:
    """The snapshot of the branch, alive or in a tag; None when it has expired."""
    found = find_snapshot(handle, snapshot_id)
    if found is not None:
        return found
    tag = tag_of_snapshot(handle, snapshot_id)
    return None if tag is None else tag.snapshot


def tag_source(handle: TableHandle, snapshot_id: int | None) -> Snapshot:
    """The snapshot to tag: the head for None, else the one of that id, as `known_snapshot`."""
    if snapshot_id is None:
        head = latest_snapshot(handle)
        if head is None:
            raise SnapshotNotFoundError(
                f"{handle.describe()} has no snapshot yet, so there is nothing to tag; write rows first",
                **handle.context,
            )
        return head
    if isinstance(snapshot_id, bool) or not isinstance(snapshot_id, int):
        raise InvalidInputError(
            f"snapshot_id = {snapshot_id!r} of {handle.describe()} is not a number; give a snapshot id",
            argument="snapshot_id",
        )
    return known_snapshot(handle, snapshot_id)


def known_snapshot(handle: TableHandle, snapshot_id: int) -> Snapshot:
    """The snapshot of the branch, alive or in a tag. Raises SnapshotNotFoundError, SnapshotExpiredError."""
    found = find_known_snapshot(handle, snapshot_id) if snapshot_id > 0 else None
    if found is None:
        raise snapshot_missing(handle, snapshot_id)
    return found


def remove_tag(handle: TableHandle, tag: Tag, kind: str, why: str) -> None:
    """Delete a tag created before, unless it was deleted or replaced meanwhile."""

    def plan(branch: TableHandle) -> TableChange | None:
        found = find_tag(branch, tag.name)
        if found is None or found.snapshot != tag.snapshot:
            return None
        label = f"removal of tag {tag.name!r} on branch {branch.branch!r}, {why}"
        return delete_tags_change(branch, [found], kind, label)

    change_branch(handle, kind, plan)


def check_not_expired(handle: TableHandle, tag: Tag) -> None:
    """Check that no other engine expired a new tag's snapshot; otherwise delete the tag, as files may be gone.

    One small read in the usual case. Raises SnapshotExpiredError.
    """
    snapshot = tag.snapshot
    if same_snapshot(find_snapshot(handle, snapshot.id), snapshot):
        return
    handle = reopened(handle)
    if same_snapshot(find_snapshot(handle, snapshot.id), snapshot):
        return
    if any(same_snapshot(t.snapshot, snapshot) for t in list_tags(handle) if t.name != tag.name):
        return

    remove_tag(handle, tag, "create-tag", "whose snapshot expired")
    raise SnapshotExpiredError(
        f"snapshot {snapshot.id} of {handle.describe()} expired while tag {tag.name!r} was created from it, so the tag "
        "was deleted again; tag a later snapshot",
        **handle.context,
        snapshot_id=snapshot.id,
        tag=tag.name,
    )


_LOG = get_logger(__name__)


def keep_rebase(target: TableHandle, made: int, on_branch: TableHandle, held: Snapshot) -> None:
    """Keep the commit `made` of a rebase, and the snapshot `held` of the branch that it holds.

    Raises no error of this package: the rebase is done, and the branch records that it was begun.
    """
    name = rebase_guard_name(on_branch.branch)

    def plan(now: TableHandle) -> TableChange | None:
        commit = find_snapshot(now, made)
        own = find_snapshot(on_branch, held.id)
        if commit is None or not same_snapshot(own, held) or not branch_exists(now, on_branch.branch):
            return None
        steps: list[Step] = []
        released: list[Root] = []
        for place, snapshot in ((now, commit), (reopened(on_branch), held)):
            old = find_tag(place, name)
            if old is not None and same_snapshot(old.snapshot, snapshot):
                continue
            steps.append(put_tag(place, Tag(name, snapshot)))
            if old is not None:
                released.append(Root(RootKind.TAG, place.layout.directory_branch, name, old.snapshot))
        return TableChange(
            "keep-rebase", f"guards of the rebase of branch {on_branch.branch!r}", tuple(steps), tuple(released)
        )

    try:
        change_branch(target, "keep-rebase", plan)
    except PaimonError as e:
        _LOG.warning("the snapshots of the rebase of %s are not kept: %s", on_branch.describe(), e)
