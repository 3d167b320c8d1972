"""Deletion of rows by deletion vectors, or by rewriting their data files.

Source: Java `deletionvectors/append/BaseAppendDeleteFileMaintainer`, Spark's `PaimonSparkWriter` and
`DeleteFromPaimonTableCommand.performNonPrimaryKeyDelete`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.read.file_reader import SYSTEM_FIELDS as READ_FIELDS
from paimon_spark.engine.read.file_reader import fields_of, iter_rows, system_columns
from paimon_spark.engine.read.metadata_columns import stored_rows
from paimon_spark.engine.row_level.files import DroppedRows
from paimon_spark.engine.tasks.commit_message import CommitMessage, Increment
from paimon_spark.engine.tasks.split import DataSplit, ReadRequest
from paimon_spark.engine.write.data_files import DataFiles, RollingWriter
from paimon_spark.engine.write.merge_tree import SYSTEM_FIELDS as WRITTEN_FIELDS
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import first_sequence_number
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import arrow_schema
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.live_files import NO_SEQUENCE, BucketStates
from paimon_spark.metadata.vector_files import (
    changed_vectors,
    read_vectors,
    remove_index_files,
    united,
    vector_files,
)

Place = tuple[bytes, int]


def deletion_changes(
    handle: TableHandle,
    snapshot: Snapshot,
    dropped: Iterable[DroppedRows],
    rewritten: Sequence[CommitMessage] = (),
) -> list[CommitMessage]:
    """Messages that mark rows as deleted: new vectors united with those there were.

    A file that loses its last row is deleted itself, and its vector goes; with data evolution it stays, as its range of
    row ids may have more files. The vectors of the files that `rewritten` deletes go. After an error no new index file
    is left.

    `dropped` may have several entries for one file.

    Raises:
        CorruptFileError, StorageError: vectors cannot be read or written.
    """
    gathered: dict[Place, dict[str, DroppedRows]] = {}
    for rows in dropped:
        files = gathered.setdefault((rows.partition, rows.bucket), {})
        files[rows.file.file_name] = _together(files.get(rows.file.file_name), rows)
    gone: dict[Place, list[str]] = {}
    for message in rewritten:
        names = [f.file_name for f in message.data.deleted_files]
        gone.setdefault((message.partition, message.bucket), []).extend(names)
    before = vector_files(handle, snapshot)
    states = BucketStates(handle, snapshot)
    out: list[CommitMessage] = []
    try:
        for place in dict.fromkeys((*gathered, *gone)):
            increment = _changes(handle, place, before.get(place, []), gathered.get(place, {}), gone.get(place, ()))
            total = states.of(place[0]).total_buckets
            if increment:
                out.append(CommitMessage(*place, handle.options.bucket if total is None else total, increment))
    except BaseException:
        remove_index_files(handle, [e for m in out for e in m.data.new_index_files])
        raise
    return out


def _changes(
    handle: TableHandle,
    place: Place,
    before: Sequence[IndexManifestEntry],
    dropped: dict[str, DroppedRows],
    gone: Iterable[str],
) -> Increment:
    known: dict[str, Positions] = {}
    for entry in before:
        known.update(read_vectors(handle, entry, dropped))
    changes: dict[str, Positions | None] = dict.fromkeys(gone)
    deleted: list[DataFileMeta] = []
    for name, rows in dropped.items():
        positions = rows.positions
        if positions is not None:
            positions = united(known[name], positions) if name in known else positions
        if handle.options.data_evolution:
            positions = np.arange(rows.file.row_count, dtype=np.int64) if positions is None else positions
        elif positions is None or len(positions) == rows.file.row_count:
            deleted.append(rows.file)
            positions = None
        changes[name] = positions
    new, replaced = changed_vectors(handle, place, before, changes, in_one_file=has_buckets(handle))
    return Increment(deleted_files=tuple(deleted), new_index_files=tuple(new), deleted_index_files=tuple(replaced))


def _together(a: DroppedRows | None, b: DroppedRows) -> DroppedRows:
    if a is None:
        return b
    first, second = a.positions, b.positions
    if first is None or second is None:
        return a if first is None else b
    positions = united(first, second)
    return replace(b, count=len(positions), vector=deletion_vector.encode(positions, bitmap64=True))


def rewrite_split(
    request: WriteRequest, read: ReadRequest, split: DataSplit, dropped: Mapping[str, Positions | None]
) -> CommitMessage:
    """Rewrite the files of a split without some of their rows. Executor or in process.

    Values stay as they are, also nulls of columns with a default, and row ids. Rows deleted by vectors are left out;
    `deletion_changes` removes these vectors. After an error no new file is left.

    `dropped` has positions by file name, None for all rows; other files stay as they are. `read` is of all columns.

    Raises:
        CorruptFileError, StorageError: a file cannot be read or written.
    """
    if request.handle.schema.primary_keys:
        return _rewrite_keyed(request, read, split, dropped)
    total, largest = request.handle.options.bucket, NO_SEQUENCE
    if total > 0:
        state = BucketStates(request.handle, request.base).of(split.partition)
        total, largest = state.total_buckets or total, state.max_sequence(split.bucket)
    files = DataFiles(request, split.partition, split.bucket, keeps_row_ids=request.handle.options.row_tracking)
    writer = files.data(first_sequence_number=first_sequence_number(request, largest))
    try:
        for batch in _kept(read, split, dropped):
            writer.write(batch)
        new_files = writer.close()
    except BaseException:
        writer.abort()
        raise
    gone = tuple(f for f in split.files if f.file_name in dropped)
    return CommitMessage(split.partition, split.bucket, total, Increment(new_files, gone))


def _rewrite_keyed(
    request: WriteRequest, read: ReadRequest, split: DataSplit, dropped: Mapping[str, Positions | None]
) -> CommitMessage:
    """As `rewrite_split`, of a table with keys: rows keep their level, their sequence numbers and their kinds."""
    outputs = DataFiles(request, split.partition, split.bucket)
    new: list[DataFileMeta] = []
    gone: list[DataFileMeta] = []
    opened: list[RollingWriter] = []
    try:
        for number, file in enumerate(split.files):
            if file.file_name not in dropped:
                continue
            gone.append(file)
            positions = dropped[file.file_name]
            if positions is None:
                continue
            writer = outputs.data(file.level, FileSource.COMPACT if file.level else FileSource.APPEND)
            opened.append(writer)
            for at, batch in _keyed_rows(read, split, number):
                kept = _without(at, positions)
                if kept.any():
                    writer.write(batch if kept.all() else batch.filter(arrow_numpy.boolean_array(kept)))
            new += writer.close()
    except BaseException:
        for writer in opened:
            writer.abort()
        raise
    total = split.total_buckets or request.handle.options.bucket
    return CommitMessage(split.partition, split.bucket, total, Increment(tuple(new), tuple(gone)))


def _keyed_rows(read: ReadRequest, split: DataSplit, number: int) -> Iterator[tuple[Positions, pa.RecordBatch]]:
    """The positions and rows of a file of a table with keys, as it is written, without rows that vectors delete."""
    file, schema = split.files[number], read.schema
    fields = fields_of(schema, schema.row_type.names)
    written = pa.schema([*WRITTEN_FIELDS, *arrow_schema(schema.fields)])
    deletion = split.deletion_of(number)
    for rows in iter_rows(read, split, file, deletion, fields, batch_rows=read.batch_rows, extra=READ_FIELDS):
        if rows.row_count:
            system = system_columns(read.store, split, file, READ_FIELDS, rows.extra)
            yield rows.positions, pa.RecordBatch.from_arrays([*system, *rows.columns], schema=written)


def _kept(read: ReadRequest, split: DataSplit, dropped: Mapping[str, Positions | None]) -> Iterator[pa.RecordBatch]:
    for i, file in enumerate(split.files):
        gone = dropped.get(file.file_name)
        if gone is None:
            continue
        for positions, batch in stored_rows(read, split, i):
            kept = _without(positions, gone)
            if kept.any():
                yield batch if kept.all() else batch.filter(arrow_numpy.boolean_array(kept))


def _without(positions: Positions, gone: Positions) -> arrow_numpy.Bool:
    """Which positions are not among those gone; both ascend."""
    near = gone[np.searchsorted(gone, positions[0]) : np.searchsorted(gone, positions[-1], side="right")]
    return np.isin(positions, near, assume_unique=True, invert=True)
