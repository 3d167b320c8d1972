"""RegisteredCatalog: names in a metastore, tables in directories; Registry: that metastore."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast, runtime_checkable

from paimon_spark.catalogs.dropping import left_in_database, remove_empty_database, shown_paths
from paimon_spark.catalogs.file_system import FileSystemCatalog, TablePlace, check_new_name, make_database
from paimon_spark.errors import CatalogError, TableAlreadyExistsError, TableNotFoundError, UnsupportedFeatureError
from paimon_spark.format.metadata_files.table_schema import TableSchema, decode
from paimon_spark.metadata.definition.create import new_schema
from paimon_spark.metadata.handle import is_table
from paimon_spark.metadata.layout import Layout
from paimon_spark.metadata.schemas import latest_schema
from paimon_spark.options.catalog import CatalogOptions
from paimon_spark.options.location import TableName, check_part, database_url, table_url
from paimon_spark.redaction import get_logger
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import has_directories, open_store
from paimon_spark.types import RowType

_LOG = get_logger(__name__)
_LOCKED: Final = ("snapshot-", "schema-")
"""Beginnings of the names of files that Java writes only while it holds the lock."""
_SCHEMAS: Final = "/schema/schema-"


@dataclass(frozen=True)
class RegisteredCatalog(FileSystemCatalog):
    """A warehouse whose databases and tables are those that a metastore lists.

    A table is listed before its first file is written and until its last one is gone, so that what was interrupted is
    finished by calling again.

    Attributes:
        lock: whether commits take the lock of the metastore; None is on object stores alone.
    """

    registry: Registry = field(kw_only=True)
    lock: bool | None = field(default=None, kw_only=True)

    def exists(self) -> bool:
        self.registry.list_databases()
        return True

    def list_databases(self) -> list[str]:
        return self.registry.list_databases()

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        check_new_name(name, "database")
        url = database_url(self.warehouse, name)
        if not self.registry.add_database(name, url):
            if ignore_if_exists:
                return
            raise self._database_exists(name)
        make_database(*open_store(url, self.options))

    def check_database(self, name: str) -> tuple[Store, str]:
        url = self.registry.database_url(name, database_url(self.warehouse, name))
        if url is None:
            raise self._no_database(name)
        return open_store(url, self.options)

    def database_url(self, database: str) -> str:
        default = database_url(self.warehouse, database)
        return self.registry.database_url(database, default) or default

    def place(self, database: str, table: str) -> TablePlace:
        listed = self._listed_url(database, table)
        url = listed or f"{self.database_url(database)}/{check_part(table, 'table')}"
        store, root = open_store(url, self.options)
        locked = not has_directories(url) if self.lock is None else self.lock
        wrapped = _TableStore(store, root, self.registry, database, table, locked, self.warehouse)
        return self._place_in(cast(Store, wrapped), root, database, table, is_listed=listed is not None)

    def list_views(self, database: str) -> list[str]:
        return [] if self._views is None else self._views.list_views(database)

    def find_view(self, database: str, view: str) -> Mapping[str, Any] | None:
        return None if self._views is None else self._views.find_view(database, view)

    def add_view(self, database: str, view: str, schema: Mapping[str, Any], *, replace: bool = False) -> bool:
        if self._views is None:
            raise self.no_views(f"{database}.{view}")
        return self._views.add_view(database, check_part(view, "view"), schema, replace=replace)

    def remove_view(self, database: str, view: str) -> bool:
        return self._views is not None and self._views.remove_view(database, view)

    @property
    def holds_views(self) -> bool:
        return self._views is not None

    @property
    def _views(self) -> _ViewRegistry | None:
        return self.registry if isinstance(self.registry, _ViewRegistry) else None

    def has_table(self, place: TablePlace) -> bool:
        return self._listed_url(place.database, place.table) is not None

    def create_table(
        self,
        place: TablePlace,
        columns: RowType,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> TableSchema:
        url = place.store.url(place.root)
        listed = self.has_table(place)
        if not listed and is_table(place.store, place.root):
            raise TableAlreadyExistsError(self._unlisted(place), table=place.name)
        schema = new_schema(columns, primary_keys, partition_keys, options, comment)
        self.registry.add_table(place.database, place.table, url, schema)
        try:
            made = super().create_table(place, columns, primary_keys, partition_keys, options, comment)
        except BaseException:
            if not listed and not is_table(place.store, place.root):
                self.registry.remove_table(place.database, place.table)
            raise
        # Another process that could not create it may have taken it off the list meanwhile.
        self.registry.add_table(place.database, place.table, url, made)
        return made

    def check_listed(self, place: TablePlace) -> None:
        if not place.is_listed and is_table(place.store, place.root):
            raise TableNotFoundError(self._unlisted(place), path=place.root)

    def _unlisted(self, place: TablePlace) -> str:
        return (
            f"{self.registry.address} does not list table {place.name}, but there are files of a table at "
            f"{place.store.url(place.root)}; list it with catalog.register_table({place.name!r}), or open it by its "
            "path"
        )

    def register(self, database: str, table: str) -> None:
        place = self.place(database, table)
        schema = latest_schema(place.store, Layout(place.root))
        if schema is None:
            raise self.no_table(database, table)
        self.registry.add_database(database, self.database_url(database))
        self.registry.add_table(database, table, place.store.url(place.root), schema)

    def register_all(self, database: str) -> None:
        for table in super()._tables_in(database, *open_store(self.database_url(database), self.options)):
            self.register(database, table)

    def _tables_in(self, database: str, store: Store, root: str) -> list[str]:
        return self.registry.list_tables(database)

    def _is_linked(self, store: Store, root: str) -> bool:
        return False  # the tables are those that the metastore lists, wherever it says

    def _remove_database(self, name: str, store: Store, root: str) -> list[str]:
        self.registry.remove_database(name)
        # What is left belongs to others: files of tables that the metastore does not list are another catalog's.
        left = left_in_database(store, root)
        if not left:
            remove_empty_database(store, root)
            return []
        urls = [store.url(f"{root}/{entry}") for entry in left]
        _LOG.warning(
            "database %s was dropped, but its folder stays: no table of %s owns %s",
            name,
            self.registry.address,
            shown_paths(urls),
        )
        return urls

    def _drop(self, place: TablePlace) -> list[str]:
        if self.registry.keeps_files(place.database, place.table):
            self.registry.remove_table(place.database, place.table)
            return []
        left = super()._drop(place)
        if left:  # otherwise it went with the folder
            self.registry.remove_table(place.database, place.table)
        return left

    def rename_table(self, old: str, new: str, ignore_if_not_exists: bool = False) -> None:
        source, target = self._place(old, "renamed"), self._place(new, "a new name")
        is_half_done = self.has_table(target) and not is_table(target.store, target.root)
        if is_half_done and not self.has_table(source):
            self._move_files(source, target)
        else:
            super().rename_table(old, new, ignore_if_not_exists)

    def _rename(self, source: TablePlace, target: TablePlace) -> None:
        names = (source.database, source.table), (target.database, target.table)
        if self.has_table(target) or is_table(target.store, target.root):
            raise TableAlreadyExistsError(
                f"table {source.name} cannot be renamed to {target.name}: there is something at "
                f"{target.store.url(target.root)}, or {self.registry.address} lists such a table; choose another name, "
                "or drop it first",
                table=target.name,
            )
        moves = not self.registry.keeps_files(*names[0])
        if moves and source.store.identity != target.store.identity:
            raise UnsupportedFeatureError(
                f"table {source.name} cannot be renamed to {target.name}: its files would move from "
                f"{source.store.url(source.root)} to another store, {target.store.url(target.root)}; create the table "
                "there, and copy its rows",
                feature="rename to another store",
            )
        self.registry.rename_table(*names)
        if moves:
            self._move_files(source, target)

    def _move_files(self, source: TablePlace, target: TablePlace) -> None:
        """Move the files of a table that has its new name already to where a table of that name is made."""
        url = f"{self.database_url(target.database)}/{target.table}"
        # Not the store of the old name, which would take it off the list.
        store, root = open_store(source.store.url(source.root), self.options)
        if is_table(store, root):
            super()._rename(
                source._replace(store=store), target._replace(store=store, root=open_store(url, self.options)[1])
            )
        self.registry.move_table(target.database, target.table, url)

    def _listed_url(self, database: str, table: str) -> str | None:
        """Where a table is that the metastore lists."""
        return self.registry.table_url(database, table, table_url(self.warehouse, database, table))


@dataclass(frozen=True)
class _TableStore:
    """A store that does all that `inner` does. Commits hold the table's lock, and the metastore learns of new schemas.

    Attributes:
        root: the table's directory.
        locked: whether to hold the lock of the registry for a commit.
        warehouse: of the catalog, which opens the table again.
    """

    inner: Any
    root: str
    registry: Registry
    database: str
    table: str
    locked: bool
    warehouse: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "inner" not in self.__dict__:  # it is being unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def named(self) -> tuple[TableName, str]:
        """The table and the warehouse, as `TableHandle.load_path` needs them."""
        return TableName(self.database, self.table), self.warehouse

    def create_exclusive(self, path: str, data: bytes) -> None:
        """As `Store.create_exclusive`; a snapshot or schema of the table under its lock."""
        is_commit = path.startswith(f"{self.root}/") and path.rpartition("/")[2].startswith(_LOCKED)
        with self.registry.lock(self.database, self.table) if is_commit and self.locked else nullcontext():
            self.inner.create_exclusive(path, data)
        if path.startswith(self.root + _SCHEMAS):
            try:
                self.registry.change_table(self.database, self.table, decode(data, path))
            except CatalogError as e:  # the table has changed; engines of Paimon read its own schema
                _LOG.warning("the metastore was not told the new schema of %s.%s: %s", self.database, self.table, e)

    def delete_tree(self, directory: str) -> None:
        """As `Store.delete_tree`; with the directory of the table, its name goes from the metastore."""
        self.inner.delete_tree(directory)
        if directory == self.root:
            self.registry.remove_table(self.database, self.table)


_FIRST_SLEEP_S: Final = 0.05


class Registry(Protocol):
    """Names in a metastore. Picklable; every call opens a connection of its own or takes one of this process.

    Every failure to reach the metastore is a CatalogError that names its address.
    """

    @property
    def address(self) -> str:
        """Its address, without passwords, for messages."""
        ...

    def list_databases(self) -> list[str]:
        """Names of the databases, sorted."""
        ...

    def database_url(self, database: str, default: str) -> str | None:
        """URL of a database, `default` if the metastore has none; None when the database does not exist."""
        ...

    def add_database(self, database: str, url: str) -> bool:
        """List a database. Returns whether it is new."""
        ...

    def remove_database(self, database: str) -> None:
        """List a database without tables no longer."""
        ...

    def list_tables(self, database: str) -> list[str]:
        """Names of the Paimon tables of a database, sorted."""
        ...

    def table_url(self, database: str, table: str, default: str) -> str | None:
        """Where a table is, `default` if the metastore does not say; None when it is not listed."""
        ...

    def add_table(self, database: str, table: str, url: str, schema: TableSchema) -> bool:
        """List a table. Returns whether it is new."""
        ...

    def keeps_files(self, database: str, table: str) -> bool:
        """Whether the files of a table stay where they are when it is dropped or renamed."""
        ...

    def change_table(self, database: str, table: str, schema: TableSchema) -> None:
        """Take over the new schema of a table, where the metastore keeps any of it."""
        ...

    def remove_table(self, database: str, table: str) -> None:
        """List a table no longer; nothing happens to its files."""
        ...

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Give a table, as database and name, another name. The metastore may move its files."""
        ...

    def move_table(self, database: str, table: str, url: str) -> None:
        """Take over where the files of a table are."""
        ...

    def lock(self, database: str, table: str) -> AbstractContextManager[None]:
        """The lock that commits to a table hold. Raises CatalogError: another process kept it too long."""
        ...


@runtime_checkable
class _ViewRegistry(Protocol):
    """Views in a metastore that keeps them. As `Registry`."""

    def list_views(self, database: str) -> list[str]:
        """Names of the views of a database, sorted."""
        ...

    def find_view(self, database: str, view: str) -> Mapping[str, Any] | None:
        """Find the stored form of a view (Java `view/ViewSchema`); None when it does not exist."""
        ...

    def add_view(self, database: str, view: str, schema: Mapping[str, Any], *, replace: bool) -> bool:
        """Keep a view, in place of one of this name with `replace`. Returns whether it is kept."""
        ...

    def remove_view(self, database: str, view: str) -> bool:
        """Drop a view. Returns whether there was one."""
        ...


def wait_for_lock(try_lock: Callable[[], bool], name: str, options: CatalogOptions) -> None:
    """Try until a lock is taken, waiting longer and longer. Raises CatalogError: another process keeps it too long."""
    deadline = time.monotonic() + options.lock_timeout_ms / 1000
    sleep = _FIRST_SLEEP_S
    while not try_lock():
        if time.monotonic() > deadline:
            raise CatalogError(
                f"lock {name} was not free within {options.lock_timeout_ms} ms; another process holds it: try again, "
                "or wait longer with lock-acquire-timeout",
                retryable=True,
            )
        sleep = min(sleep * 2, options.lock_sleep_ms / 1000)
        time.sleep(sleep)
