"""Guard tags as steps: the base of a branch, tagged on every branch that its history passed through.

Paimon's expiry spares the files of the nearest older tag of main, and of nothing else; deleting a tag spares those of
its neighbours on its own branch. They may rely on these as long as all tags of a branch are of its own history: so what
is put on a parent is the parent's snapshot at which the history left it, never the newer one that the branch begins
with. Where Paimon expires a branch it looks at main's tags too, which are of another history: no guard helps there.

Source: Java `operation/FileDeletionBase.createDataFileSkipperForTags`, `AbstractFileStore.newTagManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.maintenance.changes import Put
from paimon_spark.maintenance.roots import Root, RootKind
from paimon_spark.metadata.branches import ancestry
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import find_snapshot
from paimon_spark.metadata.tags import find_tag, guard_name, tag_of_snapshot


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


def relative(handle: TableHandle, path: str) -> str:
    """A path below the table's directory as steps name it."""
    return path.removeprefix(f"{handle.layout.root}/")


def guard_put(on_branch: TableHandle, branch: str, snapshot: Snapshot) -> Put:
    """Tag a snapshot of a branch as the base of `branch`, for ever."""
    path = on_branch.layout.tag_path(guard_name(branch))
    return Put(relative(on_branch, path), snapshot_file.encode(snapshot).decode())


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
