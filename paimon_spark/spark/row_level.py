"""DELETE and UPDATE as Spark jobs, and the commit of changed rows for MERGE.

Tables with keys: the rows that change are read, and written with their row kinds. Append tables: each row is read with
its place (file and position); tasks mark or rewrite the files that lose rows, and write the new rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import ArrayType, StructType
from pyspark.sql.types import DataType as SparkType

from paimon_spark.engine.read.file_reader import file_url
from paimon_spark.engine.row_level.job import check_unmerged
from paimon_spark.engine.row_level.strategy import (
    DeleteStrategy,
    check_set,
    check_updates,
    cleared_columns,
    delete_strategy,
    removing_columns,
    strategy_of_delete,
    undeletable,
)
from paimon_spark.engine.scan.fallback import OtherPartitions, other_branch, other_partitions
from paimon_spark.engine.scan.one_branch import plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks.split import FILE_PATH, NANOSECONDS, ROW_INDEX
from paimon_spark.engine.write.bucketing import PartitionNumbers
from paimon_spark.errors import ColumnNotFoundError, DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.casts.nested_assignment import column_assignment
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.batch_write import options_of
from paimon_spark.jobs.branch_access import at_head, reopen_to_change
from paimon_spark.jobs.commit import WriteResult
from paimon_spark.jobs.existing_keys import check_widened_keys
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.row_level import KEEPS, OLD_ROW_ID, is_cut_by_spark
from paimon_spark.jobs.table_scan import scan_of
from paimon_spark.metadata.definition.alter import apply
from paimon_spark.metadata.definition.from_arrow import merged_columns
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot
from paimon_spark.options.core import FALLBACK_BRANCH, PRIMARY_BRANCH, MergeEngine
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.options.write import SchemaMergeOptions
from paimon_spark.options.write_request import ROW_LEVEL, ROW_LEVEL_BASE, ROW_LEVEL_COLUMNS, WriteMode
from paimon_spark.spark.dataframe import dataframe
from paimon_spark.spark.dataframe_write import save_job
from paimon_spark.spark.dataframe_write import write as write_dataframe
from paimon_spark.spark.schema import aligned, fitted, spark_type
from paimon_spark.spark.session import session_or_new
from paimon_spark.text import sql_row
from paimon_spark.types import ROW_ID, SEQUENCE_NUMBER, VALUE_KIND, RowKind, RowType, is_finer_than_spark, quoted

ACTION: Final = "__paimon_action"
"""Column of changed rows that holds one of the next three."""
DELETE, UPDATE, INSERT = "D", "U", "I"
_NO_COLUMNS: Final = pa.RecordBatch.from_arrays([], [])
PLACES: Final = (FILE_PATH, ROW_INDEX)
_KINDS: Final = {DELETE: RowKind.DELETE, UPDATE: RowKind.UPDATE_AFTER, INSERT: RowKind.INSERT}
_SPREAD: Final = 32
"""Tasks that new rows are spread over, at most."""
_NEW: Final = "__paimon_new_"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of rows of a table.

    Attributes:
        handle: the branch, with the schema that the change commits.
        stored: the same with the schema that it has now; another one where the change adds or widens columns.
        base_id: the head before any row was read, 0 for none.
        options: of the write, so that it makes the same schema.
        by_place: rows of a table with keys are deleted by their places, as those of a table without.
    """

    table: OpenedTable
    handle: TableHandle
    stored: TableHandle
    base_id: int
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    by_place: bool = False

    @classmethod
    def of(cls, table: OpenedTable, columns: RowType | None = None, how: SchemaMergeOptions | None = None) -> Change:
        """A change of the head of the branch of `table`; with `how`, of its schema too, for rows of `columns`."""
        stored = reopen_to_change(at_head(table))
        # Spark reads the rows, perhaps for hours, before it asks for a writer; changes meanwhile must be conflicts.
        base = latest_snapshot(stored)
        handle, options = stored, dict[str, str]()
        if columns is not None and how is not None:
            changes = merged_columns(stored.schema.row_type, columns, how)
            if changes:
                check_widened_keys(stored, changes)
                handle = stored.with_schema(apply(stored.schema, changes, table=stored.describe()))
                options = replace(how, enabled=True).as_text()
        return cls(table, handle, stored, 0 if base is None else base.id, options)

    @property
    def names(self) -> list[str]:
        """The table's columns."""
        return list(self.handle.schema.row_type.names)

    @property
    def keyed(self) -> bool:
        """Whether rows are changed by writing rows of their keys."""
        return bool(self.handle.schema.primary_keys) and not self.by_place

    @property
    def row_id(self) -> list[str]:
        """Columns that identify a row."""
        return list(self.handle.schema.primary_keys) or list(PLACES)

    @property
    def carried(self) -> list[str]:
        """Columns of old rows that their new rows are written with: their places, and their ids where they have one."""
        places = [] if self.keyed else list(PLACES)
        ids = [OLD_ROW_ID] if self.handle.options.row_tracking else []
        return [*places, *ids, *self.nanoseconds.values()]

    @property
    def nanoseconds(self) -> dict[str, str]:
        """The columns with the whole values of TIMESTAMP(7) to (9) columns, by the name of these.

        A new row has a null there where its value was assigned.
        """
        return {f.name: NANOSECONDS + f.name for f in self.handle.schema.fields if is_finer_than_spark(f.type)}

    def read(self, session: SparkSession, where: str | None = None, time_zone: str | None = None) -> DataFrame:
        """The rows of the head, with the place of every row where rows have one; `where` is what `Table.scan` takes."""
        tracks_rows = self.handle.options.row_tracking
        places = [] if self.keyed else [*PLACES, ROW_ID, SEQUENCE_NUMBER] if tracks_rows else list(PLACES)
        columns = [*self.stored.schema.row_type.names, *places, *self.nanoseconds.values()]
        zone = {} if where is None or time_zone is None else {TIME_ZONE.key: time_zone}
        head = {"scan.mode": "latest"}  # whatever start the table's options have
        rows = self._with_new_columns(dataframe(scan_of(self.table, columns, where, {**head, **zone}), session))
        # The source of a merge may have a `_ROW_ID` too.
        return rows.withColumn(OLD_ROW_ID, F.col(ROW_ID)) if tracks_rows else rows

    def _with_new_columns(self, rows: DataFrame) -> DataFrame:
        """Rows as they are stored → as the changed schema has them; new columns and fields are null."""
        if self.handle is self.stored:
            return rows
        made = []
        for f in self.handle.schema.fields:
            wanted = spark_type(f.type, f.name)
            if f.name in rows.columns:
                given = rows.schema[f.name].dataType
                column = F.col(quoted(f.name))
                made.append(column if given == wanted else aligned(column, given, f.type, f.name).cast(wanted))
            else:
                made.append(F.lit(None).cast(wanted))
        others = [F.col(quoted(c)) for c in rows.columns if c not in self.names]
        return rows.select(*(c.alias(n) for c, n in zip(made, self.names, strict=True)), *others)

    def run(self, rows: DataFrame, operation: str, changed: Collection[str] = ()) -> WriteResult:
        """Commit `rows`: the table's columns, `carried` ones and ACTION. `changed` are the columns that UPDATE sets."""
        self._refuse_other_branch(rows)
        if self.keyed:
            return _run_keyed(self, rows)
        how = {ROW_LEVEL.key: operation, ROW_LEVEL_BASE.key: str(self.base_id)}
        evolves = self.handle.options.data_evolution
        if evolves:
            how[ROW_LEVEL_COLUMNS.key] = json.dumps(sorted(changed))
            unchanged = [c for n, c in self.nanoseconds.items() if n not in changed]
            if operation == "UPDATE":
                unchanged += [n for n in self.names if n not in changed]
                rows = rows.drop(*unchanged)
        # All rows of a file go to one task; new rows are spread over several.
        hashed = F.xxhash64(*(F.col(quoted(f.name)) for f in rows.schema.fields if has_hash(f.dataType)))
        spread = F.concat(F.lit("new "), F.pmod(hashed, F.lit(_SPREAD)).cast("string"))
        marked = rows.withColumn(KEEPS, F.col(ACTION) != DELETE)
        if operation == "DELETE":
            marked = marked.select(FILE_PATH, ROW_INDEX, KEEPS)
            placed = marked.repartition(F.col(FILE_PATH))
        else:
            placed = marked.drop(ACTION).repartition(F.coalesce(F.col(FILE_PATH), spread))
        if evolves:  # changed rows of one file at a time are in the memory of a task
            placed = placed.sortWithinPartitions(FILE_PATH, ROW_INDEX)
        return save_job(self.handle, placed, {**options_of(self.table, self.options), **how})

    def _refuse_other_branch(self, rows: DataFrame) -> None:
        """Refuse to change rows that are read from a fallback branch, or to empty a partition that it also has."""
        if other_branch(self.handle) is None:
            return
        head = latest_snapshot(self.handle)
        beside = other_partitions(self.handle, head)
        if beside is None or not beside.read | beside.behind:
            return
        gone = self._leaving(rows.where(F.col(ACTION) != INSERT), head, beside)
        for partition in sorted(beside.read & gone.keys()):
            raise beside.not_reached(partition)
        losing = {p for p in beside.behind if gone.get(p)}
        if losing:
            left = dict(gone)
            for partition, count in self._by_partition(self.read(rows.sparkSession), F.count(F.lit(1))):
                left[partition] = left.get(partition, 0) - count
            for partition in sorted(p for p in losing if left[p] >= 0):
                raise beside.would_appear(partition)

    def _leaving(self, rows: DataFrame, head: Snapshot | None, beside: OtherPartitions) -> dict[bytes, int]:
        """The number of `rows` that leave each of their partitions."""
        deleted = F.sum((F.col(ACTION) == DELETE).cast("bigint"))
        if self.keyed:  # the key has the partition
            return {partition: gone or 0 for partition, gone in self._by_partition(rows, deleted)}
        places = _places(beside.other.handle, beside.snapshot) | _places(self.handle, head)
        out: dict[bytes, int] = {}
        for new, path, gone, count in self._by_partition(rows, deleted, F.count(F.lit(1)), also=FILE_PATH):
            old = places.get(path)
            if old is not None:  # else the commit fails, as the file is gone
                out[old] = out.get(old, 0) + (count if new != old else gone or 0)
        return out

    def _by_partition(self, rows: DataFrame, *numbers: Column, also: str | None = None) -> list[tuple[Any, ...]]:
        """The rows grouped by partition and `also`: the partition as BinaryRow bytes, `also` and the aggregates."""
        keys = self.handle.schema.partition_type
        others = () if also is None else (also,)
        table = rows.groupBy(*(F.col(quoted(n)) for n in (*keys.names, *others))).agg(*numbers).toArrow()
        if not keys.fields and also is None and table.column(0)[0].as_py() in (None, 0):
            table = table.slice(0, 0)  # without a column to group by, no rows give one row
        arrays = [
            column_assignment(table.column(i).type, f.type, f.name, self.handle.name)(table.column(i).combine_chunks())
            for i, f in enumerate(keys)
        ]
        seen = PartitionNumbers(keys)
        numbered = np.zeros(table.num_rows, np.int64)
        if table.num_rows:
            numbered += seen.of(pa.RecordBatch.from_arrays(arrays, list(keys.names)) if arrays else _NO_COLUMNS)
        columns = [column.to_pylist() for column in table.columns[len(arrays) :]]
        return list(zip([seen.rows[n] for n in numbered.tolist()], *columns, strict=True))


def _places(handle: TableHandle, snapshot: Snapshot | None) -> dict[str, bytes]:
    """The partition of each data file, by its value of `__paimon_file_path`."""
    splits = plan_branch(handle, snapshot, ScanQuery(columns=())).splits
    return {file_url(handle.store, s, f): s.partition for s in splits for f in s.files}


def has_hash(data_type: SparkType) -> bool:
    """Whether Spark hashes values of the type: not maps and variants, nor what contains them."""
    match data_type:
        case StructType():
            return all(has_hash(f.dataType) for f in data_type.fields)
        case ArrayType():
            return has_hash(data_type.elementType)
        case _:
            return data_type.typeName() not in ("map", "variant")


def by_own_names(handle: TableHandle, values: Mapping[str, str]) -> dict[str, str]:
    """Expressions by the table's spelling of column names. Raises ColumnNotFoundError, InvalidInputError."""
    names = {n.lower(): n for n in handle.schema.row_type.names}
    if not values:
        raise InvalidInputError("no column is set; give expressions by column: {'v': 'v + 1'}")
    for name in values:
        if name.lower() not in names:
            raise ColumnNotFoundError(
                f"{handle.describe()} has no column {name!r}{did_you_mean(name, names.values())}; its columns are "
                + ", ".join(names.values()),
                column=name,
            )
    return {names[name.lower()]: str(expression) for name, expression in values.items()}


def check_assignments(handle: TableHandle, columns: Iterable[str]) -> None:
    """Refuse columns that cannot be set. Raises UnsupportedFeatureError, InvalidInputError."""
    new = list(columns)
    if new:
        check_updates(handle)
    check_set(handle, new)
    moved = [n for n in new if n in handle.schema.partition_keys]
    if moved and handle.schema.primary_keys and other_branch(handle) is not None:
        raise UnsupportedFeatureError(
            f"partition column {moved[0]} of {handle.describe()} cannot be set: its rows would go to a partition that "
            f"another branch may have ({FALLBACK_BRANCH.key} or {PRIMARY_BRANCH.key}); write them to the partition "
            "with Table.write, then delete the old ones",
            feature="update of partition columns beside a fallback branch",
            column=moved[0],
        )


def check_precision(handle: TableHandle, columns: Collection[str]) -> None:
    """Refuse updates of tables with timestamps that would be cut on their way through Spark.

    Whole values of columns that are TIMESTAMP(7) to (9) come from the files (`Change.nanoseconds`); not those inside
    other values. Rows are distributed by the columns of the key and the partition, as Spark has them. With data
    evolution only `columns`, which are set, are written.

    Raises:
        UnsupportedFeatureError: names the column.
    """
    for f in handle.schema.fields:
        identifies = f.name in handle.schema.primary_keys or f.name in handle.schema.partition_keys
        if handle.options.data_evolution and f.name not in columns:
            continue
        if not is_cut_by_spark(f.type) or (is_finer_than_spark(f.type) and not identifies):
            continue
        where = "is part of the primary key or the partition" if identifies else "holds them inside other values"
        raise UnsupportedFeatureError(
            f"column {f.name} of {handle.describe()} is {f.type} and {where}, and Spark would cut its timestamps to "
            "microseconds in the rows that change; delete the rows, and write them with Table.write of Arrow data",
            feature=f"update of tables with {f.type}",
            column=f.name,
        )


def refuse_nulls(handle: TableHandle, rows: DataFrame, changes: Mapping[str, tuple[Column, Column]]) -> None:
    """Refuse nulls where the merge of rows would keep the old value. `changes`: old and new, by column."""
    if handle.options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return
    for name, (old, new) in changes.items():
        if rows.where(old.isNotNull() & new.isNull()).limit(1).count():
            raise UnsupportedFeatureError(
                f"column {name} of {handle.describe()} cannot be set to null: merge-engine partial-update keeps the "
                "old value for a null; nothing was changed",
                feature="update to null with merge-engine partial-update",
                column=name,
            )


def refuse_twice(change: Change, rows: DataFrame) -> None:
    """Refuse a merge in which one row of the table becomes several. Raises DataError."""
    keys = [F.col(quoted(k)) for k in change.row_id]
    twice = rows.groupBy(*keys).count().where("count > 1").limit(1).collect()
    if twice:
        names = change.handle.schema.primary_keys
        key = sql_row({k: twice[0][k] for k in names})
        which = f"the row with {key}" if names else "a row of the table"
        raise DataError(
            f"{which} matches several rows of the source, so it is not clear what it becomes; nothing was "
            f"changed in {change.handle.describe()}. Make the rows of the source unique in the columns of the condition"
        )


def _run_keyed(change: Change, rows: DataFrame) -> WriteResult:
    handle = change.handle
    deleted = F.col(ACTION) == DELETE
    removing = removing_columns(handle)
    if removing and rows.where(deleted & F.coalesce(*map(_text, removing)).isNull()).limit(1).count():
        raise undeletable(handle)
    for name in cleared_columns(handle):
        for cleared in (name, NANOSECONDS + name):
            if cleared in rows.columns:
                rows = rows.withColumn(cleared, F.when(~deleted, F.col(quoted(cleared))))
    kind = F.lit(None).cast("string")
    rowkind = handle.options.write.rowkind_field
    for action, meaning in _KINDS.items():
        value = F.lit(int(meaning)).cast("byte") if rowkind is None else F.lit(meaning.symbol)
        kind = F.when(F.col(ACTION) == action, value).otherwise(kind.cast("byte") if rowkind is None else kind)
    changed = rows.withColumn(VALUE_KIND if rowkind is None else rowkind, kind).drop(ACTION)
    options = options_of(change.table, change.options)
    return write_dataframe(change.table, changed, WriteMode.APPEND, options, by_kind=True)


def _text(name: str) -> Column:
    return F.col(quoted(name)).cast("string")


def delete(table: OpenedTable, where: str) -> WriteResult:
    """As `Table.delete`."""
    change = deletion(table)
    return delete_found(change, change.read(session_or_new()).where(F.expr(where)))


def deletion(table: OpenedTable) -> Change:
    """The change of a delete. Raises UnsupportedFeatureError."""
    change = Change.of(table)
    handle = change.handle
    strategy = strategy_of_delete(handle)
    if not handle.schema.primary_keys or strategy is DeleteStrategy.RETRACTS:
        return change
    check_unmerged(handle, get_snapshot(handle, change.base_id) if change.base_id else None, None)
    return replace(change, by_place=True)


def delete_found(change: Change, rows: DataFrame) -> WriteResult:
    """Delete `rows`, which are some of those that `change.read` gives."""
    return change.run(rows.withColumn(ACTION, F.lit(DELETE)), "DELETE")


def update(table: OpenedTable, where: str | None, values: Mapping[str, str]) -> WriteResult:
    """As `Table.update`."""
    change, new = updating(table, values)
    rows = change.read(session_or_new())
    if where is not None:
        rows = rows.where(F.expr(where))
    named = {n: f"{_NEW}{i}" for i, n in enumerate(new)}
    rows = rows.select("*", *(F.expr(e).alias(named[n]) for n, e in new.items()))
    return update_found(change, rows, named)


def updating(table: OpenedTable, values: Mapping[str, str]) -> tuple[Change, dict[str, str]]:
    """The change of an update, and the new values by column. Raises as `update`."""
    change = Change.of(table)
    delete_strategy(change.handle)
    new = by_own_names(change.handle, values)
    check_assignments(change.handle, new)
    check_precision(change.handle, new)
    return change, new


def update_found(change: Change, rows: DataFrame, new: Mapping[str, str]) -> WriteResult:
    """Change `rows`, which are some of those that `change.read` gives. `new`: where a new value is, by column."""
    types = {f.name: f.dataType for f in rows.schema.fields}
    fields = {f.name: f.type for f in change.handle.schema.fields}
    values = {n: fitted(F.col(c), types[c], fields[n], n) for n, c in new.items()}
    refuse_nulls(change.handle, rows, {n: (F.col(quoted(n)), value) for n, value in values.items()})
    columns = [values[n].alias(n) if n in new else F.col(quoted(n)) for n in change.names]
    assigned = {c: F.lit(None).cast("bigint").alias(c) for n, c in change.nanoseconds.items() if n in new}
    carried = [assigned.get(c, F.col(quoted(c))) for c in change.carried]
    return change.run(rows.select(*columns, *carried, F.lit(UPDATE).alias(ACTION)), "UPDATE", new)
