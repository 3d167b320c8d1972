"""Tables of one bucket for `memory.py`. Run with the Rust peer's interpreter: `python memory_data.py OUT ROWS RUNS`.

Each run is a commit of sorted keys, every second key of the whole range, so that all runs overlap everywhere. The
same files serve all merge engines: only the schema's options differ.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import AGGREGATION, FIELDS, commit, create, schema_json

STRING_BYTES = 30
NULL_SHARE = 0.3
ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", **AGGREGATION},
}
BASE = {"bucket": "1", "write-only": "true"}


def texts(rng: np.random.Generator, count: int) -> pa.Array:
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[rng.integers(0, 16, count * STRING_BYTES, np.uint8)]
    offsets = np.arange(0, STRING_BYTES * (count + 1), STRING_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits)])


def rows(rng: np.random.Generator, keys: np.ndarray) -> pa.RecordBatch:
    """Rows of `FIELDS`; one text of few values (small in files, large in memory), one of as many as rows."""
    count = len(keys)

    def nullable(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(count) < NULL_SHARE)

    columns = [
        pa.array(keys, pa.int64()),
        nullable(rng.integers(0, 100_000, count).astype(np.int32)),
        nullable(rng.random(count).round(6)),
        nullable(rng.normal(size=count)),
        texts(rng, 200).take(pa.array(rng.integers(0, 200, count))),
        texts(rng, count),
        pa.array(1_700_000_000_000_000 + rng.integers(0, 10**13, count), pa.int64()).cast(pa.timestamp("us")),
        nullable(rng.integers(0, 2**40, count)),
    ]
    fields = [pa.field(n, c.type, nullable=n != "id") for (n, _), c in zip(FIELDS, columns, strict=True)]
    return pa.record_batch(columns, schema=pa.schema(fields))


def main() -> None:
    out, count, runs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if (out / ".done").exists():
        return
    shutil.rmtree(out, ignore_errors=True)
    rng = np.random.default_rng(5)
    table = create(out / "deduplicate", ["id"], BASE)
    for _ in range(runs):
        keys = np.arange(count // runs, dtype=np.int64) * 2 + rng.integers(0, 2, count // runs)
        commit(table, rows(rng, keys))
    for engine, options in ENGINES.items():
        if engine != "deduplicate":
            shutil.copytree(out / "deduplicate", out / engine, copy_function=os.link)
            schema = out / engine / "schema" / "schema-0"
            schema.unlink()
            schema.write_text(schema_json(["id"], {**BASE, **options}))
    (out / ".done").touch()


if __name__ == "__main__":
    main()
