"""Purge a table: delete rows, history, tags and branches, and keep its definition.

Source: Java `FileStoreTable.purgeFiles`. Unlike there, orphan files stay: running writes may need them.
"""

from __future__ import annotations

from dataclasses import replace

from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.errors import InvalidInputError
from paimon_spark.maintenance.change import change_table
from paimon_spark.maintenance.removal import Removed, plan_removal
from paimon_spark.maintenance.roots import all_roots, branch_directories
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.change import (
    DeleteFile,
    DeleteFiles,
    DeleteTree,
    Put,
    Root,
    RootKind,
    Step,
    TableChange,
    relative_path,
)
from paimon_spark.metadata.layout import EARLIEST, LATEST, MAIN, SCHEMA_PREFIX, SNAPSHOT_PREFIX
from paimon_spark.metadata.schemas import HANDOVER, Handover, encode_handover, list_schema_ids
from paimon_spark.metadata.snapshots import latest_snapshot

KIND = "purge"


def purge(handle: TableHandle, *, dry_run: bool = False) -> Removed:
    """Delete all rows, snapshots but an empty one, changelogs, tags, consumers and branches of a table."""
    _check(handle)
    if dry_run:
        return replace(plan_removal(handle, all_roots(handle), []), dry_run=True)
    if latest_snapshot(handle) is not None:
        Committer(handle, new_commit_user(handle.options)).truncate()
    return change_table(handle, KIND, lambda: _plan(handle))


def _check(handle: TableHandle) -> None:
    if handle.branch != MAIN:
        raise InvalidInputError(
            f"cannot purge {handle.describe()}: purge deletes all branches; call it on main, or delete the branch",
            table=handle.name,
            branch=handle.branch,
        )
    fallback = handle.schema.options.get("scan.fallback-branch")
    if fallback is not None:
        raise InvalidInputError(
            f"cannot purge table {handle.name}: its option scan.fallback-branch names branch {fallback!r}, which would "
            "be deleted; unset the option first",
            table=handle.name,
            branch=fallback,
        )


def _plan(handle: TableHandle) -> TableChange:
    # Orphan files stay, as they may be those of running writes; Paimon's purge deletes them.
    roots = all_roots(handle)
    main = handle.layout.directory_branch
    head = latest_snapshot(handle)
    stays = [r for r in roots if _is_snapshot_of(r, main) and head is not None and r.snapshot.id >= head.id]
    released = [r for r in roots if r not in stays]
    branches = branch_directories(handle)
    own = next(b for b in branches if b.branch == main)
    steps: list[Step] = []
    for branch in branches:
        if branch.branch not in (MAIN, main):
            directory = relative_path(handle, branch.layout.branch_root)
            # Delete the schemas before the file that hides them: a directory without a schema is not a branch.
            schemas = [f"{directory}/schema/{SCHEMA_PREFIX}{i}" for i in list_schema_ids(branch.store, branch.layout)]
            hidden = (
                [Put(f"{directory}/schema/{HANDOVER}", encode_handover(Handover(None)).decode())] if schemas else []
            )
            steps += [*hidden, DeleteFiles(tuple(schemas)), DeleteTree(directory)]
    if main != MAIN:
        steps += [DeleteTree(name) for name in ("snapshot", "tag", "changelog", "consumer")]
    for directory in (own.layout.tag_dir, own.layout.consumer_dir, own.layout.changelog_dir):
        steps.append(DeleteTree(relative_path(handle, directory)))
    gone = sorted((r for r in released if _is_snapshot_of(r, main)), key=lambda r: r.snapshot.id)
    snapshots = relative_path(handle, own.layout.snapshot_dir)
    if gone and head is not None:
        steps.append(DeleteFiles(tuple(f"{snapshots}/{SNAPSHOT_PREFIX}{r.name}" for r in gone)))
        steps.append(Put(f"{snapshots}/{EARLIEST}", str(head.id)))
    elif head is None:
        steps += [DeleteFile(f"{snapshots}/{LATEST}"), DeleteFile(f"{snapshots}/{EARLIEST}")]
    return TableChange(KIND, f"purge of table {handle.name}", tuple(steps), tuple(released))


def _is_snapshot_of(root: Root, branch: str) -> bool:
    return root.kind is RootKind.SNAPSHOT and root.branch_directory == branch
