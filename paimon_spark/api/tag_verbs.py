"""Tags, savepoints and rolling back, as methods of Table. Only forwards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, cast, overload

from paimon_spark.jobs.branch_access import at_head, opened_anew
from paimon_spark.metadata.handle import TableHandle

if TYPE_CHECKING:
    from paimon_spark.api.moments import Moment
    from paimon_spark.api.table import Table
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.tags import Savepoint, TagInfo
    from paimon_spark.versioning.auto_tags import AutoTags
    from paimon_spark.versioning.rollback import Restored, RolledBack


class TagVerbs:
    """What `Table` inherits."""

    __slots__ = ()

    handle: TableHandle

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
            at_head(cast("Table", self)),
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
            at_head(cast("Table", self)),
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

        return rename_tag(at_head(cast("Table", self)), old, new)

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

        return delete_tags(at_head(cast("Table", self)), [name] if isinstance(name, str) else name, dry_run=dry_run)

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
        from paimon_spark.api.moments import moment_ms
        from paimon_spark.versioning.tags import expire_tags

        zone = cast("Table", self).read_options.time_zone
        older_than_ms = None if older_than is None else moment_ms(older_than, "older_than", zone)
        return expire_tags(opened_anew(cast("Table", self)), older_than_ms=older_than_ms, dry_run=dry_run)

    def previous_tag(self, name: str) -> TagInfo | None:
        """The tag whose snapshot was the last to be committed before that of tag `name`; None for the earliest.

        Raises:
            TagNotFoundError: there is no such tag.
        """
        from paimon_spark.versioning.tags import previous_tag

        return previous_tag(opened_anew(cast("Table", self)), name)

    def next_tag(self, name: str) -> TagInfo | None:
        """The tag whose snapshot was the first to be committed after that of tag `name`; None for the latest.

        Raises:
            TagNotFoundError: there is no such tag.
        """
        from paimon_spark.versioning.tags import next_tag

        return next_tag(opened_anew(cast("Table", self)), name)

    def create_automatic_tags(self) -> AutoTags:
        """Make the tags that are due by option `tag.automatic-creation`, as after a write.

        Raises:
            InvalidOptionError: an option of automatic tags has a bad value.
            UnsafeDeletionError: a tag beyond `tag.num-retained-max` cannot go; nothing was changed.
            OperationInProgressError: another process changes tags or branches all the time.
        """
        from paimon_spark.versioning.auto_tags import create_automatic_tags

        return create_automatic_tags(opened_anew(cast("Table", self)))

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

        return create_savepoint(at_head(cast("Table", self)), compact=compact_fully)

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

        return delete_savepoint(at_head(cast("Table", self)), savepoint_id, dry_run=dry_run)

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

        return rollback_to(at_head(cast("Table", self)), version, dry_run=dry_run)

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

        return rollback_to_as_latest(at_head(cast("Table", self)), version)
