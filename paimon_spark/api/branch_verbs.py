"""Branches as methods of Table: create, rename, delete, append. Only forwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from paimon_spark.jobs.branch_access import at_head
from paimon_spark.metadata.handle import TableHandle

if TYPE_CHECKING:
    from paimon_spark.api.table import Table
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.branches import Branch
    from paimon_spark.versioning.append_branch import Appended


class BranchVerbs:
    """What `Table` inherits."""

    __slots__ = ()

    handle: TableHandle

    def create_branch(
        self, name: str, *, tag: str | None = None, snapshot_id: int | None = None, ignore_if_exists: bool = False
    ) -> Branch:
        """Make a branch that begins with a tag or snapshot of this branch, or an empty one with its schemas.

        Nothing of the data is read or copied. The base is kept from expiry, also that of other engines, by a guard tag.

        Args:
            name: neither blank nor a number, without dots and slashes, no word that versions are written with.
            tag: the tag to begin with.
            snapshot_id: the snapshot to begin with; an expired one, when a tag keeps it.
            ignore_if_exists: leave an existing branch as it is.

        Raises:
            InvalidInputError: the name is refused, or tag and snapshot are two things.
            BranchAlreadyExistsError: there is such a branch, or what another engine left of one.
            TagNotFoundError, SnapshotNotFoundError, SnapshotExpiredError: there is nothing to begin with.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.branches import create_branch

        return create_branch(
            at_head(cast("Table", self)), name, tag=tag, snapshot_id=snapshot_id, ignore_if_exists=ignore_if_exists
        )

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch of the table another name. Jobs on the old one fail with BranchNotFoundError.

        Raises:
            BranchNotFoundError: there is no branch `old`.
            BranchAlreadyExistsError: there is a branch `new`.
            InvalidInputError: a name is refused, `old` is main, or an option of another branch names it.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.branches import rename_branch

        rename_branch(at_head(cast("Table", self)), old, new)

    def delete_branch(self, name: str, *, dry_run: bool = False) -> Removed:
        """Take a branch of the table away, and the files that only it used. Branches made of it stay whole.

        Args:
            name: of the branch.
            dry_run: only tell what would go.

        Raises:
            BranchNotFoundError: there is no such branch.
            InvalidInputError: it is main, or an option of another branch names it.
            UnsafeDeletionError: it cannot be told what the rest of the table needs; nothing was deleted.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.branches import delete_branch

        return delete_branch(at_head(cast("Table", self)), name, dry_run=dry_run)

    def append_branch(self, source: str, target: str = "main") -> Appended:
        """Add the files that were appended to a branch since it was created to another, as one snapshot.

        Append tables only, and both branches may have had nothing but appends since they parted.

        Raises:
            BranchNotFoundError: there is no such branch.
            InvalidInputError: the branches are the same, empty, of different columns, or were not only appended to.
            UnsupportedFeatureError: the table has primary keys or data evolution.
            CommitError: the snapshot was not made.
        """
        from paimon_spark.versioning.append_branch import append_branch

        return append_branch(at_head(cast("Table", self)), source, target)
