"""One commit of rows that change: what DELETE, UPDATE and MERGE have in common. User's process.

Tables with keys: the rows that change are read, and written with their row kinds as any others. Append tables: each
row is read with its place; tasks mark or rewrite the files that lose rows, and write what comes instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from paimon_spark.errors import ColumnNotFoundError, DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.handoff.read_request import FILE_PATH, ROW_INDEX
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.batch_write import ROW_LEVEL, ROW_LEVEL_BASE, BatchWriteOptions, WriteMode
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.location import quoted
from paimon_spark.options.scan import TIME_ZONE
from paimon_spark.options.table import MergeEngine
from paimon_spark.options.write import ROWKIND_FIELD
from paimon_spark.row_level.way import check_set, check_updates, cleared_columns, removing_columns, undeletable
from paimon_spark.spark.dataframe_write import save_job, write_dataframe
from paimon_spark.table.batch_write import WriteResult
from paimon_spark.table.row_level import KEEPS, is_cut_by_spark
from paimon_spark.table.table import Table
from paimon_spark.table.to_change import open_to_change
from paimon_spark.table.writing import options_of, place_of
from paimon_spark.types import VALUE_KIND, RowKind

ACTION: Final = "__paimon_action"
"""Column of rows that change: which of the next three is done to them."""
DELETE, UPDATE, INSERT = "D", "U", "I"
PLACES: Final = (FILE_PATH, ROW_INDEX)
_KINDS: Final = {DELETE: RowKind.DELETE, UPDATE: RowKind.UPDATE_AFTER, INSERT: RowKind.INSERT}
_SPREAD: Final = 32
"""Tasks that new rows are spread over, at most."""


@dataclass(frozen=True, slots=True)
class Change:
    """A table whose rows are about to change.

    Attributes:
        table: as it was opened.
        handle: its branch, as it is now.
        base_id: head before any row was read, 0 for none.
    """

    table: Table
    handle: TableHandle
    base_id: int

    @classmethod
    def of(cls, table: Table) -> Change:
        """Of the head of the branch of `table`."""
        place = place_of(table, BatchWriteOptions())
        handle = open_to_change(place.store, place.root, place.branch, place.name, table.handle.overrides)
        # Spark reads the rows before it asks for a writer, perhaps for hours; what changes meanwhile must be noticed.
        base = latest_snapshot(handle)
        return cls(table, handle, 0 if base is None else base.id)

    @property
    def names(self) -> list[str]:
        """The table's columns."""
        return list(self.handle.schema.row_type.names)

    @property
    def keyed(self) -> bool:
        return bool(self.handle.schema.primary_keys)

    @property
    def row_id(self) -> list[str]:
        """Columns that tell one row from all others."""
        return list(self.handle.schema.primary_keys) or list(PLACES)

    def read(self, session: SparkSession, where: str | None = None, time_zone: str | None = None) -> DataFrame:
        """The rows of the head, with the place of every row where rows have one; `where` is what `Table.scan` takes."""
        columns = [*self.names, *(() if self.keyed else PLACES)]
        zone = {} if where is None or time_zone is None else {TIME_ZONE.key: time_zone}
        return self.table.scan(columns=columns, where=where, **zone).to_spark(session)

    def run(self, rows: DataFrame, operation: str) -> WriteResult:
        """Commit `rows`: the table's columns, the places of the old rows where rows have one, and ACTION."""
        if self.keyed:
            return _run_keyed(self.table, self.handle, rows)
        how = {ROW_LEVEL.key: operation, ROW_LEVEL_BASE.key: str(self.base_id)}
        # All rows of a file come in one task; new ones are spread.
        spread = F.concat(F.lit("new "), F.pmod(F.xxhash64(*_hashable(rows)), F.lit(_SPREAD)).cast("string"))
        marked = rows.withColumn(KEEPS, F.col(ACTION) != DELETE)
        if operation == "DELETE":
            marked = marked.select(FILE_PATH, ROW_INDEX, KEEPS)
            placed = marked.repartition(F.col(FILE_PATH))
        else:
            placed = marked.drop(ACTION).repartition(F.coalesce(F.col(FILE_PATH), spread))
        return save_job(self.handle, placed, {**options_of(self.table, {}), **how})


def by_own_names(handle: TableHandle, values: Mapping[str, str]) -> dict[str, str]:
    """Expressions by the table's names of the columns. Raises ColumnNotFoundError, InvalidInputError."""
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
    fine = [f for f in handle.schema.fields if is_cut_by_spark(f.type)]
    if fine:
        raise UnsupportedFeatureError(
            f"column {fine[0].name} of {handle.describe()} is {fine[0].type}, and Spark would cut its values to "
            "microseconds in the rows that change; delete the rows, and write them with Table.write of Arrow data",
            feature=f"update of tables with {fine[0].type}",
            column=fine[0].name,
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
        key = ", ".join(f"{k} = {twice[0][k]!r}" for k in names)
        which = f"the row with {key}" if names else "a row of the table"
        raise DataError(
            f"{which} matches several rows of the source, so it is not clear what it becomes; nothing was "
            f"changed in {change.handle.describe()}. Make the rows of the source unique in the columns of the condition"
        )


def _hashable(rows: DataFrame) -> list[Column]:
    return [F.col(quoted(f.name)) for f in rows.schema.fields if f.dataType.typeName() not in ("map", "variant")]


def _run_keyed(table: Table, handle: TableHandle, rows: DataFrame) -> WriteResult:
    deleted = F.col(ACTION) == DELETE
    removing = removing_columns(handle)
    if removing and rows.where(deleted & F.coalesce(*map(_text, removing)).isNull()).limit(1).count():
        raise undeletable(handle)
    for name in cleared_columns(handle):
        rows = rows.withColumn(name, F.when(~deleted, F.col(quoted(name))))
    kind = F.lit(None).cast("string")
    field = ROWKIND_FIELD.get(handle.options.raw)
    for action, meaning in _KINDS.items():
        value = F.lit(int(meaning)).cast("byte") if field is None else F.lit(meaning.symbol)
        kind = F.when(F.col(ACTION) == action, value).otherwise(kind.cast("byte") if field is None else kind)
    changed = rows.withColumn(VALUE_KIND if field is None else field, kind).drop(ACTION)
    return write_dataframe(table, changed, WriteMode.APPEND, options_of(table, {}))


def _text(name: str) -> Column:
    return F.col(quoted(name)).cast("string")
