"""What changed between two states of a table: merged rows before and after, compared key by key.

Source: Java `table/source/splitread/IncrementalDiffSplitRead.DiffMerger`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.merge.key_value import AGE, NO_ROW, Bool, Groups, Merged, Rows, is_retract, take
from paimon_spark.merge.ordering import decimal_halves
from paimon_spark.spec import arrow_numpy
from paimon_spark.types import RowKind

BEFORE: Final = 0
AFTER: Final = 1
"""Values of `_AGE` that tell the two states apart."""


class Difference:
    """Merge function over a before and an after row of each key: what came, what changed, what went.

    A key that came or changed gives the row after, with its kind; one that went gives the row before as -D;
    one with equal values and equal add-ness gives nothing.
    """

    sees_single_rows = True
    newest_wins = False

    def __init__(self, compared: Sequence[str]) -> None:
        self._compared = tuple(compared)

    def required(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*columns, *self._compared)))

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> Merged:
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
        return Merged(kinds, {}, np.where(dropped, NO_ROW, groups.rows[places]))

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
            same[left] = equal_values(columns[name], before[left], after[left])
        return same


def equal_values(column: pa.Array, left: Rows, right: Rows) -> Bool:
    """Which rows of a column hold the same value, nulls and NaNs included, -0.0 apart from 0.0."""
    same = _equal_content(column, left, right)
    if column.null_count == 0:
        return same
    valid = arrow_numpy.validity(column)
    one, other = valid[left], valid[right]
    out: Bool = (one & other & same) | ~(one | other)
    return out


def _equal_content(column: pa.Array, left: Rows, right: Rows) -> Bool:
    """`equal_values` of rows that are not null."""
    t = column.type
    same: Bool
    if pa.types.is_struct(t):
        same = np.ones(len(left), np.bool_)
        for i in range(t.num_fields):
            same &= equal_values(column.field(i), left, right)
    elif pa.types.is_map(t):
        same = _equal_lists(column, [column.keys, column.items], left, right)
    elif pa.types.is_list(t):
        same = _equal_lists(column, [column.values], left, right)
    elif pa.types.is_decimal128(t):
        low, high = decimal_halves(column)
        same = (low[left] == low[right]) & (high[left] == high[right])
    elif pa.types.is_floating(t):
        values = arrow_numpy.values(column)
        bits = values.view(f"i{values.dtype.itemsize}")
        nan = np.isnan(values)
        same = (bits[left] == bits[right]) | (nan[left] & nan[right])
    elif pa.types.is_string(t) or pa.types.is_binary(t):
        equal = pc.equal(take(column, left), take(column, right))
        same = arrow_numpy.values(equal) & arrow_numpy.validity(equal)
    else:
        numbers = arrow_numpy.values(column)
        same = numbers[left] == numbers[right]
    return same


def _equal_lists(column: pa.Array, children: Sequence[pa.Array], left: Rows, right: Rows) -> Bool:
    """Lists are equal when they are equally long and equal element by element in all `children`."""
    offsets = arrow_numpy.values(column.offsets).astype(np.int64)
    lengths = np.diff(offsets)
    same: Bool = lengths[left] == lengths[right]
    counts = np.where(same, lengths[left], 0)
    pair = np.repeat(np.arange(len(left)), counts)
    nth = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    for child in children:
        equal = equal_values(child, offsets[left][pair] + nth, offsets[right][pair] + nth)
        same[pair[~equal]] = False
    return same
