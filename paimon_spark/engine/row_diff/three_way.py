"""Merge rows by key three ways: what a branch changed since a base goes on top of main.

A key that both changed to different rows is a conflict. Only columns that both sides know can conflict: one that main
alone has keeps main's value, and one that the branch alone has gets the branch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.changelog import equal_values
from paimon_spark.engine.merge.ordering import Rows, column_words, pack
from paimon_spark.engine.row_diff.compare import pairs_by_key
from paimon_spark.format.arrays.arrow_numpy import Bool
from paimon_spark.format.arrays.pieces import taken, whole


class Wins(StrEnum):
    """Whose row a key gets that both changed to different rows."""

    MAIN = "main"
    BRANCH = "branch"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The keys whose rows on main change. All arrays have an entry for each row.

    Attributes:
        rows: the new row; main's present one where the key is removed.
        removed: whether the key is removed.
        there: whether main has a row of the key now.
        old: main's present row; the new one where main has none.
        untouched: whether main's row is still that of the base.
        conflicts: keys that both changed to different rows, as rows of the key columns.
        kept: number of conflicts in which main's row stays.
        against_order: number of rows with smaller sequence fields than main's present row, which would stay the newest.
    """

    rows: pa.Table
    removed: Bool
    there: Bool
    old: pa.Table
    untouched: Bool
    conflicts: pa.Table
    kept: int
    against_order: int


@dataclass(frozen=True, slots=True)
class ThreeWay:
    """How rows of the base, the branch and main are merged. Picklable.

    Attributes:
        keys: the primary key.
        shared: other columns that both sides know.
        of_main, of_branch: columns that one side alone knows; null in rows of the others.
        wins: of conflicts.
        sequence: sequence fields, in order.
        descending: whether the smallest of them is the newest.
        branch_is_later: whether the branch's row is the newest where sequence fields do not decide.
    """

    keys: tuple[str, ...]
    shared: tuple[str, ...]
    of_main: tuple[str, ...]
    of_branch: tuple[str, ...]
    wins: Wins
    sequence: tuple[str, ...]
    descending: bool
    branch_is_later: bool

    def changed(self, base: pa.Table, theirs: pa.Table) -> tuple[Rows, Rows]:
        """The rows of base and branch whose keys the branch changed; arguments as of `merge`."""
        both = _Rows(pa.concat_tables([base, theirs]))
        b, t = self._changed(both, len(base), len(theirs))
        return np.sort(b[b >= 0]), np.sort(t[t >= 0]) - len(base)

    def merge(self, base: pa.Table, stays: Bool, theirs: pa.Table, main: pa.Table) -> MergedRows:
        """Merge all rows that some keys have in each version; a key has one row in each at most.

        Args:
            base: rows that the branch may have changed.
            stays: which of them main has as they are.
            theirs: rows of the branch that the base may not have.
            main: rows of main that the base may not have.
        """
        both = _Rows(pa.concat_tables([base, theirs, main]))
        b, t = self._changed(both, len(base), len(theirs))
        m = self._of_main(both, np.where(t >= 0, t, b), len(base) + len(theirs))
        stayed = (m < 0) & (b >= 0)
        stayed[stayed] = stays[b[stayed]]
        m[stayed] = b[stayed]
        return self._merged(both, b, t, m)

    def _changed(self, both: _Rows, base: int, theirs: int) -> tuple[Rows, Rows]:
        """Row of each key that the branch changed, in the base and on the branch; -1 for a missing row."""
        count = base + theirs
        before, after, rest = pairs_by_key(both.first(self.keys, count), np.arange(count) >= base)
        differs = ~both.equal((*self.shared, *self.of_branch), before, after)
        gone, new = rest[rest < base], rest[rest >= base]
        nothing = np.full(max(len(gone), len(new)), -1, np.int64)
        return (
            np.concatenate([before[differs], gone, nothing[: len(new)]]),
            np.concatenate([after[differs], nothing[: len(gone)], new]),
        )

    def _of_main(self, both: _Rows, keys: Rows, first: int) -> Rows:
        """Main's row for the key of each given row; -1 for a missing one. Main's rows begin at `first`."""
        found = np.full(len(keys), -1, np.int64)
        if not len(keys) or first == len(both.table):
            return found
        places = np.concatenate([keys, np.arange(first, len(both.table))])
        columns = taken(both.table.select(self.keys), places)
        wanted, there, _ = pairs_by_key(
            [whole(columns.column(k)) for k in self.keys], np.arange(len(places)) >= len(keys)
        )
        found[wanted] = places[there]
        return found

    def _merged(self, both: _Rows, b: Rows, t: Rows, m: Rows) -> MergedRows:
        has_b, has_t, has_m = b >= 0, t >= 0, m >= 0
        all_three = has_b & has_t & has_m
        branch_changed = ~_equal_where(both, self.shared, b, t, has_b & has_t)
        main_changed = ~_equal_where(both, self.shared, b, m, has_b & has_m)
        main_changed_any = main_changed | ~_equal_where(both, self.of_main, b, m, has_b & has_m)
        meets = _equal_where(both, self.shared, t, m, has_t & has_m)
        done = (~has_t & ~has_m) | (meets & _equal_where(both, self.of_branch, t, m, has_t & has_m))
        conflict = ~done & (
            (~has_t & has_m & main_changed_any)
            | (has_t & ~has_b & has_m & ~meets)
            | (has_t & has_b & ~has_m)
            | (all_three & branch_changed & main_changed & ~meets)
        )
        wins = np.full(len(b), self.wins is Wins.BRANCH)
        if self.wins is Wins.NEWEST and conflict.any():
            order = self._order(both, np.where(has_t, t, b), np.where(has_m, m, b), conflict)
            wins = np.where(order == 0, self.branch_is_later, order > 0)
        keys = taken(both.table.select(self.keys), np.where(has_t, t, b)[conflict])
        write = np.flatnonzero(~done & (~conflict | wins))
        kept = int((conflict & ~wins).sum())
        untouched = np.where(has_b, has_m & ~main_changed_any, ~has_m)[write]
        of_main = (has_m & (~has_t | meets | (all_three & ~branch_changed)))[write]
        t, m, there = t[write], m[write], has_m[write]
        against = self._order(both, t, m, there & ~of_main)
        return MergedRows(
            self._composed(both, t, m, of_main),
            t < 0,
            there,
            taken(both.table, np.where(there, m, t)),
            untouched,
            keys,
            kept,
            int((against < 0).sum()),
        )

    def _composed(self, both: _Rows, t: Rows, m: Rows, of_main: Bool) -> pa.Table:
        """The new rows: columns that both know from the branch, or from main where `of_main`."""
        source = np.where(of_main, m, t)
        if not self.of_main and not self.of_branch:
            return taken(both.table, source)
        places = dict.fromkeys(self.of_main, np.where(m >= 0, m, t))
        places |= dict.fromkeys(self.of_branch, np.where(t >= 0, t, m))
        table = both.table
        columns = [taken(table.select([n]), places.get(n, source)).column(0) for n in table.column_names]
        return pa.Table.from_arrays(columns, schema=table.schema)

    def _order(self, both: _Rows, one: Rows, other: Rows, where: Bool) -> np.ndarray:
        """1 where the first row has larger sequence fields, -1 where the second has, 0 elsewhere."""
        order = np.zeros(len(one), np.int64)
        rows = np.flatnonzero(where)
        if not self.sequence or not len(rows):
            return order
        columns = taken(both.table.select(self.sequence), np.concatenate([one[rows], other[rows]]))
        found = order[rows]
        for word in pack([w for n in self.sequence for w in column_words(whole(columns.column(n)), self.descending)]):
            first, second = word[: len(rows)], word[len(rows) :]
            found = np.where(found != 0, found, (first > second).astype(np.int64) - (first < second))
        order[rows] = found
        return order


class _Rows:
    """Rows of all versions, and their columns as single arrays."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._columns: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = whole(self.table.column(name))
        return self._columns[name]

    def first(self, names: Sequence[str], count: int) -> list[pa.Array]:
        """Columns of the first rows."""
        return [self.column(name).slice(0, count) for name in names]

    def equal(self, names: Sequence[str], one: Rows, other: Rows) -> Bool:
        """Whether pairs of rows are equal in some columns."""
        same = np.ones(len(one), np.bool_)
        for name in names:
            left = np.flatnonzero(same)
            if not len(left):
                break
            same[left] = equal_values(self.column(name), one[left], other[left], ordered_maps=False)
        return same


def _equal_where(both: _Rows, names: Sequence[str], one: Rows, other: Rows, where: Bool) -> Bool:
    """Whether both rows exist, and are equal in some columns; `where` both exist."""
    same = np.zeros(len(one), np.bool_)
    rows = np.flatnonzero(where)
    same[rows] = both.equal(names, one[rows], other[rows])
    return same
