"""Records that make a merge engine give rows that were merged elsewhere.

Engines that merge columns would merge a row into the one that is there. Where nobody changed that one since, the
records that made the new row give it again. Otherwise a row is replaced: by a record of kind -D, from which on the
engine starts again, and the new row in a later file, or by the row alone where each of its columns takes the place of
the old one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.engine.row_diff.compare import MergedRows, key_codes
from paimon_spark.engine.row_level.strategy import ADVICE, REPLACES, cleared_columns
from paimon_spark.format.arrays.arrow_numpy import Bool, boolean_array, fixed_array, values
from paimon_spark.format.arrays.pieces import taken, whole
from paimon_spark.metadata.definition.merge_rules import sequence_groups
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import ChangelogProducer, MergeEngine
from paimon_spark.types import VALUE_KIND, RowKind

_RETRACTS: Final = (int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE))


@dataclass(frozen=True, slots=True)
class Records:
    """Records to write, the removals in files before all others of their keys.

    Attributes:
        removals, rows: with the column `VALUE_KIND`.
        changed: number of keys whose changed row the engine cannot be given.
        removed: number of keys that the engine cannot remove.
    """

    removals: pa.Table
    rows: pa.Table
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Replacement:
    """How the rows of a table are replaced. Picklable.

    Attributes:
        engine: the merge engine.
        removes: a record of kind -D removes the row of its key.
        cleared: columns that are null in such a record.
        starts_again: after it the engine gives the next record as it is.
        overwrites: a record takes the place of the row that is there, but for its nulls.
        keys: the primary key.
    """

    engine: MergeEngine
    removes: bool
    cleared: tuple[str, ...]
    starts_again: bool
    overwrites: bool
    keys: tuple[str, ...]

    @classmethod
    def of(cls, handle: TableHandle) -> Replacement:
        options, schema = handle.options, handle.schema
        engine, merge = options.merge_engine, options.merge
        removes = not options.ignore_delete and (
            engine is MergeEngine.DEDUPLICATE
            or (engine is MergeEngine.AGGREGATION and merge.aggregation_removes)
            or (engine is MergeEngine.PARTIAL_UPDATE and merge.partial_update_removes)
        )
        values = [f for f in schema.fields if f.name not in (*schema.primary_keys, *options.sequence_fields)]
        functions = {f.name: merge.column(f.name).aggregate_function or merge.default_aggregate for f in values}
        replaced = {name for name, function in functions.items() if function in REPLACES}
        grouped = bool(sequence_groups(schema, merge))
        if engine is MergeEngine.DEDUPLICATE:
            return cls(engine, removes, (), starts_again=True, overwrites=True, keys=schema.primary_keys)
        is_merging = engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
        return cls(
            engine,
            removes,
            cleared_columns(handle),
            # A record of kind -D leaves columns that cannot be null, and all of them with this producer.
            starts_again=removes
            and options.changelog_producer is not ChangelogProducer.INPUT
            and not grouped
            and all(f.type.nullable or f.name in replaced for f in values),
            overwrites=is_merging and not grouped and len(replaced) == len(values),
            keys=schema.primary_keys,
        )

    @property
    def merges_columns(self) -> bool:
        """Whether records that made a row make it again, on top of the row that is there."""
        return self.engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)

    def limits(self) -> tuple[str, ...]:
        """Which changes cannot always be written to the table, and what to do about it."""
        if self.engine is MergeEngine.FIRST_ROW:
            return ("with merge-engine first-row a rebase adds rows, but neither changes nor removes any",)
        if self.engine is MergeEngine.DEDUPLICATE:
            return () if self.removes else ("with ignore-delete a rebase removes no row",)
        if self.starts_again:
            return ()
        kept = "" if self.removes else ", and removes no row"
        what = "changes a row only while the branch has all its snapshots since the fork, and main the row of then"
        if self.overwrites:
            what = "sets no value to null, unless the branch has all its snapshots since the fork"
        return (f"with merge-engine {self.engine.value} a rebase {what}{kept}: {ADVICE[self.engine]}",)

    def records(self, merged: MergedRows, written: pa.Table | None) -> Records:
        """The records that give the merged rows.

        Args:
            merged: the rows.
            written: the records that made them, in order and with their kinds, where these are known.
        """
        rows = merged.rows
        changed = ~merged.removed & merged.there
        new = ~merged.removed & ~merged.there
        again = np.zeros(len(rows), np.bool_)
        if self.engine is MergeEngine.DEDUPLICATE:
            new |= changed
            if self.removes:
                kinds = np.where(merged.removed, int(RowKind.DELETE), int(RowKind.INSERT))
                return Records(_with_kinds(rows.slice(0, 0), kinds[:0]), _with_kinds(rows, kinds))
        of_record = np.zeros(0, np.int64)
        if self.merges_columns and written is not None and len(written):
            of_key, again = self._repeatable(merged, written)
            of_record = np.flatnonzero(of_key)
        left = changed & ~again
        over = left & ~self._nulled(merged, left) if self.overwrites else np.zeros(len(rows), np.bool_)
        replaced = left & ~over & self.starts_again
        gone = merged.removed & self.removes
        removals = _as_kind(merged.old, gone | replaced, RowKind.DELETE)
        inserts = _as_kind(rows, (new & ~again) | over | replaced, RowKind.INSERT)
        if len(of_record):
            assert written is not None
            inserts = pa.concat_tables([inserts, taken(written, of_record).select(inserts.column_names)])
        return Records(
            self._cleared(removals), inserts, int((left & ~over & ~replaced).sum()), int((merged.removed & ~gone).sum())
        )

    def _repeatable(self, merged: MergedRows, written: pa.Table) -> tuple[Bool, Bool]:
        """The records to repeat, and the rows that they make: no record retracts, and main has what they began on."""
        both = pa.concat_tables([merged.rows.select(self.keys), written.select(self.keys)])
        codes = key_codes([whole(both.column(k)) for k in self.keys], len(both))
        of_row, of_record = codes[: len(merged.rows)], codes[len(merged.rows) :]
        retracts = np.isin(values(whole(written.column(VALUE_KIND))), _RETRACTS)
        good = np.isin(of_row, of_record) & ~np.isin(of_row, of_record[retracts]) & merged.untouched & ~merged.removed
        return np.isin(of_record, of_row[good]), good

    @staticmethod
    def _nulled(merged: MergedRows, where: Bool) -> Bool:
        """Rows with a null where main has a value."""
        found = np.zeros(len(merged.rows), np.bool_)
        if not where.any():
            return found
        for name in merged.rows.column_names:
            new, old = (whole(t.column(name)) for t in (merged.rows, merged.old))
            if new.null_count:
                found |= values(pc.and_(pc.is_null(new), pc.is_valid(old)))
        return found

    def _cleared(self, removals: pa.Table) -> pa.Table:
        for name in self.cleared:
            place = removals.schema.get_field_index(name)
            field = removals.schema.field(place)
            removals = removals.set_column(place, field, pa.nulls(len(removals), field.type))
        return removals


def _as_kind(rows: pa.Table, where: Bool, kind: RowKind) -> pa.Table:
    chosen = rows.filter(boolean_array(where))
    return _with_kinds(chosen, np.full(len(chosen), int(kind)))


def _with_kinds(rows: pa.Table, kinds: np.ndarray) -> pa.Table:
    field = pa.field(VALUE_KIND, pa.int8(), nullable=False)
    return rows.append_column(field, fixed_array(kinds.astype(np.int8), pa.int8()))


def batches(records: Records) -> Iterator[list[pa.RecordBatch]]:
    """The batches of each step: files of one step end before the next begins."""
    for table in (records.removals, records.rows):
        if len(table):
            yield table.to_batches()
