"""Splits packed into Spark partitions: few enough that tasks cost little, many enough to keep the cores busy."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from paimon_spark.engine.tasks.split import DataSplit, SplitMode
from paimon_spark.format.metadata_files.data_file import DataFileMeta, SimpleStats

_LEAST_BYTES: Final = 16 << 20
"""A Python task costs Spark some 50 ms; this many bytes take about as long to decode."""
_NO_STATS: Final = SimpleStats(b"", b"", ())


def pack(
    splits: Sequence[DataSplit],
    target_bytes: int,
    open_cost_bytes: int,
    cores: int | None = None,
    *,
    together: Callable[[DataSplit], Hashable] | None = None,
) -> list[tuple[DataSplit, ...]]:
    """Groups of splits of about equal weight, each for one task; empty when there are no splits.

    Inside a group splits keep the order of the plan.

    Args:
        splits: what a plan gave.
        target_bytes: a group does not grow beyond this when it can be helped.
        open_cost_bytes: least weight of a file.
        cores: tasks worth having when there is little to read; default is this machine's, the driver's.
        together: splits for which it gives the same are not cut and go to one task.
    """
    weights = [_weight(s, open_cost_bytes) for s in splits]
    share = sum(weights) // max(1, cores or os.cpu_count() or 1)
    limit = max(_LEAST_BYTES, min(target_bytes, share + 1))
    items: list[tuple[DataSplit, ...]]
    if together is None:
        items = [(p,) for s in splits for p in _pieces(s, limit, open_cost_bytes)]
    else:
        items = _chains(splits, together)
    items = [tuple(lean(s) for s in item) for item in items]
    return _balanced(items, [sum(_weight(s, open_cost_bytes) for s in item) for item in items], limit)


def _chains(splits: Sequence[DataSplit], together: Callable[[DataSplit], Hashable]) -> list[tuple[DataSplit, ...]]:
    """Splits that belong together, in their order."""
    found: dict[Hashable, list[DataSplit]] = {}
    for split in splits:
        found.setdefault(together(split), []).append(split)
    return [tuple(c) for c in found.values()]


def _weight(split: DataSplit, open_cost_bytes: int) -> int:
    return max(split.size_bytes, open_cost_bytes * (len(split.files) + len(split.before_files)))


def _pieces(split: DataSplit, limit: int, open_cost_bytes: int) -> list[DataSplit]:
    """A split too big for one task, cut between files where its files have nothing to do with each other."""
    if split.mode is not SplitMode.RAW or len(split.files) < 2 or _weight(split, open_cost_bytes) <= limit:
        return [split]
    groups: list[list[int]] = [[]]
    filled = 0
    for i, f in enumerate(split.files):
        weight = max(f.file_size, open_cost_bytes)
        if groups[-1] and filled + weight > limit:
            groups.append([])
            filled = 0
        groups[-1].append(i)
        filled += weight
    return [
        replace(
            split,
            files=tuple(split.files[i] for i in group),
            deletions=tuple(split.deletions[i] for i in group) if split.deletions else (),
        )
        for group in groups
    ]


def _balanced(
    items: Sequence[tuple[DataSplit, ...]], weights: Sequence[int], limit: int
) -> list[tuple[DataSplit, ...]]:
    """Heaviest first, each to the lightest group; inside a group in plan order."""
    if not items:
        return []
    count = min(len(items), -(-sum(weights) // limit))
    heap = [(0, g) for g in range(count)]
    groups: list[list[int]] = [[] for _ in range(count)]
    for i in sorted(range(len(items)), key=lambda i: -weights[i]):
        weight, g = heapq.heappop(heap)
        groups[g].append(i)
        heapq.heappush(heap, (weight + weights[i], g))
    return [tuple(chain.from_iterable(items[i] for i in sorted(group))) for group in groups]


def lean(split: DataSplit) -> DataSplit:
    """The split without what only planning looks at, which would travel to executors for nothing."""
    return replace(
        split,
        files=tuple(_lean(f) for f in split.files),
        before_files=tuple(_lean(f) for f in split.before_files),
    )


def _lean(f: DataFileMeta) -> DataFileMeta:
    return f._replace(value_stats=_NO_STATS, key_stats=_NO_STATS, embedded_index=None, value_stats_cols=None)
