"""Run DELETE, UPDATE and TRUNCATE: whole partitions by their metadata, other rows by a query of the changed rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from paimon_spark.engine.commit.overwrite import NamedPartitions, WholeTable
from paimon_spark.engine.row_level.strategy import delete_strategy
from paimon_spark.errors import PaimonError
from paimon_spark.jobs.row_level import delete_partitions, is_cut_by_spark, partitions_where
from paimon_spark.metadata.handle import current
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.spark.row_level import delete_found, deletion, update_found, updating
from paimon_spark.spark.session import our_errors
from paimon_spark.sql.commands.expressions import replace_qualifier, values_by_column
from paimon_spark.sql.commands.target import Target, open_target, static_partition
from paimon_spark.sql.grammar.write import Delete, Truncate, Update
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Outcome, Result
from paimon_spark.sql.tokens import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FORCED_CHANGELOG: Final = "delete.force-produce-changelog"
_NEW_VALUE: Final = "__paimon_new_"


def delete(session: Session, statement: Delete) -> Result:
    """Run a DELETE. Raises as `Table.delete`; Spark's own errors for the condition."""
    opened = open_target(session, statement)
    if opened is None:
        return Outcome.RUN_BY_SPARK
    target, statement = opened
    table, where = target.table, statement.where
    if where is None or where.upper() == "TRUE":
        delete_partitions(table, WholeTable(), "DELETE")
        return None
    unqualified = replace_qualifier(where, _qualifiers(target, statement), None)
    whole = partitions_where(table, unqualified, target.session.time_zone)
    if whole is not None and not table.options.write.delete_as_changelog:
        delete_partitions(table, whole, "DELETE")
        return None
    if any(is_cut_by_spark(f.type) for f in target.columns):
        table.delete(unqualified)
        return None
    with our_errors():
        change = deletion(table)
        rows = change.read(session.spark, _scan_condition(target, unqualified), target.session.time_zone)
        with _temporary_view(session, rows) as view:
            delete_found(change, _matching_rows(target, statement, view, ()))
    return None


def update(session: Session, statement: Update) -> Result:
    """Run an UPDATE. Raises as `Table.update`; Spark's own errors for the expressions."""
    opened = open_target(session, statement)
    if opened is None:
        return Outcome.RUN_BY_SPARK
    target, statement = opened
    delete_strategy(current(target.table.handle))
    values = values_by_column(target, statement.assignments, (_alias(statement),))
    with our_errors():
        change, new = updating(target.table, values)
        new_names = {n: f"{_NEW_VALUE}{i}" for i, n in enumerate(new)}
        where = None
        if statement.where is not None:
            unqualified = replace_qualifier(statement.where, _qualifiers(target, statement), None)
            where = _scan_condition(target, unqualified)
        rows = change.read(session.spark, where, target.session.time_zone)
        with _temporary_view(session, rows) as view:
            computed = [(expression, new_names[n]) for n, expression in new.items()]
            update_found(change, _matching_rows(target, statement, view, computed), new_names)
    return None


def truncate(session: Session, statement: Truncate) -> Result:
    """Run a TRUNCATE. Raises as `Table.write`."""
    opened = open_target(session, statement)
    if opened is None:
        return Outcome.RUN_BY_SPARK
    target, statement = opened
    values = static_partition(target, statement.partition).values
    delete_partitions(target.table, NamedPartitions((values,)) if values else WholeTable(), "TRUNCATE")
    return None


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


@contextmanager
def _temporary_view(session: Session, rows: DataFrame) -> Iterator[str]:
    """A temporary view of a DataFrame, dropped at the end."""
    name = f"paimon_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        session.spark.catalog.dropTempView(name)


def _alias(statement: Delete | Update) -> str:
    return statement.alias or statement.table[-1]


def _qualifiers(target: Target, statement: Delete | Update) -> list[Sequence[str]]:
    """What may qualify columns of the table."""
    if statement.alias is not None:
        return [(statement.alias,)]
    return [*target.full_names, (statement.table[-1],)]


def _scan_condition(target: Target, where: str) -> str | None:
    """The condition if a scan can skip files by it, else None."""
    try:
        parse_predicate(where, target.table.row_type, target.session.time_zone)
    except PaimonError:
        return None
    return where
