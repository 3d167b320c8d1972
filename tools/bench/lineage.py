"""What lineage costs a trigger of a streaming query, and what its answers cost.

    python -m tools.bench.lineage FOLDER [--triggers 30] [--rounds 3] [--barriers 1000 10000 100000]

The same queries run in three warehouses: one without lineage (`off`), one with it (`on`), and one whose rows are
written after every batch (`at once`, a flush interval of 0). They take turns, some triggers each, and go on from their
checkpoints: medians of what Spark says of each trigger, without the first ones of a turn, and the median of the ratios
of the turns. Then the picture of PIP-5 with so many batches of each of its three jobs is asked in this process: rows
are made up, so snapshots are none. Everything is made in FOLDER/lineage, anew each time.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import paimon_spark
from paimon_spark.lineage.asking.graph import Direction, Node, load
from paimon_spark.lineage.asking.reach import impact
from paimon_spark.lineage.asking.unified_version import unified_version
from paimon_spark.lineage.index.provenance import TableRef
from paimon_spark.lineage.index.table_index import TableIndex, open_index
from paimon_spark.lineage.index.tables import CATALOG_OPTIONS, SINK_JOB, SINK_SNAPSHOT, SOURCE_JOB, SOURCE_SNAPSHOT
from paimon_spark.lineage.index.warehouse import Warehouse
from paimon_spark.options.lineage import FLUSH_INTERVAL
from paimon_spark.storage.urls import open_store
from tests.harness.pipelines import picture
from tools.bench.streaming import ROWS, WARM_UP, Bench, session, turn

BAR = 1.3
"""A trigger with lineage takes at most so many times as long."""
CASES = ("rate→paimon", "paimon→paimon")
WAYS = ("off", "on", "at once")
STEPS = ("triggerExecution", "addBatch")
ASKED = 5


def measure(benches: dict[str, Bench], triggers: int, rounds: int) -> bool:
    """Print what triggers cost; whether the bar is met."""
    snapshots = rounds * (triggers + WARM_UP + 20)
    sources = {way: bench.make("source", snapshots) for way, bench in benches.items()}
    sinks = {(way, case): b.make(f"sink{i}") for way, b in benches.items() for i, case in enumerate(CASES)}
    for way, bench in benches.items():
        if way != "off":
            enable(bench, at_once=way == "at once")
    figures: dict[tuple[str, str], list[list[dict[str, int]]]] = {key: [] for key in sinks}
    for number in range(rounds):
        for case in CASES:
            for way in WAYS if number % 2 else reversed(WAYS):
                query = benches[way].start(case, sources[way], sinks[way, case])
                figures[way, case].append(turn(query, triggers))
    print(f"Medians in ms of {rounds} turns of {triggers} triggers of {ROWS} rows, {os.cpu_count()} cores, ", end="")
    print(f"Spark {benches['off'].spark.version}, Python {platform.python_version()}; the bar is {BAR}\n")
    print("| query | step |", " | ".join(WAYS), "| on/off | at once/off |\n|---|---|---|---|---|---|---|")
    met = True
    for case in CASES:
        for step in STEPS:
            by_turn = {way: [_median(t, step) for t in figures[way, case]] for way in WAYS}
            medians = [_median([p for t in figures[way, case] for p in t], step) for way in WAYS]
            ratios = [
                statistics.median(x / y for x, y in zip(by_turn[way], by_turn["off"], strict=True)) for way in WAYS[1:]
            ]
            print(f"| {case} | {step} |", *(f"{m:.0f} |" for m in medians), *(f"{r:.2f} |" for r in ratios))
            met &= step != "triggerExecution" or ratios[0] <= BAR
    recorded = {way: len(index_of(b).read(SINK_SNAPSHOT)) for way, b in benches.items()}
    print(f"\nRows of sink snapshots: {recorded}. The bar is {'met' if met else 'MISSED'}.\n")
    return met


def _median(progress: list[dict[str, int]], step: str) -> float:
    return statistics.median(p.get(step, 0) for p in progress)


def index_of(bench: Bench) -> TableIndex:
    return open_index(Warehouse(*open_store(str(bench.folder / "warehouse"))))


def enable(bench: Bench, *, at_once: bool) -> None:
    paimon_spark.load_catalog(str(bench.folder / "warehouse")).lineage.enable()
    if at_once:
        index_of(bench).upsert({CATALOG_OPTIONS.name: [(FLUSH_INTERVAL.key, "0 ms")]})


def ask(folder: Path, barriers: int) -> None:
    """Print what answers cost with so many batches of each job."""
    catalog = paimon_spark.load_catalog(str(folder / f"warehouse-{barriers}"))
    catalog.create_database("db")
    for name in ("t1", "t2", "t3", "t4", "t5", "t6"):
        catalog.create_table(f"db.{name}", "id STRING")
    catalog.lineage.enable()
    fill(folder, barriers)
    index = open_index(Warehouse(*open_store(str(folder / f"warehouse-{barriers}"))))
    five, six, one = (Node(index.warehouse.url, TableRef("db", t)) for t in ("t5", "t6", "t1"))
    answers: dict[str, Callable[[], Any]] = {
        "sync": catalog.lineage.sync,
        "unified_version": lambda: unified_version(load([index], [five, six]), [five, six]),
        "impact": lambda: impact(load([index], [one], direction=Direction.DOWN), one, barriers // 2),
    }
    costs = [f"{statistics.median(_ms(act) for _ in range(ASKED)):.0f}" for act in answers.values()]
    found = answers["unified_version"]().snapshots
    assert found == {five: barriers, six: barriers}, found
    print(f"| {barriers:,} |", " | ".join(costs), "|")


def fill(folder: Path, barriers: int) -> None:
    """Rows of the jobs of PIP-5's picture: each batch reads one snapshot of each source and makes one."""
    numbers = np.arange(barriers, dtype=np.int64)
    catalog = paimon_spark.load_catalog(str(folder / f"warehouse-{barriers}"))

    def batches(job: str, table: str) -> list[Any]:
        same = [pa.repeat(pa.scalar(text), barriers) for text in (job, "db", table)]
        return [same[0], pa.array(numbers), same[1], same[2], pa.array(numbers + 1)]

    for of_job, of_batch, found in (
        (SOURCE_JOB, SOURCE_SNAPSHOT, [(j.name, t) for j in picture() for t in j.sources]),
        (SINK_JOB, SINK_SNAPSHOT, [(j.name, j.sink) for j in picture()]),
    ):
        jobs = [list(column) for column in zip(*((job, "db", table) for job, table in found), strict=True)]
        catalog.table(f"paimon.{of_job.name}").write(pa.Table.from_arrays(jobs, schema=of_job.schema))
        rows = [pa.Table.from_arrays(batches(*pair), schema=of_batch.schema) for pair in found]
        catalog.table(f"paimon.{of_batch.name}").write(pa.concat_tables(rows))


def _ms(act: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--triggers", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--barriers", type=int, nargs="*", default=[1000, 10_000, 100_000])
    arguments = parser.parse_args()
    folder = arguments.folder / "lineage"
    shutil.rmtree(folder, ignore_errors=True)
    met = True
    if arguments.triggers:
        with session() as spark:
            benches = {way: Bench(spark, folder / way.replace(" ", "-")) for way in WAYS}
            for bench in benches.values():
                bench.folder.mkdir(parents=True)
            met = measure(benches, arguments.triggers, arguments.rounds)
    if arguments.barriers:
        folder.mkdir(parents=True, exist_ok=True)
        print(f"Medians in ms of {ASKED} answers\n\n| barriers | sync | unified_version | impact |\n|---|---|---|---|")
        for barriers in arguments.barriers:
            ask(folder, barriers)
    raise SystemExit(not met)


if __name__ == "__main__":
    main()
