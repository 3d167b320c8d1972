"""Run by the interpreter of the Spark connector: statements in one session over several warehouses.

    python -m tests.interop.connector_sql JAR CATALOGS STATEMENTS   -> [[row, …] or {"error"}, …], one per statement

CATALOGS is JSON of name -> warehouse, STATEMENTS a JSON list of SQL. Rows are of numbers and text.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any


def main(jar: str, catalogs: dict[str, str], statements: list[str]) -> list[Any]:
    """Run every statement, whatever became of the ones before."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.extensions", "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions")
    )
    for name, warehouse in catalogs.items():
        builder = builder.config(f"spark.sql.catalog.{name}", "org.apache.paimon.spark.SparkCatalog")
        builder = builder.config(f"spark.sql.catalog.{name}.warehouse", warehouse)
    spark = builder.getOrCreate()
    results: list[Any] = []
    for statement in statements:
        try:
            results.append([list(row) for row in spark.sql(statement).collect()])
        except Exception as error:  # noqa: BLE001  # the test says what the connector raised
            traceback.print_exc()
            results.append({"error": str(error)[:1000]})
    spark.stop()
    return results


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))))
