"""Streaming queries of Spark in one process, as `spark-submit` runs it, until it is killed or all is read."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_SHORT_LIFE: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""One compiler and one collector: a JVM that is killed soon spends most of its life starting."""
_NOT_YET: Final = ("Initializing", "Getting offsets")


def main(text: str) -> None:
    """Run the queries, all at once; one that fails ends them.

    Args:
        text: JSON of `home`, whether they end (`once`), and `queries`, each of `source`, `sink`, `checkpoint`, options
            `read` and `write`, and columns `renamed`.
    """
    asked: dict[str, Any] = json.loads(text)
    session = session_at(asked["home"])
    try:
        queries = [_start(session, query, asked["once"]) for query in asked["queries"]]
        if asked["once"]:
            for query in queries:
                query.awaitTermination()
        else:
            session.streams.awaitAnyTermination()
    finally:
        session.stop()


def _start(session: SparkSession, asked: dict[str, Any], once: bool) -> StreamingQuery:
    rows = session.readStream.format("paimon").options(**asked["read"]).load(asked["source"])
    for name, other in asked["renamed"].items():
        rows = rows.withColumnRenamed(name, other)
    writer = (
        rows.writeStream.format("paimon").options(**asked["write"]).option("checkpointLocation", asked["checkpoint"])
    )
    query = (writer.trigger(availableNow=True) if once else writer).start(asked["sink"])
    while query.isActive and query.status["message"].startswith(_NOT_YET):  # Spark waits 10 s for a source's process
        time.sleep(0.1)
    return query


def session_at(home: str) -> SparkSession:
    """A session with all its files in a directory."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home} {_SHORT_LIFE}")
        .config("spark.python.authenticate.socketTimeout", "600s")  # a busy machine starts processes slowly
        .config("spark.local.dir", f"{home}/local")
        .config("spark.sql.warehouse.dir", f"{home}/warehouse")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


if __name__ == "__main__":
    main(sys.argv[1])
