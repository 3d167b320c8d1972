"""Compaction that tells what it changed: the rows after it, and the rows of the changelog.

Producer `lookup`: of a key's rows above level 0 only that of the smallest level counts, the row that readers saw
before. Producer `full-compaction`: the row before is that of the last level, which only full compactions write.

Source: Java `mergetree/compact/LookupChangelogMergeFunctionWrapper`, `LookupMergeFunction`,
`FirstRowMergeFunctionWrapper`, `FullChangelogMergeFunctionWrapper`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.changelog import equal_values
from paimon_spark.engine.merge.key_value import (
    LEVEL,
    NO_ROW,
    Bool,
    Groups,
    Kinds,
    Merged,
    Rows,
    concat,
    is_retract,
    kinds_array,
    take,
)
from paimon_spark.engine.merge.sorted_merge import MergedColumns, MergeFunction, Window
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.types import VALUE_KIND, RowKind

IN_LAST_LEVEL: Final = "_IN_LAST_LEVEL"
"""Column (int32) that is 1 for rows of the last level, which a changelog of full compactions begins at."""


class EveryKey:
    """A merge function that is asked about keys with one row too, as compaction with lookup does."""

    sees_single_rows = True

    def __init__(self, inner: MergeFunction) -> None:
        self._inner = inner
        self.newest_wins = inner.newest_wins

    def required(self, columns: Sequence[str]) -> tuple[str, ...]:
        return self._inner.required(columns)

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> Merged:
        return self._inner.merge(columns, groups, wanted)


@dataclass(frozen=True, slots=True)
class ChangelogRule:
    """Which rows of a changelog a key's rows before and after give.

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
    before, is_new = _before_last_level(window) if rule.since_last_level else _before(window)
    after = np.full(len(window.starts), NO_ROW, np.int64)
    alive = np.ones(len(after), np.bool_) if merged.alive is None else merged.alive
    after[alive] = np.arange(merged.row_count)
    kinds = arrow_numpy.values(window.columns[VALUE_KIND])
    kinds_after = arrow_numpy.values(merged.arrays[1])
    had_row, has_row = before != NO_ROW, after != NO_ROW
    if rule.first_row:
        chosen = np.flatnonzero(is_new & ~had_row & has_row)
        arrays = [take(array, after[chosen]) for array in merged.arrays]
        return merged.names, arrays
    had_row[had_row] = ~is_retract(kinds[before[had_row]])
    has_row[has_row] = ~is_retract(kinds_after[after[has_row]])
    sources = {
        name: concat([window.columns[name], array]) for name, array in zip(merged.names, merged.arrays, strict=True)
    }
    after += len(kinds)
    updated = is_new & had_row & has_row
    if rule.compared is not None:
        updated &= ~_unchanged(sources, rule.compared, updated, before, after)
    gone = is_new & had_row & ~has_row
    come = is_new & ~had_row & has_row
    rows, row_kinds = _interleaved(before, after, come, updated, gone)
    out = [kinds_array(row_kinds) if name == VALUE_KIND else take(source, rows) for name, source in sources.items()]
    return merged.names, out


def _before(window: Window) -> tuple[Rows, Bool]:
    """Per key the row that was visible (`NO_ROW`: none), and whether it has a row of level 0."""
    groups = Groups(window.order, window.starts)
    levels = arrow_numpy.values(window.columns[LEVEL])[window.order].astype(np.int64)
    high = levels > 0
    smallest = np.minimum.reduceat(np.where(high, levels, np.iinfo(np.int64).max), window.starts)
    candidate = high & (levels == np.repeat(smallest, groups.sizes))
    return groups.rows_at(groups.first(candidate)), groups.any(~high)


def _before_last_level(window: Window) -> tuple[Rows, Bool]:
    """Per key the row of the last level (`NO_ROW`: none), and whether it has a row of another."""
    groups = Groups(window.order, window.starts)
    last = arrow_numpy.values(window.columns[IN_LAST_LEVEL])[window.order] > 0
    return groups.rows_at(groups.first(last)), groups.any(~last)


def _unchanged(
    columns: Mapping[str, pa.Array], compared: Sequence[str], updated: Bool, before: Rows, after: Rows
) -> Bool:
    """Of the updated keys, those whose rows before and after are equal in the compared columns."""
    out = updated.copy()
    for name in compared:
        left = np.flatnonzero(out)
        out[left] = equal_values(columns[name], before[left], after[left], ordered_maps=False)
    return out


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
