"""Write a Paimon table with PySpark and correct its data: upserts, an overwritten partition, DELETE, UPDATE, MERGE.

Everything happens in a temporary folder, or in the warehouse given:

    python examples/write_table.py /path/to/warehouse
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from pyspark.sql import SparkSession

import paimon_spark


def main() -> None:
    """Write, correct and show the table `shop.orders`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", nargs="?", help="folder for the table; default: a temporary one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        spark = start_spark()
        try:
            write(spark, args.warehouse or home)
        finally:
            spark.stop()


def start_spark() -> SparkSession:
    """Start a local session with the settings for the fastest writes."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("write a Paimon table")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    paimon_spark.configure_session(spark)
    return spark


def write(spark: SparkSession, warehouse: str) -> None:
    """Run the steps; each one commits one snapshot."""
    catalog = paimon_spark.load_catalog(warehouse)
    catalog.create_database("shop", ignore_if_exists=True)  # a write creates tables, never databases
    orders = spark.createDataFrame(
        [(1, "2024-01-01", 10.0), (2, "2024-01-01", 20.0), (3, "2024-01-02", 30.0)], "id INT, dt STRING, amount DOUBLE"
    )
    (
        orders.write.format("paimon")
        .mode("append")  # the table is made when there is none
        .option("warehouse", warehouse)
        .option("primary-key", "dt,id")
        .option("partition", "dt")
        .option("bucket", "2")
        .save("shop.orders")
    )
    table = catalog.table("shop.orders")
    show(table, spark, "Written")

    late = spark.createDataFrame([(2, "2024-01-01", 21.0), (4, "2024-01-02", 40.0)], orders.schema)
    table.write(late)
    show(table, spark, "A row with a known key takes the place of the old one")

    day = spark.createDataFrame([(9, 90.0)], "id INT, amount DOUBLE")
    table.write(day, mode="overwrite", **{"overwrite.partition": "dt=2024-01-02"})
    show(table, spark, "One partition replaced")

    table.delete("amount > 50")
    table.update("dt = '2024-01-01'", {"amount": "amount * 2"})
    table.merge(
        late,
        "t.id = s.id and t.dt = s.dt",
        when_matched_update={"amount": "t.amount + s.amount"},
        when_not_matched_insert="*",
    )
    show(table, spark, "Deleted, updated and merged")
    print(f"Snapshots: {', '.join(f'{s.id} {s.commit_kind.value}' for s in table.snapshots())}")


def show(table: paimon_spark.Table, spark: SparkSession, title: str) -> None:
    """Print the head of the table."""
    print(title)
    table.scan().to_spark(spark).orderBy("id").show()


if __name__ == "__main__":
    main()
