"""The versions that a rebase compares: the branch, main, and where they parted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_spark.engine.row_diff.versions import UNIT_SPLITS
from paimon_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from paimon_spark.format.json_files import find_object
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.jobs.batch_write import WriteJob, place_of, plan_write
from paimon_spark.jobs.lineage_port import CommitLineage, rebase_commit
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import ancestry, newest_shared, same_snapshot, snapshot_identity
from paimon_spark.metadata.handle import TableHandle, open_branch, open_table
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.snapshots import find_snapshot, latest_snapshot, list_snapshots
from paimon_spark.metadata.tags import list_tags
from paimon_spark.metadata.version import VersionKind, VersionSpec
from paimon_spark.options.write_request import WriteMode, parse_batch_write_options
from paimon_spark.versioning.branches import check_branch_exists
from paimon_spark.versioning.merge import REBASE_PROPERTY, MergeResult


@dataclass(frozen=True, slots=True)
class Sides:
    """The versions that a rebase compares.

    Attributes:
        base, main_base: what the branch changed since, and what main changed since: the fork, or the snapshots of the
            last rebase.
        theirs: the version of the branch.
        fork: the newest snapshot that both histories share, the branch through those that it was created from.
    """

    main: TableHandle
    branch: str
    base: Resolved
    main_base: Resolved
    theirs: Resolved
    fork: Snapshot

    @property
    def what(self) -> str:
        """The branch, for messages."""
        return f"branch {self.branch!r} of table {self.main.name}"

    @property
    def properties(self) -> dict[str, str]:
        """Of the commit."""
        assert self.theirs.snapshot is not None
        held = list(snapshot_identity(self.theirs.snapshot))
        return {REBASE_PROPERTY: json.dumps({"branch": self.branch, "snapshot": held})}

    def lineage(self, handle: TableHandle) -> CommitLineage:
        """Of the commit to `handle`."""
        base, theirs = self.base.snapshot, self.theirs.snapshot
        assert theirs is not None
        return rebase_commit(handle, self.branch, 0 if base is None else base.id, theirs.id)


def find_sides(handle: TableHandle, name: str, head_id: int) -> Sides:
    """The versions for a rebase of a branch, up to its snapshot `head_id`.

    Raises InvalidInputError: it shares no snapshot with main, or the one it shares has expired.
    """
    main = open_table(handle.store, handle.layout.root, MAIN, handle.name, UNIT_SPLITS)
    check_branch_exists(main, name)
    on_branch = open_branch(main, name)
    fork = _common_ancestor(main, on_branch, head_id)
    if fork is None:
        raise InvalidInputError(
            f"branch {name!r} of table {main.name} shares no snapshot with main, so it is unknown what it changed; "
            "insert its rows into main",
            table=main.name,
            branch=name,
        )
    theirs = resolve(on_branch, VersionSpec(VersionKind.SNAPSHOT, head_id))
    held = _last_rebase(main, on_branch, fork)
    if held is not None:
        return Sides(main, name, held[0], held[1], theirs, fork)
    base = _base(main, on_branch, fork)
    return Sides(main, name, base, base, theirs, fork)


def _common_ancestor(main: TableHandle, on_branch: TableHandle, head_id: int) -> Snapshot | None:
    """The newest snapshot that a branch shares with main, itself or through the branches that it was created from."""
    shared = newest_shared(on_branch, main)
    if shared is not None:
        return shared
    for name, left_at in ancestry(on_branch, head_id)[1:]:
        if name == MAIN:
            return None
        shared = newest_shared(main.on_branch_directory(name), main)
        if shared is not None:
            # A parent that shares more by now, after a merge, tells nothing about the time of the fork.
            return shared if shared.id <= left_at else None
    return None


def _base(main: TableHandle, on_branch: TableHandle, fork: Snapshot) -> Resolved:
    for handle in (on_branch, main):
        try:
            found = resolve(handle, VersionSpec(VersionKind.SNAPSHOT, fork.id))
        except NotFoundError:
            continue
        if same_snapshot(found.snapshot, fork):
            return found
    for handle in (on_branch, main):  # it has expired, but tags keep it, such as those that guard the bases of branches
        for tag in list_tags(handle):
            if same_snapshot(tag.snapshot, fork):
                return resolve(handle, VersionSpec(VersionKind.TAG, tag.name))
    raise InvalidInputError(
        f"snapshot {fork.id}, where branch {on_branch.branch!r} left main of table {main.name}, has expired, so it is "
        "unknown what the branch changed; pass if_main_moved='replace', or insert its rows into main",
        table=main.name,
        branch=on_branch.branch,
    )


def _last_rebase(main: TableHandle, on_branch: TableHandle, fork: Snapshot) -> tuple[Resolved, Resolved] | None:
    """The snapshots of branch and main at the newest rebase of this branch that both still have."""
    for snapshot in reversed([s for s in list_snapshots(main) if s.id > fork.id]):
        text = (snapshot.properties or {}).get(REBASE_PROPERTY)
        held = None if text is None else find_object(text, _rebased)
        if held is None or held[0] != on_branch.branch:
            continue
        snapshot_id, *lists = held[1]
        found = find_snapshot(on_branch, snapshot_id)
        if found is not None and snapshot_identity(found) == (snapshot_id, *lists):
            at_branch = resolve(on_branch, VersionSpec(VersionKind.SNAPSHOT, snapshot_id))
            return at_branch, resolve(main, VersionSpec(VersionKind.SNAPSHOT, _compacted(main, snapshot).id))
    return None


def _rebased(raw: dict[str, Any]) -> tuple[str, tuple[int, str, str]]:
    """The branch of a rebase, and the identity of its snapshot."""
    snapshot_id, base, delta = raw["snapshot"]
    return str(raw["branch"]), (int(snapshot_id), str(base), str(delta))


def _compacted(main: TableHandle, snapshot: Snapshot) -> Snapshot:
    """The last of the compactions that follow a snapshot directly: they make the rows of some tables visible."""
    following = find_snapshot(main, snapshot.id + 1)
    while following is not None and following.commit_kind is CommitKind.COMPACT:
        snapshot, following = following, find_snapshot(main, following.id + 1)
    return snapshot


def check_alike(sides: Sides) -> None:
    """Check that rows and files of both sides mean the same. Raises UnsupportedFeatureError."""
    main, theirs = sides.main, sides.theirs.handle
    versions = (sides.base.handle.schema, sides.main_base.handle.schema, theirs.schema)
    definition = (main.schema.row_type.fields, main.schema.primary_keys, main.schema.partition_keys)
    if any((s.row_type.fields, s.primary_keys, s.partition_keys) != definition for s in versions):
        raise unsupported(sides, "its columns, or main's, were changed since the fork")
    if main.options.fallback_branch:
        raise unsupported(sides, "its rows come from two branches (scan.fallback-branch)")
    if main.options.bucket != theirs.options.bucket or main.options.merge_engine != theirs.options.merge_engine:
        raise unsupported(sides, "it has another merge-engine or number of buckets than main")


def unchanged(sides: Sides, *, dry_run: bool) -> MergeResult:
    """The result where the branch has no row that it did not have when the two parted, or main has all of it."""
    head = latest_snapshot(sides.main)
    assert head is not None
    return MergeResult(sides.branch, sides.fork.id, head.id, already_merged=True, removed=Removed(dry_run=dry_run))


def plan_rows(table: OpenedTable, schema: pa.Schema) -> WriteJob:
    """The write of rows of `schema` to main."""
    options = parse_batch_write_options({}, WriteMode.APPEND)
    return plan_write(place_of(table, options), options, WriteMode.APPEND, schema)


def unsupported(sides: Sides, why: str) -> UnsupportedFeatureError:
    """The error for tables that cannot be rebased."""
    return UnsupportedFeatureError(
        f"{sides.what} cannot be rebased: {why}; pass if_main_moved='replace', or make the same change on main",
        feature="rebase of such tables",
        table=sides.main.name,
    )
