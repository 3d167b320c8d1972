"""The writer of a bucket without keys: rows go to files as they come.

Source: Java `append/AppendOnlyWriter`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from paimon_spark.engine.tasks.commit_message import Increment
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.rolling import DataFiles, RollingWriter

SHARED_STRIDE: Final = 1 << 32
"""Distance of the sequence numbers of writers that share a bucket: none writes so many rows into one bucket."""


class AppendWriter:
    """Writes rows of one bucket of a table without keys. A `BucketWriter`.

    Args:
        request: what is written.
        partition: BinaryRow bytes of the partition.
        bucket: bucket number.
        max_sequence: largest sequence number of the bucket's live files; -1 when there are none, and for tables
            without buckets, where every writer counts from 0.
    """

    def __init__(self, request: WriteRequest, partition: bytes, bucket: int, max_sequence: int) -> None:
        first = first_sequence_number(request, max_sequence)
        self._rolling: RollingWriter = DataFiles(request, partition, bucket).data(first_sequence_number=first)

    def write(self, batch: pa.RecordBatch) -> None:
        self._rolling.write(batch)

    @property
    def buffered_bytes(self) -> int:
        return self._rolling.buffered_bytes

    def release(self) -> None:
        """End the row group that is being gathered."""
        self._rolling.flush()

    def close(self) -> Increment:
        return Increment(new_files=self._rolling.close())

    def abort(self) -> None:
        self._rolling.abort()


def first_sequence_number(request: WriteRequest, max_sequence: int) -> int:
    """Where the sequence numbers of a writer begin, in a bucket whose largest is `max_sequence`."""
    if request.shares_buckets and request.handle.options.bucket > 0:
        return max_sequence + 1 + request.writer_number * SHARED_STRIDE
    return max_sequence + 1
