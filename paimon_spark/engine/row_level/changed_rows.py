"""New rows of a task: inserted and changed rows, and changed columns of existing rows.

Changed columns are in files beside those of their row id range. A range has one file for each change, with the changed
columns of all its rows. For each column the newest file counts.

Source: Java Spark's `DataEvolutionPaimonWriter`, `DataEvolutionTableDataWrite`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.engine.read.data_evolution import read_evolved
from paimon_spark.engine.read.file_reader import file_url
from paimon_spark.engine.tasks import NANOSECONDS, CommitMessage, DataSplit, Increment, ReadRequest
from paimon_spark.engine.write.data_files import DataFiles, RollingWriter
from paimon_spark.engine.write.input import InputMapper
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import TableWriter
from paimon_spark.errors import CorruptFileError, UnsupportedFeatureError
from paimon_spark.format.arrays import pieces
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.manifests import read_index_manifest
from paimon_spark.types import RowType


class ChangedRows:
    """Writes the new rows of one task. Executor; not safe for threads.

    Inserted rows get new ids; changed rows of tables that track rows keep theirs, so they go to files of their own.
    """

    def __init__(self, request: WriteRequest) -> None:
        self._request = request
        self._writers: dict[bool, TableWriter] = {}

    def write(self, rows: pa.RecordBatch, *, keeps_row_ids: bool = False) -> None:
        """Write rows as `TableWriter` takes them. Raises as `TableWriter.write`; then call `abort`."""
        if not rows.num_rows:
            return
        writer = self._writers.get(keeps_row_ids)
        if writer is None:
            writer = TableWriter(self._request, rows.schema, keeps_row_ids=keeps_row_ids)
            self._writers[keeps_row_ids] = writer
        writer.write(rows)

    def close(self) -> list[CommitMessage]:
        """Finish all files. Raises as `write`."""
        return [m for writer in self._writers.values() for m in writer.close()]

    def abort(self) -> None:
        """Remove every file made, including those of messages already returned. Raises nothing."""
        for writer in self._writers.values():
            writer.abort()


def write_columns(
    request: WriteRequest,
    read: ReadRequest,
    split: DataSplit,
    columns: Collection[str],
    positions: Positions,
    values: Iterable[pa.RecordBatch],
) -> CommitMessage:
    """Write the columns of a range of row ids with new values of some rows. Executor or in process.

    Other rows keep their values, deleted ones too. After an error no new file is left.

    Args:
        request: the write.
        read: how to read files of the branch.
        split: one range, of `data_evolution.split_by_range`.
        columns: names of columns of the table.
        positions: of the changed rows in the range, ascending.
        values: the new values of these rows, at least one batch; has `columns`, and perhaps those of their nanoseconds;
            others are passed over.

    Raises:
        DataError: a value does not fit its column.
        CorruptFileError, StorageError: a file cannot be read or written.
    """
    schema = request.handle.schema
    # A null that is assigned stays null, also in a column with a default.
    fields = tuple(replace(f, default_value=None) for f in schema.fields if f.name in columns)
    projected = replace(schema, row_type=RowType(False, fields), primary_keys=(), partition_keys=())
    names = list(projected.row_type.names)
    fine = {NANOSECONDS + name for name in names}
    given = [batch.select([*names, *(n for n in batch.schema.names if n in fine)]) for batch in values]
    options = replace(request.handle.options.write, rowkind_field=None)
    mapper = InputMapper(projected, given[0].schema, options, request.handle.describe())
    new = pa.Table.from_batches([mapper.apply(batch) for batch in given])
    files = DataFiles(request, split.partition, split.bucket, columns=names, in_one_file=True)
    writer = files.data()
    old = replace(read, columns=tuple(names), predicate=None, with_row_kind=False)
    try:
        _write(writer, old, replace(split, deletions=()), positions, new)
        (file,) = writer.close()
    except BaseException:
        writer.abort()
        raise
    written = file._replace(first_row_id=split.files[0].first_row_id)
    return CommitMessage(split.partition, split.bucket, request.handle.options.bucket, Increment((written,)))


def check_indexed_columns(handle: TableHandle, base: Snapshot, messages: Iterable[CommitMessage]) -> None:
    """Refuse changes of columns with a global index in the same partition, which would keep the old values.

    Option `global-index.column-update-action` = IGNORE allows them, as in Java; it drops no index here.

    Raises:
        UnsupportedFeatureError: names the column.
    """
    changed = [(m.partition, f) for m in messages for f in m.data.new_files if f.first_row_id is not None]
    ignored = handle.options.write.index_update_action.lower() == "ignore"
    if not changed or base.index_manifest is None or ignored:
        return
    names = {f.id: f.name for f in handle.schema.fields}
    every = tuple(names.values())
    written = {(partition, name) for partition, file in changed for name in file.write_cols or every}
    for entry in read_index_manifest(handle, base.index_manifest):
        index = entry.global_index
        ids = () if index is None else (index.index_field_id, *(index.extra_field_ids or ()))
        for name in (names[i] for i in ids if (entry.partition, names.get(i)) in written):
            raise UnsupportedFeatureError(
                f"column {name} of {handle.describe()} has a global index, which is not changed here; drop the index "
                f"with Java Paimon, or set global-index.column-update-action = IGNORE if its old values do no harm",
                feature="update of columns with a global index",
                column=name,
            )


def _write(writer: RollingWriter, read: ReadRequest, split: DataSplit, positions: Positions, new: pa.Table) -> None:
    """Write all rows of a range, at `positions` those of `new`."""
    first = done = 0
    for batch in read_evolved(read, split):
        end = int(np.searchsorted(positions, first + batch.num_rows))
        for rows in _replaced(batch, positions[done:end] - first, new.slice(done, end - done)):
            writer.write(rows)
        first, done = first + batch.num_rows, end
    anchor = split.files[0]
    if first != anchor.row_count or done != len(positions):
        url = file_url(read.store, split, anchor)
        raise CorruptFileError(
            f"the range of data file {url} has {first} rows, and its manifest says {anchor.row_count}", path=url
        )


def _replaced(rows: pa.RecordBatch, positions: Positions, new: pa.Table) -> list[pa.RecordBatch]:
    """The rows, at `positions` those of `new`."""
    if not len(positions):
        return [rows]
    taken = np.arange(rows.num_rows, dtype=np.int64)
    taken[positions] = rows.num_rows + np.arange(len(positions))
    pairs = zip(rows.columns, new.columns, strict=True)
    both = pa.table([pa.chunked_array([old, *changed.chunks]) for old, changed in pairs], rows.schema)
    return list(pieces.taken(both, taken).to_batches())
