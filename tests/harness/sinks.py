"""Sinks of streaming queries without Spark: batches written by pickled tasks, committed by plans of their own."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import paimon_spark
from paimon_spark.jobs.write.stream import StreamWrite, plan_stream_write
from paimon_spark.jobs.write.stream_batch import StreamResult
from paimon_spark.jobs.write.tasks import StreamRows
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.storage.store import Store
from tests.harness.table_files import files_on_disk, missing_files, reachable_files

QUERY = "6f9e5c0e-4f0a-4b8e-9c39-1f1e7f2d7a01"

KINDS: dict[str, dict[str, Any]] = {
    "unaware": {},
    "partitioned": {"partition": "dt"},
    "buckets": {"bucket": "2", "bucket-key": "id"},
    "keys": {"primary-key": "id", "bucket": "2"},
    "dynamic": {"primary-key": "id"},
    "first_row": {"primary-key": "id", "bucket": "1", "merge-engine": "first-row"},
    "deletion_vectors": {"primary-key": "id", "bucket": "1", "deletion-vectors.enabled": "true"},
    "changelog": {"primary-key": "id", "bucket": "1", "changelog-producer": "input"},
    "cross_partition": {"primary-key": "id", "partition": "dt"},
}
"""Options of tables of `rows_of`."""


def rows_of(*ids: int, text: str = "v") -> pa.Table:
    """Rows with these keys, in two partitions."""
    days = [("x", "y")[i % 2] for i in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([text] * len(ids), pa.string()), "dt": days})


ROWS = rows_of(1, 2, 3)


def plan(path: Path, rows: pa.Table = ROWS, complete: bool = False, **options: str) -> StreamWrite:
    return plan_stream_write({"path": str(path), **options}, complete, rows.schema, lambda: row_type(rows.schema))


def through(sink: StreamWrite, store: Store) -> StreamWrite:
    """The same sink, with its calls going through a store."""
    return replace(sink, handle=replace(sink.handle, store=store))


def write(sink: StreamWrite, batch: int, *tasks: pa.Table, query: str = QUERY) -> list[StreamRows]:
    """What the tasks of a batch have written."""
    task = pickle.loads(pickle.dumps(sink.task()))
    return [pickle.loads(pickle.dumps(task.write(rows.to_batches(), n, query, batch))) for n, rows in enumerate(tasks)]


def batch(path: Path, number: int, *tasks: pa.Table, complete: bool = False, **options: str) -> StreamResult:
    """One batch, planned, written and committed."""
    sink = plan(path, tasks[0], complete, **options)
    return sink.commit(write(sink, number, *tasks), number)


def read(path: Path, branch: str = "main", **options: Any) -> list[dict[str, Any]]:
    return sorted(paimon_spark.load_table(str(path), branch=branch).scan(**options).to_arrow().to_pylist(), key=str)


def ids(path: Path, branch: str = "main") -> list[int]:
    return sorted(row["id"] for row in read(path, branch))


def left_over(path: Path) -> list[str]:
    """Files that nothing needs, and files that are needed and not there."""
    handle = paimon_spark.load_table(str(path)).handle
    unnamed = {f.path for f in files_on_disk(handle)} - reachable_files(handle)
    unnamed = {p for p in unnamed if "/intent/" not in p and not p.endswith(("/FORK", "/REBASED", "/UNDO"))}
    return sorted({*unnamed, *(o.path for o in orphans(handle, None)), *missing_files(handle)})


def batches_of(path: Path, branch: str = "main", query: str = QUERY) -> list[int]:
    """The batches whose rows have a snapshot, in order of history."""
    found: Sequence[Any] = paimon_spark.load_table(str(path), branch=branch).snapshots()
    return [s.commit_identifier for s in found if s.commit_user == query and s.commit_kind.value != "COMPACT"]
