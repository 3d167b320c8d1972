"""MERGE with any number of clauses; the first that holds for a row applies.

The rows of table and source are joined once, and clauses are evaluated on the joined rows in three stages, as names
mean other columns in each kind of clause:

1. WHEN MATCHED: columns of the table and of the source.
2. WHEN NOT MATCHED: columns of the source.
3. WHEN NOT MATCHED BY SOURCE: columns of the table.

A stage chooses the clause of each row of its kind and computes the new values. It passes them on in columns with names
of ours, so that the next stage sees only the columns that its clauses may name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StringType

from paimon_spark.engine.row_level.strategy import check_deletes, check_set, delete_strategy
from paimon_spark.errors import InvalidInputError, UnsupportedFeatureError
from paimon_spark.format.casts.nested_assignment import column_assignment
from paimon_spark.jobs.opened_table import OpenedTable
from paimon_spark.jobs.row_level.write import MergeClauses
from paimon_spark.jobs.write.commit import WriteResult
from paimon_spark.metadata.handle import TableHandle
from paimon_spark.options.core import MergeEngine
from paimon_spark.spark.dataframe import source_dataframe
from paimon_spark.spark.merge_clauses import Clause, MissingFields, Verb, When, compared_columns
from paimon_spark.spark.row_change import ACTION, UPDATE, Change
from paimon_spark.spark.row_level import by_own_names, check_assignments, check_precision, refuse_nulls, refuse_twice
from paimon_spark.spark.schema import aligned, arrow_schema, fitted, spark_type
from paimon_spark.types import quoted

_IN_TARGET: Final = "__paimon_in_target"
_IN_SOURCE: Final = "__paimon_in_source"
_KIND: Final = "__paimon_kind"
"""Column of joined rows: the value of their `When`."""
_CLAUSE: Final = "__paimon_clause"
"""Column of joined rows: the number of the clause that applies; null where none does, as yet."""
_NEW: Final = "__paimon_column_"
"""Prefix of the columns with the new values, which end in the number of the column."""
_OLD: Final = "__paimon_old_"
"""Prefix of the columns with the old values."""
_MOVED: Final = "__paimon_moved"
"""Column of joined rows: the number of the one of `compared_columns` that the clause would change, or null."""
_NAME: Final = r"(?:`(?:[^`]|``)+`|\w+)"
_DOTTED: Final = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_EQUAL: Final = re.compile(rf"\(?\s*({_DOTTED.pattern})\s*={{1,2}}\s*({_DOTTED.pattern})\s*\)?", re.DOTALL)


def merge(table: OpenedTable, data: Any, on: str, given: MergeClauses) -> WriteResult:
    """As `Table.merge`."""
    change = Change.of(table)
    source = source_dataframe(data)
    delete_strategy(change.handle)
    clauses = tuple(_clauses(change.handle, source, given))
    if not clauses:
        raise InvalidInputError("merge has no clause; give one of its when_… arguments", table=table.name)
    return MergeJob(change, source, on, clauses, "t", "s").run()


def _clauses(handle: TableHandle, source: DataFrame, given: MergeClauses) -> Iterator[Clause]:
    """The clauses of `Table.merge`, in the order in which they are tried."""
    if given.when_matched_delete is not None:
        yield Clause(When.MATCHED, Verb.DELETE, given.when_matched_delete)
    updates = _values(handle, source, given.when_matched_update)
    if updates is not None:
        is_star = isinstance(given.when_matched_update, str)
        same = {n: updates.pop(n) for n in compared_columns(handle) if is_star and n in updates}
        missing = MissingFields.KEPT if is_star else MissingFields.REFUSED
        yield Clause(When.MATCHED, Verb.UPDATE, given.when_matched_condition, updates, same, missing)
    inserts = _values(handle, source, given.when_not_matched_insert)
    if inserts is not None:
        missing = MissingFields.NULL if isinstance(given.when_not_matched_insert, str) else MissingFields.REFUSED
        yield Clause(When.NOT_MATCHED, Verb.INSERT, given.when_not_matched_condition, inserts, missing=missing)
    if given.when_not_matched_by_source_delete is not None:
        yield Clause(When.NOT_MATCHED_BY_SOURCE, Verb.DELETE, given.when_not_matched_by_source_delete)


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


@dataclass(frozen=True, slots=True)
class MergeJob:
    """One MERGE, with at least one clause. Expressions name the table and the source by their aliases.

    Attributes:
        on: the condition of the join.
        clauses: in the order in which they are tried.
        refuses_pairs: whether a row of the table that matches twice is refused whatever the clauses choose, as by
            Spark; else only when the clauses change it twice.
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
        self._check_clauses()
        rows = self._evaluated(self._joined())
        self._refuse_moves(rows)
        self._refuse_nulls(rows)
        rows = self._to_commit(self._with_single_deletes(rows))
        if self.change.by_key:
            refuse_twice(self.change, rows)
        return self.change.commit(rows, "MERGE", self._set_columns)

    @property
    def _set_columns(self) -> set[str]:
        """Columns that updates set."""
        return {n for c in self.clauses if c.verb is Verb.UPDATE for n in c.values}

    def _clauses_of(self, when: When) -> list[tuple[int, Clause]]:
        """The clauses of a kind with their numbers, in order."""
        return [(i, c) for i, c in enumerate(self.clauses) if c.when is when]

    def _target(self, name: str) -> Column:
        return F.col(f"{quoted(self.target_alias)}.{quoted(name)}")

    def _check_clauses(self) -> None:
        """Refuse clauses that the table cannot have, before any row is read."""
        handle = self.change.handle
        if any(c.verb is Verb.DELETE for c in self.clauses):
            check_deletes(handle)
        for clause in self.clauses:
            if clause.verb is Verb.UPDATE and clause.when is When.NOT_MATCHED_BY_SOURCE:
                _check_updates_by_source(handle)
            if clause.verb is not Verb.DELETE:
                check_assignments(handle, clause.values if clause.verb is Verb.UPDATE else ())
            if clause.verb is Verb.UPDATE or (clause.verb is Verb.DELETE and self.change.by_key):
                check_precision(handle, clause.values)

    def _joined(self) -> DataFrame:
        """The pairs of rows, and the rows of one side alone that a clause may choose."""
        inserts, by_source = self._clauses_of(When.NOT_MATCHED), self._clauses_of(When.NOT_MATCHED_BY_SOURCE)
        if inserts:
            join = "full" if by_source else "right"
        else:
            join = "left" if by_source else "inner"
        target = self.change.read(self.source.sparkSession).withColumn(_IN_TARGET, F.lit(True)).alias(self.target_alias)
        source = self.source.withColumn(_IN_SOURCE, F.lit(True)).alias(self.source_alias)
        joined = target.join(source, F.expr(self.on), join)
        if self._must_count_pairs:
            pairs = joined if join == "inner" else target.join(source, F.expr(self.on), "inner")
            refuse_twice(self.change, pairs.select(*(self._target(n).alias(n) for n in self.change.row_id)))
        return joined

    @property
    def _must_count_pairs(self) -> bool:
        """Whether pairs must be counted before clauses choose; a clause for every pair shows duplicates anyway."""
        found = [c for _, c in self._clauses_of(When.MATCHED)]
        return self.refuses_pairs and bool(found) and all(c.condition is not None for c in found)

    def _evaluated(self, joined: DataFrame) -> DataFrame:
        """The rows that a clause applies to, after all stages.

        Columns: the table's with their new values, those of `Change.carried`, the old values, _MOVED, _CLAUSE, ACTION.
        """
        change = self.change
        in_target, in_source = self._target(_IN_TARGET), F.col(f"{quoted(self.source_alias)}.{_IN_SOURCE}")
        kind = (
            F.when(in_target.isNull(), When.NOT_MATCHED.value)
            .when(in_source.isNull(), When.NOT_MATCHED_BY_SOURCE.value)
            .otherwise(When.MATCHED.value)
        )
        rows = joined.withColumn(_KIND, kind)
        rows = rows.withColumn(_CLAUSE, self._chosen(When.MATCHED)).withColumn(_MOVED, self._moved())
        values = self._values_after(rows, When.MATCHED, {n: self._target(n) for n in change.names})
        carried = [self._target(n).alias(n) for n in change.carried]
        old = [self._target(n).alias(f"{_OLD}{i}") for i, n in enumerate(change.names)]
        of_source = F.col(f"{quoted(self.source_alias)}.*")
        rows = rows.select(of_source, *values, *carried, *old, _KIND, _CLAUSE, _MOVED)

        passed_on = [*(c for c in rows.columns if c.startswith(_OLD)), *map(quoted, change.carried), _KIND, _MOVED]
        new = {n: F.col(f"{_NEW}{i}") for i, n in enumerate(change.names)}
        if self._clauses_of(When.NOT_MATCHED):
            rows = self._with_clauses(rows, When.NOT_MATCHED, self.source_alias)
            values = self._values_after(rows, When.NOT_MATCHED, new)
            rows = rows.select(*values, *passed_on, _CLAUSE)
        if self._clauses_of(When.NOT_MATCHED_BY_SOURCE):
            # No earlier clause changes these rows: the new values are the old ones, under the names of the table.
            rows = rows.select(*(c.alias(n) for n, c in new.items()), *passed_on, _CLAUSE)
            rows = self._with_clauses(rows, When.NOT_MATCHED_BY_SOURCE, self.target_alias)
            values = self._values_after(rows, When.NOT_MATCHED_BY_SOURCE, {n: self._target(n) for n in change.names})
            rows = rows.select(*values, *passed_on, _CLAUSE)

        action = F.lit(None).cast("string")
        for i, clause in enumerate(self.clauses):
            action = F.when(F.col(_CLAUSE) == i, clause.verb.value).otherwise(action)
        named = [c.alias(n) for n, c in new.items()]
        others = [c for c in passed_on if c != _KIND]
        return rows.where(F.col(_CLAUSE).isNotNull()).select(*named, *others, _CLAUSE, action.alias(ACTION))

    def _with_clauses(self, rows: DataFrame, when: When, alias: str) -> DataFrame:
        """The rows, called `alias`, with the clauses of one more kind chosen."""
        rows = rows.alias(alias)
        return rows.withColumn(_CLAUSE, F.coalesce(F.col(_CLAUSE), self._chosen(when))).alias(alias)

    def _chosen(self, when: When) -> Column:
        """The number of the first clause of a kind that holds; null for none."""
        out = F.lit(None).cast("int")
        for i, clause in reversed(self._clauses_of(when)):
            condition = F.col(_KIND) == when.value
            if clause.condition is not None:
                condition = condition & F.expr(clause.condition)
            out = F.when(condition, i).otherwise(out)
        return out

    def _values_after(self, rows: DataFrame, when: When, before: Mapping[str, Column]) -> list[Column]:
        """The table's columns after the clauses of a kind, under the names for the next stage."""
        out = []
        for i, (name, old) in enumerate(before.items()):
            value = old
            for number, clause in reversed(self._clauses_of(when)):
                if name in clause.values:
                    made = self._fitting(rows, name, clause.values[name], clause.missing)
                elif clause.verb is Verb.INSERT:
                    made = F.lit(None).cast(self._type_text(name))
                else:
                    continue
                value = F.when(F.col(_CLAUSE) == number, made).otherwise(value)
            out.append(value.alias(f"{_NEW}{i}"))
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
        """The number of the one of `compared_columns` that a clause would change in this row; null for none."""
        out = F.lit(None).cast("int")
        compared = list(compared_columns(self.change.handle))
        for i, clause in enumerate(self.clauses):
            for name, expression in clause.same.items():
                if not self._is_stated(name, expression):
                    differs = ~self._target(name).eqNullSafe(F.expr(expression))
                    out = F.when((F.col(_CLAUSE) == i) & differs, compared.index(name)).otherwise(out)
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

    def _refuse_nulls(self, rows: DataFrame) -> None:
        """Refuse updates to null where the table would keep the old value. Raises UnsupportedFeatureError."""
        change = self.change
        if change.handle.options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
            return
        is_set = self._set_columns
        old_and_new = {n: (F.col(f"{_OLD}{i}"), F.col(quoted(n))) for i, n in enumerate(change.names) if n in is_set}
        refuse_nulls(change.handle, rows.where(F.col(ACTION) == UPDATE), old_and_new)

    def _with_single_deletes(self, rows: DataFrame) -> DataFrame:
        """The rows; each deleted one once, where all matching rows are deleted, which may match several times then."""
        matched = self._clauses_of(When.MATCHED)
        deletes_all_pairs = (
            self.refuses_pairs
            and len(matched) == 1
            and matched[0][1].verb is Verb.DELETE
            and matched[0][1].condition is None
        )
        if not deletes_all_pairs:
            return rows
        number = matched[0][0]
        gone = rows.where(F.col(_CLAUSE) == number).dropDuplicates(self.change.row_id)
        return gone if len(self.clauses) == 1 else gone.unionByName(rows.where(F.col(_CLAUSE) != number))

    def _to_commit(self, rows: DataFrame) -> DataFrame:
        """The columns that `Change.commit` takes. The whole value of a timestamp is null where a clause assigns it."""

        def whole(name: str, column: str) -> Column:
            assigning = [i for i, c in enumerate(self.clauses) if c.verb is Verb.INSERT or name in c.values]
            return F.when(~F.col(_CLAUSE).isin(assigning), F.col(quoted(column))).alias(column)

        change = self.change
        timestamps = {column: whole(name, column) for name, column in change.nanoseconds.items()}
        carried = [timestamps.get(c, F.col(quoted(c))) for c in change.carried]
        return rows.select(*(F.col(quoted(n)) for n in change.names), *carried, ACTION)


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
