"""Dynamic buckets as the router asks for them: rows of many partitions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.engine.write.dynamic_buckets import DynamicBuckets
from paimon_spark.engine.write.partitions import PartitionNumbers
from paimon_spark.engine.write.placed import Placed
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.format.bucket_hash import hashes as row_hashes
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.table_schema import TableSchema

I64 = npt.NDArray[np.int64]

DYNAMIC: Final = -1
"""`_TOTAL_BUCKETS` of files in dynamic buckets."""


def is_cross_partition(schema: TableSchema) -> bool:
    """Whether a key may move from one partition to another, which no index on disk tells.

    Source: Java `table/BucketMode.KEY_DYNAMIC`.
    """
    return bool(schema.primary_keys) and not set(schema.partition_keys) <= set(schema.primary_keys)


class DynamicBucketing:
    """A `Bucketing` of tables with primary keys and `bucket` = -1.

    Args:
        request: what is written.
        partitions: the row bytes behind partition numbers.
    """

    total_buckets = DYNAMIC
    constant: int | None = None

    def __init__(self, request: WriteRequest, partitions: PartitionNumbers) -> None:
        self._keys = list(request.handle.schema.trimmed_primary_keys)
        self._partitions = partitions
        self._buckets = DynamicBuckets(request)

    def place(self, batch: pa.RecordBatch, partitions: I64 | int) -> Placed:
        """Where every row goes. Raises as `of`."""
        return Placed(batch, partitions, self.of(batch, partitions))

    def of(self, batch: pa.RecordBatch, partitions: I64 | int) -> I64:
        """The bucket of every row. Raises as `DynamicBuckets.assign`."""
        hashes = row_hashes(batch.select(self._keys))
        if isinstance(partitions, int):
            return self._buckets.assign(self._partitions.rows[partitions], hashes).astype(np.int64)
        out = np.empty(len(hashes), np.int64)
        order = np.argsort(partitions, kind="stable")
        numbers, starts = np.unique(partitions[order], return_index=True)
        for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            out[rows] = self._buckets.assign(self._partitions.rows[number], hashes[rows])
        return out

    def finish(self, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        """The messages of all buckets, with the index files of what was new. Raises as `DynamicBuckets.close`."""
        return _with_index(messages, self._buckets.close())

    def abort(self) -> None:
        """Remove the index files written. Raises nothing."""
        self._buckets.abort()


def _with_index(
    messages: Sequence[CommitMessage], index: Mapping[tuple[bytes, int], IndexManifestEntry]
) -> list[CommitMessage]:
    left = dict(index)
    out = []
    for message in messages:
        entry = left.pop((message.partition, message.bucket), None)
        if entry is not None:
            files = (*message.data.new_index_files, entry)
            message = replace(message, data=replace(message.data, new_index_files=files))
        out.append(message)
    for (partition, bucket), entry in left.items():  # rows that a merge engine made nothing of
        out.append(CommitMessage(partition, bucket, DYNAMIC, Increment(new_index_files=(entry,))))
    return out
