"""Find wrong data, its impact by lineage, correct it on branches, compare, publish, and undo.

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
    for table in ("sales", "revenue"):
        spark.sql(f"ALTER TABLE paimon.shop.{table} CREATE TAG monday")

    print("2. A new release forgets that amounts are in cents: the revenue is wrong")
    spark.sql("INSERT INTO paimon.shop.clicks VALUES (3, 'tue', 3000)")
    produce(spark, folder, forgets_cents)
    show(spark)

    print("3. Find the wrong snapshot, and the tables that contain its rows")
    spark.sql("SELECT snapshot_id, commit_kind FROM paimon.shop.sales$snapshots").show()
    for touched in catalog.lineage.impact("shop.sales", snapshot=2).tables:
        since = f"since snapshot {touched.first}" if touched.first else "not yet"
        print(f"   {touched.node.ref.name}: {since}, by {' → '.join(touched.path)}")

    print("4. Create branches from the tags before the fault; no files are copied, and production continues")
    for table in ("sales", "revenue"):
        spark.sql(f"CALL paimon.sys.create_branch(table => 'shop.{table}', branch => 'fix', tag => 'monday')")
    spark.sql("INSERT INTO paimon.shop.clicks VALUES (4, 'wed', 4000)")
    produce(spark, folder, forgets_cents)

    print("5. Replay the corrected jobs on the branches, from the tag until they have caught up")
    produce(spark, folder, to_euros, branch="fix")

    print("6. Compare the branches with main: by metadata, then row by row")
    command_line("diff", "shop.revenue", "main", "fix", "--warehouse", catalog.warehouse)
    spark.sql(
        "SELECT day, m.euros AS main, f.euros AS fix FROM paimon.shop.revenue m "
        "FULL JOIN paimon.shop.revenue VERSION AS OF 'fix' f USING (day) ORDER BY day"
    ).show()

    print("7. Publish the branches as main; main's own snapshots are kept in backup branches")
    kept = {}
    for table in ("sales", "revenue"):
        published = catalog.table(f"shop.{table}").merge_branch("fix", if_main_moved="replace")
        kept[table] = str(published.backup_branch)
        print(f"   shop.{table}: main's snapshots {list(published.discarded_snapshots)} are kept in {kept[table]}")
    show(spark)

    print("8. Undo by publishing the backup branches, then publish the correction again")
    for table, backup in kept.items():
        catalog.table(f"shop.{table}").merge_branch(backup, if_main_moved="replace")
    show(spark)
    for table in kept:
        catalog.table(f"shop.{table}").merge_branch("fix", if_main_moved="replace")
    show(spark)
    command_line("log", "--graph", "shop.revenue", "--warehouse", catalog.warehouse)
    print(f"   Wrong with the tables: {[f for t in kept for f in catalog.table(f'shop.{t}').doctor()] or 'nothing'}")


def to_euros(clicks: DataFrame) -> DataFrame:
    """Convert cents to euros: what the first job should do."""
    return clicks.select("id", "day", (col("cents") / 100).alias("euros"))


def forgets_cents(clicks: DataFrame) -> DataFrame:
    """Use cents as euros: what the wrong release does."""
    return clicks.select("id", "day", col("cents").cast("double").alias("euros"))


def produce(spark: SparkSession, folder: str, release: Callable[[DataFrame], DataFrame], branch: str = "main") -> None:
    """Run both jobs once: read the clicks since the last run, or since the tag, then compute the revenue."""
    reader = spark.readStream
    if branch != "main":
        # The first snapshot after the tag. It only applies to the first run, which has no checkpoint.
        reader = reader.option("scan.snapshot-id", 2)
    query = (
        release(reader.table("paimon.shop.clicks"))
        .writeStream.queryName(f"sell on {branch}")
        .option("checkpointLocation", f"{folder}/checkpoints/{branch}")
        .trigger(availableNow=True)
        .toTable(f"paimon.shop.sales$branch_{branch}")
    )
    query.awaitTermination()
    spark.conf.set("spark.paimon.lineage.job", f"sum up {branch}")
    spark.sql(
        f"INSERT OVERWRITE paimon.shop.revenue$branch_{branch} "
        f"SELECT day, sum(euros) FROM paimon.shop.sales$branch_{branch} GROUP BY day"
    )
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
