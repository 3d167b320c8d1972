"""Whether there is a warehouse where one is named: a misspelt path must not look like a warehouse without tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.cli.failure import NoWarehouseError
from paimon_spark.storage.urls import open_store, split_url

if TYPE_CHECKING:
    from paimon_spark.api.catalog import Catalog


def doubt(catalog: Catalog) -> str | None:
    """What to warn of where nothing is at the warehouse's place; None when something is.

    Object stores have no directories: there a warehouse without a database is no object at all, and rightly empty.

    Raises:
        NoWarehouseError: the file system has directories, and there is none.
    """
    where = catalog.warehouse
    store, root = open_store(where, catalog.options)
    if store.exists(root):
        return None
    if _has_directories(where):
        raise NoWarehouseError(
            f"there is no warehouse at {where}: {store.url(root)} does not exist; check the path, or make the "
            "warehouse with its first database: paimon-spark database create NAME",
            warehouse=where,
        )
    return f"warehouse {where} is empty: the store has no object under it; check the bucket and the path"


def _has_directories(url: str) -> bool:
    scheme = split_url(url)[0]
    if scheme == "file":
        return True
    from paimon_spark.storage.fsspec_write import has_directories

    return has_directories("s3" if scheme in ("s3a", "s3n") else scheme)
