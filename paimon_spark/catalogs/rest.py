"""RestCatalog: the databases and tables of a server of Paimon's REST API.

Source: Java `rest/RESTCatalog`; `rest-catalog-open-api.yaml` of Paimon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from paimon_spark.catalogs.file_system import TablePlace, check_new_name
from paimon_spark.catalogs.registered import RegisteredCatalog
from paimon_spark.catalogs.rest_client import Response, RestClient, served_options
from paimon_spark.catalogs.rest_store import ServedStore, TableServer
from paimon_spark.errors import CatalogError, TableAlreadyExistsError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import TableSchema, encode
from paimon_spark.metadata.definition.create import check_new, new_schema
from paimon_spark.metadata.layout import Layout
from paimon_spark.metadata.retry import now_ms
from paimon_spark.metadata.schemas import latest_schema
from paimon_spark.options.catalog import without_permissions
from paimon_spark.options.location import TableName, check_part, without_table_defaults
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from paimon_spark.types import RowType

_DATABASES = "databases"
_TABLES = "tables"
_VIEWS = "views"
_NO_PLACE = "memory://rest-catalog/database-without-location"
"""Where nothing is: for databases of which the server does not say where they are."""


@dataclass(frozen=True)
class RestRegistry:
    """A registry on the server of a REST catalog, which makes and drops the tables themselves."""

    client: RestClient

    @property
    def address(self) -> str:
        return self.client.address

    def list_databases(self) -> list[str]:
        return sorted(self.client.pages(_DATABASES, _DATABASES) or [])

    def database_url(self, database: str, default: str) -> str | None:
        answer = self.client.get(_DATABASES, database)
        if answer.is_missing:
            return None
        url = answer.find_text("location")
        # The server chooses the places of tables: a folder that it may not name is not needed.
        return url if url and self.client.is_allowed_location(url) else default

    def add_database(self, database: str, url: str) -> bool:
        return not self.client.post(_DATABASES, body={"name": database, "options": {}}).is_there_already

    def remove_database(self, database: str) -> None:
        self.client.delete(_DATABASES, database)

    def list_tables(self, database: str) -> list[str]:
        return sorted(self.client.pages(_TABLES, _DATABASES, database, _TABLES) or [])

    def list_views(self, database: str) -> list[str]:
        return sorted(self.client.pages(_VIEWS, _DATABASES, database, _VIEWS) or [])

    def find_view(self, database: str, view: str) -> Mapping[str, Any] | None:
        answer = self.client.get(_DATABASES, database, _VIEWS, view)
        return None if answer.is_missing else answer.mapping("schema")

    def add_view(self, database: str, view: str, schema: Mapping[str, Any], *, replace: bool) -> bool:
        if replace:  # the protocol changes comments and dialects of a view, but not its query, as of Java 2.0
            self.remove_view(database, view)
        body = {"identifier": _identifier(database, view), "schema": schema}
        return not self.client.post(_DATABASES, database, _VIEWS, body=body).is_there_already

    def remove_view(self, database: str, view: str) -> bool:
        return not self.client.delete(_DATABASES, database, _VIEWS, view).is_missing

    def list_functions(self, database: str) -> list[str]:
        """Names of the functions of a database, sorted."""
        return sorted(self.client.pages("functions", _DATABASES, database, "functions") or [])

    def find_table(self, database: str, table: str) -> Response | None:
        """Find the server's record of a table; None when it does not exist."""
        answer = self.client.get(_DATABASES, database, _TABLES, table)
        return None if answer.is_missing else answer

    def table_url(self, database: str, table: str, default: str) -> str | None:
        found = self.find_table(database, table)
        if found is None:
            return None
        url = found.find_text("path")
        return self.client.checked_location(url, f"table {database}.{table}") if url else default

    def add_table(self, database: str, table: str, url: str, schema: TableSchema) -> bool:
        """Create a table; returns whether it is new. Raises CatalogError, also for a missing database."""
        raw = json.loads(encode(schema))
        kept = {key: raw[key] for key in ("fields", "partitionKeys", "primaryKeys", "options")}
        body = {"identifier": _identifier(database, table), "schema": {**kept, "comment": schema.comment or ""}}
        answer = self.client.post(_DATABASES, database, _TABLES, body=body)
        if answer.is_missing:
            raise CatalogError(f"{self.address} has no database {database!r} any more")
        return not answer.is_there_already

    def register_table(self, database: str, table: str, url: str) -> None:
        """List a table that has its files at a place."""
        self.client.post(
            _DATABASES, database, "register", body={"identifier": _identifier(database, table), "path": url}
        )

    def keeps_files(self, database: str, table: str) -> bool:
        return True  # the server alone drops and moves them

    def change_table(self, database: str, table: str, schema: TableSchema) -> None:
        """Nothing: the server makes the schemas."""

    def remove_table(self, database: str, table: str) -> None:
        self.client.delete(_DATABASES, database, _TABLES, table)

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        body = {"source": _identifier(*old), "destination": _identifier(*new)}
        answer = self.client.post(_TABLES, "rename", body=body)
        if answer.is_missing:
            raise CatalogError(f"{self.address} has no table {'.'.join(old)} any more, or no database {new[0]!r}")
        if answer.is_there_already:
            raise TableAlreadyExistsError(
                f"table {'.'.join(old)} cannot be renamed to {'.'.join(new)}: {self.address} has such a table; choose "
                "another name, or drop it first",
                table=".".join(new),
            )

    def move_table(self, database: str, table: str, url: str) -> None:
        """Nothing: the server moves tables itself."""

    @contextmanager
    def lock(self, database: str, table: str) -> Iterator[None]:
        yield  # the server makes the snapshots, one after the other


def _identifier(database: str, table: str) -> dict[str, str]:
    return {"database": database, "object": table}


@dataclass(frozen=True)
class RestCatalog(RegisteredCatalog):
    """A catalog on a server; `warehouse` is what the server calls it.

    Tables are created, altered, renamed and dropped by the server, and so are their snapshots and branches.
    Tags and savepoints are files, as in Java.
    """

    registry: RestRegistry = field(kw_only=True)

    @property
    def has_directory(self) -> bool:
        return False

    def open_directory(self) -> tuple[Store, str]:
        raise UnsupportedFeatureError(
            f"lineage and pipelines of the REST catalog {self.registry.address} are not supported: they are recorded "
            "in the directory of a warehouse, and this one has none; use them on warehouses of directories",
            feature="lineage of a REST catalog",
        )

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        check_new_name(name, "database")
        if not self.registry.add_database(name, "") and not ignore_if_exists:
            raise self._database_exists(name)

    def check_database(self, name: str) -> tuple[Store, str]:
        url = self.registry.database_url(name, _NO_PLACE)
        if url is None:
            raise self._no_database(name)
        return open_store(url, self._store_options)

    def _left(self, store: Store, root: str) -> list[str]:
        return []  # the server knows what is in its databases

    def _remove_database(self, name: str, store: Store, root: str) -> list[str]:
        self.registry.remove_database(name)
        return []

    def place(self, database: str, table: str) -> TablePlace:
        found = self.registry.find_table(check_part(database, "database"), check_part(table, "table"))
        if found is None:  # the server chooses where it will be
            folder = self.registry.database_url(database, _NO_PLACE) or _NO_PLACE
            store, root = open_store(f"{folder}/{table}", self._store_options)
            return self._place_in(store, root, database, table, is_listed=False)
        url = self.registry.client.checked_location(found.text("path"), f"table {database}.{table}")
        store, root = open_store(url, self._store_options)
        if not found.truth("isExternal"):
            named = TableName(database, table), self.warehouse
            server = TableServer(self.registry.client, database, table, found.text("id"))
            store = cast(Store, ServedStore(url, root, self._store_options, server, self._has_tokens, named))
        return self._place_in(store, root, database, table)

    def create_table(
        self,
        place: TablePlace,
        columns: RowType,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> TableSchema:
        schema = new_schema(columns, primary_keys, partition_keys, options, comment, now_ms())
        check_new(schema, place.shown)
        if not self.registry.add_table(place.database, place.table, "", schema):
            raise TableAlreadyExistsError(
                f"there is a table {place.name} in {self.registry.address}; open it, or choose another name",
                table=place.name,
            )
        made = self.place(place.database, place.table)
        found = latest_schema(made.store, Layout(made.root))
        if found is None:
            raise CatalogError(
                f"{self.registry.address} created table {place.name}, but its schema is not at "
                f"{made.store.url(made.root)}; can this machine reach that place?"
            )
        return found

    def register(self, database: str, table: str) -> None:
        place = self.place(database, table)
        if not place.is_listed:
            if latest_schema(place.store, Layout(place.root)) is None:
                raise self.no_table(database, table)
            self.registry.register_table(database, table, place.store.url(place.root))

    def _drop(self, place: TablePlace) -> list[str]:
        self.registry.remove_table(place.database, place.table)
        return []

    def rename_table(self, old: str, new: str, ignore_if_not_exists: bool = False) -> None:
        source, target = self._existing(old, "renamed", ignore_if_not_exists), self._place(new, "a new name")
        if source is not None:
            self.check_database(target.database)
            self.registry.rename_table((source.database, source.table), (target.database, target.table))

    def list_functions(self, database: str) -> list[str]:
        return self.registry.list_functions(database)

    @property
    def _store_options(self) -> Mapping[str, str]:
        """How to reach the stores of tables: as the server says, under what the user says."""
        return {
            **served_options(without_table_defaults(without_permissions(self.registry.client.config))),
            **self.options,
        }

    @property
    def _has_tokens(self) -> bool:
        asked = self.registry.client.options.data_token
        return asked if asked is not None else self.registry.client.config.get("data-token.enabled") == "true"
