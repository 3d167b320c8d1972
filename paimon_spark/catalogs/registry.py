"""Registry: what a catalog asks of a metastore, and how to wait for a lock there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, runtime_checkable

from paimon_spark.errors import CatalogError
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.options.catalog import CatalogOptions

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
class ViewRegistry(Protocol):
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
