"""TableStore: the files of a table in a metastore, with its lock around commits."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from paimon_spark.catalogs.registry import Registry
from paimon_spark.errors import CatalogError
from paimon_spark.format.metadata_files.table_schema import decode

_LOG = logging.getLogger(__name__)
_LOCKED: Final = ("snapshot-", "schema-")
"""Beginnings of the names of files that Java writes only while it holds the lock."""
_SCHEMAS: Final = "/schema/schema-"


@dataclass(frozen=True)
class TableStore:
    """A store that does all that `inner` does. Commits hold the table's lock, and the metastore learns of new schemas.

    Attributes:
        root: the table's directory.
        locked: whether to hold the lock of the registry for a commit.
    """

    inner: Any
    root: str
    registry: Registry
    database: str
    table: str
    locked: bool

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "inner" not in self.__dict__:  # it is being unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

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
        """As `Store.delete_tree`; a table whose directory goes is no longer listed."""
        self.inner.delete_tree(directory)
        if directory == self.root:
            self.registry.remove_table(self.database, self.table)
