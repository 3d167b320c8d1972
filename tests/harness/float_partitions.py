"""Tables that are partitioned by a FLOAT, whose directories another writer may have named by other digits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.jobs.write.batch import plan_path_write
from paimon_spark.maintenance.orphan_files import orphans
from paimon_spark.metadata.definition.from_arrow import row_type
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.options.write_request import WriteMode
from tests.harness.table_files import missing_files

SMALLEST, LARGEST = float(np.float32(1e-45)), float(np.finfo(np.float32).max)
NUMBERS = [SMALLEST, -LARGEST, 0.1, 0.0, -0.0, math.nan]
NAMES = ["1.4E-45", "-3.4028235E38", "0.1", "0.0", "-0.0", "NaN"]
KINDS: dict[str, dict[str, str]] = {
    "append": {},
    "append_vectors": {"deletion-vectors.enabled": "true", "index-file-in-data-file-dir": "true"},
    "buckets": {"bucket": "2", "bucket-key": "k"},
    "keys": {"primary-key": "f,k", "bucket": "1"},
    "keys_vectors": {
        "primary-key": "f,k", "bucket": "1", "deletion-vectors.enabled": "true", "index-file-in-data-file-dir": "true",
    },
    "keys_dynamic": {"primary-key": "f,k", "bucket": "-1", "index-file-in-data-file-dir": "true"},
    "changelog": {"primary-key": "f,k", "bucket": "1", "changelog-producer": "lookup"},
}  # fmt: skip


def rows(first: int = 0) -> pa.Table:
    """A row for each number."""
    keys = range(first, first + len(NUMBERS))
    return pa.table({"k": pa.array(keys, pa.int64()), "d": ["x"] * len(keys), "f": pa.array(NUMBERS, pa.float32())})


def made(path: Path, partition: str = "f", **options: str) -> Table:
    given = {"path": str(path), "partition": partition, **options}
    job = plan_path_write(given, WriteMode.APPEND, rows().schema, lambda: row_type(rows().schema))
    job.commit(job.write(rows().to_batches()))
    return paimon_spark.load_table(str(path))


def read(table: Table) -> list[tuple[Any, ...]]:
    found = table.scan().to_arrow().to_pylist()
    return sorted((r["k"], str(r["f"])) for r in found)


def directories(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("f=*") if p.is_dir())


def respelled(root: Path) -> None:
    """Give every directory the digits of the DOUBLE that its FLOAT equals, as no JDK writes them."""
    for path in directories(root):
        text = path.name.removeprefix("f=")
        path.rename(path.with_name(f"f={float(np.float32(text)):.17e}"))
    CACHE.clear()  # plans name files, which nobody moves but tests


def leftovers(table: Table) -> list[str]:
    return [file.path for file in orphans(table.handle)] + missing_files(table.handle)
