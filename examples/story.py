"""Find wrong data, its impact by lineage, correct the pipeline on branches, compare, check, publish, and undo.

A streaming job reads `shop.clicks` and writes `shop.sales`; a SQL statement computes `shop.revenue` from `shop.sales`.
All tables and checkpoints are in a temporary folder, or in the folder given:

    python examples/story.py /path/to/folder
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
from paimon_spark.cli.main import main as paimon


def main() -> None:
    """Run all steps in one Spark session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="folder of the tables and checkpoints; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        spark = start_spark()
        try:
            story(spark, args.folder or home)
        finally:
            spark.stop()


def start_spark() -> SparkSession:
    """Start a local session."""
    # Spark starts the `python3` of the PATH for its workers, which need not be the one with the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("story")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def story(spark: SparkSession, folder: str) -> None:
    """Run the steps in order, and print what each one shows."""
    catalog = paimon_spark.attach(spark, f"{folder}/warehouse")
    print("1. Production: a streaming job, then a batch job, with lineage enabled")
    spark.sql("CREATE DATABASE paimon.shop")
    spark.sql("CREATE TABLE paimon.shop.clicks (id INT, day STRING, cents BIGINT)")
    for table, columns in {"sales": "id INT, day STRING, euros DOUBLE", "revenue": "day STRING, euros DOUBLE"}.items():
        key = columns.split()[0]
        spark.sql(
            f"CREATE TABLE paimon.shop.{table} ({columns}) TBLPROPERTIES ('primary-key' = '{key}', 'bucket' = '1')"
        )
    catalog.lineage.enable()
    spark.sql("INSERT INTO paimon.shop.clicks VALUES (1, 'mon', 1000), (2, 'mon', 2000)")
    produce(spark, folder, to_euros)

    print("2. A new release forgets that amounts are in cents: the revenue is wrong")
    spark.sql("INSERT INTO paimon.shop.clicks VALUES (3, 'tue', 3000)")
    produce(spark, folder, forgets_cents)
    show(spark)

    print("3. Find the wrong snapshot, and the tables and jobs that it reached")
    spark.sql("SELECT snapshot_id, commit_kind FROM paimon.shop.sales$snapshots").show()
    for touched in catalog.lineage.impact("shop.sales", snapshot=2).tables:
        since = f"since snapshot {touched.first}" if touched.first else "not yet"
        print(f"   {touched.node.ref.name}: {since}, by {' → '.join(touched.path)}")
    pipeline = catalog.pipeline("shop.sales")
    print(pipeline)
    print(pipeline.graph())

    print("4. Branch these tables from before the fault; no files are copied, and production continues")
    fix = pipeline.branch("fix", before=("shop.sales", 2))
    print(fix)
    spark.sql("INSERT INTO paimon.shop.clicks VALUES (4, 'wed', 4000)")
    produce(spark, folder, forgets_cents)

    print("5. Run the corrected jobs on the branches until they have caught up; they name no branch")
    spark.conf.set("spark.paimon.branch", fix.name)
    # The first click after those that the branch of shop.sales contains; a new checkpoint starts there.
    produce(spark, folder, to_euros, checkpoint=fix.name, start=2)
    spark.conf.unset("spark.paimon.branch")

    print("6. Compare the branches with main row by row")
    for difference in fix.diff().values():
        print(difference)
    command_line("pipeline", "diff", fix.name, "--files", "--warehouse", catalog.warehouse)

    print("7. Check the branches, and publish them as main of both tables: both or none; main's snapshots are kept")
    checks = {"amounts are in euros": "SELECT * FROM {shop.sales} WHERE euros >= 1000"}
    release = fix.publish(if_main_moved="replace", checks=checks)
    print(release)
    show(spark)

    print("8. Undo the release, then undo that: the correction is main again")
    undone = release.undo()
    show(spark)
    print(undone.undo())
    show(spark)
    command_line("log", "--graph", "shop.revenue", "--warehouse", catalog.warehouse)
    print(catalog.pipeline("shop.sales").graph())
    wrong = [finding for table in fix.tables for finding in catalog.table(table).doctor()]
    print(f"   Wrong with the tables: {wrong or 'nothing'}")


def to_euros(clicks: DataFrame) -> DataFrame:
    """Convert cents to euros: what the first job should do."""
    return clicks.select("id", "day", (col("cents") / 100).alias("euros"))


def forgets_cents(clicks: DataFrame) -> DataFrame:
    """Use cents as euros: what the wrong release does."""
    return clicks.select("id", "day", col("cents").cast("double").alias("euros"))


def produce(
    spark: SparkSession,
    folder: str,
    release: Callable[[DataFrame], DataFrame],
    checkpoint: str = "main",
    start: int | None = None,
) -> None:
    """Run both jobs once: read the clicks since the last run, or from a snapshot on, then compute the revenue."""
    reader = spark.readStream
    if start is not None:
        reader = reader.option("scan.snapshot-id", start)
    query = (
        release(reader.table("paimon.shop.clicks"))
        .writeStream.queryName(f"sell {checkpoint}")
        .option("checkpointLocation", f"{folder}/checkpoints/{checkpoint}")
        .trigger(availableNow=True)
        .toTable("paimon.shop.sales")
    )
    query.awaitTermination()
    spark.conf.set("spark.paimon.lineage.job", "sum up")
    spark.sql("INSERT OVERWRITE paimon.shop.revenue SELECT day, sum(euros) FROM paimon.shop.sales GROUP BY day")
    spark.conf.unset("spark.paimon.lineage.job")


def command_line(*words: str) -> None:
    """Run a command of `paimon-spark`, and print its output."""
    print("$ paimon-spark", *words)
    paimon(words)


def show(spark: SparkSession) -> None:
    """Show the revenue on main."""
    spark.table("paimon.shop.revenue").orderBy("day").show()


if __name__ == "__main__":
    main()
