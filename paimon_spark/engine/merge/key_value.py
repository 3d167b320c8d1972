"""Group rows by key.

A window is a set of columns plus an order of its rows by key and sequence. `Groups` contains the keys with more than
one row; a merge function sees no others (Java's `ReducerMergeFunctionWrapper` passes single records unchanged). A
*row* is a row number of the window's columns, a *place* a position in `Groups.rows`.

Source: Java `KeyValue`, `mergetree/compact/MergeFunction`, `ReducerMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.format.arrays import arrow_numpy

Rows: TypeAlias = npt.NDArray[np.int64]
Bool: TypeAlias = npt.NDArray[np.bool_]
Kinds: TypeAlias = npt.NDArray[np.int8]

LEVEL: Final = "_LEVEL"
"""Column of a row's LSM level (int32), present only where the level decides."""
AGE: Final = "_AGE"
"""Column that stands for `_SEQUENCE_NUMBER` where whole files are ordered (int32): larger is newer."""
NO_ROW: Final = -1
"""Row number that means null."""


def is_retract(kinds: Kinds) -> Bool:
    """True for -U and -D."""
    return (kinds & 1).view(np.bool_)


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of the keys to merge, ordered by key and then oldest first.

    Attributes:
        rows: row numbers in the window's columns.
        starts: place where each key's rows begin; no group is empty.
        kinds: row kind per place; None when all are +I.
    """

    rows: Rows
    starts: Rows
    kinds: Kinds | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Rows:
        return np.diff(self.starts, append=len(self.rows))

    @property
    def last_places(self) -> Rows:
        return np.append(self.starts[1:], len(self.rows)) - 1

    def retracts(self) -> Bool | None:
        """A mask of the places of -U and -D; None without any."""
        if self.kinds is None:
            return None
        mask = is_retract(self.kinds)
        return mask if mask.any() else None

    def last(self, mask: Bool | None) -> Rows:
        """Per group the last place where `mask` holds; `NO_ROW` where it holds nowhere."""
        if mask is None:
            return self.last_places
        return np.maximum.reduceat(np.where(mask, np.arange(len(mask)), NO_ROW), self.starts)

    def first(self, mask: Bool | None) -> Rows:
        """Per group the first place where `mask` holds; `NO_ROW` where it holds nowhere."""
        if mask is None:
            return self.starts
        found = np.minimum.reduceat(np.where(mask, np.arange(len(mask)), len(mask)), self.starts)
        return np.where(found == len(mask), NO_ROW, found)

    def any(self, mask: Bool) -> Bool:
        """Per group whether `mask` holds anywhere."""
        return np.logical_or.reduceat(mask, self.starts)

    def rows_at(self, places: Rows) -> Rows:
        """Rows at places, `NO_ROW` staying `NO_ROW`."""
        return np.where(places < 0, NO_ROW, self.rows[places])

    def valid(self, column: pa.Array) -> Bool | None:
        """Per place whether the column has a value; None when it always has."""
        return None if column.null_count == 0 else arrow_numpy.validity(column)[self.rows]

    def where(self, keep: Bool) -> Groups:
        """Without the places where `keep` is False; every group must keep one."""
        begins = np.add.reduceat(keep.astype(np.int64), self.starts)
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(begins)[:-1]))
        return Groups(self.rows[keep], starts, None if self.kinds is None else self.kinds[keep])

    def subset(self, chosen: Bool) -> Groups:
        """Only the groups where `chosen` is True."""
        sizes = self.sizes
        places = np.repeat(chosen, sizes)
        ends = np.cumsum(sizes[chosen])
        starts = ends - sizes[chosen]
        return Groups(self.rows[places], starts, None if self.kinds is None else self.kinds[places])


@dataclass(slots=True)
class ColumnResult:
    """One column of merged groups: per group a row of the source column followed by the `extra` arrays.

    Attributes:
        rows: index into the source column and then, one after the other, `extra`; `NO_ROW` is null.
        extra: values that no source row holds (sums, joined texts…), of the source's type.
    """

    rows: Rows
    extra: list[pa.Array]

    @staticmethod
    def picked(rows: Rows) -> ColumnResult:
        return ColumnResult(rows, [])

    @staticmethod
    def computed(source: pa.Array, values: pa.Array) -> ColumnResult:
        return ColumnResult(len(source) + np.arange(len(values)), [values])

    def replace(self, source: pa.Array, chosen: Bool, values: pa.Array) -> None:
        """Put `values`, in order, where `chosen` is True."""
        base = len(source) + sum(len(e) for e in self.extra)
        self.rows = self.rows.copy()
        self.rows[chosen] = base + np.arange(len(values))
        self.extra.append(values)


@dataclass(frozen=True, slots=True)
class MergedGroups:
    """The merge result of the groups of a window.

    Attributes:
        kinds: row kind per group; None when all are +I.
        columns: result by column name; for columns not named, `rows`.
        rows: the row that each group became as a whole, `NO_ROW` when the group has none; None when every
            column has a result of its own.
    """

    kinds: Kinds | None
    columns: Mapping[str, ColumnResult]
    rows: Rows | None = None

    def result(self, name: str) -> ColumnResult:
        found = self.columns.get(name)
        if found is not None:
            return found
        assert self.rows is not None, name
        return ColumnResult.picked(self.rows)


def constant_int32(value: int, count: int) -> pa.Array:
    """An int32 column of one value."""
    return arrow_numpy.fixed_array(np.full(count, value, np.int32), pa.int32())


def kinds_array(kinds: Kinds) -> pa.Array:
    """Row kinds as the int8 column `_VALUE_KIND`."""
    return arrow_numpy.fixed_array(kinds, pa.int8())


def take(column: pa.Array, rows: Rows) -> pa.Array:
    """Rows of a column; `NO_ROW` gives null."""
    return column.take(arrow_numpy.fixed_array(rows.astype(np.int64, copy=False), pa.int64(), rows >= 0))
