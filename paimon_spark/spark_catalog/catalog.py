"""The catalog that Spark asks for databases, tables and procedures.

Source: Spark `connector/catalog/TableCatalog.java`, `StagingTableCatalog.java`, `SupportsNamespaces.java`,
`ProcedureCatalog.java`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from paimon_spark.api.catalog import Catalog
from paimon_spark.errors import (
    BranchNotFoundError,
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    InvalidInputError,
    PaimonError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    WarehouseNotFoundError,
)
from paimon_spark.options.location import TableName
from paimon_spark.spark_catalog.definitions import definition_of, schema_changes
from paimon_spark.spark_catalog.functions import MaxPtProxy
from paimon_spark.spark_catalog.jvm.gateway import CATALOG, SQL, Gateway, optional
from paimon_spark.spark_catalog.jvm.proxies import (
    Proxy,
    namespace_exists,
    namespace_not_empty,
    no_such_function,
    no_such_namespace,
    no_such_table,
    refused_change,
    table_exists,
)
from paimon_spark.spark_catalog.procedures import ProcedureProxy, procedure_names
from paimon_spark.spark_catalog.table import STATE_OPTIONS, TableProxy, TimeTravel
from paimon_spark.spark_catalog.writes.staged_table import StagedTableProxy
from paimon_spark.sql.commands.alter_table import alter_table, new_name
from paimon_spark.sql.commands.create import create_defined
from paimon_spark.sql.functions import MAX_PT, check_scalar
from paimon_spark.sql.grammar.alter_table import AlterTable
from paimon_spark.sql.names import DEFAULT_DATABASE, check_database, name_of, refuse_metadata_table
from paimon_spark.sql.requests import CreateMode
from paimon_spark.sql.session import Session

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

IDENTIFIER: Final = CATALOG + "Identifier"
INTERFACES: Final = tuple(
    CATALOG + name for name in ("StagingTableCatalog", "SupportsNamespaces", "ProcedureCatalog", "FunctionCatalog")
)
_PROCEDURES = "sys"
_CAPABILITIES = (
    "SUPPORT_COLUMN_DEFAULT_VALUE",
    "SUPPORT_TABLE_CONSTRAINT",
    "SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS",
    "SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS",
)


def table_name(ident: Any) -> TableName:
    """The table that Spark's `Identifier` means: `db.t`, `db.t$branch_b`, or `db.t.branch_b` as Iceberg writes it.

    Raises InvalidOptionError: what follows `$` is neither a branch nor a system table.
    """
    return name_of((*ident.namespace(), ident.name()))


class KnowingSession(Protocol):
    """The session of Spark that asks a catalog: one with attached catalogs, or that of one statement."""

    def known(self, name: str, catalog: Catalog) -> Session:
        """State of the session in a catalog."""

    def refreshing(self) -> AbstractContextManager[None]:
        """Context after which Spark reads cached tables again that were changed inside."""


class CatalogProxy(
    Proxy,
    implements=INTERFACES,
    constants=(
        "capabilities", "changelogStateOptionKeys", "defaultNamespace", "name", "tableStateOptionKeys", "toString",
        "useNullableQuerySchema",
    ),
):  # fmt: skip
    """An attached catalog of one Spark session."""

    def __init__(self, gateway: Gateway, session: KnowingSession, name: str, catalog: Catalog) -> None:
        self.gateway = gateway
        self._attached = session
        self.catalog_name = name
        self.catalog = catalog

    @property
    def _session(self) -> Session:
        return self._attached.known(self.catalog_name, self.catalog)

    # CatalogPlugin

    def initialize(self, name: str, options: Any) -> None:
        """Do nothing: `attach` made the catalog."""

    def name(self) -> str:
        """The name of the catalog in this session."""
        return self.catalog_name

    def defaultNamespace(self) -> Any:
        """The database of `USE <catalog>`."""
        return self.gateway.strings([DEFAULT_DATABASE])

    # TableCatalog

    def capabilities(self) -> Any:
        """Capabilities of CREATE TABLE: default values. `definition_of` refuses the others by its own messages."""
        kinds = CATALOG + "TableCatalogCapability"
        return self.gateway.java_set([self.gateway.constant(kinds, name) for name in _CAPABILITIES])

    def tableStateOptionKeys(self) -> Any:
        """Options of a read that change which columns or rows a table has."""
        return self.gateway.once("state options", lambda: self.gateway.java_set(STATE_OPTIONS))

    def changelogStateOptionKeys(self) -> Any:
        """Options of CHANGES reads, which are not supported."""
        return self.gateway.java_set(())

    def listTables(self, namespace: Any) -> Any:
        """The tables of a database."""
        of = self.gateway.static(IDENTIFIER, "of")
        return self.gateway.array(IDENTIFIER, [of(namespace, t) for t in self._tables(namespace)])

    def listTableSummaries(self, namespace: Any) -> Any:
        """The tables of a database, with their kind."""
        kind, of = CATALOG + "TableSummary", self.gateway.static(IDENTIFIER, "of")
        summary = self.gateway.static(kind, "of")
        found = [summary(of(namespace, t), "MANAGED") for t in self._tables(namespace)]
        return self.gateway.array(kind, found)

    def _tables(self, namespace: Any) -> list[str]:
        return self.names_in(namespace, self.catalog.list_tables)

    def names_in(self, namespace: Any, list_names: Callable[[str], list[str]]) -> list[str]:
        """The names of what a database holds. Raises Spark's SCHEMA_NOT_FOUND."""
        parts = list(namespace)
        if len(parts) > 1:
            raise no_such_namespace(self.gateway, self.catalog_name, parts)
        database = parts[0] if parts else DEFAULT_DATABASE
        try:
            return list_names(database)
        except (DatabaseNotFoundError, WarehouseNotFoundError):
            if database == DEFAULT_DATABASE:
                return []
            raise no_such_namespace(self.gateway, self.catalog_name, parts) from None

    def loadTable(self, ident: Any, *how: Any) -> Any:
        """A table, branch or system table, at its head or at a version.

        `how` is a version as text, a timestamp in microseconds or privileges (Spark 4.1 and 4.2), or a `TableContext`
        with options (4.3).
        """
        travel, options = _how(self.gateway, how)
        return self._load(ident, travel, options)

    def loadChangelog(self, ident: Any, context: Any, options: Any) -> Any:
        """Refuse CHANGES."""
        name = ".".join((*ident.namespace(), ident.name()))
        raise UnsupportedFeatureError(
            f"CHANGES of {name} is not supported; use paimon_incremental_query('{name}', 'from', 'to')",
            feature="CHANGES",
        )

    def _load(
        self,
        ident: Any,
        travel: TimeTravel | None = None,
        options: dict[str, str] | None = None,
        session: Session | None = None,
    ) -> Any:
        if "/" in ident.name():  # files, as parquet.`/path`, which Spark reads where the catalog has no such table
            raise no_such_table(self.gateway, ident)
        parts = (*ident.namespace(), ident.name())
        found = session or self._session
        check_database(found, parts)
        name = table_name(ident)
        try:
            return TableProxy(self.gateway, found, name, travel, options or {})
        except (TableNotFoundError, DatabaseNotFoundError, WarehouseNotFoundError):
            refuse_metadata_table(found, parts)
            raise no_such_table(self.gateway, ident) from None

    def invalidateTable(self, ident: Any) -> None:
        """Do nothing: nothing is cached."""

    def tableExists(self, ident: Any) -> bool:
        """Whether there is such a table, branch or system table."""
        if "/" in ident.name():
            return False
        name = table_name(ident)
        try:
            self.catalog.table(name.text)
        except (TableNotFoundError, DatabaseNotFoundError, WarehouseNotFoundError, BranchNotFoundError):
            return False
        return True

    def createTable(self, ident: Any, *definition: Any) -> Any:
        """Create a table. Raises Spark's TABLE_OR_VIEW_ALREADY_EXISTS."""
        session = self._session
        name = self._new_name(session, ident)
        try:
            create_defined(session, name, definition_of(self.gateway, session, name, definition), False)
        except TableAlreadyExistsError:
            raise table_exists(self.gateway, ident) from None
        return self._load(ident, session=session.without_versions())

    def createTableLike(self, ident: Any, info: Any, source: Any) -> Any:
        """Refuse: CREATE TABLE … LIKE is a routed statement, so Spark never asks for it."""
        raise UnsupportedFeatureError(
            f"CREATE TABLE {ident.name()} LIKE is supported in SQL only", feature="createTableLike"
        )

    def useNullableQuerySchema(self) -> bool:
        """NOT NULL of a query's columns is ignored: later rows may be null."""
        return True

    def alterTable(self, ident: Any, changes: Any) -> Any:
        """Change columns, properties and the comment of a table or branch, all or nothing."""
        session = self._session
        try:
            name = session.to_write(table_name(ident))
            self._must_exist(session, name, ident)
            parts = (self.catalog_name, name.database, name.last_part)
            found = schema_changes(self.gateway, changes, lambda: session.table(name).schema.primary_keys)
            with self._attached.refreshing():  # which Spark 4.1 does not do itself
                alter_table(session, AlterTable("", parts, found))
        except PaimonError as e:
            raise refused_change(self.gateway, e) from None
        return self._load(ident, session=session.without_versions())

    def dropTable(self, ident: Any) -> bool:
        """Drop a table with its branches and files; whether there was one."""
        name = table_name(ident)
        if name.branch is not None and name.system is None:
            raise UnsupportedFeatureError(
                f"{name} is a branch; use CALL {self.catalog_name}.sys.delete_branch('{name.database}.{name.table}', "
                f"'{name.branch}')",
                feature="DROP TABLE of a branch",
            )
        name.refuse_suffix("dropped")
        self._session.refuse_whole(name, "dropped")
        if not self._session.has_table(name.database, name.table):
            return False
        self.catalog.on_main().drop_table(name.bare)
        return True

    def purgeTable(self, ident: Any) -> bool:
        """Drop a table; Paimon has no trash."""
        return bool(self.dropTable(ident))

    def renameTable(self, old: Any, new: Any) -> None:
        """Rename a table, also into another database."""
        session, name = self._session, table_name(old)
        if name.branch is not None and name.system is None:
            raise UnsupportedFeatureError(
                f"{name} is a branch; use CALL {self.catalog_name}.sys.rename_branch('{name.database}.{name.table}', "
                f"'{name.branch}', '…')",
                feature="ALTER TABLE of a branch RENAME TO",
            )
        name.refuse_suffix("renamed")
        session.refuse_whole(name, "renamed")
        self._must_exist(session, name, old)
        to = new_name(session, name, (*new.namespace(), new.name()))  # as it is written, with a catalog too
        try:
            self.catalog.on_main().rename_table(name.bare, to.bare)
        except TableAlreadyExistsError:
            raise table_exists(self.gateway, new) from None

    def _must_exist(self, session: Session, name: TableName, ident: Any) -> None:
        if not session.has_table(name.database, name.table):
            raise no_such_table(self.gateway, ident)

    def _new_name(self, session: Session, ident: Any) -> TableName:
        """The name of a table to create. Raises Spark's SCHEMA_NOT_FOUND; UnsupportedFeatureError: a branch."""
        name = table_name(ident)
        if name.database != DEFAULT_DATABASE and not session.has_database(name.database):
            raise no_such_namespace(self.gateway, self.catalog_name, [name.database])
        if name.branch is not None and name.system is None:
            self._refuse_new_sink(session, name)
            raise UnsupportedFeatureError(
                f"{name} is a branch; create it from the table: CALL {self.catalog_name}.sys.create_branch("
                f"'{name.database}.{name.table}', '{name.branch}')",
                feature="CREATE TABLE of a branch",
            )
        name.refuse_suffix("created")
        return name

    def _refuse_new_sink(self, session: Session, name: TableName) -> None:
        """Refuse a branch that a stream writes to, which Spark creates where it is missing.

        Raises BranchNotFoundError with the nearest names: the user asked for no new branch.
        """
        is_sink = self.gateway.java_code("Callers").runs("DataStreamWriter", "toTable")
        if is_sink and session.has_table(name.database, name.table):
            session.table_to_change(name)

    # StagingTableCatalog

    def stageCreate(self, ident: Any, *definition: Any) -> Any:
        """The table of CREATE TABLE AS SELECT, created with its rows."""
        return self._stage(CreateMode.CREATE, ident, definition)

    def stageReplace(self, ident: Any, *definition: Any) -> Any:
        """The table of REPLACE TABLE, replaced with its rows."""
        return self._stage(CreateMode.REPLACE, ident, definition)

    def stageCreateOrReplace(self, ident: Any, *definition: Any) -> Any:
        """The table of CREATE OR REPLACE TABLE, with its rows."""
        return self._stage(CreateMode.CREATE_OR_REPLACE, ident, definition)

    def _stage(self, mode: CreateMode, ident: Any, definition: Any) -> Any:
        session = self._session
        name = self._new_name(session, ident)
        exists = session.has_table(name.database, name.table)
        if exists and mode is CreateMode.CREATE:
            raise table_exists(self.gateway, ident)
        if not exists and mode is CreateMode.REPLACE:
            raise no_such_table(self.gateway, ident)
        # `saveAsTable` in mode overwrite replaces rows; Spark asks for the same as CREATE OR REPLACE TABLE does.
        overwrites = exists and self.gateway.java_code("Callers").runs("DataFrameWriter", "saveAsTable")
        if not overwrites:
            session.refuse_whole(name, "replaced")
        found = definition_of(self.gateway, session, name, definition)
        return StagedTableProxy(self.gateway, session, name, found, mode, replaces=exists, overwrites=overwrites)

    def supportedCustomMetrics(self) -> Any:
        """No metrics of its own."""
        return self.gateway.array(SQL + "connector.metric.CustomMetric")

    # SupportsNamespaces

    def listNamespaces(self, *namespace: Any) -> Any:
        """The databases; a database has none inside."""
        if namespace and list(namespace[0]):
            if not self.namespaceExists(namespace[0]):
                raise no_such_namespace(self.gateway, self.catalog_name, list(namespace[0]))
            return self.gateway.namespaces([])
        try:
            return self.gateway.namespaces([[d] for d in self.catalog.list_databases()])
        except WarehouseNotFoundError:
            return self.gateway.namespaces([])

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether there is such a database; `default` always is."""
        parts = list(namespace)
        return len(parts) == 1 and (parts[0] == DEFAULT_DATABASE or self._session.has_database(parts[0]))

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        """The properties of a database: its location."""
        if not self.namespaceExists(namespace):
            raise no_such_namespace(self.gateway, self.catalog_name, list(namespace))
        from paimon_spark.catalogs.open import open_catalog

        tables = open_catalog(self.catalog.warehouse, self.catalog.options)
        return self.gateway.java_map({"location": tables.database_url(next(iter(namespace)))})

    def createNamespace(self, namespace: Any, metadata: Any) -> None:
        """Create a database."""
        from paimon_spark.sql.commands.create import create_database
        from paimon_spark.sql.grammar.create import CreateDatabase

        properties = self.gateway.text_map(metadata)
        location = properties.pop("location", None)
        not_stored = tuple(word for word, key in (("COMMENT", "comment"),) if properties.pop(key, None))
        properties.pop("owner", None)
        if properties:
            not_stored = (*not_stored, "DBPROPERTIES")
        parts = (self.catalog_name, *namespace)
        statement = CreateDatabase("", parts, False, location, not_stored)
        try:
            create_database(self._session, statement)
        except DatabaseAlreadyExistsError:
            raise namespace_exists(self.gateway, list(namespace)) from None

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        """Refuse: a database is a directory without properties."""
        raise UnsupportedFeatureError(
            f"database {list(namespace)[-1]!r} cannot be altered: a database of a warehouse is a directory without "
            "properties, in a fixed place; set options on its tables, or copy them to another database",
            feature="ALTER DATABASE",
        )

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """Drop a database, with its tables when `cascade`; whether there was one."""
        database = next(iter(namespace))
        if not self._session.has_database(database):
            return False
        try:
            self.catalog.drop_database(database, cascade=cascade)
        except InvalidInputError as e:
            if e.context.get("left"):  # Spark's error would not name what is no table
                raise
            raise namespace_not_empty(self.gateway, [database]) from None
        return True

    # FunctionCatalog

    def listFunctions(self, namespace: Any) -> Any:
        """The functions of `sys`."""
        place = self.gateway.strings([_PROCEDURES])
        of_sys = [MAX_PT] if list(namespace) == [_PROCEDURES] else []
        return self.gateway.array(IDENTIFIER, [self.gateway.static(IDENTIFIER, "of")(place, n) for n in of_sys])

    def loadFunction(self, ident: Any) -> Any:
        """`sys.max_pt`. Raises Spark's UNRESOLVED_ROUTINE; UnsupportedFeatureError: another function of Paimon's."""
        if not self.functionExists(ident):
            raise no_such_function(self.gateway, ident)
        check_scalar(ident.name())
        return MaxPtProxy(self.gateway, self._session)

    def functionExists(self, ident: Any) -> bool:
        """Whether there is such a function, in Paimon at least."""
        if [p.lower() for p in ident.namespace()] != [_PROCEDURES]:
            return False
        try:
            check_scalar(ident.name())
        except UnsupportedFeatureError:
            return True
        except InvalidInputError:
            return False
        return True

    # ProcedureCatalog

    def loadProcedure(self, ident: Any) -> Any:
        """A procedure of `sys`. Raises ProcedureNotFoundError with the nearest names."""
        return ProcedureProxy(self.gateway, self._session, [*ident.namespace()], ident.name())

    def listProcedures(self, namespace: Any) -> Any:
        """The procedures that can be called, all in `sys`."""
        # Spark asks for those of the current database, too.
        of, where = self.gateway.static(IDENTIFIER, "of"), self.gateway.strings([_PROCEDURES])
        return self.gateway.array(IDENTIFIER, [of(where, n) for n in procedure_names()])

    def toString(self) -> str:
        return f"paimon_spark catalog {self.catalog_name}"


def _how(gateway: Gateway, how: tuple[Any, ...]) -> tuple[TimeTravel | None, dict[str, str]]:
    """Version, timestamp and options that `loadTable` gets besides the name."""
    if not how:
        return None, {}
    if len(how) == 1:
        first = how[0]
        if isinstance(first, str):
            return TimeTravel(version=first), {}
        if isinstance(first, int):
            return TimeTravel(timestamp_us=first), {}
        return None, {}  # privileges
    context, options = how
    given = gateway.text_map(options.asCaseSensitiveMap())
    travel = optional(context.timeTravel())
    if travel is None:
        return None, given
    if travel.getClass().getSimpleName() == "AsOfVersion":
        return TimeTravel(version=travel.version()), given
    return TimeTravel(timestamp_us=travel.micros()), given
