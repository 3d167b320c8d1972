"""Compare the rows of two versions: by key where there is one, else as multisets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.changelog import equal_values
from paimon_spark.engine.merge.identity import identity_words
from paimon_spark.engine.merge.ordering import Rows, Word, group_starts, sort_unsorted_rows
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


def share_a_key(keys: Sequence[pa.Array], is_new: Bool) -> bool:
    """Whether some old row has the key of some new row. Arguments as of `pairs_by_key`; keys may come again."""
    order, starts = _grouped(keys, None, len(is_new))
    if not len(starts):
        return False
    new = is_new[order]
    return bool((np.logical_or.reduceat(new, starts) & np.logical_or.reduceat(~new, starts)).any())


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
