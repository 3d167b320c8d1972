"""Run dbt and SQL in one session with an attached catalog, where dbt is installed.

    python -m tests.interop.dbt_driver PROJECT FOLDER

Reads requests as lines of JSON: `{"sql": text}`, answered by rows, and `{"dbt": [argument, …]}`, answered by the status
of each node and its message, or by the error of the command. Answers are lines of JSON, behind a mark.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

MARK: Final = "answer "


def main() -> None:
    """Answer requests until the input ends."""
    from pyspark.sql import SparkSession

    import paimon_spark

    project, folder = sys.argv[1:]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{folder}/spark-warehouse",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    paimon_spark.attach(spark, f"{folder}/warehouse")
    spark.catalog.setCurrentCatalog("paimon")
    for line in sys.stdin:
        request = json.loads(line)
        answer = _rows(spark, request["sql"]) if "sql" in request else _dbt(project, folder, request["dbt"])
        print(f"{MARK}{json.dumps(answer, default=str)}", flush=True)
    spark.stop()


def _rows(spark: Any, sql: str) -> list[list[Any]]:
    return [list(row) for row in spark.sql(sql).collect()]


def _dbt(project: str, folder: str, arguments: list[str]) -> dict[str, list[str]] | str:
    from dbt.cli.main import dbtRunner

    places = {
        "project-dir": project,
        "profiles-dir": project,
        "target-path": f"{folder}/dbt",
        "log-path": f"{folder}/dbt",
    }
    options = [part for key, value in places.items() for part in (f"--{key}", value)]
    done = dbtRunner().invoke([*arguments, *options, "--no-use-colors"])
    if done.exception is not None:
        return str(done.exception)
    results = getattr(done.result, "results", ())
    return {r.node.name: [str(r.status), r.message or ""] for r in results if hasattr(r, "node")}


if __name__ == "__main__":
    main()
