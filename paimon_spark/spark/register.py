"""For sessions whose Python workers cannot find the package by themselves."""

from __future__ import annotations

from pyspark.sql import SparkSession

from paimon_spark.spark.source import PaimonDataSource, PaimonPyDataSource


def register(spark: SparkSession) -> None:
    """Make `format("paimon")` and `format("paimon_py")` known to `spark`, classic or Connect.

    After `pip install` this is not needed: Spark finds the package itself.
    """
    spark.dataSource.register(PaimonDataSource)
    spark.dataSource.register(PaimonPyDataSource)
