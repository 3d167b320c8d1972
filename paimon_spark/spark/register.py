"""For sessions whose Python workers cannot find the package by themselves, and threads that know no session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from paimon_spark.spark.source import PaimonDataSource, PaimonPyDataSource


def register(spark: SparkSession) -> None:
    """Make `format("paimon")` and `format("paimon_py")` known to `spark`, classic or Connect.

    After `pip install` this is not needed: Spark finds the package itself.
    """
    spark.dataSource.register(PaimonDataSource)
    spark.dataSource.register(PaimonPyDataSource)


def find_sources_here(spark: SparkSession) -> None:
    """Let writes of this thread find data sources in Python.

    A classic session looks for the source of a write, though not of a read, in what its thread knows as the active
    session, and only the thread that made the session knows one.
    """
    if isinstance(spark, SparkSession):  # classic; making a DataFrame is the public way to make its session active
        spark.createDataFrame([], "x INT")
