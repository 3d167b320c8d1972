"""What changed between two states of a table: merged rows before and after, compared key by key.

Source: Java `table/source/splitread/IncrementalDiffSplitRead.DiffMerger`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.merge.aggregators_exact import frozen, to_python
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
    valid = arrow_numpy.validity(column)
    both_null = ~valid[left] & ~valid[right]
    return both_null | (valid[left] & valid[right] & _equal_content(column, left, right))


def _equal_content(column: pa.Array, left: Rows, right: Rows) -> Bool:
    t = column.type
    if pa.types.is_decimal128(t):
        low, high = decimal_halves(column)
        return (low[left] == low[right]) & (high[left] == high[right])
    if pa.types.is_floating(t):
        values: Any = arrow_numpy.values(column)
        bits = values.view(f"i{values.dtype.itemsize}")
        nan = np.isnan(values)
        return (bits[left] == bits[right]) | (nan[left] & nan[right])
    if pa.types.is_nested(t):
        pairs = zip(to_python(take(column, left)), to_python(take(column, right)), strict=True)
        return np.fromiter((frozen(a) == frozen(b) for a, b in pairs), np.bool_, len(left))
    if pa.types.is_string(t) or pa.types.is_binary(t):
        equal = pc.equal(take(column, left), take(column, right))
        return arrow_numpy.values(equal) & arrow_numpy.validity(equal)
    numbers = arrow_numpy.values(column)
    return numbers[left] == numbers[right]
