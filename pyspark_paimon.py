"""Spark looks for modules called `pyspark_*` and registers their `DefaultSource`: this one as `paimon`."""

from paimon_spark.spark.source import PaimonDataSource as DefaultSource

__all__ = ["DefaultSource"]
