"""Correct the output of a streaming job: replay on a branch, publish, and continue on main.

Everything happens in a temporary folder, or in the folder given:

    python examples/stream_correct.py /path/to/folder
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

import paimon_spark

EVENTS = "id INT, day STRING, cents BIGINT"


def main() -> None:
    """Correct `shop.amounts`, which a stream writes from `shop.events`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="where the tables and checkpoints go; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        spark = start_spark()
        try:
            correct(spark, args.folder or home)
        finally:
            spark.stop()


def start_spark() -> SparkSession:
    """Start a local session."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("correct a stream")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def correct(spark: SparkSession, folder: str) -> None:
    """Run a stream, find a fault, replay on a branch with a restart, publish, and continue."""
    catalog = paimon_spark.attach(spark, f"{folder}/warehouse")
    spark.sql("CREATE DATABASE paimon.shop")
    spark.sql(f"CREATE TABLE paimon.shop.events ({EVENTS})")
    spark.sql("""
        CREATE TABLE paimon.shop.amounts (id INT, day STRING, euros DOUBLE)
        TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')
    """)
    events, amounts = catalog.table("shop.events"), catalog.table("shop.amounts")

    feed(spark, [(1, "mon", 1000), (2, "mon", 2000)])
    run(spark, folder, "production", right)
    amounts.create_tag("monday")
    first_wrong = events.snapshots()[-1].id + 1  # the first snapshot that the stream has not read

    print("A new release of the job forgets that the events are in cents")
    feed(spark, [(3, "tue", 3000)])
    run(spark, folder, "production", wrong)
    show(spark)

    print("Create a branch from before the fault; the corrected job reads the events again from there")
    amounts.create_branch("fix", tag="monday")
    run(spark, folder, "correction", right, branch="fix", start=first_wrong)

    print("Production continues; the correction is restarted, and catches up from its checkpoint")
    feed(spark, [(4, "wed", 4000)])
    run(spark, folder, "production", wrong)
    run(spark, folder, "correction", right, branch="fix", start=first_wrong)
    fixed, now = spark.table("paimon.shop.amounts$branch_fix"), spark.table("paimon.shop.amounts")
    fixed.exceptAll(now).orderBy("id").show()

    published = amounts.merge_branch("fix", if_main_moved="replace")  # main has the faulty commits
    print(f"Published. What main had since is kept in {published.backup_branch}")

    print("The correction becomes production: it continues on main with the same checkpoint")
    feed(spark, [(5, "thu", 5000)])
    run(spark, folder, "correction", right, start=first_wrong)
    show(spark)


def right(events: DataFrame) -> DataFrame:
    """Convert cents to euros: what the job should do."""
    return events.select("id", "day", (col("cents") / 100).alias("euros"))


def wrong(events: DataFrame) -> DataFrame:
    """Use cents as euros: what the wrong release does."""
    return events.select("id", "day", col("cents").cast("double").alias("euros"))


def run(
    spark: SparkSession,
    folder: str,
    job: str,
    work: Callable[[DataFrame], DataFrame],
    branch: str = "main",
    start: int | None = None,
) -> None:
    """Run a job on everything since its last run."""
    source = spark.readStream
    if start is not None:
        source = source.option("scan.snapshot-id", start)  # ignored once there is a checkpoint
    query = (
        work(source.table("paimon.shop.events"))
        .writeStream.queryName(job)
        .option("checkpointLocation", f"{folder}/checkpoints/{job}")
        .trigger(availableNow=True)
        .toTable(f"paimon.shop.amounts$branch_{branch}")
    )
    query.awaitTermination()


def feed(spark: SparkSession, rows: list[tuple[int, str, int]]) -> None:
    """Write new events."""
    spark.createDataFrame(rows, EVENTS).writeTo("paimon.shop.events").append()


def show(spark: SparkSession) -> None:
    """Print main."""
    spark.table("paimon.shop.amounts").orderBy("id").show()


if __name__ == "__main__":
    main()
