"""A warehouse of small tables in memory, for tests of changes of several tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from fsspec.implementations.memory import MemoryFileSystem

from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.snapshots import latest_snapshot_id, list_snapshot_ids
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from tests.harness.commits import APPEND, a_file, committer, files, make_table, message
from tests.harness.fault_store import FaultStore

TABLES = ("db.a", "db.b", "other.c")


@dataclass
class SmallWarehouse:
    """Tables whose data files have no bytes; every call to the store can be made to fail."""

    store: FaultStore
    root: str

    @staticmethod
    def new(wrap: Callable[[Store], FaultStore] = FaultStore) -> SmallWarehouse:
        inner, root = open_store(f"memory:///{uuid.uuid4().hex}/wh")
        found = SmallWarehouse(wrap(inner), root)
        for name in TABLES:
            make_table(found.store, found.path(name), APPEND)
        return found

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.store, self.root)

    def path(self, table: str) -> str:
        database, name = table.split(".")
        return f"{self.root}/{database}.db/{name}"

    def on(self, table: str, branch: str = "main") -> TableHandle:
        return open_table(self.store, self.path(table), branch, table)

    @property
    def handles(self) -> dict[str, TableHandle]:
        return {table: self.on(table) for table in TABLES}

    def commit(self, table: str, file: str, branch: str = "main") -> int:
        """One snapshot with one new file of this name."""
        handle = self.on(table, branch)
        made = committer(handle).commit([message(handle, a_file(file))]).snapshot
        assert made is not None
        return made.id

    def live(self, table: str, branch: str = "main") -> set[str]:
        """Names of the files of the head."""
        return set(files(self.on(table, branch)))

    def head(self, table: str, branch: str = "main") -> int | None:
        return latest_snapshot_id(self.on(table, branch))

    def ids(self, table: str, branch: str = "main") -> list[int]:
        return list_snapshot_ids(self.on(table, branch))

    def saved(self) -> dict[str, bytes]:
        """Every file of the warehouse."""
        return {
            path: bytes(file.getvalue()) for path, file in MemoryFileSystem.store.items() if path.startswith(self.root)
        }

    def restore(self, saved: dict[str, bytes]) -> None:
        """Make the warehouse what it was."""
        fs = MemoryFileSystem()
        for path in [p for p in MemoryFileSystem.store if p.startswith(self.root)]:
            del MemoryFileSystem.store[path]
        for path, data in saved.items():
            fs.pipe_file(path, data)
