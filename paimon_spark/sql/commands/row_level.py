"""Run DELETE, UPDATE, TRUNCATE and MERGE INTO.

Whole partitions are deleted by their metadata, other rows by a query of the changed rows. `spark.merge` executes a
MERGE: its source is a DataFrame, its clauses are expressions by column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paimon_spark.engine.commit.overwrite import NamedPartitions, WholeTable
from paimon_spark.engine.row_level.strategy import delete_strategy
from paimon_spark.engine.tasks import sum_if_known
from paimon_spark.errors import PaimonError, SchemaMismatchError, UnsupportedFeatureError
from paimon_spark.jobs.row_level.delete import delete_partitions, partitions_where
from paimon_spark.jobs.row_level.write import is_cut_by_spark
from paimon_spark.metadata.handle import current
from paimon_spark.predicate.ast import has_expressions
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.spark.merge import MergeJob
from paimon_spark.spark.merge_clauses import Clause, MissingFields, Verb, compared_columns
from paimon_spark.spark.row_change import Change
from paimon_spark.spark.row_level import delete_found, deletion, update_found, updating
from paimon_spark.spark.schema import row_type
from paimon_spark.spark.session import our_errors, temporary_views
from paimon_spark.sql.commands.column_text import default_expression
from paimon_spark.sql.commands.expressions import (
    refuse_subqueries,
    replace_qualifier,
    values_by_column,
)
from paimon_spark.sql.commands.target import Target, affected_columns, affected_rows, on_target, static_partition
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.grammar.write import Delete, Merge, Truncate, Update, WhenClause
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.jobs.write.commit import WriteResult

DELETE_COLUMNS: Final = affected_columns()
"""Columns of the number of rows of a DELETE or TRUNCATE, as DDL."""
UPDATE_COLUMNS: Final = affected_columns()
"""Columns of the number of rows of an UPDATE, as DDL."""
MERGE_COLUMNS: Final = affected_columns("updated", "deleted", "inserted")
"""Columns of the numbers of rows of a MERGE, as DDL."""
_NEW_VALUE: Final = "__paimon_new_"
_UNNAMED_SOURCE: Final = "paimon_source"
_RENAMED_TARGET: Final = "paimon_target"


@on_target
def delete(target: Target, statement: Delete) -> DataFrame:
    """Run a DELETE; the number of rows. Raises as `Table.delete`; Spark's own errors for the condition."""
    return affected_rows(target.session, _delete(target, statement).deleted_rows)


def _delete(target: Target, statement: Delete) -> WriteResult:
    table, where = target.table, statement.where
    if where is None or where.upper() == "TRUE":
        return delete_partitions(table, WholeTable(), "TRUNCATE")
    unqualified = replace_qualifier(where, _qualifiers(target, statement), None)
    whole = partitions_where(table, unqualified, target.session.time_zone)
    if whole is not None and not table.options.write.delete_as_changelog:
        return delete_partitions(table, whole, "TRUNCATE")
    if any(is_cut_by_spark(f.type) for f in target.columns):
        _refuse_expressions(target, unqualified)
        return table.delete(unqualified)
    with our_errors():
        change = deletion(table)
        rows = change.read(target.session.spark, _scan_condition(target, unqualified), target.session.time_zone)
        with temporary_views([(target.name.bare, rows)]) as [view]:
            return delete_found(change, _matching_rows(target, statement, view, ()))


@on_target
def update(target: Target, statement: Update) -> DataFrame:
    """Run an UPDATE; the number of rows. Raises as `Table.update`; Spark's own errors for the expressions."""
    delete_strategy(current(target.table.handle))
    values = values_by_column(target, statement.assignments, (_alias(statement),))
    with our_errors():
        change, new = updating(target.table, values)
        new_names = {n: f"{_NEW_VALUE}{i}" for i, n in enumerate(new)}
        where = None
        if statement.where is not None:
            unqualified = replace_qualifier(statement.where, _qualifiers(target, statement), None)
            where = _scan_condition(target, unqualified)
        rows = change.read(target.session.spark, where, target.session.time_zone)
        with temporary_views([(target.name.bare, rows)]) as [view]:
            computed = [(expression, new_names[n]) for n, expression in new.items()]
            made = update_found(change, _matching_rows(target, statement, view, computed), new_names)
    return affected_rows(target.session, made.updated_rows)


@on_target
def truncate(target: Target, statement: Truncate) -> DataFrame:
    """Run a TRUNCATE; the number of rows. Raises as `Table.write`."""
    values = static_partition(target, statement.partition).values
    which = NamedPartitions((values,)) if values else WholeTable()
    return affected_rows(target.session, delete_partitions(target.table, which, "TRUNCATE").deleted_rows)


def _matching_rows(
    target: Target, statement: Delete | Update, view: str, computed: Sequence[tuple[str, str]]
) -> DataFrame:
    """The rows that the condition of a statement selects, with more columns: expression and name of each."""
    alias = _alias(statement)
    names = () if statement.alias is not None else target.full_names
    columns = [f"({replace_qualifier(e, names, alias)}) AS {quoted(n)}" for e, n in computed]
    select = ", ".join([f"{quoted(alias)}.*", *columns])
    sql = f"{statement.prefix} SELECT {select} FROM {quoted(view)} AS {quoted(alias)}"  # noqa: S608 - the user's own
    if statement.where is not None:
        sql += f" WHERE {replace_qualifier(statement.where, names, alias)}"
    return target.query(sql.strip())


def _alias(statement: Delete | Update) -> str:
    return statement.alias or statement.table[-1]


def _qualifiers(target: Target, statement: Delete | Update) -> list[Sequence[str]]:
    """Names that may qualify columns of the table."""
    if statement.alias is not None:
        return [(statement.alias,)]
    return [*target.full_names, (statement.table[-1],)]


def _scan_condition(target: Target, where: str) -> str | None:
    """The condition if a scan can skip files by it and certainly means what Spark does, else None."""
    try:
        predicate = parse_predicate(where, target.table.row_type, target.session.time_zone)
    except PaimonError:
        return None
    return None if has_expressions(predicate) else where


def _refuse_expressions(target: Target, where: str) -> None:
    """Refuse conditions whose meaning depends on the session, where Spark cannot evaluate them itself."""
    try:
        predicate = parse_predicate(where, target.table.row_type, target.session.time_zone)
    except PaimonError:
        return  # the deletion says why
    if has_expressions(predicate):
        raise UnsupportedFeatureError(
            f"DELETE WHERE {where}: {target.table.name} has columns of TIMESTAMP(7) to (9), for which conditions with "
            "functions or arithmetic are not supported; call Table.delete, which evaluates them in ANSI mode",
            feature="DELETE",
        )


@on_target
def merge_into(target: Target, statement: Merge) -> DataFrame:
    """Run a MERGE; the numbers of rows. Raises as `Table.merge`; Spark's own errors for the expressions."""
    values = [a.value for c in statement.clauses for a in c.assignments or ()]
    refuse_subqueries([statement.condition, *(c.condition for c in statement.clauses), *values])
    delete_strategy(current(target.table.handle))
    with our_errors():
        source = target.query(f"{statement.prefix} SELECT * FROM {statement.source}".strip())  # noqa: S608 - the user's own
        change = _change(target, statement, source)
        target = replace(target, changed=change.handle.schema.row_type)
        made = _Merge(target, statement, source, change).plan().run()
    counts = {"updated": made.updated_rows, "deleted": made.deleted_rows, "inserted": made.inserted_rows}
    return affected_rows(target.session, sum_if_known(counts.values()), **counts)


def _merges_schema(target: Target, statement: Merge) -> bool:
    return statement.evolves or target.table.options.changed(target.options).schema_merge.enabled


def _change(target: Target, statement: Merge, source: DataFrame) -> Change:
    """The change of the table, to which columns belong that the clauses set and only the source has.

    These only where the schema may change. Raises UnsupportedFeatureError: no type of a table holds the values of a
    column.
    """
    if not _merges_schema(target, statement):
        return Change.of(target.table)
    clauses = [c for c in statement.clauses if c.verb is not Verb.DELETE]
    named = {a.target[-1].lower() for c in clauses for a in c.assignments or ()}
    if all(c.assignments is not None for c in clauses):
        named -= {f.name.lower() for f in target.columns}
        source = source.select([quoted(c) for c in source.columns if c.lower() in named])
    wanted = row_type(source.schema, all_nullable=True)
    return Change.of(target.table, wanted, target.table.options.changed(target.options).schema_merge)


@dataclass(frozen=True)
class _Merge:
    """A MERGE with the rows of its source."""

    target: Target
    statement: Merge
    source: DataFrame
    change: Change

    def plan(self) -> MergeJob:
        """The merge as `spark.merge` takes it."""
        clauses = tuple(map(self._clause, self.statement.clauses))
        on = self._expression(self.statement.condition)
        return MergeJob(self.change, self.source, on, clauses, self._alias, self._source_alias, refuses_pairs=True)

    @property
    def _source_alias(self) -> str:
        return self.statement.source_alias or _UNNAMED_SOURCE

    @property
    def _alias(self) -> str:
        """The name of the table in expressions; when the source has the same name, only `db.t.c` means the table."""
        alias = self.statement.alias or self.statement.table[-1]
        return _RENAMED_TARGET if alias.lower() == self._source_alias.lower() else alias

    def _expression(self, text: str) -> str:
        """An expression in which `db.t.c` of either side is a column of its alias."""
        if self.statement.alias is None:
            text = replace_qualifier(text, self.target.full_names, self._alias)
        return replace_qualifier(text, self._source_names, self._source_alias)

    @property
    def _source_names(self) -> list[tuple[str, ...]]:
        """The qualified name of the source when it is a table without an alias."""
        cursor = Cursor(self.statement.source)
        if not all(t.is_name or t.keyword in (".", "$") for t in cursor.tokens):
            return []
        name = cursor.name()
        return [name] if cursor.at_end and len(name) > 1 else []

    def _clause(self, clause: WhenClause) -> Clause:
        when, verb = clause.when, clause.verb
        condition = None if clause.condition is None else self._expression(clause.condition)
        if verb is Verb.DELETE:
            return Clause(when, verb, condition)
        missing = MissingFields.NULL if _merges_schema(self.target, self.statement) else MissingFields.REFUSED
        if clause.assignments is None:
            values = self._all_columns(verb)
            if verb is Verb.UPDATE and missing is MissingFields.NULL:
                missing = MissingFields.KEPT
        else:
            given = values_by_column(self.target, clause.assignments, (self._alias,))
            values = {n: self._expression(e) for n, e in given.items()}
        if verb is Verb.INSERT:
            defaults = {f.name: default_expression(f) for f in self.target.columns if f.default_value is not None}
            return Clause(when, verb, condition, {**defaults, **values}, missing=missing)
        same = {n: values.pop(n) for n in compared_columns(self.target.table.handle) if n in values}
        return Clause(when, verb, condition, values, same, missing)

    def _all_columns(self, verb: Verb) -> dict[str, str]:
        """The values of `*`: each column of the table from the column of that name of the source."""
        by_lower = {c.lower(): c for c in self.source.columns}
        names = [f.name for f in self.target.columns]
        where = self.target.table.handle.describe()
        missing = [n for n in names if n.lower() not in by_lower]
        if missing and not _merges_schema(self.target, self.statement):
            raise SchemaMismatchError(
                f"{verb.name} * fills all columns of {where}, and the source has no column {', '.join(missing)}; it "
                f"has {', '.join(self.source.columns)}. Name the columns instead",
                column=missing[0],
            )
        alias = quoted(self._source_alias)
        return {n: f"{alias}.{quoted(by_lower[n.lower()])}" for n in names if n.lower() in by_lower}
