"""TableWriter: batches of a user in, CommitMessages out; the entry of this package.

Source: Java `table/sink/TableWriteImpl`, `table/BucketMode`, `append/AppendOnlyWriter`.
"""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa

from paimon_spark.engine.tasks import CommitMessage, RowCounts
from paimon_spark.engine.write.bucketing import (
    UNAWARE,
    Bucketing,
    FixedBuckets,
    OneBucket,
    PartitionNumbers,
    SettledBuckets,
)
from paimon_spark.engine.write.data_files import DataFiles, DirectWriter
from paimon_spark.engine.write.dynamic_buckets import DynamicBuckets
from paimon_spark.engine.write.input import InputMapper
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.router import BucketWriter, Router
from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy, pieces
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.metadata.features import crosses_partitions
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.live_files import NO_SEQUENCE, BucketStates
from paimon_spark.storage.ahead import side_by_side
from paimon_spark.types import TRACKING_FIELDS, RowKind

# Far apart instead of interleaved: without keys files are read in the order of their numbers, which so is the order of
# the writers.
SHARED_STRIDE: Final = 1 << 32
"""Distance between the sequence numbers of writers that share a bucket; no writer writes so many rows into one."""
_LEAST_ROW_BYTES: Final = 32
"""Of a row, once its values have the types of the table."""


class TableWriter:
    """Writes rows into data files of their buckets. Runs in executors and in process; never commits.

    As a context manager it aborts when the block fails. Not safe for threads.

    Args:
        request: what to write, and the snapshot it continues.
        source: the schema of the batches: columns of the table by name, in any order, and perhaps `_VALUE_KIND`.
        keeps_row_ids: the rows are changed ones of a table that tracks rows; the last column is `_ROW_ID`.

    Raises:
        SchemaMismatchError: rows of that schema cannot become rows of the table.
        UnsupportedFeatureError: the table's buckets cannot be written here.
    """

    def __init__(self, request: WriteRequest, source: pa.Schema, *, keeps_row_ids: bool = False) -> None:
        handle = request.handle
        options = handle.options.write
        self._request = request
        self._keyed = bool(handle.schema.primary_keys)
        self._keeps_row_ids = keeps_row_ids
        if keeps_row_ids:  # a changed row stays a row, whatever a column of row kinds holds
            options, source = replace(options, rowkind_field=None), source.remove(len(source) - 1)
        self._mapper = InputMapper(handle.schema, source, options, handle.describe(), request.padded)
        self._states = BucketStates(handle, None if request.ignores_existing else request.base)
        partitions = PartitionNumbers(handle.schema.partition_type)
        self._bucketing = _bucketing(request, partitions, self._states)
        self._router = Router(options, partitions, self._bucketing, self._bucket_writer, early=not self._keyed)
        self._rows = np.zeros(len(RowKind), np.int64)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows. After an error only `abort` may be called.

        Raises:
            DataError: a value does not fit its column; names the column and the value.
            CommitConflictError: a partition has another number of buckets than the table.
            StorageError: a file cannot be written.
        """
        most_rows = max(pieces.BATCH_BYTES // max(self._mapper.added_bytes, _LEAST_ROW_BYTES), 1)
        for part in pieces.cut(batch, most_rows=most_rows):
            self._write(part)

    def _write(self, batch: pa.RecordBatch) -> None:
        if not self._keeps_row_ids:
            rows = self._mapper.apply(batch)
        else:
            ids = batch.column(batch.num_columns - 1)
            rows = _with_row_ids(self._mapper.apply(batch.select(range(batch.num_columns - 1))), ids)
        if not rows.num_rows:
            return
        if self._mapper.with_kinds:
            kinds = arrow_numpy.values(rows.column(rows.num_columns - 1))
            self._rows += np.bincount(kinds, minlength=len(RowKind))
        else:
            self._rows[RowKind.INSERT] += rows.num_rows
        self._router.write(rows)

    def end_files(self) -> None:
        """End all files of a table with keys: later rows are not merged with those before. Raises as `write`."""
        self._router.end_files()

    def close(self) -> list[CommitMessage]:
        """Finish all files: one message for each bucket that got rows. Raises as `write`."""
        # No other process knows the files before they are committed.
        with side_by_side(self._request.handle.store):
            messages = self._router.close()
        if messages:
            inserted, _, updated, deleted = self._rows.tolist()
            messages[0] = replace(messages[0], rows=RowCounts(inserted - self._bucketing.dropped, updated, deleted))
        return messages

    def abort(self) -> None:
        """Remove every file made, including those of messages already returned. Raises nothing."""
        self._router.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.abort()

    def _bucket_writer(self, partition: bytes, bucket: int) -> BucketWriter:
        if not self._keyed:
            unaware = self._request.handle.options.bucket == UNAWARE
            # Without buckets every writer counts from 0.
            largest = NO_SEQUENCE if unaware else self._states.of(partition).max_sequence(bucket)
            first = first_sequence_number(self._request, largest)
            files = DataFiles(self._request, partition, bucket, keeps_row_ids=self._keeps_row_ids)
            return DirectWriter(files.data(first_sequence_number=first))
        # Tables without keys need none of the merge engines.
        from paimon_spark.engine.write.merge_tree import MergeTreeWriter, PostponedWriter

        if bucket == POSTPONE_BUCKET:
            return PostponedWriter(self._request, partition, bucket)
        return MergeTreeWriter(self._request, partition, bucket, self._states.of(partition).max_sequence(bucket))


def _with_row_ids(rows: pa.RecordBatch, ids: pa.Array) -> pa.RecordBatch:
    """Changed rows with their ids, and without sequence numbers: they get that of their snapshot."""
    schema = pa.schema([*rows.schema, *arrow_schema(TRACKING_FIELDS)])
    return record_batch([*rows.columns, ids, pa.nulls(rows.num_rows, pa.int64())], schema, rows.num_rows)


def first_sequence_number(request: WriteRequest, max_sequence: int) -> int:
    """The first sequence number of a writer in a bucket whose largest is `max_sequence`."""
    if request.shares_buckets and request.handle.options.bucket > 0:
        return max_sequence + 1 + request.writer_number * SHARED_STRIDE
    return max_sequence + 1


def _bucketing(request: WriteRequest, partitions: PartitionNumbers, states: BucketStates) -> Bucketing:
    handle = request.handle
    bucket, keyed = handle.options.bucket, bool(handle.schema.primary_keys)
    if bucket > 0:
        return FixedBuckets(request, partitions, states)
    if bucket == UNAWARE and not keyed:
        return OneBucket()
    if crosses_partitions(handle.schema, handle.options):
        # Few tables need what it imports.
        from paimon_spark.engine.write.cross_partition import CrossPartitions

        return CrossPartitions(request, partitions)
    if bucket == UNAWARE:
        return DynamicBuckets(request, partitions)
    if bucket == POSTPONE_BUCKET and keyed:
        if request.settles:
            return SettledBuckets(request, partitions, states)
        return OneBucket(POSTPONE_BUCKET, POSTPONE_BUCKET)
    raise UnsupportedFeatureError(
        f"{handle.describe()} has bucket = {bucket}, which cannot be written here; write it with Java Paimon, or copy "
        "it to a table with a fixed number of buckets",
        feature=f"bucket={bucket}",
        table=handle.name,
    )
