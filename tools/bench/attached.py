"""Plain Spark on attached catalogs beside Spark on Parquet files: `python -m tools.bench.attached`.

Both sides read the same files, in one session, in turns; figures are medians. Writes are of rows in Spark's memory.
The Java connector runs the queries that are like TPC-H on the same tables, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from tools.bench import peers, tpch
from tools.bench.run import verdict

_ROWS = 5_000_000
_WIDE_ROWS, _WIDE_COLUMNS = 2_000_000, 60
_PARTITIONS = 1_000
_KEYS = 2_000_000


@dataclass(frozen=True)
class Comparison:
    """Our figure and the other's, with the largest allowed ratio, or the milliseconds that we may take longer."""

    name: str
    ours: Callable[[], object]
    other: Callable[[], object]
    bar: float | None = None
    extra_ms: float | None = None
    before: Callable[[], object] = lambda: None
    """Runs before each of ours and the other's, outside of the time."""
    java: Callable[[], float] | None = None
    """The seconds of the Java connector, which has no bar."""


@dataclass(frozen=True)
class Bench:
    """What the groups of comparisons share: `home` is a folder for their files, `java` the Java connector."""

    spark: SparkSession
    catalog: paimon_spark.Catalog
    scale: float
    home: Path
    java: peers.Worker | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--no-java", action="store_true", help="leave the Java connector out")
    parser.add_argument("groups", nargs="*", help=f"only these of {', '.join(GROUPS)}")
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="attached-"))
    java = None if arguments.no_java else peers.start("java")
    spark = session()
    try:
        catalog = paimon_spark.attach(spark, str(home / "wh"))
        catalog.create_database("b")
        print(
            f"Medians of {arguments.runs} runs, scale {arguments.scale:g}\n\n| case | ours | other | ratio | | Java |",
            flush=True,
        )
        print("|---|---|---|---|---|---|", flush=True)
        good = [
            measure(c, arguments.runs)
            for name, group in GROUPS.items()
            if not arguments.groups or name in arguments.groups
            for c in group(Bench(spark, catalog, arguments.scale, home, java))
        ]
    finally:
        spark.stop()
        if java is not None:
            java.close()
        shutil.rmtree(home)
    sys.exit(0 if all(good) else 1)


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def measure(c: Comparison, runs: int) -> bool:
    """Print a row; whether the bar is met."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(runs + 1):
        sides = ((c.ours, times[0]), (c.other, times[1]))
        for act, found in sides if run % 2 else sides[::-1]:
            c.before()
            start = time.perf_counter()
            act()
            if run:
                found.append(time.perf_counter() - start)
    mine, theirs = statistics.median(times[0]), statistics.median(times[1])
    text, met = verdict(mine, theirs, c.bar, c.extra_ms)
    java = "" if c.java is None else f"{statistics.median([c.java() for _ in range(runs + 1)][1:]):.3f} s"
    print(f"| {c.name} | {mine:.3f} s | {theirs:.3f} s | {text} | {'met' if met else 'MISSED'} | {java} |", flush=True)
    return met


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def parquet(spark: SparkSession, catalog: paimon_spark.Catalog, name: str) -> DataFrame:
    """The files of a table's newest snapshot, by Spark's Parquet source."""
    plan = catalog.table(name).scan().plan()
    files = [plan.requests[s.branch].store.url(s.path_of(f)) for s in plan.splits for f in s.files]
    return spark.read.parquet(*files)


def eight(bench: Bench) -> None:
    """Make the append table of eight columns, if it is missing."""
    if "eight" in bench.catalog.list_tables("b"):
        return
    rng = np.random.default_rng(1)
    count = int(_ROWS * bench.scale)
    numbers = {f"c{i}": pa.array(rng.integers(0, 2**40, count)) for i in range(5)}
    texts = pa.array([f"city-{i:03d}" for i in range(200)]).take(pa.array(rng.integers(0, 200, count)))
    table = pa.table({**numbers, "x": pa.array(rng.random(count)), "y": pa.array(rng.normal(size=count)), "s": texts})
    bench.catalog.create_table("b.eight", table.schema).write(table)


def reads(bench: Bench) -> Sequence[Comparison]:
    spark, catalog, scale = bench.spark, bench.catalog, bench.scale
    eight(bench)
    rng = np.random.default_rng(1)
    wide = pa.table({f"c{i}": pa.array(rng.integers(0, 2**40, int(_WIDE_ROWS * scale))) for i in range(_WIDE_COLUMNS)})
    catalog.create_table("b.wide", wide.schema).write(wide)

    def one_column(table: str, columns: str) -> Comparison:
        return Comparison(
            f"append table: one column of {columns}, summed",
            lambda: spark.table(f"paimon.b.{table}").selectExpr("sum(c3)").collect(),
            lambda: parquet(spark, catalog, f"b.{table}").selectExpr("sum(c3)").collect(),
            1.05,
        )

    return [
        Comparison(
            "append table: full scan to noop",
            lambda: noop(spark.table("paimon.b.eight")),
            lambda: noop(parquet(spark, catalog, "b.eight")),
            1.05,
        ),
        one_column("eight", "eight"),
        one_column("wide", "sixty"),
    ]


def partition(bench: Bench) -> Sequence[Comparison]:
    spark, catalog, scale = bench.spark, bench.catalog, bench.scale
    rng = np.random.default_rng(2)
    count = int(_ROWS * scale)
    parts = pa.array([f"p{i:04d}" for i in range(_PARTITIONS)]).take(
        pa.array(np.sort(rng.integers(0, _PARTITIONS, count)))
    )
    table = pa.table({"id": pa.array(np.arange(count)), "v": pa.array(rng.random(count)), "dt": parts})
    made = catalog.create_table("b.parts", table.schema, partition_keys=["dt"])
    made.write(table)
    files = made.location + "/dt=p0500"
    return [
        Comparison(
            "one partition of a thousand",
            lambda: spark.sql("SELECT sum(id) FROM paimon.b.parts WHERE dt = 'p0500'").collect(),
            lambda: spark.read.option("recursiveFileLookup", "true").parquet(files).selectExpr("sum(id)").collect(),
            1.2,
        )
    ]


def keys(bench: Bench) -> Sequence[Comparison]:
    spark, catalog, scale = bench.spark, bench.catalog, bench.scale
    rng = np.random.default_rng(3)
    count = int(_KEYS * scale)
    table = catalog.create_table(
        "b.keys", "id BIGINT NOT NULL, v BIGINT, x DOUBLE, s STRING", primary_keys=["id"], options={"bucket": "4"}
    )
    for _ in range(3):
        ids = rng.permutation(count)[: count // 2]
        texts = pa.array([f"city-{i:03d}" for i in range(200)]).take(pa.array(rng.integers(0, 200, len(ids))))
        values = pa.array(rng.integers(0, 2**40, len(ids)))
        table.write(pa.table({"id": pa.array(ids), "v": values, "x": pa.array(rng.random(len(ids))), "s": texts}))
    table.compact(full=True)
    return [
        Comparison(
            "fully compacted primary-key table: full scan to noop",
            lambda: noop(spark.table("paimon.b.keys")),
            lambda: noop(parquet(spark, catalog, "b.keys").select("id", "v", "x", "s")),
            1.1,
        )
    ]


def smallest(bench: Bench) -> Sequence[Comparison]:
    spark, catalog = bench.spark, bench.catalog
    catalog.create_table("b.small", "id INT, v STRING").write(pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}))
    return [
        Comparison(
            "smallest warm query, beside spark.range",
            lambda: spark.table("paimon.b.small").collect(),
            lambda: spark.range(10).collect(),
            extra_ms=100,
        ),
        Comparison(
            "smallest warm query, beside spark.read.parquet",
            lambda: spark.table("paimon.b.small").collect(),
            lambda: parquet(spark, catalog, "b.small").collect(),
            extra_ms=100,
        ),
    ]


def joins(bench: Bench) -> Sequence[Comparison]:
    spark, catalog = bench.spark, bench.catalog
    eight(bench)
    few = pa.table({"k": pa.array(np.arange(1000)), "name": [f"n{i}" for i in range(1000)]})
    catalog.create_table("b.few", few.schema).write(few)
    query = "SELECT count(name) FROM {} JOIN {} ON c3 % 1000 = k"
    plan = spark.sql(query.format("paimon.b.eight", "paimon.b.few"))
    assert "BroadcastHashJoin" in plan._jdf.queryExecution().executedPlan().toString()

    def of_files() -> None:
        parquet(spark, catalog, "b.eight").createOrReplaceTempView("eight_files")
        parquet(spark, catalog, "b.few").createOrReplaceTempView("few_files")
        spark.sql(query.format("eight_files", "few_files")).collect()

    return [
        Comparison(
            "join with a table of 1,000 rows, which is broadcast",
            lambda: spark.sql(query.format("paimon.b.eight", "paimon.b.few")).collect(),
            of_files,
            1.1,
        )
    ]


def queries(bench: Bench) -> Sequence[Comparison]:
    spark, catalog, scale, java = bench.spark, bench.catalog, bench.scale, bench.java

    def by_java(query: str) -> float:
        assert java is not None
        tables = {name: catalog.table(f"b.{name}").location for name in tpch.COLUMNS}
        found = java.ask({"op": "query", "tables": tables, "text": query.format(**{name: name for name in tables})})
        if "error" in found:
            raise RuntimeError(found["error"])
        return float(found["seconds"])

    for name, columns in tpch.COLUMNS.items():
        table = catalog.create_table(f"b.{name}", columns)
        for batch in tpch.batches(name, scale):
            table.write(pa.table(batch))
        parquet(spark, catalog, f"b.{name}").createOrReplaceTempView(f"{name}_files")
    ours = {name: f"paimon.b.{name}" for name in tpch.COLUMNS}
    others = {name: f"{name}_files" for name in tpch.COLUMNS}
    for name, query in tpch.QUERIES.items():
        assert spark.sql(query.format(**ours)).collect() == spark.sql(query.format(**others)).collect(), name

    def alike(name: str, query: str) -> Comparison:
        return Comparison(
            f"like TPC-H: {name}",
            lambda: spark.sql(query.format(**ours)).collect(),
            lambda: spark.sql(query.format(**others)).collect(),
            1.1,
            java=(lambda: by_java(query)) if java is not None else None,
        )

    return [alike(name, query) for name, query in tpch.QUERIES.items()]


def writes(bench: Bench) -> Sequence[Comparison]:
    spark, catalog, scale = bench.spark, bench.catalog, bench.scale
    eight(bench)
    rows = parquet(spark, catalog, "b.eight").repartition(2).cache()
    rows.count()
    with_keys = (
        rows.selectExpr("c0 % 2000000 AS id", "c1", "c2", "x", "s").limit(int(1_000_000 * scale)).repartition(2).cache()
    )
    with_keys.count()
    files = bench.home / "written"

    def empty() -> None:
        shutil.rmtree(files, ignore_errors=True)
        for name in ("appended", "upserted"):
            catalog.drop_table(f"b.{name}", ignore_if_not_exists=True)
        spark.createDataFrame([], rows.schema)
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema)
        catalog.create_table("b.appended", columns)
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in with_keys.schema)
        catalog.create_table("b.upserted", columns, primary_keys=["id"], options={"bucket": "4"})

    def to_files(frame: DataFrame) -> None:
        frame.write.option("compression", "zstd").parquet(str(files))

    return [
        Comparison(
            "writeTo().append() of 5M rows, beside df.write.parquet",
            lambda: rows.writeTo("paimon.b.appended").append(),
            lambda: to_files(rows),
            0.75,
            before=empty,
        ),
        Comparison(
            "writeTo().append() of 1M rows with keys into 4 buckets, beside df.write.parquet",
            lambda: with_keys.writeTo("paimon.b.upserted").append(),
            lambda: to_files(with_keys),
            0.95,
            before=empty,
        ),
    ]


def differences(bench: Bench) -> Sequence[Comparison]:
    """10M rows in 64 buckets; a thousandth changed on a branch, in 2 of the 64 files."""
    spark, catalog = bench.spark, bench.catalog
    count = int(10_000_000 * bench.scale)
    options = {"bucket": "64", "write-only": "true"}
    columns = "id BIGINT NOT NULL, c1 BIGINT, c2 BIGINT, x DOUBLE, s STRING"
    table = catalog.create_table("b.diffed", columns, primary_keys=["id"], options=options)
    rng = np.random.default_rng(4)
    texts = pa.array([f"city-{i:03d}" for i in range(200)]).take(pa.array(rng.integers(0, 200, count)))
    table.write(
        pa.table(
            {
                "id": pa.array(np.arange(count)),
                **{f"c{i}": pa.array(rng.integers(0, 2**40, count)) for i in (1, 2)},
                "x": pa.array(rng.random(count)),
                "s": texts,
            }
        )
    )
    table.create_branch("fix")
    fix = table.branch("fix")
    placed = fix.scan(columns=[*table.schema.row_type.names, "__paimon_bucket"]).to_arrow()
    new = placed.filter(pc.less(placed["__paimon_bucket"], 2)).slice(0, count // 1000).drop_columns("__paimon_bucket")
    fix.write(new.set_column(1, "c1", pc.add(new["c1"], 1)))
    differ = " OR ".join(f"NOT (o.{c} <=> n.{c})" for c in ("id", "c1", "c2", "x", "s"))

    def joined() -> int:
        query = "SELECT * FROM paimon.b.diffed o FULL OUTER JOIN paimon.b.diffed$branch_fix n ON o.id = n.id WHERE "
        return spark.sql(query + differ).count()

    def ours() -> int:
        found = catalog.table("b.diffed").diff("main", "fix", rows=True)
        return found.added + found.removed + found.changed

    assert ours() == joined() == count // 1000
    return [
        Comparison("rows that differ, 0.1 % of 10M in 2 of 64 files, beside a full outer join", ours, joined, 0.1),
        Comparison(
            "the same, as a DataFrame",
            lambda: noop(catalog.table("b.diffed").diff("main", "fix", rows=True).to_spark(spark)),
            joined,
            0.1,
        ),
    ]


GROUPS: Mapping[str, Callable[[Bench], Sequence[Comparison]]] = {
    group.__name__: group for group in (reads, partition, keys, smallest, joins, queries, writes, differences)
}

if __name__ == "__main__":
    main()
