"""Rebase: put what a branch changed since the fork on top of main, as one commit.

Tables with a primary key are compared by key, from the fork to the branch's head and from the fork to main's. The rows
that the branch changed are written to main; a key that both changed to different rows is a conflict. Of append tables
the rows of files that the branch added are written to main, and files that it removed are removed.

The commit says in a property which snapshot of the branch it holds, so that the next rebase begins there. Java's
`Snapshot.Operation` has no rebase, so that the operation is WRITE.
"""

from __future__ import annotations

from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.jobs.branch_access import at_head
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.rebase_files import rebase_files
from paimon_spark.jobs.rebase_keys import CHOICES, FAIL, rebase_keys
from paimon_spark.jobs.rebase_sides import check_alike, find_sides
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import same_snapshot
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.versioning.merge import REFUSE, MergeResult, merge_branch
from paimon_spark.versioning.publish import read_publication


def rebase(
    table: OpenedTable,
    name: str,
    *,
    snapshot: int | str | None = None,
    on_conflict: str = FAIL,
    checks: object = None,
    dry_run: bool = False,
) -> MergeResult:
    """Put the changes of a branch on top of main, as `Table.merge_branch`; a plain merge where main has not moved."""
    if on_conflict not in CHOICES:
        raise InvalidInputError(f"on_conflict={on_conflict!r}: expected {', '.join(CHOICES)}", argument="on_conflict")
    if checks is not None:
        raise UnsupportedFeatureError(
            "checks of a rebase are not supported, as its rows exist only once they are on main; check the branch with "
            "Table.check first",
            feature="checks of a rebase",
        )
    handle = at_head(table)
    publication = read_publication(handle, name, "the rebase", snapshot=snapshot, backup=False, now_ms=0)
    if publication.changes_nothing or not publication.commits_of_main:
        return merge_branch(handle, name, snapshot=snapshot, if_main_moved=REFUSE, dry_run=dry_run)
    sides = find_sides(handle, name, publication.source.head)
    if same_snapshot(sides.base.snapshot, sides.theirs.snapshot):
        head = latest_snapshot(sides.main)
        assert head is not None
        return MergeResult(name, sides.fork.id, head.id, already_merged=True, removed=Removed(dry_run=dry_run))
    check_alike(sides)
    if sides.main.schema.primary_keys:
        return rebase_keys(table, sides, on_conflict, dry_run=dry_run)
    return rebase_files(table, sides, dry_run=dry_run)
