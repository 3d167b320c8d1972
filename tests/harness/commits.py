"""Messages about files that have no bytes, for tests of commits; and what a table then holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.commit.requests import PlannedOn
from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.format import binary_row
from paimon_spark.format.metadata_files import table_schema as schema_file
from paimon_spark.format.metadata_files.data_file import DataFileMeta, FileSource, SimpleStats
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.table_schema import TableSchema
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.layout import Layout
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.retry import Clock
from paimon_spark.metadata.snapshots import get_snapshot, latest_snapshot
from paimon_spark.storage.store import Store
from paimon_spark.types import BIGINT, INT, STRING, DataField, RowType

ROWS = RowType(
    False,
    (
        DataField(0, "p", INT.with_nullable(False)),
        DataField(1, "k", BIGINT.with_nullable(False)),
        DataField(2, "v", STRING),
    ),
)
APPEND = TableSchema(0, ROWS, 2, options={"bucket": "-1"})
PARTITIONED = replace(APPEND, partition_keys=("p",))
KEYED = replace(APPEND, primary_keys=("k",), options={"bucket": "2"})
KEYED_PARTITIONED = replace(APPEND, partition_keys=("p",), primary_keys=("p", "k"), options={"bucket": "2"})
NO_STATS = SimpleStats(binary_row.EMPTY, binary_row.EMPTY, ())


@dataclass
class Calm:
    """A clock and waits that take no time, and remember."""

    now: int = 1_000
    waits: list[float] | None = None

    def clock_ms(self) -> int:
        self.now += 1
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits = [*(self.waits or []), seconds]
        self.now += int(seconds * 1000)


def make_table(store: Store, root: str, schema: TableSchema = APPEND, **options: str) -> TableHandle:
    """A table without snapshots; options have `_` for `-`, and `__` for `.`."""
    given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    made = replace(schema, options={**schema.options, **given})
    store.create_exclusive(Layout(root).schema_path(made.id), schema_file.encode(made))
    return open_table(store, root, name="t")


def committer(handle: TableHandle, user: str = "me", **around: Any) -> Committer:
    calm = Calm()
    times = {"clock_ms": calm.clock_ms, "sleep": calm.sleep, "random": lambda: 0.0}
    clock = Clock(**{name: around.pop(name, default) for name, default in times.items()})
    return Committer(handle, user, clock=clock, **around)


def on(handle: TableHandle, snapshot_id: int) -> PlannedOn:
    """Writers that continued from a snapshot; 0 means an empty branch."""
    return PlannedOn.of(get_snapshot(handle, snapshot_id) if snapshot_id else None)


def a_file(
    name: str, *, rows: int = 10, level: int = 0, keys: tuple[int, int] | None = None, **more: Any
) -> DataFileMeta:
    """A data file; with `keys` its smallest and largest key (one BIGINT)."""
    low, high = [binary_row.encode([k], [BIGINT]) for k in keys] if keys else [binary_row.EMPTY] * 2
    return DataFileMeta(
        name, 100, rows, low, high, NO_STATS, NO_STATS, 0, rows - 1, 0, level,
        creation_time_ms=0, delete_row_count=0, file_source=FileSource.APPEND,
    )._replace(**more)  # fmt: skip


def partition(handle: TableHandle, value: int | None = None) -> bytes:
    types = [f.type for f in handle.schema.partition_type]
    return binary_row.encode([value], types) if types else binary_row.EMPTY


def message(
    handle: TableHandle,
    *new: DataFileMeta,
    p: int | None = None,
    bucket: int = 0,
    buckets: int | None = None,
    deleted: Sequence[DataFileMeta] = (),
    **more: Any,
) -> CommitMessage:
    """What a writer of one bucket did; `more` are fields of its Increment."""
    total = handle.options.bucket if buckets is None else buckets
    return CommitMessage(
        partition(handle, p), bucket, total, Increment(new_files=new, deleted_files=tuple(deleted), **more)
    )


def compaction(
    handle: TableHandle,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    *,
    p: int | None = None,
    bucket: int = 0,
    **more: Any,
) -> CommitMessage:
    done = Increment(new_files=tuple(after), deleted_files=tuple(before), **more)
    return CommitMessage(partition(handle, p), bucket, handle.options.bucket, compact=done)


def files(handle: TableHandle) -> dict[str, DataFileMeta]:
    """The live files of the head, by name."""
    head = latest_snapshot(handle)
    if head is None:
        return {}
    return {f.file_name: f for f in files_of(live_entries(handle, data_manifests(handle, head)))}


def manifest_names(handle: TableHandle) -> set[str]:
    """Every file in `manifest/`."""
    return {i.name for i in handle.store.list(f"{handle.layout.root}/manifest")}
