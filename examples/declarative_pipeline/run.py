"""Run a pipeline of Spark Declarative Pipelines on Paimon tables, then correct it on branches and publish them.

`spark-pipelines run` looks up the catalog that `spark-pipeline.yml` names before it imports anything. So this script
makes the session, attaches the warehouse, and calls the same code. Everything happens in a temporary folder, or in the
folder given:

    python examples/declarative_pipeline/run.py /path/to/folder
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import pyarrow as pa
from pyspark.pipelines import cli as pipelines
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import Catalog

HERE = Path(__file__).resolve().parent
TABLES = ("shop.valid_orders", "shop.revenue")


def main() -> None:
    """Run the pipeline, correct it, and run it again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="where tables and checkpoints go; default: a temporary folder")
    args = parser.parse_args()
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as home:
        story(Path(args.folder or home).resolve())


def story(folder: Path) -> None:
    """Run the steps in order, and print what each one shows."""
    shutil.copytree(HERE, folder / "project", ignore=shutil.ignore_patterns("__pycache__", "run.py"))
    spec = folder / "project" / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/sales", folder.as_uri()))
    catalog = paimon_spark.load_catalog(str(folder / "warehouse"))
    catalog.create_database("shop")
    catalog.create_table("shop.orders", "id INT, day STRING, amount DOUBLE")

    print("1. A run of the pipeline. One of the orders is wrong")
    order(catalog, [(1, "mon", 10.0), (2, "mon", 20.0), (3, "tue", 30.0), (4, "tue", 4000.0)])
    run(folder)
    show(catalog, "shop.revenue")

    print("2. Run the corrected pipeline on branches. Main stays as it is")
    for table in TABLES:
        catalog.table(table).create_branch("fix")
    run(folder, branch="fix", limit=1000, full_refresh=True)
    show(catalog, "shop.revenue")
    show(catalog, "shop.revenue$branch_fix")

    print("3. Publish the branches. The next run reads the new orders only")
    for table in TABLES:
        catalog.table(table).merge_branch("fix")
    order(catalog, [(5, "wed", 50.0)])
    run(folder, limit=1000)
    show(catalog, "shop.revenue")
    new = catalog.table("shop.valid_orders").scan(**{"incremental-between": "3,4"}).to_arrow().to_pylist()
    print(f"   new rows of shop.valid_orders: {new}")


def run(folder: Path, *, branch: str = "", limit: float = float("inf"), full_refresh: bool = False) -> None:
    """Run the pipeline once, as `spark-pipelines run` does.

    Args:
        folder: holds the project and the warehouse.
        branch: which the pipeline writes; main by default.
        limit: orders of a larger amount are wrong.
        full_refresh: whether all tables are computed anew.
    """
    warnings.filterwarnings("ignore", "Failed to set")  # the settings that only a new session takes
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("sales")
        .config("spark.api.mode", "connect")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")  # a failing flow fails the run, with its error
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "spark-warehouse"))  # of Spark's own catalog
        .config("sales.branch", branch)
        .config("sales.limit", str(limit))
        .getOrCreate()
    )
    paimon_spark.attach(spark, str(folder / "warehouse"))
    spec = folder / "project" / "spark-pipeline.yml"
    pipelines.run(spec, full_refresh=[], full_refresh_all=full_refresh, refresh=[], dry=False)


def order(catalog: Catalog, rows: list[tuple[int, str, float]]) -> None:
    """Put orders into the table that the pipeline reads."""
    columns = ("id", "day", "amount")
    catalog.table("shop.orders").write(pa.Table.from_pylist([dict(zip(columns, r, strict=True)) for r in rows]))


def show(catalog: Catalog, table: str) -> None:
    """Print the rows of a table, with its snapshots."""
    found = catalog.table(table)
    print(f"   {table}, snapshots {[s.id for s in found.snapshots()]}:")
    for row in sorted(found.scan().to_arrow().to_pylist(), key=lambda r: str(r["day"])):
        print(f"   {row['day']}: {row['amount']}")


if __name__ == "__main__":
    main()
