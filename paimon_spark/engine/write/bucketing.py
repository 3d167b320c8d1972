"""The partition and bucket of each row, for all kinds of buckets.

unaware    append tables without buckets: always bucket 0
fixed      a hash of the bucket key
dynamic    by the index of key hashes, in `dynamic_buckets`; by all keys of the table, in `cross_partition`, where a
           key may move between partitions
postponed  all rows wait in one bucket until a compaction moves them; rows of batch writes only where others wait
           already, or the number of buckets is not known

Source: Paimon spec, chapter Bucket; Java `table/BucketMode`, `table/sink/FixedBucketRowKeyExtractor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import CommitConflictError
from paimon_spark.format import binary_row, bucket_hash
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import objects
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.layout import POSTPONE_BUCKET
from paimon_spark.metadata.live_files import BucketStates
from paimon_spark.metadata.partition_path import partition_path_of
from paimon_spark.types import RowType

I64 = npt.NDArray[np.int64]

UNAWARE: Final = -1
_MOST_CODES: Final = 1 << 62


class Placed(NamedTuple):
    """Rows to write, and where.

    Attributes:
        batch: the rows; not those given where keys move between partitions.
        partitions: partition number of each; one number when all are alike.
        buckets: bucket of each; one number when all are alike.
    """

    batch: pa.RecordBatch
    partitions: I64 | int
    buckets: I64 | int


class Bucketing:
    """Finds the bucket of each row. Not safe for threads.

    Attributes:
        total_buckets: `_TOTAL_BUCKETS` of new files.
        constant: the bucket of all rows, when there is only one.
        dropped: number of rows given that are not written.
    """

    total_buckets: int
    constant: int | None = None
    dropped: int = 0

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        """Where every row (canonical types) goes whose partition numbers are given.

        Raises:
            CommitConflictError: a partition has another number of buckets than the table.
        """
        raise NotImplementedError

    def total_of(self, partition: int, bucket: int) -> int:
        """`_TOTAL_BUCKETS` of new files of a bucket of the partition with this number."""
        return self.total_buckets

    def finish(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages of all buckets, with the index files of the buckets if they have any."""
        return list(messages)

    def abort(self) -> None:
        """Remove the index files made. Raises nothing."""


class OneBucket(Bucketing):
    """All rows of a partition in one bucket: append tables without buckets, and postponed buckets."""

    def __init__(self, bucket: int = 0, total_buckets: int = UNAWARE) -> None:
        self.constant = self._bucket = bucket
        self.total_buckets = total_buckets

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        return Placed(batch, partitions, self._bucket)


class FixedBuckets(Bucketing):
    """Buckets by a hash of the bucket key; option `bucket` says how many."""

    def __init__(self, request: WriteRequest, partitions: PartitionNumbers, states: BucketStates) -> None:
        handle = request.handle
        self.total_buckets = handle.options.bucket
        self.constant = 0 if self.total_buckets == 1 else None
        self._handle = handle
        self._keys = list(handle.schema.bucket_keys)
        self._partitions = partitions
        self._states = states
        self._checked = 0

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        self._check()
        if self.constant is not None:
            return Placed(batch, partitions, self.constant)
        return Placed(batch, partitions, row_buckets(self._handle, batch.select(self._keys)).astype(np.int64))

    def _check(self) -> None:
        """New partitions must have as many buckets as the table (Java `AbstractFileStoreWrite.checkNumBuckets`)."""
        new = self._partitions.rows[self._checked :]
        if not new:
            return
        self._states.load(new)
        for row in new:
            found = self._states.of(row).total_buckets
            if found not in (None, POSTPONE_BUCKET, self.total_buckets):
                raise _other_bucket_count(self._handle, row, found)
        self._checked += len(new)


class SettledBuckets(Bucketing):
    """Buckets for batch writes to tables with a postponed bucket.

    A partition keeps its number of buckets; a new one has the default number. Rows wait where others wait already, as
    the compaction that moves those takes them for newer than all rows in buckets.

    Source: Java `PostponeFixBucketProcessor` of `paimon-spark`, which does not look at waiting rows.
    """

    total_buckets = POSTPONE_BUCKET

    def __init__(self, request: WriteRequest, partitions: PartitionNumbers, states: BucketStates) -> None:
        self._handle = request.handle
        self._keys = list(request.handle.schema.bucket_keys)
        self._partitions = partitions
        self._states = states
        self._totals: list[int] = []

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        self._load()
        totals = np.array(self._totals, np.int64)[partitions]
        keys, function = batch.select(self._keys), self._handle.options.bucket_function
        buckets = np.full(batch.num_rows, POSTPONE_BUCKET, np.int64)
        for total in np.unique(totals[totals > 0]).tolist() if totals.ndim else [int(totals)]:
            if total > 0:
                buckets = np.where(totals == total, bucket_hash.buckets(keys, total, function), buckets)
        return Placed(batch, partitions, buckets)

    def total_of(self, partition: int, bucket: int) -> int:
        return POSTPONE_BUCKET if bucket == POSTPONE_BUCKET else self._totals[partition]

    def _load(self) -> None:
        new = self._partitions.rows[len(self._totals) :]
        self._states.load(new)
        unseen = self._handle.options.postponed_bucket.buckets_of_unseen_rows or POSTPONE_BUCKET
        for row in new:
            state = self._states.of(row)
            waits = POSTPONE_BUCKET in state.max_sequences
            total = unseen if state.total_buckets is None else state.total_buckets
            self._totals.append(total if total > 0 and not waits else POSTPONE_BUCKET)


def row_buckets(handle: TableHandle, keys: pa.RecordBatch) -> npt.NDArray[np.int32]:
    """The bucket of each row of bucket key columns, of a table with fixed buckets.

    Raises:
        UnsupportedFeatureError: the bucket function does not support a type of the key.
    """
    return bucket_hash.buckets(keys, handle.options.bucket, handle.options.bucket_function)


def partition_text(handle: TableHandle, row: bytes) -> str:
    """A partition for messages, as its directories name it; `the table` when there are no partitions."""
    path = partition_path_of(handle, row)
    return f"partition {path}" if path else "the table"


def _other_bucket_count(handle: TableHandle, row: bytes, found: int) -> CommitConflictError:
    return CommitConflictError(
        f"{handle.describe()} has bucket = {handle.options.bucket}, but the files of {partition_text(handle, row)} are "
        f"in {found} buckets: a key could be in two buckets. Overwrite that partition to change it to "
        f"{handle.options.bucket} buckets, or set the option bucket back to {found}",
        table=handle.name,
        branch=handle.branch,
        buckets=found,
    )


class PartitionNumbers:
    """Partitions of rows, numbered from 0 by first appearance. Encodes distinct partitions of a batch, not its rows.

    Attributes:
        rows: BinaryRow bytes of each partition, by number.
    """

    def __init__(self, partition_type: RowType) -> None:
        self._type = partition_type
        self._types = [f.type for f in partition_type]
        self._numbers: dict[bytes, int] = {}
        self._by_values: dict[tuple[Any, ...], int] = {}
        self._has_floats = any(pa.types.is_floating(arrow_type(t)) for t in self._types)
        self.rows: list[bytes] = []

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the partition columns."""
        return self._type.names

    def whole_table(self) -> int:
        """The number of the one partition of a table without partition columns."""
        return self.number(binary_row.EMPTY)

    def number(self, row: bytes) -> int:
        """The number of the partition of these BinaryRow bytes."""
        number = self._numbers.get(row)
        if number is None:
            self._numbers[row] = number = len(self.rows)
            self.rows.append(row)
        return number

    def of(self, batch: pa.RecordBatch) -> I64 | int:
        """The number of the partition of every row of `batch` (canonical types); one number when all are alike."""
        if not self._types:
            return self.whole_table()
        columns = [batch.column(name) for name in self._type.names]
        if len(columns) == 1:
            return self._of_column(columns[0])
        codes = np.zeros(batch.num_rows, np.int64)
        distinct = 1
        for column in columns:
            encoded = _encoded_bytes(column)
            column_codes, count = arrow_numpy.values(encoded.indices).astype(np.int64), len(encoded.dictionary)
            if count == 1:
                continue
            if distinct * count > _MOST_CODES:
                codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
                distinct = int(codes.max()) + 1
            codes = codes * count + column_codes
            distinct *= count
        if distinct == 1:
            return self._encoded([c.slice(0, 1) for c in columns])[0]
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        numbers = self._encoded([c.take(arrow_numpy.take_indices(first)) for c in columns])
        if len(numbers) == 1:
            return numbers[0]
        return np.array(numbers, np.int64)[inverse.reshape(-1)]

    def _of_column(self, column: pa.Array) -> I64 | int:
        encoded = _encoded_bytes(column)
        values = encoded.dictionary
        numbers = self._encoded([values if values.type == column.type else values.view(column.type)])
        if len(numbers) == 1:
            return numbers[0]
        by_code = np.array(numbers, np.int64)
        return by_code[arrow_numpy.values(encoded.indices).astype(np.int64)]

    def _encoded(self, columns: list[pa.Array]) -> list[int]:
        return [self._of_values(row) for row in zip(*map(_row_values, columns), strict=True)]

    def _of_values(self, row: tuple[Any, ...]) -> int:
        if self._has_floats:  # equal values may have other bytes
            return self.number(binary_row.encode(row, self._types))
        number = self._by_values.get(row)
        if number is None:
            self._by_values[row] = number = self.number(binary_row.encode(row, self._types))
        return number


def _encoded_bytes(column: pa.Array) -> pa.DictionaryArray:
    """Codes that are equal exactly for values of equal bytes, which is not so for floats by their values."""
    if pa.types.is_floating(column.type):
        column = column.view(pa.int32() if column.type == pa.float32() else pa.int64())
    return column.dictionary_encode(null_encoding="encode")


def _row_values(column: pa.Array) -> list[Any]:
    """Values as `binary_row.encode` takes them: dates as days, timestamps as (milliseconds, nanoseconds)."""
    t = column.type
    if pa.types.is_decimal(t):
        decimals: list[Any] = column.to_pylist()
        return decimals
    if pa.types.is_string(t) or pa.types.is_binary(t):
        found = objects(column)
        return [v for v, _ in zip(found, range(len(column)), strict=False)]
    if pa.types.is_timestamp(t):
        millis, nanos = arrow_numpy.millis_and_nanos(column)
        out: list[Any] = list(zip(millis.tolist(), nanos.tolist(), strict=True))
    else:
        out = arrow_numpy.values(column).tolist()
    if column.null_count:
        valid = arrow_numpy.validity(column).tolist()
        out = [v if ok else None for v, ok in zip(out, valid, strict=True)]
    return out
