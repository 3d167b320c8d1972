"""An Arrow table as a Spark DataFrame, in classic and in Connect sessions."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def arrow_dataframe(rows: pa.Table, session: SparkSession | None = None) -> DataFrame:
    """The DataFrame of rows that are in memory. User's process."""
    spark = session or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    return spark.createDataFrame(rows)
