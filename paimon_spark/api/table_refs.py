"""Savepoints, branches and rolling back, as methods of Table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from paimon_spark.api.checks import checked, rebased
from paimon_spark.jobs.branch_access import at_head, head_to_read
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.version import one_version

if TYPE_CHECKING:
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.branches import Branch
    from paimon_spark.metadata.tags import Savepoint
    from paimon_spark.versioning.append_branch import Appended
    from paimon_spark.versioning.checks import Checks
    from paimon_spark.versioning.merge import MergeResult
    from paimon_spark.versioning.replace_main import ReplaceResult
    from paimon_spark.versioning.rollback import Restored, RolledBack
    from paimon_spark.versioning.undo import Undone


class TableRefs(OpenedTable):
    """Methods of `Table` for savepoints and branches."""

    __slots__ = ()

    def create_savepoint(self) -> Savepoint:
        """Compact the branch fully and keep the resulting snapshot until the savepoint is deleted.

        It is the tag `savepoint-<id>`, which every Paimon engine respects. When nothing was written since the last
        savepoint, that one is returned. Large tables are compacted by a Spark job when this process has a session.

        Raises:
            SnapshotNotFoundError: the branch has no snapshot yet.
            UnsupportedFeatureError: the table cannot be compacted.
            CommitError: other commits won every attempt.
        """
        from paimon_spark.jobs.compaction import compact_fully
        from paimon_spark.versioning.savepoints import create_savepoint

        return create_savepoint(at_head(self), compact=compact_fully)

    def delete_savepoint(self, id: int, *, dry_run: bool = False) -> Removed:
        """Delete a savepoint, and the files that nothing else of the table needs.

        Args:
            id: of the savepoint, which is that of its snapshot.
            dry_run: only return what would be deleted.

        Raises:
            SavepointNotFoundError: there is no savepoint of this id.
        """
        from paimon_spark.versioning.savepoints import delete_savepoint

        return delete_savepoint(at_head(self), id, dry_run=dry_run)

    def rollback_to(self, version: str | int, *, backup: bool = False, dry_run: bool = False) -> RolledBack:
        """Roll the branch back to a version; later snapshots, tags and savepoints of the branch are deleted.

        Files that nothing else of the table needs are deleted too. Schemas and consumers stay. Branches created from
        later snapshots stay whole.

        Args:
            version: a snapshot id, or text as in `at` that means a snapshot of this branch.
            backup: keep main's later snapshots, changelogs and tags as a branch `main_backup_<time>`, which `undo`
                restores. On main only.
            dry_run: only return what would be deleted.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: it is on another branch, or not in the history of this one; or `backup` on a branch
                that is not main.
        """
        from paimon_spark.versioning.rollback import rollback_to

        return rollback_to(at_head(self), version, backup=backup, dry_run=dry_run)

    def undo(self, *, if_main_moved: Literal["refuse", "replace"] = "refuse", dry_run: bool = False) -> Undone:
        """Undo the newest merge, fast-forward, replacement or rollback of main that kept a backup branch.

        Main gets its former history back, tags included. What the operation brought is kept as a new backup branch,
        so a second `undo` restores it. After `replace_main`, `main` still means the same directory.

        Args:
            if_main_moved: what happens when main has commits after the operation, compactions aside: `refuse`, or
                `replace`, which keeps them in the new backup branch.
            dry_run: only return what would be done.

        Raises:
            BranchDivergedError: main has moved, and `if_main_moved` is `refuse`; nothing was changed.
            InvalidInputError: there is nothing to undo, the backup was written to, or the table was
                opened on a branch or at a version.
        """
        from paimon_spark.versioning.undo import undo

        return undo(at_head(self), if_main_moved=if_main_moved, dry_run=dry_run)

    def rollback_to_as_latest(self, version: str | int) -> Restored:
        """Restore the state of an earlier version by a new snapshot; the history is kept.

        Args:
            version: a snapshot id, or text as in `at` that means a snapshot of this branch.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: it is on another branch.
            CommitError: other commits won every attempt, or it is unknown whether the commit succeeded.
        """
        from paimon_spark.versioning.rollback import rollback_to_as_latest

        return rollback_to_as_latest(at_head(self), version)

    def create_branch(
        self,
        name: str,
        *,
        tag: str | None = None,
        snapshot_id: int | None = None,
        version: str | int | None = None,
        snapshot: str | int | None = None,
        empty: bool = False,
        ignore_if_exists: bool = False,
    ) -> Branch:
        """Create a branch from the head of this branch, from a tag, snapshot or version, or an empty one.

        No data is read or copied. A guard tag keeps the base from expiry, also by other engines.

        Args:
            name: not blank, not a number, without dots and slashes, and not a keyword of versions.
            tag: the tag to start from.
            snapshot_id: the snapshot to start from; it may have expired when a tag keeps it.
            version: the version to start from, of any branch, as in `at`: `fix.v1`, `fix`, `3`.
            snapshot: the same as `version`.
            empty: start without rows, with the columns and options of this branch.
            ignore_if_exists: do nothing if the branch exists.

        Raises:
            InvalidInputError: the name is invalid, or more than one start is given.
            BranchAlreadyExistsError: there is such a branch, or what another engine left of one.
            TagNotFoundError, SnapshotNotFoundError, SnapshotExpiredError: there is no such tag or snapshot.
            VersionNotFoundError: there is no such version.
        """
        from paimon_spark.versioning.branches import create_branch

        version = one_version(version, snapshot, "snapshot")
        return create_branch(
            head_to_read(self) if self.lacked is not None and self.lacked.name == name else at_head(self),
            name,
            tag=tag,
            snapshot_id=snapshot_id,
            version=version,
            empty=empty,
            ignore_if_exists=ignore_if_exists,
        )

    def rename_branch(self, old: str, new: str) -> None:
        """Rename a branch of the table. Jobs on the old name fail with BranchNotFoundError.

        Raises:
            BranchNotFoundError: there is no branch `old`.
            BranchAlreadyExistsError: there is a branch `new`.
            InvalidInputError: a name is refused, `old` is main, or an option of another branch names it.
        """
        from paimon_spark.versioning.branches import rename_branch

        rename_branch(at_head(self), old, new)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> Removed:
        """Delete a branch of the table, and the files that only it used. Branches created from it stay whole.

        Args:
            name: of the branch.
            dry_run: only return what would be deleted.

        Raises:
            BranchNotFoundError: there is no such branch.
            InvalidInputError: it is main, or an option of another branch names it.
        """
        from paimon_spark.versioning.branches import delete_branch

        return delete_branch(at_head(self), name, dry_run=dry_run)

    def append_branch(self, source: str, *, target: str = "main") -> Appended:
        """Add the files appended to branch `source` since it was created to `target`, as one snapshot.

        Append tables only, and both branches must have had only appends since they diverged.

        Raises:
            BranchNotFoundError: there is no such branch.
            InvalidInputError: the branches are the same, empty, of different columns, or were not only appended to.
            UnsupportedFeatureError: the table has primary keys or data evolution.
            CommitError: the snapshot was not created.
        """
        from paimon_spark.versioning.append_branch import append_branch

        return append_branch(at_head(self), source, target)

    def merge_branch(
        self,
        name: str,
        *,
        snapshot: int | str | None = None,
        if_main_moved: Literal["refuse", "replace", "rebase"] = "refuse",
        only_if_main_is: int | None = None,
        on_conflict: Literal["fail", "ours", "theirs", "newest"] = "fail",
        target: str = MAIN,
        checks: Checks | None = None,
        backup: bool = True,
        dry_run: bool = False,
    ) -> MergeResult:
        """Publish a branch as main: its snapshots, tags and schemas after the fork become main's.

        Refused when main has schemas, tags, or commits other than compactions after the fork, unless `if_main_moved`
        says otherwise. With `replace` they are kept as a branch, which the result names, unless `backup` is False.
        Readers see main before or after the merge; concurrent commits to main fail, or are kept. The branch stays, and
        may be merged again. With `rebase`, main keeps its history, and what the branch changed since the fork or its
        last rebase is one commit on top. When main has every commit of the branch, nothing changes (`already_merged`).

        Args:
            name: the branch.
            snapshot: a snapshot id, tag or version of the branch: publish up to that.
            if_main_moved: `refuse`, `replace` main's commits by the branch, or `rebase` its changes on top of them.
            only_if_main_is: publish only while this snapshot is main's head, which a compaction moves, too.
            on_conflict: whose row a key gets that both changed: `fail`, `ours` (main's), `theirs`, the `newest` by
                sequence field or head; in append tables, rows that main has got, too, are left out or added.
            target: the branch that gets the changes; another one than main only with `rebase`.
            checks: as of `Table.check`, on the rows to be published; the property `paimon-spark.checks` names them.
            backup: keep what main loses as a backup branch. Without it, files that nothing else needs are deleted.
            dry_run: only return what would move, be discarded and be deleted.

        Raises:
            BranchNotFoundError: there is no such branch.
            BranchDivergedError: main has commits of its own, or another head; or a rebase found conflicts.
            CommitConflictError, UnsupportedFeatureError: a rebase is not possible.
            CheckFailedError: a check found rows. After each error nothing was changed.
            InvalidInputError: the branch is empty, or main itself; this is not main; `snapshot` is not after the fork.
            OperationInProgressError, UnsafeDeletionError: another process changes branches; what is needed is unknown.
        """
        from paimon_spark.versioning.merge import REBASE, check_only_if, check_ways, merge_branch

        check_ways(if_main_moved, on_conflict, target)
        check_only_if(only_if_main_is, target)
        if if_main_moved == REBASE:
            return rebased(self, name, target, snapshot, on_conflict, checks, only_if_main_is, dry_run=dry_run)
        handle = at_head(self)
        snapshot, properties = checked(self, name, snapshot, checks)
        return merge_branch(
            handle,
            name,
            snapshot=snapshot,
            if_main_moved=if_main_moved,
            only_if_main_is=only_if_main_is,
            backup=backup,
            dry_run=dry_run,
            properties=properties,
        )

    def fast_forward(
        self,
        name: str,
        *,
        snapshot: int | str | None = None,
        checks: Checks | None = None,
        backup: bool = True,
        dry_run: bool = False,
    ) -> MergeResult:
        """Make main equal to a branch, as Paimon's fast-forward does, even when that takes main back.

        Differs from `merge_branch` where main has commits of its own: it always replaces them. Where main has every
        commit of the branch and more, main goes back to the branch's head. What main had after that is kept as a
        branch, unless `backup` is False. Main also gets the branch's tags from before the fork, where their names are
        free.

        Args:
            name: the branch.
            snapshot: a snapshot id, tag or version of the branch: main ends there.
            checks: as of `merge_branch`.
            backup: keep what main loses as a backup branch. Without it, files that nothing else needs are deleted.
            dry_run: only return what would move, be discarded and be deleted.

        Raises:
            As `merge_branch`. A branch without snapshots is refused, as in Paimon.
        """
        from paimon_spark.versioning.merge import merge_branch

        handle = at_head(self)
        snapshot, properties = checked(self, name, snapshot, checks)
        return merge_branch(
            handle, name, snapshot=snapshot, backup=backup, dry_run=dry_run, takes_back=True, properties=properties
        )

    def replace_main(self, name: str, *, backup: bool = True, dry_run: bool = False) -> ReplaceResult:
        """Replace main by a branch: what it needs of the former main is copied, and the former main is deleted.

        Jobs on the branch go on, and its own name keeps working. What the former main had after the fork is kept as a
        branch unless `backup` is False. Java Paimon 0.9 and newer does not read the file `MAIN-BRANCH`, and no longer
        finds a main in this table; the result says so.

        Args:
            name: the branch.
            backup: keep what the former main had after the fork.
            dry_run: only return what would be copied, discarded and deleted.

        Raises:
            As `merge_branch`.
        """
        from paimon_spark.versioning.replace_main import replace_main

        return replace_main(at_head(self), name, backup=backup, dry_run=dry_run)
