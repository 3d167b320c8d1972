"""Aggregate functions on whole columns, with one `reduceat` per column.

`aggregate` is the entry. Groups that cannot be computed on columns (an intermediate overflow, retracts of a
collection, …) are computed value by value by `aggregators_exact`.

Source: Java `mergetree/compact/aggregate/**`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.merge.aggregators_collections import JAVA_SPACES
from paimon_spark.engine.merge.aggregators_exact import exact_aggregate
from paimon_spark.engine.merge.exact_values import from_python, retract_refused, to_python
from paimon_spark.engine.merge.key_value import NO_ROW, Bool, ColumnResult, Groups, Kinds, MergedGroups, Rows
from paimon_spark.engine.merge.ordering import single_word, value_words
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.merge_rules import column_functions
from paimon_spark.options.core import FieldOptions
from paimon_spark.options.table import TableOptions
from paimon_spark.types import DataType, RowKind

_SAFE: Final = float(2**62)
"""Sums of magnitudes below this, in doubles, prove that no int64 overflowed on the way."""
_LONG_GROUP: Final = 64


@dataclass(frozen=True, slots=True)
class Events:
    """The operations on one column of each group, place by place. None stands for "nowhere" (`counted`: everywhere).

    Attributes:
        groups: the rows.
        counted: places that take part at all.
        retract: places that take their value back; never a place of `reset`.
        reset: places that replace all before them by their own value (a -D that removes the record).
        older: places whose sequence is smaller than one before them, so that they count as older.
    """

    groups: Groups
    counted: Bool | None = None
    retract: Bool | None = None
    reset: Bool | None = None
    older: Bool | None = None

    def live(self) -> Bool | None:
        """Counted places without a later reset; None when all are."""
        if self.reset is None:
            return self.counted
        from_place = np.repeat(self.groups.last(self.reset), self.groups.sizes)
        return _and(np.arange(len(from_place)) >= from_place, self.counted)

    def subset(self, chosen: Bool) -> Events:
        places = np.repeat(chosen, self.groups.sizes)

        def cut(mask: Bool | None) -> Bool | None:
            return None if mask is None else mask[places]

        return Events(
            self.groups.subset(chosen), cut(self.counted), cut(self.retract), cut(self.reset), cut(self.older)
        )


@dataclass(frozen=True, slots=True)
class Aggregator:
    """An aggregate function of one column, which `merge_rules.check_function` accepts for its type."""

    function: str
    options: FieldOptions
    type: DataType

    def aggregate(self, column: pa.Array, events: Events) -> ColumnResult:
        """The function over each group. Raises DataError: overflow, or a retract that the function cannot undo."""
        if self.options.ignore_retract and events.retract is not None:
            counted = _and(events.counted, ~events.retract)
            events = Events(events.groups, counted, None, events.reset, events.older)
        vector = _VECTOR.get(self.function)
        done = None if vector is None else vector(self, column, events)
        if done is None:
            everything = np.ones(len(events.groups), np.bool_)
            return ColumnResult.computed(column, self.exactly(column, events, everything))
        result, left = done
        if left is not None and left.any():
            result.replace(column, left, self.exactly(column, events, left))
        return result

    def exactly(self, column: pa.Array, events: Events, chosen: Bool) -> pa.Array:
        """The function over the chosen groups, value by value."""
        part = events if bool(chosen.all()) else events.subset(chosen)
        values = to_python(column.take(arrow_numpy.take_indices(part.groups.rows)))
        function = exact_aggregate(self.function, self.options, column.type)
        counted, retract, reset, older = (
            None if mask is None else mask.tolist() for mask in (part.counted, part.retract, part.reset, part.older)
        )
        starts = part.groups.starts.tolist()
        out = []
        for begin, end in zip(starts, [*starts[1:], len(values)], strict=True):
            function.reset()
            acc = None
            for place in range(begin, end):
                if counted is not None and not counted[place]:
                    continue
                if reset is not None and reset[place]:
                    acc = values[place]
                elif retract is not None and retract[place]:
                    acc = function.retract(acc, values[place])
                elif older is not None and older[place]:
                    acc = function.agg_reversed(acc, values[place])
                else:
                    acc = function.agg(acc, values[place])
            out.append(function.finish(acc))
        return from_python(out, column.type)


class Aggregation:
    """Merge function of `merge-engine` = `aggregation`: every column has a function that takes the rows in one by one.

    Source: Java `mergetree/compact/aggregate/AggregateMergeFunction`.
    """

    newest_wins = False

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        self._functions = {name: Aggregator(*found) for name, found in column_functions(schema, options).items()}
        self._remove_on_delete = options.merge.aggregation_removes

    def required(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(columns)

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> MergedGroups:
        events, kinds = self._events(groups)
        return MergedGroups(kinds, {name: self._functions[name].aggregate(columns[name], events) for name in wanted})

    def _events(self, groups: Groups) -> tuple[Events, Kinds | None]:
        retracts = groups.retracts()
        if retracts is None:
            return Events(groups), None
        assert groups.kinds is not None
        deletes = groups.kinds == RowKind.DELETE
        if not self._remove_on_delete or not deletes.any():
            return Events(groups, retract=retracts), None
        kinds = np.where(deletes[groups.last_places], np.int8(RowKind.DELETE), np.int8(RowKind.INSERT))
        updates = retracts & ~deletes
        return Events(groups, retract=updates if updates.any() else None, reset=deletes), kinds


_Done = tuple[ColumnResult, Bool | None]
"""A result, and the groups that must be done exactly instead."""


def _and(a: Bool | None, b: Bool | None) -> Bool | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b


def _newer(mask: Bool | None, events: Events) -> Bool | None:
    """`mask` without older places."""
    return mask if events.older is None else _and(mask, ~events.older)


def _without(places: Rows, retract: Bool | None) -> Rows:
    """Places, with those that retract turned into null."""
    return places if retract is None else np.where(retract[places] & (places >= 0), NO_ROW, places)


def _picked(groups: Groups, places: Rows) -> ColumnResult:
    return ColumnResult.picked(groups.rows_at(places))


def _refuse_retract(self: Aggregator, events: Events) -> None:
    if events.retract is not None and (_and(events.counted, events.retract)).any():  # type: ignore[union-attr]
        raise retract_refused(self.options.column, self.function)


def _primary_key(self: Aggregator, column: pa.Array, events: Events) -> _Done:
    return _picked(events.groups, events.groups.last(events.live())), None


def _last_value(self: Aggregator, column: pa.Array, events: Events) -> _Done:
    places = events.groups.last(_newer(events.live(), events))
    return _picked(events.groups, _without(places, events.retract)), None


def _last_non_null(self: Aggregator, column: pa.Array, events: Events) -> _Done:
    groups = events.groups
    filled = _and(events.live(), groups.valid(column))
    places = groups.last(_newer(filled, events))
    if events.older is not None:
        below = groups.first(_and(filled, events.older))
        places = np.where(places < 0, below, places)
    return _picked(groups, _without(places, events.retract)), None


def _first_value(self: Aggregator, column: pa.Array, events: Events) -> _Done | None:
    _refuse_retract(self, events)
    if events.reset is not None:
        return None
    groups = events.groups
    places = groups.first(events.counted)
    if events.older is not None:
        older = groups.last(_and(events.counted, events.older))
        places = np.where(older < 0, places, older)
    return _picked(groups, places), None


def _first_non_null(self: Aggregator, column: pa.Array, events: Events) -> _Done | None:
    _refuse_retract(self, events)
    if events.reset is not None or events.older is not None:
        return None
    return _picked(events.groups, events.groups.first(_and(events.counted, events.groups.valid(column)))), None


def _extreme(largest: bool) -> Callable[[Aggregator, pa.Array, Events], _Done]:
    def run(self: Aggregator, column: pa.Array, events: Events) -> _Done:
        _refuse_retract(self, events)
        groups = events.groups
        word = single_word(value_words(column), len(column))[groups.rows]
        filled = _and(events.live(), groups.valid(column))
        info = np.iinfo(word.dtype)
        reduce = np.maximum if largest else np.minimum
        candidate = word if filled is None else np.where(filled, word, info.min if largest else info.max)
        best = reduce.reduceat(candidate, groups.starts)
        hit = candidate == np.repeat(best, groups.sizes)
        return _picked(groups, groups.last(_and(filled, hit))), None

    return run


def _sum(self: Aggregator, column: pa.Array, events: Events) -> _Done | None:
    groups = events.groups
    filled = _and(events.live(), groups.valid(column))
    if pa.types.is_floating(column.type):
        values = arrow_numpy.values(column)[groups.rows]
        if events.retract is not None:
            values = np.where(events.retract, -values, values)
        folded, some = _fold(np.add, values, filled, groups)
        return ColumnResult.computed(column, arrow_numpy.fixed_array(folded, column.type, some)), None
    integers = _integers(column)
    if integers is None:
        return None
    values = integers[groups.rows].astype(np.int64)
    if events.retract is not None:
        values = np.where(events.retract, -values, values)
    if filled is not None:
        values = np.where(filled, values, 0)
    magnitude = np.add.reduceat(np.abs(values.astype(np.float64)), groups.starts)
    some = None if filled is None else groups.any(filled)
    return _integer_result(column, np.add.reduceat(values, groups.starts), some, magnitude)


def _product(self: Aggregator, column: pa.Array, events: Events) -> _Done | None:
    if events.retract is not None or pa.types.is_decimal(column.type):
        return None
    groups = events.groups
    filled = _and(events.live(), groups.valid(column))
    values = arrow_numpy.values(column)[groups.rows]
    if pa.types.is_floating(column.type):
        folded, some = _fold(np.multiply, values, filled, groups)
        return ColumnResult.computed(column, arrow_numpy.fixed_array(folded, column.type, some)), None
    values = values.astype(np.int64)
    if filled is not None:
        values = np.where(filled, values, 1)
    magnitude = np.multiply.reduceat(np.maximum(np.abs(values.astype(np.float64)), 1), groups.starts)
    some = None if filled is None else groups.any(filled)
    return _integer_result(column, np.multiply.reduceat(values, groups.starts), some, magnitude)


def _integers(column: pa.Array) -> npt.NDArray[Any] | None:
    """Integers or unscaled decimals as integers of up to 64 bits; None when a decimal needs more."""
    if not pa.types.is_decimal(column.type):
        return arrow_numpy.values(column)
    low, high = arrow_numpy.decimal_halves(column)
    signed = low.view(np.int64)
    narrow = high == signed >> 63
    if column.null_count:
        narrow |= ~arrow_numpy.validity(column)
    return signed if bool(narrow.all()) else None


def _integer_result(
    column: pa.Array, values: npt.NDArray[np.int64], some: Bool | None, magnitude: npt.NDArray[np.float64]
) -> _Done:
    """Integers as values of the column's type; groups whose way may have overflowed are left over."""
    t = column.type
    if not pa.types.is_decimal(t):
        limit = _SAFE if t.bit_width == 64 else float(1 << (t.bit_width - 1))
        array = arrow_numpy.fixed_array(values.astype(np.dtype(f"i{t.bit_width // 8}")), t, some)
        return ColumnResult.computed(column, array), magnitude >= limit
    if t.precision <= 18:
        fits = np.abs(values) < 10**t.precision
        some = fits if some is None else some & fits
    halves = np.empty((len(values), 2), np.int64)
    halves[:, 0], halves[:, 1] = values, values >> 63
    return ColumnResult.computed(column, arrow_numpy.fixed_array(halves, t, some)), magnitude >= _SAFE


def _fold(
    combine: np.ufunc, values: npt.NDArray[Any], filled: Bool | None, groups: Groups
) -> tuple[npt.NDArray[Any], Bool | None]:
    """Combine floats strictly from old to new, as rounding depends on it; and which groups had any."""
    some = None if filled is None else groups.any(filled)
    if filled is not None:
        kept = np.flatnonzero(filled)
        counts = np.add.reduceat(filled.astype(np.int64), groups.starts)
        values = values[kept]
    else:
        counts = groups.sizes
    begins = np.cumsum(counts) - counts
    out = np.zeros(len(counts), values.dtype)
    present = np.flatnonzero(counts)
    out[present] = values[begins[present]]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for group in np.flatnonzero(counts > _LONG_GROUP).tolist():
            begin = begins[group]
            out[group] = combine.accumulate(values[begin : begin + counts[group]])[-1]
        counts = np.where(counts > _LONG_GROUP, 1, counts)
        for nth in range(1, int(counts.max(initial=0))):
            present = present[counts[present] > nth]
            out[present] = combine(out[present], values[begins[present] + nth])
    return out, some


def _listagg(self: Aggregator, column: pa.Array, events: Events) -> _Done | None:
    _refuse_retract(self, events)
    if self.options.distinct or events.reset is not None or events.older is not None:
        return None
    groups = events.groups
    texts = column.take(arrow_numpy.take_indices(groups.rows))
    blank = pc.equal(pc.binary_length(pc.utf8_trim(texts, characters=JAVA_SPACES)), 0)
    used = arrow_numpy.values(pc.fill_null(pc.invert(blank), False))
    if events.counted is not None:
        used = used & events.counted
    counts = np.add.reduceat(used.astype(np.int64), groups.starts)
    offsets = np.concatenate((np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)))
    lists = pa.ListArray.from_arrays(
        arrow_numpy.fixed_array(offsets, pa.int32()),
        texts.take(arrow_numpy.take_indices(np.flatnonzero(used))),
    )
    joined = pc.binary_join(lists, arrow_numpy.scalar_of(self.options.delimiter, texts.type))
    result = ColumnResult.computed(column, joined)
    result.rows = np.where(counts > 0, result.rows, NO_ROW)
    return result, None


class _Items(NamedTuple):
    """The items of the lists or maps of each group, one behind the other.

    Attributes:
        owners: the group of each item, ascending.
        items: values of lists, or entries of maps.
        some: groups with a list or map; None for all.
    """

    owners: npt.NDArray[np.int64]
    items: pa.Array
    some: Bool | None

    def take(self, places: npt.NDArray[np.int64], items: npt.NDArray[np.int64]) -> _Items:
        """The owners at some places, with the items at others."""
        return _Items(self.owners[places], self.items.take(arrow_numpy.take_indices(items)), self.some)

    def result(self, column: pa.Array, count: int) -> ColumnResult:
        """The lists or maps of `count` groups, of the type of the column."""
        sizes = np.bincount(self.owners, minlength=count)
        wide = pa.types.is_large_list(column.type)
        offsets = np.cumsum([0, *sizes]) if wide else arrow_numpy.offsets_of(sizes)
        buffers = [arrow_numpy.validity_bitmap(self.some), pa.py_buffer(offsets)]
        made = pa.Array.from_buffers(column.type, count, buffers, children=[self.items])
        return ColumnResult.computed(column, made)


def _items_of(column: pa.Array, events: Events) -> _Items:
    groups = events.groups
    used = _and(events.counted, groups.valid(column))
    places = np.arange(len(groups.rows)) if used is None else np.flatnonzero(used)
    taken = column.take(arrow_numpy.take_indices(groups.rows[places]))
    bounds, _ = arrow_numpy.byte_slices(taken)
    owners = np.repeat(np.repeat(np.arange(len(groups)), groups.sizes)[places], np.diff(bounds))
    items = taken.values.slice(int(bounds[0]), len(owners))
    return _Items(owners, items, None if used is None else groups.any(used))


def _collect(self: Aggregator, column: pa.Array, events: Events) -> _Done | None:
    """Lists one behind the other; with `distinct`, of equal values the first."""
    if events.retract is not None or events.reset is not None:
        return None
    found = _items_of(column, events)
    if self.options.distinct:
        keys = _item_keys(found.owners, found.items)
        if keys is None:
            return None
        first = np.sort(np.unique(keys, return_index=True)[1])
        found = found.take(first, first)
    return found.result(column, len(events.groups)), None


def _merge_map(self: Aggregator, column: pa.Array, events: Events) -> _Done | None:
    """The entries of maps; of equal keys the last, in the place of the first."""
    if events.retract is not None or events.reset is not None or events.older is not None:
        return None
    found = _items_of(column, events)
    keys = _item_keys(found.owners, found.items.field(0))
    if keys is None:
        return None
    first = np.unique(keys, return_index=True)[1]
    last = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
    order = np.argsort(first)
    return found.take(first[order], last[order]).result(column, len(events.groups)), None


def _item_keys(owners: npt.NDArray[np.int64], values: pa.Array) -> npt.NDArray[np.int64] | None:
    """Numbers that are equal for equal values of one owner; None where Arrow does not compare them as Java does."""
    if pa.types.is_nested(values.type) or pa.types.is_floating(values.type):
        return None
    codes = arrow_numpy.values(values.dictionary_encode(null_encoding="encode").indices).astype(np.int64)
    return owners * (int(codes.max(initial=0)) + 1) + codes


def _union_unless_lone(self: Aggregator, column: pa.Array, events: Events) -> _Done:
    """Sketches and bitmaps: lone values stay as they are, others are united value by value."""
    _refuse_retract(self, events)
    groups = events.groups
    filled = _and(events.live(), groups.valid(column))
    counts = groups.sizes if filled is None else np.add.reduceat(filled.astype(np.int64), groups.starts)
    return _picked(groups, groups.last(filled)), counts > 1


_VECTOR: Final[dict[str, Callable[[Aggregator, pa.Array, Events], _Done | None]]] = {
    "primary-key": _primary_key,
    "last_value": _last_value,
    "last_non_null_value": _last_non_null,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null,
    "first_not_null_value": _first_non_null,
    "max": _extreme(True),
    "min": _extreme(False),
    "bool_and": _extreme(False),
    "bool_or": _extreme(True),
    "sum": _sum,
    "product": _product,
    "listagg": _listagg,
    "collect": _collect,
    "merge_map": _merge_map,
    "hll_sketch": _union_unless_lone,
    "theta_sketch": _union_unless_lone,
    "rbm32": _union_unless_lone,
    "rbm64": _union_unless_lone,
}
