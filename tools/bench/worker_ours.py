"""paimon_spark as a worker; same protocol as worker_pypaimon."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import worker_pypaimon
from worker_pypaimon import checksum, main
from write_tables import FreshTable, copy_of, source, upkeep

import paimon_spark
from paimon_spark.format import bucket_hash
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.options.core import BucketFunction
from paimon_spark.polars import scan_paimon


def write(request: dict[str, Any]) -> dict[str, Any]:
    """As the function of that name in worker_pypaimon."""
    rows = source(request["path"] + "/rows.arrow")
    commits = request.get("commits", 1)
    with FreshTable(request["path"], request["keys"], request["options"]) as fresh:
        gc.collect()
        start = time.perf_counter()
        table = paimon_spark.load_table(str(fresh.path))
        for i in range(commits):
            first = len(rows) * i // commits
            table.write(rows.slice(first, len(rows) * (i + 1) // commits - first))
        seconds = time.perf_counter() - start
        table = paimon_spark.load_table(str(fresh.path)).scan().to_arrow()
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


def write_parquet(request: dict[str, Any]) -> dict[str, Any]:
    """pyarrow's own writer: the floor of an append write."""
    rows = source(request["path"] + "/rows.arrow")
    with FreshTable(request["path"], [], {}) as fresh:
        gc.collect()
        start = time.perf_counter()
        pq.write_table(rows, fresh.path / "rows.parquet", compression="zstd", compression_level=1)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": rows.num_rows, "checksum": checksum(rows)}


def compact(request: dict[str, Any]) -> dict[str, Any]:
    """Compact a copy of the table fully."""
    with copy_of(request["path"]) as copy:
        gc.collect()
        start = time.perf_counter()
        paimon_spark.load_table(str(copy)).compact(full=True)
        seconds = time.perf_counter() - start
        table = paimon_spark.load_table(str(copy)).scan().to_arrow()
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


def expire(request: dict[str, Any]) -> dict[str, Any]:
    """Expire all snapshots but one of a copy of the table."""

    def change(path: str) -> None:
        now = datetime.now(UTC)
        paimon_spark.load_table(path).expire_snapshots(retain_max=1, retain_min=1, older_than=now, max_deletes=10_000)

    gc.collect()
    answer: dict[str, Any] = upkeep(request["path"], change)
    return answer


def remove_orphans(request: dict[str, Any]) -> dict[str, Any]:
    """Remove the orphan files of a copy of the table."""
    gc.collect()

    def change(path: str) -> None:
        paimon_spark.load_table(path).remove_orphan_files(datetime.now(UTC))

    answer: dict[str, Any] = upkeep(request["path"], change)
    return answer


MEASURED: dict[int, dict[str, Any]] = {}
"""What `commits` has measured and nobody has asked for yet."""


def commits(request: dict[str, Any]) -> dict[str, Any]:
    """Median seconds of one-row commits to a table of `at` snapshots.

    Commits to a short and to a long history take turns, as disks have moods; the second of the two requests gets what
    the first one measured.
    """
    if request["at"] not in MEASURED:
        row = source(request["path"] + "/rows.arrow").slice(0, 1)
        with FreshTable(request["path"], [], {"bucket": "-1"}) as few, FreshTable(request["path"], [], {}) as many:
            tables = {
                at: paimon_spark.load_table(str(t.path)) for at, t in zip(request["both"], (few, many), strict=True)
            }
            for at, table in tables.items():
                for _ in range(at):
                    table.write(row)
            times: dict[int, list[float]] = {at: [] for at in tables}
            for _ in range(30):
                for at, table in tables.items():
                    start = time.perf_counter()
                    table.write(row)
                    times[at].append(time.perf_counter() - start)
        MEASURED.update({at: {"seconds": statistics.median(t), "rows": at, "checksum": 0} for at, t in times.items()})
    return MEASURED.pop(request["at"])


def hashes(request: dict[str, Any]) -> dict[str, Any]:
    """Buckets of one key column of all rows, cast to the type asked for."""
    rows = source(request["path"] + "/rows.arrow")
    column = rows.column(request["key"]).combine_chunks()
    if request.get("type"):
        width = pa.int32() if request["type"] == "date32" else pa.int64()
        column = column.cast(width, safe=False) if pa.types.is_integer(column.type) else column
        column = column.cast(getattr(pa, request["type"])(*request.get("arguments", [])), safe=False)
    keys = pa.record_batch([column], names=["k"])
    start = time.perf_counter()
    found = bucket_hash.buckets(keys, 16, BucketFunction.DEFAULT)
    return {"seconds": time.perf_counter() - start, "rows": len(found), "checksum": int(found.sum())}


def first_query(request: dict[str, Any]) -> dict[str, Any]:
    """The first query of a session of Spark, in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("first_query.py"))]
    arguments = [request["kind"], request["path"], request["column"]]
    done = subprocess.run([*command, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def read_by(request: dict[str, Any]) -> dict[str, Any]:
    """Read a table into Polars, or all of its columns in a query of DuckDB; what was read is compared afterwards."""
    CACHE.clear()
    gc.collect()
    start = time.perf_counter()
    scan = paimon_spark.load_table(request["path"]).scan()
    if request["engine"] == "polars":
        frame = scan_paimon(scan).collect()
        seconds = time.perf_counter() - start
        table = frame.to_arrow()
    else:
        dataset = scan.to_dataset()
        every = ", ".join(f'max("{name}")' for name in dataset.schema.names)
        duckdb.execute(f"SELECT count(*), {every} FROM dataset").fetchall()
        seconds = time.perf_counter() - start
        table = duckdb.execute("SELECT * FROM dataset").to_arrow_table()
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


OPS = {
    "read-by": read_by,
    "write": write,
    "write-parquet": write_parquet,
    "compact": compact,
    "commits": commits,
    "hashes": hashes,
    "expire": expire,
    "orphans": remove_orphans,
    "first-query": first_query,
}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    if request["op"] in OPS:
        return OPS[request["op"]](request)
    if request.get("cold", True):
        CACHE.clear()
    gc.collect()
    where = f"dt = '{request['partition']}'" if request.get("partition") else None
    start = time.perf_counter()
    options = request.get("options", {})
    scan = paimon_spark.load_table(request["path"]).scan(columns=request.get("columns"), where=where, **options)
    if request["op"] == "plan" and request.get("count") == "splits":
        splits = len(scan.plan().splits)
        return {"seconds": time.perf_counter() - start, "rows": splits, "checksum": 0}
    if request["op"] == "plan":
        files = sum(len(s.files) for s in scan.plan().splits)
        return {"seconds": time.perf_counter() - start, "rows": files, "checksum": 0}
    if request.get("part"):
        number, processes = request["part"]
        scan = scan.with_splits(scan.plan().splits[number::processes])
    table = scan.to_arrow()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


if __name__ == "__main__":
    worker_pypaimon.handle = handle
    main()
