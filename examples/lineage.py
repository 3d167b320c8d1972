"""Find consistent snapshots of two tables that stem from the same source, and the impact of a wrong commit.

Everything happens in a temporary folder, or in the folder given:

    python examples/lineage.py /path/to/folder
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, lit, sum

import paimon_spark
from paimon_spark import Catalog

ORDERS = "id INT, customer STRING, cents BIGINT"


def main() -> None:
    """Write `shop.euros` and `shop.visits` from `shop.orders`, and a report from both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="where the tables and checkpoints go; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        spark = start_spark()
        try:
            ask(spark, args.folder or home)
        finally:
            spark.stop()


def start_spark() -> SparkSession:
    """Start a local session."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("lineage")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def ask(spark: SparkSession, folder: str) -> None:
    """Run two streaming jobs, of which one falls behind, then a report on both, and show the impact of a snapshot."""
    catalog = paimon_spark.attach(spark, f"{folder}/warehouse")
    spark.sql("CREATE DATABASE paimon.shop")
    for name, columns in {"orders": ORDERS, "euros": "id INT, euros DOUBLE", "visits": "customer STRING"}.items():
        spark.sql(f"CREATE TABLE paimon.shop.{name} ({columns})")
    catalog.lineage.enable()

    take(spark, catalog, [(1, "ann", 1000), (2, "bob", 2000)])
    stream(spark, folder, "to-euros", "orders", "euros", lambda o: o.select("id", (col("cents") / 100).alias("euros")))
    stream(spark, folder, "to-visits", "orders", "visits", lambda o: o.select("customer"))
    take(spark, catalog, [(3, "ann", 999_999_999)])
    stream(spark, folder, "to-euros", "orders", "euros", lambda o: o.select("id", (col("cents") / 100).alias("euros")))
    print("One job has read more than the other. The newest snapshots that were made from the same orders:")
    version = catalog.lineage.unified_version(["shop.euros", "shop.visits"])
    print(version)

    print("A batch job reports on these snapshots: lineage gives its options, and records the job")
    starts = catalog.lineage.start_options(["shop.euros", "shop.visits"], job="report", streaming=False)
    report(spark, starts).show()

    stream(spark, folder, "to-visits", "orders", "visits", lambda o: o.select("customer"))
    print("Snapshot 2 of the orders was wrong. Tables that contain its rows:")
    show_impact(catalog)
    print("The graph of all jobs and tables, as Mermaid:")
    print(catalog.lineage.graph().to_mermaid())


def stream(
    spark: SparkSession, folder: str, job: str, source: str, sink: str, work: Callable[[DataFrame], DataFrame]
) -> None:
    """Run a streaming job on the rows since its last run. Its name is all that lineage needs."""
    query = (
        work(spark.readStream.table(f"paimon.shop.{source}"))
        .writeStream.queryName(job)
        .option("checkpointLocation", f"{folder}/checkpoints/{job}")
        .trigger(availableNow=True)
        .toTable(f"paimon.shop.{sink}")
    )
    query.awaitTermination()


def report(spark: SparkSession, starts: dict[str, dict[str, str]]) -> DataFrame:
    """Count visits and sum their amounts, from consistent tables."""
    euros, visits = (spark.read.options(**starts[f"shop.{n}"]).table(f"paimon.shop.{n}") for n in ("euros", "visits"))
    totals = visits.agg(count(lit(1)).alias("visits")).crossJoin(euros.agg(sum("euros").alias("euros")))
    spark.sql("CREATE TABLE paimon.shop.report (visits BIGINT, euros DOUBLE)")
    totals.writeTo("paimon.shop.report").option("lineage.job", "report").append()
    return spark.table("paimon.shop.report")


def take(spark: SparkSession, catalog: Catalog, rows: list[tuple[int, str, int]]) -> None:
    """Write new orders, which come from outside and are not recorded in lineage."""
    catalog.table("shop.orders").write(spark.createDataFrame(rows, ORDERS))


def show_impact(catalog: Catalog) -> None:
    """Print the tables that contain rows of snapshot 2 of the orders."""
    for table in catalog.lineage.impact("shop.orders", snapshot=2).tables:
        since = f"since snapshot {table.first}" if table.first else "not yet"
        print(f"  {table.node.ref.name}: {since}, by {' → '.join(table.path)}")


if __name__ == "__main__":
    main()
