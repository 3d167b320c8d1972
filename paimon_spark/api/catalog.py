"""Catalog: the databases and tables of a file-system warehouse.

Source: Java `catalog/FileSystemCatalog`: a database is a directory `<name>.db`, a table one with a schema in it.

Tables of a warehouse that regular expressions choose. In: a catalog. Out: databases and names of tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paimon_spark.api.table import Table, load
from paimon_spark.errors import (
    DatabaseAlreadyExistsError,
    DatabaseNotFoundError,
    FileAlreadyThereError,
    InvalidInputError,
    InvalidOptionError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from paimon_spark.jobs.alter import SchemaLike, columns_of
from paimon_spark.jobs.opened_table import OptionValue, as_text
from paimon_spark.metadata.definition.create import create_table
from paimon_spark.metadata.handle import is_table
from paimon_spark.metadata.layout import SNAPSHOT_PREFIX, Layout
from paimon_spark.metadata.schemas import latest_schema
from paimon_spark.metadata.small_files import numbered
from paimon_spark.options.descriptor import did_you_mean, unknown_option
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.lineage import OF_ONE_USE, check_job_options
from paimon_spark.options.location import (
    DATABASE_SUFFIX,
    TABLE_DEFAULT,
    configured,
    database_url,
    is_name,
    split_name,
    split_suffix,
    table_defaults,
    table_url,
    without_table_defaults,
)
from paimon_spark.spark_port import spark_sql
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.api.lineage_verbs import Lineage

_SYSTEM_DATABASE: Final = "sys"
_MARKER: Final = ".database"
"""A file in databases of stores that have no directories; nothing reads it."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """A warehouse. Picklable; nothing is cached, so every call sees the warehouse as it is.

    Attributes:
        warehouse: path or URL.
        options: how to reach its file system, as text; `table-default.<option>` is for the tables it makes.
    """

    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def _repr_html_(self) -> str:
        from paimon_spark.api.notebook import catalog_html

        return catalog_html(self.warehouse, self.options, self.list_databases)

    def list_databases(self) -> list[str]:
        """Names of the databases, sorted."""
        store, root = open_store(self.warehouse, self._storage)
        return [
            info.name.removesuffix(DATABASE_SUFFIX)
            for info in store.list(root)
            if info.is_directory and info.name.endswith(DATABASE_SUFFIX) and info.name != DATABASE_SUFFIX
        ]

    def list_tables(self, database: str) -> list[str]:
        """Names of the tables of a database, sorted.

        Raises:
            DatabaseNotFoundError: there is no such database.
        """
        store, root = self._database(database)
        return [i.name for i in store.list(root) if i.is_directory and is_table(store, f"{root}/{i.name}")]

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Make a database: an empty directory of the warehouse.

        Raises:
            DatabaseAlreadyExistsError: there is one, unless `ignore_if_exists`.
            InvalidOptionError: not a name for a database.
        """
        _check_new_name(name, "database")
        store, root = open_store(database_url(self.warehouse, name), self._storage)
        if store.exists(root):
            if ignore_if_exists:
                return
            raise DatabaseAlreadyExistsError(
                f"warehouse {self.warehouse} has a database {name!r} already; create it with ignore_if_exists=True, "
                "or choose another name",
                database=name,
            )
        store.make_directory(root)
        if not store.exists(root):
            store.write(f"{root}/{_MARKER}", b"")

    def drop_database(self, name: str, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Remove a database, with all its tables when `cascade`.

        Raises:
            DatabaseNotFoundError: there is none, unless `ignore_if_not_exists`.
            InvalidInputError: it holds tables, and not `cascade`.
            UnsupportedFeatureError: a table has files outside it, which would stay.
        """
        try:
            tables = self.list_tables(name)
        except DatabaseNotFoundError:
            if ignore_if_not_exists:
                return
            raise
        if tables and not cascade:
            raise InvalidInputError(
                f"database {name!r} of warehouse {self.warehouse} is not empty: it holds {', '.join(tables[:10])}; "
                "drop them first, or give cascade=True",
                database=name,
            )
        for table in tables:
            self.drop_table(f"`{name}`.`{table}`", ignore_if_not_exists=True)
        store, root = self._database(name)
        store.delete_tree(root)

    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Make the table `db.t` and open it. Exactly one of several racing callers makes it.

        Args:
            name: `db.t`, of a database that exists.
            schema: pyarrow.Schema, pyspark StructType or DDL text such as `id BIGINT NOT NULL, name STRING`.
            primary_keys: columns, NOT NULL from then on.
            partition_keys: columns.
            options: table options of Paimon; unknown ones are kept and warned about.
            comment: of the table.
            ignore_if_exists: whether a table that is there is opened instead, whatever its columns.

        Raises:
            TableAlreadyExistsError: there is one, unless `ignore_if_exists`.
            DatabaseNotFoundError: there is no such database.
            InvalidInputError, InvalidOptionError: Paimon has no such table.
            UnsupportedFeatureError: it needs a feature that this package lacks.
        """
        place = self._place(name, "made")
        self._database(place.database)
        _check_new_name(place.table, "table")
        defaults = table_defaults(self.options)
        stored = {**defaults, **as_text(options or {})}
        columns = columns_of(schema)
        try:
            create_table(
                place.store, place.root, columns, primary_keys, partition_keys, stored, comment, name=place.name
            )
        except TableAlreadyExistsError:
            if not ignore_if_exists:
                raise
        return self.table(name)

    def drop_table(self, name: str, ignore_if_not_exists: bool = False) -> None:
        """Remove the table `db.t` with its branches and files. Interrupted, it is finished by calling again.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: there is none, unless `ignore_if_not_exists`.
            UnsupportedFeatureError: it has files outside its directory, which would stay.
        """
        try:
            place = self._existing(name, "dropped")
        except (TableNotFoundError, DatabaseNotFoundError):
            if ignore_if_not_exists:
                return
            raise
        _refuse_outside_files(place)
        # A table without snapshots is empty, one without schemas is none: readers see one of the three. The newest
        # snapshot goes last, so that an older one is not the head for a moment.
        layout = Layout(place.root)
        older = numbered(place.store, layout.snapshot_dir, SNAPSHOT_PREFIX)[:-1]
        place.store.delete_many([layout.snapshot_path(i) for i in older])
        for part in ("snapshot", "branch", "tag"):
            place.store.delete_tree(f"{place.root}/{part}")
        for info in place.store.list(place.root):
            if info.is_directory and info.name != "schema":
                place.store.delete_tree(f"{place.root}/{info.name}")
        place.store.delete_tree(place.root)

    def rename_table(self, old: str, new: str, ignore_if_not_exists: bool = False) -> None:
        """Give the table `db.t` another name, perhaps in another database of the warehouse.

        In one step where the file system moves directories so; on object stores its files are copied.

        Raises:
            TableNotFoundError, DatabaseNotFoundError: there is no table `old` (unless `ignore_if_not_exists`), or no
                database of `new`.
            TableAlreadyExistsError: there is something at the place of `new`.
        """
        target = self._place(new, "a new name")
        _check_new_name(target.table, "table")
        try:
            source = self._existing(old, "renamed")
        except (TableNotFoundError, DatabaseNotFoundError):
            if ignore_if_not_exists:
                return
            raise
        self._database(target.database)
        try:
            # What says that there is a table comes last and goes first, so that none is seen without its files.
            source.store.rename_tree(source.root, target.root, ("schema", "MAIN-BRANCH"))
        except FileAlreadyThereError as e:
            raise TableAlreadyExistsError(
                f"table {source.name} cannot be renamed to {target.name}: there is something at "
                f"{target.store.url(target.root)}; choose another name, or drop it first",
                table=target.name,
            ) from e

    def table(self, name: str, **options: OptionValue) -> Table:
        """The table called `db.t`, or `db.t$branch_<name>`; `$<system table>`, such as `$files`, may follow.

        Raises:
            TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError: it does not exist.
            InvalidOptionError: not such a name, or a wrong option.
        """
        bare = split_suffix(name)[0]
        if not is_name(bare):
            raise InvalidOptionError(f"{name!r} is not the name of a table; expected database.table", name=name)
        try:
            return load(name, {**self._storage, **as_text(options), "warehouse": self.warehouse})
        except TableNotFoundError as e:
            raise self._no_table(*split_name(bare)) from e

    def sql(
        self,
        statement: str,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        session: SparkSession | None = None,
    ) -> DataFrame:
        """Run one SQL statement on the tables of this warehouse, by Spark; classic and Connect sessions.

        `db.t` is a table of the warehouse, `t` one of the current database (`USE db`; at first `default`), and
        `paimon.db.t` is one always; other names are Spark's. `t$branch_fix` is a branch, `t$tags` a system table, and
        `VERSION AS OF '<version>'` takes what `Table.at` takes. Statements on tables of the warehouse are carried out
        at once; queries when their rows are asked for, reading only the columns and files that they need.

        Args:
            statement: SELECT, CREATE, ALTER, DROP, INSERT, DELETE, UPDATE, MERGE, TRUNCATE, SHOW, DESCRIBE, USE,
                `CALL sys.…`, or anything else that Spark runs.
            args: values of the parameters `:name` or `?` in queries, as `spark.sql` takes them.
            session: default is the active session, else one is made.

        Returns:
            The rows; of statements that have none, a DataFrame without columns.

        Raises:
            SqlSyntaxError: a statement of Paimon's is written wrongly, or there are several.
            NotFoundError: a table, version, column or procedure does not exist.
            UnsupportedFeatureError: what cannot be done here; says what to do instead.
            Others as the verbs of Catalog and Table that do it; Spark's own for its part.
        """
        return spark_sql().execute(self, statement, args, session)

    def register_functions(self, session: SparkSession | None = None, prefix: str = "") -> list[str]:
        """Give plain `spark.sql` table functions on this warehouse; classic and Connect. Returns their names.

        `paimon_table('db.t', 'fix.v1')` is a table, branch (`db.t$branch_fix`) or system table (`db.t$tags`) at a
        version, which may be left out; `paimon_incremental_query('db.t', 1, 'v1')`,
        `paimon_incremental_between_timestamp` and `paimon_incremental_to_auto_tag` are what changed between two.
        Names without a database are of database `default`; times without a zone are read in the zone that the session
        has now. Arguments are constants.

        One task reads such a table, whole: conditions and columns of the query do not reach the files, and rows go
        through Python one by one. For large tables take `catalog.sql`, or a view by `Table.create_temp_view`.

        Args:
            session: default is the active session, else one is made.
            prefix: in front of the names, for sessions with several warehouses.
        """
        return spark_sql().register_functions(self, session, prefix)

    @property
    def lineage(self) -> Lineage:
        """Which snapshot of which table came from which: switch it on here, and ask."""
        from paimon_spark.api.lineage_verbs import Lineage

        return Lineage(self)

    @property
    def _storage(self) -> dict[str, str]:
        return without_table_defaults(self.options)

    def _database(self, name: str) -> tuple[Store, str]:
        """Where a database is. Raises DatabaseNotFoundError."""
        store, root = open_store(database_url(self.warehouse, name), self._storage)
        if not store.exists(root):
            names = self.list_databases()
            raise DatabaseNotFoundError(
                f"warehouse {self.warehouse} has no database {name!r}{did_you_mean(name, names)}; "
                f"its databases are {', '.join(names) or 'none'}",
                database=name,
            )
        return store, root

    def _place(self, name: str, verb: str) -> _Place:
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
        database, table = split_name(bare)
        store, root = open_store(table_url(self.warehouse, database, table), self._storage)
        return _Place(store, root, database, table)

    def _existing(self, name: str, verb: str) -> _Place:
        place = self._place(name, verb)
        self._database(place.database)
        if not is_table(place.store, place.root):
            raise self._no_table(place.database, place.table)
        return place

    def _no_table(self, database: str, table: str) -> TableNotFoundError:
        names = self.list_tables(database)
        return TableNotFoundError(
            f"database {database!r} of warehouse {self.warehouse} has no table {table!r}"
            f"{did_you_mean(table, names)}; its tables are {', '.join(names[:20]) or 'none'}",
            path=table_url(self.warehouse, database, table),
        )


class _Place(NamedTuple):
    """Where a table of the warehouse is or will be."""

    store: Store
    root: str
    database: str
    table: str

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"


def _check_new_name(name: str, what: str) -> None:
    if not name.strip() or "$" in name or name.startswith(".") or (what == "database" and name == _SYSTEM_DATABASE):
        raise InvalidOptionError(
            f"{name!r} cannot be the name of a {what}: it is not blank, holds no $, does not start with a dot, and "
            f"the database {_SYSTEM_DATABASE} is Paimon's own",
            name=name,
        )


def _refuse_outside_files(place: _Place) -> None:
    schema = latest_schema(place.store, Layout(place.root))
    for key in ("data-file.external-paths", "global-index.external-path"):
        if schema is not None and schema.options.get(key, "").strip():
            raise UnsupportedFeatureError(
                f"table {place.name} cannot be dropped here: with {key} = {schema.options[key]!r} it has files that "
                "would stay; drop it with Java Paimon",
                feature=key,
                table=place.name,
            )


def load_catalog(warehouse: str | None = None, **options: OptionValue) -> Catalog:
    """The catalog of a warehouse.

    Args:
        warehouse: path or URL; default is `PAIMON_WAREHOUSE`, else that of the configuration file.
        options: how to reach the file system: `**{"fs.key": "…"}`; options of the tables that the catalog makes:
            `**{"table-default.file.format": "orc"}`; and those of a job, for all its tables: `**{"lineage.job": "j"}`.

    Raises:
        InvalidOptionError: no warehouse is known, or an option is none of a file system.
    """
    defaults = configured()
    where = warehouse or defaults.pop("warehouse", None)
    if not where:
        raise InvalidOptionError("no warehouse is given; pass warehouse=… or set PAIMON_WAREHOUSE", option="warehouse")
    given = as_text(options)
    for key in given:
        if not is_storage_option(key) and not key.startswith(TABLE_DEFAULT) and key not in OF_ONE_USE:
            raise unknown_option(key, ["warehouse", *OF_ONE_USE], "catalog")
    check_job_options(given)
    defaults.pop("warehouse", None)
    return Catalog(where, {**defaults, **given})


def chosen_tables(
    catalog: Catalog, databases: str | None = None, including: str | None = None, excluding: str | None = None
) -> Iterator[tuple[str, str]]:
    """Database and name of each table that is chosen, in order; the expressions are for whole names.

    Args:
        catalog: whose tables are meant.
        databases: regular expression of databases; None is all.
        including: of tables, as `db.t`; None is all.
        excluding: of tables that are left out; None is none.

    Raises:
        InvalidInputError: one is no regular expression; at once.
    """
    return _chosen(catalog, _compiled(databases or ".*"), _compiled(including or ".*"), _compiled(excluding or ""))


def _chosen(
    catalog: Catalog, databases: re.Pattern[str], including: re.Pattern[str], excluding: re.Pattern[str]
) -> Iterator[tuple[str, str]]:
    for database in filter(databases.fullmatch, catalog.list_databases()):
        for table in catalog.list_tables(database):
            name = f"{database}.{table}"
            if including.fullmatch(name) and not excluding.fullmatch(name):
                yield database, table


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as e:
        raise InvalidInputError(f"{text!r} is no regular expression: {e}", pattern=text) from e
