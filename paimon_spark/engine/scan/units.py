"""Group files that must be read together because their keys or row ids overlap.

Source: Java `table/source/MergeTreeSplitGenerator`, `AppendOnlySplitGenerator`, `DataEvolutionSplitGenerator`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.merge.ordering import Word, column_words
from paimon_spark.engine.scan.prune import Selection
from paimon_spark.engine.tasks import SplitMode
from paimon_spark.format.arrays.arrow_numpy import Bool, ranges, validity, values
from paimon_spark.format.binary_row import decode_column, decode_upper_bounds
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import MergeEngine

Longs = npt.NDArray[np.int64]

_ABOVE_ALL = 2
"""First word of a largest key that is not known, where that of a null is 0 and that of a value 1."""


@dataclass(frozen=True, slots=True)
class Units:
    """Files in reading order, cut into units; units of one group (partition and bucket) are neighbours.

    Attributes:
        files: entry numbers, unit after unit.
        starts: where each unit begins in `files`.
        groups: for each unit, the number of its partition and bucket.
        modes: for each unit, an index into `MODES`.
    """

    files: Longs
    starts: Longs
    groups: Longs
    modes: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Longs:
        """Files in each unit."""
        return np.diff(self.starts, append=len(self.files))

    def any_of(self, mask: Bool) -> Bool:
        """For each unit, whether `mask` is True for some file of it."""
        return np.logical_or.reduceat(mask[self.files], self.starts) if len(self) else np.zeros(0, np.bool_)

    def keep(self, mask: Bool) -> Units:
        """Only the units where `mask` is True."""
        if bool(mask.all()):
            return self
        sizes = self.sizes
        kept = sizes[mask]
        return Units(self.files[np.repeat(mask, sizes)], np.cumsum(kept) - kept, self.groups[mask], self.modes[mask])

    def slice(self, start: int, end: int) -> Units:
        """Units from `start` up to `end`."""
        first, last = np.append(self.starts, len(self.files))[[start, end]].tolist()
        return Units(
            self.files[first:last], self.starts[start:end] - first, self.groups[start:end], self.modes[start:end]
        )

    def totals(self, of_files: npt.NDArray[Any]) -> Longs:
        """For each unit, the sum over its files; `of_files` is by entry."""
        if not len(self):
            return np.zeros(0, np.int64)
        return np.add.reduceat(of_files[self.files].astype(np.int64), self.starts)


MODES = (SplitMode.RAW, SplitMode.MERGE, SplitMode.CHANGES, SplitMode.DIFF, SplitMode.EVOLVED, SplitMode.REPLACED)
RAW, MERGE, CHANGES, DIFF, EVOLVED, REPLACED = range(6)


def groups_of(selection: Selection) -> Longs:
    """For each entry, the number of its partition and bucket; the postponed bucket comes last."""
    buckets = values(selection.entries.column("bucket")).astype(np.int64)
    high = int(buckets.max(initial=0))
    places = np.where(buckets < 0, high - buckets, buckets)
    span = int(places.max(initial=0)) + 1
    return selection.partitions.codes.astype(np.int64) * span + places


def single_files(groups: Longs, mode: int, *order_by: Longs) -> Units:
    """Every file its own unit; inside a group ordered by `order_by`, the most important first."""
    files = np.lexsort((*reversed(order_by), groups))
    return Units(files, np.arange(len(files)), groups[files], np.full(len(files), mode, np.int8))


def append_units(selection: Selection) -> Units:
    """Files of append tables, oldest first."""
    return single_files(groups_of(selection), RAW, values(selection.entries.column("min_sequence_number")))


def key_units(handle: TableHandle, selection: Selection) -> Units:
    """Units of primary-key tables: single files that need no merge, and sections of overlapping files.

    Files of a postponed bucket, which are not sorted by key, stand alone and unmerged, oldest first.
    """
    waiting = values(selection.entries.column("bucket")) < 0
    if not waiting.any():
        return _settled_units(handle, selection)
    made = selection.entries.column("creation_time_ms")
    order = np.where(validity(made), values(made), 0)
    late = single_files(groups_of(selection)[waiting], CHANGES, order[waiting])
    rest = _settled_units(handle, selection.keep(~waiting))
    rest = _renumbered(rest, np.flatnonzero(~waiting))
    # Numbers of groups are those of the whole selection.
    rest = Units(rest.files, rest.starts, groups_of(selection)[rest.files[rest.starts]], rest.modes)
    return joined(rest, _renumbered(late, np.flatnonzero(waiting)))


def _settled_units(handle: TableHandle, selection: Selection) -> Units:
    entries = selection.entries
    groups = groups_of(selection)
    deletes = entries.column("delete_row_count")
    # A file that counts retracts, or comes from an old writer, which did not count, goes through a merge. A count of 0
    # is a hint that none is needed; readers of RAW look for retracts where it is no more than that.
    no_deletes = validity(deletes) & (values(deletes) == 0)
    alone = _unmerged_groups(handle, groups, values(entries.column("level")), no_deletes)
    raw = single_files(groups[alone], RAW)
    rest = np.flatnonzero(~alone)
    if not len(rest):
        return _renumbered(raw, np.flatnonzero(alone))
    sections = overlapping(groups[rest], *key_bounds(handle, selection.keep(~alone)), MERGE)
    sections = _renumbered(sections, rest)
    single = (sections.sizes == 1) & no_deletes[sections.files[sections.starts]]
    sections = Units(sections.files, sections.starts, sections.groups, np.where(single, RAW, MERGE).astype(np.int8))
    return joined(_renumbered(raw, np.flatnonzero(alone)), sections)


def _unmerged_groups(handle: TableHandle, groups: Longs, levels: npt.NDArray[np.int32], no_deletes: Bool) -> Bool:
    """For each file, whether its bucket is compacted so that no key has two visible rows."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    quiet: Bool = np.bincount(inverse, weights=(levels != 0) & no_deletes) == counts
    if not (handle.options.deletion_vectors or handle.options.merge_engine is MergeEngine.FIRST_ROW):
        first = np.full(len(counts), -1, np.int64)
        first[inverse] = levels
        quiet &= np.bincount(inverse, weights=levels == first[inverse]) == counts
    return quiet[inverse]


def key_bounds(handle: TableHandle, selection: Selection) -> tuple[Longs, Longs]:
    """Ranks of the smallest and largest key of each file, in one order for all files.

    The ranges hold every key of the files: see `merge.runs.key_ranks` for those that writers cut off or leave out.
    """
    lows, highs = selection.entries.column("min_key"), selection.entries.column("max_key")
    words: list[Word] = []
    for i, field in enumerate(handle.schema.key_type):
        low, high = decode_column(lows, i, field.type), decode_upper_bounds(highs, i, field.type)
        of_field = column_words(pa.concat_arrays([low, high]))
        if high.null_count:
            of_field[0] = of_field[0].copy()
            of_field[0][len(low) :][~validity(high)] = _ABOVE_ALL
        words += of_field
    order = np.lexsort([*reversed(words)])
    differs = np.zeros(len(order), np.bool_)
    for word in words:
        differs[1:] |= word[order][1:] != word[order][:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(differs)
    return ranks[: len(selection)], ranks[len(selection) :]


def row_id_units(selection: Selection, commits: Longs | None = None) -> Units:
    """Units of tables with data evolution: files with overlapping row id ranges.

    With `commits`, a number for each file, only files of one number belong together, and lower ones come first. The
    groups of the units are then of bucket and number, so that no split has files of two.
    """
    entries = selection.entries
    first = entries.column("first_row_id")
    start = np.where(validity(first), values(first), -1)
    # Files without row ids stand alone: no other file can hold more columns of their rows.
    alone = start < 0
    start = np.where(alone, -1 - np.arange(len(start)), start)
    end = np.where(alone, start, start + values(entries.column("row_count")) - 1)
    lowest = int(start.min(initial=0))
    groups = groups_of(selection)
    if commits is None or not len(commits):
        return overlapping(groups, start - lowest, end - lowest, EVOLVED)
    span = int(commits.max()) + 1
    return overlapping(groups * span + commits, start - lowest, end - lowest, EVOLVED)


def overlapping(groups: Longs, low: Longs, high: Longs, mode: int) -> Units:
    """Units of files with overlapping ranges in a group, in range order. Ranges are not negative."""
    if not len(groups):
        return Units(np.zeros(0, np.int64), np.zeros(0, np.int64), groups, np.zeros(0, np.int8))
    files = np.lexsort((high, low, groups))
    dense = np.unique(groups, return_inverse=True)[1][files].astype(np.int64)
    span = int(high.max(initial=0)) + 1
    if span * (int(dense.max(initial=0)) + 1) >= 1 << 62:
        # Ranges this large (row ids) are ranked first, which keeps their order and equality.
        ends = np.unique(np.concatenate([low, high]), return_inverse=True)[1].reshape(2, -1)
        low, high, span = ends[0], ends[1], int(ends.max()) + 1
    bound = np.maximum.accumulate(high[files] + dense * span)
    begins = np.ones(len(files), np.bool_)
    begins[1:] = (low[files] + dense * span)[1:] > bound[:-1]
    starts = np.flatnonzero(begins)
    return Units(files, starts, groups[files][starts], np.full(len(starts), mode, np.int8))


def joined(a: Units, b: Units) -> Units:
    """The units of both, ordered by group and mode."""
    if not len(a) or not len(b):
        return b if len(b) else a
    starts = np.concatenate([a.starts, b.starts + len(a.files)])
    files = np.concatenate([a.files, b.files])
    groups, modes = np.concatenate([a.groups, b.groups]), np.concatenate([a.modes, b.modes])
    return reordered(Units(files, starts, groups, modes))


def reordered(units: Units) -> Units:
    """Units sorted by group, then mode; otherwise in their order."""
    order = np.lexsort((units.modes, units.groups))
    if bool((order[1:] > order[:-1]).all()):
        return units
    sizes = units.sizes[order]
    new_starts = np.cumsum(sizes) - sizes
    positions = ranges(units.starts[order], sizes)
    return Units(units.files[positions], new_starts, units.groups[order], units.modes[order])


def _renumbered(units: Units, numbers: Longs) -> Units:
    """The same units with file number i replaced by `numbers[i]`."""
    return Units(numbers[units.files], units.starts, units.groups, units.modes)
