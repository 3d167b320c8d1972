"""Dynamic buckets for keys that may move between partitions.

The primary key lacks a partition column, and no index on disk has the places of keys. One writer looks them up among
all keys of the base snapshot and those it wrote; for a key in another partition the merge engine decides:

deduplicate                   -D to the partition it leaves, then the row where it goes
partial-update, aggregation   the row goes to the partition where the key is
first-row                     the row is dropped

Source: Java `crosspartition/{GlobalIndexAssigner,BucketAssigner}` and `ExistingProcessor` with its subclasses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.tasks import CommitMessage
from paimon_spark.engine.write.bucketing import Bucketing, PartitionNumbers, Placed, partition_text
from paimon_spark.engine.write.dynamic_buckets import DYNAMIC
from paimon_spark.engine.write.key_places import NOWHERE, KeyPlaces
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.errors import DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.binary_row import decode_column
from paimon_spark.options.core import MergeEngine
from paimon_spark.options.write import MOST_BUCKETS
from paimon_spark.types import VALUE_KIND, RowKind

I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class CrossPartitions(Bucketing):
    """Buckets of tables whose keys may move between partitions. Gets all rows of the write.

    Raises:
        UnsupportedFeatureError: the request has no `existing_keys`.
    """

    total_buckets = DYNAMIC

    def __init__(self, request: WriteRequest, partitions: PartitionNumbers) -> None:
        handle = request.handle
        if request.existing_keys is None:
            raise UnsupportedFeatureError(
                f"the primary key of {handle.describe()} lacks a partition column, so a row may have to move from "
                "another partition, which only Table.write, df.write and changes of rows in a Spark session look for; "
                "to delete a row without one, write it with _VALUE_KIND 3",
                feature="bucket",
                table=handle.name,
            )
        self._request = request
        self._handle = handle
        self._engine = handle.options.merge_engine
        self._keys = list(handle.schema.primary_keys)
        self._partitions = partitions
        self._room = _Room(handle.options.dynamic_bucket.target_rows)
        self._places = KeyPlaces()
        self._kept = KeyPlaces()
        self._kept_hit: set[int] = set()
        self._written: set[int] = set()
        self._loaded = False

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        """The rows to write for those of `batch`, and where.

        Raises:
            DataError: a key of the table is in two places already.
            UnsupportedFeatureError: a row would have to be deleted, and the table ignores deletes.
            CorruptFileError, StorageError: the existing keys cannot be read.
        """
        self._load()
        columns = batch.select(self._keys)
        wanted = np.broadcast_to(np.asarray(partitions, np.int64), (batch.num_rows,))
        self._written.update(np.unique(wanted).tolist())
        if len(self._kept):
            found = self._kept.find(columns)
            self._kept_hit.update(np.unique(self._kept.partitions[found[found >= 0]]).tolist())
        rows = _ByKey.of(self._places, self._places.add(columns), wanted)
        if self._engine is MergeEngine.DEDUPLICATE:
            return self._moved(batch, rows, wanted)
        return self._stayed(batch, rows, wanted)

    def finish(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages as they are.

        Raises:
            InvalidInputError: an overwrite has keys of a partition that it does not replace.
        """
        kept_hit = sorted(self._kept_hit - self._written)
        if kept_hit:
            raise InvalidInputError(
                f"the overwrite of partitions of {self._handle.describe()} has keys that are in other partitions, such "
                f"as {self._partition_text(kept_hit[0])}, from which an overwrite moves no rows; append these rows, or "
                "delete them there first",
                table=self._handle.name,
            )
        return list(messages)

    def _load(self) -> None:
        """Read the keys of the base, once."""
        if self._loaded:
            return
        self._loaded = True
        request = self._request
        places = self._kept if request.ignores_existing else self._places
        for known in () if request.existing_keys is None else request.existing_keys():
            partition = self._partitions.number(known.partition)
            before = len(places)
            numbers = places.add(known.keys)
            if len(places) - before < len(numbers):
                raise DataError(
                    f"{self._handle.describe()} has a key of {self._partition_text(partition)}, bucket {known.bucket}, "
                    "in another partition or bucket too: two jobs have written it at a time. Delete one of the rows "
                    "with a job that names the partition, or overwrite the table",
                    table=self._handle.name,
                    branch=self._handle.branch,
                )
            places.partitions[numbers] = partition
            places.buckets[numbers] = known.bucket
            if not request.ignores_existing:
                self._room.add(partition, known.bucket, len(numbers))

    def _moved(self, batch: pa.RecordBatch, rows: _ByKey, wanted: I64) -> Placed:
        """Each row in its own partition, after a -D where its key was before."""
        previous = np.where(rows.first, rows.known_partition, np.roll(rows.wanted, 1))
        placed = previous != rows.wanted
        new = self._assigned(rows, placed, wanted)
        buckets = np.where(placed, new, rows.known_bucket)[_last(placed | rows.first)]
        previous_bucket = np.where(rows.first, rows.known_bucket, np.roll(buckets, 1))
        leaves = placed & (previous != NOWHERE)
        rows.keep(self._places, rows.wanted, buckets)
        batch = _with_kinds(batch)
        if not leaves.any():
            return Placed(batch, wanted, rows.in_order(buckets))
        self._check_deletes()
        self._room.leave(previous[leaves], previous_bucket[leaves])
        left = rows.in_order(leaves)
        source = np.repeat(np.arange(batch.num_rows), 1 + left)
        deletes = np.zeros(len(source), np.bool_)
        deletes[np.flatnonzero(left) + np.arange(int(left.sum()))] = True
        partitions = np.where(deletes, rows.in_order(previous)[source], wanted[source])
        out = self._in_partitions(batch.take(arrow_numpy.take_indices(source)), partitions)
        return Placed(
            _deleted(out, deletes),
            partitions,
            np.where(deletes, rows.in_order(previous_bucket)[source], rows.in_order(buckets)[source]),
        )

    def _stayed(self, batch: pa.RecordBatch, rows: _ByKey, wanted: I64) -> Placed:
        """Rows of a key where its first row is: moved there, or dropped."""
        begins = _last(rows.first)
        known = rows.known_partition != NOWHERE
        target = np.where(known, rows.known_partition, rows.wanted[begins])
        placed = rows.first & ~known
        buckets = np.where(placed, self._assigned(rows, placed, wanted), rows.known_bucket)[begins]
        rows.keep(self._places, target, buckets)
        partitions, numbers = rows.in_order(target), rows.in_order(buckets)
        elsewhere = partitions != wanted
        if not elsewhere.any():
            return Placed(batch, wanted, numbers)
        if self._engine is MergeEngine.FIRST_ROW:
            kept = np.flatnonzero(~elsewhere)
            self.dropped += batch.num_rows - len(kept)
            return Placed(batch.take(arrow_numpy.take_indices(kept)), wanted[kept], numbers[kept])
        return Placed(self._in_partitions(batch, partitions), partitions, numbers)

    def _assigned(self, rows: _ByKey, placed: Bool, wanted: I64) -> I64:
        """Buckets for the rows of `placed`, which are new to their partition; in order of keys, as `placed` is."""
        arrived = np.sort(rows.order[placed])
        by_row = np.zeros(len(wanted), np.int64)
        by_row[arrived] = self._room.assign(wanted[arrived])
        return by_row[rows.order]

    def _in_partitions(self, batch: pa.RecordBatch, partitions: I64) -> pa.RecordBatch:
        """The rows with other partition columns."""
        known = array_of(self._partitions.rows, pa.binary())
        take = arrow_numpy.take_indices(partitions)
        arrays = list(batch.columns)
        for index, field in enumerate(self._handle.schema.partition_type):
            at = batch.schema.get_field_index(field.name)
            values = decode_column(known, index, field.type).take(take)
            arrays[at] = values if values.type == arrays[at].type else values.cast(arrays[at].type)
        return record_batch(arrays, batch.schema, batch.num_rows)

    def _check_deletes(self) -> None:
        if self._handle.options.ignore_delete:
            raise UnsupportedFeatureError(
                f"a row of {self._handle.describe()} would have to move to another partition, and its option "
                "ignore-delete = true keeps the old one too; set it to false, or write rows with the partition they "
                "are in",
                feature="ignore-delete",
                table=self._handle.name,
            )

    def _partition_text(self, number: int) -> str:
        return partition_text(self._handle, self._partitions.rows[number])


class _ByKey(NamedTuple):
    """The rows of a batch ordered by key; rows of one key in order of arrival.

    Attributes:
        order: row numbers.
        keys: number of the key in `KeyPlaces`.
        first: whether the row is the first of its key.
        wanted: partition number of the row.
        known_partition, known_bucket: where the key was before the batch.
    """

    order: I64
    keys: I64
    first: Bool
    wanted: I64
    known_partition: I64
    known_bucket: I64

    @classmethod
    def of(cls, places: KeyPlaces, keys: I64, wanted: I64) -> _ByKey:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = np.ones(len(keys), np.bool_)
        first[1:] = keys[1:] != keys[:-1]
        partitions, buckets = places.partitions[keys].astype(np.int64), places.buckets[keys].astype(np.int64)
        return cls(order, keys, first, wanted[order], partitions, buckets)

    def in_order(self, values: npt.NDArray[np.generic]) -> I64:
        """Values of the ordered rows, in the order of the batch."""
        out = np.empty(len(values), np.int64)
        out[self.order] = values
        return out

    def keep(self, places: KeyPlaces, partitions: I64, buckets: I64) -> None:
        """Set the place of each key to that of its last row."""
        last = np.roll(self.first, -1)
        places.partitions[self.keys[last]] = partitions[last]
        places.buckets[self.keys[last]] = buckets[last]


class _Room:
    """How many keys are in each bucket. The first bucket of a partition that is not full takes the next key."""

    def __init__(self, target_rows: int) -> None:
        self._target = max(1, target_rows)
        self._counts: dict[int, dict[int, int]] = {}

    def add(self, partition: int, bucket: int, keys: int) -> None:
        """Count existing keys."""
        counts = self._counts.setdefault(partition, {})
        counts[bucket] = counts.get(bucket, 0) + keys

    def assign(self, partitions: I64) -> I64:
        """A bucket for each of new keys, in order of arrival."""
        out = np.empty(len(partitions), np.int64)
        order = np.argsort(partitions, kind="stable")
        numbers, starts = np.unique(partitions[order], return_index=True)
        pieces = np.split(order, starts[1:]) if len(numbers) else []
        for partition, rows in zip(numbers.tolist(), pieces, strict=True):
            begin = 0
            for bucket, free in self._free(partition):
                taken = min(free, len(rows) - begin)
                out[rows[begin : begin + taken]] = bucket
                self.add(partition, bucket, taken)
                begin += taken
                if begin == len(rows):
                    break
        return out

    def leave(self, partitions: I64, buckets: I64) -> None:
        """Subtract keys that moved to another partition."""
        places, gone = np.unique(partitions * (MOST_BUCKETS + 1) + buckets, return_counts=True)
        for place, keys in zip(places.tolist(), gone.tolist(), strict=True):
            self.add(place // (MOST_BUCKETS + 1), place % (MOST_BUCKETS + 1), -keys)

    def _free(self, partition: int) -> Iterator[tuple[int, int]]:
        """Buckets that are not full, with the number of free places; existing ones first."""
        counts = self._counts.setdefault(partition, {})
        there = sorted(counts)
        for bucket in there:
            if counts[bucket] < self._target:
                yield bucket, self._target - counts[bucket]
        for bucket in range(MOST_BUCKETS):
            if bucket not in counts:
                yield bucket, self._target
        raise InvalidInputError(
            f"a partition has used up its {MOST_BUCKETS} bucket numbers; raise 'dynamic-bucket.target-row-num' = "
            f"{self._target} on the table"
        )


def _last(marks: Bool) -> I64:
    """For each place the last one up to it that is marked."""
    return np.maximum.accumulate(np.where(marks, np.arange(len(marks)), 0))


def _with_kinds(batch: pa.RecordBatch) -> pa.RecordBatch:
    if VALUE_KIND in batch.schema.names:
        return batch
    kinds = arrow_numpy.fixed_array(np.zeros(batch.num_rows, np.int8), pa.int8())
    schema = batch.schema.append(pa.field(VALUE_KIND, pa.int8(), nullable=False))
    return record_batch([*batch.columns, kinds], schema, batch.num_rows)


def _deleted(batch: pa.RecordBatch, deletes: Bool) -> pa.RecordBatch:
    """The batch, whose last column is the kind, with some rows of kind -D."""
    kinds = np.where(deletes, np.int8(RowKind.DELETE), arrow_numpy.values(batch.column(batch.num_columns - 1)))
    arrays = [*batch.columns[:-1], arrow_numpy.fixed_array(kinds.astype(np.int8), pa.int8())]
    return record_batch(arrays, batch.schema, batch.num_rows)
