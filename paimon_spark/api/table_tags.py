"""Tags, as methods of Table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, overload

from paimon_spark.jobs.branch_access import at_head, older_than_ms, reopen_at_head, reopen_to_read
from paimon_spark.jobs.opened_table import OpenedTable

if TYPE_CHECKING:
    from paimon_spark.maintenance.removal import Removed
    from paimon_spark.metadata.tags import TagInfo
    from paimon_spark.metadata.version import Cutoff
    from paimon_spark.versioning.auto_tags import AutoTags


class TableTags(OpenedTable):
    """Methods of `Table` for tags."""

    __slots__ = ()

    def create_tag(
        self,
        name: str,
        version: str | int | None = None,
        *,
        snapshot_id: int | None = None,
        time_retained: str | timedelta | None = None,
        ignore_if_exists: bool = False,
    ) -> TagInfo:
        """Tag the head of the branch, one of its snapshots, or a version of any branch.

        A tag keeps its files through expiry. No data is read or copied. A snapshot that expired is taken from another
        tag of it. A tag is on a branch that has its snapshot: with a version of another branch that this one does not
        have, it is on that branch, and is read as `fix.<name>`; the result says so.

        Args:
            name: not blank, not a number, without slashes, and not the text of another version.
            version: what to tag, as in `at`: `4`, `v1`, `fix`, `fix.3`, `fix.v1`; None means the head.
            snapshot_id: what to tag, by its id on this branch; not with `version`.
            time_retained: retention, as text such as `7 d` or a timedelta. None is option
                `tag.default-time-retained`, which is for ever when it is not set.
            ignore_if_exists: if the tag exists, return it unchanged.

        Raises:
            InvalidInputError: the name or the time is refused, or the table was opened at a version.
            TagAlreadyExistsError: there is such a tag.
            SnapshotNotFoundError, SnapshotExpiredError, VersionNotFoundError: there is no such snapshot or version.
        """
        from paimon_spark.versioning.tags import create_tag

        handle = at_head(self)
        return create_tag(
            handle,
            name,
            snapshot_id=snapshot_id,
            version=version,
            time_retained=time_retained,
            ignore_if_exists=ignore_if_exists,
        )

    @overload
    def replace_tag(
        self,
        name: str,
        version: str | int | None = None,
        *,
        snapshot_id: int | None = None,
        time_retained: str | timedelta | None = None,
        dry_run: Literal[False] = False,
    ) -> TagInfo: ...

    @overload
    def replace_tag(
        self,
        name: str,
        version: str | int | None = None,
        *,
        snapshot_id: int | None = None,
        time_retained: str | timedelta | None = None,
        dry_run: Literal[True],
    ) -> Removed: ...

    def replace_tag(
        self,
        name: str,
        version: str | int | None = None,
        *,
        snapshot_id: int | None = None,
        time_retained: str | timedelta | None = None,
        dry_run: bool = False,
    ) -> TagInfo | Removed:
        """Move a tag to the head, another snapshot or a version, and delete files that only the old one needed.

        Args:
            name: of the tag. With a version, it is a tag of the branch that `create_tag` would create it on.
            version: what to tag, as in `create_tag`; None means the head.
            snapshot_id: what to tag, by its id on this branch; not with `version`.
            time_retained: as in `create_tag`, but None is for ever, as in Paimon.
            dry_run: only return what would be deleted, instead of the tag.

        Raises:
            TagNotFoundError: there is no such tag.
            InvalidInputError: it is a savepoint or a guard tag.
            Others as `create_tag`.
        """
        from paimon_spark.versioning.tags import replace_tag

        handle = at_head(self)
        return replace_tag(
            handle, name, snapshot_id=snapshot_id, version=version, time_retained=time_retained, dry_run=dry_run
        )

    def rename_tag(self, old: str, new: str) -> TagInfo:
        """Rename a tag.

        Raises:
            TagNotFoundError: there is no tag `old`.
            TagAlreadyExistsError: there is a tag `new`.
            InvalidInputError: `new` is refused, or `old` is a savepoint or a guard tag.
        """
        from paimon_spark.versioning.tags import rename_tag

        return rename_tag(at_head(self), old, new)

    def delete_tag(self, name: str | Sequence[str], *, dry_run: bool = False) -> Removed:
        """Delete a tag, or several at once, and the files that nothing else of the table needs.

        A branch that was created from the tag keeps its base.

        Args:
            name: of the tag or tags; text is always one name.
            dry_run: only return what would be deleted.

        Raises:
            TagNotFoundError: there is no such tag; none was deleted.
            InvalidInputError: it is a guard tag.
        """
        from paimon_spark.versioning.tags import delete_tags

        return delete_tags(at_head(self), [name] if isinstance(name, str) else name, dry_run=dry_run)

    def expire_tags(self, older_than: Cutoff | None = None, *, dry_run: bool = False) -> Removed:
        """Delete expired tags, and the files that nothing else of the table needs.

        Args:
            older_than: tags created before this moment are deleted too, except guard tags and savepoints: a
                datetime, epoch milliseconds, text such as `2024-01-31 12:30:00`, or an age such as `7 d`.
            dry_run: only return what would be deleted.

        Raises:
            InvalidInputError: `older_than` is not a moment.
        """
        from paimon_spark.versioning.tags import expire_tags

        before_ms = older_than_ms(self, older_than)
        return expire_tags(reopen_at_head(self), older_than_ms=before_ms, dry_run=dry_run)

    def previous_tag(self, name: str) -> TagInfo | None:
        """The tag of the last snapshot committed before that of tag `name`; None for the earliest.

        Raises:
            TagNotFoundError: there is no such tag.
        """
        from paimon_spark.versioning.tags import previous_tag

        return previous_tag(reopen_to_read(self), name)

    def next_tag(self, name: str) -> TagInfo | None:
        """The tag of the first snapshot committed after that of tag `name`; None for the latest.

        Raises:
            TagNotFoundError: there is no such tag.
        """
        from paimon_spark.versioning.tags import next_tag

        return next_tag(reopen_to_read(self), name)

    def create_automatic_tags(self) -> AutoTags:
        """Create the tags that are due by option `tag.automatic-creation`, as after a write.

        Raises:
            InvalidOptionError: an option of automatic tags has a bad value.
            UnsafeDeletionError: a tag beyond `tag.num-retained-max` cannot be deleted; nothing was changed.
        """
        from paimon_spark.versioning.auto_tags import create_automatic_tags

        return create_automatic_tags(reopen_at_head(self))
