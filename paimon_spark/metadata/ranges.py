"""Resolution of the two ends of an incremental read.

Source: Java `AbstractDataTableScan.createIncrementalStartingScanner`, `IncrementalDeltaStartingScanner`,
`IncrementalDiffStartingScanner`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from paimon_spark.errors import InvalidOptionError
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle, open_branch
from paimon_spark.metadata.resolve import Resolved, resolve
from paimon_spark.metadata.snapshots import (
    alive_range,
    earliest_snapshot,
    find_snapshot,
    latest_snapshot,
    snapshot_at_or_before_ms,
)
from paimon_spark.metadata.tags import auto_tag_time, find_tag, tag_names
from paimon_spark.metadata.version import epoch_ms, snapshot_number, text_version

BETWEEN = "incremental-between"
BETWEEN_TIMESTAMP = "incremental-between-timestamp"
TO_AUTO_TAG = "incremental-to-auto-tag"


@dataclass(frozen=True, slots=True)
class ResolvedRange:
    """What lies between two versions: after `start_id`, up to and with `end`.

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

    Raises:
        InvalidOptionError: not two ends, ends in the wrong order or on two branches, or not an automatic tag.
        NotFoundError: an end of `incremental-between` does not exist; SnapshotExpiredError when it has expired.
        VersionSyntaxError: a timestamp cannot be read.
    """
    if key == BETWEEN:
        return _between(handle, *_two(key, text))
    if key == BETWEEN_TIMESTAMP:
        first, second = _two(key, text)
        return _between_times(handle, _time(first, time_zone, key), _time(second, time_zone, key), text)
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


def _time(text: str, time_zone: str | None, key: str) -> int:
    """A bare number is milliseconds here, as in Paimon."""
    number = text.removeprefix("-")
    return int(text) if number.isascii() and number.isdigit() else epoch_ms(text, time_zone, key)


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
    number = snapshot_number(text)
    if number is None or find_tag(handle, text) is not None or find_snapshot(handle, number) is not None:
        return None
    earliest = earliest_snapshot(handle)
    return number if earliest is not None and number == earliest.id - 1 else None


def _latest_schema(handle: TableHandle, end: Resolved) -> TableHandle:
    """Incremental reads use the branch's latest schema: there is no one snapshot whose schema would do."""
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
