"""A streaming query of Spark in a process of its own, as `spark-submit` runs it, until it is killed or has read all."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def main(text: str) -> None:
    """Run the query.

    Args:
        text: JSON of `source`, `sink`, `checkpoint`, `home`, options `read` and `write`, columns `renamed`, and whether
            it ends (`once`).
    """
    asked: dict[str, Any] = json.loads(text)
    home = asked["home"]
    session = session_at(home)
    rows = session.readStream.format("paimon").options(**asked["read"]).load(asked["source"])
    for name, other in asked["renamed"].items():
        rows = rows.withColumnRenamed(name, other)
    writer = (
        rows.writeStream.format("paimon").options(**asked["write"]).option("checkpointLocation", asked["checkpoint"])
    )
    query = (writer.trigger(availableNow=True) if asked["once"] else writer).start(asked["sink"])
    try:
        query.awaitTermination()
    finally:
        session.stop()


def session_at(home: str) -> SparkSession:
    """A session with all its files in a directory."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home}")
        .config("spark.local.dir", f"{home}/local")
        .config("spark.sql.warehouse.dir", f"{home}/warehouse")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


if __name__ == "__main__":
    main(sys.argv[1])
