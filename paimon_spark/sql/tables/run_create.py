"""CREATE TABLE, REPLACE TABLE, with rows of a query or like another table. Statement → a table of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paimon_spark.errors import (
    CommitOutcomeUnknownError,
    InvalidInputError,
    InvalidOptionError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.jobs.replace import replace_table, undo_replacement
from paimon_spark.jobs.write_target import undo_creation
from paimon_spark.metadata.definition.create import PARTITION, PRIMARY_KEY
from paimon_spark.options.descriptor import names
from paimon_spark.options.lineage import JOB, NO_SOURCES, OF_ONE_USE
from paimon_spark.options.location import table_defaults
from paimon_spark.spark.schema import row_type
from paimon_spark.sql.names import TableName, source, target
from paimon_spark.sql.queries.run import query_dataframe
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement_job import names_no_table, recorded
from paimon_spark.sql.tables.locations import check_location
from paimon_spark.sql.tables.statements import CreateTable, CreateTableLike, Making, Name, Outcome
from paimon_spark.sql.text import quoted, words
from paimon_spark.types import RowType, in_any_case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.api.table import Table

_OURS: Final = ("paimon", "paimon_py")
_DEFAULT_DATABASE: Final = "default"
_COMMENT: Final = "comment"
_NOT_COPIED: Final = frozenset(
    (
        "path", "provider", "location", "owner", "external", "is-managed-location", "branch",
        "scan.fallback-branch", "scan.primary-branch",
    )
)  # fmt: skip
"""Options that CREATE TABLE LIKE leaves: of the place of a table, and of branches that the new one has not."""
_OF_SPARK: Final = {
    "provider": "write USING paimon",
    "location": "write LOCATION '…'",
    "owner": "tables of a warehouse have none",
    "external": "tables of a warehouse lie in it",
}
_FOREIGN_TYPES: Final = ("blob-field", "blob-descriptor-field", "blob-view-field", "vector-field")


@dataclass(frozen=True, slots=True)
class _Definition:
    """Everything of a table but its name."""

    columns: RowType
    primary_key: tuple[str, ...]
    partition: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None


def to_create(session: Session, parts: Name, provider: str | None) -> TableName | None:
    """The table that a statement is to make; None when it is to be one of Spark's.

    Raises:
        DatabaseNotFoundError: neither the warehouse nor Spark has the database.
        UnsupportedFeatureError: a branch, or a table in the catalog of another format.
        InvalidOptionError: what follows `$` is no branch and no system table.
    """
    name = target(session, parts)
    if name is None:
        if len(parts) == 2 and not session.spark.catalog.databaseExists(quoted(parts[0])):
            session.catalog.list_tables(parts[0])  # says which databases there are
        return None
    if provider is not None and provider.lower() not in _OURS:
        if len(parts) == 1:
            return None
        raise UnsupportedFeatureError(
            f"{name} cannot be a table of {provider}: databases of the warehouse hold Paimon's tables; say USING "
            "paimon, or name a database of Spark's",
            feature=f"USING {provider}",
        )
    if name.branch is not None and name.system is None:
        raise UnsupportedFeatureError(
            f"{name} is a branch, which is made of a table: "
            f"CALL sys.create_branch('{name.database}.{name.table}', '{name.branch}')",
            feature="CREATE TABLE of a branch",
        )
    name.refuse_suffix("made")
    return name


def create_table(session: Session, statement: CreateTable) -> Outcome:
    """Make, or replace, a table, with the rows of its query if it has one."""
    name = to_create(session, statement.name, statement.provider)
    if name is None:
        return NotImplemented
    exists = session.has_table(name.database, name.table)
    if exists and statement.making is Making.IF_NOT_EXISTS:
        return None
    if not exists and statement.making is Making.REPLACE:
        raise TableNotFoundError(
            f"REPLACE TABLE {name}: there is no such table; CREATE OR REPLACE TABLE makes it then", table=str(name)
        )
    check_location(session.catalog, name, statement.location)
    rows = None
    if statement.query is not None:
        session = recorded(session, name, statement.sql)
        rows = query_dataframe(session, statement.query, session.catalog.options.get(JOB.key))
    # Whether a query's columns may be null nobody promised for rows to come: Spark passes over it as well.
    columns = statement.columns if rows is None else row_type(rows.schema, all_nullable=True)
    assert columns is not None
    definition = _definition(columns, statement.partition, statement.properties, statement.comment)
    if exists and statement.making.replaces:
        _replace(session, name, definition, rows, statement.query)
        return None
    table = _make(session, name, definition, statement.making is Making.IF_NOT_EXISTS)
    if rows is not None and table is not None:
        try:
            _write(session, table, rows, statement.query)
        except CommitOutcomeUnknownError:
            raise
        except BaseException:
            undo_creation(table.handle)
            raise
    return None


def create_like(session: Session, statement: CreateTableLike) -> Outcome:
    """Make a table like another, without its rows."""
    of_spark = source(session, statement.source) is None
    if of_spark and statement.provider is None:
        return NotImplemented  # it is to have the format of the other
    name = to_create(session, statement.name, statement.provider)
    if name is None:
        return NotImplemented
    if statement.if_not_exists and session.has_table(name.database, name.table):
        return None
    check_location(session.catalog, name, statement.location)
    like = _like_of_spark(session, statement.source) if of_spark else _like(session, statement.source)
    given = {PRIMARY_KEY: ",".join(like.primary_key)} if like.primary_key else {}
    properties = {**like.options, **given, **statement.properties}
    definition = _definition(like.columns, like.partition, properties, like.comment, overriding=True)
    _make(session, name, definition, statement.if_not_exists)
    return None


def _like(session: Session, parts: Name) -> _Definition:
    name = source(session, parts)
    assert name is not None
    table = session.table(name)
    if table.is_system:
        raise UnsupportedFeatureError(
            f"CREATE TABLE … LIKE {name}: that is a system table; make a table AS a query of it",
            feature="LIKE a system table",
        )
    schema = table.schema
    options = {k: v for k, v in schema.options.items() if k not in _NOT_COPIED}
    return _Definition(schema.row_type, schema.primary_keys, schema.partition_keys, options, schema.comment)


def _like_of_spark(session: Session, parts: Name) -> _Definition:
    """Columns, partitions and comment of a table of another format: its properties are not Paimon's."""
    text = ".".join(quoted(p) for p in parts)
    columns = row_type(session.spark.table(text).schema)
    partition = tuple(c.name for c in session.spark.catalog.listColumns(text) if c.isPartition)
    return _Definition(columns, (), partition, {}, session.spark.catalog.getTable(text).description)


def _definition(
    columns: RowType,
    partition: Sequence[str],
    properties: Mapping[str, str],
    comment: str | None,
    *,
    overriding: bool = False,
) -> _Definition:
    """The definition that clauses state; names of columns get the case of the columns.

    Raises:
        InvalidInputError, InvalidOptionError: clauses contradict each other, or a property is none of a table.
        UnsupportedFeatureError: a property that stands for types that tables here have not.
    """
    options = dict(properties)
    for wrong in (k for k in options if k in _OF_SPARK):
        raise InvalidOptionError(f"{wrong!r} is no property of a table: {_OF_SPARK[wrong]}", option=wrong)
    for wrong in (k for k in options if k in _FOREIGN_TYPES):
        raise UnsupportedFeatureError(
            f"property {wrong!r} makes columns of types that are not supported here; leave it out, or make the table "
            "with Java Paimon",
            feature=wrong,
        )
    stated = options.pop(_COMMENT, None)
    if stated is not None and comment is not None and stated != comment and not overriding:
        raise InvalidInputError(f"the comment is given twice: {comment!r} and property comment = {stated!r}")
    key = names(options.pop(PRIMARY_KEY, ""))
    other = names(options.pop(PARTITION, ""))
    if other and partition and other != tuple(partition):
        raise InvalidInputError(
            f"partitions are given twice: PARTITIONED BY ({', '.join(partition)}) and property partition = "
            f"{','.join(other)!r}; give one of them"
        )
    return _Definition(
        columns,
        _cased(columns, key),
        _cased(columns, tuple(partition) or other),
        options,
        stated if overriding and stated is not None else (comment if comment is not None else stated),
    )


def _cased(columns: RowType, wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(in_any_case(n, columns.names) or n for n in wanted)


def _make(session: Session, name: TableName, definition: _Definition, if_not_exists: bool) -> Table | None:
    """The table, which is new; None when another was faster and that is no error."""
    if name.database == _DEFAULT_DATABASE:
        session.catalog.create_database(_DEFAULT_DATABASE, ignore_if_exists=True)
    try:
        return session.catalog.create_table(
            name.bare,
            definition.columns,
            definition.primary_key,
            definition.partition,
            definition.options,
            definition.comment,
        )
    except TableAlreadyExistsError:
        if if_not_exists:
            return None
        raise


def _replace(
    session: Session, name: TableName, definition: _Definition, rows: DataFrame | None, query: str | None
) -> None:
    table = session.table(name)
    if rows is not None and query is not None and _may_read(session, query, name):
        rows = rows.localCheckpoint(eager=True)  # they are read before the table is emptied
    done = replace_table(
        table,
        definition.columns,
        definition.primary_key,
        definition.partition,
        {**table_defaults(session.catalog.options), **definition.options},
        definition.comment,
    )
    if rows is None:
        return
    try:
        _write(session, done.table, rows, query)
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        undo_replacement(done)
        raise


def _may_read(session: Session, query: str, name: TableName) -> bool:
    """Whether a query reads the table, also through a temporary view, of which nobody tells what it reads."""
    views = {t.name.lower() for t in session.spark.catalog.listTables() if t.isTemporary}
    suspects = {name.table.lower(), *views}
    return any(part.split("$")[0].lower() in suspects for w in words(query) for part in (w.text, *w.text.split(".")))


def _write(session: Session, table: Table, rows: DataFrame, query: str | None) -> None:
    options = {k: v for k, v in session.catalog.options.items() if k in OF_ONE_USE}
    if JOB.key in options and query is not None and names_no_table(query):
        options[NO_SOURCES.key] = "true"
    table.write(rows, **options)
