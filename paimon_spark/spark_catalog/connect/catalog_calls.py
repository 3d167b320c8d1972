"""`spark.catalog` in a session of Spark Connect with attached catalogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.catalog import CatalogMetadata, Column, Database, Table

from paimon_spark.catalogs.open import open_catalog
from paimon_spark.errors import (
    BranchNotFoundError,
    DatabaseNotFoundError,
    NotFoundError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.spark.schema import row_type, spark_schema
from paimon_spark.spark.session import without_attached
from paimon_spark.spark_catalog.connect.attached import AttachedCatalogs
from paimon_spark.sql.commands.create import create_empty
from paimon_spark.sql.commands.show import matching
from paimon_spark.sql.execute import execute_beside
from paimon_spark.sql.names import DEFAULT_DATABASE, database_of_warehouse
from paimon_spark.sql.requests import CreateMode, TableRequest
from paimon_spark.sql.session import Session
from paimon_spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from paimon_spark.options.location import TableName

# ruff: noqa: N803 - the parameters have Spark's names

_MANAGED: Final = "MANAGED"


def current_catalog(attached: AttachedCatalogs, spark_call: Callable[[], str], _: Any) -> str:
    """The current catalog."""
    names = attached.used.names
    return spark_call() if names is None else names[0]


def set_current_catalog(
    attached: AttachedCatalogs, spark_call: Callable[[str], None], _: Any, catalogName: str
) -> None:
    """Make a catalog the current one, with its database `default`."""
    found = next((name for name in attached.catalogs if name.lower() == str(catalogName).lower()), None)
    if found is None:
        spark_call(catalogName)
    attached.used.names = None if found is None else (found, DEFAULT_DATABASE)


def list_catalogs(
    attached: AttachedCatalogs, spark_call: Callable[[str | None], list[CatalogMetadata]], _: Any,
    pattern: str | None = None,
) -> list[CatalogMetadata]:  # fmt: skip
    """Spark's catalogs and the attached ones."""
    ours = [CatalogMetadata(name, None) for name in matching(attached.catalogs, pattern)]
    taken = set(attached.catalogs)
    return sorted((*ours, *(c for c in spark_call(pattern) if c.name not in taken)), key=lambda c: c.name)


def current_database(attached: AttachedCatalogs, spark_call: Callable[[], str], _: Any) -> str:
    """The current database."""
    names = attached.used.names
    return spark_call() if names is None else names[1]


def set_current_database(attached: AttachedCatalogs, spark_call: Callable[[str], None], api: Any, dbName: str) -> None:
    """Make a database of the current catalog the current one. Raises DatabaseNotFoundError."""
    found = _database(attached, api, dbName)
    if found is None:
        spark_call(dbName)
    else:
        found[0].use(found[1])


def list_databases(
    attached: AttachedCatalogs, spark_call: Callable[[str | None], list[Database]], api: Any,
    pattern: str | None = None,
) -> list[Database]:  # fmt: skip
    """The databases of the current catalog."""
    if attached.used.names is None:
        return spark_call(pattern)
    session = attached.session(api._sparkSession)
    return [_shown_database(session, name) for name in matching(session.catalog.list_databases(), pattern)]


def get_database(attached: AttachedCatalogs, spark_call: Callable[[str], Database], api: Any, dbName: str) -> Database:
    """A database. Raises DatabaseNotFoundError."""
    found = _database(attached, api, dbName)
    if found is None:
        return spark_call(dbName)
    session, name = found
    if name != DEFAULT_DATABASE:
        session.catalog.list_tables(name)  # raises, and lists the databases
    return _shown_database(session, name)


def database_exists(attached: AttachedCatalogs, spark_call: Callable[[str], bool], api: Any, dbName: str) -> bool:
    """Whether there is a database of this name; `default` always is."""
    found = _database(attached, api, dbName)
    if found is None:
        return spark_call(dbName)
    return found[1] == DEFAULT_DATABASE or found[0].has_database(found[1])


def list_tables(
    attached: AttachedCatalogs, spark_call: Callable[..., list[Table]], api: Any, dbName: str | None = None,
    pattern: str | None = None,
) -> list[Table]:  # fmt: skip
    """The tables of a database, and temporary views."""
    found = _database(attached, api, dbName)
    if found is None:
        return spark_call(dbName, pattern)
    session, database = found
    is_missing = database == DEFAULT_DATABASE and not session.has_database(database)
    shown: list[Table] = []
    for name in matching([] if is_missing else session.catalog.list_tables(database), pattern):
        with suppress(NotFoundError):  # it was dropped meanwhile
            shown.append(_shown_table(session, database, name, f"{quoted(database)}.{quoted(name)}"))
    return [*shown, *(t for t in spark_call(None, pattern) if t.isTemporary)]


def get_table(attached: AttachedCatalogs, spark_call: Callable[[str], Table], api: Any, tableName: str) -> Table:
    """A table, branch or system table, or a view. Raises TableNotFoundError."""
    found = attached.find(api._sparkSession, tableName, is_read=True)
    if found is None:
        return spark_call(tableName)
    session, name = found
    return _shown_table(session, name.database, name.as_named.last_part, name.text)


def table_exists(
    attached: AttachedCatalogs, spark_call: Callable[..., bool], api: Any, tableName: str, dbName: str | None = None
) -> bool:
    """Whether there is a table, branch, system table or view of this name."""
    found = attached.find(api._sparkSession, _in_database(tableName, dbName), is_read=True)
    if found is None:
        return spark_call(tableName, dbName)
    session, name = found
    try:
        session.catalog.table(name.text)
    except (TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError):
        return False
    return True


def list_columns(
    attached: AttachedCatalogs, spark_call: Callable[..., list[Column]], api: Any, tableName: str,
    dbName: str | None = None,
) -> list[Column]:  # fmt: skip
    """The columns of a table. Raises TableNotFoundError."""
    found = attached.find(api._sparkSession, _in_database(tableName, dbName), is_read=True)
    if found is None:
        return spark_call(tableName, dbName)
    session, name = found
    table = session.table(name)
    keys = () if table.is_system else table.schema.partition_keys
    buckets = () if table.is_system else table.schema.bucket_keys
    return [
        Column(
            name=field.name,
            description=field.metadata.get("comment"),
            dataType=field.dataType.simpleString(),
            nullable=field.nullable,
            isPartition=field.name in keys,
            isBucket=field.name in buckets,
            isCluster=False,
        )
        for field in spark_schema(table.row_type).fields
    ]


def create(
    attached: AttachedCatalogs,
    spark_call: Callable[..., DataFrame],
    api: Any,
    tableName: str,
    path: str | None = None,
    source: str | None = None,
    schema: StructType | None = None,
    description: str | None = None,
    **options: str,
) -> DataFrame:
    """Create a table with columns; its rows."""
    found = attached.find(api._sparkSession, tableName)
    if found is None:
        return spark_call(tableName, path, source, schema, description, **options)
    session, name = found
    if schema is None:
        raise UnsupportedFeatureError(
            f"createTable({tableName!r}) needs schema=…, the columns of the table; one that exists is found by name",
            feature="createTable without columns",
        )
    parts = (session.catalog_name, name.database, name.last_part)
    request = TableRequest(
        CreateMode.CREATE,
        row_type(schema),
        properties=options,
        comment=description,
        location=path,
        provider=source,
    )
    create_empty(session, parts, request)
    return api._sparkSession.table(".".join(map(quoted, parts)))  # type: ignore[no-any-return]


def by_statement(text: str) -> Callable[..., Any]:
    """Function that runs a statement on the table of a call without a result, such as `TRUNCATE TABLE {}`."""

    def run(attached: AttachedCatalogs, spark_call: Callable[..., Any], api: Any, tableName: str, **more: Any) -> Any:
        found = attached.find(api._sparkSession, tableName, is_read=True)
        if found is None:
            return spark_call(tableName, **more)
        _run(*found, text)
        return None

    return run


def refuse_caching(
    attached: AttachedCatalogs, spark_call: Callable[..., Any], api: Any, tableName: str, *more: Any, **named: Any
) -> Any:
    """Refuse `cacheTable`, as Spark caches by names that it knows."""
    found = attached.find(api._sparkSession, tableName, is_read=True)
    if found is None:
        return spark_call(tableName, *more, **named)
    _, name = found
    raise UnsupportedFeatureError(
        f"{name} cannot be cached by its name in Spark Connect; cache what it returns: "
        f"spark.table({tableName!r}).cache()",
        feature="cacheTable in Spark Connect",
    )


def is_cached(attached: AttachedCatalogs, spark_call: Callable[[str], bool], api: Any, tableName: str) -> bool:
    """No: tables are not cached by name."""
    return spark_call(tableName) if attached.find(api._sparkSession, tableName, is_read=True) is None else False


def uncache(attached: AttachedCatalogs, spark_call: Callable[[str], None], api: Any, tableName: str) -> None:
    """Nothing is cached by the name of such a table."""
    if attached.find(api._sparkSession, tableName, is_read=True) is None:
        spark_call(tableName)


def drop_table(
    attached: AttachedCatalogs, spark_call: Callable[..., None], api: Any, tableName: str, ifExists: bool = False,
    purge: bool = False,
) -> None:  # fmt: skip
    """Drop a table with its branches and files."""
    found = attached.find(api._sparkSession, tableName)
    if found is None:
        spark_call(tableName, ifExists, purge)
    else:
        _run(*found, f"DROP TABLE {'IF EXISTS ' if ifExists else ''}{{}}")


def create_database(
    attached: AttachedCatalogs, spark_call: Callable[..., None], api: Any, dbName: str, ifNotExists: bool = False,
    properties: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """Create a database, which has no properties."""
    found = _database(attached, api, dbName)
    if found is None:
        spark_call(dbName, ifNotExists, properties)
        return
    if properties:
        raise UnsupportedFeatureError(
            f"database {found[1]!r}: a database of a warehouse is a directory and cannot store properties; leave them "
            "out",
            feature="createDatabase with properties",
        )
    found[0].catalog.create_database(found[1], ignore_if_exists=ifNotExists)


def drop_database(
    attached: AttachedCatalogs, spark_call: Callable[..., None], api: Any, dbName: str, ifExists: bool = False,
    cascade: bool = False,
) -> None:  # fmt: skip
    """Drop a database, with its tables when `cascade`."""
    found = _database(attached, api, dbName)
    if found is None:
        spark_call(dbName, ifExists, cascade)
    else:
        found[0].catalog.drop_database(found[1], ignore_if_not_exists=ifExists, cascade=cascade)


def list_partitions(
    attached: AttachedCatalogs, spark_call: Callable[..., list[Any]], api: Any, tableName: str
) -> list[Any]:
    """The partitions of a table."""
    found = attached.find(api._sparkSession, tableName, is_read=True)
    if found is None:
        return spark_call(tableName)
    from pyspark.sql.catalog import TablePartition  # since Spark 4.2

    return [TablePartition(row[0]) for row in _run(*found, "SHOW PARTITIONS {}").collect()]


def list_views(
    attached: AttachedCatalogs, spark_call: Callable[..., list[Table]], api: Any, dbName: str | None = None,
    pattern: str | None = None,
) -> list[Table]:  # fmt: skip
    """Temporary views: a warehouse of directories holds no others."""
    if _database(attached, api, dbName) is None:
        return spark_call(dbName, pattern)
    with without_attached():
        return [t for t in api.listTables(pattern=pattern) if t.isTemporary]


def table_properties(
    attached: AttachedCatalogs, spark_call: Callable[[str], dict[str, str]], api: Any, tableName: str
) -> dict[str, str]:
    """The options of a table, as SHOW TBLPROPERTIES lists them."""
    found = attached.find(api._sparkSession, tableName, is_read=True)
    if found is None:
        return spark_call(tableName)
    return {row[0]: row[1] for row in _run(*found, "SHOW TBLPROPERTIES {}").collect()}


def create_statement(
    attached: AttachedCatalogs, spark_call: Callable[..., str], api: Any, tableName: str, asSerde: bool = False
) -> str:
    """The statement that creates an equal table."""
    found = attached.find(api._sparkSession, tableName, is_read=True)
    if found is None:
        return spark_call(tableName, asSerde)
    return str(_run(*found, f"SHOW CREATE TABLE {{}}{' AS SERDE' if asSerde else ''}").collect()[0][0])


def analyze(
    attached: AttachedCatalogs, spark_call: Callable[..., None], api: Any, tableName: str, noScan: bool = False
) -> None:
    """Compute the statistics of a table."""
    found = attached.find(api._sparkSession, tableName, is_read=True)
    if found is None:
        spark_call(tableName, noScan)
    else:
        _run(*found, f"ANALYZE TABLE {{}} COMPUTE STATISTICS{' NOSCAN' if noScan else ''}")


def _run(session: Session, name: TableName, text: str) -> DataFrame:
    """Run a statement on a table, whose name stands for `{}`."""
    parts = (session.catalog_name, name.database, name.as_named.last_part)
    return execute_beside(session, text.format(".".join(map(quoted, parts))))


def _database(attached: AttachedCatalogs, api: Any, text: str | None) -> tuple[Session, str] | None:
    """The database that a text names, or the current one, and the session of its catalog; None when it is Spark's."""
    parts: Sequence[str] | None = ()
    if text is not None:
        parts = attached.parts(text)
    if parts is None or (not parts and attached.used.names is None):
        return None
    for session in attached.session(api._sparkSession).each():
        name = database_of_warehouse(session, parts)
        if name is not None:
            return session, name
    return None


def _in_database(table: str, database: str | None) -> str:
    return table if database is None else f"{database}.{table}"


def _shown_database(session: Session, name: str) -> Database:
    return Database(
        name,
        session.catalog_name,
        None,
        open_catalog(session.catalog.warehouse, session.catalog.options).database_url(name),
    )


def _shown_table(session: Session, database: str, shown: str, name: str) -> Table:
    table = session.catalog.table(name)
    comment = None if table.is_system else table.schema.comment
    return Table(shown, session.catalog_name, [database], comment, _MANAGED, False)
