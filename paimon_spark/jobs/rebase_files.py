"""Rebase of append tables: add the files that the branch added, remove those it removed."""

from __future__ import annotations

from paimon_spark.engine.commit.changes import Changes
from paimon_spark.engine.commit.committer import Committer, new_commit_user
from paimon_spark.engine.commit.entries import live_at, no_entries, numbers, of_kind, together
from paimon_spark.engine.commit.requests import AppendBranch, ChangeRows
from paimon_spark.errors import BranchDivergedError
from paimon_spark.format.metadata_files.manifest import FileKind
from paimon_spark.jobs.rebase_sides import Sides, unsupported
from paimon_spark.maintenance.change import change_branch
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.metadata.vector_files import vector_files
from paimon_spark.text import counted
from paimon_spark.versioning.append_branch import check_schemas, missing_files, without_row_ids
from paimon_spark.versioning.merge import MergeResult


def rebase_files(sides: Sides, *, dry_run: bool) -> MergeResult:
    """Append tables: add the files that the branch added, remove those that it removed."""
    done: list[MergeResult] = []
    # Nobody deletes files of the branch meanwhile.
    change_branch(sides.main, "rebase", lambda main: done.append(_files(main, sides, dry_run=dry_run)))
    return done[0]


def _files(main: TableHandle, sides: Sides, *, dry_run: bool) -> MergeResult:
    if main.options.data_evolution:
        raise unsupported(sides, "it has data-evolution.enabled, and files of such tables share row ids")
    versions = (sides.base, sides.theirs)
    vectors = [{e.file_name for es in vector_files(v.handle, v.snapshot).values() for e in es} for v in versions]
    if vectors[0] != vectors[1]:
        raise unsupported(sides, "rows were deleted on the branch by deletion vectors")
    before, after = (live_at(v.handle, v.snapshot) for v in versions)
    head = latest_snapshot(main)
    now = live_at(main, head)
    added, gone = missing_files(missing_files(after, before), now), missing_files(before, after)
    lost = missing_files(gone, now)
    if len(lost):
        raise BranchDivergedError(
            f"{sides.what} was not rebased: main no longer has {counted(len(lost), 'file')} that the branch removed or "
            "rewrote, as they were compacted or rewritten there, too; pass if_main_moved='replace', or make the same "
            "change on main",
            table=main.name,
            branch=sides.branch,
        )
    check_schemas(sides.theirs.handle, main, added)
    rows = int(numbers(added, "row_count").sum()) + int(numbers(gone, "row_count").sum())
    assert head is not None
    result = MergeResult(sides.branch, sides.fork.id, head.id, rebased_rows=rows, removed=Removed(dry_run=dry_run))
    if dry_run:
        return result
    if main.options.row_tracking:
        added = without_row_ids(added)
    request = ChangeRows if len(gone) else AppendBranch
    changes = Changes(together(of_kind(gone, FileKind.DELETE), of_kind(added, FileKind.ADD)), no_entries())
    committer = Committer(main, new_commit_user(main.options))
    made = committer.make(request(changes=changes, properties=sides.properties, operation="WRITE")).snapshots[0]
    return MergeResult(sides.branch, sides.fork.id, made.id, rebased_rows=rows)
