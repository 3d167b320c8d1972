"""A change of rows by Spark, for DELETE, UPDATE and MERGE: reads and commits.

Rows of tables with keys are changed by writing rows of the same keys, with their row kinds. Rows of append tables are
read with their places (file and position); tasks mark or rewrite the files that lose rows, and write the new rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import ArrayType, StructType
from pyspark.sql.types import DataType as SparkType

from paimon_spark.engine.read.file_reader import file_url
from paimon_spark.engine.row_level.strategy import cleared_columns, removing_columns, undeletable
from paimon_spark.engine.scan.fallback import OtherPartitions, other_branch, other_partitions
from paimon_spark.engine.scan.one_branch import plan_branch
from paimon_spark.engine.scan.query import ScanQuery
from paimon_spark.engine.tasks import FILE_PATH, NANOSECONDS, ROW_INDEX
from paimon_spark.engine.write.bucketing import PartitionNumbers
from paimon_spark.format.casts.nested_assignment import column_assignment
from paimon_spark.format.metadata_files.snapshot import Snapshot
from paimon_spark.jobs.branch_access import at_head, reopen_to_change
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.read.table_scan import scan_of
from paimon_spark.jobs.row_level.write import KEEPS, OLD_ROW_ID
from paimon_spark.jobs.write.batch import options_of
from paimon_spark.jobs.write.commit import WriteResult
from paimon_spark.jobs.write.existing_keys import check_widened_keys
from paimon_spark.metadata.definition.alter import apply
from paimon_spark.metadata.definition.from_arrow import merged_columns
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.options.write import SchemaMergeOptions
from paimon_spark.options.write_request import ROW_LEVEL, ROW_LEVEL_BASE, ROW_LEVEL_COLUMNS, WriteMode
from paimon_spark.spark.dataframe import dataframe
from paimon_spark.spark.dataframe_write import save_job
from paimon_spark.spark.dataframe_write import write as write_dataframe
from paimon_spark.spark.schema import aligned, spark_type
from paimon_spark.types import (
    ROW_ID,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    DataField,
    RowKind,
    RowType,
    is_finer_than_spark,
    quoted,
)

ACTION: Final = "__paimon_action"
"""Column of changed rows that holds one of the next three."""
DELETE, UPDATE, INSERT = "D", "U", "I"
PLACES: Final = (FILE_PATH, ROW_INDEX)
"""Columns that say where a row lies."""
_ROW_KINDS: Final = {DELETE: RowKind.DELETE, UPDATE: RowKind.UPDATE_AFTER, INSERT: RowKind.INSERT}
_SPREAD: Final = 32
"""Tasks that new rows are spread over, at most."""
_NO_COLUMNS: Final = pa.RecordBatch.from_arrays([], [])


@dataclass(frozen=True, slots=True)
class Change:
    """One change of rows of a table: reads the rows, and commits those that change.

    Attributes:
        handle: the branch, with the schema that the change commits.
        stored: the same with the schema that it has now; another one where the change adds or widens columns.
        base_id: id of the head before any row was read; 0 for an empty branch.
        options: of the write, so that it makes the same schema.
        by_place: whether rows of a table with keys are deleted by their places, as those of a table without.
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
    def by_key(self) -> bool:
        """Whether rows are changed by writing rows of their keys."""
        return bool(self.handle.schema.primary_keys) and not self.by_place

    @property
    def row_id(self) -> list[str]:
        """Columns that identify a row."""
        return list(self.handle.schema.primary_keys) or list(PLACES)

    @property
    def carried(self) -> list[str]:
        """Columns of an old row that its new row is written with: its place, its id, its whole timestamps."""
        places = [] if self.by_key else list(PLACES)
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
        places = [] if self.by_key else [*PLACES, ROW_ID, SEQUENCE_NUMBER] if tracks_rows else list(PLACES)
        columns = [*self.stored.schema.row_type.names, *places, *self.nanoseconds.values()]
        options = {"scan.mode": "latest"}  # the table's own options may name another start
        if where is not None and time_zone is not None:
            options[TIME_ZONE.key] = time_zone
        rows = self._with_new_columns(dataframe(scan_of(self.table, columns, where, options), session))
        # The source of a merge may have a `_ROW_ID` too.
        return rows.withColumn(OLD_ROW_ID, F.col(ROW_ID)) if tracks_rows else rows

    def _with_new_columns(self, rows: DataFrame) -> DataFrame:
        """The rows in the columns of the changed schema; new columns and fields are null."""
        if self.handle is self.stored:
            return rows

        def converted(f: DataField) -> Column:
            wanted = spark_type(f.type, f.name)
            if f.name not in rows.columns:
                return F.lit(None).cast(wanted)
            given, column = rows.schema[f.name].dataType, F.col(quoted(f.name))
            return column if given == wanted else aligned(column, given, f.type, f.name).cast(wanted)

        columns = [converted(f).alias(f.name) for f in self.handle.schema.fields]
        others = [F.col(quoted(c)) for c in rows.columns if c not in self.names]
        return rows.select(*columns, *others)

    def commit(self, rows: DataFrame, operation: str, changed: Collection[str] = ()) -> WriteResult:
        """Commit changed rows, each with its ACTION.

        Args:
            rows: the table's columns, `carried` ones and ACTION.
            operation: DELETE, UPDATE or MERGE.
            changed: the columns that are set in rows whose ACTION is UPDATE.
        """
        self._check_other_branch(rows)
        return self._commit_by_key(rows) if self.by_key else self._commit_by_place(rows, operation, changed)

    def _commit_by_key(self, rows: DataFrame) -> WriteResult:
        """Write the rows with their row kinds; the table merges them with the rows that have the same keys."""
        handle = self.handle
        is_deleted = F.col(ACTION) == DELETE
        removing = removing_columns(handle)
        if removing and rows.where(is_deleted & F.coalesce(*map(_as_text, removing)).isNull()).limit(1).count():
            raise undeletable(handle)
        for name in cleared_columns(handle):
            for column in (name, NANOSECONDS + name):
                if column in rows.columns:
                    rows = rows.withColumn(column, F.when(~is_deleted, F.col(quoted(column))))
        rows = self._with_row_kinds(rows).drop(ACTION)
        return write_dataframe(self.table, rows, WriteMode.APPEND, options_of(self.table, self.options), by_kind=True)

    def _with_row_kinds(self, rows: DataFrame) -> DataFrame:
        """The rows with the column of row kinds that the writer looks for, by their actions."""
        field = self.handle.options.write.rowkind_field  # a column of the table, with symbols as `+I`
        kind_type = "byte" if field is None else "string"
        kind = F.lit(None).cast(kind_type)
        for action, row_kind in _ROW_KINDS.items():
            value = F.lit(int(row_kind)).cast(kind_type) if field is None else F.lit(row_kind.symbol)
            kind = F.when(F.col(ACTION) == action, value).otherwise(kind)
        return rows.withColumn(VALUE_KIND if field is None else field, kind)

    def _commit_by_place(self, rows: DataFrame, operation: str, changed: Collection[str]) -> WriteResult:
        """Mark or rewrite the files that have the old rows, and write the new ones."""
        options = {ROW_LEVEL.key: operation, ROW_LEVEL_BASE.key: str(self.base_id)}
        has_evolution = self.handle.options.data_evolution
        if has_evolution:  # only columns that are set are written, beside the files that are there
            options[ROW_LEVEL_COLUMNS.key] = json.dumps(sorted(changed))
            kept = [column for name, column in self.nanoseconds.items() if name not in changed]
            if operation == "UPDATE":
                kept += [name for name in self.names if name not in changed]
                rows = rows.drop(*kept)
        marked = rows.withColumn(KEEPS, F.col(ACTION) != DELETE)
        # All rows of a file go to one task.
        if operation == "DELETE":
            dealt = marked.select(FILE_PATH, ROW_INDEX, KEEPS).repartition(F.col(FILE_PATH))
        else:
            dealt = marked.drop(ACTION).repartition(F.coalesce(F.col(FILE_PATH), _spread(rows)))
        if has_evolution:  # a task holds the changed rows of one file at a time in memory
            dealt = dealt.sortWithinPartitions(FILE_PATH, ROW_INDEX)
        return save_job(self.handle, dealt, {**options_of(self.table, self.options), **options})

    def _check_other_branch(self, rows: DataFrame) -> None:
        """Refuse to change rows that are read from a fallback branch, or to empty a partition that it also has.

        Readers take a partition from that branch where this one has no row of it.
        """
        if other_branch(self.handle) is None:
            return
        head = latest_snapshot(self.handle)
        beside = other_partitions(self.handle, head)
        if beside is None or not beside.read | beside.behind:
            return
        leaving = self._count_leaving(rows.where(F.col(ACTION) != INSERT), head, beside)
        for partition in sorted(beside.read & leaving.keys()):
            raise beside.not_reached(partition)
        losing = {p for p in beside.behind if leaving.get(p)}
        if losing:
            present = Counter[bytes]()
            for partition, count in self._by_partition(self.read(rows.sparkSession), F.count(F.lit(1))):
                present[partition] += count
            for partition in sorted(p for p in losing if leaving[p] >= present[p]):
                raise beside.would_appear(partition)

    def _count_leaving(self, rows: DataFrame, head: Snapshot | None, beside: OtherPartitions) -> dict[bytes, int]:
        """How many of the old rows leave each partition: deleted ones, and ones that are moved to another partition."""
        deleted = F.sum((F.col(ACTION) == DELETE).cast("bigint"))
        if self.by_key:  # a row never moves, as the key has the partition
            return {partition: count or 0 for partition, count in self._by_partition(rows, deleted)}
        old_partitions = _partitions_of_files(beside.other.handle, beside.snapshot)
        old_partitions |= _partitions_of_files(self.handle, head)
        leaving: dict[bytes, int] = {}
        for new, file, gone, count in self._by_partition(rows, deleted, F.count(F.lit(1)), also=FILE_PATH):
            old = old_partitions.get(file)
            if old is not None:  # else the file has gone, and the commit will fail
                leaving[old] = leaving.get(old, 0) + (count if new != old else gone or 0)
        return leaving

    def _by_partition(self, rows: DataFrame, *aggregates: Column, also: str | None = None) -> list[tuple[Any, ...]]:
        """Group rows by partition, and by the column `also`: (partition as BinaryRow bytes, `also`, aggregates)."""
        keys = self.handle.schema.partition_type
        group = [*keys.names, *(() if also is None else (also,))]
        found = rows.groupBy(*(F.col(quoted(n)) for n in group)).agg(*aggregates).toArrow()
        if not group and found.column(0)[0].as_py() in (None, 0):
            return []  # without a column to group by, Spark makes one group of no rows
        columns = found.columns
        arrays = [
            column_assignment(column.type, f.type, f.name, self.handle.name)(column.combine_chunks())
            for column, f in zip(columns, keys, strict=False)
        ]
        seen = PartitionNumbers(keys)
        numbers = np.zeros(found.num_rows, np.int64)
        if found.num_rows:
            numbers += seen.of(pa.RecordBatch.from_arrays(arrays, list(keys.names)) if arrays else _NO_COLUMNS)
        others = [column.to_pylist() for column in columns[len(arrays) :]]
        return list(zip([seen.rows[n] for n in numbers.tolist()], *others, strict=True))


def _as_text(name: str) -> Column:
    return F.col(quoted(name)).cast("string")


def _spread(rows: DataFrame) -> Column:
    """Text by which new rows are spread over some tasks."""
    hashed = F.xxhash64(*(F.col(quoted(f.name)) for f in rows.schema.fields if has_hash(f.dataType)))
    return F.concat(F.lit("new "), F.pmod(hashed, F.lit(_SPREAD)).cast("string"))


def _partitions_of_files(handle: TableHandle, snapshot: Snapshot | None) -> dict[str, bytes]:
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
