"""paimon_spark as a worker; same protocol as worker_pypaimon."""

from __future__ import annotations

import gc
import time

import worker_pypaimon
from worker_pypaimon import checksum, main

import paimon_spark
from paimon_spark.metadata.manifests import CACHE


def handle(request: dict) -> dict:
    if request.get("cold", True):
        CACHE.clear()
    gc.collect()
    where = f"dt = '{request['partition']}'" if request.get("partition") else None
    start = time.perf_counter()
    scan = paimon_spark.load_table(request["path"]).scan(columns=request.get("columns"), where=where)
    if request["op"] == "plan":
        files = sum(len(s.files) for s in scan.plan().splits)
        return {"seconds": time.perf_counter() - start, "rows": files, "checksum": 0}
    table = scan.to_arrow()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": table.num_rows, "checksum": checksum(table)}


if __name__ == "__main__":
    worker_pypaimon.handle = handle
    main()
