"""What changed between two states of a table: merged rows before and after, compared key by key.

Source: Java `table/source/splitread/IncrementalDiffSplitRead.DiffMerger`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.merge.exact_values import frozen, to_python
from paimon_spark.engine.merge.key_value import AGE, NO_ROW, Bool, Groups, Merged, Rows, is_retract, take
from paimon_spark.engine.merge.ordering import decimal_halves
from paimon_spark.format.arrays import arrow_numpy
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
    elif pa.types.is_list(t):
        same = _equal_lists(column, [column.values], left, right, ordered_maps)
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
    keys = _codes(take(column.keys, np.concatenate([one, other])))
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
    nth = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    return same, pair, offsets[left][pair] + nth, offsets[right][pair] + nth


def _codes(keys: pa.Array) -> Rows:
    """Numbers for the keys of maps, the same for equal keys."""
    t = keys.type
    if t.num_fields:
        # Nested keys are rare, and only those of maps that are not equal in order come here.
        seen: dict[Hashable, int] = {}
        return np.array([seen.setdefault(frozen(key), len(seen)) for key in to_python(keys)], np.int64)
    if pa.types.is_floating(t):
        data = arrow_numpy.values(keys)
        one_nan = np.where(np.isnan(data), data.dtype.type(np.nan), data)
        keys = pa.array(one_nan.view(f"i{data.dtype.itemsize}"), mask=~arrow_numpy.validity(keys))
    codes: Rows = arrow_numpy.values(keys.dictionary_encode(null_encoding="encode").indices).astype(np.int64)
    return codes
