"""Create, replace, rename, delete and expire tags; find the tag before or after another.

A new tag is a copy of a snapshot file: no data and no manifest is read. Afterwards the snapshot is checked again, as
other engines may have expired it meanwhile.

Source: Java `utils/TagManager`, `tag/TagTimeExpire`; PIP-4.

Tests: tests/unit/versioning/test_tags.py, test_tag_expiry.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from paimon_spark.advice import GIVE_RETENTION, MOVE_TAG
from paimon_spark.errors import InvalidInputError, TagAlreadyExistsError
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.maintenance.change import change_branch, preview
from paimon_spark.maintenance.removal import Removed
from paimon_spark.metadata.branches import logical_name, recorded_forks, same_snapshot, tag_info
from paimon_spark.metadata.handle import TableHandle, branch_names, current, open_branch
from paimon_spark.metadata.journal.change import Step, TableChange
from paimon_spark.metadata.layout import TAG_PREFIX
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.retry import local_now
from paimon_spark.metadata.tags import (
    TagInfo,
    auto_tag_time,
    find_tag,
    get_tag,
    guarded_branch,
    list_tags,
    savepoint_id_of,
)
from paimon_spark.metadata.version import text_version
from paimon_spark.options.descriptor import duration_ms
from paimon_spark.options.retention import TAG_TO_PARTITION, TagCreation, TagOptions
from paimon_spark.redaction import get_logger
from paimon_spark.text import duration
from paimon_spark.versioning.names import check_tag_name
from paimon_spark.versioning.tag_steps import (
    check_not_expired,
    create_steps,
    delete_steps,
    delete_tags_change,
    existing_guarded_branch,
    find_known_snapshot,
    local_time,
    new_tag,
    put_fork,
    put_tag,
    tag_root,
    tag_source,
)

_LOG = get_logger(__name__)
_LONGEST_S: Final = 1_000_000 * 365 * 86_400
"""Java's calendar ends some hundred million years later; a tag beyond that could not be listed there."""
_BY_TIME: Final = (TagCreation.PROCESS_TIME, TagCreation.WATERMARK)


def create_tag(
    handle: TableHandle,
    name: str,
    *,
    snapshot_id: int | None = None,
    version: str | int | None = None,
    time_retained: str | timedelta | None = None,
    ignore_if_exists: bool = False,
    clock: Callable[[], datetime] = local_now,
) -> TagInfo:
    """Tag the head, a snapshot of the branch, or a version of any branch.

    An expired snapshot is taken from another tag of it. A tag is on a branch that has its snapshot: on the handle's if
    it does, else on that of the version. For a tag among those of another history, Java Paimon would delete files that
    its neighbours need.
    """
    asked, (handle, chosen) = handle.branch, _place(handle, name, snapshot_id, version)
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
        snapshot = chosen or tag_source(branch, snapshot_id)
        _check_auto_name(branch, options, name, snapshot)
        retained_s = options.default_time_retained_s if given_s is None else given_s
        made.append(new_tag(name, snapshot, retained_s, clock()))
        label = f"creation of tag {name!r} on branch {branch.branch!r}"
        return TableChange("create-tag", label, create_steps(branch, options, made[-1]))

    change_branch(handle, "create-tag", plan)
    if found:
        return _made(handle, found[-1], asked)
    check_not_expired(handle, made[-1])
    _mention_callbacks(handle)
    return _made(handle, made[-1], asked)


def replace_tag(
    handle: TableHandle,
    name: str,
    *,
    snapshot_id: int | None = None,
    version: str | int | None = None,
    time_retained: str | timedelta | None = None,
    dry_run: bool = False,
    clock: Callable[[], datetime] = local_now,
) -> TagInfo | Removed:
    """Move a tag to the head, a snapshot or a version, and delete files that only the old one needed.

    The tag is one of the branch that `create_tag` would create it on.
    """
    asked, (handle, chosen) = handle.branch, _place(handle, name, snapshot_id, version)
    retained_s = _retained_s(handle, time_retained)
    made: list[Tag] = []

    def plan(branch: TableHandle) -> TableChange:
        old = get_tag(branch, name)
        _check_may_move(branch, name, "replaced")
        snapshot = chosen or tag_source(branch, snapshot_id)
        _check_auto_name(branch, branch.options.tags, name, snapshot, besides=name)
        made.append(new_tag(name, snapshot, retained_s, clock()))
        label = f"replacement of tag {name!r} on branch {branch.branch!r}"
        # The success file stays: it records the tag's creation.
        return TableChange("replace-tag", label, (put_tag(branch, made[-1]),), (tag_root(branch, old),))

    removed = change_branch(handle, "replace-tag", plan, dry_run=dry_run)
    if dry_run:
        return removed
    check_not_expired(handle, made[-1])
    _mention_callbacks(handle)
    return _made(handle, made[-1], asked)


def _place(
    handle: TableHandle, name: str, snapshot_id: int | None, version: str | int | None
) -> tuple[TableHandle, Snapshot | None]:
    """The branch that a tag of a version belongs to, and the version's snapshot; None where no version is given."""
    if version is None:
        return handle, None
    if snapshot_id is not None:
        raise InvalidInputError(
            f"tag {name!r} of {handle.describe()} is given snapshot_id and version; give one of them",
            **handle.context,
            tag=name,
        )
    handle = current(handle)
    found = resolve(handle, text_version(str(version)))
    if found.snapshot is None or found.handle.branch == handle.branch:
        return open_branch(handle, found.handle.branch), found.snapshot
    own = find_known_snapshot(handle, found.snapshot.id)
    is_own = own is not None and same_snapshot(own, found.snapshot)
    return handle if is_own else open_branch(handle, found.handle.branch), found.snapshot


def _made(handle: TableHandle, tag: Tag, asked: str) -> TagInfo:
    """The tag, with its branch where that is not the one asked."""
    info = tag_info(tag)
    return info if handle.branch == asked else replace(info, branch=handle.branch)


def rename_tag(handle: TableHandle, old: str, new: str) -> TagInfo:
    """Rename a tag, also in the records of branches that were created from it."""
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
            *_rename_in_forks(branch, tag, new),
            *delete_steps(branch, options, old),
        )
        return TableChange("rename-tag", f"renaming of tag {old!r} on branch {branch.branch!r} to {new!r}", steps)

    change_branch(handle, "rename-tag", plan)
    return tag_info(made[-1])


def delete_tags(handle: TableHandle, names: Sequence[str], *, dry_run: bool = False) -> Removed:
    """Delete tags, all or none, and the files that nothing else needs.

    A branch that was created from one of them keeps its base: its snapshots and its guard tag need the files.
    """
    distinct = _names(handle, names)

    def plan(branch: TableHandle) -> TableChange:
        tags = [get_tag(branch, name) for name in distinct]
        for tag in tags:
            _check_not_guard(branch, tag.name, "deleted")
        shown = ", ".join(repr(tag.name) for tag in tags)
        return delete_tags_change(branch, tags, "delete-tag", f"deletion of tag {shown} on branch {branch.branch!r}")

    return change_branch(handle, "delete-tag", plan, dry_run=dry_run)


def previous_tag(handle: TableHandle, name: str) -> TagInfo | None:
    """The tag with the newest snapshot committed before that of tag `name`; None for the earliest.

    Skips guard tags. Raises TagNotFoundError.
    """
    time_ms = get_tag(handle, name).snapshot.time_ms
    earlier = [t for t in _by_commit_time(handle) if t.snapshot.time_ms < time_ms]
    return tag_info(earlier[-1]) if earlier else None


def next_tag(handle: TableHandle, name: str) -> TagInfo | None:
    """The tag with the oldest snapshot committed after that of tag `name`; None for the latest.

    Skips guard tags. Raises TagNotFoundError.
    """
    time_ms = get_tag(handle, name).snapshot.time_ms
    later = [t for t in _by_commit_time(handle) if t.snapshot.time_ms > time_ms]
    return tag_info(later[0]) if later else None


def _by_commit_time(handle: TableHandle) -> list[Tag]:
    tags = [t for t in list_tags(handle) if guarded_branch(t.name) is None]
    return sorted(tags, key=lambda t: (t.snapshot.time_ms, t.snapshot.id, t.name))


def _check_name(handle: TableHandle, name: str) -> None:
    check_tag_name(name, table=handle.describe(), branch_names=branch_names(handle.store, handle.layout))


def _check_may_move(handle: TableHandle, name: str, verb: str) -> None:
    _check_not_guard(handle, name, verb)
    if savepoint_id_of(name) is not None:
        raise InvalidInputError(
            f"tag {name!r} of {handle.describe()} is a savepoint and cannot be {verb}; use delete_savepoint, or tag "
            "its snapshot under another name",
            **handle.context,
            tag=name,
        )


def _check_not_guard(handle: TableHandle, name: str, verb: str) -> None:
    branch = existing_guarded_branch(handle, name)
    if branch is not None:
        raise InvalidInputError(
            f"tag {name!r} of {handle.describe()} guards the base of branch {branch!r} and cannot be {verb}; "
            f"delete_branch({branch!r}) deletes it with the branch",
            **handle.context,
            tag=name,
        )


def _check_auto_name(
    handle: TableHandle, options: TagOptions, name: str, snapshot: Snapshot, besides: str | None = None
) -> None:
    """Check that a snapshot gets one tag named by time at most: Paimon's automatic tagging fails at two."""
    if options.creation not in _BY_TIME or auto_tag_time(name, options) is None:
        return
    for tag in list_tags(handle):
        by_time = tag.name != besides and auto_tag_time(tag.name, options) is not None
        if by_time and tag.snapshot.id == snapshot.id:
            raise InvalidInputError(
                f"{name!r} has the form of automatic tags of {handle.describe()}, and snapshot {snapshot.id} already "
                f"has one, {tag.name!r}; choose another name",
                **handle.context,
                tag=name,
            )


def _rename_in_forks(handle: TableHandle, tag: Tag, new: str) -> Iterator[Step]:
    """Write the tag's new name into the `FORK` files of branches created from it."""
    for branch, fork in recorded_forks(handle):
        if (fork.parent, fork.tag, fork.snapshot_id) == (logical_name(handle), tag.name, tag.snapshot.id):
            yield put_fork(branch, replace(fork, tag=new))


def _names(handle: TableHandle, given: object) -> list[str]:
    """Check names of tags from a call; returns each once."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        names = list(given)
        if all(isinstance(name, str) for name in names):
            return list(dict.fromkeys(names))
    raise InvalidInputError(
        f"{given!r} is not a list of tag names of {handle.describe()}; give a name, or a list of names",
        **handle.context,
    )


def _retained_s(handle: TableHandle, given: str | timedelta | None) -> float | None:
    """Parse a retention; in seconds."""
    if given is None:
        return None
    try:
        if isinstance(given, timedelta):
            seconds = given.total_seconds()
        elif isinstance(given, str):
            seconds = duration_ms(given) / 1000
        else:
            raise ValueError("a number has no unit")
        if seconds <= 0:
            raise ValueError("it must be positive")
        if seconds > _LONGEST_S:
            raise ValueError("it is too long for other engines; leave it out to keep the tag forever")
    except ValueError as e:
        raise InvalidInputError(
            f"time_retained = {_shown_retention(given)} for a tag of {handle.describe()}: {e}{GIVE_RETENTION}",
            **handle.context,
            argument="time_retained",
        ) from e
    return seconds


def _shown_retention(given: object) -> str:
    return repr(duration(given.total_seconds()) if isinstance(given, timedelta) else given)


def _mention_callbacks(handle: TableHandle) -> None:
    callbacks = handle.options.tags.callbacks
    if callbacks:
        _LOG.warning(
            "option tag.callbacks of %s names Java classes, which are not called for tags created here: %s",
            handle.describe(),
            callbacks,
        )
    if handle.options.raw.get(TAG_TO_PARTITION, "").strip():
        _LOG.warning(
            "option %s of %s: tags created here are not added to a Hive metastore as partitions",
            TAG_TO_PARTITION,
            handle.describe(),
        )


def _exists(handle: TableHandle, name: str) -> TagAlreadyExistsError:
    return TagAlreadyExistsError(
        f"{handle.describe()} already has a tag {name!r}; {MOVE_TAG}",
        **handle.context,
        tag=name,
    )


def expire_tags(
    handle: TableHandle,
    *,
    older_than_ms: int | None = None,
    dry_run: bool = False,
    wait_ms: int = 60_000,
    clock: Callable[[], datetime] = local_now,
) -> Removed:
    """Delete expired tags, and with `older_than_ms` (epoch milliseconds) all tags created before it.

    The retention of a tag starts at its creation, on the local clock. A tag without recorded creation was created when
    its file was last changed. Guard tags stay, and savepoints without a retention.
    """
    older_than = None if older_than_ms is None else local_time(older_than_ms)

    def plan(branch: TableHandle) -> TableChange | None:
        expired = _expired(branch, clock(), older_than)
        label = f"expiry of {len(expired)} tags on branch {branch.branch!r}"
        return delete_tags_change(branch, expired, "expire-tags", label) if expired else None

    planned = plan(handle)  # without the lock first, as every commit calls this
    if dry_run or planned is None:
        done = preview(handle, planned)
    else:
        done = change_branch(handle, "expire-tags", plan, wait_ms=wait_ms)
    return replace(done, older_than_ms=older_than_ms)


def expired_tags(handle: TableHandle, clock: Callable[[], datetime] = local_now) -> list[Tag]:
    """The tags that `expire_tags` would delete now. Raises CorruptFileError."""
    return _expired(handle, clock(), None)


def _expired(handle: TableHandle, now: datetime, older_than: datetime | None) -> list[Tag]:
    tags = [t for t in list_tags(handle) if existing_guarded_branch(handle, t.name) is None]
    if older_than is not None and any(t.create_time is None or t.time_retained_s is None for t in tags):
        changed = {i.name.removeprefix(TAG_PREFIX): i.modified_ms for i in handle.store.list(handle.layout.tag_dir)}
    else:
        changed = {}
    return [t for t in tags if _is_expired(t, changed.get(t.name), now, older_than)]


def _is_expired(tag: Tag, changed_ms: int | None, now: datetime, older_than: datetime | None) -> bool:
    if tag.create_time is not None and tag.time_retained_s is not None:
        try:
            is_retained = now <= tag.create_time + timedelta(seconds=tag.time_retained_s)
        except OverflowError:
            is_retained = True
        return not is_retained or (older_than is not None and older_than > tag.create_time)
    if older_than is None or changed_ms is None or savepoint_id_of(tag.name) is not None:
        return False
    return older_than > local_time(changed_ms)
