"""A table with keys whose ten commits have changelog files. Run with `OUT SCALE`; written by this package."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pyarrow as pa
from datasets import schema_json
from write_tables import source

import paimon_spark

COMMITS = 10
ROWS = 100_000


def main() -> None:
    out, scale = Path(sys.argv[1]), float(sys.argv[2])
    path, count = out / "changes", int(ROWS * scale)
    if (path / ".done").exists():
        return
    shutil.rmtree(path, ignore_errors=True)
    (path / "schema").mkdir(parents=True)
    options = {"bucket": "4", "changelog-producer": "input", "write-only": "true"}
    (path / "schema" / "schema-0").write_text(schema_json(["id"], options))
    rows: pa.Table = source(str(out / "write-keys" / "rows.arrow"))
    table = paimon_spark.load_table(str(path))
    for i in range(COMMITS):
        table.write(rows.slice(i * count, count))
    (path / ".done").touch()


if __name__ == "__main__":
    main()
