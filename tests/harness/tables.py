"""Tables of metadata files alone, for tests that read no data."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import fsspec

from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.format.metadata_files.snapshot import CommitKind, Snapshot, Tag
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import MAIN, Layout
from paimon_spark.storage.store import Store
from paimon_spark.storage.urls import open_store
from paimon_spark.types import BIGINT, STRING, DataField, RowType

ROW_TYPE = RowType(False, (DataField(0, "k", BIGINT.with_nullable(False)), DataField(1, "v", STRING)))


def a_schema(schema_id: int = 0, **changes: Any) -> TableSchema:
    """The smallest schema there is, with changes."""
    return replace(TableSchema(schema_id, ROW_TYPE, 1), **changes)


def a_snapshot(snapshot_id: int, time_ms: int = 0, **changes: Any) -> Snapshot:
    """A snapshot whose manifests do not exist. Without a time, snapshot n was made at n seconds."""
    base = Snapshot(
        snapshot_id,
        0,
        f"manifest-list-{snapshot_id}-0",
        f"manifest-list-{snapshot_id}-1",
        "user",
        snapshot_id,
        CommitKind.APPEND,
        time_ms or 1000 * snapshot_id,
    )
    return replace(base, **changes)


@dataclass
class MetadataTable:
    """A table in memory that tests fill file by file."""

    root: str = field(default_factory=lambda: f"/{uuid.uuid4().hex}/wh/db.db/t")

    @property
    def store(self) -> Store:
        return open_store("memory://")[0]

    def layout(self, branch: str = MAIN) -> Layout:
        return Layout(self.root, branch)

    def put(self, path: str, data: bytes) -> None:
        fsspec.filesystem("memory").pipe_file(path, data)

    def delete(self, path: str) -> None:
        fsspec.filesystem("memory").rm_file(path)

    def schema(self, schema: TableSchema | None = None, branch: str = MAIN) -> MetadataTable:
        found = schema or a_schema()
        self.put(self.layout(branch).schema_path(found.id), schema_file.encode(found))
        return self

    def snapshots(self, snapshots: Iterable[int | Snapshot], branch: str = MAIN) -> MetadataTable:
        for item in snapshots:
            found = a_snapshot(item) if isinstance(item, int) else item
            self.put(self.layout(branch).snapshot_path(found.id), snapshot_file.encode(found))
        return self

    def hint(self, name: str, text: str, branch: str = MAIN) -> MetadataTable:
        self.put(f"{self.layout(branch).snapshot_dir}/{name}", text.encode())
        return self

    def tag(self, name: str, snapshot: int | Snapshot, branch: str = MAIN) -> MetadataTable:
        found = a_snapshot(snapshot) if isinstance(snapshot, int) else snapshot
        self.put(self.layout(branch).tag_path(name), snapshot_file.encode_tag(Tag(name, found)))
        return self

    def open(self, branch: str = MAIN, **options: str) -> TableHandle:
        given = {k.replace("_", "-"): v for k, v in options.items()}
        return open_table(self.store, self.root, branch, options=given)
