"""Publishing a branch as main, and the doctor, as methods of Table. Only forwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from paimon_spark.display.values import ShownList
from paimon_spark.jobs.branch_access import at_head
from paimon_spark.metadata.handle import TableHandle

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.versioning.doctor.findings import Finding
    from paimon_spark.versioning.merge import MergeResult
    from paimon_spark.versioning.replace_main import ReplaceResult


class MergeVerbs:
    """What `Table` inherits."""

    __slots__ = ()

    handle: TableHandle

    def merge_branch(
        self, name: str, *, snapshot: int | str | None = None, backup: bool = True, dry_run: bool = False
    ) -> MergeResult:
        """Make a branch's history main's: its snapshots, tags and schemas after the point where it left main.

        What main has after that point goes. Unless `backup` is False it is kept as a branch, which the result names.
        Readers see main as it was or as it will be; commits to main at this moment fail with a conflict, or are kept.
        The branch lives on, independent, and may be merged again. Consumers of main stay as they are.

        Nothing happens to a branch of which main has every commit already, as one that nothing was written to, or that
        was merged before: the result says `already_merged`. So a merge may be repeated while main goes on.

        Args:
            name: the branch.
            snapshot: a snapshot id, tag or version of the branch: publish exactly that, and nothing after it.
            backup: keep what main loses. Without it, files that nothing needs any more are deleted at once.
            dry_run: only tell what would move, be discarded and be deleted.

        Raises:
            BranchNotFoundError: there is no such branch.
            InvalidInputError: the branch is empty, or main itself; this is not main; the snapshot is none of the
                branch after the point where it left main.
            OperationInProgressError: another process is changing the table's tags or branches.
            UnsafeDeletionError: it cannot be told what is still needed; nothing was changed.
        """
        from paimon_spark.versioning.merge import merge_branch

        return merge_branch(at_head(cast("Table", self)), name, snapshot=snapshot, backup=backup, dry_run=dry_run)

    def fast_forward(
        self, name: str, *, snapshot: int | str | None = None, backup: bool = True, dry_run: bool = False
    ) -> MergeResult:
        """Make main what a branch is, as Paimon's fast-forward does: also when that takes main back.

        Differs from `merge_branch` where main has every commit of the branch and more: main goes back to the branch's
        head, and what it had after that is kept as a branch, unless `backup` is False. Main also gets the branch's
        tags from before the point where it left main, where their names are free.

        Args:
            name: the branch.
            snapshot: a snapshot id, tag or version of the branch: main becomes exactly that, and nothing after it.
            backup: keep what main loses. Without it, files that nothing needs any more are deleted at once.
            dry_run: only tell what would move, be discarded and be deleted.

        Raises:
            As `merge_branch`. A branch without snapshots is refused, as Paimon does.
        """
        from paimon_spark.versioning.merge import fast_forward

        return fast_forward(at_head(cast("Table", self)), name, snapshot=snapshot, backup=backup, dry_run=dry_run)

    def replace_main(self, name: str, *, backup: bool = True, dry_run: bool = False) -> ReplaceResult:
        """Make `main` mean a branch: what it needs of the former main is copied to it, and the former main goes.

        Jobs on the branch are not disturbed, and its own name keeps working. What the former main had after the branch
        left it is kept as a branch unless `backup` is False. Java Paimon 0.9 and newer does not read the file
        `MAIN-BRANCH` that says so, and finds no main in this table any more; the result says it too.

        Args:
            name: the branch.
            backup: keep what the former main had after the branch left it.
            dry_run: only tell what would be copied, discarded and deleted.

        Raises:
            As `merge_branch`.
        """
        from paimon_spark.versioning.replace_main import replace_main

        return replace_main(at_head(cast("Table", self)), name, backup=backup, dry_run=dry_run)

    def doctor(self, *, repair: bool = False) -> list[Finding]:
        """What is wrong with the table's refs: what other engines left or broke, and what nothing protects from them.

        Reads metadata only: the refs, the manifest lists that they name, and one listing of each directory.

        Args:
            repair: mend what can be mended without losing anything; the findings say what was.

        Raises:
            OperationInProgressError: with `repair`, another process is changing the table's tags or branches.
        """
        from paimon_spark.versioning.doctor.diagnose import diagnose

        handle = at_head(cast("Table", self))
        return ShownList(diagnose(handle, repair=repair), f"Doctor on table {handle.name}")
