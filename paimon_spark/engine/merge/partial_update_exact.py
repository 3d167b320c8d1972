"""Partial-update row by row, for keys with deletes in tables with sequence groups.

A delete may set columns to null, retract aggregates or remove the row, depending on the current sequence of each group,
which cannot be computed on whole columns.

Source: Java `mergetree/compact/PartialUpdateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.aggregators import Aggregator
from paimon_spark.engine.merge.aggregators_exact import exact_aggregate
from paimon_spark.engine.merge.exact_values import Value, from_python, order_key, to_python
from paimon_spark.engine.merge.key_value import Groups, Kinds
from paimon_spark.errors import DataError
from paimon_spark.format.arrays import arrow_numpy
from paimon_spark.metadata.definition.merge_rules import SequenceGroup
from paimon_spark.types import RowKind

Row = dict[str, Value]


class ExactPartialUpdate:
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
