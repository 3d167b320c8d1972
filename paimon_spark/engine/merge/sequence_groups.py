"""Sequence groups of partial-update tables: which rows of a key are new to a group of columns, which are old.

Source: Java `mergetree/compact/PartialUpdateMergeFunction.updateWithSequenceGroup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.merge.key_value import Bool, Groups, Rows
from paimon_spark.engine.merge.ordering import column_words, pack, sort_rows, value_words
from paimon_spark.metadata.definition.merge_rules import SequenceGroup


class Freshness(NamedTuple):
    """How the places of groups stand to what came before them in their group.

    Attributes:
        accepted: the place's sequence is not null and not smaller than any before: it replaces.
        older: the place's sequence is not null but smaller than one before.
    """

    accepted: Bool
    older: Bool


def freshness(columns: Mapping[str, pa.Array], group: SequenceGroup, groups: Groups) -> Freshness:
    """Judge each place by the sequence columns of `group`. A place where all of them are null is neither."""
    present: Bool | None = np.zeros(len(groups.rows), np.bool_)
    for name in group.sequence:
        filled = groups.valid(columns[name])
        present = None if filled is None or present is None else present | filled
    word = _sequence_word(columns, group)[groups.rows]
    if present is not None:
        word = np.where(present, word, np.iinfo(word.dtype).min)
    accepted = word == running_max(word, groups)
    if present is None:
        return Freshness(accepted, ~accepted)
    return Freshness(accepted & present, present & ~accepted)


def _sequence_word(columns: Mapping[str, pa.Array], group: SequenceGroup) -> npt.NDArray[Any]:
    """One integer per row in the order of the sequence columns, nulls first."""
    if len(group.sequence) == 1:
        words = value_words(columns[group.sequence[0]])
    else:
        words = [word for name in group.sequence for word in column_words(columns[name])]
    count = len(words[0])
    words = pack(words) or [np.zeros(count, np.int8)]
    if len(words) == 1:
        return words[0]
    order, ties = sort_rows(words, count)
    ranks = np.empty(count, np.int64)
    ranks[order] = np.cumsum(~ties)
    return ranks


def running_max(values: npt.NDArray[Any], groups: Groups) -> npt.NDArray[Any]:
    """Per place the largest value of its group so far."""
    sizes = groups.sizes
    nth: Rows = np.arange(len(values)) - np.repeat(groups.starts, sizes)
    out = values.copy()
    step = 1
    while step < int(sizes.max(initial=0)):
        shifted = np.maximum(out[step:], out[:-step])
        out[step:] = np.where(nth[step:] >= step, shifted, out[step:])
        step *= 2
    return out
