"""Which partition each row belongs to: partition columns → numbers and BinaryRow bytes.

Only the distinct partitions of a batch are encoded, never its rows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format import binary_row
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_numpy import objects
from paimon_spark.format.arrays.arrow_types import arrow_type
from paimon_spark.types import RowType

I64 = npt.NDArray[np.int64]

_MOST_CODES: Final = 1 << 62
_PER_MILLI: Final = {"us": 1000, "ns": 1_000_000}


class PartitionNumbers:
    """Partitions seen so far, numbered from 0 by first appearance; the same row bytes always have one number.

    Attributes:
        rows: BinaryRow bytes of each partition, by number.
    """

    def __init__(self, partition_type: RowType) -> None:
        self._type = partition_type
        self._types = [f.type for f in partition_type]
        self._numbers: dict[bytes, int] = {}
        self._by_values: dict[tuple[Any, ...], int] = {}
        self._has_floats = any(pa.types.is_floating(arrow_type(t)) for t in self._types)
        self.rows: list[bytes] = []

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the partition columns."""
        return self._type.names

    def whole_table(self) -> int:
        """The number of the one partition of a table without partition columns."""
        return self.number(binary_row.EMPTY)

    def number(self, row: bytes) -> int:
        """The number of the partition of these BinaryRow bytes."""
        number = self._numbers.get(row)
        if number is None:
            self._numbers[row] = number = len(self.rows)
            self.rows.append(row)
        return number

    def of(self, batch: pa.RecordBatch) -> I64 | int:
        """The number of the partition of every row of `batch` (canonical types); one number when all are alike."""
        if not self._types:
            return self.whole_table()
        columns = [batch.column(name) for name in self._type.names]
        if len(columns) == 1:
            return self._of_column(columns[0])
        codes = np.zeros(batch.num_rows, np.int64)
        distinct = 1
        for column in columns:
            encoded = _encoded_bytes(column)
            column_codes, count = arrow_numpy.values(encoded.indices).astype(np.int64), len(encoded.dictionary)
            if count == 1:
                continue
            if distinct * count > _MOST_CODES:
                codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
                distinct = int(codes.max()) + 1
            codes = codes * count + column_codes
            distinct *= count
        if distinct == 1:
            return self._encoded([c.slice(0, 1) for c in columns])[0]
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        numbers = self._encoded([c.take(arrow_numpy.take_indices(first)) for c in columns])
        if len(numbers) == 1:
            return numbers[0]
        return np.array(numbers, np.int64)[inverse.reshape(-1)]

    def _of_column(self, column: pa.Array) -> I64 | int:
        encoded = _encoded_bytes(column)
        values = encoded.dictionary
        numbers = self._encoded([values if values.type == column.type else values.view(column.type)])
        if len(numbers) == 1:
            return numbers[0]
        by_code = np.array(numbers, np.int64)
        return by_code[arrow_numpy.values(encoded.indices).astype(np.int64)]

    def _encoded(self, columns: list[pa.Array]) -> list[int]:
        return [self._of_values(row) for row in zip(*map(_row_values, columns), strict=True)]

    def _of_values(self, row: tuple[Any, ...]) -> int:
        if self._has_floats:  # equal values may have other bytes
            return self.number(binary_row.encode(row, self._types))
        number = self._by_values.get(row)
        if number is None:
            self._by_values[row] = number = self.number(binary_row.encode(row, self._types))
        return number


def _encoded_bytes(column: pa.Array) -> pa.DictionaryArray:
    """Codes that are equal exactly for values of equal bytes, which is not so for floats by their values."""
    if pa.types.is_floating(column.type):
        column = column.view(pa.int32() if column.type == pa.float32() else pa.int64())
    return column.dictionary_encode(null_encoding="encode")


def _row_values(column: pa.Array) -> list[Any]:
    """Values as `binary_row.encode` takes them: dates as days, timestamps as (milliseconds, nanoseconds)."""
    t = column.type
    if pa.types.is_decimal(t):
        decimals: list[Any] = column.to_pylist()
        return decimals
    if pa.types.is_string(t) or pa.types.is_binary(t):
        found = objects(column)
        return [v for v, _ in zip(found, range(len(column)), strict=False)]
    numbers = arrow_numpy.values(column)
    if pa.types.is_timestamp(t):
        millis = np.floor_divide(numbers, _PER_MILLI.get(t.unit, 1))
        nanos = (numbers - millis * _PER_MILLI.get(t.unit, 1)) * (1_000_000 // _PER_MILLI.get(t.unit, 1_000_000))
        out: list[Any] = list(zip(millis.tolist(), nanos.tolist(), strict=True))
    else:
        out = numbers.tolist()
    if column.null_count:
        valid = arrow_numpy.validity(column).tolist()
        out = [v if ok else None for v, ok in zip(out, valid, strict=True)]
    return out
