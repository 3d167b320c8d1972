"""The rules that this package adds to Spark's analyzer and optimizer, in Java.

Spark's rules are classes, which Python cannot implement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.jobs.opened_table import not_in_session_catalog
from paimon_spark.spark_catalog.gateway import Gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def install_read_rule(gateway: Gateway, spark: SparkSession) -> None:
    """Let scans of a session have parts with different readers."""
    gateway.java_code("ReadParts").installRule(spark._jsparkSession)


def install_write_rule(gateway: Gateway, spark: SparkSession) -> None:
    """Let the tables of a session know how Spark matches the columns of a write. Spark has made its analyzer, or does.

    Sessions to come get `write_rule` when Spark makes their analyzer.
    """
    gateway.java_code("TableWrites").installRule(spark._jsparkSession, not_in_session_catalog().message)


def write_rule(gateway: Gateway) -> Any:
    """The rule of `install_write_rule`, for Spark's hook."""
    return gateway.java_code("TableWrites").rule(not_in_session_catalog().message)
