"""Merge engines: how the rows of one key are combined.

Source: Java `mergetree/compact/{Deduplicate,FirstRow,PartialUpdate}MergeFunction`,
`mergetree/compact/aggregate/AggregateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.key_value import NO_ROW, ColumnResult, Groups, Kinds, Merged, Rows
from paimon_spark.engine.merge.sorted_merge import MergeFunction
from paimon_spark.errors import DataError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.merge_rules import column_functions
from paimon_spark.options.core import MergeEngine
from paimon_spark.options.table import TableOptions
from paimon_spark.types import RowKind

if TYPE_CHECKING:
    from paimon_spark.engine.merge.aggregators import Aggregator, Events


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

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> Merged:
        retracts = groups.retracts() if self._ignore_delete else None
        places = groups.last(None if retracts is None else ~retracts)
        return Merged(_kinds_at(groups, places), {}, groups.rows_at(places))


class FirstRow(_Engine):
    """The oldest row wins; there is nothing to delete."""

    def __init__(self, ignore_delete: bool) -> None:
        self._ignore_delete = ignore_delete

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> Merged:
        retracts = groups.retracts()
        if retracts is not None and not self._ignore_delete:
            raise DataError(
                "merge engine first-row cannot merge rows of kind -U or -D; set 'ignore-delete' = 'true' on the "
                "table to skip them"
            )
        places = groups.first(None if retracts is None else ~retracts)
        return Merged(_kinds_at(groups, places), {}, groups.rows_at(places))


def _kinds_at(groups: Groups, places: Rows) -> Kinds | None:
    return None if groups.kinds is None else np.where(places == NO_ROW, 0, groups.kinds[places])


class Aggregation(_Engine):
    """Every value column has a function that takes the rows in one by one."""

    def __init__(self, functions: Mapping[str, Aggregator], remove_on_delete: bool) -> None:
        self._functions = functions
        self._remove_on_delete = remove_on_delete

    def merge(self, columns: Mapping[str, pa.Array], groups: Groups, wanted: Sequence[str]) -> Merged:
        events, kinds = self._events(groups)
        results: dict[str, ColumnResult] = {
            name: self._functions[name].aggregate(columns[name], events) for name in wanted
        }
        return Merged(kinds, results)

    def _events(self, groups: Groups) -> tuple[Events, Kinds | None]:
        from paimon_spark.engine.merge.aggregators import Events

        retracts = groups.retracts()
        if retracts is None:
            return Events(groups), None
        assert groups.kinds is not None
        deletes = groups.kinds == RowKind.DELETE
        if not self._remove_on_delete or not deletes.any():
            return Events(groups, retract=retracts), None
        last = groups.last_places
        kinds = np.where(deletes[last], np.int8(RowKind.DELETE), np.int8(RowKind.INSERT))
        updates = retracts & ~deletes
        return Events(groups, retract=updates if updates.any() else None, reset=deletes), kinds


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
            return FirstRow(options.ignore_delete)
        case MergeEngine.PARTIAL_UPDATE:
            from paimon_spark.engine.merge.partial_update import PartialUpdate

            return PartialUpdate(schema, options)
        case MergeEngine.AGGREGATION:
            from paimon_spark.engine.merge.aggregators import Aggregator

            functions = {name: Aggregator(*found) for name, found in column_functions(schema, options).items()}
            return Aggregation(functions, options.merge.aggregation_removes)
