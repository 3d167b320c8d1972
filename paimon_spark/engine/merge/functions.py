"""Merge engines that keep one of the rows of a key, and the choice of an engine.

Source: Java `mergetree/compact/{Deduplicate,FirstRow}MergeFunction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from paimon_spark.engine.merge.key_value import NO_ROW, Groups, Kinds, Merged, Rows
from paimon_spark.engine.merge.sorted_merge import MergeFunction
from paimon_spark.errors import DataError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.core import MergeEngine
from paimon_spark.options.table import TableOptions


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
            from paimon_spark.engine.merge.aggregators import Aggregation

            return Aggregation(schema, options)
