"""Deduplication as a computed deletion vector: decide from the keys alone which rows of the files survive.

Only for merge functions that pick whole rows. Nothing but keys (and what orders them) is held; the other
columns then stream through the mask file by file, in file order rather than key order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from paimon_spark.merge.key_value import NO_ROW, Bool, is_retract
from paimon_spark.merge.ordering import group_starts
from paimon_spark.merge.sorted_merge import MergePlan, Window, key_order, merge_groups, sequence_order
from paimon_spark.spec import arrow_numpy
from paimon_spark.types import VALUE_KIND


def surviving_rows(columns: Mapping[str, pa.Array], plan: MergePlan) -> Bool:
    """Which rows of a whole section are the merged row of their key.

    Args:
        columns: key columns and what orders them, runs one after the other, oldest first.
        plan: its function must pick whole rows.
    """
    order, ties = key_order([columns[name] for name in plan.key])
    starts = group_starts(ties)
    order = sequence_order(columns, plan, order, ties)
    chosen = np.diff(starts, append=len(order)) > 1
    winners = order[starts]
    kinds = None if VALUE_KIND not in columns else arrow_numpy.values(columns[VALUE_KIND])
    if chosen.any():
        window = Window(dict(columns), order, starts)
        merged = plan.function.merge(columns, merge_groups(window, chosen, kinds), ())
        assert merged.rows is not None
        winners[chosen] = merged.rows
        winners = winners[winners != NO_ROW]
    alive = np.zeros(len(order), np.bool_)
    alive[winners] = True
    if kinds is not None and not plan.keep_deletes:
        alive &= ~is_retract(kinds)
    return alive
