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
    """Start a local session."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("write a Paimon table")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def write(spark: SparkSession, warehouse: str) -> None:
    """Run the steps; each one commits one snapshot."""
    catalog = paimon_spark.attach(spark, warehouse)
    spark.sql("CREATE DATABASE IF NOT EXISTS paimon.shop")
    spark.sql("""
        CREATE TABLE paimon.shop.orders (id INT, dt STRING, amount DOUBLE) PARTITIONED BY (dt)
        TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '2')
    """)
    orders = spark.createDataFrame(
        [(1, "2024-01-01", 10.0), (2, "2024-01-01", 20.0), (3, "2024-01-02", 30.0)], "id INT, dt STRING, amount DOUBLE"
    )
    orders.writeTo("paimon.shop.orders").append()
    show(spark, "Written")

    late = spark.createDataFrame([(2, "2024-01-01", 21.0), (4, "2024-01-02", 40.0)], orders.schema)
    late.writeTo("paimon.shop.orders").append()
    show(spark, "A row with a known key takes the place of the old one")

    spark.sql("INSERT OVERWRITE paimon.shop.orders PARTITION (dt = '2024-01-02') VALUES (9, 90.0)")
    show(spark, "One partition replaced")

    spark.sql("DELETE FROM paimon.shop.orders WHERE amount > 50")
    spark.sql("UPDATE paimon.shop.orders SET amount = amount * 2 WHERE dt = '2024-01-01'")
    late.createTempView("late")
    spark.sql("""
        MERGE INTO paimon.shop.orders t USING late s ON t.id = s.id AND t.dt = s.dt
        WHEN MATCHED THEN UPDATE SET amount = t.amount + s.amount
        WHEN NOT MATCHED THEN INSERT *
    """)
    show(spark, "Deleted, updated and merged")
    snapshots = catalog.table("shop.orders").snapshots()
    print(f"Snapshots: {', '.join(f'{s.id} {s.commit_kind.value}' for s in snapshots)}")


def show(spark: SparkSession, title: str) -> None:
    """Print the head of the table."""
    print(title)
    spark.table("paimon.shop.orders").orderBy("id").show()


if __name__ == "__main__":
    main()
