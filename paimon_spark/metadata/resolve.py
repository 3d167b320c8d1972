"""Resolution of a version to a branch, a snapshot and the schema to read it with.

Source: Java `table/source/snapshot/TimeTravelUtil`, `AbstractFileStoreTable.tryTimeTravel`; the order in which
a version text is tried is this package's own (README, Versions).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from paimon_spark.errors import (
    CorruptFileError,
    NotFoundError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
    TagNotFoundError,
    VersionNotFoundError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.metadata.branches import branch_exists, list_branch_names
from paimon_spark.metadata.handle import TableHandle, current, open_branch, read_main_branch
from paimon_spark.metadata.layout import MAIN
from paimon_spark.metadata.schemas import read_schema
from paimon_spark.metadata.snapshots import (
    alive_range,
    earliest_snapshot,
    find_snapshot,
    latest_snapshot,
    snapshot_at_or_after_watermark,
    snapshot_at_or_before_ms,
    snapshot_missing,
)
from paimon_spark.metadata.tags import (
    find_tag,
    get_savepoint,
    get_tag,
    list_tags,
    listed,
    savepoint_tag,
    tag_names,
    tag_of_snapshot,
)
from paimon_spark.metadata.version import (
    VersionKind,
    VersionSpec,
    branch_version,
    snapshot_number,
    typed_version,
)
from paimon_spark.options.descriptor import nearest

_RACES: Final = 5
"""Times a version is looked for again when main changes its directory meanwhile."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A version found.

    Attributes:
        handle: the table on the version's branch; its schema is the snapshot's when one was travelled to, and
            the branch's latest at its head. Options are those of the latest schema either way.
        snapshot: None when the branch has no snapshot yet.
        label: the version in words.
        tag: the name of the tag or savepoint that was asked for; None otherwise.
        travelled: the snapshot was named, and is not read for being the head.
    """

    handle: TableHandle
    snapshot: Snapshot | None
    label: str
    tag: str | None = None
    travelled: bool = False


def resolve(handle: TableHandle, version: VersionSpec | None) -> Resolved:
    """The snapshot that `version` means on the handle's branch; its head for None. Safe to retry.

    Raises:
        VersionNotFoundError: a text that matches nothing.
        TagNotFoundError, SavepointNotFoundError, SnapshotNotFoundError: a typed version that does not exist.
        SnapshotExpiredError: the snapshot, or everything at or before the time, has expired.
        CorruptFileError: a file on the way cannot be decoded.
    """
    for _ in range(_RACES):
        try:
            found = _resolve(handle, version)
        except (NotFoundError, CorruptFileError):
            fresh = current(handle)
            if fresh is handle:
                raise
        else:
            layout = handle.layout
            if layout.branch != MAIN or read_main_branch(handle.store, layout.root) == layout.main_branch:
                return found
            fresh = current(handle)
        handle = fresh  # main came to mean another directory while it was looked at
    return _resolve(handle, version)


def _resolve(handle: TableHandle, version: VersionSpec | None) -> Resolved:
    if version is None:
        return _head(handle)
    match version.kind:
        case VersionKind.TEXT:
            return _text(handle, str(version.value), str(version.value))
        case VersionKind.TAG:
            return _tagged(handle, get_tag(handle, str(version.value)))
    number = int(version.value)
    match version.kind:
        case VersionKind.SNAPSHOT:
            return _snapshot(handle, number)
        case VersionKind.TAG_ID:
            return _tag_id(handle, number)
        case VersionKind.SAVEPOINT:
            savepoint = get_savepoint(handle, number)
            label = f"savepoint {savepoint.id}"
            return _travelled(handle, savepoint.snapshot, label, savepoint_tag(savepoint.id))
        case VersionKind.WATERMARK:
            return _watermark(handle, number)
        case _:
            return _timestamp(handle, number)


def _text(handle: TableHandle, text: str, asked: str) -> Resolved:
    """The first rule that matches: exact tag, typed version, `<branch>.<rest>`, snapshot id, branch.

    `asked` is the whole text, of which `text` may be what follows a branch.
    """
    tag = find_tag(handle, text)
    if tag is not None:
        return _tagged(handle, tag)
    typed = typed_version(text)
    if typed is not None:
        return _resolve(handle, typed)
    parts = branch_version(text)
    if parts is not None and branch_exists(handle, parts[0]):
        return _text(open_branch(handle, parts[0]), parts[1], asked)
    number = snapshot_number(text)
    if number is not None:
        return _snapshot(handle, number)
    if branch_exists(handle, text):
        return _head(open_branch(handle, text))
    raise _no_such_version(handle, text, asked)


def _head(handle: TableHandle) -> Resolved:
    return Resolved(handle, latest_snapshot(handle), f"head of {handle.branch}")


def _travelled(handle: TableHandle, snapshot: Snapshot, label: str, tag: str | None = None) -> Resolved:
    """A snapshot is read with the schema it was made with, and the options that hold now."""
    schema = handle.schema
    if schema.id != snapshot.schema_id:
        schema = read_schema(handle.store, handle.layout, snapshot.schema_id)
    return Resolved(handle.with_schema(schema), snapshot, label, tag, travelled=True)


def _tagged(handle: TableHandle, tag: Tag) -> Resolved:
    return _travelled(handle, tag.snapshot, f"tag {tag.name!r}", tag.name)


def _snapshot(handle: TableHandle, snapshot_id: int) -> Resolved:
    snapshot = find_snapshot(handle, snapshot_id)
    if snapshot is not None:
        return _travelled(handle, snapshot, f"snapshot {snapshot_id}")
    error = snapshot_missing(handle, snapshot_id)
    tag = tag_of_snapshot(handle, snapshot_id)
    if tag is None:
        raise error
    raise type(error)(f"{error.message}; tag {tag.name!r} still holds this snapshot", **error.context)


def _tag_id(handle: TableHandle, snapshot_id: int) -> Resolved:
    tag = tag_of_snapshot(handle, snapshot_id)
    if tag is None:
        known = [f"{t.name} (id {t.snapshot.id})" for t in list_tags(handle)]
        raise TagNotFoundError(
            f"{handle.describe()} has no tag of snapshot {snapshot_id}; {listed('tags', known)}",
            table=handle.name,
            branch=handle.branch,
            snapshot_id=snapshot_id,
        )
    return _tagged(handle, tag)


def _watermark(handle: TableHandle, watermark: int) -> Resolved:
    snapshot = snapshot_at_or_after_watermark(handle, watermark)
    if snapshot is None:
        latest = latest_snapshot(handle)
        have = None if latest is None else latest.watermark
        raise SnapshotNotFoundError(
            f"{handle.describe()} has no snapshot with a watermark at or after {watermark}; "
            + (f"its latest watermark is {have}" if have is not None else "its latest snapshot has no watermark"),
            table=handle.name,
            branch=handle.branch,
            watermark=watermark,
        )
    return _travelled(handle, snapshot, f"watermark {watermark}")


def _timestamp(handle: TableHandle, time_ms: int) -> Resolved:
    snapshot = snapshot_at_or_before_ms(handle, time_ms)
    if snapshot is not None:
        return _travelled(handle, snapshot, f"snapshot {snapshot.id}, the newest at {_time(time_ms)}")
    tags = list_tags(handle)
    older = [t for t in tags if t.snapshot.time_ms <= time_ms]
    if older:
        return _tagged(handle, max(older, key=lambda t: (t.snapshot.time_ms, t.snapshot.id)))
    raise _too_early(handle, time_ms, tags)


def _too_early(handle: TableHandle, time_ms: int, tags: list[Tag]) -> SnapshotNotFoundError:
    earliest = earliest_snapshot(handle)
    times = [t.snapshot.time_ms for t in tags] + ([earliest.time_ms] if earliest else [])
    expired = earliest is not None and earliest.id > 1
    kind = SnapshotExpiredError if expired else SnapshotNotFoundError
    return kind(
        f"{handle.describe()} has no snapshot, tag or savepoint at or before {_time(time_ms)}"
        + (", it has expired" if expired else "")
        + (f"; the earliest time available is {_time(min(times))}" if times else "; it has no snapshot at all"),
        table=handle.name,
        branch=handle.branch,
        time_ms=time_ms,
    )


def _time(time_ms: int) -> str:
    """A time in words: the number, and UTC where a calendar has it."""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d} UTC ({time_ms} ms)"


def _no_such_version(handle: TableHandle, text: str, asked: str) -> VersionNotFoundError:
    tags, branches = tag_names(handle), list_branch_names(handle)
    typed = "snapshot.<id>, savepoint.<id>, tag-name.<name>, tag-id.<id>, watermark-<ms>"
    tried = [f"a tag {text!r}", f"a typed version ({typed})"]
    parts = branch_version(text)
    tried.append(f"a version {parts[1]!r} on a branch {parts[0]!r}" if parts else "<branch>.<version>")
    tried += ["a snapshot id", f"a branch {text!r}"]
    names = [*tags, MAIN, *branches]
    if parts:
        names += [f"{branch}.{parts[1]}" for branch in (MAIN, *branches)]
    close = nearest(text, names)
    whole = "" if text == asked else f" (asked: {asked!r})"
    return VersionNotFoundError(
        f"{handle.describe()} has no version {text!r}{whole}. Tried: {', '.join(tried)}. "
        + (f"Did you mean {' or '.join(map(repr, close))}? " if close else "")
        + f"On branch {handle.branch!r} {alive_range(handle)}; {listed('tags', tags)}; "
        + f"branches are {', '.join([MAIN, *branches])}.",
        table=handle.name,
        branch=handle.branch,
        version=asked,
    )
