"""Spark looks for modules called `pyspark_*` and registers their `DefaultSource`: this one as `paimon_py`."""

from paimon_spark.spark.source import PaimonPyDataSource as DefaultSource

__all__ = ["DefaultSource"]
