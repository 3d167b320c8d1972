"""Which bucket each row belongs to, and what `_TOTAL_BUCKETS` of its files is.

unaware   append tables without buckets: always bucket 0
fixed     a hash of the bucket key
dynamic   by the index of key hashes, in `dynamic_bucketing`; by the keys of the whole table, in `cross_partition`,
          where a key may move between partitions
postponed all rows wait in one bucket until a compaction gives them theirs

Source: Paimon spec, chapter Bucket; Java `table/BucketMode`, `table/sink/FixedBucketRowKeyExtractor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.tasks.commit_message import CommitMessage
from paimon_spark.engine.write.dynamic_bucketing import DynamicBucketing, is_cross_partition
from paimon_spark.engine.write.partitions import PartitionNumbers
from paimon_spark.engine.write.placed import Placed
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import CommitConflictError, UnsupportedFeatureError
from paimon_spark.format import binary_row, bucket_hash
from paimon_spark.metadata.bucket_state import BucketStates
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.partition_path import partition_path

I64 = npt.NDArray[np.int64]

UNAWARE: Final = -1


class Bucketing(Protocol):
    """Buckets of rows. Not safe for threads."""

    total_buckets: int
    """`_TOTAL_BUCKETS` of new files."""

    constant: int | None
    """The bucket of all rows, when there is but one."""

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        """Where every row (canonical types) goes whose partition numbers are given.

        Raises:
            CommitConflictError: a partition has another number of buckets than the table.
        """
        ...

    def finish(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages of all buckets, with what is to be committed of the buckets themselves."""
        ...

    def abort(self) -> None:
        """Remove the files made. Raises nothing."""
        ...


class _WithoutIndex:
    """Buckets of which nothing is to be kept, in the partition that a row names."""

    def of(self, batch: pa.RecordBatch, partitions: I64 | int) -> I64 | int:
        """The bucket of every row; one number when all are alike."""
        raise NotImplementedError

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        return Placed(batch, partitions, self.of(batch, partitions))

    def finish(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        return list(messages)

    def abort(self) -> None:
        """Nothing was made."""


class OneBucket(_WithoutIndex):
    """All rows of a partition in one bucket: append tables without buckets, and postponed buckets."""

    def __init__(self, bucket: int = 0, total_buckets: int = UNAWARE) -> None:
        self.constant: int | None = bucket
        self.total_buckets = total_buckets

    def of(self, batch: pa.RecordBatch, partitions: I64 | int) -> int:
        assert self.constant is not None
        return self.constant


class FixedBuckets(_WithoutIndex):
    """Buckets by a hash of the bucket key, as many in every partition as the option `bucket` says."""

    def __init__(self, request: WriteRequest, partitions: PartitionNumbers, states: BucketStates) -> None:
        handle = request.handle
        self.total_buckets = handle.options.bucket
        self.constant: int | None = 0 if self.total_buckets == 1 else None
        self._handle = handle
        self._keys = list(handle.schema.bucket_keys)
        self._partitions = partitions
        self._states = states
        self._checked = 0

    def of(self, batch: pa.RecordBatch, partitions: I64 | int) -> I64 | int:
        self._check()
        if self.constant is not None:
            return self.constant
        return row_buckets(self._handle, batch.select(self._keys)).astype(np.int64)

    def _check(self) -> None:
        """Partitions not seen before must have as many buckets as the table.

        Source: Java `AbstractFileStoreWrite.checkNumBuckets`.
        """
        new = self._partitions.rows[self._checked :]
        if not new:
            return
        self._states.load(new)
        for row in new:
            found = self._states.of(row).total_buckets
            if found not in (None, POSTPONE_BUCKET, self.total_buckets):
                raise _other_bucket_count(self._handle, row, found)
        self._checked += len(new)


def row_buckets(handle: TableHandle, keys: pa.RecordBatch) -> npt.NDArray[np.int32]:
    """The bucket of every row of bucket key columns, of a table with fixed buckets.

    Raises:
        UnsupportedFeatureError: the bucket function takes no keys of this type.
    """
    return bucket_hash.buckets(keys, handle.options.bucket, handle.options.bucket_function)


def create_bucketing(request: WriteRequest, partitions: PartitionNumbers, states: BucketStates) -> Bucketing:
    """How rows of the table find their buckets.

    Raises:
        UnsupportedFeatureError: the table's buckets cannot be written here.
    """
    handle = request.handle
    bucket = handle.options.bucket
    if bucket > 0:
        return FixedBuckets(request, partitions, states)
    if bucket == UNAWARE and not handle.schema.primary_keys:
        return OneBucket()
    if bucket == UNAWARE and is_cross_partition(handle.schema):
        # Few tables need what it imports.
        from paimon_spark.engine.write.cross_partition import CrossPartitions

        return CrossPartitions(request, partitions)
    if bucket == UNAWARE:
        return DynamicBucketing(request, partitions)
    if bucket == POSTPONE_BUCKET and handle.schema.primary_keys:
        return OneBucket(POSTPONE_BUCKET, POSTPONE_BUCKET)
    raise UnsupportedFeatureError(
        f"{handle.describe()} has bucket = {bucket}, whose rows cannot be put into buckets here; "
        "write it with Java Paimon, or copy it to a table with a fixed number of buckets",
        feature=f"bucket={bucket}",
        table=handle.name,
    )


def partition_text(handle: TableHandle, row: bytes) -> str:
    """A partition as its directories name it, for messages; `the table` when there are no partitions."""
    partition_type = handle.schema.partition_type
    if not partition_type.fields:
        return "the table"
    values = binary_row.decode(row, [f.type for f in partition_type], raw_timestamps=True)
    return "partition " + partition_path(partition_type, values, handle.options)


def _other_bucket_count(handle: TableHandle, row: bytes, found: int) -> CommitConflictError:
    return CommitConflictError(
        f"{handle.describe()} has bucket = {handle.options.bucket}, but the files of {partition_text(handle, row)} are "
        f"in {found} buckets: rows of one key would come to lie in two buckets. Overwrite that partition to bring it "
        f"to {handle.options.bucket} buckets, or set the option bucket back to {found}",
        table=handle.name,
        branch=handle.branch,
        buckets=found,
    )
