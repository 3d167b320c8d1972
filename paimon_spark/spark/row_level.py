"""DELETE and UPDATE as Spark jobs, and the checks that MERGE shares with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from paimon_spark.engine.row_level.job import check_unmerged
from paimon_spark.engine.row_level.strategy import (
    DeleteStrategy,
    check_set,
    check_updates,
    delete_strategy,
    strategy_of_delete,
)
from paimon_spark.engine.scan.fallback import other_branch
from paimon_spark.errors import ColumnNotFoundError, DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.row_level.write import is_cut_by_spark
from paimon_spark.jobs.write.commit import WriteResult
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.metadata.snapshots import get_snapshot
from paimon_spark.options.core import FALLBACK_BRANCH, PRIMARY_BRANCH, MergeEngine
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.spark.row_change import ACTION, DELETE, UPDATE, Change
from paimon_spark.spark.schema import fitted
from paimon_spark.spark.session import session_or_new
from paimon_spark.text import sql_row
from paimon_spark.types import is_finer_than_spark, quoted

_NEW: Final = "__paimon_new_"
"""Prefix of columns with new values."""


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
    return change.commit(rows.withColumn(ACTION, F.lit(DELETE)), "DELETE")


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
    """Change `rows`, which are some of those that `change.read` gives.

    `new`: the column of `rows` with the new value, by column of the table.
    """
    types = {f.name: f.dataType for f in rows.schema.fields}
    fields = {f.name: f.type for f in change.handle.schema.fields}
    values = {n: fitted(F.col(c), types[c], fields[n], n) for n, c in new.items()}
    refuse_nulls(change.handle, rows, {n: (F.col(quoted(n)), value) for n, value in values.items()})
    columns = [values[n].alias(n) if n in new else F.col(quoted(n)) for n in change.names]
    # The whole value of a timestamp belongs to the old value.
    cleared = {c: F.lit(None).cast("bigint").alias(c) for n, c in change.nanoseconds.items() if n in new}
    carried = [cleared.get(c, F.col(quoted(c))) for c in change.carried]
    return change.commit(rows.select(*columns, *carried, F.lit(UPDATE).alias(ACTION)), "UPDATE", new)


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
