"""Rows of data files that go: which, and finding them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_spark.handoff.read_request import ROW_INDEX, ReadRequest
from paimon_spark.handoff.split import DataSplit
from paimon_spark.predicate.arrow import matches
from paimon_spark.read.partition_values import partition_scalars
from paimon_spark.read.split_reader import read_split
from paimon_spark.spec import arrow_numpy
from paimon_spark.spec.arrow import record_batch
from paimon_spark.spec.data_file import DataFileMeta
from paimon_spark.spec.deletion_vector import Positions


@dataclass(frozen=True, slots=True)
class DroppedRows:
    """Rows of one data file that go. Picklable.

    Attributes:
        partition: BinaryRow bytes.
        file: as its manifest describes it.
        positions: physical positions, ascending, without those deleted before; None for all rows.
    """

    partition: bytes
    bucket: int
    file: DataFileMeta
    positions: Positions | None


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
            out.append(DroppedRows(split.partition, split.bucket, part.files[0], np.concatenate(parts)))
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
            dropped.append(DroppedRows(split.partition, split.bucket, part.files[0], np.concatenate(parts)))


def whole_files(request: ReadRequest, split: DataSplit) -> list[DroppedRows]:
    """All rows of a split, when the request's predicate, which looks at partition columns alone, is true for them."""
    if request.predicate is not None:
        values = partition_scalars(request.schema, split.partition)
        arrays = [pa.repeat(v, 1) if v.is_valid else pa.nulls(1, v.type) for v in values.values()]
        fields = [pa.field(n, a.type) for n, a in zip(values, arrays, strict=True)]
        mask = matches(request.predicate, record_batch(arrays, pa.schema(fields), 1))
        if not mask[0].as_py():
            return []
    return [DroppedRows(split.partition, split.bucket, f, None) for f in split.files]
