"""pypaimon-rust as a worker; same protocol as worker_pypaimon."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import worker_pypaimon
from worker_pypaimon import checksum, main


def open_table(path: str) -> Any:
    from pypaimon_rust.datafusion import Table

    return Table.from_resolved_schema(path, (Path(path) / "schema" / "schema-0").read_text())


def write(request: dict[str, Any]) -> dict[str, Any]:
    """As the function of that name in worker_pypaimon."""
    from pypaimon_rust.datafusion import Table
    from write_tables import FreshTable, source

    batches = source(request["path"] + "/rows.arrow").to_batches()
    with FreshTable(request["path"], request["keys"], request["options"]) as fresh:
        gc.collect()
        start = time.perf_counter()
        builder = Table.from_resolved_schema(str(fresh.path), fresh.schema).new_batch_write_builder()
        writer, committer = builder.new_write(), builder.new_commit()
        for batch in batches:
            writer.write_arrow(batch)
        committer.commit(writer.prepare_commit())
        writer.close()
        committer.close()
        seconds = time.perf_counter() - start
        read = open_table(str(fresh.path)).new_read_builder()
        table = pa.Table.from_batches(read.new_read().read(read.new_scan().plan().splits()))
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    gc.collect()
    if request["op"] == "write":
        return write(request)
    start = time.perf_counter()
    builder = open_table(request["path"]).new_read_builder()
    if request.get("columns"):
        builder = builder.with_projection(request["columns"])
    if request.get("partition"):
        literal = {"method": "equal", "index": 4, "field": "dt", "literals": [request["partition"]]}
        builder = builder.with_filter(literal)
    plan = builder.new_scan().plan()
    if request["op"] == "plan":
        count = len(plan.splits())
        return {"seconds": time.perf_counter() - start, "rows": count, "checksum": 0}
    table = pa.Table.from_batches(builder.new_read().read(plan.splits()))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


if __name__ == "__main__":
    worker_pypaimon.handle = handle
    main()
