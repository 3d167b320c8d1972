"""The distinct partitions among manifest entries."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays.arrow_numpy import Bool, take_indices, values
from paimon_spark.format.arrays.arrow_types import arrow_schema, record_batch
from paimon_spark.format.binary_row import decode_column
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories, partition_path_of
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import Predicate
from paimon_spark.types import RowType


class Partitions:
    """Distinct partitions, numbered by first appearance.

    Attributes:
        codes: for every entry, the number of its partition.
        rows: BinaryRow bytes of each distinct partition.
    """

    def __init__(self, handle: TableHandle, column: pa.BinaryArray) -> None:
        self._handle = handle
        self.type: RowType = handle.schema.partition_type
        encoded = column.dictionary_encode()
        self.codes: npt.NDArray[np.int32] = values(encoded.indices)
        self.rows: pa.BinaryArray = encoded.dictionary

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """Values of the distinct partitions, one row each."""
        return decode_partitions(self.type, self.rows)

    @cached_property
    def directories(self) -> PartitionDirectories:
        """Where the files of the partitions are."""
        return PartitionDirectories(self._handle)

    @cached_property
    def row_bytes(self) -> list[bytes]:
        rows: list[bytes] = self.rows.to_pylist()
        return rows

    def keep(self, mask: Bool) -> Partitions:
        """The partitions of the entries where `mask` is True; numbers stay."""
        out = copy(self)
        out.codes = self.codes[mask]
        return out

    def in_byte_order(self) -> Partitions:
        """The same, numbered by their BinaryRow bytes: an order that no commit or option changes."""
        order = sorted(range(len(self.rows)), key=self.row_bytes.__getitem__)
        if order == list(range(len(order))):
            return self
        out = copy(self)
        for name in ("batch", "row_bytes"):  # of the former order
            vars(out).pop(name, None)
        ranks = np.empty(len(order), np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        out.codes = ranks[self.codes]
        out.rows = self.rows.take(take_indices(np.array(order, np.int64)))
        return out

    def matching(self, predicate: Predicate | None) -> Bool:
        """For every distinct partition, whether `predicate`, over partition columns only, is true."""
        if predicate is None:
            return np.ones(len(self.rows), np.bool_)
        return values(matches(predicate, self.batch))

    def path(self, code: int) -> str:
        """The name of a partition, as its directories; empty for an unpartitioned table."""
        return partition_path_of(self._handle, self.row_bytes[code])


def decode_partitions(partition_type: RowType, rows: pa.BinaryArray) -> pa.RecordBatch:
    """Partition values as columns, one row for each BinaryRow."""
    schema = pa.schema([f.with_nullable(True) for f in arrow_schema(partition_type)])
    columns = [decode_column(rows, i, f.type) for i, f in enumerate(partition_type)]
    return record_batch(columns, schema, len(rows))
