"""Deduplication as a computed deletion vector: decide from the keys alone which rows of the files survive.

Only for merge functions that pick whole rows. Nothing but keys (and what orders them) is held; the other
columns then stream through the mask file by file, in file order rather than key order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.key_value import LEVEL, NO_ROW, Bool, Kinds, Rows, is_retract
from paimon_spark.engine.merge.ordering import group_starts
from paimon_spark.engine.merge.sorted_merge import MergePlan, Window, key_order, merge_groups, sequence_order
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.types import VALUE_KIND


def surviving_rows(columns: Mapping[str, pa.Array], plan: MergePlan) -> Bool:
    """Which rows of a whole section are the merged row of their key.

    Args:
        columns: key columns and what orders them, runs one after the other, oldest first.
        plan: its function must pick whole rows.
    """
    order, ties = key_order([columns[name] for name in plan.key])
    order = sequence_order(columns, plan, order, ties.copy())
    kinds = None if VALUE_KIND not in columns else arrow_numpy.values(columns[VALUE_KIND])
    if plan.function.newest_wins and LEVEL not in columns:
        winners = order[np.append(~ties[1:], np.True_)]
    else:
        winners = _merged_rows(columns, plan, order, group_starts(ties), kinds)
    alive = np.zeros(len(order), np.bool_)
    alive[winners] = True
    if kinds is not None and not plan.keep_deletes:
        alive &= ~is_retract(kinds)
    return alive


def _merged_rows(
    columns: Mapping[str, pa.Array], plan: MergePlan, order: Rows, starts: Rows, kinds: Kinds | None
) -> Rows:
    """The row that each key becomes, for keys that do not vanish."""
    winners = order[starts]
    chosen = np.diff(starts, append=len(order)) > 1
    if not chosen.any():
        return winners
    groups = merge_groups(Window(dict(columns), order, starts), chosen, kinds)
    merged = plan.function.merge(columns, groups, ())
    assert merged.rows is not None
    winners[chosen] = merged.rows
    kept: Rows = winners[winners != NO_ROW]
    return kept
