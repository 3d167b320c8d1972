"""Deleted rows of data files, and the whole metadata of replaced files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.commit.entries import Touched
from paimon_spark.engine.read.data_evolution import split_by_range
from paimon_spark.engine.read.file_reader import partition_scalars
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.tasks.commit_message import CommitMessage, sum_if_known
from paimon_spark.engine.tasks.split import ROW_INDEX, DataSplit, ReadRequest, SplitMode
from paimon_spark.errors import CommitConflictError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import array_of, objects
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
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
