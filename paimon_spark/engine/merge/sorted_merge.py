"""Merge sorted runs in bounded memory, by windows of key ranges or by a mask from the keys.

Runs are streams of batches sorted by key. A window contains the next rows of every run. Rows with keys smaller than all
keys still to come are complete and are merged; the others wait for the next window.

For merge engines that keep whole rows, a key mask decides from the keys and sequence columns alone which rows of each
file survive; the other columns then stream through the mask file by file, in file order.

Source: Java `mergetree/compact/SortMergeReader`, `mergetree/MergeTreeReaders`, `mergetree/DropDeleteReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

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
from paimon_spark.engine.merge.ordering import column_words, group_starts, pack, refine, sort_rows
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.arrays.arrow_types import record_batch
from paimon_spark.format.arrays.pieces import cut, joined, narrowed
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.types import SEQUENCE_NUMBER, VALUE_KIND


class MergeFunction(Protocol):
    """How the rows of one key become one row. Stateless between calls, so usable by threads."""

    newest_wins: bool
    """Whether the result is always the newest row, so that `merge` need not be called."""

    def required(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Value columns that must be read to merge `columns`, these included first."""
        ...

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> MergedGroups:
        """Merge each group, oldest row first. Raises DataError where the rows do not allow it."""
        ...


class SequenceField(NamedTuple):
    """A column of `sequence.field`, in force before the sequence number."""

    name: str
    descending: bool


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Sort columns and output columns of a merge of runs.

    Attributes:
        function: the merge engine.
        key: key columns.
        sequence: user-defined sequence columns.
        output: names of the columns to put out, in order.
        keep_deletes: keep merged -U and -D rows and put `_VALUE_KIND` first.
        batch_rows: most rows of an output batch.
        sequence_numbers: put `_SEQUENCE_NUMBER` before everything else: that of the row picked, or of the newest.
        every_key: call the merge engine also for keys with one row.
    """

    function: MergeFunction
    key: tuple[str, ...]
    sequence: tuple[SequenceField, ...]
    output: tuple[str, ...]
    keep_deletes: bool = False
    batch_rows: int = 65536
    sequence_numbers: bool = False
    every_key: bool = False


class Window(NamedTuple):
    """Complete keys of all runs.

    Attributes:
        columns: columns by name, runs one after the other; very long ones in their `pieces.wide_type`.
        order: rows by key, then oldest first.
        starts: places in `order` where a key begins.
    """

    columns: Mapping[str, pa.Array]
    order: Rows
    starts: Rows


def merge_runs(
    runs: Sequence[Iterator[pa.RecordBatch]], plan: MergePlan, run_rows: int = 65536
) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs of one section; batches come out sorted by key.

    Rows of a key are taken oldest first by `plan.sequence`, then by `_SEQUENCE_NUMBER` or `_AGE` where the
    batches have such a column (and retracts before adds), then in the order of `runs`.

    Args:
        runs: batches with the same columns; those besides values are `_SEQUENCE_NUMBER`, `_VALUE_KIND`,
            `_AGE` and `_LEVEL` where they matter. With `_LEVEL`, of the rows above level 0 only the one of the
            smallest level counts.
        plan: what to do.
        run_rows: rows of each run that a window holds at most, as long as that completes a key. The bytes of all runs
            are within `budget.WINDOW_BYTES`, as far as batches and keys allow.
    """
    for window in windows(runs, plan, run_rows):
        yield from merge_window(window, plan)


def windows(runs: Sequence[Iterator[pa.RecordBatch]], plan: MergePlan, run_rows: int) -> Iterator[Window]:
    """Cut sorted runs into windows of complete keys, in key order."""
    buffers = [_Buffer(run) for run in runs]
    run_bytes = WINDOW_BYTES // max(1, len(runs))
    rows, size = run_rows, run_bytes
    while True:
        for buffer in buffers:
            buffer.fill(rows, size)
        filled = [b for b in buffers if b.rows]
        if not filled:
            return
        window = _complete_keys(filled, plan)
        if window is None:
            rows, size = 2 * max(b.rows for b in filled), 2 * max(b.size_bytes for b in filled)
            continue
        rows, size = run_rows, run_bytes
        yield window


class _Buffer:
    """Batches of one run that have been read but not merged."""

    __slots__ = ("_source", "batches", "finished", "rows", "size_bytes")

    def __init__(self, source: Iterator[pa.RecordBatch]) -> None:
        self._source = source
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.size_bytes = 0
        self.finished = False

    def fill(self, rows: int, size_bytes: int) -> None:
        """Read on until there are so many rows or bytes, and at least one row."""
        while not self.finished and (not self.rows or (self.rows < rows and self.size_bytes < size_bytes)):
            batch = next(self._source, None)
            if batch is None:
                self.finished = True
            elif batch.num_rows:
                self.batches.append(batch)
                self.rows += batch.num_rows
                self.size_bytes += batch.nbytes

    def pop(self, count: int) -> list[pa.RecordBatch]:
        """Remove and return the first `count` rows."""
        out: list[pa.RecordBatch] = []
        self.rows -= count
        while count:
            batch = self.batches[0]
            if batch.num_rows <= count:
                out.append(self.batches.pop(0))
                count -= batch.num_rows
            else:
                out.append(batch.slice(0, count))
                self.batches[0] = batch.slice(count)
                count = 0
        self.size_bytes = sum(b.nbytes for b in self.batches)
        return out


def _complete_keys(buffers: list[_Buffer], plan: MergePlan) -> Window | None:
    """Rows whose keys are complete, as unfinished runs cannot contain more of them; None before there are any."""
    batches = [batch for b in buffers for batch in b.batches]
    order, ties = key_order([joined([batch.column(name) for batch in batches]) for name in plan.key])
    ends = np.cumsum([b.rows for b in buffers])
    group = np.cumsum(~ties)
    complete = len(order)
    open_ends = [int(end) - 1 for end, b in zip(ends, buffers, strict=True) if not b.finished]
    if open_ends:
        place_of = np.empty(len(order), np.int64)
        place_of[order] = np.arange(len(order))
        bound = min(int(group[place_of[end]]) for end in open_ends)
        complete = int(np.searchsorted(group, bound))
    if complete == 0:
        return None
    order, ties = order[:complete], ties[:complete].copy()
    run_of = np.searchsorted(ends, order, side="right")
    counts = np.bincount(run_of, minlength=len(buffers))
    starts_before = ends - [b.rows for b in buffers]
    shift = starts_before - (np.cumsum(counts) - counts)
    popped = [batch for b, count in zip(buffers, counts.tolist(), strict=True) for batch in b.pop(count)]
    columns = {name: joined([batch.column(i) for batch in popped]) for i, name in enumerate(popped[0].schema.names)}
    starts = group_starts(ties)
    return Window(columns, sequence_order(columns, plan, order - shift[run_of], ties), starts)


def sequence_order(columns: Mapping[str, pa.Array], plan: MergePlan, order: Rows, ties: Bool) -> Rows:
    """Put tied rows (of one key) in order of age."""
    words = [w for field in plan.sequence for w in column_words(columns[field.name], field.descending)]
    if SEQUENCE_NUMBER in columns:
        words.append(arrow_numpy.values(columns[SEQUENCE_NUMBER]))
        if VALUE_KIND in columns:
            words.append((arrow_numpy.values(columns[VALUE_KIND]) & 1) ^ 1)
    elif AGE in columns:
        words.append(arrow_numpy.values(columns[AGE]))
    for word in words:
        order = refine(order, ties, word)
    return order


def key_order(keys: Sequence[pa.Array]) -> tuple[Rows, Bool]:
    """Stable order of rows by key columns, and the rows that tie with the previous row."""
    return sort_rows(pack([word for key in keys for word in column_words(key)]), len(keys[0]))


class MergedColumns(NamedTuple):
    """The merged columns of a window.

    Attributes:
        names, arrays: columns of `plan.output`, system columns before them as the plan says.
        alive: which keys of the window have a row; None when all have one.
    """

    names: list[str]
    arrays: list[pa.Array]
    alive: Bool | None
    row_count: int


def merge_window(window: Window, plan: MergePlan) -> Iterator[pa.RecordBatch]:
    """The merged rows of a window as batches of `plan.output`; system columns before them as the plan says."""
    merged = merge_columns(window, plan)
    yield from batches_of(merged.arrays, merged.names, merged.row_count, plan.batch_rows)


def merge_columns(window: Window, plan: MergePlan) -> MergedColumns:
    """The merged rows of a window, at most one for each key, in key order."""
    kinds = None if VALUE_KIND not in window.columns else arrow_numpy.values(window.columns[VALUE_KIND])
    sizes = np.diff(window.starts, append=len(window.order))
    chosen = sizes > (0 if plan.every_key else 1)
    rows = numbered = window.order[window.starts]
    out_kinds = None if kinds is None else kinds[rows]
    alive: Bool | None = None
    merged: MergedGroups | None = None
    if plan.function.newest_wins and LEVEL not in window.columns:
        rows = numbered = window.order[np.append(window.starts[1:], len(window.order)) - 1]
        out_kinds = None if kinds is None else kinds[rows]
    elif chosen.any():
        groups = _merge_groups(window, chosen, kinds)
        merged = plan.function.merge(window.columns, groups, plan.output)
        numbered = rows.copy()
        numbered[chosen] = groups.rows[groups.last_places] if merged.rows is None else merged.rows
        out_kinds = _with_merged_kinds(out_kinds, merged.kinds, chosen)
        if merged.rows is not None and (merged.rows == NO_ROW).any():
            alive = np.ones(len(rows), np.bool_)
            alive[chosen] = merged.rows != NO_ROW
    if out_kinds is not None and not plan.keep_deletes:
        adds = ~is_retract(out_kinds)
        alive = adds if alive is None else alive & adds
    arrays = [_output_column(window.columns[n], rows, chosen, merged, n, alive) for n in plan.output]
    names = list(plan.output)
    if plan.keep_deletes:
        if out_kinds is None:
            out_kinds = np.zeros(len(rows), np.int8)
        arrays.insert(0, kinds_array(out_kinds if alive is None else out_kinds[alive]))
        names.insert(0, VALUE_KIND)
    if plan.sequence_numbers:
        arrays.insert(0, take(window.columns[SEQUENCE_NUMBER], numbered if alive is None else numbered[alive]))
        names.insert(0, SEQUENCE_NUMBER)
    return MergedColumns(names, arrays, alive, len(rows) if alive is None else int(alive.sum()))


def _merge_groups(window: Window, chosen: Bool, kinds: Kinds | None) -> Groups:
    """The groups of `window` that are `chosen`, without the rows whose level does not count."""
    groups = Groups(window.order, window.starts).subset(chosen)
    groups = Groups(groups.rows, groups.starts, None if kinds is None else kinds[groups.rows])
    if LEVEL not in window.columns:
        return groups
    keep, first = smallest_level(groups, arrow_numpy.values(window.columns[LEVEL]))
    keep[first[first >= 0]] = True
    return groups.where(keep)


def smallest_level(groups: Groups, levels: Rows) -> tuple[Bool, Rows]:
    """The places of level 0, and per group the first place of the smallest level above (`NO_ROW`: none).

    Source: Java `mergetree/compact/LookupMergeFunction`.
    """
    level = levels[groups.rows].astype(np.int64)
    high = level > 0
    smallest = np.minimum.reduceat(np.where(high, level, np.iinfo(np.int64).max), groups.starts)
    return ~high, groups.first(high & (level == np.repeat(smallest, groups.sizes)))


def _with_merged_kinds(kinds: Kinds | None, merged: Kinds | None, chosen: Bool) -> Kinds | None:
    if kinds is None and merged is None:
        return None
    out = np.zeros(len(chosen), np.int8) if kinds is None else kinds.copy()
    out[chosen] = 0 if merged is None else merged
    return out


def _output_column(
    source: pa.Array, rows: Rows, chosen: Bool, merged: MergedGroups | None, name: str, alive: Bool | None
) -> pa.Array:
    if merged is not None:
        result = merged.result(name)
        rows = rows.copy()
        rows[chosen] = result.rows
        source = joined([source, *result.extra])
    return take(source, rows if alive is None else rows[alive])


def batches_of(
    arrays: Sequence[pa.Array], names: Sequence[str], count: int, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Columns, perhaps wide ones, as canonical batches of at most `batch_rows` rows, and not too many bytes."""
    if not arrays:
        for begin in range(0, count, batch_rows):
            yield record_batch([], pa.schema([]), min(batch_rows, count - begin))
        return
    whole = pa.RecordBatch.from_arrays(list(arrays), names=list(names))
    yield from map(narrowed, cut(whole, most_rows=batch_rows))


def surviving_rows(columns: Mapping[str, pa.Array], plan: MergePlan) -> Bool:
    """A mask of the rows that survive the merge of a section, for merge engines that pick whole rows.

    `columns` are the keys and what orders them, runs one after the other, oldest first.
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
    """The row that each key becomes, without the keys that have none."""
    winners = order[starts]
    chosen = np.diff(starts, append=len(order)) > 1
    if not chosen.any():
        return winners
    groups = _merge_groups(Window(columns, order, starts), chosen, kinds)
    merged = plan.function.merge(columns, groups, ())
    assert merged.rows is not None
    winners[chosen] = merged.rows
    kept: Rows = winners[winners != NO_ROW]
    return kept


RUN_ROWS = 32768
"""Rows of a run that a window holds at most; more is not faster."""
WINDOW_BYTES = 96 << 20
"""Decoded bytes of a window: rows are estimated from file sizes, and no more are taken once they have so many."""
MOST_OPEN = 16
"""Runs whose files stay open during a merge; each costs pages and dictionaries of all its columns."""
_LEAST_ROWS = 512
_EXPANSION = 4
"""How much larger rows are decoded than in files; a cautious estimate."""


def decoded_row_bytes(files: Sequence[DataFileMeta]) -> int:
    """Bytes of a decoded row of the files, estimated."""
    return max(16, _EXPANSION * sum(f.file_size for f in files) // max(1, sum(f.row_count for f in files)))


def window_rows(row_bytes: int, run_count: int) -> int:
    """Rows per run and window so that all runs together stay within the memory budget."""
    return max(_LEAST_ROWS, min(WINDOW_BYTES // row_bytes // max(1, run_count), RUN_ROWS))


def runs_to_spill(row_counts: Sequence[int]) -> frozenset[int]:
    """Numbers of the smallest runs, which are spilled one after the other where there are too many to keep open."""
    by_size = sorted(range(len(row_counts)), key=row_counts.__getitem__)
    return frozenset(by_size[: max(0, len(by_size) - MOST_OPEN)])
