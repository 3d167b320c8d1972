"""Rows of data files that go: which, and finding them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_spark.engine.read.file_reader import partition_scalars
from paimon_spark.engine.read.split_reader import read_split
from paimon_spark.engine.tasks.split import ROW_INDEX, DataSplit, ReadRequest
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.metadata_files import deletion_vector
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.deletion_vector import Positions
from paimon_spark.predicate.arrow import matches


@dataclass(frozen=True, slots=True)
class DroppedRows:
    """Rows of one data file that go. Picklable, and small: a driver holds those of all tasks.

    Attributes:
        partition: BinaryRow bytes.
        file: the file, perhaps without what readers do not need.
        count: how many they are; for all rows of the file those deleted before count too.
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
        where = f"rows that go from {self.file.file_name}"
        return deletion_vector.decode(self.vector, where, row_count=self.file.row_count)


def files_of(split: DataSplit) -> Iterator[DataSplit]:
    """The split's files, as splits of one file each."""
    for i, file in enumerate(split.files):
        deletion = split.deletion_of(i)
        yield replace(split, files=(file,), deletions=() if deletion is None else (deletion,))


def find_dropped(request: ReadRequest, split: DataSplit) -> list[DroppedRows]:
    """The rows of a split for which the request's predicate is true, file by file. Raises as `read_split`."""
    asked = replace(request, columns=(ROW_INDEX,))
    out = []
    for part in files_of(split):
        parts = [arrow_numpy.values(batch.column(0)) for batch in read_split(asked, part)]
        if parts:
            out.append(DroppedRows.of(split, part.files[0], np.concatenate(parts)))
    return out


def read_dropped(request: ReadRequest, split: DataSplit, dropped: list[DroppedRows]) -> Iterator[pa.RecordBatch]:
    """The rows of a split for which the request's predicate is true; `dropped` gets their positions when all are read.

    Batches have the request's columns. Raises as `read_split`.
    """
    asked = replace(request, columns=(*request.columns, ROW_INDEX))
    for part in files_of(split):
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
    return [DroppedRows.of(split, f, None) for f in split.files]
