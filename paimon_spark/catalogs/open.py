"""The catalog that options name."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.catalogs.file_system import FileSystemCatalog
from paimon_spark.options.catalog import FILE_SYSTEM, HIVE, METASTORE, parse_catalog_options


def open_catalog(warehouse: str, options: Mapping[str, str]) -> FileSystemCatalog:
    """The catalog of a warehouse. Nothing is read yet.

    Args:
        warehouse: path or URL.
        options: how to reach its file system and its metastore.

    Raises:
        InvalidOptionError: an option of the catalog is wrong or missing.
    """
    if options.get(METASTORE, FILE_SYSTEM) == FILE_SYSTEM:
        return FileSystemCatalog(warehouse, options)
    found = parse_catalog_options(options)
    if found.metastore == FILE_SYSTEM:
        return FileSystemCatalog(warehouse, options)
    # Imported only here: most tables need neither.
    from paimon_spark.catalogs.hive import HiveRegistry
    from paimon_spark.catalogs.jdbc import JdbcRegistry
    from paimon_spark.catalogs.registered import RegisteredCatalog

    registry = HiveRegistry(found) if found.metastore == HIVE else JdbcRegistry(found)
    return RegisteredCatalog(warehouse, options, registry=registry)


def default_warehouse(options: Mapping[str, str]) -> str:
    """The warehouse of a metastore that has one of its own; empty for others. Raises CatalogError."""
    if options.get(METASTORE) != HIVE:
        return ""
    from paimon_spark.catalogs.hive import HiveRegistry

    return HiveRegistry(parse_catalog_options(options)).default_warehouse()
