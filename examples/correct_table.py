"""Correct wrong data on a branch while production continues, compare, and publish the branch as main.

Everything happens in a temporary folder, or in the warehouse given:

    python examples/correct_table.py /path/to/warehouse
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession

import paimon_spark

SCHEMA = "id INT, dt STRING, amount DOUBLE"


def main() -> None:
    """Correct the table `shop.orders`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", nargs="?", help="folder for the table; default: a temporary one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        spark = start_spark()
        try:
            correct(spark, args.warehouse or home)
        finally:
            spark.stop()


def start_spark() -> SparkSession:
    """Start a local session with the settings for the fastest writes."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("correct a Paimon table")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    paimon_spark.configure_session(spark)
    return spark


def correct(spark: SparkSession, warehouse: str) -> None:
    """Tag, find a fault, branch, replay, compare, publish, and show the backup."""
    catalog = paimon_spark.load_catalog(warehouse)
    catalog.create_database("shop", ignore_if_exists=True)  # a write creates tables, never databases
    produce(spark, warehouse, [(1, "2024-01-01", 10.0), (2, "2024-01-01", 20.0)])
    orders = catalog.table("shop.orders")
    orders.create_tag("2024-01-01")

    print("The fault: amounts of the second day are in cents")
    produce(spark, warehouse, [(3, "2024-01-02", 3000.0), (4, "2024-01-02", 4000.0)])
    show(spark, warehouse, "main")

    print("Create a branch from the tag before the fault; it shares all files of the tag")
    orders.create_branch("fix", tag="2024-01-01")
    produce(spark, warehouse, [(3, "2024-01-02", 30.0), (4, "2024-01-02", 40.0)], branch="fix")

    print("Production continues, and its new rows are replayed on the branch")
    produce(spark, warehouse, [(5, "2024-01-03", 50.0)])
    new = read(spark, warehouse, "main").where("dt = '2024-01-03'")
    orders.branch("fix").write(new)

    print("Compare the branch with main")
    fixed, main_now = read(spark, warehouse, "fix"), read(spark, warehouse, "main")
    fixed.exceptAll(main_now).orderBy("id").show()

    print("Branches, and the guard tags that retain the files of their start")
    table = f"{warehouse}/shop.db/orders"
    spark.read.format("paimon").load(f"{table}$branches").select("name", "tag_name", "tagged_snapshot_id").show()
    spark.read.format("paimon").load(f"{table}$tags").select("tag_name", "snapshot_id", "branches").show(truncate=False)

    published = orders.merge_branch("fix", if_main_moved="replace")  # main has the faulty commits
    print(f"Published. Snapshots {list(published.discarded_snapshots)} of main are kept in {published.backup_branch}")
    show(spark, warehouse, "main")


def produce(spark: SparkSession, warehouse: str, rows: list[tuple[int, str, float]], branch: str = "main") -> None:
    """Write one day of orders: what the pipeline does."""
    (
        spark.createDataFrame(rows, SCHEMA)
        .write.format("paimon")
        .mode("append")
        .option("warehouse", warehouse)
        .option("branch", branch)
        .option("primary-key", "id")  # the table is made when there is none
        .option("bucket", "2")
        .save("shop.orders")
    )


def read(spark: SparkSession, warehouse: str, branch: str) -> DataFrame:
    """Read the head of a branch."""
    return spark.read.format("paimon").option("warehouse", warehouse).option("branch", branch).load("shop.orders")


def show(spark: SparkSession, warehouse: str, branch: str) -> None:
    """Print the head of a branch."""
    read(spark, warehouse, branch).orderBy("id").show()


if __name__ == "__main__":
    main()
