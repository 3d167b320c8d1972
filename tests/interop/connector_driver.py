"""Run by the interpreter of the Spark connector: one Spark application that answers lines of JSON on stdin with lines.

    python -m tests.interop.connector_driver JAR SCRATCH

A request is {"catalogs": {name: warehouse}, "statements": [SQL, …]}. It is carried out in a session of its own, with
catalogs, settings and views that no other request sees. The reply is a list, one per statement, of {"columns", "rows"}
or {"error"}: columns as [name, type, nullable], rows as lists of numbers and text.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def application(jar: str, scratch: str) -> SparkSession:
    """The application, which leaves nothing outside of `scratch`."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config(
            "spark.driver.extraJavaOptions",
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={scratch} -Djava.io.tmpdir={scratch}",
        )
        .config("spark.local.dir", scratch)
        .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.extensions", "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions")
        .getOrCreate()
    )


def answers(spark: SparkSession, catalogs: dict[str, str], statements: list[str]) -> list[Any]:
    """Run every statement, whatever became of the ones before."""
    session = spark.newSession()
    for name, warehouse in catalogs.items():
        session.conf.set(f"spark.sql.catalog.{name}", "org.apache.paimon.spark.SparkCatalog")
        session.conf.set(f"spark.sql.catalog.{name}.warehouse", warehouse)
    results: list[Any] = []
    for statement in statements:
        try:
            frame = session.sql(statement)
            columns = [[f.name, f.dataType.simpleString(), f.nullable] for f in frame.schema.fields]
            results.append({"columns": columns, "rows": [list(row) for row in frame.collect()]})
        except Exception as error:  # noqa: BLE001  # the test says what the connector raised
            traceback.print_exc()
            results.append({"error": str(error)[:1000]})
    return results


def main(jar: str, scratch: str) -> None:
    """Answer until stdin ends."""
    # Replies alone go to the stdout that the client reads: Spark's launcher and JVM print what they like.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = application(jar, scratch)
    for line in sys.stdin:
        request = json.loads(line)
        replies.write(json.dumps(answers(spark, request["catalogs"], request["statements"])) + "\n")
        replies.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
