"""DELETE, UPDATE and TRUNCATE: whole partitions by their metadata, other rows by a query of the rows that change."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from paimon_spark.engine.commit.overwrite import NamedPartitions, WholeTable
from paimon_spark.engine.row_level.way import way_of
from paimon_spark.errors import PaimonError, UnsupportedFeatureError
from paimon_spark.jobs.row_level import delete_partitions, is_cut_by_spark, partitions_where
from paimon_spark.metadata.handle import current
from paimon_spark.predicate.parse import parse_predicate
from paimon_spark.spark.row_level import delete_found, deletion, update_found, updating
from paimon_spark.spark.session import our_errors
from paimon_spark.sql.cursor import Cursor
from paimon_spark.sql.rows.expressions import requalified, values_by_column, without_qualifier
from paimon_spark.sql.rows.grammar import read_delete, read_truncate, read_update, read_with
from paimon_spark.sql.rows.parameters import bound
from paimon_spark.sql.rows.statements import Delete, Refused, Truncate, Update
from paimon_spark.sql.rows.static_partition import static_partition
from paimon_spark.sql.rows.target import Target, open_target
from paimon_spark.sql.session import Session
from paimon_spark.sql.subject import subject
from paimon_spark.sql.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FORCED_CHANGELOG: Final = "delete.force-produce-changelog"
_NEW: Final = "__paimon_new_"


def run_delete(session: Session, statement: Delete) -> DataFrame | None:
    """Carry out a DELETE. Raises as `Table.delete`; Spark's own errors for the condition."""
    given = statement.sql
    session, sql = bound(session, given)
    if sql != statement.sql:
        cursor = Cursor(sql)
        again = read_with(cursor) if cursor.at("WITH") else read_delete(cursor)
        assert isinstance(again, Delete)
        statement = again
    target = open_target(session, statement.name, given)
    if target is None:
        return NotImplemented  # type: ignore[no-any-return]
    table, where = target.table, statement.where
    if where is None or where.upper() == "TRUE":
        delete_partitions(table, WholeTable(), "DELETE")
        return None
    plain = without_qualifier(where, _names(target, statement.alias, statement.name))
    whole = partitions_where(table, plain, target.session.time_zone)
    if whole is not None and table.options.raw.get(_FORCED_CHANGELOG, "").lower() != "true":
        delete_partitions(table, whole, "DELETE")
        return None
    if any(is_cut_by_spark(f.type) for f in target.columns):
        table.delete(plain)
        return None
    with our_errors():
        change = deletion(table)
        rows = change.read(session.spark, _pushed(target, plain), target.session.time_zone)
        with _seen(session, rows) as view:
            delete_found(change, _found(target, statement, view, ()))
    return None


def run_update(session: Session, statement: Update) -> DataFrame | None:
    """Carry out an UPDATE. Raises as `Table.update`; Spark's own errors for the expressions."""
    given = statement.sql
    session, sql = bound(session, given)
    if sql != statement.sql:
        cursor = Cursor(sql)
        again = read_with(cursor) if cursor.at("WITH") else read_update(cursor)
        assert isinstance(again, Update)
        statement = again
    target = open_target(session, statement.name, given)
    if target is None:
        return NotImplemented  # type: ignore[no-any-return]
    way_of(current(target.table.handle))
    alias = _alias(statement)
    values = values_by_column(target, statement.assignments, (alias,))
    with our_errors():
        change, new = updating(target.table, values)
        named = {n: f"{_NEW}{i}" for i, n in enumerate(new)}
        plain = None
        if statement.where is not None:
            plain = without_qualifier(statement.where, _names(target, statement.alias, statement.name))
        rows = change.read(session.spark, None if plain is None else _pushed(target, plain), target.session.time_zone)
        with _seen(session, rows) as view:
            made = [(expression, named[n]) for n, expression in new.items()]
            update_found(change, _found(target, statement, view, made), named)
    return None


def run_truncate(session: Session, statement: Truncate) -> DataFrame | None:
    """Carry out a TRUNCATE. Raises as `Table.write`."""
    given = statement.sql
    session, sql = bound(session, given)
    statement = read_truncate(Cursor(sql)) if sql != statement.sql else statement
    target = open_target(session, statement.name, given)
    if target is None:
        return NotImplemented  # type: ignore[no-any-return]
    static = static_partition(target, statement.partition)
    delete_partitions(target.table, NamedPartitions((static.values,)) if static.values else WholeTable(), "TRUNCATE")
    return None


def run_refused(session: Session, statement: Refused) -> DataFrame | None:
    """Refuse a statement, unless it is about tables of Spark's alone. Raises UnsupportedFeatureError."""
    found = [n for n in (subject(session, name) for name in statement.names) if n is not None]
    if statement.names and not found:
        return NotImplemented  # type: ignore[no-any-return]
    where = f" for table {found[0]}" if found else ""
    raise UnsupportedFeatureError(
        f"{statement.feature} is not supported{where}. {statement.instead}", feature=statement.feature
    )


def _found(target: Target, statement: Delete | Update, view: str, made: Sequence[tuple[str, str]]) -> DataFrame:
    """The rows that the condition of a statement chooses, with expressions of them under names."""
    alias = _alias(statement)
    names = () if statement.alias is not None else target.full_names
    columns = [f"{quoted(alias)}.*", *(f"({requalified(e, names, alias)}) AS {quoted(n)}" for e, n in made)]
    sql = f"{statement.prefix} SELECT {', '.join(columns)} FROM {quoted(view)} AS {quoted(alias)}"  # noqa: S608 - the user's own
    if statement.where is not None:
        sql += f" WHERE {requalified(statement.where, names, alias)}"
    return target.query(sql.strip())


@contextmanager
def _seen(session: Session, rows: DataFrame) -> Iterator[str]:
    """A temporary view of a DataFrame, for as long as what is made of it is needed."""
    name = f"paimon_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        session.spark.catalog.dropTempView(name)


def _alias(statement: Delete | Update) -> str:
    return statement.alias or statement.name[-1]


def _names(target: Target, alias: str | None, written: Sequence[str]) -> list[Sequence[str]]:
    """What the table can be called before its columns."""
    return [(alias,)] if alias is not None else [*target.full_names, (written[-1],)]


def _pushed(target: Target, where: str) -> str | None:
    """The condition, when the scan can skip files by it too."""
    try:
        parse_predicate(where, target.table.row_type, target.session.time_zone)
    except PaimonError:
        return None
    return where
