"""Deletion of rows: which rows of which files, and new deletion vectors or rewritten files.

Source: Java `deletionvectors/append/BaseAppendDeleteFileMaintainer`, Spark's `PaimonSparkWriter` and
`DeleteFromPaimonTableCommand.performNonPrimaryKeyDelete`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import Touched
from paimon_spark.engine.commit.index_files import has_buckets
from paimon_spark.engine.read.data_evolution import split_by_range
from paimon_spark.engine.read.file_reader import SYSTEM_FIELDS as READ_FIELDS
from paimon_spark.engine.read.file_reader import fields_of, iter_rows, partition_scalars, system_columns
from paimon_spark.engine.read.metadata_columns import stored_rows
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.tasks import (
    ROW_INDEX,
    CommitMessage,
    DataSplit,
    Increment,
    ReadRequest,
    SplitMode,
    sum_if_known,
)
from paimon_spark.engine.write.data_files import DataFiles, RollingWriter
from paimon_spark.engine.write.merge_tree import SYSTEM_FIELDS as WRITTEN_FIELDS
from paimon_spark.engine.write.request import WriteRequest
from paimon_spark.engine.write.table_writer import first_sequence_number
from paimon_spark.errors import CommitConflictError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import array_of, objects
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.index_manifest import IndexManifestEntry
from paimon_spark.format.metadata_files.manifest import files_of
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
from paimon_spark.predicate.arrow import matches
from paimon_spark.storage.store import Store


@dataclass(frozen=True, slots=True)
class DroppedRows:
    """Rows to delete from one data file. Picklable, and small: a driver holds those of all tasks.

    Attributes:
        file: the file, perhaps without the metadata that readers do not need.
        count: number of rows; for all rows of the file including those deleted before.
        vector: their physical positions as a deletion vector, without those deleted before; None for all rows.
    """

    partition: bytes
    bucket: int
    file: DataFileMeta
    count: int
    vector: bytes | None

    @staticmethod
    def of(split: DataSplit, file: DataFileMeta, positions: Positions | None) -> DroppedRows:
        """Rows of a file of `split` at ascending positions; None for all of its rows.

        Raises:
            FormatError: the positions do not ascend.
        """
        if positions is None:
            return DroppedRows(split.partition, split.bucket, file, file.row_count, None)
        vector = deletion_vector.encode(positions, bitmap64=True)
        return DroppedRows(split.partition, split.bucket, file, len(positions), vector)

    @property
    def positions(self) -> Positions | None:
        """Their physical positions, ascending; None for all rows. Raises CorruptFileError: the file has no such row."""
        if self.vector is None:
            return None
        where = f"deleted rows of {self.file.file_name}"
        return deletion_vector.decode(self.vector, where, row_count=self.file.row_count)


def count_rows(store: Store, split: DataSplit, *, keys: bool) -> int | None:
    """The number of rows that a split returns, by its metadata; None if it does not say.

    `keys`: the table has a primary key, so that rows may have to be merged.

    Raises CorruptFileError: the row ids of the files contradict each other.
    """
    if split.mode not in (SplitMode.RAW, SplitMode.EVOLVED):
        return None
    if keys and not all(f.has_no_retracts for f in split.files):
        return None
    return sum_if_known(_rows_left(part) for part in split_by_file(store, split))


def _rows_left(part: DataSplit) -> int | None:
    """The rows of the first file that its deletion vector leaves; None if a writer did not count them."""
    deletion, rows = part.deletion_of(0), part.files[0].row_count
    if deletion is None:
        return rows
    return None if deletion.cardinality is None else rows - deletion.cardinality


def split_by_file(store: Store, split: DataSplit) -> Iterator[DataSplit]:
    """The split's files, as splits of one file each; with data evolution its ranges of row ids, the anchor file first.

    Raises CorruptFileError: the row ids of the files contradict each other.
    """
    if split.mode is SplitMode.EVOLVED:
        yield from split_by_range(store, split)
        return
    for i, file in enumerate(split.files):
        deletion = split.deletion_of(i)
        yield replace(split, files=(file,), deletions=() if deletion is None else (deletion,))


def find_dropped(request: ReadRequest, split: DataSplit) -> list[DroppedRows]:
    """The rows of a split for which the request's predicate is true, file by file. Raises as `read_split`."""
    out: list[DroppedRows] = []
    for _ in read_dropped(replace(request, columns=()), split, out):
        pass  # only the positions matter
    return out


def read_dropped(request: ReadRequest, split: DataSplit, dropped: list[DroppedRows]) -> Iterator[pa.RecordBatch]:
    """The rows of a split for which the request's predicate is true; `dropped` gets their positions when all are read.

    Batches have the request's columns. Raises as `read_split`.
    """
    asked = replace(request, columns=(*request.columns, ROW_INDEX))
    for part in split_by_file(request.store, split):
        parts = []
        for batch in read_split(asked, part):
            parts.append(arrow_numpy.values(batch.column(batch.num_columns - 1)))
            yield batch.select(list(request.columns))
        if parts:
            dropped.append(DroppedRows.of(split, part.files[0], np.concatenate(parts)))


def whole_files(request: ReadRequest, split: DataSplit) -> list[DroppedRows]:
    """All rows of a split, when the request's predicate, which looks at partition columns alone, is true for them."""
    if request.predicate is not None:
        values = partition_scalars(request.schema, split.partition)
        arrays = [pa.repeat(v, 1) if v.is_valid else pa.nulls(1, v.type) for v in values.values()]
        fields = [pa.field(n, a.type) for n, a in zip(values, arrays, strict=True)]
        mask = matches(request.predicate, record_batch(arrays, pa.schema(fields), 1))
        if not mask[0].as_py():
            return []
    return [DroppedRows.of(part, part.files[0], None) for part in split_by_file(request.store, split)]


_Identity: TypeAlias = tuple[bytes, int, str]


def with_whole_metas(handle: TableHandle, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """The messages, with deleted files as in the manifests of `snapshot`: plans lack their extra files and index bytes.

    Driver only.

    Raises:
        CommitConflictError: the snapshot has no such file.
        FileMissingError: a manifest is gone; the snapshot may have expired meanwhile.
    """
    if not any(m.data.deleted_files for m in messages):
        return list(messages)
    known = _known(handle, snapshot, [m for m in messages if m.data.deleted_files])
    out = []
    for m in messages:
        files = tuple(
            _found(handle, snapshot, known, (m.partition, m.bucket, f.file_name)) for f in m.data.deleted_files
        )
        out.append(replace(m, data=replace(m.data, deleted_files=files)))
    return out


def _known(handle: TableHandle, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> dict[_Identity, DataFileMeta]:
    partitions = array_of([m.partition for m in messages], pa.binary())
    entries = Touched(handle, partitions).live(snapshot)
    names = array_of([f.file_name for m in messages for f in m.data.deleted_files], pa.string())
    entries = entries.filter(pc.is_in(entries.column("file_name"), value_set=names))
    places = zip(
        *(objects(entries.column(name)) for name in ("partition", "bucket", "file_name")),
        files_of(entries),
        strict=False,
    )
    return {(partition, bucket, name): file for partition, bucket, name, file in places}


def _found(
    handle: TableHandle, snapshot: Snapshot, known: dict[_Identity, DataFileMeta], place: _Identity
) -> DataFileMeta:
    file = known.get(place)
    if file is None:
        raise CommitConflictError(
            f"data file {place[2]} of bucket {place[1]} is not in snapshot {snapshot.id} of {handle.describe()}, where "
            "its rows were read; read the table again and write again",
            table=handle.name,
            snapshot_id=snapshot.id,
        )
    return file


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
