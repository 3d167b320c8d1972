"""Plan what a micro-batch reads between two offsets, within its limits and columns.

Limits are soft, as in Paimon: a unit, which is read whole, is taken as long as no limit was reached before it, so that
a batch has at least one unit and may exceed a limit by one.

Added columns are not read until the query starts again, and a renamed column keeps its old name, as columns are matched
by field id. Dropped columns and changed types end the query, as in Java.

Source: Java `StreamHelper.getBatch`, `PaimonReadLimits`, `table/source/DataTableStreamScan.nextPlan`,
`DeltaFollowUpScanner`, `ChangelogFollowUpScanner`; schema changes: own.

Tests: tests/unit/streaming/test_limits.py, test_contents.py, test_columns.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from paimon_spark.engine.scan.incremental import Content
from paimon_spark.engine.scan.one_branch import BranchPlan, read_request
from paimon_spark.engine.scan.plan import Plan
from paimon_spark.engine.scan.query import PlanReport, ScanQuery
from paimon_spark.engine.scan.stream_units import SnapshotUnits, plan_units, plan_whole
from paimon_spark.errors import FileMissingError, OffsetError, SchemaChangedError
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.schemas import read_schema
from paimon_spark.options.core import ChangelogProducer
from paimon_spark.options.stream_read import ReadLimits, StreamReadOptions
from paimon_spark.streaming import history
from paimon_spark.streaming.history import OffsetPosition, expired
from paimon_spark.streaming.offset import Part, Phase, StreamOffset
from paimon_spark.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType

_REMEMBERED: Final = 2
"""Snapshots whose units are kept from `next` to `plan`: those in which a batch begins and ends."""


@dataclass(slots=True)
class BatchPlanner:
    """Plans the batches of one query on a branch."""

    handle: TableHandle
    asked: StreamReadOptions
    query: ScanQuery
    row_type: RowType
    columns: QueryColumns
    _remembered: dict[tuple[int, str, Content], SnapshotUnits] = field(default_factory=dict)

    def move(self, handle: TableHandle) -> None:
        """Continue with the branch in another directory."""
        self.handle = handle
        self.columns.forget()
        self._remembered.clear()

    def keep_only(self, start: StreamOffset) -> None:
        """Forget units of all snapshots but the one that is partly read: a state may have very many."""
        half_read = None if start.part is None else start.snapshot_id
        for key in [key for key in self._remembered if key[0] != half_read]:
            del self._remembered[key]

    def changes(self, start: StreamOffset, place: OffsetPosition, last: Snapshot) -> Iterator[SnapshotUnits]:
        """Yield the changes of snapshots from that of `start` up to `last`, of those that have any."""
        if start.part is not None:
            assert place.snapshot is not None
            yield self.units(place.snapshot, self._content_of_part(place.snapshot))
        for snapshot in history.following(self.handle, start.snapshot_id or 0, last):
            content = contents_of(self.handle, snapshot, self.asked)
            if content is not None:
                yield self.units(snapshot, content)

    def plan(self, start: StreamOffset, end: StreamOffset) -> Plan:
        """The splits between two offsets. Raises as `StreamSource.plan`, and ChangingHistoryError."""
        if start.position == end.position:
            return self._assembled(None, [])
        place = history.check(self.handle, start)
        self._check_order(start, end)
        if start.snapshot_id is not None and start.snapshot_id == end.snapshot_id:
            last = place.snapshot
            if last is None or start.made != end.made:
                last = history.check_end(self.handle, end, Phase.CHANGES)
        else:
            state = start.snapshot_id is None and is_in_state(start)
            last = history.check_end(self.handle, end, Phase.STATE if state else Phase.CHANGES)
        parts = list(self._parts(start, end, place, last))
        # A state needs only its manifests, not its snapshot.
        first = None if is_in_state(start) else place.snapshot
        changed = last if not is_in_state(start) or last.id > (start.snapshot_id or last.id) else None
        if not history.is_as_before(self.handle, first, changed):
            raise history.moving(self.handle)
        return self._assembled(last, parts)

    def _parts(
        self, start: StreamOffset, end: StreamOffset, place: OffsetPosition, last: Snapshot
    ) -> Iterator[BranchPlan]:
        """Yield what the batch reads: the rest of a snapshot, complete ones, and the first part of another."""
        if start.snapshot_id is None and is_in_state(start):
            yield self._slice(self.units(last, Content.STATE), start, end)
            return
        if start.part is not None:
            assert place.snapshot is not None
            in_state = start.part.phase is Phase.STATE
            content = Content.STATE if in_state else self._content_of_part(place.snapshot)
            yield self._slice(self.units(place.snapshot, content), start, end)
        wanted: list[tuple[Snapshot, Content]] = []
        schema_ids: set[int] = set()
        for snapshot in history.following(self.handle, start.snapshot_id or 0, last):
            schema_ids.add(snapshot.schema_id)
            content_or_none = contents_of(self.handle, snapshot, self.asked)
            if content_or_none is not None and (snapshot.id < last.id or end.part is None):
                wanted.append((snapshot, content_or_none))
        self.columns.check(self.handle, schema_ids)
        if wanted:
            try:
                yield plan_whole(self.handle, wanted, self.query)
            except FileMissingError:
                for snapshot, _ in wanted:
                    self._refuse_expired(snapshot)
                raise
        if end.part is not None and last.id > (start.snapshot_id or 0):
            yield self._slice(self.units(last, self._content_of_part(last)), start, end)

    def units(self, snapshot: Snapshot, content: Content) -> SnapshotUnits:
        """The units of a snapshot. Raises as `StreamSource.next`."""
        self.columns.check(self.handle, [snapshot.schema_id])
        key = snapshot.id, snapshot.delta_manifest_list, content
        units = self._remembered.pop(key, None)
        if units is None:
            since = self.asked.created_since_ms if content is Content.STATE else None
            try:
                units = plan_units(self.handle, snapshot, content, replace(self.query, created_since_ms=since))
            except FileMissingError:
                self._refuse_expired(snapshot)
                raise
        self._remembered[key] = units
        while len(self._remembered) > _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return units

    def _refuse_expired(self, snapshot: Snapshot) -> None:
        """Raise SnapshotExpiredError if files are missing because their snapshot expired."""
        found = history.find_kept(self.handle, snapshot.id)
        if found is None or found.delta_manifest_list != snapshot.delta_manifest_list:
            raise expired(self.handle, snapshot.id, reading=True)

    def _content_of_part(self, snapshot: Snapshot) -> Content:
        """The content read of a partly read snapshot. Raises OffsetError: none is, with the present options."""
        content = contents_of(self.handle, snapshot, self.asked)
        if content is None:
            raise self._not_countable(
                snapshot, "and as the query and the table's options are now, nothing of it is read"
            )
        return content

    def _slice(self, units: SnapshotUnits, start: StreamOffset, end: StreamOffset) -> BranchPlan:
        first = self.counted_off(start, units) if is_in(start, units.snapshot) else 0
        last = self.counted_off(end, units) if is_in(end, units.snapshot) and end.part is not None else len(units)
        return BranchPlan(units.splits(first, last), units.request, units.report)

    def counted_off(self, offset: StreamOffset, units: SnapshotUnits) -> int:
        """How many of the units were read before the offset. Raises OffsetError: it is of other units."""
        part = offset.part
        if part is None or part.units == 0:
            return 0
        if part.of != len(units) or part.digest != units.digest or part.units > part.of:
            raise self._not_countable(
                units.snapshot,
                f"{part.units} of {part.of} pieces; now it has {len(units)}"
                + ("" if part.of != len(units) else ", which are not the same"),
            )
        return part.units

    def _not_countable(self, snapshot: Snapshot, found: str) -> OffsetError:
        return OffsetError(
            f"the checkpoint says that a part of snapshot {snapshot.id} of {self.handle.describe()} was read, "
            f"{found}. The pieces depend on the query's condition (where) and on what is read of a commit "
            "(changelog-producer, streaming-read-overwrite, scan.file-creation-time-millis): keep these options until "
            "the stream is past that snapshot. Or start with a new checkpointLocation; scan.snapshot-id = "
            f"{snapshot.id} reads all changes of that snapshot again",
            **self.handle.context,
            snapshot_id=snapshot.id,
        )

    def _check_order(self, start: StreamOffset, end: StreamOffset) -> None:
        before, after = start.snapshot_id or 0, end.snapshot_id or 0
        goes_back = after < before or (after == before and start.part is None)
        if after == before and start.part is not None and end.part is not None:
            goes_back = start.part.phase is not end.part.phase or end.part.units < start.part.units
        if goes_back:
            raise OffsetError(
                f"a batch of {self.handle.describe()} would end at snapshot {after}, before its start (after snapshot "
                f"{before}); the checkpoint is damaged, give the query a new checkpointLocation",
                **self.handle.context,
            )

    def _assembled(self, last: Snapshot | None, parts: list[BranchPlan]) -> Plan:
        handle, request = self.handle, read_request(self.handle, self.query, {})
        schemas = {i: schema for part in parts for i, schema in part.request.file_schemas.items()}
        is_state = any(part.request.as_inserts for part in parts)
        return Plan(
            handle.name,
            handle.branch,
            last,
            self.row_type,
            tuple(split for part in parts for split in part.splits),
            {handle.branch: replace(request, file_schemas=schemas, as_inserts=is_state)},
            sum((part.report for part in parts), PlanReport()),
            self.query,
        )

    def after(self, snapshot: Snapshot) -> StreamOffset:
        """The offset after a snapshot."""
        return history.offset_after(self.handle, snapshot)

    def at(self, units: SnapshotUnits, phase: Phase, count: int) -> StreamOffset:
        """The offset after `count` units of a snapshot."""
        after = self.after(units.snapshot)
        if count == len(units):
            return after
        return replace(after, part=Part(phase, count, len(units), units.digest))


def is_in_state(offset: StreamOffset) -> bool:
    """Whether a state, or the rest of one, is read next."""
    if offset.snapshot_id is None:
        return offset.begins_with is Phase.STATE
    return offset.part is not None and offset.part.phase is Phase.STATE


def is_in(offset: StreamOffset, snapshot: Snapshot) -> bool:
    """Whether the offset is in the snapshot, or directly after it."""
    return offset.snapshot_id == snapshot.id


def contents_of(handle: TableHandle, snapshot: Snapshot, asked: StreamReadOptions) -> Content | None:
    """Which changes of a snapshot a stream reads; None for none.

    Without a changelog the files of APPEND commits are read, with one the changelog files of any commit. Overwrites are
    skipped unless an option includes them.
    """
    keyed = bool(handle.schema.primary_keys)
    if snapshot.commit_kind is CommitKind.OVERWRITE:
        if keyed and asked.read_overwrite:
            return Content.OVERWRITE
        if not keyed and asked.read_append_overwrite:
            return Content.DELTA
    if not keyed or handle.options.changelog_producer is ChangelogProducer.NONE:
        return Content.DELTA if snapshot.commit_kind is CommitKind.APPEND else None
    return None if snapshot.changelog_manifest_list is None else Content.CHANGELOG


@dataclass(slots=True)
class Admission:
    """Files, bytes and physical rows that one micro-batch has taken so far."""

    limits: ReadLimits
    taken: tuple[int, int, int] = (0, 0, 0)

    @property
    def maxima(self) -> tuple[int | None, int | None, int | None]:
        """The limits of files, bytes and rows."""
        return self.limits.max_files, self.limits.max_bytes, self.limits.max_rows

    @property
    def is_full(self) -> bool:
        """Whether a limit was reached."""
        return any(most is not None and had >= most for had, most in zip(self.taken, self.maxima, strict=True))

    @property
    def has_enough(self) -> bool:
        """Whether the minimum of rows, or a limit, was reached."""
        return self.is_full or self.limits.min_rows is None or self.taken[2] >= self.limits.min_rows

    @property
    def takes_all(self) -> bool:
        """Whether no limit applies."""
        return self.maxima == (None, None, None)

    def take(self, units: SnapshotUnits, start: int) -> int:
        """Take units from `start` on; returns the number of the first one not taken."""
        columns = (units.files[start:], units.size_bytes[start:], units.row_counts[start:])
        count = len(columns[0])
        totals = [had + np.cumsum(column) for column, had in zip(columns, self.taken, strict=True)]
        for total, had, limit in zip(totals, self.taken, self.maxima, strict=True):
            if limit is not None:
                before = np.concatenate([[had], total[:-1]])[: len(total)]
                count = min(count, int((before < limit).sum()))
        if count:
            files, size_bytes, rows = (int(total[count - 1]) for total in totals)
            self.taken = files, size_bytes, rows
        return start + count


@dataclass(slots=True)
class QueryColumns:
    """The columns that a query reads, those of its condition included, and the ids of schemas that have them."""

    fields: tuple[DataField, ...]
    _good: set[int] = field(default_factory=set)

    @staticmethod
    def of(schema: TableSchema, names: Iterable[str]) -> QueryColumns:
        """The named columns of the table, and its primary key and partition columns."""
        chosen = {*names, *schema.primary_keys, *schema.partition_keys}
        return QueryColumns(tuple(f for f in schema.fields if f.name in chosen))

    def check_other(self, handle: TableHandle) -> None:
        """Check that the query can continue with the schema of `handle`, whose branch has another history now.

        Raises SchemaChangedError: a column was dropped, renamed, or has another type.
        """
        self.check_schema(handle, handle.schema)
        for column in self.fields:
            now = handle.schema.row_type.find_by_id(column.id)
            if now is not None and now.name != column.name:
                raise _changed(handle, handle.schema, column, f"is now called {now.name!r}")

    def check(self, handle: TableHandle, schema_ids: Iterable[int]) -> None:
        """Check that rows of these schemas have the columns of the query. Each schema is read once.

        Schemas before the handle's evolve to it, as in every read.

        Raises SchemaChangedError: a column was dropped, or has another type.
        """
        for schema_id in sorted(set(schema_ids) - self._good):
            if schema_id > handle.schema.id:
                self.check_schema(handle, read_schema(handle.store, handle.layout, schema_id))
            self._good.add(schema_id)

    def check_schema(self, handle: TableHandle, schema: TableSchema) -> None:
        """As `check`, for one schema."""
        for column in self.fields:
            now = schema.row_type.find_by_id(column.id)
            if now is None:
                raise _changed(handle, schema, column, "was dropped")
            if not _reads_as(column.type, now.type):
                raise _changed(handle, schema, column, f"is now {now.type}")

    def forget(self) -> None:
        """Forget checked schemas: after a change of history, their ids have other meanings."""
        self._good.clear()


def _reads_as(wanted: DataType, now: DataType) -> bool:
    """Whether values of a type can be read as `wanted` without a cast: rows may have more fields, and fewer nulls."""
    if now.nullable and not wanted.nullable:
        return False
    if isinstance(wanted, RowType) and isinstance(now, RowType):
        pairs = [(f, now.find_by_id(f.id)) for f in wanted]
        return all(found is not None and _reads_as(f.type, found.type) for f, found in pairs)
    if isinstance(wanted, ArrayType | MultisetType) and isinstance(now, type(wanted)):
        return _reads_as(wanted.element, now.element)
    if isinstance(wanted, MapType) and isinstance(now, MapType):
        return _reads_as(wanted.key, now.key) and _reads_as(wanted.value, now.value)
    return wanted == now.with_nullable(wanted.nullable)


def _changed(handle: TableHandle, schema: TableSchema, column: DataField, found: str) -> SchemaChangedError:
    return SchemaChangedError(
        f"column {column.name!r} of {handle.describe()}, {column.type} when the query started, {found}: schema "
        f"{schema.id} changed it. Restart the query: with the same checkpointLocation it continues where it was, with "
        "the current columns",
        **handle.context,
        column=column.name,
        schema_id=schema.id,
    )
