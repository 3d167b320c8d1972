"""The first offset of a stream without a checkpoint, and its progress in its consumer file.

Java starts with the earliest snapshot when the requested one has expired; here that is an error, as rows would be
missing without notice. A time is accepted when no snapshot since then has expired. A time after all snapshots starts
with the next one, as in Java.

A consumer file (`consumer-id`) keeps unread snapshots. A stream that starts with a full state marks that in its
consumer: a query that dies before its first batch is in the checkpoint starts again, and must read the state then. A
stream that compares each snapshot with the one before keeps that one too.

Source: Java `table/source/AbstractDataTableScan.createStartingScanner`, `table/source/snapshot/Continuous…Scanner`,
`FullStartingScanner`, `CompactedStartingScanner`, `FullCompactedStartingScanner`, `FileCreationTimeStartingScanner`,
`TimeTravelUtil.earlierThanTimeMills`, `consumer/ConsumerManager`,
`DataTableStreamScan.notifyCheckpointComplete`. Starting with tags and savepoints is our own.

Tests: tests/unit/streaming/test_start.py, test_start_model.py, test_consumer.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from paimon_spark.errors import (
    CorruptFileError,
    HistoryChangedError,
    InvalidOptionError,
    OffsetError,
    SnapshotExpiredError,
    SnapshotNotFoundError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.maintenance.consumers import Consumer, LastRead, find_consumer, write_consumer
from paimon_spark.maintenance.expiry import CHANGELOG_EXPIRY, SNAPSHOT_EXPIRY
from paimon_spark.metadata.branches import fork_of, same_snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.journal.lock import find_lock
from paimon_spark.metadata.resolve import resolve
from paimon_spark.metadata.snapshots import (
    alive_range,
    find_changelog,
    find_snapshot,
    latest_snapshot,
    list_changelog_ids,
    newest_compacted,
    snapshot_at_or_after_ms,
)
from paimon_spark.metadata.tags import tag_of_snapshot
from paimon_spark.metadata.version import VersionKind, from_option
from paimon_spark.options.stream_read import StartMode, StreamReadOptions
from paimon_spark.streaming.history import changes_since, find_kept, moving, offset_after
from paimon_spark.streaming.offset import Part, Phase, StreamOffset

UNPLANNED: Final = Part(Phase.STATE, 0, 0, "")
"""Nothing of a state has been read, and how many units it has is not known yet."""
_WITH_STATE: Final = (
    StartMode.LATEST_FULL, StartMode.COMPACTED_FULL, StartMode.FROM_SNAPSHOT_FULL, StartMode.FROM_FILE_CREATION_TIME,
    StartMode.FROM_CREATION_TIMESTAMP,
)  # fmt: skip


def first_offset(handle: TableHandle, options: StreamReadOptions) -> StreamOffset:
    """The offset before everything that a new query reads.

    A stream that begins with a state gets `UNPLANNED` as its part, as nothing is planned here. On a branch without a
    snapshot, the first one committed decides.

    Raises:
        SnapshotExpiredError: what is to be read first has expired; says from where on changes can be read.
        SnapshotNotFoundError: a snapshot never existed, or does not exist yet.
        NotFoundError, VersionNotFoundError: a version does not exist.
        HistoryChangedError: a tag or a consumer is of another history than the branch has now.
        InvalidOptionError: a version is on another branch.
        ChangingHistoryError: main comes to mean another branch at this moment.
    """
    start = _Start(handle, options)
    if options.consumer is not None and not options.ignore_progress:
        consumer = find_consumer(handle, options.consumer)
        # A consumer that has yet to read a state belongs to a query that died before its first batch was recorded.
        if consumer is not None and not consumer.in_state:
            return start.of_consumer(consumer)
    if options.mode in (StartMode.FROM_SNAPSHOT, StartMode.FROM_SNAPSHOT_FULL):
        return start.of_version()
    head = latest_snapshot(handle)
    if head is None:
        return start.at(None)
    match options.mode:
        case StartMode.LATEST:
            return start.at(head)
        case StartMode.COMPACTED_FULL:
            return start.at(newest_compacted(handle, head), UNPLANNED)
        case StartMode.FROM_TIMESTAMP:
            return start.of_time(head)
        case StartMode.FROM_CREATION_TIMESTAMP:
            return start.of_creation_time(head)
        case _:
            return start.at(head, UNPLANNED)


@dataclass(frozen=True, slots=True)
class _Start:
    """The search for the first offset; its methods return it for one kind of start each."""

    handle: TableHandle
    options: StreamReadOptions

    @property
    def asked(self) -> str:
        """The requested start, for messages."""
        if self.options.start is None:
            return f"scan.mode = {self.options.mode.value}"
        key, text = self.options.start
        return f"{key} = {text}"

    def at(self, snapshot: Snapshot | None, part: Part | None = None, begins_with: Phase | None = None) -> StreamOffset:
        """The offset after a snapshot, or in it; None for a branch without one."""
        if snapshot is None:
            default = Phase.STATE if self.options.mode in _WITH_STATE else Phase.CHANGES
            return StreamOffset(self.handle.location, self.handle.branch, None, begins_with=begins_with or default)
        return replace(offset_after(self.handle, snapshot), part=part)

    def before(self, snapshot: Snapshot) -> StreamOffset:
        """The offset before the changes of a snapshot."""
        if snapshot.id == 1:
            return StreamOffset(self.handle.location, self.handle.branch, 0)
        previous = find_kept(self.handle, snapshot.id - 1)
        if previous is not None:
            return self.at(previous)
        return StreamOffset(self.handle.location, self.handle.branch, snapshot.id - 1, rows=snapshot.rows_before)

    def of_consumer(self, consumer: Consumer) -> StreamOffset:
        name, next_snapshot = consumer.name, consumer.reads_next
        who = f"consumer {name!r} of {self.handle.describe()}"
        instead = "reset the consumer, or give consumer.ignore-progress = true and where to begin (scan.mode)"
        head = latest_snapshot(self.handle)
        newest = 0 if head is None else head.id
        if next_snapshot < 1:
            raise OffsetError(
                f"{who} continues with snapshot {next_snapshot}, but ids begin with 1; {instead}", consumer=name
            )
        found = alive_range(self.handle) if next_snapshot > newest + 1 else self._parted(consumer)
        if found is not None:
            raise HistoryChangedError(
                f"{who} continues with snapshot {next_snapshot}, but {found}: the branch was rolled back or given "
                f"another history since the consumer read it; {instead}",
                **self.handle.context,
                consumer=name,
                snapshot_id=next_snapshot,
            )
        if next_snapshot == newest + 1:
            return self.at(head, begins_with=Phase.CHANGES)
        snapshot = find_kept(self.handle, next_snapshot)
        if snapshot is None:
            raise self._expired(f"{who} has yet to read snapshot {next_snapshot}, which", next_snapshot, instead)
        return self.before(snapshot)

    def _parted(self, consumer: Consumer) -> str | None:
        """Why the branch has another history than the consumer has read, as text; None when it has not."""
        last = consumer.last
        if last is None:
            return None
        now = find_kept(self.handle, last.snapshot_id)
        if now is not None:
            return (
                None if now.delta_manifest_list == last.made else f"snapshot {now.id} is not the one that it has read"
            )
        after = find_kept(self.handle, last.snapshot_id + 1)
        if after is None or after.may_follow(last.rows):
            return None
        return f"snapshot {after.id} was not made on the one that it has read"

    def of_version(self) -> StreamOffset:
        full = self.options.mode is StartMode.FROM_SNAPSHOT_FULL
        snapshot_id, named = self._find_version()
        if snapshot_id is None:
            return self.at(None)
        head = latest_snapshot(self.handle)  # after the version was found, as it may be the newest
        newest = 0 if head is None else head.id
        if snapshot_id > newest:
            if named is not None:
                raise self._foreign(named, alive_range(self.handle))
            if full or snapshot_id > newest + 1:
                raise self._not_yet(snapshot_id, full)
            return self.at(head)
        alive = find_kept(self.handle, snapshot_id)
        if named is not None and alive is not None and not same_snapshot(named, alive):
            raise self._foreign(named, f"the branch has another snapshot {snapshot_id}")
        if full:
            return self._state_of(snapshot_id, named, is_newest=snapshot_id == newest, is_known=alive is not None)
        if alive is None:
            raise self._expired(self._what(snapshot_id), snapshot_id)
        return self.before(alive)

    def of_time(self, head: Snapshot) -> StreamOffset:
        time_ms = self._time_ms()
        first = first_at_or_after(self.handle, time_ms)
        if first is None:
            return self.at(head)
        if first.id > 1 and find_kept(self.handle, first.id - 1) is None:
            tag = tag_of_snapshot(self.handle, first.id - 1)
            if tag is None or tag.snapshot.time_ms >= time_ms:
                what = f"snapshot {first.id - 1} of {self.handle.describe()}, which may be later than {self.asked},"
                raise self._expired(what, first.id - 1)
        return self.before(first)

    def of_creation_time(self, head: Snapshot) -> StreamOffset:
        """From the first snapshot since the time, if its predecessor is kept; else the live files created since."""
        first = first_at_or_after(self.handle, self._time_ms())
        if first is not None and first.id > 1 and find_kept(self.handle, first.id - 1) is not None:
            return self.before(first)
        return self.at(head, UNPLANNED)

    def _time_ms(self) -> int:
        assert self.options.start is not None
        since = self.options.created_since_ms
        if since is not None:
            return since
        spec = from_option(*self.options.start, self.options.rows.time_zone)
        return int(spec.value)

    def _find_version(self) -> tuple[int | None, Snapshot | None]:
        """Id of the requested snapshot, and the snapshot if it is alive or in a tag; None, None for no snapshot."""
        assert self.options.start is not None
        spec = from_option(*self.options.start, self.options.rows.time_zone)
        if spec.kind is VersionKind.SNAPSHOT:
            return int(spec.value), find_snapshot(self.handle, int(spec.value))
        try:
            found = resolve(self.handle, spec)
        except SnapshotNotFoundError as e:
            snapshot_id = e.context.get("snapshot_id")
            if snapshot_id is None or e.context.get("branch") != self.handle.branch:
                raise
            return int(snapshot_id), None
        if found.handle.layout.directory_branch != self.handle.layout.directory_branch:
            if found.handle.branch == self.handle.branch:
                raise moving(self.handle)  # main came to mean another directory
            raise InvalidOptionError(
                f"{self.asked} is {found.label} of branch {found.handle.branch!r}, but the stream reads "
                f"{self.handle.describe()}; give option branch = {found.handle.branch}",
                option=self.options.start[0],
                branch=found.handle.branch,
            )
        return (None, None) if found.snapshot is None else (found.snapshot.id, found.snapshot)

    def _state_of(self, snapshot_id: int, named: Snapshot | None, *, is_newest: bool, is_known: bool) -> StreamOffset:
        """From the state of a snapshot that is alive or in a tag; later changes must exist too.

        If only a tag is left, its number of rows shows whether the next snapshot was made on it: other engines may
        leave tags of a former history.
        """
        if named is None:
            raise self._expired(self._what(snapshot_id), snapshot_id)
        if not is_newest:
            following = find_kept(self.handle, snapshot_id + 1)
            if following is None:
                what = f"snapshot {snapshot_id + 1} of {self.handle.describe()}, which follows {self.asked},"
                raise self._expired(what, snapshot_id + 1)
            if not is_known and not following.may_follow(named.total_record_count):
                raise self._foreign(
                    named,
                    f"it has {named.total_record_count} rows, and the branch had {following.rows_before} before "
                    f"snapshot {following.id}",
                )
        return self.at(named, UNPLANNED)

    def _what(self, snapshot_id: int) -> str:
        return f"snapshot {snapshot_id} of {self.handle.describe()}, with which the stream was to begin ({self.asked}),"

    def _expired(self, what: str, snapshot_id: int, instead: str | None = None) -> SnapshotExpiredError:
        since = changes_since(self.handle)
        begin = "" if since is None else f"there (scan.snapshot-id = {since}), or "
        instead = instead or f"begin {begin}with all rows (scan.mode = latest-full)" + self._held(since)
        can = "no snapshot is left" if since is None else f"changes can be read from snapshot {since} on"
        return SnapshotExpiredError(
            f"{what} {self._why_gone(snapshot_id)}: {can}; {instead}",
            **self.handle.context,
            snapshot_id=snapshot_id,
            earliest=since,
        )

    def _why_gone(self, snapshot_id: int) -> str:
        try:
            fork = fork_of(self.handle)
        except CorruptFileError:
            fork = None
        if fork is None or fork.snapshot_id is None or snapshot_id >= fork.snapshot_id:
            return "has expired"
        return f"is not on this branch, which left {fork.parent!r} at snapshot {fork.snapshot_id}"

    def _held(self, since: int | None) -> str:
        """Name the tag of the expired snapshot before `since`, from which a stream could begin, as text."""
        tag = None if since is None else tag_of_snapshot(self.handle, since - 1)
        if tag is None:
            return ""
        return (
            f"; tag {tag.name!r} holds the state of snapshot {tag.snapshot.id}, with which scan.mode = "
            f"from-snapshot-full and scan.tag-name = {tag.name} begin"
        )

    def _not_yet(self, snapshot_id: int, full: bool) -> SnapshotNotFoundError:
        last = "the newest one" if full else "the one after the newest"
        return SnapshotNotFoundError(
            f"{self.handle.describe()} has no snapshot {snapshot_id} ({self.asked}): {alive_range(self.handle)}; a "
            f"stream begins with {last} at the latest (scan.mode = latest: with whatever comes next)",
            **self.handle.context,
            snapshot_id=snapshot_id,
        )

    def _foreign(self, named: Snapshot, why: str) -> HistoryChangedError:
        return HistoryChangedError(
            f"{self.asked} is snapshot {named.id} of another history than {self.handle.describe()} has now: {why}. The "
            "branch was rolled back or given another history; begin with a snapshot that it has",
            **self.handle.context,
            snapshot_id=named.id,
        )


def first_at_or_after(handle: TableHandle, time_ms: int) -> Snapshot | None:
    """The first snapshot since a time whose changes can be read; None when all are earlier."""
    found = snapshot_at_or_after_ms(handle, time_ms)
    if found is None or find_snapshot(handle, found.id - 1) is not None:
        return found
    ids = [i for i in list_changelog_ids(handle) if i < found.id]
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        changelog = find_changelog(handle, ids[middle])
        if changelog is None or changelog.time_ms < time_ms:
            low = middle + 1
        else:
            found, high = changelog, middle
    return found


_LONGEST_MS: Final = 3_600_000
"""An idle consumer is written again at least this often, as its age is that of its file."""
_EXPIRY: Final = (SNAPSHOT_EXPIRY, CHANGELOG_EXPIRY)
_LONGEST_WAIT_MS: Final = 60_000
_WAIT_S: Final = 0.05


def needed(name: str, offset: StreamOffset, *, compares: bool = False) -> Consumer:
    """The consumer of a stream that has read up to an offset; it keeps a snapshot that is partly unread.

    With `compares`, changes are computed from the previous snapshot, which is kept too.
    """
    read = offset.snapshot_id or 0
    last = LastRead(read, offset.made, offset.rows) if read and offset.made is not None else None
    if offset.part is not None and offset.part.phase is Phase.STATE:
        return Consumer(name, read, in_state=True, last=last)
    reads_next = read + 1 if offset.part is None else read
    if compares and reads_next > 1:
        return Consumer(name, reads_next - 1, has_read=True, last=last)
    return Consumer(name, reads_next, offset.snapshot_id is None and offset.begins_with is Phase.STATE, last=last)


@dataclass(slots=True)
class ConsumerProgress:
    """Writes the file of one consumer; `compares` as in `needed`."""

    name: str
    clock_ms: Callable[[], int]
    sleep: Callable[[float], None] = time.sleep
    compares: bool = False
    _written: tuple[str, Consumer] | None = None
    _at_ms: int = 0

    def write(self, handle: TableHandle, offset: StreamOffset) -> None:
        """Let everything up to the offset expire, and nothing after it. Skips the write when nothing changed."""
        consumer = self._needed(offset)
        if self._written != (handle.layout.consumer_dir, consumer) or self._is_old(handle):
            self._put(handle, consumer)

    def begin(self, handle: TableHandle, offset: StreamOffset) -> None:
        """Write the consumer before anything is read, and wait for a running expiry that may not have seen it.

        The caller checks afterwards that the needed snapshots still exist. A consumer with an earlier snapshot stays
        until batches are complete: Spark asks for the first offset again when the first batch runs, and after a
        restart, and that batch still reads from the first answer.
        """
        consumer, found = self._needed(offset), find_consumer(handle, self.name)
        is_earlier = found is not None and found.next_snapshot < consumer.next_snapshot
        if found is not None and is_earlier and find_kept(handle, found.next_snapshot) is not None:
            consumer = found
        self._put(handle, consumer)
        until_ms = self.clock_ms() + _LONGEST_WAIT_MS
        first = find_lock(handle)
        lock = first
        while lock is not None and lock == first and lock.kind in _EXPIRY and self.clock_ms() < until_ms:
            self.sleep(_WAIT_S)
            lock = find_lock(handle)

    def refresh(self, handle: TableHandle, start: StreamOffset) -> None:
        """Keep the consumer from expiring while there is nothing to read, and restore it after a pause.

        A consumer before `start`, up to which the query has read for certain, stays until its batches are complete.
        """
        if self._written is not None and self._written[0] == handle.layout.consumer_dir:
            if self._is_old(handle):
                self._put(handle, self._written[1])
            return
        consumer, found = self._needed(start), find_consumer(handle, self.name)
        is_behind = found is not None and found.next_snapshot < consumer.next_snapshot
        self._put(handle, found if is_behind and found is not None else consumer)

    def _needed(self, offset: StreamOffset) -> Consumer:
        return needed(self.name, offset, compares=self.compares)

    def _put(self, handle: TableHandle, consumer: Consumer) -> None:
        write_consumer(handle, consumer)
        self._written, self._at_ms = (handle.layout.consumer_dir, consumer), self.clock_ms()

    def _is_old(self, handle: TableHandle) -> bool:
        life = handle.options.expiry.consumer_expiration_ms
        interval = _LONGEST_MS if life is None else min(life // 4, _LONGEST_MS)
        # After the clock was set back, the age of the file is unknown.
        return not 0 <= self.clock_ms() - self._at_ms < interval
