"""`SparkJobs`, the port by which the library asks Spark to run its jobs. User's process."""

from __future__ import annotations

from pyspark.sql import SparkSession

from paimon_spark.spark.checks import run_checks
from paimon_spark.spark.dataframe import arrow_dataframe, dataframe
from paimon_spark.spark.dataframe_write import write
from paimon_spark.spark.merge import merge
from paimon_spark.spark.query_watch import watch_queries
from paimon_spark.spark.row_diff import row_diff, row_diff_counts
from paimon_spark.spark.row_level import delete, update
from paimon_spark.spark.schema import column, row_type
from paimon_spark.spark.sort_compaction import run_sort
from paimon_spark.spark.tasks import run_each

__all__ = ["arrow_dataframe", "column", "dataframe", "delete", "has_session", "merge", "row_diff",
           "row_diff_counts", "row_type", "run_checks", "run_each",
           "run_sort", "time_zone", "update", "watch_queries", "write"]  # fmt: skip


def has_session() -> bool:
    """Whether this process or thread has an active session."""
    return SparkSession.getActiveSession() is not None


def time_zone() -> str | None:
    """Time zone of the active session; None without one."""
    session = SparkSession.getActiveSession()
    return None if session is None else session.conf.get("spark.sql.session.timeZone")
