"""Rows that a compaction leaves out because of their age.

Source: Java `io/RecordLevelExpire`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.read.file_reader import fields_of
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import Bool, array_of
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.types import DataField

_SMALLEST_MILLIS = 1_000_000_000_000
"""A BIGINT from here on counts milliseconds, below it seconds."""


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Which rows are too old.

    Attributes:
        field: the column that tells how old a row is.
        oldest_s: seconds since the epoch; rows of an earlier second go.
    """

    field: DataField
    oldest_s: int

    @classmethod
    def of(cls, handle: TableHandle) -> RecordExpiry | None:
        """As of now; None for tables whose rows do not expire.

        Raises:
            InvalidOptionError: the options do not name the column.
            ColumnNotFoundError: there is no such column.
        """
        options = handle.options.record_expiry
        if options is None:
            return None
        return cls(fields_of(handle.schema, (options.column,))[0], int(time.time()) - options.kept_s)

    def kept(self, column: pa.Array) -> Bool:
        """For each row, by its value of the column, whether it stays. Rows without a time do."""
        return (_seconds(column) >= self.oldest_s) | ~arrow_numpy.validity(column)

    def touches(self, file: DataFileMeta, schemas: Mapping[int, TableSchema]) -> bool:
        """Whether the smallest value in the file is too old. Unknown ones are not."""
        fields = schemas[file.schema_id].fields
        if file.value_stats_cols is not None:
            by_name = {f.name: f for f in fields}
            fields = tuple(by_name[n] for n in file.value_stats_cols)
        at = next((i for i, f in enumerate(fields) if f.id == self.field.id), None)
        if at is None or not file.value_stats.min_values:
            return False
        smallest = decode_column(array_of([file.value_stats.min_values], pa.binary()), at, fields[at].type, exact=False)
        return smallest.null_count == 0 and not self.kept(smallest).all()


def _seconds(column: pa.Array) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Times as seconds since the epoch; anything for nulls."""
    filled = column.fill_null(pa.scalar(0).cast(column.type)) if column.null_count else column
    if pa.types.is_timestamp(column.type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        return np.asarray(arrow_numpy.values(pc.cast(filled, pa.int64())) // per_second, np.int64)
    numbers = arrow_numpy.values(filled).astype(np.int64)
    return np.where(numbers >= _SMALLEST_MILLIS, numbers // 1000, numbers)
