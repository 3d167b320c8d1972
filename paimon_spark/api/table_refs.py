"""Tags, savepoints, branches and rolling back, as methods of Table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, overload

from paimon_spark.jobs.branch_access import at_head, opened_anew
from paimon_spark.jobs.opened_table import OpenedTable

if TYPE_CHECKING:
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.branches import Branch
    from paimon_spark.metadata.tags import Savepoint, TagInfo
    from paimon_spark.metadata.version import Moment
    from paimon_spark.versioning.append_branch import Appended
    from paimon_spark.versioning.auto_tags import AutoTags
    from paimon_spark.versioning.merge import MergeResult
    from paimon_spark.versioning.replace_main import ReplaceResult
    from paimon_spark.versioning.rollback import Restored, RolledBack


class TableRefs(OpenedTable):
    """What `Table` does with tags, savepoints and branches."""

    __slots__ = ()

    def create_tag(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        time_retained: str | timedelta | None = None,
        ignore_if_exists: bool = False,
    ) -> TagInfo:
        """Tag the head of the branch, or one of its snapshots. A tag keeps its files through expiry.

        Nothing of the data is read or copied. A snapshot that expired is taken from another tag of it.

        Args:
            name: neither blank nor a number, without slashes, nothing that would read as another version.
            snapshot_id: what to tag; None means the head.
            time_retained: how long the tag lives: text such as `7 d`, or a timedelta. None is as option
                `tag.default-time-retained` says, which is for ever when it is not set.
            ignore_if_exists: leave an existing tag as it is, and return it.

        Raises:
            InvalidInputError: the name or the time is refused, or the table was opened at a version.
            TagAlreadyExistsError: there is such a tag.
            SnapshotNotFoundError, SnapshotExpiredError: there is nothing to tag.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.tags import create_tag

        return create_tag(
            at_head(self),
            name,
            snapshot_id=snapshot_id,
            time_retained=time_retained,
            ignore_if_exists=ignore_if_exists,
        )

    @overload
    def replace_tag(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        time_retained: str | timedelta | None = None,
        dry_run: Literal[False] = False,
    ) -> TagInfo: ...

    @overload
    def replace_tag(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        time_retained: str | timedelta | None = None,
        dry_run: Literal[True],
    ) -> Removed: ...

    def replace_tag(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        time_retained: str | timedelta | None = None,
        dry_run: bool = False,
    ) -> TagInfo | Removed:
        """Move a tag to the head, or to another snapshot; files that only the old one needed go.

        Args:
            name: of the tag.
            snapshot_id: what to tag; None means the head.
            time_retained: as in `create_tag`, but None is for ever, as in Paimon.
            dry_run: only tell what would go: that is returned then, and not the tag.

        Raises:
            TagNotFoundError: there is no such tag.
            InvalidInputError: it is a savepoint or the guard of a branch.
            UnsafeDeletionError: it cannot be told what else needs the old files; nothing was changed.
            Others as `create_tag`.
        """
        from paimon_spark.versioning.tags import replace_tag

        return replace_tag(
            at_head(self),
            name,
            snapshot_id=snapshot_id,
            time_retained=time_retained,
            dry_run=dry_run,
        )

    def rename_tag(self, old: str, new: str) -> TagInfo:
        """Give a tag another name.

        Raises:
            TagNotFoundError: there is no tag `old`.
            TagAlreadyExistsError: there is a tag `new`.
            InvalidInputError: `new` is refused, or `old` is a savepoint or the guard of a branch.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.tags import rename_tag

        return rename_tag(at_head(self), old, new)

    def delete_tag(self, name: str | Sequence[str], *, dry_run: bool = False) -> Removed:
        """Delete a tag, or several at once, and the files that nothing else of the table needs.

        A branch that was created from the tag keeps its base.

        Args:
            name: of the tag or tags; a text is one name, whatever it holds.
            dry_run: only tell what would go.

        Raises:
            TagNotFoundError: there is no such tag; none was deleted.
            InvalidInputError: it is the guard of a branch.
            UnsafeDeletionError: it cannot be told what is still needed; nothing was deleted.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.tags import delete_tags

        return delete_tags(at_head(self), [name] if isinstance(name, str) else name, dry_run=dry_run)

    def expire_tags(self, older_than: Moment | None = None, *, dry_run: bool = False) -> Removed:
        """Delete the tags whose time to live is over, and the files that nothing else of the table needs.

        Args:
            older_than: tags that were created before it go too, but no guards of branches and no savepoints: a
                datetime, epoch milliseconds, or text such as `2024-01-31 12:30:00`.
            dry_run: only tell what would go.

        Raises:
            InvalidInputError: `older_than` is no moment.
            UnsafeDeletionError: it cannot be told what is still needed; nothing was deleted.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.metadata.version import moment_ms
        from paimon_spark.versioning.tags import expire_tags

        zone = self.read_options.time_zone
        older_than_ms = None if older_than is None else moment_ms(older_than, "older_than", zone)
        return expire_tags(opened_anew(self), older_than_ms=older_than_ms, dry_run=dry_run)

    def previous_tag(self, name: str) -> TagInfo | None:
        """The tag whose snapshot was the last to be committed before that of tag `name`; None for the earliest.

        Raises:
            TagNotFoundError: there is no such tag.
        """
        from paimon_spark.versioning.tags import previous_tag

        return previous_tag(opened_anew(self), name)

    def next_tag(self, name: str) -> TagInfo | None:
        """The tag whose snapshot was the first to be committed after that of tag `name`; None for the latest.

        Raises:
            TagNotFoundError: there is no such tag.
        """
        from paimon_spark.versioning.tags import next_tag

        return next_tag(opened_anew(self), name)

    def create_automatic_tags(self) -> AutoTags:
        """Make the tags that are due by option `tag.automatic-creation`, as after a write.

        Raises:
            InvalidOptionError: an option of automatic tags has a bad value.
            UnsafeDeletionError: a tag beyond `tag.num-retained-max` cannot go; nothing was changed.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.auto_tags import create_automatic_tags

        return create_automatic_tags(opened_anew(self))

    def create_savepoint(self) -> Savepoint:
        """Compact the branch fully and keep the snapshot that this makes, until the savepoint is deleted.

        It is the tag `savepoint-<id>`, which every Paimon engine respects. When nothing was written since the last
        savepoint, that one is returned. Large tables are compacted by a Spark job when this process has a session.

        Raises:
            SnapshotNotFoundError: the branch has no snapshot yet.
            UnsupportedFeatureError: such a table cannot be compacted.
            CommitError: others were faster than the compaction every time.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.jobs.compaction import compact_fully
        from paimon_spark.versioning.savepoints import create_savepoint

        return create_savepoint(at_head(self), compact=compact_fully)

    def delete_savepoint(self, savepoint_id: int, *, dry_run: bool = False) -> Removed:
        """Delete a savepoint, and the files that nothing else of the table needs.

        Args:
            savepoint_id: its id, which is that of its snapshot.
            dry_run: only tell what would go.

        Raises:
            SavepointNotFoundError: there is none of this id.
            UnsafeDeletionError: it cannot be told what is still needed; nothing was deleted.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.savepoints import delete_savepoint

        return delete_savepoint(at_head(self), savepoint_id, dry_run=dry_run)

    def rollback_to(self, version: str | int, *, dry_run: bool = False) -> RolledBack:
        """Make a version of this branch its head again; later snapshots, tags and savepoints of the branch go at once.

        The files that nothing else of the table needs go too. Schemas and consumers stay as they are. Branches that
        left this one later stay whole.

        Args:
            version: a snapshot id, or text as in `at` that means a snapshot of this branch.
            dry_run: only tell what would go.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: it is on another branch, or the branch's history does not go through it.
            UnsafeDeletionError: it cannot be told what is still needed; nothing was changed.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.rollback import rollback_to

        return rollback_to(at_head(self), version, dry_run=dry_run)

    def rollback_to_as_latest(self, version: str | int) -> Restored:
        """Make the state of an earlier version the newest, by a new snapshot; nothing of the history goes.

        Args:
            version: a snapshot id, or text as in `at` that means a snapshot of this branch.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: it is on another branch.
            CommitError: others were faster every time, or nobody knows whether the snapshot was made.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.rollback import rollback_to_as_latest

        return rollback_to_as_latest(at_head(self), version)

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

        return create_branch(at_head(self), name, tag=tag, snapshot_id=snapshot_id, ignore_if_exists=ignore_if_exists)

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch of the table another name. Jobs on the old one fail with BranchNotFoundError.

        Raises:
            BranchNotFoundError: there is no branch `old`.
            BranchAlreadyExistsError: there is a branch `new`.
            InvalidInputError: a name is refused, `old` is main, or an option of another branch names it.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.branches import rename_branch

        rename_branch(at_head(self), old, new)

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

        return delete_branch(at_head(self), name, dry_run=dry_run)

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

        return append_branch(at_head(self), source, target)

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

        return merge_branch(at_head(self), name, snapshot=snapshot, backup=backup, dry_run=dry_run)

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

        return fast_forward(at_head(self), name, snapshot=snapshot, backup=backup, dry_run=dry_run)

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

        return replace_main(at_head(self), name, backup=backup, dry_run=dry_run)
