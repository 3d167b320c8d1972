"""Memory of many triggers in one process: `python -m tools.bench.triggers [--triggers 3000]`.

A stream from a table into another, by an engine that does what Spark does without Spark (`tests.harness.mini_engine`),
so that source, tasks and sink share one process. Prints every tenth of the way what the process holds, and fails when
it has grown since the third: by then the metadata that is remembered for 20 s has come and gone.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import paimon_spark
from paimon_spark.jobs.read.stream import open_stream
from paimon_spark.jobs.write.stream import plan_stream_write
from paimon_spark.metadata.manifests import CACHE
from tests.harness.mini_engine import Checkpoint, MiniEngine, Step, Tasks
from tools.bench import peers

ROWS = 1000
MOST_GROWTH_MIB = 8.0
KEPT = {"snapshot.num-retained.max": "1000000", "snapshot.num-retained.min": "1000000"}
START = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "read.stream.aligned": "true"}


def make(folder: Path, triggers: int) -> tuple[str, str]:
    """A table of so many snapshots, and an empty one. The first is written by a process of its own."""
    catalog = paimon_spark.load_catalog(str(folder))
    catalog.create_database("db")
    columns = "timestamp TIMESTAMP_NTZ(6), value BIGINT"
    options = {"bucket": "1", "bucket-key": "value"}
    source = catalog.create_table("db.source", columns, options={**options, **KEPT})
    sink = catalog.create_table("db.sink", columns, options={**options, "snapshot.num-retained.max": "20"})
    pid = os.fork()
    if pid == 0:
        for _ in range(triggers + 1):
            times = pa.nulls(ROWS, pa.timestamp("us"))
            source.write(pa.table({"timestamp": times, "value": pa.array(range(ROWS), pa.int64())}))
        os._exit(0)
    os.waitpid(pid, 0)
    return source.location, sink.location


def rss_mib() -> float:
    gc.collect()
    pa.default_memory_pool().release_unused()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(folder: Path, triggers: int) -> list[float]:
    """What the process holds after each tenth of the triggers, in MiB."""
    source, sink = make(folder, triggers)
    engine = MiniEngine(
        Checkpoint(folder / "checkpoint"),
        lambda: open_stream(source, {"path": source, **START}),
        lambda columns: plan_stream_write({"path": sink}, False, columns, None),
        Tasks(threads=False, lost=0, seed=0),
        False,
    )
    done, held, begin = 0, [], time.perf_counter()
    print("| triggers | ms a trigger | process, MiB | remembered metadata, MiB |\n|---|---|---|---|")
    for step in engine.steps():
        if step is not Step.DONE:
            continue
        done += 1
        if done % (triggers // 10) == 0:
            each = (time.perf_counter() - begin) * 1000 / (triggers // 10)
            held.append(rss_mib())
            print(f"| {done} | {each:.0f} | {held[-1]:.0f} | {CACHE.used_bytes / 2**20:.1f} |", flush=True)
            begin = time.perf_counter()
        if done >= triggers:
            break
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", type=int, default=3000)
    arguments = parser.parse_args()
    peers.HOME.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="triggers-", dir=peers.HOME) as folder:
        held = run(Path(folder), arguments.triggers)
    grown = held[-1] - held[2]
    print(f"grown by {grown:.1f} MiB since the third tenth")
    return 0 if grown <= MOST_GROWTH_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
