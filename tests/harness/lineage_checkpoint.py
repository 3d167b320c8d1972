"""Checkpoints of streaming queries as Spark writes them, for tests without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.streaming.offset import StreamOffset, encode

_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795356565541,"conf":{}}'


def write_checkpoint(
    directory: Path, warehouse: Warehouse, source: TableRef, ends: Sequence[int], *, committed: int, query_id: str = "q"
) -> str:
    """The URL of a checkpoint of a query with one Paimon source.

    Args:
        directory: of the machine; the checkpoint is `checkpoint` in it.
        warehouse: of the source.
        source: the branch that is read.
        ends: of each batch the snapshot up to which it read.
        committed: how many batches are done.
        query_id: of the query.
    """
    root = directory / "checkpoint"
    for name in ("offsets", "commits"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "metadata").write_text(json.dumps({"id": query_id}))
    table = warehouse.store.url(warehouse.table_root(source.database, source.bare))
    for batch, end in enumerate(ends):
        offset = json.dumps(encode(StreamOffset(table, source.branch, end, made=f"manifest-list-{end}-1")))
        (root / "offsets" / str(batch)).write_text(f"v1\n{_METADATA}\n{offset}")
        (root / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    for batch in range(committed):
        (root / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return f"file://{root}"
