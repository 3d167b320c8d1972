"""Where a catalog puts tables and databases, against the LOCATION that a statement names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedFeatureError
from paimon_spark.options.location import database_url, table_url, without_table_defaults
from paimon_spark.sql.names import TableName
from paimon_spark.storage.urls import open_store

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog


def check_location(catalog: Catalog, name: TableName, location: str | None) -> None:
    """Check that a LOCATION is where the catalog puts the table. Raises UnsupportedFeatureError."""
    if location is None or _is_same(catalog, location, table_url(catalog.warehouse, name.database, name.table)):
        return
    raise UnsupportedFeatureError(
        f"{name} cannot lie at {location!r}: tables of the catalog lie in "
        f"{database_url(catalog.warehouse, name.database)}. Leave LOCATION out; a table elsewhere is opened with "
        f"load_table({location!r}), and made there by df.write.format('paimon').save({location!r})",
        feature="LOCATION",
    )


def check_database_location(catalog: Catalog, name: str, location: str) -> None:
    """Check that a LOCATION is where the catalog puts the database. Raises UnsupportedFeatureError."""
    place = database_url(catalog.warehouse, name)
    if not _is_same(catalog, location, place):
        raise UnsupportedFeatureError(
            f"database {name!r} cannot lie at {location!r}: it lies at {place}; leave LOCATION out, or load the "
            "catalog of another warehouse",
            feature="CREATE DATABASE with LOCATION",
        )


def _is_same(catalog: Catalog, location: str, url: str) -> bool:
    options = without_table_defaults(catalog.options)
    (store, root), (other, other_root) = open_store(location, options), open_store(url, options)
    return store.url(root) == other.url(other_root)
