"""Two streaming jobs read the same table: which of their results belong together, and what a wrong commit has touched.

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
    """`shop.orders` feeds `shop.euros` and `shop.visits`, and those a report."""
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
    """An ordinary local session."""
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
    """The whole story: jobs that record by themselves, one that falls behind, a report, and a question of blame."""
    catalog = paimon_spark.load_catalog(f"{folder}/warehouse")
    catalog.create_database("shop")
    for name, columns in {"orders": ORDERS, "euros": "id INT, euros DOUBLE", "visits": "customer STRING"}.items():
        catalog.create_table(f"shop.{name}", columns)
    catalog.lineage.enable()

    write(spark, folder, "orders", [(1, "ann", 1000), (2, "bob", 2000)])
    stream(spark, folder, "to-euros", "orders", "euros", lambda o: o.select("id", (col("cents") / 100).alias("euros")))
    stream(spark, folder, "to-visits", "orders", "visits", lambda o: o.select("customer"))
    write(spark, folder, "orders", [(3, "ann", 999_999_999)])
    stream(spark, folder, "to-euros", "orders", "euros", lambda o: o.select("id", (col("cents") / 100).alias("euros")))
    print("One job has read more than the other. The newest snapshots that come from the same orders:")
    version = catalog.lineage.unified_version(["shop.euros", "shop.visits"])
    print(version)

    print("A report over them, as a batch job: its options come from lineage, and it is recorded too")
    starts = catalog.lineage.start_options(["shop.euros", "shop.visits"], job="report", streaming=False)
    report(spark, folder, starts).show()

    stream(spark, folder, "to-visits", "orders", "visits", lambda o: o.select("customer"))
    print("Snapshot 2 of the orders was wrong. Whatever holds rows of it:")
    show_impact(catalog)
    print("The whole picture, for a notebook, a file, or a page that knows Mermaid:")
    print(catalog.lineage.graph().to_mermaid())


def stream(
    spark: SparkSession, folder: str, job: str, source: str, sink: str, work: Callable[[DataFrame], DataFrame]
) -> None:
    """One run of a streaming job: what is new since its last run. Nothing in it is about lineage but its name."""
    rows = spark.readStream.format("paimon").option("warehouse", f"{folder}/warehouse").load(f"shop.{source}")
    query = (
        work(rows)
        .writeStream.format("paimon")
        .queryName(job)
        .option("checkpointLocation", f"{folder}/checkpoints/{job}")
        .option("warehouse", f"{folder}/warehouse")
        .trigger(availableNow=True)
        .start(f"shop.{sink}")
    )
    query.awaitTermination()


def report(spark: SparkSession, folder: str, starts: dict[str, dict[str, str]]) -> DataFrame:
    """How many visits there were, and for how much: a query over tables that agree."""
    reader = spark.read.format("paimon").option("warehouse", f"{folder}/warehouse")
    euros, visits = (reader.options(**starts[name]).load(name) for name in ("shop.euros", "shop.visits"))
    totals = visits.agg(count(lit(1)).alias("visits")).crossJoin(euros.agg(sum("euros").alias("euros")))
    writer = totals.write.format("paimon").mode("overwrite").option("warehouse", f"{folder}/warehouse")
    writer.option("lineage.job", "report").save("shop.report")
    return spark.read.format("paimon").option("warehouse", f"{folder}/warehouse").load("shop.report")


def write(spark: SparkSession, folder: str, table: str, rows: list[tuple[int, str, int]]) -> None:
    """New rows, which no job is asked about."""
    frame = spark.createDataFrame(rows, ORDERS)
    frame.write.format("paimon").mode("append").option("warehouse", f"{folder}/warehouse").save(f"shop.{table}")


def show_impact(catalog: Catalog) -> None:
    """Print what snapshot 2 of the orders has touched."""
    for table in catalog.lineage.impact("shop.orders", 2).tables:
        since = f"since snapshot {table.first}" if table.first else "not yet"
        print(f"  {table.node.ref.name}: {since}, by {' → '.join(table.path)}")


if __name__ == "__main__":
    main()
