"""The tables of the pipeline: valid orders, which grow with each run, and the revenue of each day, computed anew.

Two settings make it write branches and correct a fault: `sales.branch` and `sales.limit`.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

spark = SparkSession.active()
branch = spark.conf.get("sales.branch", "")
suffix = f"$branch_{branch}" if branch else ""
limit = float(spark.conf.get("sales.limit", "inf") or "inf")


@dp.table(name=f"valid_orders{suffix}", table_properties={"primary-key": "id", "bucket": "1"})
def valid_orders() -> DataFrame:
    """Orders, without those that only a typing error explains."""
    return spark.readStream.table("orders").where(F.col("amount") <= limit)


@dp.materialized_view(name=f"revenue{suffix}", table_properties={"primary-key": "day", "bucket": "1"})
def revenue() -> DataFrame:
    """What the orders of each day come to."""
    return spark.read.table(f"valid_orders{suffix}").groupBy("day").agg(F.sum("amount").alias("amount"))
