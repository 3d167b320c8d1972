"""Read a Paimon table with PySpark: its head, a tag, a branch.

Without arguments, a small table written by Java Paimon is copied to a temporary folder and shown. Or:

    python examples/read_table.py /path/to/warehouse/db.db/table --tag v1 --branch fix
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

SAMPLE = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "java-0.9" / "branches" / "table"


def main() -> None:
    """Show the requested versions; nothing is written to the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", help="location of a Paimon table; default: the sample")
    parser.add_argument("--tag", help="a tag to read")
    parser.add_argument("--branch", help="a branch to read")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as home:
        table, tag, branch = args.table, args.tag, args.branch
        if table is None:
            table = f"{home}/orders"
            shutil.copytree(SAMPLE, table)
            tag, branch = tag or "t1", branch or "from_tag"
        spark = start_spark()
        try:
            show(spark, table, tag, branch)
        finally:
            spark.stop()


def start_spark() -> SparkSession:
    """Start a local session; installing the package is enough to read Paimon tables."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("read a Paimon table")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def show(spark: SparkSession, table: str, tag: str | None, branch: str | None) -> None:
    """Print the head of the table and, if given, a tag and a branch."""
    print(f"The head of {table}")
    spark.read.format("paimon").load(table).show()
    if tag:
        print(f"At tag {tag}")
        spark.read.format("paimon").option("versionAsOf", tag).load(table).show()
    if branch:
        print(f"On branch {branch}")
        spark.read.format("paimon").option("branch", branch).load(table).show()


if __name__ == "__main__":
    main()
