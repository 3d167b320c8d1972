"""Table.delete, Table.update and Table.merge as Spark jobs, in classic and in Connect sessions. User's process.

Tables with keys: the rows that change are read, and written with their row kinds as any others. Append tables: each
row is read with its place; tasks mark or rewrite the files that lose rows, and write what comes instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from paimon_spark.errors import ColumnNotFoundError, DataError, InvalidInputError, UnsupportedFeatureError
from paimon_spark.handoff.read_request import FILE_PATH, ROW_INDEX
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.options.batch_write import ROW_LEVEL, ROW_LEVEL_BASE, BatchWriteOptions, WriteMode
from paimon_spark.options.descriptor import did_you_mean
from paimon_spark.options.table import MergeEngine
from paimon_spark.options.write import ROWKIND_FIELD
from paimon_spark.row_level.way import (
    Way,
    check_deletes,
    check_set,
    check_updates,
    cleared_columns,
    removing_columns,
    undeletable,
    way_of,
)
from paimon_spark.spark.dataframe_write import save_job, write_dataframe
from paimon_spark.table.batch_write import WriteResult
from paimon_spark.table.row_level import KEEPS, is_cut_by_spark
from paimon_spark.table.table import Table
from paimon_spark.table.writing import options_of, place_of
from paimon_spark.types import VALUE_KIND, RowKind

_TARGET: Final = "t"
_SOURCE: Final = "s"
_ACTION: Final = "__paimon_action"
_IN_TARGET: Final = "__paimon_in_target"
_IN_SOURCE: Final = "__paimon_in_source"
_DELETE, _UPDATE, _INSERT = "D", "U", "I"
_KINDS: Final = {_DELETE: RowKind.DELETE, _UPDATE: RowKind.UPDATE_AFTER, _INSERT: RowKind.INSERT}
_SPREAD: Final = 32
"""Tasks that new rows are spread over, at most."""


def active_session() -> SparkSession | None:
    """The session of this process or thread; None when there is none."""
    return SparkSession.getActiveSession()


def delete(table: Table, where: str) -> WriteResult:
    """As `Table.delete`."""
    handle = _handle(table)
    keyed = way_of(handle) is Way.RETRACTS
    if keyed:
        check_deletes(handle)
    rows = _read(table, _session(), handle).where(F.expr(where)).withColumn(_ACTION, F.lit(_DELETE))
    return _run(table, handle, rows, "DELETE")


def update(table: Table, where: str | None, values: Mapping[str, str]) -> WriteResult:
    """As `Table.update`."""
    handle = _handle(table)
    way_of(handle)
    new = _assignments(handle, values)
    _check_updates(handle, new)
    rows = _read(table, _session(), handle)
    if where is not None:
        rows = rows.where(F.expr(where))
    _refuse_nulls(handle, rows, {n: (F.col(_quoted(n)), F.expr(e)) for n, e in new.items()})
    columns = [F.expr(new[n]).alias(n) if n in new else F.col(_quoted(n)) for n in handle.schema.row_type.names]
    places = [F.col(n) for n in rows.columns if n in (FILE_PATH, ROW_INDEX)]
    return _run(table, handle, rows.select(*columns, *places, F.lit(_UPDATE).alias(_ACTION)), "UPDATE")


def merge(
    table: Table,
    source: DataFrame,
    on: str,
    *,
    when_matched_update: Mapping[str, str] | str | None = None,
    when_matched_condition: str | None = None,
    when_matched_delete: str | None = None,
    when_not_matched_insert: Mapping[str, str] | str | None = None,
    when_not_matched_condition: str | None = None,
    when_not_matched_by_source_delete: str | None = None,
) -> WriteResult:
    """As `Table.merge`."""
    handle = _handle(table)
    keyed = way_of(handle) is Way.RETRACTS
    updates = _clause(handle, source, when_matched_update)
    same = {}  # taken from the source by `*`, and not changed by it
    if updates is not None and isinstance(when_matched_update, str):
        same = {n: updates.pop(n) for n in handle.schema.primary_keys if n in updates}
    inserts = _clause(handle, source, when_not_matched_insert)
    deletes = [c for c in (when_matched_delete, when_not_matched_by_source_delete) if c is not None]
    if updates is None and inserts is None and not deletes:
        raise InvalidInputError("a merge needs something to do: give one of its when_… arguments", table=table.name)
    if deletes and keyed:
        check_deletes(handle)
    _check_updates(handle, updates or {})
    target = _read(table, source.sparkSession, handle).withColumn(_IN_TARGET, F.lit(True)).alias(_TARGET)
    given = source.withColumn(_IN_SOURCE, F.lit(True)).alias(_SOURCE)
    joined = target.join(given, F.expr(on), _join(inserts is not None, when_not_matched_by_source_delete is not None))
    in_target, in_source = (F.col(c).isNotNull() for c in (f"{_TARGET}.{_IN_TARGET}", f"{_SOURCE}.{_IN_SOURCE}"))
    cases: list[tuple[Column, str]] = []
    if when_matched_delete is not None:
        cases.append((in_target & in_source & F.expr(when_matched_delete), _DELETE))
    if updates is not None:
        cases.append((in_target & in_source & F.expr(when_matched_condition or "true"), _UPDATE))
    if inserts is not None:
        cases.append((~in_target & F.expr(when_not_matched_condition or "true"), _INSERT))
    if when_not_matched_by_source_delete is not None:
        cases.append((~in_source & F.expr(when_not_matched_by_source_delete), _DELETE))
    action = F.lit(None).cast("string")
    for condition, name in reversed(cases):
        action = F.when(condition, F.lit(name)).otherwise(action)
    chosen = joined.withColumn(_ACTION, action).where(F.col(_ACTION).isNotNull())
    changed = chosen.where(F.col(_ACTION) == _UPDATE)
    for name, expression in same.items():
        if changed.where(~F.col(f"{_TARGET}.{_quoted(name)}").eqNullSafe(F.expr(expression))).limit(1).count():
            check_set(handle, [name])
    old_and_new = {n: (F.col(f"{_TARGET}.{_quoted(n)}"), F.expr(e)) for n, e in (updates or {}).items()}
    _refuse_nulls(handle, changed, old_and_new)
    columns = [_merged(n, updates or {}, inserts or {}, target).alias(n) for n in handle.schema.row_type.names]
    places = [F.col(f"{_TARGET}.{n}").alias(n) for n in (FILE_PATH, ROW_INDEX)] if not keyed else []
    rows = chosen.select(*columns, *places, F.col(_ACTION))
    if keyed:
        _refuse_twice(handle, rows)
    return _run(table, handle, rows, "MERGE")


def _merged(name: str, updates: Mapping[str, str], inserts: Mapping[str, str], target: DataFrame) -> Column:
    """A column of the rows that a merge makes."""
    old = F.col(f"{_TARGET}.{_quoted(name)}")
    kind = target.schema[name].dataType
    inserted = F.expr(inserts[name]) if name in inserts else F.lit(None).cast(kind)
    updated = F.expr(updates[name]) if name in updates else old
    action = F.col(_ACTION)
    return F.when(action == _INSERT, inserted).when(action == _UPDATE, updated).otherwise(old)


def _join(inserts: bool, by_source: bool) -> str:
    if inserts:
        return "full" if by_source else "right"
    return "left" if by_source else "inner"


def _clause(handle: TableHandle, source: DataFrame, given: Mapping[str, str] | str | None) -> dict[str, str] | None:
    """Expression by column of the table; `*` takes all columns that the source has too."""
    if given is None:
        return None
    if not isinstance(given, str):
        return _assignments(handle, given)
    if given != "*":
        raise InvalidInputError(f"expected '*' or expressions by column, found {given!r}")
    there = {c.lower(): c for c in source.columns}
    names = handle.schema.row_type.names
    return {n: f"{_SOURCE}.{_quoted(there[n.lower()])}" for n in names if n.lower() in there}


def _assignments(handle: TableHandle, values: Mapping[str, str]) -> dict[str, str]:
    """Expressions by the table's names of the columns. Raises ColumnNotFoundError."""
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


def _check_updates(handle: TableHandle, new: Mapping[str, str]) -> None:
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


def _refuse_nulls(handle: TableHandle, rows: DataFrame, changes: Mapping[str, tuple[Column, Column]]) -> None:
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


def _refuse_twice(handle: TableHandle, rows: DataFrame) -> None:
    """Refuse a merge in which one row of the table becomes several."""
    keys = [F.col(_quoted(k)) for k in handle.schema.primary_keys]
    twice = rows.groupBy(*keys).count().where("count > 1").limit(1).collect()
    if twice:
        key = ", ".join(f"{k} = {twice[0][k]!r}" for k in handle.schema.primary_keys)
        raise DataError(
            f"the row with {key} matches several rows of the source, so it is not clear what it becomes; nothing was "
            f"changed in {handle.describe()}. Make the rows of the source unique in the columns of the condition"
        )


def _run(table: Table, handle: TableHandle, rows: DataFrame, operation: str) -> WriteResult:
    if handle.schema.primary_keys:
        return _run_keyed(table, handle, rows)
    # Spark reads the rows before it asks for a writer, perhaps for hours; what changes meanwhile must be noticed.
    base = latest_snapshot(handle)
    how = {ROW_LEVEL.key: operation, ROW_LEVEL_BASE.key: str(0 if base is None else base.id)}
    # All rows of a file come in one task; new ones are spread.
    spread = F.concat(F.lit("new "), F.pmod(F.xxhash64(*_hashable(rows)), F.lit(_SPREAD)).cast("string"))
    marked = rows.withColumn(KEEPS, F.col(_ACTION) != _DELETE)
    if operation == "DELETE":
        marked = marked.select(FILE_PATH, ROW_INDEX, KEEPS)
        placed = marked.repartition(F.col(FILE_PATH))
    else:
        placed = marked.drop(_ACTION).repartition(F.coalesce(F.col(FILE_PATH), spread))
    return save_job(handle, placed, {**options_of(table, {}), **how})


def _hashable(rows: DataFrame) -> list[Column]:
    return [F.col(_quoted(f.name)) for f in rows.schema.fields if f.dataType.typeName() not in ("map", "variant")]


def _run_keyed(table: Table, handle: TableHandle, rows: DataFrame) -> WriteResult:
    deleted = F.col(_ACTION) == _DELETE
    removing = removing_columns(handle)
    if removing and rows.where(deleted & F.coalesce(*map(_text, removing)).isNull()).limit(1).count():
        raise undeletable(handle)
    for name in cleared_columns(handle):
        rows = rows.withColumn(name, F.when(~deleted, F.col(_quoted(name))))
    kind = F.lit(None).cast("string")
    field = ROWKIND_FIELD.get(handle.options.raw)
    for action, meaning in _KINDS.items():
        value = F.lit(int(meaning)).cast("byte") if field is None else F.lit(meaning.symbol)
        kind = F.when(F.col(_ACTION) == action, value).otherwise(kind.cast("byte") if field is None else kind)
    changed = rows.withColumn(VALUE_KIND if field is None else field, kind).drop(_ACTION)
    return write_dataframe(table, changed, WriteMode.APPEND, options_of(table, {}))


def _text(name: str) -> Column:
    return F.col(_quoted(name)).cast("string")


def _read(table: Table, session: SparkSession, handle: TableHandle) -> DataFrame:
    """The head, with the place of every row where rows have one."""
    places = () if handle.schema.primary_keys else (FILE_PATH, ROW_INDEX)
    return table.scan(columns=[*handle.schema.row_type.names, *places]).to_spark(session)


def _handle(table: Table) -> TableHandle:
    place = place_of(table, BatchWriteOptions())
    return open_table(place.store, place.root, place.branch, place.name, table.handle.overrides)


def _session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
