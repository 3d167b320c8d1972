"""MERGE with any number of clauses; the first that holds for a row applies.

The rows of table and source are joined once. Clauses are evaluated in stages, as their names mean different columns:
those of both where rows match, those of the source in clauses for its rows, those of the table in clauses for its rows.
A stage renames the columns that its clauses must not see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StringType

from paimon_spark.engine.row_level.strategy import check_deletes, check_set, delete_strategy
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.casts.nested_assignment import column_assignment
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.row_level.row_level import MergeClauses
from paimon_spark.jobs.write.commit import WriteResult
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import MergeEngine
from paimon_spark.spark.dataframe import source_dataframe
from paimon_spark.spark.row_level import (
    ACTION,
    DELETE,
    INSERT,
    UPDATE,
    Change,
    by_own_names,
    check_assignments,
    check_precision,
    refuse_nulls,
    refuse_twice,
)
from paimon_spark.spark.schema import aligned, arrow_schema, fitted, spark_type
from paimon_spark.types import quoted

_IN_TARGET: Final = "__paimon_in_target"
_IN_SOURCE: Final = "__paimon_in_source"
_CLAUSE: Final = "__paimon_clause"
_COLUMN: Final = "__paimon_column_"
_OLD: Final = "__paimon_old_"
_MOVED: Final = "__paimon_moved"
_NAME: Final = r"(?:`(?:[^`]|``)+`|\w+)"
_DOTTED: Final = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_EQUAL: Final = re.compile(rf"\(?\s*({_DOTTED.pattern})\s*={{1,2}}\s*({_DOTTED.pattern})\s*\)?", re.DOTALL)


class When(Enum):
    """The rows of a clause: matching pairs, rows of the source alone, rows of the table alone."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Verb(Enum):
    """Action of a clause."""

    UPDATE = UPDATE
    INSERT = INSERT
    DELETE = DELETE


class MissingFields(Enum):
    """How fields of a column are filled that the struct assigned to it lacks.

    Source: Java Spark connector, `MissingFieldBehavior`.
    """

    REFUSED = "refused"
    NULL = "null"
    KEPT = "those of the row that is updated"


@dataclass(frozen=True, slots=True)
class Clause:
    """WHEN … THEN …. Expressions are Spark SQL.

    Attributes:
        condition: None for all rows of the kind.
        values: expression by column of the table; a column that is left out keeps its value, or is null in a new row.
        same: those of `compared_columns` that must already have the value given.
        missing: how fields that structs among the values lack are filled.
    """

    when: When
    verb: Verb
    condition: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    missing: MissingFields = MissingFields.REFUSED


def merge(table: OpenedTable, data: Any, on: str, given: MergeClauses) -> WriteResult:
    """As `Table.merge`."""
    change = Change.of(table)
    source = source_dataframe(data)
    handle = change.handle
    delete_strategy(handle)
    clauses = []
    if given.when_matched_delete is not None:
        clauses.append(Clause(When.MATCHED, Verb.DELETE, given.when_matched_delete))
    updates = _values(handle, source, given.when_matched_update)
    if updates is not None:
        is_star = isinstance(given.when_matched_update, str)
        same = {n: updates.pop(n) for n in compared_columns(handle) if is_star and n in updates}
        missing = MissingFields.KEPT if is_star else MissingFields.REFUSED
        clauses.append(Clause(When.MATCHED, Verb.UPDATE, given.when_matched_condition, updates, same, missing))
    inserts = _values(handle, source, given.when_not_matched_insert)
    if inserts is not None:
        missing = MissingFields.NULL if isinstance(given.when_not_matched_insert, str) else MissingFields.REFUSED
        clauses.append(
            Clause(When.NOT_MATCHED, Verb.INSERT, given.when_not_matched_condition, inserts, missing=missing)
        )
    if given.when_not_matched_by_source_delete is not None:
        clauses.append(Clause(When.NOT_MATCHED_BY_SOURCE, Verb.DELETE, given.when_not_matched_by_source_delete))
    if not clauses:
        raise InvalidInputError("merge has no clause; give one of its when_… arguments", table=table.name)
    return Merge(change, source, on, tuple(clauses), "t", "s").run()


@dataclass(frozen=True, slots=True)
class Merge:
    """One MERGE, with at least one clause. Expressions name the table and the source by their aliases.

    With `refuses_pairs`, a row of the table that matches twice is refused whatever the clauses choose, as by Spark;
    else only when the clauses change it twice.
    """

    change: Change
    source: DataFrame
    on: str
    clauses: tuple[Clause, ...]
    target_alias: str
    source_alias: str
    refuses_pairs: bool = False

    def run(self) -> WriteResult:
        """Run it, in one commit. Raises as `Table.merge`."""
        change, handle = self.change, self.change.handle
        if any(c.verb is Verb.DELETE for c in self.clauses):
            check_deletes(handle)
        for clause in self.clauses:
            if clause.verb is Verb.UPDATE and clause.when is When.NOT_MATCHED_BY_SOURCE:
                _check_updates_by_source(handle)
            if clause.verb is not Verb.DELETE:
                check_assignments(handle, clause.values if clause.verb is Verb.UPDATE else ())
            if clause.verb is Verb.UPDATE or (clause.verb is Verb.DELETE and change.keyed):
                check_precision(handle, clause.values)
        target = change.read(self.source.sparkSession).withColumn(_IN_TARGET, F.lit(True)).alias(self.target_alias)
        given = self.source.withColumn(_IN_SOURCE, F.lit(True)).alias(self.source_alias)
        joined = target.join(given, F.expr(self.on), self._join)
        if self._must_count_pairs:
            pairs = joined if self._join == "inner" else target.join(given, F.expr(self.on), "inner")
            refuse_twice(change, pairs.select(*(self._target(n).alias(n) for n in change.row_id)))
        rows = self._staged(joined)
        self._refuse_moves(rows)
        if handle.options.merge_engine is MergeEngine.PARTIAL_UPDATE:
            changed = rows.where(F.col(ACTION) == UPDATE)
            set_ = {n for c in self.clauses if c.verb is Verb.UPDATE for n in c.values}
            olds = {n: (F.col(f"{_OLD}{i}"), F.col(quoted(n))) for i, n in enumerate(change.names) if n in set_}
            refuse_nulls(handle, changed, olds)
        rows = self._once(rows)
        kept = {c: self._unassigned(n, c) for n, c in change.nanoseconds.items()}
        carried = [kept.get(c, F.col(quoted(c))) for c in change.carried]
        rows = rows.select(*(F.col(quoted(n)) for n in change.names), *carried, ACTION)
        if change.keyed:
            refuse_twice(change, rows)
        return change.run(rows, "MERGE", {n for c in self.clauses if c.verb is Verb.UPDATE for n in c.values})

    def _of(self, when: When) -> list[tuple[int, Clause]]:
        return [(i, c) for i, c in enumerate(self.clauses) if c.when is when]

    def _target(self, name: str) -> Column:
        return F.col(f"{quoted(self.target_alias)}.{quoted(name)}")

    @property
    def _join(self) -> str:
        inserts, by_source = self._of(When.NOT_MATCHED), self._of(When.NOT_MATCHED_BY_SOURCE)
        if inserts:
            return "full" if by_source else "right"
        return "left" if by_source else "inner"

    @property
    def _deletes_all_pairs(self) -> bool:
        """Whether all matching rows are deleted: then they may match twice."""
        found = [c for _, c in self._of(When.MATCHED)]
        return self.refuses_pairs and len(found) == 1 and found[0].verb is Verb.DELETE and found[0].condition is None

    @property
    def _must_count_pairs(self) -> bool:
        """Whether pairs must be counted before clauses choose; a clause for every pair shows duplicates anyway."""
        found = [c for _, c in self._of(When.MATCHED)]
        return self.refuses_pairs and bool(found) and all(c.condition is not None for c in found)

    def _staged(self, joined: DataFrame) -> DataFrame:
        """The rows that a clause chooses: new values of the columns, places, ACTION, old values."""
        change = self.change
        in_target, in_source = self._target(_IN_TARGET), F.col(f"{quoted(self.source_alias)}.{_IN_SOURCE}")
        kind = (
            F.when(in_target.isNull(), When.NOT_MATCHED.value)
            .when(in_source.isNull(), When.NOT_MATCHED_BY_SOURCE.value)
            .otherwise(When.MATCHED.value)
        )
        rows = joined.withColumn(ACTION, kind)
        olds = {n: self._target(n) for n in change.names}
        kept = [self._target(n).alias(n) for n in change.carried]
        before = [c.alias(f"{_OLD}{i}") for i, c in enumerate(olds.values())]
        # Clauses of matching rows see both sides.
        rows = rows.withColumn(_CLAUSE, self._chosen(When.MATCHED)).withColumn(_MOVED, self._moved())
        columns = self._columns(rows, When.MATCHED, olds)
        rows = rows.select(F.col(f"{quoted(self.source_alias)}.*"), *columns, *kept, *before, ACTION, _CLAUSE, _MOVED)
        carried = [*(c for c in rows.columns if c.startswith(_OLD)), *map(quoted, change.carried), ACTION, _MOVED]
        done = {n: F.col(f"{_COLUMN}{i}") for i, n in enumerate(change.names)}
        if self._of(When.NOT_MATCHED):
            rows = rows.alias(self.source_alias)
            rows = rows.withColumn(_CLAUSE, F.coalesce(F.col(_CLAUSE), self._chosen(When.NOT_MATCHED)))
            columns = self._columns(rows.alias(self.source_alias), When.NOT_MATCHED, done)
            rows = rows.alias(self.source_alias).select(*columns, *carried, _CLAUSE)
        if self._of(When.NOT_MATCHED_BY_SOURCE):
            named = [c.alias(n) for n, c in done.items()]
            # No earlier clause changes these rows, so they have their old values.
            rows = rows.select(*named, *carried, _CLAUSE).alias(self.target_alias)
            rows = rows.withColumn(_CLAUSE, F.coalesce(F.col(_CLAUSE), self._chosen(When.NOT_MATCHED_BY_SOURCE)))
            rows = rows.alias(self.target_alias)
            columns = self._columns(rows, When.NOT_MATCHED_BY_SOURCE, {n: self._target(n) for n in change.names})
            rows = rows.select(*columns, *carried, _CLAUSE)
        action = F.lit(None).cast("string")
        for i, clause in enumerate(self.clauses):
            action = F.when(F.col(_CLAUSE) == i, clause.verb.value).otherwise(action)
        named = [c.alias(n) for n, c in done.items()]
        others = [c for c in carried if c != ACTION]
        return rows.where(F.col(_CLAUSE).isNotNull()).select(*named, *others, _CLAUSE, action.alias(ACTION))

    def _chosen(self, when: When) -> Column:
        """The number of the first clause of a kind that holds; null for none."""
        out = F.lit(None).cast("int")
        for i, clause in reversed(self._of(when)):
            condition = F.col(ACTION) == when.value
            if clause.condition is not None:
                condition = condition & F.expr(clause.condition)
            out = F.when(condition, i).otherwise(out)
        return out

    def _columns(self, rows: DataFrame, when: When, before: Mapping[str, Column]) -> list[Column]:
        """The table's columns after the clauses of a kind, named for the next stage."""
        out = []
        for i, (name, old) in enumerate(before.items()):
            value = old
            for number, clause in reversed(self._of(when)):
                if name in clause.values:
                    made = self._fitting(rows, name, clause.values[name], clause.missing)
                elif clause.verb is Verb.INSERT:
                    made = F.lit(None).cast(self._type_text(name))
                else:
                    continue
                value = F.when(F.col(_CLAUSE) == number, made).otherwise(value)
            out.append(value.alias(f"{_COLUMN}{i}"))
        return out

    def _type_text(self, name: str) -> str:
        """The Spark type of a column of the table, as DDL."""
        return spark_type(self.change.handle.schema.row_type.field(name).type, name).simpleString()

    def _fitting(self, rows: DataFrame, name: str, expression: str, missing: MissingFields) -> Column:
        """An expression fitted to a column, so that Spark combines it with others without loss.

        Raises:
            SchemaMismatchError: it cannot become one, or only with a cast.
        """
        handle = self.change.handle
        wanted = handle.schema.row_type.field(name).type
        given = F.expr(expression)
        schema = rows.select(given.alias(name)).schema
        kept = self._target(name) if missing is MissingFields.KEPT else None
        refuses = missing is MissingFields.REFUSED
        placed = aligned(given, schema.fields[0].dataType, wanted, name, refuses_missing=refuses, kept=kept)
        if placed is not given:
            schema = rows.select(placed.alias(name)).schema
        made = fitted(placed, schema.fields[0].dataType, wanted, name)
        if made is not placed:
            schema = rows.select(made.alias(name)).schema
        column_assignment(arrow_schema(schema).field(0).type, wanted, name, handle.describe())
        if self._type_text(name) == StringType().simpleString():
            return made.cast("string")
        return made

    def _moved(self) -> Column:
        """The position of the one of `compared_columns` that a clause would change in this row; null for none."""
        out = F.lit(None).cast("int")
        keys = list(compared_columns(self.change.handle))
        for i, clause in enumerate(self.clauses):
            for name, expression in clause.same.items():
                if not self._is_stated(name, expression):
                    differs = ~self._target(name).eqNullSafe(F.expr(expression))
                    out = F.when((F.col(_CLAUSE) == i) & differs, keys.index(name)).otherwise(out)
        return out

    def _is_stated(self, name: str, expression: str) -> bool:
        """Whether the merge condition implies that a column has the value, so that no row needs a check."""
        parts = re.split(r"\band\b", self.on, flags=re.IGNORECASE)
        pairs = [m for p in parts if (m := _EQUAL.fullmatch(p.strip())) is not None]
        if len(pairs) != len(parts):
            return False
        stated = [{_plain(m[1]), _plain(m[2])} for m in pairs]
        return {_plain(f"{quoted(self.target_alias)}.{quoted(name)}"), _plain(expression)} in stated

    def _refuse_moves(self, rows: DataFrame) -> None:
        """Refuse clauses that change `compared_columns` of a row. Raises InvalidInputError, UnsupportedFeatureError."""
        handle = self.change.handle
        if all(self._is_stated(n, e) for c in self.clauses for n, e in c.same.items()):
            return
        moved = rows.where(F.col(_MOVED).isNotNull()).select(_MOVED).limit(1).collect()
        if moved:
            check_set(handle, [compared_columns(handle)[moved[0][0]]])

    def _unassigned(self, name: str, whole: str) -> Column:
        """The column `whole` with the nanoseconds of column `name`, null where the clause assigns the column."""
        setting = [i for i, c in enumerate(self.clauses) if c.verb is Verb.INSERT or name in c.values]
        return F.when(~F.col(_CLAUSE).isin(setting), F.col(quoted(whole))).alias(whole)

    def _once(self, rows: DataFrame) -> DataFrame:
        """The rows, each deleted row once though it may match several rows of the source."""
        if not self._deletes_all_pairs:
            return rows
        number = self._of(When.MATCHED)[0][0]
        gone = rows.where(F.col(_CLAUSE) == number).dropDuplicates(self.change.row_id)
        return gone if len(self.clauses) == 1 else gone.unionByName(rows.where(F.col(_CLAUSE) != number))


def compared_columns(handle: TableHandle) -> tuple[str, ...]:
    """Columns that an update of all columns compares, as it cannot set them.

    The primary key, or the partition columns of a table with data evolution.
    """
    return handle.schema.partition_keys if handle.options.data_evolution else handle.schema.primary_keys


def _check_updates_by_source(handle: TableHandle) -> None:
    """Refuse WHEN NOT MATCHED BY SOURCE THEN UPDATE on tables with data evolution, as Java does."""
    if handle.options.data_evolution:
        raise UnsupportedFeatureError(
            f"{handle.describe()} has data-evolution.enabled, and WHEN NOT MATCHED BY SOURCE THEN UPDATE is not "
            "supported on such tables, as in Paimon; update these rows with an UPDATE of their own",
            feature="WHEN NOT MATCHED BY SOURCE THEN UPDATE with data-evolution.enabled",
            table=handle.name,
        )


def _plain(text: str) -> tuple[str, ...]:
    """The parts of a name in lower case, without quotes; other text as it is."""
    if _DOTTED.fullmatch(text.strip()) is None:
        return (text,)
    parts = re.findall(_NAME, text)
    return tuple((p[1:-1].replace("``", "`") if p.startswith("`") else p).lower() for p in parts)


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
    found = {n: f"s.{quoted(there[n.lower()])}" for n in names if n.lower() in there}
    if not found:
        raise InvalidInputError(
            f"'*' takes the columns that {handle.describe()} and the source have in common, and there are none: the "
            f"source has {', '.join(source.columns)}. Give expressions by column",
            table=handle.name,
        )
    return found
