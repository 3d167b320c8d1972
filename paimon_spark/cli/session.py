"""The Spark session of commands that need one: that of spark-submit, else a local one that keeps quiet."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_session() -> SparkSession:
    """The active session, else a new one; logs go to stderr and are errors alone, unless settings say otherwise."""
    from pyspark.sql import SparkSession

    from paimon_spark.spark.session import configure_session

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("paimon-spark")
    for key, value in _SETTINGS.items():
        if not _is_submitted():
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    configure_session(session)
    return session


_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}
"""Of a local session. Its progress would be drawn over what is printed."""


def _is_submitted() -> bool:
    """Whether spark-submit started this process, whose settings are the user's."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
