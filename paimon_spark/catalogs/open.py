"""The catalog that options name."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.catalogs.file_system import FileSystemCatalog
from paimon_spark.options.catalog import FILE_SYSTEM, HIVE, REST, parse_catalog_options
from paimon_spark.options.location import without_table_defaults


def open_catalog(warehouse: str, options: Mapping[str, str]) -> FileSystemCatalog:
    """The catalog of a warehouse. Nothing is read yet.

    Args:
        warehouse: path or URL.
        options: how to reach its file system and its metastore; those for new tables, lineage and branches are ignored.

    Raises:
        InvalidOptionError: an option of the catalog is wrong or missing.
    """
    options = without_table_defaults(options)
    found = parse_catalog_options(options)
    if found.metastore == FILE_SYSTEM:
        return FileSystemCatalog(warehouse, options)
    # Imported only here: most tables need none of them.
    if found.metastore == REST:
        from paimon_spark.catalogs.rest import RestCatalog, RestRegistry
        from paimon_spark.catalogs.rest_client import RestClient

        return RestCatalog(warehouse, options, registry=RestRegistry(RestClient(found, warehouse)))
    from paimon_spark.catalogs.hive import HiveRegistry
    from paimon_spark.catalogs.jdbc import JdbcRegistry
    from paimon_spark.catalogs.registered import RegisteredCatalog

    registry = HiveRegistry(found) if found.metastore == HIVE else JdbcRegistry(found)
    return RegisteredCatalog(warehouse, options, registry=registry, lock=found.lock_enabled)


def default_warehouse(options: Mapping[str, str]) -> str:
    """The warehouse of a metastore that has one of its own; empty for others. Raises CatalogError."""
    found = parse_catalog_options(options)
    if found.metastore != HIVE:
        return ""
    from paimon_spark.catalogs.hive import HiveRegistry

    return HiveRegistry(found).default_warehouse()
