"""Tables for the benchmarks. Run with the Rust peer's interpreter: `python datasets.py OUT SCALE [name…]`.

Written by the Rust peer (level 0 only, no compaction), so that no reader reads files of its own making.
The table of 50,000 files has metadata only: planning never opens a data file.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

APPEND_ROWS = 5_000_000
WIDE_ROWS, WIDE_COLUMNS = 2_000_000, 60
MERGE_RUNS, MERGE_ROWS, MERGE_KEYS, BUCKETS = 5, 1_000_000, 2_000_000, 4
FIELDS = [
    ("id", "BIGINT"), ("n", "INT"), ("x", "DOUBLE"), ("y", "DOUBLE"),
    ("city", "STRING"), ("name", "STRING"), ("ts", "TIMESTAMP(6)"), ("r", "BIGINT"),
]  # fmt: skip
AGGREGATION = {
    "fields.n.aggregate-function": "sum", "fields.r.aggregate-function": "sum",
    "fields.x.aggregate-function": "max", "fields.y.aggregate-function": "min",
}  # fmt: skip


def schema_json(primary_keys: list[str], options: dict[str, str], columns: list[tuple[str, str]] = FIELDS) -> str:
    fields = [
        {"id": i, "name": n, "type": t + (" NOT NULL" if n in primary_keys else "")} for i, (n, t) in enumerate(columns)
    ]
    return json.dumps(
        {
            "version": 3, "id": 0, "fields": fields, "highestFieldId": len(fields) - 1, "partitionKeys": [],
            "primaryKeys": primary_keys, "options": options, "timeMillis": int(time.time() * 1000),
        }
    )  # fmt: skip


def create(
    path: Path, primary_keys: list[str], options: dict[str, str], columns: list[tuple[str, str]] = FIELDS
) -> Any:
    from pypaimon_rust.datafusion import Table

    (path / "schema").mkdir(parents=True)
    text = schema_json(primary_keys, options, columns)
    (path / "schema" / "schema-0").write_text(text)
    return Table.from_resolved_schema(str(path), text)


def commit(table: Any, batch: pa.RecordBatch) -> None:
    builder = table.new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    writer.write_arrow(batch)
    committer.commit(writer.prepare_commit())
    writer.close()
    committer.close()


def rows(rng: np.random.Generator, keys: np.ndarray, null_share: float = 0.0) -> pa.RecordBatch:
    count = len(keys)
    cities = pa.array([f"city-{i:03d}" for i in range(200)])

    def nullable(values: np.ndarray, type: pa.DataType) -> pa.Array:
        mask = rng.random(count) < null_share if null_share else None
        return pa.array(values, type=type, mask=mask)

    hexes = np.char.mod("%015x", rng.integers(0, 2**60, count)).astype("S15")
    names = pa.Array.from_buffers(
        pa.string(),
        count,
        [None, pa.py_buffer(np.arange(0, 15 * (count + 1), 15, dtype=np.int32)), pa.py_buffer(hexes)],
    )
    columns = [
        pa.array(keys, pa.int64()),
        nullable(rng.integers(0, 100_000, count).astype(np.int32), pa.int32()),
        nullable(rng.random(count).round(6), pa.float64()),
        nullable(rng.normal(size=count), pa.float64()),
        cities.take(pa.array(rng.integers(0, 200, count))),
        names,
        pa.array(1_700_000_000_000_000 + rng.integers(0, 10**13, count), pa.int64()).cast(pa.timestamp("us")),
        nullable(rng.integers(0, 2**40, count), pa.int64()),
    ]
    not_null = pa.field("id", pa.int64(), nullable=False)
    types = [c.type for c in columns]
    schema = pa.schema([not_null, *(pa.field(n, t) for (n, _), t in list(zip(FIELDS, types, strict=True))[1:])])
    return pa.record_batch(columns, schema=schema)


def append(out: Path, scale: float) -> None:
    rng = np.random.default_rng(1)
    table = create(out / "append", [], {"bucket": "-1"})
    count = int(APPEND_ROWS * scale)
    for part in range(4):
        keys = np.arange(part * count // 4, (part + 1) * count // 4, dtype=np.int64)
        commit(table, rows(rng, keys))


def wide(out: Path, scale: float) -> None:
    """Sixty columns, of which queries read one."""
    rng = np.random.default_rng(5)
    names = [f"c{i}" for i in range(WIDE_COLUMNS)]
    table = create(out / "bench.db" / "wide", [], {"bucket": "-1"}, [(n, "BIGINT") for n in names])
    for _ in range(4):
        count = int(WIDE_ROWS * scale) // 4
        commit(table, pa.record_batch([pa.array(rng.integers(0, 2**40, count)) for _ in names], names=names))


def small(out: Path, scale: float) -> None:
    rng = np.random.default_rng(3)
    commit(create(out / "small", [], {"bucket": "-1"}), rows(rng, np.arange(10, dtype=np.int64)))


def merge(name: str, options: dict[str, str], null_share: float) -> Callable[[Path, float], None]:
    def build(out: Path, scale: float) -> None:
        rng = np.random.default_rng(2)
        table = create(out / name, ["id"], {"bucket": str(BUCKETS), "write-only": "true", **options})
        for _ in range(MERGE_RUNS):
            keys = rng.integers(0, int(MERGE_KEYS * scale), int(MERGE_ROWS * scale))
            commit(table, rows(rng, keys.astype(np.int64), null_share))

    return build


def arrow_file(name: str, keys: Callable[[np.random.Generator, float], np.ndarray]) -> Callable[[Path, float], None]:
    """Rows to write, as an Arrow file: what every writer of a case is given in memory."""

    def build(out: Path, scale: float) -> None:
        rng = np.random.default_rng(4)
        (out / name).mkdir(parents=True, exist_ok=True)
        batch = rows(rng, keys(rng, scale).astype(np.int64))
        with pa.OSFile(str(out / name / "rows.arrow"), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        pq.write_table(pa.table(batch), out / name / "rows.parquet", row_group_size=500_000)

    return build


def as_table(name: str) -> Callable[[Path, float], None]:
    """The rows of an Arrow file as a table, from which Java reads them into memory."""

    def build(out: Path, scale: float) -> None:
        with pa.memory_map(str(out / name / "rows.arrow")) as file:
            table = create(out / name / "table", [], {"bucket": "-1"})
            commit(table, pa.ipc.open_file(file).read_all().combine_chunks().to_batches()[0])

    return build


DATASETS = {
    "write-append": arrow_file("write-append", lambda _, scale: np.arange(int(APPEND_ROWS * scale))),
    "write-keys": arrow_file(
        "write-keys", lambda rng, scale: rng.integers(0, int(MERGE_KEYS * scale), int(MERGE_ROWS * scale))
    ),
    "write-append/table": as_table("write-append"),
    "write-keys/table": as_table("write-keys"),
    "append": append,
    "small": small,
    "bench.db/wide": wide,
    "merge-deduplicate": merge("merge-deduplicate", {}, 0.0),
    "merge-partial-update": merge("merge-partial-update", {"merge-engine": "partial-update"}, 0.3),
    "merge-aggregation": merge("merge-aggregation", {"merge-engine": "aggregation", **AGGREGATION}, 0.3),
}


def main() -> None:
    out, scale = Path(sys.argv[1]), float(sys.argv[2])
    for name in sys.argv[3:] or DATASETS:
        done = out / name / ".done"
        if not done.exists():
            DATASETS[name](out, scale)
            done.touch()


if __name__ == "__main__":
    main()
