"""Create, replace, rename, delete and expire tags; find the tag before or after another.

A new tag is a copy of a snapshot file: no data and no manifest is read. Afterwards the snapshot is checked again, as
other engines may have expired it meanwhile.

Source: Java `utils/TagManager`, `tag/TagTimeExpire`; PIP-4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Final, Literal, overload

from paimon_spark.errors import (
    InvalidInputError,
    TagAlreadyExistsError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.change import change_branch, preview, reopened
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata import branches as forks
from paimon_spark.metadata.branches import list_branch_names, tag_info
from paimon_spark.metadata.handle import TableHandle, branch_names
from paimon_spark.metadata.journal.change import Put, Step, TableChange, relative_path
from paimon_spark.metadata.layout import TAG_PREFIX
from paimon_spark.metadata.tags import (
    TagInfo,
    auto_tag_time,
    find_tag,
    get_tag,
    guarded_branch,
    list_tags,
    savepoint_id_of,
)
from paimon_spark.options.descriptor import duration_ms
from paimon_spark.options.retention import TagCreation, TagOptions
from paimon_spark.versioning.names import check_tag_name
from paimon_spark.versioning.tag_steps import (
    check_not_expired,
    create_steps,
    delete_steps,
    delete_tags_change,
    existing_guarded_branch,
    new_tag,
    put_tag,
    tag_root,
    tag_source,
)

_LOG = logging.getLogger(__name__)
_LONGEST_S: Final = 1_000_000 * 365 * 86_400
"""Java's calendar ends some hundred million years later; a tag beyond that could not be listed there."""
_BY_TIME: Final = (TagCreation.PROCESS_TIME, TagCreation.WATERMARK)


def create_tag(
    handle: TableHandle,
    name: str,
    *,
    snapshot_id: int | None = None,
    time_retained: str | timedelta | None = None,
    ignore_if_exists: bool = False,
    clock: Callable[[], datetime] = datetime.now,
) -> TagInfo:
    """Tag the head, or a snapshot of the branch. A snapshot that expired is taken from another tag of it.

    Args:
        handle: the branch.
        name: of the tag.
        snapshot_id: what to tag; None means the head.
        time_retained: how long the tag lives, as in `7 d`; None means option `tag.default-time-retained`.
        ignore_if_exists: an existing tag of this name is returned as it is.
        clock: the local wall clock.

    Raises:
        InvalidInputError: no tag can be called so, or the time is no duration.
        TagAlreadyExistsError: there is one of this name.
        SnapshotNotFoundError: there is no such snapshot, or none at all; SnapshotExpiredError: there was.
        OperationInProgressError: another process changes the table's refs all the time.
    """
    given_s = _retained_s(handle, time_retained)
    found: list[Tag] = []
    made: list[Tag] = []

    def plan(branch: TableHandle) -> TableChange | None:
        options = branch.options.tags
        _check_name(branch, name)
        old = find_tag(branch, name)
        if old is not None:
            if not ignore_if_exists:
                raise _exists(branch, name)
            found.append(old)
            return None
        snapshot = tag_source(branch, snapshot_id)
        _check_auto_name(branch, options, name, snapshot)
        retained_s = options.default_time_retained_s if given_s is None else given_s
        made.append(new_tag(name, snapshot, retained_s, clock()))
        label = f"creation of tag {name!r} on branch {branch.branch!r}"
        return TableChange("create-tag", label, create_steps(branch, options, made[-1]))

    change_branch(handle, "create-tag", plan)
    if found:
        return tag_info(found[-1])
    check_not_expired(handle, made[-1])
    _mention_callbacks(handle)
    return tag_info(made[-1])


@overload
def replace_tag(
    handle: TableHandle,
    name: str,
    *,
    snapshot_id: int | None = None,
    time_retained: str | timedelta | None = None,
    dry_run: Literal[False] = False,
    clock: Callable[[], datetime] = datetime.now,
) -> TagInfo: ...


@overload
def replace_tag(
    handle: TableHandle,
    name: str,
    *,
    snapshot_id: int | None = None,
    time_retained: str | timedelta | None = None,
    dry_run: bool,
    clock: Callable[[], datetime] = datetime.now,
) -> TagInfo | Removed: ...


def replace_tag(
    handle: TableHandle,
    name: str,
    *,
    snapshot_id: int | None = None,
    time_retained: str | timedelta | None = None,
    dry_run: bool = False,
    clock: Callable[[], datetime] = datetime.now,
) -> TagInfo | Removed:
    """Move a tag to the head, or to another snapshot. Files that only the old one needed go.

    Args:
        handle: the branch.
        name: of the tag.
        snapshot_id: as in `create_tag`.
        time_retained: how long it lives from now on; None is for ever, whatever the table's default, as in Paimon.
        dry_run: only tell what would go: that is returned then, and not the tag.
        clock: the local wall clock.

    Raises:
        TagNotFoundError: there is no such tag.
        InvalidInputError: it is a savepoint or the guard of a branch.
        UnsafeDeletionError: it cannot be told what else needs the old files; nothing was changed.
        SnapshotNotFoundError, SnapshotExpiredError, OperationInProgressError: as `create_tag`.
    """
    retained_s = _retained_s(handle, time_retained)
    made: list[Tag] = []

    def plan(branch: TableHandle) -> TableChange:
        old = get_tag(branch, name)
        _check_may_move(branch, name, "replaced")
        snapshot = tag_source(branch, snapshot_id)
        _check_auto_name(branch, branch.options.tags, name, snapshot, besides=name)
        made.append(new_tag(name, snapshot, retained_s, clock()))
        label = f"replacement of tag {name!r} on branch {branch.branch!r}"
        # The success file stays as it is: it tells of the tag's creation.
        return TableChange("replace-tag", label, (put_tag(branch, made[-1]),), (tag_root(branch, old),))

    if dry_run:
        return preview(handle, plan(reopened(handle)))
    change_branch(handle, "replace-tag", plan)
    check_not_expired(handle, made[-1])
    _mention_callbacks(handle)
    return tag_info(made[-1])


def rename_tag(handle: TableHandle, old: str, new: str) -> TagInfo:
    """Give a tag another name. Branches that were created from it know it by the new one then.

    Raises:
        TagNotFoundError: there is no tag `old`.
        TagAlreadyExistsError: there is a tag `new`.
        InvalidInputError: no tag can be called `new`, or `old` is a savepoint or the guard of a branch.
        OperationInProgressError: another process changes the table's refs all the time.
    """
    made: list[Tag] = []

    def plan(branch: TableHandle) -> TableChange:
        options = branch.options.tags
        tag = get_tag(branch, old)
        _check_may_move(branch, old, "renamed")
        _check_name(branch, new)
        if find_tag(branch, new) is not None:
            raise _exists(branch, new)
        _check_auto_name(branch, options, new, tag.snapshot, besides=old)
        made.append(replace(tag, name=new))
        steps = (
            *create_steps(branch, options, made[-1]),
            *_renamed_bases(branch, tag, new),
            *delete_steps(branch, options, old),
        )
        return TableChange("rename-tag", f"renaming of tag {old!r} on branch {branch.branch!r} to {new!r}", steps)

    change_branch(handle, "rename-tag", plan)
    return tag_info(made[-1])


def delete_tags(handle: TableHandle, names: Sequence[str], *, dry_run: bool = False) -> Removed:
    """Delete tags, all or none, and the files that nothing else needs then.

    A branch that was created from one of them keeps its base: its own snapshots hold on to the files, and its guard
    tag keeps other engines away.

    Args:
        handle: the branch.
        names: of tags; savepoints may be among them.
        dry_run: only tell what would go.

    Raises:
        TagNotFoundError: there is no such tag.
        InvalidInputError: one of them is the guard of a branch.
        UnsafeDeletionError: it cannot be told what else needs their files; nothing was deleted.
        OperationInProgressError: another process changes the table's refs all the time.
    """
    wanted = _names(handle, names)

    def plan(branch: TableHandle) -> TableChange:
        tags = [get_tag(branch, name) for name in wanted]
        for tag in tags:
            _check_no_guard(branch, tag.name, "deleted")
        shown = ", ".join(repr(tag.name) for tag in tags)
        return delete_tags_change(branch, tags, "delete-tag", f"deletion of tag {shown} on branch {branch.branch!r}")

    return preview(handle, plan(reopened(handle))) if dry_run else change_branch(handle, "delete-tag", plan)


def previous_tag(handle: TableHandle, name: str) -> TagInfo | None:
    """The tag whose snapshot was the last to be committed before that of tag `name`; None for the earliest.

    Guards of branches are passed over. Raises TagNotFoundError.
    """
    asked = get_tag(handle, name).snapshot.time_ms
    earlier = [t for t in _for_users(handle) if t.snapshot.time_ms < asked]
    return tag_info(max(earlier, key=_by_commit)) if earlier else None


def next_tag(handle: TableHandle, name: str) -> TagInfo | None:
    """The tag whose snapshot was the first to be committed after that of tag `name`; None for the latest.

    Guards of branches are passed over. Raises TagNotFoundError.
    """
    asked = get_tag(handle, name).snapshot.time_ms
    later = [t for t in _for_users(handle) if t.snapshot.time_ms > asked]
    return tag_info(min(later, key=_by_commit)) if later else None


def _for_users(handle: TableHandle) -> list[Tag]:
    return [t for t in list_tags(handle) if guarded_branch(t.name) is None]


def _by_commit(tag: Tag) -> tuple[int, int, str]:
    return tag.snapshot.time_ms, tag.snapshot.id, tag.name


def _check_name(handle: TableHandle, name: str) -> None:
    check_tag_name(name, table=handle.describe(), branch_names=branch_names(handle.store, handle.layout))


def _check_may_move(handle: TableHandle, name: str, verb: str) -> None:
    _check_no_guard(handle, name, verb)
    if savepoint_id_of(name) is not None:
        raise InvalidInputError(
            f"tag {name!r} of {handle.describe()} is a savepoint and cannot be {verb}; use delete_savepoint, or tag "
            "its snapshot under another name",
            table=handle.name,
            branch=handle.branch,
            tag=name,
        )


def _check_no_guard(handle: TableHandle, name: str, verb: str) -> None:
    branch = existing_guarded_branch(handle, name)
    if branch is not None:
        raise InvalidInputError(
            f"tag {name!r} of {handle.describe()} guards the base of branch {branch!r} and cannot be {verb}; it goes "
            f"with the branch: delete_branch({branch!r})",
            table=handle.name,
            branch=handle.branch,
            tag=name,
        )


def _check_auto_name(
    handle: TableHandle, options: TagOptions, name: str, snapshot: Snapshot, besides: str | None = None
) -> None:
    """A snapshot has one tag named by time at most: Paimon's own tagging stops at two."""
    if options.creation not in _BY_TIME or auto_tag_time(name, options) is None:
        return
    for tag in list_tags(handle):
        by_time = tag.name != besides and auto_tag_time(tag.name, options) is not None
        if by_time and tag.snapshot.id == snapshot.id:
            raise InvalidInputError(
                f"{name!r} is how {handle.describe()} names its automatic tags, and snapshot {snapshot.id} has one "
                f"already, {tag.name!r}; choose another name",
                table=handle.name,
                branch=handle.branch,
                tag=name,
            )


def _renamed_bases(handle: TableHandle, tag: Tag, new: str) -> list[Step]:
    """What branches remember of where they come from, with the tag's new name."""
    steps: list[Step] = []
    for name in list_branch_names(handle):
        branch = handle.on_branch_directory(name)
        fork = forks.read_fork(branch)
        if fork is None or fork.tag != tag.name or fork.snapshot_id != tag.snapshot.id:
            continue
        if fork.parent == forks.logical_name(handle):
            text = forks.encode_fork(replace(fork, tag=new)).decode()
            steps.append(Put(relative_path(branch, forks.fork_path(branch)), text))
    return steps


def _names(handle: TableHandle, given: object) -> list[str]:
    """The names of tags that a caller gave, each once."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        names = list(given)
        if all(isinstance(name, str) for name in names):
            return list(dict.fromkeys(names))
    raise InvalidInputError(
        f"{given!r} names no tags of {handle.describe()}; give a name, or a list of names",
        table=handle.name,
        branch=handle.branch,
    )


def _retained_s(handle: TableHandle, given: str | timedelta | None) -> float | None:
    """Seconds to live, when they were given."""
    if given is None:
        return None
    try:
        if isinstance(given, timedelta):
            seconds = given.total_seconds()
        elif isinstance(given, str):
            seconds = duration_ms(given) / 1000
        else:
            raise ValueError("a number does not say of what")
        if seconds <= 0:
            raise ValueError("a tag lives for some time")
        if seconds > _LONGEST_S:
            raise ValueError("that is longer than other engines can count; leave it out for ever")
    except ValueError as e:
        raise InvalidInputError(
            f"time_retained = {given!r} for a tag of {handle.describe()}: {e}; give text such as '7 d' or a timedelta",
            table=handle.name,
            branch=handle.branch,
            argument="time_retained",
        ) from e
    return seconds


def _mention_callbacks(handle: TableHandle) -> None:
    callbacks = handle.options.tags.callbacks
    if callbacks:
        _LOG.warning(
            "option tag.callbacks of %s names Java classes, which are not told of tags made here: %s",
            handle.describe(),
            callbacks,
        )


def _exists(handle: TableHandle, name: str) -> TagAlreadyExistsError:
    return TagAlreadyExistsError(
        f"{handle.describe()} has a tag {name!r} already; replace_tag moves it, delete_tag deletes it",
        table=handle.name,
        branch=handle.branch,
        tag=name,
    )


def expire_tags(
    handle: TableHandle,
    *,
    older_than_ms: int | None = None,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    clock: Callable[[], datetime] = datetime.now,
) -> Removed:
    """Delete the tags whose time to live is over, and with `older_than_ms` all that were created before it.

    A time to live counts from the tag's creation, on the wall clock of this machine. A tag without one was created when
    its file was last changed. Guards of branches stay, and savepoints without a time to live.

    Args:
        handle: the branch.
        older_than_ms: epoch milliseconds.
        dry_run: only tell what would go.
        wait_ms: how long to wait for another process that changes the table's refs.
        clock: the local wall clock.

    Raises:
        OperationInProgressError: another process changes the table's refs all the time.
        UnsafeDeletionError: it cannot be told what else needs their files; nothing was deleted.
    """
    older_than = None if older_than_ms is None else _local(older_than_ms)

    def plan(branch: TableHandle) -> TableChange | None:
        over = _over(branch, clock(), older_than)
        label = f"expiry of {len(over)} tags on branch {branch.branch!r}"
        return delete_tags_change(branch, over, "expire-tags", label) if over else None

    planned = plan(handle)  # looked at before anything is locked, as commits come here all the time
    if dry_run or planned is None:
        return preview(handle, planned)
    return change_branch(handle, "expire-tags", plan, wait_ms=wait_ms)


def overdue_tags(handle: TableHandle, clock: Callable[[], datetime] = datetime.now) -> list[Tag]:
    """The tags that `expire_tags` would delete now. Raises CorruptFileError."""
    return _over(handle, clock(), None)


def _over(handle: TableHandle, now: datetime, older_than: datetime | None) -> list[Tag]:
    """The tags that have lived long enough."""
    tags = [t for t in list_tags(handle) if existing_guarded_branch(handle, t.name) is None]
    if older_than is not None and any(t.create_time is None or t.time_retained_s is None for t in tags):
        changed = {i.name.removeprefix(TAG_PREFIX): i.modified_ms for i in handle.store.list(handle.layout.tag_dir)}
    else:
        changed = {}
    return [t for t in tags if _is_over(t, changed.get(t.name), now, older_than)]


def _is_over(tag: Tag, changed_ms: int | None, now: datetime, older_than: datetime | None) -> bool:
    if tag.create_time is not None and tag.time_retained_s is not None:
        try:
            lives = now <= tag.create_time + timedelta(seconds=tag.time_retained_s)
        except OverflowError:
            lives = True
        return not lives or (older_than is not None and older_than > tag.create_time)
    if older_than is None or changed_ms is None or savepoint_id_of(tag.name) is not None:
        return False
    return older_than > _local(changed_ms)


def _local(epoch_ms: int) -> datetime:
    """A moment on the wall clock of this machine, which tags are made by."""
    return datetime.fromtimestamp(epoch_ms / 1000, timezone.utc).astimezone().replace(tzinfo=None)
