"""Build Paimon tables with dbt: a table, incremental models by append, MERGE and INSERT OVERWRITE, a seed, a snapshot.

dbt's adapter for Spark uses the session of this process (`method: session` in `profiles.yml`): so this script makes it,
attaches the warehouse, and calls dbt. Everything happens in a temporary folder, or in the folder given:

    pip install dbt-core dbt-spark
    python examples/dbt_project/run.py /path/to/folder
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

import paimon_spark

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Build the project twice, with new sales in between."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="where tables and logs go; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(args.folder or home).resolve()
        spark = start_spark(folder)
        try:
            story(spark, folder)
        finally:
            spark.stop()


def start_spark(folder: Path) -> SparkSession:
    """Start a local session."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("dbt")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "spark-warehouse"))  # of Spark's own catalog
        .getOrCreate()
    )


def story(spark: SparkSession, folder: Path) -> None:
    """Run the steps in order, and print what each one shows."""
    paimon_spark.attach(spark, str(folder / "warehouse"))
    spark.catalog.setCurrentCatalog("paimon")
    spark.sql("CREATE DATABASE shop")
    spark.sql("CREATE TABLE shop.sales (id INT, day STRING, product INT, pieces INT)")

    print("1. The first build makes all tables")
    spark.sql("INSERT INTO shop.sales VALUES (1, 'mon', 1, 4), (2, 'mon', 2, 1), (3, 'tue', 1, 2)")
    dbt(folder, "build")
    show(spark)

    print("2. The second build adds the new sales")
    spark.sql("INSERT INTO shop.sales VALUES (4, 'tue', 2, 5), (5, 'wed', 2, 2)")
    spark.sql("UPDATE shop.products SET price = 4.0 WHERE product = 2")
    dbt(folder, "build", "--exclude-resource-type", "seed")
    show(spark)
    print("   What the first build computed is still there:")
    spark.sql("SELECT * FROM shop.priced_sales VERSION AS OF 1 ORDER BY id").show()


def dbt(folder: Path, *command: str) -> None:
    """Run a command of dbt."""
    done = dbtRunner().invoke(
        [
            *command,
            "--project-dir", str(HERE),
            "--profiles-dir", str(HERE),
            "--target-path", str(folder / "dbt"),
            "--log-path", str(folder / "dbt"),
            "--no-use-colors",
        ]
    )  # fmt: skip
    if not done.success:
        raise SystemExit(f"dbt failed: {done.exception or 'see above'}")


def show(spark: SparkSession) -> None:
    """Print the rows that dbt has made."""
    for table, order in {"last_sales": "product", "revenue": "day", "sales_log": "id"}.items():
        print(f"   {table}:")
        spark.table(f"shop.{table}").orderBy(order).show()
    columns = ("product", "price", "dbt_valid_to IS NULL AS is_valid")
    spark.table("shop.product_prices").selectExpr(*columns).orderBy("product", "price").show()


if __name__ == "__main__":
    main()
