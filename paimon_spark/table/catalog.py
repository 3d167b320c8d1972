"""Catalog: the databases and tables of a file-system warehouse.

Source: Java `catalog/FileSystemCatalog`: a database is a directory `<name>.db`, a table one with a schema in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_spark.errors import DatabaseNotFoundError, InvalidOptionError, TableNotFoundError
from paimon_spark.metadata.layout import Layout
from paimon_spark.metadata.schemas import list_schema_ids
from paimon_spark.options.config import configured
from paimon_spark.options.descriptor import did_you_mean, unknown_option
from paimon_spark.options.known import is_storage_option
from paimon_spark.options.location import DATABASE_SUFFIX, database_url, is_name, split_name, split_suffix
from paimon_spark.storage.urls import open_store
from paimon_spark.table.loading import OptionValue, as_text, load
from paimon_spark.table.table import Table


@dataclass(frozen=True, slots=True)
class Catalog:
    """A warehouse. Picklable; nothing is cached, so every call sees the warehouse as it is.

    Attributes:
        warehouse: path or URL.
        options: how to reach its file system, as text.
    """

    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict)

    def list_databases(self) -> list[str]:
        """Names of the databases, sorted."""
        store, root = open_store(self.warehouse, self.options)
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
        store, root = open_store(database_url(self.warehouse, database), self.options)
        directories = [info.name for info in store.list(root) if info.is_directory]
        if not directories and not store.exists(root):
            names = self.list_databases()
            raise DatabaseNotFoundError(
                f"warehouse {self.warehouse} has no database {database!r}{did_you_mean(database, names)}; "
                f"its databases are {', '.join(names) or 'none'}",
                database=database,
            )
        return [name for name in directories if list_schema_ids(store, Layout(f"{root}/{name}"))]

    def table(self, name: str, **options: OptionValue) -> Table:
        """The table called `db.t`, or `db.t$branch_<name>`.

        Raises:
            TableNotFoundError, DatabaseNotFoundError, BranchNotFoundError: it does not exist.
            InvalidOptionError: not such a name, or a wrong option.
        """
        bare = split_suffix(name)[0]
        if not is_name(bare):
            raise InvalidOptionError(f"{name!r} is not the name of a table; expected database.table", name=name)
        try:
            return load(name, {**self.options, **as_text(options), "warehouse": self.warehouse})
        except TableNotFoundError as e:
            database, table = split_name(bare)
            names = self.list_tables(database)
            raise TableNotFoundError(
                f"database {database!r} of warehouse {self.warehouse} has no table {table!r}"
                f"{did_you_mean(table, names)}; its tables are {', '.join(names[:20]) or 'none'}",
                **e.context,
            ) from e


def load_catalog(warehouse: str | None = None, **options: OptionValue) -> Catalog:
    """The catalog of a warehouse.

    Args:
        warehouse: path or URL; default is `PAIMON_WAREHOUSE`, else that of the configuration file.
        options: how to reach the file system: `**{"fs.key": "…"}`.

    Raises:
        InvalidOptionError: no warehouse is known, or an option is none of a file system.
    """
    defaults = configured()
    where = warehouse or defaults.pop("warehouse", None)
    if not where:
        raise InvalidOptionError("no warehouse is given; pass warehouse=… or set PAIMON_WAREHOUSE", option="warehouse")
    given = as_text(options)
    for key in given:
        if not is_storage_option(key):
            raise unknown_option(key, ["warehouse"], "catalog")
    defaults.pop("warehouse", None)
    return Catalog(where, {**defaults, **given})
