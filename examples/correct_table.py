"""Correct wrong data on a branch while production continues, compare, and publish the branch as main.

Everything happens in a temporary folder, or in the warehouse given:

    python examples/correct_table.py /path/to/warehouse
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from pyspark.sql import SparkSession

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
    """Start a local session."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("correct a Paimon table")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def correct(spark: SparkSession, warehouse: str) -> None:
    """Tag, find a fault, branch, replay, compare, publish, and show the backup."""
    catalog = paimon_spark.attach(spark, warehouse)
    spark.sql("CREATE DATABASE IF NOT EXISTS paimon.shop")
    spark.sql(f"CREATE TABLE paimon.shop.orders ({SCHEMA}) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
    produce(spark, [(1, "2024-01-01", 10.0), (2, "2024-01-01", 20.0)])
    orders = catalog.table("shop.orders")
    orders.create_tag("2024-01-01")

    print("The fault: amounts of the second day are in cents")
    produce(spark, [(3, "2024-01-02", 3000.0), (4, "2024-01-02", 4000.0)])
    show(spark)

    print("Create a branch from the tag before the fault; it shares all files of the tag")
    orders.create_branch("fix", tag="2024-01-01")
    produce(spark, [(3, "2024-01-02", 30.0), (4, "2024-01-02", 40.0)], branch="fix")

    print("Production continues, and its new rows are replayed on the branch")
    produce(spark, [(5, "2024-01-03", 50.0)])
    spark.table("paimon.shop.orders").where("dt = '2024-01-03'").writeTo("paimon.shop.orders$branch_fix").append()

    print("Compare the branch with main")
    fixed, main_now = spark.table("paimon.shop.orders$branch_fix"), spark.table("paimon.shop.orders")
    fixed.exceptAll(main_now).orderBy("id").show()

    print("Branches, and the guard tags that retain the files of their start")
    spark.sql("SELECT name, tag_name, tagged_snapshot_id FROM paimon.shop.orders$branches").show()
    spark.sql("SELECT tag_name, snapshot_id, branches FROM paimon.shop.orders$tags").show(truncate=False)

    published = orders.merge_branch("fix", if_main_moved="replace")  # main has the faulty commits
    print(f"Published. Snapshots {list(published.discarded_snapshots)} of main are kept in {published.backup_branch}")
    show(spark)


def produce(spark: SparkSession, rows: list[tuple[int, str, float]], branch: str = "main") -> None:
    """Write one day of orders: what the pipeline does."""
    spark.createDataFrame(rows, SCHEMA).writeTo(f"paimon.shop.orders$branch_{branch}").append()


def show(spark: SparkSession) -> None:
    """Print main."""
    spark.table("paimon.shop.orders").orderBy("id").show()


if __name__ == "__main__":
    main()
