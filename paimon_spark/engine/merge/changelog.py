"""Differences of merged rows, for incremental reads and changelogs of compactions.

Changelog producer `lookup`: of a key's rows above level 0 only the one of the smallest level counts, which is the row
that readers saw before. Producer `full-compaction`: the row before is the one of the last level, which only full
compactions write.

Source: Java `table/source/splitread/IncrementalDiffSplitRead.DiffMerger`,
`mergetree/compact/LookupChangelogMergeFunctionWrapper`, `LookupMergeFunction`, `FirstRowMergeFunctionWrapper`,
`FullChangelogMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.merge.key_value import (
    AGE,
    LEVEL,
    NO_ROW,
    Bool,
    Groups,
    Kinds,
    MergedGroups,
    Rows,
    is_retract,
    kinds_array,
    take,
)
from paimon_spark.engine.merge.ordering import identity_codes
from paimon_spark.engine.merge.sorted_merge import MergedColumns, Window, smallest_level
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.pieces import is_listed, is_text, joined
from paimon_spark.types import VALUE_KIND, RowKind

BEFORE: Final = 0
AFTER: Final = 1
"""Values of `_AGE` that tell the two states apart."""


class Difference:
    """Merge function over the rows before and after of each key: inserted, updated, deleted.

    A key that is new or changed gives the row after, with its kind; a missing one gives the row before as -D; one
    with equal values, which is deleted in both or in neither, gives no row.
    """

    newest_wins = False

    def __init__(self, compared: Sequence[str]) -> None:
        self._compared = tuple(compared)

    def required(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*columns, *self._compared)))

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> MergedGroups:
        state = arrow_numpy.values(columns[AGE])[groups.rows]
        places = groups.last_places
        kinds = np.zeros(len(groups), np.int8) if groups.kinds is None else groups.kinds[places]
        gone = state[places] == BEFORE
        dropped = gone & is_retract(kinds)
        pairs = groups.sizes > 1
        if pairs.any():
            same = self._equal(columns, groups, pairs)
            dropped[pairs] |= same
        kinds = np.where(gone, np.int8(RowKind.DELETE), kinds)
        return MergedGroups(kinds, {}, np.where(dropped, NO_ROW, groups.rows[places]))

    def _equal(self, columns: Mapping[str, pa.Array], groups: Groups, pairs: Bool) -> Bool:
        after_places = groups.last_places[pairs]
        before, after = groups.rows[after_places - 1], groups.rows[after_places]
        same = np.ones(len(before), np.bool_)
        if groups.kinds is not None:
            retracts = is_retract(groups.kinds)
            same &= retracts[after_places - 1] == retracts[after_places]
        for name in self._compared:
            left = np.flatnonzero(same)
            if not len(left):
                break
            same[left] = equal_values(columns[name], before[left], after[left], ordered_maps=True)
        return same


def equal_values(column: pa.Array, left: Rows, right: Rows, *, ordered_maps: bool) -> Bool:
    """Which rows of a column hold the same value, nulls and NaNs included, -0.0 apart from 0.0.

    Args:
        column: the values.
        left: rows of it.
        right: the rows to compare them with, as many.
        ordered_maps: the order of a map's entries counts, as where Java compares the bytes of rows; where Java's
            `RecordEqualiser` compares them, it does not.

    Source: Java `codegen/EqualiserCodeGenerator`. Unlike it, two nulls inside an array or a map are equal, and so are
    two binary keys of a map.
    """
    same = _equal_content(column, left, right, ordered_maps)
    if column.null_count == 0:
        return same
    valid = arrow_numpy.validity(column)
    one, other = valid[left], valid[right]
    out: Bool = (one & other & same) | ~(one | other)
    return out


def _equal_content(column: pa.Array, left: Rows, right: Rows, ordered_maps: bool) -> Bool:
    """`equal_values` of rows that are not null."""
    t = column.type
    same: Bool
    if pa.types.is_struct(t):
        same = np.ones(len(left), np.bool_)
        for i in range(t.num_fields):
            same &= equal_values(column.field(i), left, right, ordered_maps=ordered_maps)
    elif pa.types.is_map(t):
        same = _equal_lists(column, [column.keys, column.items], left, right, ordered_maps)
        if not ordered_maps:
            rest = np.flatnonzero(~same)
            same[rest] = _equal_unordered(column, left[rest], right[rest])
    elif is_listed(t):
        same = _equal_lists(column, [column.values], left, right, ordered_maps)
    elif pa.types.is_decimal128(t):
        low, high = arrow_numpy.decimal_halves(column)
        same = (low[left] == low[right]) & (high[left] == high[right])
    elif pa.types.is_floating(t):
        values = arrow_numpy.values(column)
        bits = values.view(f"i{values.dtype.itemsize}")
        nan = np.isnan(values)
        same = (bits[left] == bits[right]) | (nan[left] & nan[right])
    elif is_text(t):
        equal = pc.equal(take(column, left), take(column, right))
        same = arrow_numpy.values(equal) & arrow_numpy.validity(equal)
    else:
        numbers = arrow_numpy.values(column)
        same = numbers[left] == numbers[right]
    return same


def _equal_lists(column: pa.Array, children: Sequence[pa.Array], left: Rows, right: Rows, ordered_maps: bool) -> Bool:
    """Lists are equal when they are equally long and equal element by element in all `children`."""
    same, pair, one, other = _elements(column, left, right)
    for child in children:
        equal = equal_values(child, one, other, ordered_maps=ordered_maps)
        same[pair[~equal]] = False
    return same


def _equal_unordered(column: pa.MapArray, left: Rows, right: Rows) -> Bool:
    """Maps are equal when they are equally long and equal entry by entry, once sorted by their keys."""
    same, pair, one, other = _elements(column, left, right)
    keys = identity_codes(take(column.keys, np.concatenate([one, other])))
    keys_of_one, keys_of_other = keys[: len(one)], keys[len(one) :]
    by_key, by_key_of_other = np.lexsort((keys_of_one, pair)), np.lexsort((keys_of_other, pair))
    equal = keys_of_one[by_key] == keys_of_other[by_key_of_other]
    equal &= equal_values(column.items, one[by_key], other[by_key_of_other], ordered_maps=False)
    same[pair[~equal]] = False
    return same


def _elements(column: pa.Array, left: Rows, right: Rows) -> tuple[Bool, Rows, Rows, Rows]:
    """Which pairs of lists are equally long; for all their elements the pair, and where both elements lie."""
    offsets = arrow_numpy.values(column.offsets).astype(np.int64)
    lengths = np.diff(offsets)
    same: Bool = lengths[left] == lengths[right]
    counts = np.where(same, lengths[left], 0)
    pair = np.repeat(np.arange(len(left)), counts)
    return same, pair, arrow_numpy.ranges(offsets[left], counts), arrow_numpy.ranges(offsets[right], counts)


IN_LAST_LEVEL: Final = "_IN_LAST_LEVEL"
"""Column (int32) that is 1 for rows of the last level, which a changelog of full compactions begins at."""


@dataclass(frozen=True, slots=True)
class ChangelogRule:
    """Derive the changelog rows of a key from its rows before and after.

    Attributes:
        first_row: only keys that were not there before give one: the row itself.
        compared: columns that tell whether a row changed; None: a row that is written again always did.
        since_last_level: what changed since the row of the last level, not since the row readers saw.
    """

    first_row: bool = False
    compared: tuple[str, ...] | None = None
    since_last_level: bool = False


def changelog_of(window: Window, merged: MergedColumns, rule: ChangelogRule) -> tuple[list[str], list[pa.Array]]:
    """The changelog rows of keys that have a new row: `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then values.

    Sorted by key; -U is directly before +U. Rows before carry their own values and sequence numbers.

    Args:
        window: rows with `_SEQUENCE_NUMBER`, `_VALUE_KIND`, and `_LEVEL` or, where the rule asks for it,
            `_IN_LAST_LEVEL`.
        merged: what the window became, with both system columns and deletes kept.
        rule: of the table.
    """
    groups = Groups(window.order, window.starts)
    if rule.since_last_level:
        last = arrow_numpy.values(window.columns[IN_LAST_LEVEL])[window.order] > 0
        is_new, first = ~last, groups.first(last)
    else:
        is_new, first = smallest_level(groups, arrow_numpy.values(window.columns[LEVEL]))
    # Per key the row before, and whether it has a row that readers have not seen.
    before, is_new = groups.rows_at(first), groups.any(is_new)
    after = np.full(len(window.starts), NO_ROW, np.int64)
    alive = np.ones(len(after), np.bool_) if merged.alive is None else merged.alive
    after[alive] = np.arange(merged.row_count)
    kinds = arrow_numpy.values(window.columns[VALUE_KIND])
    kinds_after = arrow_numpy.values(merged.arrays[1])
    had_row, has_row = before != NO_ROW, after != NO_ROW
    had_row[had_row] = ~is_retract(kinds[before[had_row]])
    has_row[has_row] = ~is_retract(kinds_after[after[has_row]])
    if rule.first_row:
        chosen = np.flatnonzero(is_new & ~had_row & has_row)
        arrays = [take(array, after[chosen]) for array in merged.arrays]
        return merged.names, arrays
    sources = {
        name: joined([window.columns[name], array]) for name, array in zip(merged.names, merged.arrays, strict=True)
    }
    after += len(kinds)
    updated = is_new & had_row & has_row
    if rule.compared is not None:
        same = updated.copy()
        for name in rule.compared:
            left = np.flatnonzero(same)
            same[left] = equal_values(sources[name], before[left], after[left], ordered_maps=False)
        updated &= ~same
    gone = is_new & had_row & ~has_row
    come = is_new & ~had_row & has_row
    rows, row_kinds = _interleaved(before, after, come, updated, gone)
    out = [kinds_array(row_kinds) if name == VALUE_KIND else take(source, rows) for name, source in sources.items()]
    return merged.names, out


def _interleaved(before: Rows, after: Rows, come: Bool, updated: Bool, gone: Bool) -> tuple[Rows, Kinds]:
    """Rows and kinds of the changelog: one for each key that came or went, two for each updated one."""
    counts = come.astype(np.int64) + 2 * updated + gone
    starts = np.cumsum(counts) - counts
    rows = np.empty(int(counts.sum()), np.int64)
    kinds = np.empty(len(rows), np.int8)
    for keys, offset, source, kind in (
        (come, 0, after, RowKind.INSERT),
        (gone, 0, before, RowKind.DELETE),
        (updated, 0, before, RowKind.UPDATE_BEFORE),
        (updated, 1, after, RowKind.UPDATE_AFTER),
    ):
        places = starts[keys] + offset
        rows[places] = source[keys]
        kinds[places] = kind
    return rows, kinds
