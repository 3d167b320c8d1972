"""Listing: a system table that is made from metadata.

Source: Java `table/system/*Table`, `table/system/SystemTableLoader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
Source: TypeAlias = "str | Callable[[Asked, Sequence[Any]], Sequence[Any] | pa.Array]"
"""Source of a column's values: a function of all objects, or the dotted path of an attribute of each object.

Integers are epoch milliseconds in a TIMESTAMP column.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """One read of a system table.

    Attributes:
        handle: the branch, with the schema of the version when one was named.
        snapshot: the version named, else the head; None when the branch has no snapshot.
        time_zone: the reader's zone; None means the machine's.
        wanted: the columns that are used; others are not computed.
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
        instant = datetime.fromtimestamp(seconds, UTC).replace(microsecond=1000 * millis)
        return to_wall_clock(instant, zone_of(self.time_zone))


@dataclass(frozen=True, slots=True)
class Listing:
    """A system table that is made from metadata.

    Attributes:
        name: what follows `$`.
        row_type: its columns.
        primary_key: columns that identify a row.
        travels: whether it describes one snapshot, so that a version may be named; else the whole branch.
        read: yields the rows in batches, with the wanted columns.
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
    """`count` rows with the wanted columns; only those are computed."""
    fields = [f for f in row_type if f.name in asked.wanted]
    arrays = [_fitted(made[f.name](), f.type) for f in fields]
    return record_batch(arrays, arrow_schema(fields), count)


def listing(
    name: str,
    primary_key: tuple[str, ...],
    rows: Callable[[Asked], Sequence[Any]],
    *stated: tuple[str, DataType, Source],
    travels: bool = False,
) -> Listing:
    """A listing of the objects that `rows` returns, one a row; `stated` is name, type and source of each column."""
    row_type = columns(*((column, t) for column, t, _ in stated))

    def read(asked: Asked) -> Iterator[pa.RecordBatch]:
        found = rows(asked)
        made = {column: partial(_made, asked, found, arrow_type(t), source) for column, t, source in stated}
        yield batch_of(row_type, asked, len(found), made)

    return Listing(name, row_type, primary_key, travels, read)


def each(value: Callable[[Any], Any]) -> Source:
    """The source of a column whose value is made of each object."""
    return lambda _, rows: [value(row) for row in rows]


def _made(asked: Asked, rows: Sequence[Any], kind: pa.DataType, source: Source) -> pa.Array:
    found = [_attribute(row, source) for row in rows] if isinstance(source, str) else source(asked, rows)
    if isinstance(found, pa.Array):
        return found
    if pa.types.is_timestamp(kind):
        found = [asked.wall_clock(v) if isinstance(v, int) else v for v in found]
    return _lists(found, kind) if pa.types.is_list(kind) else array_of(found, kind)


def _attribute(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = None if row is None else getattr(row, name)
    return row


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
