"""TableWriter: batches of a user in, CommitMessages out; the entry of this package."""

from __future__ import annotations

from types import TracebackType

import pyarrow as pa

from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.write.append import AppendWriter
from paimon_spark.engine.write.bucket_writer import BucketWriter
from paimon_spark.engine.write.bucketing import UNAWARE, create_bucketing
from paimon_spark.engine.write.input import InputMapper
from paimon_spark.engine.write.partitions import PartitionNumbers
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.router import Router
from paimon_spark.metadata.bucket_state import NO_SEQUENCE, BucketStates
from paimon_spark.metadata.layout import POSTPONE_BUCKET


class TableWriter:
    """Writes rows into data files of their buckets. Runs in executors and in process; never commits.

    As a context manager it aborts when the block fails. Not safe for threads.

    Args:
        request: what is written, and what is continued.
        source: the schema of the batches: columns of the table by name, in any order, and perhaps `_VALUE_KIND`.

    Raises:
        SchemaMismatchError: rows of that schema cannot become rows of the table.
        UnsupportedFeatureError: the table's buckets cannot be written here.
    """

    def __init__(self, request: WriteRequest, source: pa.Schema) -> None:
        handle = request.handle
        options = handle.options.write
        self._request = request
        self._mapper = InputMapper(handle.schema, source, options, handle.describe(), request.padded)
        self._states = BucketStates(handle, None if request.ignores_existing else request.base)
        partitions = PartitionNumbers(handle.schema.partition_type)
        bucketing = create_bucketing(request, partitions, self._states)
        self._router = Router(options, partitions, bucketing, self._bucket_writer, early=not handle.schema.primary_keys)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. After an error only `abort` may be called.

        Raises:
            DataError: a value does not fit its column; names the column and the value.
            CommitConflictError: a partition has another number of buckets than the table.
            StorageError: a file cannot be written.
        """
        rows = self._mapper.apply(batch)
        if rows.num_rows:
            self._router.write(rows)

    def close(self) -> list[CommitMessage]:
        """Finish all files: one message for every bucket that got rows. Raises as `write`."""
        return self._router.close()

    def abort(self) -> None:
        """Remove every file made, also those of messages already given out. Raises nothing."""
        self._router.abort()

    def __enter__(self) -> TableWriter:  # noqa: PYI034  Self needs Python 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.abort()

    def _bucket_writer(self, partition: bytes, bucket: int) -> BucketWriter:
        if self._request.handle.schema.primary_keys:
            # Tables without keys need none of the merge engines.
            from paimon_spark.engine.write.merge_tree import MergeTreeWriter
            from paimon_spark.engine.write.postponed import PostponedWriter

            if bucket == POSTPONE_BUCKET:
                return PostponedWriter(self._request, partition, bucket)
            return MergeTreeWriter(self._request, partition, bucket, self._max_sequence(partition, bucket))
        return AppendWriter(self._request, partition, bucket, self._max_sequence(partition, bucket))

    def _max_sequence(self, partition: bytes, bucket: int) -> int:
        if not self._request.handle.schema.primary_keys and self._request.handle.options.bucket == UNAWARE:
            return NO_SEQUENCE
        return self._states.of(partition).max_sequence(bucket)
