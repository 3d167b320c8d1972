"""Merge engines deduplicate, first-row and partial-update, and the choice of an engine.

Partial-update: non-null columns replace older values, alone or in sequence groups. Keys with deletes in tables with
sequence groups are merged row by row: a delete may set columns to null, retract aggregates or remove the row, depending
on the current sequence of each group, which cannot be computed on whole columns.

Source: Java `mergetree/compact/{Deduplicate,FirstRow,PartialUpdate}MergeFunction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.engine.merge.aggregators import Aggregator, Events
from paimon_spark.engine.merge.aggregators_exact import exact_aggregate
from paimon_spark.engine.merge.exact_values import Value, from_python, order_key, to_python
from paimon_spark.engine.merge.key_value import NO_ROW, Bool, ColumnResult, Groups, Kinds, MergedGroups, Rows
from paimon_spark.engine.merge.ordering import column_words, single_word, value_words
from paimon_spark.engine.merge.sorted_merge import MergeFunction
from paimon_spark.errors import DataError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.merge_rules import SequenceGroup, column_functions, partial_update_groups
from paimon_spark.options.core import MergeEngine
from paimon_spark.options.table import TableOptions
from paimon_spark.types import RowKind


class _Engine:
    """Base of the engines that need no other columns than those merged."""

    newest_wins = False

    def required(self, columns: Sequence[str]) -> tuple[str, ...]:
        return tuple(columns)


class Deduplicate(_Engine):
    """The newest row wins, a delete too."""

    def __init__(self, ignore_delete: bool) -> None:
        self._ignore_delete = ignore_delete
        self.newest_wins = not ignore_delete

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> MergedGroups:
        retracts = groups.retracts() if self._ignore_delete else None
        places = groups.last(None if retracts is None else ~retracts)
        return MergedGroups(_kinds_at(groups, places), {}, groups.rows_at(places))


class _FirstRow(_Engine):
    """The oldest row wins; there is nothing to delete."""

    def __init__(self, ignore_delete: bool) -> None:
        self._ignore_delete = ignore_delete

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> MergedGroups:
        retracts = groups.retracts()
        if retracts is not None and not self._ignore_delete:
            raise DataError(
                "merge engine first-row cannot merge rows of kind -U or -D; set 'ignore-delete' = 'true' on the "
                "table to skip them"
            )
        places = groups.first(None if retracts is None else ~retracts)
        return MergedGroups(_kinds_at(groups, places), {}, groups.rows_at(places))


def _kinds_at(groups: Groups, places: Rows) -> Kinds | None:
    return None if groups.kinds is None else np.where(places == NO_ROW, 0, groups.kinds[places])


def create_merge_function(schema: TableSchema, options: TableOptions) -> MergeFunction:
    """The merge engine of a table, for reading with `schema`.

    Raises:
        InvalidOptionError: options of the engine or of a column contradict each other or the schema.
        UnsupportedFeatureError: an aggregate function is unknown.
    """
    # Most tables do without the modules of aggregation.
    match options.merge_engine:
        case MergeEngine.DEDUPLICATE:
            return Deduplicate(options.ignore_delete)
        case MergeEngine.FIRST_ROW:
            return _FirstRow(options.ignore_delete)
        case MergeEngine.PARTIAL_UPDATE:
            return _PartialUpdate(schema, options)
        case MergeEngine.AGGREGATION:
            from paimon_spark.engine.merge.aggregators import Aggregation

            return Aggregation(schema, options)


class _PartialUpdate:
    """Merge function of `merge-engine` = `partial-update`."""

    newest_wins = False

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        self._ignore_delete = options.ignore_delete
        self._remove_on_delete = options.merge.partial_update_removes
        self._groups = partial_update_groups(schema, options)
        self._removing = frozenset(options.merge.removing_columns)
        self._group_of = {column: g for g in self._groups for column in g.columns}
        self._not_null = frozenset(f.name for f in schema.fields if not f.type.nullable)
        self._functions = {name: Aggregator(*found) for name, found in column_functions(schema, options).items()}

    def required(self, columns: Sequence[str]) -> tuple[str, ...]:
        of_columns = [self._group_of[c] for c in columns if c in self._group_of]
        removing = [group for group in self._groups if self._removing.intersection(group.sequence)]
        return tuple(dict.fromkeys([*columns, *(s for group in (*of_columns, *removing) for s in group.sequence)]))

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> MergedGroups:
        retracts = groups.retracts()
        if not self._groups:
            return self._merge_ungrouped(columns, groups, wanted, retracts)
        if retracts is None:
            return MergedGroups(None, self._merge_grouped(columns, groups, wanted))
        exactly = groups.any(retracts)
        by_columns = self._merge_grouped(columns, groups.subset(~exactly), wanted)
        exact, exact_kinds = self._merge_exactly(columns, groups.subset(exactly), wanted)
        kinds = np.zeros(len(groups), np.int8)
        kinds[exactly] = exact_kinds
        results = {}
        for name in wanted:
            rows = np.full(len(groups), NO_ROW, np.int64)
            rows[~exactly] = by_columns[name].rows
            results[name] = ColumnResult(rows, by_columns[name].extra)
            results[name].replace(columns[name], exactly, exact[name])
        return MergedGroups(kinds, results)

    def _merge_ungrouped(
        self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str], retracts: Bool | None
    ) -> MergedGroups:
        used, kinds = (None, None) if retracts is None else self._after_deletes(groups, retracts)
        results = {}
        for name in wanted:
            filled = groups.valid(columns[name])
            mask = used if filled is None else filled if used is None else used & filled
            if filled is not None and name in self._not_null and (~filled if used is None else used & ~filled).any():
                raise DataError(f"column {name!r} is NOT NULL, but a row to merge has null there", column=name)
            results[name] = ColumnResult.picked(groups.rows_at(groups.last(mask)))
        return MergedGroups(kinds, results)

    def _after_deletes(self, groups: Groups, retracts: Bool) -> tuple[Bool, Kinds]:
        """Places whose values count, and the kinds of the merged rows, when there are retracts but no groups."""
        first_retracts = np.zeros(len(retracts), np.bool_)
        first_retracts[groups.starts] = retracts[groups.starts]
        adds = ~retracts
        used = adds | first_retracts
        gone = ~groups.any(adds)
        if not self._ignore_delete:
            if not self._remove_on_delete:
                raise DataError(
                    "merge engine partial-update cannot merge rows of kind -U or -D as the table is configured; set "
                    "one of 'ignore-delete' (skip them), 'partial-update.remove-record-on-delete' (remove the row) or "
                    "sequence groups (take columns back) on the table"
                )
            assert groups.kinds is not None
            deletes = groups.kinds == RowKind.DELETE
            from_place: Rows = np.repeat(groups.last(deletes), groups.sizes)
            used = (used | deletes) & (np.arange(len(used)) >= from_place)
            gone |= deletes[groups.last_places]
        return used, np.where(gone, np.int8(RowKind.DELETE), np.int8(RowKind.INSERT))

    def _merge_grouped(
        self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]
    ) -> dict[str, ColumnResult]:
        """Merge where all rows are adds."""
        if not len(groups):
            return {name: ColumnResult.picked(np.empty(0, np.int64)) for name in wanted}
        states = {
            group: freshness(columns, group, groups)
            for group in dict.fromkeys(self._group_of[n] for n in wanted if n in self._group_of)
        }
        results = {}
        for name in wanted:
            group: SequenceGroup | None = self._group_of.get(name)
            function = self._functions.get(name)
            if group is None:
                places = groups.last(groups.valid(columns[name]))
                results[name] = ColumnResult.picked(groups.rows_at(places))
            elif function is None:
                results[name] = ColumnResult.picked(groups.rows_at(groups.last(states[group].accepted)))
            else:
                accepted, older = states[group]
                events = Events(groups, accepted | older, older=older if older.any() else None)
                results[name] = function.aggregate(columns[name], events)
        return results

    def _merge_exactly(
        self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]
    ) -> tuple[dict[str, pa.Array], Kinds]:
        run = _ExactPartialUpdate(
            {name: columns[name] for name in self.required(wanted)},
            self._group_of,
            self._functions,
            self._removing,
            self._ignore_delete,
            self._not_null,
        )
        return run.merge(groups)


class _Freshness(NamedTuple):
    """For each place, whether it is newer or older than the previous ones of its group.

    Attributes:
        accepted: the place's sequence is not null and not smaller than any before: it replaces.
        older: the place's sequence is not null but smaller than one before.
    """

    accepted: Bool
    older: Bool


def freshness(columns: Mapping[str, pa.Array], group: SequenceGroup, groups: Groups) -> _Freshness:
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
        return _Freshness(accepted, ~accepted)
    return _Freshness(accepted & present, present & ~accepted)


def _sequence_word(columns: Mapping[str, pa.Array], group: SequenceGroup) -> npt.NDArray[Any]:
    """One integer per row in the order of the sequence columns, nulls first."""
    if len(group.sequence) == 1:
        words = value_words(columns[group.sequence[0]])
    else:
        words = [word for name in group.sequence for word in column_words(columns[name])]
    return single_word(words, len(words[0]))


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


Row = dict[str, Value]


class _ExactPartialUpdate:
    """One merge of some keys; `columns` are the ones to merge and the sequence columns they depend on."""

    def __init__(
        self,
        columns: Mapping[str, pa.Array],
        group_of: Mapping[str, SequenceGroup],
        functions: Mapping[str, Aggregator],
        removing: frozenset[str],
        ignore_delete: bool,
        not_null: frozenset[str],
    ) -> None:
        self._columns = columns
        self._group_of = {name: group_of[name] for name in columns if name in group_of}
        self._groups = tuple(dict.fromkeys(self._group_of.values()))
        self._members = {
            g: tuple(n for n in columns if self._group_of.get(n) == g and n not in g.sequence) for g in self._groups
        }
        self._free = tuple(n for n in columns if n not in self._group_of)
        self._functions = {
            name: exact_aggregate(f.function, f.options, columns[name].type)
            for name, f in functions.items()
            if name in columns
        }
        self._removing = removing
        self._ignore_delete = ignore_delete
        self._not_null = not_null

    def merge(self, groups: Groups) -> tuple[dict[str, pa.Array], Kinds]:
        """Each group's row, column by column, and its kind."""
        taken = arrow_numpy.take_indices(groups.rows)
        values = {name: to_python(column.take(taken)) for name, column in self._columns.items()}
        kinds = [0] * len(groups.rows) if groups.kinds is None else groups.kinds.tolist()
        starts = groups.starts.tolist()
        rows: list[Row] = []
        out_kinds = np.empty(len(starts), np.int8)
        for number, (begin, end) in enumerate(zip(starts, [*starts[1:], len(kinds)], strict=True)):
            records = [{name: v[place] for name, v in values.items()} for place in range(begin, end)]
            row, out_kinds[number] = self._merge_key(records, kinds[begin:end])
            rows.append(row)
        arrays = {
            name: from_python(
                [self._functions[name].finish(r[name]) if name in self._functions else r[name] for r in rows],
                column.type,
            )
            for name, column in self._columns.items()
        }
        return arrays, out_kinds

    def _merge_key(self, records: list[Row], kinds: list[int]) -> tuple[Row, int]:
        for function in self._functions.values():
            function.reset()
        row: Row = dict.fromkeys(self._columns)
        filled = added = deleted = False
        for record, kind in zip(records, kinds, strict=True):
            deleted = False
            if not kind & 1:
                self._update(row, record)
                filled = added = True
                continue
            if not filled:
                row = self._initial(record)
                filled = True
            if self._ignore_delete:
                continue
            if self._retract(row, record, kind):
                row = self._initial(record)
                deleted = True
        return row, int(RowKind.DELETE if deleted or not added else RowKind.INSERT)

    def _initial(self, record: Row) -> Row:
        for name, value in record.items():
            if value is None and name in self._not_null:
                raise DataError(f"column {name!r} is NOT NULL, but a row to merge has null there", column=name)
        return dict(record)

    def _update(self, row: Row, record: Row) -> None:
        for name in self._free:
            if record[name] is not None:
                row[name] = record[name]
        for group in self._groups:
            if all(record[s] is None for s in group.sequence):
                continue
            newer = self._not_older(group, record, row)
            for name in self._members[group]:
                function = self._functions.get(name)
                if function is None:
                    if newer:
                        row[name] = record[name]
                elif newer:
                    row[name] = function.agg(row[name], record[name])
                else:
                    row[name] = function.agg_reversed(row[name], record[name])
            if newer:
                row.update((s, record[s]) for s in group.sequence)

    def _retract(self, row: Row, record: Row, kind: int) -> bool:
        """Retract a record; True if that removes the whole row."""
        for group in self._groups:
            if all(record[s] is None for s in group.sequence):
                continue
            newer = self._not_older(group, record, row)
            if newer and kind == RowKind.DELETE and self._removing.intersection(group.sequence):
                return True
            for name in self._members[group]:
                function = self._functions.get(name)
                if function is None:
                    if newer:
                        row[name] = None
                elif not function.options.ignore_retract:
                    row[name] = function.retract(row[name], record[name])
            if newer:
                row.update((s, record[s]) for s in group.sequence)
        return False

    def _not_older(self, group: SequenceGroup, record: Row, row: Row) -> bool:
        return [order_key(record[s]) for s in group.sequence] >= [order_key(row[s]) for s in group.sequence]
