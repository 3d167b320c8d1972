"""How costs grow: `python -m tools.bench.growth [--runs 5] [--scale 1] [word…]` writes `.bench/growth.json`.

Each line is the time of one operation as one size of a table grows and everything else stays: rows, files, snapshots,
branches, tags, sorted runs in a bucket, columns. Every point is the median of some runs in one process after a warm-up,
without what this process has cached of the table. Tables for operations on metadata have data files of no bytes.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import Table
from paimon_spark.metadata.manifests import CACHE
from paimon_spark.storage.local import LocalStore
from tests.harness.commits import APPEND, PARTITIONED, committer, make_table, message
from tools.bench import peers
from tools.bench.history_data import a_data_file

OUTPUT = peers.HOME / "growth.json"
ROWS = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("x", pa.float64()), ("name", pa.string())])
Setup = Callable[[Path, int], Table]
Operation = Callable[[Table, int], Any]
"""What is measured: a table, and the number of the run."""


@dataclass(frozen=True)
class Line:
    """The cost of an operation by size.

    Attributes:
        group: the chart it belongs to.
        name: the operation.
        axis: what grows.
        sizes: points; `--scale` multiplies them.
        make: a table of one size, in an empty folder.
        measured: the operation; it may change the table.
    """

    group: str
    name: str
    axis: str
    sizes: tuple[int, ...]
    make: Setup
    measured: Operation


@dataclass(frozen=True)
class Point:
    group: str
    name: str
    axis: str
    size: int
    seconds: float


def new_table(folder: Path, schema: pa.Schema = ROWS, keys: tuple[str, ...] = (), **options: str) -> Table:
    catalog = paimon_spark.load_catalog(str(folder))
    catalog.create_database("db")
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("db.t", schema, primary_keys=keys, options=given)


def rows_of(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count)
    names = pa.array(ids % 10_000).cast(pa.string())
    return pa.table([ids, (ids % 97).astype(np.int32), ids / 7, names], schema=ROWS)


def with_rows(folder: Path, rows: int) -> Table:
    table = new_table(folder)
    table.write(rows_of(0, rows))
    return table


def with_runs(folder: Path, runs: int) -> Table:
    """A million rows in so many sorted runs with the same range of keys."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *list(ROWS)[1:]])
    table = new_table(folder, schema, ("id",), bucket="1", write_only="true")
    every = rows_of(0, 1_000_000)
    for run in range(runs):
        table.write(every.take(pa.array(range(run, len(every), runs))).cast(schema))
    return table


def with_columns(folder: Path, columns: int) -> Table:
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(columns)])
    table = new_table(folder, schema)
    values = pa.array(range(10_000), pa.int64())
    table.write(pa.table([values] * columns, schema=schema))
    return table


def with_files(folder: Path, files: int) -> Table:
    """So many data files of no bytes, in commits of up to 100,000."""
    handle = make_table(LocalStore(), str(folder / "t"), APPEND, bucket="-1")
    commits = committer(handle)
    for start in range(0, files, 100_000):
        commits.commit([message(handle, *map(a_data_file, range(start, min(start + 100_000, files))))])
    return paimon_spark.load_table(str(folder / "t"))


def with_partitions(folder: Path, files: int) -> Table:
    """So many data files in partitions of 100, each with a manifest of its own."""
    handle = make_table(LocalStore(), str(folder / "t"), PARTITIONED, bucket="-1", manifest__merge_min_count="1000000")
    commits = committer(handle)
    for partition in range(max(files // 100, 1)):
        made = [a_data_file(100 * partition + i) for i in range(min(files, 100))]
        commits.commit([message(handle, *made, p=partition)])
    return paimon_spark.load_table(str(folder / "t"))


def with_snapshots(folder: Path, snapshots: int) -> Table:
    table = new_table(folder, snapshot__num_retained__max="1000000", snapshot__num_retained__min="1000000")
    handle = table.handle
    commits = committer(handle)
    for i in range(snapshots):
        commits.commit([message(handle, a_data_file(i))])
    return table


def with_tags(folder: Path, tags: int) -> Table:
    table = with_rows(folder, 100)
    for i in range(tags):
        table.create_tag(f"tag{i}")
    return table


def with_branches(folder: Path, branches: int) -> Table:
    table = with_rows(folder, 100)
    table.create_tag("base")
    for i in range(branches):
        table.create_branch(f"branch{i}", tag="base")
    return table


def read_all(table: Table, run: int) -> None:
    for _ in table.scan().to_batches():
        pass


def read_one_column(table: Table, run: int) -> None:
    table.scan(columns=[table.row_type.names[0]]).to_arrow()


def plan(table: Table, run: int) -> None:
    table.scan().plan()


def plan_one_partition(table: Table, run: int) -> None:
    table.scan(where="p = 0").plan()


def append(table: Table, run: int) -> None:
    table.write(rows_of(run, 10))


def commit(table: Table, run: int) -> None:
    """A commit of one file of no bytes."""
    committer(table.handle).commit([message(table.handle, replace_name(run))])


def replace_name(run: int) -> Any:
    return a_data_file(10_000_000 + run)._replace(file_name=f"data-growth-{run}-{time.perf_counter_ns()}.parquet")


def tag(table: Table, run: int) -> None:
    table.create_tag(f"new{run}-{time.perf_counter_ns()}")


def branch(table: Table, run: int) -> None:
    table.create_branch(f"new{run}-{time.perf_counter_ns()}")


def merge(table: Table, run: int) -> Callable[[], Any]:
    """Publish a branch with one commit; the branch is made before time counts."""
    name = f"new{run}-{time.perf_counter_ns()}"
    table.create_branch(name)
    commit(table.branch(name), run)
    return lambda: table.merge_branch(name, backup=False)


def expire(table: Table, run: int) -> Callable[[], Any]:
    """Expire one snapshot."""
    for _ in range(2):
        append(table, run)
    count = len(table.snapshots())
    return lambda: table.expire_snapshots(retain_max=count - 1, retain_min=1)


MANY = (10, 100, 1000)
FILES = (100, 1000, 10_000, 100_000)
LINES = (
    Line("rows", "read of an append table", "rows", (250_000, 1_000_000, 4_000_000, 16_000_000), with_rows, read_all),
    Line("files", "plan, all files kept", "files", FILES, with_files, plan),
    Line("files", "plan of one partition of 100 files", "files", FILES, with_partitions, plan_one_partition),
    *(
        Line("files: versions", name, "files", FILES, with_files, measured)
        for name, measured in (("commit", commit), ("tag", tag), ("branch", branch), ("merge of a branch", merge))
    ),
    *(
        Line("snapshots", name, "snapshots", MANY, with_snapshots, measured)
        for name, measured in (("commit", commit), ("tag", tag), ("branch", branch), ("merge of a branch", merge))
    ),
    *(
        Line("tags", name, "tags", MANY, with_tags, measured)
        for name, measured in (("commit", append), ("tag", tag), ("expiry of a snapshot", expire))
    ),
    *(
        Line("branches", name, "branches", MANY, with_branches, measured)
        for name, measured in (("commit", append), ("branch", branch), ("expiry of a snapshot", expire))
    ),
    Line("runs", "merge of a million rows", "sorted runs", (1, 2, 5, 10, 20, 40), with_runs, read_all),
    Line("columns", "read of one column", "columns", (10, 100, 1000), with_columns, read_one_column),
    Line("columns", "read of all columns", "columns", (10, 100, 1000), with_columns, read_all),
)


def points(lines: Iterable[Line], runs: int, scale: float) -> Iterator[Point]:
    """Measure the lines; those of one kind of table share its tables, size by size."""
    by_make: dict[tuple[Setup, int], list[Line]] = {}
    for line in lines:
        for size in line.sizes:
            by_make.setdefault((line.make, max(int(size * scale), 1)), []).append(line)
    for (make, size), measured in by_make.items():
        with folder() as place:
            table = make(place, size)
            for line in measured:
                yield Point(line.group, line.name, line.axis, size, seconds(table, line.measured, runs))


def seconds(table: Table, measured: Operation, runs: int) -> float:
    found = []
    for run in range(runs + 1):
        CACHE.clear()
        gc.collect()
        begin = time.perf_counter()
        rest = measured(table, run)
        if callable(rest):  # what came before was its preparation
            CACHE.clear()
            begin = time.perf_counter()
            rest()
        found.append(time.perf_counter() - begin)
    return statistics.median(found[1:])


@contextmanager
def folder() -> Iterator[Path]:
    peers.HOME.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="growth-", dir=peers.HOME))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    words = arguments.words
    wanted = [line for line in LINES if not words or any(w in f"{line.group} {line.name}" for w in words)]
    print("| group | operation | size | time |\n|---|---|---|---|")
    lines = {(line.group, line.name) for line in wanted}
    before = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    found = [Point(**p) for p in before if (p["group"], p["name"]) not in lines]
    for point in points(wanted, arguments.runs, arguments.scale):
        found.append(point)
        print(
            f"| {point.group} | {point.name} | {point.size:,} {point.axis} | {point.seconds * 1000:,.1f} ms |",
            flush=True,
        )
    OUTPUT.write_text(json.dumps([asdict(p) for p in found], indent=1))


if __name__ == "__main__":
    main()
