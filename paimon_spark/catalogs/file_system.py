"""FileSystemCatalog: list, create, drop and rename the databases and tables of a warehouse.

A database is a directory `<name>.db`, a table one with a schema in it. Nothing is cached. Catalogs that keep the names
elsewhere too replace the methods that say what there is.

Source: Java `catalog/FileSystemCatalog`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from paimon_spark.advice import CASCADE, CREATE_A_DATABASE, CREATE_DATABASE, CREATE_MISSING_DATABASE
from paimon_spark.catalogs.dropping import (
    MARKER,
    drop_table_files,
    left_in_database,
    outside_files,
    remove_empty_database,
    shown_paths,
)
from paimon_spark.errors import (
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    FileAlreadyThereError,
    InvalidInputError,
    InvalidOptionError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    WarehouseNotFoundError,
)
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.handle import is_table
from paimon_spark.metadata.layout import Layout
from paimon_spark.options.descriptor import did_you_mean, nearest
from paimon_spark.options.location import (
    DATABASE_SUFFIX,
    MAIN,
    database_url,
    is_name,
    split_name,
    split_suffix,
    table_url,
)
from paimon_spark.redaction import get_logger
from paimon_spark.storage.ahead import ahead
from paimon_spark.storage.local import is_link, within
from paimon_spark.storage.store import FileInfo, Store
from paimon_spark.storage.urls import has_directories, open_store
from paimon_spark.types import RowType

_LOG = get_logger(__name__)
_SYSTEM_DATABASE: Final = "sys"


class TablePlace(NamedTuple):
    """Where a branch of a table is or will be.

    Attributes:
        root: the table's directory in the store.
        name: how messages call the table; None for its directory.
        catalog: its catalog, which knows it as `database` and `table`; None where the table was given by its path.
        is_listed: whether the catalog's metastore listed it when it was asked.
    """

    store: Store
    root: str
    name: str | None = None
    branch: str = MAIN
    catalog: FileSystemCatalog | None = None
    database: str = ""
    table: str = ""
    is_listed: bool = True

    @property
    def shown(self) -> str:
        """The table in messages."""
        return self.name or self.store.url(self.root)


@dataclass(frozen=True)
class FileSystemCatalog:
    """A warehouse of directories alone.

    Attributes:
        warehouse: path or URL.
        options: how to reach its file system, and the catalog's server where there is one.
    """

    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def exists(self) -> bool:
        """Whether anything is at the warehouse's URL; False only on an object store, which has no directories.

        Raises:
            WarehouseNotFoundError: the store has directories, and there is none.
        """
        store, root = open_store(self.warehouse, self.options)
        if store.exists(root):
            return True
        if not has_directories(self.warehouse):
            return False
        parent, _, last = root.rpartition("/")
        near = nearest(last, [i.name for i in store.list(parent) if i.is_directory]) if parent else []
        urls = [store.url(f"{parent}/{name}") if "://" in self.warehouse else f"{parent}/{name}" for name in near]
        remedy = f"did you mean {' or '.join(urls)}? Correct the path" if urls else "check the path"
        raise WarehouseNotFoundError(
            f"there is no warehouse at {self.warehouse}: {store.url(root)} does not exist; {remedy}, or create the "
            f"warehouse with its first database: {CREATE_DATABASE}",
            warehouse=self.warehouse,
        )

    @property
    def has_directory(self) -> bool:
        """Whether the warehouse is a directory."""
        return True

    def open_directory(self) -> tuple[Store, str]:
        """The store and the directory of the warehouse, where lineage and pipeline branches are recorded."""
        return open_store(self.warehouse, self.options)

    def list_databases(self) -> list[str]:
        """Names of the databases, sorted. Raises WarehouseNotFoundError."""
        store, root = open_store(self.warehouse, self.options)
        found = [
            info.name.removesuffix(DATABASE_SUFFIX)
            for info in store.list(root)
            if _is_directory(info) and info.name.endswith(DATABASE_SUFFIX) and info.name != DATABASE_SUFFIX
        ]
        if not found and not self.exists():
            _LOG.warning(
                "warehouse %s is empty: the store has no object under it; check the bucket and the path", self.warehouse
            )
        return found

    def list_tables(self, database: str) -> list[str]:
        """Names of the tables of a database, sorted. Raises as `check_database`."""
        store, root = open_store(database_url(self.warehouse, database), self.options)
        tables = self._tables_in(database, store, root)
        if not tables:
            self.check_database(database)
        return tables

    def list_views(self, database: str) -> list[str]:
        """Names of the views of a database, sorted. A directory holds none."""
        return []

    def find_view(self, database: str, view: str) -> Mapping[str, Any] | None:
        """Find a view as Paimon's JSON (Java `view/ViewSchema`); None when it does not exist."""
        return None

    def add_view(self, database: str, view: str, schema: Mapping[str, Any], *, replace: bool = False) -> bool:
        """Keep a view, in place of one of this name with `replace`. Returns whether it is kept."""
        raise self.no_views(f"{database}.{view}")

    def remove_view(self, database: str, view: str) -> bool:
        """Drop a view. Returns whether there was one."""
        return False

    @property
    def holds_views(self) -> bool:
        """Whether the catalog can keep views."""
        return False

    def no_views(self, view: str) -> UnsupportedFeatureError:
        """The error about a view that the catalog cannot keep."""
        return UnsupportedFeatureError(
            f"view {view} cannot be stored: the catalog of {self.warehouse} holds no views; those of JDBC metastores "
            "and REST servers do. CREATE TEMPORARY VIEW makes one for a session",
            feature="permanent views",
        )

    def list_functions(self, database: str) -> list[str]:
        """Names of the functions of a database, sorted. A directory holds none."""
        return []

    def _tables_in(self, database: str, store: Store, root: str) -> list[str]:
        """Names of the tables of a database at a place, sorted."""
        names = [info.name for info in store.list(root) if _is_directory(info)]
        with ahead(store, directories=[Layout(f"{root}/{name}").schema_dir for name in names]):
            return [name for name in names if is_table(within(store, f"{root}/{name}"), f"{root}/{name}")]

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Create a database. Raises as `Catalog.create_database`."""
        check_new_name(name, "database")
        store, root = open_store(database_url(self.warehouse, name), self.options)
        if store.exists(root):
            if ignore_if_exists:
                return
            raise self._database_exists(name)
        make_database(store, root)

    def _database_exists(self, name: str) -> DatabaseAlreadyExistsError:
        return DatabaseAlreadyExistsError(
            f"warehouse {self.warehouse} has a database {name!r} already; {CREATE_MISSING_DATABASE}, "
            "or choose another name",
            database=name,
        )

    def drop_database(self, name: str, ignore_if_not_exists: bool = False, cascade: bool = False) -> list[str]:
        """Remove a database. Raises as `Catalog.drop_database`."""
        try:
            tables = self.list_tables(name)
        except DatabaseNotFoundError:
            if ignore_if_not_exists:
                return []
            raise
        store, root = self.check_database(name)
        if not cascade:
            self._check_empty(name, tables, self._left(store, root))
        if self._is_linked(store, root):
            store.delete_tree(root)
            return []
        for table in tables:
            self.drop_table(f"`{name}`.`{table}`", ignore_if_not_exists=True)
        return self._remove_database(name, store, root)

    def _is_linked(self, store: Store, root: str) -> bool:
        """Whether the folder of a database is a link: it is deleted, and nothing of what it points to."""
        return is_link(store, root)

    def _left(self, store: Store, root: str) -> list[str]:
        """Names of everything in the folder of a database."""
        return left_in_database(store, root)

    def _check_empty(self, name: str, tables: Sequence[str], left: Sequence[str]) -> None:
        if tables:
            raise InvalidInputError(
                f"database {name!r} of warehouse {self.warehouse} is not empty: it holds {', '.join(tables[:10])}; "
                f"drop them first, {CASCADE}",
                database=name,
            )
        if left:
            raise self._holds_others(name, left, "is not empty")

    def _holds_others(self, name: str, left: Sequence[str], what: str) -> InvalidInputError:
        return InvalidInputError(
            f"database {name!r} of warehouse {self.warehouse} {what}: {self.database_url(name)} holds "
            f"{shown_paths(left)}, which no Paimon table of the catalog owns; move or delete that, then drop the "
            "database again",
            database=name,
            left=list(left),
        )

    def _remove_database(self, name: str, store: Store, root: str) -> list[str]:
        """Remove a database whose tables were dropped. Returns URLs of what stays in its folder."""
        left = self._left(store, root)
        if left or not remove_empty_database(store, root):
            raise self._holds_others(name, left or ["files that were made meanwhile"], "stays, without its tables")
        return []

    def create_table(
        self,
        place: TablePlace,
        columns: RowType,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> TableSchema:
        """Create a table at a place that `new_place` gave. Raises as `metadata.definition.create.create_table`.

        Raises InvalidInputError: a symbolic link is there, which may lead to a folder of somebody else.
        """
        if is_link(place.store, place.root) and not is_table(place.store, place.root):
            raise InvalidInputError(
                f"table {place.name} cannot be created: {place.store.url(place.root)} is a symbolic link, and no table "
                "is made in its target; delete the link, or create the table by the path of the target",
                table=place.name,
            )
        return create_table(
            place.store, place.root, columns, primary_keys, partition_keys, options, comment, name=place.name
        )

    def check_listed(self, place: TablePlace) -> None:
        """Check that there are no files of a table that the catalog does not list. Raises TableNotFoundError."""

    def register(self, database: str, table: str) -> None:
        """List a table whose files were made without this catalog, where the catalog keeps names of its own."""

    def register_all(self, database: str) -> None:
        """As `register`, every table in the directory of a database."""

    def drop_table(self, name: str, ignore_if_not_exists: bool = False) -> list[str]:
        """Remove a table. Returns URLs of what stays in its folder. Raises as `Catalog.drop_table`."""
        place = self._existing(name, "dropped", ignore_if_not_exists)
        return [] if place is None else self._drop(place)

    def _drop(self, place: TablePlace) -> list[str]:
        if is_link(place.store, place.root):
            return drop_table_files(place.store, place.root)
        outside = outside_files(place.store, place.root, place.shown)
        left = drop_table_files(place.store, place.root)
        outside.delete()
        return left

    def rename_table(self, old: str, new: str, ignore_if_not_exists: bool = False) -> None:
        """Rename a table. Raises as `Catalog.rename_table`."""
        target = self._place(new, "a new name")
        check_new_name(target.table, "table")
        source = self._existing(old, "renamed", ignore_if_not_exists)
        if source is None:
            return
        self.check_database(target.database)
        self._rename(source, target)

    def _rename(self, source: TablePlace, target: TablePlace) -> None:
        try:
            # The files that make it a table are copied last and deleted first, so that no table lacks files.
            source.store.rename_tree(source.root, target.root, ("schema", "MAIN-BRANCH"))
        except FileAlreadyThereError as e:
            raise TableAlreadyExistsError(
                f"table {source.name} cannot be renamed to {target.name}: there is something at "
                f"{target.store.url(target.root)}; choose another name, or drop it first",
                table=target.name,
            ) from e

    def new_place(self, name: str) -> TablePlace:
        """Where a new table `db.t` will be.

        Raises:
            DatabaseNotFoundError: there is no such database.
            InvalidOptionError: no table can have this name.
        """
        place = self._place(name, "made")
        self.check_database(place.database)
        check_new_name(place.table, "table")
        return place

    def place(self, database: str, table: str) -> TablePlace:
        """Where a table is or would be, which need not exist. Raises InvalidOptionError: no name of a table."""
        store, root = open_store(table_url(self.warehouse, database, table), self.options)
        return self._place_in(store, root, database, table)

    def _place_in(self, store: Store, root: str, database: str, table: str, *, is_listed: bool = True) -> TablePlace:
        """The place of a table of this catalog."""
        return TablePlace(store, root, f"{database}.{table}", MAIN, self, database, table, is_listed)

    def database_url(self, database: str) -> str:
        """Where a database is or would be."""
        return database_url(self.warehouse, database)

    def has_table(self, place: TablePlace) -> bool:
        """Whether the catalog has the table of a place."""
        return is_table(place.store, place.root)

    def no_table(self, database: str, table: str) -> TableNotFoundError:
        """The error for a table that a database does not have; offers the nearest names."""
        names = self.list_tables(database)
        return TableNotFoundError(
            f"database {database!r} of warehouse {self.warehouse} has no table {table!r}"
            f"{did_you_mean(table, names)}; its tables are {', '.join(names[:20]) or 'none'}",
            path=table_url(self.warehouse, database, table),
        )

    def check_database(self, name: str) -> tuple[Store, str]:
        """Where a database is. Raises DatabaseNotFoundError, WarehouseNotFoundError."""
        store, root = open_store(database_url(self.warehouse, name), self.options)
        if not store.exists(root):
            raise self._no_database(name)
        return store, root

    def _no_database(self, name: str) -> DatabaseNotFoundError:
        names = self.list_databases()
        return DatabaseNotFoundError(
            f"warehouse {self.warehouse} has no database {name!r}{did_you_mean(name, names)}; its databases are "
            f"{', '.join(names) or 'none'}; {CREATE_A_DATABASE}",
            database=name,
        )

    def _place(self, name: str, verb: str) -> TablePlace:
        """Where the table called `db.t` is or would be. Raises InvalidOptionError."""
        bare, branch, system_table = split_suffix(name)
        if branch is not None or system_table is not None:
            raise InvalidOptionError(
                f"{name!r} names a {'branch' if system_table is None else 'system table'}, and only a whole table can "
                f"be {verb}; name it database.table",
                name=name,
            )
        if not is_name(bare):
            raise InvalidOptionError(f"{name!r} is not the name of a table; expected database.table", name=name)
        return self.place(*split_name(bare))

    def _existing(self, name: str, verb: str, ignore_if_not_exists: bool) -> TablePlace | None:
        place = self._place(name, verb)
        if self.has_table(place):
            return place
        if ignore_if_not_exists:
            return None
        self.check_database(place.database)
        raise self.no_table(place.database, place.table)


def make_database(store: Store, root: str) -> None:
    """Make the directory of a database, also where the store has no directories."""
    store.make_directory(root)
    if not store.exists(root):
        store.write(f"{root}/{MARKER}", b"")


def check_new_name(name: str, what: str) -> None:
    """Check the name of a new database or table. Raises InvalidOptionError."""
    if not name.strip() or "$" in name or name.startswith(".") or (what == "database" and name == _SYSTEM_DATABASE):
        raise InvalidOptionError(
            f"{name!r} cannot be the name of a {what}: it is not blank, holds no $, does not start with a dot, and "
            f"the database {_SYSTEM_DATABASE} is Paimon's own",
            name=name,
        )


def _is_directory(info: FileInfo) -> bool:
    """Whether it may be a database or a table, whose own folder may be a link."""
    return info.is_directory or info.links_directory
