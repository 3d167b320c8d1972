"""Data files written again without some of their rows. For tables without keys.

Source: Java Spark's `DeleteFromPaimonTableCommand.performNonPrimaryKeyDelete`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from paimon_spark.engine.read.file_reader import fields_of, iter_rows
from paimon_spark.engine.read.metadata_columns import tracking_column
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.engine.tasks.split import DataSplit, ReadRequest
from paimon_spark.engine.write.append import first_sequence_number
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.rolling import DataFiles, RollingWriter
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.metadata.bucket_state import NO_SEQUENCE, BucketStates
from paimon_spark.types import TRACKING_FIELDS


def rewrite_split(
    request: WriteRequest, read: ReadRequest, split: DataSplit, dropped: Mapping[str, Positions | None]
) -> CommitMessage:
    """Write the files of a split that lose rows again, without them. Executor or in process.

    Values stay as they are, nulls of columns with a default too; so do row ids where rows have them. Rows deleted by
    vectors are left out; the vectors of the files are for `vectors.deletion_changes` to take away. After an error no
    new file is left.

    Args:
        request: where to write.
        read: how to read the split, all columns of the table.
        split: files read as they lie.
        dropped: positions by name of the file, None for all of its rows; files not named stay as they are.

    Raises:
        CorruptFileError: a file cannot be read.
        StorageError: a file cannot be written.
    """
    total, largest = request.handle.options.bucket, NO_SEQUENCE
    if total > 0:
        state = BucketStates(request.handle, request.base).of(split.partition)
        total, largest = state.total_buckets or total, state.max_sequence(split.bucket)
    writer = _writer(request, split, largest)
    try:
        for batch in _kept(read, split, dropped):
            writer.write(batch)
        new_files = writer.close()
    except BaseException:
        writer.abort()
        raise
    gone = tuple(f for f in split.files if f.file_name in dropped)
    return CommitMessage(split.partition, split.bucket, total, Increment(new_files, gone))


def _writer(request: WriteRequest, split: DataSplit, largest: int) -> RollingWriter:
    keeps_row_ids = request.handle.options.row_tracking
    files = DataFiles(request, split.partition, split.bucket, keeps_row_ids=keeps_row_ids)
    return files.data(first_sequence_number=first_sequence_number(request, largest))


def _kept(read: ReadRequest, split: DataSplit, dropped: Mapping[str, Positions | None]) -> Iterator[pa.RecordBatch]:
    names = read.schema.row_type.names
    fields = fields_of(read.schema, names)
    extra = TRACKING_FIELDS if read.options.row_tracking else ()
    schema = arrow_schema((*read.schema.fields, *extra))
    for i, file in enumerate(split.files):
        gone = dropped.get(file.file_name, _NOTHING)
        if gone is None or gone is _NOTHING:
            continue
        deletion = split.deletion_of(i)
        for rows in iter_rows(read, split, file, deletion, fields, batch_rows=read.batch_rows, extra=extra):
            if rows.row_count == 0:
                continue
            kept = _without(rows.positions, gone)
            count = int(np.count_nonzero(kept))
            if count == 0:
                continue
            arrays = [*rows.columns, *(tracking_column(file, f.name, rows) for f in extra)]
            if count < rows.row_count:
                mask = arrow_numpy.boolean_array(kept)
                arrays = [a.filter(mask) for a in arrays]
            yield record_batch(arrays, schema, count)


def _without(positions: Positions, gone: Positions) -> arrow_numpy.Bool:
    """Which positions are not among those gone; both ascend."""
    near = gone[np.searchsorted(gone, positions[0]) : np.searchsorted(gone, positions[-1], side="right")]
    return np.isin(positions, near, assume_unique=True, invert=True)


_NOTHING: Positions = np.empty(0, np.int64)
