"""Table.delete, Table.update and Table.merge as Spark jobs, in classic and in Connect sessions. User's process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from paimon_spark.engine.row_level.way import Way, check_deletes, way_of
from paimon_spark.errors import InvalidInputError
from paimon_spark.jobs.commit import WriteResult
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.row_level import MergeClauses
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.location import quoted
from paimon_spark.spark.fitted import fitted
from paimon_spark.spark.merge import Clause, Merge, Verb, When
from paimon_spark.spark.row_level_job import (
    ACTION,
    DELETE,
    PLACES,
    UPDATE,
    Change,
    by_own_names,
    check_assignments,
    refuse_nulls,
)

_TARGET: Final = "t"
_SOURCE: Final = "s"
_NEW: Final = "__paimon_new_"


def delete(table: OpenedTable, where: str) -> WriteResult:
    """As `Table.delete`."""
    change = deletion(table)
    return delete_found(change, change.read(_session()).where(F.expr(where)))


def deletion(table: OpenedTable) -> Change:
    """The change of a table that loses rows. Raises UnsupportedFeatureError."""
    change = Change.of(table)
    if way_of(change.handle) is Way.RETRACTS:
        check_deletes(change.handle)
    return change


def delete_found(change: Change, rows: DataFrame) -> WriteResult:
    """Delete `rows`, which are some of those that `change.read` gives."""
    return change.run(rows.withColumn(ACTION, F.lit(DELETE)), "DELETE")


def update(table: OpenedTable, where: str | None, values: Mapping[str, str]) -> WriteResult:
    """As `Table.update`."""
    change, new = updating(table, values)
    rows = change.read(_session())
    if where is not None:
        rows = rows.where(F.expr(where))
    named = {n: f"{_NEW}{i}" for i, n in enumerate(new)}
    rows = rows.select("*", *(F.expr(e).alias(named[n]) for n, e in new.items()))
    return update_found(change, rows, named)


def updating(table: OpenedTable, values: Mapping[str, str]) -> tuple[Change, dict[str, str]]:
    """The change of a table whose rows change, and the values by its own names of the columns. Raises as `update`."""
    change = Change.of(table)
    way_of(change.handle)
    new = by_own_names(change.handle, values)
    check_assignments(change.handle, new)
    return change, new


def update_found(change: Change, rows: DataFrame, new: Mapping[str, str]) -> WriteResult:
    """Change `rows`, which are some of those that `change.read` gives. `new`: where a new value is, by column."""
    types = {f.name: f.dataType for f in rows.schema.fields}
    fields = {f.name: f.type for f in change.handle.schema.fields}
    values = {n: fitted(F.col(c), types[c], fields[n], n) for n, c in new.items()}
    refuse_nulls(change.handle, rows, {n: (F.col(quoted(n)), value) for n, value in values.items()})
    columns = [values[n].alias(n) if n in new else F.col(quoted(n)) for n in change.names]
    places = [F.col(n) for n in rows.columns if n in PLACES]
    return change.run(rows.select(*columns, *places, F.lit(UPDATE).alias(ACTION)), "UPDATE")


def merge(table: OpenedTable, source: DataFrame, on: str, given: MergeClauses) -> WriteResult:
    """As `Table.merge`."""
    change = Change.of(table)
    handle = change.handle
    way_of(handle)
    clauses = []
    if given.when_matched_delete is not None:
        clauses.append(Clause(When.MATCHED, Verb.DELETE, given.when_matched_delete))
    updates = _values(handle, source, given.when_matched_update)
    if updates is not None:
        is_star = isinstance(given.when_matched_update, str)
        same = {n: updates.pop(n) for n in handle.schema.primary_keys if is_star and n in updates}
        clauses.append(Clause(When.MATCHED, Verb.UPDATE, given.when_matched_condition, updates, same))
    inserts = _values(handle, source, given.when_not_matched_insert)
    if inserts is not None:
        clauses.append(Clause(When.NOT_MATCHED, Verb.INSERT, given.when_not_matched_condition, inserts))
    if given.when_not_matched_by_source_delete is not None:
        clauses.append(Clause(When.NOT_MATCHED_BY_SOURCE, Verb.DELETE, given.when_not_matched_by_source_delete))
    if not clauses:
        raise InvalidInputError("a merge needs something to do: give one of its when_… arguments", table=table.name)
    return Merge(change, source, on, tuple(clauses), _TARGET, _SOURCE).run()


def _values(handle: TableHandle, source: DataFrame, given: Mapping[str, str] | str | None) -> dict[str, str] | None:
    """Expression by column of the table; `*` takes all columns that the source has too."""
    if given is None:
        return None
    if not isinstance(given, str):
        return by_own_names(handle, given)
    if given != "*":
        raise InvalidInputError(f"expected '*' or expressions by column, found {given!r}")
    there = {c.lower(): c for c in source.columns}
    names = handle.schema.row_type.names
    return {n: f"{_SOURCE}.{quoted(there[n.lower()])}" for n in names if n.lower() in there}


def _session() -> SparkSession:
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
