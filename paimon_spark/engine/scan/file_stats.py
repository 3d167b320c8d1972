"""Statistics of many files as columns of the read schema, and their partitions.

Files are handled in groups with the same schema and the same columns with statistics.

Source: Java `stats/SimpleStatsEvolution`, `io/DataFileMeta`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.format.arrays.arrow_numpy import Bool, byte_slices, fixed_array, take_indices, validity, values
from paimon_spark.format.arrays.arrow_types import arrow_schema, arrow_type, record_batch
from paimon_spark.format.binary_row import decode_column
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.partition_path import PartitionDirectories, partition_path_of
from paimon_spark.predicate.arrow import matches
from paimon_spark.predicate.ast import Predicate, conjuncts
from paimon_spark.predicate.stats import ColumnStatsArrays, may_match
from paimon_spark.types import (
    INTEGER_NAMES,
    ROW_ID,
    AtomicType,
    BinaryType,
    CharType,
    DataField,
    DataType,
    DecimalType,
    RowType,
    TimestampType,
    TimeType,
)

Rows = npt.NDArray[np.int64]
_COMPARABLE: Final = (CharType, BinaryType, DecimalType, TimestampType, TimeType)


class FileStats:
    """Test the files of manifest entries against predicates over columns of `schema`."""

    def __init__(
        self,
        entries: pa.RecordBatch,
        schema: TableSchema,
        file_schemas: Mapping[int, TableSchema],
        partitions: Partitions,
    ) -> None:
        self.entries = entries
        self.schema = schema
        self.partitions = partitions
        self._file_schemas = file_schemas
        self.row_counts: npt.NDArray[np.int64] = values(entries.column("row_count"))
        self._schema_ids: npt.NDArray[np.int64] = values(entries.column("schema_id"))

    def may_match(self, predicate: Predicate, *, keys_only: bool = False) -> Bool:
        """For each file, False when none of its rows can make `predicate` true.

        Args:
            predicate: literals are of the types of the read schema.
            keys_only: use only statistics of keys and partitions, for a predicate over those.
        """
        result = np.ones(len(self.row_counts), np.bool_)
        for schema_id in np.unique(self._schema_ids).tolist():
            of_schema = np.flatnonzero(self._schema_ids == schema_id)
            groups = [(of_schema, None, None)] if keys_only else self._by_columns(of_schema)
            for rows, with_stats, written in groups:
                group = _Group(self, rows, self._file_schemas[schema_id], with_stats, written, keys_only)
                result[rows] = may_match(predicate, self.row_counts[rows], cache(group.stats_of))
        return result

    def _by_columns(self, rows: Rows) -> Iterator[tuple[Rows, list[str] | None, list[str] | None]]:
        """Files grouped by the columns that have statistics, and the columns written; None means all."""
        with_stats, written = self.entries.column("value_stats_cols"), self.entries.column("write_cols")
        for group in _same_lists(with_stats, rows):
            for part in _same_lists(written, group):
                first = int(part[0])
                yield part, with_stats[first].as_py(), written[first].as_py()


@dataclass(frozen=True)
class _Group:
    """Statistics of files that agree on schema and on the columns of their statistics (None: all)."""

    files: FileStats
    rows: Rows
    schema: TableSchema
    with_stats: list[str] | None
    written: list[str] | None
    keys_only: bool

    def stats_of(self, name: str) -> ColumnStatsArrays | None:
        table = self.files.schema
        if name in table.partition_keys:
            return self._of_partition(name)
        if name == ROW_ID:
            return self._of_row_id()
        field = table.row_type.field(name)
        old = self.schema.row_type.find_by_id(field.id)
        if name in table.trimmed_primary_keys:
            return None if old is None else self._of_key(field, old)
        if self.keys_only or not _comparable(field.type):
            return None
        if old is None:
            # Added after the files were written: null in every row.
            return ColumnStatsArrays(None, None, self.files.row_counts[self.rows])
        names = self.written if self.with_stats is None else self.with_stats
        names = list(self.schema.row_type.names) if names is None else names
        if old.name not in names:
            return None
        return self._decoded("value", names.index(old.name), field.type, old.type)

    def _of_partition(self, name: str) -> ColumnStatsArrays:
        column = self.files.partitions.batch.column(name)
        codes = self.files.partitions.codes[self.rows]
        bounds = column.take(take_indices(codes))
        nulls = np.where(validity(bounds), 0, self.files.row_counts[self.rows])
        return ColumnStatsArrays(bounds, bounds, nulls)

    def _of_row_id(self) -> ColumnStatsArrays | None:
        if self.written and ROW_ID in self.written:
            return None  # kept ids are stored in the file, in no known range
        first = self._column("first_row_id")
        last = values(first) + self.files.row_counts[self.rows] - 1
        return ColumnStatsArrays(first, fixed_array(last, pa.int64(), validity(first)), None)

    def _of_key(self, field: DataField, old: DataField) -> ColumnStatsArrays | None:
        names = self.schema.trimmed_primary_keys
        if old.name not in names:
            return None
        position = names.index(old.name)
        stats = self._decoded("key", position, field.type, old.type)
        if stats is None or position > 0 or stats.minimum is None or stats.maximum is None:
            return stats
        # The first key column is also bounded by the first and last key of the file.
        first = decode_column(self._column("min_key"), 0, old.type, exact=False)
        last = decode_column(self._column("max_key"), 0, old.type, exact=False)
        return stats._replace(
            minimum=pc.coalesce(stats.minimum, first.cast(stats.minimum.type)),
            maximum=pc.coalesce(stats.maximum, last.cast(stats.maximum.type)),
        )

    def _decoded(self, kind: str, position: int, wanted: DataType, stored: DataType) -> ColumnStatsArrays | None:
        if is_padded(stored):
            # ORC stores bounds with padding, and readers remove it: only null counts can be used.
            same = stored.with_nullable(True) == wanted.with_nullable(True)
            return ColumnStatsArrays(None, None, list_items(self._column(f"{kind}_nulls"), position)) if same else None
        if not safe_for_bounds(stored, wanted):
            return None
        target = arrow_type(wanted.with_nullable(True))
        bounds = [decode_column(self._column(f"{kind}_{end}"), position, stored, exact=False) for end in ("min", "max")]
        low, high = (b if b.type == target else b.cast(target, safe=False) for b in bounds)
        return ColumnStatsArrays(low, high, list_items(self._column(f"{kind}_nulls"), position))

    def _column(self, name: str) -> pa.Array:
        array = self.files.entries.column(name)
        return array if self._taken is None else array.take(self._taken)

    @cached_property
    def _taken(self) -> pa.Array | None:
        """The rows, unless they are all."""
        return None if len(self.rows) == len(self.files.row_counts) else take_indices(self.rows)


def list_items(lists: pa.ListArray, position: int) -> npt.NDArray[np.int64]:
    """Element `position` of each list of longs; -1 where the list or the element is missing or null."""
    offsets, _ = byte_slices(lists)
    child = lists.values
    starts = offsets[:-1] + position
    present = validity(lists) & (starts < offsets[1:])
    out = np.full(len(lists), -1, np.int64)
    at = starts[present]
    out[present] = np.where(validity(child)[at], values(child)[at], -1) if len(child) else -1
    return out


def _same_lists(lists: pa.ListArray, rows: Rows) -> Iterator[Rows]:
    """Rows grouped by equal lists of names."""
    if lists.null_count == len(lists):
        yield rows
        return
    offsets, _ = byte_slices(lists)
    codes = values(lists.values.dictionary_encode().indices)
    lengths = np.where(validity(lists), np.diff(offsets), -1)[rows]
    for length in np.unique(lengths).tolist():
        group = rows[lengths == length]
        if length <= 0:
            yield group
            continue
        matrix = codes[offsets[group][:, None] + np.arange(length)]
        if bool((matrix == matrix[0]).all()):
            yield group
            continue
        _, kinds = np.unique(matrix, axis=0, return_inverse=True)
        kinds = np.asarray(kinds).reshape(-1)
        for kind in range(int(kinds.max()) + 1):
            yield group[kinds == kind]


def _comparable(t: DataType) -> bool:
    return isinstance(t, _COMPARABLE) or (isinstance(t, AtomicType) and t.name != "VARIANT")


def is_padded(t: DataType) -> bool:
    """Whether files may store values of the type padded with spaces (CHAR)."""
    return isinstance(t, CharType) and not t.varying


def safe_for_bounds(stored: DataType, wanted: DataType) -> bool:
    """Whether a cast keeps the order of values and creates no nulls, so that bounds stay valid."""
    stored, wanted = stored.with_nullable(True), wanted.with_nullable(True)
    if stored == wanted:
        return _comparable(wanted)
    match stored, wanted:
        case AtomicType(name=a), AtomicType(name=b):
            if a in INTEGER_NAMES and b in INTEGER_NAMES:
                return INTEGER_NAMES.index(a) <= INTEGER_NAMES.index(b)
            return b in ("FLOAT", "DOUBLE") and (a in INTEGER_NAMES or (a, b) == ("FLOAT", "DOUBLE"))
        case ((CharType() | BinaryType()), (CharType() | BinaryType())):
            return type(stored) is type(wanted) and wanted.varying and wanted.length >= stored.length
        case DecimalType(), DecimalType():
            return wanted.scale >= stored.scale and (wanted.precision - wanted.scale >= stored.precision - stored.scale)
        case TimestampType(), TimestampType():
            return stored.local_zone == wanted.local_zone and wanted.precision >= stored.precision
    return False


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
        """The partitions of the entries where `mask` is True; numbers do not change."""
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

    def matching(self, predicate: Predicate) -> Bool:
        """For every distinct partition, whether `predicate`, over partition columns only, is true."""
        return values(matches(predicate, self.batch))

    def may_match(self, predicate: Predicate) -> Bool:
        """For every distinct partition, False when certainly none of its rows makes `predicate` true.

        A part of the predicate that is an error for a partition, such as `1 / p = 1` for 0, is left to the rows: there
        may be none, or another part may leave them out.
        """
        try:
            return self.matching(predicate)
        except DataError:
            result = np.ones(len(self.rows), np.bool_)
            parts = conjuncts(predicate)
            for part in parts if len(parts) > 1 else ():
                result &= self.may_match(part)
            return result

    def path(self, code: int) -> str:
        """The name of a partition, as its directories; empty for an unpartitioned table."""
        return partition_path_of(self._handle, self.row_bytes[code])


def decode_partitions(partition_type: RowType, rows: pa.BinaryArray) -> pa.RecordBatch:
    """Partition values as columns, one row for each BinaryRow."""
    schema = pa.schema([f.with_nullable(True) for f in arrow_schema(partition_type)])
    columns = [decode_column(rows, i, f.type) for i, f in enumerate(partition_type)]
    return record_batch(columns, schema, len(rows))
