"""Run CREATE of tables and databases, DROP and ALTER DATABASE.

A warehouse of directories stores no properties of databases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from paimon_spark.catalogs.open import open_catalog
from paimon_spark.errors import (
    CommitOutcomeUnknownError,
    InvalidInputError,
    InvalidOptionError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.jobs.definition.replace import replace_table, undo_replacement
from paimon_spark.jobs.write.target import undo_creation
from paimon_spark.metadata.definition.create import PARTITION, PRIMARY_KEY
from paimon_spark.metadata.definition.option_rules import misspelt_definition
from paimon_spark.options.descriptor import names
from paimon_spark.options.lineage import JOB, NO_SOURCES, OF_ONE_USE
from paimon_spark.options.location import TableName, table_defaults, without_table_defaults
from paimon_spark.options.write_request import OPERATION
from paimon_spark.spark.schema import row_type
from paimon_spark.spark.session import without_attached
from paimon_spark.sql.grammar.create import (
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    DropDatabase,
)
from paimon_spark.sql.lineage_job import names_no_table, with_lineage_job
from paimon_spark.sql.names import DEFAULT_DATABASE, database_of_warehouse, resolve_name, resolve_source
from paimon_spark.sql.requests import CreateMode, TableRequest
from paimon_spark.sql.run import run_query
from paimon_spark.sql.session import Session
from paimon_spark.sql.statement import Name, Outcome, Result
from paimon_spark.sql.tokens import tokenize
from paimon_spark.storage.urls import open_store
from paimon_spark.text import with_article
from paimon_spark.types import RowType, in_any_case, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.api.catalog import Catalog
    from paimon_spark.api.table import Table

PROVIDERS: Final = ("paimon", "paimon_py")
OF_FRAME: Final = "CREATE TABLE AS DataFrame"
"""Text in place of a statement where the rows of a table are those of a DataFrame."""
_COMMENT: Final = "comment"
_NOT_COPIED: Final = frozenset(
    (
        "path", "provider", "location", "owner", "external", "is-managed-location", "branch",
        "scan.fallback-branch", "scan.primary-branch",
    )
)  # fmt: skip
"""Options that CREATE TABLE LIKE does not copy: the location of the table, and branches that the new one lacks."""
_NOT_PROPERTIES: Final = {
    "provider": "write USING paimon",
    "location": "write LOCATION '…'",
    "owner": "tables of a warehouse have none",
    "external": "tables of a warehouse are stored in it",
}
_UNSUPPORTED_TYPES: Final = ("blob-field", "blob-descriptor-field", "blob-view-field", "vector-field")


class TableDefinition(NamedTuple):
    """The definition of a table without its name, in the order of the parameters of `replace_table`."""

    columns: RowType
    primary_key: tuple[str, ...]
    partition: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None


def resolve_new_table(session: Session, parts: Name, provider: str | None) -> TableName | None:
    """The name of the table to create; None when Spark is to create it.

    Raises:
        DatabaseNotFoundError: neither the warehouse nor Spark has the database.
        UnsupportedFeatureError: a branch, or a table in the catalog of another format.
        InvalidOptionError: what follows `$` is neither a branch nor a system table.
    """
    name = resolve_name(session, parts)
    if name is None:
        return None
    if provider is not None and provider.lower() not in PROVIDERS:
        raise UnsupportedFeatureError(
            f"{name} cannot be {with_article(provider)} table: databases of the warehouse hold Paimon tables; write "
            "USING paimon, or name a table of spark_catalog",
            feature=f"USING {provider}",
        )
    if name.branch is not None and name.system is None:
        raise UnsupportedFeatureError(
            f"{name} is a branch; create it from the table: "
            f"CALL sys.create_branch('{name.database}.{name.table}', '{name.branch}')",
            feature="CREATE TABLE of a branch",
        )
    name.refuse_suffix("created")
    return name


def create_table(session: Session, statement: CreateTable) -> Result:
    """Create or replace a table, with the rows of its query if it has one."""
    name = resolve_new_table(session, statement.table, statement.request.provider)
    if name is None:
        return Outcome.RUN_BY_SPARK
    query = statement.query
    source = None if query is None else _Source(statement.sql, query, partial(_rows_of_query, query))
    _create(session, name, statement.request, source, {})
    return None


def create_of_frame(
    session: Session, table: Name, request: TableRequest, frame: DataFrame, write_options: Mapping[str, str]
) -> None:
    """Create or replace a table of the catalog with the rows of a DataFrame. Raises as `create_table`."""
    source = _Source(OF_FRAME, None, lambda _: frame)
    _create(session, _new_name(session, table, request), request, source, write_options)


def create_empty(session: Session, table: Name, request: TableRequest) -> None:
    """Create or replace a table of the catalog without rows. Raises as `create_table`."""
    _create(session, _new_name(session, table, request), request, None, {})


def _new_name(session: Session, table: Name, request: TableRequest) -> TableName:
    name = resolve_new_table(session, table, request.provider)
    assert name is not None, "the table is the catalog's"
    return name


class _Source(NamedTuple):
    """Rows of a new table: `sql` is the statement, or a text in place of one; a DataFrame has no `query`."""

    sql: str
    query: str | None
    rows: Callable[[Session], DataFrame]


def _rows_of_query(query: str, session: Session) -> DataFrame:
    return run_query(session, query, session.catalog.options.get(JOB.key))


def _create(
    session: Session,
    name: TableName,
    request: TableRequest,
    source: _Source | None,
    write_options: Mapping[str, str],
) -> None:
    mode, exists = request.mode, session.has_table(name.database, name.table)
    if exists and mode is CreateMode.IF_NOT_EXISTS:
        return
    if not exists and mode is CreateMode.REPLACE:
        raise TableNotFoundError(
            f"REPLACE TABLE {name}: there is no such table; use CREATE OR REPLACE TABLE", table=str(name)
        )
    check_location(session.catalog, name, request.location)
    rows, query = None, None
    if source is not None:
        session = with_lineage_job(session, name, source.sql)
        rows, query = source.rows(session), source.query
    # NOT NULL of a query's columns is ignored, as Spark does: later rows may be null.
    columns = request.columns if rows is None else row_type(rows.schema, all_nullable=True)
    assert columns is not None
    definition = table_definition(columns, request.partition, request.properties, request.comment)
    options = {OPERATION.key: mode.operation, **write_options}
    if exists and mode.replaces:
        session.refuse_whole(name, "replaced")
        _replace(session, name, definition, rows, query, options)
        return
    table = create_defined(session, name, definition, mode is CreateMode.IF_NOT_EXISTS)
    if rows is not None and table is not None:
        _write(session, table, rows, query, options, lambda: undo_creation(table.handle))


def create_table_like(session: Session, statement: CreateTableLike) -> Result:
    """Create a table with the definition of another, without its rows."""
    source = next((s for s in session.each() if resolve_source(s, statement.source) is not None), None)
    name = resolve_new_table(session, statement.table, statement.provider)
    if name is None:
        return Outcome.RUN_BY_SPARK
    if statement.if_not_exists and session.has_table(name.database, name.table):
        return None
    check_location(session.catalog, name, statement.location)
    like = _like_of_spark(session, statement.source) if source is None else _like(source, statement.source)
    given = {PRIMARY_KEY: ",".join(like.primary_key)} if like.primary_key else {}
    properties = {**like.options, **given, **statement.properties}
    definition = table_definition(like.columns, like.partition, properties, like.comment, overriding=True)
    create_defined(session, name, definition, statement.if_not_exists)
    return None


def _like(session: Session, parts: Name) -> TableDefinition:
    name = resolve_source(session, parts)
    assert name is not None
    table = session.table(name)
    if table.is_system:
        raise UnsupportedFeatureError(
            f"CREATE TABLE … LIKE {name}: {name} is a system table; use CREATE TABLE … AS SELECT",
            feature="LIKE a system table",
        )
    schema = table.schema
    options = {k: v for k, v in schema.options.items() if k not in _NOT_COPIED and misspelt_definition(k) is None}
    return TableDefinition(schema.row_type, schema.primary_keys, schema.partition_keys, options, schema.comment)


def _like_of_spark(session: Session, parts: Name) -> TableDefinition:
    """Columns, partitions and comment of a table of Spark's; its properties are not Paimon's."""
    text = ".".join(quoted(p) for p in parts)
    with without_attached():
        columns = row_type(session.spark.table(text).schema)
        partition = tuple(c.name for c in session.spark.catalog.listColumns(text) if c.isPartition)
        return TableDefinition(columns, (), partition, {}, session.spark.catalog.getTable(text).description)


def table_definition(
    columns: RowType,
    partition: Sequence[str],
    properties: Mapping[str, str],
    comment: str | None,
    *,
    overriding: bool = False,
) -> TableDefinition:
    """The definition that clauses give; names of columns get the case of the columns.

    Raises:
        InvalidInputError, InvalidOptionError: clauses contradict each other, or a key is not a table property.
        UnsupportedFeatureError: a property for types that are not supported.
    """
    options = dict(properties)
    for wrong in (k for k in options if k in _NOT_PROPERTIES):
        raise InvalidOptionError(f"{wrong!r} is not a table property: {_NOT_PROPERTIES[wrong]}", option=wrong)
    for wrong in (k for k in options if k in _UNSUPPORTED_TYPES):
        raise UnsupportedFeatureError(
            f"property {wrong!r} is for column types that are not supported here; leave it out, or create the table "
            "with Java Paimon",
            feature=wrong,
        )
    comment_property = options.pop(_COMMENT, None)
    if comment_property is not None and comment is not None and comment_property != comment and not overriding:
        raise InvalidInputError(f"the comment is given twice: {comment!r} and property comment = {comment_property!r}")
    key = names(options.pop(PRIMARY_KEY, ""))
    other = names(options.pop(PARTITION, ""))
    if other and partition and other != tuple(partition):
        raise InvalidInputError(
            f"the partitions are given twice: PARTITIONED BY ({', '.join(partition)}) and property partition = "
            f"{','.join(other)!r}; give one of them"
        )
    return TableDefinition(
        columns,
        _cased(columns, key),
        _cased(columns, tuple(partition) or other),
        options,
        comment_property if comment is None or (overriding and comment_property is not None) else comment,
    )


def _cased(columns: RowType, wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(in_any_case(n, columns.names) or n for n in wanted)


def create_defined(session: Session, name: TableName, definition: TableDefinition, if_not_exists: bool) -> Table | None:
    """Create the table; None when another process created it meanwhile, and IF NOT EXISTS allows that."""
    if name.database == DEFAULT_DATABASE:
        session.catalog.create_database(DEFAULT_DATABASE, ignore_if_exists=True)
    try:
        return session.catalog.create_table(
            name.bare,
            definition.columns,
            primary_keys=definition.primary_key,
            partition_keys=definition.partition,
            options=definition.options,
            comment=definition.comment,
        )
    except TableAlreadyExistsError:
        if if_not_exists:
            return None
        raise


def _replace(
    session: Session,
    name: TableName,
    definition: TableDefinition,
    rows: DataFrame | None,
    query: str | None,
    write_options: Mapping[str, str],
) -> None:
    if rows is not None and (query is None or _may_read(session, query, name)):
        rows = rows.localCheckpoint(eager=True)  # they are read before the table is emptied
    table, undo = replace_defined(session, name, definition)
    if rows is not None:
        _write(session, table, rows, query, write_options, undo)


def replace_defined(session: Session, name: TableName, definition: TableDefinition) -> tuple[Table, Callable[[], None]]:
    """Replace a table by one without rows; the table, and what undoes that."""
    options = {**table_defaults(session.catalog.options), **definition.options}
    done = replace_table(session.table(name), *definition._replace(options=options))
    return done.table, lambda: undo_replacement(done)


def _may_read(session: Session, query: str, name: TableName) -> bool:
    """Whether a query may read the table, directly or through a temporary view, whose sources are unknown."""
    suspects = {name.table.lower(), *(view.lower() for view in session.temporary_views()), *session.given}
    return any(part.split("$")[0].lower() in suspects for w in tokenize(query) for part in (w.text, *w.text.split(".")))


def _write(
    session: Session,
    table: Table,
    rows: DataFrame,
    query: str | None,
    write_options: Mapping[str, str],
    undo: Callable[[], None],
) -> None:
    """Write the rows of a new table; when they are certainly not committed, undo its creation."""
    with undone_without_rows(undo):
        options = {**{k: v for k, v in session.catalog.options.items() if k in OF_ONE_USE}, **write_options}
        if JOB.key in options and query is not None and names_no_table(query):
            options[NO_SOURCES.key] = "true"
        table.write(rows, mode="append", **options)


@contextmanager
def undone_without_rows(undo: Callable[[], None]) -> Iterator[None]:
    """Undo what a statement has made, when its rows are certainly not committed."""
    try:
        yield
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        undo()
        raise


def check_location(catalog: Catalog, name: TableName, location: str | None) -> None:
    """Check that a LOCATION is where the catalog keeps the table. Raises UnsupportedFeatureError."""
    if location is None:
        return
    tables = open_catalog(catalog.warehouse, catalog.options)
    place = tables.place(name.database, name.table)
    if is_same_location(catalog, location, place.store.url(place.root)):
        return
    raise UnsupportedFeatureError(
        f"{name} cannot be stored at {location!r}: tables of the catalog are in "
        f"{tables.database_url(name.database)}. Leave LOCATION out; open a table elsewhere with "
        f"load_table({location!r}), and create it by df.write.format('paimon').save({location!r})",
        feature="LOCATION",
    )


def is_same_location(catalog: Catalog, location: str, url: str) -> bool:
    """Whether two locations are the same place."""
    options = without_table_defaults(catalog.options)
    (store, root), (other, other_root) = open_store(location, options), open_store(url, options)
    return store.url(root) == other.url(other_root)


def create_database(session: Session, statement: CreateDatabase) -> Result:
    """Create a database of the warehouse."""
    name = database_of_warehouse(session, statement.name)
    if name is None:
        return Outcome.RUN_BY_SPARK
    if statement.if_not_exists and session.has_database(name):
        return None
    if statement.not_stored:
        clauses = " and ".join(statement.not_stored)
        raise UnsupportedFeatureError(
            f"database {name!r}: a database of a warehouse is a directory and cannot store {clauses}; leave it out",
            feature=f"CREATE DATABASE with {clauses}",
        )
    if statement.location is not None:
        _check_database_location(session.catalog, name, statement.location)
    session.catalog.create_database(name, ignore_if_exists=statement.if_not_exists)
    return None


def drop_database(session: Session, statement: DropDatabase) -> Result:
    """Drop a database of the warehouse."""
    name = database_of_warehouse(session, statement.name)
    if name is None:
        return Outcome.RUN_BY_SPARK
    session.catalog.drop_database(name, ignore_if_not_exists=statement.if_exists, cascade=statement.cascade)
    return None


def alter_database(session: Session, statement: AlterDatabase) -> Result:
    """Refuse to alter a database of the warehouse."""
    name = database_of_warehouse(session, statement.name)
    if name is None:
        return Outcome.RUN_BY_SPARK
    raise UnsupportedFeatureError(
        f"database {name!r} cannot be altered: a database of a warehouse is a directory without properties, in a fixed "
        "place; set options on its tables, or copy them to another database",
        feature="ALTER DATABASE",
    )


def _check_database_location(catalog: Catalog, name: str, location: str) -> None:
    """Check that a LOCATION is where the catalog keeps the database. Raises UnsupportedFeatureError."""
    fixed = open_catalog(catalog.warehouse, catalog.options).database_url(name)
    if not is_same_location(catalog, location, fixed):
        raise UnsupportedFeatureError(
            f"database {name!r} cannot be stored at {location!r}: it is at {fixed}; leave LOCATION out, or load the "
            "catalog of another warehouse",
            feature="CREATE DATABASE with LOCATION",
        )
