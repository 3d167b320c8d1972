"""pypaimon as a worker: JSON requests on stdin, one JSON reply a line. Run with its own interpreter."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def open_table(path: str) -> Any:
    from pypaimon.common.file_io import FileIO
    from pypaimon.common.identifier import Identifier
    from pypaimon.common.options import Options
    from pypaimon.schema.schema_manager import SchemaManager
    from pypaimon.table.file_store_table import FileStoreTable

    file_io = FileIO.get(path, Options({}))
    return FileStoreTable(file_io, Identifier("default", "t"), path, SchemaManager(file_io, path).latest())


def checksum(table: pa.Table) -> int:
    """Sum of all integer columns, modulo 2**64: overflow does not depend on batches."""
    total = 0
    for column in table.columns:
        if pa.types.is_integer(column.type):
            for chunk in column.chunks:
                total += int(pc.sum(pc.cast(chunk, pa.decimal128(38, 0))).as_py() or 0)
    return total % 2**64


def read(path: str, columns: list[str] | None) -> tuple[Callable[[], None], Callable[[], Any]]:
    builder = open_table(path).new_read_builder()
    if columns:
        builder = builder.with_projection(columns)
    splits = builder.new_scan().plan().splits()
    return lambda: None, lambda: builder.new_read().to_arrow(splits)


def plan(path: str, partition: str | None) -> Callable[[], int]:
    def run() -> int:
        builder = open_table(path).new_read_builder()
        if partition:
            builder = builder.with_filter(builder.new_predicate_builder().equal("dt", partition))
        return sum(len(s.files) for s in builder.new_scan().plan().splits())

    return run


def write(request: dict[str, Any]) -> dict[str, Any]:
    """Write the rows to a new table with one commit; the table is read back, outside of the time, for its checksum."""
    from write_tables import FreshTable, source

    rows = source(request["path"] + "/rows.arrow")
    with FreshTable(request["path"], request["keys"], request["options"]) as fresh:
        gc.collect()
        start = time.perf_counter()
        builder = open_table(str(fresh.path)).new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()
        seconds = time.perf_counter() - start
        table = read(str(fresh.path), None)[1]()
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    gc.collect()
    if request["op"] == "write":
        return write(request)
    if request["op"] == "plan":
        run = plan(request["path"], request.get("partition"))
        start = time.perf_counter()
        files = run()
        return {"seconds": time.perf_counter() - start, "rows": files, "checksum": 0}
    start = time.perf_counter()
    _, run = read(request["path"], request.get("columns"))
    table = run()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            reply = handle(json.loads(line))
        except Exception as e:  # noqa: BLE001  the runner reports it beside the figure
            reply = {"error": f"{type(e).__name__}: {e}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
