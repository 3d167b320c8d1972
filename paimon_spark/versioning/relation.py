"""Relate two versions: what their histories share, and whether one follows the other.

Other engines may splice two histories (a fast-forward that copies over existing files, a commit while main is
replaced); then neighbouring snapshots do not follow each other.
"""

from __future__ import annotations

from typing import NamedTuple

from paimon_spark.errors import FileMissingError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.branches import ancestry, is_main, newest_shared, read_fork, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.manifests import read_manifest_list
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


def contradicts(before: Snapshot, after: Snapshot) -> bool:
    """Whether the row counts of both show that `after` was not made on `before`. Reads nothing."""
    return not after.may_follow(before.total_record_count)


def follows(handle: TableHandle, before: Snapshot, after: Snapshot) -> bool | None:
    """Whether `after` was made on `before`; None when unknown. Reads three manifest lists."""
    if after.id != before.id + 1 or contradicts(before, after):
        return False
    try:
        added = _names(handle, before.delta_manifest_list)
        base = _names(handle, after.base_manifest_list)
        if added and added <= base:
            return True
        earlier = _names(handle, before.base_manifest_list)
        if earlier | added <= base:
            return True
    except FileMissingError:
        return None
    # A commit may merge manifests into new ones: then there are fewer, or all are new.
    rewritten = len(base) > 1 and not base & (earlier | added)
    return None if rewritten or len(base) < len(earlier | added) else False


def _names(handle: TableHandle, manifest_list: str) -> set[str]:
    return {m.file_name for m in read_manifest_list(handle, manifest_list)}
