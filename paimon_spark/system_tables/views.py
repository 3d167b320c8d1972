"""A table's rows in other forms: $audit_log, $binlog, $ro, $row_tracking.

They are planned and read as every read of the table, in as many tasks; conditions on the table's columns skip files.

Source: Java `table/system/AuditLogTable`, `BinlogTable`, `ReadOptimizedTable`, `RowTrackingTable`,
`reader/PackChangelogReader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.scan.incremental import mode_of, plan_incremental
from paimon_spark.engine.scan.one_branch import merges_postponed
from paimon_spark.engine.scan.plan import Plan, plan_batch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks import DataSplit, ReadRequest, output_type
from paimon_spark.errors import InvalidInputError, InvalidOptionError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import fixed_array, take_indices, values
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.resolve import Resolved, ResolvedRange
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.core import SEQUENCE_NUMBER_COLUMN
from paimon_spark.options.scan import Incremental
from paimon_spark.predicate.arrow import condition_can_fail, matches
from paimon_spark.predicate.ast import Predicate, conjunction, conjuncts, names_of
from paimon_spark.system_tables.java_text import text
from paimon_spark.types import ROW_ID, ROW_KIND_COLUMN, SEQUENCE_NUMBER, ArrayType, RowKind, RowType


class SystemView(StrEnum):
    """A system table that shows the table's rows in another form."""

    AUDIT_LOG = "audit_log"
    BINLOG = "binlog"
    RO = "ro"
    ROW_TRACKING = "row_tracking"

    @property
    def shows_kinds(self) -> bool:
        """Whether rows have their kind, and deleted rows are among them."""
        return self in (SystemView.AUDIT_LOG, SystemView.BINLOG)


def view_type(view: SystemView, handle: TableHandle) -> RowType:
    """The columns of a view.

    Raises:
        InvalidInputError: the table has no such view.
        UnsupportedFeatureError: it would need a column that cannot be read.
    """
    row_type = handle.schema.row_type
    if view is SystemView.RO:
        return row_type
    if view is SystemView.ROW_TRACKING:
        if not handle.options.row_tracking:
            raise InvalidInputError(
                f"{handle.describe()} has no ${view.value}: its rows have no ids; they have in tables made with "
                "row-tracking.enabled = true",
                table=handle.name,
            )
        names = (*row_type.names, ROW_ID, SEQUENCE_NUMBER)
        found = output_type(handle.schema, names, table=handle.describe(), tracks_rows=True)
        tracked = (replace(f, type=f.type.with_nullable(False)) for f in found.fields[-2:])
        return RowType(False, (*row_type.fields, *tracked))
    if handle.options.shows_sequence_number:
        raise UnsupportedFeatureError(
            f"${view.value} of {handle.describe()} has a column {SEQUENCE_NUMBER} by its option "
            f"{SEQUENCE_NUMBER_COLUMN.key}, which cannot be read; give {SEQUENCE_NUMBER_COLUMN.key} = false for this "
            "read",
            feature=SEQUENCE_NUMBER_COLUMN.key,
        )
    with_kind = output_type(handle.schema, None, table=handle.describe(), row_kind=True)
    if view is SystemView.AUDIT_LOG:
        return with_kind
    arrays = (replace(f, type=ArrayType(element=f.type.with_nullable(True))) for f in with_kind.fields[1:])
    return RowType(False, (with_kind.fields[0], *arrays))


@dataclass(frozen=True, slots=True)
class ViewReading:
    """The read of a view, shared by its tasks. Picklable.

    Attributes:
        requests: by branch.
        schema: of the result.
        rest: the predicate that the plan does not evaluate.
        full: schema of the rows that `rest` is evaluated on.
        pairs: whether a -U and its +U are packed into one row of $binlog.
    """

    view: SystemView
    requests: Mapping[str, ReadRequest]
    schema: pa.Schema
    rest: Predicate | None
    full: pa.Schema
    pairs: bool

    def read(self, splits: Sequence[DataSplit], *, timestamp_precision: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of some splits; `timestamp_precision` is the maximum of fractional digits of timestamps."""
        requests = self.requests
        if timestamp_precision is not None:
            requests = {b: replace(r, timestamp_precision=timestamp_precision) for b, r in requests.items()}
        for split in splits:
            yield from self._finished(read_split(requests[split.branch], split))

    def _finished(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.view is SystemView.BINLOG:
            batches = packed(batches, self.full, pairs=self.pairs)
        for batch in batches:
            kept = batch if self.rest is None else batch.filter(matches(self.rest, batch))
            yield kept.select(self.schema.names) if kept.schema.names != self.schema.names else kept


def plan_view(
    view: SystemView,
    found: Resolved | ResolvedRange | None,
    handle: TableHandle,
    names: Sequence[str],
    predicate: Predicate | None,
    *,
    incremental: Incremental | None = None,
    batch_rows: int,
) -> tuple[Plan, ViewReading]:
    """The plan of a read of a view, and what its tasks share. Driver only; safe to retry.

    Args:
        view: the system table.
        found: the version or range; None for the head.
        handle: the branch; of `found` when that is given.
        names: columns of the result, in order.
        predicate: over the view's columns; every row satisfies it.
        incremental: how the range is read.
        batch_rows: maximum of rows of a batch.

    Raises:
        InvalidOptionError: the view has no changes between versions.
        Others as `plan_batch` and `plan_incremental`.
    """
    # As in Java, system tables show what is in buckets, whatever `postpone.merge-on-read` says.
    handle = _without_waiting_rows(handle)
    found = None if found is None else replace(found, handle=_without_waiting_rows(found.handle))
    pushed, rest = _split_predicate(view, predicate, frozenset(handle.schema.row_type.names))
    full = view_type(view, handle)
    needed = [f.name for f in full if f.name in {*names, *names_of(rest)}]
    query = ScanQuery(
        columns=tuple(n for n in needed if n != ROW_KIND_COLUMN or not view.shows_kinds),
        predicate=pushed,
        with_row_kind=view.shows_kinds,
        batch_rows=batch_rows,
        max_level_only=view is SystemView.RO,
    )
    shows_changes = False
    if isinstance(found, ResolvedRange):
        assert incremental is not None
        if view is SystemView.RO:
            raise InvalidOptionError(
                f"${view.value} shows what is fully compacted, not what changed: leave out {incremental.key}, or read "
                f"$audit_log of {handle.describe()}",
                option=incremental.key,
            )
        plan = plan_incremental(found, query, incremental)
        # A diff has the difference of two states; other modes have rows as they were written.
        shows_changes = mode_of(found.handle, found, incremental).value != "diff"
    elif found is None:
        plan = plan_batch(handle, latest_snapshot(handle), query)
    else:
        plan = plan_batch(handle, found.snapshot, query, travelled=found.travelled)
    kinds = {ROW_KIND_COLUMN} if view.shows_kinds else set()
    reading = ViewReading(
        view,
        plan.requests,
        arrow_schema([full.field(n) for n in names]),
        rest,
        arrow_schema([f for f in full if f.name in {*needed, *kinds}]),
        shows_changes,
    )
    return plan, reading


def _without_waiting_rows(handle: TableHandle) -> TableHandle:
    if not merges_postponed(handle):
        return handle
    return replace(handle, options=handle.options.changed({"postpone.merge-on-read": None}))


def _split_predicate(
    view: SystemView, predicate: Predicate | None, table_columns: frozenset[str]
) -> tuple[Predicate | None, Predicate | None]:
    """The predicate for planning and reading, and the rest for the rows of the view.

    A part that may fail stays behind the parts that decide for which rows it is evaluated.
    """
    if view is SystemView.BINLOG:
        return None, predicate  # its columns are arrays
    pushed: list[Predicate] = []
    rest: list[Predicate] = []
    for part in conjuncts(predicate):
        names = names_of(part)
        is_pushed = names and names <= table_columns and not (rest and condition_can_fail(part))
        (pushed if is_pushed else rest).append(part)
    return conjunction(pushed), conjunction(rest)


def packed(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, pairs: bool) -> Iterator[pa.RecordBatch]:
    """Rows of $binlog: the row kind first, every other column as an array.

    With `pairs`, the -U and +U of one change, which follow each other, become one +U row `[before, after]`; every other
    row has arrays of one value. A -U without a +U after it, which correct writers never leave, stays alone; Java packs
    it with the next row.
    """
    left: pa.RecordBatch | None = None
    for batch in batches:
        whole = batch if left is None else pa.Table.from_batches([left, batch]).combine_chunks().to_batches()[0]
        left = None
        starts = _starts(whole, pairs)
        if pairs and len(starts) and starts[-1] == whole.num_rows - 1 and _is(whole, RowKind.UPDATE_BEFORE)[-1]:
            left = whole.slice(int(starts[-1]))
            whole, starts = whole.slice(0, int(starts[-1])), starts[:-1]
        if len(starts):
            yield _arrays(whole, starts, schema)
    if left is not None:
        yield _arrays(left, np.zeros(1, np.int64), schema)


def _is(batch: pa.RecordBatch, kind: RowKind) -> np.ndarray:
    return np.asarray(values(pc.equal(batch.column(ROW_KIND_COLUMN), text(kind.symbol))))


def _starts(batch: pa.RecordBatch, pairs: bool) -> np.ndarray:
    """The first row of each group of one or two."""
    second = np.zeros(batch.num_rows, np.bool_)
    if pairs:
        second[1:] = _is(batch, RowKind.UPDATE_BEFORE)[:-1] & _is(batch, RowKind.UPDATE_AFTER)[1:]
    return np.flatnonzero(~second)


def _arrays(batch: pa.RecordBatch, starts: np.ndarray, schema: pa.Schema) -> pa.RecordBatch:
    ends = np.append(starts[1:], batch.num_rows)
    offsets = fixed_array(np.append(starts, batch.num_rows).astype(np.int32), pa.int32())
    kinds = batch.column(ROW_KIND_COLUMN).take(take_indices(ends - 1))
    columns = [
        kinds if f.name == ROW_KIND_COLUMN else pa.ListArray.from_arrays(offsets, batch.column(f.name)).cast(f.type)
        for f in schema
    ]
    return record_batch(columns, schema, len(starts))
