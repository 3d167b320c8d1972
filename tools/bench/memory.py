"""Peak memory of reads: `python -m tools.bench.memory [--rows 10000000 40000000] [engine or format…]`.

A bucket that is merged, and one large file of each format, are read as a Spark task reads them: one split, no threads,
batches that nobody keeps, in a fresh process.
Fails when a process takes more than 1 GiB, or more for a larger table than for the smallest of `--rows`.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.bench import peers

if TYPE_CHECKING:
    from paimon_spark import Scan

ENGINES = ("deduplicate", "partial-update", "aggregation")
LIMIT_MIB = 1024
MOST_GROWTH = 1.3
VERSIONS = 3_000_000
SMALL_ROWS = 100_000
MASKED_ROWS = 4_000_000
"""As many rows as deduplication decides on by holding all keys at once."""
MANY_RUNS = (24_000_000, 24)
FORMATS = ("parquet", "orc", "avro")
FORMAT_ROWS = 8_000_000
FORMAT_OPTIONS = {"target-file-size": "8 gb", "orc.stripe.size": "256 mb"}
"""All rows in one file, and those of ORC in one stripe."""


def read(path: str) -> dict[str, Any]:
    """Read a table and let go of every batch; runs in a process of its own."""
    import paimon_spark

    start = time.perf_counter()
    rows = sum(batch.num_rows for batch in paimon_spark.load_table(path).scan().to_batches())
    return _answer(rows, time.perf_counter() - start)


def read_one_key(engine: str) -> dict[str, Any]:
    """Merge eight runs that hold one key `VERSIONS` times, which no writer makes, between two other keys."""
    import pyarrow as pa

    from paimon_spark.engine.merge.functions import create_merge_function
    from paimon_spark.engine.merge.sorted_merge import MergePlan, merge_runs
    from paimon_spark.format.metadata_files import table_schema
    from paimon_spark.options.table import parse_table_options

    schema = table_schema.decode((data(SMALL_ROWS) / engine / "schema" / "schema-0").read_bytes(), "schema-0")
    options = parse_table_options(schema.options)
    names = tuple(schema.row_type.names)
    key = schema.trimmed_primary_keys
    batch = next(_load(data(SMALL_ROWS) / engine).to_batches()).slice(0, 8192)

    def run(number: int) -> Iterator[pa.RecordBatch]:
        for begin in range(0, VERSIONS // 8, batch.num_rows):
            ids = [1] * batch.num_rows
            if begin == 0:
                ids[0] = 0
            one = pa.array([1] * batch.num_rows, pa.int32())  # no sum of it overflows
            yield pa.RecordBatch.from_arrays(
                [pa.array(ids, pa.int64()), one, *batch.columns[2:]], names=batch.schema.names
            )

    plan = MergePlan(create_merge_function(schema, options), key, (), names)
    start = time.perf_counter()
    rows = sum(b.num_rows for b in merge_runs([run(n) for n in range(8)], plan))
    return _answer(rows, time.perf_counter() - start)


def _load(path: Path) -> Scan:
    import paimon_spark

    return paimon_spark.load_table(str(path)).scan()


def _answer(rows: int, seconds: float) -> dict[str, Any]:
    return {
        "rows": rows,
        "seconds": seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def data(rows: int, runs: int = 8) -> Path:
    return peers.HOME / f"memory-{rows}-{runs}"


def build(rows: int, runs: int = 8) -> None:
    script = peers.HERE / "memory_data.py"
    subprocess.run([peers.rust_python(), script, data(rows, runs), str(rows), str(runs)], check=True)


def build_format(name: str) -> Path:
    """A table of one file of `FORMAT_ROWS` rows, written once."""
    import numpy as np
    import pyarrow as pa

    import paimon_spark

    folder = peers.HOME / f"memory-{name}"
    table = folder / "db.db" / "t"
    if (folder / ".done").exists():
        return table
    shutil.rmtree(folder, ignore_errors=True)
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
    catalog = paimon_spark.load_catalog(str(folder))
    catalog.create_database("db")
    made = catalog.create_table("db.t", schema, options={**FORMAT_OPTIONS, "file.format": name})
    random = np.random.default_rng(0)
    count = 100_000

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, FORMAT_ROWS, count):
            ids = np.arange(start, start + count)
            texts = pa.array([f"row {i} " * 3 for i in ids.tolist()])
            yield pa.record_batch([ids, random.integers(0, 1000, count), random.random(count), texts], schema=schema)

    made.write(pa.RecordBatchReader.from_batches(schema, batches()))
    (folder / ".done").touch()
    return table


def measure(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tools.bench.memory", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=(*ENGINES, *FORMATS))
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000, 40_000_000])
    parser.add_argument("--read", help="internal: read this table and print what it took")
    parser.add_argument("--one-key", help="internal: merge one key with this engine and print what it took")
    arguments = parser.parse_args()
    if arguments.read or arguments.one_key:
        print(json.dumps(read(arguments.read) if arguments.read else read_one_key(arguments.one_key)))
        return 0
    engines = [name for name in arguments.cases if name not in FORMATS]
    sizes = [(SMALL_ROWS, 8), (MASKED_ROWS, 8), MANY_RUNS, *((rows, 8) for rows in sorted(arguments.rows))]
    for rows, runs in sizes if engines else ():
        build(rows, runs)
    print("| engine | rows in files | rows out | rows/s | peak MiB | |\n|---|---|---|---|---|---|")
    good = [report(engine, rows_runs, sizes[3]) for engine in engines for rows_runs in [*sizes[1:], None]]
    good += [report_format(name) for name in arguments.cases if name in FORMATS]
    return 0 if all(good) else 1


_PEAKS: dict[tuple[str, int, int], float] = {}


def report(engine: str, table: tuple[int, int] | None, smallest: tuple[int, int]) -> bool:
    """Measure and print one case; None is one key. Whether its peak is allowed."""
    if table is None:
        label, rows, answer = f"{VERSIONS:,} of one key", VERSIONS, measure("--one-key", engine)
    else:
        rows, runs = table
        label, answer = f"{rows:,} in {runs} runs", measure("--read", str(data(rows, runs) / engine))
    peak = answer["peak_mib"]
    verdict = "" if peak <= LIMIT_MIB else "**too much**"
    if table is not None:
        _PEAKS[(engine, *table)] = peak
        larger = table[1] == smallest[1] and table[0] > smallest[0]
        if larger and peak > MOST_GROWTH * _PEAKS[(engine, *smallest)]:
            verdict = "**grows**"
    rate = rows / answer["seconds"]
    print(f"| {engine} | {label} | {answer['rows']:,} | {rate:,.0f} | {peak:,.0f} | {verdict} |", flush=True)
    return not verdict


def report_format(name: str) -> bool:
    """Measure and print the read of one large file. Whether its peak is allowed."""
    answer = measure("--read", str(build_format(name)))
    verdict = "" if answer["peak_mib"] <= LIMIT_MIB else "**too much**"
    rate = FORMAT_ROWS / answer["seconds"]
    label = f"{FORMAT_ROWS:,} in one file"
    print(
        f"| {name} | {label} | {answer['rows']:,} | {rate:,.0f} | {answer['peak_mib']:,.0f} | {verdict} |", flush=True
    )
    return not verdict


if __name__ == "__main__":
    sys.exit(main())
