"""Commits on top of what Java 0.9 and pypaimon 2.1 wrote keep every row."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from paimon_spark.engine.commit.committer import Committer
from paimon_spark.engine.tasks import CommitMessage, Increment
from paimon_spark.format.metadata_files.data_file import DataFileMeta
from paimon_spark.format.metadata_files.manifest import files_of
from paimon_spark.format.metadata_files.snapshot import CommitKind
from paimon_spark.metadata.handle import TableHandle, open_table
from paimon_spark.metadata.live_files import live_entries
from paimon_spark.metadata.manifests import data_manifests
from paimon_spark.metadata.partition_path import PartitionDirectories
from paimon_spark.metadata.snapshots import latest_snapshot
from paimon_spark.storage.local import LocalStore
from tests.harness.golden import GoldenRead, golden_reads, readable_as_arrow
from tests.harness.rows import rows_of

READS = [r for r in golden_reads() if set(r.options) <= {"branch"} and r.columns is None]


@pytest.fixture
def table(read: GoldenRead, tmp_path: Path) -> TableHandle:
    """A copy of the golden table, or of a branch of it."""
    shutil.copytree(read.path, tmp_path / "t")
    return open_table(LocalStore(), f"{tmp_path}/t", read.options.get("branch", "main"))


def check(table: TableHandle, read: GoldenRead) -> None:
    import paimon_spark

    read = readable_as_arrow(read)
    found = paimon_spark.load_table(table.layout.root, **read.options).scan(columns=read.columns).to_arrow()
    read.check(rows_of(found, read.types))


@pytest.mark.parametrize("read", READS, ids=str)
def test_manifests_of_others_are_rewritten_without_loss(table: TableHandle, read: GoldenRead) -> None:
    before = latest_snapshot(table)
    given = {
        "manifest.merge-min-count": "1",
        "manifest.full-compaction-threshold-size": "1 b",
        "manifest.target-file-size": "8 mb",
    }
    eager = open_table(table.store, table.layout.root, table.branch, options=given)
    made = Committer(eager, "us").commit([], force_create=True).snapshot
    assert made is not None
    if before is not None:
        assert made.id == before.id + 1 and made.total_record_count == before.total_record_count
        assert len(data_manifests(table, made)) <= 1
    check(table, read)


@pytest.mark.parametrize("read", READS, ids=str)
def test_files_of_others_are_replaced_by_copies(table: TableHandle, read: GoldenRead) -> None:
    """Every file is deleted and added again under another name: whatever its entry holds must survive."""
    head = latest_snapshot(table)
    if head is None or head.index_manifest is not None:
        pytest.skip("no snapshot, or index files name the data files")
    if table.options.data_evolution:
        pytest.skip("rewriting rows of data-evolution tables is refused")
    entries = live_entries(table, data_manifests(table, head))
    places: dict[tuple[bytes, int, int], list[DataFileMeta]] = defaultdict(list)
    for *place, file in zip(
        *(entries.column(c).to_pylist() for c in ("partition", "bucket", "total_buckets")),
        files_of(entries),
        strict=True,
    ):
        places[tuple(place)].append(file)
    messages = []
    for (partition, bucket, total), files in places.items():
        home = PartitionDirectories(table).bucket_path(partition, bucket)
        new = [f._replace(file_name=f"copy-{f.file_name}") for f in files if f.external_path is None]
        for f in new:
            shutil.copy(f"{home}/{f.file_name.removeprefix('copy-')}", f"{home}/{f.file_name}")
        done = Increment(new_files=tuple(new), deleted_files=tuple(f for f in files if f.external_path is None))
        messages.append(CommitMessage(partition, bucket, total, done))
    made = Committer(table, "us").commit(messages, force_create=True).snapshot
    assert made is not None and made.total_record_count == head.total_record_count
    assert made.commit_kind is (CommitKind.OVERWRITE if len(entries) else CommitKind.APPEND)
    check(table, read)
