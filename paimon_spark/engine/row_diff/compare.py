"""Compare the rows of two versions, or merge them three ways on top of a third.

Versions are compared by key where there is one, else as multisets. A merge puts on top of main what a branch changed
since a base. A key that both changed to different rows is a conflict. Only columns that both sides know can conflict:
one that main alone has keeps main's value, and one that the branch alone has gets the branch's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.changelog import equal_values
from paimon_spark.engine.merge.ordering import (
    Rows,
    Word,
    column_words,
    group_starts,
    identity_words,
    pack,
    sort_unsorted_rows,
)
from paimon_spark.format.arrays.arrow_numpy import Bool
from paimon_spark.format.arrays.pieces import taken, whole

CHANGE: Final = "_change"
"""First column of the rows that differ: one of `ADDED`, `REMOVED`, `BEFORE`, `AFTER`."""
ADDED: Final = "added"
REMOVED: Final = "removed"
BEFORE: Final = "before"
AFTER: Final = "after"
_KINDS: Final = (ADDED, REMOVED, BEFORE, AFTER)


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between some rows of two versions.

    Attributes:
        added, removed: rows that only the new version has, and only the old.
        changed: keys that both have, with different rows.
        columns: number of changed values by column, of columns that have any.
        rows: the rows, `CHANGE` first; the row before a change is followed by the one after it.
    """

    added: int
    removed: int
    changed: int
    columns: Mapping[str, int]
    rows: pa.Table


def sum_of(parts: Sequence[Differences]) -> tuple[int, int, int, dict[str, int]]:
    """Added, removed and changed rows of all parts, and changed values by column."""
    columns: Counter[str] = Counter()
    for part in parts:
        columns.update(part.columns)
    added, removed, changed = (sum(getattr(p, name) for p in parts) for name in ("added", "removed", "changed"))
    return added, removed, changed, dict(columns)


def compare(old: pa.Table, new: pa.Table, keys: Sequence[str], compared: Sequence[str]) -> Differences:
    """The differences between two tables of the same columns.

    Args:
        old: all rows that some keys have in the old version. Of a key it has one row at most; where there are more,
            they are compared as a multiset.
        new: the same of the new version.
        keys: the primary key; empty compares rows as multisets.
        compared: columns in which rows may differ, `keys` included.
    """
    both = pa.concat_tables([old, new])
    is_new = np.arange(len(both)) >= len(old)
    before = after = rest = np.zeros(0, np.int64)
    if keys:
        before, after, rest = pairs_by_key([whole(both.column(k)) for k in keys], is_new)
    else:
        rest = np.arange(len(both))
    removed, added = _unmatched((whole(both.column(name)) for name in compared), is_new, rest)
    counts: dict[str, int] = {}
    differs = np.zeros(len(before), np.bool_)
    for name in compared:
        if name in keys or not len(before):
            continue
        changed: Bool = ~equal_values(whole(both.column(name)), before, after, ordered_maps=False)
        if changed.any():
            counts[name] = int(changed.sum())
            differs |= changed
    pairs = np.stack([before[differs], after[differs]], axis=-1).reshape(-1)
    places = np.concatenate([removed, added, pairs])
    kinds = np.concatenate([np.full(len(removed), 1), np.full(len(added), 0), np.tile([2, 3], len(pairs) // 2)]).astype(
        np.int8
    )
    change = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(_KINDS)).cast(pa.string())
    rows = taken(both, places).add_column(0, pa.field(CHANGE, pa.string(), nullable=False), change)
    return Differences(len(added), len(removed), len(pairs) // 2, counts, rows)


def _grouped(columns: Iterable[pa.Array], rows: Rows | None, count: int) -> tuple[Rows, Rows]:
    """Rows in an order in which equal ones are neighbours, older first, and where each group of them begins."""
    words: list[Word] = [w for column in columns for w in identity_words(column)]
    if rows is not None:
        words = [w[rows] for w in words]
    order, ties = sort_unsorted_rows(words, count)
    return (order if rows is None else rows[order]), group_starts(ties)


def pairs_by_key(keys: Sequence[pa.Array], is_new: Bool) -> tuple[Rows, Rows, Rows]:
    """The old and the new row of keys that have one of each; and all other rows.

    Args:
        keys: columns of all rows, old ones first.
        is_new: which rows are new.
    """
    count = len(is_new)
    order, starts = _grouped(keys, None, count)
    sizes = np.diff(starts, append=count)
    twos = starts[sizes == 2]
    first, second = order[twos], order[twos + 1]
    pair = ~is_new[first] & is_new[second]
    before, after = first[pair], second[pair]
    alone = np.ones(count, np.bool_)
    alone[before] = alone[after] = False
    return before, after, np.flatnonzero(alone)


def key_codes(keys: Sequence[pa.Array], count: int) -> Rows:
    """A number for each of `count` rows, equal for equal keys."""
    order, starts = _grouped(keys, None, count)
    codes = np.empty(count, np.int64)
    codes[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=count))
    return codes


def _unmatched(columns: Iterable[pa.Array], is_new: Bool, rows: Rows) -> tuple[Rows, Rows]:
    """Old and new rows that have no equal row on the other side, each row matched once."""
    if not len(rows):
        return rows, rows
    if bool(is_new[rows].all()) or not bool(is_new[rows].any()):
        nothing = rows[:0]
        return (nothing, rows) if is_new[rows[0]] else (rows, nothing)
    order, starts = _grouped(columns, rows, len(rows))
    new = is_new[order]
    sizes = np.diff(starts, append=len(order))
    news = np.add.reduceat(new.astype(np.int64), starts)
    matched = np.minimum(news, sizes - news)
    # Within a group the old rows come first: the first ones of each side are matched.
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    place = np.where(new, place - np.repeat(sizes - news, sizes), place)
    left = place >= np.repeat(matched, sizes)
    return order[left & ~new], order[left & new]


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
