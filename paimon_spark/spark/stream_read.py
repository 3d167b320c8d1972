"""Streaming reads: offsets and splits beside the driver, rows on executors.

One process beside the driver holds the reader for the whole query. Another one creates it again, only to pickle what
executors run: so a reader opens its table, and imports what that needs, at its first use. That also keeps error
messages, as Spark replaces those of errors in the constructor.

Spark does not store where a query began. When its first batch has to run again after a restart, Spark asks for the
beginning again, which may have changed. So the end of the first batch stores it.

Source: PySpark `sql/streaming/python_streaming_source_runner.py`, Spark `MicroBatchExecution`.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from paimon_spark.errors import (
    ColumnNotFoundError,
    InvalidOptionError,
    NotFoundError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from paimon_spark.spark.schema import arrow_schema, check_readable_as
from paimon_spark.spark.task_read import TIMESTAMP_DIGITS, StreamPartition, StreamTaskReader, lineage_note
from paimon_spark.spark.worker_errors import errors_in_one_line
from paimon_spark.streaming.offset import START, StreamOffset, decode, encode
from paimon_spark.types import ROW_KIND_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_spark.engine.scan.plan import Plan
    from paimon_spark.engine.tasks import DataSplit, ReadRequest
    from paimon_spark.jobs.read.stream import OpenStream
    from paimon_spark.lineage.recording.read_recording import SourceRecording

_FIRST: Final = "first"
"""In the dictionary of an offset: whether a query begins there."""

_MADE_BEFORE: Final = (
    "If the table was altered after spark.readStream made the DataFrame, create it again; the checkpoint stays valid"
)


@errors_in_one_line
class PaimonStreamReader(DataSourceStreamReader):
    """The driver's part of a stream, for every version of PySpark."""

    def __init__(self, options: Mapping[str, str], declared: StructType) -> None:
        self._options = dict(options)
        self._declared = declared
        self._opened: OpenStream | None = None
        self._names: tuple[str, ...] = ()
        self._made_ns = time.time_ns()
        self._recording: SourceRecording | None = None

    @property
    def stream(self) -> OpenStream:
        """The stream, opened when first asked for."""
        if self._opened is None:
            from paimon_spark.jobs.opened_table import split_path
            from paimon_spark.jobs.read.stream import open_columns

            try:
                opened = open_columns(*split_path(self._options), self._declared.names)
                self._names = _match(opened, self._declared)
            except ColumnNotFoundError as e:
                if e.context.get("column") not in self._declared.names:
                    raise
                raise _unknown_column(e) from e
            self._check(opened)
            from paimon_spark.lineage.recording.read_recording import source_recording

            self._opened, self._recording = opened, source_recording(opened.handle)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins. Driver."""
        return {**encode(self.stream.source.first()), _FIRST: True}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Partitions of the rows between two offsets. Driver.

        Spark also asks for nothing, from the newest offset of a checkpoint to itself, when a query starts again.
        """
        # A beginning may have been asked for anew; any other start is the end of the batch before.
        first, last = decode(end.get(START, start) if start.get(_FIRST) else start), decode(end)
        if first == last:
            return []
        plans = self._plans(first, last)
        shared = pickle.dumps((_requests(plans), self._names, self.stream.source.table_name))
        ticket = None if self._recording is None else self._recording.ticket(first, last)
        note = lineage_note(() if ticket is None else (ticket,))
        groups = self._packed([s for p in plans for s in p.splits])
        if not groups:
            return [] if note is None else [StreamPartition((), shared, note)]
        return [StreamPartition(group, shared, None if n else note) for n, group in enumerate(groups)]

    def commit(self, end: dict[str, Any]) -> None:
        """Everything up to an offset was processed; Spark calls it when it builds a later batch. Driver."""
        self._ended(end)
        self.stream.source.committed(decode(end))

    def stop(self) -> None:
        """The query stops. Driver."""
        if self._recording is not None:
            self._recording.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Executors do without this class: see `__reduce__`."""
        return StreamTaskReader(arrow_schema(self._declared)).read(partition)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what executors need instead of this; the rest comes with each partition."""
        return StreamTaskReader, (arrow_schema(self._declared),)

    def _plans(self, start: StreamOffset, end: StreamOffset) -> list[Plan]:
        """Plans of the changes between two offsets, in order."""
        return [self.stream.source.plan(start, end)]

    def _ended(self, offset: dict[str, Any]) -> None:
        """Note for lineage that batches up to an offset are processed."""
        if self._recording is not None:
            self._recording.ended(decode(offset))

    def _packed(self, splits: Sequence[DataSplit]) -> list[tuple[DataSplit, ...]]:
        from paimon_spark.engine.scan.stream_units import order_of
        from paimon_spark.spark.batch_read import pack

        options = self.stream.handle.options
        # Of one key a later change must not be processed before an earlier one, nor beside it.
        return pack(splits, options.split_target_bytes, options.split_open_cost_bytes, together=order_of(splits))

    def _check(self, opened: OpenStream) -> None:
        """Refuse options that this PySpark does not support."""


@errors_in_one_line
class UnlimitedStreamReader(PaimonStreamReader):
    """The reader for PySpark 4.1, which asks only for the newest offset, without a start or limits.

    With `Trigger.AvailableNow` it runs one batch, or (`spark.sql.streaming.triggerAvailableNowWrapper.enabled`) asks
    before it says where the checkpoint of the query stands, and does not ask again. So the first answer is the end of
    everything there is, and one batch may be a state and the changes after it.
    """

    _began: dict[str, Any] | None = None
    _reached: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins: asked for after the end of its first batch. Driver."""
        if self._began is None:
            self._began = super().initialOffset()
        return self._began

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - Spark's name, before 4.2
        """The end of the next batch. Driver."""
        if self._reached is None:
            self._reached = self._end_of_everything()
        else:
            self._reached = reached(self._reached, self.stream.source.next(decode(self._reached)))
        return self._reached

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """As above; with a checkpoint it also shows where the query is. Driver."""
        self._reached = end
        return super().partitions(start, end)

    def _end_of_everything(self) -> dict[str, Any]:
        source = self.stream.source
        try:
            start = self.initialOffset()
        except NotFoundError:  # no matter to a query that began long ago; Spark asks a new one for its beginning
            newest = source.newest()
            if newest is None:
                raise
            return encode(newest)
        after_state = source.next(decode(start))
        return reached(start, source.next(after_state))

    def _plans(self, start: StreamOffset, end: StreamOffset) -> list[Plan]:
        from paimon_spark.streaming.reader import is_in_state

        source = self.stream.source
        if not is_in_state(start) or start.snapshot_id in (None, end.snapshot_id):
            return [source.plan(start, end)]
        after_state = source.next(start)
        return [source.plan(start, after_state), source.plan(after_state, end)]

    def _check(self, opened: OpenStream) -> None:
        asked = opened.options
        if asked.follow is not None:
            raise UnsupportedFeatureError(
                f"{opened.handle.describe()}: option lineage.follow needs PySpark 4.2 or later, as earlier ones let no "
                "source say where its micro-batches end; upgrade, or begin at the same snapshots with "
                "catalog.lineage.start_options",
                feature="lineage.follow",
            )
        if asked.aligned is None and asked.limits.unlimited:
            return
        raise UnsupportedFeatureError(
            f"{opened.handle.describe()}: options read.stream.* need PySpark 4.2 or later, as earlier ones let no "
            "source limit its micro-batches; leave them out, or upgrade",
            feature="read.stream",
        )


def reached(start: dict[str, Any], end: StreamOffset) -> dict[str, Any]:
    """The end of a batch that begins at `start`, as Spark stores it: `start` itself when there is nothing new."""
    if start.get(_FIRST):
        return {**encode(end), START: {k: v for k, v in start.items() if k != _FIRST}}
    return start if end == decode(start) else encode(end)


def _requests(plans: Sequence[Plan]) -> dict[str, ReadRequest]:
    """One read request for all these plans, by branch."""
    found: dict[str, ReadRequest] = {}
    for branch, request in (item for plan in plans for item in plan.requests.items()):
        known = found.get(branch, request)
        schemas = {**known.file_schemas, **request.file_schemas}
        begins = known.as_inserts or request.as_inserts
        found[branch] = replace(request, file_schemas=schemas, as_inserts=begins, timestamp_precision=TIMESTAMP_DIGITS)
    return found


def _match(opened: OpenStream, declared: StructType) -> tuple[str, ...]:
    """The stream's column for each declared one, by name.

    Raises:
        SchemaMismatchError: a column does not fit the declared one.
        InvalidOptionError: rows are asked for with their kinds, which have no column.
    """
    given = {f.name: f for f in opened.source.row_type}
    alike = {name.lower(): f for name, f in given.items()}
    found = [given.get(d.name) or alike[d.name.lower()] for d in declared.fields]
    try:
        for d, f in zip(declared.fields, found, strict=True):
            check_readable_as(f.name, f.type, f.type.nullable, d.dataType, d.nullable)
    except SchemaMismatchError as e:
        raise SchemaMismatchError(f"{opened.handle.describe()}: {e.message}. {_MADE_BEFORE}", **e.context) from None
    if len(found) < len(given):
        raise InvalidOptionError(
            f"read.changelog = true gives a first column {ROW_KIND_COLUMN}, which .schema(...) does not name: without "
            "it deleted rows would look like others; name it, or leave the option out",
            option="read.changelog",
        )
    return tuple(f.name for f in found)


def _unknown_column(error: ColumnNotFoundError) -> ColumnNotFoundError:
    """The same error, with advice when the declared columns are those of an older version."""
    return ColumnNotFoundError(
        f"{error.message}. A stream has the columns of the version that it starts from, or those that .schema(...) "
        f"declares: name columns that there still are in option columns. {_MADE_BEFORE}",
        **error.context,
    )
