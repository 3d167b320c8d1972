"""The methods of PySpark that know names of attached catalogs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession as AnySession
from pyspark.sql.connect.catalog import Catalog as CatalogApi
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.streaming.readwriter import DataStreamReader, DataStreamWriter

from paimon_spark.errors import InvalidInputError
from paimon_spark.spark.session import configure_session, is_spark_alone
from paimon_spark.spark_catalog.connect import catalog_calls, reads, statements, writes
from paimon_spark.spark_catalog.connect.attached import (
    AttachedCatalogs,
    add,
    attached_to,
    follow,
    names_attached_to,
    remove,
)

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog

Hook = Callable[..., Any]
"""Called in a session with attached catalogs: with them, Spark's method, the object, and the arguments of the call."""


def _clone(attached: AttachedCatalogs, spark_call: Callable[..., Any], _: Any, *args: Any, **named: Any) -> Any:
    """A copy of the session, with the catalogs."""
    made = spark_call(*args, **named)
    follow(made, attached, keeps_current=True)
    return made


def _new(attached: AttachedCatalogs, spark_call: Callable[..., Any], _: Any, *args: Any, **named: Any) -> Any:
    """A new session, with the catalogs; Spark's is the current one."""
    made = spark_call(*args, **named)
    configure_session(made)
    follow(made, attached, keeps_current=False)
    return made


_HOOKS: Final[dict[type, tuple[Callable[[Any], Any], dict[str, Hook]]]] = {
    SparkSession: (
        lambda session: session,
        {"sql": statements.sql, "cloneSession": _clone, "newSession": _new},
    ),
    DataFrameReader: (
        lambda reader: reader._client,
        {"table": reads.read_table, "changes": reads.refuse_changes},
    ),
    DataStreamReader: (
        lambda reader: reader._client,
        {"table": reads.read_stream_table, "changes": reads.refuse_changes},
    ),
    DataFrame: (
        lambda frame: frame._session,
        {"writeTo": writes.write_to, "mergeInto": writes.refuse_merge},
    ),
    DataFrameWriter: (
        lambda writer: writer._spark,
        {"insertInto": writes.insert_into, "saveAsTable": writes.save_as_table},
    ),
    DataStreamWriter: (lambda writer: writer._session, {"toTable": writes.to_table}),
    CatalogApi: (
        lambda api: api._sparkSession,
        {
            "currentCatalog": catalog_calls.current_catalog,
            "setCurrentCatalog": catalog_calls.set_current_catalog,
            "listCatalogs": catalog_calls.list_catalogs,
            "currentDatabase": catalog_calls.current_database,
            "setCurrentDatabase": catalog_calls.set_current_database,
            "listDatabases": catalog_calls.list_databases,
            "getDatabase": catalog_calls.get_database,
            "databaseExists": catalog_calls.database_exists,
            "createDatabase": catalog_calls.create_database,
            "dropDatabase": catalog_calls.drop_database,
            "listTables": catalog_calls.list_tables,
            "listViews": catalog_calls.list_views,
            "getTable": catalog_calls.get_table,
            "tableExists": catalog_calls.table_exists,
            "listColumns": catalog_calls.list_columns,
            "listPartitions": catalog_calls.list_partitions,
            "getTableProperties": catalog_calls.table_properties,
            "getCreateTableString": catalog_calls.create_statement,
            "createTable": catalog_calls.create,
            "dropTable": catalog_calls.drop_table,
            "truncateTable": catalog_calls.by_statement("TRUNCATE TABLE {}"),
            "refreshTable": catalog_calls.by_statement("REFRESH TABLE {}"),
            "recoverPartitions": catalog_calls.by_statement("MSCK REPAIR TABLE {}"),
            "analyzeTable": catalog_calls.analyze,
            "cacheTable": catalog_calls.refuse_caching,
            "uncacheTable": catalog_calls.uncache,
            "isCached": catalog_calls.is_cached,
        },
    ),
}
"""By class of PySpark: how its objects find their session, and what to call instead of its methods."""
_LOCK: Final = Lock()
_INSTALLED: Final[set[type]] = set()


def attach_to(spark: AnySession, name: str, catalog: Catalog) -> None:
    """Attach a catalog to a session of Spark Connect."""
    _install()
    configure_session(spark)
    add(spark, name, catalog)


def detach_from(spark: AnySession, name: str) -> None:
    """Detach a catalog from a session of Spark Connect. Raises InvalidInputError: it is not attached."""
    names = names_attached_to(spark)
    if name not in names:
        raise InvalidInputError(
            f"no catalog {name} is attached to this session; attached are {', '.join(names) or 'none'}", name=name
        )
    remove(spark, name)


def _install() -> None:
    """Wrap the methods, unless that is done."""
    with _LOCK:
        for owner, (session_of, hooks) in _HOOKS.items():
            if owner not in _INSTALLED:
                for method, hook in hooks.items():
                    if hasattr(owner, method):  # some are only in newer releases
                        setattr(owner, method, _wrapped(getattr(owner, method), session_of, hook))
                _INSTALLED.add(owner)


def _wrapped(spark_call: Callable[..., Any], session_of: Callable[[Any], Any], hook: Hook) -> Callable[..., Any]:
    """A method that calls the hook in sessions with attached catalogs, else Spark's."""

    @wraps(spark_call)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        attached = None if is_spark_alone() else attached_to(session_of(self))
        if attached is None:
            return spark_call(self, *args, **named)
        return hook(attached, partial(spark_call, self), self, *args, **named)

    return call
