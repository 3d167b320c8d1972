"""A table in memory whose commits, clocks and calls tests decide; its data files have no bytes."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from paimon_spark.format.metadata_files import snapshot as snapshot_file
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.format.metadata_files.snapshot import Snapshot, Tag
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot, list_snapshot_ids
from paimon_spark.metadata.tags import tag_names
from paimon_spark.storage.urls import open_store
from tests.harness.commits import APPEND, a_file, committer, files, make_table, message
from tests.harness.fault_store import FaultStore


class History:
    """Options are written with `_` for `-`, and `__` for `.`."""

    def __init__(self, **options: str) -> None:
        inner, self.root = open_store(f"memory:///{uuid.uuid4().hex}/wh/db.db/t")
        self.store = FaultStore(inner)
        self.table = make_table(self.store, self.root, APPEND, **options)
        self.names = 0

    def on(self, branch: str = "main") -> TableHandle:
        return open_table(self.store, self.root, branch, "db.t")

    def set_options(self, branch: str = "main", **options: str) -> TableHandle:
        """A new schema with options changed."""
        handle = self.on(branch)
        given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
        schema = replace(handle.schema, id=handle.schema.id + 1, options={**handle.schema.options, **given})
        self.store.write(handle.layout.schema_path(schema.id), schema_file.encode(schema))
        return self.on(branch)

    def commit(
        self,
        branch: str = "main",
        *,
        at_ms: int | None = None,
        watermark: int | None = None,
        overwrite: bool = False,
    ) -> Snapshot:
        """One snapshot with one new file `f<n>`; with `overwrite` that file is all there is."""
        handle = self.on(branch)
        self.names += 1
        clock: dict[str, Any] = {} if at_ms is None else {"clock_ms": lambda: at_ms}
        hand = committer(handle, **clock)
        new = [message(handle, a_file(f"f{self.names}"))]
        made = hand.overwrite(new) if overwrite else hand.commit(new, watermark=watermark)
        assert made.snapshot is not None
        return made.snapshot

    def commits(self, count: int, branch: str = "main") -> list[Snapshot]:
        return [self.commit(branch) for _ in range(count)]

    def expire(self, snapshot_id: int, branch: str = "main") -> None:
        """As another engine's expiry: the snapshot's file goes, and nothing else."""
        self.store.delete(self.on(branch).layout.snapshot_path(snapshot_id))

    def put_tag(
        self,
        name: str,
        snapshot: int | Snapshot,
        created: datetime | None = None,
        retained_s: float | None = None,
        branch: str = "main",
    ) -> None:
        """As another engine's tag."""
        handle = self.on(branch)
        found = get_snapshot(handle, snapshot) if isinstance(snapshot, int) else snapshot
        data = snapshot_file.encode_tag(Tag(name, found, created, retained_s))
        self.store.write(handle.layout.tag_path(name), data)

    def ids(self, branch: str = "main") -> list[int]:
        return list_snapshot_ids(self.on(branch))

    def tags(self, branch: str = "main") -> list[str]:
        return tag_names(self.on(branch))

    def live(self, branch: str = "main") -> set[str]:
        """Names of the files of the head."""
        return set(files(self.on(branch)))

    def head(self, branch: str = "main") -> Snapshot:
        found = latest_snapshot(self.on(branch))
        assert found is not None
        return found

    def manifests(self) -> set[str]:
        """Every file in `manifest/`."""
        return {i.name for i in self.store.list(f"{self.root}/manifest")}

    def manifests_of(self, *snapshots: Snapshot) -> set[str]:
        """The lists and manifests that snapshots name."""
        out: set[str] = set()
        for s in snapshots:
            out |= {s.base_manifest_list, s.delta_manifest_list, *(m.file_name for m in data_manifests(self.table, s))}
        return out
