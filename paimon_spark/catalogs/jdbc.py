"""JdbcRegistry: names and locks in a database, as Java Paimon's JDBC catalog keeps them.

Source: Java `jdbc/JdbcCatalog`, `jdbc/JdbcUtils`, `jdbc/JdbcCatalogLock` and its dialects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from paimon_spark.catalogs.registered import wait_for_lock
from paimon_spark.errors import CatalogError, InvalidOptionError, PaimonError
from paimon_spark.format.json_files import decode_object
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.catalog import CatalogOptions
from paimon_spark.redaction import get_logger, shown_option
from paimon_spark.text import reason

_LOG = get_logger(__name__)
_SQLITE: Final = "sqlite"
_POSTGRESQL: Final = "postgresql"
_NAMES: Final = (
    "CREATE TABLE paimon_tables (catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, "
    "table_name VARCHAR(255) NOT NULL, PRIMARY KEY (catalog_key, database_name, table_name))"
)
_PROPERTIES: Final = (
    "CREATE TABLE paimon_database_properties (catalog_key VARCHAR(255) NOT NULL, "
    "database_name VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000), "
    "PRIMARY KEY (catalog_key, database_name, property_key))"
)
_LOCKS: Final = (
    "CREATE TABLE paimon_distributed_locks (lock_id VARCHAR({length}) NOT NULL, "
    "acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, expire_time_seconds BIGINT DEFAULT 0 NOT NULL, "
    "PRIMARY KEY (lock_id))"
)
_TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {"paimon_tables": _NAMES, "paimon_database_properties": _PROPERTIES}
)
_VIEWS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "paimon_views": "CREATE TABLE paimon_views (catalog_key VARCHAR(255) NOT NULL, "
        "database_name VARCHAR(255) NOT NULL, view_name VARCHAR(255) NOT NULL, view_schema TEXT NOT NULL, "
        "PRIMARY KEY (catalog_key, database_name, view_name))"
    }
)
_NEW_VIEW: Final = "INSERT INTO paimon_views VALUES (?, ?, ?, ?) ON CONFLICT "
_IN_PLACE: Final = "(catalog_key, database_name, view_name) DO UPDATE SET view_schema = excluded.view_schema"
_NO_MORE: Final[Mapping[str, str]] = MappingProxyType({})
_OUTDATED: Final[Mapping[str, str]] = MappingProxyType(
    {
        _SQLITE: "strftime('%s', 'now') - strftime('%s', acquired_at) > expire_time_seconds",
        _POSTGRESQL: "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at)) > expire_time_seconds",
    }
)
_PROPERTIES_TABLE: Final = "paimon_table_properties"
"""Made by Java alone, when it copies the properties of tables into the database."""
_EXISTS: Final = "exists"
_LOCATION: Final = "location"
_CONNECT_S: Final = 20


@dataclass(frozen=True)
class JdbcRegistry:
    """A registry in SQLite or PostgreSQL.

    Attributes:
        options: of the catalog; `uri` is `jdbc:sqlite:<file>` or `jdbc:postgresql://host[:port]/database`.
    """

    options: CatalogOptions = field(repr=False)

    @property
    def address(self) -> str:
        return self.options.uri.partition("?")[0]

    def list_databases(self) -> list[str]:
        with self._connected() as run:
            rows = run(
                "SELECT database_name FROM paimon_tables WHERE catalog_key = ? UNION "
                "SELECT database_name FROM paimon_database_properties WHERE catalog_key = ?",
                self._key,
                self._key,
            )
        return sorted(name for (name,) in rows)

    def database_url(self, database: str, default: str) -> str | None:
        with self._connected() as run:
            found = run(
                "SELECT 1 FROM paimon_database_properties WHERE catalog_key = ? AND database_name = ? UNION "
                "SELECT 1 FROM paimon_tables WHERE catalog_key = ? AND database_name = ?",
                *(self._key, database, self._key, database),
            )
        # Java looks for tables in the warehouse, whatever the property `location` of their database says.
        return default if found else None

    def add_database(self, database: str, url: str) -> bool:
        with self._connected() as run:
            insert = "INSERT INTO paimon_database_properties VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            made = run(insert, self._key, database, _EXISTS, "true")
            run(insert, self._key, database, _LOCATION, url)
        return bool(made)

    def remove_database(self, database: str) -> None:
        with self._connected(_VIEWS) as run:
            for table in ("paimon_tables", "paimon_database_properties", *_VIEWS):
                run(f"DELETE FROM {table} WHERE catalog_key = ? AND database_name = ?", self._key, database)  # noqa: S608

    def list_tables(self, database: str) -> list[str]:
        with self._connected() as run:
            rows = run(
                "SELECT table_name FROM paimon_tables WHERE catalog_key = ? AND database_name = ?", self._key, database
            )
        return sorted(name for (name,) in rows)

    def table_url(self, database: str, table: str, default: str) -> str | None:
        with self._connected() as run:
            found = run(
                "SELECT 1 FROM paimon_tables WHERE catalog_key = ? AND database_name = ? AND table_name = ?",
                self._key,
                database,
                table,
            )
        return default if found else None

    def add_table(self, database: str, table: str, url: str, schema: TableSchema) -> bool:
        with self._connected() as run:
            return bool(
                run("INSERT INTO paimon_tables VALUES (?, ?, ?) ON CONFLICT DO NOTHING", self._key, database, table)
            )

    def keeps_files(self, database: str, table: str) -> bool:
        return False

    def change_table(self, database: str, table: str, schema: TableSchema) -> None:
        """Nothing: of a table only its name is kept."""

    def remove_table(self, database: str, table: str) -> None:
        self._on_table("DELETE FROM {}", database, table)

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        self._on_table("UPDATE {} SET database_name = ?, table_name = ?", *old, values=new)

    def move_table(self, database: str, table: str, url: str) -> None:
        """Nothing: a table is where its name says."""

    def list_views(self, database: str) -> list[str]:
        rows = self._on_views("SELECT view_name FROM paimon_views", database)
        return sorted(name for (name,) in rows)

    def find_view(self, database: str, view: str) -> Mapping[str, Any] | None:
        rows = self._on_views("SELECT view_schema FROM paimon_views", database, view)
        if not rows:
            return None
        return decode_object(
            rows[0][0],
            lambda found: found,
            lambda why: CatalogError(f"view {database}.{view} of {self.address} is no JSON object: {why}"),
        )

    def add_view(self, database: str, view: str, schema: Mapping[str, Any], *, replace: bool) -> bool:
        insert = _NEW_VIEW + (_IN_PLACE if replace else "DO NOTHING")
        with self._connected(_VIEWS) as run:
            return bool(run(insert, self._key, database, view, json.dumps(schema, ensure_ascii=False)))

    def remove_view(self, database: str, view: str) -> bool:
        return bool(self._on_views("DELETE FROM paimon_views", database, view))

    def _on_views(self, statement: str, database: str, view: str | None = None) -> Any:
        """Run a statement on the views of a database, or on one of them."""
        where = " WHERE catalog_key = ? AND database_name = ?"
        with self._connected(_VIEWS) as run:
            if view is None:
                return run(statement + where, self._key, database)
            return run(f"{statement}{where} AND view_name = ?", self._key, database, view)

    def _on_table(self, statement: str, database: str, table: str, values: tuple[str, ...] = ()) -> None:
        """Change the rows of a table, in one transaction."""
        where = " WHERE catalog_key = ? AND database_name = ? AND table_name = ?"
        with self._connected() as run:
            for name in ("paimon_tables", _PROPERTIES_TABLE):
                if name != _PROPERTIES_TABLE or self._has(run, name):
                    run(statement.format(name) + where, *values, self._key, database, table)

    @contextmanager
    def lock(self, database: str, table: str) -> Iterator[None]:
        name = f"{self._key}.{database}.{table}"
        wait_for_lock(lambda: self._try_lock(name), f"{name} of {self.address}", self.options)
        try:
            yield
        finally:
            try:
                with self._connected() as run:
                    run("DELETE FROM paimon_distributed_locks WHERE lock_id = ?", name)
            except CatalogError as e:  # what it guarded is done; others break the lock when its time is over
                _LOG.warning("lock %s could not be released: %s", name, e)

    def _try_lock(self, name: str) -> bool:
        insert = (
            "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?) ON CONFLICT DO NOTHING"
        )
        seconds = self.options.lock_timeout_ms // 1000
        with self._connected({"paimon_distributed_locks": _LOCKS.format(length=self.options.lock_key_length)}) as run:
            if run(insert, name, seconds):
                return True
            outdated = f"DELETE FROM paimon_distributed_locks WHERE {_OUTDATED[self._dialect]} AND lock_id = ?"  # noqa: S608
            return bool(run(outdated, name)) and bool(run(insert, name, seconds))

    @property
    def _key(self) -> str:
        return self.options.catalog_key

    @property
    def _dialect(self) -> str:
        found = re.match(r"jdbc:(\w+):", self.options.uri)
        if found is None or found[1] not in (_SQLITE, _POSTGRESQL):
            shown = shown_option("uri", self.address)
            raise InvalidOptionError(
                f"uri = {shown!r} is no metastore that can be reached here; expected jdbc:sqlite:<file> or "
                "jdbc:postgresql://host[:port]/database",
                option="uri",
            )
        return found[1]

    def _has(self, run: _Run, table: str) -> bool:
        of_sqlite = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        of_postgresql = (
            "SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = ?"
        )
        return bool(run(of_sqlite if self._dialect == _SQLITE else of_postgresql, table))

    @contextmanager
    def _connected(self, more: Mapping[str, str] = _NO_MORE) -> Iterator[_Run]:
        """Yield a function that runs statements in one transaction of a new connection. Raises CatalogError.

        Tables are made when they are missing: those of names, and `more`, by name.
        """
        dialect = self._dialect
        try:
            with closing(_CONNECTORS[dialect](self.options)) as connection:
                run = _statements(connection, dialect)
                for table, statement in {**_TABLES, **more}.items():
                    self._make(connection, run, table, statement)
                yield run
                connection.commit()
        except PaimonError:
            raise
        except Exception as e:  # of the driver
            raise CatalogError(
                f"the metastore {self.address} cannot be used: {reason(e)}; check the option uri, jdbc.user and "
                "jdbc.password"
            ) from e

    def _make(self, connection: Any, run: _Run, table: str, statement: str) -> None:
        """Make a table unless it exists; another process may be faster."""
        if self._has(run, table):
            return
        try:
            run(statement)
            connection.commit()
        except Exception:
            connection.rollback()
            if not self._has(run, table):
                raise


_Run = Callable[..., Any]
"""Runs a statement with `?` for each value: rows of a query, else the number of rows changed."""


def _statements(connection: Any, dialect: str) -> _Run:
    def run(statement: str, *values: Any) -> Any:
        cursor = connection.cursor()
        try:
            cursor.execute(statement if dialect == _SQLITE else _numbered(statement), values)
            return cursor.fetchall() if statement.startswith("SELECT") else max(cursor.rowcount, 0)
        finally:
            cursor.close()

    return run


def _numbered(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


def _connect_sqlite(options: CatalogOptions) -> Any:
    import sqlite3

    path = options.uri.removeprefix("jdbc:sqlite:").partition("?")[0].removeprefix("file:")
    return sqlite3.connect(path, timeout=_CONNECT_S)


def _connect_postgresql(options: CatalogOptions) -> Any:
    try:
        import psycopg
    except ImportError as e:
        raise CatalogError("no driver for PostgreSQL is installed: install paimon-spark[postgresql]") from e
    parts = urlsplit(options.uri.removeprefix("jdbc:"))
    given = {**dict(parse_qsl(parts.query)), **options.jdbc}
    settings = {_PSYCOPG_NAMES.get(key, key): value for key, value in given.items()}
    connect: Any = psycopg.connect
    return connect(
        host=parts.hostname or "localhost",
        port=parts.port or 5432,
        dbname=parts.path.strip("/") or None,
        **{"connect_timeout": _CONNECT_S, **settings},
    )


_PSYCOPG_NAMES: Final = {
    "ssl": "sslmode",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
}
_CONNECTORS: Final[Mapping[str, Callable[[CatalogOptions], Any]]] = MappingProxyType(
    {_SQLITE: _connect_sqlite, _POSTGRESQL: _connect_postgresql}
)
