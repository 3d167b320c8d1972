"""The writer of a postponed bucket: rows go to files as they come, for a compaction that will give them buckets.

Nothing is sorted or merged: what reads these files takes those of one writer in order, row by row. Sequence numbers
say nothing there, and all are -1.

Source: Java `postpone/PostponeBucketWriter`, `postpone/PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.functions import create_merge_function
from paimon_spark.engine.merge.key_value import Groups, is_retract, kinds_array
from paimon_spark.engine.tasks.commit_message import Increment
from paimon_spark.engine.write.merge_tree import SYSTEM_FIELDS
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.rolling import DataFiles
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.types import VALUE_KIND

_NO_SEQUENCE: Final = -1


class PostponedWriter:
    """Writes rows of a table with `bucket` = -2. A `BucketWriter`.

    Args:
        request: what is written.
        partition: BinaryRow bytes of the partition.
        bucket: the postponed bucket.
    """

    def __init__(self, request: WriteRequest, partition: bytes, bucket: int) -> None:
        schema = request.handle.schema
        self._function = create_merge_function(schema, request.handle.options)
        self._schema = pa.schema([*SYSTEM_FIELDS, *arrow_schema(schema.fields)])
        self._columns = schema.row_type.names
        self._rolling = DataFiles(request, partition, bucket).data()
        self._retracts_allowed = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows.

        Raises:
            DataError: the table does not allow retracts.
            StorageError: a file cannot be written.
        """
        rows = batch.num_rows
        kinds = kinds_array(np.zeros(rows, np.int8))
        if VALUE_KIND in batch.schema.names:
            kinds = batch.column(VALUE_KIND)
            self._check_retracts(batch, kinds)
        numbers = arrow_numpy.fixed_array(np.full(rows, _NO_SEQUENCE, np.int64), pa.int64())
        arrays = [numbers, kinds, *(batch.column(name) for name in self._columns)]
        self._rolling.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _check_retracts(self, batch: pa.RecordBatch, kinds: pa.Array) -> None:
        """Merge the first retract alone: an engine that refuses them must not find them when nobody can help it."""
        values = arrow_numpy.values(kinds)
        found = np.flatnonzero(is_retract(values))[:1]
        if self._retracts_allowed or not len(found):
            return
        columns = {name: batch.column(name) for name in self._columns}
        groups = Groups(found, np.zeros(1, np.int64), values[found])
        self._function.merge(columns, groups, tuple(self._columns))
        self._retracts_allowed = True

    @property
    def buffered_bytes(self) -> int:
        return self._rolling.buffered_bytes

    def release(self) -> None:
        """Put buffered rows into the open file. Raises StorageError."""
        self._rolling.flush()

    def close(self) -> Increment:
        """Finish the files. Raises StorageError."""
        return Increment(new_files=self._rolling.close())

    def abort(self) -> None:
        """Remove every file made."""
        self._rolling.abort()
