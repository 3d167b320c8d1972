"""Resolution of versions to snapshots, and of the ends of incremental reads.

The order in which a version text is tried is this package's own (README, Versions).

Source: Java `table/source/snapshot/TimeTravelUtil`, `AbstractFileStoreTable.tryTimeTravel`,
`AbstractDataTableScan.createIncrementalStartingScanner`, `IncrementalDeltaStartingScanner`,
`IncrementalDiffStartingScanner`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from paimon_spark.errors import (
    CorruptFileError,
    InvalidOptionError,
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
from paimon_spark.metadata.retry import RACES
from paimon_spark.metadata.schemas import read_schema
from paimon_spark.metadata.snapshots import (
    alive_range,
    earliest_snapshot,
    find_snapshot,
    latest_snapshot,
    newest_compacted,
    snapshot_at_or_after_watermark,
    snapshot_at_or_before_ms,
    snapshot_missing,
)
from paimon_spark.metadata.tags import (
    auto_tag_time,
    find_tag,
    get_savepoint,
    get_tag,
    list_tags,
    listed,
    near_tags,
    offered_tag_names,
    savepoint_tag,
    tag_names,
    tag_of_snapshot,
)
from paimon_spark.metadata.version import (
    VersionKind,
    VersionSpec,
    branch_version,
    epoch_ms,
    text_version,
    typed_version,
)
from paimon_spark.options.scan import INCREMENTAL_KEYS, SCAN_MODE
from paimon_spark.text import id_of, integer_of

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
    for _ in range(RACES):
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
            return _tagged(handle, _tag(handle, str(version.value)))
        case VersionKind.COMPACTED:
            return _compacted(handle)
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
    number = id_of(text)
    if number is not None:
        return _snapshot(handle, number, text)
    if branch_exists(handle, text):
        return _head(open_branch(handle, text))
    raise _no_such_version(handle, text, asked)


def _head(handle: TableHandle) -> Resolved:
    return Resolved(handle, latest_snapshot(handle), f"head of {handle.branch}")


def _compacted(handle: TableHandle) -> Resolved:
    """The newest snapshot made by compaction, with the latest schema."""
    head = latest_snapshot(handle)
    snapshot = None if head is None else newest_compacted(handle, head)
    is_head = head is None or head is snapshot
    return _head(handle) if is_head else Resolved(handle, snapshot, "newest compacted snapshot", travelled=True)


def _travelled(handle: TableHandle, snapshot: Snapshot, label: str, tag: str | None = None) -> Resolved:
    """A snapshot is read with the schema it was made with, and the options that hold now."""
    schema = handle.schema
    if schema.id != snapshot.schema_id:
        schema = read_schema(handle.store, handle.layout, snapshot.schema_id)
    return Resolved(handle.with_schema(schema), snapshot, label, tag, travelled=True)


def _tagged(handle: TableHandle, tag: Tag) -> Resolved:
    return _travelled(handle, tag.snapshot, f"tag {tag.name!r}", tag.name)


def _tag(handle: TableHandle, name: str) -> Tag:
    try:
        return get_tag(handle, name)
    except TagNotFoundError as e:
        raise TagNotFoundError(f"{e.message}; {_range(handle)}", **e.context) from None


def _range(handle: TableHandle) -> str:
    return f"on branch {handle.branch!r} {alive_range(handle)}"


def _snapshot(handle: TableHandle, snapshot_id: int, text: str | None = None) -> Resolved:
    """The snapshot with this id; `text` is the version that was found to be an id, and no tag."""
    snapshot = find_snapshot(handle, snapshot_id)
    if snapshot is not None:
        return _travelled(handle, snapshot, f"snapshot {snapshot_id}")
    error = snapshot_missing(handle, snapshot_id)
    tag = tag_of_snapshot(handle, snapshot_id)
    held = "" if tag is None else f"; tag {tag.name!r} still holds this snapshot"
    tried = f"snapshot {snapshot_id}" if text is None else f"a tag {text!r}, snapshot {snapshot_id}"
    close = [] if text is None else near_tags(text, offered_tag_names(handle))
    offered = f". Did you mean tag {' or '.join(map(repr, close))}?" if close else ""
    raise type(error)(f"{error.message}{held}. Tried on branch {handle.branch!r}: {tried}{offered}", **error.context)


def _tag_id(handle: TableHandle, snapshot_id: int) -> Resolved:
    tag = tag_of_snapshot(handle, snapshot_id)
    if tag is None:
        known = [f"{t.name} (id {t.snapshot.id})" for t in list_tags(handle)]
        raise TagNotFoundError(
            f"{handle.describe()} has no tag of snapshot {snapshot_id}; {listed('tags', known)}; {_range(handle)}",
            **handle.context,
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
            + (f"its latest watermark is {have}" if have is not None else "its latest snapshot has no watermark")
            + f"; {_range(handle)}",
            **handle.context,
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
        **handle.context,
        time_ms=time_ms,
    )


def _time(time_ms: int) -> str:
    """A time in words: the number, and UTC where a calendar has it."""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d} UTC ({time_ms} ms)"


def _no_such_version(handle: TableHandle, text: str, asked: str) -> VersionNotFoundError:
    tags, branches = offered_tag_names(handle), list_branch_names(handle)
    parts = branch_version(text)
    names = [*tags, MAIN, *branches]
    if parts:
        names += [f"{branch}.{parts[1]}" for branch in (MAIN, *branches)]
    close = near_tags(text, names)
    whole = "" if text == asked else f" (asked: {asked!r})"
    kinds = "a tag, a branch, a snapshot id, <branch>.<version>, or a typed version such as tag-name.<name>"
    return VersionNotFoundError(
        f"{handle.describe()} has no version {text!r}{whole}"
        + (f"; did you mean {' or '.join(map(repr, close))}? " if close else f": give {kinds}. ")
        + f"On branch {handle.branch!r} {alive_range(handle)}; {listed('tags', tags)}; "
        + f"branches are {', '.join([MAIN, *branches])}.",
        **handle.context,
        version=asked,
    )


BETWEEN, BETWEEN_TIMESTAMP, TO_AUTO_TAG = INCREMENTAL_KEYS


@dataclass(frozen=True, slots=True)
class ResolvedRange:
    """Snapshots between two versions: after `start_id`, up to and including `end`.

    Attributes:
        handle: the table on the branch of both ends, with its latest schema.
        start_id: exclusive; one less than the earliest snapshot alive means "from the beginning of what is left".
        start: the snapshot of `start_id`; None when the range begins before everything alive.
        end: inclusive; None when the range is empty because there is no snapshot, or no such automatic tag.
        tags: both ends are tags, so their snapshots may have expired and only their difference can be told.
    """

    handle: TableHandle
    start_id: int
    start: Snapshot | None
    end: Snapshot | None
    tags: bool = False

    @property
    def is_empty(self) -> bool:
        return self.end is None or self.end.id <= self.start_id


def resolve_range(handle: TableHandle, key: str, text: str, time_zone: str | None = None) -> ResolvedRange:
    """The ends that one of the options `incremental-between`, `-between-timestamp`, `-to-auto-tag` names.

    Those of `scan.mode` = latest-delta hold what the newest snapshot changed.

    Raises:
        InvalidOptionError: not two ends, ends in the wrong order or on two branches, or not an automatic tag.
        NotFoundError: an end of `incremental-between` does not exist; SnapshotExpiredError when it has expired.
        VersionSyntaxError: a timestamp cannot be read.
    """
    if key == BETWEEN:
        return _between(handle, *_two(key, text))
    if key == BETWEEN_TIMESTAMP:
        first, second = _two(key, text)
        return _between_times(handle, _end_ms(first, time_zone, key), _end_ms(second, time_zone, key), text)
    if key == SCAN_MODE:
        head = latest_snapshot(handle)
        start_id = 0 if head is None else head.id - 1
        return ResolvedRange(handle, start_id, find_snapshot(handle, start_id), head)
    return _to_auto_tag(handle, text)


def _two(key: str, text: str) -> tuple[str, str]:
    ends = [part.strip() for part in text.split(",")]
    if len(ends) != 2 or not all(ends):
        raise InvalidOptionError(
            f"option {key} = {text!r}: expected two versions with a comma between, the first one exclusive",
            option=key,
            value=text,
        )
    return ends[0], ends[1]


def _end_ms(text: str, time_zone: str | None, key: str) -> int:
    """A bare number is milliseconds here, as in Paimon."""
    number = integer_of(text)
    return epoch_ms(text, time_zone, key) if number is None else number


def _between(handle: TableHandle, first: str, second: str) -> ResolvedRange:
    before = _before_everything(handle, first)
    end = resolve(handle, text_version(second))
    if before is not None:
        _check_order(before, end, first, second)
        return ResolvedRange(_latest_schema(handle, end), before, None, end.snapshot)
    start = resolve(handle, text_version(first))
    if start.handle.branch != end.handle.branch:
        raise InvalidOptionError(
            f"option {BETWEEN}: {first!r} is on branch {start.handle.branch!r} and {second!r} on branch "
            f"{end.handle.branch!r}; both ends must be on one branch",
            option=BETWEEN,
        )
    start_id = 0 if start.snapshot is None else start.snapshot.id
    _check_order(start_id, end, first, second)
    tags = start.tag is not None and end.tag is not None
    return ResolvedRange(_latest_schema(handle, end), start_id, start.snapshot, end.snapshot, tags)


def _before_everything(handle: TableHandle, text: str) -> int | None:
    """The id just before the earliest snapshot alive, when `text` is that number; it is a start, but no snapshot."""
    number = id_of(text)
    if number is None or find_tag(handle, text) is not None or find_snapshot(handle, number) is not None:
        return None
    earliest = earliest_snapshot(handle)
    return number if earliest is not None and number == earliest.id - 1 else None


def _latest_schema(handle: TableHandle, end: Resolved) -> TableHandle:
    """The latest schema of the branch, which incremental reads use: their snapshots may have several."""
    return open_branch(handle, end.handle.branch)


def _check_order(start_id: int, end: Resolved, first: str, second: str) -> None:
    end_id = 0 if end.snapshot is None else end.snapshot.id
    if end_id < start_id:
        raise InvalidOptionError(
            f"option {BETWEEN}: {second!r} (snapshot {end_id}) is before {first!r} (snapshot {start_id}); "
            f"the older version comes first; {alive_range(end.handle)}",
            option=BETWEEN,
        )


def _between_times(handle: TableHandle, start_ms: int, end_ms: int, text: str) -> ResolvedRange:
    if end_ms < start_ms:
        raise InvalidOptionError(
            f"option {BETWEEN_TIMESTAMP} = {text!r}: the second time is before the first",
            option=BETWEEN_TIMESTAMP,
        )
    earliest, latest = earliest_snapshot(handle), latest_snapshot(handle)
    if earliest is None or latest is None:
        return ResolvedRange(handle, 0, None, None)
    if start_ms == end_ms or start_ms > latest.time_ms or end_ms < earliest.time_ms:
        return ResolvedRange(handle, latest.id, latest, latest)
    start = snapshot_at_or_before_ms(handle, start_ms)
    end = snapshot_at_or_before_ms(handle, end_ms) or latest
    return ResolvedRange(handle, earliest.id - 1 if start is None else start.id, start, end)


def _to_auto_tag(handle: TableHandle, name: str) -> ResolvedRange:
    """From the automatic tag before `name` to it; empty when it is the first one, or was never made.

    Source: Java `IncrementalDiffStartingScanner.toEndAutoTag`: a period in which nothing was committed has no tag.
    """
    options = handle.options.tags
    end_time = auto_tag_time(name, options)
    if end_time is None:
        raise InvalidOptionError(
            f"option {TO_AUTO_TAG} = {name!r}: {handle.describe()} makes no tags by time that are named so; "
            "use incremental-between with two tags",
            option=TO_AUTO_TAG,
            value=name,
        )
    end = find_tag(handle, name)
    if end is None:
        return ResolvedRange(handle, 0, None, None, tags=True)
    earlier: list[tuple[datetime, str]] = []
    for other in tag_names(handle):
        time = auto_tag_time(other, options)
        if time is not None and time < end_time:
            earlier.append((time, other))
    for _, other in sorted(earlier, reverse=True):
        start = find_tag(handle, other)
        if start is not None:  # it may have expired meanwhile
            return ResolvedRange(handle, start.snapshot.id, start.snapshot, end.snapshot, tags=True)
    return ResolvedRange(handle, end.snapshot.id, end.snapshot, end.snapshot, tags=True)
