"""Listing: a system table that is made from metadata.

Source: Java `table/system/*Table`, `table/system/SystemTableLoader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa

from paimon_spark.format.arrays.arrow_numpy import array_of
from paimon_spark.format.arrays.arrow_types import arrow_schema, arrow_type, record_batch
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.predicate.literals import to_wall_clock, zone_of
from paimon_spark.types import DataField, DataType, RowType, TimestampType

TIMESTAMP: Final = TimestampType(precision=3)
"""A time of day and date in the reader's zone."""
Thunk: TypeAlias = Callable[[], pa.Array]


@dataclass(frozen=True, slots=True)
class Asked:
    """One read of a system table.

    Attributes:
        handle: the branch, with the schema of the version when one was named.
        snapshot: the version named, else the head; None when the branch has no snapshot.
        time_zone: the reader's zone; None means the machine's.
        wanted: columns that are used; the others are not made.
        travelled: whether the snapshot was named; else it is the head.
    """

    handle: TableHandle
    snapshot: Snapshot | None
    time_zone: str | None
    wanted: frozenset[str]
    travelled: bool = False

    def wall_clock(self, epoch_ms: int | None) -> datetime | None:
        """An instant as local time in the reader's zone."""
        if epoch_ms is None:
            return None
        seconds, millis = divmod(epoch_ms, 1000)
        instant = datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=1000 * millis)
        return to_wall_clock(instant, zone_of(self.time_zone))


@dataclass(frozen=True, slots=True)
class Listing:
    """A system table that is made from metadata.

    Attributes:
        name: what follows `$`.
        row_type: its columns.
        primary_key: columns that tell its rows apart.
        travels: whether it describes one snapshot, so that a version may be named; else the whole branch.
        read: its rows, with at least the wanted columns, in batches.
    """

    name: str
    row_type: RowType
    primary_key: tuple[str, ...]
    travels: bool
    read: Callable[[Asked], Iterator[pa.RecordBatch]]


def columns(*stated: tuple[str, DataType]) -> RowType:
    """The columns of a system table, numbered from 0."""
    return RowType(False, tuple(DataField(i, name, t) for i, (name, t) in enumerate(stated)))


def required(t: DataType) -> DataType:
    """The type without nulls."""
    return t.with_nullable(False)


def batch_of(row_type: RowType, asked: Asked, count: int, made: Mapping[str, Thunk]) -> pa.RecordBatch:
    """`count` rows with the wanted columns; only those are made."""
    fields = [f for f in row_type if f.name in asked.wanted]
    arrays = [_fitted(made[f.name](), f.type) for f in fields]
    return record_batch(arrays, arrow_schema(fields), count)


def batch_of_rows(row_type: RowType, asked: Asked, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Rows given as Python values in the order of the columns; for short tables."""

    def column(index: int) -> pa.Array:
        items = [row[index] for row in rows]
        kind = arrow_type(row_type.fields[index].type)
        return _lists(items, kind) if pa.types.is_list(kind) else array_of(items, kind)

    makers = {f.name: partial(column, i) for i, f in enumerate(row_type)}
    return batch_of(row_type, asked, len(rows), makers)


def _lists(items: Sequence[Sequence[Any] | None], kind: Any) -> pa.Array:
    offsets = [0]
    for item in items:
        offsets.append(offsets[-1] + len(item or ()))
    inner = array_of([v for item in items for v in item or ()], kind.value_type)
    mask = array_of([item is None for item in items], pa.bool_())
    return pa.ListArray.from_arrays(array_of(offsets, pa.int32()), inner, mask=mask)


def _fitted(array: pa.Array, t: DataType) -> pa.Array:
    kind = arrow_type(t)
    return array if array.type.equals(kind) else array.cast(kind)
