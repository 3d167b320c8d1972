"""ServedStore: files of a table whose snapshots and schemas a server makes.

Source: Java `catalog/CatalogSnapshotCommit`, `rest/RESTTokenFileIO`, `schema/SchemaChange`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from paimon_spark.catalogs.rest_client import RestClient, served_options
from paimon_spark.errors import CatalogError, FileMissingError, UnsupportedFeatureError
from paimon_spark.format.arrays.arrow_numpy import values
from paimon_spark.format.metadata_files.data_file import moment_of
from paimon_spark.format.metadata_files.snapshot import Snapshot, decode
from paimon_spark.metadata.definition.schema_changes import (
    AddColumn,
    After,
    Before,
    DropColumn,
    DropPrimaryKey,
    First,
    MoveColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdateTableComment,
    UpdateType,
)
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import BRANCH_PREFIX, MAIN, SCHEMA_PREFIX, SNAPSHOT_PREFIX
from paimon_spark.metadata.live_files import NEVER, entry_totals
from paimon_spark.metadata.manifests import delta_manifests, read_manifests
from paimon_spark.metadata.partition_path import partition_spec
from paimon_spark.options.catalog import without_permissions
from paimon_spark.options.location import TableName
from paimon_spark.storage.store import Store, already_there
from paimon_spark.storage.urls import open_store
from paimon_spark.types import type_to_json

_RENEWED_BEFORE_MS: Final = 3_600_000
"""Milliseconds before the end of a token at which another is asked for, as Java does; half its life when shorter."""


@dataclass(frozen=True)
class TableServer:
    """One table of a server. As `CatalogServer`.

    Attributes:
        id: which the server gave the table; another table of the name has another one.
    """

    client: RestClient
    database: str
    table: str
    id: str

    @property
    def address(self) -> str:
        return self.client.address

    def commit(
        self, branch: str, before: Snapshot | None, data: bytes, statistics: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Ask for a snapshot after another one; whether it was made.

        `statistics` are those of `partition_statistics`. Raises CatalogError, retryable when in doubt.
        """
        body = {
            "tableId": self.id,
            "baseSnapshotUuid": None if before is None else before.uuid,
            "snapshot": json.loads(data),
            "statistics": statistics,
        }
        answer = self.client.commit(*self._path(branch), "commit", body=body)
        if answer.is_missing:
            raise self._gone(branch)
        return answer.truth("success")

    def change_schema(self, branch: str, changes: Sequence[SchemaChange]) -> None:
        body = {"changes": [raw for change in changes for raw in changes_to_json(change)]}
        answer = self.client.post(*self._path(branch), body=body)
        if answer.is_missing:
            raise self._gone(branch)
        if answer.is_there_already:
            raise CatalogError(f"{self._name(branch)} has such a column already: {answer.message}")

    def create_branch(self, branch: str, tag: str | None) -> None:
        body = {"branch": branch, "fromTag": tag}
        answer = self.client.post(*self._path(MAIN), "branches", body=body)
        if answer.is_missing:
            raise CatalogError(f"{self.address} did not create branch {branch!r}: {answer.message}")

    def delete_branch(self, branch: str) -> None:
        """Delete a branch, if it exists."""
        self.client.delete(*self._path(MAIN), "branches", branch)

    def drop_table(self) -> None:
        """Drop the table, if it exists."""
        self.client.delete(*self._path(MAIN))

    def find_token(self) -> tuple[dict[str, str], int]:
        """The options that reach the store for some time, and the epoch milliseconds of their end."""
        answer = self.client.get(*self._path(MAIN), "token")
        if answer.is_missing:
            raise self._gone(MAIN)
        return served_options(answer.options("token")), answer.number("expiresAtMillis")

    def _path(self, branch: str) -> tuple[str, ...]:
        name = self.table if branch == MAIN else f"{self.table}$branch_{branch}"
        return "databases", self.database, "tables", name

    def _name(self, branch: str) -> str:
        on = "" if branch == MAIN else f" with branch {branch!r}"
        return f"table {self.database}.{self.table}{on}"

    def _gone(self, branch: str) -> CatalogError:
        return CatalogError(f"{self.address} has no {self._name(branch)} any more: it was dropped or renamed")


@dataclass(frozen=True)
class ServedStore:
    """A store that does all that the store of the table's files does, but for what its server makes.

    Attributes:
        url_of_table: the table's directory.
        root: its path in the store.
        options: how to reach the store.
        server: asked for what is not done here.
        has_tokens: whether the server hands out the keys of the store.
        named: the table and the warehouse of the catalog, which opens it again.
    """

    url_of_table: str
    root: str
    options: Mapping[str, str] = field(repr=False)
    server: TableServer
    has_tokens: bool
    named: tuple[TableName, str]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "server" not in self.__dict__:  # it is being unpickled
            raise AttributeError(name)
        return getattr(self._files, name)

    def create_exclusive(self, path: str, data: bytes) -> None:
        """As `Store.create_exclusive`; snapshots by the server.

        Raises:
            UnsupportedFeatureError: a schema, which the server makes of changes.
        """
        branch, kind, name = self._parts(path)
        if kind == "snapshot" and name.startswith(SNAPSHOT_PREFIX):
            self._commit(branch, path, data)
        elif kind == "schema" and name.startswith(SCHEMA_PREFIX):
            raise UnsupportedFeatureError(
                f"table {self.server.database}.{self.server.table} cannot be replaced: the server of its REST catalog "
                "makes its schemas; alter it, or drop it and create it again",
                feature="REPLACE TABLE in a REST catalog",
            )
        else:
            self._files.create_exclusive(path, data)

    def delete_tree(self, directory: str) -> None:
        """As `Store.delete_tree`; the table and its branches by the server too."""
        if directory == self.root:
            self.server.drop_table()
        else:
            parent, _, name = directory.rpartition("/")
            if parent == f"{self.root}/branch" and name.startswith(BRANCH_PREFIX):
                self.server.delete_branch(name.removeprefix(BRANCH_PREFIX))
        self._files.delete_tree(directory)

    def _commit(self, branch: str, path: str, data: bytes) -> None:
        made = decode(data, path)
        before = path.removesuffix(str(made.id)) + str(made.id - 1)
        try:
            base = decode(self._files.read(before), before)
        except FileMissingError:
            base = None
        handle = open_table(self._files, self.root)
        if self.server.commit(branch, base, data, partition_statistics(handle, made)):
            return
        try:
            found = decode(self._files.read(path), path)
        except FileMissingError as e:
            raise CatalogError(
                f"{self.server.address} did not make snapshot {made.id} of {self.server.database}.{self.server.table}: "
                f"it takes another one than {'none' if base is None else base.id} for the newest; was one made, or "
                "taken back, without the server?"
            ) from e
        if found.uuid != made.uuid:
            raise already_there(self._files, path)

    def _parts(self, path: str) -> tuple[str, str, str]:
        """The branch, the directory and the name of a file of the table."""
        if not path.startswith(f"{self.root}/"):
            return MAIN, "", ""
        branch, parts = MAIN, path.removeprefix(f"{self.root}/").split("/")
        if parts[0] == "branch" and len(parts) == 4:
            branch, parts = parts[1].removeprefix(BRANCH_PREFIX), parts[2:]
        return (branch, parts[0], parts[1]) if len(parts) == 2 else (branch, "", "")

    @property
    def _files(self) -> Store:
        """The store of the files, opened once in each process, and again when its token ends."""
        key = os.getpid(), self.server.id, self.url_of_table, tuple(sorted(self.options.items()))
        opened, now_ms = _OPENED.get(key), int(time.time() * 1000)
        if opened is None or (opened.until_ms is not None and now_ms >= opened.until_ms):
            opened = _OPENED[key] = self._open(now_ms)
        return opened.store

    def _open(self, now_ms: int) -> _Opened:
        if not self.has_tokens:
            return _Opened(open_store(self.url_of_table, self.options)[0])
        token, ends_ms = self.server.find_token()
        store = open_store(self.url_of_table, {**self.options, **without_permissions(token)})[0]
        return _Opened(store, ends_ms - min(_RENEWED_BEFORE_MS, (ends_ms - now_ms) // 2))


@dataclass(frozen=True, slots=True)
class _Opened:
    """Store, and the epoch milliseconds until which its token is used; None without a token."""

    store: Store
    until_ms: int | None = None


_OPENED: Final[dict[tuple[int, str, str, tuple[tuple[str, str], ...]], _Opened]] = {}
"""By process, table, and how to reach it."""


def partition_statistics(handle: TableHandle, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Changes of a snapshot by partition in the form of the API: rows, bytes and files are differences.

    Source: Java `manifest/PartitionEntry`, `partition/PartitionStatistics`.
    """
    entries = read_manifests(handle, delta_manifests(handle, snapshot), statistics=False)
    if not len(entries):
        return []
    partitions = entries.column("partition").combine_chunks().dictionary_encode()
    rows = partitions.dictionary.to_pylist()
    totals = entry_totals(entries, values(partitions.indices).astype(np.int64), len(rows))
    return [
        {
            "spec": partition_spec(handle, row),
            "recordCount": added_rows,
            "fileSizeInBytes": size,
            "fileCount": files,
            "lastFileCreationTime": moment_of(0 if updated_ms == NEVER else updated_ms),
            "totalBuckets": buckets,
        }
        for row, added_rows, size, files, updated_ms, buckets in zip(
            rows, *(column.tolist() for column in totals), strict=True
        )
    ]


def changes_to_json(change: SchemaChange) -> list[dict[str, Any]]:
    """A change as the API has it, which needs two for a new column with a default.

    Raises UnsupportedFeatureError: the API cannot move a field inside a column.
    """
    match change:
        case SetOption(key, value):
            return [{"action": "setOption", "key": key, "value": value}]
        case RemoveOption(key):
            return [{"action": "removeOption", "key": key}]
        case UpdateTableComment(comment):
            return [{"action": "updateComment", "comment": comment}]
        case AddColumn(path, type, comment, default, position):
            move = None if position is None else _move(path, position)
            add = {"action": "addColumn", "fieldNames": list(path), "dataType": type_to_json(type), "comment": comment}
            return [{**add, "move": move}, *([] if default is None else changes_to_json(UpdateDefault(path, default)))]
        case RenameColumn(path, new_name):
            return [{"action": "renameColumn", "fieldNames": list(path), "newName": new_name}]
        case DropColumn(path):
            return [{"action": "dropColumn", "fieldNames": list(path)}]
        case UpdateType(path, type, keep):
            to = {"newDataType": type_to_json(type), "keepNullability": keep}
            return [{"action": "updateColumnType", "fieldNames": list(path), **to}]
        case UpdateNullability(path, nullable):
            return [{"action": "updateColumnNullability", "fieldNames": list(path), "newNullability": nullable}]
        case UpdateComment(path, comment):
            return [{"action": "updateColumnComment", "fieldNames": list(path), "newComment": comment}]
        case UpdateDefault(path, default):
            return [{"action": "updateColumnDefaultValue", "fieldNames": list(path), "newDefaultValue": default}]
        case MoveColumn(path, position):
            return [{"action": "updateColumnPosition", "move": _move(path, position)}]
        case DropPrimaryKey():
            return [{"action": "dropPrimaryKey"}]


def _move(path: Sequence[str], position: Position) -> dict[str, str | None]:
    if len(path) > 1:
        raise UnsupportedFeatureError(
            f"the position of {'.'.join(path)} inside its column cannot be chosen in a REST catalog, whose API has no "
            "such call; leave the position out",
            feature="positions inside a column",
        )
    other = position.column if isinstance(position, After | Before) else None
    where = {After: "AFTER", Before: "BEFORE", First: "FIRST"}.get(type(position), "LAST")
    return {"fieldName": path[-1], "referenceFieldName": other, "type": where}
