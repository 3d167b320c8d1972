"""Relate two versions: what their histories share, and how many commits only one has."""

from __future__ import annotations

from typing import NamedTuple

from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.branches import ancestry, is_main, newest_shared, read_fork, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.snapshots import find_snapshot


class Relation(NamedTuple):
    """How a new version is related to an old one.

    Attributes:
        common: id of the newest snapshot that both histories share; None when they share none, or none is known.
        ahead, behind: commits that only the new, and only the old version has; None when unknown.
    """

    common: int | None
    ahead: int | None
    behind: int | None


def relation(
    old: TableHandle, old_snapshot: Snapshot | None, new: TableHandle, new_snapshot: Snapshot | None
) -> Relation:
    """The relation of two snapshots, each on its branch; None is a branch without any."""
    if old_snapshot is None or new_snapshot is None:
        return Relation(None, new_snapshot.id if new_snapshot else 0, old_snapshot.id if old_snapshot else 0)
    if same_snapshot(old_snapshot, new_snapshot):
        return Relation(new_snapshot.id, 0, 0)
    trails = [dict(ancestry(h, s.id)) for h, s in ((old, old_snapshot), (new, new_snapshot))]
    common = max((min(newest, trails[1][name]) for name, newest in trails[0].items() if name in trails[1]), default=0)
    if common and not _holds(common, old, old_snapshot, new, new_snapshot):
        shared = newest_shared(old, new)
        common = 0 if shared is None else min(shared.id, old_snapshot.id, new_snapshot.id)
    if common:
        return Relation(common, new_snapshot.id - common, old_snapshot.id - common)
    if any(_began_empty(handle) for handle in (old, new)):
        return Relation(None, new_snapshot.id, old_snapshot.id)
    return Relation(None, None, None)


def _holds(common: int, old: TableHandle, old_snapshot: Snapshot, new: TableHandle, new_snapshot: Snapshot) -> bool:
    """Whether both histories may share the snapshot, as far as it exists: histories may have been replaced."""
    found = [
        snapshot if snapshot.id == common else find_snapshot(handle, common)
        for handle, snapshot in ((old, old_snapshot), (new, new_snapshot))
    ]
    return None in found or same_snapshot(*found)


def _began_empty(handle: TableHandle) -> bool:
    """Whether the branch was created without a snapshot, by its `FORK` file."""
    if is_main(handle) or handle.branch == MAIN:
        return False
    fork = read_fork(handle)
    return fork is not None and fork.snapshot_id is None
