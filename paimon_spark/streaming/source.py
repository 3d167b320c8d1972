"""StreamSource: a stream of one branch that turns offsets into plans, without Spark.

A batch reads either the full state of a snapshot or changes (`reader`, `engine.scan.stream_units`). Offsets advance
over snapshots without anything to read, so that they do not stay where snapshots expire. The branch's history is
checked before every offset and every plan (`history`).

Source: Java `DataTableStreamScan`, `PaimonMicroBatchStream`, `StreamHelper`, `schema/SchemaValidation`.

Tests: tests/unit/streaming/test_source.py, test_source_model.py, test_refusals.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from paimon_spark.engine.scan.incremental import Content
from paimon_spark.engine.scan.one_branch import merges_postponed, unmerged
from paimon_spark.engine.scan.plan import Plan
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks import output_type
from paimon_spark.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    FileMissingError,
    HistoryChangedError,
    InvalidOptionError,
    SchemaChangedError,
    SnapshotExpiredError,
)
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.maintenance.consumers import consumer_path
from paimon_spark.metadata.handle import TableHandle, current
from paimon_spark.metadata.retry import now_ms, retry
from paimon_spark.options.core import ChangelogProducer
from paimon_spark.options.scan import ScanOptions
from paimon_spark.options.stream_read import READ_APPEND_OVERWRITE, READ_OVERWRITE, ReadLimits, StreamReadOptions
from paimon_spark.predicate.ast import Predicate, names_of
from paimon_spark.streaming import history
from paimon_spark.streaming.history import ChangingHistoryError, OffsetPosition, expired
from paimon_spark.streaming.offset import Phase, StreamOffset
from paimon_spark.streaming.reader import Admission, BatchPlanner, QueryColumns, is_in, is_in_state
from paimon_spark.streaming.start import ConsumerProgress, first_offset
from paimon_spark.types import RowType

T = TypeVar("T")

_WAITS_S: Final = (0.05, 0.2, 1.0, 3.0)
"""Waits before a branch that another operation is changing is read again."""
_NO_LIMITS: Final = ReadLimits()
_ATTEMPTS: Final = 5
"""Starts that may expire before their consumer is written."""


class StreamSource:
    """A stream of one branch, on the driver; one for each query. Not for several threads.

    Attributes:
        table_name: the table's name in messages.
    """

    def __init__(
        self,
        handle: TableHandle,
        options: StreamReadOptions,
        *,
        clock_ms: Callable[[], int] = now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Check the options. Reads nothing."""
        check_stream(handle, options)
        self.options, self.table_name = options, handle.name
        self._clock_ms, self._sleep = clock_ms, sleep
        rows = options.rows
        row_type = output_type(
            handle.schema,
            rows.columns,
            table=handle.describe(),
            tracks_rows=handle.options.row_tracking,
            row_kind=rows.row_kind,
        )
        names = row_type.names[1:] if rows.row_kind else row_type.names
        predicate = _predicate(handle, rows)
        query = ScanQuery(names, predicate, rows.row_kind, batch_rows=rows.batch_rows)
        columns = QueryColumns.of(handle.schema, {*names, *names_of(predicate)})
        self._planner = BatchPlanner(handle, options, query, row_type, columns)
        compares = options.read_overwrite or handle.options.data_evolution
        self._progress = (
            None if options.consumer is None else ConsumerProgress(options.consumer, clock_ms, sleep, compares)
        )
        self._stop: int | None = None
        self._seen: Snapshot | None = None
        self._given_ms = 0
        self._waiting: _Waiting | None = None

    @property
    def handle(self) -> TableHandle:
        """The branch as last opened, with the schema of the query."""
        return self._planner.handle

    @property
    def row_type(self) -> RowType:
        """The columns of the result, as long as the query runs."""
        return self._planner.row_type

    def first(self) -> StreamOffset:
        """The first offset of a new query; its consumer keeps the snapshots from then on."""
        return self._retried(self._first)

    def next(self, start: StreamOffset, limits: ReadLimits | None = None) -> StreamOffset:
        """The end of the batch after `start`; `start` itself when nothing is new, or the batch waits for more.

        `limits`: how much it may read; None for the limits of the options. Aligned streams have none.

        Raises:
            HistoryChangedError: the branch has another history than was read.
            SnapshotExpiredError: what comes next has expired.
            OffsetError: the offset is not of this table, or not of this query.
            SchemaChangedError: a column of the query was dropped, or has another type.
        """
        self._seen = None
        allowed = self.options.limits if limits is None else limits
        end = self._retried(lambda: self._next(start, allowed), start)
        if end != start:
            self._given_ms, self._waiting = self._clock_ms(), None
        return end

    def next_up_to(self, start: StreamOffset, barrier: int, snapshot_id: int) -> StreamOffset:
        """The end of the batch after `start` that reads up to the snapshot which a followed job had read at a batch.

        Never before `start`: a stream that is further ahead only notes the batch. `start` itself while the branch
        does not have the snapshot.

        Args:
            start: where the batch begins.
            barrier: the batch of the job.
            snapshot_id: 0 when the job had read nothing yet.

        Raises as `next`.
        """
        return self._retried(lambda: self._next_up_to(start, barrier, snapshot_id), start)

    def newest(self) -> StreamOffset | None:
        """The offset after the head; None when the branch has no snapshot. Right after `next`, reads nothing."""
        seen, self._seen = self._seen, None
        return self._retried(self._newest) if seen is None else self._planner.after(seen)

    def stop_at_newest(self) -> None:
        """Stop at the current head, without waiting for more."""
        found = self._retried(self._newest)
        self._stop = 0 if found is None else found.snapshot_id

    def plan(self, start: StreamOffset, end: StreamOffset) -> Plan:
        """The splits with exactly the rows between two offsets; the same ones on every call."""
        return self._retried(lambda: self._planner.plan(start, end), start)

    def committed(self, end: StreamOffset) -> None:
        """Release everything up to `end`, which has been read and stored: the consumer moves on."""
        if self._progress is not None:
            progress = self._progress
            self._retried(lambda: progress.write(self.handle, end))

    def _retried(self, act: Callable[[], T], start: StreamOffset | None = None) -> T:
        """Run `act` on the reopened branch; again when the branch gets another history meanwhile."""
        for wait_s in (*_WAITS_S, None):
            try:
                self._reopen(start)
                return act()
            except ChangingHistoryError as e:
                if wait_s is None:
                    raise e.error from e
                self._sleep(wait_s)
            except (HistoryChangedError, SnapshotExpiredError, FileMissingError, CorruptFileError):
                if wait_s is None or current(self.handle) is self.handle:
                    raise
        raise AssertionError

    def _reopen(self, start: StreamOffset | None) -> None:
        """Follow main to another directory. The query keeps its schema if the branch has it."""
        handle = self.handle
        found = current(handle)
        if found is handle:
            return
        same = replace(handle, layout=found.layout)
        if current(same) is same:
            found = same
        else:
            try:
                self._planner.columns.check_other(found)
            except SchemaChangedError:
                if start is not None:
                    history.check(found, start)
                raise
        self._planner.move(found)

    def _first(self) -> StreamOffset:

        def started() -> StreamOffset:
            offset = self._first_offset()
            if self._progress is not None:
                self._progress.begin(self.handle, offset)
                history.check(self.handle, offset)
            return offset

        return retry(started, _ATTEMPTS, on=SnapshotExpiredError)

    def _first_offset(self) -> StreamOffset:
        if self.options.follow is None:
            return first_offset(self.handle, self.options)
        # What the job had read is known with the first batch.
        return StreamOffset(self.handle.location, self.handle.branch, None, begins_with=Phase.STATE)

    def _newest(self) -> StreamOffset | None:
        head = history.newest(self.handle)
        return None if head is None else self._planner.after(head)

    def _next(self, start: StreamOffset, limits: ReadLimits) -> StreamOffset:
        self._planner.keep_only(start)
        place = history.check(self.handle, start)
        if self._progress is not None:
            self._progress.refresh(self.handle, start)
        if is_in_state(start):
            return self._next_of_state(start, place, limits)
        head = history.newest(self.handle, place.snapshot if place.is_alive else None)
        self._seen = head
        if head is None:
            return start
        last, is_end = self._reachable(start, place, head)
        if last is None or (last.id == (start.snapshot_id or 0) and start.part is None):
            return start
        if self.options.aligned is not None:
            end = self._aligned(start, place, last, self.options.aligned, is_end)
        elif limits.unlimited:
            history.check_joined(self.handle, start.snapshot_id or 0, last)
            self._planner.columns.check(self.handle, [last.schema_id])
            end = self._planner.after(last)
        else:
            end = self._limited(start, place, last, limits, is_end)
        if end != start and not history.is_as_before(self.handle, place.snapshot, last):
            raise history.moving(self.handle)
        return end

    def _next_up_to(self, start: StreamOffset, barrier: int, snapshot_id: int) -> StreamOffset:
        self._planner.keep_only(start)
        place = history.check(self.handle, start)
        if self._progress is not None:
            self._progress.refresh(self.handle, start)
        if start.part is not None and is_in_state(start):  # begun before the query followed a job
            return self._next_of_state(start, place, _NO_LIMITS)
        at = start.snapshot_id or 0
        if snapshot_id < at or (snapshot_id == at and start.part is None):
            return replace(start, barrier=barrier)
        head = history.newest(self.handle, place.snapshot if place.is_alive else None)
        if head is None or snapshot_id > head.id:
            return start
        last = history.find_kept(self.handle, snapshot_id)
        if last is None:
            raise expired(self.handle, snapshot_id)
        self._planner.columns.check(self.handle, [last.schema_id])
        if not is_in_state(start):
            history.check_joined(self.handle, at, last)
        if not history.is_as_before(self.handle, place.snapshot, last):
            raise history.moving(self.handle)
        return replace(self._planner.after(last), barrier=barrier)

    def _next_of_state(self, start: StreamOffset, place: OffsetPosition, limits: ReadLimits) -> StreamOffset:
        """The end of a batch of a state: all of it, or what the limits allow. Waits for no rows."""
        snapshot = place.snapshot
        if start.snapshot_id is None:
            snapshot = history.newest(self.handle)
            if snapshot is None or (self._stop is not None and snapshot.id > self._stop):
                return start
        assert snapshot is not None
        if limits.unlimited or self.options.aligned is not None:
            return self._planner.after(snapshot)
        units = self._planner.units(snapshot, Content.STATE)
        taken = Admission(limits).take(units, self._planner.counted_off(start, units))
        return self._planner.at(units, Phase.STATE, taken)

    def _reachable(self, start: StreamOffset, place: OffsetPosition, head: Snapshot) -> tuple[Snapshot | None, bool]:
        """The last snapshot that may be read now, None for none; and whether the stream ends after it."""
        if place.snapshot is not None and self._is_beyond(place.snapshot):
            return place.snapshot, True
        is_end = self._stop is not None
        if self._stop is not None and self._stop < head.id:
            if self._stop <= (start.snapshot_id or 0):
                return place.snapshot, True
            stop = history.find_kept(self.handle, self._stop)
            if stop is None:
                raise expired(self.handle, self._stop)
            head = stop
        if not self._is_too_young(head) and not self._is_beyond(head):
            return head, is_end
        last = place.snapshot
        for snapshot in history.following(self.handle, start.snapshot_id or 0, head):
            if self._is_beyond(snapshot):
                return last, True
            if self._is_too_young(snapshot):
                break
            last = snapshot
        return last, is_end

    def _is_beyond(self, snapshot: Snapshot) -> bool:
        bound = self.options.bounded_watermark
        return bound is not None and snapshot.watermark is not None and snapshot.watermark > bound

    def _is_too_young(self, snapshot: Snapshot) -> bool:
        delay = self.options.delay_ms
        return delay is not None and snapshot.time_ms > self._clock_ms() - delay

    def _aligned(
        self, start: StreamOffset, place: OffsetPosition, last: Snapshot, count: int, is_end: bool
    ) -> StreamOffset:
        """The end after the next `count` snapshots with something to read; waits for them unless the stream ends."""
        so_far, place = self._counted(start, place, _NO_LIMITS)
        found = so_far.snapshots
        for units in self._planner.changes(so_far.counted, place, last):
            found += bool(len(units))
            if found == count:
                return self._planner.after(units.snapshot)
        end = self._planner.after(last)
        if found > 0 and not is_end:
            self._waiting = replace(so_far, counted=end, snapshots=found)
            return start
        return end

    def _limited(
        self, start: StreamOffset, place: OffsetPosition, last: Snapshot, limits: ReadLimits, is_end: bool
    ) -> StreamOffset:
        """The end that the limits allow; `start` while there are too few rows."""
        so_far, place = self._counted(start, place, limits)
        admission, begin = so_far.admission, so_far.counted
        end = begin
        for units in self._planner.changes(begin, place, last):
            first = self._planner.counted_off(begin, units) if is_in(begin, units.snapshot) else 0
            taken = admission.take(units, first)
            if taken > first or not len(units):
                end = self._planner.at(units, Phase.CHANGES, taken)
            if admission.is_full:
                break
            if admission.has_enough and admission.takes_all:
                end = self._planner.after(last)
                break
        else:
            end = self._planner.after(last) if last.id > (begin.snapshot_id or 0) else end
        late = limits.max_delay_ms is None or not 0 <= self._clock_ms() - self._given_ms <= limits.max_delay_ms
        if admission.has_enough or late or is_end:
            return end
        self._waiting = _Waiting(start, end, admission)
        return start

    def _counted(
        self, start: StreamOffset, place: OffsetPosition, limits: ReadLimits
    ) -> tuple[_Waiting, OffsetPosition]:
        """Counts of earlier triggers, unless the branch has another history now; and the position after them."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.start == start and waiting.admission.limits == limits:
            with suppress(HistoryChangedError, SnapshotExpiredError):
                place_of_counted = history.check(self.handle, waiting.counted)
                return replace(waiting, admission=replace(waiting.admission)), place_of_counted
        return _Waiting(start, start, Admission(limits)), place


def _predicate(handle: TableHandle, rows: ScanOptions) -> Predicate | None:
    if rows.where is None:
        return None
    from paimon_spark.predicate.parse import parse_predicate  # only streams with SQL text pay for the parser

    try:
        return parse_predicate(rows.where, handle.schema.row_type, rows.time_zone)
    except ColumnNotFoundError as e:
        raise ColumnNotFoundError(
            f"option where = {rows.where!r} of a stream of {handle.describe()}: {e.message}",
            **{**e.context, "table": handle.name, "branch": handle.branch},
        ) from None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Counts from `start` up to `counted` while a batch waits for more.

    Attributes:
        snapshots: of an aligned stream, those with something to read.
    """

    start: StreamOffset
    counted: StreamOffset
    admission: Admission
    snapshots: int = 0


_MAKES_CHANGELOG: Final = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)


def check_stream(handle: TableHandle, asked: StreamReadOptions) -> None:
    """Check that the options of a stream suit its table.

    Raises:
        InvalidOptionError: overwrites cannot be read as requested.
        InvalidInputError: the name of the consumer is not allowed.
        UnsupportedFeatureError: rows that wait in a postponed bucket would have to be merged.
    """
    if merges_postponed(handle):
        raise unmerged(handle, "a stream")
    keyed, producer = bool(handle.schema.primary_keys), handle.options.changelog_producer
    if asked.read_overwrite and not keyed:
        raise _refuse(
            handle, READ_OVERWRITE.key, f"needs a primary key; give {READ_APPEND_OVERWRITE.key} = true for this table"
        )
    if asked.read_overwrite and producer in _MAKES_CHANGELOG:
        raise _refuse(
            handle,
            READ_OVERWRITE.key,
            f"does not go with changelog-producer = {producer.value}, whose changelog holds overwrites too: they would "
            "be read twice; leave the option out",
        )
    if asked.read_append_overwrite and keyed and READ_APPEND_OVERWRITE.key in handle.overrides:
        raise _refuse(
            handle,
            READ_APPEND_OVERWRITE.key,
            f"is for tables without a primary key; give {READ_OVERWRITE.key} = true for this table",
        )
    if asked.consumer is not None:
        consumer_path(handle, asked.consumer)


def _refuse(handle: TableHandle, key: str, why: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"option {key} = true of a stream of {handle.describe()} {why}",
        option=key,
        **handle.context,
    )
