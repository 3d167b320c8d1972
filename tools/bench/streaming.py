"""What a trigger of a streaming query costs, source and sink apart; and whether it stays so.

    python -m tools.bench.streaming FOLDER [--triggers 20] [--rounds 3]
    python -m tools.bench.streaming FOLDER --soak MINUTES

`idle` is a source and a sink in Python that do nothing (`idle_stream.py`). Queries take turns, some triggers each, and
go on from their checkpoints: medians of what Spark says of each trigger, without the first ones of a turn, which start
processes. A Paimon source reads one snapshot a trigger. `--soak` runs a query into a table and another one from it into
a second table for so long, and tells per minute the time of a trigger and the memory of the JVM and of the Python
processes below it. Tables are made in FOLDER/streaming, anew each time.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import paimon_spark
from tools.bench.idle_stream import register

STEPS = ("triggerExecution", "latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
WARM_UP = 3
ROWS = 1000
CASES = ("rate→noop", "idle→idle", "paimon→noop", "rate→paimon", "paimon→paimon")


@dataclass
class Bench:
    """A session, and a folder with a table of many snapshots and those that are written."""

    spark: SparkSession
    folder: Path

    def make(self, name: str, snapshots: int = 0) -> str:
        catalog = paimon_spark.load_catalog(str(self.folder / "warehouse"))
        catalog.create_database("db", ignore_if_exists=True)
        options = {"bucket": "1", "snapshot.num-retained.max": str(snapshots + 100), "snapshot.num-retained.min": "100"}
        table = catalog.create_table(
            f"db.{name}", "timestamp TIMESTAMP_NTZ(6), value BIGINT", options={**options, "bucket-key": "value"}
        )
        for n in range(snapshots):
            values = pa.array(range(n * ROWS, (n + 1) * ROWS), pa.int64())
            table.write(pa.table({"timestamp": pa.nulls(ROWS, pa.timestamp("us")), "value": values}))
        return table.location

    def start(self, case: str, source: str, sink: str, **trigger: str) -> StreamingQuery:
        kind, target = case.split("→")
        if kind == "rate":
            reader = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
            df = reader.load().selectExpr("cast(timestamp as timestamp_ntz) timestamp", "value")
        elif kind == "idle":
            df = self.spark.readStream.format("idle").option("rows", ROWS).load()
        else:
            options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "read.stream.aligned": "true"}
            df = self.spark.readStream.format("paimon").options(**options).load(source)
        writer = df.writeStream.queryName(case).option("checkpointLocation", str(self.folder / "checkpoints" / case))
        if trigger:
            writer = writer.trigger(**trigger)
        return writer.start(sink, format="paimon") if target == "paimon" else writer.format(target).start()


def turn(query: StreamingQuery, triggers: int) -> list[dict[str, int]]:
    """What Spark says of some triggers with rows, the first ones left out."""
    seen: dict[int, dict[str, int]] = {}
    try:
        while len(seen) < triggers + WARM_UP:
            error = query.exception()
            if error is not None:
                raise error
            for p in query.recentProgress:
                if p["numInputRows"]:
                    seen[p["batchId"]] = p["durationMs"]
            time.sleep(0.05)
    finally:
        query.stop()
    return [seen[i] for i in sorted(seen)][WARM_UP:]


def measure(bench: Bench, triggers: int, rounds: int) -> None:
    source = bench.make("source", rounds * (triggers + WARM_UP + 20))
    sinks = {case: bench.make(f"sink{i}") for i, case in enumerate(CASES)}
    figures: dict[str, list[dict[str, int]]] = {case: [] for case in CASES}
    failed: dict[str, str] = {}
    for number in range(rounds):
        for case in CASES if number % 2 else reversed(CASES):
            if case in failed:
                continue
            try:
                figures[case] += turn(bench.start(case, source, sinks[case]), triggers)
            except Exception as e:  # noqa: BLE001 - a figure that cannot be had is told as such
                failed[case] = str(e).strip().splitlines()[-1]
    print(f"Medians in ms of {rounds} turns of {triggers} triggers of {ROWS} rows, {os.cpu_count()} cores, ", end="")
    print(f"Spark {bench.spark.version}, Python {platform.python_version()}\n")
    print("| query | triggers |", " | ".join(STEPS), "|\n|---|---|" + "---|" * len(STEPS))
    for case in CASES:
        if case in failed:
            print(f"| {case} | **failed**: {failed[case]} |")
            continue
        medians = [statistics.median(f.get(step, 0) for f in figures[case]) for step in STEPS]
        print(f"| {case} | {len(figures[case])} |", " | ".join(f"{m:.0f}" for m in medians), "|")


def soak(bench: Bench, minutes: float) -> None:
    first, second = bench.make("first"), bench.make("second")
    running = [
        bench.start("rate→paimon", "", first, processingTime="1 second"),
        bench.start("paimon→paimon", first, second, processingTime="1 second"),
    ]
    jvm = bench.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    print("minute,query,triggers,median ms,largest ms,JVM MiB,Python processes,Python MiB")
    try:
        begin, done = time.monotonic(), [-1, -1]
        for minute in range(1, round(minutes) + 1):
            seen: list[dict[int, int]] = [{}, {}]
            while time.monotonic() < begin + 60 * minute:
                for i, query in enumerate(running):
                    error = query.exception()
                    if error is not None:
                        raise error
                    seen[i] |= {p["batchId"]: p["durationMs"]["triggerExecution"] for p in query.recentProgress}
                time.sleep(5)
            workers = [rss_mib(pid) for pid in below(jvm)]
            for i, query in enumerate(running):
                times = [ms for batch, ms in seen[i].items() if batch > done[i]] or [0]
                done[i] = max(seen[i], default=done[i])
                row = (minute, query.name, len(times), round(statistics.median(times)), max(times))
                print(*row, round(rss_mib(jvm)), len(workers), round(sum(workers)), sep=",", flush=True)
    finally:
        for query in running:
            query.stop()


def below(pid: int) -> list[int]:
    """Processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has ended
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        more = children.get(todo.pop(), [])
        found += more
        todo += more
    return found


def rss_mib(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("paimon_spark streaming bench")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "200",
        "spark.log.level": "ERROR",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--triggers", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    arguments = parser.parse_args()
    folder = arguments.folder / "streaming"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with session() as spark:
        register(spark)
        bench = Bench(spark, folder)
        if arguments.soak is None:
            measure(bench, arguments.triggers, arguments.rounds)
        else:
            soak(bench, arguments.soak)


if __name__ == "__main__":
    main()
